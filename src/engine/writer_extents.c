/* Streams, extents: rooms in open segments that a writer fills by itself, block after block with
 * one in flight while the next gathers, each closed by its table of sums. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/throttle.h"
#include "engine/writer_internal.h"

#define EXTENT_LEAST  (64 * GB_KIB) /* shorter regions are not worth a record */
#define EXTENT_GROWTH (4 * GB_MIB)  /* first region of a value of unknown size; then doubling */

/* ---- room ---------------------------------------------------------------------------------- */

/* The uncommitted together may take half the store. */
static int count_streaming(const struct goblin_writer *writer, uint64_t bytes)
{
    struct goblin *store = writer->store;
    uint64_t limit = store->segments.count * store->segments.segment_bytes / 2;
    if (atomic_fetch_add(&store->streaming_bytes, bytes) + bytes > limit && !writer->moves) {
        atomic_fetch_sub(&store->streaming_bytes, bytes);
        return -ENOSPC;
    }
    return 0;
}

int gb_writer_grow_extents(struct goblin_writer *writer, uint32_t count)
{
    uint64_t need = (uint64_t)writer->extent_count + count;
    if (need <= writer->extent_capacity) {
        return 0;
    }
    uint64_t capacity = gb_max(gb_max(8, need), 2 * (uint64_t)writer->extent_capacity);
    if (capacity * GB_EXTENT_SIZE > gb_lane_inline_max(writer->store)) {
        return GOBLIN_ETOOBIG;
    }
    unsigned char *extents = realloc(writer->extents, (size_t)capacity * GB_EXTENT_SIZE);
    if (extents == NULL) {
        return -ENOMEM;
    }
    writer->extents = extents;
    writer->extent_capacity = (uint32_t)capacity;
    return 0;
}

static int grow_table(struct goblin_writer *writer)
{
    uint64_t table = GB_BLOCK + gb_align_up(gb_units(writer->room.len) * GB_SUM_SIZE + 8, GB_BLOCK);
    if (table <= writer->table_capacity) {
        return 0;
    }
    void *memory = NULL;
    free(writer->table);
    writer->table = NULL;
    writer->table_capacity = 0;
    if (posix_memalign(&memory, GB_BLOCK, table) != 0) {
        return -ENOMEM;
    }
    writer->table = memory;
    writer->table_capacity = table;
    return 0;
}

