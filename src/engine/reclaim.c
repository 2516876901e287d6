/*
 * Reclaiming disk. A segment is emptied by going through its records: what lives is moved or, where
 * a cache evicts, leaves; deletes move on while anything older of their lane is there, and so a
 * tombstone is written for whatever leaves a segment that is not the oldest of its lane. Then all
 * that replaces it is synced, its headers are wiped, and it is free.
 */
#include "engine/reclaim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "engine/headers.h"
#include "engine/lane_internal.h"
#include "engine/rcu.h"
#include "engine/relocate.h"
#include "engine/throttle.h"

#define BUSY_NS        INT64_C(1000000)
#define REST_SHARE     3 /* of the time it worked, when all but one of the segments are free */
#define REST_MAX_NS    INT64_C(20000000)
#define REINSERT_SHARE 4u /* eviction copies at most 1/4 of a segment forward */

struct reclaim {
    struct goblin *store;
    struct gb_victim victim;
    struct gb_mover mover;
    uint64_t budget;    /* bytes that eviction may still copy forward */
    uint64_t position;  /* of the last record met */
    uint64_t counted;   /* moved bytes that are off the writers' credit */
    int64_t resumed_ns; /* when the cleaner last rested */
    bool unsure;        /* something could not be moved on: the segment must not be wiped */
};

/* ---- one object ---------------------------------------------------------------------------- */

/* Until its segment is gone for good the log still has it, and a delete must say so there. What has
 * expired stays so. */
static void let_go(struct goblin *store, struct gb_locked *locked, const struct gb_item *item,
                   enum gb_counter reason)
{
    if (reason != GB_COUNT_left_expired) {
        atomic_store_explicit(&store->forgetful, true, memory_order_relaxed);
    }
    gb_store_forget_locked(store, locked, item);
    gb_tally_add_shared(&store->tally, reason, 1);
}

enum fate {
    GONE,      /* nothing of it is here, and its key has something newer */
    FORGOTTEN, /* the key has nothing at all */
    MOVES,
    LEFT,
};

/* Decides about the object of an entry, and lets it go unless it is to move. */
static enum fate judge(struct reclaim *reclaim, const struct gb_entry *entry)
{
    struct goblin *store = reclaim->store;
    const struct gb_record *record = &entry->record;
    uint32_t slot = reclaim->victim.segment->slot;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, entry->key, record->key_len);
    enum fate fate = item == NULL ? FORGOTTEN : GONE;
    bool extents = item != NULL && gb_item_form(item) == GB_FORM_EXTENTS;
    bool mine =
        item != NULL &&
        (record->type == GB_RECORD_EXTENT
             ? extents && gb_relocate_touches(item, slot)
             : atomic_load_explicit(&item->sequence, memory_order_relaxed) == record->sequence);
    if (mine) {
        uint32_t epoch = atomic_load_explicit(&store->residency.epoch, memory_order_relaxed);
        uint8_t heat = atomic_load_explicit(&item->heat, memory_order_relaxed);
        uint64_t expiry = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
        bool expired = gb_expired(gb_expiry_of(expiry), gb_store_now_ms(store));
        bool liked = !extents && gb_heat_count(heat, epoch) > 0 &&
                     gb_span(record->key_len, gb_item_size(item)) <= reclaim->budget;
        fate = !expired && (!reclaim->victim.evict || liked) ? MOVES : LEFT;
        if (fate == LEFT) {
            let_go(store, &locked, item, expired ? GB_COUNT_left_expired : GB_COUNT_left_disk);
        }
    }
    gb_index_unlock(&locked);
    return fate;
}

