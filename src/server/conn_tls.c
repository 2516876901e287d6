/*
 * Handshakes of connections over TLS.
 *
 * One must be done within request_ms, whatever bytes have come until then; before that no command
 * is taken and nothing is sent. Then tls.h stands between the connection and its socket, with two
 * differences to plain text: bytes that were received may wait where the socket does not tell of
 * them, and bytes that were sent may wait behind an empty output.
 */
#include <errno.h>
#include <string.h>

#include "server/conn_internal.h"
#include "server/loop_internal.h"
#include "server/metrics.h"

int gb_conn_tls_open(struct gb_conn *conn, struct gb_tls *tls)
{
    int rc = gb_tls_open(&conn->tls, tls, conn->fd);
    if (rc < 0) {
        return rc;
    }
    conn->charge += GB_TLS_SESSION_BYTES;
    conn->shaking = true;
    conn->partial = true;
    return GOBLIN_OK;
}

/* What the socket did not take is paid for while it is there. */
static void account(struct gb_conn *conn)
{
    size_t now = gb_tls_unsent_bytes(conn->tls);
    size_t before = conn->tls_charge;
    conn->tls_charge = now;
    if (now > before) {
        gb_limits_take_anyway(conn->loop->limits, now - before);
    } else if (now < before) {
        gb_loop_give_bytes(conn->loop, before - now);
    }
}

ssize_t gb_conn_tls_send(struct gb_conn *conn, const struct iovec *iov, size_t count)
{
    ssize_t n = gb_tls_send(conn->tls, iov, count);
    int error = errno;
    account(conn);
    errno = error;
    return n;
}

void gb_conn_tls_close(struct gb_conn *conn)
{
    gb_tls_close(conn->tls);
    if (conn->tls_charge > 0) {
        gb_loop_give_bytes(conn->loop, conn->tls_charge);
    }
}

static void say_why(const struct gb_conn *conn, const char *why)
{
    const struct gb_log_field fields[] = {GB_LOG_TEXT("peer", conn->peer),
                                          GB_LOG_TEXT("error", why)};
    gb_log_event(conn->loop->log, GOBLIN_LOG_INFO, "handshake failed", fields, 2);
}

static void begin_commands(struct gb_conn *conn)
{
    conn->shaking = false;
    conn->partial = false;
    conn->command_ms = conn->loop->now_ms;
    gb_wheel_drop(&conn->loop->wheel, &conn->input_deadline); /* a turn arms it for idling */
    gb_conn_mark_ready(conn);
}

void gb_conn_tls_shake(struct gb_conn *conn)
{
    const char *why = NULL;
    int rc = gb_tls_shake(conn->tls, &why);
    if (rc == -EPROTO) {
        say_why(conn, why);
        gb_conn_cut(conn, GB_CONN_END_handshake);
        return;
    }
    if (rc == -ECONNRESET) {
        gb_conn_cut(conn, GB_CONN_END_client);
        return;
    }
    account(conn);
    conn->blocked = gb_tls_is_unsent(conn->tls);
    if (rc == GOBLIN_OK) {
        begin_commands(conn);
    }
    gb_conn_settle(conn);
}
