/*
 * The io_uring backend: one small ring per queue.
 *
 * Operations live in the queue's slots. Prepared ones, and those to be started again after a short
 * transfer, wait in a list in memory; a flush moves them into the submission ring and enters the
 * kernel once. The completion ring has room for a whole queue, so it never overflows.
 *
 * SINGLE_ISSUER and DEFER_TASKRUN are not asked for: a queue may be handed to another thread. Nor
 * is COOP_TASKRUN: it gained nothing measurable, and would make whoever a queue was handed to wait
 * for the next tick of the thread that submitted.
 */
#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/io.h"
#include "engine/io_file.h"

/* Entries of a submission ring at most: 8 KiB, and one syscall for as many operations. */
#define SUBMISSIONS_MAX 128u

/* After so many refusals to carry out one operation it is done by a blocking call. */
#define REFUSALS_MAX 8u

/* After so many refusals to take submissions, with the processor given up in between, the caller
 * hears of it. */
#define SUBMIT_TRIES_MAX 64u

#define FLAGS_WANTED (IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL)
#define FLAGS_NEEDED IORING_SETUP_CQSIZE

#define PROBE_BYTES 8192u

struct uring_io {
    struct gb_real_io real;
    _Atomic unsigned queues; /* that live */
    struct gb_io *plain;     /* whose queues do where a ring is not to be had; NULL: none may */
    _Atomic bool told;       /* that one had to */
    goblin_log_fn log;
    void *log_arg;
};

struct slot {
    struct gb_operation operation;
    int fd;        /* acquired for as long as the operation is in flight; or why it could not be */
    uint32_t done; /* bytes */
    uint32_t refusals;
    struct slot *next; /* in the free list or the waiting list */
};

/* Owner: whichever thread the queue belongs to. */
struct uring_queue {
    struct gb_queue base;
    struct io_uring ring;
    int event_fd; /* -1 until asked for */
    unsigned in_flight;
    struct slot *free;
    struct slot *waiting; /* to go into the submission ring, oldest first */
    struct slot **waiting_end;
    struct slot slots[];
};

static struct uring_queue *uring_of(struct gb_queue *queue)
{
    return (struct uring_queue *)queue;
}

/* ---- creation ------------------------------------------------------------------------------ */

/* Old kernels count rings against RLIMIT_MEMLOCK and do not know all flags: ask for less then. */
static int ring_init(struct io_uring *ring, unsigned depth)
{
    unsigned entries = (unsigned)gb_min(depth, SUBMISSIONS_MAX);
    unsigned flags = FLAGS_WANTED;
    for (;;) {
        struct io_uring_params params = {.flags = flags, .cq_entries = depth};
        int rc = io_uring_queue_init_params(entries, ring, &params);
        if (rc == -EINVAL && flags != FLAGS_NEEDED) {
            flags = FLAGS_NEEDED;
        } else if (rc == -ENOMEM && entries > 1) {
            entries /= 2;
        } else {
            return rc < 0 ? rc : 0;
        }
    }
}

static struct uring_io *io_of(struct gb_io *io)
{
    return (struct uring_io *)io;
}

/* A queue without a ring, if that is allowed: limits count rings one by one, so that the first may
 * be granted and a later one refused. */
static int do_without(struct uring_io *io, unsigned depth, int refusal, struct gb_queue **out)
{
    if (io->plain == NULL) {
        return refusal;
    }
    if (io->log != NULL && !atomic_exchange(&io->told, true)) {
        char line[160];
        snprintf(line, sizeof(line),
                 "no more rings (%s%s): plain reads and writes do for what comes after",
                 strerror(-refusal),
                 refusal == -ENOMEM ? ", RLIMIT_MEMLOCK is too low for them" : "");
        io->log(io->log_arg, GOBLIN_LOG_WARN, line);
    }
    return io->plain->ops->queue_create(io->plain, depth, out);
}

/* When the process is killed the kernel ends what a ring has in flight after the process itself,
 * with no word to anybody. A ring that knows the descriptors of the locks keeps them locked until
 * then, so that nobody opens a store on which writes still land. */
static int hold_locks(struct uring_io *io, struct io_uring *ring)
{
    struct gb_locks *locks = &io->real.locks;
    (void)pthread_mutex_lock(&locks->lock);
    int rc = locks->count > 0 ? io_uring_register_files(ring, locks->fds, locks->count) : 0;
    (void)pthread_mutex_unlock(&locks->lock);
    return rc;
}

