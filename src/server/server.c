/* The server put together and taken apart. */
#include "server/server.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/backend.h"
#include "server/listen.h"
#include "server/loop.h"
#include "server/server_internal.h"
#include "server/work.h"

#define LOOPS_MOST     64u
#define REQUEST_BYTES  9216u /* about what the engine holds per request of a reader */
#define READ_THREADS   8u    /* per loop, where there is no io_uring: reads at once */
#define DRAIN_STEP_NS  5000000
#define DEFAULT_MEMORY (256 * GB_MIB)

/* ---- what is to be ------------------------------------------------------------------------- */

static unsigned count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (unsigned)count;
}

static void choose(struct gb_server *server, const struct gb_server_options *options)
{
    server->options = *options;
    struct gb_server_options *set = &server->options;
    set->memory_bytes = set->memory_bytes == 0 ? DEFAULT_MEMORY : set->memory_bytes;
    set->unix_mode = set->unix_mode == 0 ? 0700 : set->unix_mode;
    set->backlog = set->backlog == 0 ? 1024 : set->backlog;
    set->threads = set->threads == 0 ? count_cores() : set->threads;
    set->threads = (unsigned)gb_min(set->threads, LOOPS_MOST);
    gb_limits_init(&server->limits, &set->limits, set->memory_bytes);
    uint64_t network = server->limits.set.network_bytes;
    set->store.memory_bytes = set->memory_bytes > network ? set->memory_bytes - network : 0;
}

static struct goblin_reader_options choose_reader(const struct gb_server_options *options)
{
    uint64_t chunk = options->store.chunk_bytes == 0 ? 256 * GB_KIB : options->store.chunk_bytes;
    uint64_t share = options->store.memory_bytes / options->threads;
    uint64_t buffers = share / 16 / (chunk + 32 * GB_KIB);
    uint64_t requests = share / 128 / REQUEST_BYTES;
    return (struct goblin_reader_options){
        .buffers = (unsigned)gb_min(gb_max(buffers, 4), 64),
        .requests = (unsigned)gb_min(gb_max(requests, 32), 512),
        .threads = READ_THREADS,
    };
}

int gb_server_check(const struct gb_server_options *options, struct goblin_error *error)
{
    struct gb_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return -ENOMEM;
    }
    choose(server, options);
    int rc = GOBLIN_OK;
    const uint64_t network = server->limits.set.network_bytes;
    if (network >= server->options.memory_bytes) {
        (void)snprintf(error->text, sizeof(error->text),
                       "the network budget of %llu bytes leaves nothing of %llu bytes of memory",
                       (unsigned long long)network,
                       (unsigned long long)server->options.memory_bytes);
        rc = GOBLIN_EOPTION;
    } else if (options->listen_count == 0) {
        (void)snprintf(error->text, sizeof(error->text), "no address to listen at");
        rc = GOBLIN_EOPTION;
    }
    for (size_t i = 0; rc == GOBLIN_OK && i < options->listen_count; i++) {
        rc = gb_listen_check(options->listen[i].address, error);
    }
    if (rc == GOBLIN_OK) {
        rc = gb_origin_check(&options->origin, error);
    }
    if (rc == GOBLIN_OK) {
        rc = goblin_options_check(&server->options.store, error);
    }
    free(server);
    return rc;
}

/* ---- listeners ----------------------------------------------------------------------------- */

static int add_listener(struct gb_server *server, const struct gb_server_listen *listen,
                        struct goblin_error *error)
{
    struct gb_listen_place places[GB_LISTEN_PLACES_MAX];
    const struct gb_listen_options how = {
        .sockets = server->options.threads,
        .backlog = server->options.backlog,
        .unix_mode = server->options.unix_mode,
    };
    int count = gb_listen_open(places, listen->address, &how, error);
    if (count < 0) {
        return count;
    }
    for (int i = 0; i < count; i++) {
        if (server->listener_count == GB_LOOP_LISTENERS_MAX) {
            gb_listen_close(&places[i]);
            continue;
        }
        unsigned number = server->listener_count++;
        struct gb_listener *listener = &server->listeners[number];
        *listener = (struct gb_listener){
            .protocol = listen->protocol,
            .options = listen->options,
            .number = number,
            .tls = listen->tls,
            .is_unix = places[i].is_unix,
        };
        memcpy(listener->address, places[i].address, sizeof(listener->address));
        server->places[number] = places[i];
    }
    return GOBLIN_OK;
}

