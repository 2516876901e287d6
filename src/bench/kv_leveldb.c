/*
 * LevelDB for small values, through its C API: sizes as for RocksDB where it has such, the rest as
 * it comes. It knows no direct I/O, compacts in one thread of its own, and compresses by Snappy
 * where the others use LZ4.
 */
#include "bench/dynlib.h"
#include "bench/explain.h"
#include "bench/kv_engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(result, name without leveldb_, parameters...) */
#define LEVELDB_CALLS(X)                                                                           \
    X(void *, open, const void *options, const char *path, char **error)                           \
    X(void, close, void *db)                                                                       \
    X(void, put, void *db, const void *options, const char *key, size_t key_len,                   \
      const char *value, size_t len, char **error)                                                 \
    X(char *, get, void *db, const void *options, const char *key, size_t key_len, size_t *len,    \
      char **error)                                                                                \
    X(void *, create_iterator, void *db, const void *options)                                      \
    X(void, iter_seek, void *iterator, const char *key, size_t len)                                \
    X(void, iter_seek_to_last, void *iterator)                                                     \
    X(void, iter_next, void *iterator)                                                             \
    X(void, iter_prev, void *iterator)                                                             \
    X(uint8_t, iter_valid, const void *iterator)                                                   \
    X(const char *, iter_key, const void *iterator, size_t *len)                                   \
    X(const char *, iter_value, const void *iterator, size_t *len)                                 \
    X(void, iter_get_error, const void *iterator, char **error)                                    \
    X(void, iter_destroy, void *iterator)                                                          \
    X(void *, options_create, void)                                                                \
    X(void, options_destroy, void *options)                                                        \
    X(void, options_set_create_if_missing, void *options, uint8_t value)                           \
    X(void, options_set_write_buffer_size, void *options, size_t bytes)                            \
    X(void, options_set_max_file_size, void *options, size_t bytes)                                \
    X(void, options_set_block_size, void *options, size_t bytes)                                   \
    X(void, options_set_cache, void *options, void *cache)                                         \
    X(void, options_set_filter_policy, void *options, void *policy)                                \
    X(void, options_set_compression, void *options, int value)                                     \
    X(void *, cache_create_lru, size_t bytes)                                                      \
    X(void, cache_destroy, void *cache)                                                            \
    X(void *, filterpolicy_create_bloom, int bits_per_key)                                         \
    X(void, filterpolicy_destroy, void *policy)                                                    \
    X(void *, writeoptions_create, void)                                                           \
    X(void, writeoptions_destroy, void *options)                                                   \
    X(void *, readoptions_create, void)                                                            \
    X(void, readoptions_destroy, void *options)                                                    \
    X(void, free, void *pointer)                                                                   \
    X(int, major_version, void)                                                                    \
    X(int, minor_version, void)

enum { MEMTABLES = 2, COMPRESSION_NONE = 0, COMPRESSION_SNAPPY = 1 };

struct leveldb_calls {
#define GB_X(result, name, ...) result (*(name))(__VA_ARGS__);
    LEVELDB_CALLS(GB_X)
#undef GB_X
};

struct leveldb_kv {
    struct leveldb_calls calls;
    void *library;
    void *db;
    void *options;
    void *cache;
    void *filter;
    void *write;
    void *read;
};

static int leveldb_load(struct leveldb_kv *leveldb, const char *path, struct goblin_error *error)
{
    static const char *const files[] = {"libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so",
                                        NULL};
    static const struct gb_dynlib_symbol symbols[] = {
#define GB_X(result, name, ...) {"leveldb_" #name, offsetof(struct leveldb_calls, name)},
        LEVELDB_CALLS(GB_X)
#undef GB_X
            {NULL, 0},
    };
    static const struct gb_dynlib dynlib = {
        .what = "LevelDB",
        .package = "libleveldb1d",
        .flag = "--leveldb-lib",
        .needs = "version 1.21 or newer",
        .files = files,
        .symbols = symbols,
    };
    return gb_dynlib_open(&dynlib, path, &leveldb->library, &leveldb->calls, error);
}

static void set_options(struct leveldb_kv *leveldb, const struct gb_kv_config *config)
{
    const struct leveldb_calls *calls = &leveldb->calls;
    uint64_t memtables = MEMTABLES * config->memtable_bytes;
    uint64_t half = config->memory_bytes / 2;
    leveldb->options = calls->options_create();
    leveldb->cache =
        calls->cache_create_lru(memtables < half ? config->memory_bytes - memtables : half);
    leveldb->filter = calls->filterpolicy_create_bloom((int)config->bloom_bits);
    calls->options_set_create_if_missing(leveldb->options, config->create);
    calls->options_set_write_buffer_size(leveldb->options, config->memtable_bytes);
    calls->options_set_max_file_size(leveldb->options, config->file_bytes);
    calls->options_set_block_size(leveldb->options, config->block_bytes);
    calls->options_set_cache(leveldb->options, leveldb->cache);
    calls->options_set_filter_policy(leveldb->options, leveldb->filter);
    calls->options_set_compression(leveldb->options,
                                   config->compress ? COMPRESSION_SNAPPY : COMPRESSION_NONE);
    leveldb->write = calls->writeoptions_create();
    leveldb->read = calls->readoptions_create();
}

