/* Output: the list of what is to be sent, and sending it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/conn_internal.h"
#include "server/loop_internal.h"
#include "server/metrics.h"

#define HOLD_PROGRESS_BYTES (2 * (uint64_t)65536) /* within hold_ms: the client keeps up */

/* ---- pieces -------------------------------------------------------------------------------- */

static void append_piece(struct gb_pieces *pieces, struct gb_piece_out *piece)
{
    piece->next = NULL;
    if (pieces->last == NULL) {
        pieces->first = piece;
    } else {
        pieces->last->next = piece;
    }
    pieces->last = piece;
}

static struct gb_piece_out *take_owned(struct gb_conn *conn, size_t room, bool must)
{
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    struct gb_piece_out *piece = pools->blocks;
    if (room == GB_CONN_BLOCK_BYTES && piece != NULL) {
        pools->blocks = piece->next;
        pools->block_count--;
    } else {
        uint64_t charge = sizeof(*piece) + room;
        bool taken = gb_limits_take(conn->loop->limits, charge);
        if (!taken && !must) {
            return NULL;
        }
        piece = malloc(charge);
        if (piece != NULL && !taken) {
            gb_limits_take_anyway(conn->loop->limits, charge);
        } else if (piece == NULL && taken) {
            gb_loop_give_bytes(conn->loop, charge);
        }
        if (piece == NULL) {
            return NULL;
        }
        *piece = (struct gb_piece_out){.charge = charge};
    }
    piece->kind = GB_PIECE_OWNED;
    piece->data = piece->bytes;
    piece->len = 0;
    piece->room = room;
    return piece;
}

static void free_owned(struct gb_conn *conn, struct gb_piece_out *piece)
{
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    bool is_block = piece->charge == sizeof(*piece) + GB_CONN_BLOCK_BYTES;
    bool wanted = atomic_load_explicit(&conn->loop->limits->waiters, memory_order_relaxed) > 0;
    if (is_block && pools->block_count < pools->blocks_most && !wanted) {
        piece->next = pools->blocks;
        pools->blocks = piece;
        pools->block_count++;
        return;
    }
    uint64_t charge = piece->charge;
    free(piece);
    gb_loop_give_bytes(conn->loop, charge);
}

/* The reader's bytes are not needed any more. */
static void let_go(struct gb_conn *conn, struct gb_piece_out *piece)
{
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    if (piece->pending) {
        conn->sends->released = true;
    } else {
        goblin_release(conn->loop->reader, piece->hold);
        gb_loop_touch_reader(conn->loop);
    }
    piece->next = pools->held;
    pools->held = piece;
}

static void free_piece(struct gb_conn *conn, struct gb_piece_out *piece)
{
    if (piece->kind == GB_PIECE_HELD) {
        let_go(conn, piece);
    } else {
        free_owned(conn, piece);
    }
}

size_t gb_conn_drop_pieces(struct gb_conn *conn, struct gb_pieces *pieces)
{
    size_t bytes = 0;
    while (pieces->first != NULL) {
        struct gb_piece_out *piece = pieces->first;
        pieces->first = piece->next;
        bytes += piece->len;
        free_piece(conn, piece);
    }
    pieces->last = NULL;
    conn->unsent -= bytes;
    return bytes;
}

void gb_conn_splice(struct gb_pieces *to, struct gb_pieces *from)
{
    if (from->first == NULL) {
        return;
    }
    if (to->last == NULL) {
        to->first = from->first;
    } else {
        to->last->next = from->first;
    }
    to->last = from->last;
    *from = (struct gb_pieces){0};
}

/* ---- appending ----------------------------------------------------------------------------- */

static struct gb_piece_out *block_with_room(struct gb_conn *conn, struct gb_pieces *pieces,
                                            size_t least)
{
    struct gb_piece_out *piece = pieces->last;
    if (piece != NULL && piece->kind == GB_PIECE_OWNED && piece->room >= least) {
        return piece;
    }
    piece = take_owned(conn, GB_CONN_BLOCK_BYTES, true);
    if (piece == NULL) {
        gb_conn_cut(conn, GB_CONN_END_session);
        return NULL;
    }
    append_piece(pieces, piece);
    return piece;
}

static void note_output(struct gb_conn *conn)
{
    if (!conn->in_turn) {
        gb_conn_mark_dirty(conn);
    }
}

