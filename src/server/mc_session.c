/* A memcached connection: its commands one at a time, and how they are answered. */
#include "server/mc_session.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "server/mc_auth.h"
#include "server/mc_watch.h"

enum { HINTS = 16 };

/* ---- answers ------------------------------------------------------------------------------- */

void gb_mc_session_say(struct gb_mc_session *session, struct gb_mc_text text)
{
    if (session->event.request.noreply) {
        return;
    }
    unsigned char *to = gb_conn_reserve(session->conn, text.len + 2);
    if (to != NULL) {
        (void)gb_mc_write_line((char *)to, text);
        gb_conn_commit(session->conn, text.len + 2);
    }
}

void gb_mc_session_say_meta(struct gb_mc_session *session, const char code[2],
                            const struct gb_mc_object *object, bool nominal)
{
    if (nominal && session->event.request.noreply) {
        return;
    }
    unsigned char *to = gb_conn_reserve(session->conn, GB_MC_META_HEAD_MAX);
    if (to != NULL) {
        const char *end = gb_mc_write_meta((char *)to, &session->event.request, code, object);
        gb_conn_commit(session->conn, (size_t)(end - (char *)to));
    }
}

void gb_mc_session_say_fault(struct gb_mc_session *session, int fault)
{
    enum gb_mc_verb verb = session->event.request.verb;
    if (verb == GB_MC_MG || verb == GB_MC_MS || verb == GB_MC_MD || verb == GB_MC_MA) {
        session->event.request.noreply = false;
    }
    if (fault == GOBLIN_ETOOBIG) {
        gb_mc_session_count(session, GB_MC_COUNT_store_too_large);
        gb_mc_session_say(session, GB_MC_LITERAL("SERVER_ERROR object too large for cache"));
    } else if (fault == -ENOMEM || fault == -ENOSPC || fault == -EDQUOT) {
        gb_mc_session_count(session, GB_MC_COUNT_store_no_memory);
        gb_mc_session_say(session, GB_MC_LITERAL("SERVER_ERROR out of memory storing object"));
    } else {
        char text[128];
        int len = snprintf(text, sizeof(text), "SERVER_ERROR %s", goblin_strerror(fault));
        size_t most = len < 0 ? 0 : gb_min((uint64_t)len, sizeof(text) - 1);
        gb_mc_session_say(session, (struct gb_mc_text){text, most});
    }
}

int64_t gb_mc_session_expiry(const struct gb_mc_session *session, int64_t exptime_s)
{
    return gb_mc_expiry_ms(exptime_s, session->home->loop->wall_ms);
}

void gb_mc_session_describe(const struct gb_mc_session *session, const struct goblin_info *info,
                            struct gb_mc_object *object)
{
    *object = (struct gb_mc_object){
        .size = info->size,
        .cas = info->version,
        .left_s = gb_mc_left_s(info->expires_ms, session->home->loop->wall_ms),
        .client_flags = info->flags,
        .fetched = info->accesses > 0,
        .stale = (info->marks & GB_MC_STALE) != 0,
        .sent = (info->marks & GB_MC_SENT) != 0,
    };
    object->left_before_s = object->left_s;
}

uint64_t gb_mc_session_ended(struct gb_mc_session *session, uint64_t begun_ns)
{
    session->ended_ns = gb_loop_clock_ns();
    return session->ended_ns - begun_ns;
}

void gb_mc_session_done(struct gb_mc_session *session, enum gb_metrics_op op, const char *status)
{
    struct gb_loop *loop = session->home->loop;
    uint64_t duration_ns = gb_mc_session_ended(session, session->begun_ns);
    const struct gb_mc_request *request = &session->event.request;
    gb_metrics_time(loop->metrics, op, GB_METRICS_TIER_none, duration_ns);
    if (gb_log_wants_access(loop->log, duration_ns)) {
        const struct gb_log_access access = {
            .protocol = gb_memcache_protocol.name,
            .peer = gb_conn_peer(session->conn),
            .command = gb_mc_verb_name(request->verb),
            .status = status,
            .key = gb_mc_slice(request->key),
            .bytes_in = request->size,
            .tier = GB_METRICS_TIER_none,
            .duration_ns = duration_ns,
        };
        gb_log_access(loop, &access);
    }
    gb_mc_watch_mutation(session, status);
}

