/*
 * goblin-bench churn: what a reader feels while a store that is nearly full is overwritten, and
 * what that costs in bytes written and disk used.
 *
 *     churn_options.c  the command line
 *     churn_corpus.c   objects that fill a store
 *     churn.c          the order of events
 *     worker_churn.c   the engine's process
 *     churn_tally.c    operations into figures
 *     churn_result.c   figures of one engine
 *     churn_report.c   churn.json, churn.md and the table; churn_plots.c the plots
 */
#ifndef GB_BENCH_CHURN_H
#define GB_BENCH_CHURN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/churn_store.h"
#include "bench/content.h"
#include "bench/corpus.h"
#include "bench/engine.h"
#include "bench/worker.h"
#include "goblin/error.h"

struct gb_churn_options {
    const struct gb_engine_ops *engines[GB_ENGINES_MAX];
    size_t engine_count;
    const char *dir;
    const char *out;
    const char *rocksdb_lib;
    uint64_t size_bytes; /* of the store */
    double fill;         /* of it, with live objects */
    uint64_t least_bytes;
    uint64_t most_bytes;
    uint64_t memory_bytes;
    uint64_t write_rate; /* bytes a second; 0: flat out */
    uint64_t read_rate;  /* reads a second; 0: one after the other */
    uint64_t duration_s; /* of overwriting, all rounds together */
    uint64_t idle_s;     /* of reading alone before, and again after */
    uint64_t rounds;
    double age; /* live bytes to overwrite beforehand, as a share */
    uint64_t seed;
    bool evicts; /* goblin as a cache */
    bool keep;
    char command[1024]; /* the line that was typed */
};

/* Returns 0, 1 when help was printed, or -EINVAL with the flag, the limit and the remedy. */
int gb_churn_options_parse(struct gb_churn_options *options, int argc, char **argv,
                           struct goblin_error *error);

/* Objects of sizes drawn evenly over the logarithm of [least, most], as many as fill the store: one
 * counts as its key, its value, a header of 64 bytes and, beyond 16 KiB, half a page, which is what
 * aligning values for direct reads costs on average.
 * Owns: gb_corpus_fini. Errors: -ENOMEM, -EINVAL with a text. */
int gb_churn_corpus(const struct gb_churn_options *options, struct gb_corpus *out,
                    struct goblin_error *error);

/* Keys and values of all objects. */
uint64_t gb_churn_live_bytes(const struct gb_corpus *corpus);

/* ---- one engine's figures ------------------------------------------------------------------ */

/* What the bench saw from outside the engine's process. */
struct gb_churn_outcome {
    double fill_seconds;
    double age_seconds;
    uint64_t age_bytes;
    struct gb_churn_counts written; /* gained from the start of overwriting until all was quiet,
                                       summed over the rounds; its gauges are of the end */
    double settle_seconds;          /* summed, too */
    bool unsettled;                 /* it never was quiet for half a second within a minute */
    uint64_t disk_peak_bytes;       /* files, at the most since it was filled */
    uint64_t disk_bytes;            /* files, when all was quiet */
    uint64_t rss_peak_bytes;
};

/* Adds what `now` has more than `before`, and takes over its gauges. */
void gb_churn_counts_gain(struct gb_churn_counts *sum, const struct gb_churn_counts *before,
                          const struct gb_churn_counts *now);

/* Of reads that needed the device, except where it says "all". */
struct gb_churn_reads {
    uint64_t count; /* all */
    uint64_t disk_count;
    uint64_t misses;
    double seconds;
    double p50_us;
    double p99_us;
    double p999_us;
    double max_us;
    double all_p99_us;
    double all_max_us;
    double gap_ms; /* the longest time without a completed read, all */
    double cpu_seconds;
};

struct gb_churn_result {
    const char *name;
    struct gb_churn_reads reads[GB_CHURN_PHASES];
    double busy_ratio; /* p99 beside overwrites / p99 idle; 0: no reads to compare */
    uint64_t puts;
    uint64_t refused;
    double asked_mib_s; /* 0: flat out */
    double written_mib_s;
    double put_p50_us;
    double put_p99_us;
    double put_max_ms;
    double put_gap_ms;
    /* Device bytes / bytes overwritten: as the engine counts both, as the kernel counts for the
     * process, as the block device counts for everybody (0: the directory lies on none). */
    double engine_amplification;
    double process_amplification;
    double device_amplification;
    double engine_off;         /* engine / process - 1 */
    double device_off;         /* device / process - 1 */
    double peak_amplification; /* files at the most / live bytes */
    double disk_amplification; /* files at the end / live bytes */
    double engine_space;       /* disk used / live bytes, both as the engine says */
    double file_off;           /* bytes in files as the engine says / as the kernel says - 1 */
    const struct gb_churn_outcome *outcome; /* borrowed, both */
    const struct gb_churn_store *store;
};

/* `live_bytes` are of keys and values. */
void gb_churn_result_make(const char *name, uint64_t live_bytes, const struct gb_churn_store *store,
                          const struct gb_churn_outcome *outcome, struct gb_churn_result *result);

/* Bytes, versions or objects that were not what they must be, misses of a store that keeps all
 * included? */
bool gb_churn_result_is_void(const struct gb_churn_result *result, bool keeps_all);

/* ---- reports ------------------------------------------------------------------------------- */

struct gb_churn_report {
    const struct gb_churn_options *options;
    const struct gb_corpus *corpus;
    const struct gb_churn_result *results; /* [count] */
    size_t count;
    bool device_shared;          /* the block device carries the system's own files, too */
    const char *const *versions; /* pairs name, value, ended by NULL */
};

/* <out>/churn.json, churn.md and, where there is gnuplot, churn_time.svg and churn_cdf.svg with
 * their data. */
int gb_churn_report_write(const struct gb_churn_report *report, struct goblin_error *error);

/* The plots alone: 1 = drawn, 0 = only the data files, because there is no gnuplot. */
int gb_churn_plots(const struct gb_churn_report *report, struct goblin_error *error);

/* A table for people at a terminal. */
void gb_churn_report_print(const struct gb_churn_report *report, FILE *out);

/* ---- the whole of it ----------------------------------------------------------------------- */

struct gb_churn {
    struct gb_churn_options options;
    struct gb_corpus corpus;
    struct gb_schedule schedule; /* empty */
    struct gb_content content;
    struct gb_worker_shared *shared;
    struct gb_worker workers[GB_ENGINES_MAX];
    struct gb_churn_outcome outcomes[GB_ENGINES_MAX];
    char scratch[PATH_MAX];
};

/* The command; argv[0] is "churn". Returns an exit code. */
int gb_cmd_churn(int argc, char **argv);

#endif
