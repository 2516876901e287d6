/* The plots of a churn: latency and writing over time, latencies idle and overwritten. */
#include "bench/churn.h"

#include "base/bits.h"
#include "bench/gnuplot.h"
#include "bench/report_parts.h"

#include <errno.h>
#include <stdio.h>

enum { COMMANDS_MAX = 2048 };

static void time_row(FILE *file, const struct gb_churn_store *store, uint64_t at, uint64_t second)
{
    const struct gb_churn_second *reads = &store->read_timeline.seconds[second];
    fprintf(file, "%llu %u %.4f %.4f %.3f\n", (unsigned long long)at, store->phases[second],
            (double)reads->p99_ns / 1e6, (double)reads->most_ns / 1e6,
            (double)store->write_timeline.seconds[second].bytes / (double)GB_MIB);
}

/* Block i of churn_time.dat is engine i: second, read p99 and max in ms, MiB written. */
static int time_data(const struct gb_churn_report *report, struct goblin_error *error)
{
    struct gb_report files = {.directory = report->options->out};
    FILE *file = gb_report_create(&files, "churn_time.dat", error);
    if (!file) {
        return -EIO;
    }
    fprintf(file, "# second, phase, read p99 ms, read max ms, written MiB\n");
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_store *store = report->results[i].store;
        fprintf(file, "\"%s\"\n", report->results[i].name);
        for (uint64_t second = 0; second < store->seconds; second++) {
            time_row(file, store, second, second);
        }
        if (store->seconds > 0) { /* the right edge of the last step */
            time_row(file, store, store->seconds, store->seconds - 1);
        }
        fprintf(file, "\n\n");
    }
    return gb_report_finish(&files, file, "churn_time.dat", error);
}

static void cdf_block(FILE *file, const struct gb_churn_result *result, int phase,
                      const char *suffix)
{
    uint32_t cursor = 0;
    double value = 0;
    double share = 0;
    fprintf(file, "\"%s%s\"\n", result->name, suffix);
    while (gb_histogram_next(&result->store->reads[phase].disk, &cursor, &value, &share)) {
        fprintf(file, "%.3f %.8f\n", value / 1e3, 1 - share);
    }
    fprintf(file, "\n\n");
}

/* Blocks 2i and 2i + 1 of churn_cdf.dat are engine i, idle and overwritten: microseconds, and the
 * share of reads that took longer. */
static int cdf_data(const struct gb_churn_report *report, struct goblin_error *error)
{
    struct gb_report files = {.directory = report->options->out};
    FILE *file = gb_report_create(&files, "churn_cdf.dat", error);
    if (!file) {
        return -EIO;
    }
    for (size_t i = 0; i < report->count; i++) {
        cdf_block(file, &report->results[i], GB_CHURN_IDLE, ", idle");
        cdf_block(file, &report->results[i], GB_CHURN_BUSY, "");
    }
    return gb_report_finish(&files, file, "churn_cdf.dat", error);
}

/* Two panels over one axis of time; where writing is on, the phase shows by itself. */
static int draw_time(const struct gb_churn_report *report, struct goblin_error *error)
{
    char commands[COMMANDS_MAX];
    unsigned last = (unsigned)report->count - 1;
    snprintf(commands, sizeof(commands),
             "set multiplot layout 2,1\nset lmargin 12\n"
             "set key above\n"
             "set logscale y\nset format y '%%g'\nset ylabel 'read p99 of a second, ms'\n"
             "plot for [i=0:%u] 'churn_time.dat' index i using 1:($3 > 0 ? $3 : NaN) with steps "
             "linewidth 2 title columnheader(1)\n"
             "unset logscale y\nunset key\nset yrange [0:*]\n"
             "set xlabel 'seconds measured'\nset ylabel 'overwritten, MiB/s'\n"
             "plot for [i=0:%u] 'churn_time.dat' index i using 1:5 with steps linewidth 2 "
             "title columnheader(1)\n"
             "unset multiplot\n",
             last, last);
    return gb_gnuplot_draw(report->options->out, "churn_time", commands, error);
}

static int draw_cdf(const struct gb_churn_report *report, struct goblin_error *error)
{
    char commands[COMMANDS_MAX];
    unsigned last = (unsigned)report->count - 1;
    snprintf(commands, sizeof(commands),
             "set title 'Reads from the device: idle (dashed) and beside overwrites'\n"
             "set logscale xy\nset format xy '%%g'\nset xlabel 'microseconds'\n"
             "set ylabel 'share of reads that took longer'\nset yrange [1e-5:1]\n"
             "plot for [i=0:%u] 'churn_cdf.dat' index 2*i using 1:2 with lines linewidth 2 "
             "dashtype 2 linecolor i+1 title columnheader(1), "
             "for [i=0:%u] 'churn_cdf.dat' index 2*i+1 using 1:2 with lines linewidth 2 "
             "linecolor i+1 title columnheader(1)\n",
             last, last);
    return gb_gnuplot_draw(report->options->out, "churn_cdf", commands, error);
}

int gb_churn_plots(const struct gb_churn_report *report, struct goblin_error *error)
{
    int rc = time_data(report, error);
    rc = rc < 0 ? rc : cdf_data(report, error);
    rc = rc < 0 ? rc : draw_time(report, error);
    return rc <= 0 ? rc : draw_cdf(report, error);
}
