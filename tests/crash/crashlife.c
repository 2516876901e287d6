/* A victim's life. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "crash/crash.h"
#include "engine/store.h"

#define TICK_NS     1000000
#define COUNT_TICKS 10u

enum { EXIT_GOOD = 0, EXIT_BROKEN = 3 };

struct task {
    struct crash_victim *victim;
    unsigned thread;
};

static int64_t read_clock(void *arg)
{
    return atomic_load(&((struct crash_shared *)arg)->now_ms);
}

static void keep_line(void *arg, enum goblin_log_level level, const char *line)
{
    const struct crash_shared *shared = arg;
    char text[600];
    int len = snprintf(text, sizeof(text), "life %u: [%d] %s\n", shared->life, (int)level, line);
    if (write(shared->setting.log_fd, text, (size_t)len) < 0) {
        (void)crash_fail(arg, "the store's log cannot be written");
    }
}

static void *work(void *arg)
{
    const struct task *task = arg;
    crash_work(task->victim, task->thread);
    return NULL;
}

static bool reclaims(struct goblin *store)
{
    struct gb_segments *segments = &store->segments;
    bool found = false;
    (void)pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < segments->count; i++) {
        found |= segments->table[i].status == GB_SEGMENT_RECLAIMING;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return found;
}

/* Tells the killer what goes on, and for how long this process was kept from running. */
static void *tick(void *arg)
{
    struct crash_victim *victim = arg;
    struct crash_shared *shared = victim->shared;
    for (unsigned n = 1; atomic_load(&shared->phase) != CRASH_CLOSES; n++) {
        int64_t before = crash_now_ns();
        crash_sleep_ns(TICK_NS);
        int64_t late = crash_now_ns() - before - TICK_NS;
        if (late > atomic_load(&shared->hiccup_ns)) {
            atomic_store(&shared->hiccup_ns, late);
        }
        atomic_store(&shared->reclaiming, reclaims(victim->store));
        if (n % COUNT_TICKS == 0) {
            (void)crash_count(victim);
        }
    }
    return NULL;
}

static bool run_threads(struct crash_victim *victim)
{
    pthread_t threads[CRASH_THREADS];
    struct task tasks[CRASH_THREADS];
    pthread_t ticker;
    bool good = pthread_create(&ticker, NULL, tick, victim) == 0;
    for (unsigned i = 0; good && i < CRASH_THREADS; i++) {
        tasks[i] = (struct task){.victim = victim, .thread = i};
        good = pthread_create(&threads[i], NULL, work, &tasks[i]) == 0;
    }
    if (!good) {
        return crash_fail(victim->shared, "threads cannot be made");
    }
    for (unsigned i = 0; i < CRASH_THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    good = crash_count(victim);
    atomic_store(&victim->shared->phase, CRASH_CLOSES);
    (void)pthread_join(ticker, NULL);
    return good && !atomic_load(&victim->shared->failed);
}

static void init_clearing(struct crash_victim *victim)
{
    pthread_rwlockattr_t attributes;
    (void)pthread_rwlockattr_init(&attributes);
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&victim->clearing, &attributes);
    (void)pthread_mutex_init(&victim->counting, NULL);
}

static bool open_store(struct crash_victim *victim)
{
    struct crash_shared *shared = victim->shared;
    struct goblin_error error = {.text = ""};
    struct goblin_options options = shared->setting.options;
    const char *dirs[CRASH_DRIVES];
    for (unsigned i = 0; i < CRASH_DRIVES; i++) {
        dirs[i] = shared->setting.dir[i];
    }
    options.dirs = dirs;
    options.heads_dir = shared->setting.heads ? shared->setting.heads_dir : NULL;
    options.log = keep_line;
    options.log_arg = shared;
    options.clock = read_clock;
    options.clock_arg = shared;
    /* A life leaves the segments that its lanes had open. */
    atomic_fetch_add(&shared->laid_bytes, options.lanes * options.segment_bytes);
    atomic_store(&shared->phase, CRASH_OPENS);
    int64_t began_ns = crash_now_ns();
    int rc = goblin_open(&victim->store, &options, &error);
    if (rc != GOBLIN_OK) {
        return crash_fail(shared, "opening: %d, %s", rc, error.text);
    }
    atomic_store(&shared->opened, true);
    atomic_store(&shared->opened_ns, crash_now_ns() - began_ns);
    atomic_store(&shared->phase, CRASH_VERIFIES);
    return true;
}

_Noreturn void crash_live(struct crash_shared *shared)
{
    struct crash_victim victim = {.shared = shared};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    init_clearing(&victim);
    bool good = open_store(&victim) && crash_check_all(&victim);
    if (good) {
        atomic_store(&shared->phase, CRASH_WORKS);
        good = run_threads(&victim);
    }
    if (good) {
        int64_t began_ns = crash_now_ns();
        int rc = goblin_close(victim.store);
        atomic_store(&shared->closed_ns, crash_now_ns() - began_ns);
        good = rc == GOBLIN_OK || crash_fail(shared, "closing: %s", goblin_strerror(rc));
    }
    _exit(good ? EXIT_GOOD : EXIT_BROKEN);
}
