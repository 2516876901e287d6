/* The killer: lets a victim live, ends it at the moment that was drawn, and draws up what it had
 * promised until then. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/crash.h"

#define POLL_NS     100000
#define PATIENCE_NS INT64_C(60000000000) /* of a life that does not get on */
#define WAIT_NS     INT64_C(3000000000)  /* for the moment to come */
/* What a busy machine adds to flush_ms: the device's time; and the longest that the victim was kept
 * from running, which is measured. */
#define GRACE_NS    INT64_C(250000000)

struct life {
    struct crash_shared *shared;
    pid_t victim;
    int status;
    bool ended;
    bool hangs;
    int64_t killed_ns;     /* 0: not killed */
    struct timespec began; /* of the clock that files are dated by */
};

static const char *phase_name(const struct crash_shared *shared)
{
    static const char *const names[] = {"starting", "opening", "verifying", "working", "closing"};
    return names[atomic_load(&shared->phase)];
}

static bool has_ended(struct life *life)
{
    if (!life->ended) {
        life->ended = waitpid(life->victim, &life->status, WNOHANG) == life->victim;
    }
    return life->ended;
}

static void kill_victim(struct life *life)
{
    if (has_ended(life)) {
        return;
    }
    life->killed_ns = crash_now_ns();
    (void)kill(life->victim, SIGKILL);
    while (waitpid(life->victim, &life->status, 0) < 0 && errno == EINTR) {
    }
    life->ended = true;
}

/* ---- the moment ---------------------------------------------------------------------------- */

static bool anybody_does(const struct crash_shared *shared, enum crash_doing what)
{
    bool found = false;
    for (unsigned i = 0; i < CRASH_THREADS; i++) {
        found |= atomic_load(&shared->doing[i]) == (uint32_t)what;
    }
    return found;
}

/* A checkpoint that is being written has another name until it is whole. */
static bool checkpoints(const struct life *life)
{
    char path[CRASH_PATH_MAX + 32];
    struct stat status;
    (void)snprintf(path, sizeof(path), "%s/CHECKPOINT.new", life->shared->setting.dir[0]);
    return stat(path, &status) == 0 && (status.st_mtim.tv_sec > life->began.tv_sec ||
                                        (status.st_mtim.tv_sec == life->began.tv_sec &&
                                         status.st_mtim.tv_nsec > life->began.tv_nsec));
}

static bool moment_has_come(const struct life *life)
{
    const struct crash_shared *shared = life->shared;
    switch (shared->plan.target) {
    case CRASH_AT_OPEN:
        return atomic_load(&shared->phase) >= CRASH_OPENS;
    case CRASH_AT_VERIFY:
        return atomic_load(&shared->phase) >= CRASH_VERIFIES;
    case CRASH_AT_CHECKPOINT:
        return checkpoints(life);
    case CRASH_AT_RECLAIM:
        return atomic_load(&shared->reclaiming);
    case CRASH_AT_CLEAR:
        return anybody_does(shared, CRASH_CLEAR);
    case CRASH_AT_CLOSE:
    case CRASH_CLEAN:
        return atomic_load(&shared->phase) >= CRASH_CLOSES;
    case CRASH_AT_ANY_TIME:
    case CRASH_TARGET_COUNT:
    default:
        return true;
    }
}

/* Waits until `come` holds, the victim has ended or `ns` have passed. */
static bool await(struct life *life, bool (*come)(const struct life *), int64_t ns)
{
    int64_t until = crash_now_ns() + ns;
    while (!come(life)) {
        if (has_ended(life) || atomic_load(&life->shared->failed) || crash_now_ns() > until) {
            return false;
        }
        crash_sleep_ns(POLL_NS);
    }
    return true;
}

static bool works(const struct life *life)
{
    return atomic_load(&life->shared->phase) >= CRASH_WORKS;
}

static bool ended(const struct life *life)
{
    return life->ended;
}

static bool never(const struct life *life)
{
    (void)life;
    return false;
}

/* It must get on in any case, and says what it was at if it does not. */
static void demand(struct life *life, bool (*come)(const struct life *))
{
    struct crash_shared *shared = life->shared;
    if (await(life, come, PATIENCE_NS) || life->ended || atomic_load(&shared->failed)) {
        return;
    }
    char text[256] = "";
    for (unsigned i = 0; i < CRASH_THREADS; i++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof(text) - at, " %s;",
                       crash_doing_name(atomic_load(&shared->doing[i])));
    }
    life->hangs = true;
    (void)crash_fail(shared, "the process %d hangs while %s, threads at:%s", (int)life->victim,
                     phase_name(shared), text);
}

