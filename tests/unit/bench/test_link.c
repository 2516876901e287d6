/* The idealised link against figures worked out by hand and against the study's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "bench/corpus.h"
#include "bench/link.h"

#define STUDY_RATE_BPS UINT64_C(937000000)

static void chunk__takes_its_bits_over_the_rate_rounded_up(void **state)
{
    (void)state;
    struct gb_link link;
    gb_link_init(&link, 3);
    gb_link_add(&link, &(struct gb_chunk){.bytes = 1, .ready_ns = 0}, 1, 0);
    assert_true(link.wire_ns == 2666666667);
    assert_true(link.total_ns == 2666666667);
    gb_link_init(&link, 8);
    gb_link_add(&link, &(struct gb_chunk){.bytes = 5, .ready_ns = 0}, 1, 0);
    assert_true(link.wire_ns == 5000000000);
}

static void whole_value__waits_for_storage_and_then_for_the_wire(void **state)
{
    (void)state;
    struct gb_link link;
    gb_link_init(&link, UINT64_C(8000000000)); /* a byte a nanosecond */
    gb_link_add(&link, &(struct gb_chunk){.bytes = 1000, .ready_ns = 300}, 1, 300);
    assert_true(link.storage_ns == 300);
    assert_true(link.wire_ns == 1000);
    assert_true(link.total_ns == 1300);
    assert_true(gb_link_overlap_ns(&link) == 0);
}

static void chunks__go_out_while_later_ones_are_read(void **state)
{
    (void)state;
    struct gb_link link;
    gb_link_init(&link, UINT64_C(8000000000));
    const struct gb_chunk chunks[] = {{100, 10}, {50, 60}, {200, 500}};
    gb_link_add(&link, chunks, 3, 500);
    /* 10..110, waits for the wire: 110..160, waits for storage: 500..700 */
    assert_true(link.total_ns == 700);
    assert_true(link.wire_ns == 350);
    assert_true(gb_link_overlap_ns(&link) == 150);
    assert_true(link.bytes == 350);
    assert_true(link.requests == 1);
}

static void empty_request__only_spends_its_storage_time(void **state)
{
    (void)state;
    struct gb_link link;
    gb_link_init(&link, 1000);
    gb_link_add(&link, NULL, 0, 77);
    assert_true(link.total_ns == 77 && link.wire_ns == 0 && link.storage_ns == 77);
    assert_true(gb_link_overlap_ns(&link) == 0);
}

static void huge_chunk__does_not_overflow(void **state)
{
    (void)state;
    struct gb_link link;
    gb_link_init(&link, UINT64_C(8000000000));
    gb_link_add(&link, &(struct gb_chunk){.bytes = UINT64_C(64) << 30, .ready_ns = 5}, 1, 5);
    assert_true(link.wire_ns == UINT64_C(64) << 30);
    /* Both ways of computing agree around the border between them. */
    for (uint64_t bytes = UINT64_C(2305843008); bytes <= UINT64_C(2305843011); bytes++) {
        gb_link_init(&link, STUDY_RATE_BPS);
        gb_link_add(&link, &(struct gb_chunk){.bytes = bytes, .ready_ns = 0}, 1, 0);
        long double exact = ceill((long double)bytes * 8e9L / (long double)STUDY_RATE_BPS);
        assert_true(link.wire_ns == (uint64_t)exact);
    }
}

/* 6,141,630 requests that return 285,757,364,203 bytes need 2,439.768 s of wire, of which three
 * milliseconds are the rounding up of each. */
static void study__wire_time_comes_out_as_published(void **state)
{
    (void)state;
    struct gb_rng rng;
    gb_rng_init(&rng, 5);
    struct gb_link link;
    gb_link_init(&link, STUDY_RATE_BPS);
    uint64_t mean = GB_STUDY_REQUEST_BYTES / GB_STUDY_REQUESTS;
    for (uint64_t i = 0; i + 2 < GB_STUDY_REQUESTS; i += 2) {
        uint64_t more = gb_rng_below(&rng, mean);
        struct gb_chunk pair[] = {{mean + more, 0}, {mean - more, 0}};
        gb_link_add(&link, &pair[0], 1, 0);
        gb_link_add(&link, &pair[1], 1, 0);
    }
    while (link.requests < GB_STUDY_REQUESTS) {
        uint64_t left = GB_STUDY_REQUEST_BYTES - link.bytes;
        uint64_t share = link.requests + 1 == GB_STUDY_REQUESTS ? left : left / 2;
        gb_link_add(&link, &(struct gb_chunk){.bytes = share, .ready_ns = 0}, 1, 0);
    }
    assert_true(link.bytes == GB_STUDY_REQUEST_BYTES);
    assert_true(fabs((double)link.wire_ns / 1e9 - 2439.768) < 0.001);
    assert_true(fabs(gb_link_wire_mib_s(&link) - 111.70) < 0.005);
}

static void study__rates_follow_from_its_totals(void **state)
{
    (void)state;
    struct gb_link link = {.rate_bps = STUDY_RATE_BPS,
                           .bytes = GB_STUDY_REQUEST_BYTES,
                           .storage_ns = UINT64_C(946484000000),
                           .wire_ns = UINT64_C(2439768000000),
                           .total_ns = UINT64_C(2772919000000)};
    assert_true(fabs(gb_link_mib_s(&link) - 98.28) < 0.005);
    assert_true(gb_link_overlap_ns(&link) == INT64_C(613333000000));
    link.storage_ns = UINT64_C(1628405000000);
    link.wire_ns = UINT64_C(2439767000000);
    link.total_ns = UINT64_C(4068172000000);
    assert_true(fabs(gb_link_mib_s(&link) - 66.99) < 0.005);
    assert_true(gb_link_overlap_ns(&link) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk__takes_its_bits_over_the_rate_rounded_up),
        cmocka_unit_test(whole_value__waits_for_storage_and_then_for_the_wire),
        cmocka_unit_test(chunks__go_out_while_later_ones_are_read),
        cmocka_unit_test(empty_request__only_spends_its_storage_time),
        cmocka_unit_test(huge_chunk__does_not_overflow),
        cmocka_unit_test(study__wire_time_comes_out_as_published),
        cmocka_unit_test(study__rates_follow_from_its_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
