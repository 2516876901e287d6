/* The cases over memcached's protocol, and the table of all. */
#include "bench/net.h"

#include "base/bits.h"
#include "bench/explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    SMALL_BYTES = 1024,
    SMALL_OBJECTS = 100 * 1000,
    RAM_OBJECTS = 500 * 1000,
    MANY_KEYS = 16,
    FILL_DEPTH = 4,
    BURST_OBJECTS = 40 * 1000,
    BURST_BYTES = 16 << 10,
    LEAST_MIXED_BYTES = 256 << 10,
    MOST_MIXED_BYTES = 8 << 20,
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t scaled(const struct gb_net *net, uint64_t value, uint64_t least)
{
    return gb_max((uint64_t)((double)value * net->options.scale), least);
}

static unsigned depth_of(const struct gb_net *net)
{
    return (unsigned)net->options.depth;
}

static int fill_all(struct gb_net_bout *bout, struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < bout->count && rc == 0; i++) {
        rc = gb_net_bout_fill(bout, &bout->contenders[i], FILL_DEPTH, error);
    }
    return rc;
}

static int check_all(struct gb_net_bout *bout, struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < bout->count && rc == 0; i++) {
        rc = gb_net_bout_check(bout, &bout->contenders[i], error);
    }
    return rc;
}

static int small_set(struct gb_net_bout *bout, uint64_t objects, struct goblin_error *error)
{
    const struct gb_net_set_options set = {
        .count = scaled(bout->net, objects, 1000),
        .least_bytes = SMALL_BYTES,
        .most_bytes = SMALL_BYTES,
        .zipf = bout->net->options.zipf,
        .seed = bout->net->options.seed,
    };
    return gb_net_set_init(&bout->set, &set, error);
}

/* Several times what the objects take, so that nothing has to leave. */
static struct gb_net_plan small_plan(const struct gb_net_bout *bout)
{
    uint64_t bytes = bout->set.corpus.total_bytes;
    return (struct gb_net_plan){
        .memory_bytes = gb_max(4 * bytes, 64 * GB_MIB),
        .store_bytes = gb_max(8 * bytes, 512 * GB_MIB),
        .value_bytes = SMALL_BYTES,
        .threads = (unsigned)bout->net->options.server_threads,
    };
}

/* ---- small --------------------------------------------------------------------------------- */

/* Half of what the slowest does unpipelined: a rate that everybody can keep. */
static uint64_t common_rate(struct gb_net_bout *bout)
{
    double least = 0;
    for (size_t i = 0; i < bout->count; i++) {
        const struct gb_net_row *row =
            gb_net_row(bout->net, bout->name, "get", bout->contenders[i].peer->name);
        double ops = row ? gb_net_row_ops(row) : 0;
        least = i == 0 || ops < least ? ops : least;
    }
    return gb_max((uint64_t)(least / 2), 1);
}

static int small_works(struct gb_net_bout *bout, struct goblin_error *error)
{
    const unsigned depth = depth_of(bout->net);
    const struct gb_net_work closed[] = {
        {.name = "get"},
        {.name = "set", .set_share = 1},
        {.name = "get, pipelined", .depth = depth},
        {.name = "set, pipelined", .depth = depth, .set_share = 1},
        {.name = "get of 16 keys", .keys = MANY_KEYS},
    };
    int rc = gb_net_bout_rounds(bout, closed, COUNT_OF(closed), error);
    const struct gb_net_work open = {.name = "get, open loop", .rate_per_s = common_rate(bout)};
    return rc < 0 ? rc : gb_net_bout_rounds(bout, &open, 1, error);
}

static int case_small(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "memcached", NULL};
    struct gb_net_bout bout;
    int rc = gb_net_bout_open(&bout, net, "small", peers, error);
    rc = rc < 0 ? rc : small_set(&bout, SMALL_OBJECTS, error);
    if (rc == 0) {
        const struct gb_net_plan plan = small_plan(&bout);
        rc = gb_net_bout_start_all(&bout, &plan, error);
    }
    rc = rc < 0 ? rc : fill_all(&bout, error);
    rc = rc < 0 ? rc : small_works(&bout, error);
    rc = rc < 0 ? rc : check_all(&bout, error);
    gb_net_bout_close(&bout);
    return rc;
}

/* ---- ram ----------------------------------------------------------------------------------- */

static int ram_of(struct gb_net_bout *bout, struct gb_net_contender *contender,
                  struct goblin_error *error)
{
    struct gb_net_usage before;
    struct gb_net_usage after;
    int rc = gb_net_server_usage(&contender->server, &before);
    rc = rc < 0 ? rc : gb_net_bout_fill(bout, contender, FILL_DEPTH, error);
    rc = rc < 0 ? rc : gb_net_bout_check(bout, contender, error);
    rc = rc < 0 ? rc : gb_net_server_usage(&contender->server, &after);
    struct gb_net_row *row = gb_net_row(bout->net, bout->name, "check", contender->peer->name);
    if (rc == 0 && row && row->tally.hits > 0) {
        double grown = (double)after.rss_bytes - (double)before.rss_bytes;
        row->per_object_bytes = grown / (double)row->tally.hits;
    }
    return rc;
}

static int case_ram(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "memcached", NULL};
    struct gb_net_bout bout;
    int rc = gb_net_bout_open(&bout, net, "ram", peers, error);
    rc = rc < 0 ? rc : small_set(&bout, RAM_OBJECTS, error);
    if (rc == 0) {
        const struct gb_net_plan plan = small_plan(&bout);
        rc = gb_net_bout_start_all(&bout, &plan, error);
    }
    for (size_t i = 0; i < bout.count && rc == 0; i++) {
        rc = ram_of(&bout, &bout.contenders[i], error);
    }
    gb_net_bout_close(&bout);
    return rc;
}

