/* What loop.c and loop_accept.c, and the pool of workers, know of a loop. */
#ifndef GB_SERVER_LOOP_INTERNAL_H
#define GB_SERVER_LOOP_INTERNAL_H

#include <pthread.h>

#include "server/conn_internal.h"
#include "server/loop.h"
#include "server/work.h"

#define GB_LOOP_SERVICES_MAX 8u

/* A protocol on this loop. */
struct gb_loop_service {
    const struct gb_protocol *protocol;
    void *state;
};

/* One listening socket of a loop. */
struct gb_acceptor {
    uv_poll_t poll;
    struct gb_deadline again; /* accepting goes on */
    struct gb_loop *loop;
    const struct gb_listener *listener;
    unsigned service; /* number of the protocol's, the same on all loops */
    int fd;           /* -1: closed */
};

struct gb_loop_internal {
    struct gb_loop_options options;
    pthread_t thread;
    bool started;

    uv_async_t async;
    bool has_async;
    uv_prepare_t prepare;
    uv_idle_t busy;  /* runs while connections stand ready: the loop does not sleep */
    uv_timer_t tick; /* turns the wheel while something is armed */
    uv_poll_t completions;
    bool has_completions;
    bool touched; /* the reader wants to be polled */

    pthread_mutex_t posts_lock; /* of the next three; a leaf */
    struct gb_post *posts;
    struct gb_post **posts_last;
    bool ended;

    /* Set by any thread (release), cleared by the loop's (acquire) before it looks. */
    _Atomic bool wake_bytes;
    int64_t turned_ms; /* libuv's, when the clocks were read */

    _Atomic unsigned jobs; /* given to workers, not come back */
    struct gb_job trim;    /* gives memory to the system */
    bool trimming;
    struct gb_hook *hooks;
    struct gb_hook *next_hook; /* of the walk; moved on when it is removed */

    struct gb_loop_service services[GB_LOOP_SERVICES_MAX];
    unsigned service_count;
    struct gb_acceptor acceptors[GB_LOOP_LISTENERS_MAX];
    unsigned acceptor_count;
    _Atomic unsigned load; /* connections of ours, those on their way here among them */

    int64_t tick_ms; /* when the timer fires; INT64_MAX: it is not set */

    struct gb_post drain_post;
    struct gb_post reload_post;
    _Atomic bool reloads; /* it is posted (acq_rel): who asks again need not post */
    struct gb_post quiesce_post;
    uv_sem_t quiesced;
    struct gb_post stop_post;
    bool stopping;
    bool handles_closed;
    unsigned handles; /* of connections, open or closing */

    struct gb_conn_pools pools;
};

/* ---- loop_accept.c ------------------------------------------------------------------------- */

int gb_loop_accept_start(struct gb_loop *loop);
/* Closes the sockets: what waits in their backlog is refused. */
void gb_loop_accept_end(struct gb_loop *loop);

/* ---- loop.c -------------------------------------------------------------------------------- */

/* Reads the clocks; called first by whatever the loop is woken for. */
void gb_loop_refresh(struct gb_loop *loop);

#endif
