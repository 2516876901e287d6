/*
 * The streaming writer. A value that ends within its first block is published like a put. A larger
 * one goes into extents: regions of open segments that the writer fills by itself, block after
 * block with one in flight while the next gathers, each closed by its table of sums; at commit one
 * PUT record lists them.
 */
#include <goblin/writer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "engine/put.h"
#include "engine/throttle.h"
#include "engine/writer_internal.h"

#define EXTENT_LEAST  (64 * GB_KIB) /* shorter regions are not worth a record */
#define EXTENT_GROWTH (4 * GB_MIB)  /* first region of a value of unknown size; then doubling */

struct block {
    unsigned char *data;
    struct gb_segment *segment; /* it is in flight to */
    uint64_t offset;
    bool in_flight;
};

struct goblin_writer {
    struct goblin *store;
    struct gb_lane *lane;
    uint64_t hash;
    struct goblin_put_options options; /* meta.data is not valid: it went into the payload */
    uint64_t announced;                /* payload bytes, or GOBLIN_SIZE_UNKNOWN */
    uint64_t taken;                    /* payload bytes so far */
    uint64_t stream;
    int fault;
    bool moves; /* a piece that moves on disk: its bytes are in the store already */

    struct block blocks[2];
    unsigned filling; /* index of the block that gathers */
    uint32_t fill;
    uint32_t block_bytes;
    struct gb_queue *queue;

    struct gb_room room;  /* of the open extent; segment NULL: none */
    uint64_t room_used;   /* payload bytes handed to the device */
    unsigned char *table; /* its sums so far, behind room for a partial block */
    uint64_t table_capacity;
    unsigned char *extents; /* encoded list of closed ones */
    uint32_t extent_count;
    uint32_t extent_capacity;

    unsigned char *head; /* copy of the first bytes, for RAM */
    uint32_t head_len;
    uint32_t head_capacity;

    uint16_t key_len;
    unsigned char key[];
};

/* ---- begin and end ------------------------------------------------------------------------- */

/* What a writer needs of the budget. */
struct buffers {
    void *blocks[2];
};

static void give_buffers(struct goblin *store, const struct buffers *buffers)
{
    for (unsigned i = 0; i < 2; i++) {
        if (buffers->blocks[i] != NULL) {
            gb_pool_give(store, buffers->blocks[i]);
        }
    }
    atomic_fetch_sub(&store->budget.write, store->options.head_bytes);
    gb_store_rebudget(store);
}

static bool take_buffers(struct goblin *store, struct buffers *buffers)
{
    *buffers = (struct buffers){.blocks = {NULL}};
    /* First whether it will be refused: no room is made in RAM for what then cannot be had. */
    if (!gb_pool_has(store, 2, store->options.head_bytes) ||
        !gb_store_take_memory(store, &store->budget.write, store->options.head_bytes,
                              store->budget.total / 4)) {
        return false;
    }
    buffers->blocks[0] = gb_pool_take(store);
    buffers->blocks[1] = buffers->blocks[0] != NULL ? gb_pool_take(store) : NULL;
    if (buffers->blocks[1] == NULL) {
        give_buffers(store, buffers);
        return false;
    }
    return true;
}

static void destroy(struct goblin_writer *writer)
{
    struct goblin *store = writer->store;
    if (writer->queue != NULL) {
        writer->queue->io->ops->queue_destroy(writer->queue);
    }
    const struct buffers buffers = {{writer->blocks[0].data, writer->blocks[1].data}};
    give_buffers(store, &buffers);
    free(writer->table);
    free(writer->extents);
    free(writer->head);
    free(writer);
}

/* Owns: the buffers, also after a fault. */
static int begin(struct goblin_writer **out, struct goblin *store, const struct buffers *buffers,
                 struct goblin_slice key, uint64_t size, const struct goblin_put_options *options)
{
    struct goblin_writer *writer = calloc(1, sizeof(*writer) + key.len);
    void *head = malloc(store->options.head_bytes);
    if (writer == NULL || head == NULL) {
        give_buffers(store, buffers);
        free(writer);
        free(head);
        return -ENOMEM;
    }
    writer->head = head;
    writer->head_capacity = store->options.head_bytes;
    writer->blocks[0].data = buffers->blocks[0];
    writer->blocks[1].data = buffers->blocks[1];
    writer->block_bytes = store->options.write_block_bytes;
    writer->store = store;
    writer->hash = gb_index_hash(key.data, key.len);
    writer->lane = gb_store_lane(store, writer->hash);
    writer->options = *options;
    writer->announced = size == GOBLIN_SIZE_UNKNOWN ? size : size + options->meta.len;
    writer->stream = atomic_fetch_add(&store->next_stream, 1) + 1;
    writer->key_len = (uint16_t)key.len;
    memcpy(writer->key, key.data, key.len);
    /* Metadata is the payload's first part; it always fits the first block. */
    if (options->meta.len > 0) {
        memcpy(writer->blocks[0].data, options->meta.data, options->meta.len);
        memcpy(writer->head, options->meta.data, options->meta.len);
    }
    writer->fill = (uint32_t)options->meta.len;
    writer->head_len = (uint32_t)options->meta.len;
    writer->taken = options->meta.len;
    *out = writer;
    return GOBLIN_OK;
}

