/* Deadlines: fire once, not early, in time, and beside a plain list of many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "server/wheel.h"

#define COUNT 500u

struct alarm {
    struct gb_deadline deadline; /* first */
    struct gb_wheel *wheel;
    struct alarm *drops; /* when it fires */
    int64_t due_ms;
    int64_t again_ms; /* arms itself anew once, so much later */
    unsigned fired;
};

static int64_t now_ms;

static void fire(struct gb_deadline *deadline)
{
    struct alarm *alarm = (struct alarm *)(void *)deadline;
    assert_false(gb_wheel_is_armed(deadline));
    assert_true(now_ms >= alarm->due_ms);
    alarm->fired++;
    if (alarm->drops != NULL) {
        gb_wheel_drop(alarm->wheel, &alarm->drops->deadline);
    }
    if (alarm->again_ms > 0) {
        alarm->due_ms = now_ms + alarm->again_ms;
        alarm->again_ms = 0;
        gb_wheel_arm(alarm->wheel, deadline, alarm->due_ms);
    }
}

static void arm(struct alarm *alarm, struct gb_wheel *wheel, int64_t due_ms)
{
    alarm->deadline.fire = fire;
    alarm->wheel = wheel;
    alarm->due_ms = due_ms;
    gb_wheel_arm(wheel, &alarm->deadline, due_ms);
}

static void turn(struct gb_wheel *wheel, int64_t to_ms)
{
    now_ms = to_ms;
    (void)gb_wheel_turn(wheel, to_ms);
}

static void deadline__fires_within_a_tick(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    struct alarm alarm = {0};
    now_ms = 12345;
    gb_wheel_init(&wheel, now_ms);
    arm(&alarm, &wheel, 12400);
    turn(&wheel, 12399);
    assert_int_equal(alarm.fired, 0);
    turn(&wheel, 12400 + GB_WHEEL_TICK_MS);
    assert_int_equal(alarm.fired, 1);
    turn(&wheel, 99999);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(wheel.armed, 0);
}

static void deadline__in_the_past_fires_at_the_next_tick(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    struct alarm alarm = {0};
    now_ms = 5000;
    gb_wheel_init(&wheel, now_ms);
    arm(&alarm, &wheel, 0);
    turn(&wheel, 5000 + 2 * GB_WHEEL_TICK_MS);
    assert_int_equal(alarm.fired, 1);
}

static void deadline__beyond_a_round_waits_for_its_own(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    struct alarm alarm = {0};
    int64_t round_ms = (int64_t)GB_WHEEL_SLOTS * GB_WHEEL_TICK_MS;
    now_ms = 0;
    gb_wheel_init(&wheel, 0);
    arm(&alarm, &wheel, 3 * round_ms + 100);
    for (int64_t at = 0; at < 3 * round_ms + 100; at += 1000) {
        turn(&wheel, at);
        assert_int_equal(alarm.fired, 0);
    }
    turn(&wheel, 10 * round_ms);
    assert_int_equal(alarm.fired, 1);
}

static void firing__may_drop_and_arm(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    struct alarm a = {0};
    struct alarm b = {0};
    now_ms = 0;
    gb_wheel_init(&wheel, 0);
    a.drops = &b;
    a.again_ms = 50;
    arm(&a, &wheel, 100);
    arm(&b, &wheel, 100);
    turn(&wheel, 200);
    assert_int_equal(a.fired, 1);
    assert_int_equal(b.fired, 0);
    assert_int_equal(wheel.armed, 1);
    turn(&wheel, 300);
    assert_int_equal(a.fired, 2);
}

static void soonest__is_never_late(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    struct alarm alarm = {0};
    gb_wheel_init(&wheel, 0);
    now_ms = 0;
    assert_int_equal(gb_wheel_soonest_ms(&wheel, 512), 512);
    arm(&alarm, &wheel, 200);
    int64_t soonest_ms = gb_wheel_soonest_ms(&wheel, 512);
    assert_true(soonest_ms >= 200 && soonest_ms <= 200 + GB_WHEEL_TICK_MS);
}

static void model__of_many_agrees(void **state)
{
    (void)state;
    static struct gb_wheel wheel;
    static struct alarm alarms[COUNT];
    uint64_t seed = (uint64_t)(uintptr_t)&wheel ^ (uint64_t)now_ms;
    printf("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    now_ms = 1000;
    gb_wheel_init(&wheel, now_ms);
    for (unsigned step = 0; step < 4000; step++) {
        struct alarm *alarm = &alarms[gb_rng_below(&rng, COUNT)];
        if (gb_rng_below(&rng, 4) == 0) {
            gb_wheel_drop(&wheel, &alarm->deadline);
        } else {
            alarm->fired = 0;
            arm(alarm, &wheel, now_ms + (int64_t)gb_rng_below(&rng, 40000));
        }
        turn(&wheel, now_ms + (int64_t)gb_rng_below(&rng, 100));
        size_t armed = 0;
        for (unsigned i = 0; i < COUNT; i++) {
            bool is_armed = gb_wheel_is_armed(&alarms[i].deadline);
            armed += is_armed;
            assert_false(is_armed && alarms[i].due_ms + 2 * GB_WHEEL_TICK_MS < now_ms);
            assert_true(alarms[i].fired <= 1);
        }
        assert_int_equal(armed, wheel.armed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadline__fires_within_a_tick),
        cmocka_unit_test(deadline__in_the_past_fires_at_the_next_tick),
        cmocka_unit_test(deadline__beyond_a_round_waits_for_its_own),
        cmocka_unit_test(firing__may_drop_and_arm),
        cmocka_unit_test(soonest__is_never_late),
        cmocka_unit_test(model__of_many_agrees),
    };
    return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
