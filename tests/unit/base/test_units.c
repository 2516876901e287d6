/* Sizes, rates, durations and counts: what parses, what does not, and what is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"

struct sample {
    const char *text;
    int result;
    uint64_t value;
};

typedef int (*parse_fn)(const char *text, uint64_t *out);

static void check_all(parse_fn parse, const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 77;
        int result = parse(samples[i].text, &value);
        if (result != samples[i].result) {
            fail_msg("\"%s\" gave %d, not %d", samples[i].text, result, samples[i].result);
        }
        uint64_t expected = result == 0 ? samples[i].value : 77;
        if (value != expected) {
            fail_msg("\"%s\" became %llu, not %llu", samples[i].text, (unsigned long long)value,
                     (unsigned long long)expected);
        }
    }
}

#define CHECK_ALL(parse, samples) check_all(parse, samples, sizeof(samples) / sizeof((samples)[0]))

static void size__reads_what_people_write(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"0", 0, 0},
        {"1", 0, 1},
        {"512B", 0, 512},
        {"4G", 0, UINT64_C(4) << 30},
        {"512KiB", 0, 512 << 10},
        {"512 kib", 0, 512 << 10},
        {"1.5M", 0, 3 << 19},
        {"1.50M", 0, 3 << 19},
        {"2.0B", 0, 2},
        {"64KB", 0, 64 << 10},
        {"3T", 0, UINT64_C(3) << 40},
        {"0.5P", 0, UINT64_C(1) << 49},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"16384P", -ERANGE, 0},
        {"16383P", 0, UINT64_C(16383) << 50},
        {"99999999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"1  K", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"K", -EINVAL, 0},
        {".5K", -EINVAL, 0},
        {"5.K", -EINVAL, 0},
        {"1.5", -EINVAL, 0},
        {"0.3K", -EINVAL, 0},
        {"1.1.1K", -EINVAL, 0},
        {"1KiBs", -EINVAL, 0},
        {"1X", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
        {"1.0000000000001G", -EINVAL, 0},
    };
    CHECK_ALL(gb_units_parse_size, samples);
}

static void rate__counts_in_decimal_bits(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"937mbit", 0, 937000000},
        {"937 Mbit/s", 0, 937000000},
        {"10gbit", 0, UINT64_C(10000000000)},
        {"100kbit", 0, 100000},
        {"0.937gbit", 0, 937000000},
        {"1tbit", 0, UINT64_C(1000000000000)},
        {"9600", 0, 9600},
        {"9600bit/s", 0, 9600},
        {"0.5bit", -EINVAL, 0},
        {"10g", -EINVAL, 0},
        {"10mbyte", -EINVAL, 0},
        {"10mbit/h", -EINVAL, 0},
        {"/s", -EINVAL, 0},
        {"10/s", -EINVAL, 0},
        {"99999999tbit", -ERANGE, 0},
    };
    CHECK_ALL(gb_units_parse_rate, samples);
}

static void duration__needs_a_unit_unless_it_is_zero(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"0", 0, 0},
        {"0s", 0, 0},
        {"7ns", 0, 7},
        {"40us", 0, 40000},
        {"5ms", 0, 5000000},
        {"1.5s", 0, 1500000000},
        {"10m", 0, UINT64_C(600000000000)},
        {"10min", 0, UINT64_C(600000000000)},
        {"2h", 0, UINT64_C(7200000000000)},
        {"1d", 0, UINT64_C(86400000000000)},
        {"1w", 0, UINT64_C(604800000000000)},
        {"5", -EINVAL, 0},
        {"1h30m", -EINVAL, 0},
        {"0.5ns", -EINVAL, 0},
        {"1000000w", -ERANGE, 0},
    };
    CHECK_ALL(gb_units_parse_duration, samples);
}

static void count__takes_decimal_multiples(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"250", 0, 250},         {"10k", 0, 10000},   {"2M", 0, 2000000},
        {"1.5G", 0, 1500000000}, {"1.5", -EINVAL, 0}, {"10 kib", -EINVAL, 0},
    };
    CHECK_ALL(gb_units_parse_count, samples);
}

static void real__stays_within_its_bounds(void **state)
{
    (void)state;
    double value = 77;
    assert_int_equal(gb_units_parse_real("0.125", 0, 1, &value), 0);
    assert_true(value == 0.125);
    assert_int_equal(gb_units_parse_real("1.01", 0, 1, &value), -ERANGE);
    assert_int_equal(gb_units_parse_real("-0.1", 0, 1, &value), -ERANGE);
    assert_int_equal(gb_units_parse_real("nan", 0, 1, &value), -EINVAL);
    assert_int_equal(gb_units_parse_real("inf", 0, 1, &value), -ERANGE);
    assert_int_equal(gb_units_parse_real("", 0, 1, &value), -EINVAL);
    assert_int_equal(gb_units_parse_real("0.5x", 0, 1, &value), -EINVAL);
    assert_int_equal(gb_units_parse_real(" 0.5", 0, 1, &value), -EINVAL);
    assert_true(value == 0.125);
}

static void format__prints_three_figures(void **state)
{
    (void)state;
    char text[GB_UNITS_TEXT];
    assert_string_equal(gb_units_format_size(text, sizeof(text), 0), "0 B");
    assert_string_equal(gb_units_format_size(text, sizeof(text), 1023), "1023 B");
    assert_string_equal(gb_units_format_size(text, sizeof(text), 26931), "26.3 KiB");
    assert_string_equal(gb_units_format_size(text, sizeof(text), UINT64_C(66693472653)),
                        "62.1 GiB");
    assert_string_equal(gb_units_format_size(text, sizeof(text), UINT64_MAX), "16 EiB");
    assert_string_equal(gb_units_format_rate(text, sizeof(text), 937000000), "937 Mbit/s");
    assert_string_equal(gb_units_format_rate(text, sizeof(text), UINT64_C(100000000000)),
                        "100 Gbit/s");
    assert_string_equal(gb_units_format_duration(text, sizeof(text), 12916), "12.9 us");
    assert_string_equal(gb_units_format_duration(text, sizeof(text), 5000000), "5 ms");
    assert_string_equal(gb_units_format_duration(text, sizeof(text), 999999), "1 ms");
    assert_string_equal(gb_units_format_duration(text, sizeof(text), UINT64_C(65000000000)),
                        "1m 05s");
    assert_string_equal(gb_units_format_duration(text, sizeof(text), UINT64_C(7380000000000)),
                        "2h 03m");
    assert_string_equal(gb_units_format_count(text, sizeof(text), 6141630), "6,141,630");
    assert_string_equal(gb_units_format_count(text, sizeof(text), 999), "999");
    assert_string_equal(gb_units_format_count(text, sizeof(text), 0), "0");
}

static void format__cuts_what_does_not_fit(void **state)
{
    (void)state;
    char text[4];
    assert_true(strlen(gb_units_format_count(text, sizeof(text), 1234567)) < sizeof(text));
    assert_true(strlen(gb_units_format_size(text, sizeof(text), 1234567)) < sizeof(text));
}

static void exact_size__parses_to_itself(void **state)
{
    (void)state;
    uint64_t seed = 20240607;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (int i = 0; i < 10000; i++) {
        uint64_t size = gb_rng_next(&rng) >> gb_rng_below(&rng, 64) << gb_rng_below(&rng, 64);
        char text[GB_UNITS_TEXT];
        uint64_t back = ~size;
        assert_int_equal(
            gb_units_parse_size(gb_units_format_size_exact(text, sizeof(text), size), &back), 0);
        assert_true(back == size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size__reads_what_people_write),
        cmocka_unit_test(rate__counts_in_decimal_bits),
        cmocka_unit_test(duration__needs_a_unit_unless_it_is_zero),
        cmocka_unit_test(count__takes_decimal_multiples),
        cmocka_unit_test(real__stays_within_its_bounds),
        cmocka_unit_test(format__prints_three_figures),
        cmocka_unit_test(format__cuts_what_does_not_fit),
        cmocka_unit_test(exact_size__parses_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
