/* When the units of a steady rate are due. */
#include "bench/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t second_ns = UINT64_C(1000000000);

static void pace__spaces_units_evenly_and_does_not_drift(void **state)
{
    (void)state;
    struct gb_pace pace = {.started_ns = 5000, .per_s = 3};
    const uint64_t wanted[] = {0, 333333333, 666666666, 1000000000, 1333333333};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        pace.taken = i;
        assert_in_range(gb_pace_due_ns(&pace), 5000 + wanted[i], 5000 + wanted[i] + 1);
    }
    pace.taken = 3 * UINT64_C(86400) * 365;
    assert_int_equal(gb_pace_due_ns(&pace), 5000 + 86400 * 365 * second_ns);
}

/* As the load generator's threads do. */
static void pace__is_shared_by_threads_that_take_places_in_turn(void **state)
{
    (void)state;
    enum { THREADS = 3, UNITS = 30 };
    const struct gb_pace all = {.started_ns = 7, .per_s = 1000};
    uint64_t last = 0;
    for (uint64_t unit = 0; unit < UNITS; unit++) {
        struct gb_pace mine = all;
        mine.taken = unit % THREADS + unit / THREADS * THREADS;
        uint64_t due = gb_pace_due_ns(&mine);
        assert_in_range(due, 7 + unit * 1000000 - (unit > 0), 7 + unit * 1000000);
        assert_true(unit == 0 || due > last);
        last = due;
    }
}

static void pace__without_a_rate_has_everything_due_at_once(void **state)
{
    (void)state;
    const struct gb_pace pace = {.started_ns = 42, .taken = 1000};
    assert_int_equal(gb_pace_due_ns(&pace), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace__spaces_units_evenly_and_does_not_drift),
        cmocka_unit_test(pace__is_shared_by_threads_that_take_places_in_turn),
        cmocka_unit_test(pace__without_a_rate_has_everything_due_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
