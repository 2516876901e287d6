/* The command `goblin-bench relative`. */
#include "bench/relative.h"

#include "bench/explain.h"
#include "bench/flags.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { REGRESSED = 3, DEFAULT_THRESHOLD = 5, PERCENT = 100 };

struct relative_options {
    const char *base;
    const char *engine;
    const char *out;
    double threshold; /* per cent */
    bool markdown;
};

static const struct gb_flag relative_flags[] = {
    GB_FLAG_ROW(TEXT, "base", relative_options, base, "TEXT",
                "the column whose name begins so; default the first one of the first file"),
    GB_FLAG_ROW(TEXT, "engine", relative_options, engine, "NAME", "only columns of this engine"),
    GB_FLAG_LIMITED(REAL, "threshold", relative_options, threshold, 0, 100, "PERCENT",
                    "slower by more is a regression; default 5"),
    GB_FLAG_ROW(SWITCH, "markdown", relative_options, markdown, NULL, "print tables as Markdown"),
    GB_FLAG_ROW(TEXT, "out", relative_options, out, "RESULTS",
                "where relative.md and the plots go, besides being printed"),
    {.name = NULL},
};

static void help(void)
{
    printf(
        "Usage: goblin-bench relative BASE[,MORE...] [NEW[,MORE...]...] [flags]\n\n"
        "Prints throughput as a multiple of a base version's, step by step. Files are what\n"
        "goblin-bench kv --json has written, what db_bench has printed, or a report.tsv of its\n"
        "benchmark.sh. Measurements of the same engine, version and step in one argument, be it\n"
        "in one file or in several with commas between, count as repetitions: their median,\n"
        "least and most are taken.\n\nFlags:\n");
    gb_flags_help(relative_flags, stdout);
    printf("\nExit codes: 0 done, 1 failed, 2 usage, 3 a regression.\n");
}

/* The files of one argument. */
static int read_source(char *argument, unsigned source, struct gb_relative_rows *rows,
                       struct goblin_error *error)
{
    char *rest = NULL;
    int rc = 0;
    for (char *path = strtok_r(argument, ",", &rest); path && rc == 0;
         path = strtok_r(NULL, ",", &rest)) {
        rc = gb_relative_file(path, source, rows, error);
    }
    return rc;
}

static int read_sources(int argc, char **argv, const char **names, struct gb_relative_rows *rows,
                        struct goblin_error *error)
{
    int rc = 0;
    for (int i = 0; i < argc && rc == 0; i++) {
        char *argument = strdup(argv[i]);
        if (!argument) {
            gb_explain_set(error, "out of memory");
            return -ENOMEM;
        }
        names[i] = argv[i];
        rc = read_source(argument, (unsigned)i, rows, error);
        free(argument);
    }
    return rc;
}

/* 0, the exit code of a regression, or a fault. */
static int compare(const struct relative_options *options, const struct gb_relative_rows *rows,
                   const char *const *names, struct goblin_error *error)
{
    struct gb_relative_table *table = calloc(1, sizeof(*table));
    if (!table) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    table->threshold = options->threshold / PERCENT;
    int rc = gb_relative_table(table, rows, options->base, options->engine, names, error);
    if (rc == 0) {
        if (options->markdown) {
            gb_relative_markdown(table, stdout);
        } else {
            gb_relative_text(table, stdout);
        }
        rc = options->out ? gb_relative_write(table, options->out, error) : 0;
        rc = rc < 0 ? rc : 0;
    }
    if (rc == 0 && gb_relative_regressions(table) > 0) {
        rc = REGRESSED;
    }
    free(table);
    return rc;
}

static int run(const struct relative_options *options, int argc, char **argv,
               struct goblin_error *error)
{
    const char *names[GB_RELATIVE_SOURCES_MAX] = {NULL};
    struct gb_relative_rows rows = {0};
    int rc = read_sources(argc, argv, names, &rows, error);
    rc = rc < 0 ? rc : compare(options, &rows, names, error);
    gb_relative_rows_fini(&rows);
    return rc;
}

int gb_cmd_relative(int argc, char **argv)
{
    struct relative_options options = {.threshold = DEFAULT_THRESHOLD};
    struct goblin_error error = {{0}};
    int first = argc;
    int status = 2;
    int rc = gb_flags_parse_bare(relative_flags, &options, argc, argv, &first, &error);
    if (rc == 1) {
        help();
        return 0;
    }
    if (rc == 0 && (first == argc || argc - first > GB_RELATIVE_SOURCES_MAX)) {
        gb_explain_set(&error, "name 1 to %d files; see relative --help", GB_RELATIVE_SOURCES_MAX);
        rc = -EINVAL;
    }
    if (rc == 0) {
        status = 1;
        rc = run(&options, argc - first, argv + first, &error);
    }
    if (rc < 0) {
        fprintf(stderr, "goblin-bench relative: %s\n",
                error.text[0] ? error.text : goblin_strerror(rc));
        return status;
    }
    return rc;
}
