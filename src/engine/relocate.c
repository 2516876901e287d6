/* Moving objects and amendments on disk. */
#include "engine/relocate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/lane_internal.h"
#include "engine/put.h"
#include "engine/writer_internal.h"

#define PART_BYTES (256 * GB_KIB) /* of a large payload, moved at once */

int gb_mover_init(struct gb_mover *mover, struct goblin *store, struct gb_segment *segment)
{
    *mover = (struct gb_mover){.store = store, .segment = segment};
    mover->buffer_bytes = gb_max(PART_BYTES, gb_lane_inline_max(store));
    mover->buffer = malloc(mover->buffer_bytes);
    int rc =
        mover->buffer != NULL ? gb_tape_open(&mover->payloads, &store->segments, segment) : -ENOMEM;
    if (rc < 0) {
        free(mover->buffer);
        return rc;
    }
    gb_tape_narrow(&mover->payloads);
    (void)gb_store_take_memory(store, &store->budget.write, mover->buffer_bytes, UINT64_MAX);
    return 0;
}

void gb_mover_fini(struct gb_mover *mover)
{
    struct goblin *store = mover->store;
    gb_tape_close(&mover->payloads);
    free(mover->buffer);
    atomic_fetch_sub(&store->budget.write, mover->buffer_bytes);
    gb_store_rebudget(store);
}

/* ---- what is to be moved ------------------------------------------------------------------- */

/* An object as it was when looked up. */
struct source {
    struct goblin_slice key;
    uint64_t hash;
    uint64_t sequence;
    uint64_t size;
    uint64_t place; /* of the payload, or of the list of extents */
    uint32_t meta_len;
    enum gb_form form;
    uint64_t pinned; /* its block; 0: not */
    const unsigned char *resident;
    uint32_t resident_len;
    struct gb_extent *extents; /* one, made up, for a direct object */
    uint32_t extent_count;
};

bool gb_relocate_is_in(const struct gb_item *item, uint32_t slot)
{
    uint64_t place = atomic_load_explicit(&item->place, memory_order_relaxed);
    return (!gb_item_ram_only(item) && gb_place_slot(place) == slot) ||
           (gb_item_form(item) == GB_FORM_EXTENTS && gb_relocate_touches(item, slot));
}

bool gb_relocate_touches(const struct gb_item *item, uint32_t slot)
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

static int copy_extents(struct goblin *store, const struct gb_item *item, struct source *source)
{
    bool direct = source->form == GB_FORM_DIRECT;
    const unsigned char *side = item->key + gb_item_key_len(item);
    source->extent_count = direct ? 1 : (uint32_t)gb_load_le64(side);
    source->extents = calloc(source->extent_count, sizeof(*source->extents));
    if (source->extents == NULL) {
        return -ENOMEM;
    }
    if (direct) {
        source->extents[0] = (struct gb_extent){
            .place = source->place,
            .len = source->size,
            .generation = gb_segment_at(&store->segments, source->place)->generation,
        };
        return 0;
    }
    for (uint32_t i = 0; i < source->extent_count; i++) {
        int rc = gb_extent_decode(&source->extents[i],
                                  side + GB_EXTENTS_HEADER + (size_t)i * GB_EXTENT_SIZE);
        GB_ASSERT(rc == 0);
    }
    return 0;
}

