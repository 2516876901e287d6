/* Recovery: segment headers, then the checkpoint, then the log of whatever it does not cover. */
#include "engine/recover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/config.h"
#include "engine/headers.h"

/* ---- objects ------------------------------------------------------------------------------- */

/* What does not hold because of a lost drive is counted. */
static bool extents_hold(struct goblin *store, const unsigned char *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gb_extent extent;
        if (gb_extent_decode(&extent, list + (size_t)i * GB_EXTENT_SIZE) < 0 ||
            gb_place_slot(extent.place) >= store->segments.count) {
            return false;
        }
        const struct gb_segment *segment = gb_segment_at(&store->segments, extent.place);
        if (segment->status != GB_SEGMENT_SEALED || segment->generation != extent.generation) {
            (void)gb_absent_note(store, segment->slot);
            return false;
        }
    }
    return true;
}

static struct gb_item *lay_bare(struct goblin *store, const struct gb_entry *entry,
                                const unsigned char *extents)
{
    const struct gb_record *record = &entry->record;
    struct gb_cursor *cursor = &store->lanes[0].cursor;
    uint32_t side = extents != NULL ? GB_EXTENTS_HEADER + record->extent_count * GB_EXTENT_SIZE : 0;
    uint32_t bytes = gb_item_footprint_for(record->key_len, side, 0);
    if (bytes > gb_arena_item_max(&store->arena) ||
        (!gb_cursor_fits(&store->arena, cursor, bytes) && !gb_residency_renew(store, cursor))) {
        return NULL;
    }
    struct gb_item *item =
        gb_arena_item(&store->arena, gb_cursor_lay(&store->arena, cursor, bytes));
    atomic_init(&item->place, entry->place);
    atomic_init(&item->sequence, record->sequence);
    gb_item_init_state(item, record);
    gb_store_note_expiry(store, record->expires_ms);
    uint64_t size_key = gb_item_pack_size(record->size, record->key_len,
                                          extents != NULL ? GB_FORM_EXTENTS : GB_FORM_DIRECT);
    item->size_key = gb_item_pack_warm(size_key, entry->resident);
    gb_item_set_resident(item, 0);
    atomic_init(&item->heat, entry->heat);
    memcpy(item->key, entry->key, record->key_len);
    if (extents != NULL) {
        gb_store_le64(item->key + record->key_len, record->extent_count);
        memcpy(item->key + record->key_len + GB_EXTENTS_HEADER, extents, side - GB_EXTENTS_HEADER);
    }
    return item;
}

int gb_recover_object(struct goblin *store, const struct gb_entry *entry,
                      const unsigned char *extents)
{
    const struct gb_record *record = &entry->record;
    if (extents != NULL && !extents_hold(store, extents, record->extent_count)) {
        /* It replaces what is there all the same. */
        struct gb_locked locked;
        gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
        struct gb_item *old = gb_index_find_locked(&locked, entry->key, record->key_len);
        if (old != NULL && atomic_load(&old->sequence) < record->sequence) {
            gb_store_forget_locked(store, &locked, old);
        }
        gb_index_unlock(&locked);
        return 0;
    }
    struct gb_item *item = lay_bare(store, entry, extents);
    if (item == NULL) {
        return -ENOMEM;
    }
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
    struct gb_item *old = gb_index_find_locked(&locked, entry->key, record->key_len);
    int rc = 0;
    bool newer = old == NULL || atomic_load(&old->sequence) < record->sequence;
    if (newer && old != NULL) {
        gb_index_replace_locked(&locked, gb_arena_place(&store->arena, item));
        gb_store_disk_died(store, old);
        gb_arena_died(&store->arena, old);
    } else if (newer) {
        rc = gb_index_insert_locked(&locked, gb_arena_place(&store->arena, item));
    }
    if (newer && rc == 0) {
        gb_arena_born(&store->arena, item);
        gb_store_disk_born(store, item);
    } else {
        gb_cursor_unlay(&store->lanes[0].cursor, gb_item_footprint(item));
    }
    gb_index_unlock(&locked);
    return rc;
}

/* ---- replay -------------------------------------------------------------------------------- */

struct replay {
    struct goblin *store;
    struct gb_tape *tape;
    struct gb_segment *segment;
    uint64_t max_sequence;
    bool sealed; /* its records are known to be whole, with all they name */
};

/* Through a tape of its own, so that the visitor's window stays. */
static int read_payload(struct goblin *store, const struct gb_segment *segment, uint64_t offset,
                        uint64_t len, unsigned char *out)
{
    struct gb_tape tape;
    int rc = gb_tape_open(&tape, &store->segments, segment);
    if (rc == 0) {
        rc = gb_tape_payload(&tape, offset, len, out);
        gb_tape_close(&tape);
    }
    return rc;
}