int goblin_writer_begin(struct goblin_writer **out, struct goblin *store, struct goblin_slice key,
                        uint64_t size, const struct goblin_put_options *options)
{
    static const struct goblin_put_options none;
    options = options != NULL ? options : &none;
    int rc = gb_check_put(store, key, size == GOBLIN_SIZE_UNKNOWN ? 0 : size, options);
    if (rc < 0 || options->nowait) {
        return rc < 0 ? rc : -EINVAL;
    }
    struct buffers buffers;
    return take_buffers(store, &buffers) ? begin(out, store, &buffers, key, size, options)
                                         : -ENOMEM;
}

/* ---- extents ------------------------------------------------------------------------------- */

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

static int grow_extents(struct goblin_writer *writer)
{
    if (writer->extent_count < writer->extent_capacity) {
        return 0;
    }
    uint32_t capacity = writer->extent_capacity == 0 ? 8 : writer->extent_capacity * 2;
    if ((uint64_t)capacity * GB_EXTENT_SIZE > gb_lane_inline_max(writer->store)) {
        return GOBLIN_ETOOBIG;
    }
    unsigned char *extents = realloc(writer->extents, (size_t)capacity * GB_EXTENT_SIZE);
    if (extents == NULL) {
        return -ENOMEM;
    }
    writer->extents = extents;
    writer->extent_capacity = capacity;
    return 0;
}

static int open_extent(struct goblin_writer *writer)
{
    struct goblin *store = writer->store;
    bool first = writer->queue == NULL && !writer->moves;
    int rc = first ? gb_admission_allow(store, writer->options.durability) : 0;
    rc = rc == 0 ? grow_extents(writer) : rc;
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
    writer->room.claim = writer->moves ? GB_CLAIM_MOVE : GB_CLAIM_PLAIN;
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
    uint64_t table = GB_BLOCK + gb_align_up(gb_units(writer->room.len) * GB_SUM_SIZE + 8, GB_BLOCK);
    if (table > writer->table_capacity) {
        void *memory = NULL;
        free(writer->table);
        writer->table = NULL;
        writer->table_capacity = 0;
        if (posix_memalign(&memory, GB_BLOCK, table) != 0) {
            return -ENOMEM;
        }
        writer->table = memory;
        writer->table_capacity = table;
    }
    return 0;
}

static void note_failure(const struct goblin_writer *writer, struct gb_segment *segment,
                         uint64_t offset, int fault)
{
    gb_tally_add_shared(&writer->store->tally, GB_COUNT_write_errors, 1);
    gb_store_write_failed(writer->store, segment, offset, fault);
}

/* Waits until the block can be filled again. */
static int wait_block(struct goblin_writer *writer, struct block *block)
{
    while (block->in_flight) {
        struct gb_event event;
        int n = writer->queue->io->ops->queue_reap(writer->queue, &event, 1, -1);
        if (n < 0) {
            return n;
        }
        if (n == 1) {
            struct block *done = event.tag;
            done->in_flight = false;
            if (event.result < 0) {
                note_failure(writer, done->segment, done->offset, event.result);
                return event.result;
            }
        }
    }
    return 0;
}

static int write_out(struct goblin_writer *writer, struct block *block, uint64_t offset,
                     uint32_t len)
{
    const struct gb_operation write = {
        .op = GB_OP_WRITE,
        .file = writer->room.segment->file,
        .buffer = block->data,
        .len = len,
        .offset = offset,
        .tag = block,
    };
    const struct gb_io_ops *ops = writer->queue->io->ops;
    int rc = ops->queue_prepare(writer->queue, &write);
    if (rc == 0) {
        rc = ops->queue_submit(writer->queue);
        block->in_flight = true;
        block->segment = writer->room.segment;
        block->offset = offset;
    }
    gb_store_count_write(writer->store, len);
    return rc < 0 ? rc : 0;
}

