/* Range and If-Range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/rng.h"
#include "proto/http_range.h"

/* "first+len first+len ..." of what a field asks for; "whole" or "none". */
static const char *resolved(const char *field, uint64_t size)
{
    static char text[8192];
    struct gb_http_ranges ranges;
    switch (gb_http_range_resolve(gb_http_text_of(field), size, &ranges)) {
    case GB_HTTP_RANGE_WHOLE:
        assert_true(ranges.count == 0);
        return "whole";
    case GB_HTTP_RANGE_NONE:
        assert_true(ranges.count == 0);
        return "none";
    case GB_HTTP_RANGE_PART:
        break;
    }
    int len = 0;
    for (size_t i = 0; i < ranges.count; i++) {
        len +=
            snprintf(text + len, sizeof(text) - (size_t)len, "%s%llu+%llu", i > 0 ? " " : "",
                     (unsigned long long)ranges.at[i].first, (unsigned long long)ranges.at[i].len);
    }
    return text;
}

static void the_examples_of_the_rfc__hold(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=0-499", 10000), "0+500");
    assert_string_equal(resolved("bytes=500-999", 10000), "500+500");
    assert_string_equal(resolved("bytes=-500", 10000), "9500+500");
    assert_string_equal(resolved("bytes=9500-", 10000), "9500+500");
    assert_string_equal(resolved("bytes=0-0,-1", 10000), "0+1 9999+1");
    assert_string_equal(resolved("bytes= 0-999, 4500-5499, -1000", 10000),
                        "0+1000 4500+1000 9000+1000");
    assert_string_equal(resolved("bytes=500-600,601-999", 10000), "500+500");
    assert_string_equal(resolved("bytes=500-700,601-999", 10000), "500+500");
}

static void a_range__ends_where_the_object_does(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=0-", 10), "0+10");
    assert_string_equal(resolved("bytes=9-100", 10), "9+1");
    assert_string_equal(resolved("bytes=-100", 10), "0+10");
    assert_string_equal(resolved("bytes=3-18446744073709551615", 10), "3+7");
    assert_string_equal(resolved("bytes=3-99999999999999999999999", 10), "3+7");
    assert_string_equal(resolved("bytes=-99999999999999999999999", 10), "0+10");
    assert_string_equal(resolved("bytes=0-", UINT64_MAX), "0+18446744073709551615");
    assert_string_equal(resolved("bytes=-1", UINT64_MAX), "18446744073709551614+1");
}

static void what_lies_behind_the_end__cannot_be_satisfied(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=10-", 10), "none");
    assert_string_equal(resolved("bytes=10-20,30-40", 10), "none");
    assert_string_equal(resolved("bytes=-0", 10), "none");
    assert_string_equal(resolved("bytes=99999999999999999999999-", 10), "none");
    assert_string_equal(resolved("bytes=10-20,2-3", 10), "2+2");
    assert_string_equal(resolved("bytes=0-", 0), "none");
    assert_string_equal(resolved("bytes=0-0", 0), "none");
    assert_string_equal(resolved("bytes=-0", 0), "none");
}

static void the_last_bytes_of_nothing__are_nothing_whole(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=-5", 0), "whole");
    assert_string_equal(resolved("bytes=7-,-5", 0), "whole");
}

static void what_is_no_range__is_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {
        NULL,          "",
        "bytes",       "bytes=",
        "bytes=,",     "bytes =0-1",
        "octets=0-1",  "bytes:0-1",
        "bytes=1",     "bytes=-",
        "bytes=a-b",   "bytes=5-3",
        "bytes=1-2-3", "bytes=--1",
        "bytes=1 -2",  "bytes=1- 2",
        "bytes=0x1-2", "bytes=+1-2",
        "bytes=0-1,x", "bytes=0-1;2-3",
        "0-1",         "bytes=0-1, 5-3",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (strcmp(resolved(bad[i], 10), "whole") != 0) {
            fail_msg("'%s' is '%s'", bad[i], resolved(bad[i], 10));
        }
    }
}

static void the_unit__may_be_in_either_case(void **state)
{
    (void)state;
    assert_string_equal(resolved("BYTES=0-1", 10), "0+2");
    assert_string_equal(resolved(" bytes=0-1\t", 10), "0+2");
    assert_string_equal(resolved("bytes=,0-1,,", 10), "0+2");
}

static void ranges_near_each_other__become_one(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=0-9,90-99", 1000), "0+100");
    assert_string_equal(resolved("bytes=0-9,91-99", 1000), "0+10 91+9");
    assert_string_equal(resolved("bytes=90-99,0-9", 1000), "0+100");
    assert_string_equal(resolved("bytes=0-,0-,5-,-1", 1000), "0+1000");
    /* The third joins the first two. */
    assert_string_equal(resolved("bytes=500-509,300-309,310-499", 1000), "300+210");
    assert_string_equal(resolved("bytes=900-,500-509,0-0,300-499", 1000), "900+100 300+210 0+1");
}

