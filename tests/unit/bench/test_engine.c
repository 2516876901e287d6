/* The table of engines, and the two that keep no bytes. */
#include "bench/engine.h"
#include "bench/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OBJECTS = 9, CHUNKS_MAX = 16 };

static const uint64_t sizes[OBJECTS] = {
    0,
    1,
    4096,
    GB_ENGINE_HEAD_BYTES - 1,
    GB_ENGINE_HEAD_BYTES,
    GB_ENGINE_HEAD_BYTES + 1,
    GB_ENGINE_HEAD_BYTES + GB_ENGINE_FIRST_CHUNK_BYTES,
    GB_ENGINE_HEAD_BYTES + GB_ENGINE_FIRST_CHUNK_BYTES + 1,
    GB_ENGINE_HEAD_BYTES + GB_ENGINE_FIRST_CHUNK_BYTES + 6 * GB_ENGINE_CHUNK_BYTES + 5,
};

struct chunks {
    size_t count;
    size_t lens[CHUNKS_MAX];
};

static uint64_t size_of(void *arg, uint64_t number)
{
    (void)arg;
    return sizes[number];
}

static void collect(void *arg, const void *data, size_t len)
{
    struct chunks *chunks = arg;
    assert_null(data);
    assert_true(chunks->count < CHUNKS_MAX);
    chunks->lens[chunks->count++] = len;
}

static struct gb_engine_config config_of(const char *dir)
{
    struct gb_engine_config config = {
        .dir = dir,
        .memory_bytes = 1 << 20,
        .objects = OBJECTS,
        .scale = 1,
        .workers = 1,
        .size_of = size_of,
    };
    for (size_t i = 0; i < OBJECTS; i++) {
        config.bytes += sizes[i];
    }
    return config;
}

static int get(const struct gb_engine_ops *ops, void *engine, uint64_t number,
               struct chunks *chunks)
{
    const struct gb_engine_key key = {"key", 3, number};
    const struct gb_engine_get request = {.key = &key, .chunk = collect, .arg = chunks};
    chunks->count = 0;
    return ops->get(engine, &request);
}

static void engine_find__knows_whole_names_only(void **state)
{
    (void)state;
    for (size_t i = 0; gb_engine_table[i]; i++) {
        const char *name = gb_engine_table[i]->name;
        assert_ptr_equal(gb_engine_find(name, strlen(name)), gb_engine_table[i]);
    }
    assert_null(gb_engine_find("goblin-", 7));
    assert_null(gb_engine_find("", 0));
}

static void engine_list__takes_each_engine_once_and_names_them_all(void **state)
{
    (void)state;
    const struct gb_engine_ops *engines[GB_ENGINES_MAX];
    size_t count = 0;
    struct goblin_error error = {{0}};
    assert_int_equal(gb_engine_list(engines, &count, "rocksdb,goblin,rocksdb", &error), 0);
    assert_int_equal(gb_engine_list(engines, &count, "null", &error), 0);
    assert_int_equal(count, 3);
    assert_ptr_equal(engines[0], &gb_engine_rocksdb);
    assert_ptr_equal(engines[2], &gb_engine_null);
    assert_int_equal(gb_engine_list(engines, &count, "goblin,", &error), -EINVAL);
    assert_non_null(strstr(error.text, "rocksdb-blob-cached"));
}

static void engine_null__answers_with_sizes_alone(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    struct gb_engine_config config = config_of("");
    struct chunks chunks;
    void *engine = NULL;
    assert_int_equal(gb_engine_null.open(&engine, &config, GB_ENGINE_REPLAY, &error), 0);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(get(&gb_engine_null, engine, i, &chunks), GB_ENGINE_RAM);
        assert_int_equal(chunks.count, 1);
        assert_int_equal(chunks.lens[0], sizes[i]);
    }
    assert_int_equal(gb_engine_null.close(engine), 0);
}

static void engine_control__delivers_a_head_and_the_chunks_of_a_tail_in_order(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    char dir[] = "/var/tmp/goblin-control-XXXXXX";
    struct chunks chunks;
    void *engine = NULL;
    double mean_us = 0;
    assert_non_null(mkdtemp(dir));
    struct gb_engine_config config = config_of(dir);
    int rc = gb_engine_control.open(&engine, &config, GB_ENGINE_POPULATE, &error);
    if (rc < 0) { /* no io_uring, or a file system without direct I/O */
        gb_scratch_remove(dir);
        skip();
    }
    assert_int_equal(gb_engine_control.barrier(engine, &error), 0);
    assert_int_equal(gb_engine_control.close(engine), 0);
    assert_int_equal(gb_engine_control.open(&engine, &config, GB_ENGINE_REPLAY, &error), 0);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        uint64_t sum = 0;
        int answer = get(&gb_engine_control, engine, i, &chunks);
        assert_int_equal(answer, sizes[i] > GB_ENGINE_HEAD_BYTES ? GB_ENGINE_DISK : GB_ENGINE_RAM);
        for (size_t n = 0; n < chunks.count; n++) {
            sum += chunks.lens[n];
        }
        assert_int_equal(sum, sizes[i]);
    }
    assert_int_equal(chunks.count, 9);
    assert_int_equal(chunks.lens[0], GB_ENGINE_HEAD_BYTES);
    assert_int_equal(chunks.lens[1], GB_ENGINE_FIRST_CHUNK_BYTES);
    assert_int_equal(chunks.lens[2], GB_ENGINE_CHUNK_BYTES);
    assert_int_equal(chunks.lens[8], 5);
    assert_int_equal(gb_engine_control.probe(engine, 4096, 3, 1, &mean_us), 0);
    assert_true(mean_us > 0);
    assert_int_equal(gb_engine_control.probe(engine, UINT64_C(1) << 40, 3, 1, &mean_us), -ERANGE);
    assert_int_equal(gb_engine_control.close(engine), 0);
    assert_int_equal(gb_scratch_remove(dir), 0);
}

static void engine_rocksdb__explains_a_missing_library(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    struct gb_engine_config config = config_of("/nowhere");
    void *engine = NULL;
    config.rocksdb_lib = "/no/such/librocksdb.so";
    assert_int_equal(gb_engine_rocksdb.open(&engine, &config, GB_ENGINE_POPULATE, &error), -ENOENT);
    assert_non_null(strstr(error.text, "--rocksdb-lib"));
    /* A library that is none of RocksDB's. */
    config.rocksdb_lib = "libc.so.6";
    assert_int_equal(gb_engine_rocksdb.open(&engine, &config, GB_ENGINE_POPULATE, &error), -ENOSYS);
    assert_non_null(strstr(error.text, "rocksdb_open"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_find__knows_whole_names_only),
        cmocka_unit_test(engine_list__takes_each_engine_once_and_names_them_all),
        cmocka_unit_test(engine_null__answers_with_sizes_alone),
        cmocka_unit_test(engine_control__delivers_a_head_and_the_chunks_of_a_tail_in_order),
        cmocka_unit_test(engine_rocksdb__explains_a_missing_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
