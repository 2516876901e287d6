/* The heads file. After one block of header, records back to back, 8-aligned:
 *
 *   0      4         8          12     16         24    32    32 + key_len
 *   | magic | key_len | resident | zero | sequence | sum | key | resident bytes | pad to 8
 *
 * The sum covers the first 24 bytes, the key and the bytes, seeded as a payload's unit with the
 * header's salt and the record's offset in the file. */
#include "engine/heads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/heads_codec.h"

#define NAME      "HEADS"
#define WINDOW    ((size_t)GB_MIB)
#define HOT_COUNT 4u /* accesses that make an object go in the first pass */

static int path_of(const struct goblin *store, char *path, size_t len)
{
    int n = snprintf(path, len, "%s/" NAME, store->heads_dir);
    return n > 0 && (size_t)n < len ? 0 : -ENAMETOOLONG;
}

static int open_file(const struct goblin *store, const char *path, unsigned flags,
                     struct gb_file **file)
{
    unsigned direct = store->options.caching == GOBLIN_CACHING_DIRECT ? GB_OPEN_DIRECT : 0u;
    int rc = store->io->ops->file_open(store->io, path, flags | direct, file);
    if (rc == -EINVAL && direct != 0) {
        rc = store->io->ops->file_open(store->io, path, flags, file);
    }
    return rc;
}

/* ---- a stream through one aligned window --------------------------------------------------- */

struct stream {
    struct goblin *store;
    struct gb_file *file;
    unsigned char *window;
    uint64_t offset; /* of window[0] */
    size_t len;      /* bytes in it */
    size_t at;       /* reading: the next one */
};

static int stream_init(struct stream *stream)
{
    void *window = NULL;
    if (posix_memalign(&window, GB_BLOCK, WINDOW) != 0) {
        return -ENOMEM;
    }
    stream->window = window;
    return 0;
}

static int write_window(struct stream *stream)
{
    size_t len = gb_align_up(stream->len, GB_BLOCK);
    memset(stream->window + stream->len, 0, len - stream->len);
    int64_t n =
        stream->file->io->ops->file_write(stream->file, stream->window, len, stream->offset);
    stream->offset += len;
    stream->len = 0;
    gb_store_count_write(stream->store, len);
    return n < 0 ? (int)n : 0;
}

