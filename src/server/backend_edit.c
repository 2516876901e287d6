/*
 * Edits of the local backend: read, decide, store on condition that nobody was faster, else again.
 *
 * A joined value that is short is put together in memory. A long one goes through a stream: the
 * part in front, the old value window by window, the part behind; the commit has the condition.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/backend_local.h"
#include "server/metrics.h"

enum join_step { JOIN_FRONT = 0, JOIN_OLD, JOIN_BACK, JOIN_COMMIT };

struct gb_edit_work {
    struct gb_post post; /* first */
    struct gb_edit *edit;
    struct gb_loop *loop;
    struct goblin_request request;
    struct gb_waiter waiter; /* for bytes of the budget, or room in the reader */
    struct gb_change change;
    struct gb_stream stream;
    void (*then)(struct gb_edit_work *work, int result); /* after a read */
    void (*had_bytes)(struct gb_edit_work *work);        /* after a wait for the budget */

    struct goblin_info info;
    bool found;
    bool first;   /* the read is the one that decides */
    bool changed; /* somebody was faster */

    unsigned char *bytes; /* of the value, or of a window of it */
    size_t capacity;
    size_t len;
    unsigned char meta[GOBLIN_META_MAX];
    size_t meta_len;

    uint64_t at; /* of the old value, in a long join */
    uint64_t window_len;
    enum join_step step;
    int fault; /* why the stream was aborted; GOBLIN_OK: to begin again */

    bool in_call; /* gb_backend_edit has not returned */
    bool finished;
    bool driving; /* run() is on the stack: begin again by returning to it */
    bool again;
};

static void run(struct gb_edit_work *work);

/* ---- the end ------------------------------------------------------------------------------- */

static void drop_bytes(struct gb_edit_work *work)
{
    if (work->bytes != NULL) {
        free(work->bytes);
        gb_loop_give_bytes(work->loop, work->capacity);
        work->bytes = NULL;
        work->capacity = work->len = 0;
    }
}

static void tell(struct gb_post *post)
{
    struct gb_edit_work *work = (struct gb_edit_work *)(void *)post;
    struct gb_edit *edit = work->edit;
    free(work);
    edit->work = NULL;
    edit->done(edit);
}

static void finish(struct gb_edit_work *work, int result)
{
    work->edit->result = result;
    drop_bytes(work);
    work->finished = true;
    if (!work->in_call) { /* nobody down the stack has lost it before he returns */
        work->post.run = tell;
        gb_loop_post(work->loop, &work->post);
    }
}

static void begin_again(struct gb_edit_work *work)
{
    if (work->driving) {
        work->again = true;
    } else {
        run(work);
    }
}

/* ---- bytes --------------------------------------------------------------------------------- */

static struct gb_edit_work *waiting(struct gb_waiter *waiter)
{
    return (struct gb_edit_work *)(void *)((char *)waiter - offsetof(struct gb_edit_work, waiter));
}

static void reserve(struct gb_edit_work *work, size_t bytes);

static void bytes_came(struct gb_waiter *waiter)
{
    struct gb_edit_work *work = waiting(waiter);
    reserve(work, work->capacity);
}

/* Goes on with had_bytes once there is a buffer of so many. */
static void reserve(struct gb_edit_work *work, size_t bytes)
{
    GB_ASSERT(work->bytes == NULL);
    work->capacity = bytes;
    if (bytes > 0 && !gb_limits_take(work->loop->limits, bytes)) {
        work->waiter.wake = bytes_came;
        gb_loop_wait(&work->loop->bytes_line, &work->waiter);
        return;
    }
    work->bytes = bytes > 0 ? malloc(bytes) : NULL;
    if (bytes > 0 && work->bytes == NULL) {
        gb_loop_give_bytes(work->loop, bytes);
        finish(work, -ENOMEM);
        return;
    }
    work->had_bytes(work);
}

/* ---- reading ------------------------------------------------------------------------------- */

static int on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct gb_edit_work *work = arg;
    if (work->first && !work->found) {
        work->found = true;
        work->info = *chunk->info;
        work->meta_len = chunk->meta.len;
        if (chunk->meta.len > 0) {
            memcpy(work->meta, chunk->meta.data, chunk->meta.len);
        }
    }
    if (chunk->info->version != work->info.version) {
        work->changed = true;
        return GOBLIN_CHUNK_STOP;
    }
    if (work->first && chunk->info->size > work->edit->value_bytes) {
        return GOBLIN_CHUNK_STOP; /* it decides without the value */
    }
    GB_ASSERT(work->len + chunk->len <= work->capacity);
    if (chunk->len > 0) {
        memcpy(work->bytes + work->len, chunk->data, chunk->len);
        work->len += chunk->len;
    }
    return GOBLIN_CHUNK_DONE;
}