static int queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out)
{
    if (depth == 0 || depth > GB_QUEUE_DEPTH_MAX) {
        return -EINVAL;
    }
    struct uring_queue *queue = calloc(1, sizeof(*queue) + depth * sizeof(queue->slots[0]));
    if (queue == NULL) {
        return -ENOMEM;
    }
    int rc = ring_init(&queue->ring, depth);
    if (rc == 0) {
        rc = hold_locks(io_of(io), &queue->ring);
        if (rc != 0) {
            io_uring_queue_exit(&queue->ring);
        }
    }
    if (rc != 0) {
        free(queue);
        return do_without(io_of(io), depth, rc, out);
    }
    /* Acquire: pairs with the release in queue_destroy. The kernel may give this ring the
     * addresses of one that another thread has just unmapped. */
    (void)atomic_fetch_add_explicit(&io_of(io)->queues, 1, memory_order_acquire);
    queue->base.io = io;
    queue->event_fd = -1;
    queue->waiting_end = &queue->waiting;
    for (unsigned i = depth; i > 0; i--) {
        queue->slots[i - 1].next = queue->free;
        queue->free = &queue->slots[i - 1];
    }
    *out = &queue->base;
    return 0;
}

/* ---- submission ---------------------------------------------------------------------------- */

static void wait_in_line(struct uring_queue *queue, struct slot *slot)
{
    slot->next = NULL;
    *queue->waiting_end = slot;
    queue->waiting_end = &slot->next;
}

static int queue_prepare(struct gb_queue *base, const struct gb_operation *operation)
{
    struct uring_queue *queue = uring_of(base);
    GB_ASSERT(operation->tag != NULL && operation->len <= INT32_MAX);
    struct slot *slot = queue->free;
    if (slot == NULL) {
        return -EAGAIN;
    }
    queue->free = slot->next;
    slot->operation = *operation;
    slot->fd = gb_io_file_acquire(operation->file);
    slot->done = 0;
    slot->refusals = 0;
    wait_in_line(queue, slot);
    queue->in_flight++;
    return 0;
}

/* What is still to do of a read or write. */
struct rest {
    unsigned char *buffer;
    uint32_t len;
    uint64_t offset;
};

static struct rest rest_of(const struct slot *slot)
{
    const struct gb_operation *operation = &slot->operation;
    struct rest rest = {operation->buffer, operation->len, operation->offset};
    if (slot->done > 0) {
        rest.buffer += slot->done;
        rest.len -= slot->done;
        rest.offset += slot->done;
    }
    return rest;
}

static void fill_sqe(struct io_uring_sqe *sqe, struct slot *slot)
{
    int fd = slot->fd;
    struct rest rest = rest_of(slot);
    if (fd < 0) {
        io_uring_prep_nop(sqe); /* its event says what was wrong */
        io_uring_sqe_set_data(sqe, slot);
        return;
    }
    switch (slot->operation.op) {
    case GB_OP_READ:
        io_uring_prep_read(sqe, fd, rest.buffer, rest.len, rest.offset);
        break;
    case GB_OP_WRITE:
        io_uring_prep_write(sqe, fd, rest.buffer, rest.len, rest.offset);
        break;
    case GB_OP_SYNC:
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data(sqe, slot);
}

/* Moves waiting operations into the submission ring while it has room. */
static void fill_ring(struct uring_queue *queue)
{
    while (queue->waiting != NULL) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);
        if (sqe == NULL) {
            return;
        }
        struct slot *slot = queue->waiting;
        queue->waiting = slot->next;
        if (queue->waiting == NULL) {
            queue->waiting_end = &queue->waiting;
        }
        fill_sqe(sqe, slot);
    }
}

/* Gives the kernel everything that waits: one syscall unless it is more than a ring holds. What a
 * fault leaves behind stays in the submission ring and in line. */
static int queue_submit(struct gb_queue *base)
{
    struct uring_queue *queue = uring_of(base);
    unsigned tries = 0;
    for (;;) {
        fill_ring(queue);
        if (io_uring_sq_ready(&queue->ring) == 0) {
            return 0;
        }
        int rc = io_uring_submit(&queue->ring);
        if (rc > 0) {
            tries = 0;
            continue;
        }
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) {
            return rc;
        }
        if (++tries == SUBMIT_TRIES_MAX) {
            return -EAGAIN;
        }
        sched_yield();
    }
}

