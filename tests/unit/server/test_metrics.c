/* Histograms: every time falls where its bounds say, and quantiles are not below the truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/metrics.h"

static struct gb_metrics metrics;
static struct gb_metrics_snapshot snapshot;

static int clear(void **state)
{
    (void)state;
    memset(&metrics, 0, sizeof(metrics));
    memset(&snapshot, 0, sizeof(snapshot));
    return 0;
}

static unsigned bucket_of(uint64_t duration_ns)
{
    (void)clear(NULL);
    gb_metrics_time(&metrics, GB_METRICS_OP_get, GB_METRICS_TIER_ram, duration_ns);
    gb_metrics_sum(&snapshot, &metrics);
    const struct gb_metrics_times *times =
        &snapshot.latency[GB_METRICS_OP_get][GB_METRICS_TIER_ram];
    assert_int_equal(times->count, 1);
    assert_int_equal(times->sum_ns, duration_ns);
    for (unsigned i = 0; i < GB_METRICS_BUCKETS; i++) {
        if (times->buckets[i] == 1) {
            return i;
        }
    }
    fail_msg("%llu ns is in no bucket", (unsigned long long)duration_ns);
    return 0;
}

static void bounds__rise_by_an_eighth_at_most(void **state)
{
    (void)state;
    assert_int_equal(gb_metrics_bound_ns(0), 1024);
    for (unsigned i = 1; i + 1 < GB_METRICS_BUCKETS; i++) {
        uint64_t low = gb_metrics_bound_ns(i - 1);
        uint64_t high = gb_metrics_bound_ns(i);
        assert_true(high > low && (high - low) * 8 <= low);
    }
    assert_int_equal(gb_metrics_bound_ns(GB_METRICS_BUCKETS - 1), UINT64_MAX);
}

static void times__fall_within_their_bounds(void **state)
{
    (void)state;
    static const uint64_t around[] = {0, 1, 1023, 1024, 1025, 5000, 65536, 999999, 1u << 30};
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
        unsigned bucket = bucket_of(around[i]);
        assert_true(around[i] < gb_metrics_bound_ns(bucket));
        assert_true(bucket == 0 || around[i] >= gb_metrics_bound_ns(bucket - 1));
    }
    for (unsigned i = 0; i + 1 < GB_METRICS_BUCKETS; i++) {
        assert_int_equal(bucket_of(gb_metrics_bound_ns(i) - 1), i);
        assert_int_equal(bucket_of(gb_metrics_bound_ns(i)), i + 1);
    }
    assert_int_equal(bucket_of(UINT64_MAX), GB_METRICS_BUCKETS - 1);
}

static void quantiles__of_known_times(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 1000; i++) {
        gb_metrics_time(&metrics, GB_METRICS_OP_put, GB_METRICS_TIER_none, i * 10000);
    }
    gb_metrics_sum(&snapshot, &metrics);
    gb_metrics_sum(&snapshot, &metrics); /* two loops alike */
    const struct gb_metrics_times *times =
        &snapshot.latency[GB_METRICS_OP_put][GB_METRICS_TIER_none];
    assert_int_equal(times->count, 2000);
    assert_int_equal(snapshot.counters[GB_METRICS_requests], 0); /* whoever answers counts them */
    uint64_t median = gb_metrics_quantile_ns(times, 0.5);
    uint64_t most = gb_metrics_quantile_ns(times, 1);
    assert_true(median >= 5000000 && median <= 5000000 / 8 * 9);
    assert_true(most >= 10000000 && most <= 10000000 / 8 * 9);
    assert_true(gb_metrics_quantile_ns(times, 0) >= 10000);
}

static void quantile__of_nothing_is_nothing(void **state)
{
    (void)state;
    assert_int_equal(gb_metrics_quantile_ns(&snapshot.latency[0][0], 0.99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bounds__rise_by_an_eighth_at_most, clear),
        cmocka_unit_test_setup(times__fall_within_their_bounds, clear),
        cmocka_unit_test_setup(quantiles__of_known_times, clear),
        cmocka_unit_test_setup(quantile__of_nothing_is_nothing, clear),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
