/* Conditions, versions, flags and expiry of single objects, before and after a reopen. */
#include <errno.h>
#include <string.h>

#include "lib/fixture.h"
#include "lib/pattern.h"

#define VALUE GOBLIN_LITERAL("a value")
#define OTHER GOBLIN_LITERAL("another one")

static const struct goblin_slice KEY = {"the key", 7};

static int put_if(struct gb_fixture *fixture, enum goblin_condition condition, uint64_t if_version,
                  struct goblin_slice value, uint64_t *version)
{
    const struct goblin_put_options options = {.condition = condition, .if_version = if_version};
    return goblin_put(fixture->store, KEY, value, &options, version);
}

static struct goblin_info stat_key(struct gb_fixture *fixture)
{
    struct goblin_info info = {0};
    assert_int_equal(goblin_stat(fixture->store, KEY, &info), GOBLIN_OK);
    return info;
}

static void expect_holds(struct gb_fixture *fixture, struct goblin_slice value)
{
    struct goblin_buffer buffer = {0};
    assert_int_equal(goblin_load(fixture->reader, KEY, &buffer, NULL, NULL), GOBLIN_OK);
    assert_int_equal(buffer.len, value.len);
    assert_memory_equal(buffer.data, value.data, value.len);
    goblin_buffer_free(&buffer);
}

static void expect_miss(struct gb_fixture *fixture)
{
    struct goblin_buffer buffer = {0};
    struct goblin_info info;
    assert_int_equal(goblin_stat(fixture->store, KEY, &info), GOBLIN_MISS);
    assert_int_equal(goblin_load(fixture->reader, KEY, &buffer, NULL, NULL), GOBLIN_MISS);
    goblin_buffer_free(&buffer);
}

/* ---- conditions ---------------------------------------------------------------------------- */

static void put__if_absent_stores_only_where_nothing_is(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t first = 0;
    uint64_t second = 0;
    assert_int_equal(put_if(fixture, GOBLIN_IF_ABSENT, 0, VALUE, &first), GOBLIN_OK);
    assert_int_equal(put_if(fixture, GOBLIN_IF_ABSENT, 0, OTHER, &second), GOBLIN_EXISTS);
    assert_int_equal(first, second);
    expect_holds(fixture, VALUE);
    assert_int_equal(goblin_delete(fixture->store, KEY, NULL), GOBLIN_OK);
    assert_int_equal(put_if(fixture, GOBLIN_IF_ABSENT, 0, OTHER, &second), GOBLIN_OK);
    assert_true(second > first);
    expect_holds(fixture, OTHER);
}

static void put__if_present_stores_only_over_something(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    assert_int_equal(put_if(fixture, GOBLIN_IF_PRESENT, 0, VALUE, NULL), GOBLIN_MISS);
    expect_miss(fixture);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, NULL), GOBLIN_OK);
    assert_int_equal(put_if(fixture, GOBLIN_IF_PRESENT, 0, OTHER, NULL), GOBLIN_OK);
    expect_holds(fixture, OTHER);
}

static void put__if_version_swaps_only_what_was_seen(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t version = 0;
    assert_int_equal(put_if(fixture, GOBLIN_IF_VERSION, 7, VALUE, NULL), GOBLIN_MISS);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, &version), GOBLIN_OK);
    uint64_t told = 0;
    assert_int_equal(put_if(fixture, GOBLIN_IF_VERSION, version + 1, OTHER, &told), GOBLIN_CHANGED);
    assert_int_equal(told, version);
    expect_holds(fixture, VALUE);
    assert_int_equal(put_if(fixture, GOBLIN_IF_VERSION, version, OTHER, &told), GOBLIN_OK);
    assert_true(told > version);
    expect_holds(fixture, OTHER);
    assert_int_equal(put_if(fixture, GOBLIN_IF_VERSION, version, VALUE, &told), GOBLIN_CHANGED);
}

