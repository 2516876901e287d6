/* Objects on their way from the reader into the output: see conn_internal.h for the order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/conn_internal.h"
#include "server/loop_internal.h"
#include "server/metrics.h"

static bool is_first(const struct gb_send *send)
{
    return send->conn->sends == send;
}

static void free_send(struct gb_send *send)
{
    struct gb_conn *conn = send->conn;
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    gb_loop_leave(&conn->loop->request_line, &send->waiter);
    free(send->key);
    if (pools->send_count < GB_CONN_SENDS_KEPT) {
        send->next = pools->sends;
        pools->sends = send;
        pools->send_count++;
    } else {
        free(send);
        gb_loop_give_bytes(conn->loop, GB_CONN_SEND_CHARGE);
    }
    gb_conn_unref(conn);
}

static struct gb_send *new_send(struct gb_loop *loop)
{
    struct gb_conn_pools *pools = &loop->internal->pools;
    struct gb_send *send = pools->sends;
    if (send != NULL) {
        pools->sends = send->next;
        pools->send_count--;
        return send;
    }
    send = malloc(sizeof(*send));
    if (send != NULL) {
        gb_limits_take_anyway(loop->limits, GB_CONN_SEND_CHARGE);
    }
    return send;
}

/* ---- asking the reader --------------------------------------------------------------------- */

static int on_chunk(void *arg, const struct goblin_chunk *chunk);
static void on_done(void *arg, int result, const struct goblin_info *info);

static void fill_request(struct gb_send *send)
{
    const struct gb_send_request *ask = &send->ask;
    send->request = (struct goblin_request){
        .key = ask->key,
        .offset = ask->offset,
        .length = ask->length,
        .flags = ask->flags,
        .ahead = GB_CONN_AHEAD,
        .on_chunk = on_chunk,
        .on_done = on_done,
        .arg = send,
    };
    if (send->headed) { /* in the middle */
        uint64_t left = send->end - send->at;
        send->request.offset = send->at;
        send->request.length = send->window != 0 ? gb_min(send->window, left) : left;
        send->request.flags = (ask->flags & ~(unsigned)GOBLIN_GET_META) | GOBLIN_GET_QUIET;
    }
}

static void wake(struct gb_waiter *waiter);

/* False: the connection is closed, and the send is gone. */
static bool submit(struct gb_send *send)
{
    struct gb_loop *loop = send->conn->loop;
    fill_request(send);
    send->reading = true;
    send->submitting = true;
    int rc = gb_backend_read(loop, &send->request);
    if (rc == -EAGAIN) {
        send->reading = false;
        send->waiter.wake = wake;
        gb_metrics_add(loop->metrics, GB_METRICS_waits_request, 1);
        gb_loop_wait(&loop->request_line, &send->waiter);
    } else if (rc < 0) {
        on_done(send, rc, NULL);
    }
    send->submitting = false;
    if (send->conn->closed) {
        free_send(send); /* gb_conn_send_close left it to us */
        return false;
    }
    return true;
}

static void wake(struct gb_waiter *waiter)
{
    struct gb_send *send =
        (struct gb_send *)(void *)((char *)waiter - offsetof(struct gb_send, waiter));
    struct gb_conn *conn = send->conn;
    gb_conn_ref(conn);
    if (submit(send)) {
        gb_conn_send_advance(conn);
    }
    gb_conn_unref(conn);
}

static bool keep_key(struct gb_send *send)
{
    if (send->done || send->key != NULL) {
        return true;
    }
    size_t len = send->ask.key.len;
    send->key = malloc(len == 0 ? 1 : len);
    if (send->key == NULL) {
        return false;
    }
    memcpy(send->key, send->ask.key.data, len);
    send->ask.key.data = send->key;
    return true;
}

void gb_conn_send(struct gb_conn *conn, const struct gb_send_request *request)
{
    if (conn->closed) {
        return;
    }
    struct gb_send *send = new_send(conn->loop);
    if (send == NULL) {
        gb_conn_cut(conn, GB_CONN_END_session);
        return;
    }
    *send = (struct gb_send){.conn = conn, .ask = *request};
    gb_conn_ref(conn);
    if (conn->sends_last == NULL) {
        conn->sends = send;
    } else {
        conn->sends_last->next = send;
    }
    conn->sends_last = send;
    conn->send_count++;
    gb_conn_ref(conn);
    if (submit(send)) {
        if (keep_key(send)) {
            gb_conn_send_advance(conn);
        } else {
            gb_conn_cut(conn, GB_CONN_END_session);
        }
    }
    gb_conn_unref(conn);
}

