/* Making room: what lives moves, what is dead leaves first, and nobody waits for ever. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"

#define STORE_BYTES (48 * GB_MIB)
#define HOT_ROUNDS  (GB_SANITIZED ? 80u : 200u)

static void open_mode(struct gb_fixture *fixture, enum goblin_mode mode)
{
    fixture->options.mode = mode;
    fixture->options.lanes = 2;
    fixture->options.size_bytes = STORE_BYTES;
    fixture->options.segment_bytes = GB_MIB;
    gb_fixture_open(fixture);
}

static size_t size_at(uint64_t number)
{
    return 200 + gb_rng_mix(number) % 60000;
}

/* Puts objects 0, 1, 2 … with themselves as seeds, until `bytes` have gone in. */
static uint64_t fill(struct gb_fixture *fixture, uint64_t bytes)
{
    uint64_t number = 0;
    for (uint64_t total = 0; total < bytes; number++) {
        assert_int_equal(gb_fixture_put(fixture, number, size_at(number), number), GOBLIN_OK);
        total += size_at(number);
    }
    return number;
}

static void expect(struct gb_fixture *fixture, const uint32_t *seeds, uint64_t count)
{
    for (uint64_t number = 0; number < count; number++) {
        gb_fixture_expect(fixture, number, size_at(number), seeds[number]);
    }
}

static void erase(struct gb_fixture *fixture, uint64_t number)
{
    struct gb_key key;
    assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, number), NULL), GOBLIN_OK);
}

/* ---- a store ------------------------------------------------------------------------------- */

static void store__nearly_full_takes_overwrites_without_end(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE);
    uint64_t count = fill(fixture, STORE_BYTES * 78 / 100);
    uint32_t *seeds = calloc(count, sizeof(*seeds));
    assert_non_null(seeds);
    for (uint64_t number = 0; number < count; number++) {
        seeds[number] = (uint32_t)number;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, 7);
    for (unsigned round = 0; round < 2; round++) {
        uint32_t next = 1000000 * (round + 1);
        for (uint64_t total = 0; total < 2 * STORE_BYTES;) {
            uint64_t number = gb_rng_below(&rng, count);
            seeds[number] = next++;
            assert_int_equal(gb_fixture_put(fixture, number, size_at(number), seeds[number]),
                             GOBLIN_OK);
            total += size_at(number);
        }
        expect(fixture, seeds, count);
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_int_equal(stats.objects, count);
        assert_int_equal(stats.left_disk + stats.left_bad + stats.left_ram, 0);
        assert_true(stats.reinserted_bytes > STORE_BYTES / 2);
        gb_fixture_reopen(fixture);
        expect(fixture, seeds, count);
    }
    free(seeds);
}

static void store__moves_streams_too(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE);
    for (uint64_t number = 0; number < 8; number++) {
        assert_int_equal(
            gb_fixture_stream(fixture, 5000 + number, 2 * GB_MIB + number * 77777, number, 99991),
            GOBLIN_OK);
        /* Between them what is overwritten all the time, so that every segment has dead bytes. */
        for (uint64_t other = 0; other < 40; other++) {
            assert_int_equal(gb_fixture_put(fixture, other, 20000, number), GOBLIN_OK);
        }
    }
    for (unsigned round = 0; round < 60; round++) {
        for (uint64_t other = 0; other < 40; other++) {
            assert_int_equal(gb_fixture_put(fixture, other, 20000 + 500 * other, round), GOBLIN_OK);
        }
    }
    for (unsigned reopened = 0; reopened < 2; reopened++) {
        for (uint64_t number = 0; number < 8; number++) {
            gb_fixture_expect(fixture, 5000 + number, 2 * GB_MIB + number * 77777, number);
        }
        for (uint64_t other = 0; other < 40; other++) {
            gb_fixture_expect(fixture, other, 20000 + 500 * other, 59);
        }
        gb_fixture_reopen(fixture);
    }
}