/* The bytes of a streamed object count only if all of them came to the device. */
static int verify_extents(struct goblin *store, const unsigned char *list, uint32_t count)
{
    if (!extents_hold(store, list, count)) {
        return GOBLIN_ECORRUPT;
    }
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        struct gb_extent extent;
        rc = gb_extent_decode(&extent, list + (size_t)i * GB_EXTENT_SIZE);
        if (rc == 0) {
            rc = read_payload(store, gb_segment_at(&store->segments, extent.place),
                              gb_place_offset(extent.place), extent.len, NULL);
        }
    }
    return rc == -ENODATA ? GOBLIN_ECORRUPT : rc;
}

static int replay_put(struct replay *replay, const struct gb_entry *entry)
{
    struct gb_layout layout;
    gb_record_layout(&entry->record, entry->place, &layout);
    struct gb_entry object = *entry;
    object.place = gb_place(replay->segment->slot, layout.payload_offset);
    if (entry->record.extent_count == 0) {
        return gb_recover_object(replay->store, &object, NULL);
    }
    unsigned char *list = malloc(layout.payload_len);
    if (list == NULL) {
        return -ENOMEM;
    }
    int rc = read_payload(replay->store, replay->segment, layout.payload_offset, layout.payload_len,
                          list);
    if (rc == 0 && !replay->sealed) {
        rc = verify_extents(replay->store, list, entry->record.extent_count);
    }
    if (rc == 0) {
        rc = gb_recover_object(replay->store, &object, list);
    }
    free(list);
    return rc == GOBLIN_ECORRUPT ? 0 : rc;
}

static void replay_delete(struct goblin *store, const struct gb_entry *entry)
{
    const struct gb_record *record = &entry->record;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
    struct gb_item *item = gb_index_find_locked(&locked, entry->key, record->key_len);
    if (item != NULL && atomic_load(&item->sequence) < record->sequence) {
        gb_store_forget_locked(store, &locked, item);
    }
    gb_index_unlock(&locked);
}

static void replay_meta(struct goblin *store, const struct gb_entry *entry)
{
    const struct gb_record *record = &entry->record;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(entry->key, record->key_len), &locked);
    struct gb_item *item = gb_index_find_locked(&locked, entry->key, record->key_len);
    if (item != NULL && atomic_load(&item->sequence) == record->link) {
        gb_item_amend(item, record); /* a later one, if there is one, comes later */
        gb_store_note_expiry(store, record->expires_ms);
    }
    gb_index_unlock(&locked);
}

struct clear {
    struct goblin *store;
    const struct gb_lane *lane;
    uint64_t before;
};

static void clear_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    struct clear *clear = arg;
    uint32_t key_len = gb_item_key_len(item);
    if (gb_store_lane(clear->store, gb_index_hash(item->key, key_len)) == clear->lane &&
        atomic_load(&item->sequence) < clear->before) {
        gb_store_forget_locked(clear->store, locked, item);
    }
}

static void replay_clear(struct replay *replay, const struct gb_entry *entry)
{
    struct clear clear = {
        .store = replay->store,
        .lane = &replay->store->lanes[replay->segment->lane],
        .before = entry->record.sequence,
    };
    uint64_t cursor = 0;
    do {
        gb_index_scan_bucket(replay->store->index, &cursor, clear_item, &clear);
    } while (cursor != 0);
}

static int replay_entry(void *arg, const struct gb_entry *entry)
{
    struct replay *replay = arg;
    replay->max_sequence = gb_max(replay->max_sequence, entry->record.sequence);
    gb_segment_count_laid(replay->segment, &entry->record);
    switch (entry->record.type) {
    case GB_RECORD_PUT:
        return replay_put(replay, entry);
    case GB_RECORD_DELETE:
        replay_delete(replay->store, entry);
        return 0;
    case GB_RECORD_META:
        replay_meta(replay->store, entry);
        return 0;
    case GB_RECORD_CLEAR:
        replay_clear(replay, entry);
        return 0;
    case GB_RECORD_EXTENT:
        atomic_store(&replay->store->next_stream,
                     gb_max(atomic_load(&replay->store->next_stream), entry->record.link));
        return 0;
    case GB_RECORD_COMMIT:
    case GB_RECORD_BATCH:
    case GB_RECORD_SUMMARY:
    default:
        return 0;
    }
}

/* What was found without a footer may be younger than its last sync; from here on it is taken for
 * as safe as the store says, and named in checkpoints. */
static int make_safe(struct goblin *store, const struct gb_segment *segment)
{
    if (store->options.read_only) {
        return 0;
    }
    gb_store_count_sync(store);
    return store->io->ops->file_sync(segment->file);
}

static int replay_segment(struct goblin *store, struct gb_segment *segment)
{
    struct gb_tape tape;
    int rc = gb_tape_open(&tape, &store->segments, segment);
    if (rc < 0) {
        return rc;
    }
    struct replay replay = {.store = store, .tape = &tape, .segment = segment};
    atomic_store(&segment->laid_bytes, 0);
    uint64_t used = 0;
    rc = gb_tape_records(&tape, replay_entry, &replay, &used, &replay.sealed);
    segment->used_bytes = gb_align_up(used, GB_BLOCK);
    atomic_store(&store->sequence, gb_max(atomic_load(&store->sequence), replay.max_sequence));
    gb_tape_close(&tape);
    return rc == 0 && !replay.sealed ? make_safe(store, segment) : rc;
}

