/* Checkpoints: the index on disk, so that opening reads it instead of every summary; and beside a
 * clean one the resident bytes, hottest first. The file is written under another name, synced and
 * renamed, so it is whole or not there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "engine/heads.h"
#include "engine/recover.h"

#define CHUNK_TARGET (256 * GB_KIB)
#define COPIES       2u /* on as many drives; the loss of one then leaves one */

static int path_of(const struct gb_drive *drive, const char *suffix, char *path, size_t len)
{
    int n = snprintf(path, len, "%s/" GB_CHECKPOINT_NAME "%s", drive->dir, suffix);
    return n > 0 && (size_t)n < len ? 0 : -ENAMETOOLONG;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* A file that is being written. One that fails is given up, as long as another is left. */
struct copy {
    const struct gb_drive *drive;
    struct gb_file *file;
    int fault;
};

struct output {
    struct goblin *store;
    struct copy copies[COPIES];
    unsigned copy_count;
    uint64_t offset;
    uint64_t salt;
    uint64_t number; /* of the next chunk */
    enum gb_chunk_kind kind;
    uint64_t count;        /* elements in the chunk that gathers */
    unsigned char *buffer; /* chunk header, then body; write_locked frees it */
    size_t len;            /* of the body */
    size_t capacity;
    int fault;
};

/* 0 as long as one copy is whole, else the first one's fault. */
static int any_whole(const struct output *output)
{
    for (unsigned i = 0; i < output->copy_count; i++) {
        if (output->copies[i].fault >= 0) {
            return 0;
        }
    }
    return output->copies[0].fault;
}

static int put_bytes(struct output *output, const void *bytes, size_t len)
{
    for (unsigned i = 0; i < output->copy_count; i++) {
        struct copy *copy = &output->copies[i];
        if (copy->fault < 0) {
            continue;
        }
        int64_t n = copy->file->io->ops->file_write(copy->file, bytes, len, output->offset);
        copy->fault = n < 0 ? (int)n : 0;
        gb_store_count_write(output->store, len);
    }
    output->offset += len;
    return any_whole(output);
}

static void end_chunk(struct output *output)
{
    if (output->fault < 0 || (output->count == 0 && output->kind != GB_CHUNK_END)) {
        return;
    }
    struct gb_chunk_header header = {
        .kind = output->kind,
        .len = (uint32_t)output->len,
        .count = output->kind == GB_CHUNK_END ? output->number : output->count,
        .number = output->number,
    };
    gb_chunk_encode(&header, output->buffer + GB_CHUNK_HEADER, output->salt, output->buffer);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): write_locked frees the buffer */
    output->fault = put_bytes(output, output->buffer, GB_CHUNK_HEADER + output->len);
    output->number++;
    output->count = 0;
    output->len = 0;
}

static void end_full_chunk(struct output *output)
{
    if (output->len >= CHUNK_TARGET) {
        end_chunk(output);
    }
}

/* Room for `need` bytes in the chunk. Does no I/O: the caller may hold a lock. */
static unsigned char *room_for(struct output *output, size_t need)
{
    if (GB_CHUNK_HEADER + output->len + need > output->capacity) {
        size_t capacity = GB_CHUNK_HEADER + gb_max(CHUNK_TARGET, output->len + need);
        unsigned char *buffer = realloc(output->buffer, capacity);
        if (buffer == NULL) {
            output->fault = -ENOMEM;
            return NULL;
        }
        output->buffer = buffer;
        output->capacity = capacity;
    }
    return output->fault < 0 ? NULL : output->buffer + GB_CHUNK_HEADER + output->len;
}

static void write_segments(struct output *output)
{
    struct gb_segments *segments = &output->store->segments;
    output->kind = GB_CHUNK_SEGMENTS;
    (void)pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < segments->count; i++) {
        const struct gb_segment *segment = &segments->table[i];
        if (segment->status != GB_SEGMENT_SEALED) {
            continue;
        }
        unsigned char *to = room_for(output, GB_SEGMENT_STATE_SIZE);
        if (to == NULL) {
            break;
        }
        const struct gb_segment_state state = {
            .slot = i,
            .generation = segment->generation,
            .live_bytes = atomic_load(&segment->live_bytes),
            .used_bytes = segment->used_bytes,
        };
        gb_segment_state_encode(&state, to);
        output->len += GB_SEGMENT_STATE_SIZE;
        output->count++;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    end_chunk(output);
}

