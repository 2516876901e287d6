/*
 * Input: from the socket into a buffer, from there command by command into the session.
 *
 * A turn works in the loop's scratch buffer. What is left of it at the turn's end, part of a
 * command, is copied to a buffer of the connection's own; if somebody waits in a pause, who may
 * have borrowed from it, the connection keeps the scratch buffer itself and the loop gets another.
 *
 * Fresh input is read only while a quarter of the network budget is free: the last quarter is for
 * those who need more to finish what they have begun, so they never wait for each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/conn_internal.h"
#include "server/loop_internal.h"
#include "server/metrics.h"

#define LEAST_BUFFER_BYTES 128u

static bool is_scratch(const struct gb_conn *conn)
{
    return conn->in == conn->loop->internal->pools.scratch;
}

static bool is_full(const struct gb_conn *conn)
{
    const struct gb_limits_options *set = &conn->loop->limits->set;
    return conn->unsent >= set->output_bytes || conn->send_count >= set->sends;
}

static bool is_open_for_commands(const struct gb_conn *conn)
{
    return !conn->closed && !conn->finishing && conn->pauses == 0 && conn->upload == NULL;
}

bool gb_conn_can_take(const struct gb_conn *conn)
{
    return is_open_for_commands(conn) && !is_full(conn) && conn->len > 0 &&
           (conn->len >= conn->want || conn->swallow > 0);
}

bool gb_conn_wants_input(const struct gb_conn *conn)
{
    if (conn->closed || conn->ended || conn->waiting) {
        return false;
    }
    if (conn->upload != NULL) {
        unsigned char *to = NULL;
        return gb_conn_upload_room(conn->upload, &to) > 0;
    }
    return is_open_for_commands(conn) && !is_full(conn) && !conn->is_ready;
}

/* ---- waiting for bytes --------------------------------------------------------------------- */

static void woken(struct gb_waiter *waiter);

void gb_conn_wait_for_bytes(struct gb_conn *conn)
{
    if (!conn->waiting) {
        gb_metrics_add(conn->loop->metrics, GB_METRICS_waits_bytes, 1);
    }
    conn->waiting = true;
    conn->waiter.wake = woken;
    gb_loop_wait(&conn->loop->bytes_line, &conn->waiter);
}

/* The loop's scratch buffer, or NULL without memory. */
static unsigned char *take_scratch(struct gb_conn *conn)
{
    struct gb_conn_pools *pools = &conn->loop->internal->pools;
    if (pools->scratch == NULL) {
        pools->scratch = malloc(pools->scratch_bytes);
        if (pools->scratch != NULL) {
            gb_limits_take_anyway(conn->loop->limits, pools->scratch_bytes);
        }
    }
    return pools->scratch;
}

static bool has_fresh_bytes(const struct gb_conn *conn)
{
    struct gb_limits *limits = conn->loop->limits;
    uint64_t used = atomic_load_explicit(&limits->used_bytes, memory_order_relaxed);
    return used + conn->loop->internal->pools.scratch_bytes <= limits->set.network_bytes / 4 * 3;
}

/* ---- buffers ------------------------------------------------------------------------------- */

void gb_conn_free_input(struct gb_conn *conn)
{
    if (conn->in != NULL && !is_scratch(conn)) {
        free(conn->in);
        gb_loop_give_bytes(conn->loop, conn->in_charge);
    }
    conn->in = NULL;
    conn->in_charge = 0;
    conn->in_capacity = conn->start = conn->len = 0;
}

/* Moves what is left to a buffer of so many bytes, which have been taken of the budget. */
static void move_to(struct gb_conn *conn, size_t bytes)
{
    unsigned char *in = malloc(bytes);
    if (in == NULL) {
        gb_loop_give_bytes(conn->loop, bytes);
        gb_conn_cut(conn, GB_CONN_END_session);
        return;
    }
    size_t len = conn->len;
    if (len > 0) {
        memcpy(in, conn->in + conn->start, len);
    }
    gb_conn_free_input(conn);
    conn->in = in;
    conn->in_capacity = conn->in_charge = bytes;
    conn->len = len;
}

