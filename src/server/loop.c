/* A loop's life, what wakes it, and what it does before it sleeps. */
#include "server/loop.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "server/log.h"
#include "server/loop_internal.h"
#include "server/metrics.h"
#include "server/protocol.h"

#define TICK_MOST_MS     500
#define TICK_TEST_MS     20 /* with a clock that somebody turns */
#define ROUNDS_PER_PAUSE 4

uint64_t gb_loop_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void gb_loop_refresh(struct gb_loop *loop)
{
    const struct gb_loop_options *options = &loop->internal->options;
    int64_t now_ms =
        options->clock != NULL ? options->clock(options->clock_arg) : (int64_t)uv_now(&loop->uv);
    int64_t turned_ms = (int64_t)uv_now(&loop->uv);
    if (loop->internal->turned_ms == turned_ms && loop->now_ms == now_ms) {
        return;
    }
    loop->internal->turned_ms = turned_ms;
    loop->now_ms = now_ms;
    loop->wall_ms =
        options->wall_clock != NULL ? options->wall_clock(options->wall_clock_arg) : wall_ms();
}

/* ---- lines --------------------------------------------------------------------------------- */

static void line_init(struct gb_line *line, struct gb_loop *loop, _Atomic unsigned *total)
{
    line->ends.next = line->ends.prev = &line->ends;
    line->woken = NULL;
    line->total = total;
    line->loop = loop;
}

void gb_loop_wait(struct gb_line *line, struct gb_waiter *waiter)
{
    GB_ASSERT(waiter->next == NULL);
    bool first = line->woken == waiter;
    struct gb_waiter *before = first ? &line->ends : line->ends.prev;
    if (first) {
        line->woken = NULL;
    }
    waiter->prev = before;
    waiter->next = before->next;
    before->next->prev = waiter;
    before->next = waiter;
    if (line->total != NULL) {
        /* Pairs with gb_loop_give_bytes: either it sees this waiter, or he, woken once more before
         * the loop sleeps, sees what it gave. */
        atomic_fetch_add(line->total, 1);
        if (!first) {
            atomic_store(&line->loop->internal->wake_bytes, true);
        }
    }
}

static void unlink_waiter(struct gb_line *line, struct gb_waiter *waiter)
{
    waiter->prev->next = waiter->next;
    waiter->next->prev = waiter->prev;
    waiter->next = waiter->prev = NULL;
    if (line->total != NULL) {
        atomic_fetch_sub(line->total, 1);
    }
}

void gb_loop_leave(struct gb_line *line, struct gb_waiter *waiter)
{
    if (line->woken == waiter) {
        line->woken = NULL;
    }
    if (waiter->next != NULL) {
        unlink_waiter(line, waiter);
    }
}

/* Until somebody stands in line again, for whom there was not enough. */
static void wake_line(struct gb_line *line)
{
    while (line->woken == NULL && line->ends.next != &line->ends) {
        struct gb_waiter *waiter = line->ends.next;
        unlink_waiter(line, waiter);
        line->woken = waiter;
        waiter->wake(waiter);
        if (line->woken != waiter) {
            break;
        }
        line->woken = NULL;
    }
}

static void notify(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    (void)pthread_mutex_lock(&internal->posts_lock);
    if (!internal->ended) {
        (void)uv_async_send(&internal->async);
    }
    (void)pthread_mutex_unlock(&internal->posts_lock);
}

void gb_loop_give_bytes(struct gb_loop *loop, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    gb_limits_give(loop->limits, bytes);
    if (atomic_load(&loop->limits->waiters) == 0) {
        return;
    }
    const struct gb_loop_options *options = &loop->internal->options;
    for (unsigned i = 0; i < *options->loop_count; i++) {
        struct gb_loop *other = options->loops[i];
        if (!atomic_exchange(&other->internal->wake_bytes, true) && other != loop) {
            notify(other);
        }
    }
}

void gb_loop_request_ended(struct gb_loop *loop)
{
    /* Its room in the reader is free when on_done has returned; the line is woken before the loop
     * sleeps. */
    if (loop->request_line.ends.next != &loop->request_line.ends) {
        loop->internal->touched = true;
    }
}

void gb_loop_touch_reader(struct gb_loop *loop)
{
    loop->internal->touched = true;
}

/* ---- posts and hooks ----------------------------------------------------------------------- */

void gb_loop_post(struct gb_loop *loop, struct gb_post *post)
{
    struct gb_loop_internal *internal = loop->internal;
    post->next = NULL;
    (void)pthread_mutex_lock(&internal->posts_lock);
    GB_ASSERT(!internal->ended);
    *internal->posts_last = post;
    internal->posts_last = &post->next;
    (void)uv_async_send(&internal->async);
    (void)pthread_mutex_unlock(&internal->posts_lock);
}

