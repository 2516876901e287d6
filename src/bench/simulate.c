/* The idealised link over recorded requests: see simulate.h. */
#include "bench/simulate.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench/explain.h"
#include "bench/gnuplot.h"

size_t gb_simulate_plot_rates(uint64_t *rates_bps, size_t most)
{
    size_t count = 0;
    for (int step = 0; step <= 30 && count < most; step++) {
        rates_bps[count++] = (uint64_t)llround(pow(10, 8 + step / 10.0));
    }
    return count;
}

static struct gb_simulate_engine *find_engine(struct gb_simulation *simulation, const char *name)
{
    for (size_t i = 0; i < simulation->engine_count; i++) {
        if (strcmp(simulation->engines[i].name, name) == 0) {
            return &simulation->engines[i];
        }
    }
    if (simulation->engine_count == GB_SIMULATE_ENGINES_MAX) {
        return NULL;
    }
    struct gb_simulate_engine *engine = &simulation->engines[simulation->engine_count++];
    (void)snprintf(engine->name, sizeof(engine->name), "%s", name);
    for (size_t i = 0; i < simulation->rate_count; i++) {
        gb_link_init(&engine->links[i], simulation->rates_bps[i]);
    }
    return engine;
}

int gb_simulate_run(struct gb_simulation *simulation, const char *reads_path,
                    struct goblin_error *error)
{
    struct gb_reads_reader *reader;
    int result = gb_reads_reader_open(reads_path, &reader, error);
    if (result < 0) {
        return result;
    }
    struct gb_read read;
    struct gb_simulate_engine *engine = NULL;
    while ((result = gb_reads_reader_next(reader, &read, error)) > 0) {
        if (engine == NULL || strcmp(engine->name, read.engine) != 0) {
            engine = find_engine(simulation, read.engine);
        }
        if (engine == NULL) {
            result = -E2BIG;
            gb_explain_set(error, "%s: more than %d engines", reads_path, GB_SIMULATE_ENGINES_MAX);
            break;
        }
        for (size_t i = 0; i < simulation->rate_count; i++) {
            gb_link_add(&engine->links[i], read.chunks, read.chunk_count, read.last_ns);
        }
    }
    gb_reads_reader_close(reader);
    return result;
}

static int write_data(const struct gb_simulation *simulation, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return -errno;
    }
    (void)fprintf(file, "# Mbit/s and MiB/s; one block per engine, then the wire itself\n");
    for (size_t e = 0; e <= simulation->engine_count; e++) {
        bool is_wire = e == simulation->engine_count;
        (void)fprintf(file, "\"%s\"\n", is_wire ? "wire" : simulation->engines[e].name);
        for (size_t i = 1; i < simulation->rate_count; i++) {
            const struct gb_link *link = &simulation->engines[is_wire ? 0 : e].links[i];
            (void)fprintf(file, "%.3f %.3f\n", (double)link->rate_bps / 1e6,
                          is_wire ? gb_link_wire_mib_s(link) : gb_link_mib_s(link));
        }
        (void)fprintf(file, "\n\n");
    }
    bool is_bad = ferror(file) != 0;
    return fclose(file) != 0 || is_bad ? -EIO : 0;
}

int gb_simulate_plot(const struct gb_simulation *simulation, const char *directory,
                     struct goblin_error *error)
{
    if (simulation->engine_count == 0) {
        gb_explain_set(error, "nothing to plot: no requests");
        return -EINVAL;
    }
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/link.dat", directory);
    int result = write_data(simulation, path);
    if (result < 0) {
        gb_explain_set(error, "%s: %s", path, strerror(-result));
        return result;
    }
    char commands[512];
    (void)snprintf(commands, sizeof(commands),
                   "set title 'Idealised link: what arrives'\n"
                   "set logscale xy\n"
                   "set xlabel 'link rate, Mbit/s'\n"
                   "set ylabel 'delivered, MiB/s'\n"
                   "plot for [i=0:%zu] 'link.dat' index i using 1:2 with lines linewidth 2 "
                   "title columnheader(1), 'link.dat' index %zu using 1:2 with lines dashtype 2 "
                   "linecolor rgb '#888888' title 'the wire'\n",
                   simulation->engine_count - 1, simulation->engine_count);
    return gb_gnuplot_draw(directory, "link", commands, error);
}
