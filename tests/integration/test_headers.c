/* Both headers of a segment: one of them is enough, whatever becomes of the other; without both,
 * what the segment had deleted or replaced does not come back, in this life or a later one. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "engine/format_headers.h"
#include "engine/keeper.h"
#include "engine/lane_internal.h"
#include "lib/simstore.h"

#define VICTIM  1u /* deleted in the second segment */
#define AMENDED 2u /* replaced in it */
#define FIRST   3u /* lies in the first segment, and is left alone */
#define SECOND  4u /* the same in the second one */
#define THIRD   5u
#define SIZE    20000u

/* How the header is hurt. */
enum hurt { FLIPPED, UNREADABLE, HURTS };

struct scene {
    struct gb_simstore *sim;
    uint32_t slots[3]; /* in the order of their records */
    char path[32];     /* of the second one, which holds the delete */
};

static void path_of(uint32_t slot, char *path)
{
    (void)snprintf(path, 32, "/one/" GB_SEGMENT_NAME, slot);
}

static void hurt(struct scene *scene, uint32_t slot, unsigned copy, enum hurt how)
{
    char path[32];
    uint64_t at = gb_segment_header_at(GB_MIB, copy);
    path_of(slot, path);
    int rc = how == FLIPPED ? simdisk_flip(scene->sim->disk, path, at + 44, 0x10)
                            : simdisk_unreadable(scene->sim->disk, path, at, GB_BLOCK);
    assert_int_equal(rc, 0);
}

/* Writes zeros over a header, as a wipe does. */
static void blank(struct scene *scene, uint32_t slot, unsigned copy)
{
    static const alignas(GB_BLOCK) unsigned char zeros[GB_BLOCK];
    struct gb_io *disk = scene->sim->disk;
    struct gb_file *file = NULL;
    char path[32];
    path_of(slot, path);
    assert_int_equal(disk->ops->file_open(disk, path, 0, &file), 0);
    uint64_t at = gb_segment_header_at(GB_MIB, copy);
    assert_int_equal(disk->ops->file_write(file, zeros, GB_BLOCK, at), GB_BLOCK);
    assert_int_equal(disk->ops->file_sync(file), 0);
    disk->ops->file_close(file);
}

static uint32_t turn(struct gb_simstore *sim)
{
    uint32_t slot = sim->store->lanes[0].segment->slot;
    assert_int_equal(gb_lane_roll(&sim->store->lanes[0]), 0);
    assert_int_equal(gb_lane_settle(&sim->store->lanes[0], true), 0);
    return slot;
}

static void put(struct gb_simstore *sim, uint64_t number, uint64_t seed)
{
    assert_int_equal(gb_simstore_try_put(sim, number, SIZE, seed, GOBLIN_DURABILITY_NONE),
                     GOBLIN_OK);
}

/* Three segments: values, then a delete and a newer value of two of them, then something else. */
static void set_scene(struct scene *scene, struct gb_simstore *sim, enum goblin_mode mode)
{
    struct gb_key key;
    *scene = (struct scene){.sim = sim};
    sim->options.dir_count = 1;
    sim->options.lanes = 1;
    sim->options.mode = mode;
    gb_simstore_open(sim);
    put(sim, VICTIM, VICTIM);
    put(sim, AMENDED, AMENDED);
    put(sim, FIRST, FIRST);
    scene->slots[0] = turn(sim);
    put(sim, SECOND, SECOND);
    put(sim, AMENDED, 100);
    assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, VICTIM), NULL), GOBLIN_OK);
    scene->slots[1] = turn(sim);
    put(sim, THIRD, THIRD);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    scene->slots[2] = sim->store->lanes[0].segment->slot;
    path_of(scene->slots[1], scene->path);
}

/* The store is gone from memory as by a kill. */
static void end_life(struct gb_simstore *sim)
{
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    gb_store_abandon(sim->store);
    sim->store = NULL;
    simdisk_crash_process(sim->disk);
    simdisk_restart(sim->disk);
}