/* Lets go of what has something in the segment and cannot move. */
static bool drop(struct reclaim *reclaim, struct goblin_slice key, enum gb_counter reason)
{
    struct goblin *store = reclaim->store;
    uint32_t slot = reclaim->victim.segment->slot;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(key.data, key.len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    bool here = item != NULL && gb_relocate_is_in(item, slot);
    if (here) {
        let_go(store, &locked, item, reason);
    }
    gb_index_unlock(&locked);
    return here;
}

/* A tombstone for what has left, if records of its key may lie elsewhere. */
static int bury(struct reclaim *reclaim, struct goblin_slice key, bool elsewhere)
{
    if (reclaim->victim.oldest && !elsewhere) {
        return 0;
    }
    int rc = gb_relocate_bury(&reclaim->mover, key);
    if (rc < 0 && !reclaim->victim.oldest) {
        /* The record stays, and is met again. */
        atomic_store_explicit(&reclaim->store->forgetful, true, memory_order_relaxed);
        return rc;
    }
    /* Of the lane's oldest without room for it the rest must still leave, or nothing ever would. */
    return 0;
}

/* -EAGAIN: where it was to go failed; the next attempt goes elsewhere. */
static bool is_for_want_of_room(int rc)
{
    return rc == -ENOSPC || rc == -ENOMEM || rc == -EAGAIN;
}

/* Moves an object. What cannot be read leaves, with a line that says so. */
static int move(struct reclaim *reclaim, struct goblin_slice key, bool elsewhere)
{
    struct goblin *store = reclaim->store;
    uint64_t before = reclaim->mover.moved_bytes;
    int rc = gb_relocate_object(&reclaim->mover, key);
    reclaim->budget -= gb_min(reclaim->budget, reclaim->mover.moved_bytes - before);
    if (rc == 0) {
        return 0;
    }
    bool room = is_for_want_of_room(rc);
    if (room && !reclaim->victim.evict) {
        return rc;
    }
    if (!room && rc != GOBLIN_ECORRUPT && store->options.mode == GOBLIN_MODE_STORE) {
        reclaim->unsure = true; /* another day the drive may give it */
        return 0;
    }
    reclaim->budget = 0;
    if (!room) {
        gb_store_log(store, GOBLIN_LOG_ERROR,
                     "segment %u: an object of it cannot be moved (%s) and is dropped",
                     reclaim->victim.segment->slot, goblin_strerror(rc));
    }
    bool dropped = drop(reclaim, key, room ? GB_COUNT_left_disk : GB_COUNT_left_bad);
    return dropped ? bury(reclaim, key, elsewhere) : 0;
}

static int take_object(struct reclaim *reclaim, const struct gb_entry *entry)
{
    const struct goblin_slice key = {entry->key, entry->record.key_len};
    bool extent = entry->record.type == GB_RECORD_EXTENT;
    switch (judge(reclaim, entry)) {
    case MOVES:
        return move(reclaim, key, extent);
    case LEFT:
        return bury(reclaim, key, extent);
    case FORGOTTEN:
        /* Let go without a tombstone, perhaps: an older record of its key must not step forward,
         * also when an extent goes, without which recovery believes its object's record no more. */
        return atomic_load_explicit(&reclaim->store->forgetful, memory_order_relaxed)
                   ? bury(reclaim, key, extent)
                   : 0;
    case GONE:
    default:
        return 0;
    }
}

/* What was passed and did not have to be moved is room for writers. */
static void earn(struct reclaim *reclaim, uint64_t position)
{
    uint64_t passed = position > reclaim->position ? position - reclaim->position : 0;
    uint64_t moved = reclaim->mover.moved_bytes - reclaim->counted;
    gb_throttle_earn(reclaim->store, (int64_t)passed - (int64_t)moved);
    reclaim->position += passed;
    reclaim->counted += moved;
}

/* Rests as long as there is time: the more segments are free, the longer, so that what has to be
 * moved is spread out instead of coming in bursts that readers feel. */
static void pace(struct reclaim *reclaim)
{
    struct goblin *store = reclaim->store;
    int64_t busy_ns = gb_lane_now_ns() - reclaim->resumed_ns;
    if (busy_ns < BUSY_NS || !store->cleaner.running || atomic_load(&store->keeper_stop)) {
        return;
    }
    int64_t reserve = gb_lane_reserve_segments(store, GB_CLAIM_PLAIN);
    int64_t target = gb_reclaim_target(store);
    int64_t spare = (int64_t)gb_segments_free_count(&store->segments) - reserve;
    int64_t rest_ns = spare > 0 ? REST_SHARE * busy_ns * spare / (target - reserve) : 0;
    if (rest_ns > 0) {
        const struct timespec pause = {.tv_nsec = rest_ns < REST_MAX_NS ? rest_ns : REST_MAX_NS};
        (void)nanosleep(&pause, NULL);
    }
    reclaim->resumed_ns = gb_lane_now_ns();
}

/* What each would wait for in its turn is fetched for several at once. */
static void hint(void *arg, const struct gb_entry *entries, size_t count)
{
    const struct reclaim *reclaim = arg;
    struct goblin_slice keys[GB_TAPE_HINTS];
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct goblin_slice){entries[i].key, entries[i].record.key_len};
    }
    goblin_hint(reclaim->store, keys, count);
}

