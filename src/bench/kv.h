/*
 * goblin-bench kv: small values and ordered keys, step by step as in the benchmarks of RocksDB
 * releases that Mark Callaghan publishes, on several engines in turns.
 *
 *     kv_options.c  the command line
 *     kv.c          the order of events: for each workload, each step on every engine
 *     kv_run.c      one step of one engine, in a process of its own; kv_thread.c its threads
 *     kv_step.c     the steps; kv_values.c keys and values
 *     kv_engine.c   the engines, each in a file of its name
 *     kv_report.c   the JSON and the table
 */
#ifndef GB_BENCH_KV_H
#define GB_BENCH_KV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/kv_engine.h"
#include "bench/kv_step.h"
#include "goblin/error.h"

enum {
    GB_KV_COLUMNS_MAX = 16,
    GB_KV_STEPS_MAX = 32,
    GB_KV_LIBRARIES_MAX = 8,
};

enum gb_kv_workload {
    GB_KV_BYRX,  /* memory for all, through the engine's own cache */
    GB_KV_IOBUF, /* memory for a part, the page cache with it */
    GB_KV_IODIR, /* memory for a part, direct I/O */
    GB_KV_WORKLOADS,
};

extern const char *const gb_kv_workload_names[GB_KV_WORKLOADS];

/* A build of a library, as --rocksdb-lib names it. */
struct gb_kv_library {
    char label[32]; /* "" if it has none */
    const char *path;
};

struct gb_kv_options {
    const struct gb_kv_ops *engines[GB_KV_COLUMNS_MAX];
    size_t engine_count;
    enum gb_kv_workload workloads[GB_KV_WORKLOADS];
    size_t workload_count;
    const struct gb_kv_step *steps[GB_KV_STEPS_MAX];
    size_t step_count;
    struct gb_kv_library rocksdb_libs[GB_KV_LIBRARIES_MAX];
    size_t rocksdb_lib_count;
    struct gb_kv_library leveldb_lib; /* path NULL: the one found by default */
    struct gb_kv_library lmdb_lib;
    const char *dir;
    const char *json;
    uint64_t keys;
    uint64_t key_bytes;
    uint64_t value_bytes;
    double compression_ratio;
    double duration_s;
    double warm_s;
    double settle_s;
    uint64_t repeat;
    uint64_t threads;
    uint64_t range;
    uint64_t batch;
    uint64_t write_rate;
    uint64_t memory_bytes;    /* for byrx; 0: 1.5 times all keys and values */
    uint64_t io_memory_bytes; /* for the others; 0: 0.4 times */
    double zipf;
    double size_factor;
    uint64_t block_bytes;
    uint64_t memtable_bytes;
    uint64_t file_bytes;
    uint64_t level_bytes;
    uint64_t background_jobs;
    double bloom_bits;
    uint64_t seed;
    bool keep;
};

/* Returns 0, 1 when help was printed, or -EINVAL with the flag, the limit and the remedy. */
int gb_kv_options_parse(struct gb_kv_options *options, int argc, char **argv,
                        struct goblin_error *error);

uint64_t gb_kv_options_memory(const struct gb_kv_options *options, enum gb_kv_workload workload);

/* ---- what was measured --------------------------------------------------------------------- */

struct gb_kv_row {
    const char *engine;
    char version[64]; /* with the label of its build */
    enum gb_kv_workload workload;
    char step[32]; /* "revrangeww#2" when it is done for the second time */
    uint64_t put_bytes;
    uint64_t memory_bytes;
    uint64_t page_cache_bytes; /* that, with the engine, it was held to; 0: to none */
    struct gb_kv_result result;
};

/* Bytes or versions that were not what they must be, or entries lost? */
bool gb_kv_row_is_void(const struct gb_kv_row *row);

/* An array of one object a row. */
int gb_kv_report_json(const struct gb_kv_row *rows, size_t count, const char *path,
                      struct goblin_error *error);

/* For people at a terminal: a table for each workload. */
void gb_kv_report_print(const struct gb_kv_row *rows, size_t count, FILE *out);

/* The command; argv[0] is "kv". Returns an exit code. */
int gb_cmd_kv(int argc, char **argv);

#endif