static void run_posts(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    (void)pthread_mutex_lock(&internal->posts_lock);
    struct gb_post *post = internal->posts;
    internal->posts = NULL;
    internal->posts_last = &internal->posts;
    (void)pthread_mutex_unlock(&internal->posts_lock);
    while (post != NULL) {
        struct gb_post *next = post->next;
        post->next = NULL;
        post->run(post);
        post = next;
    }
}

void gb_loop_add_hook(struct gb_loop *loop, struct gb_hook *hook)
{
    hook->next = loop->internal->hooks;
    loop->internal->hooks = hook;
}

void gb_loop_remove_hook(struct gb_loop *loop, struct gb_hook *hook)
{
    struct gb_loop_internal *internal = loop->internal;
    if (internal->next_hook == hook) {
        internal->next_hook = hook->next;
    }
    for (struct gb_hook **at = &internal->hooks; *at != NULL; at = &(*at)->next) {
        if (*at == hook) {
            *at = hook->next;
            return;
        }
    }
}

static void run_hooks(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    for (struct gb_hook *hook = internal->hooks; hook != NULL; hook = internal->next_hook) {
        internal->next_hook = hook->next;
        hook->run(hook);
    }
    internal->next_hook = NULL;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

static void set_tick(struct gb_loop *loop);

static void tick(uv_timer_t *timer)
{
    struct gb_loop *loop = timer->data;
    loop->internal->tick_ms = INT64_MAX;
    gb_loop_refresh(loop);
    (void)gb_wheel_turn(&loop->wheel, loop->now_ms);
    set_tick(loop);
}

static void set_tick(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    if (loop->wheel.armed == 0 || internal->handles_closed) {
        return;
    }
    int64_t most_ms = internal->options.clock != NULL ? TICK_TEST_MS : TICK_MOST_MS;
    int64_t at_ms = gb_wheel_soonest_ms(&loop->wheel, most_ms);
    if (at_ms >= internal->tick_ms) {
        return;
    }
    internal->tick_ms = at_ms;
    int64_t delay_ms = at_ms > loop->now_ms ? at_ms - loop->now_ms : 1;
    delay_ms = delay_ms < most_ms ? delay_ms : most_ms;
    (void)uv_timer_start(&internal->tick, tick, (uint64_t)delay_ms, 0);
}

void gb_loop_arm(struct gb_loop *loop, struct gb_deadline *deadline, int64_t at_ms)
{
    if (loop->wheel.armed == 0) {
        (void)gb_wheel_turn(&loop->wheel, loop->now_ms); /* nothing: it only catches up */
    }
    gb_wheel_arm(&loop->wheel, deadline, at_ms);
    if (deadline->at_ms < loop->internal->tick_ms) {
        set_tick(loop);
    }
}

/* ---- rounds -------------------------------------------------------------------------------- */

static void poll_reader(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    internal->touched = false;
    int n = goblin_poll(loop->reader, 0);
    if (n < 0) {
        const struct gb_log_field field[] = {GB_LOG_TEXT("error", goblin_strerror(n))};
        gb_log_event(loop->log, GOBLIN_LOG_ERROR, "reader failed", field, 1);
    }
    wake_line(&loop->request_line);
}

/* Before the loop sleeps: whatever the round has left to do. */
static void settle_round(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    run_hooks(loop);
    if (atomic_exchange(&internal->wake_bytes, false)) {
        wake_line(&loop->bytes_line);
    }
    bool more = gb_conn_run_dirty(loop);
    for (int i = 0; i < ROUNDS_PER_PAUSE && (internal->touched || more); i++) {
        if (internal->touched) {
            poll_reader(loop);
        }
        more = gb_conn_run_dirty(loop);
    }
    gb_log_flush(loop);
}

/* The allocator keeps what connections were made of, scattered as it is; it is asked for it by a
 * worker, for that takes some milliseconds. */
static void trim(struct gb_job *job)
{
    (void)job;
    (void)malloc_trim(0);
}

static void trimmed(struct gb_job *job)
{
    job->loop->internal->trimming = false;
}

static void give_memory_back(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    if (internal->trimming || internal->stopping || !gb_limits_crowd_left(loop->limits)) {
        return;
    }
    internal->trimming = true;
    internal->trim.run = trim;
    internal->trim.done = trimmed;
    gb_work_submit(loop->work, loop, &internal->trim);
}

static void keep_busy(uv_idle_t *idle)
{
    struct gb_loop *loop = idle->data;
    gb_loop_refresh(loop);
    (void)gb_conn_run_ready(loop);
}

static void close_handles(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    internal->handles_closed = true;
    (void)pthread_mutex_lock(&internal->posts_lock);
    internal->ended = true;
    GB_ASSERT(internal->posts == NULL);
    (void)pthread_mutex_unlock(&internal->posts_lock);
    if (internal->has_async) {
        uv_close((uv_handle_t *)&internal->async, NULL);
    }
    uv_close((uv_handle_t *)&internal->prepare, NULL);
    uv_close((uv_handle_t *)&internal->busy, NULL);
    uv_close((uv_handle_t *)&internal->tick, NULL);
    if (internal->has_completions) {
        uv_close((uv_handle_t *)&internal->completions, NULL);
    }
}

static bool has_posts(struct gb_loop_internal *internal)
{
    (void)pthread_mutex_lock(&internal->posts_lock);
    bool some = internal->posts != NULL;
    (void)pthread_mutex_unlock(&internal->posts_lock);
    return some;
}

static void before_sleep(uv_prepare_t *prepare)
{
    struct gb_loop *loop = prepare->data;
    struct gb_loop_internal *internal = loop->internal;
    gb_loop_refresh(loop);
    settle_round(loop);
    give_memory_back(loop);
    if (internal->stopping && internal->handles == 0 && atomic_load(&internal->jobs) == 0 &&
        !has_posts(internal)) {
        close_handles(loop);
        return;
    }
    bool asleep = loop->internal->pools.ready == NULL && loop->internal->pools.dirty == NULL &&
                  !internal->touched && !atomic_load(&internal->wake_bytes);
    if (asleep) {
        (void)uv_idle_stop(&internal->busy);
    } else {
        (void)uv_idle_start(&internal->busy, keep_busy);
    }
}

static void woken(uv_async_t *async)
{
    struct gb_loop *loop = async->data;
    gb_loop_refresh(loop);
    run_posts(loop);
}

static void completed(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct gb_loop *loop = poll->data;
    gb_loop_refresh(loop);
    poll_reader(loop);
}

/* ---- life ---------------------------------------------------------------------------------- */

static int add_completions(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    int fd = goblin_reader_eventfd(loop->reader);
    int rc = fd < 0 ? fd : uv_poll_init(&loop->uv, &internal->completions, fd);
    if (rc == 0) {
        internal->completions.data = loop;
        internal->has_completions = true;
        rc = uv_poll_start(&internal->completions, UV_READABLE, completed);
    }
    return rc;
}

static int add_handles(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    (void)uv_prepare_init(&loop->uv, &internal->prepare); /* these three cannot fail */
    (void)uv_idle_init(&loop->uv, &internal->busy);
    (void)uv_timer_init(&loop->uv, &internal->tick);
    internal->async.data = internal->prepare.data = internal->busy.data = internal->tick.data =
        loop;
    (void)uv_prepare_start(&internal->prepare, before_sleep);
    int rc = uv_async_init(&loop->uv, &internal->async, woken);
    internal->has_async = rc == 0;
    return rc == 0 ? add_completions(loop) : rc;
}

static void fill_in(struct gb_loop *loop, const struct gb_loop_options *options)
{
    struct gb_loop_internal *internal = loop->internal;
    internal->options = *options;
    internal->posts_last = &internal->posts;
    internal->tick_ms = INT64_MAX;
    loop->server = options->server;
    loop->number = options->number;
    loop->store = options->store;
    loop->backend = options->backend;
    loop->work = options->work;
    loop->limits = options->limits;
    loop->log = options->log;
    loop->uv.data = loop;
    line_init(&loop->bytes_line, loop, &options->limits->waiters);
    line_init(&loop->request_line, loop, NULL);
    (void)pthread_mutex_init(&internal->posts_lock, NULL);
}

int gb_loop_create(struct gb_loop **out, const struct gb_loop_options *options,
                   struct goblin_error *error)
{
    const char *what = "memory";
    int rc = -ENOMEM;
    struct gb_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL) {
        goto fail;
    }
    loop->internal = calloc(1, sizeof(*loop->internal));
    loop->metrics = calloc(1, sizeof(*loop->metrics));
    if (loop->internal == NULL || loop->metrics == NULL) {
        goto free_loop;
    }
    what = "event loop";
    rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        goto free_loop;
    }
    fill_in(loop, options);
    what = "reader";
    rc = goblin_reader_create(&loop->reader, options->store, &options->reader);
    if (rc < 0) {
        goto close_loop;
    }
    what = "event loop";
    gb_conn_pools_init(loop);
    rc = add_handles(loop);
    if (rc < 0) {
        close_handles(loop);
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
        goto close_loop;
    }
    uv_update_time(&loop->uv);
    gb_loop_refresh(loop);
    gb_wheel_init(&loop->wheel, loop->now_ms);
    *out = loop;
    return GOBLIN_OK;