static int take_entry(void *arg, const struct gb_entry *entry)
{
    struct reclaim *reclaim = arg;
    earn(reclaim, entry->place);
    pace(reclaim);
    int rc = 0;
    switch (entry->record.type) {
    case GB_RECORD_DELETE:
    case GB_RECORD_META:
        rc = reclaim->victim.oldest ? 0 : gb_relocate_amendment(&reclaim->mover, entry);
        break;
    case GB_RECORD_CLEAR:
        /* It cannot move: a later place would clear what came after it. */
        reclaim->victim.segment->guarded = !reclaim->victim.oldest;
        rc = reclaim->victim.oldest ? 0 : -EBUSY;
        break;
    case GB_RECORD_PUT:
    case GB_RECORD_EXTENT:
        rc = take_object(reclaim, entry);
        break;
    case GB_RECORD_COMMIT:
    case GB_RECORD_BATCH:
    case GB_RECORD_SUMMARY:
    default:
        break;
    }
    /* To the tape this would mean that the listing is bad. */
    return rc == GOBLIN_ECORRUPT ? -EIO : rc;
}

/* ---- what the segment did not list --------------------------------------------------------- */

#define STRAY_BYTES (64 * GB_KIB) /* of keys gathered at a time */

struct strays {
    const struct reclaim *reclaim;
    unsigned char *bytes; /* keys, each behind its length */
    size_t len;
};

static void gather(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct strays *strays = arg;
    uint32_t slot = strays->reclaim->victim.segment->slot;
    uint32_t key_len = gb_item_key_len(item);
    if (gb_relocate_is_in(item, slot) && strays->len + sizeof(key_len) + key_len <= STRAY_BYTES) {
        memcpy(strays->bytes + strays->len, &key_len, sizeof(key_len));
        memcpy(strays->bytes + strays->len + sizeof(key_len), item->key, key_len);
        strays->len += sizeof(key_len) + key_len;
    }
}

static int move_strays(struct reclaim *reclaim, const struct strays *strays, uint64_t *count)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < strays->len; ++*count) {
        uint32_t key_len = 0;
        memcpy(&key_len, strays->bytes + at, sizeof(key_len));
        const struct goblin_slice key = {strays->bytes + at + sizeof(key_len), key_len};
        rc = move(reclaim, key, true);
        at += sizeof(key_len) + key_len;
    }
    return rc;
}

/* If the segment's own listing was incomplete, the index is asked. */
static int take_strays(struct reclaim *reclaim)
{
    struct goblin *store = reclaim->store;
    struct strays strays = {.reclaim = reclaim, .bytes = malloc(STRAY_BYTES)};
    if (strays.bytes == NULL) {
        return -ENOMEM;
    }
    uint64_t cursor = 0;
    uint64_t count = 0;
    int rc = 0;
    do {
        strays.len = 0;
        do {
            gb_index_scan_bucket(store->index, &cursor, gather, &strays);
        } while (cursor != 0 && strays.len < STRAY_BYTES / 2);
        rc = move_strays(reclaim, &strays, &count);
    } while (rc == 0 && cursor != 0);
    free(strays.bytes);
    gb_store_log(store, GOBLIN_LOG_WARN, "segment %u did not list %llu of its objects",
                 reclaim->victim.segment->slot, (unsigned long long)count);
    return rc;
}

/* ---- one segment --------------------------------------------------------------------------- */

/* What replaced an object of the segment, or moved on from it, must not be less safe than what it
 * replaces: all of it lies in the segment's own lane. */
static int secure(const struct reclaim *reclaim)
{
    struct goblin *store = reclaim->store;
    struct gb_segment *segment = reclaim->victim.segment;
    struct gb_lane *lane = &store->lanes[segment->lane];
    if (atomic_load(&segment->failing)) {
        gb_lane_saved(lane, segment); /* what was not safe in it is elsewhere now */
    }
    int rc = gb_segments_sync_streams(&store->segments);
    rc = rc < 0 ? rc : gb_lane_synced(lane, gb_lane_serial(lane));
    rc = rc == -EIO ? -EAGAIN : rc;
    /* A cache goes on beside a device that fails, as long as nothing can come back: to it what it
     * loses is evicted. */
    return reclaim->victim.evict && reclaim->victim.oldest ? 0 : rc;
}

/* The cleaner alone makes segments draining, and free again; but lanes change what lies beside. */
static bool is_drained(struct gb_segments *segments, const struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    bool drained = segment->status == GB_SEGMENT_DRAINING && !segment->stuck &&
                   atomic_load(&segment->readers) == 0;
    (void)pthread_mutex_unlock(&segments->lock);
    return drained;
}