static void expect_all(struct gb_simstore *sim)
{
    assert_false(gb_simstore_has(sim, VICTIM));
    gb_simstore_expect(sim, AMENDED, SIZE, 100);
    gb_simstore_expect(sim, FIRST, SIZE, FIRST);
    gb_simstore_expect(sim, SECOND, SIZE, SECOND);
    gb_simstore_expect(sim, THIRD, SIZE, THIRD);
}

/* Nothing is back: of the first segment, at most what was never replaced is there. */
static void expect_nothing_stale(struct gb_simstore *sim)
{
    assert_false(gb_simstore_has(sim, VICTIM));
    assert_false(gb_simstore_has(sim, AMENDED));
    assert_false(gb_simstore_has(sim, SECOND));
}

static void drop_checkpoint(struct gb_simstore *sim)
{
    (void)sim->disk->ops->unlink(sim->disk, "/one/" GB_CHECKPOINT_NAME);
}

static void expect_refusal(struct scene *scene)
{
    struct goblin_error error = {""};
    assert_int_equal(gb_simstore_try_open(scene->sim, &error), GOBLIN_ESEGMENT);
    assert_non_null(strstr(error.text, scene->path));
    assert_non_null(strstr(error.text, "goblin check --repair"));
    assert_non_null(strstr(error.text, "--degraded"));
}

/* ---- one of two ---------------------------------------------------------------------------- */

/* Sealed, with and without a checkpoint, and the open one after a kill. */
static void one_header__is_enough(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    end_life(sim);
    for (unsigned round = 0; round < 3 * 2 * HURTS * 2; round++) {
        hurt(&scene, scene.slots[round % 3], round / 3 % 2, (enum hurt)(round / 6 % HURTS));
        if (round >= 3 * 2 * HURTS) {
            drop_checkpoint(sim);
        }
        gb_simstore_open(sim);
        assert_int_equal(gb_simstore_stats(sim).headers_by_copy, 1);
        expect_all(sim);
        if (round % 5 == 0) {
            gb_simstore_close(sim);
        } else {
            end_life(sim);
        }
        gb_simstore_open(sim); /* it was written anew, and is good by itself */
        assert_int_equal(gb_simstore_stats(sim).headers_by_copy, 0);
        expect_all(sim);
        end_life(sim);
    }
    gb_simstore_open(sim);
}

static void one_header__that_cannot_be_written_anew_empties_its_segment(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    gb_simstore_close(sim);
    hurt(&scene, scene.slots[1], 0, UNREADABLE);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 2); /* behind the identity */
    gb_simstore_open(sim);
    assert_int_equal(gb_simstore_stats(sim).headers_by_copy, 1);
    assert_int_equal(gb_simstore_stats(sim).segments_failing, 1);
    expect_all(sim);
    for (unsigned i = 0; i < 20; i++) {
        gb_keeper_round(sim->store);
    }
    assert_int_equal(gb_simstore_stats(sim).segments_failing, 0);
    expect_all(sim);
    gb_simstore_close(sim);
    gb_simstore_open(sim);
    expect_all(sim);
}

/* A crash between the two writes of a wipe. */
static void one_header__that_was_wiped_leaves_the_records(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    end_life(sim);
    for (unsigned copy = 0; copy < 2; copy++) {
        blank(&scene, scene.slots[1], copy);
        gb_simstore_open(sim);
        assert_int_equal(gb_simstore_stats(sim).headers_by_copy, 0); /* nothing was damaged */
        expect_all(sim);
        end_life(sim);
        blank(&scene, scene.slots[1], 1 - copy); /* the other one has been written again */
        gb_simstore_open(sim);
        expect_all(sim);
        end_life(sim);
    }
    gb_simstore_open(sim);
}

