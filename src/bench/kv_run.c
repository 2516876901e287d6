/* A task in its engine's process: open, warm up, measure, settle, close. */
#include "bench/kv_thread.h"

#include "bench/cgroup.h"
#include "bench/explain.h"
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/scratch.h"

#include "base/bits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    QUIET_POLL_NS = 50 * 1000 * 1000,
    QUIET_POLLS = 10,
    SOME_SHARE = 10,
};

static const double ns_per_s = 1e9;

struct task {
    const struct gb_kv_task *given;
    struct gb_kv_result *result;
    struct gb_kv_run run;
    uint64_t written_before;
};

static int fail(struct task *task, const char *what, int rc)
{
    if (!task->result->error.text[0]) {
        gb_explain_set(&task->result->error, "%s: %s", what, goblin_strerror(rc));
    } else {
        gb_explain_wrap(&task->result->error, what);
    }
    return rc;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static uint64_t written_bytes(void)
{
    struct gb_procfs_io io = {0};
    return gb_procfs_io(&io) == 0 ? io.write_bytes : 0;
}

/* ---- threads ------------------------------------------------------------------------------- */

struct crew {
    struct gb_kv_thread **threads; /* [count], the writer last */
    unsigned count;
};

static void crew_fini(struct crew *crew)
{
    for (unsigned i = 0; i < crew->count; i++) {
        gb_kv_thread_destroy(crew->threads[i]);
    }
    free(crew->threads);
}

/* Threads that do the step, and one that writes if it has such. Fills are done by one. */
static int crew_init(struct crew *crew, struct task *task)
{
    const struct gb_kv_step *step = task->given->step;
    unsigned doing = step->kind == GB_KV_FILL ? 1 : task->given->config.threads;
    int rc = 0;
    crew->count = 0;
    crew->threads = calloc(doing + 1, sizeof(struct gb_kv_thread *));
    if (!crew->threads) {
        return -ENOMEM;
    }
    task->run.writers = step->writer ? 1 : doing;
    for (unsigned i = 0; i < doing + step->writer && rc == 0; i++) {
        crew->threads[i] = gb_kv_thread_create(&task->run, i, i == doing, &rc);
        if (crew->threads[i]) {
            crew->threads[i]->write_rate = i == doing ? task->given->write_rate : 0;
            crew->count++;
        }
    }
    if (rc < 0) {
        crew_fini(crew);
    }
    return rc;
}

static void crew_aim(struct crew *crew, const struct gb_kv_task *task, double seconds)
{
    uint64_t until_ns = gb_progress_now_ns() + (uint64_t)(seconds * ns_per_s);
    enum gb_kv_kind kind = task->step->kind;
    bool counted = kind == GB_KV_FILL || kind == GB_KV_SOME;
    for (unsigned i = 0; i < crew->count; i++) {
        crew->threads[i]->until_ns = counted ? 0 : until_ns;
        crew->threads[i]->count =
            kind == GB_KV_FILL ? task->keys : task->keys / SOME_SHARE / crew->count;
    }
}

/* Each in a thread of its own; the first fault of any. */
static int crew_run(struct crew *crew)
{
    pthread_t *handles = calloc((size_t)crew->count + 1, sizeof(*handles));
    unsigned started = 0;
    int rc = handles ? 0 : -ENOMEM;
    for (; started < crew->count && rc == 0; started += rc == 0) {
        rc = -pthread_create(&handles[started], NULL, gb_kv_thread_run, crew->threads[started]);
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(handles[i], NULL);
        rc = rc < 0 ? rc : crew->threads[i]->rc;
    }
    free(handles);
    return rc;
}

/* ---- the measured part --------------------------------------------------------------------- */

static void take_faults(struct gb_kv_result *result, const struct gb_kv_thread *thread)
{
    result->wrong += thread->wrong;
    result->stale += thread->stale;
    result->missed += thread->missed;
}

static void take_figures(struct gb_kv_result *result, const struct crew *crew)
{
    static const double ns_per_us = 1e3;
    static const double ns_per_ms = 1e6;
    struct gb_histogram *all = calloc(1, sizeof(*all));
    if (!all) {
        result->code = -ENOMEM;
        return;
    }
    uint64_t longest_ns = 0;
    uint64_t gap_ns = 0;
    gb_histogram_init(all);
    for (unsigned i = 0; i < crew->count; i++) {
        const struct gb_kv_thread *thread = crew->threads[i];
        take_faults(result, thread);
        result->puts += thread->puts;
        if (thread->write_rate > 0) {
            continue;
        }
        const struct gb_churn_tally *tally = &thread->tally;
        gb_histogram_merge(all, &tally->all);
        result->entries += thread->entries;
        longest_ns = gb_max(longest_ns, tally->ns);
        gap_ns = gb_max(gap_ns, tally->gap_ns);
    }
    result->seconds = (double)longest_ns / ns_per_s;
    result->gap_ms = (double)gap_ns / ns_per_ms;
    result->ops = all->count;
    result->p50_us = gb_histogram_quantile(all, 0.5) / ns_per_us;
    result->p99_us = gb_histogram_quantile(all, 0.99) / ns_per_us;
    result->p999_us = gb_histogram_quantile(all, 0.999) / ns_per_us;
    result->max_us = all->count ? (double)all->most / ns_per_us : 0;
    free(all);
}

/* The step for a while with threads of its own; its figures count only if it is measured. */
static int stretch(struct task *task, double seconds, bool is_measured)
{
    struct gb_kv_result *result = task->result;
    struct crew crew;
    int rc = crew_init(&crew, task);
    if (rc < 0) {
        return fail(task, "threads", rc);
    }
    if (is_measured) {
        task->written_before = written_bytes();
        result->cpu_s = cpu_seconds();
    }
    crew_aim(&crew, task->given, seconds);
    rc = crew_run(&crew);
    if (is_measured) {
        result->cpu_s = cpu_seconds() - result->cpu_s;
        take_figures(result, &crew);
    } else {
        for (unsigned i = 0; i < crew.count; i++) {
            take_faults(result, crew.threads[i]);
        }
    }
    crew_fini(&crew);
    return rc < 0 ? fail(task, task->given->step->name, rc) : 0;
}

/* Reads every entry: a check, and where the cache holds them all a warm one. */
static int read_all(struct task *task)
{
    int rc = 0;
    struct gb_kv_thread *thread = gb_kv_thread_create(&task->run, 0, false, &rc);
    if (thread) {
        rc = gb_kv_thread_check(thread);
        task->result->entries += task->given->step->kind == GB_KV_CHECK ? thread->entries : 0;
        take_faults(task->result, thread);
        gb_kv_thread_destroy(thread);
    }
    return rc < 0 ? fail(task, "reading every entry", rc) : 0;
}

static int warm_up(struct task *task)
{
    const struct gb_kv_task *given = task->given;
    enum gb_kv_kind kind = given->step->kind;
    if (kind == GB_KV_FILL || kind == GB_KV_SOME) {
        return 0;
    }
    int rc = given->fill_cache ? read_all(task) : 0;
    return rc < 0 || given->warm_s <= 0 ? rc : stretch(task, given->warm_s, false);
}

/* ---- afterwards ---------------------------------------------------------------------------- */

/* The engine's own word first, then until the kernel sees no more writes for half a second. */
static int settle(struct task *task)
{
    const struct timespec pause = {.tv_nsec = QUIET_POLL_NS};
    struct gb_kv_result *result = task->result;
    uint64_t started_ns = gb_progress_now_ns();
    uint64_t until_ns = started_ns + (uint64_t)(task->given->settle_s * ns_per_s);
    int rc = 0;
    if (task->given->ops->settle) {
        rc = task->given->ops->settle(task->run.engine, until_ns, &result->error);
    }
    uint64_t written = written_bytes();
    int quiet = 0;
    while (rc == 0 && quiet < QUIET_POLLS && gb_progress_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        uint64_t now = written_bytes();
        quiet = now == written ? quiet + 1 : 0;
        written = now;
    }
    result->unsettled = quiet < QUIET_POLLS;
    result->settle_s = (double)(gb_progress_now_ns() - started_ns) / ns_per_s;
    result->write_bytes = written - task->written_before;
    return rc < 0 ? fail(task, "settle", rc) : 0;
}

static void weigh(struct task *task)
{
    const struct gb_kv_values *values = task->given->values;
    uint64_t keys = atomic_load(&task->given->shared->keys);
    task->result->live_bytes = keys * (values->key_len + values->value_len);
    (void)gb_scratch_usage(task->given->config.dir, &task->result->disk_bytes);
}

static int carry_out(struct task *task)
{
    const struct gb_kv_task *given = task->given;
    struct gb_kv_shared *shared = given->shared;
    if (given->step->kind == GB_KV_CHECK) {
        return read_all(task);
    }
    if (given->step->kind == GB_KV_FILL) {
        memset(shared->versions, 0, shared->capacity * sizeof(shared->versions[0]));
        atomic_store(&shared->keys, 0);
    } else if (given->step->kind == GB_KV_MIX) {
        gb_kv_zipf_init(&task->run.zipf, atomic_load(&shared->keys), given->zipf);
    }
    int rc = warm_up(task);
    rc = rc < 0 ? rc : stretch(task, given->seconds, true);
    if (rc == 0 && given->step->kind == GB_KV_FILL) {
        atomic_store(&shared->keys, given->keys);
    }
    rc = rc < 0 ? rc : settle(task);
    if (rc == 0) {
        weigh(task);
    }
    return rc;
}

void gb_kv_task_run(const struct gb_kv_task *given)
{
    struct gb_kv_result *result = &given->shared->result;
    struct task task = {.given = given, .result = result, .run = {.task = given}};
    memset(result, 0, sizeof(*result));
    pthread_mutex_init(&task.run.inserting, NULL);
    int rc = given->cgroup ? gb_cgroup_join(given->cgroup) : 0;
    if (rc < 0) {
        (void)fail(&task, "cgroup", rc);
    }
    if (rc == 0) {
        rc = given->ops->open(&task.run.engine, &given->config, &result->error);
    }
    if (rc == 0) {
        given->ops->version(task.run.engine, result->version, sizeof(result->version));
        rc = carry_out(&task);
        int closed = given->ops->close(task.run.engine);
        rc = rc < 0 || closed == 0 ? rc : fail(&task, "close", closed);
    }
    pthread_mutex_destroy(&task.run.inserting);
    result->code = result->code < 0 ? result->code : rc;
}
