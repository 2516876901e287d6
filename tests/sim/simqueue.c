/* Queues of the simulated disk: operations end in the order of their drawn latencies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "sim/simdisk_internal.h"

/* What a poll that does not wait adds to the clock, so that polling gets somewhere. */
#define POLL_US 20u

enum slot_state { SLOT_FREE, SLOT_PREPARED, SLOT_SUBMITTED };

struct sim_slot {
    struct gb_operation operation;
    enum slot_state state;
    uint64_t due_us;
    uint64_t sequence; /* of the disk at prepare: what a sync covers */
};

struct sim_queue {
    struct gb_queue base;
    struct sim_queue *next; /* all of the disk */
    struct sim_queue **link;
    uint64_t generation;
    unsigned depth;
    unsigned in_flight;
    unsigned prepared;
    int event_fd; /* -1 until asked for */
    struct sim_slot slots[];
};

static struct sim_queue *queue_of(struct gb_queue *queue)
{
    return (struct sim_queue *)queue;
}

static bool lives(const struct simdisk *disk, const struct sim_queue *queue)
{
    return !disk->down && queue->generation == disk->generation;
}

int sim_queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out)
{
    if (depth == 0 || depth > GB_QUEUE_DEPTH_MAX) {
        return -EINVAL;
    }
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    if (disk->down) {
        pthread_mutex_unlock(&disk->mutex);
        return -EIO;
    }
    struct sim_queue *queue = sim_alloc(sizeof(*queue) + depth * sizeof(queue->slots[0]));
    queue->base.io = io;
    queue->depth = depth;
    queue->event_fd = -1;
    queue->generation = disk->generation;
    queue->next = disk->queues;
    queue->link = &disk->queues;
    if (disk->queues != NULL) {
        disk->queues->link = &queue->next;
    }
    disk->queues = queue;
    disk->handles++;
    pthread_mutex_unlock(&disk->mutex);
    *out = &queue->base;
    return 0;
}

int sim_queue_prepare(struct gb_queue *base, const struct gb_operation *operation)
{
    struct sim_queue *queue = queue_of(base);
    struct simdisk *disk = simdisk_of(base->io);
    GB_ASSERT(operation->tag != NULL && operation->len <= INT32_MAX);
    if (queue->in_flight == queue->depth) {
        return -EAGAIN;
    }
    struct sim_slot *slot = queue->slots;
    while (slot->state != SLOT_FREE) {
        slot++;
    }
    pthread_mutex_lock(&disk->mutex);
    slot->operation = *operation;
    slot->sequence = disk->sequence;
    slot->state = SLOT_PREPARED;
    queue->in_flight++;
    queue->prepared++;
    pthread_mutex_unlock(&disk->mutex);
    return 0;
}

/* Mostly tens of microseconds, sometimes far more; length counts. */
static uint64_t draw_latency(struct simdisk *disk, const struct gb_operation *operation)
{
    uint64_t us = 40 + operation->len / 2048;
    us += gb_rng_below(&disk->rng, us * 2);
    return gb_rng_below(&disk->rng, 64) == 0 ? us * 20 : us;
}

static void submit_locked(struct simdisk *disk, struct sim_queue *queue)
{
    for (unsigned i = 0; i < queue->depth && queue->prepared > 0; i++) {
        struct sim_slot *slot = &queue->slots[i];
        if (slot->state == SLOT_PREPARED) {
            slot->state = SLOT_SUBMITTED;
            slot->due_us = disk->counts.clock_us + draw_latency(disk, &slot->operation);
            queue->prepared--;
        }
    }
    if (queue->event_fd >= 0 && queue->in_flight > 0) {
        (void)eventfd_write(queue->event_fd, 1);
    }
}

int sim_queue_submit(struct gb_queue *base)
{
    struct simdisk *disk = simdisk_of(base->io);
    pthread_mutex_lock(&disk->mutex);
    submit_locked(disk, queue_of(base));
    pthread_mutex_unlock(&disk->mutex);
    return 0;
}

static struct sim_slot *find_earliest(struct sim_queue *queue)
{
    struct sim_slot *earliest = NULL;
    for (unsigned i = 0; i < queue->depth; i++) {
        struct sim_slot *slot = &queue->slots[i];
        if (slot->state == SLOT_SUBMITTED &&
            (earliest == NULL || slot->due_us < earliest->due_us)) {
            earliest = slot;
        }
    }
    return earliest;
}

