/* Full stores: a cache lets the oldest go and keeps what is read, a store refuses and keeps all. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/store.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"

#define STORE_BYTES (48 * GB_MIB)
#define OVERWRITES  (GB_SANITIZED ? 15u : 40u) /* of a tenth of the store */

static void open_mode(struct gb_fixture *fixture, enum goblin_mode mode, unsigned lanes)
{
    fixture->options.mode = mode;
    fixture->options.lanes = lanes;
    fixture->options.size_bytes = STORE_BYTES;
    fixture->options.segment_bytes = GB_MIB;
    gb_fixture_open(fixture);
}

static size_t size_at(uint64_t number)
{
    return 200 + gb_rng_mix(number) % 60000;
}

static bool present(struct gb_fixture *fixture, uint64_t number)
{
    struct gb_key key;
    struct goblin_info info;
    return goblin_stat(fixture->store, gb_key_at(&key, number), &info) == GOBLIN_OK;
}

/* Puts from `first` on until `bytes` have gone in; returns the number after the last. */
static uint64_t put_bytes(struct gb_fixture *fixture, uint64_t first, uint64_t bytes)
{
    uint64_t number = first;
    for (uint64_t total = 0; total < bytes; number++) {
        assert_int_equal(gb_fixture_put(fixture, number, size_at(number), number), GOBLIN_OK);
        total += size_at(number);
    }
    return number;
}

/* Waits until enough segments are free that nothing more leaves. */
static void await_quiet(struct gb_fixture *fixture)
{
    for (unsigned i = 0; gb_fixture_stats(fixture).segments_free <= fixture->options.lanes; i++) {
        const struct timespec pause = {.tv_nsec = 2000000};
        assert_true(i < 5000);
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- a cache ------------------------------------------------------------------------------- */

static void cache__takes_many_times_its_size(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE, 2);
    uint64_t count = put_bytes(fixture, 0, 5 * STORE_BYTES);
    await_quiet(fixture);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.puts, count);
    assert_int_equal(stats.objects + stats.left_disk + stats.left_ram, count);
    assert_true(stats.segments_reclaimed > 4 * 48 / 2);
    assert_true(stats.live_bytes <= STORE_BYTES);
    assert_true(stats.live_bytes > STORE_BYTES / 2);
    /* The newest half of a store's worth is there, what is not is the oldest. */
    uint64_t total = 0;
    uint64_t number = count;
    while (total < STORE_BYTES / 2) {
        number--;
        total += size_at(number);
        gb_fixture_expect(fixture, number, size_at(number), number);
    }
    for (uint64_t old = 0; old < count / 2; old++) {
        assert_false(present(fixture, old));
    }
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).objects, stats.objects);
    for (; number < count; number++) {
        gb_fixture_expect(fixture, number, size_at(number), number);
    }
}

#define LIKED_EVERY 16u
#define LIKED_END   400u

/* Reads every sixteenth of the first objects; returns how many are still there. */
static unsigned read_liked(struct gb_fixture *fixture)
{
    unsigned there = 0;
    for (uint64_t number = 0; number < LIKED_END; number += LIKED_EVERY) {
        if (present(fixture, number)) {
            gb_fixture_expect(fixture, number, size_at(number), number);
            there++;
        }
    }
    return there;
}

static void cache__keeps_what_is_read(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE, 2);
    uint64_t next = put_bytes(fixture, 0, STORE_BYTES / 2);
    assert_true(next > LIKED_END);
    for (unsigned round = 0; round < 40; round++) {
        (void)read_liked(fixture);
        next = put_bytes(fixture, next, STORE_BYTES / 12);
    }
    /* What is copied forward of one segment is bounded, so one or the other may have left. */
    assert_true(read_liked(fixture) >= LIKED_END / LIKED_EVERY * 9 / 10);
    assert_true(gb_fixture_stats(fixture).reinserted_bytes > 0);
    for (uint64_t number = 0; number < LIKED_END; number++) {
        assert_true(number % LIKED_EVERY == 0 || !present(fixture, number));
    }
}

static void cache__takes_streams_of_many_segments(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE, 4);
    for (uint64_t number = 0; number < 60; number++) {
        size_t size = 3 * GB_MIB + number * 4099;
        assert_int_equal(gb_fixture_stream(fixture, number, size, number, 99991), GOBLIN_OK);
        gb_fixture_expect(fixture, number, size, number);
        assert_int_equal(gb_fixture_put(fixture, 1000 + number, 1000, number), GOBLIN_OK);
    }
    for (uint64_t number = 57; number < 60; number++) {
        gb_fixture_expect(fixture, number, 3 * GB_MIB + number * 4099, number);
    }
    await_quiet(fixture);
    uint64_t objects = gb_fixture_stats(fixture).objects;
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).objects, objects);
    gb_fixture_expect(fixture, 59, 3 * GB_MIB + UINT64_C(59) * 4099, 59);
}

static void cache__never_brings_back_what_was_deleted(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_CACHE, 2);
    uint64_t next = 0;
    for (unsigned round = 0; round < 10; round++) {
        uint64_t first = next;
        next = put_bytes(fixture, first, STORE_BYTES / 5);
        for (uint64_t number = first; number < next; number += 2) {
            struct gb_key key;
            assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, number), NULL),
                             GOBLIN_OK);
        }
        if (round % 3 == 2) {
            gb_fixture_reopen(fixture);
        }
        /* Every round begins at an even number, so all that was ever deleted is. */
        next += next % 2;
        for (uint64_t number = 0; number < next; number += 2) {
            assert_false(present(fixture, number));
        }
    }
}

/* ---- a store ------------------------------------------------------------------------------- */

