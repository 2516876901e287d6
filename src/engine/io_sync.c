/* The backend that needs nothing but pread and pwrite: queues carry out what they are given in the
 * thread that submits, in the order of preparation. */
#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "engine/io.h"
#include "engine/io_file.h"

struct sync_slot {
    struct gb_operation operation;
    int32_t result;
};

/* A ring of slots under three counters that only grow: [taken, carried_out) have their events
 * waiting, [carried_out, prepared) are still to do. */
struct sync_queue {
    struct gb_queue base;
    unsigned depth;
    uint64_t taken;
    uint64_t carried_out;
    uint64_t prepared;
    struct sync_slot slots[];
};

static struct sync_queue *sync_of(struct gb_queue *queue)
{
    return (struct sync_queue *)queue;
}

static int queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out)
{
    if (depth == 0 || depth > GB_QUEUE_DEPTH_MAX) {
        return -EINVAL;
    }
    struct sync_queue *queue = calloc(1, sizeof(*queue) + depth * sizeof(queue->slots[0]));
    if (queue == NULL) {
        return -ENOMEM;
    }
    queue->base.io = io;
    queue->depth = depth;
    *out = &queue->base;
    return 0;
}

static void queue_destroy(struct gb_queue *queue)
{
    free(queue);
}

static int queue_prepare(struct gb_queue *base, const struct gb_operation *operation)
{
    struct sync_queue *queue = sync_of(base);
    GB_ASSERT(operation->tag != NULL && operation->len <= INT32_MAX);
    if (queue->prepared - queue->taken == queue->depth) {
        return -EAGAIN;
    }
    queue->slots[queue->prepared % queue->depth].operation = *operation;
    queue->prepared++;
    return 0;
}

static int queue_submit(struct gb_queue *base)
{
    struct sync_queue *queue = sync_of(base);
    while (queue->carried_out < queue->prepared) {
        struct sync_slot *slot = &queue->slots[queue->carried_out % queue->depth];
        slot->result = gb_io_carry_out(&slot->operation);
        queue->carried_out++;
    }
    return 0;
}

static int queue_reap(struct gb_queue *base, struct gb_event *events, unsigned max, int timeout_ms)
{
    (void)timeout_ms;
    struct sync_queue *queue = sync_of(base);
    queue_submit(base);
    unsigned count = 0;
    while (count < max && queue->taken < queue->carried_out) {
        const struct sync_slot *slot = &queue->slots[queue->taken % queue->depth];
        events[count].tag = slot->operation.tag;
        events[count].result = slot->result;
        queue->taken++;
        count++;
    }
    return (int)count;
}

static int queue_eventfd(struct gb_queue *queue)
{
    (void)queue;
    return -ENOSYS;
}

static unsigned queue_in_flight(const struct gb_queue *base)
{
    const struct sync_queue *queue = (const struct sync_queue *)base;
    return (unsigned)(queue->prepared - queue->taken);
}

static void destroy(struct gb_io *io)
{
    gb_io_file_fini((struct gb_real_io *)io);
    free(io);
}

static const struct gb_io_ops sync_ops = {
    .name = "sync",
    .submit_waits = true,
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

int gb_io_sync_create(struct gb_io **out)
{
    struct gb_real_io *io = malloc(sizeof(*io));
    if (io == NULL) {
        return -ENOMEM;
    }
    io->base.ops = &sync_ops;
    gb_io_file_init(io);
    *out = &io->base;
    return 0;
}
