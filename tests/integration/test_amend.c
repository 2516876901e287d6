/* Amendments: what changes of an object while its value stays, judged, told, and kept through moves
 * on disk, crashes and reopenings. */
#include <errno.h>
#include <string.h>

#include "engine/keeper.h"
#include "lib/simstore.h"

#define OBJECTS 60u
#define LARGE   (300 * GB_KIB) /* in extents */

static int amend(struct gb_simstore *sim, uint64_t number, const struct goblin_amendment *amendment,
                 struct goblin_info *before)
{
    struct gb_key key;
    return goblin_amend(sim->store, gb_key_at(&key, number), amendment, before);
}

static struct goblin_info stat_of(struct gb_simstore *sim, uint64_t number)
{
    struct gb_key key;
    struct goblin_info info = {0};
    assert_int_equal(goblin_stat(sim->store, gb_key_at(&key, number), &info), GOBLIN_OK);
    return info;
}

static int put_if_version(struct gb_simstore *sim, uint64_t number, uint64_t version)
{
    struct gb_key key;
    const struct goblin_put_options options = {.condition = GOBLIN_IF_VERSION,
                                               .if_version = version};
    return goblin_put(sim->store, gb_key_at(&key, number), GOBLIN_LITERAL("swapped"), &options,
                      NULL);
}

static void expect_same_state(const struct goblin_info *info, const struct goblin_info *expected)
{
    assert_int_equal(info->version, expected->version);
    assert_int_equal(info->expires_ms, expected->expires_ms);
    assert_int_equal(info->flags, expected->flags);
    assert_int_equal(info->marks, expected->marks);
    assert_int_equal(info->size, expected->size);
    assert_int_equal(info->meta_len, expected->meta_len);
}

/* ---- what changes -------------------------------------------------------------------------- */

static void amend__changes_what_it_names_and_nothing_else(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 5, 100);
    struct goblin_info expected = stat_of(sim, 5);
    struct goblin_amendment steps[] = {
        {.what = GOBLIN_AMEND_FLAGS, .flags = 7, .version = 1, .expires_ms = 1},
        {.what = GOBLIN_AMEND_EXPIRES, .expires_ms = sim->now_ms + 9},
        {.what = GOBLIN_AMEND_VERSION, .version = 12345},
        {.marks_set = 0x43},
        {.marks_clear = 0x03, .marks_set = 0x02},
        {.what = GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_EXPIRES, .marks_clear = GOBLIN_MARKS},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct goblin_info before;
        assert_int_equal(amend(sim, 5, &steps[i], &before), GOBLIN_OK);
        expect_same_state(&before, &expected);
        expected.flags = i == 0 ? 7 : i == 5 ? 0 : expected.flags;
        expected.expires_ms = i == 1 ? sim->now_ms + 9 : i == 5 ? 0 : expected.expires_ms;
        expected.version = i == 2 ? 12345 : expected.version;
        expected.marks = i == 3 ? 0x43 : i == 4 ? 0x42 : i == 5 ? 0 : expected.marks;
        struct goblin_info now = stat_of(sim, 5);
        expect_same_state(&now, &expected);
    }
    gb_simstore_expect(sim, 5, 100, 5);
    assert_int_equal(gb_simstore_stats(sim).amends, 6);
}

static void amend__that_is_to_number_gives_what_a_put_would(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 1, 100);
    uint64_t first = stat_of(sim, 1).version;
    const struct goblin_amendment number = {.what = GOBLIN_AMEND_VERSION};
    assert_int_equal(amend(sim, 1, &number, NULL), GOBLIN_OK);
    uint64_t second = stat_of(sim, 1).version;
    assert_true(second > first);
    gb_simstore_put(sim, 1, 100);
    assert_true(stat_of(sim, 1).version > second);
}

