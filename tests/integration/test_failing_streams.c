/* Streams beside a drive that fails writes: what was written goes elsewhere, and their writers hear
 * nothing of it, unless bytes are lost or no drive is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/keeper.h"
#include "engine/writer_internal.h"
#include "lib/pattern.h"
#include "lib/simstore.h"

#define STREAMS 3u
#define PIECE   50000u
#define ALL     (3 * GB_MIB) /* no stream is longer */

/* One of a block and an odd end, one longer than a segment, one that ends with a block; the last
 * does not announce its size. */
static const uint64_t sizes[STREAMS] = {300001, 2 * GB_MIB + 4097, 12 * 64 * GB_KIB};

struct streams {
    struct gb_simstore *sim;
    struct goblin_writer *writers[STREAMS];
    uint64_t written[STREAMS];
    enum goblin_durability durability;
    uint64_t seed;
};

static struct gb_simstore *set_up(size_t drives)
{
    void *state = NULL;
    assert_int_equal(gb_simstore_setup(&state), 0);
    struct gb_simstore *sim = state;
    sim->options.dir_count = drives;
    sim->options.size_bytes = 24 * drives * GB_MIB;
    sim->options.mode = GOBLIN_MODE_STORE;
    gb_simstore_open(sim);
    return sim;
}

static void take_down(struct gb_simstore *sim)
{
    void *state = sim;
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
    simdisk_refuse_writes(sim->disk, NULL);
    assert_int_equal(gb_simstore_teardown(&state), 0);
}

static struct streams begin_all(struct gb_simstore *sim, enum goblin_durability durability,
                                uint64_t seed)
{
    struct streams streams = {.sim = sim, .durability = durability, .seed = seed};
    for (unsigned i = 0; i < STREAMS; i++) {
        struct gb_key key;
        const struct goblin_put_options options = {.meta = {"me", i}, .durability = durability};
        uint64_t announced = i == STREAMS - 1 ? GOBLIN_SIZE_UNKNOWN : sizes[i];
        assert_int_equal(goblin_writer_begin(&streams.writers[i], sim->store, gb_key_at(&key, i),
                                             announced, &options),
                         GOBLIN_OK);
    }
    return streams;
}

/* In turns, up to so many bytes of each; the first fault of each ends its turns. */
static int write_all(struct streams *streams, uint64_t until)
{
    static unsigned char piece[PIECE];
    int rc = GOBLIN_OK;
    for (uint64_t at = 0; at < until && rc == GOBLIN_OK; at += PIECE) {
        for (unsigned i = 0; i < STREAMS && rc == GOBLIN_OK; i++) {
            uint64_t end = gb_min(sizes[i], gb_min(at + PIECE, until));
            uint64_t from = streams->written[i];
            if (from < end) {
                gb_pattern_fill(piece, end - from, streams->seed + i, from);
                rc = goblin_writer_write(streams->writers[i], piece, end - from);
                streams->written[i] = end;
            }
        }
    }
    return rc;
}

static void commit_all(struct streams *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(goblin_writer_commit(streams->writers[i], NULL), GOBLIN_OK);
    }
}

static void abort_all(struct streams *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        goblin_writer_abort(streams->writers[i]);
    }
}

static void expect_all(struct gb_simstore *sim, uint64_t seed)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        gb_simstore_expect(sim, i, sizes[i], seed + i);
    }
}

static bool has_failed(const struct gb_simstore *sim)
{
    struct simdisk_counts counts;
    simdisk_counts(sim->disk, &counts);
    return counts.failed > 0;
}

static void cut_power(struct gb_simstore *sim)
{
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    simdisk_power_cut(sim->disk);
    gb_store_abandon(sim->store);
    simdisk_restart(sim->disk);
    gb_simstore_open(sim);
}

