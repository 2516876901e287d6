/*
 * RocksDB in four configurations, all through its C API.
 *
 * `rocksdb` has the object-cache study's options: no block cache, direct reads, direct I/O for
 * flush and compaction, no compression, no mmap, no write-ahead log, 512 MiB memtables times eight
 * (times the scale), two background jobs, leveled compaction, and the budget through the write
 * buffer manager that db_write_buffer_size makes (the C API of 7.8 has no other handle on it).
 * `rocksdb-blob` adds blob files for values of 16 KiB and more.
 *
 * The cached peers populate the same way. After that their memtables are empty, so they are
 * reopened with the whole budget as one LRU cache for blocks and blobs, index and filter blocks
 * charged to it, and bloom filters of ten bits: what a user would run.
 *
 * Where the disk is bounded, all of them have what RocksDB's manual advises against wasting it:
 * dynamic level sizes, bloom filters, and garbage collection of blobs, in files of 64 MiB, of the
 * oldest half and by force beyond a quarter of garbage. Under churn half of the budget is memtables
 * of an eighth each, the other half one LRU cache.
 */
#include "bench/engine.h"
#include "bench/explain.h"
#include "bench/rocksdb_api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MEMTABLE_BYTES = 512 << 20,
    MEMTABLE_MIN_BYTES = 4 << 20,
    MEMTABLES = 8,
    BACKGROUND_JOBS = 2,
    BLOB_MIN_BYTES = 16 << 10,
    POPULATE_CACHE_BYTES = 8 << 20,
    IDLE_MEMTABLE_BYTES = 64 << 10,
    CHURN_MEMTABLES = 4,
    BLOOM_BITS = 10,
    BLOB_FILE_BYTES = 64 << 20,
    BARRIER_POLL_MS = 20,
};

static const double blob_gc_age_cutoff = 0.5;
static const double blob_gc_force_threshold = 0.25;

enum { PLAIN = 0, BLOB = 1, CACHED = 2 };

struct rocksdb {
    struct gb_rocksdb_api api;
    bool blob;
    bool cached;
    bool churn;
    void *db;
    void *options;
    void *table;
    void *cache;
    void *write;
    void *read;
    void *quiet; /* reads that do not fill the cache */
    void *flush;
    int thread_io;       /* /proc/thread-self/io of the thread that gets; -1 before its first get */
    uint64_t asked;      /* how often it was read */
    uint64_t read_bytes; /* what it said last */
};

/* Frees RocksDB's own error text after copying it. */
static int rocksdb_failed(struct rocksdb *rocksdb, char *text, struct goblin_error *error)
{
    gb_explain_set(error, "rocksdb: %s", text);
    rocksdb->api.free(text);
    return -EIO;
}

static void rocksdb_set_cache(struct rocksdb *rocksdb, size_t bytes)
{
    const struct gb_rocksdb_api *api = &rocksdb->api;
    rocksdb->cache = api->cache_create_lru(bytes);
    api->block_based_options_set_block_cache(rocksdb->table, rocksdb->cache);
    api->block_based_options_set_cache_index_and_filter_blocks(rocksdb->table, 1);
    if (rocksdb->blob) {
        api->options_set_blob_cache(rocksdb->options, rocksdb->cache);
    }
}

static void rocksdb_set_churn_memory(struct rocksdb *rocksdb, uint64_t memory_bytes)
{
    const struct gb_rocksdb_api *api = &rocksdb->api;
    size_t half = (size_t)memory_bytes / 2;
    api->options_set_write_buffer_size(rocksdb->options, half / CHURN_MEMTABLES);
    api->options_set_max_write_buffer_number(rocksdb->options, CHURN_MEMTABLES);
    api->options_set_db_write_buffer_size(rocksdb->options, half);
    rocksdb_set_cache(rocksdb, half);
}

