/*
 * What a study leaves behind: summary.json, metadata.json, report.md and SVG plots.
 *
 * The harness fills one gb_engine_result per engine; the plots of latencies and throughput come
 * from reads.csv, read once. Plots need gnuplot; without it their data files are still written.
 */
#ifndef GB_BENCH_REPORT_H
#define GB_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/histogram.h"
#include "bench/link.h"
#include "goblin/error.h"

struct gb_latency {
    double mean_us;
    double p50_us;
    double p99_us;
    double p999_us;
};

struct gb_rss_sample {
    double at_s; /* since population began */
    uint64_t rss_bytes;
};

struct gb_engine_result {
    const char *name;
    uint64_t objects;
    uint64_t bytes;
    double populate_seconds; /* barrier included */
    double barrier_seconds;  /* of these, waiting for background work after the last put */
    uint64_t requests;
    uint64_t replay_bytes;
    double replay_seconds;  /* sum of the requests' own times */
    struct gb_latency ttfb; /* p999 is not reported */
    struct gb_latency ttlb;
    struct gb_latency disk_ttlb; /* requests that needed the device; p999 is not reported */
    struct gb_latency disk_ttfb; /* extra: their first bytes */
    uint64_t disk_requests;      /* extra */
    uint64_t misses;             /* extra */
    uint64_t verify_failures;    /* extra; anything but 0 voids the run */
    uint64_t device_reads;
    uint64_t device_read_bytes;
    uint64_t device_write_bytes;
    uint64_t rss_peak_bytes;
    uint64_t memory_budget_bytes;
    double reopen_seconds;       /* extra: after population, until the first get's answer */
    double warm_seconds;         /* extra: from then until all resident bytes were back */
    uint64_t verified_bytes;     /* extra */
    uint64_t rss_populate_bytes; /* extra: the peak of either phase */
    uint64_t rss_replay_bytes;   /* extra */
    uint64_t replay_write_bytes; /* extra: to the device while replaying */
    uint64_t promotions;         /* extra: adaptive residency's own work while replaying */
    uint64_t arena_moved_bytes;  /* extra */
    double second_half_seconds;  /* extra: replay time of the schedule's second half */
    struct gb_link link;
    const struct gb_rss_sample *rss; /* borrowed; may be NULL */
    size_t rss_count;
};

/* Yardsticks that are not engines; zeros are left out of the report. */
struct gb_yardsticks {
    double null_populate_mib_s; /* the harness alone */
    double null_request_us;
    double fio_write_mib_s;      /* direct sequential writes of the same bytes */
    double fio_read_us;          /* direct reads of the same tails, by the control, mean */
    double copy_us;              /* a bare copy of the heads, mean */
    double fixed_device_seconds; /* predicted device time: fixed heads, */
    double bound_device_seconds; /* the offline bound, */
    double bound_seconds;        /* the bound with the resident part's own time added, */
    double bound_half_seconds;   /* and the same over the second half */
    uint64_t bound_floor_bytes;
    uint64_t bound_whole_objects;
};

struct gb_report {
    const char *directory;  /* exists */
    const char *reads_path; /* NULL: no plots from reads */
    const char *command;    /* the line that reproduces the run */
    const char *corpus;     /* gb_corpus.description */
    double scale;
    double zipf_exponent;
    uint64_t seed;
    uint64_t request_bytes;
    const struct gb_engine_result *engines;
    size_t engine_count;
    struct gb_yardsticks yardsticks;
    const char *const *notes; /* sentences for the end of report.md (caps, fallbacks, versions) */
    size_t note_count;
};

/* Fills mean and quantiles from nanoseconds. */
void gb_report_latency(const struct gb_histogram *histogram_ns, struct gb_latency *out);

/* <directory>/summary.json: {"engines": [...]}. */
int gb_report_write_summary(const struct gb_report *report, struct goblin_error *error);

/* <directory>/metadata.json: machine, kernel, file system, compiler, command, corpus. `versions`
 * are pairs name, value (library versions and the like), ended by NULL. */
int gb_report_write_metadata(const struct gb_report *report, const char *const *versions,
                             struct goblin_error *error);

/* <directory>/report.md, naming the plots that exist. */
int gb_report_write_markdown(const struct gb_report *report, struct goblin_error *error);

/* <directory>/{latency_cdf,first_last,throughput,rss,link}.{dat,svg}. 1 = drawn, 0 = only the data
 * files, because there is no gnuplot. */
int gb_report_write_plots(const struct gb_report *report, struct goblin_error *error);

/* All of the above in order. */
int gb_report_write(const struct gb_report *report, const char *const *versions,
                    struct goblin_error *error);

#endif
