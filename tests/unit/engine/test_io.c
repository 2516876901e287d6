/* The contract of engine/io.h, held against every backend in turn. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "engine/io.h"
#include "sim/simdisk.h"

#define BIG_DEPTH 600u

struct fixture {
    struct gb_io *io;
    const struct gb_io_ops *ops;
    char dir[128];
    char path[256];
};

static const char *path_in(struct fixture *fx, const char *name)
{
    snprintf(fx->path, sizeof(fx->path), "%s/%s", fx->dir, name);
    return fx->path;
}

static struct gb_file *open_new(struct fixture *fx, const char *name)
{
    struct gb_file *file;
    assert_int_equal(
        fx->ops->file_open(fx->io, path_in(fx, name), GB_OPEN_CREATE | GB_OPEN_EXCLUSIVE, &file),
        0);
    return file;
}

static struct gb_queue *new_queue(struct fixture *fx, unsigned depth)
{
    struct gb_queue *queue;
    assert_int_equal(fx->ops->queue_create(fx->io, depth, &queue), 0);
    return queue;
}

static void fill(unsigned char *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (unsigned char)(seed >> 56);
    }
}

static void prepare(struct fixture *fx, struct gb_queue *queue, enum gb_op op, struct gb_file *file,
                    unsigned char *buffer, uint64_t range[2])
{
    struct gb_operation operation = {op, file, buffer, (uint32_t)range[1], range[0], buffer};
    assert_int_equal(fx->ops->queue_prepare(queue, &operation), 0);
}

/* Carries out one operation whose tag is its buffer. */
static int32_t run(struct fixture *fx, struct gb_queue *queue, enum gb_op op, struct gb_file *file,
                   unsigned char *buffer, uint64_t range[2])
{
    prepare(fx, queue, op, file, buffer, range);
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    struct gb_event event;
    assert_int_equal(fx->ops->queue_reap(queue, &event, 1, -1), 1);
    assert_ptr_equal(event.tag, buffer);
    return event.result;
}

#define RANGE(offset, len) ((uint64_t[2]){offset, len})

/* ---- files --------------------------------------------------------------------------------- */

static void file_open__refuses_an_absent_file(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file;
    assert_int_equal(fx->ops->file_open(fx->io, path_in(fx, "absent"), 0, &file), -ENOENT);
    assert_int_equal(fx->ops->file_open(fx->io, path_in(fx, "no/such/dir"), GB_OPEN_CREATE, &file),
                     -ENOENT);
}

static void file_open__exclusive_refuses_a_present_file(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "once");
    struct gb_file *other;
    assert_int_equal(
        fx->ops->file_open(fx->io, path_in(fx, "once"), GB_OPEN_CREATE | GB_OPEN_EXCLUSIVE, &other),
        -EEXIST);
    assert_int_equal(fx->ops->file_open(fx->io, path_in(fx, "once"), GB_OPEN_CREATE, &other), 0);
    fx->ops->file_close(other);
    fx->ops->file_close(file);
}

static void file_open__read_only_refuses_writes(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "read_only");
    assert_int_equal(fx->ops->file_write(file, "bytes", 5, 0), 5);
    fx->ops->file_close(file);
    assert_int_equal(fx->ops->file_open(fx->io, fx->path, GB_OPEN_READ_ONLY, &file), 0);
    unsigned char buffer[8] = {0};
    assert_int_equal(fx->ops->file_write(file, "other", 5, 0), -EBADF);
    assert_int_equal(fx->ops->file_read(file, buffer, 8, 0), 5);
    assert_memory_equal(buffer, "bytes", 5);
    struct gb_queue *queue = new_queue(fx, 1);
    assert_int_equal(run(fx, queue, GB_OP_WRITE, file, buffer, RANGE(0, 5)), -EBADF);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static void file_read__is_short_only_at_the_end(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "short");
    unsigned char written[10000];
    unsigned char buffer[12000];
    fill(written, sizeof(written), 1);
    assert_int_equal(fx->ops->file_write(file, written, sizeof(written), 500), 10000);
    uint64_t size = 0;
    assert_int_equal(fx->ops->file_size(file, &size), 0);
    assert_int_equal(size, 10500);
    assert_int_equal(fx->ops->file_read(file, buffer, 12000, 0), 10500);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(buffer[i], 0);
    }
    assert_memory_equal(buffer + 500, written, sizeof(written));
    assert_int_equal(fx->ops->file_read(file, buffer, 100, 10450), 50);
    assert_int_equal(fx->ops->file_read(file, buffer, 100, 10500), 0);
    assert_int_equal(fx->ops->file_read(file, buffer, 100, 1 << 20), 0);
    fx->ops->file_close(file);
}

