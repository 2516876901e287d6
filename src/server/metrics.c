/* Counters and latency histograms. */
#include "server/metrics.h"

#include "base/assert.h"

#define GB_X(name_, help_) {.name = #name_, .help = (help_)},
const struct gb_metrics_name gb_metrics_op_names[] = {GB_METRICS_OPS(GB_X)};
const struct gb_metrics_name gb_metrics_tier_names[] = {GB_METRICS_TIERS(GB_X)};
const struct gb_metrics_name gb_metrics_counter_names[] = {GB_METRICS_COUNTERS(GB_X)};
#undef GB_X

#define LEAST_SHIFT 10u /* buckets begin at 1,024 ns */
#define STEP_BITS   3u
_Static_assert(1u << STEP_BITS == GB_METRICS_STEPS, "the step is read off the top bits");

/* Bucket 0: below 1,024 ns; the last: beyond the octaves. */
static unsigned bucket_of(uint64_t duration_ns)
{
    if (duration_ns < (1u << LEAST_SHIFT)) {
        return 0;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(duration_ns);
    unsigned octave = top - LEAST_SHIFT;
    if (octave >= GB_METRICS_OCTAVES) {
        return GB_METRICS_BUCKETS - 1;
    }
    unsigned step = (unsigned)(duration_ns >> (top - STEP_BITS)) & (GB_METRICS_STEPS - 1);
    return 1 + octave * GB_METRICS_STEPS + step;
}

uint64_t gb_metrics_bound_ns(unsigned bucket)
{
    GB_ASSERT(bucket < GB_METRICS_BUCKETS);
    if (bucket == GB_METRICS_BUCKETS - 1) {
        return UINT64_MAX;
    }
    unsigned octave = bucket / GB_METRICS_STEPS;
    unsigned step = bucket % GB_METRICS_STEPS;
    return (uint64_t)(GB_METRICS_STEPS + step) << (LEAST_SHIFT + octave - STEP_BITS);
}

static void add(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

void gb_metrics_time(struct gb_metrics *metrics, enum gb_metrics_op op, enum gb_metrics_tier tier,
                     uint64_t duration_ns)
{
    struct gb_metrics_histogram *histogram = &metrics->latency[op][tier];
    add(&histogram->buckets[bucket_of(duration_ns)], 1);
    add(&histogram->sum_ns, duration_ns);
}

void gb_metrics_end(struct gb_metrics *metrics, unsigned why)
{
    GB_ASSERT(why < GB_METRICS_ENDS);
    add(&metrics->ends[why], 1);
}

static uint64_t get(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void sum_times(struct gb_metrics_times *times, const struct gb_metrics_histogram *from)
{
    for (unsigned i = 0; i < GB_METRICS_BUCKETS; i++) {
        uint64_t n = get(&from->buckets[i]);
        times->buckets[i] += n;
        times->count += n;
    }
    times->sum_ns += get(&from->sum_ns);
}

void gb_metrics_sum(struct gb_metrics_snapshot *snapshot, const struct gb_metrics *metrics)
{
    for (unsigned i = 0; i < GB_METRICS_COUNTER_COUNT; i++) {
        snapshot->counters[i] += get(&metrics->counters[i]);
    }
    for (unsigned i = 0; i < GB_METRICS_ENDS; i++) {
        snapshot->ends[i] += get(&metrics->ends[i]);
    }
    for (unsigned op = 0; op < GB_METRICS_OP_COUNT; op++) {
        for (unsigned tier = 0; tier < GB_METRICS_TIER_COUNT; tier++) {
            sum_times(&snapshot->latency[op][tier], &metrics->latency[op][tier]);
        }
    }
}

uint64_t gb_metrics_quantile_ns(const struct gb_metrics_times *times, double share)
{
    uint64_t seen = 0;
    double wanted = share * (double)times->count;
    for (unsigned i = 0; i < GB_METRICS_BUCKETS && times->count > 0; i++) {
        seen += times->buckets[i];
        if (seen > 0 && (double)seen >= wanted) {
            return gb_metrics_bound_ns(i);
        }
    }
    return 0;
}
