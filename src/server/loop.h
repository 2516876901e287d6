/*
 * A loop: one thread, one uv_loop_t, one reader of the store, and every protocol.
 *
 * A request is received, looked up, read and answered on one loop; other threads reach it only
 * through gb_loop_post. The loop polls its reader's eventfd, turns its wheel of deadlines, and runs
 * hooks before it goes to sleep.
 *
 * TCP listeners are opened on every loop with SO_REUSEPORT, and the kernel spreads the connections;
 * a loop that has more of ours than another hands what it accepts to that one. Unix sockets are
 * opened on loop 0, which deals the connections out likewise.
 *
 * Fields marked [any] may be read by any thread; all else belongs to the loop's thread.
 */
#ifndef GB_SERVER_LOOP_H
#define GB_SERVER_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <uv.h>

#include <goblin/reader.h>

#include "server/limits.h"
#include "server/log.h"
#include "server/wheel.h"

struct gb_backend;
struct gb_conn;
struct gb_loop;
struct gb_protocol;
struct gb_server;
struct gb_work;

#define GB_LOOP_LISTENERS_MAX 32u
#define GB_LOOP_ADDRESS_TEXT  128u

/* An address that one protocol is served at. Constant once the server runs. [any] */
struct gb_listener {
    const struct gb_protocol *protocol;
    const void *options; /* the protocol's own */
    unsigned number;     /* among the server's */
    bool tls;
    bool is_unix;
    char address[GB_LOOP_ADDRESS_TEXT]; /* the real one: "127.0.0.1:43211", "[::1]:80", a path */
};

/* Something to be called on the loop's thread. Embedded; zero at first. */
struct gb_post {
    struct gb_post *next;
    void (*run)(struct gb_post *post); /* not queued any more when it is called */
};

/* Called in every round, before the loop sleeps. Embedded. */
struct gb_hook {
    struct gb_hook *next;
    void (*run)(struct gb_hook *hook); /* may remove itself and others */
};

/* Stands in a line for something that is short: bytes of the network budget, room for a request in
 * the reader. Embedded; zero: in no line. */
struct gb_waiter {
    struct gb_waiter *next;
    struct gb_waiter *prev;
    /* Out of the line when it is called. Try again; if it is still short, stand in line again: that
     * puts one at the front whose turn it was. */
    void (*wake)(struct gb_waiter *waiter);
};

struct gb_line {
    struct gb_waiter ends;   /* head of a circular list */
    struct gb_waiter *woken; /* whose turn it is */
    _Atomic unsigned *total; /* of all loops' lines for the same thing, or NULL */
    struct gb_loop *loop;
};

struct gb_loop {
    uv_loop_t uv;
    struct gb_server *server;   /* [any] */
    unsigned number;            /* [any] */
    struct goblin *store;       /* [any] */
    struct gb_backend *backend; /* [any] the way to the store for all but counting and listing */
    struct gb_work *work;       /* [any] */
    struct gb_limits *limits;   /* [any] */
    struct gb_log *log;         /* [any] */
    struct gb_metrics *metrics; /* of this loop; written by its thread alone [any may read] */
    struct goblin_reader *reader;

    int64_t now_ms;  /* monotonic (or the test's clock), as of the last time the loop woke */
    int64_t wall_ms; /* milliseconds since 1970 by the store's clock, as of then */
    struct gb_wheel wheel;

    struct gb_line bytes_line;   /* for gb_limits_take */
    struct gb_line request_line; /* for gb_backend_read that said -EAGAIN */

    struct gb_log_buffer access_lines;
    struct gb_conn *conns; /* all of this loop */
    bool draining;

    struct gb_loop_internal *internal;
};

/* ---- for protocols ------------------------------------------------------------------------- */

/* Has `post->run` called on the loop's thread. Posts of one thread run in order. Never fails.
 * Owns: *post is the loop's until it runs. Threads: any. A loop that ends runs what was posted
 * before it returns. */
void gb_loop_post(struct gb_loop *loop, struct gb_post *post);

void gb_loop_add_hook(struct gb_loop *loop, struct gb_hook *hook);
void gb_loop_remove_hook(struct gb_loop *loop, struct gb_hook *hook);

/* Arms a deadline in the loop's wheel. Drop it with gb_wheel_drop(&loop->wheel, …). */
void gb_loop_arm(struct gb_loop *loop, struct gb_deadline *deadline, int64_t at_ms);

/* Nanoseconds of the monotonic clock, read now: for latencies. Threads: any. */
uint64_t gb_loop_clock_ns(void);

/* After goblin_release: the reader is polled before the loop sleeps. */
void gb_loop_touch_reader(struct gb_loop *loop);

/* A request of the reader is over, so another one may begin: wakes the request line. Whoever uses
 * gb_backend_read calls it from on_done. */
void gb_loop_request_ended(struct gb_loop *loop);

/* Gives bytes back to the budget and wakes who waits for them, here and on other loops. */
void gb_loop_give_bytes(struct gb_loop *loop, uint64_t bytes);

/* Stands in line; at the front for who was just woken. */
void gb_loop_wait(struct gb_line *line, struct gb_waiter *waiter);
/* Leaves it; harmless for who is in none. */
void gb_loop_leave(struct gb_line *line, struct gb_waiter *waiter);

/* ---- for the server ------------------------------------------------------------------------ */

struct gb_loop_options {
    struct gb_server *server;
    unsigned number;
    struct goblin *store;
    struct gb_backend *backend;
    struct gb_work *work;
    struct gb_limits *limits;
    struct gb_log *log;
    struct goblin_reader_options reader;
    struct gb_loop *const *loops; /* all of the server, this one too; borrowed */
    const unsigned *loop_count;
    int64_t (*clock)(void *arg); /* monotonic milliseconds; NULL: CLOCK_MONOTONIC */
    void *clock_arg;
    goblin_clock_fn wall_clock; /* NULL: CLOCK_REALTIME */
    void *wall_clock_arg;
};

/* Errors: -ENOMEM, those of goblin_reader_create, any errno of libuv's. */
int gb_loop_create(struct gb_loop **out, const struct gb_loop_options *options,
                   struct goblin_error *error);

/* Serves a protocol from here on; `state` is what its start gave for this loop. Before
 * gb_loop_start, and on all loops in the same order. */
void gb_loop_serve(struct gb_loop *loop, const struct gb_protocol *protocol, void *state);

/* Accepts from a socket that listens, for a protocol that is served. Owns: fd, from here on. Before
 * gb_loop_start. Errors: any of libuv's. */
int gb_loop_listen(struct gb_loop *loop, const struct gb_listener *listener, int fd);

/* Runs the loop in a thread of its own. */
int gb_loop_start(struct gb_loop *loop);

/* Has every protocol read its files anew. Threads: any. */
void gb_loop_reload(struct gb_loop *loop);

/* Stops accepting and closes connections as they fall idle. Threads: any, once. */
void gb_loop_drain(struct gb_loop *loop);

/* Returns when the loop accepts nothing any more, and so hands nothing to other loops: all of a
 * server's are brought there before the first one stops. Threads: not the loop's own. */
void gb_loop_quiesce(struct gb_loop *loop);

/* Closes everything, ends and joins the thread; then the loop can be destroyed. Threads: not the
 * loop's own. */
void gb_loop_stop(struct gb_loop *loop);
void gb_loop_destroy(struct gb_loop *loop);

#endif
