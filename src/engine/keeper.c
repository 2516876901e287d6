/* The rounds of the background threads. */
#include "engine/keeper.h"

#include <errno.h>
#include <time.h>

#include "engine/expire.h"
#include "engine/reclaim.h"
#include "engine/recover.h"
#include "engine/throttle.h"
#include "engine/trial.h"

#define ROUND_NS       50000000
#define ROUND_NS_LEAST 1000000
#define PREFAULT_BYTES (32u << 20)         /* of RAM, beyond the blocks in use */
#define IDLE_NS        INT64_C(2000000000) /* write blocks unused for this long are given back */

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void keep_lanes(struct goblin *store)
{
    /* Half the promised delay: a block waits at most one more round. No lane waits for the footers
     * of another. */
    int64_t age_ns = (int64_t)store->options.flush_ms * 1000000 / 2;
    for (unsigned i = 0; i < store->lane_count; i++) {
        (void)gb_lane_flush(&store->lanes[i], age_ns);
    }
    for (unsigned i = 0; i < store->lane_count; i++) {
        (void)gb_lane_settle(&store->lanes[i], false);
        gb_lane_trim(&store->lanes[i], IDLE_NS);
    }
}

static void keep_memory(struct goblin *store)
{
    gb_ordered_keep(store);
    gb_store_rebudget(store);
    gb_residency_reclaim(store, gb_residency_look_ahead(store));
    gb_residency_release(store);
    gb_arena_trim(&store->arena);
    gb_arena_prefault(&store->arena, PREFAULT_BYTES >> store->arena.block_shift);
}

/* A quarter of what lies in segments is dead. */
static bool has_garbage(struct goblin *store)
{
    struct gb_segments *segments = &store->segments;
    uint64_t used = gb_segments_used_count(segments);
    return gb_segments_live_bytes(segments) < used * segments->segment_bytes / 4 * 3;
}

/* What waits for its footer may be what can be emptied. Before anything is evicted though there is
 * garbage, and before a store is called full, that is worth waiting for. */
static int try_harder(struct goblin *store)
{
    bool all = store->options.mode == GOBLIN_MODE_STORE || has_garbage(store);
    for (unsigned i = 0; i < store->lane_count; i++) {
        (void)gb_lane_settle(&store->lanes[i], all);
    }
    return gb_reclaim_one(store, GB_EFFORT_ANY);
}

/* One segment after the other until enough are free, or will be. */
static void make_room(struct goblin *store)
{
    uint32_t freed = gb_reclaim_drained(store);
    bool found = true;
    uint32_t steps = 0; /* what wins nothing by itself may have to be done for each segment once */
    while (found && steps++ < store->segments.count &&
           gb_segments_coming_count(&store->segments) < gb_reclaim_target(store) &&
           !atomic_load(&store->keeper_stop)) {
        gb_throttle_begin(store);
        int rc = gb_reclaim_one(store, GB_EFFORT_MOVE);
        rc = rc != 0 ? rc : try_harder(store);
        found = rc > 0;
        freed += found;
    }
    if (!found || steps > store->segments.count ||
        (freed == 0 && gb_segments_free_count(&store->segments) < gb_reclaim_target(store))) {
        atomic_fetch_add(&store->reclaim_failures, 1);
        if (store->options.mode == GOBLIN_MODE_STORE) {
            gb_segments_none(&store->segments);
        }
    }
    gb_throttle_end(store);
}

static void keep_disk(struct goblin *store)
{
    int prepared = gb_segments_prepare(&store->segments, 2 * store->lane_count);
    if (prepared < 0) {
        gb_store_log(store, GOBLIN_LOG_ERROR, "making segments ahead failed: %s",
                     goblin_strerror(prepared));
    }
    gb_expire_some(store);
    while (atomic_load(&store->segments.failing_count) > 0 && !atomic_load(&store->keeper_stop) &&
           gb_reclaim_one(store, GB_EFFORT_SAVE) > 0) {
        /* the next one */
    }
    gb_trial_round(store);
    make_room(store);
    gb_admission_round(store);
}

void gb_keeper_round(struct goblin *store)
{
    keep_memory(store);
    keep_lanes(store);
    keep_disk(store);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Not by the wall clock, which may be set back. */
static void wait_round(struct goblin *store, uint32_t bit, int64_t ns)
{
    int64_t until_ns = now_ns() + ns;
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    (void)pthread_mutex_lock(&store->keeper_lock);
    int rc = 0;
    while (rc == 0 && (atomic_load(&store->poked) & bit) == 0 &&
           !atomic_load(&store->keeper_stop)) {
        rc = pthread_cond_clockwait(&store->keeper_wake, &store->keeper_lock, CLOCK_MONOTONIC,
                                    &until);
    }
    (void)atomic_fetch_and(&store->poked, ~bit);
    (void)pthread_mutex_unlock(&store->keeper_lock);
}

static void *keep(void *arg)
{
    struct goblin *store = arg;
    int64_t trimmed = now_ns();
    /* A block that is half its time old is met well before the other half is over. */
    int64_t flush_ns = (int64_t)store->options.flush_ms * 1000000;
    int64_t round_ns = (int64_t)gb_max(ROUND_NS_LEAST, gb_min(ROUND_NS, (uint64_t)flush_ns / 4));
    while (!atomic_load(&store->keeper_stop)) {
        wait_round(store, GB_POKED_KEEPER, round_ns);
        keep_lanes(store);
        keep_memory(store);
        if (now_ns() - trimmed > IDLE_NS) {
            gb_pool_trim(store);
            trimmed = now_ns();
        }
    }
    return NULL;
}

static void *clean(void *arg)
{
    struct goblin *store = arg;
    int64_t checkpointed = now_ns();
    int64_t period = (int64_t)store->options.checkpoint_s * 1000000000;
    while (!atomic_load(&store->keeper_stop)) {
        wait_round(store, GB_POKED_CLEANER, ROUND_NS);
        keep_disk(store);
        if (store->options.checkpoint_s != UINT32_MAX && now_ns() - checkpointed > period) {
            (void)gb_checkpoint_write(store, GB_CHECKPOINT_RUNNING);
            checkpointed = now_ns();
        }
    }
    return NULL;
}

static void *warm(void *arg)
{
    gb_warm(arg);
    return NULL;
}

static int start(struct gb_worker *worker, struct goblin *store, void *(*work)(void *))
{
    int rc = pthread_create(&worker->thread, NULL, work, store);
    worker->running = rc == 0;
    return -rc;
}

static void join(struct gb_worker *worker)
{
    if (worker->running) {
        (void)pthread_join(worker->thread, NULL);
        worker->running = false;
    }
}

int gb_keeper_start(struct goblin *store)
{
    int rc = start(&store->keeper, store, keep);
    rc = rc == 0 ? start(&store->cleaner, store, clean) : rc;
    if (rc == 0 && gb_index_count(store->index) > 0) {
        atomic_store(&store->warming, true); /* until the warmer says that it is done */
        rc = start(&store->warmer, store, warm);
    }
    gb_store_poke(store); /* to make files ahead: others may fill the file system any time */
    return rc;
}

void gb_keeper_stop(struct goblin *store)
{
    (void)pthread_mutex_lock(&store->keeper_lock);
    atomic_store(&store->keeper_stop, true);
    (void)pthread_cond_broadcast(&store->keeper_wake);
    (void)pthread_mutex_unlock(&store->keeper_lock);
    join(&store->warmer);
    join(&store->cleaner);
    join(&store->keeper);
}
