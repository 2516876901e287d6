/* Identities of drives that are used again or replaced: whatever write the power cuts short, and
 * the next one too, the drive is known afterwards and what lies on it counts. */
#include <stdio.h>
#include <string.h>

#include "lib/simstore.h"

#define OBJECTS   6u
#define SEEDS     2u /* of how writes are torn */
#define SIZE      3000u
#define STRAY_MAX 400u

struct scene {
    struct gb_simstore *sim;
    uint64_t seed;
    bool emptied; /* since it was last opened, says the store, a drive was emptied */
};

static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    (void)level;
    struct scene *scene = arg;
    scene->emptied |= strstr(line, "emptied and is used again") != NULL;
}

/* The process is gone with the power. */
static void power_up(struct gb_simstore *sim)
{
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    if (sim->store != NULL) {
        gb_store_abandon(sim->store);
        sim->store = NULL;
    }
    simdisk_restart(sim->disk);
}

static void put_all(struct gb_simstore *sim)
{
    for (uint64_t number = 0; number < OBJECTS; number++) {
        assert_int_equal(gb_simstore_try_put(sim, number, SIZE, number, GOBLIN_DURABILITY_SYNCED),
                         GOBLIN_OK);
    }
}

/* A new disk with a store on it that has been opened `openings` times and holds some objects. */
static void begin(struct scene *scene, unsigned openings)
{
    struct gb_simstore *sim = scene->sim;
    sim->disk->ops->destroy(sim->disk);
    sim->disk = simdisk_create(scene->seed);
    sim->dirs[1] = "/two";
    sim->options.size_bytes = 8 * GB_MIB;
    sim->options.log = listen;
    sim->options.log_arg = scene;
    for (unsigned i = 0; i < openings; i++) {
        gb_simstore_open(sim);
        put_all(sim);
        gb_simstore_close(sim);
    }
}

static void replace_second(struct scene *scene)
{
    struct gb_simstore *sim = scene->sim;
    sim->dirs[1] = "/three";
    assert_int_equal(sim->disk->ops->make_dir(sim->disk, "/three"), 0);
    assert_int_equal(sim->disk->ops->sync_dir(sim->disk, "/"), 0);
}

static void let_second_miss_one(struct scene *scene)
{
    struct gb_simstore *sim = scene->sim;
    sim->dirs[1] = "/nowhere/two";
    gb_simstore_open(sim);
    put_all(sim);
    gb_simstore_close(sim);
    sim->dirs[1] = "/two";
}

/* The same, and another had its place meanwhile. */
static void let_second_be_replaced(struct scene *scene)
{
    let_second_miss_one(scene);
    replace_second(scene);
    gb_simstore_open(scene->sim);
    gb_simstore_close(scene->sim);
    scene->sim->dirs[1] = "/two";
}

/* An opening with a power cut at its nth write. False: there was none any more. */
static bool open_until(struct scene *scene, uint64_t n)
{
    struct gb_simstore *sim = scene->sim;
    struct simdisk_counts before;
    struct simdisk_counts after;
    struct goblin_error error = {""};
    simdisk_counts(sim->disk, &before);
    simdisk_cut_at_nth(sim->disk, SIMDISK_WRITE, n);
    int rc = gb_simstore_try_open(sim, &error);
    simdisk_cut_at_nth(sim->disk, SIMDISK_WRITE, 0);
    simdisk_counts(sim->disk, &after);
    bool cut = after.cuts > before.cuts;
    if (rc < 0 && !cut) {
        fail_msg("%s", error.text);
    }
    power_up(sim);
    return cut;
}

/* Whoever opens the store next finds both drives, uses them, and does not empty them again. */
static void expect_both(struct scene *scene)
{
    struct gb_simstore *sim = scene->sim;
    for (unsigned i = 0; i < 2; i++) {
        scene->emptied = false;
        gb_simstore_open(sim);
        assert_int_equal(gb_simstore_stats(sim).drives_missing, 0);
        assert_true(i == 0 || !scene->emptied);
        for (uint64_t number = 0; i == 1 && number < OBJECTS; number++) {
            gb_simstore_expect(sim, number, SIZE, number);
        }
        put_all(sim);
        gb_simstore_close(sim);
    }
}

