/* Drives that refuse all writes for a while: retired, tried now and then, and used again. */
#include <errno.h>
#include <string.h>

#include "engine/keeper.h"
#include "engine/trial.h"
#include "lib/simstore.h"

#define SIZE    30000u
#define OBJECTS 12u

struct scene {
    struct gb_simstore *sim;
    unsigned left; /* lines of the log that say so */
    unsigned used;
};

static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    (void)level;
    struct scene *scene = arg;
    scene->left += strstr(line, "it is not written to any more") != NULL;
    scene->used += strstr(line, "it is used again") != NULL;
}

static void begin(struct scene *scene, size_t drives, enum goblin_mode mode)
{
    struct goblin_options *options = &scene->sim->options;
    options->dir_count = drives;
    options->mode = mode;
    options->residency = GOBLIN_RESIDENCY_FIXED;
    options->head_bytes = 4096;
    options->log = listen;
    options->log_arg = scene;
    gb_simstore_open(scene->sim);
}

static int put(struct gb_simstore *sim, uint64_t number, enum goblin_durability durability)
{
    return gb_simstore_try_put(sim, number, SIZE, number, durability);
}

/* Puts until the drive that refuses writes is retired. */
static void retire(struct gb_simstore *sim)
{
    for (uint64_t i = 0; gb_simstore_stats(sim).drives_retired == 0; i++) {
        assert_true(i < 100);
        (void)put(sim, 1000 + i, GOBLIN_DURABILITY_WRITTEN);
        gb_keeper_round(sim->store);
    }
}

static void pass(struct gb_simstore *sim, int64_t ms)
{
    sim->now_ms += ms;
    gb_keeper_round(sim->store);
}

static void expect_all(struct gb_simstore *sim)
{
    for (uint64_t number = 0; number < OBJECTS; number++) {
        gb_simstore_expect(sim, number, SIZE, number);
    }
}

static void drive__that_is_well_again_takes_data(void **state)
{
    for (unsigned cache = 0; cache < 2; cache++) {
        struct scene scene = {.sim = *state};
        struct gb_simstore *sim = scene.sim;
        begin(&scene, 1, cache == 1 ? GOBLIN_MODE_CACHE : GOBLIN_MODE_STORE);
        for (uint64_t number = 0; number < OBJECTS; number++) {
            assert_int_equal(put(sim, number, GOBLIN_DURABILITY_SYNCED), GOBLIN_OK);
        }
        simdisk_refuse_writes(sim->disk, "/one");
        retire(sim);
        assert_int_equal(scene.left, 1);
        assert_int_equal(put(sim, 500, GOBLIN_DURABILITY_WRITTEN), -EIO);
        expect_all(sim);
        pass(sim, GB_TRIAL_PAUSE_MS); /* still ill */
        assert_int_equal(gb_simstore_stats(sim).drive_trials, 1);
        assert_int_equal(gb_simstore_stats(sim).drives_retired, 1);
        simdisk_refuse_writes(sim->disk, NULL);
        pass(sim, GB_TRIAL_PAUSE_MS); /* not yet */
        assert_int_equal(gb_simstore_stats(sim).drives_retired, 1);
        pass(sim, GB_TRIAL_PAUSE_MS);
        struct goblin_stats stats = gb_simstore_stats(sim);
        assert_int_equal(stats.drives_retired, 0);
        assert_int_equal(stats.drive_trials, 2);
        assert_int_equal(stats.drive_returns, 1);
        assert_int_equal(scene.used, 1);
        gb_keeper_round(sim->store); /* what had failed is emptied */
        stats = gb_simstore_stats(sim);
        assert_int_equal(stats.segments_failing, 0);
        assert_int_equal(stats.segments_lost, 0);
        assert_int_equal(put(sim, 500, GOBLIN_DURABILITY_SYNCED), GOBLIN_OK);
        assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
        gb_simstore_expect(sim, 500, SIZE, 500);
        expect_all(sim);
        gb_simstore_crash(sim);
        expect_all(sim);
        gb_simstore_expect(sim, 500, SIZE, 500);
        gb_simstore_close(sim);
        sim->disk->ops->destroy(sim->disk);
        sim->disk = simdisk_create(7);
    }
}

/* Ten seconds before the first one, then twice as long each, up to an hour, whatever a clock that
 * is set back says. */
