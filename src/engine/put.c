/* Put and stat, and how what is put is published. */
#include "engine/put.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "engine/rcu.h"
#include "engine/throttle.h"

static const struct goblin_put_options no_options;

int gb_check_condition(const struct goblin_put_options *options, const struct gb_item *item)
{
    switch (options->condition) {
    case GOBLIN_IF_ABSENT:
        return item == NULL ? GOBLIN_OK : GOBLIN_EXISTS;
    case GOBLIN_IF_PRESENT:
        return item != NULL ? GOBLIN_OK : GOBLIN_MISS;
    case GOBLIN_IF_VERSION:
        if (item == NULL) {
            return GOBLIN_MISS;
        }
        return atomic_load_explicit(&item->version, memory_order_relaxed) == options->if_version
                   ? GOBLIN_OK
                   : GOBLIN_CHANGED;
    case GOBLIN_ALWAYS:
    default:
        return GOBLIN_OK;
    }
}

int gb_check_put(const struct goblin *store, struct goblin_slice key, uint64_t value_len,
                 const struct goblin_put_options *options)
{
    if (store->options.read_only) {
        return -EROFS;
    }
    if (options->meta.len > GOBLIN_META_MAX) {
        return GOBLIN_EMETA;
    }
    if (options->expires_ms < 0 || (uint64_t)options->expires_ms > GB_SIZE_MASK ||
        options->marks > GOBLIN_MARKS || (unsigned)options->condition > GOBLIN_IF_VERSION ||
        (unsigned)options->durability > GOBLIN_DURABILITY_SYNCED ||
        (options->nowait &&
         gb_put_durability(store, options->durability) > GOBLIN_DURABILITY_NONE)) {
        return -EINVAL;
    }
    uint64_t usable = (store->segments.count - store->segments.count / 8) *
                      (store->segments.segment_bytes - GB_SEGMENT_HEADER - GB_SEGMENT_TRAILER);
    if (value_len > GB_SIZE_MASK - GOBLIN_META_MAX || value_len > usable) {
        return GOBLIN_ETOOBIG;
    }
    return gb_check_key(key);
}

int gb_make_durable(struct goblin *store, struct gb_lane *lane, uint64_t serial,
                    enum goblin_durability durability)
{
    switch (gb_put_durability(store, durability)) {
    case GOBLIN_DURABILITY_SYNCED:
        return gb_lane_synced(lane, serial);
    case GOBLIN_DURABILITY_WRITTEN:
        return gb_lane_written(lane, serial);
    case GOBLIN_DURABILITY_NONE:
    case GOBLIN_DURABILITY_DEFAULT:
    default:
        return 0;
    }
}

/* ---- publishing ---------------------------------------------------------------------------- */

/* Room in RAM for the new item, with fewer resident bytes if memory is short. */
static struct gb_item *lay_item(struct goblin *store, struct gb_publication *publication,
                                uint32_t *footprint)
{
    struct gb_cursor *cursor = &publication->lane->cursor;
    const struct gb_record *record = &publication->append.record;
    uint32_t side = publication->form == GB_FORM_EXTENTS
                        ? GB_EXTENTS_HEADER + record->extent_count * GB_EXTENT_SIZE
                        : 0;
    uint64_t at_hand = publication->resident_len[0] + publication->resident_len[1];
    uint64_t wanted =
        gb_max(gb_residency_initial(store, publication->object_size), publication->resident_want);
    uint32_t resident = (uint32_t)gb_min(wanted, at_hand);
    *footprint = gb_item_footprint_for(record->key_len, side, resident);
    if (*footprint > gb_arena_item_max(&store->arena)) {
        return NULL;
    }
    if (!gb_cursor_fits(&store->arena, cursor, *footprint) &&
        !(publication->options->nowait ? gb_residency_try_renew(store, cursor)
                                       : gb_residency_renew(store, cursor))) {
        return NULL;
    }
    uint64_t place = gb_cursor_lay(&store->arena, cursor, *footprint);
    struct gb_item *item = gb_arena_item(&store->arena, place);
    item->size_key =
        gb_item_pack_size(publication->object_size, record->key_len, publication->form);
    gb_item_set_resident(item, resident);
    unsigned char *to = item->key;
    memcpy(to, publication->append.key, record->key_len);
    to += record->key_len;
    if (side > 0) {
        gb_store_le64(to, record->extent_count);
        memcpy(to + GB_EXTENTS_HEADER, publication->append.extents, side - GB_EXTENTS_HEADER);
        to += side;
    }
    for (unsigned i = 0; i < 2 && resident > 0; i++) {
        uint32_t n = (uint32_t)gb_min(resident, publication->resident_len[i]);
        if (n > 0) {
            memcpy(to, publication->resident_parts[i], n);
        }
        to += n;
        resident -= n;
    }
    return item;
}

