/* Populates an engine from several threads, which take objects in the corpus's order. */
#include "bench/explain.h"
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/worker.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct populate {
    struct gb_worker_state *state;
    _Atomic uint64_t next; /* object; relaxed: each is taken once, and nothing hangs on it */
    _Atomic int failed;    /* the first fault; relaxed, read for good after the threads joined */
};

struct populate_thread {
    struct populate *populate;
    unsigned number;
    pthread_t thread;
    uint64_t object; /* being put */
};

static const void *thread_window(void *arg, uint64_t offset, size_t len)
{
    struct populate_thread *thread = arg;
    struct gb_worker_state *state = thread->populate->state;
    const void *data =
        gb_content_window_prepare(&state->windows[thread->number], thread->object, offset, len);
    if (!data) {
        fprintf(stderr, "make object %llu: %s\n", (unsigned long long)thread->object,
                strerror(errno));
    }
    return data;
}

static int thread_put(struct populate_thread *thread)
{
    const struct gb_worker *worker = thread->populate->state->worker;
    char text[GB_CORPUS_KEY_MAX];
    struct gb_engine_key key = {
        .data = text,
        .len = gb_corpus_key(worker->content->corpus, thread->object, text),
        .number = thread->object,
    };
    struct gb_engine_value value = {
        .size = worker->content->corpus->sizes[thread->object],
        .window = thread_window,
        .arg = thread,
    };
    int rc = worker->ops->put(thread->populate->state->engine, thread->number, &key, &value);
    atomic_fetch_add_explicit(&worker->shared->done_bytes, value.size, memory_order_relaxed);
    return rc;
}

static void *thread_run(void *arg)
{
    struct populate_thread *thread = arg;
    struct populate *populate = thread->populate;
    uint64_t count = populate->state->worker->content->corpus->count;
    while (atomic_load_explicit(&populate->failed, memory_order_relaxed) == 0) {
        thread->object = atomic_fetch_add_explicit(&populate->next, 1, memory_order_relaxed);
        if (thread->object >= count) {
            break;
        }
        int rc = thread_put(thread);
        if (rc < 0) {
            atomic_store_explicit(&populate->failed, rc, memory_order_relaxed);
        }
    }
    return NULL;
}

static int populate_run(struct populate *populate, struct populate_thread *threads, unsigned count,
                        struct goblin_error *error)
{
    unsigned started = 0;
    int rc = 0;
    for (; started < count && rc == 0; started++) {
        threads[started].populate = populate;
        threads[started].number = started;
        rc = -pthread_create(&threads[started].thread, NULL, thread_run, &threads[started]);
        if (rc < 0) {
            atomic_store_explicit(&populate->failed, rc, memory_order_relaxed);
            break;
        }
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i].thread, NULL);
    }
    rc = atomic_load_explicit(&populate->failed, memory_order_relaxed);
    if (rc < 0) {
        gb_explain_set(error, "populate: put failed: %s", goblin_strerror(rc));
    }
    return rc;
}

/* Flushes and closes, so that what remains is what a restart would find. */
static int populate_finish(struct gb_worker_state *state, const struct gb_procfs_io *before,
                           struct gb_engine_stats *gained, struct goblin_error *error)
{
    const struct gb_engine_ops *ops = state->worker->ops;
    int rc = ops->barrier(state->engine, error);
    gb_worker_gained(state, gained);
    int closed = ops->close(state->engine);
    state->engine = NULL;
    /* What the allocator kept of populating is no memory of replaying. */
    malloc_trim(0);
    /* An engine's own counters end with it; what closing writes, too, is only seen by the kernel.
     */
    struct gb_procfs_io io = *before;
    gb_procfs_io(&io);
    gained->device_write_bytes = io.write_bytes - before->write_bytes;
    if (rc >= 0 && closed < 0) {
        rc = closed;
        gb_explain_set(error, "close after populating: %s", goblin_strerror(rc));
    }
    return rc < 0 ? rc : 0;
}

int gb_worker_populate(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    const struct gb_worker *worker = state->worker;
    unsigned count = worker->config.workers;
    struct populate populate = {.state = state};
    struct populate_thread *threads = calloc(count, sizeof(*threads));
    if (!threads) {
        return -ENOMEM;
    }
    int rc = worker->ops->open(&state->engine, &worker->config, GB_ENGINE_POPULATE, &reply->error);
    if (rc < 0) {
        free(threads);
        return rc;
    }
    struct gb_procfs_io before = {0};
    gb_procfs_io(&before);
    gb_worker_device(state, &reply->device);
    uint64_t started_ns = gb_progress_now_ns();
    rc = populate_run(&populate, threads, count, &reply->error);
    uint64_t put_ns = gb_progress_now_ns();
    if (rc == 0) {
        rc = populate_finish(state, &before, &reply->device, &reply->error);
    }
    uint64_t finished_ns = gb_progress_now_ns();
    reply->seconds = (double)(finished_ns - started_ns) / 1e9;
    reply->barrier_seconds = (double)(finished_ns - put_ns) / 1e9;
    free(threads);
    return rc;
}
