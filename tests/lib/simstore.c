/* A store on a simulated disk, driven by hand. */
#include "lib/simstore.h"

#include <stdlib.h>

#include "lib/pattern.h"
#include "sim/simshell.h"

#define VALUE_MAX (2 * GB_MIB)

static int64_t tell_time(void *arg)
{
    const struct gb_simstore *sim = arg;
    return sim->now_ms;
}

int gb_simstore_setup(void **state)
{
    struct gb_simstore *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    sim->disk = simdisk_create(1);
    sim->dirs[0] = "/one";
    sim->dirs[1] = "/two";
    sim->now_ms = INT64_C(1700000000000);
    sim->options = (struct goblin_options){
        .dirs = sim->dirs,
        .dir_count = 2,
        .create = true,
        .size_bytes = 24 * GB_MIB,
        .segment_bytes = GB_MIB,
        .lanes = 2,
        .memory_bytes = 16 * GB_MIB,
        .write_block_bytes = 64 * GB_KIB,
        .flush_ms = UINT32_MAX,
        .checkpoint_s = UINT32_MAX,
        .clock = tell_time,
        .clock_arg = sim,
    };
    *state = sim;
    return 0;
}

int gb_simstore_teardown(void **state)
{
    struct gb_simstore *sim = *state;
    goblin_reader_destroy(sim->reader);
    int rc = sim->store != NULL ? goblin_close(sim->store) : GOBLIN_OK;
    sim->disk->ops->destroy(sim->disk);
    free(sim);
    return rc == GOBLIN_OK ? 0 : -1;
}

int gb_simstore_try_open(struct gb_simstore *sim, struct goblin_error *error)
{
    simdisk_counts(sim->disk, &sim->before);
    int rc = gb_store_open(&sim->store, &sim->options, simshell_create(sim->disk), error);
    if (rc != GOBLIN_OK) {
        sim->store = NULL;
    }
    return rc;
}

void gb_simstore_open(struct gb_simstore *sim)
{
    struct goblin_error error = {""};
    if (gb_simstore_try_open(sim, &error) != GOBLIN_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(goblin_reader_create(&sim->reader, sim->store, NULL), GOBLIN_OK);
    sim->put_count = 0;
    sim->key_bytes = 0;
    sim->value_bytes = 0;
}

void gb_simstore_close(struct gb_simstore *sim)
{
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    assert_int_equal(goblin_close(sim->store), GOBLIN_OK);
    sim->store = NULL;
}

void gb_simstore_crash(struct gb_simstore *sim)
{
    goblin_reader_destroy(sim->reader);
    sim->reader = NULL;
    gb_store_abandon(sim->store);
    sim->store = NULL;
    simdisk_crash_process(sim->disk);
    simdisk_restart(sim->disk);
    gb_simstore_open(sim);
}

int gb_simstore_try_put(struct gb_simstore *sim, uint64_t number, size_t size, uint64_t seed,
                        enum goblin_durability durability)
{
    struct gb_key key;
    struct goblin_slice name = gb_key_at(&key, number);
    const struct goblin_put_options options = {
        .meta = {"metadata", number % 9},
        .durability = durability,
    };
    assert_true(size <= VALUE_MAX);
    void *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, seed, 0);
    int rc = goblin_put(sim->store, name, (struct goblin_slice){value, size}, &options, NULL);
    free(value);
    if (rc == GOBLIN_OK) {
        sim->put_count++;
        sim->key_bytes += name.len;
        sim->value_bytes += size + options.meta.len;
    }
    return rc;
}

void gb_simstore_put(struct gb_simstore *sim, uint64_t number, size_t size)
{
    assert_int_equal(gb_simstore_try_put(sim, number, size, number, GOBLIN_DURABILITY_NONE),
                     GOBLIN_OK);
}

void gb_simstore_expect(struct gb_simstore *sim, uint64_t number, size_t size, uint64_t seed)
{
    struct gb_key key;
    struct goblin_buffer value = {0};
    struct goblin_buffer meta = {0};
    assert_int_equal(goblin_load(sim->reader, gb_key_at(&key, number), &value, NULL, &meta),
                     GOBLIN_OK);
    assert_int_equal(value.len, size);
    assert_true(gb_pattern_holds(value.data, value.len, seed, 0));
    assert_int_equal(meta.len, number % 9);
    goblin_buffer_free(&value);
    goblin_buffer_free(&meta);
}

bool gb_simstore_has(struct gb_simstore *sim, uint64_t number)
{
    struct gb_key key;
    struct goblin_info info;
    return goblin_stat(sim->store, gb_key_at(&key, number), &info) == GOBLIN_OK;
}

struct goblin_stats gb_simstore_stats(const struct gb_simstore *sim)
{
    struct goblin_stats stats;
    goblin_stats(sim->store, &stats);
    return stats;
}
