/*
 * stats: what memcached's tools and dashboards read, under memcached's names.
 *
 * Goblin has one class of objects; it is class 1. bytes and limit_maxbytes are those of the disk,
 * on which everything lies; `mem_requested` of the class is what of it is in RAM.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <goblin/stats.h>

#include "base/bits.h"
#include "server/mc_session.h"

/* ---- lines --------------------------------------------------------------------------------- */

static void put(struct gb_mc_session *session, const char *name, const char *text)
{
    char line[320];
    int len = snprintf(line, sizeof(line), "STAT %.100s %.200s\r\n", name, text);
    gb_conn_append(session->conn, line, (size_t)len);
}

static void put_number(struct gb_mc_session *session, const char *name, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    put(session, name, text);
}

static void put_time(struct gb_mc_session *session, const char *name, struct timeval time)
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%lld.%06lld", (long long)time.tv_sec,
                   (long long)time.tv_usec);
    put(session, name, text);
}

struct row {
    const char *name;
    uint64_t number;
};

static void put_rows(struct gb_mc_session *session, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_number(session, rows[i].name, rows[i].number);
    }
}

#define PUT_ROWS(session, rows) put_rows(session, rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- what is told -------------------------------------------------------------------------- */

struct figures {
    struct goblin_stats store;
    struct gb_server_gauges gauges;
    struct gb_metrics_snapshot metrics;
    uint64_t counts[GB_MC_COUNTER_COUNT]; /* since the last reset */
};

static void sum_counts(struct gb_memcache *memcache, uint64_t sums[GB_MC_COUNTER_COUNT])
{
    for (const struct gb_mc_loop *loop = memcache->loops; loop != NULL; loop = loop->next) {
        for (size_t i = 0; i < GB_MC_COUNTER_COUNT; i++) {
            sums[i] += atomic_load_explicit(&loop->counts.counters[i], memory_order_relaxed);
        }
    }
}

static void gather(struct gb_mc_session *session, struct figures *figures)
{
    struct gb_memcache *memcache = session->home->memcache;
    struct gb_server *server = session->home->loop->server;
    memset(figures, 0, sizeof(*figures));
    goblin_stats(session->home->loop->store, &figures->store);
    gb_server_read_gauges(server, &figures->gauges);
    gb_server_sum_metrics(server, &figures->metrics);
    (void)pthread_mutex_lock(&memcache->lock);
    sum_counts(memcache, figures->counts);
    for (size_t i = 0; i < GB_MC_COUNTER_COUNT; i++) {
        figures->counts[i] -= memcache->baseline[i];
    }
    (void)pthread_mutex_unlock(&memcache->lock);
}

static void reset(struct gb_mc_session *session)
{
    struct gb_memcache *memcache = session->home->memcache;
    (void)pthread_mutex_lock(&memcache->lock);
    memset(memcache->baseline, 0, sizeof(memcache->baseline));
    sum_counts(memcache, memcache->baseline);
    (void)pthread_mutex_unlock(&memcache->lock);
    gb_mc_session_say(session, GB_MC_LITERAL("RESET"));
}

/* ---- general ------------------------------------------------------------------------------- */

static void put_process(struct gb_mc_session *session)
{
    const struct gb_loop *loop = session->home->loop;
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    put_number(session, "pid", (uint64_t)getpid());
    put_number(session, "uptime", (uint64_t)gb_server_uptime_ms(loop->server) / 1000);
    put_number(session, "time", (uint64_t)loop->wall_ms / 1000);
    put(session, "version", GB_MC_VERSION_TEXT);
    put_number(session, "pointer_size", 8 * sizeof(void *));
    put_time(session, "rusage_user", usage.ru_utime);
    put_time(session, "rusage_system", usage.ru_stime);
}

