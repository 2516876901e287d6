/* Daemons, sockets and deadlines: the life of HTTP's connections. See http.h. */
#include "server/http.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/conn.h"
#include "server/http_internal.h"
#include "server/http_socket.h"
#include "server/log.h"
#include "server/server.h"

#define SOON_MS 1000 /* how often a client that is to send something is looked at */
#define RUNS    4    /* of libmicrohttpd, in one round of the loop */

/* One of libmicrohttpd's, and what the loop polls for it. */
struct gb_http_daemon {
    struct gb_http *http;
    struct MHD_Daemon *mhd;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t busy;   /* runs while there is more to do at once: the loop does not sleep */
    unsigned handles; /* of the three, not closed yet */
    bool again;       /* a connection was resumed */
};

static void let_go(struct gb_http *http)
{
    GB_ASSERT(http->refs > 0);
    if (--http->refs > 0) {
        return;
    }
    gb_http_tokens_free(http->tokens);
    gb_certs_unref(http->certs);
    free(http);
}

static void go_on(uv_idle_t *busy);

/* ---- connections --------------------------------------------------------------------------- */

void gb_http_ref(struct gb_http_conn *conn)
{
    conn->refs++;
}

void gb_http_unref(struct gb_http_conn *conn)
{
    GB_ASSERT(conn->refs > 0);
    if (--conn->refs > 0) {
        return;
    }
    struct gb_http *http = conn->http;
    gb_certs_unref(conn->certs);
    gb_loop_give_bytes(http->loop, conn->charge);
    free(conn);
    let_go(http);
}

void gb_http_suspend(struct gb_http_conn *conn)
{
    GB_ASSERT(!conn->suspended);
    conn->suspended = true;
    MHD_suspend_connection(conn->mhd);
}

static void run_soon(const struct gb_http_conn *conn)
{
    struct gb_http_daemon *daemon = conn->tls ? conn->http->secure : conn->http->plain;
    daemon->again = true;
    if (!uv_is_closing((const uv_handle_t *)&daemon->busy)) {
        (void)uv_idle_start(&daemon->busy, go_on);
    }
}

void gb_http_resume(struct gb_http_conn *conn)
{
    if (conn->suspended) {
        conn->suspended = false;
        MHD_resume_connection(conn->mhd);
        run_soon(conn);
    }
}

/* libmicrohttpd 0.9.75 forgets a connection whose answer breaks off right after it was resumed: it
 * is polled for nothing yet. Only those with a deadline of their own it looks at in every round. */
