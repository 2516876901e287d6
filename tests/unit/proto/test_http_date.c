/* HTTP's dates. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "proto/http_date.h"

#define NOVEMBER_1994 INT64_C(784111777)
#define JANUARY_2026  INT64_C(1767225600)

static int64_t parsed(const char *text)
{
    int64_t time_s = 0;
    if (gb_http_date_parse(gb_http_text_of(text), JANUARY_2026, &time_s) != 0) {
        fail_msg("'%s' was refused", text);
    }
    return time_s;
}

static void all_three_forms__are_read(void **state)
{
    (void)state;
    assert_true(parsed("Sun, 06 Nov 1994 08:49:37 GMT") == NOVEMBER_1994);
    assert_true(parsed("Sunday, 06-Nov-94 08:49:37 GMT") == NOVEMBER_1994);
    assert_true(parsed("Sun Nov  6 08:49:37 1994") == NOVEMBER_1994);
    assert_true(parsed("Thu, 01 Jan 1970 00:00:00 GMT") == 0);
    assert_true(parsed("Wed, 31 Dec 1969 23:59:59 GMT") == -1);
    assert_true(parsed("Wed Nov 16 08:49:37 1994") == NOVEMBER_1994 + 10 * 86400);
}

static void every_day_and_month__has_its_name(void **state)
{
    (void)state;
    static const char *const long_names[] = {"Thursday", "Friday",  "Saturday", "Sunday",
                                             "Monday",   "Tuesday", "Wednesday"};
    for (int64_t day = 0; day < 366; day++) {
        char text[GB_HTTP_DATE_LEN + 1];
        char other[64];
        int64_t time_s = JANUARY_2026 + day * 86400;
        assert_true(parsed(gb_http_date_write(time_s, text)) == time_s);
        (void)snprintf(other, sizeof(other), "%s, %.2s-%.3s-%.2s 00:00:00 GMT", long_names[day % 7],
                       text + 5, text + 8, text + 14);
        assert_true(parsed(other) == time_s);
        assert_memory_equal(text, long_names[day % 7], 3);
    }
}

static void a_day_of_the_week__is_not_checked_against_the_date(void **state)
{
    (void)state;
    assert_true(parsed("Mon, 06 Nov 1994 08:49:37 GMT") == NOVEMBER_1994);
}

static void a_leap_second__is_the_next_one(void **state)
{
    (void)state;
    assert_true(parsed("Sat, 31 Dec 2016 23:59:60 GMT") == parsed("Sun, 01 Jan 2017 00:00:00 GMT"));
}

static void two_digits_of_a_year__lie_at_most_fifty_years_ahead(void **state)
{
    (void)state;
    assert_true(parsed("Friday, 01-Jan-76 00:00:00 GMT") ==
                parsed("Wed, 01 Jan 2076 00:00:00 GMT"));
    assert_true(parsed("Saturday, 01-Jan-77 00:00:00 GMT") ==
                parsed("Sat, 01 Jan 1977 00:00:00 GMT"));
    assert_true(parsed("Friday, 01-Jan-00 00:00:00 GMT") ==
                parsed("Sat, 01 Jan 2000 00:00:00 GMT"));
}

static void what_is_no_date__is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "0",
        "-1",
        "Sun",
        "Sun,",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 29 Feb 2023 08:49:37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sunday 06-Nov-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov 06 08:49:37 1994x",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t time_s = 77;
        if (gb_http_date_parse(gb_http_text_of(bad[i]), JANUARY_2026, &time_s) != -EINVAL) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_true(time_s == 77);
    }
    int64_t time_s = 0;
    assert_int_equal(gb_http_date_parse((struct gb_http_text){NULL, 0}, 0, &time_s), -EINVAL);
}

static void leap_days__exist(void **state)
{
    (void)state;
    assert_true(parsed("Tue, 29 Feb 2000 00:00:00 GMT") == INT64_C(951782400));
    assert_true(parsed("Thu, 29 Feb 2024 00:00:00 GMT") == INT64_C(1709164800));
}

static void what_is_written__is_an_imf_fixdate(void **state)
{
    (void)state;
    char text[GB_HTTP_DATE_LEN + 1];
    assert_string_equal(gb_http_date_write(NOVEMBER_1994, text), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(gb_http_date_write(0, text), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(gb_http_date_write(-1, text), "Wed, 31 Dec 1969 23:59:59 GMT");
    assert_string_equal(gb_http_date_write(INT64_MAX, text), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_string_equal(gb_http_date_write(INT64_MIN, text), "Sat, 01 Jan 0000 00:00:00 GMT");
}

static void dates__agree_with_the_c_library(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        /* The years 0 to 9999. */
        int64_t time_s = (int64_t)gb_rng_below(&rng, UINT64_C(315569433600)) - INT64_C(62167219200);
        char ours[GB_HTTP_DATE_LEN + 1];
        char theirs[128];
        struct tm tm;
        time_t as_time = (time_t)time_s;
        assert_non_null(gmtime_r(&as_time, &tm));
        char date[32];
        assert_true(strftime(date, sizeof(date), "%H:%M:%S GMT", &tm) > 0);
        static const char days[] = "SunMonTueWedThuFriSat";
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        (void)snprintf(theirs, sizeof(theirs), "%.3s, %02d %.3s %04d %s", days + 3 * tm.tm_wday,
                       tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, date);
        assert_string_equal(gb_http_date_write(time_s, ours), theirs);
        assert_true(parsed(ours) == time_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_three_forms__are_read),
        cmocka_unit_test(every_day_and_month__has_its_name),
        cmocka_unit_test(a_day_of_the_week__is_not_checked_against_the_date),
        cmocka_unit_test(a_leap_second__is_the_next_one),
        cmocka_unit_test(two_digits_of_a_year__lie_at_most_fifty_years_ahead),
        cmocka_unit_test(what_is_no_date__is_refused),
        cmocka_unit_test(leap_days__exist),
        cmocka_unit_test(what_is_written__is_an_imf_fixdate),
        cmocka_unit_test(dates__agree_with_the_c_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