static int kv_close(void *engine)
{
    struct leveldb_kv *leveldb = engine;
    const struct leveldb_calls *calls = &leveldb->calls;
    if (leveldb->db) {
        calls->close(leveldb->db);
    }
    if (leveldb->options) {
        calls->readoptions_destroy(leveldb->read);
        calls->writeoptions_destroy(leveldb->write);
        calls->options_destroy(leveldb->options);
        calls->cache_destroy(leveldb->cache);
        calls->filterpolicy_destroy(leveldb->filter);
    }
    if (leveldb->library) {
        dlclose(leveldb->library);
    }
    free(leveldb);
    return 0;
}

static int complain(struct leveldb_kv *leveldb, char *text)
{
    fprintf(stderr, "leveldb: %s\n", text);
    leveldb->calls.free(text);
    return -EIO;
}

static int kv_open(void **engine, const struct gb_kv_config *config, struct goblin_error *error)
{
    struct leveldb_kv *leveldb = calloc(1, sizeof(*leveldb));
    if (!leveldb) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    int rc = leveldb_load(leveldb, config->library, error);
    if (rc == 0) {
        char *text = NULL;
        set_options(leveldb, config);
        leveldb->db = leveldb->calls.open(leveldb->options, config->dir, &text);
        if (text) {
            gb_explain_set(error, "%s", text);
            leveldb->calls.free(text);
            rc = -EIO;
        }
    }
    if (rc < 0) {
        kv_close(leveldb);
        return rc;
    }
    *engine = leveldb;
    return 0;
}

static int kv_put(void *engine, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct leveldb_kv *leveldb = engine;
    char *text = NULL;
    leveldb->calls.put(leveldb->db, leveldb->write, key.data, key.len, value.data, value.len,
                       &text);
    return text ? complain(leveldb, text) : 0;
}

static int kv_get(void *session, struct gb_kv_bytes key, gb_kv_entry_fn entry, void *arg)
{
    struct leveldb_kv *leveldb = session;
    char *text = NULL;
    size_t len = 0;
    char *value = leveldb->calls.get(leveldb->db, leveldb->read, key.data, key.len, &len, &text);
    if (text) {
        return complain(leveldb, text);
    }
    if (!value) {
        return 0;
    }
    entry(arg, key, (struct gb_kv_bytes){value, len});
    leveldb->calls.free(value);
    return 1;
}

/* It only seeks forwards: at the last key that is not greater, one back from a greater one. */
static void seek(const struct leveldb_calls *calls, void *iterator, const struct gb_kv_range *range)
{
    calls->iter_seek(iterator, range->from.data, range->from.len);
    if (!range->reverse) {
        return;
    }
    if (!calls->iter_valid(iterator)) {
        calls->iter_seek_to_last(iterator);
        return;
    }
    size_t len = 0;
    const char *key = calls->iter_key(iterator, &len);
    if (len != range->from.len || memcmp(key, range->from.data, len) != 0) {
        calls->iter_prev(iterator);
    }
}

static int kv_scan(void *session, const struct gb_kv_range *range, gb_kv_entry_fn entry, void *arg)
{
    struct leveldb_kv *leveldb = session;
    const struct leveldb_calls *calls = &leveldb->calls;
    void *iterator = calls->create_iterator(leveldb->db, leveldb->read);
    int found = 0;
    seek(calls, iterator, range);
    while (found < (int)range->count && calls->iter_valid(iterator)) {
        struct gb_kv_bytes key;
        struct gb_kv_bytes value;
        key.data = calls->iter_key(iterator, &key.len);
        value.data = calls->iter_value(iterator, &value.len);
        entry(arg, key, value);
        found++;
        if (range->reverse) {
            calls->iter_prev(iterator);
        } else {
            calls->iter_next(iterator);
        }
    }
    char *text = NULL;
    calls->iter_get_error(iterator, &text);
    calls->iter_destroy(iterator);
    return text ? complain(leveldb, text) : found;
}

static void kv_version(void *engine, char *text, size_t text_len)
{
    const struct leveldb_kv *leveldb = engine;
    snprintf(text, text_len, "%d.%d", leveldb->calls.major_version(),
             leveldb->calls.minor_version());
}

const struct gb_kv_ops gb_kv_leveldb = {
    .name = "leveldb",
    .describe = "LevelDB with sizes as for RocksDB; no direct I/O",
    .open = kv_open,
    .close = kv_close,
    .put = kv_put,
    .get = kv_get,
    .scan = kv_scan,
    .version = kv_version,
};
