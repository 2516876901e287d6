/*
 * Accepting: a few sockets per round, none beyond the limits.
 *
 * At a limit (connections, bytes of the budget, descriptors) the socket is not polled for a moment;
 * who waits in its backlog is accepted later, or by another loop.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/log.h"
#include "server/loop_internal.h"
#include "server/metrics.h"
#include "server/protocol.h"

#define ACCEPTS_PER_ROUND 16
#define AGAIN_MS          32
#define SPARE_BYTES       16384u /* of the budget, for a connection to begin with */

/* A socket on its way to another loop. */
struct dealt {
    struct gb_post post;
    struct gb_loop *loop;
    const struct gb_listener *listener;
    unsigned service;
    int fd;
};

static void serve(struct gb_loop *loop, unsigned service, const struct gb_listener *listener,
                  int fd)
{
    const struct gb_loop_service *at = &loop->internal->services[service];
    if (loop->draining) {
        (void)close(fd);
        gb_limits_end(loop->limits);
        return;
    }
    gb_metrics_add(loop->metrics, GB_METRICS_accepted, 1);
    at->protocol->accept(loop, at->state, listener, fd);
}

static void take_dealt(struct gb_post *post)
{
    struct dealt *dealt = (struct dealt *)(void *)post;
    gb_loop_refresh(dealt->loop);
    serve(dealt->loop, dealt->service, dealt->listener, dealt->fd);
    atomic_fetch_sub_explicit(&dealt->loop->internal->load, 1, memory_order_relaxed);
    free(dealt);
}

static unsigned load_of(const struct gb_loop *loop)
{
    return atomic_load_explicit(&loop->internal->load, memory_order_relaxed);
}

/* This loop, or one that has less to do. */
static struct gb_loop *choose(struct gb_loop *loop)
{
    const struct gb_loop_options *options = &loop->internal->options;
    struct gb_loop *least = loop;
    for (unsigned i = 0; i < *options->loop_count; i++) {
        if (load_of(options->loops[i]) < load_of(least)) {
            least = options->loops[i];
        }
    }
    return least;
}

static void place(struct gb_acceptor *acceptor, int fd)
{
    struct gb_loop *loop = acceptor->loop;
    struct gb_loop *to = choose(loop);
    struct dealt *dealt = to != loop ? malloc(sizeof(*dealt)) : NULL;
    if (dealt == NULL) {
        serve(loop, acceptor->service, acceptor->listener, fd);
        return;
    }
    *dealt = (struct dealt){
        .post.run = take_dealt,
        .loop = to,
        .listener = acceptor->listener,
        .service = acceptor->service,
        .fd = fd,
    };
    atomic_fetch_add_explicit(&to->internal->load, 1, memory_order_relaxed);
    gb_loop_post(to, &dealt->post);
}

static void ready(uv_poll_t *poll, int status, int events);

static void stop_for_a_moment(struct gb_acceptor *acceptor)
{
    struct gb_loop *loop = acceptor->loop;
    gb_metrics_add(loop->metrics, GB_METRICS_accept_stops, 1);
    (void)uv_poll_stop(&acceptor->poll);
    gb_loop_arm(loop, &acceptor->again, loop->now_ms + AGAIN_MS);
}

static void go_on(struct gb_deadline *deadline)
{
    struct gb_acceptor *acceptor =
        (struct gb_acceptor *)(void *)((char *)deadline - offsetof(struct gb_acceptor, again));
    int rc = uv_poll_start(&acceptor->poll, UV_READABLE, ready);
    if (rc < 0) {
        gb_loop_arm(acceptor->loop, &acceptor->again, acceptor->loop->now_ms + AGAIN_MS);
    }
}

/* Connections may take half of the budget by being there; the rest is for what they say, or they
 * would leave each other nothing to be read with. */
static bool has_spare_bytes(struct gb_limits *limits)
{
    return atomic_load_explicit(&limits->used_bytes, memory_order_relaxed) + SPARE_BYTES <=
           limits->set.network_bytes / 2;
}

/* False: no more in this round. */
static bool accept_one(struct gb_acceptor *acceptor)
{
    struct gb_loop *loop = acceptor->loop;
    if (!has_spare_bytes(loop->limits) || !gb_limits_begin(loop->limits)) {
        stop_for_a_moment(acceptor);
        return false;
    }
    int fd = accept4(acceptor->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        place(acceptor, fd);
        return true;
    }
    int fault = errno;
    gb_limits_end(loop->limits);
    if (fault == EAGAIN || fault == EWOULDBLOCK) {
        return false;
    }
    if (fault == EINTR || fault == ECONNABORTED) {
        return true;
    }
    gb_metrics_add(loop->metrics, GB_METRICS_accept_errors, 1);
    stop_for_a_moment(acceptor);
    return false;
}

static void ready(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct gb_acceptor *acceptor = poll->data;
    gb_loop_refresh(acceptor->loop);
    for (int i = 0; i < ACCEPTS_PER_ROUND && accept_one(acceptor); i++) {
    }
}

int gb_loop_listen(struct gb_loop *loop, const struct gb_listener *listener, int fd)
{
    struct gb_loop_internal *internal = loop->internal;
    GB_ASSERT(internal->acceptor_count < GB_LOOP_LISTENERS_MAX);
    struct gb_acceptor *acceptor = &internal->acceptors[internal->acceptor_count];
    *acceptor =
        (struct gb_acceptor){.loop = loop, .listener = listener, .fd = fd, .again.fire = go_on};
    while (acceptor->service < internal->service_count &&
           internal->services[acceptor->service].protocol != listener->protocol) {
        acceptor->service++;
    }
    GB_ASSERT(acceptor->service < internal->service_count);
    int rc = uv_poll_init(&loop->uv, &acceptor->poll, fd);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    acceptor->poll.data = acceptor;
    internal->acceptor_count++;
    return GOBLIN_OK;
}

int gb_loop_accept_start(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    for (unsigned i = 0; i < internal->acceptor_count; i++) {
        int rc = uv_poll_start(&internal->acceptors[i].poll, UV_READABLE, ready);
        if (rc < 0) {
            return rc;
        }
    }
    return GOBLIN_OK;
}

static void acceptor_closed(uv_handle_t *handle)
{
    struct gb_acceptor *acceptor = handle->data;
    (void)close(acceptor->fd);
    acceptor->fd = -1;
}

void gb_loop_accept_end(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    for (unsigned i = 0; i < internal->acceptor_count; i++) {
        struct gb_acceptor *acceptor = &internal->acceptors[i];
        gb_wheel_drop(&loop->wheel, &acceptor->again);
        uv_close((uv_handle_t *)&acceptor->poll, acceptor_closed);
    }
    internal->acceptor_count = 0;
}