static void rocksdb_set_memory(struct rocksdb *rocksdb, const struct gb_engine_config *config,
                               enum gb_engine_phase phase)
{
    const struct gb_rocksdb_api *api = &rocksdb->api;
    bool idle = rocksdb->cached && phase == GB_ENGINE_REPLAY;
    double scaled = (double)MEMTABLE_BYTES * config->scale;
    size_t memtable =
        scaled < (double)MEMTABLE_MIN_BYTES ? (size_t)MEMTABLE_MIN_BYTES : (size_t)scaled;
    if (phase == GB_ENGINE_CHURN) {
        rocksdb_set_churn_memory(rocksdb, config->memory_bytes);
        return;
    }
    api->options_set_write_buffer_size(rocksdb->options, idle ? IDLE_MEMTABLE_BYTES : memtable);
    api->options_set_max_write_buffer_number(rocksdb->options, MEMTABLES);
    if (!idle) {
        api->options_set_db_write_buffer_size(rocksdb->options, config->memory_bytes);
    }
    if (!rocksdb->cached) {
        api->block_based_options_set_no_block_cache(rocksdb->table, 1);
        return;
    }
    rocksdb_set_cache(rocksdb, idle ? config->memory_bytes : POPULATE_CACHE_BYTES);
}

/* What keeps dead data few where the disk is bounded. */
static void rocksdb_set_bounded(struct rocksdb *rocksdb)
{
    const struct gb_rocksdb_api *api = &rocksdb->api;
    api->options_set_level_compaction_dynamic_level_bytes(rocksdb->options, 1);
    if (rocksdb->blob) {
        api->options_set_blob_file_size(rocksdb->options, BLOB_FILE_BYTES);
        api->options_set_enable_blob_gc(rocksdb->options, 1);
        api->options_set_blob_gc_age_cutoff(rocksdb->options, blob_gc_age_cutoff);
        api->options_set_blob_gc_force_threshold(rocksdb->options, blob_gc_force_threshold);
    }
}

static void rocksdb_set_options(struct rocksdb *rocksdb, const struct gb_engine_config *config,
                                enum gb_engine_phase phase)
{
    const struct gb_rocksdb_api *api = &rocksdb->api;
    rocksdb->options = api->options_create();
    rocksdb->table = api->block_based_options_create();
    api->options_set_create_if_missing(rocksdb->options, phase == GB_ENGINE_POPULATE);
    api->options_set_compression(rocksdb->options, 0);
    api->options_set_compaction_style(rocksdb->options, 0);
    api->options_set_use_direct_reads(rocksdb->options, 1);
    api->options_set_use_direct_io_for_flush_and_compaction(rocksdb->options, 1);
    api->options_set_allow_mmap_reads(rocksdb->options, 0);
    api->options_set_allow_mmap_writes(rocksdb->options, 0);
    api->options_set_max_background_jobs(rocksdb->options, BACKGROUND_JOBS);
    if (rocksdb->blob) {
        api->options_set_enable_blob_files(rocksdb->options, 1);
        api->options_set_min_blob_size(rocksdb->options, BLOB_MIN_BYTES);
        api->options_set_blob_compression_type(rocksdb->options, 0);
    }
    if (rocksdb->cached || config->disk_bytes) {
        api->block_based_options_set_filter_policy(rocksdb->table,
                                                   api->filterpolicy_create_bloom_full(BLOOM_BITS));
    }
    if (config->disk_bytes) {
        rocksdb_set_bounded(rocksdb);
    }
    if (phase == GB_ENGINE_CHURN) {
        api->options_enable_statistics(rocksdb->options); /* the only count of bytes written */
    }
    rocksdb_set_memory(rocksdb, config, phase);
    api->options_set_block_based_table_factory(rocksdb->options, rocksdb->table);
    rocksdb->write = api->writeoptions_create();
    api->writeoptions_disable_WAL(rocksdb->write, 1);
    rocksdb->read = api->readoptions_create();
    rocksdb->quiet = api->readoptions_create();
    api->readoptions_set_fill_cache(rocksdb->quiet, 0);
    rocksdb->flush = api->flushoptions_create();
    api->flushoptions_set_wait(rocksdb->flush, 1);
}

static int rocksdb_close(void *engine)
{
    struct rocksdb *rocksdb = engine;
    const struct gb_rocksdb_api *api = &rocksdb->api;
    if (rocksdb->db) {
        api->close(rocksdb->db);
    }
    if (rocksdb->options) {
        api->flushoptions_destroy(rocksdb->flush);
        api->readoptions_destroy(rocksdb->quiet);
        api->readoptions_destroy(rocksdb->read);
        api->writeoptions_destroy(rocksdb->write);
        api->block_based_options_destroy(rocksdb->table);
        api->options_destroy(rocksdb->options);
    }
    if (rocksdb->cache) {
        api->cache_destroy(rocksdb->cache);
    }
    if (rocksdb->thread_io >= 0) {
        close(rocksdb->thread_io);
    }
    gb_rocksdb_api_close(&rocksdb->api);
    free(rocksdb);
    return 0;
}