static void write_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct output *output = arg;
    if (gb_item_ram_only(item)) {
        return;
    }
    uint32_t side = gb_item_side_len(item);
    uint32_t list = side > 0 ? side - GB_EXTENTS_HEADER : 0;
    unsigned char *to = room_for(output, GB_ENTRY_MAX + list);
    if (to == NULL) {
        return;
    }
    uint64_t packed = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
    uint32_t epoch = atomic_load_explicit(&output->store->residency.epoch, memory_order_relaxed);
    uint8_t heat = atomic_load_explicit(&item->heat, memory_order_relaxed);
    struct gb_entry entry = {
        .record = {.type = GB_RECORD_PUT,
                   .key_len = (uint16_t)gb_item_key_len(item),
                   .meta_len = (uint16_t)gb_meta_len_of(packed),
                   .extent_count = list / GB_EXTENT_SIZE,
                   .sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed),
                   .size = gb_item_size(item)},
        .key = item->key,
        .place = atomic_load_explicit(&item->place, memory_order_relaxed),
        .resident = gb_item_resident(item),
        .heat = (uint8_t)(gb_heat_count(heat, epoch) << 4), /* as of epoch 0 */
    };
    gb_item_tell(item, &entry.record);
    size_t n = gb_entry_encode(&entry, to);
    memcpy(to + n, item->key + entry.record.key_len + GB_EXTENTS_HEADER, list);
    output->len += n + list;
    output->count++;
}

static int write_file(struct output *output, bool clean, bool heads)
{
    struct goblin *store = output->store;
    unsigned char block[GB_BLOCK];
    struct gb_checkpoint_head head = {
        .sequence = atomic_load(&store->sequence),
        .salt = output->salt,
        .epoch = store->epoch,
        .clean = clean,
        .heads = heads,
    };
    memcpy(head.store_id, store->segments.store_id, sizeof(head.store_id));
    gb_checkpoint_head_encode(&head, block);
    int rc = put_bytes(output, block, sizeof(block));
    if (rc < 0) {
        return rc;
    }
    write_segments(output);
    output->kind = GB_CHUNK_OBJECTS;
    uint64_t cursor = 0;
    do {
        gb_index_scan_bucket(store->index, &cursor, write_item, output);
        end_full_chunk(output);
    } while (cursor != 0 && output->fault == 0);
    end_chunk(output);
    output->kind = GB_CHUNK_END;
    if (output->fault == 0 && room_for(output, 8) != NULL) {
        end_chunk(output);
    }
    return output->fault;
}

static int open_copy(struct goblin *store, struct copy *copy)
{
    char path[4096];
    int rc = path_of(copy->drive, GB_CHECKPOINT_NEW, path, sizeof(path));
    if (rc == 0) {
        rc = store->io->ops->file_open(store->io, path, GB_OPEN_CREATE, &copy->file);
    }
    return rc == 0 ? store->io->ops->file_truncate(copy->file, 0) : rc;
}

/* Under its own name from here on. */
static int finish_copy(struct goblin *store, struct copy *copy)
{
    char path[4096];
    char path_new[4096];
    const struct gb_io_ops *ops = store->io->ops;
    int rc = copy->fault;
    if (rc >= 0) {
        rc = ops->file_sync(copy->file);
        gb_store_count_sync(store);
    }
    if (copy->file != NULL) {
        (void)ops->file_advise_away(copy->file);
        ops->file_close(copy->file);
        copy->file = NULL;
    }
    rc = rc < 0 ? rc : path_of(copy->drive, "", path, sizeof(path));
    rc = rc < 0 ? rc : path_of(copy->drive, GB_CHECKPOINT_NEW, path_new, sizeof(path_new));
    rc = rc < 0 ? rc : ops->rename(store->io, path_new, path);
    return rc < 0 ? rc : ops->sync_dir(store->io, copy->drive->dir);
}

