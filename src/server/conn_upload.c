/*
 * A value on its way from the socket into a stream: while one half of the buffer is filled, a
 * worker writes the other. When both are full the socket is not read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/conn_internal.h"
#include "server/metrics.h"

static void free_buffers(struct gb_upload *upload)
{
    if (upload->bytes != NULL) {
        free(upload->bytes);
        upload->bytes = NULL;
        gb_loop_give_bytes(upload->conn->loop, 2 * upload->half_bytes);
    }
}

static void hand_back(struct gb_upload *upload)
{
    upload->stream->done = upload->stream_done;
    upload->stream->gone = upload->stream_gone;
    upload->stream->arg = upload->stream_arg;
}

static void finish(struct gb_upload *upload)
{
    struct gb_conn *conn = upload->conn;
    conn->upload = NULL;
    hand_back(upload);
    free_buffers(upload);
    gb_metrics_add(conn->loop->metrics, GB_METRICS_uploads, 1);
    upload->done(conn, upload->stream, upload->result);
    free(upload);
    gb_conn_resume(conn);
}

/* After a fault what comes is thrown away. False: the upload is over. */
static bool go_on(struct gb_upload *upload)
{
    if (upload->ready > 0) {
        return true;
    }
    bool last = upload->left == 0 && upload->filled > 0;
    if (upload->result >= 0 && (last || upload->filled == upload->half_bytes)) {
        unsigned char *half = upload->bytes + upload->filling * upload->half_bytes;
        upload->ready = upload->filled;
        upload->filling = 1 - upload->filling;
        upload->filled = 0;
        gb_backend_stream_write(upload->stream, half, upload->ready);
    } else if (upload->left == 0 && (upload->result < 0 || upload->filled == 0)) {
        finish(upload);
        return false;
    }
    return true;
}

static void written(struct gb_stream *stream)
{
    struct gb_upload *upload = stream->arg;
    struct gb_conn *conn = upload->conn;
    upload->ready = 0;
    if (stream->result < 0) {
        upload->result = stream->result;
        upload->filled = 0;
    }
    gb_conn_ref(conn);
    /* That there was no room was not the client's doing. */
    conn->begun_ms = conn->loop->now_ms;
    if (go_on(upload)) {
        gb_conn_upload_feed(conn);
    }
    gb_conn_settle(conn);
    gb_conn_unref(conn);
}

size_t gb_conn_upload_room(struct gb_upload *upload, unsigned char **to)
{
    if (upload->bytes == NULL) {
        return 0;
    }
    *to = upload->bytes + upload->filling * upload->half_bytes + upload->filled;
    return (size_t)gb_min(upload->half_bytes - upload->filled, upload->left);
}

bool gb_conn_upload_take(struct gb_upload *upload, size_t len)
{
    upload->left -= len;
    upload->filled += upload->result < 0 ? 0 : len;
    return go_on(upload);
}

void gb_conn_upload_feed(struct gb_conn *conn)
{
    bool on = conn->upload != NULL;
    while (on && conn->len > 0) {
        unsigned char *to = NULL;
        size_t n = (size_t)gb_min(gb_conn_upload_room(conn->upload, &to), conn->len);
        if (n == 0) {
            return;
        }
        memcpy(to, conn->in + conn->start, n);
        conn->start += n;
        conn->len -= n;
        on = gb_conn_upload_take(conn->upload, n);
    }
}

void gb_conn_upload_wake(struct gb_upload *upload)
{
    struct gb_conn *conn = upload->conn;
    if (!gb_limits_take(conn->loop->limits, 2 * upload->half_bytes)) {
        gb_conn_wait_for_bytes(conn);
        return;
    }
    upload->bytes = malloc(2 * upload->half_bytes);
    if (upload->bytes == NULL) {
        gb_loop_give_bytes(conn->loop, 2 * upload->half_bytes);
        gb_conn_cut(conn, GB_CONN_END_session);
        return;
    }
    if (conn->in_turn) {
        return; /* what on_bytes consumes is not known yet */
    }
    gb_conn_upload_feed(conn);
}

void gb_conn_upload(struct gb_conn *conn, struct gb_stream *stream, uint64_t len,
                    void (*done)(struct gb_conn *conn, struct gb_stream *stream, int result))
{
    GB_ASSERT(conn->upload == NULL && !conn->closed && len > 0);
    struct gb_upload *upload = calloc(1, sizeof(*upload));
    if (upload == NULL) {
        gb_backend_stream_abort(stream);
        gb_conn_cut(conn, GB_CONN_END_session);
        return;
    }
    *upload = (struct gb_upload){
        .conn = conn,
        .stream = stream,
        .done = done,
        .stream_done = stream->done,
        .stream_gone = stream->gone,
        .stream_arg = stream->arg,
        .left = len,
        .half_bytes = (size_t)conn->loop->limits->set.upload_bytes / 2,
        .result = GOBLIN_OK,
    };
    stream->done = written;
    stream->arg = upload;
    conn->upload = upload;
    gb_conn_pause(conn);
    gb_conn_upload_wake(upload);
    if (!conn->in_turn && !conn->closed) {
        gb_conn_note_partial(conn);
        gb_conn_settle(conn);
    }
}

static void gone(struct gb_stream *stream)
{
    struct gb_upload *upload = stream->arg;
    struct gb_conn *conn = upload->conn;
    hand_back(upload);
    free_buffers(upload);
    free(upload);
    stream->gone(stream);
    gb_conn_resume(conn);
}

void gb_conn_upload_close(struct gb_conn *conn)
{
    struct gb_upload *upload = conn->upload;
    if (upload == NULL) {
        return;
    }
    conn->upload = NULL;
    upload->stream->gone = gone;
    gb_backend_stream_abort(upload->stream);
}
