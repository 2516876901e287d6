/*
 * The body of a PUT.
 *
 * A value up to limits.whole_bytes is gathered in memory and stored at once. A longer one, or one
 * of unknown length that turns out to be longer, goes through two halves of a buffer: one is filled
 * while the other is written. When both are full the connection is suspended, and its socket not
 * read, until one is free: that is all the back-pressure there is, and nothing is ever thrown away
 * for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "server/conn.h"
#include "server/http_internal.h"

/* So much of a body is read and thrown away, so that a client that has yet to send it all hears why
 * it was refused; of more the connection is closed. */
#define DISCARD_MOST (64 * GB_MIB)

static struct gb_http_upload *upload_of(struct gb_http_conn *conn)
{
    return &conn->request.upload;
}

static void decide(struct gb_http_upload *upload, int result, uint64_t version)
{
    upload->decided = true;
    upload->result = result;
    upload->version = version;
}

/* Something that the backend used is free again. */
static void come_back(struct gb_http_conn *conn)
{
    upload_of(conn)->busy = false;
    if (conn->request.abandoned) {
        gb_http_clean(conn);
    } else {
        gb_http_resume(conn);
    }
}

static void note_existence(struct gb_http_conn *conn)
{
    struct goblin_info info;
    const struct goblin_slice key = {conn->request.key, conn->request.key_len};
    upload_of(conn)->existed = gb_backend_stat(conn->http->loop, key, &info) == GOBLIN_OK;
}

/* ---- streams ------------------------------------------------------------------------------- */

static void stream_done(struct gb_stream *stream)
{
    struct gb_http_conn *conn = stream->arg;
    struct gb_http_upload *upload = upload_of(conn);
    int result = stream->result;
    bool over = upload->committing || (result < 0 && !upload->opened);
    upload->opened = true;
    if (upload->committing || result < 0) {
        decide(upload, result, stream->version);
    }
    if (over) {
        upload->state = GB_HTTP_STREAM_OVER;
    }
    come_back(conn);
    if (over) {
        gb_http_unref(conn);
    }
}

static void stream_gone(struct gb_stream *stream)
{
    struct gb_http_conn *conn = stream->arg;
    come_back(conn);
    gb_http_unref(conn);
}

static void begin_stream(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    upload->stream = (struct gb_stream){
        .key = {conn->request.key, conn->request.key_len},
        .size = upload->length,
        .options = upload->options,
        .done = stream_done,
        .gone = stream_gone,
        .arg = conn,
    };
    conn->request.op = GB_METRICS_OP_upload;
    gb_metrics_add(conn->http->loop->metrics, GB_METRICS_uploads, 1);
    upload->state = GB_HTTP_STREAM_OPEN;
    upload->busy = true;
    gb_http_ref(conn);
    gb_backend_stream_begin(conn->http->loop, &upload->stream);
}

static unsigned char *filling(struct gb_http_upload *upload)
{
    return upload->bytes + (upload->second ? upload->half : 0);
}

/* Writes the half that is filled, and goes on with the other. */
static void write_half(struct gb_http_upload *upload)
{
    const unsigned char *data = filling(upload);
    size_t len = upload->filled;
    upload->busy = true;
    upload->second = !upload->second;
    upload->filled = 0;
    gb_backend_stream_write(&upload->stream, data, len);
}

static void give_up_stream(struct gb_http_upload *upload)
{
    upload->state = GB_HTTP_STREAM_OVER;
    upload->busy = true;
    gb_backend_stream_abort(&upload->stream);
}

/* ---- room ---------------------------------------------------------------------------------- */

static bool get_room(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    struct gb_loop *loop = conn->http->loop;
    const struct gb_limits_options *set = &loop->limits->set;
    bool is_short = upload->length <= set->whole_bytes;
    size_t size = is_short ? gb_max(upload->length, 1) : set->upload_bytes;
    if (!gb_limits_take(loop->limits, size)) {
        gb_metrics_add(loop->metrics, GB_METRICS_waits_bytes, 1);
        gb_loop_wait(&loop->bytes_line, &upload->waiter);
        return false;
    }
    upload->charge = size;
    upload->half = is_short ? size : size / 2;
    upload->bytes = malloc(size);
    if (upload->bytes == NULL) {
        decide(upload, -ENOMEM, 0);
    } else if (!is_short && upload->length != GOBLIN_SIZE_UNKNOWN) {
        begin_stream(conn);
    }
    return true;
}