static void amend__judges_its_condition(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    struct goblin_amendment amendment = {.what = GOBLIN_AMEND_FLAGS, .flags = 3};
    struct goblin_info before = {.flags = 99};
    assert_int_equal(amend(sim, 1, &amendment, &before), GOBLIN_MISS);
    assert_int_equal(before.flags, 99);
    gb_simstore_put(sim, 1, 100);
    amendment.condition = GOBLIN_IF_VERSION;
    amendment.if_version = stat_of(sim, 1).version + 1;
    assert_int_equal(amend(sim, 1, &amendment, &before), GOBLIN_CHANGED);
    assert_int_equal(before.version, amendment.if_version - 1);
    assert_int_equal(stat_of(sim, 1).flags, 0);
    amendment.if_version--;
    assert_int_equal(amend(sim, 1, &amendment, NULL), GOBLIN_OK);
    assert_int_equal(stat_of(sim, 1).flags, 3);
    amendment = (struct goblin_amendment){.what = GOBLIN_AMEND_EXPIRES,
                                          .condition = GOBLIN_IF_PRESENT,
                                          .expires_ms = sim->now_ms + 1};
    assert_int_equal(amend(sim, 1, &amendment, NULL), GOBLIN_OK);
    sim->now_ms++;
    assert_int_equal(amend(sim, 1, &amendment, NULL), GOBLIN_MISS);
    assert_int_equal(gb_simstore_stats(sim).left_expired, 1);
}

/* Found in the same life, in a checkpoint, and in the log. */
static void amend__of_the_expiry_alone_has_the_object_swept(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    for (unsigned life = 0; life < 3; life++) {
        gb_simstore_put(sim, 1, 100);
        const struct goblin_amendment amendment = {.what = GOBLIN_AMEND_EXPIRES,
                                                   .expires_ms = sim->now_ms + 1,
                                                   .durability = GOBLIN_DURABILITY_WRITTEN};
        assert_int_equal(amend(sim, 1, &amendment, NULL), GOBLIN_OK);
        if (life == 1) {
            gb_simstore_close(sim);
            gb_simstore_open(sim);
        } else if (life == 2) {
            gb_simstore_crash(sim);
        }
        gb_keeper_round(sim->store);
        assert_int_equal(gb_simstore_stats(sim).objects, 1);
        sim->now_ms++;
        gb_keeper_round(sim->store);
        assert_int_equal(gb_simstore_stats(sim).objects, 0);
    }
}

static void amend__with_a_version_is_what_conditions_go_by(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    for (uint64_t i = 0; i < 3; i++) {
        gb_simstore_put(sim, i, 100);
        const struct goblin_amendment amendment = {.what = GOBLIN_AMEND_VERSION,
                                                   .version = 900 + i,
                                                   .durability = GOBLIN_DURABILITY_WRITTEN};
        uint64_t first = stat_of(sim, i).version;
        assert_int_equal(amend(sim, i, &amendment, NULL), GOBLIN_OK);
        if (i == 1) {
            gb_simstore_crash(sim);
        } else if (i == 2) {
            gb_simstore_close(sim);
            gb_simstore_open(sim);
        }
        assert_int_equal(put_if_version(sim, i, first), GOBLIN_CHANGED);
        assert_int_equal(put_if_version(sim, i, 900 + i), GOBLIN_OK);
    }
}

static void amend__that_changes_nothing_writes_nothing(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 1, 100);
    const struct goblin_amendment mark = {
        .what = GOBLIN_AMEND_FLAGS, .flags = 4, .marks_set = 2, .marks_clear = 1};
    assert_int_equal(amend(sim, 1, &mark, NULL), GOBLIN_OK);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    struct goblin_stats stats = gb_simstore_stats(sim);
    struct goblin_info before;
    assert_int_equal(amend(sim, 1, &mark, &before), GOBLIN_OK);
    assert_int_equal(before.marks, 2);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    assert_int_equal(gb_simstore_stats(sim).device_write_bytes, stats.device_write_bytes);
    assert_int_equal(gb_simstore_stats(sim).amends, 2);
}

static void amend__says_what_is_wrong_with_its_arguments(void **state)
{
    struct gb_simstore *sim = *state;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 1, 100);
    static const struct goblin_amendment bad[] = {
        {.what = 1u << 3},
        {.marks_set = 0x80},
        {.marks_clear = 0x80},
        {.condition = GOBLIN_IF_ABSENT},
        {.what = GOBLIN_AMEND_EXPIRES, .expires_ms = -1},
        {.durability = (enum goblin_durability)9},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(amend(sim, 1, &bad[i], NULL), -EINVAL);
    }
    const struct goblin_amendment good = {.marks_set = GOBLIN_MARKS};
    const struct goblin_slice none = {NULL, 0};
    assert_int_equal(goblin_amend(sim->store, none, &good, NULL), GOBLIN_EKEY);
    struct gb_key key;
    const struct goblin_put_options options = {.marks = 0x80};
    assert_int_equal(
        goblin_put(sim->store, gb_key_at(&key, 1), GOBLIN_LITERAL("v"), &options, NULL), -EINVAL);
    assert_int_equal(amend(sim, 1, &good, NULL), GOBLIN_OK);
    assert_int_equal(stat_of(sim, 1).marks, GOBLIN_MARKS);
}