/* ---- changes ------------------------------------------------------------------------------- */

struct gb_change *gb_mc_session_new_change(struct gb_mc_session *session, enum gb_change_kind kind)
{
    memset(&session->change, 0, sizeof(session->change));
    session->change.kind = kind;
    session->change.key = gb_mc_slice(session->event.request.key);
    return &session->change;
}

static void change_done(struct gb_change *change)
{
    struct gb_mc_session *session = change->arg;
    struct gb_conn *conn = session->conn;
    if (!gb_conn_is_closed(conn)) {
        session->next_step(session, change->result);
    }
    gb_conn_resume(conn);
}

void gb_mc_session_change(struct gb_mc_session *session, gb_mc_step *step)
{
    session->change.done = change_done;
    session->change.arg = session;
    session->next_step = step;
    int result = gb_backend_change(session->home->loop, &session->change);
    if (result == GB_PENDING) {
        gb_conn_pause(session->conn);
    } else {
        step(session, result);
    }
}

/* ---- commands ------------------------------------------------------------------------------ */

static void debug_time(struct gb_mc_session *session)
{
    _Atomic int64_t *offset_ms = session->home->memcache->options.clock_offset_ms;
    struct gb_mc_text rest = session->event.request.rest;
    int64_t seconds;
    if (offset_ms == NULL || gb_mc_read_signed(gb_mc_next_word(&rest), &seconds) < 0 ||
        seconds < -INT32_MAX || seconds > INT32_MAX) {
        gb_mc_session_say(session, GB_MC_LITERAL("ERROR"));
        return;
    }
    atomic_fetch_add_explicit(offset_ms, seconds * 1000, memory_order_relaxed);
    session->home->loop->wall_ms += seconds * 1000;
    gb_mc_session_say(session, GB_MC_LITERAL("OK"));
}

static void refresh_certificates(struct gb_mc_session *session)
{
    if (!gb_conn_listener(session->conn)->tls) {
        gb_mc_session_say(session, GB_MC_LITERAL("Error TLS not enabled"));
        return;
    }
    gb_server_reload(session->home->loop->server);
    gb_mc_session_say(session, GB_MC_LITERAL("OK"));
}

static void shut_down(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    struct gb_mc_text rest = request->rest;
    if (!session->home->memcache->options.shutdown) {
        gb_mc_session_say(session, gb_mc_admin_answer(request));
    } else if (request->words == 1 ||
               (request->words == 2 && gb_mc_is(gb_mc_next_word(&rest), "graceful"))) {
        gb_conn_finish(session->conn);
        gb_server_ask_to_end(session->home->loop->server);
    } else {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR invalid shutdown mode"));
    }
}

static void crawl(struct gb_mc_session *session)
{
    bool mgdump;
    struct gb_mc_text answer;
    if (!gb_mc_admin_dumps(&session->event.request, &mgdump, &answer)) {
        gb_mc_session_say(session, gb_mc_admin_answer(&session->event.request));
    } else if (session->home->memcache->options.no_dump) {
        gb_mc_session_say(session, mgdump ? GB_MC_LITERAL("ERROR mgdump not allowed")
                                          : GB_MC_LITERAL("ERROR metadump not allowed"));
    } else if (answer.len > 0) {
        gb_mc_session_say(session, answer);
    } else {
        gb_mc_dump_begin(session, mgdump ? GB_MC_DUMP_MG : GB_MC_DUMP_META, 0);
    }
}

