/* The cases over HTTP; `large` over memcached's protocol, too. */
#include "bench/net.h"

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    FILL_DEPTH = 1,
    STORAGE_TIMES = 2, /* of the corpus, on the drive */
    SMALL_BYTES = 64 << 10,
    SMALL_REQUESTS = 1000,
    LARGE_REQUESTS = 20,
};

static const double study_scale = 1.0 / 48; /* of objects and requests: 1.3 GiB */
static const double memory_share = 0.08;    /* of the corpus */
static const uint64_t cap_least = 48 << 20; /* or some peer would not even start */
static const uint64_t large_bytes = 512 << 20;

/* ---- static -------------------------------------------------------------------------------- */

/* Inside a group, what a process needs besides --memory must fit, too. */
static uint64_t memory_within(uint64_t cap_bytes)
{
    return cap_bytes - cap_bytes / 16 - 12 * GB_MIB;
}

/* The server that varnish fetches from, once; not measured and not in a group. */
static int start_origin(struct gb_net_bout *bout, struct gb_net_server *origin, const char *files,
                        struct goblin_error *error)
{
    const struct gb_net_plan plan = {.files = files, .threads = 1};
    struct gb_net_argv argv = {.count = 0};
    char program[PATH_MAX];
    const char *nginx = bout->net->options.programs[GB_NET_PROGRAM_nginx];
    origin->name = "origin";
    snprintf(origin->dir, sizeof(origin->dir), "%.*s/origin", PATH_MAX - 64, bout->dir);
    if (gb_net_server_find(nginx, program) < 0) {
        gb_explain_set(error, "varnish has nothing to fetch from: %s is not installed", nginx);
        return -ENOENT;
    }
    int rc = gb_scratch_make(origin->dir, error);
    rc = rc < 0 ? rc : gb_net_server_port(&origin->port, error);
    gb_net_argv_add(&argv, "%s", program);
    rc = rc < 0 ? rc : gb_net_peer_find("nginx")->command(&plan, origin, &argv, error);
    return rc < 0 ? rc : gb_net_server_start(origin, &argv, 0, error);
}

/* Puts the corpus where the contender serves it from. */
static int supply(struct gb_net_bout *bout, struct gb_net_contender *contender,
                  struct goblin_error *error)
{
    static const struct gb_net_work fetch = {
        .name = "fetch", .in_turn = true, .whole = true, .prepares = true};
    if (contender->peer->program == GB_NET_PROGRAM_goblin) {
        int rc = gb_net_bout_fill(bout, contender, FILL_DEPTH, error);
        return rc < 0 ? rc : gb_net_bout_check(bout, contender, error);
    }
    return gb_net_bout_turn(bout, contender, &fetch, error);
}

static int static_start(struct gb_net_bout *bout, struct gb_net_contender *contender,
                        const char *files, uint16_t origin_port, struct goblin_error *error)
{
    uint64_t corpus_bytes = bout->set.corpus.total_bytes;
    uint64_t cap = gb_max((uint64_t)(memory_share * (double)corpus_bytes), cap_least);
    contender->plan = (struct gb_net_plan){
        .protocol = GB_NET_HTTP,
        .memory_bytes = memory_within(cap),
        .store_bytes = gb_max(STORAGE_TIMES * corpus_bytes, 256 * GB_MIB),
        .value_bytes = bout->set.corpus.max_bytes,
        .cap_bytes = cap,
        .threads = (unsigned)bout->net->options.server_threads,
        .files = files,
        .origin_port = origin_port,
    };
    int rc = gb_net_bout_start(bout, contender, error);
    return rc < 0 ? rc : supply(bout, contender, error);
}

/* The origin's reading brings files into the page cache on nobody's account; they leave it before
 * nginx starts. */
static int static_start_all(struct gb_net_bout *bout, struct gb_net_server *origin,
                            const char *files, struct goblin_error *error)
{
    struct gb_net_contender *varnish = gb_net_bout_find(bout, "varnish");
    int rc = gb_net_set_write(&bout->set, files, error);
    if (rc == 0 && varnish) {
        rc = start_origin(bout, origin, files, error);
        rc = rc < 0 ? rc : static_start(bout, varnish, files, origin->port, error);
        rc = rc < 0 ? rc : gb_net_set_forget(&bout->set, files, error);
    }
    for (size_t i = 0; i < bout->count && rc == 0; i++) {
        if (&bout->contenders[i] != varnish) {
            rc = static_start(bout, &bout->contenders[i], files, 0, error);
        }
    }
    return rc;
}

