/* A connection's life: opening, what the socket and the deadlines say, closing. */
#include "server/conn_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/loop_internal.h"
#include "server/metrics.h"

_Static_assert(GB_CONN_END_COUNT <= GB_METRICS_ENDS, "every way to end is counted");

#define FROM_DEADLINE(deadline, member)                                                            \
    ((struct gb_conn *)(void *)((char *)(deadline)-offsetof(struct gb_conn, member)))

static struct gb_conn_pools *pools_of(const struct gb_loop *loop)
{
    return &loop->internal->pools;
}

/* ---- pools --------------------------------------------------------------------------------- */

void gb_conn_pools_init(struct gb_loop *loop)
{
    struct gb_conn_pools *pools = pools_of(loop);
    unsigned loops = *loop->internal->options.loop_count;
    uint64_t share = loop->limits->set.network_bytes / 32 / (loops == 0 ? 1 : loops);
    pools->scratch_bytes = (size_t)gb_min(
        gb_max(loop->limits->set.network_bytes / 512, GB_CONN_SCRATCH_LEAST), GB_CONN_SCRATCH_MOST);
    pools->blocks_most = (unsigned)gb_min(gb_max(share / GB_CONN_BLOCK_BYTES, 2), 256);
}

void gb_conn_pools_fini(struct gb_loop *loop)
{
    struct gb_conn_pools *pools = pools_of(loop);
    while (pools->blocks != NULL) {
        struct gb_piece_out *next = pools->blocks->next;
        gb_limits_give(loop->limits, pools->blocks->charge);
        free(pools->blocks);
        pools->blocks = next;
    }
    while (pools->held != NULL) {
        struct gb_piece_out *next = pools->held->next;
        free(pools->held);
        pools->held = next;
    }
    while (pools->sends != NULL) {
        struct gb_send *next = pools->sends->next;
        gb_limits_give(loop->limits, GB_CONN_SEND_CHARGE);
        free(pools->sends);
        pools->sends = next;
    }
    if (pools->scratch != NULL) {
        gb_limits_give(loop->limits, pools->scratch_bytes);
        free(pools->scratch);
        pools->scratch = NULL;
    }
}

/* ---- what there is to do ------------------------------------------------------------------- */

static void go_on(struct gb_conn *conn, bool readable)
{
    if (conn->shaking) {
        gb_conn_tls_shake(conn);
    } else if ((readable || gb_conn_tls_has_more(conn)) && gb_conn_wants_input(conn)) {
        gb_conn_read(conn);
    } else {
        gb_conn_turn(conn);
    }
}

/* ---- lists of the loop --------------------------------------------------------------------- */

void gb_conn_mark_ready(struct gb_conn *conn)
{
    struct gb_conn_pools *pools = pools_of(conn->loop);
    if (conn->is_ready || conn->closed) {
        return;
    }
    conn->is_ready = true;
    conn->next_ready = NULL;
    gb_conn_ref(conn);
    if (pools->ready == NULL) {
        pools->ready = conn;
    } else {
        pools->ready_last->next_ready = conn;
    }
    pools->ready_last = conn;
}

bool gb_conn_run_ready(struct gb_loop *loop)
{
    struct gb_conn_pools *pools = pools_of(loop);
    struct gb_conn *conn = pools->ready;
    pools->ready = pools->ready_last = NULL;
    while (conn != NULL) {
        struct gb_conn *next = conn->next_ready;
        conn->is_ready = false;
        if (!conn->closed) {
            go_on(conn, false);
        }
        gb_conn_unref(conn);
        conn = next;
    }
    return pools->ready != NULL;
}

void gb_conn_mark_dirty(struct gb_conn *conn)
{
    struct gb_conn_pools *pools = pools_of(conn->loop);
    if (conn->is_dirty || conn->closed) {
        return;
    }
    conn->is_dirty = true;
    gb_conn_ref(conn);
    conn->next_dirty = pools->dirty;
    pools->dirty = conn;
}