/* What the key's present item means for this publication. */
static int judge(struct goblin *store, const struct gb_publication *publication,
                 const struct gb_item *old)
{
    if (publication->relocates != 0) {
        bool same = old != NULL && atomic_load_explicit(&old->sequence, memory_order_relaxed) ==
                                       publication->relocates;
        return same ? GOBLIN_OK : GOBLIN_CHANGED;
    }
    if (old != NULL && gb_store_expired(store, gb_expiry_of(atomic_load_explicit(
                                                   &old->expiry_meta, memory_order_relaxed)))) {
        old = NULL;
    }
    return gb_check_condition(publication->options, old);
}

static void replace_old(struct goblin *store, const struct gb_publication *publication,
                        struct gb_locked *locked, const struct gb_item *old, struct gb_item *item)
{
    struct gb_tally *tally = &publication->lane->tally;
    gb_arena_born(&store->arena, item);
    if (old == NULL) {
        gb_store_disk_born(store, item); /* inserted already */
        return;
    }
    gb_index_replace_locked(locked, gb_arena_place(&store->arena, item));
    gb_store_disk_replaced(store, old, item);
    gb_arena_died(&store->arena, old);
    if (publication->relocates == 0) {
        gb_tally_add(tally, GB_COUNT_left_overwritten, 1);
    }
}

/* Under the bucket lock: judge, stamp the item, swing the slot. */
static int swing(struct goblin *store, struct gb_publication *publication, struct gb_item *item,
                 uint64_t *sequence)
{
    struct gb_append *append = &publication->append;
    struct gb_locked locked;
    gb_index_lock(store->index, publication->hash, &locked);
    struct gb_item *old = gb_index_find_locked(&locked, append->key, append->record.key_len);
    int answer = judge(store, publication, old);
    publication->version =
        old != NULL ? atomic_load_explicit(&old->version, memory_order_relaxed) : 0;
    if (answer == GOBLIN_OK) {
        *sequence = gb_store_next_sequence(store);
        if (publication->relocates == 0 && append->record.version == 0) {
            append->record.version = *sequence;
        }
        uint8_t heat = 0;
        if (publication->relocates != 0) {
            gb_item_tell(old, &append->record);
            heat = atomic_load_explicit(&old->heat, memory_order_relaxed);
        }
        uint64_t place = publication->ram_only ? GB_PLACE_RAM
                                               : gb_place(publication->lane->segment->slot,
                                                          append->layout.payload_offset);
        publication->buries = (old != NULL && !gb_item_ram_only(old)) ||
                              atomic_load_explicit(&store->forgetful, memory_order_relaxed);
        atomic_init(&item->place, place);
        atomic_init(&item->sequence, *sequence);
        gb_item_init_state(item, &append->record);
        gb_store_note_expiry(store, append->record.expires_ms);
        atomic_init(&item->heat, heat);
        publication->version = append->record.version;
        if (old == NULL) {
            answer = gb_index_insert_locked(&locked, gb_arena_place(&store->arena, item));
            answer = answer == 0 ? GOBLIN_OK : answer;
            if (answer == GOBLIN_OK && gb_ordered_kept(&store->ordered)) {
                gb_ordered_add(&store->ordered,
                               (struct goblin_slice){append->key, append->record.key_len});
            }
        }
        if (answer == GOBLIN_OK) {
            replace_old(store, publication, &locked, old, item);
        }
    }
    gb_index_unlock(&locked);
    return answer;
}

int gb_publish(struct goblin *store, struct gb_publication *publication)
{
    struct gb_lane *lane = publication->lane;
    struct gb_append tombstone = {
        .record = {.type = GB_RECORD_DELETE, .key_len = publication->append.record.key_len},
        .key = publication->append.key,
    };
    bool nowait = publication->options->nowait;
    struct gb_append *append = publication->ram_only ? &tombstone : &publication->append;
    append->nowait = nowait;
    int rc = gb_lane_begin(lane, append);
    if (rc < 0) {
        return rc;
    }
    uint32_t footprint = 0;
    gb_index_prefetch_item(store->index, publication->hash);
    struct gb_item *item = lay_item(store, publication, &footprint);
    if (item == NULL && !nowait && gb_ordered_give_up(store)) {
        item = lay_item(store, publication, &footprint);
    }
    if (item == NULL) {
        gb_lane_cancel(lane, append);
        return nowait ? -EAGAIN : -ENOMEM; /* whoever may wait learns whether it helps */
    }
    uint64_t sequence = 0;
    int answer = swing(store, publication, item, &sequence);
    if (answer != GOBLIN_OK) {
        gb_cursor_unlay(&lane->cursor, footprint);
        gb_lane_cancel(lane, append);
        return answer;
    }
    if (publication->ram_only && !publication->buries) {
        gb_lane_cancel(lane, append);
        publication->serial = lane->next_serial - 1;
        return GOBLIN_OK;
    }
    publication->serial = gb_lane_commit(lane, append, sequence);
    return GOBLIN_OK;
}

