/*
 * Lanes, failed writes. A block that the device refused is taken out of the lane with all its
 * bytes, its segment is abandoned, and at the next moment at which no append is open the records
 * that still count are appended again, to another segment. Until then, and while requests that
 * began before may look for them, they are read from here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/lane_internal.h"
#include "engine/relocate.h"
#include "engine/store.h"
#include "engine/tape.h"

/* ---- what failed --------------------------------------------------------------------------- */

void gb_lane_detach(struct gb_lane *lane, struct gb_write_block *block)
{
    struct gb_rescue *rescue = lane->spare_rescue;
    lane->spare_rescue = NULL;
    if (rescue == NULL) {
        rescue = malloc(sizeof(*rescue));
    }
    if (rescue == NULL) {
        /* Without a note of it the bytes are lost, and whoever waits for them must know. */
        lane->lost_serial = gb_max(lane->lost_serial, block->serial);
        block->state = GB_WRITE_FREE;
        return;
    }
    *rescue = (struct gb_rescue){
        .data = block->data,
        .segment = block->segment,
        .offset = block->offset,
        .fill = block->fill,
        .serial = block->serial,
        .spills_from = block->spills_from,
        .first_record = block->first_record,
    };
    /* In the order of their serials. */
    struct gb_rescue **at = &lane->rescues;
    while (*at != NULL && (*at)->serial < rescue->serial) {
        at = &(*at)->next;
    }
    rescue->next = *at;
    *at = rescue;
    block->data = NULL;
    block->state = GB_WRITE_FREE;
    if (block == lane->current) {
        lane->position = block->offset + gb_align_up(block->fill, GB_BLOCK);
        lane->current = NULL;
    }
}

void gb_lane_rescue_fini(struct gb_lane *lane)
{
    while (lane->rescues != NULL) {
        struct gb_rescue *next = lane->rescues->next;
        gb_lane_free_block(lane, lane->rescues->data);
        free(lane->rescues);
        lane->rescues = next;
    }
    free(lane->spare_rescue);
    lane->spare_rescue = NULL;
}

bool gb_lane_rescue_pending(const struct gb_lane *lane, uint64_t serial)
{
    for (const struct gb_rescue *rescue = lane->rescues; rescue != NULL; rescue = rescue->next) {
        if (!rescue->done && rescue->serial <= serial) {
            return true;
        }
    }
    return false;
}

/* ---- appending again ----------------------------------------------------------------------- */

/* Makes the record of `append` say what holds now, draws its new sequence and, for an object, gives
 * the item its new place. False: nothing of it holds. The bucket is locked. */
static bool restate(struct gb_lane *lane, struct gb_append *append, struct gb_item *item)
{
    struct goblin *store = lane->store;
    struct gb_record *record = &append->record;
    if (record->type != GB_RECORD_PUT) {
        bool holds = gb_relocate_restate(record, item);
        record->sequence = holds ? gb_store_next_sequence(store) : record->sequence;
        return holds;
    }
    if (item == NULL ||
        atomic_load_explicit(&item->sequence, memory_order_relaxed) != record->sequence) {
        return false;
    }
    uint64_t place = gb_place(lane->segment->slot, append->layout.payload_offset);
    gb_store_move_locked(store, item, place, record);
    return true;
}

enum outcome {
    LAID,
    OUTDATED,  /* its key has something newer */
    FORGOTTEN, /* its key has nothing at all */
};

/* Appends a record again whose payload lies in lane->salvage. Negative: it could not. */
static int append_again(struct gb_lane *lane, const struct gb_record *record,
                        const unsigned char *key, const unsigned char *payload)
{
    uint64_t len = gb_record_inline_len(record);
    struct gb_append append = {
        .record = *record,
        .key = key,
        .parts = {payload},
        .part_len = {len},
        .claim = GB_CLAIM_MOVE,
    };
    int rc = gb_lane_begin(lane, &append);
    if (rc < 0) {
        return rc;
    }
    enum outcome outcome = LAID; /* a CLEAR with its own sequence: it clears no more */
    if (record->type != GB_RECORD_CLEAR) {
        struct gb_locked locked;
        gb_index_lock(lane->store->index, gb_index_hash(key, record->key_len), &locked);
        struct gb_item *item = gb_index_find_locked(&locked, key, record->key_len);
        bool holds = restate(lane, &append, item);
        outcome = holds ? LAID : item != NULL ? OUTDATED : FORGOTTEN;
        gb_index_unlock(&locked);
    }
    if (outcome == LAID) {
        (void)gb_lane_commit(lane, &append, append.record.sequence);
    } else {
        gb_lane_cancel(lane, &append);
    }
    return (int)outcome;
}

/* The same; and what was let go without a tombstone has one in its stead, or an older record of its
 * key would step forward. */