/* Of a segment that is free one header tells so, whatever the other one is. */
static void one_header__that_is_empty_frees_the_segment(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    assert_int_equal(gb_segments_prepare(&sim->store->segments, 1), 0);
    uint32_t slot = 0;
    while (sim->store->segments.table[slot].status != GB_SEGMENT_FREE ||
           sim->store->segments.table[slot].file == NULL) {
        slot++;
    }
    end_life(sim);
    for (unsigned round = 0; round < 2 * HURTS; round++) {
        hurt(&scene, slot, round % 2, (enum hurt)(round / 2));
        gb_simstore_open(sim);
        assert_int_equal(sim->store->segments.table[slot].status, GB_SEGMENT_FREE);
        assert_int_equal(gb_simstore_stats(sim).segments_lost, 0);
        expect_all(sim);
        end_life(sim);
    }
    gb_simstore_open(sim);
}

static void second_header__that_cannot_be_written_sends_the_put_elsewhere(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    (void)turn(sim);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 1);
    put(sim, 6, 6);
    assert_int_equal(gb_simstore_stats(sim).write_errors, 1);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    end_life(sim);
    gb_simstore_open(sim);
    expect_all(sim);
    gb_simstore_expect(sim, 6, SIZE, 6);
}

/* ---- neither ------------------------------------------------------------------------------- */

static void store__without_both_headers_is_refused_until_it_is_asked_for(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    end_life(sim);
    for (unsigned round = 0; round < 2; round++) { /* after a kill, after a close */
        hurt(&scene, scene.slots[1], 0, FLIPPED);
        hurt(&scene, scene.slots[1], 1, UNREADABLE);
        expect_refusal(&scene);
        expect_refusal(&scene);
        hurt(&scene, scene.slots[1], 0, FLIPPED); /* it is mended, and nothing has changed */
        gb_simstore_open(sim);
        expect_all(sim);
        gb_simstore_close(sim);
        simdisk_readable(sim->disk);
    }
    hurt(&scene, scene.slots[1], 0, FLIPPED);
    hurt(&scene, scene.slots[1], 1, FLIPPED);
    sim->options.degraded = true;
    gb_simstore_open(sim);
    sim->options.degraded = false;
    expect_nothing_stale(sim); /* the checkpoint knows what was current */
    gb_simstore_expect(sim, FIRST, SIZE, FIRST);
    gb_simstore_expect(sim, THIRD, SIZE, THIRD);
    end_life(sim);
    expect_refusal(&scene); /* the segment is still as it was */
    sim->options.degraded = true;
    gb_simstore_open(sim);
    expect_nothing_stale(sim);
    gb_simstore_close(sim);
    gb_simstore_open(sim);
}

static void cache__after_a_close_loses_what_lay_in_the_segment(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_CACHE);
    gb_simstore_close(sim);
    hurt(&scene, scene.slots[1], 0, UNREADABLE);
    hurt(&scene, scene.slots[1], 1, FLIPPED);
    gb_simstore_open(sim);
    assert_int_equal(gb_simstore_stats(sim).segments_lost, 0); /* wiped, and free */
    assert_int_equal(gb_simstore_stats(sim).left_drive, 2);
    for (unsigned round = 0; round < 3; round++) {
        expect_nothing_stale(sim);
        gb_simstore_expect(sim, FIRST, SIZE, FIRST);
        gb_simstore_expect(sim, THIRD, SIZE, THIRD);
        end_life(sim);
        gb_simstore_open(sim);
    }
    end_life(sim);
    drop_checkpoint(sim); /* and with it what told that older values are none */
    gb_simstore_open(sim);
    expect_nothing_stale(sim);
}

static void cache__after_a_crash_drops_what_may_be_out_of_date(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_CACHE);
    end_life(sim);
    hurt(&scene, scene.slots[1], 0, UNREADABLE);
    hurt(&scene, scene.slots[1], 1, UNREADABLE);
    sim->options.read_only = true;
    gb_simstore_open(sim);
    expect_nothing_stale(sim);
    gb_simstore_close(sim);
    sim->options.read_only = false;
    gb_simstore_open(sim);
    expect_nothing_stale(sim);
    put(sim, 7, 7);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    simdisk_readable(sim->disk);
    for (unsigned round = 0; round < 3; round++) {
        end_life(sim);
        gb_simstore_open(sim);
        expect_nothing_stale(sim);
        gb_simstore_expect(sim, 7, SIZE, 7);
    }
}

