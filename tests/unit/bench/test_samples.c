/* The ends of chunks, kept and compared. */
#include "bench/samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { VALUE_BYTES = 1000 };

static unsigned char value[VALUE_BYTES];

static bool same(void *arg, uint64_t offset, const void *data, size_t len)
{
    const unsigned char *right = arg;
    return memcmp(right + offset, data, len) == 0;
}

static int make_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < VALUE_BYTES; i++) {
        value[i] = (unsigned char)(i * 31 + i / 256);
    }
    return 0;
}

/* Hands the value over in chunks of 10, 500 and 490 bytes. */
static void fill(struct gb_samples *samples)
{
    gb_samples_clear(samples);
    gb_samples_add(samples, value, 10);
    gb_samples_add(samples, value + 10, 500);
    gb_samples_add(samples, value + 510, VALUE_BYTES - 510);
}

static void samples_match__sees_a_wrong_byte_at_either_end_of_a_chunk(void **state)
{
    (void)state;
    static const size_t places[] = {0, 9, 10, 73, 446, 509, 510, VALUE_BYTES - 1};
    struct gb_samples samples;
    uint64_t compared = 0;
    assert_int_equal(gb_samples_init(&samples), 0);
    fill(&samples);
    assert_int_equal(samples.bytes, VALUE_BYTES);
    assert_true(gb_samples_match(&samples, same, value, &compared));
    assert_int_equal(compared, 2 * (10 + GB_SAMPLE_BYTES + GB_SAMPLE_BYTES));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        value[places[i]] ^= 1;
        fill(&samples);
        value[places[i]] ^= 1;
        assert_false(gb_samples_match(&samples, same, value, &compared));
    }
    gb_samples_fini(&samples);
}

static void samples_add__counts_bytes_that_nobody_kept(void **state)
{
    (void)state;
    struct gb_samples samples;
    uint64_t compared = 0;
    assert_int_equal(gb_samples_init(&samples), 0);
    gb_samples_clear(&samples);
    gb_samples_add(&samples, NULL, 77);
    for (int i = 0; i < GB_SAMPLES_MAX + 5; i++) {
        gb_samples_add(&samples, value, 1);
    }
    assert_int_equal(samples.bytes, 77 + GB_SAMPLES_MAX + 5);
    assert_int_equal(samples.count, GB_SAMPLES_MAX);
    gb_samples_clear(&samples);
    assert_true(gb_samples_match(&samples, same, value, &compared));
    assert_int_equal(compared, 0);
    gb_samples_fini(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_match__sees_a_wrong_byte_at_either_end_of_a_chunk),
        cmocka_unit_test(samples_add__counts_bytes_that_nobody_kept),
    };
    return cmocka_run_group_tests(tests, make_value, NULL);
}