static void file_allocate__grows_and_keeps_the_bytes(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "allocated");
    assert_int_equal(fx->ops->file_write(file, "head", 4, 0), 4);
    assert_in_range(fx->ops->file_allocate(file, 1 << 20), 0, 1);
    uint64_t size = 0;
    assert_int_equal(fx->ops->file_size(file, &size), 0);
    assert_int_equal(size, 1 << 20);
    assert_in_range(fx->ops->file_allocate(file, 4096), 0, 1);
    assert_in_range(fx->ops->file_allocate(file, 0), 0, 1);
    assert_int_equal(fx->ops->file_size(file, &size), 0);
    assert_int_equal(size, 1 << 20);
    unsigned char buffer[8];
    assert_int_equal(fx->ops->file_read(file, buffer, 8, 0), 8);
    assert_memory_equal(buffer, "head\0\0\0\0", 8);
    assert_int_equal(fx->ops->file_read(file, buffer, 8, (1 << 20) - 8), 8);
    assert_memory_equal(buffer, "\0\0\0\0\0\0\0\0", 8);
    fx->ops->file_close(file);
}

static void file_truncate__cuts_and_grows_with_zeros(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "truncated");
    unsigned char buffer[9000];
    memset(buffer, 0xee, sizeof(buffer));
    assert_int_equal(fx->ops->file_write(file, buffer, sizeof(buffer), 0), 9000);
    assert_int_equal(fx->ops->file_truncate(file, 5000), 0);
    assert_int_equal(fx->ops->file_read(file, buffer, sizeof(buffer), 0), 5000);
    assert_int_equal(fx->ops->file_truncate(file, 9000), 0);
    assert_int_equal(fx->ops->file_read(file, buffer, sizeof(buffer), 0), 9000);
    assert_int_equal(buffer[4999], 0xee);
    for (unsigned i = 5000; i < 9000; i++) {
        assert_int_equal(buffer[i], 0);
    }
    assert_int_equal(fx->ops->file_sync(file), 0);
    assert_int_equal(fx->ops->file_advise_away(file), 0);
    fx->ops->file_close(file);
}

static void file_lock__excludes_until_close(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *first = open_new(fx, "locked");
    struct gb_file *second;
    struct gb_file *third;
    assert_int_equal(fx->ops->file_open(fx->io, fx->path, 0, &second), 0);
    assert_int_equal(fx->ops->file_open(fx->io, fx->path, GB_OPEN_READ_ONLY, &third), 0);
    assert_int_equal(fx->ops->file_lock(first, false), 0);
    assert_int_equal(fx->ops->file_lock(first, false), 0);
    assert_int_equal(fx->ops->file_lock(second, false), -EWOULDBLOCK);
    assert_int_equal(fx->ops->file_lock(second, true), -EWOULDBLOCK);
    fx->ops->file_close(first);
    assert_int_equal(fx->ops->file_lock(second, true), 0);
    assert_int_equal(fx->ops->file_lock(third, true), 0);
    assert_int_equal(fx->ops->file_lock(third, false), -EWOULDBLOCK);
    fx->ops->file_close(second);
    assert_int_equal(fx->ops->file_lock(third, false), 0);
    fx->ops->file_close(third);
}

