/* The local backend: changes, reads, and the table. */
#include "server/backend.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "server/backend_local.h"
#include "server/metrics.h"

/* ---- changes ------------------------------------------------------------------------------- */

static int touch(struct goblin *store, const struct gb_change *change)
{
    const struct goblin_amendment amendment = {
        .what = GOBLIN_AMEND_EXPIRES,
        .expires_ms = change->options.expires_ms,
        .durability = change->options.durability,
        .nowait = change->options.nowait,
    };
    return goblin_amend(store, change->key, &amendment, NULL);
}

static int make(struct goblin *store, struct gb_change *change, bool nowait)
{
    change->options.nowait = nowait;
    switch (change->kind) {
    case GB_CHANGE_PUT:
        return goblin_put(store, change->key, change->value, &change->options, &change->version);
    case GB_CHANGE_DELETE:
        return goblin_delete(store, change->key, &change->options);
    case GB_CHANGE_TOUCH:
        return touch(store, change);
    case GB_CHANGE_AMEND:
        change->amendment.durability = change->options.durability;
        change->amendment.nowait = nowait;
        return goblin_amend(store, change->key, &change->amendment, &change->before);
    case GB_CHANGE_SYNC:
        return goblin_sync(store);
    case GB_CHANGE_CLEAR:
        return goblin_clear(store);
    }
    return -EINVAL;
}

static struct gb_change *change_of(struct gb_job *job)
{
    return (struct gb_change *)(void *)((char *)job - offsetof(struct gb_change, job));
}

static void run_change(struct gb_job *job)
{
    struct gb_change *change = change_of(job);
    change->result = make(change->loop->store, change, false);
}

static void end_change(struct gb_job *job)
{
    struct gb_change *change = change_of(job);
    change->done(change);
}

/* What is promised to be on the device waits for it; so does what goes over the whole store. */
static bool waits(const struct gb_local *local, const struct gb_change *change)
{
    enum goblin_durability durability = change->options.durability;
    if (durability == GOBLIN_DURABILITY_DEFAULT) {
        durability = local->durability;
    }
    return change->kind >= GB_CHANGE_SYNC || durability > GOBLIN_DURABILITY_NONE;
}

static int change(struct gb_backend *backend, struct gb_loop *loop, struct gb_change *change)
{
    struct gb_local *local = gb_local_of(backend);
    change->loop = loop;
    if (!waits(local, change)) {
        change->result = make(local->store, change, true);
        if (change->result != -EAGAIN) {
            return change->result;
        }
    }
    gb_metrics_add(loop->metrics, GB_METRICS_to_workers, 1);
    change->job.run = run_change;
    change->job.done = end_change;
    gb_work_submit(local->work, loop, &change->job);
    return GB_PENDING;
}

/* ---- reads --------------------------------------------------------------------------------- */

static int read_object(struct gb_backend *backend, struct gb_loop *loop,
                       struct goblin_request *request)
{
    (void)backend;
    return goblin_submit(loop->reader, request);
}

static int look(struct gb_backend *backend, struct gb_loop *loop, struct goblin_slice key,
                struct goblin_info *info)
{
    (void)loop;
    return goblin_stat(gb_local_of(backend)->store, key, info);
}

/* ---- the table ----------------------------------------------------------------------------- */

static void destroy(struct gb_backend *backend)
{
    struct gb_local *local = gb_local_of(backend);
    GB_ASSERT(local->active == 0 && local->line.next == &local->line);
    (void)pthread_mutex_destroy(&local->lock);
    free(local);
}

static const struct gb_backend_ops local_ops = {
    .change = change,
    .edit = gb_local_edit,
    .stream_begin = gb_local_stream_begin,
    .stream_write = gb_local_stream_write,
    .stream_commit = gb_local_stream_commit,
    .stream_abort = gb_local_stream_abort,
    .read = read_object,
    .stat = look,
    .count_streams = gb_local_count_streams,
    .destroy = destroy,
};

int gb_backend_create_local(struct gb_backend **out, const struct gb_backend_local_options *options)
{
    struct gb_local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        return -ENOMEM;
    }
    local->backend.ops = &local_ops;
    local->store = options->store;
    local->work = options->work;
    local->streams_most = options->streams;
    local->durability = options->durability == GOBLIN_DURABILITY_DEFAULT ? GOBLIN_DURABILITY_NONE
                                                                         : options->durability;
    local->line.next = local->line.prev = &local->line;
    (void)pthread_mutex_init(&local->lock, NULL);
    *out = &local->backend;
    return GOBLIN_OK;
}

void gb_backend_destroy(struct gb_backend *backend)
{
    if (backend != NULL) {
        backend->ops->destroy(backend);
    }
}

int gb_backend_change(struct gb_loop *loop, struct gb_change *change)
{
    return loop->backend->ops->change(loop->backend, loop, change);
}

int gb_backend_edit(struct gb_loop *loop, struct gb_edit *edit)
{
    return loop->backend->ops->edit(loop->backend, loop, edit);
}

void gb_backend_stream_begin(struct gb_loop *loop, struct gb_stream *stream)
{
    stream->loop = loop;
    loop->backend->ops->stream_begin(loop->backend, loop, stream);
}

void gb_backend_stream_write(struct gb_stream *stream, const void *data, size_t len)
{
    stream->data = data;
    stream->len = len;
    stream->loop->backend->ops->stream_write(stream->loop->backend, stream);
}

void gb_backend_stream_commit(struct gb_stream *stream)
{
    stream->loop->backend->ops->stream_commit(stream->loop->backend, stream);
}

void gb_backend_stream_abort(struct gb_stream *stream)
{
    stream->loop->backend->ops->stream_abort(stream->loop->backend, stream);
}

int gb_backend_read(struct gb_loop *loop, struct goblin_request *request)
{
    return loop->backend->ops->read(loop->backend, loop, request);
}

int gb_backend_stat(struct gb_loop *loop, struct goblin_slice key, struct goblin_info *info)
{
    return loop->backend->ops->stat(loop->backend, loop, key, info);
}

void gb_backend_count_streams(struct gb_backend *backend, unsigned *active, unsigned *waiting)
{
    backend->ops->count_streams(backend, active, waiting);
}
