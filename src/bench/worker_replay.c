/*
 * Replays requests, and checks bytes.
 *
 * A request's clock starts before the engine is called and stops at the last chunk's callback,
 * whose first act is to read the clock. Of every chunk the callback copies the first and last 64
 * bytes aside; they are compared with the generator after the request (with real files only the
 * length is: reading them would show among the device's figures). Of every so many requests the
 * object is read once more, every byte compared, outside all figures.
 */
#include "bench/explain.h"
#include "bench/progress.h"
#include "bench/samples.h"
#include "bench/worker.h"

#include <errno.h>
#include <stdbool.h>

struct request {
    uint64_t started_ns;
    struct gb_chunk *chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    struct gb_samples samples;
};

static void request_on_chunk(void *arg, const void *data, size_t len)
{
    uint64_t now_ns = gb_progress_now_ns();
    struct request *request = arg;
    uint64_t ready_ns = now_ns - request->started_ns;
    if (request->chunk_count < request->chunk_capacity) {
        request->chunks[request->chunk_count++] = (struct gb_chunk){len, ready_ns};
    } else {
        /* More chunks than any value of this size should have: the later time for both. */
        struct gb_chunk *merged = &request->chunks[request->chunk_count - 1];
        merged->bytes += len;
        merged->ready_ns = ready_ns;
    }
    gb_samples_add(&request->samples, data, len);
}

struct object_window {
    struct gb_content_window *window;
    uint64_t object;
};

static bool object_same(void *arg, uint64_t offset, const void *data, size_t len)
{
    const struct object_window *at = arg;
    return gb_content_window_verify(at->window, at->object, offset, data, len);
}

static bool request_is_bad(const struct request *request, struct gb_content_window *window,
                           uint64_t object, struct gb_worker_reply *reply)
{
    struct object_window at = {window, object};
    if (request->samples.bytes != window->content->corpus->sizes[object]) {
        return true;
    }
    return window->content->generated &&
           !gb_samples_match(&request->samples, object_same, &at, &reply->verified_bytes);
}

/* ---- one whole value compared -------------------------------------------------------------- */

struct check {
    struct gb_content_window *window;
    uint64_t object;
    uint64_t bytes;
    uint64_t verified;
    bool is_bad;
};

static void check_on_chunk(void *arg, const void *data, size_t len)
{
    struct check *check = arg;
    if (data && len > 0) {
        bool same = gb_content_window_verify(check->window, check->object, check->bytes, data, len);
        check->is_bad = check->is_bad || !same;
        check->verified += len;
    }
    check->bytes += len;
}

int gb_worker_check(struct gb_worker_state *state, uint64_t object, struct gb_worker_reply *reply)
{
    const struct gb_corpus *corpus = state->worker->content->corpus;
    char text[GB_CORPUS_KEY_MAX];
    struct gb_engine_key key = {text, gb_corpus_key(corpus, object, text), object};
    struct check check = {.window = &state->windows[0], .object = object};
    const struct gb_engine_get get = {
        .key = &key, .chunk = check_on_chunk, .arg = &check, .quiet = true};
    int answer = state->worker->ops->get(state->engine, &get);
    if (answer < 0) {
        gb_explain_set(&reply->error, "get of object %llu failed (%d)", (unsigned long long)object,
                       answer);
        return answer;
    }
    /* An evicted object is a miss, which the replay counts; here only bytes can be wrong. */
    if (answer != GB_ENGINE_MISS && (check.is_bad || check.bytes != corpus->sizes[object])) {
        reply->verify_failures++;
    }
    reply->verified_bytes += check.verified;
    return answer;
}

/* Takes the check's own device reads out of the order's figures. */
static int replay_check(struct gb_worker_state *state, uint64_t object,
                        struct gb_worker_reply *reply)
{
    struct gb_engine_stats spent;
    gb_worker_device(state, &spent);
    int answer = gb_worker_check(state, object, reply);
    gb_worker_gained(state, &spent);
    reply->device.device_reads += spent.device_reads;
    reply->device.device_read_bytes += spent.device_read_bytes;
    return answer;
}