static int stream_write(struct stream *stream, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        size_t n = gb_min(len, WINDOW - stream->len);
        memcpy(stream->window + stream->len, bytes, n);
        stream->len += n;
        bytes += n;
        len -= n;
        if (stream->len == WINDOW) {
            int rc = write_window(stream);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* 0, or -ENODATA at the end of the file. */
static int stream_read(struct stream *stream, unsigned char *to, size_t len)
{
    while (len > 0) {
        if (stream->at == stream->len) {
            stream->offset += stream->len;
            int64_t got = stream->file->io->ops->file_read(stream->file, stream->window, WINDOW,
                                                           stream->offset);
            if (got <= 0) {
                return got < 0 ? (int)got : -ENODATA;
            }
            stream->len = (size_t)got;
            gb_store_count_read(stream->store, stream->len);
            stream->at = 0;
        }
        size_t n = gb_min(len, stream->len - stream->at);
        memcpy(to, stream->window + stream->at, n);
        stream->at += n;
        to += n;
        len -= n;
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

struct dump {
    struct goblin *store;
    struct stream stream;
    uint64_t salt;
    uint64_t position;
    bool hot; /* this pass takes the hot ones */
    int fault;
};

static void dump_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct dump *dump = arg;
    uint32_t resident = gb_item_resident(item);
    uint32_t epoch = atomic_load_explicit(&dump->store->residency.epoch, memory_order_relaxed);
    uint8_t heat = atomic_load_explicit(&item->heat, memory_order_relaxed);
    if (dump->fault < 0 || resident == 0 || gb_item_ram_only(item) ||
        (gb_heat_count(heat, epoch) >= HOT_COUNT) != dump->hot) {
        return;
    }
    struct gb_head head = {
        .key_len = gb_item_key_len(item),
        .resident = resident,
        .sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed),
    };
    unsigned char encoded[GB_HEAD_SIZE];
    gb_head_encode(&head, item->key, gb_item_bytes(item), dump->salt, dump->position, encoded);
    uint64_t len = GB_HEAD_SIZE + head.key_len + resident;
    static const unsigned char zeros[8];
    dump->fault = stream_write(&dump->stream, encoded, sizeof(encoded));
    if (dump->fault == 0) {
        dump->fault = stream_write(&dump->stream, item->key, head.key_len);
    }
    if (dump->fault == 0) {
        dump->fault = stream_write(&dump->stream, gb_item_bytes(item), resident);
    }
    if (dump->fault == 0) {
        dump->fault = stream_write(&dump->stream, zeros, gb_align_up(len, 8) - len);
    }
    dump->position += gb_align_up(len, 8);
}

static int dump_all(struct dump *dump)
{
    unsigned char block[GB_BLOCK];
    gb_heads_header_encode(dump->store->segments.store_id, dump->salt, block);
    int rc = stream_write(&dump->stream, block, sizeof(block));
    dump->position = GB_BLOCK;
    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        dump->hot = i == 0;
        uint64_t cursor = 0;
        do {
            gb_index_scan_bucket(dump->store->index, &cursor, dump_item, dump);
        } while (cursor != 0 && dump->fault == 0);
        rc = dump->fault;
    }
    if (rc == 0 && dump->stream.len > 0) {
        rc = write_window(&dump->stream);
    }
    return rc;
}

int gb_heads_write(struct goblin *store, uint64_t salt)
{
    char path[4096];
    const struct gb_io_ops *ops = store->io->ops;
    struct dump dump = {.store = store, .stream = {.store = store}, .salt = salt};
    int rc = path_of(store, path, sizeof(path));
    if (rc == 0) {
        rc = stream_init(&dump.stream);
    }
    if (rc == 0) {
        rc = open_file(store, path, GB_OPEN_CREATE, &dump.stream.file);
    }
    if (rc == 0) {
        rc = ops->file_truncate(dump.stream.file, 0);
        rc = rc == 0 ? dump_all(&dump) : rc;
        atomic_store(&store->heads_bytes, dump.stream.offset);
        if (rc == 0) {
            rc = ops->file_sync(dump.stream.file);
            gb_store_count_sync(store);
        }
        ops->file_close(dump.stream.file);
    }
    free(dump.stream.window);
    if (rc < 0) {
        gb_store_log(store, GOBLIN_LOG_WARN,
                     "resident bytes could not be kept in %s (%s): the next open starts cold", path,
                     goblin_strerror(rc));
        (void)ops->unlink(store->io, path);
    }
    return rc;
}

void gb_heads_measure(struct goblin *store)
{
    char path[4096];
    struct gb_file *file = NULL;
    uint64_t bytes = 0;
    if (path_of(store, path, sizeof(path)) == 0 &&
        store->io->ops->file_open(store->io, path, GB_OPEN_READ_ONLY, &file) == 0) {
        if (store->io->ops->file_size(file, &bytes) == 0) {
            atomic_store(&store->heads_bytes, bytes);
        }
        store->io->ops->file_close(file);
    }
}

/* ---- loading ------------------------------------------------------------------------------- */

static int skip(struct stream *stream, uint64_t len)
{
    unsigned char sink[4096];
    int rc = 0;
    while (rc == 0 && len > 0) {
        size_t n = gb_min(len, sizeof(sink));
        rc = stream_read(stream, sink, n);
        len -= n;
    }
    return rc;
}

/* One record. 0: go on; negative: the end, or damage. */
static int load_one(struct goblin *store, struct stream *stream, uint64_t salt, uint64_t *position)
{
    unsigned char encoded[GB_HEAD_SIZE];
    unsigned char key[GOBLIN_KEY_MAX];
    struct gb_head head;
    int rc = stream_read(stream, encoded, sizeof(encoded));
    if (rc == 0 && gb_load_le32(encoded) == 0) {
        return -ENODATA; /* what fills the last block */
    }
    if (rc == 0) {
        rc = gb_head_decode(&head, encoded);
    }
    if (rc == 0) {
        rc = stream_read(stream, key, head.key_len);
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t len = GB_HEAD_SIZE + head.key_len + head.resident;
    uint64_t pad = gb_align_up(len, 8) - len;
    uint64_t offset = *position;
    *position += len + pad;
    struct gb_promotion promotion;
    const struct goblin_slice slice = {key, head.key_len};
    int room = gb_residency_restore(store, slice, head.sequence, head.resident, &promotion);
    if (room < 0) {
        return room; /* memory is full */
    }
    if (room == 0) {
        return skip(stream, head.resident + pad); /* gone, changed, or warm already */
    }
    unsigned char *bytes = gb_promotion_bytes(store, &promotion);
    rc = stream_read(stream, bytes, head.resident);
    if (rc == 0 && gb_head_sum(&head, key, bytes, salt, offset) != head.sum) {
        rc = GOBLIN_ECORRUPT;
    }
    if (rc < 0) {
        gb_residency_drop(store, &promotion);
        return rc;
    }
    gb_residency_finish(store, &promotion);
    return skip(stream, pad);
}

int gb_heads_load(struct goblin *store, uint64_t salt)
{
    char path[4096];
    struct stream stream = {.store = store};
    int rc = path_of(store, path, sizeof(path));
    if (rc == 0) {
        rc = stream_init(&stream);
    }
    if (rc == 0) {
        rc = open_file(store, path, GB_OPEN_READ_ONLY, &stream.file);
    }
    if (rc == 0) {
        unsigned char block[GB_BLOCK];
        rc = stream_read(&stream, block, sizeof(block));
        if (rc == 0) {
            rc = gb_heads_header_decode(store->segments.store_id, salt, block);
        }
        uint64_t position = GB_BLOCK;
        while (rc == 0 && !atomic_load(&store->keeper_stop)) {
            rc = load_one(store, &stream, salt, &position);
        }
        store->io->ops->file_close(stream.file);
    }
    free(stream.window);
    return rc;
}
