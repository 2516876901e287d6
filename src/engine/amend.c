/* Delete, amend and touch: records without payload about an object that is there. */
#include <errno.h>

#include "engine/lane_internal.h"
#include "engine/put.h"

static const struct goblin_put_options no_options;

/* What is to become of an object. */
struct change {
    const struct goblin_put_options *options; /* condition, if_version, durability, nowait */
    const struct goblin_amendment *amendment; /* NULL: it is deleted */
    struct goblin_info *before;               /* out, unless NULL */
    struct gb_append append;
    uint64_t sequence; /* out: of the record; 0: none is to be written */
};

/* Forgets the object; the record that is being appended says so. */
static void bury(struct goblin *store, struct gb_locked *locked, const struct gb_item *item,
                 struct change *change)
{
    struct gb_append *append = &change->append;
    append->record = (struct gb_record){
        .type = GB_RECORD_DELETE,
        .key_len = append->record.key_len,
        .version = atomic_load_explicit(&item->version, memory_order_relaxed),
    };
    /* Of an object in RAM alone the log knows nothing. */
    change->sequence = gb_item_ram_only(item) ? 0 : gb_store_next_sequence(store);
    gb_store_forget_locked(store, locked, item);
}

static bool differs(const struct gb_record *a, const struct gb_record *b)
{
    return a->version != b->version || a->expires_ms != b->expires_ms || a->flags != b->flags ||
           a->marks != b->marks;
}

/* Changes the object; the record that is being appended says how it is from now on. */
static void apply(struct goblin *store, struct gb_item *item, struct change *change)
{
    const struct goblin_amendment *amendment = change->amendment;
    struct gb_record *record = &change->append.record;
    gb_item_tell(item, record);
    const struct gb_record was = *record;
    if ((amendment->what & GOBLIN_AMEND_EXPIRES) != 0) {
        record->expires_ms = amendment->expires_ms;
    }
    if ((amendment->what & GOBLIN_AMEND_FLAGS) != 0) {
        record->flags = amendment->flags;
    }
    if ((amendment->what & GOBLIN_AMEND_VERSION) != 0) {
        record->version = amendment->version;
    }
    record->marks = (uint8_t)((was.marks & ~amendment->marks_clear) | amendment->marks_set);
    if (!differs(record, &was)) {
        return;
    }
    uint64_t sequence = gb_store_next_sequence(store);
    bool numbered = (amendment->what & GOBLIN_AMEND_VERSION) != 0 && amendment->version == 0;
    record->version = numbered ? sequence : record->version;
    record->link = atomic_load_explicit(&item->sequence, memory_order_relaxed);
    gb_item_amend(item, record);
    gb_store_note_expiry(store, record->expires_ms);
    change->sequence = gb_item_ram_only(item) ? 0 : sequence;
}

/* Under the bucket lock: judges and changes. */
static int change_locked(struct goblin *store, struct gb_locked *locked, struct change *change)
{
    const struct gb_append *append = &change->append;
    struct gb_item *item = gb_index_find_locked(locked, append->key, append->record.key_len);
    bool erase = change->amendment == NULL;
    if (item == NULL) {
        /* A delete also means what only the log remembers. */
        if (erase && change->options->condition == GOBLIN_ALWAYS &&
            atomic_load_explicit(&store->forgetful, memory_order_relaxed)) {
            change->sequence = gb_store_next_sequence(store);
        }
        return GOBLIN_MISS;
    }
    struct goblin_info info;
    gb_item_describe(item, &info);
    if (gb_store_expired(store, info.expires_ms)) {
        gb_tally_add_shared(&store->tally, GB_COUNT_left_expired, 1);
        bury(store, locked, item, change);
        return GOBLIN_MISS;
    }
    if (change->before != NULL) {
        *change->before = info;
    }
    int answer = gb_check_condition(change->options, item);
    if (answer == GOBLIN_OK && erase) {
        bury(store, locked, item, change);
    } else if (answer == GOBLIN_OK) {
        apply(store, item, change);
    }
    return answer;
}

/* What makes room for others waits for it, too, once it finds none. */
static int begin(struct gb_lane *lane, struct gb_append *append)
{
    int rc = gb_lane_begin(lane, append);
    int waited = append->claim == GB_CLAIM_DELETE ? 0 : -ENOSPC;
    while (rc == -ENOSPC && waited == 0) {
        waited = gb_lane_wait(lane, GB_CLAIM_DELETE);
        rc = gb_lane_begin(lane, append);
    }
    return rc;
}