/* One write fails, the Nth, for every N. */
static void fail_each_write(enum goblin_durability durability, void (*crash)(struct gb_simstore *))
{
    uint64_t rescued = 0;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct gb_simstore *sim = set_up(1);
        simdisk_fail_nth(sim->disk, SIMDISK_WRITE, n);
        struct streams streams = begin_all(sim, durability, 100);
        assert_int_equal(write_all(&streams, ALL), GOBLIN_OK);
        commit_all(&streams);
        expect_all(sim, 100);
        failed = has_failed(sim);
        rescued += gb_simstore_stats(sim).streams_rescued;
        assert_int_equal(gb_simstore_stats(sim).drives_retired, 0);
        if (n % 3 == 0) {
            gb_keeper_round(sim->store); /* empties the segment that failed */
            expect_all(sim, 100);
        }
        assert_int_equal(atomic_load(&sim->store->streaming_bytes), 0);
        simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
        crash(sim);
        expect_all(sim, 100);
        take_down(sim);
    }
    assert_true(rescued > 20);
}

static void stream__goes_on_beside_a_write_that_fails_and_survives_a_kill(void **state)
{
    (void)state;
    fail_each_write(GOBLIN_DURABILITY_WRITTEN, gb_simstore_crash);
}

static void stream__goes_on_beside_a_write_that_fails_and_survives_a_power_cut(void **state)
{
    (void)state;
    fail_each_write(GOBLIN_DURABILITY_SYNCED, cut_power);
}

/* From half way on one of two drives takes nothing more. */
static void stream__goes_on_on_another_drive(void **state)
{
    (void)state;
    static const char *const drives[] = {"/one", "/two"};
    for (unsigned i = 0; i < 4; i++) {
        bool synced = i >= 2;
        struct gb_simstore *sim = set_up(2);
        struct streams streams =
            begin_all(sim, synced ? GOBLIN_DURABILITY_SYNCED : GOBLIN_DURABILITY_WRITTEN, 7);
        assert_int_equal(write_all(&streams, 4 * PIECE), GOBLIN_OK);
        simdisk_refuse_writes(sim->disk, drives[i % 2]);
        assert_int_equal(write_all(&streams, ALL), GOBLIN_OK);
        commit_all(&streams);
        expect_all(sim, 7);
        assert_true(gb_simstore_stats(sim).streams_rescued > 0);
        assert_int_equal(gb_simstore_stats(sim).drives_retired, 1);
        simdisk_refuse_writes(sim->disk, NULL);
        (synced ? cut_power : gb_simstore_crash)(sim);
        expect_all(sim, 7);
        take_down(sim);
    }
}

static void stream__hears_of_it_when_no_drive_is_left(void **state)
{
    (void)state;
    struct gb_simstore *sim = set_up(2);
    struct streams streams = begin_all(sim, GOBLIN_DURABILITY_WRITTEN, 1);
    assert_int_equal(write_all(&streams, ALL), GOBLIN_OK);
    commit_all(&streams);
    streams = begin_all(sim, GOBLIN_DURABILITY_WRITTEN, 10);
    assert_int_equal(write_all(&streams, 4 * PIECE), GOBLIN_OK);
    simdisk_fail_from_nth(sim->disk, SIMDISK_WRITE, 1);
    assert_int_equal(write_all(&streams, ALL), -EIO);
    abort_all(&streams);
    assert_int_equal(atomic_load(&sim->store->streaming_bytes), 0);
    assert_int_equal(gb_simstore_stats(sim).drives_retired, 2);
    expect_all(sim, 1);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
    gb_simstore_crash(sim);
    expect_all(sim, 1);
    take_down(sim);
}

