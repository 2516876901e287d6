/* The log that judges kills: what it lets pass and what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crash/crashlog.h"

#define NOW_MS INT64_C(1000)

static const struct crash_view strict = {.now_ms = NOW_MS};
static const struct crash_view lax = {.now_ms = NOW_MS, .lax = true};

static struct crash_state object(uint32_t write)
{
    return (struct crash_state){
        .write = write, .size = 10, .life = 1, .promise = GOBLIN_DURABILITY_NONE};
}

static void intend(struct crash_key *key, uint32_t write)
{
    struct crash_state state = object(write);
    crashkey_intend(key, &state);
}

static void acknowledge(struct crash_key *key, uint32_t write, int64_t at_ns,
                        enum goblin_durability reached)
{
    intend(key, write);
    crashkey_acknowledge(key, write, at_ns, reached);
}

/* One state written, one acknowledged as nothing at 100, one never answered. */
static struct crash_key three_states(void)
{
    struct crash_key key;
    crashkey_init(&key);
    acknowledge(&key, 1, 50, GOBLIN_DURABILITY_WRITTEN);
    acknowledge(&key, 2, 100, GOBLIN_DURABILITY_NONE);
    intend(&key, 3);
    return key;
}

static bool survives(struct crash_key *key, uint32_t write, const struct crash_view *view)
{
    const struct goblin_info info = {.flags = write, .size = 10, .version = write};
    return crashkey_survives(key, write == 0 ? NULL : &info, view);
}

static bool agrees(struct crash_key *key, uint32_t write)
{
    const struct goblin_info info = {.flags = write, .size = 10, .version = write};
    return crashkey_agrees(key, write == 0 ? NULL : &info, &strict);
}

static void log__lets_a_kill_leave_what_was_written_or_came_after(void **state)
{
    (void)state;
    for (uint32_t write = 0; write <= 4; write++) {
        struct crash_key key = three_states();
        assert_int_equal(survives(&key, write, &strict), write >= 1 && write <= 3);
    }
}

static void log__knows_one_state_once_it_was_seen(void **state)
{
    (void)state;
    struct crash_key key = three_states();
    assert_true(survives(&key, 2, &strict));
    assert_true(agrees(&key, 2));
    assert_false(agrees(&key, 3));
    assert_false(survives(&key, 1, &strict));
    assert_false(survives(&key, 3, &strict));
}

static void log__lets_a_cache_evict_and_not_go_back(void **state)
{
    (void)state;
    struct crash_key key = three_states();
    assert_true(survives(&key, 0, &lax));
    assert_true(survives(&key, 2, &lax));
    assert_false(survives(&key, 1, &lax));
}

static void log__sees_other_bytes_lengths_versions_and_expiries(void **state)
{
    (void)state;
    const struct goblin_info infos[] = {
        {.flags = 2, .size = 11, .version = 2},
        {.flags = 2, .size = 10, .version = 3},
        {.flags = 2, .size = 10, .version = 2, .meta_len = 1},
        {.flags = 2, .size = 10, .version = 2, .expires_ms = 2 * NOW_MS},
    };
    for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
        struct crash_key key = three_states();
        assert_false(crashkey_survives(&key, &infos[i], &strict));
    }
}

static void log__lets_nothing_deleted_come_back(void **state)
{
    (void)state;
    struct crash_key key = three_states();
    acknowledge(&key, 0, 200, GOBLIN_DURABILITY_WRITTEN);
    for (uint32_t write = 1; write <= 3; write++) {
        assert_false(survives(&key, write, &strict));
        assert_false(survives(&key, write, &lax));
    }
    assert_true(survives(&key, 0, &strict));
}

static void log__asks_for_what_was_acknowledged_long_before_the_kill(void **state)
{
    (void)state;
    for (int64_t killed_ns = 1099; killed_ns <= 1101; killed_ns++) {
        const struct crash_end end = {.life = 1, .killed_ns = killed_ns, .window_ns = 1000};
        struct crash_window window = {0};
        struct crash_key key = three_states();
        crashkey_end_life(&key, &end, &window);
        assert_int_equal(window.kept, killed_ns == 1101 ? 2 : 1);
        assert_int_equal(survives(&key, 1, &strict), killed_ns <= 1100);
    }
}

static void log__asks_nothing_of_a_later_kill_that_an_earlier_one_undid(void **state)
{
    (void)state;
    const struct crash_end end = {.life = 2, .killed_ns = 1000000, .window_ns = 1000};
    struct crash_window window = {0};
    struct crash_key key = three_states();
    crashkey_end_life(&key, &end, &window);
    assert_true(survives(&key, 1, &strict));
}

static void log__asks_for_everything_after_a_clean_close(void **state)
{
    (void)state;
    const struct crash_end end = {.life = 1, .clean = true};
    struct crash_window window = {0};
    struct crash_key key;
    crashkey_init(&key);
    acknowledge(&key, 1, 50, GOBLIN_DURABILITY_NONE);
    acknowledge(&key, 2, 60, GOBLIN_DURABILITY_NONE);
    crashkey_end_life(&key, &end, &window);
    assert_false(survives(&key, 1, &strict));
    assert_true(survives(&key, 2, &strict));
}

static void log__takes_back_what_was_refused(void **state)
{
    (void)state;
    struct crash_key key = three_states();
    crashkey_withdraw(&key);
    assert_false(survives(&key, 3, &strict));
}

static void log__takes_what_has_expired_for_nothing(void **state)
{
    (void)state;
    struct crash_key key;
    crashkey_init(&key);
    struct crash_state expired = object(1);
    expired.expires_ms = NOW_MS;
    crashkey_intend(&key, &expired);
    crashkey_acknowledge(&key, 1, 50, GOBLIN_DURABILITY_SYNCED);
    assert_false(agrees(&key, 1));
    assert_true(survives(&key, 0, &strict));
}

static void log__has_room_for_so_many_states(void **state)
{
    (void)state;
    struct crash_key key;
    crashkey_init(&key);
    for (uint32_t write = 1; write < CRASH_STATES; write++) {
        assert_true(crashkey_has_room(&key, 1));
        acknowledge(&key, write, 50, GOBLIN_DURABILITY_NONE);
    }
    assert_false(crashkey_has_room(&key, 1));
    crashkey_raise(&key, 1);
    assert_true(crashkey_has_room(&key, 1));
    assert_false(crashkey_has_room(&key, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log__lets_a_kill_leave_what_was_written_or_came_after),
        cmocka_unit_test(log__knows_one_state_once_it_was_seen),
        cmocka_unit_test(log__lets_a_cache_evict_and_not_go_back),
        cmocka_unit_test(log__sees_other_bytes_lengths_versions_and_expiries),
        cmocka_unit_test(log__lets_nothing_deleted_come_back),
        cmocka_unit_test(log__asks_for_what_was_acknowledged_long_before_the_kill),
        cmocka_unit_test(log__asks_nothing_of_a_later_kill_that_an_earlier_one_undid),
        cmocka_unit_test(log__asks_for_everything_after_a_clean_close),
        cmocka_unit_test(log__takes_back_what_was_refused),
        cmocka_unit_test(log__takes_what_has_expired_for_nothing),
        cmocka_unit_test(log__has_room_for_so_many_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