static int lay_again(struct gb_lane *lane, const struct gb_record *record, const unsigned char *key,
                     const unsigned char *payload)
{
    int rc = append_again(lane, record, key, payload);
    if (rc == FORGOTTEN && atomic_load_explicit(&lane->store->forgetful, memory_order_relaxed)) {
        const struct gb_record tombstone = {
            .type = GB_RECORD_DELETE, .key_len = record->key_len, .version = record->version};
        rc = append_again(lane, &tombstone, key, NULL);
    }
    return rc < 0 ? rc : 0;
}

/* Where the lane has the byte at `offset` of the segment, and how many from there on; NULL: it has
 * not. */
static const unsigned char *find_bytes(const struct gb_lane *lane, const struct gb_segment *segment,
                                       uint64_t offset, uint64_t *count)
{
    for (const struct gb_rescue *rescue = lane->rescues; rescue != NULL; rescue = rescue->next) {
        uint64_t end = rescue->offset + rescue->fill;
        if (rescue->segment == segment && offset >= rescue->offset && offset < end) {
            *count = end - offset;
            return rescue->data + (offset - rescue->offset);
        }
    }
    for (unsigned i = 0; i < lane->block_count; i++) {
        const struct gb_write_block *block = &lane->blocks[i];
        uint64_t end = block->offset + block->fill;
        if (block->state != GB_WRITE_FREE && block->segment == segment && offset >= block->offset &&
            offset < end) {
            *count = end - offset;
            return block->data + (offset - block->offset);
        }
    }
    return NULL;
}

/* The bytes of [offset, offset + len), from the lane's blocks or else from the device. */
static int fetch(const struct gb_lane *lane, struct gb_tape *tape, uint64_t offset,
                 unsigned char *to, uint64_t len)
{
    while (len > 0) {
        uint64_t n = 0;
        const unsigned char *bytes = find_bytes(lane, tape->segment, offset, &n);
        if (bytes == NULL) {
            n = GB_BLOCK - offset % GB_BLOCK;
            int rc = gb_tape_at(tape, offset, (uint32_t)n, &bytes);
            if (rc < 0) {
                return rc;
            }
        }
        n = gb_min(n, len);
        memcpy(to, bytes, n);
        offset += n;
        to += n;
        len -= n;
    }
    return 0;
}

int gb_lane_assemble(const struct gb_lane *lane, const struct gb_segment *segment, uint64_t offset,
                     void *to, uint32_t len)
{
    struct gb_tape tape;
    int rc = gb_tape_open(&tape, &lane->store->segments, segment);
    if (rc == 0) {
        rc = fetch(lane, &tape, offset, to, len);
        gb_tape_close(&tape);
    }
    return rc < 0 ? rc : 1;
}

struct salvage {
    unsigned char head[GB_RECORD_HEADER + GOBLIN_KEY_MAX];
    unsigned char payload[];
};

static int fetch_payload(const struct gb_lane *lane, struct gb_tape *tape,
                         const struct gb_layout *layout, unsigned char *payload)
{
    int rc = fetch(lane, tape, layout->payload_offset, payload, layout->payload_len);
    for (uint64_t at = 0; rc == 0 && at < layout->payload_len; at += GB_UNIT) {
        unsigned char sum[GB_SUM_SIZE];
        uint64_t n = gb_min(GB_UNIT, layout->payload_len - at);
        rc = fetch(lane, tape, layout->table_offset + at / GB_UNIT * GB_SUM_SIZE, sum, sizeof(sum));
        if (rc == 0 && gb_unit_sum(payload + at, n, tape->segment->salt,
                                   layout->payload_offset + at) != gb_load_le64(sum)) {
            rc = GOBLIN_ECORRUPT;
        }
    }
    return rc;
}

/* The record at `offset`, if there is one; *end is then where it ends. GOBLIN_ECORRUPT: its bytes
 * cannot be had. */
static int salvage_record(struct gb_lane *lane, struct gb_tape *tape, struct salvage *salvage,
                          uint64_t offset, uint64_t *end)
{
    struct gb_record record;
    unsigned char *key = salvage->head + GB_RECORD_HEADER;
    *end = 0;
    gb_tape_forget(tape); /* appending the one before may have completed a write */
    if (fetch(lane, tape, offset, salvage->head, GB_RECORD_HEADER) < 0) {
        return GOBLIN_ECORRUPT;
    }
    uint32_t key_len = gb_record_peek_key_len(salvage->head);
    if (key_len > GOBLIN_KEY_MAX ||
        fetch(lane, tape, offset + GB_RECORD_HEADER, key, key_len) < 0 ||
        gb_record_decode(&record, tape->segment->salt, offset, salvage->head,
                         GB_RECORD_HEADER + key_len) < 0) {
        return GOBLIN_ECORRUPT;
    }
    struct gb_layout layout;
    gb_record_layout(&record, offset, &layout);
    *end = layout.end;
    if (record.type == GB_RECORD_SUMMARY || record.type == GB_RECORD_EXTENT) {
        return 0; /* the listing is given up with the segment; rooms count by their PUT alone */
    }
    if (fetch_payload(lane, tape, &layout, salvage->payload) < 0) {
        return GOBLIN_ECORRUPT;
    }
    return lay_again(lane, &record, key, salvage->payload);
}