void gb_conn_put(struct gb_conn *conn, struct gb_pieces *pieces, const void *data, size_t len)
{
    const unsigned char *from = data;
    while (len > 0) {
        struct gb_piece_out *piece = block_with_room(conn, pieces, 1);
        if (piece == NULL) {
            return;
        }
        size_t n = (size_t)gb_min(piece->room, len);
        memcpy((unsigned char *)(uintptr_t)piece->data + piece->len, from, n);
        piece->len += n;
        piece->room -= n;
        conn->unsent += n;
        from += n;
        len -= n;
    }
    note_output(conn);
}

struct gb_piece_out *gb_conn_put_held(struct gb_conn *conn, struct gb_pieces *pieces,
                                      const struct goblin_chunk *chunk)
{
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    struct gb_piece_out *piece = pools->held;
    if (piece != NULL) {
        pools->held = piece->next;
    } else {
        piece = malloc(sizeof(*piece));
        if (piece == NULL) {
            return NULL;
        }
    }
    *piece = (struct gb_piece_out){
        .data = chunk->data,
        .len = chunk->len,
        .hold = chunk->hold,
        .offset = chunk->offset,
        .kind = GB_PIECE_HELD,
        .pending = true,
    };
    append_piece(pieces, piece);
    conn->unsent += chunk->len;
    note_output(conn);
    return piece;
}

bool gb_conn_put_copy(struct gb_conn *conn, struct gb_pieces *pieces,
                      const struct goblin_chunk *chunk)
{
    struct gb_piece_out *piece = take_owned(conn, chunk->len, false);
    if (piece == NULL) {
        return false;
    }
    memcpy(piece->bytes, chunk->data, chunk->len);
    piece->len = chunk->len;
    piece->room = 0;
    append_piece(pieces, piece);
    conn->unsent += chunk->len;
    note_output(conn);
    return true;
}

static struct gb_pieces *tail_of(struct gb_conn *conn)
{
    return conn->sends_last == NULL ? &conn->main : &conn->sends_last->after;
}

void gb_conn_append(struct gb_conn *conn, const void *data, size_t len)
{
    if (!conn->closed) {
        gb_conn_put(conn, tail_of(conn), data, len);
    }
}

unsigned char *gb_conn_reserve(struct gb_conn *conn, size_t len)
{
    GB_ASSERT(len <= GB_CONN_RESERVE_MAX);
    if (conn->closed) {
        return NULL;
    }
    struct gb_piece_out *piece = block_with_room(conn, tail_of(conn), len);
    return piece == NULL ? NULL : (unsigned char *)(uintptr_t)piece->data + piece->len;
}

void gb_conn_commit(struct gb_conn *conn, size_t len)
{
    if (conn->closed) {
        return;
    }
    struct gb_piece_out *piece = tail_of(conn)->last;
    GB_ASSERT(piece != NULL && len <= piece->room);
    piece->len += len;
    piece->room -= len;
    conn->unsent += len;
    note_output(conn);
}

bool gb_conn_full(struct gb_conn *conn)
{
    conn->full = conn->full || conn->unsent >= conn->loop->limits->set.output_bytes;
    return conn->full;
}