/* Room for what the command needs, in one piece; else the connection stands in line. */
static void make_room(struct gb_conn *conn)
{
    struct gb_limits *limits = conn->loop->limits;
    size_t need = (size_t)gb_align_up(gb_max(conn->want, conn->len), LEAST_BUFFER_BYTES);
    if (!is_scratch(conn) && need <= conn->in_capacity) {
        if (conn->start + need > conn->in_capacity) {
            memmove(conn->in, conn->in + conn->start, conn->len);
            conn->start = 0;
        }
        return;
    }
    if (conn->want <= conn->len + 1) {
        need = (size_t)gb_max(need, gb_min(2 * conn->len, 2048)); /* it grows by the line */
    }
    if (gb_limits_take(limits, need)) {
        move_to(conn, need);
        return;
    }
    if (is_scratch(conn)) {
        size_t least = (size_t)gb_align_up(gb_max(conn->len, 1), LEAST_BUFFER_BYTES);
        gb_limits_take_anyway(limits, least);
        move_to(conn, least);
    }
    if (!conn->closed && !conn->waiting) {
        gb_conn_wait_for_bytes(conn);
    }
}

/* At the end of a turn: nothing may stay in the scratch buffer, and room is made for the rest of a
 * command. */
static void keep_input(struct gb_conn *conn)
{
    if (conn->in == NULL) {
        return;
    }
    if (conn->pauses > 0) {
        if (is_scratch(conn)) { /* it is the connection's now, with its charge */
            conn->loop->internal->pools.scratch = NULL;
            conn->in_charge = conn->loop->internal->pools.scratch_bytes;
        }
        return;
    }
    if (conn->closed) {
        return;
    }
    if (conn->len == 0) {
        gb_conn_free_input(conn);
    } else {
        make_room(conn);
    }
}

