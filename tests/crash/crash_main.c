/* goblin-crash: kills a loaded store, again and again, and looks what is left.
 *
 *   goblin-crash --kills N                 stores with lives of drawn length, N of them killed
 *   goblin-crash --churn S                 S seconds of work, then 20 clean and 20 dirty restarts
 *                --seed S                  drawn and printed if not given
 *                --store K                 the first store's number in the seed
 *                --dir DIR                 where the stores lie; TMPDIR or /var/tmp
 *                --goblin PATH             a goblin to check stores with, now and then
 *                --lie                     acknowledge more than was promised: has to be found out
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "crash/crash.h"
#include "engine/io.h"

#define START_MS    INT64_C(1700000000000)
#define RESTARTS    20u /* of each kind */
#define MILLISECOND INT64_C(1000000)

struct run {
    uint64_t seed;
    uint64_t kills;
    uint64_t churn_s;
    uint64_t store; /* number of the present one */
    const char *dir;
    const char *goblin;
    bool lies;
    bool rings; /* the kernel has them */
    char root[CRASH_PATH_MAX - 64];
    struct gb_rng rng;
    struct crash_shared *shared;
    struct crash_coverage coverage;
    int64_t began_ns;
};

static int usage(void)
{
    (void)fputs("usage: goblin-crash --kills N | --churn SECONDS [--seed S] [--store K] "
                "[--dir DIR] [--goblin PATH] [--lie]\n",
                stderr);
    return 2;
}

/* ---- directories --------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static bool make_root(struct run *run)
{
    const char *dir = run->dir != NULL ? run->dir : getenv("TMPDIR");
    char why[256];
    struct gb_io *io = NULL;
    (void)snprintf(run->root, sizeof(run->root), "%s/goblin-crash-XXXXXX",
                   dir != NULL ? dir : "/var/tmp");
    if (mkdtemp(run->root) == NULL) {
        (void)fprintf(stderr, "goblin-crash: %s: %s\n", run->root, strerror(errno));
        return false;
    }
    run->rings = gb_io_uring_create(&io, run->root, why, sizeof(why)) >= 0;
    if (run->rings) {
        io->ops->destroy(io);
    } else {
        (void)printf("no io_uring here (%s): the sync path alone is tested\n", why);
    }
    return true;
}

/* ---- one store ----------------------------------------------------------------------------- */

static bool begin_store(struct run *run)
{
    struct crash_shared *shared = run->shared;
    struct crash_setting *setting = &shared->setting;
    char path[CRASH_PATH_MAX];
    crash_draw_setting(setting, run->root, run->seed, run->store);
    gb_rng_init(&run->rng, gb_rng_mix(run->seed) ^ gb_rng_mix(run->store));
    setting->lies = run->lies;
    if (run->lies) {
        /* Little but full blocks reaches the device: most kills lose what was never promised. */
        setting->options.flush_ms = 60000;
        setting->options.durability = GOBLIN_DURABILITY_NONE;
        setting->hasty = true;
    }
    if (!run->rings) {
        setting->options.io = GOBLIN_IO_SYNC;
    }
    if (run->churn_s > 0) {
        crash_enlarge_setting(setting);
    }
    (void)snprintf(path, sizeof(path), "%s/log", run->root);
    setting->log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (setting->log_fd < 0 || mkdir(setting->heads_dir, 0700) < 0) {
        (void)fprintf(stderr, "goblin-crash: %s: %s\n", path, strerror(errno));
        return false;
    }
    atomic_store(&shared->opened, false);
    atomic_store(&shared->laid_bytes, 0);
    atomic_store(&shared->evicts, false);
    atomic_store(&shared->max_version, 0);
    atomic_store(&shared->opened_ns, 10 * MILLISECOND);
    atomic_store(&shared->closed_ns, 20 * MILLISECOND);
    atomic_store(&shared->now_ms, START_MS);
    for (unsigned key = 0; key < setting->keys; key++) {
        crashkey_init(&shared->keys[key]);
    }
    char text[512];
    crash_describe_setting(setting, text, sizeof(text));
    (void)printf("%s\n", text);
    (void)fflush(stdout);
    return true;
}