/* The power fails at the nth write of the opening that takes the drive in, and at the mth of the
 * one after it, for every n and m. */
static void take_in(struct gb_simstore *sim, unsigned openings, void (*prepare)(struct scene *))
{
    unsigned cuts = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bool first = true;
        for (uint64_t n = 1; first; n++) {
            bool second = true;
            for (uint64_t m = 1; first && second; m++) {
                struct scene scene = {.sim = sim, .seed = seed * 10000 + n * 100 + m};
                begin(&scene, openings);
                prepare(&scene);
                first = open_until(&scene, n);
                second = open_until(&scene, m);
                cuts += first + second;
                expect_both(&scene);
            }
        }
    }
    assert_true(cuts > 100);
}

static void drive__that_replaces_another_is_known_after_torn_writes(void **state)
{
    take_in(*state, 2, replace_second);
}

static void drive__that_replaces_another_of_a_young_store_is_known_too(void **state)
{
    take_in(*state, 1, replace_second);
}

static void drive__that_missed_an_opening_is_known_after_torn_writes(void **state)
{
    take_in(*state, 2, let_second_miss_one);
}

static void drive__that_missed_many_is_known_after_torn_writes(void **state)
{
    take_in(*state, 2, let_second_be_replaced);
}

/* Puts until a lane leaves its drive; how many that took. */
static uint64_t put_until_strayed(struct gb_simstore *sim)
{
    uint64_t number = 0;
    int rc = GOBLIN_OK;
    while (rc == GOBLIN_OK && sim->store->drives[0].identity.strayed == 0) {
        assert_true(number < STRAY_MAX);
        rc = gb_simstore_try_put(sim, number, 60000, number, GOBLIN_DURABILITY_SYNCED);
        number += rc == GOBLIN_OK;
    }
    return number;
}

/* A strayed lane is noted over the newest identity: torn there, a drive that has just been taken in
 * must not pass for one that missed an opening. */
static void drive__that_was_taken_in_keeps_what_it_got_when_a_note_is_torn(void **state)
{
    unsigned cuts = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        for (unsigned back = 0; back < 6; back++) {
            struct scene scene = {.sim = *state, .seed = seed};
            struct gb_simstore *sim = scene.sim;
            begin(&scene, 3);
            replace_second(&scene);
            gb_simstore_open(sim);
            struct simdisk_counts before;
            struct simdisk_counts after;
            simdisk_counts(sim->disk, &before);
            (void)put_until_strayed(sim);
            simdisk_counts(sim->disk, &after);
            uint64_t writes = after.operations[SIMDISK_WRITE] - before.operations[SIMDISK_WRITE];
            gb_simstore_close(sim);

            begin(&scene, 3);
            replace_second(&scene);
            gb_simstore_open(sim);
            simdisk_cut_at_nth(sim->disk, SIMDISK_WRITE, writes - back);
            uint64_t count = put_until_strayed(sim);
            simdisk_cut_at_nth(sim->disk, SIMDISK_WRITE, 0);
            simdisk_counts(sim->disk, &after);
            cuts += after.cuts > 0;
            power_up(sim);
            scene.emptied = false;
            gb_simstore_open(sim);
            assert_false(scene.emptied);
            for (uint64_t number = 0; number < count; number++) {
                gb_simstore_expect(sim, number, 60000, number);
            }
            gb_simstore_close(sim);
        }
    }
    assert_true(cuts > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(drive__that_replaces_another_is_known_after_torn_writes),
        GB_ON_A_SIMULATED_DISK(drive__that_replaces_another_of_a_young_store_is_known_too),
        GB_ON_A_SIMULATED_DISK(drive__that_missed_an_opening_is_known_after_torn_writes),
        GB_ON_A_SIMULATED_DISK(drive__that_missed_many_is_known_after_torn_writes),
        GB_ON_A_SIMULATED_DISK(drive__that_was_taken_in_keeps_what_it_got_when_a_note_is_torn),
    };
    return cmocka_run_group_tests_name("identities", tests, NULL, NULL);
}
