/* Openings that fail half way. A drive that fails while its identity is being written is one that
 * is missing: a cache goes on without it, a store only when asked, and what it holds counts for
 * nothing later. One that was lost before is still known to be lost by the next opening. */
#include <errno.h>
#include <string.h>

#include "engine/lane_internal.h"
#include "lib/simstore.h"

#define OBJECTS         40u
#define SIZE            3000u
#define WRITES          4u /* of identities, while two drives enter an epoch */
#define DELETED(number) ((number) % 5 == 0)

static void fill(struct gb_simstore *sim, uint64_t seed)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(gb_simstore_try_put(sim, i, SIZE, seed + i, GOBLIN_DURABILITY_NONE),
                         GOBLIN_OK);
    }
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
}

static void set_scene(struct gb_simstore *sim, enum goblin_mode mode)
{
    sim->options.mode = mode;
    gb_simstore_open(sim);
    fill(sim, 1000);
    gb_simstore_close(sim);
    sim->options.create = false;
}

static unsigned count_missing(struct gb_simstore *sim, uint64_t seed)
{
    unsigned missing = 0;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        if (gb_simstore_has(sim, i)) {
            gb_simstore_expect(sim, i, SIZE, seed + i);
        } else {
            missing++;
        }
    }
    return missing;
}

static void expect_new_ones(struct gb_simstore *sim)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        if (DELETED(i)) {
            assert_false(gb_simstore_has(sim, i));
        } else {
            gb_simstore_expect(sim, i, SIZE, 2000 + i);
        }
    }
}

/* Opens with the nth write or sync failing. */
static int open_with_fault(struct gb_simstore *sim, enum simdisk_kind kind, uint64_t nth,
                           struct goblin_error *error)
{
    simdisk_fail_nth(sim->disk, kind, nth);
    int rc = gb_simstore_try_open(sim, error);
    simdisk_fail_nth(sim->disk, kind, 0);
    return rc;
}

/* Without the drive everything is replaced or deleted, then it is back as it was. */
static void go_on_without(struct gb_simstore *sim)
{
    assert_int_equal(goblin_reader_create(&sim->reader, sim->store, NULL), GOBLIN_OK);
    assert_int_equal(gb_simstore_stats(sim).drives_missing, 1);
    unsigned missing = count_missing(sim, 1000);
    assert_in_range(missing, 1, OBJECTS - 1);
    fill(sim, 2000);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        if (DELETED(i)) {
            assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, i), NULL), GOBLIN_OK);
        }
    }
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    expect_new_ones(sim);
    sim->options.readd_drives = true;
    gb_simstore_crash(sim);
    assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
    expect_new_ones(sim);
    gb_simstore_close(sim);
    gb_simstore_open(sim);
    expect_new_ones(sim);
}

static void renew(void **state)
{
    assert_int_equal(gb_simstore_teardown(state), 0);
    assert_int_equal(gb_simstore_setup(state), 0);
}

static void cache__goes_on_without_it(void **state)
{
    static const enum simdisk_kind kinds[] = {SIMDISK_WRITE, SIMDISK_SYNC};
    for (unsigned round = 0; round < 2 * WRITES; round++) {
        struct gb_simstore *sim = *state;
        struct goblin_error error = {""};
        set_scene(sim, GOBLIN_MODE_CACHE);
        /* Each identity is one write and two syncs, of its file and of its directory. */
        uint64_t nth = round < WRITES ? round + 1 : 2 * (round - WRITES) + 1;
        assert_int_equal(open_with_fault(sim, kinds[round / WRITES], nth, &error), GOBLIN_OK);
        assert_string_equal(error.text, "");
        go_on_without(sim);
        renew(state);
    }
}

static void store__asks_first(void **state)
{
    for (unsigned round = 0; round < WRITES; round++) {
        struct gb_simstore *sim = *state;
        struct goblin_error error = {""};
        set_scene(sim, GOBLIN_MODE_STORE);
        assert_int_equal(open_with_fault(sim, SIMDISK_WRITE, round + 1, &error), GOBLIN_EDRIVE);
        assert_non_null(strstr(error.text, sim->dirs[round % 2]));
        assert_non_null(strstr(error.text, "--degraded"));
        gb_simstore_open(sim); /* being refused has changed nothing */
        assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
        assert_int_equal(count_missing(sim, 1000), 0);
        gb_simstore_close(sim);
        sim->options.degraded = true;
        assert_int_equal(open_with_fault(sim, SIMDISK_WRITE, round + 1, &error), GOBLIN_OK);
        go_on_without(sim);
        renew(state);
    }
}

