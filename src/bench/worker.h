/*
 * A worker: one engine in a process of its own, so that its memory is its own.
 *
 * The bench forks all workers while it still has one thread, then gives each its orders over a
 * socket pair and reads one reply to each. Requests are recorded in memory that all workers share
 * with the bench (one replays at a time), every page of it touched beforehand: what a worker's
 * resident size gains after it reported ready is the engine's.
 *
 *     worker.c           both sides of the socket
 *     worker_populate.c  fills an engine
 *     worker_replay.c    the study's requests, and checks
 *     worker_churn.c     reads beside overwrites (churn_store.h)
 */
#ifndef GB_BENCH_WORKER_H
#define GB_BENCH_WORKER_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/content.h"
#include "bench/corpus.h"
#include "bench/engine.h"
#include "bench/link.h"
#include "goblin/error.h"

/* ---- memory shared with the bench ---------------------------------------------------------- */

struct gb_worker_record {
    uint64_t first_ns; /* since the request's start */
    uint64_t last_ns;  /* the last chunk's callback; of a miss, the answer */
    uint64_t bytes;    /* handed over */
    uint32_t chunk_count;
    uint8_t answer; /* enum gb_engine_answer */
    uint8_t is_bad; /* the bytes looked at, or their number, were not the object's */
};

struct gb_churn_store;

struct gb_worker_shared {
    _Atomic uint64_t done_bytes; /* of the order being carried out; relaxed, for progress only */
    uint64_t mapped_bytes;
    uint64_t record_capacity;
    uint64_t chunk_capacity;
    struct gb_worker_record *records;
    struct gb_chunk *chunks; /* of all records, one after the other */
};

/* For slices of up to `requests` requests and `bytes` bytes. Owns: NULL is a fault (errno);
 * gb_worker_shared_destroy. */
struct gb_worker_shared *gb_worker_shared_create(uint64_t requests, uint64_t bytes);
void gb_worker_shared_destroy(struct gb_worker_shared *shared);

/* ---- orders and replies -------------------------------------------------------------------- */

enum gb_worker_verb {
    GB_WORKER_POPULATE, /* open, put everything, barrier, close */
    GB_WORKER_REOPEN,   /* open, one get, wait until it is warm */
    GB_WORKER_PROBE,    /* `count` reads of tails of `first` bytes */
    GB_WORKER_REPLAY,   /* requests [first, first + count) of the schedule */
    GB_WORKER_VERIFY,   /* every byte of every object */
    GB_WORKER_AGE,      /* overwrite `count` bytes, flat out */
    GB_WORKER_PHASE,    /* a stretch of `count` seconds of enum gb_churn_phase `first` */
    GB_WORKER_SETTLE,   /* barrier, and wait until nothing more is written */
    GB_WORKER_INSPECT,  /* every byte of every object, in the version that must be there */
    GB_WORKER_END,      /* close; the process ends after its reply */
};

struct gb_worker_order {
    enum gb_worker_verb verb;
    uint64_t first;
    uint64_t count;
};

/* What does not belong to the order's verb is zero. */
struct gb_worker_reply {
    int result; /* 0 or a fault, explained in `error` */
    struct goblin_error error;
    double seconds;         /* POPULATE: barrier and close included; REOPEN: first get included */
    double barrier_seconds; /* POPULATE */
    double warm_seconds;    /* REOPEN */
    double probe_us;        /* PROBE */
    uint64_t harness_bytes; /* resident, not the engine's */
    uint64_t peak_bytes;    /* resident at the most and the engine's, since populate or reopen */
    uint64_t verified_bytes;
    uint64_t verify_failures;
    struct gb_engine_stats device; /* gained by this order, checks not counted */
};

/* ---- the bench's side ---------------------------------------------------------------------- */

struct gb_worker {
    const struct gb_engine_ops *ops;
    struct gb_engine_config config;
    char dir[PATH_MAX];
    const struct gb_schedule *schedule;
    const struct gb_content *content;
    struct gb_worker_shared *shared;
    struct gb_churn_store *churn; /* of this worker alone; NULL: it replays a schedule */
    uint64_t verify_every;        /* 0: never */
    pid_t pid;
    int fd;
};

/* Forks. All fields but pid and fd are set. The worker ignores SIGINT and dies with its parent.
 * Threads: before any other is started. */
int gb_worker_start(struct gb_worker *worker, struct goblin_error *error);

/* Sends an order; gb_worker_receive waits for its reply up to timeout_ms and returns 1 with it, 0
 * without one yet, or a fault: the worker's own, or its death, explained. */
int gb_worker_send(struct gb_worker *worker, const struct gb_worker_order *order,
                   struct goblin_error *error);
int gb_worker_receive(struct gb_worker *worker, int timeout_ms, struct gb_worker_reply *reply,
                      struct goblin_error *error);

/* Ends the process, by force if need be, and waits for it. Harmless if it never started. */
void gb_worker_stop(struct gb_worker *worker);

/* ---- the process's side -------------------------------------------------------------------- */

struct gb_worker_state {
    const struct gb_worker *worker;
    void *engine;                      /* NULL while closed */
    struct gb_content_window *windows; /* one for each populating thread; [0] stays for checks */
    unsigned window_count;
    uint64_t harness_bytes;
};

/* Carry out an order; `reply` comes zeroed. Return what goes into reply->result. */
int gb_worker_populate(struct gb_worker_state *state, struct gb_worker_reply *reply);
int gb_worker_replay(struct gb_worker_state *state, const struct gb_worker_order *order,
                     struct gb_worker_reply *reply);
int gb_worker_verify(struct gb_worker_state *state, struct gb_worker_reply *reply);

/* Of a worker with `churn`, whose counts are fresh after each of these. */
int gb_worker_age(struct gb_worker_state *state, const struct gb_worker_order *order,
                  struct gb_worker_reply *reply);
int gb_worker_phase(struct gb_worker_state *state, const struct gb_worker_order *order,
                    struct gb_worker_reply *reply);
int gb_worker_settle(struct gb_worker_state *state, struct gb_worker_reply *reply);
int gb_worker_inspect(struct gb_worker_state *state, struct gb_worker_reply *reply);

/* One get with every byte checked, not counted as an access; adds to the reply's figures.
 * Returns the engine's answer or fault. */
int gb_worker_check(struct gb_worker_state *state, uint64_t object, struct gb_worker_reply *reply);

/* The engine's device figures, or the kernel's where it has none. */
void gb_worker_device(const struct gb_worker_state *state, struct gb_engine_stats *stats);

/* Replaces `from` by what was gained between it and now. */
void gb_worker_gained(const struct gb_worker_state *state, struct gb_engine_stats *from);

#endif