static int open_listeners(struct gb_server *server, struct goblin_error *error)
{
    for (size_t i = 0; i < server->options.listen_count; i++) {
        int rc = add_listener(server, &server->options.listen[i], error);
        if (rc < 0) {
            return rc;
        }
    }
    return GOBLIN_OK;
}

static void close_listeners(struct gb_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        if (server->listeners[i].is_unix) {
            gb_listen_remove(server->listeners[i].address);
        }
        gb_listen_close(&server->places[i]);
    }
    server->listener_count = 0;
}

/* ---- loops --------------------------------------------------------------------------------- */

static int start_protocols(struct gb_server *server, struct gb_loop *loop,
                           struct goblin_error *error)
{
    const struct gb_protocol *started[GB_SERVER_ADDRESSES_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < server->listener_count; i++) {
        const struct gb_listener *listener = &server->listeners[i];
        bool known = false;
        for (size_t j = 0; j < count; j++) {
            known = known || started[j] == listener->protocol;
        }
        if (known) {
            continue;
        }
        void *state = NULL;
        int rc = listener->protocol->start == NULL
                     ? GOBLIN_OK
                     : listener->protocol->start(loop, listener->options, &state, error);
        if (rc < 0) {
            return rc;
        }
        gb_loop_serve(loop, listener->protocol, state);
        started[count++] = listener->protocol;
    }
    return GOBLIN_OK;
}

static int listen_on(struct gb_server *server, struct gb_loop *loop)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        struct gb_listen_place *place = &server->places[i];
        if (loop->number >= place->fd_count) {
            continue; /* a unix socket, which is loop 0's */
        }
        int fd = place->fds[loop->number];
        place->fds[loop->number] = -1;
        int rc = gb_loop_listen(loop, &server->listeners[i], fd);
        if (rc < 0) {
            return rc;
        }
    }
    return GOBLIN_OK;
}