/* Adds the open extent to the list. */
static int note_extent(struct goblin_writer *writer)
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
    writer->room.segment = NULL;
    return 0;
}

/* The last hand-over takes the table along in the same write if the block has room for it. */
static bool table_fits(const struct goblin_writer *writer, uint32_t len)
{
    uint64_t units = gb_units(writer->room_used + len);
    return gb_align_up(gb_align_up(len, 8) + units * GB_SUM_SIZE, GB_BLOCK) <= writer->block_bytes;
}

static int hand_over_last(struct goblin_writer *writer)
{
    struct block *block = &writer->blocks[writer->filling];
    struct gb_segment *segment = writer->room.segment;
    uint32_t len = writer->fill;
    uint64_t offset = writer->room.offset + writer->room_used;
    unsigned char *sums = writer->table + GB_BLOCK;
    gb_table_encode(block->data, len, segment->salt, offset,
                    sums + writer->room_used / GB_UNIT * GB_SUM_SIZE);
    writer->room_used += len;
    uint64_t sums_len = gb_units(writer->room_used) * GB_SUM_SIZE;
    uint32_t at = (uint32_t)gb_align_up(len, 8);
    uint32_t end = (uint32_t)gb_align_up(at + sums_len, GB_BLOCK);
    memset(block->data + len, 0, at - len);
    memcpy(block->data + at, sums, sums_len);
    memset(block->data + at + sums_len, 0, end - at - sums_len);
    writer->fill = 0;
    int rc = write_out(writer, block, offset, end);
    return rc < 0 ? rc : note_extent(writer);
}

/* Hands `len` bytes of the filling block to the open extent. Only the value's last hand-over is not
 * a multiple of the unit; its odd end waits in front of the table. */
static int hand_over(struct goblin_writer *writer, uint32_t len)
{
    struct block *block = &writer->blocks[writer->filling];
    struct gb_segment *segment = writer->room.segment;
    uint64_t offset = writer->room.offset + writer->room_used;
    unsigned char *sums = writer->table + GB_BLOCK + writer->room_used / GB_UNIT * GB_SUM_SIZE;
    gb_table_encode(block->data, len, segment->salt, offset, sums);
    uint32_t odd = len % GB_BLOCK;
    if (odd > 0) {
        memcpy(writer->table, block->data + len - odd, odd);
    }
    writer->room_used += len;
    int rc = len > odd ? write_out(writer, block, offset, len - odd) : 0;
    /* What was not taken moves to the other block. */
    struct block *other = &writer->blocks[1 - writer->filling];
    if (rc == 0) {
        rc = wait_block(writer, other);
    }
    if (rc == 0) {
        memcpy(other->data, block->data + len, writer->fill - len);
        writer->fill -= len;
        writer->filling = 1 - writer->filling;
    }
    return rc;
}

/* Writes the table behind the payload and notes the extent. */
static int close_extent(struct goblin_writer *writer)
{
    struct gb_segment *segment = writer->room.segment;
    if (segment == NULL) {
        return 0;
    }
    const struct gb_io_ops *ops = writer->store->io->ops;
    uint64_t end = writer->room.offset + writer->room_used;
    uint32_t odd = (uint32_t)(writer->room_used % GB_BLOCK);
    uint64_t sums_len = gb_units(writer->room_used) * GB_SUM_SIZE;
    /* [odd end of the payload | pad to 8 | sums | pad]: move the sums up against it. */
    uint32_t at = (uint32_t)gb_align_up(odd, 8);
    memset(writer->table + odd, 0, at - odd);
    memmove(writer->table + at, writer->table + GB_BLOCK, sums_len);
    uint64_t len = gb_align_up(at + sums_len, GB_BLOCK);
    memset(writer->table + at + sums_len, 0, len - at - sums_len);
    int64_t n = ops->file_write(segment->file, writer->table, len, end - odd);
    int rc = n < 0 ? (int)n : 0;
    if (rc < 0) {
        note_failure(writer, segment, end - odd, rc);
    }
    gb_store_count_write(writer->store, len);
    int noted = note_extent(writer);
    return rc < 0 ? rc : noted;
}

/* Empties the filling block as far as whole units go; with `last`, entirely. */
static int drain(struct goblin_writer *writer, bool last)
{
    int rc = 0;
    while (rc == 0 && writer->fill > 0) {
        if (writer->room.segment == NULL) {
            rc = open_extent(writer);
            if (rc < 0) {
                return rc;
            }
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
            rc = close_extent(writer);
        }
    }
    return rc;
}

/* ---- write --------------------------------------------------------------------------------- */