static void file_direct__reads_and_writes_aligned_ranges(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "direct");
    struct gb_alignment alignment;
    assert_int_equal(fx->ops->file_alignment(file, &alignment), 0);
    assert_int_equal(alignment.memory, 1);
    assert_int_equal(alignment.offset, 1);
    fx->ops->file_close(file);
    int rc = fx->ops->file_open(fx->io, fx->path, GB_OPEN_DIRECT, &file);
    if (rc == -EINVAL) {
        print_message("direct I/O refused by the file system, skipped\n");
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(fx->ops->file_alignment(file, &alignment), 0);
    assert_true(gb_is_power_of_two(alignment.memory) && alignment.memory <= 65536);
    assert_true(gb_is_power_of_two(alignment.offset) && alignment.offset <= 65536);
    unsigned char *buffer = aligned_alloc(65536, 65536);
    unsigned char *expected = malloc(65536);
    assert_true(buffer != NULL && expected != NULL);
    fill(expected, 65536, 2);
    memcpy(buffer, expected, 65536);
    assert_int_equal(fx->ops->file_write(file, buffer, 65536, 65536), 65536);
    memset(buffer, 0, 65536);
    struct gb_queue *queue = new_queue(fx, 1);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(65536, 65536)), 65536);
    assert_memory_equal(buffer, expected, 65536);
    /* An end that no direct read may start from. */
    assert_int_equal(fx->ops->file_truncate(file, 65536 + 1000), 0);
    assert_int_equal(fx->ops->file_read(file, buffer, 65536, 65536), 1000);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(65536, 65536)), 1000);
    fx->ops->queue_destroy(queue);
    free(buffer);
    free(expected);
    fx->ops->file_close(file);
}

/* ---- names --------------------------------------------------------------------------------- */

static void rename__replaces_the_target(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "old_name");
    assert_int_equal(fx->ops->file_write(file, "new", 3, 0), 3);
    struct gb_file *target = open_new(fx, "new_name");
    assert_int_equal(fx->ops->file_write(target, "old bytes", 9, 0), 9);
    char from[256];
    snprintf(from, sizeof(from), "%s/old_name", fx->dir);
    assert_int_equal(fx->ops->rename(fx->io, from, path_in(fx, "new_name")), 0);
    assert_int_equal(fx->ops->sync_dir(fx->io, fx->dir), 0);
    assert_int_equal(fx->ops->rename(fx->io, from, fx->path), -ENOENT);
    unsigned char buffer[16];
    assert_int_equal(fx->ops->file_read(target, buffer, 16, 0), 9);
    fx->ops->file_close(file);
    assert_int_equal(fx->ops->file_open(fx->io, fx->path, 0, &file), 0);
    assert_int_equal(fx->ops->file_read(file, buffer, 16, 0), 3);
    fx->ops->file_close(file);
    fx->ops->file_close(target);
}

static void unlink__leaves_open_files_usable(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "unlinked");
    assert_int_equal(fx->ops->file_write(file, "bytes", 5, 0), 5);
    assert_int_equal(fx->ops->unlink(fx->io, fx->path), 0);
    assert_int_equal(fx->ops->unlink(fx->io, fx->path), -ENOENT);
    struct gb_file *other;
    assert_int_equal(fx->ops->file_open(fx->io, fx->path, 0, &other), -ENOENT);
    unsigned char buffer[8];
    assert_int_equal(fx->ops->file_read(file, buffer, 8, 0), 5);
    fx->ops->file_close(file);
}

struct listing {
    unsigned count;
    unsigned a;
    unsigned b;
    int answer;
};

static int visit(void *arg, const char *name)
{
    struct listing *listing = arg;
    listing->count++;
    listing->a += strcmp(name, "a") == 0;
    listing->b += strcmp(name, "b") == 0;
    return listing->answer;
}

