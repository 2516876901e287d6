/* The verb `serve`: its options, what they become, and where its store is if nobody says so. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/serve_http.h"
#include "cli/testclock.h"
#include "cli/verbs.h"
#include "server/memcache.h"
#include "server/server.h"

#define DEFAULT_SIZE_MOST  (8 * GB_GIB)
#define DEFAULT_SIZE_LEAST (64 * GB_MIB)
#define PATH_BYTES         4096u

struct serve_settings {
    struct gb_option_list memcache;
    struct gb_option_list memcache_tls;
    const char *memcache_ca_file;
    struct gb_option_list http;
    struct gb_option_list https;
    struct gb_serve_http_settings http_settings;
    uint64_t value_max_bytes;
    const char *auth_file;
    bool test_clock;
    const char *store;
    uint64_t store_bytes;
    uint64_t segment_bytes;
    int store_mode;
    int durability; /* of enum goblin_durability, one less */
    int64_t flush_ms;
    uint64_t threads;
    uint64_t workers;
    uint64_t uploads;
    uint64_t connections;
    uint64_t network_bytes;
    int64_t idle_ms;
    int64_t request_ms;
    int64_t stall_ms;
    int64_t drain_ms;
    const char *unix_mode;
    const char *port_file;
    const char *pid_file;
    const char *log_file;
    int log_format;
    const char *access_file;
    const char *slow_file;
    int64_t slow_ms;
    bool quiet;
    const char *origin;
    const char *origin_ca;
    int64_t origin_timeout_ms;
    uint64_t origin_connections;
    uint64_t origin_bytes;
    uint64_t origin_redirects;
};

#define AT(member) offsetof(struct serve_settings, member)