/* ---- mixed and extstore -------------------------------------------------------------------- */

static int mixed_set(struct gb_net_bout *bout, uint64_t total_bytes, struct goblin_error *error)
{
    const struct gb_net_set_options set = {
        .total_bytes = total_bytes,
        .least_bytes = LEAST_MIXED_BYTES,
        .most_bytes = MOST_MIXED_BYTES,
        .zipf = bout->net->options.zipf,
        .seed = bout->net->options.seed,
    };
    return gb_net_set_init(&bout->set, &set, error);
}

static int mixed_rounds(struct gb_net_bout *bout, struct goblin_error *error)
{
    static const struct gb_net_work works[] = {
        {.name = "get"},
        {.name = "get 9, set 1", .set_share = 0.1},
        /* A peer that has shed values answers a miss for nothing, and has only what it likes best;
         * its users bring them back. */
        {.name = "get, misses set", .refills = true},
    };
    return gb_net_bout_rounds(bout, works, COUNT_OF(works), error);
}

/* memcached has everything in RAM; goblin has an eighth of that RAM, and the drive. */
static int case_mixed(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "memcached", NULL};
    const uint64_t memory = scaled(net, 2 * GB_GIB, 256 * GB_MIB);
    struct gb_net_bout bout;
    int rc = gb_net_bout_open(&bout, net, "mixed", peers, error);
    rc = rc < 0 ? rc : mixed_set(&bout, memory / 2, error);
    for (size_t i = 0; i < bout.count && rc == 0; i++) {
        struct gb_net_contender *contender = &bout.contenders[i];
        bool is_ours = contender->peer->program == GB_NET_PROGRAM_goblin;
        contender->plan = (struct gb_net_plan){
            .memory_bytes = is_ours ? memory / 8 : memory,
            .store_bytes = gb_max(2 * memory, GB_GIB),
            .value_bytes = MOST_MIXED_BYTES,
            .threads = (unsigned)net->options.server_threads,
        };
        rc = gb_net_bout_start(&bout, contender, error);
    }
    rc = rc < 0 ? rc : fill_all(&bout, error);
    rc = rc < 0 ? rc : check_all(&bout, error);
    rc = rc < 0 ? rc : mixed_rounds(&bout, error);
    gb_net_bout_close(&bout);
    return rc;
}

static int case_extstore(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "extstore", NULL};
    const uint64_t times = 6;
    const uint64_t memory = scaled(net, 256 * GB_MIB, 64 * GB_MIB);
    const struct gb_net_plan plan = {
        .memory_bytes = memory,
        .store_bytes = 3 * times * memory,
        .value_bytes = MOST_MIXED_BYTES,
        .threads = (unsigned)net->options.server_threads,
    };
    struct gb_net_bout bout;
    int rc = gb_net_bout_open(&bout, net, "extstore", peers, error);
    rc = rc < 0 ? rc : mixed_set(&bout, times * memory, error);
    rc = rc < 0 ? rc : gb_net_bout_start_all(&bout, &plan, error);
    rc = rc < 0 ? rc : fill_all(&bout, error);
    rc = rc < 0 ? rc : check_all(&bout, error);
    rc = rc < 0 ? rc : mixed_rounds(&bout, error);
    gb_net_bout_close(&bout);
    return rc;
}

/* ---- burst --------------------------------------------------------------------------------- */

static int case_burst(struct gb_net *net, struct goblin_error *error)
{
    static const char *const peers[] = {"goblin", "extstore", NULL};
    const struct gb_net_plan plan = {
        .memory_bytes = 64 * GB_MIB,
        .store_bytes = GB_GIB,
        .value_bytes = BURST_BYTES,
        .threads = (unsigned)net->options.server_threads,
    };
    const struct gb_net_set_options set = {
        .count = scaled(net, BURST_OBJECTS, 100),
        .least_bytes = BURST_BYTES,
        .most_bytes = BURST_BYTES,
        .seed = net->options.seed,
    };
    struct gb_net_bout bout;
    int rc = gb_net_bout_open(&bout, net, "burst", peers, error);
    rc = rc < 0 ? rc : gb_net_set_init(&bout.set, &set, error);
    for (size_t i = 0; i < bout.count && rc == 0; i++) {
        struct gb_net_contender *contender = &bout.contenders[i];
        contender->plan = plan;
        rc = gb_net_bout_start(&bout, contender, error);
        rc = rc < 0 ? rc : gb_net_bout_fill(&bout, contender, depth_of(net), error);
        rc = rc < 0 ? rc : gb_net_bout_check(&bout, contender, error);
    }
    gb_net_bout_close(&bout);
    return rc;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct gb_net_case cases[] = {
    {"small", "values of 1 KiB in RAM: get, set, pipelined or not, open loop", case_small},
    {"ram", "what one object of 1 KiB takes of RAM", case_ram},
    {"mixed", "256 KiB to 8 MiB that fit memcached's RAM; goblin has an eighth of it", case_mixed},
    {"extstore", "the same values, six times the RAM, beside memcached's extstore", case_extstore},
    {"burst", "40,000 values of 16 KiB at full speed, then count what is there", case_burst},
    {"static", "the study's corpus over HTTP with RAM for 8 %, beside nginx and varnish",
     gb_net_case_static},
    {"large", "the first byte of 512 MiB against that of 64 KiB", gb_net_case_large},
    {"link", "one client behind 937 Mbit/s, beside a server that answers from RAM alone",
     gb_net_case_link},
};

const struct gb_net_case *gb_net_cases(size_t *count)
{
    *count = COUNT_OF(cases);
    return cases;
}