void gb_http_cut(struct gb_http_conn *conn, unsigned why)
{
    if (conn->cut) {
        return;
    }
    conn->cut = true;
    gb_metrics_end(conn->http->loop->metrics, why);
    (void)shutdown(conn->fd, SHUT_RDWR);
    (void)MHD_set_connection_option(conn->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
    run_soon(conn);
}

static void name_peer(struct gb_http_conn *conn)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    char host[64];
    char port[16];
    if (conn->listener->is_unix) {
        (void)snprintf(conn->peer, sizeof(conn->peer), "unix");
        return;
    }
    if (getpeername(conn->fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(conn->peer, sizeof(conn->peer), "unknown");
        return;
    }
    (void)snprintf(conn->peer, sizeof(conn->peer),
                   address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* What has moved since the request began; grows while there is progress. */
static uint64_t moved_bytes(const struct gb_http_conn *conn)
{
    const struct gb_http_request *request = &conn->request;
    if (!request->answered) {
        return request->bytes_in;
    }
    return conn->listener->is_unix ? request->bytes_out : gb_http_socket_acknowledged(conn->fd);
}

static void mark(struct gb_http_conn *conn, uint64_t bytes)
{
    conn->since_ms = conn->http->loop->now_ms;
    conn->seen = bytes;
}

static void judge_request(struct gb_http_conn *conn)
{
    const struct gb_limits_options *set = &conn->http->loop->limits->set;
    uint64_t moved = moved_bytes(conn);
    bool answered = conn->request.answered;
    int64_t limit_ms = answered ? set->stall_ms : set->request_ms;
    /* What waits for us does not count against the client. */
    if (!conn->was_busy || conn->suspended || moved - conn->seen >= GB_LIMITS_PROGRESS_BYTES) {
        conn->was_busy = true;
        mark(conn, moved);
    } else if (conn->http->loop->now_ms - conn->since_ms >= limit_ms) {
        gb_http_cut(conn, answered ? GB_CONN_END_stalled : GB_CONN_END_request);
    }
}

static void judge_silence(struct gb_http_conn *conn)
{
    const struct gb_limits_options *set = &conn->http->loop->limits->set;
    int64_t waited_ms = conn->http->loop->now_ms - conn->since_ms;
    uint64_t received = gb_http_socket_received(conn->fd);
    if (conn->was_busy) {
        conn->was_busy = false;
        conn->arriving = false;
        mark(conn, received);
    } else if (!conn->arriving && received != conn->seen) {
        conn->arriving = true; /* at most a period ago */
        mark(conn, received);
    } else if (conn->arriving && waited_ms >= set->request_ms) {
        gb_http_cut(conn, GB_CONN_END_request);
    } else if (!conn->arriving && set->idle_ms >= 0 && waited_ms >= set->idle_ms) {
        gb_http_cut(conn, GB_CONN_END_idle);
    }
}

/* How often a connection is looked at: so that nothing lasts much longer than its limit. */
static int64_t period_ms(const struct gb_http *http)
{
    const struct gb_limits_options *set = &http->loop->limits->set;
    int64_t least = set->request_ms < set->stall_ms ? set->request_ms : set->stall_ms;
    if (set->idle_ms >= 0 && set->idle_ms < least) {
        least = set->idle_ms;
    }
    return least / 4 > 16 ? least / 4 : 16;
}

/* libmicrohttpd 0.9.75 does not notice the end of a stream that comes together with the last bytes
 * that it reads: it waits for an edge that was there already. So it is looked for here: of who has
 * long left when he is accepted at once, soon while the first request or a body is to come. */
static bool has_left(const struct gb_http_conn *conn)
{
    return !conn->suspended && !conn->request.answered && gb_http_socket_ended(conn->fd);
}

static void look_at(struct gb_deadline *deadline)
{
    struct gb_http_conn *conn =
        (struct gb_http_conn *)(void *)((char *)deadline - offsetof(struct gb_http_conn, deadline));
    if (has_left(conn)) {
        gb_http_cut(conn, GB_CONN_END_client);
    } else if (conn->request.begun) {
        judge_request(conn);
    } else {
        judge_silence(conn);
    }
    if (!conn->cut) {
        gb_http_watch(conn);
    }
}

void gb_http_watch(struct gb_http_conn *conn)
{
    bool receiving = conn->request.begun ? !conn->request.answered : !conn->known;
    int64_t after_ms = receiving ? SOON_MS : period_ms(conn->http);
    gb_loop_arm(conn->http->loop, &conn->deadline, conn->http->loop->now_ms + after_ms);
}

/* ---- what libmicrohttpd tells of sockets ----------------------------------------------------- */

static struct gb_http_conn *open_conn(struct gb_http *http, struct MHD_Connection *mhd)
{
    struct gb_loop *loop = http->loop;
    const struct gb_listener *listener = http->accepting;
    uint64_t charge =
        sizeof(struct gb_http_conn) + GB_HTTP_POOL_BYTES + (listener->tls ? GB_HTTP_TLS_BYTES : 0);
    struct gb_http_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    /* Nothing is accepted without spare bytes; one connection of a loop may need more of them. */
    gb_limits_take_anyway(loop->limits, charge);
    conn->http = http;
    conn->mhd = mhd;
    conn->listener = listener;
    conn->refs = 1;
    conn->tls = listener->tls;
    conn->charge = charge;
    conn->deadline.fire = look_at;
    conn->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    name_peer(conn);
    conn->since_ms = loop->now_ms;
    conn->next = http->conns;
    if (conn->next != NULL) {
        conn->next->prev = conn;
    }
    http->conns = conn;
    http->refs++;
    gb_http_watch(conn);
    return conn;
}

static void close_conn(struct gb_http_conn *conn)
{
    struct gb_http *http = conn->http;
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        http->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    gb_wheel_drop(&http->loop->wheel, &conn->deadline);
    if (http->accepted == conn) {
        http->accepted = NULL;
    }
    if (!conn->cut) {
        gb_metrics_end(http->loop->metrics, GB_CONN_END_client);
    }
    conn->closed = true;
    conn->mhd = NULL;
    gb_http_clean(conn);
    gb_http_unref(conn);
}

static void notify_socket(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct gb_http *http = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http->accepted = open_conn(http, mhd);
        http->was_accepted = true;
        *context = http->accepted;
        if (*context == NULL) {
            int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
            (void)shutdown(fd, SHUT_RDWR);
        }
        return;
    }
    if (*context != NULL) {
        close_conn(*context);
    }
    gb_limits_end(http->loop->limits);
}

/* ---- daemons ------------------------------------------------------------------------------- */

static void timed(uv_timer_t *timer);

/* Lets libmicrohttpd do what there is to do, a part of a pipeline or of a body for each connection,
 * and asks when it wants to be called at the latest: a connection that was resumed, or has more in
 * its buffers, tells by no descriptor. What is due at once waits for the loop's next round, after
 * some runs: libuv would go on with a timer of no time before it looks at anything else. */
static void run(struct gb_http_daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    bool timed_out = false;
    for (unsigned i = 0; i < RUNS; i++) {
        daemon->again = false;
        if (MHD_run(daemon->mhd) != MHD_YES) {
            gb_log_event(daemon->http->loop->log, GOBLIN_LOG_ERROR, "libmicrohttpd failed", NULL,
                         0);
        }
        timed_out = MHD_get_timeout(daemon->mhd, &timeout_ms) == MHD_YES;
        daemon->again = daemon->again || (timed_out && timeout_ms == 0);
        if (!daemon->again) {
            break;
        }
    }
    if (daemon->again) {
        (void)uv_idle_start(&daemon->busy, go_on);
    } else {
        (void)uv_idle_stop(&daemon->busy);
    }
    if (timed_out && timeout_ms > 0) {
        (void)uv_timer_start(&daemon->timer, timed, timeout_ms, 0);
    } else {
        (void)uv_timer_stop(&daemon->timer);
    }
}

static void timed(uv_timer_t *timer)
{
    run(timer->data);
}

static void go_on(uv_idle_t *busy)
{
    run(busy->data);
}

static void readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

/* The text ends in a line end, and is made from what clients send. */
static void log_message(void *arg, const char *format, va_list list)
{
    struct gb_http *http = arg;
    char text[256];
    if (!gb_log_wants(http->loop->log, GOBLIN_LOG_INFO)) {
        return;
    }
    (void)vsnprintf(text, sizeof(text), format, list);
    text[strcspn(text, "\r\n")] = '\0';
    const struct gb_log_field field[] = {GB_LOG_TEXT("text", text)};
    gb_log_event(http->loop->log, GOBLIN_LOG_INFO, "libmicrohttpd", field, 1);
}

/* Escapes are decoded by us, from the target as it came (http_path.h). */
static size_t leave_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

#define FUNCTION(name) ((intptr_t)(name))

/* Deadlines and the number of connections are ours. So is being strict: what libmicrohttpd 0.9.75
 * refuses by itself comes with its head twice. */
static struct MHD_Daemon *start_mhd(struct gb_http *http, bool tls)
{
    static const char tls_priorities[] = GB_CERTS_PRIORITIES;
    const struct MHD_OptionItem plain[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, FUNCTION(log_message), http},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, GB_HTTP_POOL_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)http->loop->limits->set.connections, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, FUNCTION(gb_http_see_target), http},
        {MHD_OPTION_UNESCAPE_CALLBACK, FUNCTION(leave_escapes), NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, FUNCTION(gb_http_complete), http},
        {MHD_OPTION_NOTIFY_CONNECTION, FUNCTION(notify_socket), http},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls ? gb_http_tls_callback() : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_ERROR_LOG | MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
                     MHD_ALLOW_SUSPEND_RESUME | (tls ? (unsigned)MHD_USE_TLS : 0);
    return MHD_start_daemon(flags, 0, NULL, NULL, gb_http_handle, http, MHD_OPTION_ARRAY, plain,
                            MHD_OPTION_ARRAY, tls ? secure : &secure[2], MHD_OPTION_END);
}

