/*
 * Real lives of a store and their ends: what goblin-crash's parts share.
 *
 * The killer (crash_main.c, crashkill.c) never opens a store. It forks a victim for each life
 * (crashlife.c), which opens the store, looks at every key (crashcheck.c) and then works on it from
 * several threads (crashwork.c) until it is told to close the store, or is killed. What passes
 * between them, and what outlives the victim, lies in struct crash_shared.
 */
#ifndef GB_CRASH_CRASH_H
#define GB_CRASH_CRASH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <goblin/reader.h>
#include <goblin/stats.h>

#include "base/rng.h"
#include "crash/crashlog.h"

#define CRASH_THREADS   4u
#define CRASH_KEYS_MAX  4096u
#define CRASH_DRIVES    2u
#define CRASH_VALUE_MAX (5u << 19) /* 2.5 MiB */
#define CRASH_PATH_MAX  512u

enum crash_phase { CRASH_STARTS, CRASH_OPENS, CRASH_VERIFIES, CRASH_WORKS, CRASH_CLOSES };

/* X(name, what it says) */
#define CRASH_DOINGS(X)                                                                            \
    X(IDLE, "between operations")                                                                  \
    X(PUT_NONE, "put none")                                                                        \
    X(PUT_WRITTEN, "put written")                                                                  \
    X(PUT_SYNCED, "put synced")                                                                    \
    X(STREAM, "stream")                                                                            \
    X(COMMIT, "commit")                                                                            \
    X(DELETE, "delete")                                                                            \
    X(AMEND, "amend")                                                                              \
    X(READ, "read")                                                                                \
    X(SYNC, "sync")                                                                                \
    X(CHECKPOINT, "checkpoint")                                                                    \
    X(CLEAR, "clear")

enum crash_doing {
#define CRASH_X(name, text) CRASH_##name,
    CRASH_DOINGS(CRASH_X)
#undef CRASH_X
        CRASH_DOING_COUNT
};

const char *crash_doing_name(uint32_t doing);

/* What a life's end waits for before its last delay. */
enum crash_target {
    CRASH_AT_ANY_TIME,
    CRASH_AT_OPEN,
    CRASH_AT_VERIFY,
    CRASH_AT_CHECKPOINT,
    CRASH_AT_RECLAIM,
    CRASH_AT_CLEAR,
    CRASH_AT_CLOSE,
    CRASH_CLEAN, /* no kill: a clean close */
    CRASH_TARGET_COUNT
};

/* How a store is made and worked on; drawn from a seed, the same in all its lives. */
struct crash_setting {
    uint64_t seed;
    uint64_t number; /* of the store */
    struct goblin_options options;
    char dir[CRASH_DRIVES][CRASH_PATH_MAX];
    char heads_dir[CRASH_PATH_MAX];
    bool heads;
    unsigned keys;
    unsigned pause_us; /* between a thread's operations, on average */
    bool clears;
    bool hasty; /* most operations ask for no durability, and hardly anybody syncs */
    int log_fd; /* where the store's own lines go */
    bool lies;  /* says `written` where nothing was promised: the checker must notice */
};

/* One life. */
struct crash_plan {
    enum crash_target target;
    int64_t work_ns;  /* until its end is looked for */
    int64_t delay_ns; /* from there to the kill */
};

/* What the kills have met. */
struct crash_coverage {
    uint64_t kills;
    uint64_t cleans;
    uint64_t by_phase[CRASH_CLOSES + 1];
    uint64_t by_io[GOBLIN_IO_SYNC + 1];
    uint64_t by_mode[GOBLIN_MODE_STORE + 1];
    uint64_t by_doing[CRASH_DOING_COUNT]; /* threads that were at it */
    uint64_t reclaiming;
    uint64_t checkpointing;
    uint64_t checks; /* by `goblin check` */
    struct crash_window window;
    int64_t longest_window_ns;
};

