/*
 * One connection of the load generator: requests are laid into its output, replies are taken in
 * order, and the tally of its thread is kept. For net_load.c. Belongs to one thread.
 */
#ifndef GB_BENCH_NET_CONN_H
#define GB_BENCH_NET_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "bench/net_load.h"
#include "bench/pace.h"
#include "bench/samples.h"

/* A request between being sent and being answered. */
struct gb_net_flight {
    uint64_t at; /* its first object, as a place in the order of requests */
    uint64_t due_ns;
    uint64_t sent_ns;
    uint64_t first_ns; /* 0: no value has begun */
    uint32_t keys;
    uint32_t hits;
    bool is_set;
    bool is_refill; /* a set of what was missed */
    bool is_wrong;
};

struct gb_net_thread;

struct gb_net_conn {
    struct gb_net_thread *thread;
    int fd;
    bool wants_out;                /* epoll waits for room, too */
    struct gb_net_flight *flights; /* a ring of [depth] */
    unsigned head;
    unsigned flying;

    unsigned char *out; /* requests and small values */
    size_t out_len;
    size_t out_sent;
    size_t out_room;
    uint64_t body_object; /* a large value that goes out behind `out`, straight from the pool */
    uint64_t body_bytes;  /* 0: none */
    uint64_t body_sent;
    size_t tail_left; /* of the line end behind it */

    struct gb_net_reply reply;
    struct gb_samples samples; /* of the value that is coming in */
    uint64_t value_object;
    uint32_t value_at; /* its place among the request's keys */
    bool in_value;
};

/* What connections of a thread share. */
struct gb_net_thread {
    const struct gb_net_load *load;
    _Atomic uint64_t *next; /* place in the order of requests; relaxed: only a number is drawn */
    uint64_t limit;         /* of `next`; UINT64_MAX: none */
    unsigned number;
    struct gb_pace pace; /* open loop */
    struct gb_rng rng;
    struct gb_payload_window window;
    unsigned char *in; /* [GB_NET_IN_BYTES] */
    int epoll;
    unsigned count;
    struct gb_net_conn *conns;
    uint64_t *missed; /* [GB_NET_MISSED_MAX] places whose objects are to be set again; a stack */
    unsigned missed_count;
    unsigned cursor; /* the next connection to be given a due request */
    uint64_t started_ns;
    uint64_t counted_ns; /* counting begins */
    uint64_t end_ns;     /* nothing is sent from here on */
    uint64_t moved_ns;   /* something was received */
    uint64_t last_ns;    /* the last counted answer */
    uint64_t full_ns;    /* when no connection was free for what was due */
    uint64_t flying;
    bool is_counting;
    double cpu_s;      /* of the thread, when counting began */
    bool is_exhausted; /* nothing is left to be sent */
    struct gb_net_tally *tally;
    int result;
};

enum {
    GB_NET_IN_BYTES = 256 << 10,
    GB_NET_MISSED_MAX = 1024, /* what is missed beyond is not set again */
};

/* Owns: gb_net_conn_close, after a fault too. Errors: errno of sockets, -ENOMEM. */
int gb_net_conn_open(struct gb_net_conn *conn, struct gb_net_thread *thread);
void gb_net_conn_close(struct gb_net_conn *conn);

/* Room for one more request? */
bool gb_net_conn_is_free(const struct gb_net_conn *conn);

/* Draws a request and lays it into the output; `due_ns` 0: now. 1; 0: none is left; -ENOMEM. */
int gb_net_conn_ask(struct gb_net_conn *conn, uint64_t due_ns, uint64_t now_ns);

/* Sends what the socket takes. Errors: of the connection. */
int gb_net_conn_flush(struct gb_net_conn *conn);

/* Takes what has come. 1: something did; 0: nothing; a fault: the connection is of no use. */
int gb_net_conn_receive(struct gb_net_conn *conn);

/* Counts what is in flight as unanswered, closes, and connects anew. */
int gb_net_conn_renew(struct gb_net_conn *conn);

/* The object at a place in the order of requests. */
uint64_t gb_net_thread_object(const struct gb_net_thread *thread, uint64_t at);

#endif
