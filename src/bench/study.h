/*
 * goblin-bench study: populate several engines with one corpus, then let them replay alternating
 * slices of one schedule, so that drift of the machine hits them alike.
 *
 *     study_options.c  the command line
 *     study.c          the order of events
 *     study_tally.c    requests into figures
 *     study_report.c   figures into reports, the offline bound beside them
 */
#ifndef GB_BENCH_STUDY_H
#define GB_BENCH_STUDY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/bound.h"
#include "bench/corpus.h"
#include "bench/engine.h"
#include "bench/fio.h"
#include "bench/histogram.h"
#include "bench/reads_csv.h"
#include "bench/report.h"
#include "bench/worker.h"

enum {
    GB_STUDY_SLICES_MAX = 10000,
    GB_STUDY_WORKERS_MAX = 16,
    GB_STUDY_CURVE_POINTS = 11, /* 4 KiB to 4 MiB, doubling */
};

struct gb_study_options {
    struct gb_corpus_options corpus;
    const struct gb_engine_ops *engines[GB_ENGINES_MAX];
    size_t engine_count;
    const char *dir;
    const char *out;
    const char *rocksdb_lib;
    uint64_t memory_bytes;      /* 0: the study's share of the corpus */
    uint64_t floor_bytes;       /* 0: libgoblin's default */
    uint64_t first_chunk_bytes; /* 0: libgoblin's default */
    uint64_t slices;
    uint64_t workers;
    uint64_t verify_every;
    uint64_t link_rate_bps;
    bool keep;
    bool cap;
    bool no_controls;
    bool no_fio;
    char command[1024]; /* the line that was typed */
};

/* Returns 0, 1 when help was printed, or -EINVAL with the flag, the limit and the remedy. */
int gb_study_options_parse(struct gb_study_options *options, int argc, char **argv,
                           struct goblin_error *error);

/* ---- one engine's figures ------------------------------------------------------------------ */

struct gb_study_tally {
    struct gb_histogram first; /* ns, all requests that were hits */
    struct gb_histogram last;
    struct gb_histogram disk_first; /* of these, what needed the device */
    struct gb_histogram disk_last;
    struct gb_link link;
    uint64_t total_ns;
    uint64_t second_half_ns;
    uint64_t bytes;
    uint64_t misses;
    uint64_t verified_bytes;
    uint64_t verify_failures;
    struct gb_engine_stats populated; /* device figures of populating, */
    struct gb_engine_stats replayed;  /* and of replaying */
    double populate_seconds;
    double barrier_seconds;
    double reopen_seconds;
    double warm_seconds;
    uint64_t populate_peak_bytes;
    uint64_t replay_peak_bytes;
    uint64_t harness_bytes;
    struct gb_rss_sample *rss;
    size_t rss_count;
    size_t rss_capacity;
    uint64_t rss_sampled_ns;
};

struct gb_study_slice {
    uint64_t number;
    uint64_t first; /* request */
    uint64_t count;
    uint64_t half; /* the request at which the schedule's second half begins */
};

void gb_study_tally_init(struct gb_study_tally *tally, uint64_t link_rate_bps);
void gb_study_tally_fini(struct gb_study_tally *tally);

/* Takes in the records of a slice; its rows go to `csv`. */
int gb_study_tally_slice(struct gb_study_tally *tally, const struct gb_worker *worker,
                         const struct gb_study_slice *slice, struct gb_reads_writer *csv);

/* A look at the worker's resident size, if the last one is a while ago. */
int gb_study_tally_rss(struct gb_study_tally *tally, const struct gb_worker *worker,
                       uint64_t started_ns);

void gb_study_tally_result(const struct gb_study_tally *tally, const struct gb_worker *worker,
                           const struct gb_schedule *schedule, struct gb_engine_result *result);

/* ---- the whole study ----------------------------------------------------------------------- */

struct gb_study {
    struct gb_study_options options;
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct gb_content content;
    uint64_t memory_bytes;
    struct gb_worker_shared *shared;
    struct gb_worker workers[GB_ENGINES_MAX];
    struct gb_study_tally *tallies; /* [engine_count] */
    struct gb_fio fio;
    struct gb_cost_point curve[GB_STUDY_CURVE_POINTS];
    size_t curve_count; /* 0: no control ran */
    struct gb_reads_writer *csv;
    char scratch[PATH_MAX];
    uint64_t started_ns;
};

/* Writes the reports into options.out and prints the table. */
int gb_study_report(struct gb_study *study, struct goblin_error *error);

/* The command; argv[0] is "study". Returns an exit code. */
int gb_cmd_study(int argc, char **argv);

#endif
