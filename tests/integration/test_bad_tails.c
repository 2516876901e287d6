/* A tail that rots, or that the drive does not give, behind a head that is in RAM: whoever was
 * handed the head hears of it, to goblin_load it is a miss. */
#include <stdlib.h>
#include <string.h>

#include <goblin/writer.h>

#include "engine/keeper.h"

#include "lib/pattern.h"
#include "lib/simstore.h"

#define HEAD 4096u

struct scene {
    struct gb_simstore *sim;
    unsigned lines; /* that tell of the dropped object */
};

static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    struct scene *scene = arg;
    scene->lines +=
        level == GOBLIN_LOG_ERROR && strstr(line, "the object is dropped, the segment") != NULL;
}

static void begin(struct scene *scene)
{
    struct goblin_options *options = &scene->sim->options;
    options->residency = GOBLIN_RESIDENCY_FIXED;
    options->head_bytes = HEAD;
    options->log = listen;
    options->log_arg = scene;
    gb_simstore_open(scene->sim);
}

/* Where a byte of the object's payload lies: its file and its segment. */
static struct gb_segment *find_payload(struct gb_simstore *sim, uint64_t number, uint64_t at,
                                       char *path, uint64_t *offset)
{
    struct gb_key text;
    struct goblin_slice key = gb_key_at(&text, number);
    struct gb_locked locked;
    gb_index_lock(sim->store->index, gb_index_hash(key.data, key.len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    assert_non_null(item);
    uint64_t place = atomic_load(&item->place);
    if (gb_item_form(item) == GB_FORM_EXTENTS) {
        struct gb_extent extent;
        const unsigned char *side = item->key + gb_item_key_len(item);
        assert_int_equal(gb_extent_decode(&extent, side + GB_EXTENTS_HEADER), 0);
        assert_true(at < extent.len);
        place = extent.place;
    }
    gb_index_unlock(&locked);
    *offset = gb_place_offset(place) + at;
    assert_int_equal(gb_segment_path(&sim->store->segments, gb_place_slot(place), path, 256), 0);
    return gb_segment_at(&sim->store->segments, place);
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    uint64_t *taken = arg;
    assert_int_equal(chunk->offset, *taken);
    *taken += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

enum trouble { ROTTEN, UNREADABLE };

/* Spoils a byte behind the head and reads the object, by goblin_load or as chunks; what came before
 * the spoilt byte is returned, the answer has been looked at. */
static uint64_t read_spoilt(struct scene *scene, uint64_t number, uint64_t at, enum trouble trouble,
                            bool load)
{
    struct gb_simstore *sim = scene->sim;
    char path[256];
    uint64_t offset = 0;
    struct gb_segment *segment = find_payload(sim, number, at, path, &offset);
    int rc = trouble == ROTTEN ? simdisk_flip(sim->disk, path, offset, 0x20)
                               : simdisk_unreadable(sim->disk, path, offset, 1);
    assert_int_equal(rc, 0);
    struct goblin_stats before = gb_simstore_stats(sim);
    unsigned lines = scene->lines;
    struct gb_key key;
    uint64_t taken = 0;
    if (load) {
        struct goblin_buffer value = {0};
        struct goblin_buffer meta = {0};
        struct goblin_info info;
        assert_int_equal(goblin_load(sim->reader, gb_key_at(&key, number), &value, &info, &meta),
                         GOBLIN_MISS);
        assert_int_equal(value.len, 0);
        goblin_buffer_free(&value);
        goblin_buffer_free(&meta);
    } else {
        struct goblin_request request = {
            .key = gb_key_at(&key, number), .on_chunk = take_chunk, .arg = &taken};
        assert_int_equal(goblin_get(sim->reader, &request), GOBLIN_ECORRUPT);
    }
    struct goblin_stats after = gb_simstore_stats(sim);
    assert_int_equal(after.misses - before.misses, load);
    assert_int_equal(after.hits, before.hits);
    assert_int_equal(after.left_bad - before.left_bad, 1);
    assert_int_equal(after.checksum_errors - before.checksum_errors, trouble == ROTTEN);
    assert_int_equal(after.read_errors - before.read_errors, trouble == UNREADABLE);
    assert_int_equal(scene->lines - lines, 1);
    assert_true(atomic_load(&segment->failing)); /* what else lies there moves on */
    assert_false(gb_simstore_has(sim, number));
    simdisk_readable(sim->disk);
    return taken;
}

static void stream(struct gb_simstore *sim, uint64_t number, size_t size)
{
    struct gb_key key;
    struct goblin_writer *writer = NULL;
    const struct goblin_put_options options = {.durability = GOBLIN_DURABILITY_SYNCED};
    assert_int_equal(
        goblin_writer_begin(&writer, sim->store, gb_key_at(&key, number), size, &options),
        GOBLIN_OK);
    unsigned char *piece = malloc(size);
    assert_non_null(piece);
    gb_pattern_fill(piece, size, number, 0);
    assert_int_equal(goblin_writer_write(writer, piece, size), GOBLIN_OK);
    assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_OK);
    free(piece);
}

/* Every way to store it, every trouble, and once behind the first unit of the tail, once right
 * behind the head. */
static void spoil_all(struct scene *scene, bool load)
{
    static const uint64_t places[] = {HEAD + 10, 40000};
    struct gb_simstore *sim = scene->sim;
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t number = i * 9; /* without metadata */
        bool streamed = i % 2 == 1;
        if (streamed) {
            stream(sim, number, 300000);
        } else {
            assert_int_equal(
                gb_simstore_try_put(sim, number, 50000, number, GOBLIN_DURABILITY_SYNCED),
                GOBLIN_OK);
        }
        gb_simstore_expect(sim, number, streamed ? 300000 : 50000, number);
        uint64_t taken =
            read_spoilt(scene, number, places[i / 4], i / 2 % 2 == 0 ? ROTTEN : UNREADABLE, load);
        assert_true(load || taken >= HEAD);
        assert_true(taken <= places[i / 4]);
        gb_keeper_round(sim->store);
    }
}

static void chunks__that_break_off_are_told_of(void **state)
{
    struct scene scene = {.sim = *state};
    begin(&scene);
    spoil_all(&scene, false);
}

static void load__of_a_bad_tail_is_a_miss(void **state)
{
    struct scene scene = {.sim = *state};
    begin(&scene);
    spoil_all(&scene, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(chunks__that_break_off_are_told_of),
        GB_ON_A_SIMULATED_DISK(load__of_a_bad_tail_is_a_miss),
    };
    return cmocka_run_group_tests_name("bad_tails", tests, NULL, NULL);
}
