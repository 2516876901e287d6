/*
 * The load generator: connections over threads, each thread an epoll loop of its own, against a
 * memcached or HTTP server.
 *
 * Closed loop (no rate): every connection keeps `depth` requests in flight. Open loop: requests are
 * due at a fixed rate whether the server keeps up or not. One that finds every connection full
 * waits, and its time begins when it was due, not when it was sent: a server that stalls is charged
 * for every request that it held up (coordinated omission). The time from sending is kept beside
 * it.
 *
 * Values are windows of a pool of random bytes with stamps of their object, so that an answer can
 * be told from any other. While the clock runs only the ends of every piece received are kept, and
 * they are compared when the reply's time has been taken; `whole` compares every byte.
 *
 *     net_load.c  threads and their loops
 *     net_conn.c  one connection: requests out, replies in
 */
#ifndef GB_BENCH_NET_LOAD_H
#define GB_BENCH_NET_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/corpus.h"
#include "bench/histogram.h"
#include "bench/net_reply.h"
#include "bench/payload.h"
#include "goblin/error.h"

/* What is stored and asked for: sizes and keys, the order of requests, and values. */
struct gb_net_set {
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct gb_payload payload;
};

enum {
    GB_NET_THREADS_MAX = 64,
    GB_NET_DEPTH_MAX = 1024,
    GB_NET_KEYS_MAX = 64,
};

struct gb_net_load {
    const struct gb_net_set *set;
    enum gb_net_protocol protocol;
    const char *host; /* an IPv4 address; NULL: 127.0.0.1 */
    uint16_t port;
    unsigned threads;
    unsigned connections; /* of all threads; at least one each */
    unsigned depth;       /* requests in flight per connection */
    unsigned keys;        /* of one get; 0: 1. Above 1 for memcached only */
    double set_share;     /* of requests; 1: nothing but sets */
    uint64_t rate_per_s;  /* 0: closed loop */
    bool in_turn;         /* every object once, in order, instead of the schedule's next */
    bool whole;           /* compare every byte received */
    bool refills;      /* what a get of one key misses is set again, as who has it elsewhere does */
    uint64_t first;    /* where in the schedule to begin (it is a ring) */
    uint64_t requests; /* at most; 0: no bound but time. in_turn: all objects */
    uint64_t warm_ms;  /* not counted */
    uint64_t duration_ms; /* counted; 0: no bound but `requests` */
    uint64_t seed;
    int first_core; /* thread i stays on core first_core + i; -1: anywhere */
    /* Called by the caller's thread when counting begins (true) and when it has ended. */
    void (*mark)(void *arg, bool begins);
    void *mark_arg;
};

/* 230 KiB. Times in nanoseconds, from when a request was due. */
struct gb_net_tally {
    uint64_t requests; /* answered */
    uint64_t asked;    /* keys */
    uint64_t hits;
    uint64_t misses;
    uint64_t sets;
    uint64_t stored;
    uint64_t refilled;   /* values that were missed and stored again; in no other count */
    uint64_t refused;    /* gets and sets that the server could or would not do */
    uint64_t errors;     /* replies of a client's fault, or of none */
    uint64_t wrong;      /* values with other bytes or another length */
    uint64_t unanswered; /* sent, and neither answered nor refused */
    uint64_t broken;     /* connections that the server closed under way */
    uint64_t late;       /* open loop: requests that waited for a free connection */
    uint64_t got_bytes;
    uint64_t set_bytes;
    uint64_t next; /* where in the schedule this load ended */
    double seconds;
    double client_cpu_s;
    struct gb_histogram first_ns; /* a value's first byte, of gets that hit */
    struct gb_histogram get_ns;   /* a get's last byte */
    struct gb_histogram set_ns;
    struct gb_histogram sent_ns; /* all, from when they were sent */
};

void gb_net_tally_init(struct gb_net_tally *tally);
/* Sums counts; `seconds` are summed, too: tallies are of one turn after another. */
void gb_net_tally_merge(struct gb_net_tally *into, const struct gb_net_tally *from);

/* Runs the load to its end and fills *tally anew. Blocks. Errors: errno of sockets and threads,
 * -ENOMEM, -EINTR; -ETIMEDOUT if nothing moves for 30 s. */
__attribute__((warn_unused_result)) int gb_net_load_run(const struct gb_net_load *load,
                                                        struct gb_net_tally *tally,
                                                        struct goblin_error *error);

#endif
