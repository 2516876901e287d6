/*
 * Operations into figures, as they complete: latencies, the longest time without a completion, and
 * one row for every second. A tally and a timeline belong to the thread that adds to them until it
 * has ended; everything lies flat, so that both can live in shared memory.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef GB_BENCH_CHURN_TALLY_H
#define GB_BENCH_CHURN_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/histogram.h"

enum { GB_CHURN_SECONDS_MAX = 3600 };

struct gb_churn_operation {
    uint64_t ended_ns;
    uint64_t took_ns;
    uint64_t bytes;
    bool is_disk; /* a read that needed the device */
    bool is_miss; /* a read that found nothing; it is counted and no more */
};

struct gb_churn_tally {
    struct gb_histogram all;
    struct gb_histogram disk;
    uint64_t bytes;
    uint64_t misses;
    uint64_t gap_ns; /* the longest between two completions, or one and either end of a stretch */
    uint64_t last_ns;
    uint64_t begun_ns;
    uint64_t ns; /* of all stretches */
};

/* A zeroed tally is empty once gb_churn_tally_init has seen it. */
void gb_churn_tally_init(struct gb_churn_tally *tally);

/* One stretch of measuring, of perhaps several; operations end inside it, in order. */
void gb_churn_tally_begin(struct gb_churn_tally *tally, uint64_t at_ns);
void gb_churn_tally_add(struct gb_churn_tally *tally, const struct gb_churn_operation *operation);
void gb_churn_tally_end(struct gb_churn_tally *tally, uint64_t at_ns);

struct gb_churn_second {
    uint64_t count;
    uint64_t bytes;
    uint64_t p99_ns;
    uint64_t most_ns;
};

struct gb_churn_timeline {
    struct gb_churn_second seconds[GB_CHURN_SECONDS_MAX];
    struct gb_histogram current; /* of second `at` */
    uint64_t begun_ns;
    uint32_t at;
    uint32_t first; /* of the stretch */
    uint32_t end;   /* of the stretch: what ends later counts in its last second */
};

/* A stretch that fills rows [first, end); end <= GB_CHURN_SECONDS_MAX. */
void gb_churn_timeline_begin(struct gb_churn_timeline *timeline, uint32_t first, uint32_t end,
                             uint64_t at_ns);
void gb_churn_timeline_add(struct gb_churn_timeline *timeline,
                           const struct gb_churn_operation *operation);
void gb_churn_timeline_end(struct gb_churn_timeline *timeline);

#endif
