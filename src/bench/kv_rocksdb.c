/*
 * RocksDB for small values, through its C API, set as Mark Callaghan's benchmark scripts set
 * db_bench for leveled compaction (github.com/mdcallag/mytools, bench/rx2: x3.sh, x.sh,
 * benchmark_compare.sh, benchmark.sh): one LRU block cache that index and filter blocks are charged
 * to, those of level 0 pinned, bloom filters, eight levels of dynamic sizes with a fanout of 8, no
 * compression above level 3, a write-ahead log that is not synced. Loading in key order goes
 * without that log into a vector memtable and compresses on every level.
 *
 * Left out because the C API of 7.8 has no such call: the share of the cache for index blocks
 * (high_pri_pool_ratio), block_align and prepopulate_block_cache. The cache gets the memory budget
 * less two memtables.
 */
#include "bench/dynlib.h"
#include "bench/explain.h"
#include "bench/kv_engine.h"
#include "bench/progress.h"

#include "base/bits.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* X(result, name without rocksdb_, parameters...), all of them there since RocksDB 6. */
#define ROCKSDB_CALLS(X)                                                                           \
    X(void *, open, const void *options, const char *path, char **error)                           \
    X(void, close, void *db)                                                                       \
    X(void, put, void *db, const void *options, const char *key, size_t key_len,                   \
      const char *value, size_t len, char **error)                                                 \
    X(void *, get_pinned, void *db, const void *options, const char *key, size_t key_len,          \
      char **error)                                                                                \
    X(void, multi_get, void *db, const void *options, size_t count, const char *const *keys,       \
      const size_t *key_lens, char **values, size_t *lens, char **errors)                          \
    X(const char *, pinnableslice_value, const void *slice, size_t *len)                           \
    X(void, pinnableslice_destroy, void *slice)                                                    \
    X(void *, create_iterator, void *db, const void *options)                                      \
    X(void, iter_seek, void *iterator, const char *key, size_t len)                                \
    X(void, iter_seek_for_prev, void *iterator, const char *key, size_t len)                       \
    X(void, iter_next, void *iterator)                                                             \
    X(void, iter_prev, void *iterator)                                                             \
    X(unsigned char, iter_valid, const void *iterator)                                             \
    X(const char *, iter_key, const void *iterator, size_t *len)                                   \
    X(const char *, iter_value, const void *iterator, size_t *len)                                 \
    X(void, iter_get_error, const void *iterator, char **error)                                    \
    X(void, iter_destroy, void *iterator)                                                          \
    X(void, flush, void *db, const void *options, char **error)                                    \
    X(int, property_int, void *db, const char *name, uint64_t *value)                              \
    X(void, free, void *pointer)                                                                   \
    X(void *, options_create, void)                                                                \
    X(void, options_destroy, void *options)                                                        \
    X(void, options_set_create_if_missing, void *options, unsigned char value)                     \
    X(void, options_set_num_levels, void *options, int levels)                                     \
    X(void, options_set_compression, void *options, int value)                                     \
    X(void, options_set_min_level_to_compress, void *options, int level)                           \
    X(void, options_set_level_compaction_dynamic_level_bytes, void *options, unsigned char value)  \
    X(void, options_set_max_bytes_for_level_base, void *options, uint64_t bytes)                   \
    X(void, options_set_max_bytes_for_level_multiplier, void *options, double factor)              \
    X(void, options_set_target_file_size_base, void *options, uint64_t bytes)                      \
    X(void, options_set_level0_file_num_compaction_trigger, void *options, int count)              \
    X(void, options_set_level0_slowdown_writes_trigger, void *options, int count)                  \
    X(void, options_set_level0_stop_writes_trigger, void *options, int count)                      \
    X(void, options_set_write_buffer_size, void *options, size_t bytes)                            \
    X(void, options_set_max_write_buffer_number, void *options, int count)                         \
    X(void, options_set_max_background_jobs, void *options, int count)                             \
    X(void, options_set_max_open_files, void *options, int count)                                  \
    X(void, options_set_bytes_per_sync, void *options, uint64_t bytes)                             \
    X(void, options_set_use_direct_reads, void *options, unsigned char value)                      \
    X(void, options_set_use_direct_io_for_flush_and_compaction, void *options,                     \
      unsigned char value)                                                                         \
    X(void, options_set_memtable_vector_rep, void *options)                                        \
    X(void, options_set_allow_concurrent_memtable_write, void *options, unsigned char value)       \
    X(void, options_set_block_based_table_factory, void *options, void *table)                     \
    X(void *, block_based_options_create, void)                                                    \
    X(void, block_based_options_destroy, void *table)                                              \
    X(void, block_based_options_set_block_size, void *table, size_t bytes)                         \
    X(void, block_based_options_set_block_cache, void *table, void *cache)                         \
    X(void, block_based_options_set_cache_index_and_filter_blocks, void *table,                    \
      unsigned char value)                                                                         \
    X(void, block_based_options_set_pin_l0_filter_and_index_blocks_in_cache, void *table,          \
      unsigned char value)                                                                         \
    X(void, block_based_options_set_filter_policy, void *table, void *policy)                      \
    X(void *, filterpolicy_create_bloom_full, double bits_per_key)                                 \
    X(void *, cache_create_lru, size_t bytes)                                                      \
    X(void, cache_destroy, void *cache)                                                            \
    X(void *, writeoptions_create, void)                                                           \
    X(void, writeoptions_destroy, void *options)                                                   \
    X(void, writeoptions_disable_WAL, void *options, int disable)                                  \
    X(void *, readoptions_create, void)                                                            \
    X(void, readoptions_destroy, void *options)                                                    \
    X(void *, flushoptions_create, void)                                                           \
    X(void, flushoptions_destroy, void *options)