static void last_drive__that_fails_ends_the_opening(void **state)
{
    struct gb_simstore *sim = *state;
    struct goblin_error error = {""};
    set_scene(sim, GOBLIN_MODE_CACHE);
    simdisk_fail_from_nth(sim->disk, SIMDISK_WRITE, 1);
    assert_int_equal(gb_simstore_try_open(sim, &error), -EIO);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
    assert_int_equal(strncmp(error.text, "open store: ", 12), 0);
    gb_simstore_open(sim);
    assert_int_equal(count_missing(sim, 1000), 0);
}

/* One lane over both drives: values in a segment of the first, deletes in one of the second. */
static void spread(struct gb_simstore *sim)
{
    sim->options.lanes = 1;
    gb_simstore_open(sim);
    fill(sim, 1000);
    assert_int_equal(gb_lane_roll(&sim->store->lanes[0]), 0);
    assert_int_equal(gb_lane_settle(&sim->store->lanes[0], true), 0);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, i), NULL), GOBLIN_OK);
    }
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    gb_store_abandon(sim->store);
    sim->store = NULL;
    simdisk_crash_process(sim->disk);
    simdisk_restart(sim->disk);
}

/* The second drive has been replaced, and the opening that found it so failed at its nth write. */
static void lost_drive__is_still_lost_when_the_opening_failed(void **state)
{
    int rc = -EIO;
    for (uint64_t nth = 1; rc != GOBLIN_OK; nth++) {
        struct gb_simstore *sim = *state;
        struct goblin_error error = {""};
        assert_true(nth < 50);
        spread(sim);
        sim->dirs[1] = "/three";
        assert_int_equal(sim->disk->ops->make_dir(sim->disk, sim->dirs[1]), 0);
        simdisk_fail_from_nth(sim->disk, SIMDISK_WRITE, nth);
        rc = gb_simstore_try_open(sim, &error);
        simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
        if (rc == GOBLIN_OK) {
            break;
        }
        gb_simstore_open(sim);
        assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
        assert_int_equal(count_missing(sim, 1000), OBJECTS);
        gb_simstore_crash(sim);
        assert_int_equal(count_missing(sim, 1000), OBJECTS);
        renew(state);
    }
}

/* The power fails when the nth identity has just been made safe, and then a drive is not there,
 * which may have taken a step that the other has not: the last one even. */
static void drive__that_was_a_step_ahead_is_emptied_when_it_is_back(void **state)
{
    for (unsigned round = 0; round < 2 * WRITES; round++) {
        struct gb_simstore *sim = *state;
        struct goblin_error error = {""};
        unsigned away = round % 2;
        const char *dir = sim->dirs[away];
        set_scene(sim, GOBLIN_MODE_CACHE);
        simdisk_cut_at_nth(sim->disk, SIMDISK_SYNC, UINT64_C(2) * (round / 2 + 1));
        assert_int_equal(gb_simstore_try_open(sim, &error), -EIO);
        simdisk_restart(sim->disk);
        sim->dirs[away] = "/nowhere";
        gb_simstore_open(sim);
        unsigned missing = count_missing(sim, 1000);
        assert_in_range(missing, 1, OBJECTS - 1);
        sim->dirs[away] = dir;
        gb_simstore_crash(sim);
        assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
        assert_int_equal(count_missing(sim, 1000), missing); /* what was missed stays away */
        renew(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(cache__goes_on_without_it),
        GB_ON_A_SIMULATED_DISK(store__asks_first),
        GB_ON_A_SIMULATED_DISK(last_drive__that_fails_ends_the_opening),
        GB_ON_A_SIMULATED_DISK(drive__that_was_a_step_ahead_is_emptied_when_it_is_back),
        GB_ON_A_SIMULATED_DISK(lost_drive__is_still_lost_when_the_opening_failed),
    };
    return cmocka_run_group_tests_name("failed opening", tests, NULL, NULL);
}