/* ---- completion ---------------------------------------------------------------------------- */

/* Whether an answer says nothing about the operation itself. When the thread that submitted it
 * ends, the kernel cancels what that thread was to carry on, or tries it without the thread's
 * memory. */
static bool is_refusal(int32_t answer)
{
    return answer == -EAGAIN || answer == -EINTR || answer == -ECANCELED || answer == -EFAULT;
}

static int32_t carry_out_blocking(const struct slot *slot)
{
    const struct gb_operation *operation = &slot->operation;
    if (operation->op == GB_OP_SYNC) {
        return gb_io_file_sync(operation->file);
    }
    struct rest rest = rest_of(slot);
    int64_t n = operation->op == GB_OP_READ
                    ? gb_io_file_read(operation->file, rest.buffer, rest.len, rest.offset)
                    : gb_io_file_write(operation->file, rest.buffer, rest.len, rest.offset);
    return n < 0 ? (int32_t)n : (int32_t)(slot->done + n);
}

/* What the kernel's answer means for the operation: true if it has ended, with its result; false
 * if it is to be started again from where it stands. */
static bool settle(struct slot *slot, int32_t answer, int32_t *result)
{
    const struct gb_operation *operation = &slot->operation;
    if (slot->fd < 0) {
        *result = slot->fd;
        return true;
    }
    if (is_refusal(answer)) {
        if (++slot->refusals < REFUSALS_MAX) {
            return false;
        }
        *result = carry_out_blocking(slot);
        return true;
    }
    if (answer < 0 || operation->op == GB_OP_SYNC) {
        *result = answer;
        return true;
    }
    slot->done += (uint32_t)answer;
    if (slot->done < operation->len) {
        bool stuck = gb_io_file_is_stuck(operation->file, operation->offset + slot->done);
        if (answer > 0 && !stuck) {
            return false;
        }
        if (operation->op == GB_OP_WRITE) {
            *result = -EIO;
            return true;
        }
    }
    *result = (int32_t)slot->done;
    return true;
}

static void let_go(const struct slot *slot)
{
    if (slot->fd >= 0) {
        gb_io_file_release(slot->operation.file);
    }
}

/* Takes what the completion ring holds. No syscall. */
static unsigned collect(struct uring_queue *queue, struct gb_event *events, unsigned max)
{
    unsigned count = 0;
    struct io_uring_cqe *cqe;
    while (count < max && io_uring_cq_ready(&queue->ring) > 0 &&
           io_uring_peek_cqe(&queue->ring, &cqe) == 0) {
        struct slot *slot = io_uring_cqe_get_data(cqe);
        int32_t answer = cqe->res;
        io_uring_cqe_seen(&queue->ring, cqe);
        if (!settle(slot, answer, &events[count].result)) {
            wait_in_line(queue, slot);
            continue;
        }
        events[count].tag = slot->operation.tag;
        count++;
        let_go(slot);
        slot->next = queue->free;
        queue->free = slot;
        queue->in_flight--;
    }
    return count;
}

/* Submits and waits for a completion in one syscall. Returns 0 also when interrupted. */
static int enter_and_wait(struct uring_queue *queue, const struct timespec *deadline)
{
    fill_ring(queue);
    if (queue->waiting != NULL) {
        int rc = queue_submit(&queue->base);
        if (rc != 0) {
            return rc;
        }
    }
    int rc;
    if (deadline == NULL) {
        rc = io_uring_submit_and_wait(&queue->ring, 1);
    } else {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t left_ns = (int64_t)(deadline->tv_sec - now.tv_sec) * 1000000000 +
                          (deadline->tv_nsec - now.tv_nsec);
        if (left_ns <= 0) {
            return -ETIME;
        }
        struct __kernel_timespec left = {.tv_sec = left_ns / 1000000000,
                                         .tv_nsec = left_ns % 1000000000};
        struct io_uring_cqe *cqe;
        rc = io_uring_submit_and_wait_timeout(&queue->ring, &cqe, 1, &left, NULL);
    }
    if (rc == -EAGAIN || rc == -EBUSY) {
        return queue_submit(&queue->base);
    }
    return rc == -EINTR || rc > 0 ? 0 : rc;
}