static void begin_copies(struct output *output)
{
    struct goblin *store = output->store;
    for (unsigned i = 0; i < store->drive_count && output->copy_count < COPIES; i++) {
        if (!store->drives[i].missing) {
            struct copy *copy = &output->copies[output->copy_count++];
            *copy = (struct copy){.drive = &store->drives[i]};
            copy->fault = open_copy(store, copy);
        }
    }
}

/* Copies of an older time on other drives are of no use any more. */
static void drop_others(const struct output *output)
{
    struct goblin *store = output->store;
    for (unsigned i = 0; i < store->drive_count; i++) {
        const struct gb_drive *drive = &store->drives[i];
        bool written = false;
        for (unsigned c = 0; c < output->copy_count; c++) {
            written |= output->copies[c].drive == drive;
        }
        char path[4096];
        if (!written && !drive->missing && path_of(drive, "", path, sizeof(path)) == 0) {
            (void)store->io->ops->unlink(store->io, path); /* it loses against a newer one anyway */
        }
    }
}

static int end_copies(struct output *output)
{
    for (unsigned i = 0; i < output->copy_count; i++) {
        struct copy *copy = &output->copies[i];
        copy->fault = finish_copy(output->store, copy);
        if (copy->fault < 0) {
            gb_store_log(output->store, GOBLIN_LOG_ERROR, "checkpoint in %s failed: %s",
                         copy->drive->dir, goblin_strerror(copy->fault));
        }
    }
    drop_others(output);
    return any_whole(output);
}

static int write_locked(struct goblin *store, enum gb_checkpoint_kind kind)
{
    struct output output = {.store = store};
    if (getrandom(&output.salt, sizeof(output.salt), 0) != sizeof(output.salt)) {
        return -EIO;
    }
    bool heads = kind == GB_CHECKPOINT_CLEAN && store->heads_dir != NULL &&
                 gb_heads_write(store, output.salt) == 0;
    begin_copies(&output);
    int rc = any_whole(&output);
    if (rc == 0) {
        rc = write_file(&output, kind != GB_CHECKPOINT_RUNNING, heads);
    }
    /* What the entries name must be as safe as they are. */
    if (rc == 0) {
        rc = goblin_sync(store);
    }
    for (unsigned i = 0; rc < 0 && i < output.copy_count; i++) {
        output.copies[i].fault = output.copies[i].fault < 0 ? output.copies[i].fault : rc;
    }
    free(output.buffer);
    rc = end_copies(&output);
    if (rc >= 0) {
        uint64_t copies = 0;
        for (unsigned i = 0; i < output.copy_count; i++) {
            copies += output.copies[i].fault >= 0;
        }
        atomic_store(&store->checkpoint_bytes, copies * output.offset);
        gb_tally_add_shared(&store->tally, GB_COUNT_checkpoints, 1);
    }
    return rc;
}

int gb_checkpoint_write(struct goblin *store, enum gb_checkpoint_kind kind)
{
    (void)pthread_mutex_lock(&store->checkpoint_lock);
    int rc = write_locked(store, kind);
    (void)pthread_mutex_unlock(&store->checkpoint_lock);
    return rc < 0 ? rc : 0;
}

int goblin_checkpoint(struct goblin *store)
{
    if (store->options.read_only) {
        return -EROFS;
    }
    int rc = gb_checkpoint_write(store, GB_CHECKPOINT_RUNNING);
    return rc < 0 ? rc : GOBLIN_OK;
}

/* ---- loading ------------------------------------------------------------------------------- */

struct input {
    struct goblin *store;
    struct gb_file *file;
    uint64_t offset;
    struct gb_checkpoint_head head;
    bool *covered;
    unsigned char *body;
    size_t capacity;
};