static const struct gb_option serve_options[] = {
    {.name = "memcache",
     .kind = GB_OPTION_LIST,
     .offset = AT(memcache),
     .value = "ADDRESS",
     .help = "serve memcached's protocol at HOST:PORT, :PORT or /SOCKET"},
    {.name = "memcache-tls",
     .kind = GB_OPTION_LIST,
     .offset = AT(memcache_tls),
     .value = "ADDRESS",
     .help = "serve it over TLS there; needs a --certificate"},
    {.name = "memcache-client-ca",
     .kind = GB_OPTION_TEXT,
     .offset = AT(memcache_ca_file),
     .value = "FILE",
     .help = "whose certificates its clients must have there (none)"},
    {.name = "http",
     .kind = GB_OPTION_LIST,
     .offset = AT(http),
     .value = "ADDRESS",
     .help = "serve HTTP there (both on 127.0.0.1, ports 11211 and 8080)"},
    {.name = "https",
     .kind = GB_OPTION_LIST,
     .offset = AT(https),
     .value = "ADDRESS",
     .help = "serve HTTP over TLS there; needs a --certificate"},
    {.name = "certificate",
     .kind = GB_OPTION_LIST,
     .offset = AT(http_settings.certificates),
     .value = "CHAIN:KEY",
     .help = "files of a certificate and its key; several are chosen by name"},
    {.name = "http-tokens",
     .kind = GB_OPTION_TEXT,
     .offset = AT(http_settings.tokens_file),
     .value = "FILE",
     .help = "who may read and write by HTTP (everybody)"},
    {.name = "http-origins",
     .kind = GB_OPTION_TEXT,
     .offset = AT(http_settings.origins),
     .value = "ORIGINS",
     .help = "sites whose pages may use it, parted by spaces, or * (none)"},
    {.name = "http-map",
     .kind = GB_OPTION_LIST,
     .offset = AT(http_settings.rules),
     .value = "[HOST]/PATH=KEY",
     .help = "put KEY in the place of such a host and path (/=)"},
    {.name = "http-read-only",
     .kind = GB_OPTION_FLAG,
     .offset = AT(http_settings.read_only),
     .help = "no PUT and DELETE"},
    {.name = "max-value",
     .kind = GB_OPTION_SIZE,
     .offset = AT(value_max_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "refuse larger values (1G)"},
    {.name = "auth-file",
     .kind = GB_OPTION_TEXT,
     .offset = AT(auth_file),
     .value = "FILE",
     .help = "lines NAME:PASSWORD; memcached clients begin by saying theirs (nobody need)"},
    {.name = "store",
     .kind = GB_OPTION_TEXT,
     .offset = AT(store),
     .value = "DIR",
     .help = "the store, or DIR,DIR2, made if absent (the user's cache directory)"},
    {.name = "store-size",
     .kind = GB_OPTION_SIZE,
     .offset = AT(store_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "disk for a new store (8G, or a quarter of what is free)"},
    {.name = "store-mode",
     .kind = GB_OPTION_CHOICE,
     .offset = AT(store_mode),
     .value = "cache|store",
     .help = "when full, drop the oldest objects, or refuse writes (cache)"},
    {.name = "segment",
     .kind = GB_OPTION_SIZE,
     .offset = AT(segment_bytes),
     .value = "SIZE",
     .least = GB_MIB,
     .most = GB_GIB,
     .help = "size of a new store's segments (chosen from the size)"},
    {.name = "durability",
     .kind = GB_OPTION_CHOICE,
     .offset = AT(durability),
     .value = "none|written|synced",
     .help = "what a value must have reached before it is acknowledged (none)"},
    {.name = "flush",
     .kind = GB_OPTION_DURATION,
     .offset = AT(flush_ms),
     .value = "TIME",
     .least = 1,
     .most = 3600000,
     .help = "with durability none: on its way to the device at the latest (1s)"},
    {.name = "threads",
     .kind = GB_OPTION_COUNT,
     .offset = AT(threads),
     .value = "N",
     .least = 1,
     .most = 64,
     .help = "event loops (one per core)"},
    {.name = "workers",
     .kind = GB_OPTION_COUNT,
     .offset = AT(workers),
     .value = "N",
     .least = 1,
     .most = 1024,
     .help = "threads for what waits for the device, at the most (32)"},
    {.name = "uploads",
     .kind = GB_OPTION_COUNT,
     .offset = AT(uploads),
     .value = "N",
     .least = 1,
     .most = 4096,
     .help = "large values that are received at once; others wait (64)"},
    {.name = "connections",
     .kind = GB_OPTION_COUNT,
     .offset = AT(connections),
     .value = "N",
     .least = 1,
     .most = 1000000,
     .help = "at the most; others wait to be accepted (what descriptors allow)"},
    {.name = "network-memory",
     .kind = GB_OPTION_SIZE,
     .offset = AT(network_bytes),
     .value = "SIZE",
     .least = GB_MIB,
     .help = "of --memory, for connections and their buffers (an eighth)"},
    {.name = "idle-timeout",
     .kind = GB_OPTION_DURATION,
     .offset = AT(idle_ms),
     .value = "TIME",
     .least = 1,
     .help = "close a connection that asks for nothing (10m)"},
    {.name = "request-timeout",
     .kind = GB_OPTION_DURATION,
     .offset = AT(request_ms),
     .value = "TIME",
     .least = 1,
     .help = "close one whose request does not arrive (1m per 64K)"},
    {.name = "stall-timeout",
     .kind = GB_OPTION_DURATION,
     .offset = AT(stall_ms),
     .value = "TIME",
     .least = 1,
     .help = "close one that does not take its answer (1m per 64K)"},
    {.name = "drain-timeout",
     .kind = GB_OPTION_DURATION,
     .offset = AT(drain_ms),
     .value = "TIME",
     .least = 1,
     .help = "at the end, for requests that have begun (30s)"},
    {.name = "origin",
     .kind = GB_OPTION_TEXT,
     .offset = AT(origin),
     .value = "URL",
     .help = "where HTTP gets what the store lacks: http://HOST[:PORT][/PATH]"},
    {.name = "origin-timeout",
     .kind = GB_OPTION_DURATION,
     .offset = AT(origin_timeout_ms),
     .value = "TIME",
     .least = 1,
     .help = "give up on an origin that sends nothing for so long (30s)"},
    {.name = "origin-connections",
     .kind = GB_OPTION_COUNT,
     .offset = AT(origin_connections),
     .value = "N",
     .least = 1,
     .most = 65536,
     .help = "to the origin, at the most; others wait (64)"},
    {.name = "origin-object",
     .kind = GB_OPTION_SIZE,
     .offset = AT(origin_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "larger answers are passed through and not stored (1G)"},
    {.name = "origin-redirects",
     .kind = GB_OPTION_COUNT,
     .offset = AT(origin_redirects),
     .value = "N",
     .most = 50,
     .help = "follow up to so many redirects (pass them on)"},
    {.name = "origin-ca",
     .kind = GB_OPTION_TEXT,
     .offset = AT(origin_ca),
     .value = "FILE",
     .help = "certificates to trust in an https origin (the system's)"},
    {.name = "unix-mode",
     .kind = GB_OPTION_TEXT,
     .offset = AT(unix_mode),
     .value = "OCTAL",
     .help = "permissions of unix sockets (0700)"},
    {.name = "port-file",
     .kind = GB_OPTION_TEXT,
     .offset = AT(port_file),
     .value = "FILE",
     .help = "write there what listens where: a line PROTOCOL ADDRESS each"},
    {.name = "pid-file",
     .kind = GB_OPTION_TEXT,
     .offset = AT(pid_file),
     .value = "FILE",
     .help = "write the process's number there"},
    {.name = "log-file",
     .kind = GB_OPTION_TEXT,
     .offset = AT(log_file),
     .value = "FILE",
     .help = "where events go (standard error)"},
    {.name = "log-format",
     .kind = GB_OPTION_CHOICE,
     .offset = AT(log_format),
     .value = "text|json",
     .help = "how all logs are written (text)"},
    {.name = "access-log",
     .kind = GB_OPTION_TEXT,
     .offset = AT(access_file),
     .value = "FILE",
     .help = "a line per request; - is standard output (none)"},
    {.name = "slow-log",
     .kind = GB_OPTION_TEXT,
     .offset = AT(slow_file),
     .value = "FILE",
     .help = "where slow requests go (among the events)"},
    {.name = "slow",
     .kind = GB_OPTION_DURATION,
     .offset = AT(slow_ms),
     .value = "TIME",
     .least = 1,
     .help = "log requests that take longer (none)"},
    {.name = "quiet",
     .kind = GB_OPTION_FLAG,
     .offset = AT(quiet),
     .help = "no words at the start about how to talk to it"},
    {.name = "test-clock",
     .kind = GB_OPTION_FLAG,
     .offset = AT(test_clock),
     .help = "memcached's debugtime N moves expiries' clock by N seconds; for tests"},
    {0},
};

/* ---- the store ----------------------------------------------------------------------------- */

/* Where a service manager, a root process or a user keeps caches. */
static int choose_dir(char out[PATH_BYTES], struct goblin_error *error)
{
    const char *given = getenv("CACHE_DIRECTORY"); /* systemd's; the first of them */
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (given != NULL && given[0] == '/') {
        n = snprintf(out, PATH_BYTES, "%.*s", (int)strcspn(given, ":"), given);
    } else if (geteuid() == 0) {
        n = snprintf(out, PATH_BYTES, "/var/cache/goblin");
    } else if (cache != NULL && cache[0] == '/') {
        n = snprintf(out, PATH_BYTES, "%s/goblin", cache);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(out, PATH_BYTES, "%s/.cache/goblin", home);
    } else {
        return gb_say_explain(error, "no HOME to keep a store in: say where with --store DIR");
    }
    return n < (int)PATH_BYTES ? GOBLIN_OK : gb_say_explain(error, "HOME is too long");
}

/* Private, and its parent too if it is new. */
static int make_dir(const char *dir, struct goblin_error *error)
{
    char parent[PATH_BYTES];
    (void)snprintf(parent, sizeof(parent), "%s", dir);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        (void)mkdir(parent, 0700); /* if it cannot be made, the next one says why */
    }
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        (void)gb_say_explain(error, "%s: %s", dir, strerror(errno));
        return -errno;
    }
    return GOBLIN_OK;
}

static bool is_empty_or_absent(const char *name)
{
    DIR *dir = opendir(name);
    if (dir == NULL) {
        return errno == ENOENT;
    }
    bool empty = true;
    for (const struct dirent *entry = NULL; empty && (entry = readdir(dir)) != NULL;) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    (void)closedir(dir);
    return empty;
}

/* A quarter of what is free where the directory is, or will be. */
static uint64_t choose_size(const char *dir)
{
    struct statvfs fs;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s", dir);
    while (statvfs(path, &fs) != 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            return DEFAULT_SIZE_LEAST;
        }
        *slash = '\0';
    }
    uint64_t quarter = (uint64_t)fs.f_bavail * fs.f_frsize / 4;
    return gb_max(DEFAULT_SIZE_LEAST, gb_min(DEFAULT_SIZE_MOST, gb_align_down(quarter, GB_MIB)));
}

