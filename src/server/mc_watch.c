/* Watchers of the memcached port, and the lines they are told. */
#include "server/mc_watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 3 * GB_MC_KEY_MAX + 256 };

struct gb_mc_watcher {
    struct gb_mc_watcher *next;
    struct gb_mc_session *session;
    unsigned topics;
};

/* A line on its way to the watchers of one loop. */
struct note {
    struct gb_post post;
    struct gb_memcache *memcache;
    struct gb_loop *to;
    unsigned topic;
    size_t len;
    char text[];
};

/* ---- who watches --------------------------------------------------------------------------- */

static void sum_topics(struct gb_memcache *memcache)
{
    unsigned topics = 0;
    for (struct gb_mc_loop *loop = memcache->loops; loop != NULL; loop = loop->next) {
        topics |= atomic_load_explicit(&loop->topics, memory_order_relaxed);
    }
    atomic_store_explicit(&memcache->topics, topics, memory_order_relaxed);
}

static void note_topics(struct gb_mc_loop *home)
{
    unsigned topics = 0;
    for (struct gb_mc_watcher *watcher = home->watchers; watcher != NULL; watcher = watcher->next) {
        topics |= watcher->topics;
    }
    (void)pthread_mutex_lock(&home->memcache->lock);
    atomic_store_explicit(&home->topics, topics, memory_order_relaxed);
    sum_topics(home->memcache);
    (void)pthread_mutex_unlock(&home->memcache->lock);
}

void gb_mc_watch_begin(struct gb_mc_session *session)
{
    unsigned topics;
    if (session->home->memcache->options.no_watch) {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR watch commands not allowed"));
        return;
    }
    if (gb_mc_admin_topics(&session->event.request, &topics) < 0) {
        gb_mc_session_say(session, GB_MC_LITERAL("ERROR"));
        return;
    }
    struct gb_mc_watcher *watcher = malloc(sizeof(*watcher));
    if (watcher == NULL) {
        gb_mc_session_say(session, GB_MC_LITERAL("WATCHER_FAILED failed to add log watcher"));
        return;
    }
    struct gb_mc_loop *home = session->home;
    *watcher = (struct gb_mc_watcher){.next = home->watchers, .session = session, .topics = topics};
    home->watchers = watcher;
    session->watcher = watcher;
    gb_conn_listen(session->conn);
    note_topics(home);
    session->event.request.noreply = false;
    gb_mc_session_say(session, GB_MC_LITERAL("OK"));
}

void gb_mc_watch_end(struct gb_mc_session *session)
{
    if (session->watcher == NULL) {
        return;
    }
    struct gb_mc_watcher **at = &session->home->watchers;
    while (*at != session->watcher) {
        at = &(*at)->next;
    }
    *at = session->watcher->next;
    free(session->watcher);
    session->watcher = NULL;
    note_topics(session->home);
}

/* ---- from loop to loop --------------------------------------------------------------------- */

static void deliver(struct gb_mc_loop *home, const struct note *note)
{
    for (struct gb_mc_watcher *watcher = home->watchers, *next; watcher != NULL; watcher = next) {
        next = watcher->next; /* appending may close a connection */
        if ((watcher->topics & note->topic) == 0) {
            continue;
        }
        if (gb_conn_full(watcher->session->conn)) {
            gb_mc_count(&home->counts, GB_MC_COUNT_log_watcher_skipped);
        } else {
            gb_mc_count(&home->counts, GB_MC_COUNT_log_watcher_sent);
            gb_conn_append(watcher->session->conn, note->text, note->len);
        }
    }
}

/* The loop may have stopped serving us meanwhile. */
static void arrived(struct gb_post *post)
{
    struct note *note = (struct note *)post; /* its first member */
    struct gb_mc_loop *home = gb_memcache_home(note->memcache, note->to);
    if (home != NULL) {
        deliver(home, note);
    }
    free(note);
}

/* A line to all loops that have watchers of its topic. */
static void tell(struct gb_mc_loop *from, unsigned topic, const char *text, size_t len)
{
    struct gb_memcache *memcache = from->memcache;
    (void)pthread_mutex_lock(&memcache->lock);
    for (struct gb_mc_loop *to = memcache->loops; to != NULL; to = to->next) {
        if ((atomic_load_explicit(&to->topics, memory_order_relaxed) & topic) == 0) {
            continue;
        }
        struct note *note = malloc(sizeof(*note) + len);
        if (note == NULL) {
            gb_mc_count(&from->counts, GB_MC_COUNT_log_watcher_skipped);
            continue;
        }
        *note = (struct note){.post = {.run = arrived},
                              .memcache = memcache,
                              .to = to->loop,
                              .topic = topic,
                              .len = len};
        memcpy(note->text, text, len);
        gb_loop_post(to->loop, &note->post);
    }
    (void)pthread_mutex_unlock(&memcache->lock);
}

/* ---- lines --------------------------------------------------------------------------------- */

struct line {
    size_t len;
    char text[LINE_BYTES];
};

/* What does not fit is cut; keys do. */
__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof(line->text) - line->len;
    int len = vsnprintf(line->text + line->len, room, format, arguments);
    va_end(arguments);
    line->len += len < 0 ? 0 : (size_t)len < room ? (size_t)len : room - 1;
}

