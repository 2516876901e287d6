/* Deletes where nothing else finds room: a full disk can be emptied, whether the store has filled
 * it or others have, and whatever is written meanwhile. */
#include <errno.h>
#include <string.h>

#include "engine/keeper.h"
#include "lib/simstore.h"

#define KEYS_MAX 40000u

struct disk {
    struct gb_simstore *sim;
    unsigned count; /* keys 0 … that have been stored */
    bool gone[KEYS_MAX];
};

static void set_up(struct disk *disk, uint64_t segments, unsigned lanes)
{
    void *state = NULL;
    assert_int_equal(gb_simstore_setup(&state), 0);
    *disk = (struct disk){.sim = state};
    disk->sim->options.dir_count = 1;
    disk->sim->options.size_bytes = segments * GB_MIB;
    disk->sim->options.lanes = lanes;
    disk->sim->options.mode = GOBLIN_MODE_STORE;
    gb_simstore_open(disk->sim);
    gb_keeper_round(disk->sim->store); /* makes files ahead */
}

static void take_down(struct disk *disk)
{
    void *state = disk->sim;
    simdisk_set_capacity(disk->sim->disk, SIMDISK_CAPACITY);
    assert_int_equal(gb_simstore_teardown(&state), 0);
}

static int put_next(struct disk *disk, size_t size)
{
    assert_true(disk->count < KEYS_MAX);
    int rc =
        gb_simstore_try_put(disk->sim, disk->count, size, disk->count, GOBLIN_DURABILITY_WRITTEN);
    assert_true(rc == GOBLIN_OK || rc == -ENOSPC);
    disk->count += rc == GOBLIN_OK;
    return rc;
}

/* Until nothing fits any more, not even what is small; in every lane. */
static void fill(struct disk *disk)
{
    static const size_t sizes[] = {30000, 3000, 100};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned refused = 0; refused < 20;) {
            refused = put_next(disk, sizes[i]) == GOBLIN_OK ? 0 : refused + 1;
            disk->count += refused > 0; /* another key, perhaps of another lane */
            disk->gone[disk->count - 1] = refused > 0;
        }
    }
}

/* Every delete is taken, though after each puts take what they can get. */
static void empty(struct disk *disk)
{
    unsigned before = disk->count;
    for (unsigned number = 0; number < disk->count; number++) {
        struct gb_key key;
        const struct goblin_put_options options = {.durability = GOBLIN_DURABILITY_WRITTEN};
        int rc = goblin_delete(disk->sim->store, gb_key_at(&key, number), &options);
        if (rc != (disk->gone[number] ? GOBLIN_MISS : GOBLIN_OK)) {
            fail_msg("delete %u of %u: %s", number, disk->count, goblin_strerror(rc));
        }
        disk->gone[number] = true;
        if (number < before && disk->count < KEYS_MAX - 1) {
            (void)put_next(disk, 2000);
        }
    }
    assert_int_equal(gb_simstore_stats(disk->sim).objects, 0);
}

static void fill_and_empty(uint64_t segments, unsigned lanes, bool others)
{
    static struct disk disk;
    set_up(&disk, segments, lanes);
    while (others && gb_simstore_stats(disk.sim).segments_free > segments - segments / 4) {
        assert_int_equal(put_next(&disk, 5000), GOBLIN_OK);
    }
    if (others) {
        gb_keeper_round(disk.sim->store);
        simdisk_fill(disk.sim->disk, 0);
    }
    for (unsigned round = 0; round < 2; round++) {
        fill(&disk);
        empty(&disk);
    }
    take_down(&disk);
}

static void delete__finds_room_when_others_fill_the_file_system(void **state)
{
    (void)state;
    fill_and_empty(96, 4, true);
    fill_and_empty(32, 2, true);
}

static void delete__finds_room_in_a_full_store(void **state)
{
    (void)state;
    fill_and_empty(32, 1, false);
    fill_and_empty(16, 3, false);
    fill_and_empty(64, 4, false);
}

/* A cache has two files when others take the rest, and one of them is for what is moved. */
static void cache__goes_on_with_one_segment_and_a_spare_one(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.dir_count = 1;
    sim->options.size_bytes = 16 * GB_MIB;
    sim->options.lanes = 1;
    sim->options.mode = GOBLIN_MODE_CACHE;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 0, 5000);
    simdisk_fill(sim->disk, GB_MIB + GB_MIB / 2);
    const struct goblin_put_options written = {.durability = GOBLIN_DURABILITY_WRITTEN};
    for (uint64_t i = 1; i < 2000; i++) {
        int rc = gb_simstore_try_put(sim, i, 5000, i, GOBLIN_DURABILITY_WRITTEN);
        assert_int_equal(rc, GOBLIN_OK);
        gb_simstore_expect(sim, i, 5000, i);
        if (i % 3 == 0) {
            struct gb_key key;
            rc = goblin_delete(sim->store, gb_key_at(&key, i), &written);
            assert_true(rc == GOBLIN_OK || rc == GOBLIN_MISS); /* evicted for its own tombstone */
            assert_false(gb_simstore_has(sim, i));
        }
    }
    simdisk_set_capacity(sim->disk, SIMDISK_CAPACITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delete__finds_room_when_others_fill_the_file_system),
        cmocka_unit_test(delete__finds_room_in_a_full_store),
        GB_ON_A_SIMULATED_DISK(cache__goes_on_with_one_segment_and_a_spare_one),
    };
    return cmocka_run_group_tests_name("full_disk", tests, NULL, NULL);
}