/* The segment's header again. Should it fail again there is the other one, without which nothing
 * would have been laid in the segment. */
static void save_header(const struct gb_lane *lane, const struct gb_rescue *rescue)
{
    const struct gb_io_ops *ops = rescue->segment->file->io->ops;
    gb_store_count_write(lane->store, GB_BLOCK);
    (void)ops->file_write(rescue->segment->file, rescue->data, GB_BLOCK, 0);
}

/* What cannot be had is lost, and the rest goes on; what has no room waits for some. */
static int or_lost(struct gb_rescue *rescue, int rc)
{
    rescue->lost |= rc == GOBLIN_ECORRUPT;
    return rc == GOBLIN_ECORRUPT ? 0 : rc;
}

/* All records with bytes in the block. */
static int salvage_block(struct gb_lane *lane, struct gb_rescue *rescue)
{
    struct salvage *salvage = malloc(sizeof(*salvage) + gb_lane_inline_max(lane->store));
    struct gb_tape tape = {.window = NULL};
    int rc =
        salvage != NULL ? gb_tape_open(&tape, &lane->store->segments, rescue->segment) : -ENOMEM;
    if (rc == 0 && rescue->offset == 0) {
        save_header(lane, rescue);
    }
    if (rc == 0) {
        uint64_t end = 0;
        if (rescue->spills_from != 0) {
            /* Its beginning may be on a device that fails. */
            rc = salvage_record(lane, &tape, salvage, rescue->spills_from, &end);
            rc = or_lost(rescue, rc);
        }
        uint64_t offset = rescue->first_record;
        while (rc == 0 && offset != 0 && offset < rescue->offset + rescue->fill) {
            rc = salvage_record(lane, &tape, salvage, offset, &end);
            rc = or_lost(rescue, rc);
            offset = end;
        }
    }
    gb_tape_close(&tape);
    free(salvage);
    return rc;
}

/* Requests that looked the records up at their old place may still come. */
static void forget_done(struct gb_lane *lane)
{
    for (struct gb_rescue **at = &lane->rescues; *at != NULL;) {
        struct gb_rescue *rescue = *at;
        if (!rescue->done || atomic_load(&rescue->segment->readers) > 0) {
            at = &rescue->next;
            continue;
        }
        *at = rescue->next;
        struct gb_segment *segment = rescue->segment;
        gb_lane_free_block(lane, rescue->data);
        free(rescue);
        gb_lane_advance(lane, segment);
    }
}

int gb_lane_rescue(struct gb_lane *lane)
{
    if (lane->rescues == NULL || lane->rescuing) {
        return 0;
    }
    lane->rescuing = true;
    int rc = 0;
    for (struct gb_rescue *rescue = lane->rescues; rc == 0 && rescue != NULL;
         rescue = rescue->next) {
        if (rescue->done) {
            continue;
        }
        rc = salvage_block(lane, rescue);
        if (rc == 0) {
            rescue->done = true;
            if (rescue->lost) {
                lane->lost_serial = gb_max(lane->lost_serial, rescue->serial);
            }
            atomic_store(&lane->moved_to, lane->next_serial - 1);
            gb_tally_add(&lane->tally, GB_COUNT_blocks_rescued, 1);
        }
    }
    forget_done(lane);
    lane->rescuing = false;
    return rc;
}

static bool others_fail(struct gb_lane *lane, const struct gb_segment *saved)
{
    struct gb_segments *segments = &lane->store->segments;
    bool fail = false;
    (void)pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < segments->count; i++) {
        const struct gb_segment *segment = &segments->table[i];
        fail |= segment != saved && segment->lane == lane->number &&
                atomic_load(&segment->failing) && gb_segment_is_log(segment) &&
                segment->status != GB_SEGMENT_DRAINING;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return fail;
}

void gb_lane_saved(struct gb_lane *lane, struct gb_segment *segment)
{
    gb_lane_lock(lane);
    gb_lane_clean(lane, segment);
    /* It is in blocks that may still have to be written. */
    atomic_store(&lane->moved_to, lane->next_serial - 1);
    lane->lost_serial = others_fail(lane, segment) ? lane->lost_serial : 0;
    atomic_store(&segment->stream_dirty, false);
    gb_lane_unlock(lane);
}
