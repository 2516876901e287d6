/* The command line of `goblin-bench net`. */
#include "bench/net.h"

#include "bench/explain.h"
#include "bench/flags.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

static const struct gb_net_case *find_case(const char *name, size_t len)
{
    size_t count;
    const struct gb_net_case *all = gb_net_cases(&count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(all[i].name) == len && memcmp(all[i].name, name, len) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

static int take_cases(void *target, const char *text, struct goblin_error *error)
{
    struct gb_net_options *options = target;
    options->case_count = 0;
    for (const char *at = text; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t len = strcspn(at, ",");
        const struct gb_net_case *found = find_case(at, len);
        if (!found) {
            gb_explain_set(error, "\"%.*s\" is no case; see goblin-bench net --list", (int)len, at);
            return -EINVAL;
        }
        for (size_t i = 0; i < options->case_count; i++) {
            if (options->cases[i] == found) {
                gb_explain_set(error, "%s is named twice", found->name);
                return -EINVAL;
            }
        }
        options->cases[options->case_count++] = found;
    }
    return 0;
}

static int take_peers(void *target, const char *text, struct goblin_error *error)
{
    struct gb_net_options *options = target;
    options->peers = text;
    for (const char *at = text; at; at = strchr(at, ',')) {
        char name[32];
        at += *at == ',';
        size_t len = strcspn(at, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, at);
        if (!gb_net_peer_find(name)) {
            gb_explain_set(error,
                           "\"%s\" is no peer: there are goblin, memcached, extstore, "
                           "nginx, varnish and null",
                           name);
            return -EINVAL;
        }
    }
    return 0;
}

#define AT(field) offsetof(struct gb_net_options, field)

static const struct gb_flag net_flags[] = {
    {.name = "dir",
     .kind = GB_FLAG_TEXT,
     .offset = AT(dir),
     .value = "SCRATCH",
     .help = "where servers store; a directory is made in it and removed afterwards"},
    {.name = "out",
     .kind = GB_FLAG_TEXT,
     .offset = AT(out),
     .value = "RESULTS",
     .help = "where net.md and the plots go"},
    {.name = "json",
     .kind = GB_FLAG_TEXT,
     .offset = AT(json),
     .value = "FILE",
     .help = "where the figures go as JSON"},
    {.name = "cases",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_cases,
     .help = "which ones; default all"},
    {.name = "list",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(list),
     .help = "say what cases there are, and end"},
    {.name = "peers",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_peers,
     .help = "only these of each case: goblin, memcached, extstore, nginx, varnish, null"},
    {.name = "scale",
     .kind = GB_FLAG_REAL,
     .offset = AT(scale),
     .least = 0.001,
     .most = 100,
     .value = "X",
     .help = "of objects and memory; default 1, which needs 10 GiB of disk"},
    {.name = "zipf",
     .kind = GB_FLAG_REAL,
     .offset = AT(zipf),
     .least = 0,
     .most = 3,
     .value = "X",
     .help = "exponent of popularity, 0 for all alike; default 0.9"},
    {.name = "rounds",
     .kind = GB_FLAG_COUNT,
     .offset = AT(rounds),
     .least = 1,
     .most = 100,
     .value = "N",
     .help = "in which the peers take turns; default 3"},
    {.name = "duration",
     .kind = GB_FLAG_REAL,
     .offset = AT(duration_s),
     .least = 0.05,
     .most = 3600,
     .value = "SECONDS",
     .help = "of a turn of one work, after a fifth as long that is not counted; default 5"},
    {.name = "threads",
     .kind = GB_FLAG_COUNT,
     .offset = AT(threads),
     .least = 1,
     .most = GB_NET_THREADS_MAX,
     .value = "N",
     .help = "of the load generator; default 1"},
    {.name = "server-threads",
     .kind = GB_FLAG_COUNT,
     .offset = AT(server_threads),
     .least = 1,
     .most = GB_NET_THREADS_MAX,
     .value = "N",
     .help = "of every server; default 1"},
    {.name = "connections",
     .kind = GB_FLAG_COUNT,
     .offset = AT(connections),
     .least = 1,
     .most = 10000,
     .value = "N",
     .help = "default 16"},
    {.name = "depth",
     .kind = GB_FLAG_COUNT,
     .offset = AT(depth),
     .least = 1,
     .most = GB_NET_DEPTH_MAX,
     .value = "N",
     .help = "requests in flight on each connection where they are pipelined; default 16"},
    {.name = "pin",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(pin),
     .help = "servers on the first --server-threads processors, the generator on the next ones"},
    {.name = "seed",
     .kind = GB_FLAG_COUNT,
     .offset = AT(seed),
     .value = "N",
     .help = "of objects, values and choices; default 1"},
    {.name = "goblin",
     .kind = GB_FLAG_TEXT,
     .offset = AT(programs[GB_NET_PROGRAM_goblin]),
     .value = "PATH",
     .help = "the program; default the one beside goblin-bench, else PATH's"},
    {.name = "memcached",
     .kind = GB_FLAG_TEXT,
     .offset = AT(programs[GB_NET_PROGRAM_memcached]),
     .value = "PATH",
     .help = "default PATH's, as with the next two"},
    {.name = "nginx",
     .kind = GB_FLAG_TEXT,
     .offset = AT(programs[GB_NET_PROGRAM_nginx]),
     .value = "PATH",
     .help = "the static file server, and what varnish fetches from"},
    {.name = "varnishd",
     .kind = GB_FLAG_TEXT,
     .offset = AT(programs[GB_NET_PROGRAM_varnishd]),
     .value = "PATH",
     .help = "the HTTP cache"},
    {.name = "keep",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(keep),
     .help = "leave the scratch directory behind"},
    {.name = NULL},
};

static void net_help(void)
{
    printf(
        "Usage: goblin-bench net --dir SCRATCH [flags]\n\n"
        "Starts servers on free ports of 127.0.0.1, gives each the same objects, and lets them\n"
        "take turns under the same load; then reads everything again and counts what is lost.\n"
        "Peers that are not installed are left out. In an open loop a request's time begins when\n"
        "it was due, however late it could be sent. Values are compared once their time has been\n"
        "taken. Servers are ended and their data removed, whatever happens.\n\n"
        "Flags:\n");
    gb_flags_help(net_flags, stdout);
    printf("\nExit codes: 0 done, 1 failed, or values were wrong or goblin lost some, 2 usage.\n");
}

static int net_check(const struct gb_net_options *options, struct goblin_error *error)
{
    cpu_set_t cores;
    if (options->list) {
        return 0;
    }
    if (!options->dir) {
        gb_explain_set(error, "--dir is missing: name a directory on the drive to measure");
        return -EINVAL;
    }
    if (options->threads > options->connections) {
        gb_explain_set(error, "--threads: each needs one of the --connections");
        return -EINVAL;
    }
    uint64_t wanted = options->threads + options->server_threads;
    if (options->pin && sched_getaffinity(0, sizeof(cores), &cores) == 0 &&
        (uint64_t)CPU_COUNT(&cores) < wanted) {
        gb_explain_set(error, "--pin: there are %d processors for %llu threads", CPU_COUNT(&cores),
                       (unsigned long long)wanted);
        return -EINVAL;
    }
    return 0;
}

int gb_net_options_parse(struct gb_net_options *options, int argc, char **argv,
                         struct goblin_error *error)
{
    *options = (struct gb_net_options){
        .programs = {[GB_NET_PROGRAM_memcached] = "memcached",
                     [GB_NET_PROGRAM_nginx] = "nginx",
                     [GB_NET_PROGRAM_varnishd] = "varnishd"},
        .scale = 1,
        .zipf = 0.9,
        .rounds = 3,
        .duration_s = 5,
        .threads = 1,
        .server_threads = 1,
        .connections = 16,
        .depth = 16,
        .seed = 1,
    };
    const struct gb_net_case *all = gb_net_cases(&options->case_count);
    for (size_t i = 0; i < options->case_count; i++) {
        options->cases[i] = &all[i];
    }
    gb_flags_command(options->command, sizeof(options->command), argc, argv);
    int rc = gb_flags_parse(net_flags, options, argc, argv, error);
    if (rc == 1) {
        net_help();
        return 1;
    }
    return rc < 0 ? rc : net_check(options, error);
}
