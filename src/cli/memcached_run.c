/* Does what memcached's command line says: see memcached.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/memcached.h"
#include "server/loop.h"
#include "server/memcache.h"
#include "server/server.h"

#define ADDRESS_BYTES    160u
#define SCRATCH_PER_BYTE 16u /* of memory, for the scratch store */

struct work {
    struct gb_memcached_settings settings;
    struct gb_server_options server;
    struct gb_memcache *memcache;
    char addresses[GB_MEMCACHED_LISTEN_MAX][ADDRESS_BYTES];
    char scratch[4096];
    const char *dirs[1];
};

/* ---- the process --------------------------------------------------------------------------- */

static int explain_errno(struct goblin_error *error, const char *what)
{
    int fault = errno;
    (void)gb_say_explain(error, "%s: %s", what, strerror(fault));
    return fault == 0 ? -EIO : -fault;
}

static int become_user(const char *name, struct goblin_error *error)
{
    if (geteuid() != 0) {
        return GOBLIN_OK; /* only root can; memcached says nothing either */
    }
    if (name == NULL) {
        return gb_say_explain(error, "can't run as root without the -u switch");
    }
    const struct passwd *user = getpwnam(name);
    if (user == NULL) {
        return gb_say_explain(error, "-u %s: no such user", name);
    }
    if (user->pw_uid == 0) {
        return GOBLIN_OK;
    }
    if (initgroups(name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0) {
        return explain_errno(error, "cannot assume the identity of the user");
    }
    return GOBLIN_OK;
}

static int raise_limits(const struct gb_memcached_settings *settings, struct goblin_error *error)
{
    struct rlimit limit;
    if (settings->core_dumps) {
        limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
        if (setrlimit(RLIMIT_CORE, &limit) != 0) {
            return explain_errno(error, "-r: cannot raise the limit on core files");
        }
    }
    /* As memcached does: descriptors for all connections, and the store's. */
    rlim_t wanted = settings->connections + (rlim_t)1024;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        limit.rlim_max = limit.rlim_max < wanted ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            return explain_errno(error, "-c: cannot raise the limit on open files");
        }
    }
    return GOBLIN_OK;
}