static int32_t carry_out_locked(struct simdisk *disk, const struct sim_queue *queue,
                                const struct sim_slot *slot)
{
    const struct gb_operation *operation = &slot->operation;
    struct sim_file *file = sim_file_of(operation->file);
    if (!lives(disk, queue)) {
        return -EIO;
    }
    switch (operation->op) {
    case GB_OP_READ:
        return (int32_t)simdisk_read_locked(disk, file, operation->buffer, operation->len,
                                            operation->offset);
    case GB_OP_WRITE:
        return (int32_t)simdisk_write_locked(disk, file, operation->buffer, operation->len,
                                             operation->offset);
    case GB_OP_SYNC:
        return simdisk_sync_locked(disk, file, slot->sequence);
    }
    return -EINVAL;
}

/* Moves the clock to where a reap of that patience ends. */
static void wait_locked(struct simdisk *disk, struct sim_queue *queue, int timeout_ms)
{
    uint64_t *now = &disk->counts.clock_us;
    uint64_t due = find_earliest(queue)->due_us;
    if (timeout_ms == 0) {
        *now += POLL_US;
    } else if (timeout_ms < 0 || due <= *now + (uint64_t)timeout_ms * 1000) {
        *now = gb_max(*now, due);
    } else {
        *now += (uint64_t)timeout_ms * 1000;
    }
}

static unsigned reap_locked(struct simdisk *disk, struct sim_queue *queue, struct gb_event *events,
                            unsigned max, int timeout_ms)
{
    unsigned count = 0;
    submit_locked(disk, queue);
    if (disk->holds_back && queue->in_flight > 0) {
        if (timeout_ms == 0 && lives(disk, queue)) {
            return 0;
        }
        disk->counts.waits++;
    }
    if (queue->in_flight > 0 && max > 0) {
        wait_locked(disk, queue, timeout_ms);
    }
    uint64_t until_us = disk->counts.clock_us;
    while (count < max && queue->in_flight > 0) {
        struct sim_slot *slot = find_earliest(queue);
        if (slot->due_us > until_us && lives(disk, queue)) {
            break;
        }
        slot->state = SLOT_FREE; /* before a power cut could find it in flight a second time */
        queue->in_flight--;
        events[count].tag = slot->operation.tag;
        events[count].result = carry_out_locked(disk, queue, slot);
        count++;
    }
    if (queue->in_flight == 0 && queue->event_fd >= 0) {
        eventfd_t ignored;
        (void)eventfd_read(queue->event_fd, &ignored);
    }
    return count;
}

int sim_queue_reap(struct gb_queue *base, struct gb_event *events, unsigned max, int timeout_ms)
{
    struct simdisk *disk = simdisk_of(base->io);
    pthread_mutex_lock(&disk->mutex);
    unsigned count = reap_locked(disk, queue_of(base), events, max, timeout_ms);
    pthread_mutex_unlock(&disk->mutex);
    return (int)count;
}

int sim_queue_eventfd(struct gb_queue *base)
{
    struct sim_queue *queue = queue_of(base);
    if (queue->event_fd < 0) {
        queue->event_fd = eventfd(queue->in_flight > 0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    return queue->event_fd < 0 ? -errno : queue->event_fd;
}

unsigned sim_queue_in_flight(const struct gb_queue *queue)
{
    return ((const struct sim_queue *)queue)->in_flight;
}

void sim_queue_destroy(struct gb_queue *base)
{
    struct sim_queue *queue = queue_of(base);
    struct simdisk *disk = simdisk_of(base->io);
    pthread_mutex_lock(&disk->mutex);
    for (struct sim_slot *slot = find_earliest(queue); slot != NULL; slot = find_earliest(queue)) {
        slot->state = SLOT_FREE;
        (void)carry_out_locked(disk, queue, slot);
    }
    *queue->link = queue->next;
    if (queue->next != NULL) {
        queue->next->link = queue->link;
    }
    disk->handles--;
    pthread_mutex_unlock(&disk->mutex);
    if (queue->event_fd >= 0) {
        close(queue->event_fd);
    }
    free(queue);
}

static void abandon(struct simdisk *disk, struct sim_queue *queue, bool all)
{
    for (unsigned i = 0; i < queue->depth; i++) {
        const struct sim_slot *slot = &queue->slots[i];
        const struct gb_operation *operation = &slot->operation;
        if (slot->state != SLOT_SUBMITTED || operation->op != GB_OP_WRITE ||
            (!all && gb_rng_below(&disk->rng, 2) == 0)) {
            continue;
        }
        const struct sim_file *file = sim_file_of(operation->file);
        if (sim_file_lives(disk, file) && (file->flags & GB_OPEN_READ_ONLY) == 0) {
            sim_inode_write(file->inode, operation->buffer, operation->len, operation->offset,
                            ++disk->sequence);
        }
    }
}

void sim_queues_abandon_locked(struct simdisk *disk, bool all)
{
    for (struct sim_queue *queue = disk->queues; queue != NULL; queue = queue->next) {
        if (lives(disk, queue)) {
            abandon(disk, queue, all);
        }
    }
}
