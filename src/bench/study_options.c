/* The command line of `goblin-bench study`. */
#include "base/units.h"
#include "bench/explain.h"
#include "bench/flags.h"
#include "bench/study.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char engines_default[] =
    "goblin-fixed,goblin,rocksdb,rocksdb-blob,rocksdb-cached,rocksdb-blob-cached";

static int take_corpus(void *target, const char *text, struct goblin_error *error)
{
    struct gb_study_options *options = target;
    if (strcmp(text, "study") == 0) {
        options->corpus.kind = GB_CORPUS_STUDY;
    } else if (strcmp(text, "debian") == 0) {
        options->corpus.kind = GB_CORPUS_DEBIAN;
    } else {
        gb_explain_set(error,
                       "\"%s\" is no corpus: give study or debian, or use --data DIR or "
                       "--trace FILE",
                       text);
        return -EINVAL;
    }
    return 0;
}

static int take_data(void *target, const char *text, struct goblin_error *error)
{
    (void)error;
    struct gb_study_options *options = target;
    options->corpus.kind = GB_CORPUS_DATA;
    options->corpus.path = text;
    return 0;
}

static int take_trace(void *target, const char *text, struct goblin_error *error)
{
    (void)error;
    struct gb_study_options *options = target;
    options->corpus.kind = GB_CORPUS_TRACE;
    options->corpus.path = text;
    return 0;
}

static int take_shifts(void *target, const char *text, struct goblin_error *error)
{
    enum { SHIFTS_MAX = 10000 };
    struct gb_study_options *options = target;
    uint64_t shifts = 0;
    if (gb_units_parse_count(text, &shifts) < 0 || shifts > SHIFTS_MAX) {
        gb_explain_set(error, "\"%s\": give a count up to %d", text, SHIFTS_MAX);
        return -EINVAL;
    }
    options->corpus.shifts = (unsigned)shifts;
    return 0;
}

static int take_engines(void *target, const char *text, struct goblin_error *error)
{
    struct gb_study_options *options = target;
    options->engine_count = 0;
    return gb_engine_list(options->engines, &options->engine_count, text, error);
}

static int take_cap(void *target, const char *text, struct goblin_error *error)
{
    struct gb_study_options *options = target;
    if (strcmp(text, "study") != 0) {
        gb_explain_set(error, "\"%s\" is no set of limits: give study", text);
        return -EINVAL;
    }
    options->cap = true;
    return 0;
}

#define AT(field) offsetof(struct gb_study_options, field)

static const struct gb_flag study_flags[] = {
    {.name = "corpus",
     .kind = GB_FLAG_CUSTOM,
     .value = "NAME",
     .take = take_corpus,
     .help = "study (the published marginals; default) or debian (its package index)"},
    {.name = "data",
     .kind = GB_FLAG_CUSTOM,
     .value = "DIR",
     .take = take_data,
     .help = "the files of a directory instead"},
    {.name = "trace",
     .kind = GB_FLAG_CUSTOM,
     .value = "FILE",
     .take = take_trace,
     .help = "a request log instead"},
    {.name = "trace-format",
     .kind = GB_FLAG_TEXT,
     .offset = AT(corpus.trace_format),
     .value = "NAME",
     .help = "its format; default: guessed"},
    {.name = "scale",
     .kind = GB_FLAG_REAL,
     .offset = AT(corpus.scale),
     .least = 1e-5,
     .most = 16,
     .value = "X",
     .help = "of objects, requests and memory; default 0.125, the original is 1"},
    {.name = "zipf",
     .kind = GB_FLAG_REAL,
     .offset = AT(corpus.zipf_exponent),
     .most = 3,
     .value = "X",
     .help = "exponent of popularity; default 0.9"},
    {.name = "requests",
     .kind = GB_FLAG_COUNT,
     .offset = AT(corpus.requests),
     .value = "N",
     .help = "length of the schedule; default: the corpus's own"},
    {.name = "shifts",
     .kind = GB_FLAG_CUSTOM,
     .value = "N",
     .take = take_shifts,
     .help = "how often popularity is dealt anew on the way; default 0"},
    {.name = "scan",
     .kind = GB_FLAG_REAL,
     .offset = AT(corpus.scan_share),
     .most = 0.95,
     .value = "SHARE",
     .help = "of requests that walk through all objects; default 0"},
    {.name = "seed",
     .kind = GB_FLAG_COUNT,
     .offset = AT(corpus.seed),
     .value = "N",
     .help = "of corpus, schedule and payload; default 1"},
    {.name = "engines",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_engines,
     .help = "which ones; default: all"},
    {.name = "no-controls",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(no_controls),
     .help = "leave out `null` and `control`, the yardsticks, and with them the bound"},
    {.name = "no-fio",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(no_fio),
     .help = "do not run fio beside them"},
    {.name = "dir",
     .kind = GB_FLAG_TEXT,
     .offset = AT(dir),
     .value = "SCRATCH",
     .help = "where the engines store; a directory is made in it and removed afterwards"},
    {.name = "out",
     .kind = GB_FLAG_TEXT,
     .offset = AT(out),
     .value = "RESULTS",
     .help = "where reads.csv, summary.json, metadata.json and report.md go"},
    {.name = "memory",
     .kind = GB_FLAG_SIZE,
     .offset = AT(memory_bytes),
     .least = 8 << 20,
     .most = 1e15,
     .value = "SIZE",
     .help = "for each engine; default: 5220 MiB for the study's 62.1 GiB, in proportion"},
    {.name = "floor",
     .kind = GB_FLAG_SIZE,
     .offset = AT(floor_bytes),
     .least = 4096,
     .most = 65536,
     .value = "SIZE",
     .help = "head of every object that `goblin` keeps; default: the library's own"},
    {.name = "first-chunk",
     .kind = GB_FLAG_SIZE,
     .offset = AT(first_chunk_bytes),
     .least = 16384,
     .most = 4194304,
     .value = "SIZE",
     .help = "first read of a tail in `goblin` and `goblin-fixed`; default: the library's own"},
    {.name = "slices",
     .kind = GB_FLAG_COUNT,
     .offset = AT(slices),
     .least = 1,
     .most = GB_STUDY_SLICES_MAX,
     .value = "N",
     .help = "in which the engines take turns; default 20"},
    {.name = "workers",
     .kind = GB_FLAG_COUNT,
     .offset = AT(workers),
     .least = 1,
     .most = GB_STUDY_WORKERS_MAX,
     .value = "N",
     .help = "threads that populate; default 4"},
    {.name = "verify-every",
     .kind = GB_FLAG_COUNT,
     .offset = AT(verify_every),
     .value = "K",
     .help = "re-read and compare the object of each K-th request; default 16, 0: none"},
    {.name = "link-rate",
     .kind = GB_FLAG_RATE,
     .offset = AT(link_rate_bps),
     .least = 1000,
     .most = 1e13,
     .value = "RATE",
     .help = "of the idealised link; default 937mbit"},
    {.name = "rocksdb-lib",
     .kind = GB_FLAG_TEXT,
     .offset = AT(rocksdb_lib),
     .value = "PATH",
     .help = "the RocksDB to load; default librocksdb.so.7.8, then librocksdb.so"},
    {.name = "cap",
     .kind = GB_FLAG_CUSTOM,
     .value = "study",
     .take = take_cap,
     .help = "run in cgroups of 8 GiB, 33,542 read and 16,771 write operations a second"},
    {.name = "keep",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(keep),
     .help = "leave the scratch directory behind"},
    {.name = NULL},
};