static void fill_store(struct gb_server_options *out, const struct gb_session *session,
                       const struct serve_settings *settings)
{
    struct goblin_options *store = &out->store;
    bool is_new = is_empty_or_absent(session->dirs[0]);
    store->create = is_new || settings->store_bytes != 0;
    store->size_bytes = settings->store_bytes;
    store->segment_bytes = settings->segment_bytes;
    store->mode = (enum goblin_mode)settings->store_mode;
    store->durability = (enum goblin_durability)(settings->durability + 1);
    store->flush_ms = (uint32_t)settings->flush_ms;
    if (is_new && store->size_bytes == 0) {
        store->size_bytes = choose_size(session->dirs[0]);
    }
    store->log = NULL; /* the server's */
    store->log_arg = NULL;
}

/* ---- protocols ----------------------------------------------------------------------------- */

struct protocols {
    struct gb_memcache *memcache;
    struct gb_serve_http http;
    _Atomic int64_t offset_ms; /* what the test's clock is ahead */
};

static int make_memcache(struct protocols *out, const struct serve_settings *settings,
                         struct goblin_error *error)
{
    struct gb_memcache_options options = {
        .value_max_bytes = settings->value_max_bytes,
        .auth_file = settings->auth_file,
        .clock_offset_ms = settings->test_clock ? &out->offset_ms : NULL,
    };
    if (settings->memcache_tls.count > 0) {
        if (out->http.options.certificate_count == 0) {
            return gb_say_explain(error, "--memcache-tls needs a --certificate CHAIN:KEY");
        }
        options.tls = (struct gb_tls_options){
            .certificates = out->http.options.certificates,
            .certificate_count = out->http.options.certificate_count,
            .clients =
                settings->memcache_ca_file != NULL ? GB_TLS_CLIENTS_REQUIRED : GB_TLS_CLIENTS_ANY,
            .ca_file = settings->memcache_ca_file,
        };
    } else if (settings->memcache_ca_file != NULL) {
        return gb_say_explain(error, "--memcache-client-ca needs a --memcache-tls ADDRESS");
    }
    return gb_memcache_create(&out->memcache, &options, error);
}