enum {
    LEVELS = 8,
    FANOUT = 8,
    COMPRESSED_FROM_LEVEL = 3,
    LEVEL0_COMPACTION = 4,
    LEVEL0_SLOWDOWN = 20,
    LEVEL0_STOP = 30,
    MEMTABLES = 8,
    MEMTABLES_BUDGETED = 2,
    BYTES_PER_SYNC = 1 << 20,
    COMPRESSION_NONE = 0,
    COMPRESSION_LZ4 = 4,
    SETTLE_POLL_NS = 20 * 1000 * 1000,
};

struct rocksdb_calls {
#define GB_X(result, name, ...) result (*(name))(__VA_ARGS__);
    ROCKSDB_CALLS(GB_X)
#undef GB_X
};

struct rocksdb_kv {
    struct rocksdb_calls calls;
    void *library;
    void *db;
    void *options;
    void *table;
    void *cache;
    void *write;
    void *read;
    void *flush;
    char dir[PATH_MAX];
};

static int rocksdb_load(struct rocksdb_kv *rocksdb, const char *path, struct goblin_error *error)
{
    static const char *const files[] = {"librocksdb.so.7.8", "librocksdb.so", NULL};
    static const struct gb_dynlib_symbol symbols[] = {
#define GB_X(result, name, ...) {"rocksdb_" #name, offsetof(struct rocksdb_calls, name)},
        ROCKSDB_CALLS(GB_X)
#undef GB_X
            {NULL, 0},
    };
    static const struct gb_dynlib dynlib = {
        .what = "RocksDB",
        .package = "librocksdb-dev",
        .flag = "--rocksdb-lib",
        .needs = "version 6 or newer",
        .files = files,
        .symbols = symbols,
    };
    return gb_dynlib_open(&dynlib, path, &rocksdb->library, &rocksdb->calls, error);
}

static void set_levels(struct rocksdb_kv *rocksdb, const struct gb_kv_config *config)
{
    const struct rocksdb_calls *calls = &rocksdb->calls;
    void *options = rocksdb->options;
    calls->options_set_num_levels(options, LEVELS);
    calls->options_set_compression(options, config->compress ? COMPRESSION_LZ4 : COMPRESSION_NONE);
    calls->options_set_min_level_to_compress(options, config->loading ? 0 : COMPRESSED_FROM_LEVEL);
    calls->options_set_level_compaction_dynamic_level_bytes(options, 1);
    calls->options_set_max_bytes_for_level_base(options, config->level_bytes);
    calls->options_set_max_bytes_for_level_multiplier(options, FANOUT);
    calls->options_set_target_file_size_base(options, config->file_bytes);
    calls->options_set_level0_file_num_compaction_trigger(options, LEVEL0_COMPACTION);
    calls->options_set_level0_slowdown_writes_trigger(options, LEVEL0_SLOWDOWN);
    calls->options_set_level0_stop_writes_trigger(options, LEVEL0_STOP);
}

