/*
 * The yardstick: the device and a bare copy with nothing in between.
 *
 * Population writes one file of as many bytes as the corpus, 1 MiB at a time with eight writes in
 * flight. A get copies the object's head out of an arena as large as the memory budget, then reads
 * as many bytes as its tail has from where the tail would lie, in the study's chunks with four
 * reads in flight. There is no index, no checksum, and the bytes are not the object's: what
 * another engine takes beyond this is its own cost.
 */
#include "bench/engine.h"
#include "bench/explain.h"

#include <liburing.h>

#include "base/rng.h"
#include "bench/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 4096,
    WRITE_BYTES = 1 << 20,
    WRITE_DEPTH = 8,
};

struct control {
    struct gb_engine_config config;
    struct io_uring ring;
    bool ring_ready;
    int fd;
    unsigned char *arena;   /* memory_bytes */
    unsigned char *buffers; /* for the writes, later for the chunks */
    uint64_t *tail_places;  /* by object number */
    uint64_t *head_places;
    uint64_t file_bytes;
    struct gb_engine_stats counted;
    unsigned char head[GB_ENGINE_HEAD_BYTES];
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t head_len(uint64_t size)
{
    return size < GB_ENGINE_HEAD_BYTES ? size : GB_ENGINE_HEAD_BYTES;
}

static int control_close(void *engine)
{
    struct control *control = engine;
    if (control->ring_ready) {
        io_uring_queue_exit(&control->ring);
    }
    if (control->fd >= 0) {
        close(control->fd);
    }
    if (control->arena) {
        munmap(control->arena, control->config.memory_bytes);
    }
    free(control->buffers);
    free(control->tail_places);
    free(control->head_places);
    free(control);
    return 0;
}

/* Lays heads out in the arena, beginning anew where they do not fit, and tails in the file. */
static void control_lay_out(struct control *control)
{
    uint64_t arena_used = 0;
    uint64_t memory = control->config.memory_bytes;
    for (uint64_t i = 0; i < control->config.objects; i++) {
        uint64_t size = control->config.size_of(control->config.size_arg, i);
        uint64_t head = (head_len(size) + 15) / 16 * 16;
        if (arena_used + head > memory) {
            arena_used = 0;
        }
        control->head_places[i] = arena_used;
        control->tail_places[i] = control->file_bytes;
        arena_used += head;
        control->file_bytes += round_up(size - head_len(size));
    }
    /* The same bytes as the corpus are written, heads too. */
    uint64_t whole = round_up(control->config.bytes);
    control->file_bytes = control->file_bytes > whole ? control->file_bytes : whole;
}

static int control_allocate(struct control *control)
{
    size_t count = control->config.objects;
    control->tail_places = calloc(count, sizeof(uint64_t));
    control->head_places = calloc(count, sizeof(uint64_t));
    control->buffers = aligned_alloc(ALIGNMENT, (size_t)WRITE_BYTES * WRITE_DEPTH);
    void *arena = mmap(NULL, control->config.memory_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    control->arena = arena == MAP_FAILED ? NULL : arena;
    if (!control->tail_places || !control->head_places || !control->buffers || !control->arena) {
        return -ENOMEM;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, 1);
    for (size_t i = 0; i < (size_t)WRITE_BYTES * WRITE_DEPTH; i += sizeof(uint64_t)) {
        uint64_t random = gb_rng_next(&rng);
        memcpy(control->buffers + i, &random, sizeof(random));
    }
    /* A page that was never written is one shared page of zeros, and faster than memory. */
    memset(control->arena, 0x5a, control->config.memory_bytes);
    return 0;
}

static int control_open(void **engine, const struct gb_engine_config *config,
                        enum gb_engine_phase phase, struct goblin_error *error)
{
    char path[PATH_MAX];
    int create = phase == GB_ENGINE_POPULATE ? O_CREAT : 0;
    struct control *control = calloc(1, sizeof(*control));
    if (!control) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    control->config = *config;
    control->fd = -1;
    int rc = control_allocate(control);
    if (rc == 0) {
        control_lay_out(control);
        rc = io_uring_queue_init(WRITE_DEPTH, &control->ring, 0);
        control->ring_ready = rc == 0;
    }
    if (rc == 0) {
        snprintf(path, sizeof(path), "%s/control", config->dir);
        control->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | create, 0644);
        rc = control->fd < 0 ? -errno : 0;
    }
    if (rc < 0) {
        gb_explain_set(error, "control: %s", strerror(-rc));
        control_close(control);
        return rc;
    }
    *engine = control;
    return 0;
}

static int control_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                       const struct gb_engine_value *value)
{
    (void)engine;
    (void)worker;
    (void)key;
    (void)value;
    return 0;
}

/* Waits for one completion; its buffer or chunk is *user. A short transfer is a fault. */
static int control_reap(struct control *control, uint64_t *user, unsigned *len)
{
    struct io_uring_cqe *completion = NULL;
    int rc = io_uring_wait_cqe(&control->ring, &completion);
    if (rc < 0) {
        return rc;
    }
    *user = io_uring_cqe_get_data64(completion);
    rc = completion->res < 0 ? completion->res : 0;
    *len = rc < 0 ? 0 : (unsigned)completion->res;
    io_uring_cqe_seen(&control->ring, completion);
    return rc;
}

static unsigned char *control_buffer(struct control *control, uint64_t number)
{
    return control->buffers + (size_t)number * WRITE_BYTES;
}