static void put__counts_what_it_refuses(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, NULL), GOBLIN_OK);
    struct goblin_stats before = gb_fixture_stats(fixture);
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(put_if(fixture, GOBLIN_IF_ABSENT, 0, OTHER, NULL), GOBLIN_EXISTS);
    }
    struct goblin_stats after = gb_fixture_stats(fixture);
    assert_int_equal(after.puts, before.puts);
    assert_int_equal(after.puts_refused, before.puts_refused + 10000);
    assert_int_equal(after.put_bytes, before.put_bytes);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.segments_free, before.segments_free);
    assert_int_equal(after.arena_live_bytes, before.arena_live_bytes);
    assert_int_equal(after.objects, 1);
    gb_fixture_reopen(fixture);
    expect_holds(fixture, VALUE);
    assert_int_equal(gb_fixture_stats(fixture).objects, 1);
}

static void put__says_what_is_wrong_with_its_arguments(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options past = {.expires_ms = -1};
    const struct goblin_put_options odd = {.condition = (enum goblin_condition)4};
    const struct goblin_put_options absent = {.condition = GOBLIN_IF_ABSENT};
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &past, NULL), -EINVAL);
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &odd, NULL), -EINVAL);
    assert_int_equal(goblin_delete(fixture->store, KEY, &absent), -EINVAL);
    const struct goblin_slice huge = {KEY.data, 80 * GB_MIB}; /* never looked at */
    assert_int_equal(goblin_put(fixture->store, KEY, huge, NULL, NULL), GOBLIN_ETOOBIG);
    expect_miss(fixture);
}

/* ---- versions and flags -------------------------------------------------------------------- */

static void version__rises_with_every_write(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t last = 0;
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 300; i++) {
            struct gb_key key;
            uint64_t version = 0;
            assert_int_equal(
                goblin_put(fixture->store, gb_key_at(&key, i % 50), VALUE, NULL, &version),
                GOBLIN_OK);
            assert_true(version > last);
            last = version;
        }
        gb_fixture_reopen(fixture);
    }
}

static void version__may_be_passed_in(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t version = 0;
    const struct goblin_put_options given = {.version = UINT64_C(0xfedcba9876543210)};
    const struct goblin_put_options less = {.version = 5};
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &given, &version), GOBLIN_OK);
    assert_true(version == given.version);
    assert_true(stat_key(fixture).version == given.version);
    gb_fixture_reopen(fixture);
    assert_true(stat_key(fixture).version == given.version);
    /* Which write is the newest has nothing to do with the version. */
    assert_int_equal(goblin_put(fixture->store, KEY, OTHER, &less, &version), GOBLIN_OK);
    assert_int_equal(version, 5);
    gb_fixture_reopen(fixture);
    assert_int_equal(stat_key(fixture).version, 5);
    expect_holds(fixture, OTHER);
}

static void flags__belong_to_the_caller(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options options = {.flags = UINT32_MAX - 1};
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, NULL), GOBLIN_OK);
    assert_true(stat_key(fixture).flags == UINT32_MAX - 1);
    gb_fixture_reopen(fixture);
    assert_true(stat_key(fixture).flags == UINT32_MAX - 1);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, NULL), GOBLIN_OK);
    assert_int_equal(stat_key(fixture).flags, 0);
}

static void stat__describes_without_counting(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options options = {
        .meta = GOBLIN_LITERAL("some metadata"), .flags = 9, .expires_ms = fixture->now_ms + 5000};
    uint64_t version = 0;
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, &version), GOBLIN_OK);
    uint64_t gets = gb_fixture_stats(fixture).gets;
    struct goblin_info info = stat_key(fixture);
    assert_int_equal(info.size, VALUE.len);
    assert_int_equal(info.resident, VALUE.len);
    assert_int_equal(info.meta_len, 13);
    assert_int_equal(info.flags, 9);
    assert_int_equal(info.version, version);
    assert_int_equal(info.expires_ms, options.expires_ms);
    assert_int_equal(gb_fixture_stats(fixture).gets, gets);
}

/* ---- delete -------------------------------------------------------------------------------- */

