/* Writes and syncs that fail, each in turn: what was to be written goes elsewhere, nothing that was
 * acknowledged is lost, and a drive that keeps failing is left alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <goblin/reader.h>

#include "base/bits.h"
#include "engine/keeper.h"
#include "engine/store.h"
#include "lib/pattern.h"
#include "sim/simdisk.h"
#include "sim/simshell.h"

#define OBJECTS   48u
#define VALUE_MAX (200 * GB_KIB)

struct bench {
    struct gb_io *disk;
    struct goblin *store;
    struct goblin_reader *reader;
    struct goblin_options options;
    enum goblin_durability durability;
    unsigned char *value;
    unsigned lines; /* of the log that tell of an abandoned segment */
};

static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    (void)level;
    struct bench *bench = arg;
    bench->lines += strstr(line, "abandoned") != NULL;
}

static void open_store(struct bench *bench)
{
    struct goblin_error error = {""};
    int rc = gb_store_open(&bench->store, &bench->options, simshell_create(bench->disk), &error);
    if (rc != GOBLIN_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(goblin_reader_create(&bench->reader, bench->store, NULL), GOBLIN_OK);
}

static void begin(struct bench *bench, enum goblin_durability durability)
{
    static const char *const dirs[] = {"/one"};
    *bench = (struct bench){.disk = simdisk_create(5), .durability = durability};
    bench->value = malloc(VALUE_MAX);
    assert_non_null(bench->value);
    bench->options = (struct goblin_options){
        .dirs = dirs,
        .dir_count = 1,
        .create = true,
        .size_bytes = 32 * GB_MIB,
        .segment_bytes = GB_MIB,
        .lanes = 2,
        .mode = GOBLIN_MODE_STORE,
        .memory_bytes = 8 * GB_MIB,
        .write_block_bytes = 64 * GB_KIB,
        .flush_ms = UINT32_MAX,
        .checkpoint_s = UINT32_MAX,
        .log = listen,
        .log_arg = bench,
    };
    open_store(bench);
}

static void take_apart(struct bench *bench)
{
    goblin_reader_destroy(bench->reader);
    gb_store_abandon(bench->store);
    bench->store = NULL;
}

static void end(struct bench *bench)
{
    if (bench->store != NULL) {
        take_apart(bench);
    }
    bench->disk->ops->destroy(bench->disk);
    free(bench->value);
}

static struct goblin_slice name(unsigned number, char *text, size_t len)
{
    int n = snprintf(text, len, "object %u", number);
    return (struct goblin_slice){text, (size_t)n};
}

static size_t size_of(unsigned number)
{
    static const size_t sizes[] = {10, 700, 5000, 17000, 60, 40000, 0, 150000};
    return sizes[number % 8] + number;
}

static int put(struct bench *bench, unsigned number, unsigned seed)
{
    char text[32];
    const struct goblin_put_options options = {.durability = bench->durability};
    gb_pattern_fill(bench->value, size_of(number), seed, 0);
    return goblin_put(bench->store, name(number, text, sizeof(text)),
                      (struct goblin_slice){bench->value, size_of(number)}, &options, NULL);
}

static void expect(struct bench *bench, unsigned number, unsigned seed)
{
    char text[32];
    struct goblin_buffer buffer = {.data = NULL};
    int rc = goblin_load(bench->reader, name(number, text, sizeof(text)), &buffer, NULL, NULL);
    if (seed == 0) {
        assert_int_equal(rc, GOBLIN_MISS);
    } else {
        assert_int_equal(rc, GOBLIN_OK);
        assert_int_equal(buffer.len, size_of(number));
        assert_true(gb_pattern_holds(buffer.data, buffer.len, seed, 0));
    }
    goblin_buffer_free(&buffer);
}

/* Puts, overwrites and deletes; what each key holds then is noted. Every call succeeds. */
static void work(struct bench *bench, unsigned *seeds)
{
    for (unsigned number = 0; number < OBJECTS; number++) {
        assert_int_equal(put(bench, number, number + 1), GOBLIN_OK);
        seeds[number] = number + 1;
        if (number % 3 == 2) {
            assert_int_equal(put(bench, number - 1, number + 1000), GOBLIN_OK);
            seeds[number - 1] = number + 1000;
        }
        if (number % 5 == 4) {
            char text[32];
            const struct goblin_put_options options = {.durability = bench->durability};
            assert_int_equal(
                goblin_delete(bench->store, name(number - 3, text, sizeof(text)), &options),
                GOBLIN_OK);
            seeds[number - 3] = 0;
        }
    }
}

static void expect_all(struct bench *bench, const unsigned *seeds)
{
    for (unsigned number = 0; number < OBJECTS; number++) {
        expect(bench, number, seeds[number]);
    }
}

static bool has_failed(struct bench *bench)
{
    struct simdisk_counts counts;
    simdisk_counts(bench->disk, &counts);
    return counts.failed > 0;
}

static void reopen_after(struct bench *bench, void (*crash)(struct gb_io *))
{
    crash(bench->disk);
    take_apart(bench);
    simdisk_restart(bench->disk);
    open_store(bench);
}

/* One write fails, the Nth, for every N. */
static void fail_each_write(enum goblin_durability durability, void (*crash)(struct gb_io *))
{
    bool failed = true;
    unsigned told = 0;
    for (uint64_t n = 1; failed; n++) {
        struct bench bench;
        unsigned seeds[OBJECTS];
        begin(&bench, durability);
        simdisk_fail_nth(bench.disk, SIMDISK_WRITE, n);
        work(&bench, seeds);
        expect_all(&bench, seeds);
        failed = has_failed(&bench);
        simdisk_fail_nth(bench.disk, SIMDISK_WRITE, 0);
        if (durability == GOBLIN_DURABILITY_NONE) {
            assert_int_equal(goblin_sync(bench.store), GOBLIN_OK);
        }
        expect_all(&bench, seeds);
        told += bench.lines;
        assert_true(bench.lines <= 2); /* a block and, if it was the first, the header's again */
        reopen_after(&bench, crash);
        expect_all(&bench, seeds);
        end(&bench);
    }
    assert_true(told > 10);
}

static void write__that_fails_goes_elsewhere_and_survives_a_kill(void **state)
{
    (void)state;
    fail_each_write(GOBLIN_DURABILITY_WRITTEN, simdisk_crash_process);
}

static void write__that_fails_goes_elsewhere_and_survives_a_power_cut(void **state)
{
    (void)state;
    fail_each_write(GOBLIN_DURABILITY_SYNCED, simdisk_power_cut);
}

static void write__that_fails_in_the_background_goes_elsewhere_too(void **state)
{
    (void)state;
    fail_each_write(GOBLIN_DURABILITY_NONE, simdisk_power_cut);
}

/* A sync that fails is told to those who waited for it; what follows is safe again once the cleaner
 * has moved what was in doubt. */
static void sync__that_fails_is_told_and_made_good(void **state)
{
    (void)state;
    bool failed = true;
    unsigned refused = 0;
    for (uint64_t n = 1; failed; n++) {
        struct bench bench;
        begin(&bench, GOBLIN_DURABILITY_SYNCED);
        simdisk_fail_nth(bench.disk, SIMDISK_SYNC, n);
        for (unsigned number = 0; number < OBJECTS; number++) {
            int rc = put(&bench, number, number + 1);
            assert_true(rc == GOBLIN_OK || rc == -EIO);
            refused += rc < 0;
            if (rc < 0) {
                /* It may be there, though not safe; what is asked for again is both. */
                gb_keeper_round(bench.store);
                assert_int_equal(put(&bench, number, number + 1), GOBLIN_OK);
            }
            expect(&bench, number, number + 1);
            gb_keeper_round(bench.store);
        }
        failed = has_failed(&bench);
        simdisk_fail_nth(bench.disk, SIMDISK_SYNC, 0);
        gb_keeper_round(bench.store);
        assert_int_equal(goblin_sync(bench.store), GOBLIN_OK);
        reopen_after(&bench, simdisk_power_cut);
        for (unsigned number = 0; number < OBJECTS; number++) {
            expect(&bench, number, number + 1);
        }
        end(&bench);
    }
    assert_true(refused > 0);
}

/* ---- more segments to be synced than a lane's list takes ----------------------------------- */

#define MANY     300u /* of 40 KiB, in one lane, before anything is settled or synced */
#define SEGMENTS 14u  /* that they take */

static int put_large(struct bench *bench, unsigned number)
{
    char text[32];
    const struct goblin_put_options options = {.durability = bench->durability};
    gb_pattern_fill(bench->value, 40 * GB_KIB, number + 1, 0);
    return goblin_put(bench->store, name(number, text, sizeof(text)),
                      (struct goblin_slice){bench->value, 40 * GB_KIB}, &options, NULL);
}

static void begin_many(struct bench *bench, enum goblin_durability durability)
{
    begin(bench, durability);
    take_apart(bench);
    simdisk_crash_process(bench->disk);
    bench->disk->ops->destroy(bench->disk);
    bench->disk = simdisk_create(6);
    bench->options.lanes = 1;
    open_store(bench);
}

static void expect_many(struct bench *bench)
{
    for (unsigned number = 0; number < MANY; number++) {
        char text[32];
        struct goblin_buffer buffer = {.data = NULL};
        assert_int_equal(
            goblin_load(bench->reader, name(number, text, sizeof(text)), &buffer, NULL, NULL),
            GOBLIN_OK);
        assert_int_equal(buffer.len, 40 * GB_KIB);
        assert_true(gb_pattern_holds(buffer.data, buffer.len, number + 1, 0));
        goblin_buffer_free(&buffer);
    }
}

static uint64_t count_syncs(struct bench *bench)
{
    struct goblin_stats stats;
    goblin_stats(bench->store, &stats);
    return stats.device_syncs;
}

/* While nobody asks for a sync there is none, and whether one would succeed concerns nobody. */
static void write__does_not_wait_for_syncs_of_others(void **state)
{
    (void)state;
    struct bench bench;
    begin_many(&bench, GOBLIN_DURABILITY_WRITTEN);
    assert_int_equal(gb_segments_prepare(&bench.store->segments, 2 * SEGMENTS), 0);
    uint64_t before = count_syncs(&bench);
    simdisk_fail_from_nth(bench.disk, SIMDISK_SYNC, 1);
    for (unsigned number = 0; number < MANY; number++) {
        assert_int_equal(put_large(&bench, number), GOBLIN_OK);
    }
    assert_int_equal(count_syncs(&bench), before);
    simdisk_fail_nth(bench.disk, SIMDISK_SYNC, 0);
    reopen_after(&bench, simdisk_crash_process);
    expect_many(&bench);
    end(&bench);
}

/* One sync makes all of them safe; if one of its fdatasyncs fails, whichever, it says so, and the
 * next one makes good for it. */
static void sync__covers_more_segments_than_are_listed(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct bench bench;
        begin_many(&bench, GOBLIN_DURABILITY_NONE);
        for (unsigned number = 0; number < MANY; number++) {
            assert_int_equal(put_large(&bench, number), GOBLIN_OK);
        }
        uint64_t before = count_syncs(&bench);
        simdisk_fail_nth(bench.disk, SIMDISK_SYNC, n);
        int rc = goblin_sync(bench.store);
        failed = has_failed(&bench);
        simdisk_fail_nth(bench.disk, SIMDISK_SYNC, 0);
        assert_int_equal(rc, failed ? -EIO : GOBLIN_OK);
        if (failed) {
            gb_keeper_round(bench.store);
            assert_int_equal(goblin_sync(bench.store), GOBLIN_OK);
        } else {
            assert_int_equal(count_syncs(&bench) - before, SEGMENTS);
            assert_int_equal(n, SEGMENTS + 1);
        }
        reopen_after(&bench, simdisk_power_cut);
        expect_many(&bench);
        end(&bench);
    }
}

