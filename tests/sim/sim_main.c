/* goblin-sim: simulated lives of a store, one per seed.
 *
 *   goblin-sim --seed S              one, traced step by step
 *   goblin-sim --seeds N [--first S] N of them; S is drawn and printed if not given
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sim/simrun.h"

static const struct option long_options[] = {
    {"seed", required_argument, NULL, 's'},
    {"seeds", required_argument, NULL, 'n'},
    {"first", required_argument, NULL, 'f'},
    {NULL, 0, NULL, 0},
};

static int usage(void)
{
    (void)fputs("usage: goblin-sim --seed S | --seeds N [--first S]\n", stderr);
    return 2;
}

static bool parse(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0';
}

static void add(struct simrun_result *sum, const struct simrun_result *one)
{
    sum->operations += one->operations;
    sum->crashes += one->crashes;
    sum->power_cuts += one->power_cuts;
    sum->clean_closes += one->clean_closes;
    sum->reclaimed += one->reclaimed;
    sum->evicted += one->evicted;
    sum->refused += one->refused;
    sum->kept_in_ram += one->kept_in_ram;
    sum->written_later += one->written_later;
    sum->headers += one->headers;
    sum->segments_lost += one->segments_lost;
    sum->rescued += one->rescued;
    sum->returned += one->returned;
    sum->times_full += one->times_full;
}

static int run_many(uint64_t first, uint64_t count)
{
    struct simrun_result sum = {0};
    uint64_t failures = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct simrun_result one;
        if (!simrun(first + i, false, &one)) {
            (void)printf("seed %" PRIu64 ": %s\n", first + i, one.why);
            (void)fflush(stdout);
            failures++;
        }
        add(&sum, &one);
    }
    (void)printf(
        "%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " operations (%" PRIu64
        " refused for lack of room), %u ends of life (%u clean), %u power cuts, %" PRIu64
        " segments reclaimed, %" PRIu64 " objects evicted, %" PRIu64
        " values kept in RAM alone and %" PRIu64
        " written later, %u headers damaged and %u segments lost by it, %" PRIu64
        " streams rescued, %" PRIu64
        " retired drives used again, filled by others %u times; %" PRIu64 " seeds failed\n",
        count, first, sum.operations, sum.refused, sum.crashes, sum.clean_closes, sum.power_cuts,
        sum.reclaimed, sum.evicted, sum.kept_in_ram, sum.written_later, sum.headers,
        sum.segments_lost, sum.rescued, sum.returned, sum.times_full, failures);
    return failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0;
    uint64_t count = 0;
    uint64_t first = 0;
    bool one = false;
    bool given = false;
    for (int option = 0; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        bool good = false;
        if (option == 's') {
            good = one = parse(optarg, &seed);
        } else if (option == 'n') {
            good = parse(optarg, &count);
        } else if (option == 'f') {
            good = given = parse(optarg, &first);
        }
        if (!good) {
            return usage();
        }
    }
    if (optind != argc || one == (count > 0)) {
        return usage();
    }
    if (one) {
        struct simrun_result result;
        bool good = simrun(seed, true, &result);
        (void)printf("seed %" PRIu64 ": %s\n", seed, good ? "all promises kept" : result.why);
        return good ? 0 : 1;
    }
    if (!given) {
        uint32_t drawn = 0;
        (void)getrandom(&drawn, sizeof(drawn), 0);
        first = drawn;
    }
    return run_many(first, count);
}