static int create_loops(struct gb_server *server, struct goblin_error *error)
{
    unsigned count = server->options.threads;
    server->loops = calloc(count, sizeof(struct gb_loop *));
    if (server->loops == NULL) {
        return -ENOMEM;
    }
    server->loops_planned = count;
    struct gb_loop_options options = {
        .server = server,
        .store = server->store,
        .backend = server->backend,
        .work = server->work,
        .limits = &server->limits,
        .log = server->log,
        .reader = choose_reader(&server->options),
        .loops = server->loops,
        .loop_count = &server->loops_planned,
        .clock = server->options.clock,
        .clock_arg = server->options.clock_arg,
        .wall_clock = server->options.store.clock,
        .wall_clock_arg = server->options.store.clock_arg,
    };
    for (unsigned i = 0; i < count; i++) {
        options.number = i;
        int rc = gb_loop_create(&server->loops[i], &options, error);
        if (rc < 0) {
            return rc;
        }
        server->loop_count = i + 1;
        rc = start_protocols(server, server->loops[i], error);
        if (rc >= 0) {
            rc = listen_on(server, server->loops[i]);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return GOBLIN_OK;
}

static int start_loops(struct gb_server *server)
{
    for (unsigned i = 0; i < server->loop_count; i++) {
        int rc = gb_loop_start(server->loops[i]);
        if (rc < 0) {
            return rc;
        }
    }
    return GOBLIN_OK;
}

/* ---- files that say where it is ------------------------------------------------------------ */

static int write_file(const char *name, const struct gb_server *server, bool ports,
                      struct goblin_error *error)
{
    if (name == NULL) {
        return GOBLIN_OK;
    }
    /* Renamed into place, so that whoever waits for it finds it whole. */
    char temporary[4096];
    int n = snprintf(temporary, sizeof(temporary), "%s.new", name);
    FILE *file = n < (int)sizeof(temporary) ? fopen(temporary, "we") : NULL;
    int rc = file == NULL ? -(n < (int)sizeof(temporary) ? errno : ENAMETOOLONG) : 0;
    for (unsigned i = 0; file != NULL && ports && i < server->listener_count; i++) {
        (void)fprintf(file, "%s %s\n", server->listeners[i].protocol->name,
                      server->listeners[i].address);
    }
    if (file != NULL && !ports) {
        (void)fprintf(file, "%ld\n", (long)getpid());
    }
    if (file != NULL && (fclose(file) != 0 || rename(temporary, name) != 0)) {
        rc = -errno;
    }
    if (rc < 0) {
        (void)snprintf(error->text, sizeof(error->text), "%s: %s", name, goblin_strerror(rc));
        return rc;
    }
    return GOBLIN_OK;
}

static void log_listeners(struct gb_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        const struct gb_log_field fields[] = {
            GB_LOG_TEXT("protocol", server->listeners[i].protocol->name),
            GB_LOG_TEXT("address", server->listeners[i].address),
        };
        gb_log_event(server->log, GOBLIN_LOG_INFO, "listening", fields, 2);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static int64_t monotonic_ms(void)
{
    return (int64_t)(gb_loop_clock_ns() / 1000000);
}

static int open_store(struct gb_server *server, struct goblin_error *error)
{
    struct goblin_options options = server->options.store;
    if (options.log == NULL) {
        options.log = gb_log_engine;
        options.log_arg = server->log;
    }
    return goblin_open(&server->store, &options, error);
}

static int build(struct gb_server *server, struct goblin_error *error)
{
    int rc = gb_log_open(&server->log, &server->options.log, error);
    if (rc >= 0) {
        rc = open_listeners(server, error);
    }
    if (rc >= 0) {
        rc = open_store(server, error);
    }
    if (rc >= 0) {
        rc = gb_work_create(&server->work, server->limits.set.workers);
    }
    if (rc >= 0) {
        const struct gb_backend_local_options how = {
            .store = server->store,
            .work = server->work,
            .streams = server->limits.set.streams,
            .durability = server->options.store.durability,
        };
        rc = gb_backend_create_local(&server->backend, &how);
    }
    if (rc >= 0 && server->options.origin.url != NULL) {
        rc = gb_origin_create(&server->origin, &server->options.origin, server->options.threads,
                              error);
    }
    if (rc >= 0) {
        rc = create_loops(server, error);
    }
    if (rc >= 0) {
        rc = start_loops(server);
    }
    if (rc >= 0) {
        rc = write_file(server->options.pid_file, server, false, error);
    }
    if (rc >= 0) {
        rc = write_file(server->options.port_file, server, true, error);
    }
    return rc;
}

/* What there is of it. Returns what goblin_close does. */
static int take_apart(struct gb_server *server)
{
    for (unsigned i = 0; i < server->loop_count; i++) {
        gb_loop_quiesce(server->loops[i]);
    }
    for (unsigned i = 0; i < server->loop_count; i++) {
        gb_loop_stop(server->loops[i]);
    }
    gb_work_destroy(server->work);
    gb_backend_destroy(server->backend);
    for (unsigned i = 0; i < server->loop_count; i++) {
        gb_loop_destroy(server->loops[i]);
    }
    free(server->loops);
    gb_origin_destroy(server->origin);
    close_listeners(server);
    int rc = goblin_close(server->store);
    if (rc < 0 && server->log != NULL) {
        const struct gb_log_field field[] = {GB_LOG_TEXT("error", goblin_strerror(rc))};
        gb_log_event(server->log, GOBLIN_LOG_ERROR, "store not closed cleanly", field, 1);
    }
    if (server->options.pid_file != NULL && server->ready_once) {
        (void)unlink(server->options.pid_file);
    }
    gb_log_close(server->log);
    free(server);
    return rc;
}

int gb_server_start(struct gb_server **out, const struct gb_server_options *options,
                    struct goblin_error *error)
{
    struct goblin_error unused;
    error = error != NULL ? error : &unused;
    error->text[0] = '\0';
    struct gb_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return -ENOMEM;
    }
    choose(server, options);
    server->started_ms = monotonic_ms();
    int rc = build(server, error);
    if (rc < 0) {
        if (error->text[0] == '\0') {
            (void)snprintf(error->text, sizeof(error->text), "start: %s", goblin_strerror(rc));
        }
        (void)take_apart(server);
        return rc;
    }
    atomic_store(&server->ready, true);
    server->ready_once = true;
    log_listeners(server);
    *out = server;
    if (server->options.on_ready != NULL) {
        server->options.on_ready(server->options.on_ready_arg, server);
    }
    return GOBLIN_OK;
}

void gb_server_drain(struct gb_server *server)
{
    if (atomic_exchange(&server->draining, true)) {
        return;
    }
    atomic_store(&server->ready, false);
    server->drain_until_ms = monotonic_ms() + server->limits.set.drain_ms;
    gb_log_event(server->log, GOBLIN_LOG_INFO, "draining", NULL, 0);
    for (unsigned i = 0; i < server->loop_count; i++) {
        gb_loop_drain(server->loops[i]);
    }
}

bool gb_server_drained(const struct gb_server *server)
{
    return atomic_load_explicit(&server->limits.connections, memory_order_relaxed) == 0 ||
           monotonic_ms() >= server->drain_until_ms;
}

int gb_server_stop(struct gb_server *server)
{
    gb_server_drain(server);
    while (!server->hurry && !gb_server_drained(server)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = DRAIN_STEP_NS}, NULL);
    }
    gb_log_event(server->log, GOBLIN_LOG_INFO, "stopping", NULL, 0);
    return take_apart(server);
}

