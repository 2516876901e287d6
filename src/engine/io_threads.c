/* Queues that threads of their own carry out, by the blocking calls of their files: the owner never
 * waits for the device, though there is no ring. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/io_file.h"

struct slot {
    struct gb_operation operation;
    int32_t result;
    struct slot *next;
};

/* Slots in a row, oldest first. */
struct row {
    struct slot *first;
    struct slot **last;
};

struct thread_queue {
    struct gb_queue base; /* of `io`, which is this queue's alone */
    struct gb_io io;
    unsigned in_flight; /* these three are the owner's */
    struct slot *free;
    struct row prepared;

    pthread_mutex_t lock; /* of all below; a leaf */
    pthread_cond_t come;  /* for the threads: something was submitted, or the queue ends */
    pthread_cond_t gone;  /* for the owner: something is done */
    struct row submitted;
    struct row done;
    unsigned waiting; /* submitted, and taken by no thread */
    unsigned idle;
    unsigned threads;
    unsigned threads_most;
    pthread_t ids[GB_IO_THREADS_MAX];
    int event_fd; /* -1 until asked for */
    bool ending;

    struct slot slots[];
};

static struct thread_queue *queue_of(struct gb_queue *queue)
{
    return (struct thread_queue *)queue;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void row_init(struct row *row)
{
    row->first = NULL;
    row->last = &row->first;
}

static void row_add(struct row *row, struct slot *slot)
{
    slot->next = NULL;
    *row->last = slot;
    row->last = &slot->next;
}

/* Of a row that is not empty. */
static struct slot *row_take(struct row *row)
{
    struct slot *slot = row->first;
    row->first = slot->next;
    if (row->first == NULL) {
        row->last = &row->first;
    }
    return slot;
}

/* ---- threads ------------------------------------------------------------------------------- */

static void signal_locked(const struct thread_queue *queue)
{
    static const uint64_t one = 1;
    if (queue->event_fd >= 0) {
        ssize_t n = write(queue->event_fd, &one, sizeof(one));
        GB_ASSERT(n == (ssize_t)sizeof(one)); /* a counter that only ever stands at a few */
    }
}

/* Carries out what was submitted first. The lock is given up meanwhile. */
static void carry_out_locked(struct thread_queue *queue)
{
    struct slot *slot = row_take(&queue->submitted);
    queue->waiting--;
    (void)pthread_mutex_unlock(&queue->lock);
    slot->result = gb_io_carry_out(&slot->operation);
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->done.first == NULL) {
        signal_locked(queue);
    }
    row_add(&queue->done, slot);
    (void)pthread_cond_signal(&queue->gone);
}