static void on_done(void *arg, int result, const struct goblin_info *info)
{
    (void)info;
    struct gb_edit_work *work = arg;
    gb_loop_request_ended(work->loop);
    if (result == GOBLIN_ECANCELED && work->first) {
        result = GOBLIN_OK;
    }
    work->then(work, result);
}

static void room_came(struct gb_waiter *waiter);

static void submit(struct gb_edit_work *work)
{
    int rc = gb_backend_read(work->loop, &work->request);
    if (rc == -EAGAIN) {
        gb_metrics_add(work->loop->metrics, GB_METRICS_waits_request, 1);
        work->waiter.wake = room_came;
        gb_loop_wait(&work->loop->request_line, &work->waiter);
    } else if (rc < 0) {
        work->then(work, rc);
    }
}

static void room_came(struct gb_waiter *waiter)
{
    submit(waiting(waiter));
}

static void read_range(struct gb_edit_work *work, uint64_t offset, uint64_t length,
                       void (*then)(struct gb_edit_work *work, int result))
{
    work->then = then;
    work->len = 0;
    work->changed = false;
    work->request = (struct goblin_request){
        .key = work->edit->key,
        .offset = offset,
        .length = length,
        .flags = work->first ? work->edit->flags : GOBLIN_GET_QUIET,
        .on_chunk = on_chunk,
        .on_done = on_done,
        .arg = work,
    };
    submit(work);
}

/* ---- storing ------------------------------------------------------------------------------- */

static void set_condition(const struct gb_edit_work *work, struct goblin_put_options *options)
{
    options->condition = work->found ? GOBLIN_IF_VERSION : GOBLIN_IF_ABSENT;
    options->if_version = work->found ? work->info.version : 0;
}

static void stored(struct gb_edit_work *work, int result, uint64_t version)
{
    if (result == GOBLIN_MISS || result == GOBLIN_EXISTS || result == GOBLIN_CHANGED) {
        begin_again(work);
        return;
    }
    work->edit->version = version;
    finish(work, result);
}

static void change_done(struct gb_change *change)
{
    stored(change->arg, change->result, change->version);
}

static void store(struct gb_edit_work *work, struct goblin_slice value)
{
    work->change = (struct gb_change){
        .kind = GB_CHANGE_PUT,
        .key = work->edit->key,
        .value = value,
        .options = work->edit->options,
        .done = change_done,
        .arg = work,
    };
    set_condition(work, &work->change.options);
    int result = gb_backend_change(work->loop, &work->change);
    if (result != GB_PENDING) {
        stored(work, result, work->change.version);
    }
}

/* ---- joining in memory --------------------------------------------------------------------- */

static void old_came(struct gb_edit_work *work, int result)
{
    const struct gb_edit *edit = work->edit;
    if (work->changed || result == GOBLIN_MISS) {
        begin_again(work);
        return;
    }
    if (result != GOBLIN_OK) {
        finish(work, result);
        return;
    }
    size_t old_len = work->len;
    memmove(work->bytes + edit->front.len, work->bytes, old_len);
    if (edit->front.len > 0) {
        memcpy(work->bytes, edit->front.data, edit->front.len);
    }
    if (edit->back.len > 0) {
        memcpy(work->bytes + edit->front.len + old_len, edit->back.data, edit->back.len);
    }
    store(work, (struct goblin_slice){work->bytes, edit->front.len + old_len + edit->back.len});
}

static void read_old(struct gb_edit_work *work)
{
    if (work->found && work->info.size > 0) {
        read_range(work, 0, work->info.size, old_came);
    } else {
        work->changed = false;
        old_came(work, GOBLIN_OK);
    }
}

/* ---- joining through a stream -------------------------------------------------------------- */

static void stream_gone(struct gb_stream *stream)
{
    struct gb_edit_work *work = stream->arg;
    if (work->fault < 0) {
        finish(work, work->fault);
    } else {
        begin_again(work);
    }
}

static void give_up_stream(struct gb_edit_work *work, int fault)
{
    work->fault = fault;
    gb_backend_stream_abort(&work->stream);
}

static void window_came(struct gb_edit_work *work, int result)
{
    if (work->changed || result == GOBLIN_MISS) {
        give_up_stream(work, GOBLIN_OK);
    } else if (result != GOBLIN_OK) {
        give_up_stream(work, result);
    } else if (work->len != work->window_len) {
        give_up_stream(work, -EIO);
    } else {
        work->at += work->len;
        gb_backend_stream_write(&work->stream, work->bytes, work->len);
    }
}