/* 1: found, with something in the segment; 0: not. */
static int find(struct gb_mover *mover, struct goblin_slice key, struct source *source)
{
    struct goblin *store = mover->store;
    *source = (struct source){.key = key, .hash = gb_index_hash(key.data, key.len)};
    struct gb_locked locked;
    gb_index_lock(store->index, source->hash, &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    int rc = 0;
    if (item != NULL) {
        source->place = atomic_load_explicit(&item->place, memory_order_relaxed);
        source->form = gb_item_form(item);
        rc = gb_relocate_is_in(item, mover->segment->slot);
    }
    if (rc == 1) {
        source->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
        source->size = gb_item_size(item);
        source->meta_len =
            gb_meta_len_of(atomic_load_explicit(&item->expiry_meta, memory_order_relaxed));
        int copied = copy_extents(store, item, source);
        uint64_t place = gb_arena_place(&store->arena, item);
        if (copied == 0 && gb_arena_pin(&store->arena, place)) {
            source->pinned = place;
            source->resident = gb_item_bytes(item);
            source->resident_len = gb_item_resident(item);
        }
        rc = copied < 0 ? copied : 1;
    }
    gb_index_unlock(&locked);
    return rc;
}

static void let_go(struct gb_mover *mover, struct source *source)
{
    if (source->pinned != 0) {
        gb_arena_unpin(&mover->store->arena, source->pinned);
    }
    free(source->extents);
}

static void count_moved(struct gb_mover *mover, uint64_t span)
{
    mover->moved_bytes += span;
    gb_tally_add_shared(&mover->store->tally, GB_COUNT_reinserted_bytes, span);
}

/* ---- in one record ------------------------------------------------------------------------- */

/* The item stays where it is and gets a new place: nothing moves in RAM. */
static bool swing(struct gb_mover *mover, const struct source *source, struct gb_lane *lane,
                  struct gb_append *append)
{
    struct goblin *store = mover->store;
    struct gb_locked locked;
    gb_index_lock(store->index, source->hash, &locked);
    struct gb_item *item = gb_index_find_locked(&locked, source->key.data, source->key.len);
    bool same = item != NULL &&
                atomic_load_explicit(&item->sequence, memory_order_relaxed) == source->sequence;
    if (same) {
        uint64_t place = gb_place(lane->segment->slot, append->layout.payload_offset);
        gb_store_move_locked(store, item, place, &append->record);
    }
    gb_index_unlock(&locked);
    return same;
}

/* What is whole in RAM is not read again. */
static int move_direct(struct gb_mover *mover, const struct source *source)
{
    const unsigned char *payload = source->resident;
    int rc = 0;
    if (source->resident_len < source->size) {
        payload = mover->buffer;
        rc = gb_tape_payload(&mover->payloads, gb_place_offset(source->place), source->size,
                             mover->buffer);
    }
    if (rc < 0) {
        return rc;
    }
    struct gb_append append = {
        .record = {.type = GB_RECORD_PUT,
                   .key_len = (uint16_t)source->key.len,
                   .meta_len = (uint16_t)source->meta_len,
                   .size = source->size},
        .key = source->key.data,
        .parts = {payload},
        .part_len = {source->size},
        .claim = GB_CLAIM_MOVE,
    };
    struct gb_lane *lane = gb_store_lane(mover->store, source->hash);
    gb_lane_lock(lane);
    rc = gb_lane_begin(lane, &append);
    if (rc == 0 && swing(mover, source, lane, &append)) {
        (void)gb_lane_commit(lane, &append, append.record.sequence);
        count_moved(mover, gb_span((uint32_t)source->key.len, source->size));
    } else if (rc == 0) {
        gb_lane_cancel(lane, &append);
    }
    gb_lane_unlock(lane);
    return rc;
}

/* ---- in extents ---------------------------------------------------------------------------- */

/* The list that the object is to have. */
struct list {
    unsigned char *bytes;
    uint32_t count;
    uint32_t capacity;
};

static int add_extents(struct list *list, const unsigned char *extents, uint32_t count)
{
    if (count == 0) {
        return 0; /* an object of no bytes */
    }
    if (list->count + count > list->capacity) {
        uint32_t capacity = 2 * (list->count + count);
        unsigned char *bytes = realloc(list->bytes, (size_t)capacity * GB_EXTENT_SIZE);
        if (bytes == NULL) {
            return -ENOMEM;
        }
        list->bytes = bytes;
        list->capacity = capacity;
    }
    memcpy(list->bytes + (size_t)list->count * GB_EXTENT_SIZE, extents,
           (size_t)count * GB_EXTENT_SIZE);
    list->count += count;
    return 0;
}

static int feed(struct gb_mover *mover, const struct gb_extent *extent,
                struct goblin_writer *writer)
{
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < extent->len; at += PART_BYTES) {
        const struct gb_part part = {
            .offset = gb_place_offset(extent->place),
            .len = extent->len,
            .from = at,
            .to = gb_min(at + PART_BYTES, extent->len),
        };
        rc = gb_tape_part(&mover->payloads, &part, mover->buffer);
        if (rc == 0) {
            int wrote = goblin_writer_write(writer, mover->buffer, part.to - part.from);
            rc = wrote == -EIO ? -EAGAIN : wrote < 0 ? wrote : 0;
        }
    }
    return rc;
}

static int publish(struct gb_mover *mover, const struct source *source, const struct list *list)
{
    static const struct goblin_put_options always;
    size_t list_bytes = (size_t)list->count * GB_EXTENT_SIZE;
    if (list_bytes > gb_lane_inline_max(mover->store)) {
        return GOBLIN_ETOOBIG;
    }
    struct gb_publication publication = {
        .lane = gb_store_lane(mover->store, source->hash),
        .hash = source->hash,
        .append = {.record = {.type = GB_RECORD_PUT,
                              .key_len = (uint16_t)source->key.len,
                              .meta_len = (uint16_t)source->meta_len,
                              .size = source->size,
                              .extent_count = list->count},
                   .key = source->key.data,
                   .parts = {list->bytes},
                   .part_len = {list_bytes},
                   .extents = list->bytes,
                   .claim = GB_CLAIM_MOVE},
        .options = &always,
        .form = GB_FORM_EXTENTS,
        .object_size = source->size,
        .resident_parts = {source->resident},
        .resident_len = {source->resident_len},
        .resident_want = source->resident_len,
        .relocates = source->sequence,
    };
    gb_lane_lock(publication.lane);
    int rc = gb_publish(mover->store, &publication);
    gb_lane_unlock(publication.lane);
    if (rc == GOBLIN_OK) {
        count_moved(mover, gb_span((uint32_t)source->key.len, list_bytes));
    }
    return rc < 0 ? rc : 0;
}