static void *work(void *arg)
{
    struct thread_queue *queue = arg;
    (void)pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (queue->submitted.first == NULL && !queue->ending) {
            queue->idle++;
            (void)pthread_cond_wait(&queue->come, &queue->lock);
            queue->idle--;
        }
        if (queue->submitted.first == NULL) {
            break;
        }
        carry_out_locked(queue);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* Signals are the embedder's. */
static void start_thread_locked(struct thread_queue *queue)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&queue->ids[queue->threads], NULL, work, queue) == 0) {
        queue->threads++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the table ----------------------------------------------------------------------------- */

static void queue_destroy(struct gb_queue *base)
{
    struct thread_queue *queue = queue_of(base);
    (void)pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    (void)pthread_cond_broadcast(&queue->come);
    (void)pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->threads; i++) {
        (void)pthread_join(queue->ids[i], NULL);
    }
    if (queue->event_fd >= 0) {
        (void)close(queue->event_fd);
    }
    (void)pthread_cond_destroy(&queue->gone);
    (void)pthread_cond_destroy(&queue->come);
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static int queue_prepare(struct gb_queue *base, const struct gb_operation *operation)
{
    struct thread_queue *queue = queue_of(base);
    GB_ASSERT(operation->tag != NULL && operation->len <= INT32_MAX);
    struct slot *slot = queue->free;
    if (slot == NULL) {
        return -EAGAIN;
    }
    queue->free = slot->next;
    queue->in_flight++;
    slot->operation = *operation;
    row_add(&queue->prepared, slot);
    return 0;
}

static int queue_submit(struct gb_queue *base)
{
    struct thread_queue *queue = queue_of(base);
    if (queue->prepared.first == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&queue->lock);
    while (queue->prepared.first != NULL) {
        row_add(&queue->submitted, row_take(&queue->prepared));
        queue->waiting++;
        if (queue->waiting > queue->idle && queue->threads < queue->threads_most) {
            start_thread_locked(queue); /* else those there are do it, later */
        }
        (void)pthread_cond_signal(&queue->come);
    }
    while (queue->threads == 0 && queue->submitted.first != NULL) {
        carry_out_locked(queue); /* nobody else will */
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return 0;
}

/* Until something is done, or that time is over. */
static void wait_locked(struct thread_queue *queue, int timeout_ms)
{
    struct timespec until;
    gb_io_deadline(&until, timeout_ms);
    int rc = 0;
    while (queue->done.first == NULL && rc == 0) {
        rc = timeout_ms < 0 ? pthread_cond_wait(&queue->gone, &queue->lock)
                            : pthread_cond_timedwait(&queue->gone, &queue->lock, &until);
    }
}

static void drain_locked(const struct thread_queue *queue)
{
    uint64_t count = 0;
    if (queue->event_fd >= 0) {
        ssize_t n = read(queue->event_fd, &count, sizeof(count));
        GB_ASSERT(n == (ssize_t)sizeof(count) || errno == EAGAIN);
    }
}

static int queue_reap(struct gb_queue *base, struct gb_event *events, unsigned max, int timeout_ms)
{
    struct thread_queue *queue = queue_of(base);
    (void)queue_submit(base);
    if (queue->in_flight == 0) {
        return 0;
    }
    unsigned count = 0;
    (void)pthread_mutex_lock(&queue->lock);
    if (timeout_ms != 0) {
        wait_locked(queue, timeout_ms);
    }
    bool some = queue->done.first != NULL;
    while (count < max && queue->done.first != NULL) {
        struct slot *slot = row_take(&queue->done);
        events[count++] = (struct gb_event){slot->operation.tag, slot->result};
        slot->next = queue->free;
        queue->free = slot;
    }
    if (some && queue->done.first == NULL) {
        drain_locked(queue);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    queue->in_flight -= count;
    return (int)count;
}

static int queue_eventfd(struct gb_queue *base)
{
    struct thread_queue *queue = queue_of(base);
    (void)pthread_mutex_lock(&queue->lock);
    int fd = queue->event_fd;
    if (fd < 0) {
        fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        queue->event_fd = fd;
        fd = fd < 0 ? -errno : fd;
        if (queue->done.first != NULL) {
            signal_locked(queue);
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return fd;
}

static unsigned queue_in_flight(const struct gb_queue *base)
{
    return ((const struct thread_queue *)base)->in_flight;
}

/* Of queues alone: it has no files, and is made with its queue. */
static const struct gb_io_ops thread_ops = {
    .name = "threads",
    .queue_destroy = queue_destroy,
    .queue_prepare = queue_prepare,
    .queue_submit = queue_submit,
    .queue_reap = queue_reap,
    .queue_eventfd = queue_eventfd,
    .queue_in_flight = queue_in_flight,
};

static void init_locks(struct thread_queue *queue)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&queue->lock, NULL);
    (void)pthread_cond_init(&queue->come, NULL);
    (void)pthread_cond_init(&queue->gone, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

int gb_io_threads_queue_create(unsigned depth, unsigned threads, struct gb_queue **out)
{
    if (depth == 0 || depth > GB_QUEUE_DEPTH_MAX || threads == 0 || threads > GB_IO_THREADS_MAX) {
        return -EINVAL;
    }
    struct thread_queue *queue = calloc(1, sizeof(*queue) + depth * sizeof(queue->slots[0]));
    if (queue == NULL) {
        return -ENOMEM;
    }
    queue->io.ops = &thread_ops;
    queue->base.io = &queue->io;
    queue->threads_most = threads;
    queue->event_fd = -1;
    row_init(&queue->prepared);
    row_init(&queue->submitted);
    row_init(&queue->done);
    for (unsigned i = 0; i < depth; i++) {
        queue->slots[i].next = queue->free;
        queue->free = &queue->slots[i];
    }
    init_locks(queue);
    *out = &queue->base;
    return 0;
}
