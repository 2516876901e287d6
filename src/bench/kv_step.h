/*
 * The steps of `goblin-bench kv`, and what one of them gives.
 *
 * The engine's process and the bench share one mapping for each engine: which numbers exist, which
 * version of each may be seen, and the result of the step being done. A get must return a version
 * no older than the last put that had returned before it began, and no newer than the last one
 * begun before it ended.
 */
#ifndef GB_BENCH_KV_STEP_H
#define GB_BENCH_KV_STEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/churn_store.h"
#include "bench/churn_tally.h"
#include "bench/kv_engine.h"
#include "bench/kv_values.h"
#include "goblin/error.h"

enum gb_kv_kind {
    GB_KV_FILL,  /* an empty engine, every number once */
    GB_KV_SOME,  /* overwrites of random numbers, so many of them */
    GB_KV_WRITE, /* the same, for a while */
    GB_KV_READ,
    GB_KV_MULTI,
    GB_KV_RANGE,
    GB_KV_MIX,
    GB_KV_CHECK, /* the bench's own, not measured: every entry there is, in order */
};

/* Shares of 100. What is not named here reads. */
struct gb_kv_mix {
    unsigned update;
    unsigned insert;
    unsigned scan;
    unsigned modify; /* read, then update */
    bool latest;     /* the newest are the most popular */
};

struct gb_kv_step {
    const char *name;
    const char *help;
    enum gb_kv_kind kind;
    bool scattered; /* of a fill: in random order */
    bool reverse;   /* of ranges */
    bool writer;    /* a rate-limited one beside it */
    struct gb_kv_mix mix;
};

/* All steps a user may name, ended by a NULL name. */
extern const struct gb_kv_step gb_kv_steps[];
extern const struct gb_kv_step gb_kv_step_check;

/* NULL if there is none of that name. */
const struct gb_kv_step *gb_kv_step_find(const char *name, size_t len);

struct gb_kv_result {
    int code; /* 0 or a fault, explained in `error` */
    struct goblin_error error;
    char version[32];
    double seconds; /* measured */
    uint64_t ops;
    uint64_t entries; /* that they read */
    uint64_t puts;    /* the writer's included */
    double p50_us;
    double p99_us;
    double p999_us;
    double max_us;
    double gap_ms; /* the longest time that a thread went without completing an operation */
    double cpu_s;
    uint64_t write_bytes; /* by the process, from the first operation until all was settled */
    uint64_t disk_bytes;  /* files, when all was settled */
    uint64_t live_bytes;  /* keys and values that exist */
    double settle_s;
    bool unsettled;
    uint64_t wrong;  /* bytes or entries that were not what they must be */
    uint64_t stale;  /* versions that must not be seen */
    uint64_t missed; /* entries that were not found */
};

/* Written by the engine's process, but for capacity; the bench looks when that has ended. */
struct gb_kv_shared {
    uint64_t mapped_bytes;
    uint64_t capacity;     /* of versions */
    _Atomic uint64_t keys; /* numbers [0, keys) exist; release by who puts, acquire by who reads */
    struct gb_kv_result result;
    struct gb_churn_versions versions[];
};

/* Owns: NULL is a fault (errno); gb_kv_shared_destroy. */
struct gb_kv_shared *gb_kv_shared_create(uint64_t capacity);
void gb_kv_shared_destroy(struct gb_kv_shared *shared);

struct gb_kv_task {
    const struct gb_kv_step *step;
    const struct gb_kv_ops *ops;
    const struct gb_kv_values *values;
    struct gb_kv_shared *shared;
    struct gb_kv_config config;
    const char *cgroup;  /* to join; NULL: none */
    uint64_t keys;       /* to fill */
    double seconds;      /* of a timed step */
    double warm_s;       /* of the same beforehand, unmeasured */
    bool fill_cache;     /* read every entry beforehand */
    unsigned range;      /* entries */
    unsigned batch;      /* keys of a multi-get */
    uint64_t write_rate; /* bytes a second of the writer */
    double settle_s;     /* to wait for background work at the most */
    double zipf;         /* of mixes */
    uint64_t seed;
};

/* Carries a task out in this process, which ends afterwards; the answer is in shared->result. */
void gb_kv_task_run(const struct gb_kv_task *given);

#endif