static void trials__come_at_growing_pauses(void **state)
{
    struct scene scene = {.sim = *state};
    struct gb_simstore *sim = scene.sim;
    begin(&scene, 1, GOBLIN_MODE_CACHE);
    simdisk_refuse_writes(sim->disk, "/one");
    retire(sim);
    int64_t pause = GB_TRIAL_PAUSE_MS;
    for (unsigned trials = 0; trials < 12; trials++) {
        if (trials == 5) {
            pass(sim, -86400000);
        }
        pass(sim, pause - 1);
        assert_int_equal(gb_simstore_stats(sim).drive_trials, trials);
        pass(sim, 1);
        assert_int_equal(gb_simstore_stats(sim).drive_trials, trials + 1);
        pause = 2 * pause < GB_TRIAL_PAUSE_MAX_MS ? 2 * pause : GB_TRIAL_PAUSE_MAX_MS;
    }
    simdisk_refuse_writes(sim->disk, NULL);
    pass(sim, pause);
    assert_int_equal(gb_simstore_stats(sim).drives_retired, 0);
    /* Soon ill again, it waits as long. */
    simdisk_refuse_writes(sim->disk, "/one");
    retire(sim);
    pass(sim, pause - 1);
    assert_int_equal(gb_simstore_stats(sim).drive_trials, 13);
    pass(sim, 1);
    assert_int_equal(gb_simstore_stats(sim).drive_trials, 14);
    simdisk_refuse_writes(sim->disk, NULL);
    pass(sim, pause);
    assert_int_equal(gb_simstore_stats(sim).drives_retired, 0);
}

/* What had been told to nobody as safe is read from where it waits, half of it from the drive, and
 * written once that takes it. */
static void objects__in_blocks_that_were_refused_are_served_and_saved(void **state)
{
    for (uint64_t nth = 1; nth < 14; nth++) {
        struct scene scene = {.sim = *state};
        struct gb_simstore *sim = scene.sim;
        sim->options.lanes = 1;
        begin(&scene, 1, GOBLIN_MODE_STORE);
        uint64_t stored = 0;
        for (uint64_t number = 0; number < 40; number++) {
            simdisk_refuse_writes(sim->disk, number >= nth ? "/one" : NULL);
            if (put(sim, number, GOBLIN_DURABILITY_NONE) != GOBLIN_OK) {
                break;
            }
            stored = number + 1;
        }
        assert_true(stored > nth);
        gb_keeper_round(sim->store);
        for (unsigned again = 0; again < 2; again++) {
            for (uint64_t number = 0; number < stored; number++) {
                gb_simstore_expect(sim, number, SIZE, number);
            }
        }
        assert_int_equal(goblin_sync(sim->store), -EIO);
        for (uint64_t number = 0; number < stored; number++) {
            gb_simstore_expect(sim, number, SIZE, number);
        }
        simdisk_refuse_writes(sim->disk, NULL);
        pass(sim, GB_TRIAL_PAUSE_MAX_MS);
        pass(sim, GB_TRIAL_PAUSE_MAX_MS);
        assert_int_equal(gb_simstore_stats(sim).drives_retired, 0);
        assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
        gb_simstore_crash(sim);
        for (uint64_t number = 0; number < stored; number++) {
            gb_simstore_expect(sim, number, SIZE, number);
        }
        gb_simstore_close(sim);
        sim->disk->ops->destroy(sim->disk);
        sim->disk = simdisk_create(nth + 20);
    }
}

/* What was deleted and replaced while one of two drives took nothing stays so. */
static void drive__that_returns_brings_nothing_back(void **state)
{
    struct scene scene = {.sim = *state};
    struct gb_simstore *sim = scene.sim;
    begin(&scene, 2, GOBLIN_MODE_STORE);
    for (uint64_t number = 0; number < OBJECTS; number++) {
        assert_int_equal(put(sim, number, GOBLIN_DURABILITY_SYNCED), GOBLIN_OK);
    }
    simdisk_refuse_writes(sim->disk, "/two");
    retire(sim);
    const struct goblin_put_options options = {.durability = GOBLIN_DURABILITY_SYNCED};
    for (uint64_t number = 0; number < OBJECTS; number++) {
        struct gb_key key;
        if (number % 2 == 0) {
            assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, number), &options),
                             GOBLIN_OK);
        } else {
            assert_int_equal(
                gb_simstore_try_put(sim, number, SIZE, number + 100, GOBLIN_DURABILITY_SYNCED),
                GOBLIN_OK);
        }
    }
    simdisk_refuse_writes(sim->disk, NULL);
    pass(sim, GB_TRIAL_PAUSE_MAX_MS);
    assert_int_equal(gb_simstore_stats(sim).drives_retired, 0);
    for (unsigned crash = 0; crash < 2; crash++) {
        for (uint64_t number = 0; number < OBJECTS; number++) {
            if (number % 2 == 0) {
                assert_false(gb_simstore_has(sim, number));
            } else {
                gb_simstore_expect(sim, number, SIZE, number + 100);
            }
        }
        gb_simstore_crash(sim);
        assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(drive__that_is_well_again_takes_data),
        GB_ON_A_SIMULATED_DISK(trials__come_at_growing_pauses),
        GB_ON_A_SIMULATED_DISK(objects__in_blocks_that_were_refused_are_served_and_saved),
        GB_ON_A_SIMULATED_DISK(drive__that_returns_brings_nothing_back),
    };
    return cmocka_run_group_tests_name("trials", tests, NULL, NULL);
}
