/* Puts, deletes and amendments that must not wait: -EAGAIN with nothing changed, where others would
 * wait for a device that holds back, for a lock, a segment or RAM; and that they work otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/keeper.h"
#include "lib/pattern.h"
#include "lib/simstore.h"

#define SMALL 3000u

static void open_lane(struct gb_simstore *sim)
{
    sim->options.lanes = 1;
    gb_simstore_open(sim);
}

static int put_now(struct gb_simstore *sim, uint64_t number, size_t size)
{
    static unsigned char value[64 * GB_KIB];
    struct gb_key key;
    const struct goblin_put_options options = {.meta = {"metadata", number % 9}, .nowait = true};
    assert_true(size <= sizeof(value));
    gb_pattern_fill(value, size, number, 0);
    return goblin_put(sim->store, gb_key_at(&key, number), (struct goblin_slice){value, size},
                      &options, NULL);
}

static uint64_t waits(struct gb_simstore *sim)
{
    struct simdisk_counts counts;
    simdisk_counts(sim->disk, &counts);
    return counts.waits;
}

/* Until -EAGAIN; returns the number of the object that was refused. */
static uint64_t put_until_refused(struct gb_simstore *sim, uint64_t number, size_t size)
{
    for (uint64_t end = number + 1000; number < end; number++) {
        int rc = put_now(sim, number, size);
        if (rc == -EAGAIN) {
            return number;
        }
        assert_int_equal(rc, GOBLIN_OK);
    }
    fail_msg("nothing was refused");
    return 0;
}

/* All write blocks that the lane may have are in flight, and the device holds back. */
static uint64_t fill_blocks(struct gb_simstore *sim)
{
    simdisk_hold_back(sim->disk, true);
    uint64_t number = 1000;
    uint64_t before = waits(sim);
    while (waits(sim) == before) {
        number = put_until_refused(sim, number, SMALL);
        assert_int_equal(waits(sim), before);
        gb_simstore_put(sim, number, SMALL); /* takes another block, or waits for one */
        number++;
    }
    /* To the last byte of the block that it waited for. */
    number = put_until_refused(sim, number, SMALL);
    return put_until_refused(sim, gb_align_up(number, 9), 0);
}

/* The device is done with what it had, and with what comes. */
static void release_blocks(struct gb_simstore *sim)
{
    struct gb_lane *lane = &sim->store->lanes[0];
    simdisk_hold_back(sim->disk, false);
    assert_int_equal(gb_lane_written(lane, gb_lane_serial(lane)), 0);
}

/* ---- what others wait for ------------------------------------------------------------------ */

static void put__is_refused_where_another_waits_for_a_block(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1, SMALL);
    uint64_t number = fill_blocks(sim);
    struct goblin_stats before = gb_simstore_stats(sim);
    uint64_t waited = waits(sim);
    assert_int_equal(put_now(sim, 1, SMALL + 1), -EAGAIN);
    assert_int_equal(put_now(sim, number, SMALL), -EAGAIN);
    assert_false(gb_simstore_has(sim, number));
    struct goblin_stats after = gb_simstore_stats(sim);
    assert_int_equal(waits(sim), waited);
    assert_int_equal(after.would_wait, before.would_wait + 2);
    assert_int_equal(after.puts, before.puts);
    assert_int_equal(after.puts_refused, before.puts_refused);
    assert_int_equal(after.put_bytes, before.put_bytes);
    assert_int_equal(after.objects, before.objects);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.arena_live_bytes, before.arena_live_bytes);
    gb_simstore_put(sim, number, SMALL);
    assert_true(waits(sim) > waited);
    release_blocks(sim);
    gb_simstore_expect(sim, 1, SMALL, 1);
    assert_int_equal(put_now(sim, 1, SMALL + 1), GOBLIN_OK);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    gb_simstore_crash(sim);
    struct gb_key key;
    struct goblin_info info;
    assert_int_equal(goblin_stat(sim->store, gb_key_at(&key, 1), &info), GOBLIN_OK);
    assert_int_equal(info.size, SMALL + 1);
    for (uint64_t i = 1000; i < 1010; i++) {
        gb_simstore_expect(sim, i, SMALL, i);
    }
}

