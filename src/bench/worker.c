/* The bench's side of its workers, and the loop that takes orders. */
#include "bench/worker.h"

#include "bench/churn_store.h"
#include "bench/explain.h"
#include "bench/procfs.h"
#include "bench/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHUNKS_PER_REQUEST = 3, /* a head and the ends of a tail */
    PAGE_BYTES = 4096,
};

struct gb_worker_shared *gb_worker_shared_create(uint64_t requests, uint64_t bytes)
{
    uint64_t chunks = requests * CHUNKS_PER_REQUEST + bytes / GB_ENGINE_FIRST_CHUNK_BYTES;
    uint64_t mapped = sizeof(struct gb_worker_shared) + requests * sizeof(struct gb_worker_record) +
                      chunks * sizeof(struct gb_chunk);
    struct gb_worker_shared *shared =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return NULL;
    }
    shared->mapped_bytes = mapped;
    shared->record_capacity = requests;
    shared->chunk_capacity = chunks;
    shared->records = (struct gb_worker_record *)(shared + 1);
    shared->chunks = (struct gb_chunk *)(shared->records + requests);
    return shared;
}

void gb_worker_shared_destroy(struct gb_worker_shared *shared)
{
    if (shared) {
        munmap(shared, shared->mapped_bytes);
    }
}

/* ---- the process --------------------------------------------------------------------------- */

static uint64_t resident_bytes(uint64_t *peak_bytes)
{
    uint64_t rss = 0;
    uint64_t peak = 0;
    gb_procfs_rss(getpid(), &rss, &peak);
    if (peak_bytes) {
        *peak_bytes = peak;
    }
    return rss;
}

static void touch(void *memory, uint64_t len)
{
    volatile unsigned char *bytes = memory;
    for (uint64_t i = 0; i < len; i += PAGE_BYTES) {
        bytes[i] = bytes[i];
    }
}

static int state_init(struct gb_worker_state *state, const struct gb_worker *worker)
{
    memset(state, 0, sizeof(*state));
    state->worker = worker;
    state->windows = calloc(worker->config.workers, sizeof(*state->windows));
    if (!state->windows) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < worker->config.workers; i++) {
        int rc = gb_content_window_open(&state->windows[i], worker->content);
        if (rc < 0) {
            return rc;
        }
        state->window_count++;
    }
    touch(worker->shared, worker->shared->mapped_bytes);
    if (worker->churn) {
        touch(worker->churn, worker->churn->mapped_bytes);
    }
    state->harness_bytes = resident_bytes(NULL);
    return 0;
}

/* Populating is over: all windows but the first are given back, and no longer counted. */
static void state_release_windows(struct gb_worker_state *state)
{
    uint64_t before = resident_bytes(NULL);
    while (state->window_count > 1) {
        gb_content_window_close(&state->windows[--state->window_count]);
    }
    uint64_t after = resident_bytes(NULL);
    uint64_t freed = before > after ? before - after : 0;
    state->harness_bytes -= freed < state->harness_bytes ? freed : state->harness_bytes;
}

void gb_worker_device(const struct gb_worker_state *state, struct gb_engine_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    if (state->engine) {
        state->worker->ops->stats(state->engine, stats);
    }
    if (!stats->known) {
        struct gb_procfs_io io = {0};
        gb_procfs_io(&io);
        stats->device_reads = io.reads - stats->bench_reads;
        stats->device_read_bytes = io.read_bytes;
        stats->device_writes = io.writes;
        stats->device_write_bytes = io.write_bytes;
    }
}

void gb_worker_gained(const struct gb_worker_state *state, struct gb_engine_stats *from)
{
    struct gb_engine_stats now;
    gb_worker_device(state, &now);
    from->device_reads = now.device_reads - from->device_reads;
    from->device_read_bytes = now.device_read_bytes - from->device_read_bytes;
    from->device_writes = now.device_writes - from->device_writes;
    from->device_write_bytes = now.device_write_bytes - from->device_write_bytes;
    from->promotions = now.promotions - from->promotions;
    from->arena_moved_bytes = now.arena_moved_bytes - from->arena_moved_bytes;
    from->memory_used_bytes = now.memory_used_bytes;
}

static int state_reopen(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    const struct gb_worker *worker = state->worker;
    state_release_windows(state);
    gb_procfs_reset_peak();
    uint64_t started_ns = gb_progress_now_ns();
    enum gb_engine_phase phase = worker->churn ? GB_ENGINE_CHURN : GB_ENGINE_REPLAY;
    int rc = worker->ops->open(&state->engine, &worker->config, phase, &reply->error);
    if (rc < 0) {
        return rc;
    }
    if (worker->schedule->count > 0) {
        rc = gb_worker_check(state, worker->schedule->objects[0], reply);
    }
    uint64_t opened_ns = gb_progress_now_ns();
    if (rc >= 0 && worker->ops->warm) {
        rc = worker->ops->warm(state->engine);
    }
    reply->seconds = (double)(opened_ns - started_ns) / 1e9;
    reply->warm_seconds = (double)(gb_progress_now_ns() - opened_ns) / 1e9;
    if (rc < 0) {
        gb_explain_set(&reply->error, "the first get after reopening failed (%d)", rc);
    }
    return rc < 0 ? rc : 0;
}

