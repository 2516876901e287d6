/* The offline bound on corpora small enough to check by hand, and on the study's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "bench/bound.h"

static const struct gb_cost_point points[] = {{4096, 60}, {65536, 100}, {1048576, 600}};
static const struct gb_cost_curve curve = {points, 3};

static void cost__interpolates_and_extends(void **state)
{
    (void)state;
    assert_true(gb_bound_cost_us(&curve, 0) == 0);
    assert_true(gb_bound_cost_us(&curve, 1) == 60);
    assert_true(gb_bound_cost_us(&curve, 4096) == 60);
    assert_true(fabs(gb_bound_cost_us(&curve, 34816) - 80) < 1e-9);
    assert_true(gb_bound_cost_us(&curve, 65536) == 100);
    assert_true(gb_bound_cost_us(&curve, 1048576) == 600);
    assert_true(fabs(gb_bound_cost_us(&curve, 2031616) - 1100) < 1e-9);
    const struct gb_cost_curve flat = {points, 1};
    assert_true(gb_bound_cost_us(&flat, 1 << 30) == 60);
}

/* Four objects; 0 is small, 1 is popular, 2 is large, 3 is never asked for. */
static uint64_t sizes[] = {1000, 10000, 500000, 20000};
static uint32_t objects[] = {0, 1, 1, 2, 1, 0, 2, 1};
static const struct gb_corpus corpus = {.count = 4, .sizes = sizes};
static const struct gb_schedule schedule = {.count = 8, .objects = objects};

static void fixed_heads__leave_every_tail_to_the_device(void **state)
{
    (void)state;
    struct gb_bound bound;
    struct gb_bound_cost cost;
    assert_int_equal(gb_bound_init_fixed(&bound, &corpus, 4096, &curve), 0);
    gb_bound_evaluate(&bound, &schedule, 0, 0, &cost);
    double tail1 = gb_bound_cost_us(&curve, 10000 - 4096);
    double tail2 = gb_bound_cost_us(&curve, 500000 - 4096);
    assert_true(fabs(cost.device_us - 4 * tail1 - 2 * tail2) < 1e-6);
    assert_true(cost.requests == 8 && cost.disk_requests == 6);
    assert_true(cost.bytes == 2 * 1000 + 4 * 10000 + 2 * 500000);
    assert_true(cost.disk_bytes == 4 * 5904 + 2 * 495904);
    assert_true(bound.resident_bytes == 1000 + 3 * 4096);
    assert_true(bound.whole_objects == 1);
    gb_bound_evaluate(&bound, &schedule, 4, 2, &cost);
    assert_true(cost.requests == 2 && cost.disk_requests == 1);
    assert_true(fabs(cost.device_us - tail1) < 1e-6);
    gb_bound_fini(&bound);
}

static void budget__goes_where_it_saves_most(void **state)
{
    (void)state;
    struct gb_bound bound;
    struct gb_bound_cost cost;
    struct gb_bound_options options = {.corpus = &corpus,
                                       .schedule = &schedule,
                                       .budget_bytes = 1000 + 3 * 4096 + 6000,
                                       .floor_bytes = 4096,
                                       .curve = &curve};
    assert_int_equal(gb_bound_init(&bound, &options), 0);
    assert_true(bound.is_whole[0] && bound.is_whole[1]);
    assert_false(bound.is_whole[2] || bound.is_whole[3]);
    gb_bound_evaluate(&bound, &schedule, 0, 0, &cost);
    assert_true(fabs(cost.device_us - 2 * gb_bound_cost_us(&curve, 495904)) < 1e-6);
    assert_true(bound.resident_bytes <= options.budget_bytes);
    gb_bound_fini(&bound);
}

