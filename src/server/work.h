/*
 * Threads for whatever may block: puts that must wait for a device, durable ones, streams, sync and
 * clear, walks over the store.
 *
 * A job is embedded in what it is about. `run` is called on a worker, then `done` on the loop that
 * asked, never before gb_work_submit has returned. Threads are started as jobs come and find none
 * idle, up to a limit: group commit wants many waiters at once. Jobs start in the order they came.
 * No job may wait for another one.
 */
#ifndef GB_SERVER_WORK_H
#define GB_SERVER_WORK_H

#include <stdint.h>

#include "server/loop.h"

struct gb_work;

struct gb_job {
    struct gb_post post; /* the way back; next in the line of jobs until then */
    struct gb_loop *loop;
    void (*run)(struct gb_job *job);
    void (*done)(struct gb_job *job);
};

struct gb_work_counts {
    unsigned threads;
    unsigned idle;
    unsigned waiting; /* jobs that no thread has taken yet */
    uint64_t done;
};

/* Errors: -ENOMEM, -EAGAIN (not even one thread). */
int gb_work_create(struct gb_work **out, unsigned most_threads);

/* Waits for all jobs to have run, and joins the threads. Loops must still take posts, or have no
 * job under way. NULL is fine. */
void gb_work_destroy(struct gb_work *work);

/* Owns: the job is the pool's until `done`. Never fails: a thread that cannot be started leaves the
 * job to those there are. Threads: that of `loop`. */
void gb_work_submit(struct gb_work *work, struct gb_loop *loop, struct gb_job *job);

/* Threads: any. */
struct gb_work_counts gb_work_counts(struct gb_work *work);

#endif