static void lose_second(struct scene *scene, struct gb_simstore *sim)
{
    set_scene(scene, sim, GOBLIN_MODE_CACHE);
    gb_simstore_close(sim);
    hurt(scene, scene->slots[1], 0, UNREADABLE);
    hurt(scene, scene->slots[1], 1, UNREADABLE);
}

/* How many writes there are in opening such a store; the last two wipe the segment. */
static uint64_t count_writes(void)
{
    void *state = NULL;
    struct scene scene;
    struct simdisk_counts counts;
    assert_int_equal(gb_simstore_setup(&state), 0);
    struct gb_simstore *sim = state;
    lose_second(&scene, sim);
    gb_simstore_open(sim);
    simdisk_counts(sim->disk, &counts);
    uint64_t writes = counts.operations[SIMDISK_WRITE] - sim->before.operations[SIMDISK_WRITE];
    assert_int_equal(gb_simstore_teardown(&state), 0);
    return writes;
}

/* The segment is readable again after a life in which it was not, and could not be wiped. */
static void cache__does_not_take_back_what_it_has_done_without(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    lose_second(&scene, sim);
    simdisk_fail_from_nth(sim->disk, SIMDISK_WRITE, count_writes() - 1);
    gb_simstore_open(sim);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 0);
    assert_int_equal(gb_simstore_stats(sim).segments_lost, 1);
    expect_nothing_stale(sim);
    put(sim, SECOND, 200);
    struct gb_key key;
    assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, FIRST), NULL), GOBLIN_OK);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    end_life(sim);
    simdisk_readable(sim->disk);
    for (unsigned round = 0; round < 2; round++) {
        gb_simstore_open(sim);
        assert_false(gb_simstore_has(sim, VICTIM));
        assert_false(gb_simstore_has(sim, AMENDED));
        assert_false(gb_simstore_has(sim, FIRST));
        gb_simstore_expect(sim, SECOND, SIZE, 200);
        end_life(sim);
    }
    gb_simstore_open(sim);
}

/* An empty segment that the last checkpoint knows to have held something. */
static void segment__that_was_emptied_by_others_is_lost_for_good(void **state)
{
    struct gb_simstore *sim = *state;
    struct scene scene;
    set_scene(&scene, sim, GOBLIN_MODE_STORE);
    gb_simstore_close(sim);
    blank(&scene, scene.slots[1], 0);
    blank(&scene, scene.slots[1], 1);
    gb_simstore_open(sim);
    expect_nothing_stale(sim);
    gb_simstore_expect(sim, FIRST, SIZE, FIRST);
    end_life(sim);
    drop_checkpoint(sim);
    struct goblin_error error = {""};
    assert_int_equal(gb_simstore_try_open(sim, &error), GOBLIN_EDRIVE);
    assert_non_null(strstr(error.text, "--degraded"));
    sim->options.degraded = true;
    gb_simstore_open(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(one_header__is_enough),
        GB_ON_A_SIMULATED_DISK(one_header__that_cannot_be_written_anew_empties_its_segment),
        GB_ON_A_SIMULATED_DISK(one_header__that_was_wiped_leaves_the_records),
        GB_ON_A_SIMULATED_DISK(one_header__that_is_empty_frees_the_segment),
        GB_ON_A_SIMULATED_DISK(second_header__that_cannot_be_written_sends_the_put_elsewhere),
        GB_ON_A_SIMULATED_DISK(store__without_both_headers_is_refused_until_it_is_asked_for),
        GB_ON_A_SIMULATED_DISK(cache__after_a_close_loses_what_lay_in_the_segment),
        GB_ON_A_SIMULATED_DISK(cache__after_a_crash_drops_what_may_be_out_of_date),
        GB_ON_A_SIMULATED_DISK(cache__does_not_take_back_what_it_has_done_without),
        GB_ON_A_SIMULATED_DISK(segment__that_was_emptied_by_others_is_lost_for_good),
    };
    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