/* Makes the eventfd unreadable, then looks once more for what came before that. */
static unsigned drain(struct uring_queue *queue, struct gb_event *events, unsigned max)
{
    eventfd_t ignored;
    (void)eventfd_read(queue->event_fd, &ignored);
    return collect(queue, events, max);
}

static int queue_reap(struct gb_queue *base, struct gb_event *events, unsigned max, int timeout_ms)
{
    struct uring_queue *queue = uring_of(base);
    struct timespec deadline;
    if (timeout_ms > 0) {
        gb_io_deadline(&deadline, timeout_ms);
    }
    unsigned count = collect(queue, events, max);
    while (count == 0 && timeout_ms != 0 && queue->in_flight > 0 && max > 0) {
        int waited = enter_and_wait(queue, timeout_ms > 0 ? &deadline : NULL);
        count = collect(queue, events, max);
        if (waited == -ETIME) {
            break;
        }
        if (waited != 0 && count == 0) {
            return waited;
        }
    }
    if (count < max && queue->event_fd >= 0) {
        count += drain(queue, events + count, max - count);
    }
    int rc = 0;
    while (rc == 0 && (queue->waiting != NULL || io_uring_sq_ready(&queue->ring) > 0)) {
        rc = queue_submit(base);
        count += collect(queue, events + count, max - count);
    }
    return count == 0 ? rc : (int)count;
}

static int queue_eventfd(struct gb_queue *base)
{
    struct uring_queue *queue = uring_of(base);
    if (queue->event_fd >= 0) {
        return queue->event_fd;
    }
    /* Readable from the start if something has come already: only later completions ring it. */
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    int rc = io_uring_register_eventfd(&queue->ring, fd);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    queue->event_fd = fd;
    return fd;
}

static unsigned queue_in_flight(const struct gb_queue *queue)
{
    return ((const struct uring_queue *)queue)->in_flight;
}

static void queue_destroy(struct gb_queue *base)
{
    struct uring_queue *queue = uring_of(base);
    for (; queue->waiting != NULL; queue->waiting = queue->waiting->next) {
        let_go(queue->waiting);
        queue->in_flight--;
    }
    queue->waiting_end = &queue->waiting;
    struct gb_event event; /* nobody's any more */
    while (queue->in_flight > 0 && queue_reap(base, &event, 1, -1) >= 0) {
    }
    /* By itself the kernel would let go of the locks some time after the ring. */
    (void)io_uring_unregister_files(&queue->ring);
    (void)atomic_fetch_sub_explicit(&io_of(base->io)->queues, 1, memory_order_release);
    io_uring_queue_exit(&queue->ring);
    if (queue->event_fd >= 0) {
        close(queue->event_fd);
    }
    free(queue);
}

static void destroy(struct gb_io *io)
{
    GB_ASSERT(atomic_load_explicit(&io_of(io)->queues, memory_order_relaxed) == 0);
    if (io_of(io)->plain != NULL) {
        io_of(io)->plain->ops->destroy(io_of(io)->plain);
    }
    gb_io_file_fini(&io_of(io)->real);
    free(io);
}

static const struct gb_io_ops uring_ops = {
    .name = "uring",
    .destroy = destroy,
    GB_IO_FILE_OPS,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_prepare = queue_prepare,
    .queue_submit = queue_submit,
    .queue_reap = queue_reap,
    .queue_eventfd = queue_eventfd,
    .queue_in_flight = queue_in_flight,
};

/* ---- the self-test ------------------------------------------------------------------------- */

static void explain(char *why, size_t why_len, const char *step, int rc)
{
    const char *hint = "";
    bool of_the_ring = strstr(step, "io_uring") != NULL; /* else the file system's */
    if (of_the_ring && (rc == -EPERM || rc == -EACCES)) {
        hint = " (seccomp or kernel.io_uring_disabled)";
    } else if (of_the_ring && rc == -ENOSYS) {
        hint = " (not in this kernel, or hidden by seccomp)";
    } else if (of_the_ring && rc == -ENOMEM) {
        hint = " (RLIMIT_MEMLOCK or memory too small for a ring)";
    }
    snprintf(why, why_len, "%s: %s%s", step, strerror(-rc), hint);
}