static void list__names_what_a_directory_holds(void **state)
{
    struct fixture *fx = *state;
    assert_int_equal(fx->ops->make_dir(fx->io, path_in(fx, "dir")), 0);
    assert_int_equal(fx->ops->make_dir(fx->io, fx->path), -EEXIST);
    assert_int_equal(fx->ops->make_dir(fx->io, path_in(fx, "none/dir")), -ENOENT);
    assert_int_equal(fx->ops->make_dir(fx->io, path_in(fx, "dir/a")), 0);
    fx->ops->file_close(open_new(fx, "dir/b"));
    fx->ops->file_close(open_new(fx, "dir/a/deeper"));
    struct listing listing = {0};
    assert_int_equal(fx->ops->list(fx->io, path_in(fx, "dir"), visit, &listing), 0);
    assert_int_equal(listing.count, 2);
    assert_int_equal(listing.a, 1);
    assert_int_equal(listing.b, 1);
    listing = (struct listing){.answer = 7};
    assert_int_equal(fx->ops->list(fx->io, fx->path, visit, &listing), 7);
    assert_int_equal(listing.count, 1);
    assert_int_equal(fx->ops->list(fx->io, path_in(fx, "none"), visit, &listing), -ENOENT);
    assert_int_equal(fx->ops->sync_dir(fx->io, fx->path), -ENOENT);
}

static void free_space__is_known(void **state)
{
    struct fixture *fx = *state;
    uint64_t bytes = 0;
    assert_int_equal(fx->ops->free_space(fx->io, fx->dir, &bytes), 0);
    assert_true(bytes > 0);
    assert_int_equal(fx->ops->free_space(fx->io, path_in(fx, "none"), &bytes), -ENOENT);
}

/* ---- queues -------------------------------------------------------------------------------- */

static void queue_create__refuses_impossible_depths(void **state)
{
    struct fixture *fx = *state;
    struct gb_queue *queue;
    assert_int_equal(fx->ops->queue_create(fx->io, 0, &queue), -EINVAL);
    assert_int_equal(fx->ops->queue_create(fx->io, GB_QUEUE_DEPTH_MAX + 1, &queue), -EINVAL);
}

static void queue_reap__returns_at_once_when_nothing_is_in_flight(void **state)
{
    struct fixture *fx = *state;
    struct gb_queue *queue = new_queue(fx, 4);
    struct gb_event event;
    assert_int_equal(fx->ops->queue_reap(queue, &event, 1, -1), 0);
    assert_int_equal(fx->ops->queue_reap(queue, &event, 1, 60000), 0);
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    assert_int_equal(fx->ops->queue_in_flight(queue), 0);
    fx->ops->queue_destroy(queue);
}