static void set_table(struct rocksdb_kv *rocksdb, const struct gb_kv_config *config)
{
    const struct rocksdb_calls *calls = &rocksdb->calls;
    uint64_t memtables = MEMTABLES_BUDGETED * config->memtable_bytes;
    uint64_t half = config->memory_bytes / 2;
    uint64_t cache = memtables < half ? config->memory_bytes - memtables : half;
    rocksdb->table = calls->block_based_options_create();
    rocksdb->cache = calls->cache_create_lru(cache);
    calls->block_based_options_set_block_size(rocksdb->table, config->block_bytes);
    calls->block_based_options_set_block_cache(rocksdb->table, rocksdb->cache);
    calls->block_based_options_set_cache_index_and_filter_blocks(rocksdb->table, 1);
    calls->block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(rocksdb->table, 1);
    calls->block_based_options_set_filter_policy(
        rocksdb->table, calls->filterpolicy_create_bloom_full(config->bloom_bits));
    calls->options_set_block_based_table_factory(rocksdb->options, rocksdb->table);
}

static void set_options(struct rocksdb_kv *rocksdb, const struct gb_kv_config *config)
{
    const struct rocksdb_calls *calls = &rocksdb->calls;
    rocksdb->options = calls->options_create();
    calls->options_set_create_if_missing(rocksdb->options, config->create);
    calls->options_set_write_buffer_size(rocksdb->options, config->memtable_bytes);
    calls->options_set_max_write_buffer_number(rocksdb->options, MEMTABLES);
    calls->options_set_max_background_jobs(rocksdb->options, (int)config->background_jobs);
    calls->options_set_max_open_files(rocksdb->options, -1);
    if (config->direct) {
        calls->options_set_use_direct_reads(rocksdb->options, 1);
        calls->options_set_use_direct_io_for_flush_and_compaction(rocksdb->options, 1);
    } else {
        calls->options_set_bytes_per_sync(rocksdb->options, BYTES_PER_SYNC);
    }
    if (config->loading) {
        calls->options_set_memtable_vector_rep(rocksdb->options);
        calls->options_set_allow_concurrent_memtable_write(rocksdb->options, 0);
    }
    set_levels(rocksdb, config);
    set_table(rocksdb, config);
    rocksdb->write = calls->writeoptions_create();
    calls->writeoptions_disable_WAL(rocksdb->write, config->loading);
    rocksdb->read = calls->readoptions_create();
    rocksdb->flush = calls->flushoptions_create();
}

static int kv_close(void *engine)
{
    struct rocksdb_kv *rocksdb = engine;
    const struct rocksdb_calls *calls = &rocksdb->calls;
    if (rocksdb->db) {
        calls->close(rocksdb->db);
    }
    if (rocksdb->options) {
        calls->flushoptions_destroy(rocksdb->flush);
        calls->readoptions_destroy(rocksdb->read);
        calls->writeoptions_destroy(rocksdb->write);
        calls->block_based_options_destroy(rocksdb->table);
        calls->options_destroy(rocksdb->options);
        calls->cache_destroy(rocksdb->cache);
    }
    if (rocksdb->library) {
        dlclose(rocksdb->library);
    }
    free(rocksdb);
    return 0;
}

/* Frees RocksDB's own error text after copying it. */
static int failed(struct rocksdb_kv *rocksdb, char *text, struct goblin_error *error)
{
    gb_explain_set(error, "%s", text);
    rocksdb->calls.free(text);
    return -EIO;
}

static int complain(struct rocksdb_kv *rocksdb, char *text)
{
    fprintf(stderr, "rocksdb: %s\n", text);
    rocksdb->calls.free(text);
    return -EIO;
}

static int kv_open(void **engine, const struct gb_kv_config *config, struct goblin_error *error)
{
    struct rocksdb_kv *rocksdb = calloc(1, sizeof(*rocksdb));
    if (!rocksdb) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    snprintf(rocksdb->dir, sizeof(rocksdb->dir), "%s", config->dir);
    int rc = rocksdb_load(rocksdb, config->library, error);
    if (rc == 0) {
        set_options(rocksdb, config);
        char *text = NULL;
        rocksdb->db = rocksdb->calls.open(rocksdb->options, config->dir, &text);
        rc = text ? failed(rocksdb, text, error) : 0;
    }
    if (rc < 0) {
        kv_close(rocksdb);
        return rc;
    }
    *engine = rocksdb;
    return 0;
}

static int kv_put(void *engine, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct rocksdb_kv *rocksdb = engine;
    char *text = NULL;
    rocksdb->calls.put(rocksdb->db, rocksdb->write, key.data, key.len, value.data, value.len,
                       &text);
    return text ? complain(rocksdb, text) : 0;
}