/* What is of the server rather than of objects. */
static void run_admin(struct gb_mc_session *session)
{
    switch (session->event.request.verb) {
    case GB_MC_MN:
        gb_mc_session_say(session, GB_MC_LITERAL("MN"));
        break;
    case GB_MC_VERSION:
        gb_mc_session_say(session, GB_MC_LITERAL("VERSION " GB_MC_VERSION_TEXT));
        break;
    case GB_MC_QUIT:
        gb_conn_finish(session->conn);
        break;
    case GB_MC_STATS:
        gb_mc_stats_answer(session);
        break;
    case GB_MC_WATCH:
        gb_mc_watch_begin(session);
        break;
    case GB_MC_LRU_CRAWLER:
        crawl(session);
        break;
    case GB_MC_REFRESH_CERTS:
        refresh_certificates(session);
        break;
    case GB_MC_DEBUGTIME:
        debug_time(session);
        break;
    case GB_MC_SHUTDOWN:
        shut_down(session);
        break;
    default:
        gb_mc_session_say(session, gb_mc_admin_answer(&session->event.request));
        break;
    }
}

static void run(struct gb_mc_session *session)
{
    switch (session->event.request.verb) {
    case GB_MC_MG:
        gb_mc_get_meta(session);
        break;
    case GB_MC_ME:
        gb_mc_get_debug(session);
        break;
    case GB_MC_MD:
        gb_mc_change_delete_meta(session);
        break;
    case GB_MC_DELETE:
        gb_mc_change_delete(session);
        break;
    case GB_MC_TOUCH:
        gb_mc_change_touch(session);
        break;
    case GB_MC_MA:
    case GB_MC_INCR:
    case GB_MC_DECR:
        gb_mc_edit_delta(session);
        break;
    case GB_MC_FLUSH_ALL:
        gb_mc_change_flush(session);
        break;
    default:
        run_admin(session);
        break;
    }
}

static bool joins(const struct gb_mc_request *request)
{
    return request->verb == GB_MC_APPEND || request->verb == GB_MC_PREPEND ||
           (request->verb == GB_MC_MS && (request->mode == 'A' || request->mode == 'P'));
}

/* A command with a value. Small ones wait until all of it is there; large ones stream, but for what
 * is joined to another value, which must be there as a whole. */
static ptrdiff_t take_value(struct gb_mc_session *session, const struct gb_mc_parser *before,
                            const char *data, size_t len, size_t used)
{
    const struct gb_mc_request *request = &session->event.request;
    uint64_t whole_bytes = session->home->loop->limits->set.whole_bytes;
    if (request->size > session->home->memcache->options.value_max_bytes ||
        (request->size > whole_bytes && joins(request))) {
        gb_mc_parser_swallow(&session->parser);
        gb_mc_put_refuse(session, GOBLIN_ETOOBIG);
        return (ptrdiff_t)used;
    }
    if (request->size > whole_bytes) {
        gb_mc_put_upload(session);
        return (ptrdiff_t)used;
    }
    size_t size = (size_t)request->size;
    if (len - used < size + 2) {
        session->parser = *before;
        gb_conn_want(session->conn, used + size + 2);
        return 0;
    }
    struct goblin_slice value = {data + used, size};
    gb_mc_parser_taken(&session->parser);
    if (!gb_mc_parser_end(&session->parser, data + used + size)) {
        gb_mc_put_bad(session);
    } else if (joins(request)) {
        gb_mc_edit_join(session, value);
    } else {
        gb_mc_put_value(session, value);
    }
    return (ptrdiff_t)(used + size + 2);
}

static ptrdiff_t carry_out(struct gb_mc_session *session, const struct gb_mc_parser *before,
                           const char *data, size_t len, size_t used)
{
    enum gb_mc_verb verb = session->event.request.verb;
    if (gb_mc_stores(verb)) {
        return take_value(session, before, data, len, used);
    }
    if (verb == GB_MC_GET || verb == GB_MC_GETS || verb == GB_MC_GAT || verb == GB_MC_GATS) {
        size_t end = gb_mc_parser_keys_end(&session->parser, data + used, len - used);
        gb_mc_get_key(session, end > 0);
        return (ptrdiff_t)(used + end);
    }
    run(session);
    return (ptrdiff_t)used;
}