void gb_server_reload(struct gb_server *server)
{
    gb_log_reopen(server->log);
    for (unsigned i = 0; i < server->loop_count; i++) {
        gb_loop_reload(server->loops[i]);
    }
    gb_log_event(server->log, GOBLIN_LOG_INFO, "reloaded", NULL, 0);
}

/* ---- what protocols ask -------------------------------------------------------------------- */

const struct gb_server_options *gb_server_options_of(const struct gb_server *server)
{
    return &server->options;
}

struct gb_limits *gb_server_limits(struct gb_server *server)
{
    return &server->limits;
}

struct gb_log *gb_server_log(struct gb_server *server)
{
    return server->log;
}

struct gb_origin *gb_server_origin(struct gb_server *server)
{
    return server->origin;
}

struct goblin *gb_server_store(struct gb_server *server)
{
    return server->store;
}

bool gb_server_ready(const struct gb_server *server)
{
    return atomic_load(&server->ready);
}

int64_t gb_server_uptime_ms(const struct gb_server *server)
{
    return monotonic_ms() - server->started_ms;
}

unsigned gb_server_loop_count(const struct gb_server *server)
{
    return server->loops_planned;
}

struct gb_loop *gb_server_loop(struct gb_server *server, unsigned number)
{
    GB_ASSERT(number < server->loops_planned);
    return server->loops[number];
}

size_t gb_server_listener_count(const struct gb_server *server)
{
    return server->listener_count;
}

const struct gb_listener *gb_server_listener(const struct gb_server *server, size_t number)
{
    GB_ASSERT(number < server->listener_count);
    return &server->listeners[number];
}

void gb_server_sum_metrics(struct gb_server *server, struct gb_metrics_snapshot *snapshot)
{
    for (unsigned i = 0; i < server->loops_planned; i++) {
        gb_metrics_sum(snapshot, server->loops[i]->metrics);
    }
}

void gb_server_read_gauges(struct gb_server *server, struct gb_server_gauges *gauges)
{
    struct gb_limits *limits = &server->limits;
    const struct gb_work_counts work = gb_work_counts(server->work);
    unsigned streams = 0;
    unsigned waiting = 0;
    gb_backend_count_streams(server->backend, &streams, &waiting);
    *gauges = (struct gb_server_gauges){
        .connections = atomic_load_explicit(&limits->connections, memory_order_relaxed),
        .connections_limit = limits->set.connections,
        .network_bytes = atomic_load_explicit(&limits->used_bytes, memory_order_relaxed),
        .network_budget_bytes = limits->set.network_bytes,
        .waiting = atomic_load_explicit(&limits->waiters, memory_order_relaxed),
        .streams = streams,
        .streams_waiting = waiting,
        .workers = work.threads,
        .workers_idle = work.idle,
        .jobs_waiting = work.waiting,
        .loops = server->loops_planned,
        .draining = atomic_load(&server->draining),
    };
}

void gb_server_ask_to_end(struct gb_server *server)
{
    atomic_store(&server->end_asked, true);
    if (server->runs) {
        (void)kill(getpid(), SIGTERM); /* blocked in all threads: the main one takes it */
    }
}

bool gb_server_end_asked(const struct gb_server *server)
{
    return atomic_load(&server->end_asked);
}