/* ---- what stays ---------------------------------------------------------------------------- */

static size_t size_at(uint64_t number)
{
    return number % 10 == 9 ? LARGE : 500 + 700 * number;
}

/* What the amendments below leave of object `number`. */
static struct goblin_info expected_at(struct gb_simstore *sim, uint64_t number)
{
    return (struct goblin_info){
        .size = size_at(number),
        .version = 70000 + number,
        .expires_ms = sim->now_ms + 1000000 + (int64_t)number,
        .flags = 0xf00 + (uint32_t)number,
        .meta_len = (uint16_t)(number % 9),
        .marks = (uint8_t)(number & 0x3f) | 0x40,
    };
}

/* Every object is amended twice, with others between. */
static void fill(struct gb_simstore *sim)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        gb_simstore_put(sim, i, size_at(i));
        struct goblin_info last = expected_at(sim, i);
        struct goblin_amendment amendment = {
            .what = GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION,
            .flags = 1,
            .version = 2,
            .marks_set = 0x3f,
        };
        assert_int_equal(amend(sim, i, &amendment, NULL), GOBLIN_OK);
        gb_simstore_put(sim, 1000 + i, 3000);
        amendment = (struct goblin_amendment){
            .what = GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION | GOBLIN_AMEND_EXPIRES,
            .flags = last.flags,
            .version = last.version,
            .expires_ms = last.expires_ms,
            .marks_set = last.marks,
            .marks_clear = GOBLIN_MARKS,
        };
        assert_int_equal(amend(sim, i, &amendment, NULL), GOBLIN_OK);
    }
}

static void expect_amended(struct gb_simstore *sim)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct goblin_info expected = expected_at(sim, i);
        struct goblin_info info = stat_of(sim, i);
        expect_same_state(&info, &expected);
        gb_simstore_expect(sim, i, size_at(i), i);
    }
}

static void amendments__are_there_after_a_crash_or_a_close(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.mode = GOBLIN_MODE_STORE;
    gb_simstore_open(sim);
    fill(sim);
    expect_amended(sim);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    gb_simstore_crash(sim);
    expect_amended(sim);
    assert_int_equal(goblin_checkpoint(sim->store), GOBLIN_OK);
    gb_simstore_crash(sim);
    expect_amended(sim);
    for (unsigned i = 0; i < 2; i++) {
        gb_simstore_close(sim);
        gb_simstore_open(sim);
        expect_amended(sim);
    }
}

/* Their segments are emptied again and again, with records of either kind left behind by turns. */
static void amendments__move_on_with_their_objects(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.mode = GOBLIN_MODE_STORE;
    gb_simstore_open(sim);
    fill(sim);
    uint64_t put = 0;
    for (unsigned round = 0; round < 6; round++) {
        uint64_t before = gb_simstore_stats(sim).segments_reclaimed;
        while (gb_simstore_stats(sim).segments_reclaimed < before + 8) {
            gb_simstore_put(sim, 2000 + put++ % 40, 30000);
            gb_keeper_round(sim->store);
            assert_true(put < 10000);
        }
        expect_amended(sim);
        if (round % 2 == 1) {
            assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
            gb_simstore_crash(sim);
            expect_amended(sim);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(amend__changes_what_it_names_and_nothing_else),
        GB_ON_A_SIMULATED_DISK(amend__that_is_to_number_gives_what_a_put_would),
        GB_ON_A_SIMULATED_DISK(amend__judges_its_condition),
        GB_ON_A_SIMULATED_DISK(amend__of_the_expiry_alone_has_the_object_swept),
        GB_ON_A_SIMULATED_DISK(amend__with_a_version_is_what_conditions_go_by),
        GB_ON_A_SIMULATED_DISK(amend__that_changes_nothing_writes_nothing),
        GB_ON_A_SIMULATED_DISK(amend__says_what_is_wrong_with_its_arguments),
        GB_ON_A_SIMULATED_DISK(amendments__are_there_after_a_crash_or_a_close),
        GB_ON_A_SIMULATED_DISK(amendments__move_on_with_their_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