static void woken(struct gb_waiter *waiter)
{
    struct gb_http_upload *upload =
        (struct gb_http_upload *)(void *)((char *)waiter - offsetof(struct gb_http_upload, waiter));
    struct gb_http_conn *conn = upload->change.arg;
    if (get_room(conn)) {
        gb_http_resume(conn);
    }
}

bool gb_http_upload_begin(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    if (upload->charge > 0 || upload->waiter.next != NULL) {
        return upload->charge > 0;
    }
    upload->waiter.wake = woken;
    upload->change.arg = conn;
    return get_room(conn);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static void discard(struct gb_http_conn *conn, size_t len)
{
    struct gb_http_upload *upload = upload_of(conn);
    upload->discarded += len;
    if (upload->discarded > DISCARD_MOST) {
        gb_http_cut(conn, GB_CONN_END_session);
    }
}

/* Makes room in the half that is being filled. False: it must wait. */
static bool make_room(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    if (upload->filled < upload->half) {
        return true;
    }
    if (upload->state == GB_HTTP_STREAM_NONE) {
        begin_stream(conn); /* longer than what is stored at once */
    }
    if (upload->busy) {
        return false;
    }
    if (!upload->decided) {
        write_half(upload);
    }
    return true;
}

void gb_http_upload_take(struct gb_http_conn *conn, struct gb_http_input *input)
{
    struct gb_http_upload *upload = upload_of(conn);
    while (input->len > 0) {
        if (!upload->decided && input->len > gb_http_value_bytes(conn) - upload->received) {
            decide(upload, GOBLIN_ETOOBIG, 0);
        }
        if (!upload->decided && !make_room(conn)) {
            gb_http_suspend(conn);
            return;
        }
        if (upload->decided) {
            discard(conn, input->len);
            input->len = 0;
            return;
        }
        size_t n = gb_min(input->len, upload->half - upload->filled);
        memcpy(filling(upload) + upload->filled, input->data, n);
        upload->filled += n;
        upload->received += n;
        input->data += n;
        input->len -= n;
    }
}

/* ---- the end ------------------------------------------------------------------------------- */

static void change_done(struct gb_change *change)
{
    struct gb_http_conn *conn = change->arg;
    decide(upload_of(conn), change->result, change->version);
    come_back(conn);
    gb_http_unref(conn);
}

void gb_http_upload_change(struct gb_http_conn *conn, enum gb_change_kind kind)
{
    struct gb_http_upload *upload = upload_of(conn);
    upload->change = (struct gb_change){
        .kind = kind,
        .key = {conn->request.key, conn->request.key_len},
        .value = {upload->bytes, upload->filled},
        .options = upload->options,
        .done = change_done,
        .arg = conn,
    };
    upload->busy = true;
    gb_http_ref(conn);
    int result = gb_backend_change(conn->http->loop, &upload->change);
    if (result != GB_PENDING) {
        upload->busy = false;
        decide(upload, result, upload->change.version);
        gb_http_unref(conn);
    }
}

bool gb_http_upload_finish(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    while (!upload->busy && !upload->decided) {
        if (upload->state == GB_HTTP_STREAM_NONE) {
            note_existence(conn);
            gb_http_upload_change(conn, GB_CHANGE_PUT);
        } else if (upload->filled > 0) {
            write_half(upload);
        } else {
            note_existence(conn);
            upload->committing = true;
            upload->busy = true;
            gb_backend_stream_commit(&upload->stream);
        }
    }
    return !upload->busy;
}

void gb_http_upload_clean(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = upload_of(conn);
    struct gb_loop *loop = conn->http->loop;
    gb_loop_leave(&loop->bytes_line, &upload->waiter);
    if (upload->state == GB_HTTP_STREAM_OPEN && !upload->committing) {
        give_up_stream(upload);
    }
    if (upload->busy) {
        return;
    }
    gb_loop_give_bytes(loop, upload->charge);
    free(upload->bytes);
    free(upload->meta);
    upload->charge = 0;
    upload->bytes = upload->meta = NULL;
}
