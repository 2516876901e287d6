/*
 * One thread of a step: makes an operation after the other, checks every answer and counts.
 */
#ifndef GB_BENCH_KV_THREAD_H
#define GB_BENCH_KV_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/rng.h"
#include "bench/churn_tally.h"
#include "bench/kv_step.h"

/* Shared by the threads of a task. */
struct gb_kv_run {
    const struct gb_kv_task *task;
    void *engine;
    unsigned writers;          /* threads that overwrite, each its own numbers */
    struct gb_kv_zipf zipf;    /* of a mix */
    pthread_mutex_t inserting; /* one at a time, so that numbers appear in order */
};

/* Belongs to its thread until that has ended. */
struct gb_kv_thread {
    struct gb_kv_run *run;
    unsigned number;
    void *session;
    struct gb_rng rng;
    unsigned char *value; /* [value_bytes] */
    unsigned char *keys;  /* [GB_KV_BATCH_MAX] of a multi-get */
    uint64_t until_ns;    /* when to stop; 0: after `count` operations */
    uint64_t count;
    uint64_t write_rate; /* this thread only writes, so many bytes a second; 0: it does the step */
    struct gb_churn_tally tally;
    uint64_t entries;
    uint64_t puts;
    uint64_t wrong;
    uint64_t stale;
    uint64_t missed;
    int rc;
};

/* Owns: gb_kv_thread_destroy. A writer needs no session. NULL is a fault, in *rc. */
struct gb_kv_thread *gb_kv_thread_create(struct gb_kv_run *run, unsigned number, bool is_writer,
                                         int *rc);
void gb_kv_thread_destroy(struct gb_kv_thread *thread);

/* For pthread_create: operations until `until_ns` or so many, faults in `rc`. */
void *gb_kv_thread_run(void *arg);

/* Every entry, in order; what is not right is counted. */
int gb_kv_thread_check(struct gb_kv_thread *thread);

#endif