bool gb_conn_run_dirty(struct gb_loop *loop)
{
    struct gb_conn_pools *pools = pools_of(loop);
    struct gb_conn *conn = pools->dirty;
    bool some = conn != NULL;
    pools->dirty = NULL;
    while (conn != NULL) {
        struct gb_conn *next = conn->next_dirty;
        conn->is_dirty = false;
        if (!conn->closed) {
            gb_conn_flush(conn);
            gb_conn_settle(conn);
        }
        gb_conn_unref(conn);
        conn = next;
    }
    return some;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static void describe_peer(struct gb_conn *conn)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    memset(&from, 0, sizeof(from));
    char host[INET6_ADDRSTRLEN] = "?";
    if (getpeername(conn->fd, (struct sockaddr *)&from, &len) != 0 || from.ss_family == AF_UNIX) {
        (void)snprintf(conn->peer, sizeof(conn->peer), "unix");
    } else if (from.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&from;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        (void)snprintf(conn->peer, sizeof(conn->peer), "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&from;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void)snprintf(conn->peer, sizeof(conn->peer), "%s:%u", host, ntohs(in->sin_port));
    }
}

static void happened(uv_poll_t *poll, int status, int events)
{
    struct gb_conn *conn = poll->data;
    gb_loop_refresh(conn->loop);
    if (status < 0) {
        gb_conn_cut(conn, GB_CONN_END_client);
        return;
    }
    gb_conn_ref(conn);
    if ((events & UV_WRITABLE) != 0) {
        conn->blocked = false;
        gb_conn_flush(conn);
    }
    if (!conn->closed) {
        go_on(conn, (events & UV_READABLE) != 0);
    }
    gb_conn_unref(conn);
}

static void input_fired(struct gb_deadline *deadline);
static void stall_fired(struct gb_deadline *deadline);

/* NULL without memory. */
static struct gb_conn *create(struct gb_loop *loop, int fd, const struct gb_conn_ops *ops,
                              struct gb_tls *tls)
{
    size_t bytes = sizeof(struct gb_conn) + ops->state_bytes;
    struct gb_conn *conn = calloc(1, bytes);
    if (conn == NULL) {
        return NULL;
    }
    conn->loop = loop;
    conn->ops = ops;
    conn->fd = fd;
    conn->charge = bytes;
    conn->begun_ms = conn->command_ms = loop->now_ms;
    if (tls != NULL && gb_conn_tls_open(conn, tls) < 0) {
        free(conn);
        return NULL;
    }
    if (uv_poll_init(&loop->uv, &conn->poll, fd) != 0) {
        gb_tls_close(conn->tls);
        free(conn);
        return NULL;
    }
    return conn;
}

static void begin_waiting(struct gb_conn *conn)
{
    const struct gb_limits_options *set = &conn->loop->limits->set;
    int64_t most_ms = conn->shaking ? set->request_ms : set->idle_ms;
    if (most_ms > 0) {
        gb_loop_arm(conn->loop, &conn->input_deadline, conn->loop->now_ms + most_ms);
    }
}

int gb_conn_open(struct gb_loop *loop, const struct gb_listener *listener, int fd,
                 const struct gb_conn_ops *ops, struct gb_tls *tls)
{
    static _Atomic uint64_t numbers = 0; /* unique is all they are */
    struct gb_conn *conn = create(loop, fd, ops, tls);
    if (conn == NULL) {
        (void)close(fd);
        gb_limits_end(loop->limits);
        return -ENOMEM;
    }
    gb_limits_take_anyway(loop->limits, conn->charge); /* accepting saw to it that there is room */
    conn->listener = listener;
    conn->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
    conn->refs = 2; /* the socket's, and its handle's */
    conn->poll.data = conn;
    conn->input_deadline.fire = input_fired;
    conn->stall_deadline.fire = stall_fired;
    conn->hold_deadline.fire = gb_conn_hold_fired;
    describe_peer(conn);
    loop->internal->handles++;
    atomic_fetch_add_explicit(&loop->internal->load, 1, memory_order_relaxed);
    conn->next = loop->conns;
    if (conn->next != NULL) {
        conn->next->prev = conn;
    }
    loop->conns = conn;
    if (ops->on_open != NULL && ops->on_open(conn) < 0) {
        gb_conn_cut(conn, GB_CONN_END_session);
        return GOBLIN_OK;
    }
    begin_waiting(conn);
    gb_conn_mark_ready(conn); /* polls; often the first command is there already */
    return GOBLIN_OK;
}

void gb_conn_ref(struct gb_conn *conn)
{
    conn->refs++;
}

void gb_conn_unref(struct gb_conn *conn)
{
    GB_ASSERT(conn->refs > 0);
    if (--conn->refs > 0) {
        return;
    }
    GB_ASSERT(conn->closed && conn->handle_closed);
    if (conn->ops->on_free != NULL) {
        conn->ops->on_free(conn);
    }
    gb_conn_free_input(conn);
    gb_conn_tls_close(conn);
    struct gb_loop *loop = conn->loop;
    uint64_t charge = conn->charge;
    free(conn);
    gb_loop_give_bytes(loop, charge);
}

static void handle_closed(uv_handle_t *handle)
{
    struct gb_conn *conn = handle->data;
    struct gb_loop *loop = conn->loop;
    (void)close(conn->fd);
    conn->handle_closed = true;
    loop->internal->handles--;
    atomic_fetch_sub_explicit(&loop->internal->load, 1, memory_order_relaxed);
    gb_limits_end(loop->limits);
    gb_conn_unref(conn);
}

static void leave_list(struct gb_conn *conn)
{
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        conn->loop->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    conn->next = conn->prev = NULL;
}

void gb_conn_cut(struct gb_conn *conn, enum gb_conn_end why)
{
    if (conn->closed) {
        return;
    }
    struct gb_loop *loop = conn->loop;
    bool says_why =
        why == GB_CONN_END_idle || why == GB_CONN_END_request || why == GB_CONN_END_drained;
    if (says_why && conn->ops->on_cut != NULL && conn->sends == NULL) {
        conn->ops->on_cut(conn, why);
        gb_conn_flush(conn);
        if (conn->closed) {
            return;
        }
    }
    conn->closed = true;
    conn->why = why;
    gb_metrics_end(loop->metrics, why);
    gb_wheel_drop(&loop->wheel, &conn->input_deadline);
    gb_wheel_drop(&loop->wheel, &conn->stall_deadline);
    gb_wheel_drop(&loop->wheel, &conn->hold_deadline);
    gb_loop_leave(&loop->bytes_line, &conn->waiter);
    leave_list(conn);
    gb_conn_send_close(conn);
    (void)gb_conn_drop_pieces(conn, &conn->main);
    gb_conn_upload_close(conn);
    if (conn->tls != NULL && !conn->shaking) {
        gb_tls_finish(conn->tls);
    }
    uv_close((uv_handle_t *)&conn->poll, handle_closed);
    if (conn->ops->on_close != NULL) {
        conn->ops->on_close(conn);
    }
    GB_ASSERT(conn->refs > 1); /* its handle's is left */
    conn->refs--;
}

void gb_conn_finish(struct gb_conn *conn)
{
    conn->finishing = true;
    if (!conn->in_turn) {
        gb_conn_mark_dirty(conn);
    }
}

bool gb_conn_is_finishing(const struct gb_conn *conn)
{
    return conn->finishing;
}

void gb_conn_listen(struct gb_conn *conn)
{
    conn->listens = true;
}

/* ---- what it waits for --------------------------------------------------------------------- */

/* Nothing has been asked for that is not answered and sent. */
static bool is_quiet(const struct gb_conn *conn)
{
    return conn->sends == NULL && conn->main.first == NULL && conn->pauses == 0 &&
           conn->upload == NULL && !gb_conn_tls_is_unsent(conn);
}

static bool is_through(const struct gb_conn *conn)
{
    if (!is_quiet(conn)) {
        return false;
    }
    if (conn->finishing) {
        return true;
    }
    /* What is left of the input is not a whole command, or it would have been taken. */
    bool stuck = !conn->is_ready && !conn->waiting && !gb_conn_can_take(conn);
    return (conn->ended && stuck) ||
           (conn->loop->draining && stuck && conn->len == 0 && conn->swallow == 0);
}

void gb_conn_settle(struct gb_conn *conn)
{
    if (conn->closed || conn->in_turn) {
        return;
    }
    if (is_through(conn)) {
        gb_conn_cut(conn, conn->finishing ? GB_CONN_END_session
                          : conn->ended   ? GB_CONN_END_client
                                          : GB_CONN_END_drained);
        return;
    }
    if (gb_conn_can_take(conn) || (gb_conn_tls_has_more(conn) && gb_conn_wants_input(conn))) {
        gb_conn_mark_ready(conn);
    }
    int events = 0;
    if (gb_conn_wants_input(conn) || conn->is_ready) {
        events |= UV_READABLE; /* also if it is about to be taken up again: that is cheaper */
    }
    if (conn->blocked) {
        events |= UV_WRITABLE;
    }
    if (events == conn->events) {
        return;
    }
    int rc = events == 0 ? uv_poll_stop(&conn->poll) : uv_poll_start(&conn->poll, events, happened);
    conn->events = events;
    if (rc < 0) {
        gb_conn_cut(conn, GB_CONN_END_client);
    }
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* The server's own doing is not held against the client. */
static bool is_ours_to_move(const struct gb_conn *conn)
{
    bool upload_waits = conn->upload != NULL && !gb_conn_wants_input(conn);
    return !conn->shaking &&
           (conn->sends != NULL || conn->main.first != NULL || conn->waiting || upload_waits ||
            (conn->pauses > 0 && conn->upload == NULL) || conn->is_ready || conn->listens);
}

static void input_fired(struct gb_deadline *deadline)
{
    struct gb_conn *conn = FROM_DEADLINE(deadline, input_deadline);
    struct gb_loop *loop = conn->loop;
    const struct gb_limits_options *set = &loop->limits->set;
    if (is_ours_to_move(conn)) {
        conn->command_ms = conn->begun_ms = loop->now_ms;
        conn->begun_bytes = conn->bytes_in;
    } else if (conn->partial && conn->bytes_in - conn->begun_bytes >= GB_LIMITS_PROGRESS_BYTES) {
        conn->begun_ms = loop->now_ms;
        conn->begun_bytes = conn->bytes_in;
    }
    bool limited = conn->partial ? set->request_ms > 0 : set->idle_ms > 0;
    int64_t due_ms =
        conn->partial ? conn->begun_ms + set->request_ms : conn->command_ms + set->idle_ms;
    if (!limited) {
        return; /* armed anew with the next command that begins */
    }
    if (due_ms > loop->now_ms) {
        gb_loop_arm(loop, deadline, due_ms);
        return;
    }
    gb_conn_cut(conn, conn->partial ? GB_CONN_END_request : GB_CONN_END_idle);
}

static void stall_fired(struct gb_deadline *deadline)
{
    struct gb_conn *conn = FROM_DEADLINE(deadline, stall_deadline);
    struct gb_loop *loop = conn->loop;
    if (!conn->blocked) {
        return; /* armed again when the socket takes no more */
    }
    if (conn->bytes_out - conn->stall_bytes >= GB_LIMITS_PROGRESS_BYTES) {
        conn->stall_ms = loop->now_ms;
        conn->stall_bytes = conn->bytes_out;
    }
    int64_t due_ms = conn->stall_ms + loop->limits->set.stall_ms;
    if (due_ms > loop->now_ms) {
        gb_loop_arm(loop, deadline, due_ms);
        return;
    }
    gb_conn_cut(conn, GB_CONN_END_stalled);
}

/* ---- all of a loop ------------------------------------------------------------------------- */

void gb_conn_drain_all(struct gb_loop *loop)
{
    struct gb_conn *next = NULL;
    for (struct gb_conn *conn = loop->conns; conn != NULL; conn = next) {
        next = conn->next;
        gb_conn_settle(conn);
    }
}

void gb_conn_cut_all(struct gb_loop *loop)
{
    while (loop->conns != NULL) {
        gb_conn_cut(loop->conns, GB_CONN_END_drained);
    }
}

/* ---- what sessions ask --------------------------------------------------------------------- */

void *gb_conn_state(struct gb_conn *conn)
{
    return conn->state;
}

struct gb_loop *gb_conn_loop(const struct gb_conn *conn)
{
    return conn->loop;
}

const struct gb_listener *gb_conn_listener(const struct gb_conn *conn)
{
    return conn->listener;
}

bool gb_conn_is_closed(const struct gb_conn *conn)
{
    return conn->closed;
}

enum gb_conn_end gb_conn_why_closed(const struct gb_conn *conn)
{
    return conn->why;
}

const char *gb_conn_peer(const struct gb_conn *conn)
{
    return conn->peer;
}

uint64_t gb_conn_number(const struct gb_conn *conn)
{
    return conn->number;
}

int gb_conn_fd(const struct gb_conn *conn)
{
    return conn->fd;
}

int64_t gb_conn_idle_ms(const struct gb_conn *conn)
{
    return conn->loop->now_ms - conn->command_ms;
}

uint64_t gb_conn_bytes_in(const struct gb_conn *conn)
{
    return conn->bytes_in;
}

uint64_t gb_conn_bytes_out(const struct gb_conn *conn)
{
    return conn->bytes_out;
}

struct gb_conn *gb_conn_next(const struct gb_loop *loop, const struct gb_conn *conn)
{
    return conn == NULL ? loop->conns : conn->next;
}