static void step_stream(struct gb_edit_work *work)
{
    const struct gb_edit *edit = work->edit;
    if (work->step == JOIN_FRONT) {
        work->step = JOIN_OLD;
        if (edit->front.len > 0) {
            gb_backend_stream_write(&work->stream, edit->front.data, edit->front.len);
            return;
        }
    }
    if (work->step == JOIN_OLD && work->at < work->info.size) {
        work->window_len = gb_min(work->capacity, work->info.size - work->at);
        read_range(work, work->at, work->window_len, window_came);
        return;
    }
    if (work->step == JOIN_OLD) {
        work->step = JOIN_BACK;
        if (edit->back.len > 0) {
            gb_backend_stream_write(&work->stream, edit->back.data, edit->back.len);
            return;
        }
    }
    work->step = JOIN_COMMIT;
    gb_backend_stream_commit(&work->stream);
}

static void stream_done(struct gb_stream *stream)
{
    struct gb_edit_work *work = stream->arg;
    if (work->step == JOIN_COMMIT) {
        stored(work, stream->result, stream->version);
    } else if (stream->result >= 0) {
        step_stream(work);
    } else if (stream->writer == NULL) { /* it did not begin */
        finish(work, stream->result);
    } else {
        give_up_stream(work, stream->result);
    }
}

static void begin_stream(struct gb_edit_work *work)
{
    const struct gb_edit *edit = work->edit;
    work->at = 0;
    work->step = JOIN_FRONT;
    work->stream = (struct gb_stream){
        .key = edit->key,
        .size = edit->front.len + work->info.size + edit->back.len,
        .options = edit->options,
        .done = stream_done,
        .gone = stream_gone,
        .arg = work,
    };
    set_condition(work, &work->stream.options);
    gb_backend_stream_begin(work->loop, &work->stream);
}

/* ---- deciding ------------------------------------------------------------------------------ */

static void join(struct gb_edit_work *work)
{
    const struct gb_edit *edit = work->edit;
    const struct gb_limits_options *set = &work->loop->limits->set;
    uint64_t old = work->found ? work->info.size : 0;
    uint64_t size = old + edit->front.len + edit->back.len;
    bool is_long = size > set->whole_bytes;
    drop_bytes(work);
    work->first = false;
    work->had_bytes = is_long ? begin_stream : read_old;
    reserve(work, is_long ? (size_t)set->upload_bytes / 2 : (size_t)gb_max(size, 1));
}

static void looked(struct gb_edit_work *work, int result)
{
    struct gb_edit *edit = work->edit;
    if (result < 0) {
        finish(work, result);
        return;
    }
    bool has_value = work->found && work->info.size <= edit->value_bytes;
    const struct goblin_slice value = {has_value ? work->bytes : NULL, work->len};
    enum gb_edit_answer answer =
        edit->decide(edit, work->found ? &work->info : NULL,
                     (struct goblin_slice){work->meta, work->meta_len}, value);
    switch (answer) {
    case GB_EDIT_STORE:
        store(work, edit->value);
        break;
    case GB_EDIT_LEAVE:
        edit->version = work->found ? work->info.version : 0;
        finish(work, work->found ? GOBLIN_OK : GOBLIN_MISS);
        break;
    case GB_EDIT_JOIN:
        join(work);
        break;
    }
}

static void look(struct gb_edit_work *work)
{
    uint64_t bytes = work->edit->value_bytes;
    read_range(work, bytes == 0 ? UINT64_MAX : 0, bytes, looked);
}

static void run(struct gb_edit_work *work)
{
    work->driving = true;
    do {
        work->again = false;
        work->found = false;
        work->first = true;
        work->meta_len = 0;
        work->info = (struct goblin_info){0};
        drop_bytes(work);
        work->had_bytes = look;
        reserve(work, (size_t)work->edit->value_bytes);
    } while (work->again);
    work->driving = false;
}

int gb_local_edit(struct gb_backend *backend, struct gb_loop *loop, struct gb_edit *edit)
{
    (void)backend;
    GB_ASSERT(edit->value_bytes <= 64 * GB_KIB);
    struct gb_edit_work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        edit->result = -ENOMEM;
        return -ENOMEM;
    }
    work->edit = edit;
    work->loop = loop;
    work->in_call = true;
    edit->work = work;
    run(work);
    work->in_call = false;
    if (!work->finished) {
        return GB_PENDING;
    }
    edit->work = NULL;
    free(work);
    return edit->result;
}
