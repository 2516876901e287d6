/* Log-linear histogram: see histogram.h. */
#include "bench/histogram.h"

#include <math.h>

#include "base/bits.h"

enum { STEPS = 1 << GB_HISTOGRAM_STEP_BITS };

void gb_histogram_init(struct gb_histogram *histogram)
{
    *histogram = (struct gb_histogram){.least = UINT64_MAX};
}

/* Values below 2 x STEPS have a bucket each; above, the top 8 bits choose it. */
static uint32_t bucket_of(uint64_t value)
{
    if (value < STEPS) {
        return (uint32_t)value;
    }
    uint32_t top = 63 - (uint32_t)__builtin_clzll(value);
    uint32_t shift = top - GB_HISTOGRAM_STEP_BITS;
    return (shift << GB_HISTOGRAM_STEP_BITS) + (uint32_t)(value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
    if (bucket < 2 * STEPS) {
        return bucket;
    }
    uint32_t shift = (bucket >> GB_HISTOGRAM_STEP_BITS) - 1;
    uint64_t step = (bucket & (STEPS - 1)) + STEPS;
    return (step << shift) + ((UINT64_C(1) << shift) - 1);
}

void gb_histogram_add(struct gb_histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->sum += (double)value;
    histogram->least = gb_min(histogram->least, value);
    histogram->most = gb_max(histogram->most, value);
    histogram->buckets[bucket_of(value)]++;
}

void gb_histogram_merge(struct gb_histogram *into, const struct gb_histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    into->least = gb_min(into->least, from->least);
    into->most = gb_max(into->most, from->most);
    for (uint32_t i = 0; i < GB_HISTOGRAM_BUCKETS; i++) {
        into->buckets[i] += from->buckets[i];
    }
}

double gb_histogram_mean(const struct gb_histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum / (double)histogram->count;
}

double gb_histogram_quantile(const struct gb_histogram *histogram, double quantile)
{
    if (histogram->count == 0) {
        return 0;
    }
    double wanted = ceil(quantile * (double)histogram->count);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < GB_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted) {
            return (double)gb_max(histogram->least, gb_min(bucket_end(i), histogram->most));
        }
    }
    return (double)histogram->most;
}

int gb_histogram_next(const struct gb_histogram *histogram, uint32_t *cursor, double *value,
                      double *share)
{
    uint32_t at = *cursor;
    while (at < GB_HISTOGRAM_BUCKETS && histogram->buckets[at] == 0) {
        at++;
    }
    if (at == GB_HISTOGRAM_BUCKETS) {
        return 0;
    }
    double before = *cursor == 0 ? 0 : *share;
    *share = before + (double)histogram->buckets[at] / (double)histogram->count;
    *value = (double)gb_min(bucket_end(at), histogram->most);
    *cursor = at + 1;
    return 1;
}