/* ---- what the reader brings ---------------------------------------------------------------- */

/* False: nothing of the body is wanted. */
static bool begin(struct gb_send *send, const struct goblin_chunk *chunk)
{
    const struct goblin_info *info = chunk->info;
    uint64_t from = gb_min(send->ask.offset, info->size);
    uint64_t most = info->size - from;
    send->headed = true;
    send->version = info->version;
    send->at = from;
    send->end = from + (send->ask.length == 0 ? most : gb_min(send->ask.length, most));
    if (send->ask.on_head(send, GOBLIN_OK, info, chunk->meta) == GB_SEND_NO_BODY) {
        send->end = send->at;
        return false;
    }
    return true;
}

/* Bytes of the reader's in the output of the send whose turn it is: written at once if the socket
 * takes them, else held. */
static int deliver_held(struct gb_send *send, const struct goblin_chunk *chunk)
{
    struct gb_conn *conn = send->conn;
    struct gb_piece_out *piece = gb_conn_put_held(conn, &conn->main, chunk);
    if (piece == NULL) {
        gb_conn_cut(conn, GB_CONN_END_session);
        return GOBLIN_CHUNK_STOP;
    }
    send->holds++;
    send->at += chunk->len;
    send->released = false;
    /* The head is written only after the reads behind it have been submitted. */
    if (!send->submitting && !conn->in_turn) {
        gb_conn_flush(conn);
    }
    if (conn->closed) {
        return GOBLIN_CHUNK_STOP;
    }
    if (send->released) {
        return GOBLIN_CHUNK_DONE;
    }
    piece->pending = false;
    return GOBLIN_CHUNK_HOLD;
}

static int on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct gb_send *send = arg;
    struct gb_conn *conn = send->conn;
    if (conn->closed) {
        return GOBLIN_CHUNK_STOP;
    }
    if (!send->headed) {
        if (!begin(send, chunk) || conn->closed) {
            return GOBLIN_CHUNK_STOP;
        }
    } else if (chunk->info->version != send->version) {
        gb_conn_cut(conn, GB_CONN_END_changed);
        return GOBLIN_CHUNK_STOP;
    }
    send->from_disk = send->from_disk || !chunk->resident;
    if (chunk->len <= GB_CONN_COPY_BYTES) {
        gb_conn_put(conn, is_first(send) ? &conn->main : &send->own, chunk->data, chunk->len);
        send->at += chunk->len;
        return conn->closed ? GOBLIN_CHUNK_STOP : GOBLIN_CHUNK_DONE;
    }
    if (is_first(send)) {
        return deliver_held(send, chunk);
    }
    /* Whoever waits for his turn holds nothing: those whose turn it is may need it. */
    if (gb_conn_put_copy(conn, &send->own, chunk)) {
        send->at += chunk->len;
        return GOBLIN_CHUNK_DONE;
    }
    send->parked = true;
    return GOBLIN_CHUNK_STOP;
}

static void complete(struct gb_send *send)
{
    send->done = true;
    if (!send->bodied) {
        send->bodied = true;
        if (send->ask.on_body != NULL) {
            send->ask.on_body(send, !send->from_disk);
        }
    }
}

/* A send without bytes: the session says why. */
static void answer_without(struct gb_send *send, int result)
{
    send->headed = true;
    (void)send->ask.on_head(send, result, NULL, (struct goblin_slice){0});
    if (!send->conn->closed) {
        complete(send);
    }
}