static int read_all(struct input *input, void *to, size_t len)
{
    int64_t n = input->file->io->ops->file_read(input->file, to, len, input->offset);
    if (n < 0) {
        return (int)n;
    }
    input->offset += len;
    gb_store_count_read(input->store, (uint64_t)n);
    return (size_t)n == len ? 0 : GOBLIN_ECORRUPT;
}

static int read_chunk(struct input *input, uint64_t number, struct gb_chunk_header *header)
{
    unsigned char encoded[GB_CHUNK_HEADER];
    int rc = read_all(input, encoded, sizeof(encoded));
    if (rc == 0) {
        rc = gb_chunk_decode(header, encoded);
    }
    if (rc != 0 || header->number != number) {
        return rc < 0 ? rc : GOBLIN_ECORRUPT;
    }
    if (header->len > input->capacity || input->body == NULL) {
        unsigned char *body = realloc(input->body, header->len + 1u);
        if (body == NULL) {
            return -ENOMEM;
        }
        input->body = body;
        input->capacity = header->len;
    }
    rc = read_all(input, input->body, header->len);
    if (rc == 0 && !gb_chunk_verify(header, input->body, input->head.salt)) {
        rc = GOBLIN_ECORRUPT;
    }
    return rc;
}

static int take_segments(struct input *input, const struct gb_chunk_header *header)
{
    struct gb_segments *segments = &input->store->segments;
    if (header->count * GB_SEGMENT_STATE_SIZE != header->len) {
        return GOBLIN_ECORRUPT;
    }
    for (uint64_t i = 0; i < header->count; i++) {
        struct gb_segment_state state;
        int rc = gb_segment_state_decode(&state, input->body + i * GB_SEGMENT_STATE_SIZE);
        if (rc < 0 || state.slot >= segments->count) {
            return GOBLIN_ECORRUPT;
        }
        struct gb_segment *segment = &segments->table[state.slot];
        segment->named = true;
        segment->held = state.live_bytes > 0;
        if (segment->status == GB_SEGMENT_SEALED && segment->generation == state.generation) {
            input->covered[state.slot] = true;
            segment->used_bytes = state.used_bytes;
            /* How much of it are records is not told; the rest is little. */
            atomic_store(&segment->laid_bytes, state.used_bytes - state.used_bytes / 32);
        }
    }
    return 0;
}

static int take_objects(struct input *input, const struct gb_chunk_header *header)
{
    size_t at = 0;
    for (uint64_t i = 0; i < header->count; i++) {
        struct gb_entry entry;
        int n = gb_entry_decode(&entry, input->body + at, header->len - at);
        if (n < 0) {
            return n;
        }
        at += (size_t)n;
        size_t list = (size_t)entry.record.extent_count * GB_EXTENT_SIZE;
        if (entry.record.type != GB_RECORD_PUT || list > header->len - at ||
            gb_place_slot(entry.place) >= input->store->segments.count) {
            return GOBLIN_ECORRUPT;
        }
        const unsigned char *extents = list > 0 ? input->body + at : NULL;
        at += list;
        if (!input->covered[gb_place_slot(entry.place)]) {
            (void)gb_absent_note(input->store, gb_place_slot(entry.place));
            continue; /* its segment is gone, or is replayed */
        }
        int rc = gb_recover_object(input->store, &entry, extents);
        if (rc < 0) {
            return rc;
        }
    }
    return at == header->len ? 0 : GOBLIN_ECORRUPT;
}

