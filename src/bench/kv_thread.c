/* One thread of a step: see kv_thread.h. */
#include "bench/kv_thread.h"

#include "base/bits.h"
#include "bench/pace.h"
#include "bench/progress.h"

#include <errno.h>
#include <stdlib.h>

enum {
    PERCENT = 100,
    RANGE_MIXED_MOST = 100, /* of YCSB E */
};

/* What one read must give: entries `first`, `first` + step, ... in their versions. */
struct claim {
    struct gb_kv_thread *thread;
    uint64_t numbers[GB_KV_BATCH_MAX];
    uint32_t oldest[GB_KV_BATCH_MAX];
    unsigned count;
    unsigned seen;
};

struct gb_kv_thread *gb_kv_thread_create(struct gb_kv_run *run, unsigned number, bool is_writer,
                                         int *rc)
{
    const struct gb_kv_task *task = run->task;
    struct gb_kv_thread *thread = calloc(1, sizeof(*thread));
    *rc = -ENOMEM;
    if (!thread) {
        return NULL;
    }
    thread->run = run;
    thread->number = number;
    thread->value = malloc(task->values->value_len);
    thread->keys = malloc(GB_KV_BATCH_MAX * task->values->key_len);
    gb_rng_init(&thread->rng, task->seed + gb_rng_mix(number + 1));
    gb_churn_tally_init(&thread->tally);
    bool has_memory = thread->value && thread->keys;
    if (has_memory && !is_writer && task->ops->attach) {
        *rc = task->ops->attach(run->engine, &thread->session);
    } else if (has_memory) {
        thread->session = run->engine;
        *rc = 0;
    }
    if (*rc < 0) {
        thread->session = NULL;
        gb_kv_thread_destroy(thread);
        return NULL;
    }
    return thread;
}

void gb_kv_thread_destroy(struct gb_kv_thread *thread)
{
    if (thread && thread->session && thread->session != thread->run->engine) {
        thread->run->task->ops->detach(thread->session);
    }
    if (thread) {
        free(thread->keys);
        free(thread->value);
        free(thread);
    }
}

static struct gb_churn_versions *versions_of(const struct gb_kv_thread *thread, uint64_t number)
{
    return &thread->run->task->shared->versions[number];
}

static uint64_t keys_now(const struct gb_kv_thread *thread)
{
    return atomic_load_explicit(&thread->run->task->shared->keys, memory_order_acquire);
}

/* ---- writing ------------------------------------------------------------------------------- */

static int put(struct gb_kv_thread *thread, uint64_t number, uint32_t version)
{
    const struct gb_kv_task *task = thread->run->task;
    struct gb_churn_versions *versions = versions_of(thread, number);
    unsigned char key[GB_KV_KEY_MOST];
    gb_kv_values_key(task->values, number, key);
    gb_kv_values_make(task->values, number, version, thread->value);
    atomic_store_explicit(&versions->begun, version, memory_order_release);
    int rc = task->ops->put(thread->run->engine, (struct gb_kv_bytes){key, task->values->key_len},
                            (struct gb_kv_bytes){thread->value, task->values->value_len});
    if (rc < 0) {
        return rc;
    }
    atomic_store_explicit(&versions->ended, version, memory_order_release);
    thread->puts++;
    return 0;
}

/* A number close to this one whose versions only this thread raises. */
static uint64_t own(const struct gb_kv_thread *thread, uint64_t number)
{
    unsigned writers = thread->run->writers;
    uint64_t mine = number - number % writers + thread->number % writers;
    uint64_t keys = keys_now(thread);
    return mine < keys ? mine : mine % writers; /* there are at least as many keys as threads */
}

static int update(struct gb_kv_thread *thread, uint64_t number)
{
    uint64_t mine = own(thread, number);
    uint32_t version =
        atomic_load_explicit(&versions_of(thread, mine)->begun, memory_order_relaxed);
    return put(thread, mine, version + 1);
}

static int update_any(struct gb_kv_thread *thread)
{
    return update(thread, gb_rng_below(&thread->rng, keys_now(thread)));
}