static int start_daemon(struct gb_http *http, struct gb_http_daemon **out, bool tls)
{
    struct gb_http_daemon *daemon = calloc(1, sizeof(*daemon));
    if (daemon == NULL) {
        return -ENOMEM;
    }
    daemon->http = http;
    daemon->mhd = start_mhd(http, tls);
    if (daemon->mhd == NULL) {
        free(daemon);
        return errno != 0 ? -errno : -ENOMEM;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    int rc = uv_poll_init(&http->loop->uv, &daemon->poll, info->epoll_fd);
    if (rc != 0) {
        MHD_stop_daemon(daemon->mhd);
        free(daemon);
        return rc;
    }
    (void)uv_timer_init(&http->loop->uv, &daemon->timer);
    (void)uv_idle_init(&http->loop->uv, &daemon->busy);
    daemon->poll.data = daemon->timer.data = daemon->busy.data = daemon;
    daemon->handles = 3;
    (void)uv_poll_start(&daemon->poll, UV_READABLE, readable);
    http->refs++;
    *out = daemon;
    return GOBLIN_OK;
}

static void handle_closed(uv_handle_t *handle)
{
    struct gb_http_daemon *daemon = handle->data;
    struct gb_http *http = daemon->http;
    if (--daemon->handles == 0) {
        free(daemon);
        let_go(http);
    }
}

static void stop_daemon(struct gb_http_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    (void)uv_poll_stop(&daemon->poll);
    uv_close((uv_handle_t *)&daemon->poll, handle_closed);
    uv_close((uv_handle_t *)&daemon->timer, handle_closed);
    uv_close((uv_handle_t *)&daemon->busy, handle_closed);
    MHD_stop_daemon(daemon->mhd);
    daemon->mhd = NULL;
}

/* ---- the protocol -------------------------------------------------------------------------- */

static bool wants_tls(const struct gb_http_options *options)
{
    return options != NULL && options->certificate_count > 0;
}

static int load_certs(struct gb_certs **out, const struct gb_http_options *options,
                      struct goblin_error *error)
{
    return gb_certs_load(out, options->certificates, options->certificate_count, error);
}

static void stop(struct gb_loop *loop, void *state)
{
    struct gb_http *http = state;
    for (struct gb_http_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        gb_http_cut(conn, GB_CONN_END_drained);
        gb_http_resume(conn);
    }
    stop_daemon(http->plain);
    stop_daemon(http->secure);
    if (http->origin != NULL) {
        gb_origin_stop(http->origin, loop);
    }
    let_go(http);
}

static int start(struct gb_loop *loop, const void *options, void **state,
                 struct goblin_error *error)
{
    static const struct gb_http_options defaults;
    struct gb_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        return -ENOMEM;
    }
    http->loop = loop;
    http->options = options != NULL ? options : &defaults;
    http->refs = 1;
    int rc = gb_http_tokens_load(&http->tokens, http->options->tokens_file, error);
    if (rc >= 0 && wants_tls(http->options)) {
        rc = load_certs(&http->certs, http->options, error);
    }
    if (rc < 0) {
        let_go(http);
        return rc;
    }
    http->origin = gb_server_origin(loop->server);
    rc = http->origin == NULL ? GOBLIN_OK : gb_origin_start(http->origin, loop);
    if (rc >= 0) {
        rc = start_daemon(http, &http->plain, false);
    }
    if (rc >= 0 && http->certs != NULL) {
        rc = start_daemon(http, &http->secure, true);
    }
    if (rc < 0) {
        if (error != NULL) {
            (void)snprintf(error->text, sizeof(error->text), "libmicrohttpd: %s",
                           goblin_strerror(rc));
        }
        stop(loop, http);
        return rc;
    }
    *state = http;
    return GOBLIN_OK;
}

