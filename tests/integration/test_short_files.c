/* Segment files that a crash left shorter than they were made. What lies in them whole can be read,
 * also where the reads, as direct I/O aligns them, go beyond the end. */
#include "engine/format.h"
#include "lib/simstore.h"

#define SECTOR 512u
#define NUMBER 1u /* of the only object */

/* Where the record of the only object ends, which is the first of its segment. */
static uint64_t end_of_record(size_t size)
{
    struct gb_key key;
    const struct gb_record record = {
        .type = GB_RECORD_PUT,
        .key_len = (uint16_t)gb_key_at(&key, NUMBER).len,
        .meta_len = NUMBER % 9,
        .size = size + NUMBER % 9,
    };
    struct gb_layout layout;
    gb_record_layout(&record, GB_BLOCK, &layout);
    return layout.end;
}

static void put_one(struct gb_simstore *sim, size_t size)
{
    sim->options.dir_count = 1;
    sim->options.lanes = 1;
    simdisk_set_alignment(sim->disk, GB_BLOCK);
    gb_simstore_open(sim);
    assert_int_equal(gb_simstore_try_put(sim, NUMBER, size, NUMBER, GOBLIN_DURABILITY_SYNCED),
                     GOBLIN_OK);
    sim->options.create = false;
    sim->options.read_only = true; /* another opening gives the file its size again */
    gb_simstore_crash(sim);
}

static void cut_off(struct gb_simstore *sim, uint64_t end)
{
    struct gb_file *file = NULL;
    assert_int_equal(sim->disk->ops->file_open(sim->disk, "/one/00000000.seg", 0, &file), 0);
    assert_int_equal(sim->disk->ops->file_truncate(file, end), 0);
    sim->disk->ops->file_close(file);
}

static void object__is_read_as_long_as_the_file_holds_it(void **state)
{
    static const size_t sizes[] = {3000, 16000, 20000, 40001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct gb_simstore *sim = *state;
        put_one(sim, sizes[i]);
        uint64_t end = gb_align_up(end_of_record(sizes[i]), SECTOR);
        for (uint64_t at = end + GB_BLOCK; at >= end; at -= SECTOR) {
            gb_simstore_close(sim);
            cut_off(sim, at);
            gb_simstore_open(sim);
            gb_simstore_expect(sim, NUMBER, sizes[i], NUMBER);
            assert_int_equal(gb_simstore_stats(sim).read_errors, 0);
        }
        gb_simstore_close(sim);
        cut_off(sim, end - SECTOR);
        gb_simstore_open(sim);
        assert_false(gb_simstore_has(sim, NUMBER));
        assert_int_equal(gb_simstore_teardown(state), 0);
        assert_int_equal(gb_simstore_setup(state), 0);
    }
}

static void object__that_is_cut_off_later_is_a_miss(void **state)
{
    static const size_t sizes[] = {3000, 16000, 40001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct gb_simstore *sim = *state;
        struct gb_key key;
        struct goblin_buffer value = {0};
        put_one(sim, sizes[i]);
        cut_off(sim, gb_align_up(end_of_record(sizes[i]), SECTOR) - SECTOR);
        assert_int_equal(goblin_load(sim->reader, gb_key_at(&key, NUMBER), &value, NULL, NULL),
                         GOBLIN_MISS);
        goblin_buffer_free(&value);
        assert_int_equal(gb_simstore_stats(sim).read_errors, 1);
        assert_int_equal(gb_simstore_teardown(state), 0);
        assert_int_equal(gb_simstore_setup(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(object__is_read_as_long_as_the_file_holds_it),
        GB_ON_A_SIMULATED_DISK(object__that_is_cut_off_later_is_a_miss),
    };
    return cmocka_run_group_tests_name("short files", tests, NULL, NULL);
}