static void study_help(void)
{
    printf("Usage: goblin-bench study --dir SCRATCH --out RESULTS [flags]\n\n"
           "Populates engines with one corpus, reopens them, and replays one schedule in\n"
           "alternating slices, one request at a time, each engine in its own process with the\n"
           "same memory budget. A request's time ends when its last chunk arrives. Of every chunk\n"
           "the first and last 64 bytes are copied and compared after the request; the object of\n"
           "each K-th request is read again and compared whole, and in the end every object is,\n"
           "all outside the figures. Objects are put by several threads in the corpus's order;\n"
           "populating ends when the engine is closed, so that it could be restarted.\n\n"
           "Flags:\n");
    gb_flags_help(study_flags, stdout);
    printf("\nEngines:\n");
    for (size_t i = 0; gb_engine_table[i]; i++) {
        printf("  %-20s %s\n", gb_engine_table[i]->name, gb_engine_table[i]->describe);
    }
    printf("\nExit codes: 0 done, 1 failed or bytes were wrong, 2 usage.\n");
}

static int study_check(const struct gb_study_options *options, struct goblin_error *error)
{
    if (!options->dir) {
        gb_explain_set(error, "--dir is missing: name a directory on the drive to measure");
        return -EINVAL;
    }
    if (!options->out) {
        gb_explain_set(error, "--out is missing: name a directory for the results");
        return -EINVAL;
    }
    if (options->corpus.scale > 1 && options->corpus.kind != GB_CORPUS_STUDY) {
        gb_explain_set(error,
                       "--scale %g: above 1 only the study's corpus can grow; give 1 or less",
                       options->corpus.scale);
        return -EINVAL;
    }
    return 0;
}

/* The controls come first, so that they are measured in every run unless it is told otherwise. */
static int study_add_controls(struct gb_study_options *options, struct goblin_error *error)
{
    struct gb_study_options given = *options;
    if (options->no_controls) {
        return 0;
    }
    int rc = take_engines(options, "null,control", error);
    for (size_t i = 0; i < given.engine_count && rc == 0; i++) {
        rc =
            gb_engine_list(options->engines, &options->engine_count, given.engines[i]->name, error);
    }
    return rc;
}

int gb_study_options_parse(struct gb_study_options *options, int argc, char **argv,
                           struct goblin_error *error)
{
    memset(options, 0, sizeof(*options));
    gb_corpus_defaults(&options->corpus);
    options->corpus.scale = 0.125;
    options->slices = 20;
    options->workers = 4;
    options->verify_every = 16;
    options->link_rate_bps = 937000000;
    gb_flags_command(options->command, sizeof(options->command), argc, argv);
    int rc = take_engines(options, engines_default, error);
    if (rc == 0) {
        rc = gb_flags_parse(study_flags, options, argc, argv, error);
    }
    if (rc == 1) {
        study_help();
        return 1;
    }
    rc = rc < 0 ? rc : study_check(options, error);
    return rc < 0 ? rc : study_add_controls(options, error);
}