static int kv_get(void *session, struct gb_kv_bytes key, gb_kv_entry_fn entry, void *arg)
{
    struct rocksdb_kv *rocksdb = session;
    char *text = NULL;
    void *slice = rocksdb->calls.get_pinned(rocksdb->db, rocksdb->read, key.data, key.len, &text);
    if (text) {
        return complain(rocksdb, text);
    }
    if (!slice) {
        return 0;
    }
    size_t len = 0;
    const char *data = rocksdb->calls.pinnableslice_value(slice, &len);
    entry(arg, key, (struct gb_kv_bytes){data, len});
    rocksdb->calls.pinnableslice_destroy(slice);
    return 1;
}

static int kv_multiget(void *session, const struct gb_kv_bytes *keys, unsigned count,
                       gb_kv_entry_fn entry, void *arg)
{
    struct rocksdb_kv *rocksdb = session;
    const char *names[GB_KV_BATCH_MAX] = {NULL};
    size_t name_lens[GB_KV_BATCH_MAX] = {0};
    char *values[GB_KV_BATCH_MAX];
    size_t lens[GB_KV_BATCH_MAX];
    char *texts[GB_KV_BATCH_MAX];
    int found = 0;
    int rc = 0;
    for (unsigned i = 0; i < count; i++) {
        names[i] = keys[i].data;
        name_lens[i] = keys[i].len;
    }
    rocksdb->calls.multi_get(rocksdb->db, rocksdb->read, count, names, name_lens, values, lens,
                             texts);
    for (unsigned i = 0; i < count; i++) {
        if (texts[i]) {
            rc = complain(rocksdb, texts[i]);
        } else if (values[i]) {
            entry(arg, keys[i], (struct gb_kv_bytes){values[i], lens[i]});
            rocksdb->calls.free(values[i]);
            found++;
        }
    }
    return rc < 0 ? rc : found;
}

static int kv_scan(void *session, const struct gb_kv_range *range, gb_kv_entry_fn entry, void *arg)
{
    struct rocksdb_kv *rocksdb = session;
    const struct rocksdb_calls *calls = &rocksdb->calls;
    void *iterator = calls->create_iterator(rocksdb->db, rocksdb->read);
    int found = 0;
    if (range->reverse) {
        calls->iter_seek_for_prev(iterator, range->from.data, range->from.len);
    } else {
        calls->iter_seek(iterator, range->from.data, range->from.len);
    }
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
    return text ? complain(rocksdb, text) : found;
}

/* No property names work, running or due. */
static bool is_idle(struct rocksdb_kv *rocksdb)
{
    static const char *const properties[] = {
        "rocksdb.num-running-flushes",
        "rocksdb.mem-table-flush-pending",
        "rocksdb.num-running-compactions",
        "rocksdb.compaction-pending",
    };
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        uint64_t value = 0;
        if (rocksdb->calls.property_int(rocksdb->db, properties[i], &value) == 0 && value != 0) {
            return false;
        }
    }
    return true;
}

static int kv_settle(void *engine, uint64_t until_ns, struct goblin_error *error)
{
    struct rocksdb_kv *rocksdb = engine;
    char *text = NULL;
    rocksdb->calls.flush(rocksdb->db, rocksdb->flush, &text);
    if (text) {
        return failed(rocksdb, text, error);
    }
    const struct timespec pause = {.tv_nsec = SETTLE_POLL_NS};
    while (!is_idle(rocksdb) && gb_progress_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* The C API does not tell its version; the first lines of the log do. */
static void kv_version(void *engine, char *text, size_t text_len)
{
    static const char label[] = "RocksDB version: ";
    const struct rocksdb_kv *rocksdb = engine;
    char path[PATH_MAX];
    char line[512];
    snprintf(text, text_len, "?");
    if ((size_t)snprintf(path, sizeof(path), "%s/LOG", rocksdb->dir) >= sizeof(path)) {
        return;
    }
    FILE *log = fopen(path, "re");
    for (int i = 0; log && i < 16 && fgets(line, sizeof(line), log); i++) {
        const char *at = strstr(line, label);
        if (at) {
            at += strlen(label);
            snprintf(text, text_len, "%.*s", (int)strcspn(at, " \n"), at);
            break;
        }
    }
    if (log) {
        fclose(log);
    }
}

const struct gb_kv_ops gb_kv_rocksdb = {
    .name = "rocksdb",
    .describe = "RocksDB as Mark Callaghan's scripts set it",
    .direct = true,
    .open = kv_open,
    .close = kv_close,
    .put = kv_put,
    .get = kv_get,
    .multiget = kv_multiget,
    .scan = kv_scan,
    .settle = kv_settle,
    .version = kv_version,
};
