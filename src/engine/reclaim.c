/*
 * Reclaiming disk. In cache mode the oldest segment of all goes: what was read since it was
 * written is copied forward within a budget, the rest leaves. It is the oldest of its lane, so
 * nothing older of its keys can come back and its tombstones leave with it. In store mode only
 * segments in which nothing lives are freed, and their tombstones move on while the lane has
 * anything older.
 */
#include "engine/reclaim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "engine/lane_internal.h"
#include "engine/put.h"
#include "engine/rcu.h"
#include "engine/tape.h"

#define REINSERT_SHARE 4u /* at most 1/4 of a segment is copied forward */

struct reclaim {
    struct goblin *store;
    struct gb_segment *segment;
    struct gb_tape payloads; /* for copying; records come through another tape */
    uint64_t budget;         /* bytes that may still be copied forward */
    bool oldest;             /* of its lane */
    unsigned char *buffer;
    uint32_t resident; /* payload bytes in RAM of the object just judged */
};

/* ---- one object ---------------------------------------------------------------------------- */

/* Whether an object in extents has one in the segment. */
static bool touches(const struct gb_item *item, uint32_t slot)
{
    const unsigned char *side = item->key + gb_item_key_len(item);
    uint64_t count = gb_load_le64(side);
    for (uint64_t i = 0; i < count; i++) {
        struct gb_extent extent;
        if (gb_extent_decode(&extent, side + GB_EXTENTS_HEADER + i * GB_EXTENT_SIZE) == 0 &&
            gb_place_slot(extent.place) == slot) {
            return true;
        }
    }
    return false;
}

enum verdict { GONE, DROPPED, KEEP };

/* Decides about the object of an entry, and drops it unless it deserves to be copied. */
static enum verdict judge(struct reclaim *reclaim, const struct gb_entry *entry)
{
    struct goblin *store = reclaim->store;
    const struct gb_record *record = &entry->record;
    enum verdict verdict = GONE;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, entry->key, record->key_len);
    bool extents = item != NULL && gb_item_form(item) == GB_FORM_EXTENTS;
    bool mine =
        item != NULL &&
        (record->type == GB_RECORD_EXTENT
             ? extents && touches(item, reclaim->segment->slot)
             : atomic_load_explicit(&item->sequence, memory_order_relaxed) == record->sequence);
    if (mine) {
        uint32_t epoch = atomic_load_explicit(&store->residency.epoch, memory_order_relaxed);
        uint8_t heat = atomic_load_explicit(&item->heat, memory_order_relaxed);
        uint64_t expiry = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
        bool expired = gb_expired(gb_expiry_of(expiry), gb_store_now_ms(store));
        uint64_t span = gb_span(record->key_len, gb_item_size(item));
        if (!expired && !extents && gb_heat_count(heat, epoch) > 0 && span <= reclaim->budget) {
            verdict = KEEP;
            reclaim->resident = gb_item_resident(item);
        } else {
            verdict = DROPPED;
            gb_store_forget_locked(store, &locked, item);
            gb_tally_add_shared(&store->tally, expired ? GB_COUNT_left_expired : GB_COUNT_left_disk,
                                1);
        }
    }
    gb_index_unlock(&locked);
    return verdict;
}

/* Copies the object's record to the head of its lane. */
static int copy_forward(struct reclaim *reclaim, const struct gb_entry *entry)
{
    struct goblin *store = reclaim->store;
    struct gb_layout layout;
    gb_record_layout(&entry->record, entry->place, &layout);
    int rc = gb_tape_payload(&reclaim->payloads, layout.payload_offset, layout.payload_len,
                             reclaim->buffer);
    if (rc < 0) {
        return rc;
    }
    static const struct goblin_put_options always;
    uint64_t hash = gb_index_hash(entry->key, entry->record.key_len);
    struct gb_publication publication = {
        .lane = gb_store_lane(store, hash),
        .hash = hash,
        .append = {.record = entry->record,
                   .key = entry->key,
                   .parts = {reclaim->buffer},
                   .part_len = {layout.payload_len},
                   .relocation = true},
        .options = &always,
        .form = GB_FORM_DIRECT,
        .object_size = entry->record.size,
        .resident_parts = {reclaim->buffer},
        .resident_len = {layout.payload_len},
        .resident_want = reclaim->resident,
        .relocates = entry->record.sequence,
    };
    gb_lane_lock(publication.lane);
    rc = gb_publish(store, &publication);
    gb_lane_unlock(publication.lane);
    if (rc == GOBLIN_OK) {
        uint64_t span = gb_span(entry->record.key_len, layout.payload_len);
        reclaim->budget -= gb_min(reclaim->budget, span);
        gb_tally_add_shared(&store->tally, GB_COUNT_reinserted_bytes, span);
    }
    return rc < 0 ? rc : 0;
}