uint32_t gb_reclaim_drained(struct goblin *store)
{
    struct gb_segments *segments = &store->segments;
    uint32_t freed = 0;
    (void)pthread_mutex_lock(&segments->lock);
    uint32_t count = segments->draining_count > 0 ? segments->count : 0;
    (void)pthread_mutex_unlock(&segments->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (!is_drained(segments, segment)) {
            continue;
        }
        /* Durably, before the slot can be reused: a tombstone elsewhere may only leave when what it
         * guards against is gone. */
        int rc = gb_headers_wipe(store, segment);
        if (rc < 0) {
            /* The next opening finds in it what has left since. */
            atomic_store_explicit(&store->forgetful, true, memory_order_relaxed);
            gb_segments_strand(segments, segment);
            gb_store_log(store, GOBLIN_LOG_ERROR, "segment %u could not be freed (%s): it is lost",
                         segment->slot, goblin_strerror(rc));
            continue;
        }
        gb_tally_add_shared(&store->tally, GB_COUNT_segments_reclaimed, 1);
        gb_segments_free(segments, segment);
        freed++;
    }
    return freed;
}

static int empty(struct reclaim *reclaim)
{
    struct goblin *store = reclaim->store;
    struct gb_segment *segment = reclaim->victim.segment;
    struct gb_tape records;
    int rc = gb_tape_open(&records, &store->segments, segment);
    if (rc < 0) {
        return rc;
    }
    gb_tape_narrow(&records);
    records.hint = hint;
    uint64_t used = 0;
    bool sealed = false;
    rc = gb_tape_records(&records, take_entry, reclaim, &used, &sealed);
    gb_tape_close(&records);
    if (rc == -EIO) {
        /* Its deletes are not known: only where they guard against nothing may it go. */
        reclaim->unsure = !reclaim->victim.oldest;
        rc = 0;
    }
    if (rc == 0 && atomic_load(&segment->live_bytes) > 0) {
        rc = take_strays(reclaim);
    }
    if (rc == 0) {
        earn(reclaim, store->segments.segment_bytes);
    }
    return rc == 0 && reclaim->unsure ? -EIO : rc;
}

static int reclaim_victim(struct goblin *store, const struct gb_victim *victim)
{
    struct reclaim reclaim = {
        .store = store,
        .victim = *victim,
        .budget = store->segments.segment_bytes / REINSERT_SHARE,
        .resumed_ns = gb_lane_now_ns(),
    };
    int rc = gb_mover_init(&reclaim.mover, store, victim->segment);
    if (rc == 0) {
        rc = empty(&reclaim);
        gb_mover_fini(&reclaim.mover);
    }
    rc = rc < 0 ? rc : secure(&reclaim);
    if (rc < 0) {
        gb_segments_keep(&store->segments, victim->segment);
        return rc;
    }
    struct gb_lane *lane = &store->lanes[victim->segment->lane];
    gb_segments_drain(&store->segments, victim->segment);
    gb_lane_lock(lane);
    gb_lane_clean(lane, victim->segment); /* the next one to take it may be another lane */
    gb_lane_unlock(lane);
    /* A request that looked the segment up has counted itself a reader by then. */
    gb_rcu_synchronize();
    (void)gb_reclaim_drained(store);
    return 1;
}

uint32_t gb_reclaim_target(const struct goblin *store)
{
    return gb_lane_reserve_segments(store, GB_CLAIM_PLAIN) + store->lane_count;
}

int gb_reclaim_one(struct goblin *store, enum gb_effort effort)
{
    for (;;) {
        struct gb_victim victim;
        if (!gb_victim_choose(store, effort, &victim)) {
            return 0;
        }
        int rc = reclaim_victim(store, &victim);
        if (rc == -EBUSY) {
            continue; /* guarded by now: the next one */
        }
        if (is_for_want_of_room(rc)) {
            if (effort != GB_EFFORT_ANY || victim.evict ||
                store->options.mode == GOBLIN_MODE_STORE) {
                return 0;
            }
            effort = GB_EFFORT_EVICT;
            continue;
        }
        if (rc < 0) {
            victim.segment->stuck = true;
            gb_store_log(store, GOBLIN_LOG_ERROR,
                         "segment %u could not be emptied (%s) and is left alone",
                         victim.segment->slot, goblin_strerror(rc));
        }
        return rc;
    }
}