/* One pass over the chunks: verifying only, or taking them in. */
static int pass(struct input *input, bool take)
{
    input->offset = GB_BLOCK;
    for (uint64_t number = 0;; number++) {
        struct gb_chunk_header header;
        int rc = read_chunk(input, number, &header);
        if (rc < 0) {
            return rc;
        }
        if (header.kind == GB_CHUNK_END) {
            return header.count == number ? 0 : GOBLIN_ECORRUPT;
        }
        if (take && header.kind == GB_CHUNK_SEGMENTS) {
            rc = take_segments(input, &header);
        } else if (take && header.kind == GB_CHUNK_OBJECTS) {
            rc = take_objects(input, &header);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

/* Opens a drive's checkpoint and reads its head. */
static int open_input(struct input *input, const struct gb_drive *drive)
{
    struct goblin *store = input->store;
    char path[4096];
    unsigned char block[GB_BLOCK];
    input->offset = 0;
    int rc = path_of(drive, "", path, sizeof(path));
    if (rc == 0) {
        rc = store->io->ops->file_open(store->io, path, GB_OPEN_READ_ONLY, &input->file);
    }
    if (rc == 0) {
        GB_ASSERT(input->file != NULL);
        rc = read_all(input, block, sizeof(block));
    }
    if (rc == 0) {
        rc = gb_checkpoint_head_decode(&input->head, block);
    }
    if (rc == 0 &&
        memcmp(input->head.store_id, store->segments.store_id, sizeof(input->head.store_id)) != 0) {
        rc = GOBLIN_EIDENTITY;
    }
    if (rc == 0 && input->head.sequence < drive->identity.floor) {
        rc = -ENOENT; /* of before something was lost: a crash may leave one, and it is none */
    }
    return rc;
}

static void close_input(struct input *input)
{
    if (input->file != NULL) {
        (void)input->file->io->ops->file_advise_away(input->file);
        input->file->io->ops->file_close(input->file);
        input->file = NULL;
    }
}

/* 0: the drive's checkpoint is whole, of the sequence `least` or a later one; 1: of an earlier one,
 * and not looked at. */
static int examine(struct input *input, const struct gb_drive *drive, uint64_t least)
{
    uint64_t bytes = 0;
    int rc = open_input(input, drive);
    if (input->file == NULL) {
        return rc;
    }
    if (input->file->io->ops->file_size(input->file, &bytes) == 0) {
        atomic_fetch_add(&input->store->checkpoint_bytes, bytes);
    }
    if (rc == 0) {
        rc = input->head.sequence >= least ? pass(input, false) : 1;
    }
    close_input(input);
    return rc;
}

int gb_checkpoint_verify(struct goblin *store, const struct gb_drive *drive, uint64_t *offset)
{
    struct input input = {.store = store};
    int rc = examine(&input, drive, 0);
    *offset = input.offset;
    free(input.body);
    return rc;
}

/* The drive with the newest checkpoint that verifies as a whole; NULL: none. *rc is what was wrong
 * with another one, or -ENOENT. */
static const struct gb_drive *find_newest(struct input *input, int *rc)
{
    const struct goblin *store = input->store;
    const struct gb_drive *newest = NULL;
    uint64_t least = 0;
    *rc = -ENOENT;
    for (unsigned i = 0; i < store->drive_count; i++) {
        const struct gb_drive *drive = &store->drives[i];
        int found = drive->missing ? -ENOENT : examine(input, drive, least);
        if (found == 0) {
            newest = drive;
            least = input->head.sequence + 1;
        }
        *rc = found < 0 && found != -ENOENT ? found : *rc;
    }
    return newest;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through `input` */
int gb_checkpoint_load(struct goblin *store, bool *covered, bool *exact)
{
    struct input input = {.store = store, .covered = covered};
    int rc = 0;
    const struct gb_drive *drive = find_newest(&input, &rc);
    if (drive != NULL) {
        if (rc != -ENOENT) {
            gb_store_log(store, GOBLIN_LOG_WARN, "a checkpoint is damaged (%s): a copy does",
                         goblin_strerror(rc));
        }
        /* Verified whole before any of it counts. */
        rc = open_input(&input, drive);
        rc = rc == 0 ? pass(&input, true) : rc;
    }
    if (rc == 0) {
        atomic_store(&store->sequence, gb_max(atomic_load(&store->sequence), input.head.sequence));
        store->heads_salt = input.head.heads ? input.head.salt : 0;
        /* An odd epoch is one that drives went through together, before anything was written. */
        *exact |=
            input.head.clean &&
            input.head.epoch + (store->drive_count > 1 && store->epoch % 2 == 1) >= store->epoch;
    }
    close_input(&input);
    free(input.body);
    return rc;
}