static void on_done(void *arg, int result, const struct goblin_info *info)
{
    (void)info;
    struct gb_send *send = arg;
    struct gb_conn *conn = send->conn;
    send->reading = false;
    gb_loop_request_ended(conn->loop);
    if (conn->closed) {
        return; /* gb_conn_send_close, or gb_conn_send, frees it */
    }
    gb_conn_ref(conn);
    if (!send->headed) {
        answer_without(send, result);
    } else if (send->parked) {
        gb_conn_mark_dirty(conn); /* goes on when its turn comes */
    } else if (send->at == send->end) {
        complete(send);
    } else if (result == GOBLIN_OK) { /* a window of it */
        send->window = send->window >= GB_CONN_WINDOW_MOST ? 0 : send->window * 2;
        send->parked = true;
        gb_conn_mark_dirty(conn);
    } else if (result == GOBLIN_MISS) {
        gb_conn_cut(conn, GB_CONN_END_changed);
    } else {
        gb_conn_cut(conn, GB_CONN_END_broken);
    }
    if (!conn->closed && !send->submitting && send->done && !conn->flushing) {
        gb_conn_send_advance(conn);
        if (!conn->in_turn) {
            gb_conn_mark_dirty(conn);
        }
    }
    gb_conn_unref(conn);
}

/* ---- the order ----------------------------------------------------------------------------- */

/* The first send is over; the turn is the next one's. */
static void pass_turn(struct gb_conn *conn)
{
    struct gb_send *send = conn->sends;
    conn->sends = send->next;
    if (conn->sends == NULL) {
        conn->sends_last = NULL;
    }
    conn->send_count--;
    gb_conn_splice(&conn->main, &send->trailer);
    gb_conn_splice(&conn->main, &send->after);
    if (conn->sends != NULL) {
        gb_conn_splice(&conn->main, &conn->sends->own);
    }
    free_send(send);
    if (!conn->in_turn) {
        gb_conn_mark_dirty(conn);
    }
}

void gb_conn_send_advance(struct gb_conn *conn)
{
    gb_conn_ref(conn);
    while (!conn->closed && conn->sends != NULL && !conn->sends->submitting) {
        struct gb_send *send = conn->sends;
        if (send->parked && !send->reading && conn->main.first == NULL) {
            send->parked = false;
            gb_metrics_add(conn->loop->metrics, GB_METRICS_sends_resumed, 1);
            if (!submit(send)) {
                break;
            }
        }
        if (!send->done || send->holds > 0) {
            break;
        }
        pass_turn(conn);
    }
    gb_conn_unref(conn);
}

void gb_conn_send_unheld(struct gb_conn *conn)
{
    struct gb_send *send = conn->sends;
    GB_ASSERT(send != NULL && send->holds > 0);
    send->holds--;
}

void gb_conn_send_dropped(struct gb_conn *conn, uint64_t offset)
{
    struct gb_send *send = conn->sends;
    if (offset != UINT64_MAX) {
        send->at = offset;
        send->done = false;
        send->holds = 0;
    }
    if (!send->done && !send->parked) {
        send->parked = true;
        send->window = GB_CONN_WINDOW_BYTES;
        if (send->reading) {
            goblin_cancel(conn->loop->reader, &send->request);
        }
    }
    gb_conn_mark_dirty(conn);
}

void gb_conn_send_close(struct gb_conn *conn)
{
    struct gb_send *send = conn->sends;
    (void)gb_conn_drop_pieces(conn, &conn->main); /* counts on the first send */
    conn->sends = conn->sends_last = NULL;
    conn->send_count = 0;
    while (send != NULL) {
        struct gb_send *next = send->next;
        (void)gb_conn_drop_pieces(conn, &send->own);
        (void)gb_conn_drop_pieces(conn, &send->trailer);
        (void)gb_conn_drop_pieces(conn, &send->after);
        gb_loop_leave(&conn->loop->request_line, &send->waiter);
        if (send->reading && !send->submitting) {
            goblin_cancel(conn->loop->reader, &send->request);
        }
        if (!send->submitting) {
            free_send(send);
        }
        send = next;
    }
}

/* ---- what sessions ask --------------------------------------------------------------------- */

struct gb_conn *gb_send_conn(const struct gb_send *send)
{
    return send->conn;
}

uint64_t *gb_send_tag(struct gb_send *send)
{
    return send->ask.tag;
}

void gb_send_append(struct gb_send *send, const void *data, size_t len)
{
    struct gb_conn *conn = send->conn;
    if (conn->closed) {
        return;
    }
    struct gb_pieces *to = !is_first(send)   ? &send->own
                           : send->holds > 0 ? &send->trailer
                                             : &conn->main;
    gb_conn_put(conn, to, data, len);
}