static void delete_and_amend__are_refused_alike(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1001, SMALL);
    (void)fill_blocks(sim);
    struct gb_key key;
    const struct goblin_slice name = gb_key_at(&key, 1001);
    const struct goblin_put_options options = {.nowait = true};
    const struct goblin_amendment amendment = {.marks_set = 1, .nowait = true};
    struct goblin_stats before = gb_simstore_stats(sim);
    struct goblin_info info;
    assert_int_equal(goblin_delete(sim->store, name, &options), -EAGAIN);
    assert_int_equal(goblin_amend(sim->store, name, &amendment, &info), -EAGAIN);
    assert_int_equal(goblin_stat(sim->store, name, &info), GOBLIN_OK);
    assert_int_equal(info.marks, 0);
    assert_int_equal(gb_simstore_stats(sim).would_wait, before.would_wait + 2);
    assert_int_equal(gb_simstore_stats(sim).deletes + gb_simstore_stats(sim).amends, 0);
    release_blocks(sim);
    assert_int_equal(goblin_amend(sim->store, name, &amendment, &info), GOBLIN_OK);
    assert_int_equal(goblin_delete(sim->store, name, &options), GOBLIN_OK);
    assert_int_equal(goblin_delete(sim->store, name, &options), GOBLIN_MISS);
}

static void put__is_refused_while_a_lane_is_held(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1, SMALL);
    gb_lane_lock(&sim->store->lanes[0]);
    assert_int_equal(put_now(sim, 2, SMALL), -EAGAIN);
    gb_lane_unlock(&sim->store->lanes[0]);
    assert_int_equal(put_now(sim, 2, SMALL), GOBLIN_OK);
}

static void put__is_refused_where_ram_must_be_made(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1, SMALL);
    struct gb_lane *lane = &sim->store->lanes[0];
    uint64_t number = 1000;
    atomic_store(&sim->store->arena.allowed, 1);
    for (unsigned tries = 0; tries < 400 && lane->cursor.block != GB_NO_BLOCK; tries++) {
        number = put_until_refused(sim, number, 2000);
        assert_int_equal(gb_lane_written(lane, gb_lane_serial(lane)), 0);
    }
    assert_int_equal(lane->cursor.block, GB_NO_BLOCK); /* it was not for want of a write block */
    assert_int_equal(put_now(sim, number, 2000), -EAGAIN);
    assert_false(gb_simstore_has(sim, number));
    gb_store_rebudget(sim->store);
    assert_int_equal(put_now(sim, number, 2000), GOBLIN_OK);
    gb_simstore_expect(sim, 1, SMALL, 1);
}

static void put__is_refused_at_a_segments_end(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    uint64_t refused = 0;
    for (uint64_t number = 0; number < 400; number++) {
        int rc = put_now(sim, number, 10000);
        assert_true(rc == GOBLIN_OK || rc == -EAGAIN);
        refused += rc == -EAGAIN;
        const struct gb_segment *segment = sim->store->lanes[0].segment;
        if (rc == -EAGAIN) {
            gb_simstore_put(sim, number, 10000);
        }
        assert_true(rc == -EAGAIN || segment == sim->store->lanes[0].segment);
    }
    assert_in_range(refused, 4, 100); /* 4 MB went in, a MiB into each segment */
    assert_int_equal(gb_simstore_stats(sim).would_wait, refused);
    assert_int_equal(gb_simstore_stats(sim).puts, 400);
    for (uint64_t number = 0; number < 400; number++) {
        gb_simstore_expect(sim, number, 10000, number);
    }
}

static void put__too_large_for_a_block_is_refused(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1, SMALL);
    assert_int_equal(put_now(sim, 2, 60 * GB_KIB), -EAGAIN);
    assert_false(gb_simstore_has(sim, 2));
    assert_int_equal(gb_simstore_stats(sim).would_wait, 1);
}

/* ---- what goes with it --------------------------------------------------------------------- */