static void queue_prepare__refuses_more_than_its_depth(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "depth");
    struct gb_queue *queue = new_queue(fx, 3);
    unsigned char bytes[4] = "abcd";
    for (unsigned i = 0; i < 3; i++) {
        prepare(fx, queue, GB_OP_WRITE, file, &bytes[i], RANGE(i, 1));
    }
    struct gb_operation operation = {GB_OP_WRITE, file, &bytes[3], 1, 3, &bytes[3]};
    assert_int_equal(fx->ops->queue_prepare(queue, &operation), -EAGAIN);
    assert_int_equal(fx->ops->queue_in_flight(queue), 3);
    struct gb_event events[4];
    unsigned seen = 0;
    while (seen < 3) { /* without a submit: reap does it */
        int n = fx->ops->queue_reap(queue, events, 2, -1);
        assert_in_range(n, 1, 2);
        seen += (unsigned)n;
        assert_int_equal(fx->ops->queue_in_flight(queue), 3 - seen);
    }
    assert_int_equal(fx->ops->queue_prepare(queue, &operation), 0);
    assert_int_equal(fx->ops->queue_reap(queue, events, 4, -1), 1);
    unsigned char back[8];
    assert_int_equal(fx->ops->file_read(file, back, 8, 0), 4);
    assert_memory_equal(back, "abcd", 4);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static void queue__carries_out_reads_writes_and_syncs(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "queued");
    struct gb_queue *queue = new_queue(fx, 2);
    unsigned char written[5000];
    unsigned char buffer[8000];
    fill(written, sizeof(written), 3);
    assert_int_equal(run(fx, queue, GB_OP_WRITE, file, written, RANGE(100, 5000)), 5000);
    assert_int_equal(run(fx, queue, GB_OP_SYNC, file, buffer, RANGE(0, 0)), 0);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(100, 5000)), 5000);
    assert_memory_equal(buffer, written, 5000);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(2000, 8000)), 3100);
    assert_memory_equal(buffer, written + 1900, 3100);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(5100, 10)), 0);
    assert_int_equal(run(fx, queue, GB_OP_READ, file, buffer, RANGE(0, 0)), 0);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static void queue_submit__takes_a_whole_deep_queue(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "deep");
    struct gb_queue *queue = new_queue(fx, BIG_DEPTH);
    unsigned char *bytes = malloc(BIG_DEPTH);
    assert_non_null(bytes);
    fill(bytes, BIG_DEPTH, 4);
    for (unsigned i = 0; i < BIG_DEPTH; i++) {
        prepare(fx, queue, GB_OP_WRITE, file, &bytes[i], RANGE(i, 1));
    }
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    struct gb_event events[64];
    unsigned char seen[BIG_DEPTH] = {0};
    while (fx->ops->queue_in_flight(queue) > 0) {
        int n = fx->ops->queue_reap(queue, events, 64, -1);
        assert_in_range(n, 1, 64);
        for (int i = 0; i < n; i++) {
            assert_int_equal(events[i].result, 1);
            seen[(unsigned char *)events[i].tag - bytes]++;
        }
    }
    for (unsigned i = 0; i < BIG_DEPTH; i++) {
        assert_int_equal(seen[i], 1);
    }
    unsigned char back[BIG_DEPTH];
    assert_int_equal(fx->ops->file_read(file, back, BIG_DEPTH, 0), BIG_DEPTH);
    assert_memory_equal(back, bytes, BIG_DEPTH);
    free(bytes);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static void queue_destroy__waits_for_what_is_in_flight(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "abandoned");
    struct gb_queue *queue = new_queue(fx, 8);
    unsigned char *bytes = malloc(8 * 65536);
    assert_non_null(bytes);
    fill(bytes, 8 * 65536, 5);
    for (unsigned i = 0; i < 4; i++) {
        prepare(fx, queue, GB_OP_WRITE, file, bytes + i * 65536, RANGE(i * 65536, 65536));
    }
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    prepare(fx, queue, GB_OP_WRITE, file, bytes + 4 * 65536, RANGE(4 * 65536, 65536));
    fx->ops->queue_destroy(queue);
    unsigned char *back = malloc(8 * 65536);
    assert_non_null(back);
    assert_int_equal(fx->ops->file_read(file, back, 8 * 65536, 0), 4 * 65536);
    assert_memory_equal(back, bytes, 4 * 65536);
    free(bytes);
    free(back);
    fx->ops->file_close(file);
}

struct handed {
    struct fixture *fx;
    struct gb_queue *queue;
};

static void *submit_and_leave(void *arg)
{
    struct handed *handed = arg;
    return handed->fx->ops->queue_submit(handed->queue) == 0 ? arg : NULL;
}