static void put_network(struct gb_mc_session *session, const struct figures *figures)
{
    const uint64_t *counters = figures->metrics.counters;
    const struct row rows[] = {
        {"max_connections", figures->gauges.connections_limit},
        {"curr_connections", figures->gauges.connections},
        {"total_connections", counters[GB_METRICS_accepted]},
        {"rejected_connections", 0}, /* they wait in the backlog instead */
        {"connection_structures", figures->gauges.connections},
        {"bytes_read", counters[GB_METRICS_bytes_in]},
        {"bytes_written", counters[GB_METRICS_bytes_out]},
        {"accepting_conns", figures->gauges.draining == 0},
        {"listen_disabled_num", counters[GB_METRICS_accept_stops]},
        {"threads", figures->gauges.loops},
        {"conn_yields", counters[GB_METRICS_turns_ended]},
    };
    PUT_ROWS(session, rows);
}

static void put_objects(struct gb_mc_session *session, const struct figures *figures)
{
    const struct goblin_stats *store = &figures->store;
    const struct row rows[] = {
        {"limit_maxbytes", store->disk_bytes},
        {"hash_bytes", store->memory_index_bytes},
        {"hash_is_expanding", 0},
        {"bytes", store->live_bytes},
        {"curr_items", store->objects},
        {"total_items", store->puts},
        {"evictions", store->left_disk + store->left_ram + store->left_admission},
        {"reclaimed", store->left_expired},
        {"ram_limit_bytes", store->memory_budget_bytes},
        {"ram_used_bytes", store->memory_used_bytes},
        {"ram_object_bytes", store->resident_bytes},
        {"get_bytes", store->get_bytes},
        {"get_ram_bytes", store->get_resident_bytes},
        {"get_hits_ram", store->hits_resident},
        {"read_errors", store->read_errors + store->checksum_errors},
        {"write_errors", store->write_errors},
        {"disk_used_bytes", store->disk_used_bytes},
        {"disk_read_bytes", store->device_read_bytes},
        {"disk_written_bytes", store->device_write_bytes},
    };
    PUT_ROWS(session, rows);
}

static void put_general(struct gb_mc_session *session, const struct figures *figures)
{
    static const char *const names[] = {
#define GB_X(name) #name,
        GB_MC_COUNTERS(GB_X)
#undef GB_X
    };
    put_process(session);
    put_network(session, figures);
    for (size_t i = 0; i < GB_MC_COUNTER_COUNT; i++) {
        put_number(session, names[i], figures->counts[i]);
    }
    put_objects(session, figures);
}

/* ---- the class of all objects -------------------------------------------------------------- */

static void put_items(struct gb_mc_session *session, const struct figures *figures)
{
    const struct goblin_stats *store = &figures->store;
    const struct row rows[] = {
        {"items:1:number", store->objects},
        {"items:1:age", 0},
        {"items:1:mem_requested", store->resident_bytes},
        {"items:1:evicted", store->left_disk + store->left_ram + store->left_admission},
        {"items:1:evicted_nonzero", 0},
        {"items:1:evicted_time", 0},
        {"items:1:outofmemory", figures->counts[GB_MC_COUNT_store_no_memory]},
        {"items:1:tailrepairs", 0},
        {"items:1:reclaimed", store->left_expired},
        {"items:1:expired_unfetched", 0},
        {"items:1:evicted_unfetched", 0},
    };
    if (store->objects > 0) {
        PUT_ROWS(session, rows);
    }
}