static int open_extent(struct goblin_writer *writer)
{
    struct goblin *store = writer->store;
    bool first = writer->queue == NULL && !writer->moves;
    int rc = first ? gb_admission_allow(store, writer->options.durability) : 0;
    rc = rc == 0 ? gb_writer_grow_extents(writer, 1) : rc;
    if (rc == 0 && writer->queue == NULL) {
        rc = store->io->ops->queue_create(store->io, 2, &writer->queue);
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t handed = writer->taken - writer->fill;
    /* An extent lies in one segment: to ask for more would only count against the limit. */
    uint64_t want =
        gb_min(EXTENT_GROWTH << gb_min(writer->extent_count, 16), store->segments.segment_bytes);
    if (writer->announced != GOBLIN_SIZE_UNKNOWN) {
        want = gb_max(writer->announced - handed, writer->fill);
    }
    uint64_t least = gb_max(EXTENT_LEAST, gb_min(want, gb_align_up(writer->fill, GB_UNIT)));
    rc = count_streaming(writer, want);
    if (rc < 0) {
        return rc;
    }
    if (!writer->moves) {
        gb_throttle_wait(store, least);
    }
    gb_lane_lock(writer->lane);
    const struct goblin_slice key = {writer->key, writer->key_len};
    writer->room.claim = writer->claim;
    rc = gb_lane_reserve(writer->lane, key, writer->stream, gb_max(want, least), least,
                         &writer->room);
    gb_lane_unlock(writer->lane);
    atomic_fetch_sub(&store->streaming_bytes, want);
    if (rc < 0) {
        writer->room.segment = NULL;
        return rc;
    }
    atomic_fetch_add(&store->streaming_bytes, writer->room.len);
    writer->room_used = 0;
    return grow_table(writer);
}

/* The open extent is closed, or given up. */
static void end_room(struct goblin_writer *writer)
{
    writer->room.segment = NULL;
    writer->room_used = 0;
    writer->tabled = false;
    for (unsigned i = 0; i < 2; i++) {
        writer->blocks[i].len = 0;
    }
}

void gb_writer_leave_room(struct goblin_writer *writer)
{
    if (writer->room.segment != NULL) {
        atomic_fetch_sub(&writer->store->streaming_bytes, writer->room.len);
        atomic_fetch_sub(&writer->room.segment->pending, 1);
    }
    end_room(writer);
}

/* Adds the open extent to the list. */
static void note_extent(struct goblin_writer *writer)
{
    struct gb_segment *segment = writer->room.segment;
    const struct gb_extent extent = {
        .place = gb_place(segment->slot, writer->room.offset),
        .len = writer->room_used,
        .generation = segment->generation,
    };
    gb_extent_encode(&extent, writer->extents + (size_t)writer->extent_count * GB_EXTENT_SIZE);
    writer->extent_count++;
    uint64_t rest = writer->room.len - writer->room_used;
    atomic_fetch_sub(&writer->store->streaming_bytes, rest);
    if (rest < EXTENT_LEAST) {
        /* Not dead bytes that could be won back: moved, it would have the same room again. */
        atomic_fetch_sub(&segment->laid_bytes, rest);
    }
    end_room(writer);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void note_failure(struct goblin_writer *writer, struct gb_segment *segment, uint64_t offset,
                         int fault)
{
    writer->refused = true;
    gb_tally_add_shared(&writer->store->tally, GB_COUNT_write_errors, 1);
    gb_store_write_failed(writer->store, segment, offset, fault);
}

/* Waits until the block can be filled again. */
static int wait_block(struct goblin_writer *writer, struct gb_writer_block *block)
{
    while (block->in_flight) {
        struct gb_event event;
        int n = writer->queue->io->ops->queue_reap(writer->queue, &event, 1, -1);
        if (n < 0) {
            return n;
        }
        if (n == 1) {
            struct gb_writer_block *done = event.tag;
            done->in_flight = false;
            if (event.result < 0) {
                note_failure(writer, done->segment, done->offset, event.result);
            }
        }
    }
    return 0;
}

int gb_writer_wait(struct goblin_writer *writer)
{
    int rc = wait_block(writer, &writer->blocks[0]);
    int other = wait_block(writer, &writer->blocks[1]);
    return rc < 0 ? rc : other;
}

/* `len` bytes of the block, at the place that is noted in it. */
static int write_out(struct goblin_writer *writer, struct gb_writer_block *block, uint32_t len)
{
    const struct gb_operation write = {
        .op = GB_OP_WRITE,
        .file = block->segment->file,
        .buffer = block->data,
        .len = len,
        .offset = block->offset,
        .tag = block,
    };
    const struct gb_io_ops *ops = writer->queue->io->ops;
    int rc = ops->queue_prepare(writer->queue, &write);
    if (rc == 0) {
        rc = ops->queue_submit(writer->queue);
        block->in_flight = true;
    }
    gb_store_count_write(writer->store, len);
    return rc < 0 ? rc : 0;
}

/* The first `len` bytes of the filling block come next in the open extent. */
static struct gb_writer_block *take_block(struct goblin_writer *writer, uint32_t len)
{
    struct gb_writer_block *block = &writer->blocks[writer->filling];
    block->segment = writer->room.segment;
    block->offset = writer->room.offset + writer->room_used;
    block->len = len;
    unsigned char *sums = writer->table + GB_BLOCK + writer->room_used / GB_UNIT * GB_SUM_SIZE;
    gb_table_encode(block->data, len, block->segment->salt, block->offset, sums);
    writer->room_used += len;
    return block;
}

/* The last hand-over takes the table along in the same write if the block has room for it. */
static bool table_fits(const struct goblin_writer *writer, uint32_t len)
{
    uint64_t units = gb_units(writer->room_used + len);
    return gb_align_up(gb_align_up(len, 8) + units * GB_SUM_SIZE, GB_BLOCK) <= writer->block_bytes;
}

static int hand_over_last(struct goblin_writer *writer)
{
    uint32_t len = writer->fill;
    const unsigned char *sums = writer->table + GB_BLOCK;
    struct gb_writer_block *block = take_block(writer, len);
    uint64_t sums_len = gb_units(writer->room_used) * GB_SUM_SIZE;
    uint32_t at = (uint32_t)gb_align_up(len, 8);
    uint32_t end = (uint32_t)gb_align_up(at + sums_len, GB_BLOCK);
    memset(block->data + len, 0, at - len);
    memcpy(block->data + at, sums, sums_len);
    memset(block->data + at + sums_len, 0, end - at - sums_len);
    writer->fill = 0;
    writer->tabled = true;
    return write_out(writer, block, end);
}

/* Hands `len` bytes of the filling block to the open extent. Only the value's last hand-over is not
 * a multiple of the unit; its odd end waits in front of the table. */
static int hand_over(struct goblin_writer *writer, uint32_t len)
{
    struct gb_writer_block *block = take_block(writer, len);
    uint32_t odd = len % GB_BLOCK;
    if (odd > 0) {
        memcpy(writer->table, block->data + len - odd, odd);
    }
    int rc = len > odd ? write_out(writer, block, len - odd) : 0;
    /* What was not taken moves to the other block. */
    struct gb_writer_block *other = &writer->blocks[1 - writer->filling];
    if (rc == 0) {
        rc = wait_block(writer, other);
    }
    if (rc == 0 && writer->refused) {
        rc = gb_writer_rescue(writer);
    }
    if (rc == 0) {
        memcpy(other->data, block->data + len, writer->fill - len);
        other->len = 0;
        writer->fill -= len;
        writer->filling = 1 - writer->filling;
    }
    return rc;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* Writes the table behind the payload. */
static int write_table(struct goblin_writer *writer)
{
    struct gb_segment *segment = writer->room.segment;
    uint64_t end = writer->room.offset + writer->room_used;
    uint32_t odd = (uint32_t)(writer->room_used % GB_BLOCK);
    uint64_t sums_len = gb_units(writer->room_used) * GB_SUM_SIZE;
    /* [odd end of the payload | pad to 8 | sums | pad]: move the sums up against it. */
    uint32_t at = (uint32_t)gb_align_up(odd, 8);
    memset(writer->table + odd, 0, at - odd);
    memmove(writer->table + at, writer->table + GB_BLOCK, sums_len);
    uint64_t len = gb_align_up(at + sums_len, GB_BLOCK);
    memset(writer->table + at + sums_len, 0, len - at - sums_len);
    int64_t n = segment->file->io->ops->file_write(segment->file, writer->table, len, end - odd);
    gb_store_count_write(writer->store, len);
    if (n >= 0) {
        return 0;
    }
    memmove(writer->table + GB_BLOCK, writer->table + at, sums_len); /* the bytes live by them */
    note_failure(writer, segment, end - odd, (int)n);
    return gb_writer_rescue(writer);
}

int gb_writer_close_extent(struct goblin_writer *writer)
{
    int rc = gb_writer_wait(writer);
    if (rc == 0 && writer->refused) {
        rc = gb_writer_rescue(writer);
    }
    if (rc == 0 && writer->room.segment != NULL && !writer->tabled) {
        rc = write_table(writer);
    }
    if (rc == 0 && writer->room.segment != NULL) {
        note_extent(writer);
    }
    return rc;
}

/* The segment of the open extent has failed, though nothing of the stream's: it gets no more. */
static int turn_away(struct goblin_writer *writer)
{
    if (writer->room_used > 0) {
        return gb_writer_close_extent(writer);
    }
    gb_writer_leave_room(writer);
    return 0;
}

/* An extent with room for the next bytes. */
static int ready_extent(struct goblin_writer *writer)
{
    int rc = 0;
    if (writer->room.segment != NULL && atomic_load(&writer->room.segment->failing)) {
        rc = turn_away(writer);
    }
    return rc == 0 && writer->room.segment == NULL ? open_extent(writer) : rc;
}

int gb_writer_drain(struct goblin_writer *writer, bool last)
{
    int rc = 0;
    while (rc == 0 && writer->fill > 0) {
        rc = ready_extent(writer);
        if (rc < 0) {
            return rc;
        }
        uint64_t left = writer->room.len - writer->room_used;
        uint32_t len = (uint32_t)gb_min(writer->fill, left);
        if (!last || len < writer->fill) {
            len = (uint32_t)gb_align_down(len, GB_UNIT);
        }
        if (last && len == writer->fill && table_fits(writer, len)) {
            return hand_over_last(writer);
        }
        if (len == 0 && left >= writer->fill) {
            return 0; /* less than a unit, and more may come */
        }
        if (len > 0) {
            rc = hand_over(writer, len);
        }
        if (rc == 0 && (len == 0 || writer->room.len - writer->room_used < GB_UNIT) &&
            !(last && writer->fill == 0)) {
            rc = gb_writer_close_extent(writer);
        }
    }
    return rc;
}