/* Extents from `*at` on that lie in the segment go through one writer; *at is then behind them. */
static int move_run(struct gb_mover *mover, const struct source *source, uint32_t *at,
                    struct goblin_writer **writer)
{
    uint32_t end = *at;
    uint64_t len = 0;
    for (; end < source->extent_count &&
           gb_place_slot(source->extents[end].place) == mover->segment->slot;
         end++) {
        len += source->extents[end].len;
    }
    int rc = gb_writer_begin_move(writer, mover->store, source->key, len);
    for (; rc == 0 && *at < end; ++*at) {
        rc = feed(mover, &source->extents[*at], *writer);
    }
    if (rc == 0) {
        count_moved(mover, gb_span((uint32_t)source->key.len, len));
    }
    return rc;
}

/* The writers keep what they wrote until the list that names it is published. */
static int move_extents(struct gb_mover *mover, const struct source *source)
{
    struct list list = {.bytes = NULL};
    struct goblin_writer **writers = calloc(source->extent_count, sizeof(struct goblin_writer *));
    uint32_t runs = 0;
    int rc = writers != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < source->extent_count;) {
        if (gb_place_slot(source->extents[i].place) != mover->segment->slot) {
            unsigned char same[GB_EXTENT_SIZE];
            gb_extent_encode(&source->extents[i], same);
            rc = add_extents(&list, same, 1);
            i++;
            continue;
        }
        const unsigned char *extents = NULL;
        uint32_t count = 0;
        rc = move_run(mover, source, &i, &writers[runs]);
        rc = rc == 0 ? gb_writer_finish_move(writers[runs], &extents, &count) : rc;
        rc = rc == -EIO && atomic_load(&mover->store->segments.failing_count) > 0 ? -EAGAIN : rc;
        rc = rc == 0 ? add_extents(&list, extents, count) : rc;
        runs++;
    }
    rc = rc == 0 ? publish(mover, source, &list) : rc;
    for (uint32_t i = 0; i < runs; i++) {
        goblin_writer_abort(writers[i]);
    }
    free(writers);
    free(list.bytes);
    return rc;
}

int gb_relocate_object(struct gb_mover *mover, struct goblin_slice key)
{
    struct source source;
    int rc = find(mover, key, &source);
    if (rc == 1) {
        /* A store that was made with larger write blocks has records too large for these. */
        bool whole =
            source.form == GB_FORM_DIRECT && source.size <= gb_lane_inline_max(mover->store);
        rc = whole ? move_direct(mover, &source) : move_extents(mover, &source);
        rc = rc == -ENODATA ? GOBLIN_ECORRUPT : rc;
    }
    let_go(mover, &source);
    return rc;
}

/* ---- amendments ---------------------------------------------------------------------------- */

bool gb_relocate_restate(struct gb_record *record, const struct gb_item *item)
{
    if (item == NULL || gb_item_ram_only(item)) {
        /* Deleted, or expired by an expiry that must not be forgotten, or only RAM has a newer. */
        *record = (struct gb_record){
            .type = GB_RECORD_DELETE, .key_len = record->key_len, .version = record->version};
        return true;
    }
    if (record->type != GB_RECORD_META ||
        atomic_load_explicit(&item->sequence, memory_order_relaxed) != record->link) {
        return false;
    }
    gb_item_tell(item, record); /* the last one counts, also when an earlier moves on behind it */
    return true;
}

int gb_relocate_amendment(struct gb_mover *mover, const struct gb_entry *entry)
{
    struct goblin *store = mover->store;
    uint64_t hash = gb_index_hash(entry->key, entry->record.key_len);
    struct gb_lane *lane = gb_store_lane(store, hash);
    struct gb_append append = {.record = entry->record, .key = entry->key, .claim = GB_CLAIM_MOVE};
    gb_lane_lock(lane);
    int rc = gb_lane_begin(lane, &append);
    if (rc == 0) {
        struct gb_locked locked;
        gb_index_lock(store->index, hash, &locked);
        const struct gb_item *item =
            gb_index_find_locked(&locked, entry->key, entry->record.key_len);
        bool counts = gb_relocate_restate(&append.record, item);
        uint64_t sequence = counts ? gb_store_next_sequence(store) : 0;
        gb_index_unlock(&locked);
        if (counts) {
            (void)gb_lane_commit(lane, &append, sequence);
            count_moved(mover, gb_span(entry->record.key_len, 0));
        } else {
            gb_lane_cancel(lane, &append);
        }
    }
    gb_lane_unlock(lane);
    return rc;
}

int gb_relocate_bury(struct gb_mover *mover, struct goblin_slice key)
{
    const struct gb_entry tombstone = {
        .record = {.type = GB_RECORD_DELETE, .key_len = (uint16_t)key.len},
        .key = key.data,
    };
    return gb_relocate_amendment(mover, &tombstone);
}
