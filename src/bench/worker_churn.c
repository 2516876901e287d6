/*
 * Reads beside overwrites, in the process of the engine that is measured.
 *
 * The process's first thread reads, always the same one, because some engines count by thread; a
 * second one overwrites while a stretch is busy. A read's clock stops at its last chunk's callback;
 * the ends of its chunks are compared afterwards, and so is the version they are of.
 */
#include "bench/churn_store.h"
#include "bench/explain.h"
#include "bench/pace.h"
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/samples.h"
#include "bench/worker.h"

#include "base/bits.h"
#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    REFUSED_PAUSE_NS = 1000 * 1000,
    QUIET_POLL_NS = 50 * 1000 * 1000,
    QUIET_POLLS = 10,
    QUIET_POLLS_MAX = 1200, /* a minute */
};

static const uint64_t second_ns = UINT64_C(1000000000);

static int fail(struct gb_worker_reply *reply, const char *what, int rc)
{
    gb_explain_set(&reply->error, "%s: %s", what, goblin_strerror(rc));
    return rc;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- counts -------------------------------------------------------------------------------- */

static int count_writes(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    struct gb_churn_counts *counts = &state->worker->churn->counts;
    struct gb_engine_stats stats;
    struct gb_procfs_io io = {0};
    state->worker->ops->stats(state->engine, &stats);
    int rc = gb_procfs_io(&io);
    if (rc < 0) {
        return fail(reply, "/proc/self/io", rc);
    }
    counts->engine_user_bytes = stats.counted_user_bytes;
    counts->engine_bytes = stats.counted_write_bytes;
    counts->live_bytes = stats.live_bytes;
    counts->disk_used_bytes = stats.disk_used_bytes;
    counts->disk_file_bytes = stats.disk_file_bytes;
    counts->process_bytes = io.write_bytes;
    counts->has_device = gb_procfs_device(state->worker->config.dir, &counts->device_bytes) == 0;
    return 0;
}

/* ---- overwriting --------------------------------------------------------------------------- */

struct overwriter {
    struct gb_worker_state *state;
    struct gb_rng rng;
    uint64_t value; /* being put: version and object */
    uint64_t size;
    uint64_t end_ns;
    int result;
};

static void overwriter_init(struct overwriter *overwriter, struct gb_worker_state *state,
                            uint64_t end_ns)
{
    const struct gb_churn_store *store = state->worker->churn;
    *overwriter = (struct overwriter){.state = state, .end_ns = end_ns};
    gb_rng_init(&overwriter->rng, store->seed ^ gb_rng_mix(store->counts.user_bytes));
}

static const void *overwriter_window(void *arg, uint64_t offset, size_t len)
{
    struct overwriter *overwriter = arg;
    return gb_payload_window_prepare(&overwriter->state->windows[0].payload, overwriter->value,
                                     overwriter->size, offset, len);
}

/* Puts the next version of a random object: 1, 0 if the store was full, or a fault. */
static int overwrite(struct overwriter *overwriter, struct gb_churn_operation *operation)
{
    const struct gb_worker *worker = overwriter->state->worker;
    struct gb_churn_store *store = worker->churn;
    uint64_t object = gb_rng_below(&overwriter->rng, store->object_count);
    struct gb_churn_versions *versions = &store->versions[object];
    uint32_t version = atomic_load_explicit(&versions->begun, memory_order_relaxed) + 1;
    char text[GB_CORPUS_KEY_MAX];
    struct gb_engine_key key = {text, gb_corpus_key(worker->content->corpus, object, text), object};
    overwriter->value = gb_churn_value(object, version);
    overwriter->size = worker->content->corpus->sizes[object];
    struct gb_engine_value value = {overwriter->size, overwriter_window, overwriter};
    atomic_store_explicit(&versions->begun, version, memory_order_release);
    uint64_t started_ns = gb_progress_now_ns();
    int rc = worker->ops->put(overwriter->state->engine, 0, &key, &value);
    if (rc == -ENOSPC) {
        const struct timespec pause = {.tv_nsec = REFUSED_PAUSE_NS};
        store->refused++;
        nanosleep(&pause, NULL);
        return 0;
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t ended_ns = gb_progress_now_ns();
    atomic_store_explicit(&versions->ended, version, memory_order_release);
    store->counts.user_bytes += key.len + value.size;
    atomic_fetch_add_explicit(&worker->shared->done_bytes, value.size, memory_order_relaxed);
    *operation = (struct gb_churn_operation){
        .ended_ns = ended_ns, .took_ns = ended_ns - started_ns, .bytes = value.size};
    return 1;
}

static void *overwriter_run(void *arg)
{
    struct overwriter *overwriter = arg;
    struct gb_churn_store *store = overwriter->state->worker->churn;
    struct gb_pace pace = {.started_ns = gb_progress_now_ns(), .per_s = store->write_rate};
    struct gb_churn_operation operation;
    while (gb_pace_wait(&pace, overwriter->end_ns), gb_progress_now_ns() < overwriter->end_ns) {
        int rc = overwrite(overwriter, &operation);
        if (rc < 0) {
            overwriter->result = rc;
            break;
        }
        if (rc > 0) {
            pace.taken += operation.bytes;
            gb_churn_tally_add(&store->writes, &operation);
            gb_churn_timeline_add(&store->write_timeline, &operation);
        }
    }
    return NULL;
}

int gb_worker_age(struct gb_worker_state *state, const struct gb_worker_order *order,
                  struct gb_worker_reply *reply)
{
    struct gb_churn_store *store = state->worker->churn;
    struct gb_churn_operation operation;
    struct overwriter overwriter;
    overwriter_init(&overwriter, state, 0);
    uint64_t started_ns = gb_progress_now_ns();
    uint64_t until_bytes = store->counts.user_bytes + order->count;
    uint64_t refused = store->refused;
    while (store->counts.user_bytes < until_bytes) {
        int rc = overwrite(&overwriter, &operation);
        if (rc == 0 && store->refused - refused > second_ns / REFUSED_PAUSE_NS * 10) {
            rc = -ENOSPC; /* ten seconds' worth: it does not make room */
        }
        if (rc < 0) {
            return fail(reply, "overwriting flat out", rc);
        }
    }
    reply->seconds = (double)(gb_progress_now_ns() - started_ns) / 1e9;
    return count_writes(state, reply);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct reading {
    struct gb_samples samples;
    uint64_t last_ns;
};

static void reading_on_chunk(void *arg, const void *data, size_t len)
{
    struct reading *reading = arg;
    reading->last_ns = gb_progress_now_ns();
    gb_samples_add(&reading->samples, data, len);
}

struct claim {
    const struct gb_payload *payload;
    uint64_t value;
    uint64_t size;
};

static bool claim_holds(void *arg, uint64_t offset, const void *data, size_t len)
{
    const struct claim *claim = arg;
    return gb_payload_verify(claim->payload, claim->value, claim->size, offset, data, len);
}

/* What was read claims to be `value`, and its bytes hold (`same`) or not. */
static void judge(struct gb_churn_store *store, uint64_t object, uint32_t oldest,
                  const struct claim *claim, bool same)
{
    uint32_t version = gb_churn_value_version(claim->value);
    uint32_t newest = atomic_load_explicit(&store->versions[object].begun, memory_order_acquire);
    if (!same || claim->value != gb_churn_value(object, version)) {
        store->wrong++;
    } else if (version < oldest || version > newest) {
        store->stale++;
    }
}

static int read_one(struct gb_worker_state *state, uint64_t object, struct reading *reading,
                    struct gb_churn_operation *operation)
{
    const struct gb_worker *worker = state->worker;
    struct gb_churn_store *store = worker->churn;
    char text[GB_CORPUS_KEY_MAX];
    struct gb_engine_key key = {text, gb_corpus_key(worker->content->corpus, object, text), object};
    const struct gb_engine_get get = {.key = &key, .chunk = reading_on_chunk, .arg = reading};
    uint32_t oldest = atomic_load_explicit(&store->versions[object].ended, memory_order_acquire);
    gb_samples_clear(&reading->samples);
    reading->last_ns = 0;
    int answer = worker->ops->get(state->engine, &get);
    if (answer < 0) {
        return answer;
    }
    operation->ended_ns = reading->last_ns ? reading->last_ns : gb_progress_now_ns();
    operation->bytes = reading->samples.bytes;
    operation->is_disk = answer == GB_ENGINE_DISK;
    operation->is_miss = answer == GB_ENGINE_MISS;
    if (answer != GB_ENGINE_MISS) {
        struct claim claim = {&worker->content->payload, 0, worker->content->corpus->sizes[object]};
        uint64_t compared = 0;
        bool same = reading->samples.bytes == claim.size && reading->samples.count > 0 &&
                    reading->samples.items[0].len >= GB_PAYLOAD_STAMP_BYTES;
        claim.value = same ? gb_payload_claimed(reading->samples.items[0].first) : 0;
        same = same && gb_samples_match(&reading->samples, claim_holds, &claim, &compared);
        judge(store, object, oldest, &claim, same);
    }
    return answer;
}

static int read_until(struct gb_worker_state *state, struct gb_churn_tally *tally, uint64_t end_ns,
                      struct gb_rng *rng)
{
    struct gb_churn_store *store = state->worker->churn;
    struct gb_pace pace = {.started_ns = gb_progress_now_ns(), .per_s = store->read_rate};
    struct reading reading;
    int rc = gb_samples_init(&reading.samples);
    while (rc >= 0) {
        uint64_t from_ns = gb_pace_wait(&pace, end_ns);
        if (gb_progress_now_ns() >= end_ns) {
            break;
        }
        struct gb_churn_operation operation;
        rc = read_one(state, gb_rng_below(rng, store->object_count), &reading, &operation);
        if (rc >= 0) {
            pace.taken++;
            operation.took_ns = operation.ended_ns - from_ns;
            gb_churn_tally_add(tally, &operation);
            gb_churn_timeline_add(&store->read_timeline, &operation);
        }
    }
    gb_samples_fini(&reading.samples);
    return rc < 0 ? rc : 0;
}

/* ---- stretches ----------------------------------------------------------------------------- */

static int run_busy(struct gb_worker_state *state, uint64_t end_ns, struct gb_rng *rng)
{
    struct gb_churn_store *store = state->worker->churn;
    struct overwriter overwriter;
    pthread_t thread;
    overwriter_init(&overwriter, state, end_ns);
    int rc = -pthread_create(&thread, NULL, overwriter_run, &overwriter);
    if (rc < 0) {
        return rc;
    }
    rc = read_until(state, &store->reads[GB_CHURN_BUSY], end_ns, rng);
    pthread_join(thread, NULL);
    return rc < 0 ? rc : overwriter.result;
}

int gb_worker_phase(struct gb_worker_state *state, const struct gb_worker_order *order,
                    struct gb_worker_reply *reply)
{
    struct gb_churn_store *store = state->worker->churn;
    uint32_t first = (uint32_t)store->seconds;
    uint32_t end = (uint32_t)(store->seconds + order->count);
    if (order->first >= GB_CHURN_PHASES || order->count == 0 || end > GB_CHURN_SECONDS_MAX) {
        return fail(reply, "a stretch", -EINVAL);
    }
    bool busy = order->first == GB_CHURN_BUSY;
    struct gb_churn_tally *tally = &store->reads[order->first];
    struct gb_rng rng;
    gb_rng_init(&rng, store->seed + first);
    memset(store->phases + first, (int)order->first, order->count);
    double cpu = cpu_seconds();
    uint64_t now_ns = gb_progress_now_ns();
    uint64_t end_ns = now_ns + order->count * second_ns;
    gb_churn_tally_begin(tally, now_ns);
    gb_churn_timeline_begin(&store->read_timeline, first, end, now_ns);
    if (busy) {
        gb_churn_tally_begin(&store->writes, now_ns);
        gb_churn_timeline_begin(&store->write_timeline, first, end, now_ns);
    }
    int rc = busy ? run_busy(state, end_ns, &rng) : read_until(state, tally, end_ns, &rng);
    now_ns = gb_progress_now_ns();
    gb_churn_tally_end(tally, now_ns);
    gb_churn_timeline_end(&store->read_timeline);
    if (busy) {
        gb_churn_tally_end(&store->writes, now_ns);
        gb_churn_timeline_end(&store->write_timeline);
    }
    store->cpu_seconds[order->first] += cpu_seconds() - cpu;
    store->seconds = end;
    return rc < 0 ? fail(reply, busy ? "reads beside overwrites" : "reads", rc)
                  : count_writes(state, reply);
}

int gb_worker_settle(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    struct gb_churn_store *store = state->worker->churn;
    const struct timespec pause = {.tv_nsec = QUIET_POLL_NS};
    uint64_t started_ns = gb_progress_now_ns();
    int rc = state->worker->ops->barrier(state->engine, &reply->error);
    uint64_t written = 0;
    int quiet = 0;
    for (int i = 0; i < QUIET_POLLS_MAX && quiet < QUIET_POLLS && rc >= 0; i++) {
        nanosleep(&pause, NULL);
        rc = count_writes(state, reply);
        quiet = store->counts.process_bytes == written ? quiet + 1 : 0;
        written = store->counts.process_bytes;
    }
    store->quiet = quiet == QUIET_POLLS;
    store->settle_seconds = (double)(gb_progress_now_ns() - started_ns) / 1e9;
    return rc < 0 ? rc : 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

struct inspection {
    struct claim claim;
    uint64_t bytes;
    bool same;
};

static void inspection_on_chunk(void *arg, const void *data, size_t len)
{
    struct inspection *inspection = arg;
    if (inspection->bytes == 0) {
        inspection->same = len >= GB_PAYLOAD_STAMP_BYTES;
        inspection->claim.value = inspection->same ? gb_payload_claimed(data) : 0;
    }
    inspection->same =
        inspection->same && claim_holds(&inspection->claim, inspection->bytes, data, len);
    inspection->bytes += len;
}

int gb_worker_inspect(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    const struct gb_worker *worker = state->worker;
    const struct gb_corpus *corpus = worker->content->corpus;
    struct gb_churn_store *store = worker->churn;
    for (uint64_t object = 0; object < corpus->count; object++) {
        struct inspection inspection = {
            .claim = {&worker->content->payload, 0, corpus->sizes[object]}};
        char text[GB_CORPUS_KEY_MAX];
        struct gb_engine_key key = {text, gb_corpus_key(corpus, object, text), object};
        const struct gb_engine_get get = {
            .key = &key, .chunk = inspection_on_chunk, .arg = &inspection, .quiet = true};
        int answer = worker->ops->get(state->engine, &get);
        if (answer < 0) {
            return fail(reply, "get", answer);
        }
        store->checked++;
        store->lost += answer == GB_ENGINE_MISS;
        if (answer != GB_ENGINE_MISS) {
            uint32_t oldest = atomic_load(&store->versions[object].ended);
            judge(store, object, oldest, &inspection.claim,
                  inspection.same && inspection.bytes == corpus->sizes[object]);
        }
        atomic_fetch_add_explicit(&worker->shared->done_bytes, corpus->sizes[object],
                                  memory_order_relaxed);
    }
    return 0;
}
