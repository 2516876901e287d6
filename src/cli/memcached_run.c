/* Does what memcached's command line says: see memcached.h. */
#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/daemon.h"
#include "cli/memcached.h"
#include "cli/say.h"
#include "cli/testclock.h"
#include "server/loop.h"
#include "server/memcache.h"
#include "server/server.h"

#define ADDRESS_BYTES    160u
#define FILES_BESIDE     1024u /* the store's, and logs */
#define SCRATCH_PER_BYTE 16u   /* of memory, for the scratch store */

struct work {
    struct gb_memcached_settings settings;
    struct gb_server_options server;
    struct gb_memcache *memcache;
    char addresses[GB_MEMCACHED_LISTEN_MAX][ADDRESS_BYTES];
    char scratch[4096];
    const char *dirs[GB_MEMCACHED_STORES_MAX];
    struct gb_daemon_user user;
    int ready_fd; /* who waits for the daemon; -1: nobody */
    bool wrote_pid;
    _Atomic int64_t clock_offset_ms;
};

/* ---- the store ----------------------------------------------------------------------------- */

static int say_errno(const char *what)
{
    (void)gb_say(GB_EXIT_FAULT, "memcached: %s: %s", what, strerror(errno));
    return EX_OSERR;
}

static int make_scratch(struct work *work)
{
    const char *parent = getenv("TMPDIR");
    int n = snprintf(work->scratch, sizeof(work->scratch), "%s/goblin-memcached-XXXXXX",
                     parent != NULL ? parent : "/var/tmp");
    if (n >= (int)sizeof(work->scratch) || mkdtemp(work->scratch) == NULL) {
        int code = say_errno(work->scratch);
        work->scratch[0] = '\0';
        return code;
    }
    (void)gb_say(GB_EXIT_OK, "memcached: no ext_path: values lie in %s until the end",
                 work->scratch);
    return GB_DAEMON_CONTINUE;
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void remove_scratch(const struct work *work)
{
    if (work->scratch[0] != '\0' &&
        nftw(work->scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        (void)gb_say(GB_EXIT_OK, "memcached: %s: not removed", work->scratch);
    }
}

static void fill_store(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    struct goblin_options *store = &work->server.store;
    for (size_t i = 0; i < settings->store_count; i++) {
        work->dirs[i] = settings->stores[i];
    }
    bool is_scratch = settings->store_count == 0;
    if (is_scratch) {
        work->dirs[0] = work->scratch;
    }
    store->dirs = work->dirs;
    store->dir_count = is_scratch ? 1 : settings->store_count;
    store->create = true;
    store->mode = settings->keep_all ? GOBLIN_MODE_STORE : GOBLIN_MODE_CACHE;
    store->size_bytes =
        is_scratch ? settings->memory_bytes * SCRATCH_PER_BYTE : settings->store_bytes;
    if (settings->test_clock) {
        store->clock = gb_testclock_read;
        store->clock_arg = &work->clock_offset_ms;
    }
}

/* ---- addresses ----------------------------------------------------------------------------- */

static bool has_port(const char *item)
{
    const char *colon = strrchr(item, ':');
    bool bracketed = item[0] == '[';
    return colon != NULL && (bracketed ? colon[-1] == ']' : strchr(item, ':') == colon);
}

/* "HOST", "HOST:PORT", "::1", "[::1]:PORT" as the server wants it. */
static void format_address(char out[ADDRESS_BYTES], const char *item, int port)
{
    bool bare_ipv6 = item[0] != '[' && strchr(item, ':') != strrchr(item, ':');
    bool all = strcmp(item, "*") == 0 || strcmp(item, "INADDR_ANY") == 0;
    if (has_port(item)) {
        (void)snprintf(out, ADDRESS_BYTES, "%s", item);
    } else if (bare_ipv6) {
        (void)snprintf(out, ADDRESS_BYTES, "[%s]:%d", item, port);
    } else {
        (void)snprintf(out, ADDRESS_BYTES, "%s:%d", all ? "" : item, port);
    }
}

static void listen_at(struct work *work, const char *address, bool tls)
{
    work->server.listen[work->server.listen_count++] =
        (struct gb_server_listen){.protocol = &gb_memcache_protocol,
                                  .options = work->memcache,
                                  .address = address,
                                  .tls = tls};
}

static void fill_addresses(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    int port = settings->port < 0 ? 0 : settings->port;
    if (settings->unix_path != NULL) {
        (void)snprintf(work->addresses[0], ADDRESS_BYTES, "unix:%s", settings->unix_path);
        listen_at(work, work->addresses[0], false);
        return;
    }
    if (settings->port == 0) {
        return; /* nowhere: the server says so */
    }
    for (unsigned i = 0; i < settings->listen_count; i++) {
        format_address(work->addresses[i], settings->listen[i], port);
        listen_at(work, work->addresses[i], settings->tls && !settings->listen_plain[i]);
    }
    if (settings->listen_count == 0) {
        format_address(work->addresses[0], "*", port);
        listen_at(work, work->addresses[0], settings->tls);
    }
}

/* memcached's own way to tell a test which ports it was given. */
static void tell_ports(struct gb_server *server)
{
    const char *name = getenv("MEMCACHED_PORT_FILENAME");
    char temporary[4096];
    if (name == NULL ||
        snprintf(temporary, sizeof(temporary), "%s.lck", name) >= (int)sizeof(temporary)) {
        return;
    }
    FILE *file = fopen(temporary, "ae");
    if (file == NULL) {
        (void)gb_say(GB_EXIT_OK, "memcached: %s: %s", temporary, strerror(errno));
        return;
    }
    for (size_t i = 0; i < gb_server_listener_count(server); i++) {
        const struct gb_listener *listener = gb_server_listener(server, i);
        if (!listener->is_unix) {
            (void)fprintf(file, "TCP %s: %s\n", listener->address[0] == '[' ? "INET6" : "INET",
                          strrchr(listener->address, ':') + 1);
        }
    }
    if (fclose(file) != 0 || rename(temporary, name) != 0) {
        (void)gb_say(GB_EXIT_OK, "memcached: %s: %s", name, strerror(errno));
    }
}

/* As with memcached, a pid file that cannot be written is no reason not to serve. */
static void write_pid(struct work *work)
{
    const char *name = work->settings.pid_file;
    FILE *file = name == NULL ? NULL : fopen(name, "we");
    bool good = file != NULL && fprintf(file, "%ld\n", (long)getpid()) > 0;
    good = file != NULL && fclose(file) == 0 && good;
    if (name != NULL && !good) {
        (void)say_errno(name);
    }
    work->wrote_pid = good;
}

static void become_ready(void *arg, struct gb_server *server)
{
    struct work *work = arg;
    write_pid(work);
    tell_ports(server);
    if (work->ready_fd >= 0) {
        gb_daemon_ready(work->ready_fd, work->settings.verbose == 0);
        work->ready_fd = -1;
    }
}

/* ---- all together -------------------------------------------------------------------------- */

static void fill_server(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    struct gb_server_options *server = &work->server;
    server->memory_bytes = settings->memory_bytes;
    server->unix_mode = settings->unix_mode;
    server->backlog = (int)settings->backlog;
    server->threads = settings->threads;
    server->quiet_start = true;
    server->on_ready = become_ready;
    server->on_ready_arg = work;
    server->limits = (struct gb_limits_options){
        .connections = settings->connections,
        .turn_commands = settings->turn_commands,
        .idle_ms = settings->idle_ms,
    };
    server->log.level = settings->verbose == 0   ? GOBLIN_LOG_ERROR
                        : settings->verbose == 1 ? GOBLIN_LOG_WARN
                                                 : GOBLIN_LOG_INFO;
    fill_store(work);
    fill_addresses(work);
}

/* In memcached's order, but that the background begins before memory is locked: a lock does not
 * pass to a child. */
static int become(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    int code = settings->core_dumps ? gb_daemon_allow_core() : GB_DAEMON_CONTINUE;
    if (code == GB_DAEMON_CONTINUE) {
        code = gb_daemon_raise_files(settings->connections + FILES_BESIDE);
    }
    if (code == GB_DAEMON_CONTINUE) {
        code = gb_daemon_find_user(&work->user, settings->user);
    }
    for (size_t i = 0; code == GB_DAEMON_CONTINUE && i < settings->store_count; i++) {
        code = gb_daemon_make_dir(&work->user, settings->stores[i]);
    }
    if (code == GB_DAEMON_CONTINUE && settings->daemon) {
        code = gb_daemon_start(&work->ready_fd);
    }
    if (code == GB_DAEMON_CONTINUE && settings->lock_memory) {
        gb_daemon_lock_memory();
    }
    if (code == GB_DAEMON_CONTINUE) {
        code = gb_daemon_become(&work->user);
    }
    return code == GB_DAEMON_CONTINUE && settings->store_count == 0 ? make_scratch(work) : code;
}

static int say_fault(int code, const struct goblin_error *error)
{
    (void)gb_say(GB_EXIT_FAULT, "memcached: %s", error->text);
    return code;
}

static int run(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    const struct gb_memcache_options memcache = {
        .value_max_bytes = settings->item_bytes,
        .auth_file = settings->auth_file,
        .tls = settings->tls_options,
        .no_flush = settings->no_flush,
        .no_dump = settings->no_dump,
        .no_watch = settings->no_watch,
        .shutdown = settings->shutdown,
        .clock_offset_ms = settings->test_clock ? &work->clock_offset_ms : NULL,
    };
    struct goblin_error error = {{0}};
    if (gb_memcache_create(&work->memcache, &memcache, &error) < 0) {
        return say_fault(settings->tls ? EX_USAGE : EXIT_FAILURE, &error);
    }
    fill_server(work);
    int code = 0;
    if (gb_server_check(&work->server, &error) < 0) {
        code = say_fault(EX_USAGE, &error);
    } else if (gb_server_run(&work->server, &error) < 0) {
        code = say_fault(EX_OSERR, &error);
    }
    gb_memcache_destroy(work->memcache);
    if (work->wrote_pid && unlink(settings->pid_file) != 0) {
        (void)say_errno(settings->pid_file);
    }
    return code;
}

int gb_memcached_run(int argc, char **argv)
{
    struct work *work = calloc(1, sizeof(*work));
    struct goblin_error error = {{0}};
    if (work == NULL) {
        return say_errno("start");
    }
    work->ready_fd = -1;
    int code = 0;
    if (gb_memcached_parse(&work->settings, argc, argv, &error) < 0) {
        code = work->settings.refusal;
        (void)gb_say(GB_EXIT_USAGE, "memcached: %s; -h lists what there is", error.text);
    } else if (work->settings.help) {
        gb_memcached_help(stdout);
    } else if (work->settings.version || work->settings.license) {
        (void)puts("memcached " GB_MC_VERSION_TEXT);
        (void)fputs(work->settings.license ? "Apache License, Version 2.0\n" : "", stdout);
    } else {
        code = become(work);
        if (code == GB_DAEMON_CONTINUE) {
            code = run(work);
        }
        remove_scratch(work);
    }
    gb_memcached_free(&work->settings);
    free(work);
    return code;
}