/* A chunk is a byte, a page a segment of the disk. */
static void put_slabs(struct gb_mc_session *session, const struct figures *figures)
{
    const struct goblin_stats *store = &figures->store;
    const uint64_t *counts = figures->counts;
    uint64_t pages = store->segments - store->segments_free;
    uint64_t page_bytes = store->segments > 0 ? store->disk_bytes / store->segments : 0;
    const struct row rows[] = {
        {"1:chunk_size", 1},
        {"1:chunks_per_page", page_bytes},
        {"1:total_pages", pages},
        {"1:total_chunks", pages * page_bytes},
        {"1:used_chunks", store->live_bytes},
        {"1:free_chunks", pages * page_bytes - gb_min(store->live_bytes, pages * page_bytes)},
        {"1:free_chunks_end", 0},
        {"1:get_hits", counts[GB_MC_COUNT_get_hits]},
        {"1:cmd_set", counts[GB_MC_COUNT_cmd_set]},
        {"1:delete_hits", counts[GB_MC_COUNT_delete_hits]},
        {"1:incr_hits", counts[GB_MC_COUNT_incr_hits]},
        {"1:decr_hits", counts[GB_MC_COUNT_decr_hits]},
        {"1:cas_hits", counts[GB_MC_COUNT_cas_hits]},
        {"1:cas_badval", counts[GB_MC_COUNT_cas_badval]},
        {"1:touch_hits", counts[GB_MC_COUNT_touch_hits]},
        {"active_slabs", 1},
        {"total_malloced", store->memory_used_bytes},
    };
    PUT_ROWS(session, rows);
}

static void put_tls(struct gb_mc_session *session, const struct gb_tls_options *tls)
{
    put(session, "ssl_chain_cert", tls->certificates[0].chain);
    put(session, "ssl_key", tls->certificates[0].key);
    put_number(session, "ssl_verify_mode", (uint64_t)tls->clients); /* 0, 1, 2: as memcached's */
    put(session, "ssl_ca_cert", tls->ca_file != NULL ? tls->ca_file : "NULL");
    put(session, "ssl_min_version", tls->newest_only ? "tlsv1.3" : "tlsv1.2");
}

static void put_settings(struct gb_mc_session *session, const struct figures *figures)
{
    const struct gb_memcache_options *options = &session->home->memcache->options;
    const struct gb_server_options *server = gb_server_options_of(session->home->loop->server);
    const struct gb_listener *listener = gb_conn_listener(session->conn);
    const char *colon = strrchr(listener->address, ':');
    put_number(session, "maxbytes", figures->store.disk_bytes);
    put_number(session, "maxconns", figures->gauges.connections_limit);
    put(session, "tcpport", listener->is_unix || colon == NULL ? "0" : colon + 1);
    put_number(session, "udpport", 0);
    put(session, "inter", listener->is_unix ? "NULL" : listener->address);
    put_number(session, "verbosity", 0);
    put(session, "evictions", server->store.mode == GOBLIN_MODE_CACHE ? "on" : "off");
    put(session, "domain_socket", listener->is_unix ? listener->address : "NULL");
    put_number(session, "num_threads", figures->gauges.loops);
    put_number(session, "tcp_backlog", (uint64_t)(server->backlog > 0 ? server->backlog : 1024));
    put(session, "cas_enabled", "yes");
    put(session, "auth_enabled_ascii", options->auth_file != NULL ? options->auth_file : "no");
    put(session, "flush_enabled", options->no_flush ? "no" : "yes");
    put(session, "dump_enabled", options->no_dump ? "no" : "yes");
    put(session, "watch_enabled", options->no_watch ? "no" : "yes");
    put(session, "shutdown_command", options->shutdown ? "yes" : "no");
    put_number(session, "item_size_max", options->value_max_bytes);
    put(session, "binding_protocol", "ascii");
    put(session, "ssl_enabled", listener->tls ? "yes" : "no");
    if (listener->tls) {
        put_tls(session, &options->tls);
    }
}

/* ---- connections --------------------------------------------------------------------------- */

/* Goes from loop to loop, each adding its own, and back. */
struct walk {
    struct gb_post post;
    struct gb_mc_session *session;
    unsigned next;
    size_t len;
    size_t capacity;
    char *text;
};

