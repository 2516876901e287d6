/* Quantiles of the log-linear histogram against sorted values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "bench/histogram.h"

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static struct gb_histogram histogram;

static void empty__answers_zero(void **state)
{
    (void)state;
    gb_histogram_init(&histogram);
    assert_true(gb_histogram_mean(&histogram) == 0);
    assert_true(gb_histogram_quantile(&histogram, 0.5) == 0);
    uint32_t cursor = 0;
    double value;
    double share = 0;
    assert_int_equal(gb_histogram_next(&histogram, &cursor, &value, &share), 0);
}

static void small_values__are_exact(void **state)
{
    (void)state;
    gb_histogram_init(&histogram);
    for (uint64_t i = 1; i <= 100; i++) {
        gb_histogram_add(&histogram, i);
    }
    assert_true(gb_histogram_mean(&histogram) == 50.5);
    assert_true(gb_histogram_quantile(&histogram, 0.5) == 50);
    assert_true(gb_histogram_quantile(&histogram, 0.99) == 99);
    assert_true(gb_histogram_quantile(&histogram, 1) == 100);
    assert_true(gb_histogram_quantile(&histogram, 0) == 1);
}

static void quantiles__are_within_a_hundredth(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static uint64_t values[COUNT];
    uint64_t seed = 4711;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    gb_histogram_init(&histogram);
    for (int i = 0; i < COUNT; i++) {
        values[i] = gb_rng_next(&rng) >> gb_rng_below(&rng, 64);
        gb_histogram_add(&histogram, values[i]);
    }
    qsort(values, COUNT, sizeof(values[0]), compare);
    const double quantiles[] = {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        double exact = (double)values[(size_t)ceil(quantiles[i] * COUNT) - 1];
        double found = gb_histogram_quantile(&histogram, quantiles[i]);
        assert_true(found >= exact && found <= exact * 1.008);
    }
}

static void extremes__have_a_bucket(void **state)
{
    (void)state;
    gb_histogram_init(&histogram);
    gb_histogram_add(&histogram, UINT64_MAX);
    assert_true(gb_histogram_quantile(&histogram, 1) == (double)UINT64_MAX);
    gb_histogram_add(&histogram, 0);
    assert_true(gb_histogram_quantile(&histogram, 0.5) == 0);
}

static void merge__adds_up(void **state)
{
    (void)state;
    static struct gb_histogram other;
    gb_histogram_init(&histogram);
    gb_histogram_init(&other);
    gb_histogram_add(&histogram, 10);
    gb_histogram_add(&other, 30);
    gb_histogram_add(&other, 2000000);
    gb_histogram_merge(&histogram, &other);
    assert_true(histogram.count == 3 && histogram.least == 10 && histogram.most == 2000000);
    assert_true(gb_histogram_quantile(&histogram, 0.5) == 30);
}

static void walk__ends_at_everything(void **state)
{
    (void)state;
    gb_histogram_init(&histogram);
    for (uint64_t i = 0; i < 1000; i++) {
        gb_histogram_add(&histogram, i * i);
    }
    uint32_t cursor = 0;
    double value = 0;
    double share = 0;
    double last = -1;
    while (gb_histogram_next(&histogram, &cursor, &value, &share)) {
        assert_true(value > last);
        last = value;
    }
    assert_true(fabs(share - 1) < 1e-9);
    assert_true(value == 998001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty__answers_zero),
        cmocka_unit_test(small_values__are_exact),
        cmocka_unit_test(quantiles__are_within_a_hundredth),
        cmocka_unit_test(extremes__have_a_bucket),
        cmocka_unit_test(merge__adds_up),
        cmocka_unit_test(walk__ends_at_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