size_t gb_conn_unsent(const struct gb_conn *conn)
{
    return conn->unsent;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* The socket has taken `n` bytes of main. */
static void sent(struct gb_conn *conn, size_t n)
{
    conn->bytes_out += n;
    conn->unsent -= n;
    gb_metrics_add(conn->loop->metrics, GB_METRICS_bytes_out, n);
    while (conn->main.first != NULL && (n > 0 || conn->main.first->len == 0)) {
        struct gb_piece_out *piece = conn->main.first;
        size_t part = (size_t)gb_min(n, piece->len);
        piece->data += part;
        piece->len -= part;
        piece->offset += part;
        n -= part;
        if (piece->len > 0) {
            return;
        }
        conn->main.first = piece->next;
        if (piece->next == NULL) {
            conn->main.last = NULL;
        }
        bool held = piece->kind == GB_PIECE_HELD;
        free_piece(conn, piece);
        if (held) {
            gb_conn_send_unheld(conn);
        }
    }
}

static ssize_t write_out(struct gb_conn *conn, struct iovec *iov, size_t count, size_t total)
{
    if (conn->tls != NULL) {
        return gb_conn_tls_send(conn, iov, count);
    }
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    return total == 0 ? 0 : sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

/* False: the socket takes no more, or the connection is closed. */
static bool send_some(struct gb_conn *conn)
{
    struct iovec iov[GB_CONN_IOV];
    size_t count = 0;
    size_t total = 0;
    for (const struct gb_piece_out *piece = conn->main.first; piece != NULL && count < GB_CONN_IOV;
         piece = piece->next) {
        iov[count++] = (struct iovec){(void *)(uintptr_t)piece->data, piece->len};
        total += piece->len;
    }
    ssize_t n = write_out(conn, iov, count, total);
    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        gb_conn_cut(conn, GB_CONN_END_client);
        return false;
    }
    if (n >= 0) {
        sent(conn, (size_t)n);
    }
    conn->blocked = n < 0 || (size_t)n < total || gb_conn_tls_is_unsent(conn);
    return !conn->blocked;
}

static bool has_held(const struct gb_conn *conn)
{
    return conn->sends != NULL && conn->sends->holds > 0;
}

static void arm_hold(struct gb_conn *conn)
{
    if (has_held(conn) && !gb_wheel_is_armed(&conn->hold_deadline)) {
        conn->hold_bytes = conn->bytes_out;
        gb_loop_arm(conn->loop, &conn->hold_deadline,
                    conn->loop->now_ms + conn->loop->limits->set.hold_ms);
    }
}

static void watch_blocked(struct gb_conn *conn)
{
    struct gb_loop *loop = conn->loop;
    if (!gb_wheel_is_armed(&conn->stall_deadline)) {
        conn->stall_ms = loop->now_ms;
        conn->stall_bytes = conn->bytes_out;
        gb_loop_arm(loop, &conn->stall_deadline, loop->now_ms + loop->limits->set.stall_ms);
    }
    arm_hold(conn);
}

void gb_conn_flush(struct gb_conn *conn)
{
    if (conn->flushing || conn->closed || conn->shaking) {
        return;
    }
    conn->flushing = true;
    gb_conn_ref(conn);
    while (!conn->closed && !conn->blocked) {
        if (conn->main.first == NULL) {
            gb_conn_send_advance(conn); /* may bring more */
        }
        bool some = conn->main.first != NULL || gb_conn_tls_is_unsent(conn);
        if (conn->closed || !some || !send_some(conn)) {
            break;
        }
    }
    conn->flushing = false;
    if (!conn->closed && conn->blocked) {
        watch_blocked(conn);
    }
    if (!conn->closed && conn->full && conn->unsent < conn->loop->limits->set.output_bytes / 2) {
        conn->full = false;
        if (conn->ops->on_drained != NULL) {
            conn->ops->on_drained(conn);
        }
    }
    gb_conn_unref(conn);
}

/* ---- who is too slow ----------------------------------------------------------------------- */

/* Copies a held piece if it, with what stands before it, stays within the output's limit. */
static struct gb_piece_out *copy_of(struct gb_conn *conn, const struct gb_piece_out *piece,
                                    size_t before)
{
    if (before + piece->len > conn->loop->limits->set.output_bytes) {
        return NULL;
    }
    struct gb_piece_out *copy = take_owned(conn, piece->len, false);
    if (copy != NULL) {
        memcpy(copy->bytes, piece->data, piece->len);
        copy->len = piece->len;
        copy->room = 0;
    }
    return copy;
}

void gb_conn_hold_fired(struct gb_deadline *deadline)
{
    struct gb_conn *conn =
        (struct gb_conn *)(void *)((char *)deadline - offsetof(struct gb_conn, hold_deadline));
    if (!conn->blocked || !has_held(conn)) {
        return;
    }
    if (conn->bytes_out - conn->hold_bytes >= HOLD_PROGRESS_BYTES) {
        arm_hold(conn);
        return;
    }
    struct gb_pieces rest = conn->main;
    conn->main = (struct gb_pieces){0};
    size_t before = 0;
    while (rest.first != NULL) {
        struct gb_piece_out *piece = rest.first;
        struct gb_piece_out *keep = piece;
        if (piece->kind == GB_PIECE_HELD && (keep = copy_of(conn, piece, before)) == NULL) {
            break;
        }
        rest.first = piece->next;
        before += piece->len;
        append_piece(&conn->main, keep);
        if (keep != piece) {
            free_piece(conn, piece);
            gb_metrics_add(conn->loop->metrics, GB_METRICS_holds_copied, 1);
            gb_conn_send_unheld(conn);
        }
    }
    uint64_t offset = UINT64_MAX;
    if (rest.first != NULL) {
        offset = rest.first->offset;
        gb_metrics_add(conn->loop->metrics, GB_METRICS_holds_dropped, 1);
        (void)gb_conn_drop_pieces(conn, &rest);
    }
    gb_conn_send_dropped(conn, offset);
    gb_conn_settle(conn);
}
