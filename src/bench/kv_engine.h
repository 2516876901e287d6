/*
 * What `goblin-bench kv` asks of a key-value engine: put, get, several gets at once, ranges in
 * either direction, and a moment after which nothing more is written.
 *
 * An engine is opened for one step by a process of its own. Reading threads have a session each;
 * puts go to the engine, from any thread. Every call returns 0 or positive for an answer and a
 * negative errno (or the engine's own negative code) for a fault, which set-up calls explain.
 */
#ifndef GB_BENCH_KV_ENGINE_H
#define GB_BENCH_KV_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

enum { GB_KV_BATCH_MAX = 128 }; /* entries of a range, keys of a multi-get */

struct gb_kv_bytes {
    const void *data;
    size_t len;
};

struct gb_kv_config {
    const char *dir;     /* of this engine alone; exists */
    const char *library; /* NULL: found by the dynamic linker */
    bool create;         /* `dir` is empty */
    bool loading;        /* in key order, by one thread, and nothing else */
    bool direct;         /* direct I/O; else through the page cache */
    bool compress;
    uint64_t memory_bytes; /* for caches and all else that the engine can bound */
    uint64_t keys_most;    /* that there may ever be */
    uint64_t key_bytes;
    uint64_t value_bytes;
    unsigned threads;     /* that will read */
    double size_factor;   /* the disk a bounded store may take / keys_most keys and values */
    uint64_t block_bytes; /* the rest is for log-structured merge trees */
    uint64_t memtable_bytes;
    uint64_t file_bytes;
    uint64_t level_bytes; /* of the first level below 0 */
    uint64_t background_jobs;
    double bloom_bits;
};

/* Both are gone when the callback returns. */
typedef void (*gb_kv_entry_fn)(void *arg, struct gb_kv_bytes key, struct gb_kv_bytes value);

struct gb_kv_range {
    struct gb_kv_bytes from; /* the first key at or after it or, in reverse, at or before it */
    unsigned count;          /* of entries at the most, up to GB_KV_BATCH_MAX */
    bool reverse;
};

struct gb_kv_ops {
    const char *name;
    const char *describe;
    bool direct; /* can do direct I/O */

    /* Owns: *engine is the caller's until close. */
    int (*open)(void **engine, const struct gb_kv_config *config, struct goblin_error *error);
    int (*close)(void *engine);

    /* What one reading thread needs. NULL: the engine itself is the session. */
    int (*attach)(void *engine, void **session);
    void (*detach)(void *session);

    int (*put)(void *engine, struct gb_kv_bytes key, struct gb_kv_bytes value);

    /* 1, or 0 for a miss. */
    int (*get)(void *session, struct gb_kv_bytes key, gb_kv_entry_fn entry, void *arg);

    /* The entries that are there, in the order of `keys`; how many. NULL: there is no such call and
     * gets one after the other take its place. */
    int (*multiget)(void *session, const struct gb_kv_bytes *keys, unsigned count,
                    gb_kv_entry_fn entry, void *arg);

    /* The entries of a range in its order; how many. */
    int (*scan)(void *session, const struct gb_kv_range *range, gb_kv_entry_fn entry, void *arg);

    /* Begins, and where the engine can tell waits for, all that is still to be written, at most
     * until a moment of CLOCK_MONOTONIC. NULL: it has no such call. */
    int (*settle)(void *engine, uint64_t until_ns, struct goblin_error *error);

    /* "7.8.3"; "?" where it does not say. */
    void (*version)(void *engine, char *text, size_t text_len);
};

/* All engines, ended by NULL; the order is that of --help. */
extern const struct gb_kv_ops *const gb_kv_table[];

/* NULL if there is none of that name. */
const struct gb_kv_ops *gb_kv_find(const char *name, size_t len);

extern const struct gb_kv_ops gb_kv_goblin;
extern const struct gb_kv_ops gb_kv_rocksdb;
extern const struct gb_kv_ops gb_kv_leveldb;
extern const struct gb_kv_ops gb_kv_lmdb;

#endif
