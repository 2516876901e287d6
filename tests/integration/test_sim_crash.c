/* Simulated lives of a store, crash after crash: goblin-sim runs more of them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cmocka.h>

#include "sim/simmodel.h"
#include "sim/simrun.h"
#include "sim/simrun_internal.h"

#define FIXED_SEEDS 20u
#define FRESH_SEEDS 30u

static void run_seeds(uint64_t first, uint64_t count, struct simrun_result *sum)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct simrun_result result;
        if (!simrun(seed, false, &result)) {
            fail_msg("goblin-sim --seed %" PRIu64 ": %s", seed, result.why);
        }
        sum->power_cuts += result.power_cuts;
        sum->clean_closes += result.clean_closes;
        sum->crashes += result.crashes;
        sum->reclaimed += result.reclaimed;
        sum->kept_in_ram += result.kept_in_ram;
        sum->written_later += result.written_later;
        sum->rescued += result.rescued;
        sum->times_full += result.times_full;
    }
}

static void store__keeps_its_promises_through_fixed_crashes(void **state)
{
    (void)state;
    struct simrun_result sum = {0};
    run_seeds(1, FIXED_SEEDS, &sum);
    assert_true(sum.power_cuts > FIXED_SEEDS);
    assert_true(sum.clean_closes > 0);
    assert_true(sum.crashes > sum.clean_closes);
    assert_true(sum.reclaimed > 0);
    assert_true(sum.kept_in_ram > 0);
    assert_true(sum.written_later > 0);
    assert_true(sum.rescued > 0);
    assert_true(sum.times_full > 0);
}

/* Each of these has found a defect. */
static void store__keeps_its_promises_through_crashes_that_broke_them(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {
        /* A summary grew while its lane waited for room, into the second header. */
        2061,
        7001752,
        /* An extent left of what a cache had forgotten when it expired. */
        90000852,
        90000956,
        /* A drive was a step ahead of the others, and then missing. */
        7000673,
        /* A put waited for ever behind a failing segment that was kept for what is moved. */
        300002299,
        /* Others left a cache two files, and nothing to evict but what it was filling. */
        8800002354,
        /* An expiry was on a drive that failed when a cache forgot what it expired. */
        3736888587,
        /* Others filled the file system, and a lane had no segment for its deletes. */
        200715,
        201253,
        /* Files that a crash had left short passed for room that deletes have. */
        201404,
    };
    struct simrun_result sum = {0};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        run_seeds(seeds[i], 1, &sum);
    }
}

static void store__keeps_its_promises_through_fresh_crashes(void **state)
{
    (void)state;
    uint32_t first = 0;
    const char *given = getenv("GOBLIN_SEED");
    if (given != NULL) {
        first = (uint32_t)strtoul(given, NULL, 0);
    } else {
        assert_int_equal(getrandom(&first, sizeof(first), 0), sizeof(first));
    }
    print_message("seeds from %" PRIu32 " (GOBLIN_SEED)\n", first);
    struct simrun_result sum = {0};
    run_seeds(first, FRESH_SEEDS, &sum);
}

/* ---- the checker itself -------------------------------------------------------------------- */

static void write_state(struct simkey *key, uint32_t write, enum goblin_durability acknowledged)
{
    const struct simstate state = {.present = true, .flags = write, .size = 10, .version = write};
    simkey_append(key, &state, acknowledged);
}

static bool sees(struct simkey *key, enum simcrash crash, uint32_t write)
{
    const struct goblin_info info = {.flags = write, .size = 10, .version = write};
    return simkey_survives(key, crash, write == 0 ? NULL : &info, 0);
}

/* One synced state, one written, one not even that. */
static struct simkey three_states(void)
{
    struct simkey key;
    simkey_init(&key);
    write_state(&key, 1, GOBLIN_DURABILITY_SYNCED);
    write_state(&key, 2, GOBLIN_DURABILITY_WRITTEN);
    write_state(&key, 3, GOBLIN_DURABILITY_NONE);
    return key;
}