int gb_net_case_static(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "nginx", "varnish", NULL};
    static const struct gb_net_work works[] = {
        {.name = "get"},
        {.name = "get, one connection", .connections = 1},
    };
    struct gb_net_server origin = {.name = "origin"};
    struct gb_net_bout bout;
    char files[PATH_MAX];
    int rc = gb_net_bout_open(&bout, net, "static", peers, error);
    rc = rc < 0 ? rc
                : gb_net_set_study(&bout.set, net->options.scale * study_scale, net->options.zipf,
                                   net->options.seed, error);
    snprintf(files, sizeof(files), "%.*s/files", PATH_MAX - 64, bout.dir);
    rc = rc < 0 ? rc : gb_scratch_make(files, error);
    rc = rc < 0 ? rc : static_start_all(&bout, &origin, files, error);
    for (size_t i = 0; i < bout.count && rc == 0; i++) {
        static const struct gb_net_work warm = {.name = "warm", .prepares = true};
        rc = gb_net_bout_turn(&bout, &bout.contenders[i], &warm, error);
    }
    rc = rc < 0 ? rc : gb_net_bout_rounds(&bout, works, sizeof(works) / sizeof(works[0]), error);
    gb_net_server_stop(&origin);
    gb_net_bout_close(&bout);
    return rc;
}

/* ---- large --------------------------------------------------------------------------------- */

static int large_rounds(struct gb_net_bout *bout, const struct gb_net_work works[2],
                        struct goblin_error *error)
{
    int rc = 0;
    for (uint64_t round = 0; round < bout->net->options.rounds; round++) {
        for (uint32_t object = 0; object < 2 && rc == 0; object++) {
            bout->set.schedule.objects[0] = object;
            for (size_t i = 0; i < bout->count && rc == 0; i++) {
                rc = gb_net_bout_turn(bout, &bout->contenders[i], &works[object], error);
            }
        }
    }
    return rc;
}

/* Two objects, of which the schedule names one. */
static int large_set(struct gb_net_bout *bout, struct goblin_error *error)
{
    const struct gb_net_options *options = &bout->net->options;
    const struct gb_net_set_options set = {
        .count = 2,
        .least_bytes = SMALL_BYTES,
        .most_bytes = SMALL_BYTES,
        .requests = 1,
        .seed = options->seed,
    };
    int rc = gb_net_set_init(&bout->set, &set, error);
    if (rc == 0) {
        uint64_t bytes = (uint64_t)((double)large_bytes * options->scale);
        bout->set.corpus.sizes[1] = gb_max(gb_min(bytes, large_bytes), GB_MIB);
        bout->set.corpus.max_bytes = bout->set.corpus.sizes[1];
        bout->set.corpus.total_bytes = SMALL_BYTES + bout->set.corpus.sizes[1];
    }
    return rc;
}

static int large_bout(struct gb_net *net, const char *const *peers, enum gb_net_protocol protocol,
                      const struct gb_net_work works[2], struct goblin_error *error)
{
    struct gb_net_bout bout;
    char files[PATH_MAX];
    int rc = gb_net_bout_open(&bout, net, "large", peers, error);
    rc = rc < 0 ? rc : large_set(&bout, error);
    snprintf(files, sizeof(files), "%.*s/files", PATH_MAX - 64, bout.dir);
    rc = rc < 0 ? rc : gb_scratch_make(files, error);
    rc = rc < 0 ? rc : gb_net_set_write(&bout.set, files, error);
    if (rc == 0) {
        const struct gb_net_plan plan = {
            .protocol = protocol,
            .memory_bytes = 128 * GB_MIB,
            .store_bytes = gb_max(4 * bout.set.corpus.total_bytes, 256 * GB_MIB),
            .value_bytes = bout.set.corpus.max_bytes,
            .threads = (unsigned)net->options.server_threads,
            .files = files,
        };
        rc = gb_net_bout_start_all(&bout, &plan, error);
    }
    for (size_t i = 0; i < bout.count && rc == 0; i++) {
        rc = supply(&bout, &bout.contenders[i], error);
    }
    rc = rc < 0 ? rc : large_rounds(&bout, works, error);
    gb_net_bout_close(&bout);
    return rc;
}

/* Over memcached's protocol goblin is only compared with itself: memcached takes such values only
 * with a memory that holds several. */
int gb_net_case_large(struct gb_net *net, struct goblin_error *error)
{
    static const char *const servers[] = {"goblin", "nginx", NULL};
    static const char *const ours[] = {"goblin", NULL};
    static const struct gb_net_work http[] = {
        {.name = "64 KiB", .connections = 1, .requests = SMALL_REQUESTS},
        {.name = "512 MiB", .connections = 1, .requests = LARGE_REQUESTS},
    };
    static const struct gb_net_work memcache[] = {
        {.name = "64 KiB, memcached's", .connections = 1, .requests = SMALL_REQUESTS},
        {.name = "512 MiB, memcached's", .connections = 1, .requests = LARGE_REQUESTS},
    };
    int rc = 0;
    if (gb_net_wants(net, "goblin")) {
        rc = large_bout(net, ours, GB_NET_MEMCACHE, memcache, error);
    }
    return rc < 0 ? rc : large_bout(net, servers, GB_NET_HTTP, http, error);
}