int goblin_writer_write(struct goblin_writer *writer, const void *data, size_t len)
{
    if (writer->fault < 0) {
        return writer->fault;
    }
    if (writer->announced != GOBLIN_SIZE_UNKNOWN && len > writer->announced - writer->taken) {
        writer->fault = GOBLIN_ESIZE;
        return writer->fault;
    }
    if (len > 0 && writer->head_len < writer->head_capacity) {
        uint32_t n = (uint32_t)gb_min(len, writer->head_capacity - writer->head_len);
        memcpy(writer->head + writer->head_len, data, n);
        writer->head_len += n;
    }
    const unsigned char *from = data;
    while (len > 0) {
        uint32_t n = (uint32_t)gb_min(len, writer->block_bytes - writer->fill);
        memcpy(writer->blocks[writer->filling].data + writer->fill, from, n);
        writer->fill += n;
        writer->taken += n;
        from += n;
        len -= n;
        if (writer->fill == writer->block_bytes) {
            writer->fault = drain(writer, false);
            if (writer->fault < 0) {
                return writer->fault;
            }
        }
    }
    return GOBLIN_OK;
}

/* ---- commit and abort ---------------------------------------------------------------------- */

/* Streams no longer hold their segments. */
static void let_go(struct goblin_writer *writer)
{
    struct goblin *store = writer->store;
    if (writer->room.segment != NULL) {
        atomic_fetch_sub(&store->streaming_bytes, writer->room.len);
        atomic_fetch_sub(&writer->room.segment->pending, 1);
        writer->room.segment = NULL;
    }
    for (uint32_t i = 0; i < writer->extent_count; i++) {
        struct gb_extent extent;
        int rc = gb_extent_decode(&extent, writer->extents + (size_t)i * GB_EXTENT_SIZE);
        GB_ASSERT(rc == 0);
        atomic_fetch_sub(&store->streaming_bytes, extent.len);
        atomic_fetch_sub(&gb_segment_at(&store->segments, extent.place)->pending, 1);
    }
    gb_store_poke(store); /* footers may have waited for this */
}

/* The extents' bytes have come to the device: they are synced, or noted for whoever syncs next.
 * What was noted while the last of them were in flight may have been synced without them. */
static int settle_extents(struct goblin_writer *writer)
{
    bool sync =
        gb_put_durability(writer->store, writer->options.durability) == GOBLIN_DURABILITY_SYNCED;
    struct gb_segment *last = NULL;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < writer->extent_count; i++) {
        struct gb_extent extent;
        rc = gb_extent_decode(&extent, writer->extents + (size_t)i * GB_EXTENT_SIZE);
        GB_ASSERT(rc == 0);
        struct gb_segment *segment = gb_segment_at(&writer->store->segments, extent.place);
        rc = atomic_load(&segment->headless) ? -EIO : 0;
        if (rc == 0 && segment != last && sync) {
            rc = gb_segment_sync(&writer->store->segments, segment);
        } else if (rc == 0 && segment != last) {
            atomic_store(&segment->stream_dirty, true);
        }
        last = segment;
    }
    return rc;
}

/* All bytes on the device; when asked, synced, before the record that makes them count. */
static int finish_extents(struct goblin_writer *writer)
{
    int rc = drain(writer, true);
    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        rc = wait_block(writer, &writer->blocks[i]);
    }
    if (rc == 0) {
        rc = close_extent(writer);
    }
    return rc == 0 ? settle_extents(writer) : rc;
}

static int publish(struct goblin_writer *writer, bool extents, uint64_t *version)
{
    struct goblin *store = writer->store;
    struct gb_lane *lane = writer->lane;
    const unsigned char *inline_data = writer->blocks[writer->filling].data;
    struct gb_publication publication = {
        .lane = lane,
        .hash = writer->hash,
        .append =
            {
                .record = {.type = GB_RECORD_PUT,
                           .key_len = writer->key_len,
                           .meta_len = (uint16_t)writer->options.meta.len,
                           .marks = writer->options.marks,
                           .flags = writer->options.flags,
                           .version = writer->options.version,
                           .size = writer->taken,
                           .expires_ms = writer->options.expires_ms,
                           .extent_count = writer->extent_count},
                .key = writer->key,
                .parts = {extents ? writer->extents : inline_data},
                .part_len = {extents ? (size_t)writer->extent_count * GB_EXTENT_SIZE
                                     : writer->taken},
                .extents = writer->extents,
            },
        .options = &writer->options,
        .form = extents ? GB_FORM_EXTENTS : GB_FORM_DIRECT,
        .object_size = writer->taken,
        .resident_parts = {extents ? writer->head : inline_data},
        .resident_len = {extents ? writer->head_len : writer->taken},
    };
    gb_lane_lock(lane);
    int answer =
        extents ? gb_publish(store, &publication) : gb_admission_publish(store, &publication);
    gb_tally_add(&lane->tally, answer == GOBLIN_OK ? GB_COUNT_puts : GB_COUNT_puts_refused,
                 answer >= 0);
    gb_tally_add(&lane->tally, GB_COUNT_put_bytes, answer == GOBLIN_OK ? writer->taken : 0);
    gb_tally_add(&lane->tally, GB_COUNT_put_key_bytes, answer == GOBLIN_OK ? writer->key_len : 0);
    gb_lane_unlock(lane);
    if (version != NULL) {
        *version = publication.version;
    }
    int rc = 0;
    if (answer == GOBLIN_OK) {
        rc = gb_make_durable(store, lane, publication.serial, writer->options.durability);
    }
    return rc < 0 ? rc : answer;
}

