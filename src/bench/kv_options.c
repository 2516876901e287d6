/* The command line of `goblin-bench kv`. */
#include "bench/kv.h"

#include "bench/explain.h"
#include "bench/flags.h"

#include <errno.h>
#include <string.h>

const char *const gb_kv_workload_names[GB_KV_WORKLOADS] = {"byrx", "iobuf", "iodir"};

static const double byrx_memory_factor = 1.5;
static const double io_memory_factor = 0.4;

enum { LEAST_MEMORY_BYTES = 8 << 20 };

/* ---- lists --------------------------------------------------------------------------------- */

/* Calls `take` with every name of a list "a,b,...", until one is refused. */
static int take_names(struct gb_kv_options *options, const char *text,
                      int (*take)(struct gb_kv_options *, const char *, size_t,
                                  struct goblin_error *),
                      struct goblin_error *error)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        int rc = take(options, text, len, error);
        if (rc < 0 || text[len] == '\0') {
            return rc;
        }
        text += len + 1;
    }
}

static int refuse(const char *what, const char *name, size_t len, const char *known,
                  struct goblin_error *error)
{
    gb_explain_set(error, "\"%.*s\" is no %s: give some of %s", (int)len, name, what, known);
    return -EINVAL;
}

static void add_name(char *list, size_t list_len, const char *name)
{
    strncat(list, list[0] ? ", " : "", list_len - strlen(list) - 1);
    strncat(list, name, list_len - strlen(list) - 1);
}

static int take_engine(struct gb_kv_options *options, const char *name, size_t len,
                       struct goblin_error *error)
{
    const struct gb_kv_ops *ops = gb_kv_find(name, len);
    char known[256] = "";
    for (size_t i = 0; gb_kv_table[i]; i++) {
        add_name(known, sizeof(known), gb_kv_table[i]->name);
    }
    if (!ops) {
        return refuse("engine", name, len, known, error);
    }
    for (size_t i = 0; i < options->engine_count; i++) {
        if (options->engines[i] == ops) {
            return 0;
        }
    }
    options->engines[options->engine_count++] = ops; /* the table is shorter than the list */
    return 0;
}

static int take_workload(struct gb_kv_options *options, const char *name, size_t len,
                         struct goblin_error *error)
{
    for (size_t i = 0; i < GB_KV_WORKLOADS; i++) {
        const char *known = gb_kv_workload_names[i];
        if (strlen(known) == len && memcmp(known, name, len) == 0) {
            for (size_t k = 0; k < options->workload_count; k++) {
                if (options->workloads[k] == i) {
                    return 0;
                }
            }
            options->workloads[options->workload_count++] = (enum gb_kv_workload)i;
            return 0;
        }
    }
    return refuse("workload", name, len, "byrx, iobuf, iodir", error);
}

static int take_step(struct gb_kv_options *options, const char *name, size_t len,
                     struct goblin_error *error)
{
    const struct gb_kv_step *step = gb_kv_step_find(name, len);
    if (!step) {
        char known[256] = "";
        for (step = gb_kv_steps; step->name; step++) {
            add_name(known, sizeof(known), step->name);
        }
        return refuse("step", name, len, known, error);
    }
    if (options->step_count == GB_KV_STEPS_MAX) {
        gb_explain_set(error, "more than %d steps", GB_KV_STEPS_MAX);
        return -EINVAL;
    }
    options->steps[options->step_count++] = step;
    return 0;
}

static int take_engines(void *target, const char *text, struct goblin_error *error)
{
    struct gb_kv_options *options = target;
    options->engine_count = 0;
    return take_names(options, text, take_engine, error);
}

static int take_workloads(void *target, const char *text, struct goblin_error *error)
{
    struct gb_kv_options *options = target;
    options->workload_count = 0;
    return take_names(options, text, take_workload, error);
}

static int take_steps(void *target, const char *text, struct goblin_error *error)
{
    struct gb_kv_options *options = target;
    options->step_count = 0;
    return take_names(options, text, take_step, error);
}