/* Puts until the store refuses; returns how many it took. */
static uint64_t fill(struct gb_fixture *fixture)
{
    uint64_t number = 0;
    int rc = GOBLIN_OK;
    while (rc == GOBLIN_OK) {
        assert_true(number < 100000);
        rc = gb_fixture_put(fixture, number, size_at(number), number);
        number += rc == GOBLIN_OK;
    }
    assert_int_equal(rc, -ENOSPC);
    return number;
}

static void expect_all(struct gb_fixture *fixture, uint64_t from, uint64_t to)
{
    for (uint64_t number = from; number < to; number++) {
        gb_fixture_expect(fixture, number, size_at(number), number);
    }
}

static void store__refuses_when_full_and_keeps_serving(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE, 2);
    uint64_t count = fill(fixture);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.live_bytes > STORE_BYTES * 3 / 4);
    assert_int_equal(stats.objects, count);
    expect_all(fixture, 0, count);
    assert_int_equal(gb_fixture_stream(fixture, count, 5 * GB_MIB, 1, 100000), -ENOSPC);
    gb_fixture_expect_none(fixture, count);
    gb_fixture_reopen(fixture);
    expect_all(fixture, 0, count);
    assert_int_equal(gb_fixture_stats(fixture).left_disk, 0);
}

static void store__takes_deletes_when_full_and_gives_their_space_back(void **state)
{
    struct gb_fixture *fixture = *state;
    for (unsigned lanes = 2; lanes <= 4; lanes += 2) {
        fixture->dirs[0] = fixture->drive[lanes / 2];
        fixture->options.create = true;
        open_mode(fixture, GOBLIN_MODE_STORE, lanes);
        uint64_t count = fill(fixture);
        for (uint64_t number = 0; number < count / 2; number++) {
            struct gb_key key;
            assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, number), NULL),
                             GOBLIN_OK);
        }
        /* Nearly half the store is free again, in whole segments. */
        uint64_t next = put_bytes(fixture, count, STORE_BYTES / 4);
        expect_all(fixture, count / 2, next);
        gb_fixture_reopen(fixture);
        expect_all(fixture, count / 2, next);
        for (uint64_t number = 0; number < count / 2; number++) {
            assert_false(present(fixture, number));
        }
        gb_fixture_close(fixture);
    }
}

static void store__may_be_cleared_when_full(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE, 4);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t count = fill(fixture);
        assert_int_equal(goblin_clear(fixture->store), GOBLIN_OK);
        assert_int_equal(gb_fixture_stats(fixture).objects, 0);
        assert_false(present(fixture, count - 1));
        (void)put_bytes(fixture, 0, STORE_BYTES / 2);
        gb_fixture_reopen(fixture);
        assert_false(present(fixture, count - 1));
    }
}

static void store__lives_with_endless_overwrites(void **state)
{
    struct gb_fixture *fixture = *state;
    open_mode(fixture, GOBLIN_MODE_STORE, 2);
    /* A tenth of the store, written over again and again: whole segments die. */
    for (unsigned round = 0; round < OVERWRITES; round++) {
        for (uint64_t number = 0; number < 160; number++) {
            assert_int_equal(gb_fixture_put(fixture, number, 30000, round * 1000 + number),
                             GOBLIN_OK);
        }
    }
    for (unsigned reopened = 0; reopened < 2; reopened++) {
        for (uint64_t number = 0; number < 160; number++) {
            gb_fixture_expect(fixture, number, 30000, (OVERWRITES - 1) * 1000 + number);
        }
        gb_fixture_reopen(fixture);
    }
}

/* Nothing frees the segment of the first object, which is then evicted and deleted. */
static void delete_what_is_being_evicted(struct gb_fixture *fixture)
{
    struct gb_key key;
    open_mode(fixture, GOBLIN_MODE_CACHE, 1);
    assert_int_equal(gb_fixture_put(fixture, 0, 100, 0), GOBLIN_OK);
    for (uint32_t i = 0; i < fixture->store->segments.count; i++) {
        struct gb_segment *segment = &fixture->store->segments.table[i];
        if (segment->status == GB_SEGMENT_OPEN) {
            atomic_fetch_add(&segment->readers, 1);
        }
    }
    for (uint64_t number = 1; present(fixture, 0); number++) {
        assert_true(number < 10000);
        assert_int_equal(gb_fixture_put(fixture, number, 20000, number), GOBLIN_OK);
    }
    const struct goblin_put_options written = {.durability = GOBLIN_DURABILITY_WRITTEN};
    assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, 0), &written), GOBLIN_MISS);
}

static void cache__never_brings_back_what_was_deleted_while_it_was_evicted(void **state)
{
    struct gb_fixture *fixture = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        delete_what_is_being_evicted(fixture);
        (void)raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    open_mode(fixture, GOBLIN_MODE_CACHE, 1);
    gb_fixture_expect_none(fixture, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(cache__takes_many_times_its_size),
        GB_ON_BOTH_PATHS(cache__keeps_what_is_read),
        GB_ON_BOTH_PATHS(cache__takes_streams_of_many_segments),
        GB_ON_BOTH_PATHS(cache__never_brings_back_what_was_deleted),
        GB_ON_BOTH_PATHS(cache__never_brings_back_what_was_deleted_while_it_was_evicted),
        GB_ON_BOTH_PATHS(store__refuses_when_full_and_keeps_serving),
        GB_ON_BOTH_PATHS(store__takes_deletes_when_full_and_gives_their_space_back),
        GB_ON_BOTH_PATHS(store__may_be_cleared_when_full),
        GB_ON_BOTH_PATHS(store__lives_with_endless_overwrites),
    };
    return gb_fixture_run("cache_mode", tests);
}