static void end_store(struct run *run)
{
    const struct crash_setting *setting = &run->shared->setting;
    (void)close(setting->log_fd);
    (void)nftw(setting->heads_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (unsigned i = 0; i < setting->options.dir_count; i++) {
        (void)nftw(setting->dir[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static int64_t draw_within(struct run *run, int64_t ns)
{
    return (int64_t)gb_rng_below(&run->rng, (uint64_t)ns + 1);
}

/* Draws how the next life ends. */
static void draw_plan(struct run *run)
{
    static const enum crash_target targets[] = {
        CRASH_AT_ANY_TIME, CRASH_AT_ANY_TIME, CRASH_AT_ANY_TIME,   CRASH_AT_ANY_TIME,
        CRASH_AT_ANY_TIME, CRASH_AT_ANY_TIME, CRASH_AT_ANY_TIME,   CRASH_AT_ANY_TIME,
        CRASH_AT_RECLAIM,  CRASH_AT_RECLAIM,  CRASH_AT_CHECKPOINT, CRASH_AT_CHECKPOINT,
        CRASH_AT_CLEAR,    CRASH_AT_OPEN,     CRASH_AT_OPEN,       CRASH_AT_VERIFY,
        CRASH_AT_CLOSE,    CRASH_AT_CLOSE,    CRASH_CLEAN,
    };
    struct crash_shared *shared = run->shared;
    struct crash_plan *plan = &shared->plan;
    plan->target = targets[gb_rng_below(&run->rng, sizeof(targets) / sizeof(targets[0]))];
    if (plan->target == CRASH_AT_CLEAR && !shared->setting.clears) {
        plan->target = CRASH_AT_ANY_TIME;
    }
    /* Mostly short, sometimes beyond the delay within which everything must be on the device. */
    uint64_t most_ms = gb_rng_below(&run->rng, 5) == 0 ? 1800 : 350;
    plan->work_ns = (int64_t)gb_rng_below(&run->rng, most_ms * 1000) * 1000;
    plan->delay_ns = (int64_t)gb_rng_below(&run->rng, 4 * MILLISECOND);
    if (plan->target == CRASH_AT_OPEN) {
        plan->delay_ns = draw_within(run, atomic_load(&shared->opened_ns));
    } else if (plan->target == CRASH_AT_CLOSE) {
        plan->delay_ns = draw_within(run, atomic_load(&shared->closed_ns));
    } else if (plan->target == CRASH_AT_VERIFY) {
        plan->delay_ns = draw_within(run, 40 * MILLISECOND);
    }
}

static bool live(struct run *run)
{
    uint64_t before = run->coverage.kills;
    if (!crash_run_life(run->shared, &run->coverage)) {
        return false;
    }
    if (run->coverage.kills / 25 > before / 25) {
        (void)printf("%" PRIu64 " kills, %.0f s, %" PRIu64 " operations\n", run->coverage.kills,
                     (double)(crash_now_ns() - run->began_ns) / 1e9,
                     atomic_load(&run->shared->operations));
        (void)fflush(stdout);
    }
    if (run->goblin == NULL || !atomic_load(&run->shared->opened) ||
        run->shared->setting.options.dir_count > 1 || gb_rng_below(&run->rng, 8) != 0) {
        return true;
    }
    return crash_run_check(run->shared, run->goblin, &run->coverage);
}

static bool end_cleanly(struct run *run)
{
    run->shared->plan = (struct crash_plan){.target = CRASH_CLEAN, .work_ns = MILLISECOND};
    return live(run);
}

static bool kill_store(struct run *run)
{
    uint64_t lives = 6 + gb_rng_below(&run->rng, 15);
    bool good = true;
    for (uint64_t i = 0; good && i < lives && run->coverage.kills < run->kills; i++) {
        draw_plan(run);
        good = live(run);
    }
    return good && end_cleanly(run); /* which looks at what the last kill left */
}

/* The first life is the long one. */
static bool restart_store(struct run *run)
{
    bool good = true;
    for (unsigned i = 0; good && i < 2 * RESTARTS; i++) {
        run->shared->plan = (struct crash_plan){
            .target = i < RESTARTS ? CRASH_CLEAN : CRASH_AT_ANY_TIME,
            .work_ns = i == 0 ? (int64_t)run->churn_s * 1000 * MILLISECOND
                              : (int64_t)gb_rng_below(&run->rng, 3000) * MILLISECOND,
        };
        good = live(run);
    }
    return good && end_cleanly(run);
}

/* ---- what came of it ----------------------------------------------------------------------- */

static void print_coverage(const struct run *run)
{
    const struct crash_coverage *c = &run->coverage;
    const struct crash_shared *shared = run->shared;
    (void)printf("kills: %" PRIu64 " (io_uring %" PRIu64 ", sync %" PRIu64 "; cache %" PRIu64
                 ", store %" PRIu64 "), clean closes: %" PRIu64 "\n",
                 c->kills, c->by_io[GOBLIN_IO_URING], c->by_io[GOBLIN_IO_SYNC],
                 c->by_mode[GOBLIN_MODE_CACHE], c->by_mode[GOBLIN_MODE_STORE], c->cleans);
    (void)printf("  while opening %" PRIu64 ", verifying %" PRIu64 ", working %" PRIu64
                 ", closing %" PRIu64 "; a segment being reclaimed %" PRIu64
                 ", a checkpoint being written %" PRIu64 "\n  threads were at:",
                 c->by_phase[CRASH_OPENS] + c->by_phase[CRASH_STARTS], c->by_phase[CRASH_VERIFIES],
                 c->by_phase[CRASH_WORKS], c->by_phase[CRASH_CLOSES], c->reclaiming,
                 c->checkpointing);
    for (unsigned i = 0; i < CRASH_DOING_COUNT; i++) {
        (void)printf(" %s %" PRIu64 "%s", crash_doing_name(i), c->by_doing[i],
                     i + 1 < CRASH_DOING_COUNT ? "," : "\n");
    }
    (void)printf("operations: %" PRIu64 "; acknowledged none %" PRIu64 ", written %" PRIu64
                 ", synced %" PRIu64 "; refused for lack of room %" PRIu64 "\n",
                 atomic_load(&shared->operations),
                 atomic_load(&shared->acknowledged[GOBLIN_DURABILITY_NONE]),
                 atomic_load(&shared->acknowledged[GOBLIN_DURABILITY_WRITTEN]),
                 atomic_load(&shared->acknowledged[GOBLIN_DURABILITY_SYNCED]),
                 atomic_load(&shared->refused));
    (void)printf("looked at %" PRIu64 " keys after opening (%" PRIu64 " held something); of `none` "
                 "%" PRIu64 " were old enough to be there, %" PRIu64
                 " at risk (window at most %.0f ms)\n",
                 atomic_load(&shared->looked), atomic_load(&shared->found), c->window.kept,
                 c->window.risked, (double)c->longest_window_ns / 1e6);
    (void)printf("segments reclaimed %" PRIu64 ", objects evicted %" PRIu64 ", checkpoints %" PRIu64
                 ", goblin check %" PRIu64 "; %.0f s\n",
                 atomic_load(&shared->reclaimed), atomic_load(&shared->evicted),
                 atomic_load(&shared->checkpoints), c->checks,
                 (double)(crash_now_ns() - run->began_ns) / 1e9);
}

static void print_failure(const struct run *run)
{
    const struct crash_shared *shared = run->shared;
    char text[512];
    crash_describe_setting(&shared->setting, text, sizeof(text));
    (void)printf("violation in life %u, after %" PRIu64 " kills: %s\n%s\n", shared->life,
                 run->coverage.kills,
                 atomic_load(&shared->said) ? shared->why : "(its text was cut off)", text);
    if (run->lies) {
        return;
    }
    (void)printf("the store and its log lie in %s\nagain: goblin-crash --%s %" PRIu64
                 " --seed %" PRIu64 " --store %" PRIu64 "\n",
                 run->root, run->churn_s > 0 ? "churn" : "kills",
                 run->churn_s > 0 ? run->churn_s : gb_max(run->kills, 50), run->seed, run->store);
}

static bool run_all(struct run *run)
{
    bool good = true;
    bool more = true;
    while (good && more) {
        good = begin_store(run) && (run->churn_s > 0 ? restart_store(run) : kill_store(run));
        more = run->churn_s == 0 && run->coverage.kills < run->kills;
        if (good) {
            end_store(run);
            run->store++;
        }
    }
    return good;
}

static bool parse_number(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0';
}

static bool parse(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        {"kills", required_argument, NULL, 'k'}, {"churn", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, 's'},  {"store", required_argument, NULL, 'n'},
        {"dir", required_argument, NULL, 'd'},   {"goblin", required_argument, NULL, 'g'},
        {"lie", no_argument, NULL, 'l'},         {NULL, 0, NULL, 0},
    };
    const char *given = getenv("GOBLIN_SEED");
    uint32_t drawn = 0;
    bool picked = false;
    (void)getrandom(&drawn, sizeof(drawn), 0);
    run->seed = drawn;
    bool good = given == NULL || parse_number(given, &run->seed);
    for (int option = 0; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            good = parse_number(optarg, &run->kills);
            break;
        case 'c':
            good = parse_number(optarg, &run->churn_s);
            break;
        case 's':
            good = parse_number(optarg, &run->seed);
            break;
        case 'n':
            good = picked = parse_number(optarg, &run->store);
            break;
        case 'd':
            run->dir = optarg;
            break;
        case 'g':
            run->goblin = optarg;
            break;
        case 'l':
            run->lies = true;
            break;
        default:
            good = false;
        }
    }
    if (run->churn_s > 0 && !picked) {
        run->store = run->seed % 4; /* any mode on any I/O path */
    }
    return good && optind == argc && (run->kills > 0) != (run->churn_s > 0);
}

int main(int argc, char **argv)
{
    struct run run = {.began_ns = crash_now_ns()};
    if (!parse(&run, argc, argv)) {
        return usage();
    }
    void *memory =
        mmap(NULL, sizeof(*run.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !make_root(&run)) {
        return 2;
    }
    run.shared = memory;
    (void)printf("seed %" PRIu64 "\n", run.seed);
    bool good = run_all(&run);
    print_coverage(&run);
    if (!good) {
        print_failure(&run);
    } else {
        (void)printf("all promises kept\n");
    }
    if (good || run.lies) {
        (void)nftw(run.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    return good ? 0 : 1;
}
