/* The case of one client behind a wire of 937 Mbit/s: what a server leaves of it. */
#include "bench/net.h"

#include "base/bits.h"

#include <stdio.h>

static const double study_scale = 1.0 / 48;
static const double memory_share = 0.08;
static const uint64_t rate_bps = 937000000;

enum { MEMORY_LEAST = 16 << 20, STORAGE_TIMES = 2 };

static int start(struct gb_net_bout *bout, struct gb_net_contender *contender,
                 const struct gb_net_null *null, struct goblin_error *error)
{
    uint64_t bytes = bout->set.corpus.total_bytes;
    contender->plan = (struct gb_net_plan){
        .protocol = GB_NET_HTTP,
        .memory_bytes = gb_max((uint64_t)(memory_share * (double)bytes), MEMORY_LEAST),
        .store_bytes = gb_max(STORAGE_TIMES * bytes, 256 * GB_MIB),
        .value_bytes = bout->set.corpus.max_bytes,
        .threads = (unsigned)bout->net->options.server_threads,
        .null = null,
    };
    return gb_net_bout_start(bout, contender, error);
}

/* The null server comes last, with the headers of the one that is measured. */
static int start_all(struct gb_net_bout *bout, struct gb_net_null *null, struct goblin_error *error)
{
    struct gb_net_contender *ours = gb_net_bout_find(bout, "goblin");
    struct gb_net_contender *limit = gb_net_bout_find(bout, "null");
    int rc = 0;
    if (ours) {
        rc = start(bout, ours, NULL, error);
        rc = rc < 0 ? rc : gb_net_bout_fill(bout, ours, 1, error);
        rc = rc < 0 ? rc : gb_net_bout_check(bout, ours, error);
    }
    if (limit && rc == 0) {
        rc = gb_net_null_init(null, &bout->set, ours ? &ours->server : NULL, error);
        rc = rc < 0 ? rc : start(bout, limit, null, error);
    }
    return rc;
}

static int measure(struct gb_net_bout *bout, struct goblin_error *error)
{
    static const struct gb_net_work warm = {.name = "warm", .connections = 1, .prepares = true};
    static const struct gb_net_work get = {.name = "get", .connections = 1};
    int rc = 0;
    for (size_t i = 0; i < bout->count && rc == 0; i++) {
        rc = gb_net_bout_turn(bout, &bout->contenders[i], &warm, error);
    }
    return rc < 0 ? rc : gb_net_bout_rounds(bout, &get, 1, error);
}

int gb_net_case_link(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "null", NULL};
    struct gb_net_wire wire;
    struct gb_net_null null;
    struct gb_net_bout bout;
    if (gb_net_wire_open(&wire, rate_bps, error) < 0) {
        gb_net_leave_out(net, "link", error->text);
        return 0;
    }
    int rc = gb_net_bout_open(&bout, net, "link", peers, error);
    bout.wire = &wire;
    rc = rc < 0 ? rc
                : gb_net_set_study(&bout.set, net->options.scale * study_scale, net->options.zipf,
                                   net->options.seed, error);
    rc = rc < 0 ? rc : start_all(&bout, &null, error);
    rc = rc < 0 ? rc : measure(&bout, error);
    gb_net_bout_close(&bout);
    gb_net_wire_close(&wire);
    return rc;
}
