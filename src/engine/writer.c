/*
 * The streaming writer. A value that ends within its first block is published like a put. A larger
 * one goes into extents (writer_extents.c); at commit one PUT record lists them.
 */
#include <goblin/writer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "engine/put.h"
#include "engine/writer_internal.h"

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
    writer->claim = GB_CLAIM_PLAIN;
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
            writer->fault = gb_writer_drain(writer, false);
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
    gb_writer_leave_room(writer);
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
        if (segment != last && sync) {
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
    int rc = gb_writer_drain(writer, true);
    rc = rc == 0 ? gb_writer_close_extent(writer) : rc;
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
    (void)gb_writer_wait(writer);
    let_go(writer);
    destroy(writer);
    return rc;
}

void goblin_writer_abort(struct goblin_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    (void)gb_writer_wait(writer);
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
    (*out)->claim = GB_CLAIM_MOVE;
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
