/* Operations into figures, and the pace that they are asked for at. */
#include "bench/churn_tally.h"
#include "bench/pace.h"
#include "bench/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t ms = 1000000;
static const uint64_t s = 1000000000;

static struct gb_churn_tally *tally_create(void)
{
    struct gb_churn_tally *tally = calloc(1, sizeof(*tally));
    assert_non_null(tally);
    gb_churn_tally_init(tally);
    return tally;
}

static void add(struct gb_churn_tally *tally, uint64_t ended_ns, uint64_t took_ns, bool is_disk)
{
    const struct gb_churn_operation operation = {
        .ended_ns = ended_ns, .took_ns = took_ns, .bytes = 10, .is_disk = is_disk};
    gb_churn_tally_add(tally, &operation);
}

static void churn_tally__sees_the_longest_gap_at_either_end_and_between(void **state)
{
    (void)state;
    static const uint64_t ends[][3] = {
        /* two completions within [100, 200] ms, and the gap they leave */
        {150, 180, 50},
        {110, 170, 60},
        {110, 130, 70},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct gb_churn_tally *tally = tally_create();
        gb_churn_tally_begin(tally, 100 * ms);
        add(tally, ends[i][0] * ms, ms, true);
        add(tally, ends[i][1] * ms, ms, true);
        gb_churn_tally_end(tally, 200 * ms);
        assert_int_equal(tally->gap_ns, ends[i][2] * ms);
        assert_int_equal(tally->ns, 100 * ms);
        free(tally);
    }
}

static void churn_tally__leaves_out_the_time_between_two_stretches(void **state)
{
    (void)state;
    struct gb_churn_tally *tally = tally_create();
    gb_churn_tally_begin(tally, 0);
    add(tally, 5 * ms, ms, false);
    gb_churn_tally_end(tally, 10 * ms);
    gb_churn_tally_begin(tally, 9000 * ms);
    add(tally, 9007 * ms, ms, true);
    gb_churn_tally_end(tally, 9010 * ms);
    assert_int_equal(tally->gap_ns, 7 * ms);
    assert_int_equal(tally->ns, 20 * ms);
    assert_int_equal(tally->all.count, 2);
    assert_int_equal(tally->disk.count, 1);
    assert_int_equal(tally->bytes, 20);
    free(tally);
}

static void churn_tally__counts_misses_apart_from_times(void **state)
{
    (void)state;
    struct gb_churn_tally *tally = tally_create();
    const struct gb_churn_operation miss = {.ended_ns = 4 * ms, .took_ns = 99, .is_miss = true};
    gb_churn_tally_begin(tally, 0);
    gb_churn_tally_add(tally, &miss);
    gb_churn_tally_end(tally, 6 * ms);
    assert_int_equal(tally->misses, 1);
    assert_int_equal(tally->all.count, 0);
    assert_int_equal(tally->gap_ns, 4 * ms);
    free(tally);
}

static void timeline_add(struct gb_churn_timeline *timeline, uint64_t ended_ns, uint64_t took_ns)
{
    const struct gb_churn_operation operation = {
        .ended_ns = ended_ns, .took_ns = took_ns, .bytes = 7};
    gb_churn_timeline_add(timeline, &operation);
}

static void churn_timeline__has_a_row_for_every_second_of_a_stretch(void **state)
{
    (void)state;
    struct gb_churn_timeline *timeline = calloc(1, sizeof(*timeline));
    assert_non_null(timeline);
    gb_churn_timeline_begin(timeline, 4, 8, 50 * s);
    for (uint64_t i = 1; i <= 100; i++) {
        timeline_add(timeline, 50 * s + i, i);
    }
    timeline_add(timeline, 52 * s + 1, 77);
    timeline_add(timeline, 55 * s, 5); /* late: it counts in the last second */
    gb_churn_timeline_end(timeline);
    const struct gb_churn_second *seconds = timeline->seconds;
    assert_int_equal(seconds[3].count, 0);
    assert_int_equal(seconds[4].count, 100);
    assert_int_equal(seconds[4].bytes, 700);
    assert_int_equal(seconds[4].p99_ns, 99);
    assert_int_equal(seconds[4].most_ns, 100);
    assert_int_equal(seconds[5].count, 0);
    assert_int_equal(seconds[5].p99_ns, 0);
    assert_int_equal(seconds[6].p99_ns, 77);
    assert_int_equal(seconds[7].count, 1);
    assert_int_equal(seconds[7].most_ns, 5);
    free(timeline);
}

static void pace__says_when_the_next_unit_is_due(void **state)
{
    (void)state;
    struct gb_pace pace = {.started_ns = 3 * s, .per_s = 8};
    assert_int_equal(gb_pace_due_ns(&pace), 3 * s);
    pace.taken = 4;
    assert_int_equal(gb_pace_due_ns(&pace), 3 * s + s / 2);
    pace.taken = 8 * 1000 * 1000 + 2;
    assert_int_equal(gb_pace_due_ns(&pace), 1000003 * s + s / 4);
    pace.per_s = 0;
    assert_int_equal(gb_pace_due_ns(&pace), 3 * s);
}

static void pace__counts_from_when_a_late_unit_was_due(void **state)
{
    (void)state;
    uint64_t now_ns = gb_progress_now_ns();
    struct gb_pace pace = {.started_ns = now_ns - 10 * s, .per_s = 1, .taken = 4};
    assert_int_equal(gb_pace_wait(&pace, now_ns + s), now_ns - 6 * s);
    /* Without a rate nothing is late. */
    pace.per_s = 0;
    assert_true(gb_pace_wait(&pace, now_ns + s) >= now_ns);
    /* What is due after the end is waited for until then. */
    pace = (struct gb_pace){.started_ns = now_ns, .per_s = 1, .taken = 3600};
    uint64_t end_ns = gb_progress_now_ns() + ms;
    assert_in_range(gb_pace_wait(&pace, end_ns), end_ns, now_ns + 3600 * s - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(churn_tally__sees_the_longest_gap_at_either_end_and_between),
        cmocka_unit_test(churn_tally__leaves_out_the_time_between_two_stretches),
        cmocka_unit_test(churn_tally__counts_misses_apart_from_times),
        cmocka_unit_test(churn_timeline__has_a_row_for_every_second_of_a_stretch),
        cmocka_unit_test(pace__says_when_the_next_unit_is_due),
        cmocka_unit_test(pace__counts_from_when_a_late_unit_was_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
