/* The plots of a report: data files, then gnuplot over each. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/gnuplot.h"
#include "bench/report_parts.h"
#include "bench/simulate.h"

enum { COMMANDS_MAX = 1024 };

/* One plot over blocks 0..last of <name>.dat. */
struct plot {
    const char *name;
    const char *settings;
    const char *style;
    size_t last;
};

static int draw(const struct gb_report *report, const struct plot *plot, struct goblin_error *error)
{
    char commands[COMMANDS_MAX];
    (void)snprintf(commands, sizeof(commands),
                   "%splot for [i=0:%zu] '%s.dat' index i using 1:2 with %s title "
                   "columnheader(1)\n",
                   plot->settings, plot->last, plot->name, plot->style);
    return gb_gnuplot_draw(report->directory, plot->name, commands, error);
}

/* First bytes lie in the even blocks and are drawn dashed, last bytes in the odd ones. */
static int draw_latencies(const struct gb_report *report, size_t engines,
                          struct goblin_error *error)
{
    char commands[COMMANDS_MAX];
    (void)snprintf(commands, sizeof(commands),
                   "set title 'Time to first byte (dashed) and to last byte'\n"
                   "set logscale x\nset xlabel 'microseconds'\n"
                   "set ylabel 'share of requests'\nset yrange [0:1]\n"
                   "plot for [i=0:%zu:2] 'latency_cdf.dat' index i using 1:2 with lines "
                   "linewidth 2 dashtype 2 linecolor i/2+1 title columnheader(1), "
                   "for [i=1:%zu:2] 'latency_cdf.dat' index i using 1:2 with lines "
                   "linewidth 2 linecolor i/2+1 title columnheader(1)\n",
                   2 * engines - 1, 2 * engines - 1);
    return gb_gnuplot_draw(report->directory, "latency_cdf", commands, error);
}

static int draw_reads(const struct gb_report *report, size_t engines, struct goblin_error *error)
{
    const struct plot plots[] = {
        {"first_last",
         "set title 'First byte against last byte (a sample)'\nset logscale xy\n"
         "set xlabel 'first byte, microseconds'\nset ylabel 'last byte, microseconds'\n",
         "points pointtype 7 pointsize 0.4", engines - 1},
        {"throughput",
         "set title 'Replay throughput over time'\nset xlabel 'seconds of storage time'\n"
         "set ylabel 'MiB/s'\nset yrange [0:*]\n",
         "lines linewidth 1.5", engines - 1},
    };
    int result = draw_latencies(report, engines, error);
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]) && result > 0; i++) {
        result = draw(report, &plots[i], error);
    }
    return result;
}

/* The sample's blocks, and the budget as a line: 1 or 0, or a fault. */
static int plot_rss(const struct gb_report *report, struct goblin_error *error)
{
    FILE *file = gb_report_create(report, "rss.dat", error);
    if (file == NULL) {
        return -EIO;
    }
    size_t blocks = 0;
    uint64_t budget = 0;
    (void)fprintf(file, "# seconds since population began, resident MiB\n");
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        budget = gb_max(budget, engine->memory_budget_bytes);
        if (engine->rss_count == 0) {
            continue;
        }
        blocks++;
        (void)fprintf(file, "\"%s\"\n", engine->name);
        for (size_t n = 0; n < engine->rss_count; n++) {
            (void)fprintf(file, "%.3f %.3f\n", engine->rss[n].at_s,
                          (double)engine->rss[n].rss_bytes / (double)GB_MIB);
        }
        (void)fprintf(file, "\n\n");
    }
    int result = gb_report_finish(report, file, "rss.dat", error);
    if (result < 0 || blocks == 0) {
        return result;
    }
    char settings[COMMANDS_MAX / 2];
    (void)snprintf(settings, sizeof(settings),
                   "set title 'Resident memory against the budget (%.0f MiB, dashed)'\n"
                   "set xlabel 'seconds'\nset ylabel 'MiB'\nset yrange [0:*]\n"
                   "set arrow from graph 0, first %.3f to graph 1, first %.3f nohead dashtype 2\n",
                   (double)budget / (double)GB_MIB, (double)budget / (double)GB_MIB,
                   (double)budget / (double)GB_MIB);
    struct plot plot = {"rss", settings, "lines linewidth 2", blocks - 1};
    return draw(report, &plot, error);
}

/* The idealised link over all rates. */
static int plot_link(const struct gb_report *report, struct goblin_error *error)
{
    struct gb_simulation *simulation = calloc(1, sizeof(*simulation));
    if (simulation == NULL) {
        return -ENOMEM;
    }
    uint64_t asked = report->engine_count > 0 ? report->engines[0].link.rate_bps : 0;
    simulation->rates_bps[0] = asked != 0 ? asked : 1;
    simulation->rate_count =
        1 + gb_simulate_plot_rates(simulation->rates_bps + 1, GB_SIMULATE_RATES_MAX - 1);
    int result = gb_simulate_run(simulation, report->reads_path, error);
    if (result == 0) {
        result = gb_simulate_plot(simulation, report->directory, error);
    }
    free(simulation);
    return result;
}

int gb_report_write_plots(const struct gb_report *report, struct goblin_error *error)
{
    int drawn = plot_rss(report, error);
    if (drawn < 0 || report->reads_path == NULL) {
        return drawn;
    }
    int engines = gb_report_reads_data(report, error);
    if (engines <= 0) {
        return engines;
    }
    int result = draw_reads(report, (size_t)engines, error);
    if (result < 0) {
        return result;
    }
    int linked = plot_link(report, error);
    return linked < 0 ? linked : result;
}
