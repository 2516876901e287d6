/* The command line of goblin-bench simulate. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "bench/simulate.h"

#define STUDY_RATE_BPS UINT64_C(937000000)

struct simulate_options {
    const char *reads_path;
    const char *directory; /* of the plot; NULL = that of reads.csv */
    uint64_t rate_bps;
    bool is_json;
    bool is_plotted;
};

static const char usage[] =
    "usage: goblin-bench simulate READS.CSV [--rate RATE] [--json] [--out DIR | --no-plot]\n"
    "\n"
    "Puts recorded requests behind one perfect wire and says what arrives when.\n"
    "\n"
    "  --rate RATE   the wire, as in 937mbit or 10gbit (937mbit)\n"
    "  --json        print JSON instead of a table\n"
    "  --out DIR     where link.dat and link.svg go (beside READS.CSV)\n"
    "  --no-plot     leave out the plot over 100 Mbit/s to 100 Gbit/s\n";

/* 0 = go on, 1 = help was printed, negative = a complaint was. */
static int parse_options(struct simulate_options *options, int argc, char **argv)
{
    static const struct option names[] = {
        {"rate", required_argument, NULL, 'r'}, {"json", no_argument, NULL, 'j'},
        {"out", required_argument, NULL, 'o'},  {"no-plot", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    *options = (struct simulate_options){.rate_bps = STUDY_RATE_BPS, .is_plotted = true};
    int name;
    optind = 1;
    while ((name = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        switch (name) {
        case 'r':
            if (gb_units_parse_rate(optarg, &options->rate_bps) < 0 || options->rate_bps == 0) {
                (void)fprintf(stderr, "--rate: \"%s\" is not a rate such as 937mbit\n", optarg);
                return -EINVAL;
            }
            break;
        case 'j':
            options->is_json = true;
            break;
        case 'o':
            options->directory = optarg;
            break;
        case 'n':
            options->is_plotted = false;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return 1;
        default:
            return -EINVAL;
        }
    }
    if (optind + 1 != argc) {
        (void)fputs(usage, stderr);
        return -EINVAL;
    }
    options->reads_path = argv[optind];
    return 0;
}

static void print_table(const struct gb_simulation *simulation)
{
    char rate[GB_UNITS_TEXT];
    const struct gb_link *first = &simulation->engines[0].links[0];
    (void)printf("idealised link at %s; the wire's own limit is %.2f MiB/s\n\n",
                 gb_units_format_rate(rate, sizeof(rate), simulation->rates_bps[0]),
                 gb_link_wire_mib_s(first));
    (void)printf("%-18s %12s %12s %12s %12s %8s %12s %9s %7s\n", "engine", "requests", "storage s",
                 "wire s", "overlap s", "of wire", "total s", "MiB/s", "limit");
    for (size_t i = 0; i < simulation->engine_count; i++) {
        const struct gb_link *link = &simulation->engines[i].links[0];
        char requests[GB_UNITS_TEXT];
        double overlap_s = (double)gb_link_overlap_ns(link) / 1e9;
        double wire_s = (double)link->wire_ns / 1e9;
        (void)printf("%-18s %12s %12.3f %12.3f %12.3f %7.1f%% %12.3f %9.2f %6.1f%%\n",
                     simulation->engines[i].name,
                     gb_units_format_count(requests, sizeof(requests), link->requests),
                     (double)link->storage_ns / 1e9, wire_s, overlap_s,
                     wire_s > 0 ? 100 * overlap_s / wire_s : 0, (double)link->total_ns / 1e9,
                     gb_link_mib_s(link), 100 * gb_link_mib_s(link) / gb_link_wire_mib_s(link));
    }
}

static int print_json(const struct gb_simulation *simulation)
{
    struct gb_json json;
    gb_json_init(&json, stdout);
    gb_json_object(&json, NULL);
    gb_json_unsigned(&json, "rate_bps", simulation->rates_bps[0]);
    gb_json_array(&json, "engines");
    for (size_t i = 0; i < simulation->engine_count; i++) {
        const struct gb_link *link = &simulation->engines[i].links[0];
        gb_json_object(&json, NULL);
        gb_json_string(&json, "name", simulation->engines[i].name);
        gb_json_unsigned(&json, "requests", link->requests);
        gb_json_unsigned(&json, "bytes", link->bytes);
        gb_json_rounded(&json, "storage_s", (double)link->storage_ns / 1e9, 9);
        gb_json_rounded(&json, "wire_s", (double)link->wire_ns / 1e9, 9);
        gb_json_rounded(&json, "overlap_s", (double)gb_link_overlap_ns(link) / 1e9, 9);
        gb_json_rounded(&json, "total_s", (double)link->total_ns / 1e9, 9);
        gb_json_rounded(&json, "mib_s", gb_link_mib_s(link), 3);
        gb_json_array(&json, "curve");
        for (size_t r = 1; r < simulation->rate_count; r++) {
            gb_json_object(&json, NULL);
            gb_json_unsigned(&json, "rate_bps", simulation->rates_bps[r]);
            gb_json_rounded(&json, "mib_s", gb_link_mib_s(&simulation->engines[i].links[r]), 3);
            gb_json_end(&json);
        }
        gb_json_end(&json);
        gb_json_end(&json);
    }
    gb_json_end(&json);
    gb_json_end(&json);
    return gb_json_finish(&json);
}

/* The directory a file lies in, as text that names it. */
static void directory_of(const char *path, char *out, size_t out_bytes)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        (void)snprintf(out, out_bytes, ".");
    } else {
        int len = slash == path ? 1 : (int)(slash - path);
        (void)snprintf(out, out_bytes, "%.*s", len, path);
    }
}

static int plot(const struct gb_simulation *simulation, const struct simulate_options *options,
                struct goblin_error *error)
{
    char directory[PATH_MAX];
    directory_of(options->reads_path, directory, sizeof(directory));
    const char *where = options->directory != NULL ? options->directory : directory;
    int result = gb_simulate_plot(simulation, where, error);
    if (result >= 0 && !options->is_json) {
        (void)printf("\nplot: %s/link.%s\n", where,
                     result > 0 ? "svg" : "dat (no gnuplot to draw it)");
    }
    return result;
}

int gb_cmd_simulate(int argc, char **argv)
{
    struct simulate_options options;
    int result = parse_options(&options, argc, argv);
    if (result != 0) {
        return result > 0 ? EXIT_SUCCESS : 2;
    }
    struct gb_simulation *simulation = calloc(1, sizeof(*simulation));
    if (simulation == NULL) {
        (void)fputs("goblin-bench simulate: not enough memory\n", stderr);
        return EXIT_FAILURE;
    }
    struct goblin_error error = {{0}};
    simulation->rates_bps[0] = options.rate_bps;
    simulation->rate_count = 1;
    if (options.is_plotted || options.is_json) {
        simulation->rate_count +=
            gb_simulate_plot_rates(simulation->rates_bps + 1, GB_SIMULATE_RATES_MAX - 1);
    }
    result = gb_simulate_run(simulation, options.reads_path, &error);
    if (result == 0 && simulation->engine_count == 0) {
        result = -EINVAL;
        (void)snprintf(error.text, sizeof(error.text), "%s: no requests", options.reads_path);
    }
    if (result == 0 && options.is_json) {
        result = print_json(simulation);
    } else if (result == 0) {
        print_table(simulation);
    }
    if (result == 0 && options.is_plotted) {
        result = plot(simulation, &options, &error);
    }
    free(simulation);
    if (result < 0) {
        (void)fprintf(stderr, "goblin-bench simulate: %s\n",
                      error.text[0] != '\0' ? error.text : strerror(-result));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
