/* Two plots of each case: throughput by work and peer, and how many requests took longer. */
#include "bench/net.h"

#include "base/assert.h"
#include "bench/gnuplot.h"
#include "bench/report_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 16, COMMANDS_MAX = 16384 };

/* Whatever appears in a column of the case's rows, each once, in order. */
struct names {
    const char *items[NAMES_MAX];
    size_t count;
};

static void names_add(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], name) == 0) {
            return;
        }
    }
    if (names->count < NAMES_MAX) {
        names->items[names->count++] = name;
    }
}

static const struct gb_net_row *find_row(const struct gb_net *net, const char *case_name,
                                         const char *work, const char *peer)
{
    for (size_t i = 0; i < net->row_count; i++) {
        const struct gb_net_row *row = net->rows[i];
        if (strcmp(row->case_name, case_name) == 0 && strcmp(row->work, work) == 0 &&
            strcmp(row->peer, peer) == 0) {
            return row;
        }
    }
    return NULL;
}

static void collect(const struct gb_net *net, const char *case_name, struct names *works,
                    struct names *peers)
{
    *works = (struct names){.count = 0};
    *peers = (struct names){.count = 0};
    for (size_t i = 0; i < net->row_count; i++) {
        if (strcmp(net->rows[i]->case_name, case_name) == 0) {
            names_add(works, net->rows[i]->work);
            names_add(peers, net->rows[i]->peer);
        }
    }
}

/* One line per work, one column of MiB/s per peer. */
static int bars_data(const struct gb_net *net, const char *case_name, const struct names *works,
                     const struct names *peers, struct goblin_error *error)
{
    const struct gb_report files = {.directory = net->options.out};
    char name[64];
    snprintf(name, sizeof(name), "net_%s.dat", case_name);
    FILE *file = gb_report_create(&files, name, error);
    if (!file) {
        return -EIO;
    }
    fprintf(file, "work");
    for (size_t p = 0; p < peers->count; p++) {
        fprintf(file, " %s", peers->items[p]);
    }
    fputc('\n', file);
    for (size_t w = 0; w < works->count; w++) {
        fprintf(file, "\"%s\"", works->items[w]);
        for (size_t p = 0; p < peers->count; p++) {
            const struct gb_net_row *row =
                find_row(net, case_name, works->items[w], peers->items[p]);
            if (row) {
                fprintf(file, " %.2f", gb_net_row_mib_s(row));
            } else {
                fprintf(file, " -");
            }
        }
        fputc('\n', file);
    }
    return gb_report_finish(&files, file, name, error);
}

static void ccdf_block(FILE *file, const struct gb_net_row *row)
{
    const struct gb_histogram *times =
        row->tally.get_ns.count > 0 ? &row->tally.get_ns : &row->tally.set_ns;
    uint32_t cursor = 0;
    double value = 0;
    double share = 0;
    fprintf(file, "\"%s, %s\"\n", row->work, row->peer);
    while (gb_histogram_next(times, &cursor, &value, &share)) {
        fprintf(file, "%.3f %.8f\n", value / 1e3, 1 - share);
    }
    fprintf(file, "\n\n");
}

/* The rows whose times are drawn: those that the case is about, or all if it has no others. */
static size_t choose_rows(const struct gb_net *net, const char *case_name,
                          const struct gb_net_row *rows[GB_NET_ROWS_MAX])
{
    size_t count = 0;
    for (int all = 0; all < 2 && count == 0; all++) {
        for (size_t i = 0; i < net->row_count; i++) {
            const struct gb_net_row *row = net->rows[i];
            bool is_measured = row->tally.get_ns.count + row->tally.set_ns.count > 0;
            if (strcmp(row->case_name, case_name) == 0 && is_measured && (all || !row->prepares)) {
                rows[count++] = row;
            }
        }
    }
    return count;
}

