/*
 * What the study asks of a storage engine: open, put from several threads, a barrier after which
 * everything is restartable, close, reopen, get in ordered chunks from one thread.
 *
 * An engine lives in a worker process of its own, so that its memory is its own. The table says
 * what each one is; all get the same memory budget. Every call returns 0 or positive for an
 * answer and a negative errno (or the engine's own negative code) for a fault, which set-up calls
 * explain in `error`.
 */
#ifndef GB_BENCH_ENGINE_H
#define GB_BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

struct gb_engine_config {
    const char *dir;         /* scratch directory of this engine alone; exists, empty at first */
    const char *rocksdb_lib; /* NULL: found by the dynamic linker */
    uint64_t memory_bytes;   /* the budget */
    uint64_t objects;
    uint64_t bytes;             /* of all values */
    double scale;               /* of the study's memtables */
    uint64_t disk_bytes;        /* that the store may take; 0: as much as its values need */
    bool keeps_all;             /* nothing live is dropped when the disk is full */
    unsigned workers;           /* threads that will put */
    uint64_t floor_bytes;       /* head that adaptive residency keeps; 0: libgoblin's own */
    uint64_t first_chunk_bytes; /* of a tail; 0: libgoblin's own */
    uint64_t (*size_of)(void *arg, uint64_t number); /* of an object; for the controls */
    void *size_arg;
};

enum gb_engine_phase {
    GB_ENGINE_POPULATE, /* into an empty directory, with puts */
    GB_ENGINE_REPLAY,   /* of what was populated, with gets */
    GB_ENGINE_CHURN,    /* of what was populated, with gets and, from another thread, puts */
};

/* `number` counts the objects of the corpus from 0; the engines that only measure the harness or
 * the device find their way by it. */
struct gb_engine_key {
    const void *data;
    size_t len;
    uint64_t number;
};

/* A value as the harness makes it. A window stays valid until the next one of the same value. */
struct gb_engine_value {
    uint64_t size;
    const void *(*window)(void *arg, uint64_t offset, size_t len); /* NULL: out of memory */
    void *arg;
};

/* Bytes in order. `data` NULL means that the engine keeps no bytes and there is nothing to
 * verify. They are gone when the callback returns. */
typedef void (*gb_engine_chunk_fn)(void *arg, const void *data, size_t len);

struct gb_engine_get {
    const struct gb_engine_key *key;
    gb_engine_chunk_fn chunk;
    void *arg;
    bool quiet; /* a check of the bench's own, not to count as an access or to fill a cache */
};

enum gb_engine_answer {
    GB_ENGINE_MISS = 0,
    GB_ENGINE_RAM = 1, /* no byte came from the device */
    GB_ENGINE_DISK = 2,
};

/* What the engine itself knows; the worker adds what the kernel says about the process. */
struct gb_engine_stats {
    bool known; /* the device figures below; else the kernel's are taken */
    uint64_t device_reads;
    uint64_t device_read_bytes;
    uint64_t device_writes;
    uint64_t device_write_bytes;
    uint64_t bench_reads; /* read calls that only the bench's own questions made */
    uint64_t promotions;
    uint64_t arena_moved_bytes;
    uint64_t memory_used_bytes; /* by the engine's own count; 0: it has none */
    /* What the engine itself says, even where `known` is false; 0: it does not. */
    uint64_t counted_user_bytes;  /* keys and values put, since open */
    uint64_t counted_write_bytes; /* to the device, since open */
    uint64_t live_bytes;          /* keys and values that a get would find */
    uint64_t disk_used_bytes;     /* for them, dead data included */
    uint64_t disk_file_bytes;     /* in files, what is made ahead included */
};

struct gb_engine_ops {
    const char *name;
    const char *describe;
    bool keeps_bytes;   /* false for the controls, whose answers cannot be verified */
    double disk_factor; /* disk needed at the most, as a multiple of the values' bytes */

    /* Owns: *engine is the caller's until close. */
    int (*open)(void **engine, const struct gb_engine_config *config, enum gb_engine_phase phase,
                struct goblin_error *error);

    /* Threads: `workers` at once, each with its own number from 0. */
    int (*put)(void *engine, unsigned worker, const struct gb_engine_key *key,
               const struct gb_engine_value *value);

    /* Returns when everything put is on the device and no background work is left. */
    int (*barrier)(void *engine, struct goblin_error *error);

    /* Waits until a reopened engine has its resident bytes back. NULL: it has none to wait for. */
    int (*warm)(void *engine);

    /* Delivers the value and returns an enum gb_engine_answer. Threads: one. */
    int (*get)(void *engine, const struct gb_engine_get *get);

    /* The mean time of `count` reads of tails of so many bytes, as get would read them, from
     * places that follow from `seed`. NULL: only the control can. Units: microseconds. */
    int (*probe)(void *engine, uint64_t bytes, unsigned count, uint64_t seed, double *mean_us);

    void (*stats)(void *engine, struct gb_engine_stats *stats);
    int (*close)(void *engine);
};

/* All engines, ended by NULL; the order is that of the reports. */
extern const struct gb_engine_ops *const gb_engine_table[];

enum { GB_ENGINES_MAX = 16 }; /* more than the table has */

/* NULL if there is none of that name. */
const struct gb_engine_ops *gb_engine_find(const char *name, size_t len);

/* Adds engines named "a,b,..." to a list of room for GB_ENGINES_MAX, each once. Errors: -EINVAL
 * with the names that there are. */
int gb_engine_list(const struct gb_engine_ops **engines, size_t *count, const char *names,
                   struct goblin_error *error);

/* What a bench like the study gives to heads and chunks, for every engine that has them. */
enum {
    GB_ENGINE_HEAD_BYTES = 16 << 10,
    GB_ENGINE_FIRST_CHUNK_BYTES = 64 << 10,
    GB_ENGINE_CHUNK_BYTES = 256 << 10,
    GB_ENGINE_DEPTH = 4,
    GB_ENGINE_PIECE_BYTES = 1 << 20, /* of a value too large to be put at once */
};

extern const struct gb_engine_ops gb_engine_null;
extern const struct gb_engine_ops gb_engine_control;
extern const struct gb_engine_ops gb_engine_goblin_fixed;
extern const struct gb_engine_ops gb_engine_goblin;
extern const struct gb_engine_ops gb_engine_rocksdb;
extern const struct gb_engine_ops gb_engine_rocksdb_blob;
extern const struct gb_engine_ops gb_engine_rocksdb_cached;
extern const struct gb_engine_ops gb_engine_rocksdb_blob_cached;

#endif