static void woken(struct gb_waiter *waiter)
{
    struct gb_conn *conn =
        (struct gb_conn *)(void *)((char *)waiter - offsetof(struct gb_conn, waiter));
    conn->waiting = false;
    gb_conn_ref(conn);
    if (conn->upload != NULL) {
        gb_conn_upload_wake(conn->upload);
    } else if (conn->len > 0) {
        make_room(conn);
    } else if (!has_fresh_bytes(conn)) {
        gb_conn_wait_for_bytes(conn);
    }
    conn->begun_ms = conn->command_ms = conn->loop->now_ms;
    gb_conn_settle(conn);
    gb_conn_unref(conn);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* How many bytes came; 0: none for now, and the end of the stream is noted. */
static size_t receive(struct gb_conn *conn, unsigned char *to, size_t room)
{
    ssize_t n =
        conn->tls == NULL ? recv(conn->fd, to, room, 0) : gb_tls_receive(conn->tls, to, room);
    if (n > 0) {
        conn->bytes_in += (uint64_t)n;
        gb_metrics_add(conn->loop->metrics, GB_METRICS_bytes_in, (uint64_t)n);
        return (size_t)n;
    }
    if (n == 0) {
        conn->ended = true;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        gb_conn_cut(conn, GB_CONN_END_client);
    }
    return 0;
}

void gb_conn_read(struct gb_conn *conn)
{
    if (conn->upload != NULL) {
        unsigned char *to = NULL;
        size_t room = gb_conn_upload_room(conn->upload, &to);
        size_t n = receive(conn, to, room);
        if (n > 0) {
            (void)gb_conn_upload_take(conn->upload, n);
        } else if (conn->ended) {
            gb_conn_cut(conn, GB_CONN_END_client); /* the rest will never come */
        }
        gb_conn_settle(conn);
        return;
    }
    if (conn->in == NULL) {
        if (!has_fresh_bytes(conn)) {
            gb_conn_wait_for_bytes(conn);
            gb_conn_settle(conn);
            return;
        }
        conn->in = take_scratch(conn);
        if (conn->in == NULL) {
            gb_conn_cut(conn, GB_CONN_END_session);
            return;
        }
        conn->in_capacity = conn->loop->internal->pools.scratch_bytes;
        conn->start = conn->len = 0;
    }
    size_t used = conn->start + conn->len;
    if (used == conn->in_capacity) { /* whole commands, left because output had to go first */
        gb_conn_turn(conn);
        return;
    }
    conn->len += receive(conn, conn->in + used, conn->in_capacity - used);
    if (!conn->closed) {
        gb_conn_turn(conn);
    }
}

/* ---- turns --------------------------------------------------------------------------------- */

static void consume(struct gb_conn *conn, size_t n)
{
    GB_ASSERT(n <= conn->len);
    conn->start += n;
    conn->len -= n;
}

/* One command. False: the turn is over. */
static bool take_command(struct gb_conn *conn)
{
    ptrdiff_t n = conn->ops->on_bytes(conn, conn->in + conn->start, conn->len);
    if (conn->closed) {
        return false;
    }
    if (n < 0) {
        gb_conn_flush(conn);
        gb_conn_cut(conn, GB_CONN_END_session);
        return false;
    }
    if (n == 0) {
        conn->want = (size_t)gb_max(conn->want, conn->len + 1);
        return false;
    }
    consume(conn, (size_t)n);
    conn->want = 0;
    conn->partial = false;
    conn->in_row = true;
    conn->command_ms = conn->loop->now_ms;
    return true;
}

static void take_commands(struct gb_conn *conn)
{
    unsigned left = conn->loop->limits->set.turn_commands;
    conn->in_row = false;
    while (gb_conn_can_take(conn)) {
        if (conn->swallow > 0) {
            size_t n = (size_t)gb_min(conn->swallow, conn->len);
            consume(conn, n);
            conn->swallow -= n;
            continue;
        }
        if (left-- == 0) {
            gb_metrics_add(conn->loop->metrics, GB_METRICS_turns_ended, 1);
            gb_conn_mark_ready(conn);
            return;
        }
        if (!take_command(conn)) {
            return;
        }
    }
    if (is_open_for_commands(conn) && is_full(conn) && conn->len > 0) {
        gb_metrics_add(conn->loop->metrics, GB_METRICS_output_stops, 1);
    }
}

void gb_conn_note_partial(struct gb_conn *conn)
{
    bool partial =
        conn->upload != NULL || conn->swallow > 0 || (conn->len > 0 && conn->len < conn->want);
    if (!partial || conn->partial) {
        conn->partial = partial;
        return;
    }
    struct gb_loop *loop = conn->loop;
    int64_t request_ms = loop->limits->set.request_ms;
    conn->partial = true;
    conn->begun_ms = loop->now_ms;
    conn->begun_bytes = conn->bytes_in;
    if (request_ms > 0 && (!gb_wheel_is_armed(&conn->input_deadline) ||
                           conn->input_deadline.at_ms > loop->now_ms + request_ms)) {
        gb_loop_arm(loop, &conn->input_deadline, loop->now_ms + request_ms);
    }
}

static void rearm_idle(struct gb_conn *conn)
{
    int64_t idle_ms = conn->loop->limits->set.idle_ms;
    if (idle_ms > 0 && !gb_wheel_is_armed(&conn->input_deadline)) {
        gb_loop_arm(conn->loop, &conn->input_deadline, conn->loop->now_ms + idle_ms);
    }
}

void gb_conn_turn(struct gb_conn *conn)
{
    gb_conn_ref(conn);
    conn->in_turn = true;
    take_commands(conn);
    conn->in_turn = false;
    if (!conn->closed && conn->upload != NULL) {
        gb_conn_upload_feed(conn);
    }
    keep_input(conn);
    if (!conn->closed) {
        gb_conn_note_partial(conn);
        rearm_idle(conn);
        gb_conn_flush(conn);
        gb_conn_settle(conn);
    }
    gb_conn_unref(conn);
}

/* ---- what sessions ask --------------------------------------------------------------------- */

void gb_conn_want(struct gb_conn *conn, size_t len)
{
    GB_ASSERT(conn->in_turn && len <= conn->loop->limits->set.whole_bytes + 64 * GB_KIB);
    conn->want = len;
}

bool gb_conn_in_row(const struct gb_conn *conn)
{
    return conn->in_row;
}

void gb_conn_swallow(struct gb_conn *conn, uint64_t len)
{
    conn->swallow += len;
}

void gb_conn_pause(struct gb_conn *conn)
{
    conn->pauses++;
    gb_conn_ref(conn);
}

void gb_conn_resume(struct gb_conn *conn)
{
    GB_ASSERT(conn->pauses > 0);
    conn->pauses--;
    if (!conn->closed && conn->pauses == 0) {
        conn->command_ms = conn->loop->now_ms;
        gb_conn_mark_ready(conn); /* a turn, even without input: the socket is polled again */
    }
    gb_conn_unref(conn);
}