/* The next number there is not. A full table gets an update. */
static int insert(struct gb_kv_thread *thread)
{
    struct gb_kv_run *run = thread->run;
    struct gb_kv_shared *shared = run->task->shared;
    pthread_mutex_lock(&run->inserting);
    uint64_t number = atomic_load_explicit(&shared->keys, memory_order_relaxed);
    int rc = number < shared->capacity ? put(thread, number, 0) : 1;
    if (rc == 0) {
        atomic_store_explicit(&shared->keys, number + 1, memory_order_release);
    }
    pthread_mutex_unlock(&run->inserting);
    return rc == 1 ? update_any(thread) : rc;
}

static int fill(struct gb_kv_thread *thread, uint64_t i)
{
    const struct gb_kv_task *task = thread->run->task;
    uint64_t number = task->step->scattered ? gb_kv_values_scatter(i, task->keys, task->seed) : i;
    return put(thread, number, 0);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void expect(struct claim *claim, uint64_t number)
{
    const struct gb_churn_versions *versions = versions_of(claim->thread, number);
    claim->numbers[claim->count] = number;
    claim->oldest[claim->count++] = atomic_load_explicit(&versions->ended, memory_order_acquire);
}

static void judge(void *arg, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct claim *claim = arg;
    struct gb_kv_thread *thread = claim->thread;
    const struct gb_kv_values *values = thread->run->task->values;
    uint64_t number = 0;
    uint32_t version = 0;
    if (claim->seen == claim->count || !gb_kv_values_number(values, key, &number) ||
        number != claim->numbers[claim->seen] ||
        !gb_kv_values_version(values, number, value, &version)) {
        thread->wrong++;
        return;
    }
    uint32_t newest =
        atomic_load_explicit(&versions_of(thread, number)->begun, memory_order_acquire);
    thread->stale += version < claim->oldest[claim->seen] || version > newest;
    claim->seen++;
}

/* Of `found` entries, all that were expected? */
static int judged(struct claim *claim, int found)
{
    struct gb_kv_thread *thread = claim->thread;
    if (found < 0) {
        return found;
    }
    thread->entries += (uint64_t)found;
    if ((unsigned)found < claim->count) {
        thread->missed += claim->count - (unsigned)found;
    }
    return 0;
}

static int read_one(struct gb_kv_thread *thread, uint64_t number)
{
    const struct gb_kv_task *task = thread->run->task;
    struct claim claim = {.thread = thread, .count = 0};
    unsigned char key[GB_KV_KEY_MOST];
    gb_kv_values_key(task->values, number, key);
    expect(&claim, number);
    return judged(&claim,
                  task->ops->get(thread->session, (struct gb_kv_bytes){key, task->values->key_len},
                                 judge, &claim));
}

static int read_range(struct gb_kv_thread *thread, uint64_t number, unsigned count, bool reverse)
{
    const struct gb_kv_task *task = thread->run->task;
    struct claim claim = {.thread = thread, .count = 0};
    unsigned char key[GB_KV_KEY_MOST];
    uint64_t keys = keys_now(thread);
    uint64_t there = reverse ? number + 1 : keys - number;
    gb_kv_values_key(task->values, number, key);
    for (uint64_t i = 0; i < gb_min(count, there); i++) {
        expect(&claim, reverse ? number - i : number + i);
    }
    /* Only so many are asked for as are known to be there: inserts may add to the end meanwhile. */
    const struct gb_kv_range range = {
        .from = {key, task->values->key_len}, .count = claim.count, .reverse = reverse};
    return judged(&claim, task->ops->scan(thread->session, &range, judge, &claim));
}

static int read_several(struct gb_kv_thread *thread)
{
    const struct gb_kv_task *task = thread->run->task;
    struct claim claim = {.thread = thread, .count = 0};
    struct gb_kv_bytes keys[GB_KV_BATCH_MAX] = {{NULL, 0}};
    uint64_t there = keys_now(thread);
    size_t len = task->values->key_len;
    for (unsigned i = 0; i < task->batch; i++) {
        uint64_t number = gb_rng_below(&thread->rng, there);
        gb_kv_values_key(task->values, number, thread->keys + i * len);
        keys[i] = (struct gb_kv_bytes){thread->keys + i * len, len};
        expect(&claim, number);
    }
    if (task->ops->multiget) {
        return judged(&claim,
                      task->ops->multiget(thread->session, keys, claim.count, judge, &claim));
    }
    int found = 0;
    for (unsigned i = 0; i < claim.count && found >= 0; i++) {
        int rc = task->ops->get(thread->session, keys[i], judge, &claim);
        found = rc < 0 ? rc : found + rc;
    }
    return judged(&claim, found);
}

/* ---- mixes --------------------------------------------------------------------------------- */

/* A number by popularity: the popular ones lie scattered, or are the newest. */
static uint64_t popular(struct gb_kv_thread *thread)
{
    const struct gb_kv_run *run = thread->run;
    uint64_t keys = keys_now(thread);
    uint64_t rank = gb_kv_zipf_rank(&run->zipf, gb_rng_unit(&thread->rng));
    return run->task->step->mix.latest ? keys - 1 - rank % keys : gb_rng_mix(rank) % keys;
}

static int mixed(struct gb_kv_thread *thread)
{
    const struct gb_kv_mix *mix = &thread->run->task->step->mix;
    uint64_t draw = gb_rng_below(&thread->rng, PERCENT);
    if (draw < mix->insert) {
        return insert(thread);
    }
    uint64_t number = popular(thread);
    draw -= mix->insert;
    if (draw < mix->update) {
        return update(thread, number);
    }
    draw -= mix->update;
    if (draw < mix->scan) {
        uint64_t count = 1 + gb_rng_below(&thread->rng, RANGE_MIXED_MOST);
        return read_range(thread, number, (unsigned)count, false);
    }
    draw -= mix->scan;
    if (draw < mix->modify) {
        number = own(thread, number);
        int rc = read_one(thread, number);
        return rc < 0 ? rc : update(thread, number);
    }
    return read_one(thread, number);
}

/* ---- running ------------------------------------------------------------------------------- */

static int operate(struct gb_kv_thread *thread, uint64_t i)
{
    const struct gb_kv_task *task = thread->run->task;
    switch (task->step->kind) {
    case GB_KV_FILL:
        return fill(thread, i);
    case GB_KV_SOME:
    case GB_KV_WRITE:
        return update_any(thread);
    case GB_KV_READ:
        return read_one(thread, gb_rng_below(&thread->rng, keys_now(thread)));
    case GB_KV_MULTI:
        return read_several(thread);
    case GB_KV_RANGE:
        return read_range(thread, gb_rng_below(&thread->rng, keys_now(thread)), task->range,
                          task->step->reverse);
    case GB_KV_MIX:
        return mixed(thread);
    case GB_KV_CHECK:
        break;
    }
    return -EINVAL;
}

/* Writes at a rate, what came late as fast as may be. */
static int write_steadily(struct gb_kv_thread *thread)
{
    const struct gb_kv_values *values = thread->run->task->values;
    struct gb_pace pace = {.started_ns = gb_progress_now_ns(), .per_s = thread->write_rate};
    int rc = 0;
    while (rc == 0) {
        (void)gb_pace_wait(&pace, thread->until_ns);
        if (gb_progress_now_ns() >= thread->until_ns) {
            break;
        }
        rc = update_any(thread);
        pace.taken += values->key_len + values->value_len;
    }
    return rc;
}

void *gb_kv_thread_run(void *arg)
{
    struct gb_kv_thread *thread = arg;
    if (thread->write_rate > 0) {
        thread->rc = write_steadily(thread);
        return NULL;
    }
    uint64_t now_ns = gb_progress_now_ns();
    gb_churn_tally_begin(&thread->tally, now_ns);
    for (uint64_t i = 0; thread->until_ns ? now_ns < thread->until_ns : i < thread->count; i++) {
        thread->rc = operate(thread, i);
        if (thread->rc < 0) {
            break;
        }
        uint64_t ended_ns = gb_progress_now_ns();
        const struct gb_churn_operation done = {.ended_ns = ended_ns, .took_ns = ended_ns - now_ns};
        gb_churn_tally_add(&thread->tally, &done);
        now_ns = ended_ns;
    }
    gb_churn_tally_end(&thread->tally, now_ns);
    return NULL;
}

int gb_kv_thread_check(struct gb_kv_thread *thread)
{
    uint64_t keys = keys_now(thread);
    int rc = 0;
    for (uint64_t number = 0; number < keys && rc == 0; number += GB_KV_BATCH_MAX) {
        rc = read_range(thread, number, GB_KV_BATCH_MAX, false);
    }
    return rc;
}
