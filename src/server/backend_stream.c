/*
 * Streams of the local backend: every call runs on a worker.
 *
 * A limited number are active. Who comes later stands in line, and so does one that was begun and
 * for which the engine had no block or no room for another uncommitted value, as long as others are
 * active: their end is what it waits for. Alone, it is told the fault.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "server/backend_local.h"
#include "server/metrics.h"

enum stream_state {
    STATE_NONE = 0,
    STATE_LINE,
    STATE_BEGINNING,
    STATE_OPEN,
    STATE_WRITING,
    STATE_COMMITTING,
    STATE_FAILED, /* only abort is left */
    STATE_OVER,
};

static struct gb_stream *stream_of(struct gb_job *job)
{
    return (struct gb_stream *)(void *)((char *)job - offsetof(struct gb_stream, job));
}

static struct gb_local *local_of(const struct gb_stream *stream)
{
    return gb_local_of(stream->loop->backend);
}

static void run_begin(struct gb_job *job);
static void end_begin(struct gb_job *job);

/* ---- the line ------------------------------------------------------------------------------ */

static void enter_line_locked(struct gb_local *local, struct gb_stream *stream, bool first)
{
    struct gb_stream *before = first ? &local->line : local->line.prev;
    stream->prev = before;
    stream->next = before->next;
    before->next->prev = stream;
    before->next = stream;
    stream->state = STATE_LINE;
    local->waiting++;
}

static void leave_line_locked(struct gb_local *local, struct gb_stream *stream)
{
    stream->prev->next = stream->next;
    stream->next->prev = stream->prev;
    stream->next = stream->prev = NULL;
    local->waiting--;
}

static void start_locked(struct gb_local *local, struct gb_stream *stream)
{
    local->active++;
    stream->state = STATE_BEGINNING;
    stream->job.run = run_begin;
    stream->job.done = end_begin;
    gb_work_submit(local->work, stream->loop, &stream->job);
}

/* One stream has ended, so the next in line may try. */
static void leave_active(struct gb_local *local)
{
    (void)pthread_mutex_lock(&local->lock);
    GB_ASSERT(local->active > 0);
    local->active--;
    if (local->line.next != &local->line && local->active < local->streams_most) {
        struct gb_stream *next = local->line.next;
        leave_line_locked(local, next);
        start_locked(local, next);
    }
    (void)pthread_mutex_unlock(&local->lock);
}

/* ---- on the workers ------------------------------------------------------------------------ */

static void run_begin(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    stream->result = goblin_writer_begin(&stream->writer, local_of(stream)->store, stream->key,
                                         stream->size, &stream->options);
}

static void run_write(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    stream->result = goblin_writer_write(stream->writer, stream->data, stream->len);
}

static void run_commit(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    stream->result = goblin_writer_commit(stream->writer, &stream->version);
    stream->writer = NULL;
}

static void run_abort(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    goblin_writer_abort(stream->writer);
    stream->writer = NULL;
}

/* ---- back on the loop ---------------------------------------------------------------------- */

static void end_abort(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    stream->state = STATE_OVER;
    leave_active(local_of(stream));
    stream->gone(stream);
}

static void submit(struct gb_stream *stream, void (*run)(struct gb_job *job),
                   void (*done)(struct gb_job *job))
{
    stream->job.run = run;
    stream->job.done = done;
    gb_work_submit(local_of(stream)->work, stream->loop, &stream->job);
}

/* A call that was under way when the stream was aborted has come back. */
static void abort_now(struct gb_stream *stream)
{
    if (stream->writer != NULL) {
        submit(stream, run_abort, end_abort);
    } else {
        end_abort(&stream->job);
    }
}

/* Others hold what it needs: it waits for one of them. */
static bool goes_back_in_line(struct gb_local *local, struct gb_stream *stream)
{
    if ((stream->result != -ENOMEM && stream->result != -ENOSPC) || stream->aborted) {
        return false;
    }
    (void)pthread_mutex_lock(&local->lock);
    bool back = local->active > 1;
    if (back) {
        local->active--;
        enter_line_locked(local, stream, true);
    }
    (void)pthread_mutex_unlock(&local->lock);
    return back;
}

static void end_begin(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    struct gb_local *local = local_of(stream);
    if (goes_back_in_line(local, stream)) {
        gb_metrics_add(stream->loop->metrics, GB_METRICS_waits_stream, 1);
        return;
    }
    if (stream->aborted) {
        abort_now(stream);
        return;
    }
    stream->state = stream->result < 0 ? STATE_OVER : STATE_OPEN;
    if (stream->result < 0) {
        leave_active(local);
    }
    stream->done(stream);
}

static void end_write(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    if (stream->aborted) {
        abort_now(stream);
        return;
    }
    stream->state = stream->result < 0 ? STATE_FAILED : STATE_OPEN;
    stream->done(stream);
}

static void end_commit(struct gb_job *job)
{
    struct gb_stream *stream = stream_of(job);
    if (stream->aborted) {
        abort_now(stream);
        return;
    }
    stream->state = STATE_OVER;
    leave_active(local_of(stream));
    stream->done(stream);
}

/* ---- calls --------------------------------------------------------------------------------- */

void gb_local_stream_begin(struct gb_backend *backend, struct gb_loop *loop,
                           struct gb_stream *stream)
{
    struct gb_local *local = gb_local_of(backend);
    (void)pthread_mutex_lock(&local->lock);
    bool waits = local->active >= local->streams_most || local->line.next != &local->line;
    if (waits) {
        enter_line_locked(local, stream, false);
    } else {
        start_locked(local, stream);
    }
    (void)pthread_mutex_unlock(&local->lock);
    if (waits) {
        gb_metrics_add(loop->metrics, GB_METRICS_waits_stream, 1);
    }
}

void gb_local_stream_write(struct gb_backend *backend, struct gb_stream *stream)
{
    (void)backend;
    GB_ASSERT(stream->state == STATE_OPEN);
    stream->state = STATE_WRITING;
    submit(stream, run_write, end_write);
}

void gb_local_stream_commit(struct gb_backend *backend, struct gb_stream *stream)
{
    (void)backend;
    GB_ASSERT(stream->state == STATE_OPEN);
    stream->state = STATE_COMMITTING;
    submit(stream, run_commit, end_commit);
}

void gb_local_stream_abort(struct gb_backend *backend, struct gb_stream *stream)
{
    struct gb_local *local = gb_local_of(backend);
    (void)pthread_mutex_lock(&local->lock);
    bool in_line = stream->state == STATE_LINE;
    if (in_line) {
        leave_line_locked(local, stream);
        stream->state = STATE_OVER;
    }
    (void)pthread_mutex_unlock(&local->lock);
    if (in_line) {
        stream->gone(stream);
        return;
    }
    GB_ASSERT(stream->state != STATE_OVER && !stream->aborted);
    stream->aborted = true;
    if (stream->state == STATE_OPEN || stream->state == STATE_FAILED) {
        abort_now(stream);
    } /* else when the call that is under way comes back */
}

void gb_local_count_streams(struct gb_backend *backend, unsigned *active, unsigned *waiting)
{
    struct gb_local *local = gb_local_of(backend);
    (void)pthread_mutex_lock(&local->lock);
    *active = local->active;
    *waiting = local->waiting;
    (void)pthread_mutex_unlock(&local->lock);
}
