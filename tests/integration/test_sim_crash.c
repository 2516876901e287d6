/* Simulated lives of a store, crash after crash: goblin-sim runs more of them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cmocka.h>

#include "sim/simrun.h"

#define FIXED_SEEDS 20u
#define FRESH_SEEDS 30u

static void run_seeds(uint64_t first, uint64_t count, struct simrun_result *sum)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct simrun_result result;
        if (!simrun(seed, false, &result)) {
            fail_msg("goblin-sim --seed %" PRIu64 ": %s", seed, result.why);
        }
        sum->power_cuts += result.power_cuts;
        sum->clean_closes += result.clean_closes;
        sum->crashes += result.crashes;
        sum->reclaimed += result.reclaimed;
    }
}

static void store__keeps_its_promises_through_fixed_crashes(void **state)
{
    (void)state;
    struct simrun_result sum = {0};
    run_seeds(1, FIXED_SEEDS, &sum);
    assert_true(sum.power_cuts > FIXED_SEEDS);
    assert_true(sum.clean_closes > 0);
    assert_true(sum.crashes > sum.clean_closes);
    assert_true(sum.reclaimed > 0);
}

static void store__keeps_its_promises_through_fresh_crashes(void **state)
{
    (void)state;
    uint32_t first = 0;
    const char *given = getenv("GOBLIN_SEED");
    if (given != NULL) {
        first = (uint32_t)strtoul(given, NULL, 0);
    } else {
        assert_int_equal(getrandom(&first, sizeof(first), 0), sizeof(first));
    }
    print_message("seeds from %" PRIu32 " (GOBLIN_SEED)\n", first);
    struct simrun_result sum = {0};
    run_seeds(first, FRESH_SEEDS, &sum);
}

/* The checker would notice: the same life, seen twice, is the same. */
static void life__is_the_same_for_the_same_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 105; seed++) {
        struct simrun_result first;
        struct simrun_result second;
        assert_true(simrun(seed, false, &first));
        assert_true(simrun(seed, false, &second));
        assert_int_equal(first.operations, second.operations);
        assert_int_equal(first.power_cuts, second.power_cuts);
        assert_int_equal(first.reclaimed, second.reclaimed);
        assert_int_equal(first.refused, second.refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store__keeps_its_promises_through_fixed_crashes),
        cmocka_unit_test(store__keeps_its_promises_through_fresh_crashes),
        cmocka_unit_test(life__is_the_same_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