/* What a record about `item` (NULL: the key has none) must say when it moves on. False: it is
 * needed no longer. */
static bool amend(struct gb_record *record, const struct gb_item *item)
{
    if (item == NULL) {
        /* Deleted, or expired by an expiry that must not be forgotten. */
        *record = (struct gb_record){
            .type = GB_RECORD_DELETE, .key_len = record->key_len, .version = record->version};
        return true;
    }
    if (record->type != GB_RECORD_META ||
        atomic_load_explicit(&item->sequence, memory_order_relaxed) != record->link) {
        return false;
    }
    /* The last expiry counts, also when an earlier one moves on behind it. */
    record->expires_ms =
        gb_expiry_of(atomic_load_explicit(&item->expiry_meta, memory_order_relaxed));
    return true;
}

/* A tombstone that still guards against something older, or an expiry that still amends something
 * older, moves on. */
static int move_amendment(struct goblin *store, const struct gb_entry *entry)
{
    uint64_t hash = gb_index_hash(entry->key, entry->record.key_len);
    struct gb_lane *lane = gb_store_lane(store, hash);
    struct gb_append append = {.record = entry->record, .key = entry->key, .relocation = true};
    gb_lane_lock(lane);
    int rc = gb_lane_begin(lane, &append);
    if (rc == 0) {
        struct gb_locked locked;
        gb_index_lock(store->index, hash, &locked);
        bool counts =
            amend(&append.record, gb_index_find_locked(&locked, entry->key, entry->record.key_len));
        uint64_t sequence = counts ? gb_store_next_sequence(store) : 0;
        gb_index_unlock(&locked);
        if (counts) {
            (void)gb_lane_commit(lane, &append, sequence);
        } else {
            gb_lane_cancel(lane, &append);
        }
    }
    gb_lane_unlock(lane);
    return rc;
}

/* An object was dropped for one of its extents, and its record stays elsewhere: at recovery it
 * would not count, and a value before it could. */
static int bury(struct goblin *store, const struct gb_entry *entry)
{
    struct gb_entry tombstone = *entry;
    tombstone.record =
        (struct gb_record){.type = GB_RECORD_DELETE, .key_len = entry->record.key_len};
    return move_amendment(store, &tombstone);
}

static int take_entry(void *arg, const struct gb_entry *entry)
{
    struct reclaim *reclaim = arg;
    switch (entry->record.type) {
    case GB_RECORD_DELETE:
    case GB_RECORD_META:
        return reclaim->oldest ? 0 : move_amendment(reclaim->store, entry);
    case GB_RECORD_CLEAR:
        /* It cannot move: a later place would clear what came after it. */
        reclaim->segment->guarded = !reclaim->oldest;
        return reclaim->oldest ? 0 : -EBUSY;
    case GB_RECORD_PUT:
    case GB_RECORD_EXTENT:
        break;
    case GB_RECORD_COMMIT:
    case GB_RECORD_BATCH:
    case GB_RECORD_SUMMARY:
    default:
        return 0;
    }
    enum verdict verdict = judge(reclaim, entry);
    if (verdict == KEEP && copy_forward(reclaim, entry) < 0) {
        /* No room, or unreadable: then it leaves after all. */
        reclaim->budget = 0;
        (void)judge(reclaim, entry);
    }
    if (verdict == DROPPED && entry->record.type == GB_RECORD_EXTENT) {
        /* Without room for a tombstone the rest must still leave, or nothing ever would. */
        (void)bury(reclaim->store, entry);
    }
    return 0;
}

/* ---- one segment --------------------------------------------------------------------------- */

struct orphan {
    struct reclaim *reclaim;
    uint64_t count;
};

static void drop_orphan(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    struct orphan *orphan = arg;
    struct goblin *store = orphan->reclaim->store;
    uint32_t slot = orphan->reclaim->segment->slot;
    bool here = gb_place_slot(atomic_load_explicit(&item->place, memory_order_relaxed)) == slot ||
                (gb_item_form(item) == GB_FORM_EXTENTS && touches(item, slot));
    if (here) {
        gb_store_forget_locked(store, locked, item);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_disk, 1);
        orphan->count++;
    }
}