/* In a pipeline a command begins when the one before has ended: one look at the clock for both. */
static void begin(struct gb_mc_session *session)
{
    bool chained = session->ended_ns != 0 && gb_conn_in_row(session->conn);
    session->begun_ns = chained ? session->ended_ns : gb_loop_clock_ns();
    session->ended_ns = 0;
}

static ptrdiff_t take_one(struct gb_conn *conn, const unsigned char *bytes, size_t len)
{
    struct gb_mc_session *session = gb_conn_state(conn);
    const char *data = (const char *)bytes;
    if (session->watcher != NULL) {
        return (ptrdiff_t)len; /* a watcher is not listened to any more */
    }
    const struct gb_mc_parser before = session->parser;
    size_t used = gb_mc_parse(&session->parser, data, len, &session->event);
    switch (session->event.kind) {
    case GB_MC_REQUEST:
        begin(session);
        gb_metrics_add(session->home->loop->metrics, GB_METRICS_requests, 1);
        if (!session->authenticated) {
            return gb_mc_auth_take(session, &before, data, len, used);
        }
        return carry_out(session, &before, data, len, used);
    case GB_MC_KEYS_END:
        gb_mc_session_say(session, GB_MC_LITERAL("END"));
        break;
    case GB_MC_REFUSED:
        gb_metrics_add(session->home->loop->metrics, GB_METRICS_bad_requests, 1);
        gb_mc_session_say(session, session->event.text);
        break;
    case GB_MC_VALUE_END:
        gb_mc_put_end(session, session->event.good);
        break;
    case GB_MC_CLOSE:
        return GB_CONN_CLOSE;
    case GB_MC_VALUE:
    case GB_MC_MORE:
        break;
    }
    return (ptrdiff_t)used;
}

/* Has the store fetch for several keys at once what each would wait for in its turn. */
static void look_ahead(struct gb_mc_session *session, const char *data, size_t len)
{
    struct gb_mc_text keys[HINTS];
    struct goblin_slice slices[HINTS];
    size_t count = gb_mc_parser_peek(&session->parser, data, len, keys, HINTS, &session->hinted);
    for (size_t i = 0; i < count; i++) {
        slices[i] = gb_mc_slice(keys[i]);
    }
    if (count > 1) {
        goblin_hint(session->home->loop->store, slices, count);
    }
}

static ptrdiff_t on_bytes(struct gb_conn *conn, const unsigned char *bytes, size_t len)
{
    struct gb_mc_session *session = gb_conn_state(conn);
    if (session->hinted == 0) {
        look_ahead(session, (const char *)bytes, len);
    }
    ptrdiff_t used = take_one(conn, bytes, len);
    session->hinted -= used > 0 ? gb_min((uint64_t)used, session->hinted) : session->hinted;
    return used;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int on_open(struct gb_conn *conn)
{
    struct gb_mc_session *session = gb_conn_state(conn);
    const struct gb_listener *listener = gb_conn_listener(conn);
    session->conn = conn;
    session->home = gb_memcache_home(listener->options, gb_conn_loop(conn));
    session->authenticated = session->home->auth == NULL;
    gb_mc_parser_init(&session->parser, session->home->memcache->options.value_max_bytes);
    gb_mc_watch_opened(session);
    return GOBLIN_OK;
}

static void on_drained(struct gb_conn *conn)
{
    gb_mc_dump_drained(gb_conn_state(conn));
}

static void on_close(struct gb_conn *conn)
{
    struct gb_mc_session *session = gb_conn_state(conn);
    gb_mc_get_close(session);
    gb_mc_put_close(session);
    gb_mc_dump_close(session);
    gb_mc_watch_end(session);
    gb_mc_watch_closed(session);
}

const struct gb_conn_ops gb_mc_session_ops = {
    .state_bytes = sizeof(struct gb_mc_session),
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_close = on_close,
};