static void everything__fits_and_costs_nothing(void **state)
{
    (void)state;
    struct gb_bound bound;
    struct gb_bound_cost cost;
    struct gb_bound_options options = {.corpus = &corpus,
                                       .schedule = &schedule,
                                       .budget_bytes = 1 << 20,
                                       .floor_bytes = 0,
                                       .object_overhead_bytes = 100,
                                       .curve = &curve};
    assert_int_equal(gb_bound_init(&bound, &options), 0);
    gb_bound_evaluate(&bound, &schedule, 0, 0, &cost);
    assert_true(cost.device_us == 0 && cost.disk_requests == 0);
    assert_true(bound.resident_bytes == 400 + 511000); /* nobody asks for object 3 */
    gb_bound_fini(&bound);
}

static void floor__shrinks_before_it_overruns_the_budget(void **state)
{
    (void)state;
    struct gb_bound bound;
    struct gb_bound_options options = {.corpus = &corpus,
                                       .schedule = &schedule,
                                       .budget_bytes = 8000,
                                       .floor_bytes = 16384,
                                       .curve = &curve};
    assert_int_equal(gb_bound_init(&bound, &options), 0);
    assert_true(bound.floor_bytes == 2048); /* 1000 + 3 x 2333 would just fit */
    assert_true(bound.resident_bytes <= 8000);
    gb_bound_fini(&bound);
}

static void plan__can_follow_a_part_of_the_schedule(void **state)
{
    (void)state;
    struct gb_bound bound;
    struct gb_bound_options options = {.corpus = &corpus,
                                       .schedule = &schedule,
                                       .plan_first = 3,
                                       .plan_count = 1,
                                       .budget_bytes = 505000,
                                       .floor_bytes = 0,
                                       .curve = &curve};
    assert_int_equal(gb_bound_init(&bound, &options), 0);
    assert_true(bound.is_whole[2] && !bound.is_whole[1] && !bound.is_whole[0]);
    gb_bound_fini(&bound);
}

/* On the fitted corpus the bound is two to three times better than the fixed heads. */
static void study__bound_beats_fixed_heads(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct gb_corpus study;
    struct gb_schedule replay;
    gb_corpus_defaults(&options);
    options.scale = 0.03125;
    assert_int_equal(gb_corpus_make(&options, &study, &replay, NULL), 0);
    struct gb_bound fixed;
    struct gb_bound best;
    struct gb_bound_cost fixed_cost;
    struct gb_bound_cost best_cost;
    assert_int_equal(gb_bound_init_fixed(&fixed, &study, 16384, &curve), 0);
    struct gb_bound_options plan = {.corpus = &study,
                                    .schedule = &replay,
                                    .budget_bytes = GB_STUDY_MEMORY_BYTES / 32,
                                    .floor_bytes = 8192,
                                    .object_overhead_bytes = 96,
                                    .curve = &curve};
    assert_int_equal(gb_bound_init(&best, &plan), 0);
    assert_true(fixed.resident_bytes <= plan.budget_bytes);
    assert_true(best.resident_bytes <= plan.budget_bytes);
    gb_bound_evaluate(&fixed, &replay, 0, 0, &fixed_cost);
    gb_bound_evaluate(&best, &replay, 0, 0, &best_cost);
    double gain = fixed_cost.device_us / best_cost.device_us;
    print_message("the bound needs 1/%.2f of the fixed heads' device time\n", gain);
    assert_true(gain > 2 && gain < 3.5);
    gb_bound_fini(&fixed);
    gb_bound_fini(&best);
    gb_schedule_fini(&replay);
    gb_corpus_fini(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost__interpolates_and_extends),
        cmocka_unit_test(fixed_heads__leave_every_tail_to_the_device),
        cmocka_unit_test(budget__goes_where_it_saves_most),
        cmocka_unit_test(everything__fits_and_costs_nothing),
        cmocka_unit_test(floor__shrinks_before_it_overruns_the_budget),
        cmocka_unit_test(plan__can_follow_a_part_of_the_schedule),
        cmocka_unit_test(study__bound_beats_fixed_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