/* PATH or LABEL=PATH. */
static int take_rocksdb_lib(void *target, const char *text, struct goblin_error *error)
{
    struct gb_kv_options *options = target;
    const char *equals = strchr(text, '=');
    const char *slash = strchr(text, '/');
    if (options->rocksdb_lib_count == GB_KV_LIBRARIES_MAX) {
        gb_explain_set(error, "more than %d builds", GB_KV_LIBRARIES_MAX);
        return -EINVAL;
    }
    struct gb_kv_library *library = &options->rocksdb_libs[options->rocksdb_lib_count];
    library->label[0] = '\0';
    library->path = text;
    if (equals && (!slash || equals < slash)) {
        size_t len = (size_t)(equals - text);
        if (len == 0 || len >= sizeof(library->label)) {
            gb_explain_set(error, "\"%s\": a label has 1 to %zu letters", text,
                           sizeof(library->label) - 1);
            return -EINVAL;
        }
        memcpy(library->label, text, len);
        library->label[len] = '\0';
        library->path = equals + 1;
    }
    if (library->path[0] == '\0') {
        gb_explain_set(error, "\"%s\" names no library", text);
        return -EINVAL;
    }
    options->rocksdb_lib_count++;
    return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

#define ROW(kind, name, field, value, help)                                                        \
    GB_FLAG_ROW(kind, name, gb_kv_options, field, value, help)
#define LIMITED(kind, name, field, least, most, value, help)                                       \
    GB_FLAG_LIMITED(kind, name, gb_kv_options, field, least, most, value, help)

static const struct gb_flag kv_flags[] = {
    ROW(TEXT, "dir", dir, "SCRATCH",
        "where the engines store; a directory is made in it and removed afterwards"),
    ROW(TEXT, "json", json, "FILE", "where the figures go, for goblin-bench relative"),
    {.name = "engines",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_engines,
     .help = "default goblin,rocksdb"},
    {.name = "workload",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_workloads,
     .help = "of byrx, iobuf and iodir; default all"},
    {.name = "steps",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_steps,
     .help = "in this order; default fillseq,overwritesome,revrangeww,fwdrangeww,readww,overwrite"},
    {.name = "rocksdb-lib",
     .kind = GB_FLAG_CUSTOM,
     .value = "[LABEL=]PATH",
     .take = take_rocksdb_lib,
     .help = "a RocksDB to load, once for each build; default librocksdb.so.7.8, or librocksdb.so"},
    ROW(TEXT, "leveldb-lib", leveldb_lib.path, "PATH",
        "the LevelDB to load; default libleveldb.so.1d"),
    ROW(TEXT, "lmdb-lib", lmdb_lib.path, "PATH", "the LMDB to load; default liblmdb.so.0"),
    LIMITED(COUNT, "keys", keys, 1000, 1e10, "N", "default 2M"),
    LIMITED(SIZE, "key-size", key_bytes, GB_KV_KEY_LEAST, GB_KV_KEY_MOST, "SIZE", "default 20"),
    LIMITED(SIZE, "value-size", value_bytes, GB_KV_VALUE_LEAST, GB_KV_VALUE_MOST, "SIZE",
            "default 400"),
    LIMITED(REAL, "compression-ratio", compression_ratio, 0.01, 1, "X",
            "what compressing leaves of values; default 0.5"),
    LIMITED(REAL, "duration", duration_s, 0.01, 1e6, "SECONDS",
            "of every step that does not end by itself; default 30"),
    LIMITED(REAL, "warmup", warm_s, 0, 1e6, "SECONDS",
            "of the same before it, not measured; default 5"),
    LIMITED(REAL, "settle", settle_s, 0, 1e6, "SECONDS",
            "to wait for background work after a step at the most; default 60"),
    LIMITED(COUNT, "repeat", repeat, 1, 100, "N", "all of it so often; default 1"),
    LIMITED(COUNT, "threads", threads, 1, 64, "N", "that do a step; default 1"),
    LIMITED(COUNT, "range", range, 1, GB_KV_BATCH_MAX, "N", "entries of a range; default 10"),
    LIMITED(COUNT, "batch", batch, 1, GB_KV_BATCH_MAX, "N", "keys of a multiread; default 10"),
    LIMITED(SIZE, "write-rate", write_rate, 1, 1e12, "SIZE",
            "of the writer beside reads, every second; default 2M"),
    LIMITED(SIZE, "memory", memory_bytes, LEAST_MEMORY_BYTES, 1e15, "SIZE",
            "of an engine in byrx; default 1.5 times all keys and values"),
    LIMITED(SIZE, "io-memory", io_memory_bytes, LEAST_MEMORY_BYTES, 1e15, "SIZE",
            "in iobuf and iodir; default 0.4 times"),
    LIMITED(REAL, "zipf", zipf, 0.01, 0.999, "X", "popularity in ycsb steps; default 0.99"),
    LIMITED(REAL, "size-factor", size_factor, 1.1, 100, "X",
            "disk of engines that bound it / all keys and values; default 1.5"),
    LIMITED(SIZE, "block-size", block_bytes, 512, 1 << 20, "SIZE", "of trees; default 8K"),
    LIMITED(SIZE, "memtable", memtable_bytes, 64 << 10, 1e12, "SIZE", "of trees; default 16M"),
    LIMITED(SIZE, "file-size", file_bytes, 64 << 10, 1e12, "SIZE", "of trees; default 16M"),
    LIMITED(SIZE, "level-size", level_bytes, 64 << 10, 1e12, "SIZE",
            "of a tree's first level below 0; default 64M"),
    LIMITED(COUNT, "background-jobs", background_jobs, 1, 64, "N", "of trees; default 3"),
    LIMITED(REAL, "bloom-bits", bloom_bits, 1, 100, "X", "a key, of trees; default 10"),
    ROW(COUNT, "seed", seed, "N", "of values and choices; default 1"),
    ROW(SWITCH, "keep", keep, NULL, "leave the scratch directory behind"),
    {.name = NULL},
};

static void kv_help(void)
{
    printf(
        "Usage: goblin-bench kv --dir SCRATCH [flags]\n\n"
        "Fills engines with small values in key order and measures ranges, gets and overwrites\n"
        "in steps, each step on every engine before the next, every time in a process of its\n"
        "own with the same memory. Every byte of every answer is compared, and in the end every\n"
        "entry. Defaults are those of Mark Callaghan's scripts for RocksDB's db_bench.\n\n"
        "Flags:\n");
    gb_flags_help(kv_flags, stdout);
    printf("\nEngines:\n");
    for (size_t i = 0; gb_kv_table[i]; i++) {
        printf("  %-14s %s\n", gb_kv_table[i]->name, gb_kv_table[i]->describe);
    }
    printf("\nSteps:\n");
    for (const struct gb_kv_step *step = gb_kv_steps; step->name; step++) {
        printf("  %-14s %s\n", step->name, step->help);
    }
    printf("\nExit codes: 0 done, 1 failed or bytes were wrong, 2 usage.\n");
}

static int kv_check(const struct gb_kv_options *options, struct goblin_error *error)
{
    const char *text = NULL;
    if (!options->dir) {
        text = "--dir is missing: name a directory on the drive to measure";
    } else if (options->steps[0]->kind != GB_KV_FILL) {
        text = "--steps: the first one must fill the engines: fillseq or fillrandom";
    } else if (options->threads > options->keys) {
        text = "--threads: there are fewer --keys";
    }
    if (text) {
        gb_explain_set(error, "%s", text);
    }
    return text ? -EINVAL : 0;
}

int gb_kv_options_parse(struct gb_kv_options *options, int argc, char **argv,
                        struct goblin_error *error)
{
    *options = (struct gb_kv_options){
        .keys = 2000000,
        .key_bytes = 20,
        .value_bytes = 400,
        .compression_ratio = 0.5,
        .duration_s = 30,
        .warm_s = 5,
        .settle_s = 60,
        .repeat = 1,
        .threads = 1,
        .range = 10,
        .batch = 10,
        .write_rate = 2 << 20,
        .zipf = 0.99,
        .size_factor = 1.5,
        .block_bytes = 8 << 10,
        .memtable_bytes = 16 << 20,
        .file_bytes = 16 << 20,
        .level_bytes = 64 << 20,
        .background_jobs = 3,
        .bloom_bits = 10,
        .seed = 1,
    };
    int rc = take_engines(options, "goblin,rocksdb", error);
    rc = rc < 0 ? rc : take_workloads(options, "byrx,iobuf,iodir", error);
    rc = rc < 0 ? rc
                : take_steps(options,
                             "fillseq,overwritesome,revrangeww,fwdrangeww,readww,overwrite", error);
    rc = rc < 0 ? rc : gb_flags_parse(kv_flags, options, argc, argv, error);
    if (rc == 1) {
        kv_help();
        return 1;
    }
    return rc < 0 ? rc : kv_check(options, error);
}

uint64_t gb_kv_options_memory(const struct gb_kv_options *options, enum gb_kv_workload workload)
{
    double bytes = (double)options->keys * (double)(options->key_bytes + options->value_bytes);
    double factor = workload == GB_KV_BYRX ? byrx_memory_factor : io_memory_factor;
    uint64_t given = workload == GB_KV_BYRX ? options->memory_bytes : options->io_memory_bytes;
    uint64_t own = (uint64_t)(bytes * factor);
    own = own < LEAST_MEMORY_BYTES ? (uint64_t)LEAST_MEMORY_BYTES : own;
    return given ? given : own;
}