static void delete__may_ask_for_a_version(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t version = 0;
    struct goblin_put_options options = {.condition = GOBLIN_IF_VERSION, .if_version = 1};
    assert_int_equal(goblin_delete(fixture->store, KEY, &options), GOBLIN_MISS);
    assert_int_equal(goblin_delete(fixture->store, KEY, NULL), GOBLIN_MISS);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, &version), GOBLIN_OK);
    options.if_version = version + 1;
    assert_int_equal(goblin_delete(fixture->store, KEY, &options), GOBLIN_CHANGED);
    expect_holds(fixture, VALUE);
    options.if_version = version;
    assert_int_equal(goblin_delete(fixture->store, KEY, &options), GOBLIN_OK);
    expect_miss(fixture);
    gb_fixture_reopen(fixture);
    expect_miss(fixture);
    assert_int_equal(gb_fixture_stats(fixture).live_bytes, 0);
}

static void delete__outlives_many_of_its_kind(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned round = 0; round < 300; round++) {
        assert_int_equal(gb_fixture_put(fixture, round % 7, 30000, round), GOBLIN_OK);
        struct gb_key key;
        if (round % 2 == 0) {
            assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, round % 7), NULL),
                             GOBLIN_OK);
        }
    }
    for (unsigned reopened = 0; reopened < 2; reopened++) {
        for (unsigned number = 0; number < 7; number++) {
            unsigned round = 294 + number;
            round = round > 299 ? round - 7 : round;
            if (round % 2 == 0) {
                gb_fixture_expect_none(fixture, number);
            } else {
                gb_fixture_expect(fixture, number, 30000, round);
            }
        }
        gb_fixture_reopen(fixture);
    }
}

/* ---- expiry -------------------------------------------------------------------------------- */

static void expiry__is_judged_by_the_given_clock(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options options = {.expires_ms = fixture->now_ms + 100};
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, NULL), GOBLIN_OK);
    fixture->now_ms += 99;
    expect_holds(fixture, VALUE);
    fixture->now_ms += 1;
    expect_miss(fixture);
    assert_int_equal(goblin_touch(fixture->store, KEY, 0, GOBLIN_DURABILITY_DEFAULT), GOBLIN_MISS);
    assert_int_equal(goblin_delete(fixture->store, KEY, NULL), GOBLIN_MISS);
    assert_int_equal(put_if(fixture, GOBLIN_IF_PRESENT, 0, VALUE, NULL), GOBLIN_MISS);
    assert_int_equal(put_if(fixture, GOBLIN_IF_ABSENT, 0, OTHER, NULL), GOBLIN_OK);
    expect_holds(fixture, OTHER);
    assert_int_equal(stat_key(fixture).expires_ms, 0);
}

static void expiry__in_the_past_stores_nothing_visible(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    assert_int_equal(put_if(fixture, GOBLIN_ALWAYS, 0, VALUE, NULL), GOBLIN_OK);
    const struct goblin_put_options past = {.expires_ms = 1};
    assert_int_equal(goblin_put(fixture->store, KEY, OTHER, &past, NULL), GOBLIN_OK);
    expect_miss(fixture);
    gb_fixture_reopen(fixture);
    expect_miss(fixture);
}

static void touch__changes_the_expiry_alone(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options options = {
        .meta = GOBLIN_LITERAL("m"), .expires_ms = fixture->now_ms + 100, .flags = 3};
    assert_int_equal(goblin_touch(fixture->store, KEY, 0, GOBLIN_DURABILITY_DEFAULT), GOBLIN_MISS);
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, NULL), GOBLIN_OK);
    struct goblin_info before = stat_key(fixture);
    assert_int_equal(
        goblin_touch(fixture->store, KEY, fixture->now_ms + 5000, GOBLIN_DURABILITY_DEFAULT),
        GOBLIN_OK);
    struct goblin_info after = stat_key(fixture);
    assert_int_equal(after.version, before.version);
    assert_int_equal(after.flags, 3);
    assert_int_equal(after.meta_len, 1);
    fixture->now_ms += 1000;
    expect_holds(fixture, VALUE);
    gb_fixture_reopen(fixture);
    assert_int_equal(stat_key(fixture).expires_ms, after.expires_ms);
    assert_int_equal(goblin_touch(fixture->store, KEY, 0, GOBLIN_DURABILITY_SYNCED), GOBLIN_OK);
    fixture->now_ms += 1000000;
    expect_holds(fixture, VALUE);
    assert_int_equal(gb_fixture_stats(fixture).amends, 1);
}