/* ---- put ----------------------------------------------------------------------------------- */

int gb_would_wait(struct goblin *store)
{
    gb_tally_add_shared(&store->tally, GB_COUNT_would_wait, 1);
    return -EAGAIN;
}

/* Whether a put of so many bytes may go on, with the lane locked. */
static bool enter_lane(struct goblin *store, struct gb_lane *lane, uint64_t bytes, bool nowait)
{
    if (nowait) {
        return !gb_throttle_would_wait(store, bytes) && gb_lane_try_lock(lane);
    }
    gb_throttle_wait(store, bytes);
    gb_lane_lock(lane);
    return true;
}

static int put_inline(struct goblin *store, struct gb_publication *publication, uint64_t *version)
{
    struct gb_lane *lane = publication->lane;
    const struct gb_record *record = &publication->append.record;
    bool nowait = publication->options->nowait;
    uint64_t size = publication->object_size;
    if (!enter_lane(store, lane, size, nowait)) {
        return gb_would_wait(store);
    }
    int answer = gb_admission_publish(store, publication);
    gb_tally_add(&lane->tally, answer == GOBLIN_OK ? GB_COUNT_puts : GB_COUNT_puts_refused,
                 answer >= 0);
    gb_tally_add(&lane->tally, GB_COUNT_put_bytes, answer == GOBLIN_OK ? size : 0);
    gb_tally_add(&lane->tally, GB_COUNT_put_key_bytes, answer == GOBLIN_OK ? record->key_len : 0);
    gb_lane_unlock(lane);
    if (version != NULL) {
        *version = publication->version;
    }
    if (nowait) {
        gb_throttle_spend(store, answer == GOBLIN_OK ? size : 0);
        return answer == -EAGAIN ? gb_would_wait(store) : answer;
    }
    int rc = 0;
    if (answer == GOBLIN_OK) {
        rc = gb_make_durable(store, lane, publication->serial, publication->options->durability);
    }
    return rc < 0 ? rc : answer;
}

int goblin_put(struct goblin *store, struct goblin_slice key, struct goblin_slice value,
               const struct goblin_put_options *options, uint64_t *version)
{
    options = options != NULL ? options : &no_options;
    int rc = gb_check_put(store, key, value.len, options);
    if (rc < 0) {
        return rc;
    }
    uint64_t size = options->meta.len + value.len;
    if (size > gb_lane_inline_max(store)) {
        return options->nowait ? gb_would_wait(store)
                               : gb_put_streamed(store, key, value, options, version);
    }
    uint64_t hash = gb_index_hash(key.data, key.len);
    gb_index_prefetch(store->index, hash);
    struct gb_publication publication = {
        .lane = gb_store_lane(store, hash),
        .hash = hash,
        .append =
            {
                .record = {.type = GB_RECORD_PUT,
                           .key_len = (uint16_t)key.len,
                           .meta_len = (uint16_t)options->meta.len,
                           .marks = options->marks,
                           .flags = options->flags,
                           .version = options->version,
                           .size = size,
                           .expires_ms = options->expires_ms},
                .key = key.data,
                .parts = {options->meta.data, value.data},
                .part_len = {options->meta.len, value.len},
            },
        .options = options,
        .form = GB_FORM_DIRECT,
        .object_size = size,
        .resident_parts = {options->meta.data, value.data},
        .resident_len = {options->meta.len, value.len},
    };
    return put_inline(store, &publication, version);
}

/* ---- stat ---------------------------------------------------------------------------------- */

int goblin_stat(struct goblin *store, struct goblin_slice key, struct goblin_info *info)
{
    int rc = gb_check_key(key);
    if (rc < 0) {
        return rc;
    }
    uint64_t hash = gb_index_hash(key.data, key.len);
    int64_t now = gb_store_now_ms(store);
    int answer = GOBLIN_MISS;
    gb_rcu_read_lock();
    struct gb_glimpse glimpse;
    const struct gb_item *item = gb_index_find(store->index, hash, key.data, key.len, &glimpse);
    if (item != NULL) {
        gb_item_describe(item, info);
        answer = gb_expired(info->expires_ms, now) ? GOBLIN_MISS : GOBLIN_OK;
    }
    gb_rcu_read_unlock();
    return answer;
}