static void ranges__keep_the_order_in_which_they_are_asked_for(void **state)
{
    (void)state;
    assert_string_equal(resolved("bytes=900-909,100-109,500-509", 1000), "900+10 100+10 500+10");
}

static void too_many_ranges__are_ignored(void **state)
{
    (void)state;
    char field[8192] = "bytes=";
    for (int i = 0; i < GB_HTTP_RANGES_MAX; i++) {
        (void)snprintf(field + strlen(field), sizeof(field) - strlen(field), "%d-%d,", i * 1000,
                       i * 1000);
    }
    struct gb_http_ranges ranges;
    assert_int_equal(gb_http_range_resolve(gb_http_text_of(field), 1000000, &ranges),
                     GB_HTTP_RANGE_PART);
    assert_true(ranges.count == GB_HTTP_RANGES_MAX);
    strcat(field, "7-7");
    assert_string_equal(resolved(field, 1000000), "whole");
}

/* Random fields against a table of bytes. */
static void ranges__cover_what_was_asked_for_and_no_byte_twice(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (int round = 0; round < 5000; round++) {
        enum { SIZE = 2000 };
        static bool asked[SIZE];
        static int sent[SIZE];
        memset(asked, 0, sizeof(asked));
        memset(sent, 0, sizeof(sent));
        char field[1024] = "bytes=";
        for (uint64_t count = 1 + gb_rng_below(&rng, 12); count > 0; count--) {
            uint64_t first = gb_rng_below(&rng, SIZE);
            uint64_t last = gb_min(first + gb_rng_below(&rng, 60), SIZE - 1);
            (void)snprintf(field + strlen(field), sizeof(field) - strlen(field), "%llu-%llu,",
                           (unsigned long long)first, (unsigned long long)last);
            memset(asked + first, true, last - first + 1);
        }
        struct gb_http_ranges ranges;
        assert_int_equal(gb_http_range_resolve(gb_http_text_of(field), SIZE, &ranges),
                         GB_HTTP_RANGE_PART);
        for (size_t i = 0; i < ranges.count; i++) {
            assert_true(asked[ranges.at[i].first]);
            assert_true(asked[ranges.at[i].first + ranges.at[i].len - 1]);
            for (uint64_t j = 0; j < ranges.at[i].len; j++) {
                sent[ranges.at[i].first + j]++;
            }
        }
        for (size_t i = 0; i < SIZE; i++) {
            assert_true(sent[i] <= 1);
            assert_true(!asked[i] || sent[i] == 1);
        }
    }
}

static const char etag[] = "\"abc\"";

static bool holds(const char *field)
{
    return gb_http_range_if(gb_http_text_of(field), gb_http_text_of(etag), 784111777, 784111778);
}

static void if_range__compares_tags_strongly(void **state)
{
    (void)state;
    assert_true(holds(NULL));
    assert_true(holds("\"abc\""));
    assert_true(holds(" \"abc\" "));
    assert_false(holds("\"abd\""));
    assert_false(holds("W/\"abc\""));
    assert_false(holds("abc"));
    assert_false(holds("*"));
    assert_false(holds(""));
    assert_false(holds("\"abc\", \"abd\""));
    assert_false(gb_http_range_if(GB_HTTP_TEXT("W/\"abc\""), GB_HTTP_TEXT("W/\"abc\""), 0, 10));
}

static void if_range__holds_for_the_very_date(void **state)
{
    (void)state;
    assert_true(holds("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_true(holds("Sunday, 06-Nov-94 08:49:37 GMT"));
    assert_false(holds("Sun, 06 Nov 1994 08:49:38 GMT"));
    assert_false(holds("Sun, 06 Nov 1994 08:49:36 GMT"));
    assert_false(holds("Wed, 06 Nov 1994"));
}

static void a_date_of_this_second__is_no_strong_validator(void **state)
{
    (void)state;
    assert_false(gb_http_range_if(GB_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 GMT"),
                                  gb_http_text_of(etag), 784111777, 784111777));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc__hold),
        cmocka_unit_test(a_range__ends_where_the_object_does),
        cmocka_unit_test(what_lies_behind_the_end__cannot_be_satisfied),
        cmocka_unit_test(the_last_bytes_of_nothing__are_nothing_whole),
        cmocka_unit_test(what_is_no_range__is_ignored),
        cmocka_unit_test(the_unit__may_be_in_either_case),
        cmocka_unit_test(ranges_near_each_other__become_one),
        cmocka_unit_test(ranges__keep_the_order_in_which_they_are_asked_for),
        cmocka_unit_test(too_many_ranges__are_ignored),
        cmocka_unit_test(ranges__cover_what_was_asked_for_and_no_byte_twice),
        cmocka_unit_test(if_range__compares_tags_strongly),
        cmocka_unit_test(if_range__holds_for_the_very_date),
        cmocka_unit_test(a_date_of_this_second__is_no_strong_validator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