/* The parent ends at once, as memcached's does. */
static int go_into_background(struct goblin_error *error)
{
    pid_t pid = fork();
    if (pid < 0) {
        return explain_errno(error, "-d");
    }
    if (pid > 0) {
        _exit(0);
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (setsid() < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0) {
        return explain_errno(error, "-d");
    }
    (void)close(null);
    return GOBLIN_OK;
}

/* ---- the store ----------------------------------------------------------------------------- */

static int make_scratch(struct work *work, struct goblin_error *error)
{
    const char *parent = getenv("TMPDIR");
    int n = snprintf(work->scratch, sizeof(work->scratch), "%s/goblin-memcached-XXXXXX",
                     parent != NULL ? parent : "/var/tmp");
    if (n >= (int)sizeof(work->scratch) || mkdtemp(work->scratch) == NULL) {
        int result = explain_errno(error, work->scratch);
        work->scratch[0] = '\0';
        return result;
    }
    return GOBLIN_OK;
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

static int fill_store(struct work *work, struct goblin_error *error)
{
    const struct gb_memcached_settings *settings = &work->settings;
    struct goblin_options *store = &work->server.store;
    int result = settings->store == NULL ? make_scratch(work, error) : GOBLIN_OK;
    work->dirs[0] = settings->store != NULL ? settings->store : work->scratch;
    store->dirs = work->dirs;
    store->dir_count = 1;
    store->create = true;
    store->mode = settings->keep_all ? GOBLIN_MODE_STORE : GOBLIN_MODE_CACHE;
    store->size_bytes =
        settings->store != NULL ? settings->store_bytes : settings->memory_bytes * SCRATCH_PER_BYTE;
    return result;
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

static void listen_at(struct work *work, const char *address)
{
    work->server.listen[work->server.listen_count++] = (struct gb_server_listen){
        .protocol = &gb_memcache_protocol, .options = work->memcache, .address = address};
}

static void fill_addresses(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    int port = settings->port < 0 ? 0 : settings->port;
    if (settings->unix_path != NULL) {
        (void)snprintf(work->addresses[0], ADDRESS_BYTES, "unix:%s", settings->unix_path);
        listen_at(work, work->addresses[0]);
        return;
    }
    if (settings->port == 0) {
        return; /* nowhere: the server says so */
    }
    for (unsigned i = 0; i < settings->listen_count; i++) {
        format_address(work->addresses[i], settings->listen[i], port);
        listen_at(work, work->addresses[i]);
    }
    if (settings->listen_count == 0) {
        format_address(work->addresses[0], "*", port);
        listen_at(work, work->addresses[0]);
    }
}

/* memcached's own way to tell a test which ports it was given. */
static void tell_ports(void *arg, struct gb_server *server)
{
    (void)arg;
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

/* ---- all together -------------------------------------------------------------------------- */

static void fill_server(struct work *work)
{
    const struct gb_memcached_settings *settings = &work->settings;
    struct gb_server_options *server = &work->server;
    server->memory_bytes = settings->memory_bytes;
    server->unix_mode = settings->unix_mode;
    server->backlog = (int)settings->backlog;
    server->pid_file = settings->pid_file;
    server->threads = settings->threads;
    server->quiet_start = true;
    server->on_ready = tell_ports;
    server->limits = (struct gb_limits_options){
        .connections = settings->connections,
        .turn_commands = settings->turn_commands,
        .idle_ms = settings->idle_ms,
    };
    server->log.level = settings->verbose == 0   ? GOBLIN_LOG_ERROR
                        : settings->verbose == 1 ? GOBLIN_LOG_WARN
                                                 : GOBLIN_LOG_INFO;
    fill_addresses(work);
}

static int prepare(struct work *work, struct goblin_error *error)
{
    const struct gb_memcached_settings *settings = &work->settings;
    const struct gb_memcache_options memcache = {
        .value_max_bytes = settings->item_bytes,
        .auth_file = settings->auth_file,
        .no_flush = settings->no_flush,
        .no_dump = settings->no_dump,
        .no_watch = settings->no_watch,
        .shutdown = settings->shutdown,
    };
    int result = raise_limits(settings, error);
    if (result >= 0) {
        result = gb_memcache_create(&work->memcache, &memcache, error);
    }
    if (result >= 0) {
        result = become_user(settings->user, error);
    }
    if (result >= 0 && settings->daemon) {
        result = go_into_background(error);
    }
    if (result >= 0 && settings->lock_memory && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        (void)gb_say(GB_EXIT_OK, "memcached: warning: -k: memory not locked: %s", strerror(errno));
    }
    return result < 0 ? result : fill_store(work, error);
}

static enum gb_exit run(struct work *work)
{
    struct goblin_error error = {{0}};
    int result = prepare(work, &error);
    if (result >= 0) {
        fill_server(work);
        result = gb_server_check(&work->server, &error);
    }
    if (result >= 0) {
        result = gb_server_run(&work->server, &error);
    }
    gb_memcache_destroy(work->memcache);
    remove_scratch(work);
    return result >= 0 ? GB_EXIT_OK
                       : gb_say(result == GOBLIN_EOPTION ? GB_EXIT_USAGE : GB_EXIT_FAULT,
                                "memcached: %s", error.text);
}

enum gb_exit gb_memcached_run(int argc, char **argv)
{
    struct work *work = calloc(1, sizeof(*work));
    struct goblin_error error = {{0}};
    if (work == NULL) {
        return gb_say(GB_EXIT_FAULT, "memcached: %s", strerror(ENOMEM));
    }
    enum gb_exit code = GB_EXIT_OK;
    if (gb_memcached_parse(&work->settings, argc, argv, &error) < 0) {
        code = gb_say(GB_EXIT_USAGE, "memcached: %s; -h lists what there is", error.text);
    } else if (work->settings.help) {
        gb_memcached_help(stdout);
    } else if (work->settings.version) {
        (void)printf("memcached 1.6.18-goblin-%s\n", GOBLIN_VERSION);
    } else {
        code = run(work);
    }
    gb_memcached_free(&work->settings);
    free(work);
    return code;
}