static int rocksdb_open(void **engine, const struct gb_engine_config *config,
                        enum gb_engine_phase phase, unsigned variant, struct goblin_error *error)
{
    struct rocksdb *rocksdb = calloc(1, sizeof(*rocksdb));
    if (!rocksdb) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    rocksdb->thread_io = -1;
    rocksdb->blob = (variant & BLOB) != 0;
    rocksdb->cached = (variant & CACHED) != 0;
    rocksdb->churn = phase == GB_ENGINE_CHURN;
    int rc = gb_rocksdb_api_open(&rocksdb->api, config->rocksdb_lib, error);
    if (rc == 0) {
        rocksdb_set_options(rocksdb, config, phase);
        char *text = NULL;
        rocksdb->db = rocksdb->api.open(rocksdb->options, config->dir, &text);
        rc = text ? rocksdb_failed(rocksdb, text, error) : 0;
    }
    if (rc < 0) {
        rocksdb_close(rocksdb);
        return rc;
    }
    *engine = rocksdb;
    return 0;
}

static int rocksdb_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                       const struct gb_engine_value *value)
{
    (void)worker;
    struct rocksdb *rocksdb = engine;
    const void *data = value->window(value->arg, 0, (size_t)value->size);
    if (!data) {
        return -ENOMEM;
    }
    char *text = NULL;
    rocksdb->api.put(rocksdb->db, rocksdb->write, key->data, key->len, data, (size_t)value->size,
                     &text);
    if (text) {
        fprintf(stderr, "rocksdb: %s\n", text);
        rocksdb->api.free(text);
        return -EIO;
    }
    return 0;
}

/* The C API of 7.8 has no rocksdb_wait_for_compact, so its properties are asked until none of
 * them names work, running or due. */
static bool rocksdb_idle(struct rocksdb *rocksdb)
{
    static const char *const properties[] = {
        "rocksdb.num-running-flushes",
        "rocksdb.mem-table-flush-pending",
        "rocksdb.num-running-compactions",
        "rocksdb.compaction-pending",
    };
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        uint64_t value = 0;
        if (rocksdb->api.property_int(rocksdb->db, properties[i], &value) == 0 && value != 0) {
            return false;
        }
    }
    return true;
}