static void accept_socket(struct gb_loop *loop, void *state, const struct gb_listener *listener,
                          int fd)
{
    struct gb_http *http = state;
    struct gb_http_daemon *daemon = listener->tls ? http->secure : http->plain;
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    memset(&address, 0, sizeof(address));
    if (daemon == NULL || getpeername(fd, (struct sockaddr *)&address, &len) != 0) {
        (void)close(fd);
        gb_limits_end(loop->limits);
        return;
    }
    http->accepting = listener;
    http->was_accepted = false;
    if (MHD_add_connection(daemon->mhd, fd, (struct sockaddr *)&address, len) != MHD_YES) {
        gb_metrics_add(loop->metrics, GB_METRICS_accept_errors, 1);
    }
    http->accepting = NULL;
    if (!http->was_accepted) {
        gb_limits_end(loop->limits); /* else notify_socket hears of its end */
    }
    run(daemon);
    if (http->accepted != NULL && has_left(http->accepted)) {
        gb_http_cut(http->accepted, GB_CONN_END_client);
    }
    http->accepted = NULL;
}

static void report(struct gb_loop *loop, const char *event, const struct goblin_error *error)
{
    const struct gb_log_field field[] = {GB_LOG_TEXT("error", error->text)};
    gb_log_event(loop->log, GOBLIN_LOG_ERROR, event, field, 1);
}

