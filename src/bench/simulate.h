/*
 * goblin-bench simulate reads.csv --rate 937mbit: the idealised link over recorded requests, a
 * table per engine, and a plot over rates from 100 Mbit/s to 100 Gbit/s. `error` is never NULL.
 */
#ifndef GB_BENCH_SIMULATE_H
#define GB_BENCH_SIMULATE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/link.h"
#include "bench/reads_csv.h"
#include "goblin/error.h"

enum {
    GB_SIMULATE_ENGINES_MAX = 16,
    GB_SIMULATE_RATES_MAX = 64,
};

struct gb_simulate_engine {
    char name[GB_READ_ENGINE_MAX];
    struct gb_link links[GB_SIMULATE_RATES_MAX]; /* one for each rate, in the order asked */
};

struct gb_simulation {
    size_t rate_count;
    uint64_t rates_bps[GB_SIMULATE_RATES_MAX];
    size_t engine_count;
    struct gb_simulate_engine engines[GB_SIMULATE_ENGINES_MAX]; /* in order of appearance */
};

/* Streams over the file once. `simulation` comes with its rates set and engine_count 0; large: keep
 * it off the stack. Errors: those of reads_csv.h, -E2BIG for too many engines. */
__attribute__((warn_unused_result)) int gb_simulate_run(struct gb_simulation *simulation,
                                                        const char *reads_path,
                                                        struct goblin_error *error);

/* The rates of the plot, rising: 100 Mbit/s to 100 Gbit/s in ten steps a decade. Returns how many
 * (at most `most`). */
size_t gb_simulate_plot_rates(uint64_t *rates_bps, size_t most);

/* Writes <directory>/link.dat and draws link.svg from the rates behind the first, which is the one
 * asked for. 1 = drawn, 0 = only the data, for want of gnuplot. */
int gb_simulate_plot(const struct gb_simulation *simulation, const char *directory,
                     struct goblin_error *error);

/* The command; argv[0] is "simulate". Returns an exit code. */
int gb_cmd_simulate(int argc, char **argv);

#endif