static void checker__knows_what_each_crash_may_leave(void **state)
{
    (void)state;
    static const struct {
        enum simcrash crash;
        uint32_t write; /* 0: nothing; 9: what was never written */
        bool may;
    } cases[] = {
        {SIMCRASH_NONE, 3, true},   {SIMCRASH_NONE, 2, false}, {SIMCRASH_NONE, 0, false},
        {SIMCRASH_KILL, 3, true},   {SIMCRASH_KILL, 2, true},  {SIMCRASH_KILL, 1, false},
        {SIMCRASH_KILL, 0, false},  {SIMCRASH_KILL, 9, false}, {SIMCRASH_POWER, 3, true},
        {SIMCRASH_POWER, 2, true},  {SIMCRASH_POWER, 1, true}, {SIMCRASH_POWER, 0, false},
        {SIMCRASH_POWER, 9, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct simkey key = three_states();
        assert_int_equal(sees(&key, cases[i].crash, cases[i].write), cases[i].may);
        simkey_fini(&key);
    }
}

static void checker__remembers_what_a_kill_left_and_a_power_cut_may_undo(void **state)
{
    (void)state;
    struct simkey key = three_states();
    assert_true(sees(&key, SIMCRASH_KILL, 2));
    assert_false(sees(&key, SIMCRASH_NONE, 3));
    assert_true(sees(&key, SIMCRASH_POWER, 1));
    assert_false(sees(&key, SIMCRASH_POWER, 2));
    simkey_fini(&key);
}

static void checker__lets_nothing_durably_deleted_come_back(void **state)
{
    (void)state;
    struct simkey key = three_states();
    const struct simstate absent = {0};
    simkey_append(&key, &absent, GOBLIN_DURABILITY_SYNCED);
    assert_false(sees(&key, SIMCRASH_POWER, 3));
    assert_true(sees(&key, SIMCRASH_POWER, 0));
    simkey_fini(&key);
}

/* What they alone hold may be out of date, and nothing says so. */
static void drives__that_missed_an_opening_never_come_back_alone(void **state)
{
    (void)state;
    static struct simrun run;
    struct simrun_result result = {.operations = 0};
    bool missed[SIMRUN_DRIVES_MAX] = {false};
    unsigned both = 0;
    run = (struct simrun){.result = &result, .opened = true};
    run.options = (struct goblin_options){.dir_count = 3, .mode = GOBLIN_MODE_CACHE};
    gb_rng_init(&run.rng, 1);
    run.disk = simdisk_create(1);
    simdrives_init(&run, SIMRUN_DRIVES_MAX);
    for (unsigned round = 0; round < 10000; round++) {
        simdrives_draw(&run, SIMCRASH_POWER);
        bool opens = simrun_chance(&run, 50);
        unsigned current = 0;
        unsigned late = 0;
        for (unsigned i = 0; i < SIMRUN_DRIVES_MAX; i++) {
            bool here = run.dirs[i] == run.drives[i].path;
            current += here && !missed[i];
            late += here && missed[i];
            missed[i] = !here || (missed[i] && !opens);
        }
        assert_true(current > 0);
        both += late > 0;
        simdrives_note(&run, false);
        if (opens) {
            simdrives_note(&run, true);
        }
    }
    assert_true(both > 100);
    run.disk->ops->destroy(run.disk);
}

static void life__is_the_same_for_the_same_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 105; seed++) {
        struct simrun_result first;
        struct simrun_result second;
        assert_true(simrun(seed, false, &first));
        assert_true(simrun(seed, false, &second));
        assert_int_equal(first.operations, second.operations);
        assert_int_equal(first.power_cuts, second.power_cuts);
        assert_int_equal(first.reclaimed, second.reclaimed);
        assert_int_equal(first.refused, second.refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store__keeps_its_promises_through_fixed_crashes),
        cmocka_unit_test(store__keeps_its_promises_through_crashes_that_broke_them),
        cmocka_unit_test(store__keeps_its_promises_through_fresh_crashes),
        cmocka_unit_test(checker__knows_what_each_crash_may_leave),
        cmocka_unit_test(checker__remembers_what_a_kill_left_and_a_power_cut_may_undo),
        cmocka_unit_test(checker__lets_nothing_durably_deleted_come_back),
        cmocka_unit_test(drives__that_missed_an_opening_never_come_back_alone),
        cmocka_unit_test(life__is_the_same_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