int goblin_writer_commit(struct goblin_writer *writer, uint64_t *version)
{
    int rc = writer->fault;
    if (rc == 0 && writer->announced != GOBLIN_SIZE_UNKNOWN && writer->taken != writer->announced) {
        rc = GOBLIN_ESIZE;
    }
    bool extents = writer->queue != NULL || writer->taken > gb_lane_inline_max(writer->store);
    if (rc == 0 && extents) {
        rc = finish_extents(writer);
    }
    if (rc == 0) {
        rc = publish(writer, extents, version);
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)wait_block(writer, &writer->blocks[i]);
    }
    let_go(writer);
    destroy(writer);
    return rc;
}

void goblin_writer_abort(struct goblin_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)wait_block(writer, &writer->blocks[i]);
    }
    let_go(writer);
    destroy(writer);
}

/* ---- pieces that move ---------------------------------------------------------------------- */

int gb_writer_begin_move(struct goblin_writer **out, struct goblin *store, struct goblin_slice key,
                         uint64_t len)
{
    static const struct goblin_put_options none;
    struct buffers buffers = {.blocks = {NULL}};
    (void)gb_store_take_memory(store, &store->budget.write, store->options.head_bytes, UINT64_MAX);
    for (unsigned i = 0; i < 2; i++) {
        /* Whoever waits for disk may hold all that writers share. */
        buffers.blocks[i] = gb_pool_take_anyway(store);
    }
    if (buffers.blocks[0] == NULL || buffers.blocks[1] == NULL) {
        give_buffers(store, &buffers);
        return -ENOMEM;
    }
    int rc = begin(out, store, &buffers, key, len, &none);
    if (rc < 0) {
        return rc;
    }
    (*out)->moves = true;
    return 0;
}

int gb_writer_finish_move(struct goblin_writer *writer, const unsigned char **extents,
                          uint32_t *count)
{
    int rc = writer->fault < 0 ? writer->fault : finish_extents(writer);
    *extents = writer->extents;
    *count = writer->extent_count;
    return rc;
}

/* ---- large puts ---------------------------------------------------------------------------- */

static int put_streamed_once(struct goblin *store, struct goblin_slice key,
                             struct goblin_slice value, const struct goblin_put_options *options,
                             uint64_t *version)
{
    /* A put waits for its turn at the buffers rather than fail. */
    struct buffers buffers;
    while (!take_buffers(store, &buffers)) {
        const struct timespec pause = {.tv_nsec = 500000};
        (void)nanosleep(&pause, NULL);
    }
    struct goblin_writer *writer = NULL;
    int rc = begin(&writer, store, &buffers, key, value.len, options);
    if (rc < 0) {
        return rc;
    }
    rc = goblin_writer_write(writer, value.data, value.len);
    if (rc < 0) {
        goblin_writer_abort(writer);
        return rc;
    }
    return goblin_writer_commit(writer, version);
}

int gb_put_streamed(struct goblin *store, struct goblin_slice key, struct goblin_slice value,
                    const struct goblin_put_options *options, uint64_t *version)
{
    int rc = -EIO;
    uint64_t now = 0; /* set as soon as conditions have been judged: then it is not tried again */
    /* The segments that failed are abandoned by then, and after a few their drive is. */
    for (unsigned tries = 0; rc == -EIO && now == 0 && tries <= GB_DRIVE_FAILURES_MAX; tries++) {
        rc = put_streamed_once(store, key, value, options, &now);
    }
    if (version != NULL) {
        *version = now;
    }
    return rc;
}
