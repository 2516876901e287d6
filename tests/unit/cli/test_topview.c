/* What goblin top makes of two samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/topview.h"

static const char early[] =
    "# HELP goblin_gets_total gets\n"
    "goblin_gets_total 100\n"
    "goblin_hits_total 100\n"
    "goblin_server_uptime_seconds 10\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"0.001\"} 100\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"0.002\"} 100\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"+Inf\"} 100\n"
    "goblin_request_seconds_sum{op=\"get\",tier=\"ram\"} 0.1\n"
    "goblin_request_seconds_count{op=\"get\",tier=\"ram\"} 100\n";
static const char late[] =
    "goblin_gets_total 120\n"
    "goblin_hits_total 110\n"
    "goblin_hits_resident_total 5\n"
    "goblin_disk_used_bytes 1048576\n"
    "goblin_disk_bytes 2097152\n"
    "goblin_server_uptime_seconds 12\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"0.001\"} 104\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"0.002\"} 120\n"
    "goblin_request_seconds_bucket{op=\"get\",tier=\"ram\",le=\"+Inf\"} 120\n"
    "goblin_request_seconds_sum{op=\"get\",tier=\"ram\"} 0.16\n"
    "goblin_request_seconds_count{op=\"get\",tier=\"ram\"} 120\n";

static char *view(const char *now, const char *before, double seconds)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    gb_topview_write(out, "here", now, before, seconds);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void topview__finds_whole_names_only(void **state)
{
    (void)state;
    assert_true(gb_topview_value(late, "goblin_gets_total") == 120);
    assert_true(gb_topview_value(late, "goblin_gets") == 0);
    assert_true(gb_topview_value(late, "gets_total") == 0);
    assert_true(gb_topview_value("", "goblin_gets_total") == 0);
}

static void topview__shows_what_was_added_between_two_samples(void **state)
{
    (void)state;
    char *text = view(late, early, 2);
    assert_non_null(strstr(text, "per second: 10 gets"));
    assert_non_null(strstr(text, "50.0 % of gets, 25.0 % from RAM alone"));
    assert_non_null(strstr(text, "disk     [############            ] 1 MiB of 2 MiB"));
    /* Of 20 new answers 4 came within 1 ms, the others within 2 ms; 60 ms together. */
    assert_non_null(strstr(text, "get      ram              10       3 ms       2 ms       2 ms"));
    free(text);
}

static void topview__shows_all_since_the_start_without_an_older_sample(void **state)
{
    (void)state;
    char *text = view(late, NULL, 0);
    assert_non_null(strstr(text, "per second: 10 gets"));
    assert_non_null(strstr(text, "91.7 % of gets"));
    assert_non_null(strstr(text, "get      ram              10"));
    free(text);
}

static void topview__takes_a_server_that_started_anew_for_idle(void **state)
{
    (void)state;
    char *text = view(early, late, 2);
    assert_non_null(strstr(text, "per second: 0 gets"));
    assert_non_null(strstr(text, "no gets"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topview__finds_whole_names_only),
        cmocka_unit_test(topview__shows_what_was_added_between_two_samples),
        cmocka_unit_test(topview__shows_all_since_the_start_without_an_older_sample),
        cmocka_unit_test(topview__takes_a_server_that_started_anew_for_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