/* If the segment's own listing was incomplete, the index is asked. */
static void drop_orphans(struct reclaim *reclaim)
{
    struct orphan orphan = {.reclaim = reclaim};
    uint64_t cursor = 0;
    do {
        gb_index_scan_bucket(reclaim->store->index, &cursor, drop_orphan, &orphan);
    } while (cursor != 0);
    gb_store_log(reclaim->store, GOBLIN_LOG_WARN,
                 "segment %u did not list %llu of its objects: they are dropped",
                 reclaim->segment->slot, (unsigned long long)orphan.count);
}

/* What replaced an object of the segment, or moved on from it, must not be less safe than what it
 * replaces: all of it lies in the segment's own lane. */
static int secure(struct goblin *store, const struct gb_segment *segment)
{
    struct gb_lane *lane = &store->lanes[segment->lane];
    int rc = gb_segments_sync_streams(&store->segments);
    rc = rc < 0 ? rc : gb_lane_synced(lane, gb_lane_serial(lane));
    /* A cache goes on beside a device that fails: to it what it loses is evicted. */
    return store->options.mode == GOBLIN_MODE_CACHE ? 0 : rc;
}

/* Waits for readers, makes what it held unreadable for good, frees it. */
static int retire(struct goblin *store, struct gb_segment *segment)
{
    gb_rcu_synchronize();
    while (atomic_load(&segment->readers) > 0) {
        if (atomic_load(&store->keeper_stop)) {
            gb_segments_keep(&store->segments, segment);
            return -ECANCELED;
        }
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    /* The header goes before the slot can be reused, durably: a tombstone elsewhere may only leave
     * when what it guards against is gone. */
    void *block = NULL;
    if (posix_memalign(&block, GB_BLOCK, GB_BLOCK) != 0) {
        gb_segments_keep(&store->segments, segment);
        return -ENOMEM;
    }
    memset(block, 0, GB_BLOCK);
    const struct gb_io_ops *ops = store->io->ops;
    int64_t n = ops->file_write(segment->file, block, GB_BLOCK, 0);
    int rc = n < 0 ? (int)n : ops->file_sync(segment->file);
    free(block);
    if (rc < 0) {
        gb_segments_keep(&store->segments, segment);
        return rc;
    }
    gb_store_count_write(store, GB_BLOCK);
    gb_tally_add_shared(&store->tally, GB_COUNT_segments_reclaimed, 1);
    gb_segments_free(&store->segments, segment);
    return 1;
}

static int empty(struct reclaim *reclaim)
{
    struct goblin *store = reclaim->store;
    struct gb_tape records;
    int rc = gb_tape_open(&records, &store->segments, reclaim->segment);
    if (rc < 0) {
        return rc;
    }
    uint64_t used = 0;
    bool sealed = false;
    rc = gb_tape_records(&records, take_entry, reclaim, &used, &sealed);
    gb_tape_close(&records);
    if (atomic_load(&reclaim->segment->live_bytes) > 0) {
        drop_orphans(reclaim);
    }
    return rc < 0 && store->options.mode == GOBLIN_MODE_STORE ? rc : 0;
}

uint32_t gb_reclaim_target(const struct goblin *store)
{
    return gb_lane_reserve_segments(store) + store->lane_count;
}

static int reclaim_segment(struct goblin *store, struct gb_segment *segment, bool oldest)
{
    struct reclaim reclaim = {
        .store = store,
        .segment = segment,
        .budget = store->segments.segment_bytes / REINSERT_SHARE,
        .oldest = oldest,
    };
    reclaim.buffer = malloc(gb_lane_inline_max(store));
    int rc = reclaim.buffer != NULL ? gb_tape_open(&reclaim.payloads, &store->segments, segment)
                                    : -ENOMEM;
    if (rc == 0) {
        rc = empty(&reclaim);
        gb_tape_close(&reclaim.payloads);
    }
    free(reclaim.buffer);
    rc = rc < 0 ? rc : secure(store, segment);
    if (rc < 0) {
        gb_segments_keep(&store->segments, segment);
        return rc;
    }
    return retire(store, segment);
}

int gb_reclaim_one(struct goblin *store)
{
    int rc = 0;
    do {
        bool oldest = true;
        struct gb_segment *segment = store->options.mode == GOBLIN_MODE_CACHE
                                         ? gb_segments_oldest(&store->segments)
                                         : gb_segments_dead(&store->segments, &oldest);
        if (segment == NULL) {
            return 0;
        }
        rc = reclaim_segment(store, segment, oldest);
    } while (rc == -EBUSY); /* guarded by now: the next one */
    return rc == -ENOSPC ? 0 : rc;
}
