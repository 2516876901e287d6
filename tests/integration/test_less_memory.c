/* Opening with less memory than a store was written with, and with more. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/fixture.h"

#define LARGE 300u
#define SMALL 160000u
#define SOME  2000u /* of these, read back */

static size_t size_at(uint64_t number)
{
    static const size_t sizes[] = {100, 5000, 20000, 70000};
    return number % 50 == 49 ? 3000000 : sizes[number % 4] + number;
}

static void reopen__serves_everything_with_a_sixteenth_of_the_memory(void **state)
{
    struct gb_fixture *fixture = *state;
    static const uint64_t sizes[] = {16, 64, 8, 256};
    fixture->options.size_bytes = 128 * GB_MIB;
    fixture->options.memory_bytes = 256 * GB_MIB;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < LARGE; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, size_at(i), i), GOBLIN_OK);
    }
    for (unsigned s = 0; s < 4; s++) {
        fixture->options.memory_bytes = sizes[s] * GB_MIB;
        gb_fixture_reopen(fixture);
        for (uint64_t i = 0; i < LARGE; i++) {
            gb_fixture_expect(fixture, i, size_at(i), i);
        }
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_int_equal(stats.objects, LARGE);
        assert_int_equal(stats.left_ram, 0);
        assert_int_equal(stats.memory_budget_bytes, sizes[s] * GB_MIB);
        assert_true(stats.memory_used_bytes <= sizes[s] * GB_MIB);
        assert_false(gb_fixture_logged(fixture, "too small"));
    }
}

/* Many keys with hardly anything behind them. */
static void fill_with_keys(struct gb_fixture *fixture, enum goblin_mode mode)
{
    fixture->options.mode = mode;
    fixture->options.size_bytes = 128 * GB_MIB;
    fixture->options.memory_bytes = 128 * GB_MIB;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < SMALL; i++) {
        struct gb_key key;
        const struct goblin_slice value = {&i, sizeof(i)};
        assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, i), value, NULL, NULL),
                         GOBLIN_OK);
    }
    gb_fixture_close(fixture);
}

/* Those of some that are there have their values; returns how many. */
static uint64_t count_keys(struct gb_fixture *fixture)
{
    struct goblin_buffer value = {.data = NULL};
    uint64_t count = 0;
    for (uint64_t i = 0; i < SMALL; i += SMALL / SOME) {
        struct gb_key key;
        int rc = goblin_load(fixture->reader, gb_key_at(&key, i), &value, NULL, NULL);
        if (rc == GOBLIN_OK) {
            assert_int_equal(value.len, sizeof(i));
            assert_memory_equal(value.data, &i, sizeof(i));
            count++;
        } else {
            assert_int_equal(rc, GOBLIN_MISS);
        }
    }
    goblin_buffer_free(&value);
    return count;
}

static unsigned count_lines(const struct gb_fixture *fixture, const char *text)
{
    unsigned count = 0;
    for (const char *at = fixture->log; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void cache__lets_objects_go_when_their_keys_do_not_fit(void **state)
{
    struct gb_fixture *fixture = *state;
    fill_with_keys(fixture, GOBLIN_MODE_CACHE);
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->log_len = 0;
    gb_fixture_open(fixture);
    assert_true(gb_fixture_logged(fixture, "too small for the keys of this store"));
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_in_range(stats.objects, SMALL / 10, SMALL - 1);
    assert_true(stats.left_ram > 0);
    if (stats.memory_used_bytes > 8 * GB_MIB + GB_MIB / 2) {
        fail_msg("arena %" PRIu64 ", index %" PRIu64 ", keys %" PRIu64 ", write %" PRIu64
                 ", read %" PRIu64 ", other %" PRIu64,
                 stats.memory_arena_bytes, stats.memory_index_bytes, stats.memory_ordered_bytes,
                 stats.memory_write_bytes, stats.memory_read_bytes, stats.memory_other_bytes);
    }
    uint64_t left = count_keys(fixture);
    assert_in_range(left, SOME / 50, SOME - 1);
    assert_true(gb_fixture_logged(fixture, "objects leave")); /* ends the log with a zero */
    assert_int_equal(count_lines(fixture, "objects leave"), 1);
    fixture->options.memory_bytes = 64 * GB_MIB;
    gb_fixture_reopen(fixture);
    assert_in_range(count_keys(fixture), 1, left);
    assert_int_equal(gb_fixture_stats(fixture).left_ram, 0);
}

static void store__says_that_its_keys_do_not_fit(void **state)
{
    struct gb_fixture *fixture = *state;
    fill_with_keys(fixture, GOBLIN_MODE_STORE);
    struct goblin_error error = {.text = ""};
    uint64_t memory = 32 * GB_MIB;
    int rc = GOBLIN_OK;
    /* Less and less, down to what only just holds the index. */
    while (rc == GOBLIN_OK) {
        memory -= memory / 10;
        fixture->options.memory_bytes = memory;
        rc = gb_fixture_try_open(fixture, &error);
        if (rc == GOBLIN_OK) {
            assert_int_equal(gb_fixture_stats(fixture).objects, SMALL);
            assert_int_equal(goblin_reader_create(&fixture->reader, fixture->store, NULL),
                             GOBLIN_OK);
            assert_int_equal(count_keys(fixture), SOME);
            gb_fixture_close(fixture);
        }
    }
    fixture->store = NULL;
    assert_int_equal(rc, -ENOMEM);
    assert_non_null(strstr(error.text, "too small for the"));
    assert_non_null(strstr(error.text, "give more"));
    assert_in_range(memory, 8 * GB_MIB, 20 * GB_MIB);
    fixture->options.memory_bytes = 64 * GB_MIB;
    gb_fixture_open(fixture);
    assert_int_equal(count_keys(fixture), SOME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(reopen__serves_everything_with_a_sixteenth_of_the_memory),
        GB_ON_BOTH_PATHS(cache__lets_objects_go_when_their_keys_do_not_fit),
        GB_ON_BOTH_PATHS(store__says_that_its_keys_do_not_fit),
    };
    return gb_fixture_run("less_memory", tests);
}
