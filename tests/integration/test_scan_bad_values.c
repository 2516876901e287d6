/* Scans of values over a disk that rots or refuses to give: what is bad is passed over, and its
 * neighbours, which came with the same read, are not. */
#include <stdlib.h>
#include <string.h>

#include <goblin/scan.h>

#include "lib/pattern.h"
#include "lib/simstore.h"

#define FIRST   100u /* keys of three digits are in the order of their numbers */
#define OBJECTS 64u
#define SIZE    3000u
#define BAD     (FIRST + 30)

enum trouble { ROTTEN, UNREADABLE };

struct seen {
    unsigned times[OBJECTS];
    unsigned count;
};

static int take_value(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct seen *seen = arg;
    char text[40] = "";
    assert_true(key.len < sizeof(text));
    memcpy(text, key.data, key.len);
    uint64_t number = strtoull(text + strcspn(text, "0123456789"), NULL, 10);
    assert_in_range(number, FIRST, FIRST + OBJECTS - 1);
    assert_int_equal(chunk->info->size, SIZE);
    assert_true(gb_pattern_holds(chunk->data, chunk->len, number, chunk->offset));
    seen->times[number - FIRST] += chunk->last;
    seen->count += chunk->last;
    return 0;
}

/* Where the first byte of the object's value lies. */
static struct gb_segment *find_value(struct gb_simstore *sim, uint64_t number, char *path,
                                     uint64_t *offset)
{
    struct gb_key text;
    struct goblin_slice key = gb_key_at(&text, number);
    struct gb_locked locked;
    gb_index_lock(sim->store->index, gb_index_hash(key.data, key.len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    assert_non_null(item);
    uint64_t place = atomic_load(&item->place);
    assert_int_equal(gb_item_resident(item), 0);
    gb_index_unlock(&locked);
    *offset = gb_place_offset(place) + 1000;
    assert_int_equal(gb_segment_path(&sim->store->segments, gb_place_slot(place), path, 256), 0);
    return gb_segment_at(&sim->store->segments, place);
}

/* Opened from its log, a store without background threads has nothing resident. */
static void check_scan_around(struct gb_simstore *sim, enum trouble trouble, bool reverse)
{
    gb_simstore_open(sim);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(
            gb_simstore_try_put(sim, FIRST + i, SIZE, FIRST + i, GOBLIN_DURABILITY_SYNCED),
            GOBLIN_OK);
    }
    gb_simstore_crash(sim);
    char path[256];
    uint64_t offset = 0;
    struct gb_segment *segment = find_value(sim, BAD, path, &offset);
    int rc = trouble == ROTTEN ? simdisk_flip(sim->disk, path, offset, 0x20)
                               : simdisk_unreadable(sim->disk, path, offset, 1);
    assert_int_equal(rc, 0);
    struct goblin_stats before = gb_simstore_stats(sim);
    const struct goblin_range range = {.reverse = reverse};
    struct seen seen = {.count = 0};
    assert_int_equal(goblin_scan_values(sim->reader, &range, 0, take_value, &seen), GOBLIN_OK);
    struct goblin_stats after = gb_simstore_stats(sim);
    assert_int_equal(seen.count, OBJECTS - 1);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(seen.times[i], FIRST + i != BAD);
    }
    assert_int_equal(after.misses - before.misses, 1);
    assert_int_equal(after.hits - before.hits, OBJECTS - 1);
    assert_int_equal(after.left_bad - before.left_bad, 1);
    assert_int_equal(after.checksum_errors - before.checksum_errors, trouble == ROTTEN);
    assert_int_equal(after.read_errors - before.read_errors, trouble == UNREADABLE);
    assert_true(after.device_reads - before.device_reads < OBJECTS / 2);
    assert_true(atomic_load(&segment->failing)); /* what else lies there moves on */
    assert_int_equal(atomic_load(&segment->readers), 0);
    assert_false(gb_simstore_has(sim, BAD));
    simdisk_readable(sim->disk);
}

static void scan__passes_over_a_value_that_rotted(void **state)
{
    check_scan_around(*state, ROTTEN, false);
}

static void scan__passes_over_a_value_that_rotted_in_reverse(void **state)
{
    check_scan_around(*state, ROTTEN, true);
}

static void scan__passes_over_a_value_that_cannot_be_read(void **state)
{
    check_scan_around(*state, UNREADABLE, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(scan__passes_over_a_value_that_rotted),
        GB_ON_A_SIMULATED_DISK(scan__passes_over_a_value_that_rotted_in_reverse),
        GB_ON_A_SIMULATED_DISK(scan__passes_over_a_value_that_cannot_be_read),
    };
    return cmocka_run_group_tests_name("scan_bad_values", tests, NULL, NULL);
}