static void begin_line(struct line *line, struct gb_mc_session *session, const char *type)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    _Atomic uint64_t *last = &session->home->memcache->last_line;
    unsigned long long number = atomic_fetch_add_explicit(last, 1, memory_order_relaxed) + 1;
    line->len = 0;
    add(line, "ts=%lld.%06ld gid=%llu type=%s", (long long)now.tv_sec, now.tv_nsec / 1000, number,
        type);
}

static void add_key(struct line *line, struct gb_mc_text key)
{
    char text[3 * GB_MC_KEY_MAX];
    const char *end = gb_mc_write_key_encoded(text, key);
    add(line, " key=%.*s", (int)(end - text), text);
}

static void end_line(struct line *line, struct gb_mc_session *session, unsigned topic)
{
    add(line, "\n");
    tell(session->home, topic, line->text, line->len);
}

void gb_mc_watch_fetch_line(struct gb_mc_session *session, const struct gb_mc_request *request,
                            const struct goblin_info *info)
{
    struct line line;
    begin_line(&line, session, "item_get");
    add_key(&line, request->key);
    add(&line, " status=%s clsid=%d cfd=%d size=%llu", info != NULL ? "found" : "not_found",
        info != NULL ? 1 : 0, gb_conn_fd(session->conn),
        info != NULL ? (unsigned long long)info->size : 0);
    end_line(&line, session, GB_MC_WATCH_FETCHERS);
}

/* As memcached calls how a store ended. */
static const char *status_of(const char *status)
{
    static const char *const words[][2] = {
        {"STORED", "stored"}, {"WON", "stored"},          {"NOT_STORED", "not_stored"},
        {"EXISTS", "exists"}, {"NOT_FOUND", "not_found"}, {"TOO_LARGE", "too_large"},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i][0], status) == 0) {
            return words[i][1];
        }
    }
    return "no_memory";
}

static void tell_store(struct gb_mc_session *session, const char *status)
{
    const struct gb_mc_request *request = &session->event.request;
    int64_t expires_ms = gb_mc_session_expiry(session, request->exptime_s);
    struct line line;
    begin_line(&line, session, "item_store");
    add_key(&line, request->key);
    add(&line, " status=%s cmd=%s ttl=%lld clsid=1 cfd=%d size=%llu", status_of(status),
        gb_mc_verb_name(request->verb),
        (long long)(expires_ms == 0 ? 0 : gb_mc_left_s(expires_ms, session->home->loop->wall_ms)),
        gb_conn_fd(session->conn), (unsigned long long)request->size);
    end_line(&line, session, GB_MC_WATCH_MUTATIONS);
}

void gb_mc_watch_mutation_line(struct gb_mc_session *session, const char *status)
{
    enum gb_mc_verb verb = session->event.request.verb;
    bool deletes = verb == GB_MC_DELETE || verb == GB_MC_MD;
    if (deletes && (strcmp(status, "DELETED") == 0 || strcmp(status, "HD") == 0)) {
        struct line line;
        begin_line(&line, session, "deleted");
        add_key(&line, session->event.request.key);
        add(&line, " cmd=%s cfd=%d", verb == GB_MC_MD ? "md" : "delete", gb_conn_fd(session->conn));
        end_line(&line, session, GB_MC_WATCH_DELETIONS);
    } else if (gb_mc_stores(verb) || verb == GB_MC_INCR || verb == GB_MC_DECR || verb == GB_MC_MA ||
               (verb == GB_MC_MG && strcmp(status, "WON") == 0)) {
        tell_store(session, status);
    }
}

/* As memcached tells them: the port apart, and none of a unix socket. */
static void add_peer(struct line *line, const struct gb_mc_session *session)
{
    const char *peer = gb_conn_peer(session->conn);
    const char *port = strrchr(peer, ':');
    size_t len = port != NULL ? (size_t)(port - peer) : strlen(peer);
    if (peer[0] == '[' && len > 2) {
        peer++;
        len -= 2;
    }
    add(line, " rip=%.*s rport=%s transport=%s", (int)len, peer, port != NULL ? port + 1 : "0",
        gb_conn_listener(session->conn)->is_unix ? "local" : "tcp");
}

void gb_mc_watch_opened_line(struct gb_mc_session *session)
{
    struct line line;
    begin_line(&line, session, "conn_new");
    add_peer(&line, session);
    add(&line, " cfd=%d", gb_conn_fd(session->conn));
    end_line(&line, session, GB_MC_WATCH_CONNECTIONS);
}

static const char *reason_of(const struct gb_conn *conn)
{
    switch (gb_conn_why_closed(conn)) {
    case GB_CONN_END_client:
        return "normal";
    case GB_CONN_END_session: /* after quit, or because of what was said */
        return gb_conn_is_finishing(conn) ? "normal" : "error";
    case GB_CONN_END_idle:
        return "idle_timeout";
    case GB_CONN_END_drained:
        return "shutdown";
    default:
        return "error";
    }
}

void gb_mc_watch_closed_line(struct gb_mc_session *session)
{
    struct line line;
    begin_line(&line, session, "conn_close");
    add_peer(&line, session);
    add(&line, " reason=%s cfd=%d", reason_of(session->conn), gb_conn_fd(session->conn));
    end_line(&line, session, GB_MC_WATCH_CONNECTIONS);
}