static int replay_one(struct gb_worker_state *state, uint64_t object, struct request *request,
                      struct gb_worker_record *record)
{
    char text[GB_CORPUS_KEY_MAX];
    struct gb_engine_key key = {text, gb_corpus_key(state->worker->content->corpus, object, text),
                                object};
    const struct gb_engine_get get = {.key = &key, .chunk = request_on_chunk, .arg = request};
    request->chunk_count = 0;
    gb_samples_clear(&request->samples);
    request->started_ns = gb_progress_now_ns();
    int answer = state->worker->ops->get(state->engine, &get);
    if (answer < 0) {
        return answer;
    }
    uint64_t missed_ns = gb_progress_now_ns() - request->started_ns;
    uint32_t count = request->chunk_count;
    *record = (struct gb_worker_record){
        .first_ns = count ? request->chunks[0].ready_ns : missed_ns,
        .last_ns = count ? request->chunks[count - 1].ready_ns : missed_ns,
        .bytes = request->samples.bytes,
        .chunk_count = count,
        .answer = (uint8_t)answer,
    };
    return answer;
}

static int replay_requests(struct gb_worker_state *state, const struct gb_worker_order *order,
                           struct request *request, struct gb_worker_reply *reply)
{
    const struct gb_worker *worker = state->worker;
    struct gb_worker_shared *shared = worker->shared;
    uint64_t chunks_used = 0;
    for (uint64_t i = 0; i < order->count; i++) {
        uint64_t index = order->first + i;
        uint64_t object = worker->schedule->objects[index];
        struct gb_worker_record *record = &shared->records[i];
        /* Every later request keeps one place at least. */
        uint64_t left = shared->chunk_capacity - chunks_used - (order->count - i - 1);
        request->chunks = shared->chunks + chunks_used;
        request->chunk_capacity = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
        int answer = replay_one(state, object, request, record);
        if (answer < 0) {
            gb_explain_set(&reply->error, "get of object %llu failed: %s",
                           (unsigned long long)object, goblin_strerror(answer));
            return answer;
        }
        chunks_used += record->chunk_count;
        if (answer != GB_ENGINE_MISS) {
            record->is_bad = request_is_bad(request, &state->windows[0], object, reply);
            reply->verify_failures += record->is_bad;
        }
        if (worker->verify_every && worker->ops->keeps_bytes && index % worker->verify_every == 0) {
            answer = replay_check(state, object, reply);
            if (answer < 0) {
                return answer;
            }
        }
        atomic_fetch_add_explicit(&shared->done_bytes, record->bytes, memory_order_relaxed);
    }
    return 0;
}

int gb_worker_replay(struct gb_worker_state *state, const struct gb_worker_order *order,
                     struct gb_worker_reply *reply)
{
    struct request request = {0};
    struct gb_engine_stats gained;
    if (order->count > state->worker->shared->record_capacity) {
        return -E2BIG;
    }
    int rc = gb_samples_init(&request.samples);
    if (rc < 0) {
        return rc;
    }
    gb_worker_device(state, &gained);
    rc = replay_requests(state, order, &request, reply);
    gb_worker_gained(state, &gained);
    gained.device_reads -= reply->device.device_reads;
    gained.device_read_bytes -= reply->device.device_read_bytes;
    reply->device = gained;
    gb_samples_fini(&request.samples);
    return rc;
}

int gb_worker_verify(struct gb_worker_state *state, struct gb_worker_reply *reply)
{
    const struct gb_corpus *corpus = state->worker->content->corpus;
    for (uint64_t object = 0; object < corpus->count; object++) {
        int answer = gb_worker_check(state, object, reply);
        if (answer < 0) {
            return answer;
        }
        atomic_fetch_add_explicit(&state->worker->shared->done_bytes, corpus->sizes[object],
                                  memory_order_relaxed);
    }
    return 0;
}
