/* The progress line's text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/progress.h"

#define SECOND UINT64_C(1000000000)
#define MIB    UINT64_C(1048576)

static void format__shows_bar_rate_and_time_left(void **state)
{
    (void)state;
    char line[GB_PROGRESS_LINE];
    struct gb_progress progress = {.label = "load", .total_bytes = 400 * MIB, .start_ns = SECOND};
    atomic_store(&progress.done_bytes, 100 * MIB);
    assert_string_equal(gb_progress_format(line, &progress, 3 * SECOND),
                        "load [#####...............]  25 %  100 MiB of 400 MiB  50 MiB/s  ETA 7 s");
}

static void format__shows_no_bar_for_an_unknown_total(void **state)
{
    (void)state;
    char line[GB_PROGRESS_LINE];
    struct gb_progress progress = {.label = "put", .start_ns = 0};
    atomic_store(&progress.done_bytes, 10 * MIB);
    assert_string_equal(gb_progress_format(line, &progress, SECOND), "put  10 MiB  10 MiB/s");
}

static void format__survives_the_first_and_the_last_moment(void **state)
{
    (void)state;
    char line[GB_PROGRESS_LINE];
    struct gb_progress progress = {.label = "get", .total_bytes = MIB, .start_ns = SECOND};
    assert_non_null(strstr(gb_progress_format(line, &progress, SECOND), "ETA ?"));
    atomic_store(&progress.done_bytes, 2 * MIB); /* the source grew */
    assert_non_null(strstr(gb_progress_format(line, &progress, 2 * SECOND), "100 %"));
    assert_non_null(strstr(line, "ETA 1 s"));
}

static void add__counts_silently(void **state)
{
    (void)state;
    struct gb_progress progress;
    gb_progress_init(&progress, "load", 100);
    progress.shown = false; /* also when the tests run on a terminal */
    gb_progress_add(&progress, 40);
    gb_progress_add(&progress, 2);
    assert_int_equal(atomic_load(&progress.done_bytes), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format__shows_bar_rate_and_time_left),
        cmocka_unit_test(format__shows_no_bar_for_an_unknown_total),
        cmocka_unit_test(format__survives_the_first_and_the_last_moment),
        cmocka_unit_test(add__counts_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