static void store__refused_takes_more_as_soon_as_something_is_deleted(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE);
    uint64_t count = 0;
    while (gb_fixture_put(fixture, count, size_at(count), count) == GOBLIN_OK) {
        count++;
        assert_true(count < 100000);
    }
    assert_int_equal(gb_fixture_put(fixture, count, 60000, count), -ENOSPC);
    /* Every fourth: no segment is ever empty, each has some room. */
    uint64_t deleted = 0;
    for (uint64_t number = 0; number < count; number += 4) {
        erase(fixture, number);
        deleted += size_at(number);
    }
    uint64_t taken = 0;
    for (uint64_t number = 10000; taken < deleted * 3 / 4; number++) {
        assert_int_equal(gb_fixture_put(fixture, number, size_at(number), number), GOBLIN_OK);
        taken += size_at(number);
    }
    for (uint64_t number = 0; number < count; number++) {
        if (number % 4 != 0) {
            gb_fixture_expect(fixture, number, size_at(number), number);
        } else {
            gb_fixture_expect_none(fixture, number);
        }
    }
}

static void store__lets_tombstones_go_in_time(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE);
    uint64_t count = fill(fixture, STORE_BYTES / 2);
    /* What comes and goes beside what stays leaves nothing but tombstones: 20 MiB of them. */
    for (uint64_t number = 0; number < 160000; number++) {
        struct gb_key key;
        const struct goblin_slice name = gb_key_at(&key, 1000000 + number);
        assert_int_equal(
            goblin_put(fixture->store, name, (struct goblin_slice){"x", 1}, NULL, NULL), GOBLIN_OK);
        assert_int_equal(goblin_delete(fixture->store, name, NULL), GOBLIN_OK);
    }
    for (uint64_t number = 0; number < count; number++) {
        gb_fixture_expect(fixture, number, size_at(number), number);
    }
    assert_int_equal(gb_fixture_put(fixture, count, size_at(count), count), GOBLIN_OK);
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).objects, count + 1);
}

/* Of a segment only its listing is read then. */
static void store__moves_what_is_in_ram_without_reading_it(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 64 * GB_MIB;
    open_mode(fixture, GOBLIN_MODE_STORE);
    const uint64_t count = 12000;
    const size_t size = 1500;
    struct gb_rng rng;
    gb_rng_init(&rng, 11);
    for (uint64_t number = 0; number < 5 * count; number++) {
        uint64_t which = number < count ? number : gb_rng_below(&rng, count);
        assert_int_equal(gb_fixture_put(fixture, which, size, which), GOBLIN_OK);
    }
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.reinserted_bytes > GB_MIB);
    assert_true(stats.device_read_bytes < stats.segments_reclaimed * (GB_MIB / 2));
    gb_fixture_reopen(fixture);
    for (uint64_t which = 0; which < count; which++) {
        gb_fixture_expect(fixture, which, size, which);
    }
}

/* ---- a cache ------------------------------------------------------------------------------- */

static void cache__hot_overwrites_never_push_out_what_is_cold(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE);
    uint64_t cold = fill(fixture, STORE_BYTES * 70 / 100);
    for (unsigned round = 0; round < HOT_ROUNDS; round++) {
        for (uint64_t hot = 0; hot < 1000; hot++) {
            assert_int_equal(gb_fixture_put(fixture, 1000000 + hot, 500 + hot, round), GOBLIN_OK);
        }
    }
    assert_int_equal(gb_fixture_stats(fixture).left_disk, 0);
    for (uint64_t number = 0; number < cold; number++) {
        gb_fixture_expect(fixture, number, size_at(number), number);
    }
    for (uint64_t hot = 0; hot < 1000; hot++) {
        gb_fixture_expect(fixture, 1000000 + hot, 500 + hot, HOT_ROUNDS - 1);
    }
}