static int make_protocols(struct protocols *out, struct gb_server_options *server,
                          const struct serve_settings *settings, struct goblin_error *error)
{
    if (settings->test_clock) {
        server->store.clock = gb_testclock_read;
        server->store.clock_arg = &out->offset_ms;
    }
    int result =
        gb_serve_http_fill(&out->http, &settings->http_settings, settings->https.count > 0, error);
    out->http.options.value_bytes = settings->value_max_bytes;
    return result < 0 ? result : make_memcache(out, settings, error);
}

static void drop_protocols(struct protocols *protocols)
{
    gb_serve_http_free(&protocols->http);
    gb_memcache_destroy(protocols->memcache);
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* Where one protocol is served, and how. */
struct service {
    const char *option;
    const char *protocol;
    const struct gb_option_list *addresses;
    const void *options;
    bool tls;
};

static int add_service(struct gb_server_options *out, const struct service *service,
                       struct goblin_error *error)
{
    const struct gb_protocol *found = gb_protocols_find(service->protocol);
    for (unsigned i = 0; i < service->addresses->count; i++) {
        if (found == NULL) {
            return gb_say_explain(error, "--%s: this build does not serve it", service->option);
        }
        if (out->listen_count == GB_SERVER_ADDRESSES_MAX) {
            return gb_say_explain(error, "at most %u addresses", GB_SERVER_ADDRESSES_MAX);
        }
        out->listen[out->listen_count++] = (struct gb_server_listen){
            .protocol = found,
            .options = service->options,
            .address = service->addresses->items[i],
            .tls = service->tls,
        };
    }
    return GOBLIN_OK;
}

static int add_services(struct gb_server_options *out, const struct serve_settings *settings,
                        const struct protocols *protocols, struct goblin_error *error)
{
    static const struct gb_option_list usual_memcache = {.items = {"127.0.0.1:11211"}, .count = 1};
    static const struct gb_option_list usual_http = {.items = {"127.0.0.1:8080"}, .count = 1};
    bool usual = settings->memcache.count + settings->memcache_tls.count + settings->http.count +
                     settings->https.count ==
                 0;
    const struct service services[] = {
        {.option = "memcache",
         .protocol = "memcache",
         .addresses = usual ? &usual_memcache : &settings->memcache,
         .options = protocols->memcache},
        {.option = "memcache-tls",
         .protocol = "memcache",
         .addresses = &settings->memcache_tls,
         .options = protocols->memcache,
         .tls = true},
        {.option = "http",
         .protocol = "http",
         .addresses = usual ? &usual_http : &settings->http,
         .options = &protocols->http.options},
        {.option = "https",
         .protocol = "http",
         .addresses = &settings->https,
         .options = &protocols->http.options,
         .tls = true},
    };
    int result = GOBLIN_OK;
    for (size_t i = 0; result >= 0 && i < sizeof(services) / sizeof(services[0]); i++) {
        result = add_service(out, &services[i], error);
    }
    return result;
}

static int parse_mode(unsigned *out, const char *text, struct goblin_error *error)
{
    char *end = NULL;
    unsigned long mode = text == NULL ? 0700 : strtoul(text, &end, 8);
    if (text != NULL && (text[0] < '0' || text[0] > '7' || *end != '\0' || mode > 0777)) {
        return gb_say_explain(error, "--unix-mode %s: give permissions such as 0770", text);
    }
    *out = (unsigned)mode;
    return GOBLIN_OK;
}

static int fill_server(struct gb_server_options *out, const struct gb_session_settings *store,
                       const struct serve_settings *settings, const struct protocols *protocols,
                       struct goblin_error *error)
{
    out->memory_bytes = store->memory_bytes;
    out->port_file = settings->port_file;
    out->pid_file = settings->pid_file;
    out->threads = (unsigned)settings->threads;
    out->quiet_start = settings->quiet;
    out->limits = (struct gb_limits_options){
        .network_bytes = settings->network_bytes,
        .connections = (unsigned)settings->connections,
        .streams = (unsigned)settings->uploads,
        .workers = (unsigned)settings->workers,
        .idle_ms = settings->idle_ms,
        .request_ms = settings->request_ms,
        .stall_ms = settings->stall_ms,
        .drain_ms = settings->drain_ms,
    };
    out->log = (struct gb_log_options){
        .file = settings->log_file,
        .access_file = settings->access_file,
        .slow_file = settings->slow_file,
        .slow_ms = settings->slow_ms,
        .format = (enum gb_log_format)settings->log_format,
        .level = (enum goblin_log_level)store->log,
    };
    out->origin = (struct gb_origin_options){
        .url = settings->origin,
        .ca_file = settings->origin_ca,
        .timeout_ms = settings->origin_timeout_ms,
        .connections = (unsigned)settings->origin_connections,
        .object_bytes = settings->origin_bytes,
        .redirects = (unsigned)settings->origin_redirects,
    };
    int result = parse_mode(&out->unix_mode, settings->unix_mode, error);
    return result < 0 ? result : add_services(out, settings, protocols, error);
}

static enum gb_exit say_fault(int fault, const struct goblin_error *error)
{
    return gb_say(fault == GOBLIN_EOPTION ? GB_EXIT_USAGE : GB_EXIT_FAULT, "serve: %s",
                  error->text);
}

static enum gb_exit run_serve(const struct gb_verb_call *call)
{
    const struct serve_settings *settings = call->settings;
    struct gb_server_options options = {0};
    struct gb_session session;
    struct goblin_error error = {{0}};
    char dir[PATH_BYTES] = "";
    int result = settings->store != NULL ? GOBLIN_OK : choose_dir(dir, &error);
    if (result >= 0) {
        result = gb_session_prepare(&session, settings->store != NULL ? settings->store : dir,
                                    call->store, &options.store, &error);
    }
    if (result < 0) {
        return say_fault(result, &error);
    }
    fill_store(&options, &session, settings);
    struct protocols protocols = {0};
    result = make_protocols(&protocols, &options, settings, &error);
    if (result >= 0) {
        result = fill_server(&options, call->store, settings, &protocols, &error);
    }
    if (result >= 0) {
        result = gb_server_check(&options, &error);
    }
    if (result >= 0 && !call->config->check && settings->store == NULL) {
        result = make_dir(dir, &error);
    }
    if (result >= 0 && !call->config->check) {
        result = gb_server_run(&options, &error);
    }
    drop_protocols(&protocols);
    gb_session_forget(&session);
    return result < 0 ? say_fault(result, &error) : GB_EXIT_OK;
}

const struct gb_verb gb_verbs_serve = {
    .name = "serve",
    .operands = "",
    .summary = "Serves a store to the network",
    .details =
        "Without options it serves a cache in a private directory on 127.0.0.1 and says how\n"
        "to talk to it. SIGTERM ends it when what has begun is done; SIGHUP opens its logs\n"
        "anew.",
    .options = serve_options,
    .settings_bytes = sizeof(struct serve_settings),
    .operands_most = 0,
    .opens_store = true,
    .configurable = true,
    .run = run_serve,
};