/* What the device has taken it must give back, or the stream is lost: that one alone. */
static void stream__hears_of_it_when_its_bytes_are_lost(void **state)
{
    (void)state;
    struct gb_simstore *sim = set_up(1);
    struct streams streams = begin_all(sim, GOBLIN_DURABILITY_WRITTEN, 10);
    assert_int_equal(write_all(&streams, 6 * PIECE), GOBLIN_OK);
    const struct goblin_writer *writer = streams.writers[1];
    const struct gb_segment *segment = writer->room.segment;
    assert_non_null(segment);
    assert_true(writer->room_used >= 4 * 64 * GB_KIB);
    char path[256];
    assert_int_equal(gb_segment_path(&sim->store->segments, segment->slot, path, sizeof(path)), 0);
    assert_int_equal(simdisk_unreadable(sim->disk, path, writer->room.offset + GB_UNIT, 512), 0);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 1);
    /* Its next write may come one piece later, behind one that is in flight. */
    int rc = GOBLIN_OK;
    for (uint64_t until = 7; until < 12 && rc == GOBLIN_OK; until++) {
        static unsigned char piece[PIECE];
        gb_pattern_fill(piece, PIECE, 11, streams.written[1]);
        rc = goblin_writer_write(streams.writers[1], piece, PIECE);
        streams.written[1] += PIECE;
    }
    assert_int_equal(rc, -EIO);
    assert_int_equal(goblin_writer_commit(streams.writers[1], NULL), -EIO);
    streams.writers[1] = NULL;
    assert_false(gb_simstore_has(sim, 1));
    abort_all(&streams);
    assert_int_equal(atomic_load(&sim->store->streaming_bytes), 0);
    streams = begin_all(sim, GOBLIN_DURABILITY_WRITTEN, 20);
    assert_int_equal(write_all(&streams, ALL), GOBLIN_OK);
    commit_all(&streams);
    expect_all(sim, 20);
    take_down(sim);
}

/* Bytes that the device says it has taken, and has not: their sums tell. */
static void stream__is_not_moved_with_wrong_bytes(void **state)
{
    (void)state;
    struct gb_simstore *sim = set_up(1);
    struct streams streams = begin_all(sim, GOBLIN_DURABILITY_WRITTEN, 10);
    assert_int_equal(write_all(&streams, 6 * PIECE), GOBLIN_OK);
    const struct goblin_writer *writer = streams.writers[1];
    char path[256];
    assert_int_equal(
        gb_segment_path(&sim->store->segments, writer->room.segment->slot, path, sizeof(path)), 0);
    assert_int_equal(simdisk_flip(sim->disk, path, writer->room.offset + 3, 4), 0);
    simdisk_fail_from_nth(sim->disk, SIMDISK_WRITE, 1);
    assert_int_equal(write_all(&streams, ALL), -EIO);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
    abort_all(&streams);
    take_down(sim);
}

/* Something else in its segment has failed: the stream goes on elsewhere, and leaves what it has
 * written where it is. */
static void stream__turns_away_from_a_segment_that_has_failed(void **state)
{
    (void)state;
    struct gb_simstore *sim = set_up(1);
    struct streams streams = begin_all(sim, GOBLIN_DURABILITY_SYNCED, 10);
    assert_int_equal(write_all(&streams, 4 * PIECE), GOBLIN_OK);
    struct gb_segment *segment = streams.writers[1]->room.segment;
    assert_non_null(segment);
    (void)gb_segments_fail(&sim->store->segments, segment, false);
    gb_keeper_round(sim->store); /* which must not empty it under the streams */
    assert_int_equal(write_all(&streams, 8 * PIECE), GOBLIN_OK);
    assert_ptr_not_equal(streams.writers[1]->room.segment, segment);
    assert_int_equal(write_all(&streams, ALL), GOBLIN_OK);
    commit_all(&streams);
    assert_int_equal(gb_simstore_stats(sim).streams_rescued, 0);
    gb_keeper_round(sim->store);
    expect_all(sim, 10);
    cut_power(sim);
    expect_all(sim, 10);
    take_down(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__goes_on_beside_a_write_that_fails_and_survives_a_kill),
        cmocka_unit_test(stream__goes_on_beside_a_write_that_fails_and_survives_a_power_cut),
        cmocka_unit_test(stream__goes_on_on_another_drive),
        cmocka_unit_test(stream__hears_of_it_when_no_drive_is_left),
        cmocka_unit_test(stream__hears_of_it_when_its_bytes_are_lost),
        cmocka_unit_test(stream__is_not_moved_with_wrong_bytes),
        cmocka_unit_test(stream__turns_away_from_a_segment_that_has_failed),
    };
    return cmocka_run_group_tests_name("failing_streams", tests, NULL, NULL);
}
