/*
 * A latency histogram: log-linear buckets, 128 to each power of two, so that a quantile is off by
 * less than 0.8 %, and values below 256 are exact. Count, sum, least and most are exact. 57 KiB;
 * belongs to one thread.
 */
#ifndef GB_BENCH_HISTOGRAM_H
#define GB_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    GB_HISTOGRAM_STEP_BITS = 7,
    GB_HISTOGRAM_BUCKETS = (64 - GB_HISTOGRAM_STEP_BITS + 1) << GB_HISTOGRAM_STEP_BITS,
};

struct gb_histogram {
    uint64_t count;
    double sum;
    uint64_t least;
    uint64_t most;
    uint64_t buckets[GB_HISTOGRAM_BUCKETS];
};

void gb_histogram_init(struct gb_histogram *histogram);
void gb_histogram_add(struct gb_histogram *histogram, uint64_t value);
void gb_histogram_merge(struct gb_histogram *into, const struct gb_histogram *from);

double gb_histogram_mean(const struct gb_histogram *histogram); /* 0 when empty */
/* The value below or at which the share `quantile` (0 to 1) of all values lies; 0 when empty. */
double gb_histogram_quantile(const struct gb_histogram *histogram, double quantile);

/* Walks the buckets that hold anything in rising order: start with *cursor = 0, and each call gives
 * a bucket's upper end and the share of values up to it (kept by the caller between calls). 0 at
 * the end. For plotting distributions. */
int gb_histogram_next(const struct gb_histogram *histogram, uint32_t *cursor, double *value,
                      double *share);

#endif