static int count_object(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    ++*(unsigned *)arg;
    return info->expires_ms != 0;
}

static void expired_objects__are_gone_after_reopen_and_from_iteration(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < 200; i++) {
        struct gb_key key;
        const struct goblin_put_options options = {.expires_ms = i % 2 ? fixture->now_ms + 10 : 0};
        assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, i), VALUE, &options, NULL),
                         GOBLIN_OK);
    }
    fixture->now_ms += 10;
    gb_fixture_reopen(fixture);
    uint64_t cursor = 0;
    unsigned visited = 0;
    assert_int_equal(goblin_iterate(fixture->store, &cursor, 0, count_object, &visited), GOBLIN_OK);
    assert_int_equal(visited, 100);
    for (unsigned i = 0; i < 200; i++) {
        struct gb_key key;
        struct goblin_info info;
        assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info),
                         i % 2 ? GOBLIN_MISS : GOBLIN_OK);
    }
}

/* ---- durability ---------------------------------------------------------------------------- */

static void durability__is_what_was_asked_for(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.flush_ms = 3600000;
    gb_fixture_open(fixture);
    struct goblin_put_options options = {.durability = GOBLIN_DURABILITY_WRITTEN};
    assert_int_equal(goblin_put(fixture->store, KEY, OTHER, &options, NULL), GOBLIN_OK);
    struct goblin_stats start = gb_fixture_stats(fixture); /* the segment is open */
    options.durability = GOBLIN_DURABILITY_NONE;
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, NULL), GOBLIN_OK);
    assert_int_equal(gb_fixture_stats(fixture).device_writes, start.device_writes);
    options.durability = GOBLIN_DURABILITY_WRITTEN;
    assert_int_equal(goblin_put(fixture->store, KEY, VALUE, &options, NULL), GOBLIN_OK);
    struct goblin_stats written = gb_fixture_stats(fixture);
    assert_true(written.device_writes > start.device_writes);
    assert_int_equal(written.device_syncs, start.device_syncs);
    options.durability = GOBLIN_DURABILITY_SYNCED;
    assert_int_equal(goblin_put(fixture->store, KEY, OTHER, &options, NULL), GOBLIN_OK);
    struct goblin_stats synced = gb_fixture_stats(fixture);
    assert_true(synced.device_syncs > written.device_syncs);
    assert_int_equal(goblin_delete(fixture->store, KEY, &options), GOBLIN_OK);
    assert_true(gb_fixture_stats(fixture).device_syncs > synced.device_syncs);
    expect_miss(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(put__if_absent_stores_only_where_nothing_is),
        GB_ON_BOTH_PATHS(put__if_present_stores_only_over_something),
        GB_ON_BOTH_PATHS(put__if_version_swaps_only_what_was_seen),
        GB_ON_BOTH_PATHS(put__counts_what_it_refuses),
        GB_ON_BOTH_PATHS(put__says_what_is_wrong_with_its_arguments),
        GB_ON_BOTH_PATHS(version__rises_with_every_write),
        GB_ON_BOTH_PATHS(version__may_be_passed_in),
        GB_ON_BOTH_PATHS(flags__belong_to_the_caller),
        GB_ON_BOTH_PATHS(stat__describes_without_counting),
        GB_ON_BOTH_PATHS(delete__may_ask_for_a_version),
        GB_ON_BOTH_PATHS(delete__outlives_many_of_its_kind),
        GB_ON_BOTH_PATHS(expiry__is_judged_by_the_given_clock),
        GB_ON_BOTH_PATHS(expiry__in_the_past_stores_nothing_visible),
        GB_ON_BOTH_PATHS(touch__changes_the_expiry_alone),
        GB_ON_BOTH_PATHS(expired_objects__are_gone_after_reopen_and_from_iteration),
        GB_ON_BOTH_PATHS(durability__is_what_was_asked_for),
    };
    return gb_fixture_run("conditions", tests);
}
