/*
 * RocksDB's C API as a table of functions, filled by dlopen.
 *
 * Nothing is linked and no RocksDB header is included: its handles are opaque pointers here, so
 * the bench builds without RocksDB and --rocksdb-lib can name any build of it. The list holds the
 * symbols of <rocksdb/c.h> that the bench needs, all of them there since RocksDB 7.8.
 */
#ifndef GB_BENCH_ROCKSDB_API_H
#define GB_BENCH_ROCKSDB_API_H

#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

/* X(result, name without rocksdb_, parameters...) */
#define GB_ROCKSDB_DATABASE(X)                                                                     \
    X(void *, open, const void *options, const char *path, char **error)                           \
    X(void, close, void *db)                                                                       \
    X(void, put, void *db, const void *options, const char *key, size_t key_len,                   \
      const char *value, size_t len, char **error)                                                 \
    X(void *, get_pinned, void *db, const void *options, const char *key, size_t key_len,          \
      char **error)                                                                                \
    X(const char *, pinnableslice_value, const void *slice, size_t *len)                           \
    X(void, pinnableslice_destroy, void *slice)                                                    \
    X(void, flush, void *db, const void *options, char **error)                                    \
    X(int, property_int, void *db, const char *name, uint64_t *value)                              \
    X(void, free, void *pointer)

#define GB_ROCKSDB_OPTIONS(X)                                                                      \
    X(void *, options_create, void)                                                                \
    X(void, options_destroy, void *options)                                                        \
    X(void, options_set_create_if_missing, void *options, unsigned char value)                     \
    X(void, options_set_compression, void *options, int value)                                     \
    X(void, options_set_compaction_style, void *options, int value)                                \
    X(void, options_set_use_direct_reads, void *options, unsigned char value)                      \
    X(void, options_set_use_direct_io_for_flush_and_compaction, void *options,                     \
      unsigned char value)                                                                         \
    X(void, options_set_allow_mmap_reads, void *options, unsigned char value)                      \
    X(void, options_set_allow_mmap_writes, void *options, unsigned char value)                     \
    X(void, options_set_write_buffer_size, void *options, size_t bytes)                            \
    X(void, options_set_db_write_buffer_size, void *options, size_t bytes)                         \
    X(void, options_set_max_write_buffer_number, void *options, int count)                         \
    X(void, options_set_max_background_jobs, void *options, int count)                             \
    X(void, options_set_block_based_table_factory, void *options, void *table)                     \
    X(void, options_set_enable_blob_files, void *options, unsigned char value)                     \
    X(void, options_set_min_blob_size, void *options, uint64_t bytes)                              \
    X(void, options_set_blob_compression_type, void *options, int value)                           \
    X(void, options_set_blob_cache, void *options, void *cache)                                    \
    X(void, options_set_blob_file_size, void *options, uint64_t bytes)                             \
    X(void, options_set_enable_blob_gc, void *options, unsigned char value)                        \
    X(void, options_set_blob_gc_age_cutoff, void *options, double share)                           \
    X(void, options_set_blob_gc_force_threshold, void *options, double share)                      \
    X(void, options_set_level_compaction_dynamic_level_bytes, void *options, unsigned char value)  \
    X(void, options_enable_statistics, void *options)                                              \
    X(char *, options_statistics_get_string, void *options)                                        \
    X(void *, writeoptions_create, void)                                                           \
    X(void, writeoptions_destroy, void *options)                                                   \
    X(void, writeoptions_disable_WAL, void *options, int disable)                                  \
    X(void *, readoptions_create, void)                                                            \
    X(void, readoptions_set_fill_cache, void *options, unsigned char value)                        \
    X(void, readoptions_destroy, void *options)                                                    \
    X(void *, flushoptions_create, void)                                                           \
    X(void, flushoptions_destroy, void *options)                                                   \
    X(void, flushoptions_set_wait, void *options, unsigned char value)

#define GB_ROCKSDB_TABLE(X)                                                                        \
    X(void *, block_based_options_create, void)                                                    \
    X(void, block_based_options_destroy, void *table)                                              \
    X(void, block_based_options_set_no_block_cache, void *table, unsigned char value)              \
    X(void, block_based_options_set_block_cache, void *table, void *cache)                         \
    X(void, block_based_options_set_cache_index_and_filter_blocks, void *table,                    \
      unsigned char value)                                                                         \
    X(void, block_based_options_set_filter_policy, void *table, void *policy)                      \
    X(void *, filterpolicy_create_bloom_full, double bits_per_key)                                 \
    X(void *, cache_create_lru, size_t bytes)                                                      \
    X(void, cache_destroy, void *cache)                                                            \
    X(size_t, cache_get_usage, void *cache)

#define GB_ROCKSDB_SYMBOLS(X)                                                                      \
    GB_ROCKSDB_DATABASE(X)                                                                         \
    GB_ROCKSDB_OPTIONS(X)                                                                          \
    GB_ROCKSDB_TABLE(X)

struct gb_rocksdb_api {
    void *library; /* of dlopen */
#define GB_X(result, name, ...) result (*(name))(__VA_ARGS__);
    GB_ROCKSDB_SYMBOLS(GB_X)
#undef GB_X
};

/* Loads the library at `path`, or with NULL the first of librocksdb.so.7.8 and librocksdb.so that
 * the dynamic linker finds.
 * Returns 0, or -ENOENT (no library) or -ENOSYS (one that lacks a symbol), explained in `error`. */
int gb_rocksdb_api_open(struct gb_rocksdb_api *api, const char *path, struct goblin_error *error);
void gb_rocksdb_api_close(struct gb_rocksdb_api *api);

/* The file that was loaded, links resolved, for the metadata; "" if unknown. */
void gb_rocksdb_api_file(const struct gb_rocksdb_api *api, char *path, size_t path_len);

#endif