/* Appends, judges and changes; *serial is then what to wait for. */
static int append_change(struct goblin *store, struct gb_lane *lane, uint64_t hash,
                         struct change *change, uint64_t *serial)
{
    bool erase = change->amendment == NULL;
    struct gb_append *append = &change->append;
    int rc = begin(lane, append);
    if (rc < 0) {
        return rc;
    }
    struct gb_locked locked;
    gb_index_lock(store->index, hash, &locked);
    int answer = change_locked(store, &locked, change);
    gb_index_unlock(&locked);
    if (change->sequence != 0) {
        *serial = gb_lane_commit(lane, append, change->sequence);
    } else {
        gb_lane_cancel(lane, append);
        /* That nothing is there, or is to be changed, may rest on a record that is not safe yet. */
        *serial = lane->next_serial - 1;
    }
    if (answer == GOBLIN_OK) {
        gb_tally_add(&lane->tally, erase ? GB_COUNT_deletes : GB_COUNT_amends, 1);
        gb_tally_add(&lane->tally, GB_COUNT_left_deleted, erase);
    }
    return answer;
}

static int carry_out(struct goblin *store, struct goblin_slice key, struct change *change)
{
    uint64_t hash = gb_index_hash(key.data, key.len);
    struct gb_lane *lane = gb_store_lane(store, hash);
    bool erase = change->amendment == NULL;
    enum goblin_durability durability = change->options->durability;
    change->append.key = key.data;
    change->append.record.key_len = (uint16_t)key.len;
    change->append.nowait = change->options->nowait;
    uint64_t serial = 0;
    if (!change->append.nowait) {
        gb_lane_lock(lane);
    } else if (!gb_lane_try_lock(lane)) {
        return gb_would_wait(store);
    }
    int answer = append_change(store, lane, hash, change, &serial);
    gb_lane_unlock(lane);
    if (change->append.nowait) {
        return answer == -EAGAIN ? gb_would_wait(store) : answer;
    }
    int rc = 0;
    if (answer == GOBLIN_OK && !erase &&
        gb_put_durability(store, durability) == GOBLIN_DURABILITY_SYNCED) {
        /* The object is what is to be safe, and it may have been streamed in without a sync. */
        rc = gb_segments_sync_streams(&store->segments);
    }
    if (rc >= 0 && (answer == GOBLIN_OK || (erase && answer == GOBLIN_MISS))) {
        rc = gb_make_durable(store, lane, serial, durability);
    }
    return rc < 0 ? rc : answer;
}

int goblin_delete(struct goblin *store, struct goblin_slice key,
                  const struct goblin_put_options *options)
{
    options = options != NULL ? options : &no_options;
    int rc = gb_check_put(store, key, 0, options);
    if (rc == 0 && options->condition == GOBLIN_IF_ABSENT) {
        rc = -EINVAL;
    }
    if (rc < 0) {
        return rc;
    }
    struct change change = {
        .options = options,
        .append = {.record = {.type = GB_RECORD_DELETE}, .claim = GB_CLAIM_DELETE},
    };
    return carry_out(store, key, &change);
}

int goblin_amend(struct goblin *store, struct goblin_slice key,
                 const struct goblin_amendment *amendment, struct goblin_info *before)
{
    const unsigned known = GOBLIN_AMEND_EXPIRES | GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION;
    const struct goblin_put_options options = {
        .expires_ms = amendment->expires_ms,
        .marks = amendment->marks_set | amendment->marks_clear,
        .condition = amendment->condition,
        .if_version = amendment->if_version,
        .durability = amendment->durability,
        .nowait = amendment->nowait,
    };
    int rc = gb_check_put(store, key, 0, &options);
    if (rc == 0 && ((amendment->what & ~known) != 0 || options.condition == GOBLIN_IF_ABSENT)) {
        rc = -EINVAL;
    }
    if (rc == 0 && store->admission.ram_max != 0 &&
        gb_put_durability(store, options.durability) > GOBLIN_DURABILITY_NONE) {
        /* What is to be safe must be on disk. */
        rc = gb_admission_write(store, key);
    }
    if (rc < 0) {
        return rc;
    }
    struct change change = {
        .options = &options,
        .amendment = amendment,
        .before = before,
        .append = {.record = {.type = GB_RECORD_META}},
    };
    return carry_out(store, key, &change);
}

int goblin_touch(struct goblin *store, struct goblin_slice key, int64_t expires_ms,
                 enum goblin_durability durability)
{
    const struct goblin_amendment amendment = {
        .what = GOBLIN_AMEND_EXPIRES, .expires_ms = expires_ms, .durability = durability};
    return goblin_amend(store, key, &amendment, NULL);
}