static int run_one(struct gb_queue *queue, const struct gb_operation *operation)
{
    int rc = queue_prepare(queue, operation);
    if (rc != 0) {
        return rc;
    }
    struct gb_event event;
    rc = queue_reap(queue, &event, 1, -1);
    if (rc < 0) {
        return rc;
    }
    GB_ASSERT(rc == 1 && event.tag == operation->tag);
    if (event.result < 0) {
        return event.result;
    }
    return (uint32_t)event.result == operation->len ? 0 : -EIO;
}

/* Writes, syncs and reads back a pattern. `buffer` has room for PROBE_BYTES. */
static int probe_file(struct gb_queue *queue, struct gb_file *file, unsigned char *buffer,
                      const char **step)
{
    for (unsigned i = 0; i < PROBE_BYTES; i++) {
        buffer[i] = (unsigned char)(i * 31 + i / 251 + 7);
    }
    struct gb_operation operation = {GB_OP_WRITE, file, buffer, PROBE_BYTES, PROBE_BYTES, buffer};
    *step = "write through io_uring";
    int rc = run_one(queue, &operation);
    if (rc != 0) {
        return rc;
    }
    *step = "sync through io_uring";
    rc = run_one(queue, &(struct gb_operation){.op = GB_OP_SYNC, .file = file, .tag = buffer});
    if (rc != 0) {
        return rc;
    }
    memset(buffer, 0, PROBE_BYTES);
    operation.op = GB_OP_READ;
    *step = "read through io_uring";
    rc = run_one(queue, &operation);
    if (rc != 0) {
        return rc;
    }
    for (unsigned i = 0; i < PROBE_BYTES; i++) {
        if (buffer[i] != (unsigned char)(i * 31 + i / 251 + 7)) {
            *step = "read through io_uring gave wrong bytes";
            return -EIO;
        }
    }
    return 0;
}

/* The probe through the page cache, then past it where the file system allows that. */
static int probe_dir_files(struct gb_io *io, struct gb_queue *queue, const char *dir,
                           const char **step)
{
    unsigned char *buffer = aligned_alloc(4096, PROBE_BYTES);
    if (buffer == NULL) {
        *step = "probe buffer";
        return -ENOMEM;
    }
    static const unsigned ways[] = {0, GB_OPEN_DIRECT};
    int rc = 0;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        struct gb_file *file;
        *step = "probe file";
        rc = gb_io_file_open_nameless(io, dir, ways[i], &file);
        if (rc == -EINVAL && ways[i] == GB_OPEN_DIRECT) {
            rc = 0;
            break;
        }
        if (rc == 0) {
            rc = probe_file(queue, file, buffer, step);
            gb_io_file_close(file);
        }
    }
    free(buffer);
    return rc;
}

int gb_io_uring_create(struct gb_io **out, const char *probe_dir, char *why, size_t why_len)
{
    struct uring_io *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        explain(why, why_len, "io_uring", -ENOMEM);
        return -ENOMEM;
    }
    struct gb_io *io = &made->real.base;
    io->ops = &uring_ops;
    gb_io_file_init(&made->real);
    struct gb_queue *queue;
    const char *step = "io_uring_setup";
    int rc = queue_create(io, 1, &queue);
    if (rc != 0) {
        goto free_io;
    }
    if ((uring_of(queue)->ring.features & IORING_FEAT_EXT_ARG) == 0) {
        step = "io_uring older than Linux 5.11";
        rc = -ENOSYS;
    } else {
        static const int none = -1;
        step = "io_uring_register"; /* locks rest on it */
        rc = io_uring_register_files(&uring_of(queue)->ring, &none, 1);
        rc = rc == 0 ? probe_dir_files(io, queue, probe_dir, &step) : rc;
    }
    queue_destroy(queue);
    if (rc != 0) {
        goto free_io;
    }
    *out = io;
    return 0;

free_io:
    explain(why, why_len, step, rc);
    gb_io_file_fini(&made->real);
    free(made);
    return rc;
}

int gb_io_uring_do_without(struct gb_io *io, goblin_log_fn log, void *log_arg)
{
    struct uring_io *made = io_of(io);
    made->log = log;
    made->log_arg = log_arg;
    return gb_io_sync_create(&made->plain);
}