static void nowait__goes_with_no_durability_alone(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    gb_simstore_put(sim, 1, SMALL);
    struct gb_key key;
    const struct goblin_slice name = gb_key_at(&key, 1);
    for (int durability = GOBLIN_DURABILITY_WRITTEN; durability <= GOBLIN_DURABILITY_SYNCED;
         durability++) {
        const struct goblin_put_options options = {
            .nowait = true, .durability = (enum goblin_durability)durability};
        const struct goblin_amendment amendment = {
            .marks_set = 1, .nowait = true, .durability = (enum goblin_durability)durability};
        assert_int_equal(goblin_put(sim->store, name, name, &options, NULL), -EINVAL);
        assert_int_equal(goblin_delete(sim->store, name, &options), -EINVAL);
        assert_int_equal(goblin_amend(sim->store, name, &amendment, NULL), -EINVAL);
    }
    struct goblin_writer *writer = NULL;
    const struct goblin_put_options options = {.nowait = true};
    assert_int_equal(goblin_writer_begin(&writer, sim->store, name, 10, &options), -EINVAL);
    gb_simstore_close(sim);
    sim->options.durability = GOBLIN_DURABILITY_WRITTEN;
    gb_simstore_open(sim);
    assert_int_equal(put_now(sim, 2, SMALL), -EINVAL);
}

static void writer__that_finds_no_block_says_so_without_making_room(void **state)
{
    struct gb_simstore *sim = *state;
    open_lane(sim);
    struct goblin_writer *writers[64] = {NULL};
    struct gb_key key;
    unsigned count = 0;
    int rc = GOBLIN_OK;
    while (count < 64 && rc == GOBLIN_OK) {
        rc = goblin_writer_begin(&writers[count], sim->store, gb_key_at(&key, count), 10, NULL);
        count += rc == GOBLIN_OK;
    }
    assert_int_equal(rc, -ENOMEM);
    assert_in_range(count, 1, 63);
    uint64_t held = atomic_load(&sim->store->budget.write);
    uint32_t allowed = atomic_load(&sim->store->arena.allowed);
    assert_int_equal(
        goblin_writer_begin(&writers[count], sim->store, gb_key_at(&key, 100), 10, NULL), -ENOMEM);
    assert_int_equal(atomic_load(&sim->store->budget.write), held);
    assert_int_equal(atomic_load(&sim->store->arena.allowed), allowed);
    goblin_writer_abort(writers[--count]);
    assert_int_equal(
        goblin_writer_begin(&writers[count], sim->store, gb_key_at(&key, 100), 10, NULL),
        GOBLIN_OK);
    for (unsigned i = 0; i <= count; i++) {
        goblin_writer_abort(writers[i]);
    }
}

/* On the synchronous path whoever hands a block over does the writing. */
static void put__never_writes_by_itself(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.flush_ms = 3600000;
    fixture->options.lanes = 1;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    gb_fixture_open(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, SMALL, 1), GOBLIN_OK);
    const struct goblin_put_options options = {.nowait = true};
    uint64_t writes = gb_fixture_stats(fixture).device_writes;
    static const unsigned char value[SMALL];
    unsigned stored = 0;
    int rc = GOBLIN_OK;
    for (unsigned tries = 0; rc == GOBLIN_OK && stored < 100; tries++) {
        struct gb_key key;
        rc = goblin_put(fixture->store, gb_key_at(&key, 100 + stored),
                        (struct goblin_slice){value, sizeof(value)}, &options, NULL);
        stored += rc == GOBLIN_OK;
        if (rc == -EAGAIN && stored < 10 && tries < 10000) {
            (void)usleep(1000); /* a thread of the store's has the lane for a moment */
            rc = GOBLIN_OK;
        }
    }
    assert_int_equal(rc, -EAGAIN);
    assert_in_range(stored, 10, 25);
    assert_int_equal(gb_fixture_stats(fixture).device_writes, writes);
    gb_fixture_expect(fixture, 1, SMALL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(put__is_refused_where_another_waits_for_a_block),
        GB_ON_A_SIMULATED_DISK(delete_and_amend__are_refused_alike),
        GB_ON_A_SIMULATED_DISK(put__is_refused_while_a_lane_is_held),
        GB_ON_A_SIMULATED_DISK(put__is_refused_where_ram_must_be_made),
        GB_ON_A_SIMULATED_DISK(put__is_refused_at_a_segments_end),
        GB_ON_A_SIMULATED_DISK(put__too_large_for_a_block_is_refused),
        GB_ON_A_SIMULATED_DISK(nowait__goes_with_no_durability_alone),
        GB_ON_A_SIMULATED_DISK(writer__that_finds_no_block_says_so_without_making_room),
        cmocka_unit_test_setup_teardown(put__never_writes_by_itself, gb_fixture_setup_sync,
                                        gb_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