close_loop:
    goblin_reader_destroy(loop->reader);
    (void)uv_loop_close(&loop->uv);
free_loop:
    free(loop->internal);
    free(loop->metrics);
    free(loop);
fail:
    if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "%s of loop %u: %s", what, options->number,
                       goblin_strerror(rc));
    }
    return rc;
}

void gb_loop_serve(struct gb_loop *loop, const struct gb_protocol *protocol, void *state)
{
    struct gb_loop_internal *internal = loop->internal;
    GB_ASSERT(internal->service_count < GB_LOOP_SERVICES_MAX);
    internal->services[internal->service_count++] = (struct gb_loop_service){protocol, state};
}

static void *run(void *arg)
{
    struct gb_loop *loop = arg;
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    return NULL;
}

int gb_loop_start(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    int rc = gb_loop_accept_start(loop);
    if (rc < 0) {
        return rc;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = -pthread_create(&internal->thread, NULL, run, loop);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    internal->started = rc == 0;
    return rc == 0 ? GOBLIN_OK : rc;
}

static struct gb_loop_internal *owner_of(struct gb_post *post, size_t offset)
{
    return (struct gb_loop_internal *)(void *)((char *)post - offset);
}

static void drain(struct gb_loop *loop)
{
    if (loop->draining) {
        return;
    }
    loop->draining = true;
    gb_loop_accept_end(loop);
    for (unsigned i = 0; i < loop->internal->service_count; i++) {
        const struct gb_loop_service *service = &loop->internal->services[i];
        if (service->protocol->drain != NULL) {
            service->protocol->drain(loop, service->state);
        }
    }
    gb_conn_drain_all(loop);
}

static void drain_posted(struct gb_post *post)
{
    drain(owner_of(post, offsetof(struct gb_loop_internal, drain_post))->async.data);
}

static void stop_posted(struct gb_post *post)
{
    struct gb_loop *loop = owner_of(post, offsetof(struct gb_loop_internal, stop_post))->async.data;
    drain(loop);
    gb_conn_cut_all(loop);
    for (unsigned i = 0; i < loop->internal->service_count; i++) {
        const struct gb_loop_service *service = &loop->internal->services[i];
        if (service->protocol->stop != NULL) {
            service->protocol->stop(loop, service->state);
        }
    }
    loop->internal->stopping = true;
}

static void reload_posted(struct gb_post *post)
{
    struct gb_loop *loop =
        owner_of(post, offsetof(struct gb_loop_internal, reload_post))->async.data;
    (void)atomic_exchange_explicit(&loop->internal->reloads, false, memory_order_acq_rel);
    for (unsigned i = 0; i < loop->internal->service_count; i++) {
        const struct gb_loop_service *service = &loop->internal->services[i];
        if (service->protocol->reload != NULL) {
            service->protocol->reload(loop, service->state);
        }
    }
}

void gb_loop_drain(struct gb_loop *loop)
{
    loop->internal->drain_post.run = drain_posted;
    gb_loop_post(loop, &loop->internal->drain_post);
}

void gb_loop_reload(struct gb_loop *loop)
{
    if (!atomic_exchange_explicit(&loop->internal->reloads, true, memory_order_acq_rel)) {
        loop->internal->reload_post.run = reload_posted;
        gb_loop_post(loop, &loop->internal->reload_post);
    }
}

static void quiesce_posted(struct gb_post *post)
{
    struct gb_loop *loop =
        owner_of(post, offsetof(struct gb_loop_internal, quiesce_post))->async.data;
    drain(loop);
    uv_sem_post(&loop->internal->quiesced);
}

void gb_loop_quiesce(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    if (!internal->started) {
        return; /* it never accepted */
    }
    int rc = uv_sem_init(&internal->quiesced, 0);
    GB_ASSERT(rc == 0);
    internal->quiesce_post.run = quiesce_posted;
    gb_loop_post(loop, &internal->quiesce_post);
    uv_sem_wait(&internal->quiesced);
    uv_sem_destroy(&internal->quiesced);
}

void gb_loop_stop(struct gb_loop *loop)
{
    struct gb_loop_internal *internal = loop->internal;
    internal->stop_post.run = stop_posted;
    gb_loop_post(loop, &internal->stop_post);
    if (internal->started) {
        (void)pthread_join(internal->thread, NULL);
        internal->started = false;
    } else {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT); /* the server did not get so far */
    }
}

void gb_loop_destroy(struct gb_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    gb_conn_pools_fini(loop);
    goblin_reader_destroy(loop->reader);
    int rc = uv_loop_close(&loop->uv);
    GB_ASSERT(rc == 0);
    (void)pthread_mutex_destroy(&loop->internal->posts_lock);
    gb_log_drop_buffer(loop);
    free(loop->internal);
    free(loop->metrics);
    free(loop);
}