static int rocksdb_barrier(void *engine, struct goblin_error *error)
{
    struct rocksdb *rocksdb = engine;
    char *text = NULL;
    rocksdb->api.flush(rocksdb->db, rocksdb->flush, &text);
    if (text) {
        return rocksdb_failed(rocksdb, text, error);
    }
    /* A compaction that ends may ask for the next one a moment later: idle twice in a row. */
    const struct timespec pause = {.tv_nsec = BARRIER_POLL_MS * 1000000L};
    for (int idle = 0; idle < 2;) {
        idle = rocksdb_idle(rocksdb) ? idle + 1 : 0;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Reads that this thread has made so far: RocksDB reads in the thread that gets, by pread, and its
 * C API counts no blob reads. Asked after the last chunk, so no request's time holds it. */
static uint64_t rocksdb_thread_reads(struct rocksdb *rocksdb)
{
    if (rocksdb->thread_io < 0) {
        rocksdb->thread_io = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    }
    char text[512];
    rocksdb->asked++;
    ssize_t len = pread(rocksdb->thread_io, text, sizeof(text) - 1, 0);
    if (len <= 0) {
        return 0;
    }
    text[len] = '\0';
    const char *line = strstr(text, "read_bytes:");
    return line ? strtoull(line + strlen("read_bytes:"), NULL, 10) : 0;
}

/* get_pinned is the fair best case: a cached value is handed over where it lies. */
static int rocksdb_get(void *engine, const struct gb_engine_get *get)
{
    struct rocksdb *rocksdb = engine;
    char *text = NULL;
    void *slice = rocksdb->api.get_pinned(rocksdb->db, get->quiet ? rocksdb->quiet : rocksdb->read,
                                          get->key->data, get->key->len, &text);
    if (text) {
        fprintf(stderr, "rocksdb: %s\n", text);
        rocksdb->api.free(text);
        return -EIO;
    }
    if (!slice) {
        return GB_ENGINE_MISS;
    }
    size_t len = 0;
    const char *data = rocksdb->api.pinnableslice_value(slice, &len);
    get->chunk(get->arg, data, len);
    rocksdb->api.pinnableslice_destroy(slice);
    uint64_t read_bytes = rocksdb_thread_reads(rocksdb);
    int answer = read_bytes > rocksdb->read_bytes ? GB_ENGINE_DISK : GB_ENGINE_RAM;
    rocksdb->read_bytes = read_bytes;
    return answer;
}

static uint64_t rocksdb_property(struct rocksdb *rocksdb, const char *name)
{
    uint64_t value = 0;
    return rocksdb->api.property_int(rocksdb->db, name, &value) == 0 ? value : 0;
}

/* Lines of "<name> COUNT : <number>"; 0 where there is none. */
static uint64_t rocksdb_ticker(const char *text, const char *name)
{
    static const char between[] = " COUNT : ";
    const char *at = strstr(text, name);
    if (!at || strncmp(at + strlen(name), between, sizeof(between) - 1) != 0) {
        return 0;
    }
    return strtoull(at + strlen(name) + sizeof(between) - 1, NULL, 10);
}

/* What RocksDB says of its own writes and files: too slow to be asked between requests. */
static void rocksdb_count(struct rocksdb *rocksdb, struct gb_engine_stats *stats)
{
    char *text = rocksdb->api.options_statistics_get_string(rocksdb->options);
    if (text) {
        stats->counted_write_bytes = rocksdb_ticker(text, "rocksdb.flush.write.bytes") +
                                     rocksdb_ticker(text, "rocksdb.compact.write.bytes");
        stats->counted_user_bytes = rocksdb_ticker(text, "rocksdb.bytes.written");
        rocksdb->api.free(text);
    }
    stats->live_bytes = rocksdb_property(rocksdb, "rocksdb.estimate-live-data-size");
    stats->disk_used_bytes = rocksdb_property(rocksdb, "rocksdb.total-sst-files-size") +
                             rocksdb_property(rocksdb, "rocksdb.total-blob-file-size");
    stats->disk_file_bytes = stats->disk_used_bytes;
}

static void rocksdb_stats(void *engine, struct gb_engine_stats *stats)
{
    struct rocksdb *rocksdb = engine;
    memset(stats, 0, sizeof(*stats));
    stats->bench_reads = rocksdb->asked;
    if (rocksdb->cache) {
        stats->memory_used_bytes = rocksdb->api.cache_get_usage(rocksdb->cache);
    }
    if (rocksdb->churn) {
        rocksdb_count(rocksdb, stats);
    }
}

#define ROCKSDB_VARIANT(symbol, variant)                                                           \
    static int symbol##_open(void **engine, const struct gb_engine_config *config,                 \
                             enum gb_engine_phase phase, struct goblin_error *error)               \
    {                                                                                              \
        return rocksdb_open(engine, config, phase, variant, error);                                \
    }

ROCKSDB_VARIANT(plain, PLAIN)
ROCKSDB_VARIANT(blob, BLOB)
ROCKSDB_VARIANT(cached, CACHED)
ROCKSDB_VARIANT(blob_cached, BLOB | CACHED)

#define ROCKSDB_OPERATIONS                                                                         \
    .keeps_bytes = true, .disk_factor = 2.2, .put = rocksdb_put, .barrier = rocksdb_barrier,       \
    .get = rocksdb_get, .stats = rocksdb_stats, .close = rocksdb_close

const struct gb_engine_ops gb_engine_rocksdb = {
    .name = "rocksdb",
    .describe = "RocksDB with the study's options: no block cache, budget in memtables",
    .open = plain_open,
    ROCKSDB_OPERATIONS,
};
const struct gb_engine_ops gb_engine_rocksdb_blob = {
    .name = "rocksdb-blob",
    .describe = "the same with values of 16 KiB and more in blob files",
    .open = blob_open,
    ROCKSDB_OPERATIONS,
};
const struct gb_engine_ops gb_engine_rocksdb_cached = {
    .name = "rocksdb-cached",
    .describe = "RocksDB replaying with the whole budget as block cache",
    .open = cached_open,
    ROCKSDB_OPERATIONS,
};
const struct gb_engine_ops gb_engine_rocksdb_blob_cached = {
    .name = "rocksdb-blob-cached",
    .describe = "blob files, replaying with the whole budget as block and blob cache",
    .open = blob_cached_open,
    ROCKSDB_OPERATIONS,
};