/* ---- segments ------------------------------------------------------------------------------ */

static int by_generation(const void *a, const void *b)
{
    const struct gb_segment *x = *(struct gb_segment *const *)a;
    const struct gb_segment *y = *(struct gb_segment *const *)b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

/* Everything of a lane from its first uncovered segment on, oldest first: a covered one that is
 * newer may hold the delete of what an older, uncovered one brings back. */
static int replay_uncovered(struct goblin *store, const bool *covered, uint64_t floor)
{
    uint64_t first[GB_LANES_MAX];
    for (unsigned i = 0; i < GB_LANES_MAX; i++) {
        first[i] = UINT64_MAX;
    }
    struct gb_segments *segments = &store->segments;
    struct gb_segment **order = calloc(segments->count, sizeof(struct gb_segment *));
    if (order == NULL) {
        return -ENOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < segments->count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (segment->status == GB_SEGMENT_SEALED && (covered[i] || segment->generation >= floor)) {
            order[count++] = segment;
            if (!covered[i]) {
                first[segment->lane] = gb_min(first[segment->lane], segment->generation);
            }
        }
    }
    qsort(order, count, sizeof(struct gb_segment *), by_generation);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (order[i]->generation >= first[order[i]->lane]) {
            rc = replay_segment(store, order[i]);
        }
    }
    free(order);
    return rc;
}

/* Whether the log may be read below the floor when there is no checkpoint: then what a lost drive
 * held is forgotten, and with it what replaced or deleted older things. */
static int judge_floor(struct goblin *store, uint64_t *floor, struct goblin_error *error)
{
    *floor = store->drives[0].identity.floor;
    if (*floor == 0) {
        return 0;
    }
    if (store->options.mode == GOBLIN_MODE_CACHE) {
        gb_store_log(
            store, GOBLIN_LOG_WARN,
            "without a checkpoint what was stored before the loss of a drive or segment is "
            "dropped");
        return 0;
    }
    if (!store->options.degraded) {
        gb_error_set(error, "a drive or segment was lost, and so is the checkpoint that told which "
                            "of the older objects are current: `degraded` (--degraded) serves the "
                            "newest that is left of each");
        return GOBLIN_EDRIVE;
    }
    gb_store_log(store, GOBLIN_LOG_WARN,
                 "a drive or segment, and the checkpoint after it, are lost: objects may be as "
                 "they were before they were replaced or deleted");
    *floor = 0;
    return 0;
}

static int recover_all(struct goblin *store, bool *covered, struct goblin_error *error)
{
    int rc = gb_headers_read(store);
    if (rc < 0) {
        return rc;
    }
    bool exact = store->epoch == 0;
    uint64_t floor = store->drives[0].identity.floor;
    int loaded = gb_checkpoint_load(store, covered, &exact);
    if (loaded == -ENOMEM) {
        return loaded; /* the log holds no fewer objects */
    }
    if (loaded < 0 && loaded != -ENOENT) {
        gb_store_log(store, GOBLIN_LOG_WARN,
                     "the checkpoint is not usable (%s): reading the log instead",
                     goblin_strerror(loaded));
    }
    if (loaded < 0) {
        memset(covered, 0, store->segments.count * sizeof(*covered));
        rc = judge_floor(store, &floor, error);
    }
    rc = rc < 0 ? rc : gb_headers_judge(store, exact, error);
    rc = rc < 0 ? rc : replay_uncovered(store, covered, floor);
    if (rc == 0) {
        gb_absent_settle(store, exact);
    }
    return rc;
}

/* Whether the log may hold objects that the index does not know: what a cache had let go for lack
 * of RAM is in no checkpoint, and segments that cannot be read now may be at the next opening. */
static bool is_forgetful(const struct goblin *store)
{
    const struct gb_segments *segments = &store->segments;
    bool forgetful =
        store->options.mode == GOBLIN_MODE_CACHE && segments->free_count < segments->count;
    for (uint32_t i = 0; i < segments->count; i++) {
        forgetful |= segments->table[i].status == GB_SEGMENT_LOST;
    }
    return forgetful;
}

int gb_recover(struct goblin *store, struct goblin_error *error)
{
    bool *covered = calloc(store->segments.count, sizeof(*covered));
    gb_error_set(error, "%s", "");
    int rc = covered != NULL ? recover_all(store, covered, error) : -ENOMEM;
    if (rc == -ENOMEM) {
        gb_error_set(error,
                     "memory of %llu bytes is too small for the %llu keys found so far: give more",
                     (unsigned long long)store->budget.total,
                     (unsigned long long)gb_index_count(store->index));
    } else if (rc < 0 && error != NULL && error->text[0] == '\0') {
        gb_error_set(error, "%s", goblin_strerror(rc));
    }
    if (rc < 0) {
        gb_error_wrap(error, "recovery");
    } else {
        atomic_store(&store->forgetful, is_forgetful(store));
    }
    free(covered);
    return rc;
}