static void add_conn(struct walk *walk, const struct gb_conn *conn)
{
    const struct gb_listener *listener = gb_conn_listener(conn);
    char lines[1024];
    int fd = gb_conn_fd(conn);
    int len =
        snprintf(lines, sizeof(lines),
                 "STAT %d:addr %s\r\nSTAT %d:listen_addr %s\r\n"
                 "STAT %d:secs_since_last_cmd %" PRId64 "\r\n",
                 fd, gb_conn_peer(conn), fd, listener->address, fd, gb_conn_idle_ms(conn) / 1000);
    size_t need = walk->len + (size_t)len;
    if (need > walk->capacity) {
        char *text = realloc(walk->text, 2 * need);
        if (text == NULL) {
            return; /* the list is shorter than it should be; its end is there all the same */
        }
        walk->text = text;
        walk->capacity = 2 * need;
    }
    memcpy(walk->text + walk->len, lines, (size_t)len);
    walk->len = need;
}

static void walk_home(struct gb_post *post)
{
    struct walk *walk = (struct walk *)post; /* its first member */
    struct gb_conn *conn = walk->session->conn;
    if (!gb_conn_is_closed(conn)) {
        gb_conn_append(conn, walk->text, walk->len);
        gb_conn_append(conn, "END\r\n", 5);
    }
    gb_conn_resume(conn);
    free(walk->text);
    free(walk);
}

static void walk_on(struct gb_post *post)
{
    struct walk *walk = (struct walk *)post;
    struct gb_loop *home = walk->session->home->loop;
    const struct gb_loop *here = gb_server_loop(home->server, walk->next);
    for (struct gb_conn *conn = gb_conn_next(here, NULL); conn != NULL;
         conn = gb_conn_next(here, conn)) {
        add_conn(walk, conn);
    }
    walk->next++;
    if (walk->next < gb_server_loop_count(home->server)) {
        gb_loop_post(gb_server_loop(home->server, walk->next), &walk->post);
    } else {
        walk->post.run = walk_home;
        gb_loop_post(home, &walk->post);
    }
}

static void list_conns(struct gb_mc_session *session)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL) {
        gb_mc_session_say(session, GB_MC_LITERAL("SERVER_ERROR out of memory writing stats"));
        return;
    }
    walk->session = session;
    walk->post.run = walk_on;
    gb_conn_pause(session->conn);
    gb_loop_post(gb_server_loop(session->home->loop->server, 0), &walk->post);
}

/* -------------------------------------------------------------------------------------------- */

static void answer_figures(struct gb_mc_session *session, enum gb_mc_stats what)
{
    struct figures *figures = malloc(sizeof(*figures));
    if (figures == NULL) {
        gb_mc_session_say(session, GB_MC_LITERAL("SERVER_ERROR out of memory writing stats"));
        return;
    }
    gather(session, figures);
    switch (what) {
    case GB_MC_STATS_ITEMS:
        put_items(session, figures);
        break;
    case GB_MC_STATS_SLABS:
        put_slabs(session, figures);
        break;
    case GB_MC_STATS_SETTINGS:
        put_settings(session, figures);
        break;
    default:
        put_general(session, figures);
        break;
    }
    free(figures);
    gb_mc_session_say(session, GB_MC_LITERAL("END"));
}

void gb_mc_stats_answer(struct gb_mc_session *session)
{
    struct gb_mc_stats_request request;
    gb_mc_admin_stats(&session->event.request, &request);
    switch (request.what) {
    case GB_MC_STATS_REFUSED:
        gb_mc_session_say(session, request.answer);
        break;
    case GB_MC_STATS_RESET:
        reset(session);
        break;
    case GB_MC_STATS_CONNS:
        list_conns(session);
        break;
    case GB_MC_STATS_CACHEDUMP:
        if (session->home->memcache->options.no_dump) {
            gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR stats cachedump not allowed"));
        } else {
            gb_mc_dump_begin(session, GB_MC_DUMP_CACHE, request.limit);
        }
        break;
    case GB_MC_STATS_SIZES: /* such counts are not kept, nor can they be switched on */
    case GB_MC_STATS_SIZES_ENABLE:
    case GB_MC_STATS_SIZES_DISABLE:
        put(session, "sizes_status", "disabled");
        gb_mc_session_say(session, GB_MC_LITERAL("END"));
        break;
    default:
        answer_figures(session, request.what);
        break;
    }
}
