/* Lanes, room: when a lane turns to another segment, what it leaves to others, and waiting for the
 * cleaner. */
#include <errno.h>
#include <time.h>

#include "engine/keeper.h"
#include "engine/lane_internal.h"
#include "engine/store.h"

#define CACHE_PATIENCE 250u /* fruitless rounds of reclaiming, 20 ms or more each */
#define KEPT_END       32u  /* of a segment's size, what puts leave to deletes */

uint32_t gb_lane_reserve_segments(const struct goblin *store, enum gb_claim claim)
{
    if (claim == GB_CLAIM_MOVE) {
        return 0;
    }
    if (claim == GB_CLAIM_DELETE || store->options.mode == GOBLIN_MODE_CACHE) {
        return 1;
    }
    /* One for the cleaner and one for each lane's deletes, as far as that is a small part. */
    return (uint32_t)gb_min(gb_max(2, store->segments.count / 8), store->lane_count + 1);
}

uint64_t gb_lane_summary_room(const struct gb_lane *lane)
{
    return lane->summary_len + gb_units(lane->summary_len) * GB_SUM_SIZE;
}

static int wait_for_room(struct gb_lane *lane, enum gb_claim claim)
{
    struct goblin *store = lane->store;
    struct gb_segments *segments = &store->segments;
    gb_lane_unlock(lane);
    uint32_t failures = atomic_load(&store->reclaim_failures);
    /* A cache is never full for long: streams and readers that keep old segments end. */
    bool cache = store->options.mode == GOBLIN_MODE_CACHE && store->cleaner.running;
    uint32_t patience = cache ? CACHE_PATIENCE : 2;
    uint32_t enough = gb_lane_reserve_segments(store, claim);
    int rc = -ENOSPC;
    (void)pthread_mutex_lock(&segments->lock);
    while (!atomic_load(&store->keeper_stop)) {
        if (gb_segments_free_count_locked(segments) > enough) {
            rc = 0;
            break;
        }
        if (atomic_load(&store->reclaim_failures) - failures > patience) {
            break;
        }
        (void)pthread_mutex_unlock(&segments->lock);
        if (store->cleaner.running) {
            gb_store_poke(store);
        } else {
            gb_keeper_round(store);
        }
        (void)pthread_mutex_lock(&segments->lock);
        if (gb_segments_free_count_locked(segments) > enough || !store->cleaner.running) {
            continue;
        }
        int64_t until_ns = gb_lane_now_ns() + 20000000;
        const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                       .tv_nsec = until_ns % 1000000000};
        (void)pthread_cond_clockwait(&segments->freed, &segments->lock, CLOCK_MONOTONIC, &until);
    }
    (void)pthread_mutex_unlock(&segments->lock);
    gb_lane_lock(lane);
    return rc;
}

int gb_lane_wait(struct gb_lane *lane, enum gb_claim claim)
{
    int rc = wait_for_room(lane, claim);
    bool cache = lane->store->options.mode == GOBLIN_MODE_CACHE;
    if (rc == -ENOSPC && cache && lane->segment != NULL && lane->kept_for == GB_CLAIM_PLAIN &&
        atomic_load(&lane->segment->pending) == 0) {
        /* It found nothing to evict: what the lane is filling is all that can leave. */
        rc = gb_lane_seal(lane);
        rc = rc < 0 ? rc : wait_for_room(lane, claim);
        /* The segment into which the cleaner moved what stays will do as well. */
        rc = rc == -ENOSPC && lane->segment != NULL ? 0 : rc;
    }
    return rc;
}

/* Whether to turn to another segment. While there is none, one with something alive in it stays
 * open for the small records that still fit, such as deletes. */
static bool may_turn(struct gb_lane *lane, enum gb_claim claim)
{
    struct gb_segments *segments = &lane->store->segments;
    uint32_t reserve = gb_lane_reserve_segments(lane->store, claim);
    if (lane->segment == NULL || atomic_load(&lane->segment->failing)) {
        return true; /* nobody can go on in it, whoever it was for */
    }
    if (claim < lane->kept_for) {
        return false;
    }
    return atomic_load(&lane->segment->live_bytes) == 0 ||
           gb_segments_free_count(segments) > reserve;
}

/* The last free segments stay for what they were taken for, until there are as many again: what is
 * being emptied fits into the very last, and deletes into those before it; filled up by others,
 * they would free nothing ever. */
static bool may_fill(struct gb_lane *lane, enum gb_claim claim)
{
    if (claim < lane->kept_for && gb_segments_free_count(&lane->store->segments) >=
                                      gb_lane_reserve_segments(lane->store, lane->kept_for - 1)) {
        lane->kept_for = GB_CLAIM_PLAIN;
    }
    return claim >= lane->kept_for;
}

uint64_t gb_lane_kept_end(const struct gb_lane *lane, enum gb_claim claim)
{
    const struct goblin *store = lane->store;
    bool keeps = claim == GB_CLAIM_PLAIN && store->options.mode == GOBLIN_MODE_STORE &&
                 gb_lane_reserve_segments(store, claim) <= store->lane_count;
    return keeps ? store->segments.segment_bytes / KEPT_END : 0;
}

bool gb_lane_has_room(struct gb_lane *lane, uint64_t need, enum gb_claim claim)
{
    return lane->segment != NULL && !atomic_load(&lane->segment->failing) &&
           may_fill(lane, claim) &&
           lane->position + need + gb_lane_summary_room(lane) + gb_lane_kept_end(lane, claim) <=
               lane->store->segments.segment_bytes &&
           lane->footer.piece_count + 2 < GB_PIECES_MAX;
}

int gb_lane_ready(struct gb_lane *lane, uint64_t need, enum gb_claim claim)
{
    struct goblin *store = lane->store;
    for (;;) {
        if (gb_lane_has_room(lane, need, claim)) {
            return 0;
        }
        int rc = -ENOSPC;
        if (may_turn(lane, claim)) {
            rc = gb_lane_seal(lane);
            rc = rc < 0 ? rc : gb_lane_open_segment(lane, claim);
        }
        if (rc == -ENOSPC && claim != GB_CLAIM_MOVE && gb_segments_retired(&store->segments)) {
            return -EIO;
        }
        if (rc == -ENOSPC && claim == GB_CLAIM_PLAIN) {
            rc = gb_lane_wait(lane, claim);
        }
        if (rc < 0) {
            return rc;
        }
    }
}