static int state_end(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    int rc = 0;
    if (state->engine) {
        rc = state->worker->ops->close(state->engine);
        state->engine = NULL;
    }
    if (rc < 0) {
        gb_explain_set(&reply->error, "closing failed (%d)", rc);
    }
    return rc;
}

static int state_obey(struct gb_worker_state *state, const struct gb_worker_order *order,
                      struct gb_worker_reply *reply)
{
    atomic_store_explicit(&state->worker->shared->done_bytes, 0, memory_order_relaxed);
    switch (order->verb) {
    case GB_WORKER_POPULATE:
        gb_procfs_reset_peak();
        return gb_worker_populate(state, reply);
    case GB_WORKER_REOPEN:
        return state_reopen(state, reply);
    case GB_WORKER_PROBE:
        return state->worker->ops->probe(state->engine, order->first, (unsigned)order->count,
                                         order->first, &reply->probe_us);
    case GB_WORKER_REPLAY:
        return gb_worker_replay(state, order, reply);
    case GB_WORKER_VERIFY:
        return gb_worker_verify(state, reply);
    case GB_WORKER_AGE:
        return gb_worker_age(state, order, reply);
    case GB_WORKER_PHASE:
        return gb_worker_phase(state, order, reply);
    case GB_WORKER_SETTLE:
        return gb_worker_settle(state, reply);
    case GB_WORKER_INSPECT:
        return gb_worker_inspect(state, reply);
    case GB_WORKER_END:
        return state_end(state, reply);
    }
    return -EINVAL;
}

static void reply_send(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    uint64_t peak = 0;
    resident_bytes(&peak);
    reply->harness_bytes = state->harness_bytes;
    reply->peak_bytes = peak > state->harness_bytes ? peak - state->harness_bytes : 0;
    if (send(state->worker->fd, reply, sizeof(*reply), MSG_NOSIGNAL) != (ssize_t)sizeof(*reply)) {
        _exit(1);
    }
}

static _Noreturn void worker_main(const struct gb_worker *worker)
{
    static const struct gb_worker_reply empty;
    struct gb_worker_state state;
    struct gb_worker_order order = {0};
    struct gb_worker_reply reply = empty;
    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    reply.result = state_init(&state, worker);
    if (reply.result < 0) {
        gb_explain_set(&reply.error, "prepare: %s", strerror(-reply.result));
    }
    reply_send(&state, &reply);
    while (order.verb != GB_WORKER_END &&
           recv(worker->fd, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
        reply = empty;
        reply.result = state_obey(&state, &order, &reply);
        reply_send(&state, &reply);
    }
    _exit(0);
}

/* ---- the bench ----------------------------------------------------------------------------- */

int gb_worker_start(struct gb_worker *worker, struct goblin_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        gb_explain_set(error, "socketpair: %s", strerror(errno));
        return -errno;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        gb_explain_set(error, "fork: %s", strerror(errno));
        close(pair[0]);
        close(pair[1]);
        return -errno;
    }
    if (pid == 0) {
        close(pair[0]);
        worker->fd = pair[1];
        worker_main(worker);
    }
    close(pair[1]);
    worker->fd = pair[0];
    worker->pid = pid;
    return 0;
}

int gb_worker_send(struct gb_worker *worker, const struct gb_worker_order *order,
                   struct goblin_error *error)
{
    if (send(worker->fd, order, sizeof(*order), MSG_NOSIGNAL) != (ssize_t)sizeof(*order)) {
        gb_explain_set(error, "%s: its process is gone: %s", worker->ops->name, strerror(errno));
        return -errno;
    }
    return 0;
}

static int worker_died(struct gb_worker *worker, struct goblin_error *error)
{
    int status = 0;
    waitpid(worker->pid, &status, 0);
    worker->pid = 0;
    if (WIFSIGNALED(status)) {
        gb_explain_set(
            error, "%s: its process was ended by signal %d%s", worker->ops->name, WTERMSIG(status),
            WTERMSIG(status) == SIGKILL ? " (out of memory? give a smaller --scale)" : "");
    } else {
        gb_explain_set(error, "%s: its process ended with status %d", worker->ops->name,
                       WEXITSTATUS(status));
    }
    return -ECHILD;
}

int gb_worker_receive(struct gb_worker *worker, int timeout_ms, struct gb_worker_reply *reply,
                      struct goblin_error *error)
{
    struct pollfd ready = {.fd = worker->fd, .events = POLLIN};
    int count = poll(&ready, 1, timeout_ms);
    if (count <= 0) {
        return count < 0 && errno != EINTR ? -errno : 0;
    }
    ssize_t got = recv(worker->fd, reply, sizeof(*reply), 0);
    if (got != (ssize_t)sizeof(*reply)) {
        return worker_died(worker, error);
    }
    if (reply->result < 0) {
        gb_explain_set(error, "%s: %s", worker->ops->name,
                       reply->error.text[0] ? reply->error.text : goblin_strerror(reply->result));
        return reply->result;
    }
    return 1;
}

void gb_worker_stop(struct gb_worker *worker)
{
    if (worker->pid > 0) {
        kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        worker->pid = 0;
        close(worker->fd);
        worker->fd = -1;
    }
}