static void cache__full_takes_a_value_of_half_its_size(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE);
    (void)fill(fixture, 2 * STORE_BYTES);
    size_t size = STORE_BYTES / 2 - 2 * GB_MIB;
    assert_int_equal(gb_fixture_stream(fixture, 777777, size, 3, 100000), GOBLIN_OK);
    gb_fixture_expect(fixture, 777777, size, 3);
    assert_int_equal(gb_fixture_put(fixture, 777777, size, 4), GOBLIN_OK);
    gb_fixture_expect(fixture, 777777, size, 4);
}

/* An upload that stands still keeps the oldest segments of its lane, and a request that does keeps
 * what it reads; both must not keep the rest. */
static void cache__goes_on_beside_what_stands_still(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE);
    struct goblin_writer *writers[4];
    char piece[100000];
    memset(piece, 'p', sizeof(piece));
    for (uint64_t i = 0; i < 4; i++) {
        struct gb_key key;
        assert_int_equal(goblin_writer_begin(&writers[i], fixture->store,
                                             gb_key_at(&key, 900000 + i), 700000, NULL),
                         GOBLIN_OK);
        for (unsigned n = 0; n < 3; n++) {
            assert_int_equal(goblin_writer_write(writers[i], piece, sizeof(piece)), GOBLIN_OK);
        }
    }
    uint64_t count = fill(fixture, 3 * STORE_BYTES);
    gb_fixture_expect(fixture, count - 1, size_at(count - 1), count - 1);
    gb_fixture_expect_none(fixture, 0);
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned n = 0; n < 4; n++) {
            assert_int_equal(goblin_writer_write(writers[i], piece, sizeof(piece)), GOBLIN_OK);
        }
        assert_int_equal(goblin_writer_commit(writers[i], NULL), GOBLIN_OK);
    }
    gb_fixture_reopen(fixture);
    gb_fixture_expect(fixture, count - 1, size_at(count - 1), count - 1);
    gb_fixture_expect_none(fixture, 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct gb_key key;
        struct goblin_info info;
        /* It lies in the oldest segments, which may be the next to go. */
        int rc = goblin_stat(fixture->store, gb_key_at(&key, 900000 + i), &info);
        assert_true(rc == GOBLIN_MISS || (rc == GOBLIN_OK && info.size == 700000));
    }
}

static int hold_first(void *arg, const struct goblin_chunk *chunk)
{
    unsigned *chunks = arg;
    (void)chunk;
    return ++*chunks == 1 ? GOBLIN_CHUNK_DONE : GOBLIN_CHUNK_STOP;
}

static void cache__goes_on_beside_a_request_that_stands_still(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE);
    assert_int_equal(gb_fixture_put(fixture, 900000, 900000, 1), GOBLIN_OK);
    struct gb_key key;
    unsigned chunks = 0;
    struct goblin_request request = {
        .key = gb_key_at(&key, 900000), .on_chunk = hold_first, .arg = &chunks};
    assert_int_equal(goblin_submit(fixture->reader, &request), GOBLIN_OK);
    assert_int_equal(chunks, 1);
    uint64_t count = fill(fixture, 4 * STORE_BYTES);
    assert_true(gb_fixture_stats(fixture).segments_reclaimed > 100);
    assert_int_equal(chunks, 1);
    goblin_cancel(fixture->reader, &request);
    gb_fixture_expect(fixture, count - 1, size_at(count - 1), count - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(store__nearly_full_takes_overwrites_without_end),
        GB_ON_BOTH_PATHS(store__moves_streams_too),
        GB_ON_BOTH_PATHS(store__refused_takes_more_as_soon_as_something_is_deleted),
        GB_ON_BOTH_PATHS(store__moves_what_is_in_ram_without_reading_it),
        GB_ON_BOTH_PATHS(store__lets_tombstones_go_in_time),
        GB_ON_BOTH_PATHS(cache__hot_overwrites_never_push_out_what_is_cold),
        GB_ON_BOTH_PATHS(cache__full_takes_a_value_of_half_its_size),
        GB_ON_BOTH_PATHS(cache__goes_on_beside_what_stands_still),
        GB_ON_BOTH_PATHS(cache__goes_on_beside_a_request_that_stands_still),
    };
    return gb_fixture_run("compaction", tests);
}