static int ccdf_data(const struct gb_net *net, const char *case_name,
                     const struct gb_net_row *const *rows, size_t count, struct goblin_error *error)
{
    const struct gb_report files = {.directory = net->options.out};
    char name[64];
    snprintf(name, sizeof(name), "net_%s_latency.dat", case_name);
    FILE *file = gb_report_create(&files, name, error);
    if (!file) {
        return -EIO;
    }
    fprintf(file, "# a block per row: microseconds, and the share of requests that took longer\n");
    for (size_t i = 0; i < count; i++) {
        ccdf_block(file, rows[i]);
    }
    return gb_report_finish(&files, file, name, error);
}

static int draw_bars(const struct gb_net *net, const char *case_name, size_t peers,
                     struct goblin_error *error)
{
    char commands[COMMANDS_MAX];
    char name[64];
    snprintf(name, sizeof(name), "net_%s", case_name);
    snprintf(commands, sizeof(commands),
             "set title '%s: values moved'\nset style data histogram\n"
             "set style fill solid 0.8 border -1\nset boxwidth 0.9\nset datafile missing '-'\n"
             "set ylabel 'MiB/s'\nset yrange [0:*]\nset xtics rotate by -20\n"
             "plot for [i=2:%zu] '%s.dat' using i:xtic(1) title columnheader(i)\n",
             case_name, peers + 1, name);
    return gb_gnuplot_draw(net->options.out, name, commands, error);
}

static size_t place_of(const struct names *names, const char *name)
{
    size_t at = 0;
    while (at < names->count && strcmp(names->items[at], name) != 0) {
        at++;
    }
    return at;
}

/* A peer has one colour, a work one kind of line. */
static int draw_ccdf(const struct gb_net *net, const char *case_name, const struct names *peers,
                     struct goblin_error *error)
{
    const struct gb_net_row *rows[GB_NET_ROWS_MAX];
    struct names works = {.count = 0};
    char commands[COMMANDS_MAX];
    char name[64];
    size_t count = choose_rows(net, case_name, rows);
    int rc = count > 0 ? ccdf_data(net, case_name, rows, count, error) : 0;
    if (rc < 0 || count == 0) {
        return rc;
    }
    snprintf(name, sizeof(name), "net_%s_latency", case_name);
    int len = snprintf(commands, sizeof(commands),
                       "set title '%s: time to the last byte'\nset logscale xy\n"
                       "set format xy '%%g'\nset xlabel 'microseconds'\n"
                       "set ylabel 'share of requests that took longer'\nset yrange [1e-5:1]\n"
                       "plot ",
                       case_name);
    for (size_t i = 0; i < count && len < COMMANDS_MAX; i++) {
        names_add(&works, rows[i]->work);
        len += snprintf(commands + len, sizeof(commands) - (size_t)len,
                        "'%s.dat' index %zu with lines linewidth 2 linecolor %zu dashtype %zu "
                        "title columnheader(1)%s",
                        name, i, place_of(peers, rows[i]->peer) + 1,
                        place_of(&works, rows[i]->work) + 1, i + 1 < count ? ", " : "\n");
    }
    GB_ASSERT(len < COMMANDS_MAX);
    return gb_gnuplot_draw(net->options.out, name, commands, error);
}

static int plots_of(const struct gb_net *net, const char *case_name, struct goblin_error *error)
{
    struct names works;
    struct names peers;
    collect(net, case_name, &works, &peers);
    if (works.count == 0) {
        return 0;
    }
    int rc = bars_data(net, case_name, &works, &peers, error);
    rc = rc < 0 ? rc : draw_bars(net, case_name, peers.count, error);
    return rc < 0 ? rc : draw_ccdf(net, case_name, &peers, error);
}

int gb_net_plots(const struct gb_net *net, struct goblin_error *error)
{
    int rc = 1;
    for (size_t i = 0; i < net->options.case_count && rc >= 0; i++) {
        rc = plots_of(net, net->options.cases[i]->name, error);
    }
    return rc;
}