static void queue__may_be_handed_on_while_operations_are_in_flight(void **state)
{
    struct fixture *fx = *state;
    struct gb_file *file = open_new(fx, "handed");
    struct gb_queue *queue = new_queue(fx, 16);
    unsigned char *bytes = calloc(16, 65536);
    unsigned char *back = calloc(16, 65536);
    assert_true(bytes != NULL && back != NULL);
    fill(bytes, 16 * 65536, 6);
    for (unsigned round = 0; round < 20; round++) {
        unsigned char *buffer = round == 0 ? bytes : back;
        enum gb_op op = round == 0 ? GB_OP_WRITE : GB_OP_READ;
        for (unsigned i = 0; i < 16; i++) {
            prepare(fx, queue, op, file, buffer + i * 65536, RANGE(i * 65536, 65536));
        }
        struct handed handed = {fx, queue};
        pthread_t thread;
        void *answer;
        assert_int_equal(pthread_create(&thread, NULL, submit_and_leave, &handed), 0);
        assert_int_equal(pthread_join(thread, &answer), 0);
        assert_ptr_equal(answer, &handed);
        while (fx->ops->queue_in_flight(queue) > 0) {
            struct gb_event event;
            assert_int_equal(fx->ops->queue_reap(queue, &event, 1, -1), 1);
            assert_int_equal(event.result, 65536);
        }
        assert_int_equal(fx->ops->file_advise_away(file), 0);
    }
    assert_memory_equal(back, bytes, 16 * 65536);
    free(bytes);
    free(back);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, timeout_ms) == 1;
}