struct crash_shared {
    struct crash_setting setting;
    struct crash_plan plan;
    uint32_t life; /* counted through all stores */
    _Atomic uint32_t phase;
    _Atomic bool stop; /* end the work and close */
    _Atomic bool reclaiming;
    _Atomic uint32_t doing[CRASH_THREADS];
    _Atomic int64_t hiccup_ns; /* the longest that the victim was kept from running in this life */
    _Atomic int64_t opened_ns; /* how long the last whole opening took, */
    _Atomic int64_t closed_ns; /* and closing */
    _Atomic int64_t now_ms;    /* the store's clock */

    _Atomic bool opened;          /* the store, at least once */
    _Atomic uint64_t laid_bytes;  /* at most so much has been appended to the store */
    _Atomic bool evicts;          /* it has evicted something */
    _Atomic uint64_t max_version; /* of those that the store numbered and acknowledged */

    _Atomic uint64_t operations;
    _Atomic uint64_t acknowledged[GOBLIN_DURABILITY_SYNCED + 1];
    _Atomic uint64_t refused; /* for lack of room */
    _Atomic uint64_t looked;  /* keys looked at after opening */
    _Atomic uint64_t found;   /* of which something was there */
    _Atomic uint64_t reclaimed;
    _Atomic uint64_t evicted;
    _Atomic uint64_t checkpoints;

    _Atomic bool failed;
    _Atomic bool said; /* `why` is written */
    char why[8192];
    struct crash_key keys[CRASH_KEYS_MAX];
};

/* A victim's own state. */
struct crash_victim {
    struct crash_shared *shared;
    struct goblin *store;
    pthread_rwlock_t clearing;   /* held for writing while the store is cleared */
    pthread_mutex_t counting;    /* guards the next */
    struct goblin_stats counted; /* in this life so far */
};

static inline int64_t crash_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void crash_sleep_ns(int64_t ns)
{
    const struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)nanosleep(&pause, NULL);
}

/* Notes the first broken promise, for the killer to print; always false. */
bool crash_fail(struct crash_shared *shared, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct crash_name {
    char text[24];
};
struct goblin_slice crash_name(struct crash_name *name, unsigned key);

static inline uint64_t crash_value_seed(unsigned key, uint32_t flags)
{
    return (uint64_t)key << 32 | (flags & 0xffffff);
}

static inline uint64_t crash_meta_seed(unsigned key, uint32_t flags)
{
    return crash_value_seed(key, flags) | UINT64_C(1) << 63;
}

/* ---- crashset.c ---------------------------------------------------------------------------- */

/* Draws store `number` of a seed, in directories below `root`. */
void crash_draw_setting(struct crash_setting *setting, const char *root, uint64_t seed,
                        uint64_t number);
/* Makes it one for an hour of moderate work. */
void crash_enlarge_setting(struct crash_setting *setting);
void crash_describe_setting(const struct crash_setting *setting, char *text, size_t len);

/* ---- crashkill.c --------------------------------------------------------------------------- */

/* Lives one life as shared->plan says, and ends it in the log. False: a promise was broken. */
bool crash_run_life(struct crash_shared *shared, struct crash_coverage *coverage);
/* Runs `goblin check` over the store. */
bool crash_run_check(struct crash_shared *shared, const char *goblin,
                     struct crash_coverage *coverage);

/* ---- crashlife.c --------------------------------------------------------------------------- */

/* The victim's whole life; ends the process. */
_Noreturn void crash_live(struct crash_shared *shared);

/* ---- crashcheck.c -------------------------------------------------------------------------- */

/* Whether the store may have evicted something. */
struct crash_view crash_view(struct crash_victim *victim);
/* Takes the store's counters down. False: one says that something was found bad. */
bool crash_count(struct crash_victim *victim);
/* Every key, with all its bytes, after the store was opened. */
bool crash_check_all(struct crash_victim *victim);
/* One key, with all its bytes; `own`: the calling thread's, else only its bytes are judged. */
bool crash_check_key(struct crash_victim *victim, struct goblin_reader *reader, unsigned key,
                     bool own);

/* ---- crashwork.c --------------------------------------------------------------------------- */

/* Works on the keys of one thread until it is told to stop. */
void crash_work(struct crash_victim *victim, unsigned thread);

#endif