static void reload(struct gb_loop *loop, void *state)
{
    struct gb_http *http = state;
    struct goblin_error error = {.text = ""};
    struct gb_http_tokens *tokens = NULL;
    if (gb_http_tokens_load(&tokens, http->options->tokens_file, &error) < 0) {
        report(loop, "tokens kept as they were", &error);
    } else {
        gb_http_tokens_free(http->tokens);
        http->tokens = tokens;
    }
    struct gb_certs *certs = NULL;
    if (http->certs == NULL) {
        return;
    }
    if (load_certs(&certs, http->options, &error) < 0) {
        report(loop, "certificates kept as they were", &error);
        return;
    }
    gb_certs_unref(http->certs);
    http->certs = certs;
}

static void drain(struct gb_loop *loop, void *state)
{
    struct gb_http *http = state;
    (void)loop;
    for (struct gb_http_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (!conn->request.begun) {
            gb_http_cut(conn, GB_CONN_END_drained);
        }
    }
}

int gb_http_check(const struct gb_http_options *options, struct goblin_error *error)
{
    struct gb_http_tokens *tokens = NULL;
    int rc = gb_http_tokens_load(&tokens, options->tokens_file, error);
    gb_http_tokens_free(tokens);
    if (rc >= 0 && wants_tls(options)) {
        struct gb_certs *certs = NULL;
        rc = load_certs(&certs, options, error);
        gb_certs_unref(certs);
    }
    return rc;
}

const struct gb_protocol gb_http_protocol = {
    .name = "http",
    .example = "curl -T FILE http://ADDRESS/name && curl http://ADDRESS/name",
    .start = start,
    .accept = accept_socket,
    .reload = reload,
    .drain = drain,
    .stop = stop,
};