static void queue_eventfd__is_readable_while_events_wait(void **state)
{
    struct fixture *fx = *state;
    struct gb_queue *queue = new_queue(fx, 4);
    int fd = fx->ops->queue_eventfd(queue);
    if (fd == -ENOSYS) {
        fx->ops->queue_destroy(queue);
        skip();
    }
    assert_true(fd >= 0);
    assert_int_equal(fx->ops->queue_eventfd(queue), fd);
    struct gb_event events[4];
    assert_int_equal(fx->ops->queue_reap(queue, events, 4, 0), 0);
    assert_false(readable(fd, 0));
    struct gb_file *file = open_new(fx, "evented");
    unsigned char bytes[4] = "abcd";
    for (unsigned i = 0; i < 4; i++) {
        prepare(fx, queue, GB_OP_WRITE, file, &bytes[i], RANGE(i, 1));
    }
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    while (fx->ops->queue_in_flight(queue) > 0) {
        assert_true(readable(fd, 60000));
        assert_in_range(fx->ops->queue_reap(queue, events, 1, 0), 0, 1);
    }
    assert_int_equal(fx->ops->queue_reap(queue, events, 4, 0), 0);
    assert_false(readable(fd, 0));
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

static void queue_eventfd__asked_for_late_misses_nothing(void **state)
{
    struct fixture *fx = *state;
    struct gb_queue *queue = new_queue(fx, 1);
    struct gb_file *file = open_new(fx, "late");
    unsigned char byte = 'x';
    prepare(fx, queue, GB_OP_WRITE, file, &byte, RANGE(0, 1));
    assert_int_equal(fx->ops->queue_submit(queue), 0);
    int fd = fx->ops->queue_eventfd(queue);
    struct gb_event event;
    if (fd != -ENOSYS) {
        int got = 0;
        while (got == 0) {
            assert_true(readable(fd, 60000));
            got = fx->ops->queue_reap(queue, &event, 1, 0);
        }
        assert_int_equal(got, 1);
    }
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

/* ---- against a plain array ----------------------------------------------------------------- */

#define MODEL_BYTES 65536u
#define MODEL_DEPTH 8u

struct model {
    unsigned char file[MODEL_BYTES];
    unsigned char expected[MODEL_DEPTH][MODEL_BYTES / MODEL_DEPTH];
    unsigned char buffer[MODEL_DEPTH][MODEL_BYTES / MODEL_DEPTH];
    struct gb_operation operation[MODEL_DEPTH];
};

/* Each slot keeps to its own eighth of the file: concurrent operations that overlap have no
 * order. */
static void model_prepare(struct fixture *fx, struct gb_queue *queue, struct model *model,
                          struct gb_file *file, unsigned slot)
{
    const unsigned span = MODEL_BYTES / MODEL_DEPTH;
    uint32_t start = (uint32_t)rand() % span;
    uint32_t len = 1 + (uint32_t)rand() % (span - start);
    uint32_t at = slot * span + start;
    unsigned dice = (unsigned)rand() % 10;
    enum gb_op op = dice < 5 ? GB_OP_READ : dice < 9 ? GB_OP_WRITE : GB_OP_SYNC;
    if (op == GB_OP_WRITE) {
        fill(model->buffer[slot], len, (uint64_t)rand());
        memcpy(model->file + at, model->buffer[slot], len);
    } else if (op == GB_OP_READ) {
        memcpy(model->expected[slot], model->file + at, len);
        memset(model->buffer[slot], 0xdd, len);
    }
    model->operation[slot] = (struct gb_operation){
        op, file, model->buffer[slot], op == GB_OP_SYNC ? 0 : len, at, &model->operation[slot]};
    assert_int_equal(fx->ops->queue_prepare(queue, &model->operation[slot]), 0);
}

static void queue__agrees_with_a_plain_array(void **state)
{
    struct fixture *fx = *state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    struct gb_file *file = open_new(fx, "model");
    struct gb_queue *queue = new_queue(fx, MODEL_DEPTH);
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    assert_int_equal(fx->ops->file_truncate(file, MODEL_BYTES), 0);
    for (unsigned round = 0; round < 400; round++) {
        unsigned count = 1 + (unsigned)rand() % MODEL_DEPTH;
        for (unsigned slot = 0; slot < count; slot++) {
            model_prepare(fx, queue, model, file, slot);
        }
        while (fx->ops->queue_in_flight(queue) > 0) {
            struct gb_event events[MODEL_DEPTH];
            int n = fx->ops->queue_reap(queue, events, MODEL_DEPTH, rand() % 2 == 0 ? -1 : 1);
            for (int i = 0; i < n; i++) {
                struct gb_operation *operation = events[i].tag;
                size_t slot = (size_t)(operation - model->operation);
                assert_int_equal(events[i].result, operation->len);
                if (operation->op == GB_OP_READ) {
                    assert_memory_equal(model->buffer[slot], model->expected[slot], operation->len);
                }
            }
        }
    }
    unsigned char *back = malloc(MODEL_BYTES);
    assert_non_null(back);
    assert_int_equal(fx->ops->file_read(file, back, MODEL_BYTES, 0), MODEL_BYTES);
    assert_memory_equal(back, model->file, MODEL_BYTES);
    free(back);
    free(model);
    fx->ops->queue_destroy(queue);
    fx->ops->file_close(file);
}

/* ---- the backends -------------------------------------------------------------------------- */

static struct fixture fixture;

static int make_scratch(void)
{
    const char *root = getenv("TMPDIR");
    snprintf(fixture.dir, sizeof(fixture.dir), "%s/goblin-io-XXXXXX", root != NULL ? root : "/tmp");
    return mkdtemp(fixture.dir) == NULL ? -1 : 0;
}

static int set_up_sync(void **state)
{
    *state = &fixture;
    if (make_scratch() != 0 || gb_io_sync_create(&fixture.io) != 0) {
        return -1;
    }
    fixture.ops = fixture.io->ops;
    return 0;
}

static int threads_queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out)
{
    (void)io;
    return gb_io_threads_queue_create(depth, 3, out);
}

/* The files of sync, and queues that threads carry out. */
static int set_up_threads(void **state)
{
    static struct gb_io_ops ops;
    struct gb_queue *queue;
    if (set_up_sync(state) != 0 || gb_io_threads_queue_create(1, 1, &queue) != 0) {
        return -1;
    }
    const struct gb_io_ops *of_queue = queue->io->ops;
    ops = *fixture.io->ops;
    ops.queue_create = threads_queue_create;
    ops.queue_destroy = of_queue->queue_destroy;
    ops.queue_prepare = of_queue->queue_prepare;
    ops.queue_submit = of_queue->queue_submit;
    ops.queue_reap = of_queue->queue_reap;
    ops.queue_eventfd = of_queue->queue_eventfd;
    ops.queue_in_flight = of_queue->queue_in_flight;
    of_queue->queue_destroy(queue);
    fixture.ops = &ops;
    return 0;
}

static int set_up_uring(void **state)
{
    *state = &fixture;
    char why[256];
    if (make_scratch() != 0) {
        return -1;
    }
    if (gb_io_uring_create(&fixture.io, fixture.dir, why, sizeof(why)) != 0) {
        print_message("%s\n", why);
        return -1;
    }
    fixture.ops = fixture.io->ops;
    return 0;
}

static int set_up_sim(void **state)
{
    *state = &fixture;
    fixture.io = simdisk_create(1);
    fixture.ops = fixture.io->ops;
    strcpy(fixture.dir, "/scratch");
    return fixture.ops->make_dir(fixture.io, fixture.dir);
}

static int destroy_sim(void **state)
{
    (void)state;
    fixture.ops->destroy(fixture.io);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    fixture.ops->destroy(fixture.io);
    char command[200];
    snprintf(command, sizeof(command), "rm -rf '%s'", fixture.dir);
    return system(command);
}

/* Where the kernel refuses rings (a container's seccomp filter), there is nothing to hold the
 * contract against; what happens then is test_io_uring's. */
static bool has_uring(void)
{
    struct gb_io *io;
    char why[256];
    if (gb_io_uring_create(&io, "/tmp", why, sizeof(why)) != 0) {
        print_message("skipping uring: %s\n", why);
        return false;
    }
    io->ops->destroy(io);
    return true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_open__refuses_an_absent_file),
        cmocka_unit_test(file_open__exclusive_refuses_a_present_file),
        cmocka_unit_test(file_open__read_only_refuses_writes),
        cmocka_unit_test(file_read__is_short_only_at_the_end),
        cmocka_unit_test(file_allocate__grows_and_keeps_the_bytes),
        cmocka_unit_test(file_truncate__cuts_and_grows_with_zeros),
        cmocka_unit_test(file_lock__excludes_until_close),
        cmocka_unit_test(file_direct__reads_and_writes_aligned_ranges),
        cmocka_unit_test(rename__replaces_the_target),
        cmocka_unit_test(unlink__leaves_open_files_usable),
        cmocka_unit_test(list__names_what_a_directory_holds),
        cmocka_unit_test(free_space__is_known),
        cmocka_unit_test(queue_create__refuses_impossible_depths),
        cmocka_unit_test(queue_reap__returns_at_once_when_nothing_is_in_flight),
        cmocka_unit_test(queue_prepare__refuses_more_than_its_depth),
        cmocka_unit_test(queue__carries_out_reads_writes_and_syncs),
        cmocka_unit_test(queue_submit__takes_a_whole_deep_queue),
        cmocka_unit_test(queue_destroy__waits_for_what_is_in_flight),
        cmocka_unit_test(queue__may_be_handed_on_while_operations_are_in_flight),
        cmocka_unit_test(queue_eventfd__is_readable_while_events_wait),
        cmocka_unit_test(queue_eventfd__asked_for_late_misses_nothing),
        cmocka_unit_test(queue__agrees_with_a_plain_array),
    };
    int failed = cmocka_run_group_tests_name("sync", tests, set_up_sync, remove_scratch);
    failed += cmocka_run_group_tests_name("threads", tests, set_up_threads, remove_scratch);
    failed += cmocka_run_group_tests_name("simulated disk", tests, set_up_sim, destroy_sim);
    if (has_uring()) {
        failed += cmocka_run_group_tests_name("uring", tests, set_up_uring, remove_scratch);
    }
    return failed;
}