/* Lets the victim live until its end is due. */
static void let_live(struct life *life)
{
    struct crash_shared *shared = life->shared;
    const struct crash_plan *plan = &shared->plan;
    if (plan->target != CRASH_AT_OPEN && plan->target != CRASH_AT_VERIFY) {
        demand(life, works);
        (void)await(life, never, plan->work_ns);
    }
    if (plan->target == CRASH_AT_CLOSE || plan->target == CRASH_CLEAN) {
        atomic_store(&shared->stop, true);
        demand(life, moment_has_come);
    } else {
        (void)await(life, moment_has_come, WAIT_NS);
    }
    if (plan->target == CRASH_CLEAN) {
        demand(life, ended);
    } else {
        (void)await(life, never, plan->delay_ns);
    }
    for (int64_t waited = 0; atomic_load(&shared->failed) && !life->hangs && waited < WAIT_NS;
         waited += POLL_NS) {
        if (has_ended(life)) {
            break; /* by itself, having said why */
        }
        crash_sleep_ns(POLL_NS);
    }
}

/* ---- after the end ------------------------------------------------------------------------- */

static void note_kill(const struct life *life, struct crash_coverage *coverage)
{
    const struct crash_shared *shared = life->shared;
    coverage->kills++;
    coverage->by_phase[atomic_load(&shared->phase)]++;
    coverage->by_io[shared->setting.options.io]++;
    coverage->by_mode[shared->setting.options.mode]++;
    coverage->reclaiming += atomic_load(&shared->reclaiming);
    coverage->checkpointing += checkpoints(life);
    for (unsigned i = 0; i < CRASH_THREADS; i++) {
        coverage->by_doing[atomic_load(&shared->doing[i])]++;
    }
}

static bool judge_end(struct life *life)
{
    struct crash_shared *shared = life->shared;
    if (atomic_load(&shared->failed)) {
        return false;
    }
    if (WIFSIGNALED(life->status)) {
        return life->killed_ns != 0 || crash_fail(shared, "the store died of signal %d while %s",
                                                  WTERMSIG(life->status), phase_name(shared));
    }
    return WEXITSTATUS(life->status) == 0 ||
           crash_fail(shared, "the store ended its process (%d) while %s",
                      WEXITSTATUS(life->status), phase_name(shared));
}

static void end_life(const struct life *life, struct crash_coverage *coverage)
{
    struct crash_shared *shared = life->shared;
    const struct crash_end end = {
        .life = shared->life,
        .clean = !WIFSIGNALED(life->status),
        .killed_ns = life->killed_ns,
        .window_ns = (int64_t)shared->setting.options.flush_ms * 1000000 + GRACE_NS +
                     atomic_load(&shared->hiccup_ns),
    };
    if (end.clean) {
        coverage->cleans++;
    } else {
        note_kill(life, coverage);
        coverage->longest_window_ns = end.window_ns > coverage->longest_window_ns
                                          ? end.window_ns
                                          : coverage->longest_window_ns;
    }
    struct crash_window unused = {0};
    for (unsigned key = 0; key < shared->setting.keys; key++) {
        crashkey_end_life(&shared->keys[key], &end, end.clean ? &unused : &coverage->window);
    }
}

bool crash_run_life(struct crash_shared *shared, struct crash_coverage *coverage)
{
    struct life life = {.shared = shared};
    shared->life++;
    atomic_store(&shared->phase, CRASH_STARTS);
    atomic_store(&shared->stop, false);
    atomic_store(&shared->reclaiming, false);
    atomic_store(&shared->hiccup_ns, 0);
    for (unsigned i = 0; i < CRASH_THREADS; i++) {
        atomic_store(&shared->doing[i], CRASH_IDLE);
    }
    (void)clock_gettime(CLOCK_REALTIME, &life.began);
    life.victim = fork();
    if (life.victim < 0) {
        return crash_fail(shared, "fork: %s", strerror(errno));
    }
    if (life.victim == 0) {
        crash_live(shared);
    }
    let_live(&life);
    kill_victim(&life);
    if (!judge_end(&life)) {
        return false;
    }
    end_life(&life, coverage);
    return true;
}

bool crash_run_check(struct crash_shared *shared, const char *goblin,
                     struct crash_coverage *coverage)
{
    pid_t checker = fork();
    if (checker == 0) {
        (void)dup2(shared->setting.log_fd, STDOUT_FILENO);
        (void)dup2(shared->setting.log_fd, STDERR_FILENO);
        (void)execl(goblin, goblin, "check", shared->setting.dir[0], "--io",
                    shared->setting.options.io == GOBLIN_IO_SYNC ? "sync" : "uring", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (checker < 0 || waitpid(checker, &status, 0) != checker) {
        return crash_fail(shared, "goblin check cannot be run: %s", strerror(errno));
    }
    coverage->checks++;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           crash_fail(shared, "goblin check ended with status %#x", (unsigned)status);
}