static void drive__that_keeps_failing_is_not_written_to_any_more(void **state)
{
    (void)state;
    struct bench bench;
    unsigned seeds[OBJECTS];
    begin(&bench, GOBLIN_DURABILITY_WRITTEN);
    work(&bench, seeds);
    simdisk_fail_from_nth(bench.disk, SIMDISK_WRITE, 1);
    int rc = GOBLIN_OK;
    for (unsigned i = 0; i < 20; i++) {
        rc = put(&bench, OBJECTS + i, 1);
        assert_true(rc < 0);
    }
    assert_true(rc == -EIO || rc == -ENOSPC);
    struct goblin_stats stats;
    goblin_stats(bench.store, &stats);
    assert_int_equal(stats.drives_retired, 1);
    assert_int_equal(stats.segments_free, 0);
    assert_true(bench.lines <= 2 * GB_DRIVE_FAILURES_MAX + 2);
    expect_all(&bench, seeds);
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__that_fails_goes_elsewhere_and_survives_a_kill),
        cmocka_unit_test(write__that_fails_goes_elsewhere_and_survives_a_power_cut),
        cmocka_unit_test(write__that_fails_in_the_background_goes_elsewhere_too),
        cmocka_unit_test(sync__that_fails_is_told_and_made_good),
        cmocka_unit_test(write__does_not_wait_for_syncs_of_others),
        cmocka_unit_test(sync__covers_more_segments_than_are_listed),
        cmocka_unit_test(drive__that_keeps_failing_is_not_written_to_any_more),
    };
    return cmocka_run_group_tests_name("failing_disk", tests, NULL, NULL);
}