static int control_write_one(struct control *control, uint64_t buffer, uint64_t offset)
{
    uint64_t left = control->file_bytes - offset;
    unsigned len = left < WRITE_BYTES ? (unsigned)left : (unsigned)WRITE_BYTES;
    struct io_uring_sqe *entry = io_uring_get_sqe(&control->ring);
    /* Stamped, so that no device can take two blocks for one. */
    memcpy(control_buffer(control, buffer), &offset, sizeof(offset));
    io_uring_prep_write(entry, control->fd, control_buffer(control, buffer), len, offset);
    io_uring_sqe_set_data64(entry, buffer);
    control->counted.device_writes++;
    control->counted.device_write_bytes += len;
    int rc = io_uring_submit(&control->ring);
    return rc < 0 ? rc : 0;
}

static int control_barrier(void *engine, struct goblin_error *error)
{
    struct control *control = engine;
    int rc = posix_fallocate(control->fd, 0, (off_t)control->file_bytes);
    rc = rc > 0 ? -rc : 0;
    uint64_t offset = 0;
    unsigned flying = 0;
    while (rc == 0 && (offset < control->file_bytes || flying > 0)) {
        uint64_t buffer = flying;
        if (flying == WRITE_DEPTH || offset >= control->file_bytes) {
            unsigned len = 0;
            rc = control_reap(control, &buffer, &len);
            flying--;
        }
        if (rc == 0 && offset < control->file_bytes) {
            rc = control_write_one(control, buffer, offset);
            offset += WRITE_BYTES;
            flying++;
        }
    }
    if (rc == 0 && fdatasync(control->fd) < 0) {
        rc = -errno;
    }
    if (rc < 0) {
        gb_explain_set(error, "control: write: %s", strerror(-rc));
    }
    return rc;
}

/* ---- get: chunk n of a tail begins at chunk_offset(n) -------------------------------------- */

static uint64_t chunk_offset(uint64_t chunk)
{
    return chunk == 0 ? 0
                      : GB_ENGINE_FIRST_CHUNK_BYTES + (chunk - 1) * (uint64_t)GB_ENGINE_CHUNK_BYTES;
}

static unsigned chunk_len(uint64_t tail, uint64_t chunk)
{
    uint64_t end = chunk_offset(chunk + 1);
    return (unsigned)((end < tail ? end : tail) - chunk_offset(chunk));
}

static void control_prepare_read(struct control *control, uint64_t place, uint64_t tail,
                                 uint64_t chunk)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&control->ring);
    unsigned len = (unsigned)round_up(chunk_len(tail, chunk));
    io_uring_prep_read(entry, control->fd, control_buffer(control, chunk % GB_ENGINE_DEPTH), len,
                       place + chunk_offset(chunk));
    io_uring_sqe_set_data64(entry, chunk);
    control->counted.device_reads++;
    control->counted.device_read_bytes += len;
}

static int control_tail(struct control *control, uint64_t place, uint64_t tail,
                        const struct gb_engine_get *get)
{
    uint64_t next = 0;      /* chunk to read */
    uint64_t delivered = 0; /* chunks handed over, in order */
    bool ready[GB_ENGINE_DEPTH] = {false};
    while (chunk_offset(delivered) < tail) {
        while (next < delivered + GB_ENGINE_DEPTH && chunk_offset(next) < tail) {
            control_prepare_read(control, place, tail, next++);
        }
        uint64_t done = 0;
        unsigned len = 0;
        int rc = io_uring_submit(&control->ring);
        rc = rc < 0 ? rc : control_reap(control, &done, &len);
        if (rc < 0 || len < chunk_len(tail, done)) {
            return rc < 0 ? rc : -EIO;
        }
        ready[done % GB_ENGINE_DEPTH] = true;
        while (ready[delivered % GB_ENGINE_DEPTH]) {
            ready[delivered % GB_ENGINE_DEPTH] = false;
            get->chunk(get->arg, NULL, chunk_len(tail, delivered++));
        }
    }
    return GB_ENGINE_DISK;
}

static int control_get(void *engine, const struct gb_engine_get *get)
{
    struct control *control = engine;
    uint64_t number = get->key->number;
    uint64_t size = control->config.size_of(control->config.size_arg, number);
    uint64_t head = head_len(size);
    memcpy(control->head, control->arena + control->head_places[number], head);
    get->chunk(get->arg, NULL, head);
    if (head == size) {
        return GB_ENGINE_RAM;
    }
    return control_tail(control, control->tail_places[number], size - head, get);
}

static void ignore_chunk(void *arg, const void *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
}

static int control_probe(void *engine, uint64_t bytes, unsigned count, uint64_t seed,
                         double *mean_us)
{
    struct control *control = engine;
    if (round_up(bytes) > control->file_bytes) {
        return -ERANGE;
    }
    const struct gb_engine_get get = {.chunk = ignore_chunk};
    struct gb_engine_stats before = control->counted;
    uint64_t places = (control->file_bytes - round_up(bytes)) / ALIGNMENT + 1;
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    uint64_t spent_ns = 0;
    int rc = 0;
    for (unsigned i = 0; i < count && rc >= 0; i++) {
        uint64_t place = gb_rng_below(&rng, places) * ALIGNMENT;
        uint64_t started_ns = gb_progress_now_ns();
        rc = control_tail(control, place, bytes, &get);
        spent_ns += gb_progress_now_ns() - started_ns;
    }
    control->counted = before;
    *mean_us = count ? (double)spent_ns / count / 1e3 : 0;
    return rc < 0 ? rc : 0;
}

static void control_stats(void *engine, struct gb_engine_stats *stats)
{
    const struct control *control = engine;
    *stats = control->counted;
    stats->known = true;
}

const struct gb_engine_ops gb_engine_control = {
    .name = "control",
    .describe = "no engine: heads copied from an arena, tails read from a file, 1 MiB x 8 written",
    .disk_factor = 1.05,
    .open = control_open,
    .put = control_put,
    .barrier = control_barrier,
    .get = control_get,
    .probe = control_probe,
    .stats = control_stats,
    .close = control_close,
};
