/* The load: each operation is noted in the log, done, and its answer judged. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/writer.h>

#include "base/bits.h"
#include "crash/crash.h"
#include "lib/pattern.h"

#define RING_RESERVE 4u               /* states of a key that are kept for clears */
#define FULL_NS      INT64_C(2000000) /* to let the store make room */

struct worker {
    struct crash_victim *victim;
    struct crash_shared *shared;
    struct crash_setting *setting;
    unsigned thread;
    struct gb_rng rng;
    struct goblin_reader *reader;
    unsigned char *value;
    unsigned char meta[GOBLIN_META_MAX];
    unsigned thirst; /* deletes to come first: the store was full */
};

static uint64_t below(struct worker *worker, uint64_t bound)
{
    return gb_rng_below(&worker->rng, bound);
}

static bool chance(struct worker *worker, unsigned percent)
{
    return below(worker, 100) < percent;
}

static void doing(struct worker *worker, enum crash_doing what)
{
    atomic_store(&worker->shared->doing[worker->thread], (uint32_t)what);
}

/* The store had no room: a pause, then deletes. */
static void yield_room(struct worker *worker)
{
    atomic_fetch_add(&worker->shared->refused, 1);
    worker->thirst = 6;
    crash_sleep_ns(FULL_NS);
}

/* ---- drawing ------------------------------------------------------------------------------- */

static uint64_t draw_size(struct worker *worker)
{
    switch (below(worker, 48)) {
    case 0:
        return below(worker, CRASH_VALUE_MAX);
    case 1:
    case 2:
        return below(worker, 256 * GB_KIB);
    case 3:
    case 4:
    case 5:
    case 6:
        return below(worker, 64 * GB_KIB);
    case 7:
        return 0;
    case 8:
        return 16 * GB_KIB - 2 + below(worker, 5);
    default:
        return below(worker, 6 * GB_KIB);
    }
}

static enum goblin_durability draw_durability(struct worker *worker)
{
    static const enum goblin_durability choices[] = {
        GOBLIN_DURABILITY_DEFAULT, GOBLIN_DURABILITY_NONE,    GOBLIN_DURABILITY_NONE,
        GOBLIN_DURABILITY_NONE,    GOBLIN_DURABILITY_WRITTEN, GOBLIN_DURABILITY_WRITTEN,
        GOBLIN_DURABILITY_SYNCED,
    };
    if (worker->setting->hasty && !chance(worker, 4)) {
        return GOBLIN_DURABILITY_NONE;
    }
    return choices[below(worker, 7)];
}

static enum goblin_durability promised(const struct worker *worker, enum goblin_durability asked)
{
    enum goblin_durability given = worker->setting->options.durability;
    given = given == GOBLIN_DURABILITY_DEFAULT ? GOBLIN_DURABILITY_NONE : given;
    return asked == GOBLIN_DURABILITY_DEFAULT ? given : asked;
}

static int64_t draw_expiry(struct worker *worker)
{
    if (!chance(worker, 12)) {
        return 0;
    }
    return atomic_load(&worker->shared->now_ms) - 200 + (int64_t)below(worker, 20000);
}

/* ---- an operation on one key --------------------------------------------------------------- */

struct attempt {
    unsigned key;
    enum crash_doing what;
    struct crash_state state; /* that it is to give the key */
    struct goblin_put_options options;
    uint64_t highest; /* version acknowledged before it began */
    int64_t began_ms;
};

static struct crash_key *key_of(const struct worker *worker, const struct attempt *attempt)
{
    return &worker->shared->keys[attempt->key];
}

/* A new object for the key. */
static void draw_object(struct worker *worker, struct attempt *attempt)
{
    struct crash_key *key = key_of(worker, attempt);
    struct goblin_put_options *options = &attempt->options;
    attempt->state.write = ++key->writes;
    attempt->state.size = draw_size(worker);
    attempt->state.expires_ms = draw_expiry(worker);
    attempt->state.tint = (uint8_t)below(worker, 256);
    attempt->state.marks = (uint8_t)below(worker, GOBLIN_MARKS + 1);
    if (chance(worker, 15)) {
        attempt->state.meta_len = (uint32_t)below(worker, GOBLIN_META_MAX + 1);
    }
    gb_pattern_fill(worker->meta, attempt->state.meta_len,
                    crash_meta_seed(attempt->key, attempt->state.write), 0);
    options->meta = (struct goblin_slice){worker->meta, attempt->state.meta_len};
    options->expires_ms = attempt->state.expires_ms;
    options->flags = crashstate_flags(&attempt->state);
    options->marks = attempt->state.marks;
    if (chance(worker, 3)) {
        options->version = 1 + below(worker, 1000);
        attempt->state.version = options->version;
    }
}

/* Conditions that sometimes hold and sometimes do not. */
static void draw_condition(struct worker *worker, struct attempt *attempt)
{
    if (!chance(worker, 20)) {
        return;
    }
    uint64_t version = crashkey_current(key_of(worker, attempt))->version;
    attempt->options.condition = (enum goblin_condition)(1 + below(worker, 3));
    attempt->options.if_version = chance(worker, 25) ? version ^ 1 : version;
}

/* So much has been appended at most: padding and sums, a flushed block, a table. */
static void note_laid(struct worker *worker, const struct attempt *attempt)
{
    uint64_t payload = attempt->state.size + attempt->state.meta_len;
    uint64_t bytes = attempt->what == CRASH_AMEND ? 0 : gb_align_up(payload, 4096);
    atomic_fetch_add(&worker->shared->laid_bytes, bytes + bytes / 512 + 5 * 4096);
}

static void intend(struct worker *worker, struct attempt *attempt)
{
    attempt->state.life = worker->shared->life;
    attempt->state.promise = promised(worker, attempt->options.durability);
    attempt->highest = atomic_load(&worker->shared->max_version);
    attempt->began_ms = atomic_load(&worker->shared->now_ms);
    note_laid(worker, attempt);
    crashkey_intend(key_of(worker, attempt), &attempt->state);
    doing(worker, attempt->what);
}

/* The answer that an object which is there, or is not, calls for. */
static int fitting_answer(const struct attempt *attempt, const struct crash_state *before,
                          bool there)
{
    bool amends = attempt->what == CRASH_DELETE || attempt->what == CRASH_AMEND;
    switch (attempt->options.condition) {
    case GOBLIN_IF_ABSENT:
        return there ? GOBLIN_EXISTS : GOBLIN_OK;
    case GOBLIN_IF_PRESENT:
        return there ? GOBLIN_OK : GOBLIN_MISS;
    case GOBLIN_IF_VERSION:
        return !there                                           ? GOBLIN_MISS
               : before->version == attempt->options.if_version ? GOBLIN_OK
                                                                : GOBLIN_CHANGED;
    case GOBLIN_ALWAYS:
    default:
        return !there && amends ? GOBLIN_MISS : GOBLIN_OK;
    }
}

/* The clock may have passed an expiry meanwhile, and a cache may have evicted the object. */
static bool answer_fits(struct worker *worker, const struct attempt *attempt, int rc)
{
    struct crash_key *key = key_of(worker, attempt);
    const struct crash_state *before = crashkey_at(key, atomic_load(&key->next) - 2);
    bool first = crashstate_visible(before, attempt->began_ms);
    bool last = crashstate_visible(before, atomic_load(&worker->shared->now_ms));
    if (rc == fitting_answer(attempt, before, first) ||
        rc == fitting_answer(attempt, before, last)) {
        return true;
    }
    return crash_count(worker->victim) && crash_view(worker->victim).lax &&
           rc == fitting_answer(attempt, before, false);
}

static void acknowledge(struct worker *worker, const struct attempt *attempt, uint64_t version)
{
    struct crash_shared *shared = worker->shared;
    enum goblin_durability promise = attempt->state.promise;
    bool numbered = attempt->what != CRASH_DELETE && attempt->what != CRASH_AMEND &&
                    attempt->options.version == 0;
    if (numbered && version <= attempt->highest) {
        (void)crash_fail(shared,
                         "write %" PRIu32 " of key %u got version %" PRIu64 ", but %" PRIu64
                         " was acknowledged before it began",
                         attempt->state.write, attempt->key, version, attempt->highest);
    }
    uint64_t highest = atomic_load(&shared->max_version);
    while (numbered && highest < version &&
           !atomic_compare_exchange_weak(&shared->max_version, &highest, version)) {
    }
    atomic_fetch_add(&shared->acknowledged[promise], 1);
    crashkey_acknowledge(key_of(worker, attempt), version, crash_now_ns(),
                         worker->setting->lies ? GOBLIN_DURABILITY_WRITTEN : promise);
}

/* The operation has answered. */
static void settle(struct worker *worker, const struct attempt *attempt, int rc, uint64_t version)
{
    struct crash_key *key = key_of(worker, attempt);
    atomic_fetch_add(&worker->shared->operations, 1);
    if (rc == -ENOSPC || rc == -ENOMEM) {
        crashkey_withdraw(key);
        yield_room(worker);
    } else if (rc < 0 || !answer_fits(worker, attempt, rc)) {
        char states[4096];
        crashkey_describe(key, atomic_load(&worker->shared->now_ms), states, sizeof(states));
        (void)crash_fail(worker->shared,
                         "%s of key %u, condition %d, version %" PRIu64 ", answered %d (%s);%s",
                         attempt->what == CRASH_DELETE  ? "delete"
                         : attempt->what == CRASH_AMEND ? "amend"
                                                        : "put",
                         attempt->key, (int)attempt->options.condition, attempt->options.if_version,
                         rc, goblin_strerror(rc), states);
    } else if (rc == GOBLIN_OK) {
        acknowledge(worker, attempt, version);
    } else if (rc == GOBLIN_MISS && attempt->what == CRASH_DELETE &&
               attempt->options.condition == GOBLIN_ALWAYS) {
        acknowledge(worker, attempt, 0); /* nothing is there, as safely as was asked */
    } else {
        crashkey_withdraw(key);
    }
    doing(worker, CRASH_IDLE);
}

static void put(struct worker *worker, unsigned key)
{
    static const enum crash_doing what[] = {
        [GOBLIN_DURABILITY_NONE] = CRASH_PUT_NONE,
        [GOBLIN_DURABILITY_WRITTEN] = CRASH_PUT_WRITTEN,
        [GOBLIN_DURABILITY_SYNCED] = CRASH_PUT_SYNCED,
    };
    struct attempt attempt = {.key = key, .options = {.durability = draw_durability(worker)}};
    attempt.what = what[promised(worker, attempt.options.durability)];
    draw_condition(worker, &attempt);
    draw_object(worker, &attempt);
    gb_pattern_fill(worker->value, attempt.state.size, crash_value_seed(key, attempt.state.write),
                    0);
    struct crash_name name;
    uint64_t version = 0;
    intend(worker, &attempt);
    int rc = goblin_put(worker->victim->store, crash_name(&name, key),
                        (struct goblin_slice){worker->value, attempt.state.size}, &attempt.options,
                        &version);
    settle(worker, &attempt, rc, version);
}

static void erase(struct worker *worker, unsigned key)
{
    struct attempt attempt = {
        .key = key, .what = CRASH_DELETE, .options = {.durability = draw_durability(worker)}};
    draw_condition(worker, &attempt);
    if (attempt.options.condition == GOBLIN_IF_ABSENT) {
        attempt.options.condition = GOBLIN_ALWAYS;
    }
    struct crash_name name;
    intend(worker, &attempt);
    int rc = goblin_delete(worker->victim->store, crash_name(&name, key), &attempt.options);
    settle(worker, &attempt, rc, 0);
}

/* What an amendment is to change, and the state that it makes. */
static struct goblin_amendment draw_amendment(struct worker *worker, struct attempt *attempt)
{
    struct crash_state *state = &attempt->state;
    struct goblin_amendment amendment = {
        .condition = attempt->options.condition,
        .if_version = attempt->options.if_version,
        .durability = attempt->options.durability,
    };
    if (chance(worker, 60)) {
        amendment.what |= GOBLIN_AMEND_EXPIRES;
        state->expires_ms = chance(worker, 40) ? 0
                                               : atomic_load(&worker->shared->now_ms) - 50 +
                                                     (int64_t)below(worker, 20000);
    }
    if (chance(worker, 40)) {
        amendment.what |= GOBLIN_AMEND_FLAGS;
        state->tint = (uint8_t)below(worker, 256);
    }
    if (chance(worker, 20)) {
        amendment.what |= GOBLIN_AMEND_VERSION;
        state->version = 1 + below(worker, 1000);
    }
    amendment.marks_set = (uint8_t)below(worker, GOBLIN_MARKS + 1);
    amendment.marks_clear = (uint8_t)below(worker, GOBLIN_MARKS + 1);
    state->marks = (uint8_t)((state->marks & ~amendment.marks_clear) | amendment.marks_set);
    amendment.expires_ms = state->expires_ms;
    amendment.flags = crashstate_flags(state);
    amendment.version = state->version;
    return amendment;
}

static void amend(struct worker *worker, unsigned key)
{
    struct attempt attempt = {
        .key = key, .what = CRASH_AMEND, .options = {.durability = draw_durability(worker)}};
    attempt.state = *crashkey_current(key_of(worker, &attempt));
    draw_condition(worker, &attempt);
    if (attempt.options.condition == GOBLIN_IF_ABSENT) {
        attempt.options.condition = GOBLIN_ALWAYS;
    }
    const struct goblin_amendment amendment = draw_amendment(worker, &attempt);
    struct crash_name name;
    uint64_t version = attempt.state.version;
    intend(worker, &attempt);
    int rc = goblin_amend(worker->victim->store, crash_name(&name, key), &amendment, NULL);
    settle(worker, &attempt, rc, version);
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Feeds the whole value in pieces; a fault ends it. */
static int feed(struct worker *worker, struct goblin_writer *writer, const struct attempt *attempt)
{
    uint64_t seed = crash_value_seed(attempt->key, attempt->state.write);
    int rc = GOBLIN_OK;
    for (uint64_t at = 0; rc == GOBLIN_OK && at < attempt->state.size;) {
        uint64_t len = gb_min(attempt->state.size - at, 1 + below(worker, 200 * GB_KIB));
        gb_pattern_fill(worker->value, len, seed, at);
        rc = goblin_writer_write(writer, worker->value, len);
        at += len;
    }
    return rc;
}

static void stream(struct worker *worker, unsigned key)
{
    struct goblin_writer *writer = NULL;
    struct attempt attempt = {
        .key = key, .what = CRASH_COMMIT, .options = {.durability = draw_durability(worker)}};
    draw_condition(worker, &attempt);
    draw_object(worker, &attempt);
    uint64_t size = chance(worker, 50) ? GOBLIN_SIZE_UNKNOWN : attempt.state.size;
    struct crash_name name;
    doing(worker, CRASH_STREAM);
    note_laid(worker, &attempt); /* also if it comes to nothing */
    int rc = goblin_writer_begin(&writer, worker->victim->store, crash_name(&name, key), size,
                                 &attempt.options);
    rc = rc == GOBLIN_OK ? feed(worker, writer, &attempt) : rc;
    if (rc == GOBLIN_OK && !chance(worker, 5)) {
        uint64_t version = 0;
        intend(worker, &attempt);
        rc = goblin_writer_commit(writer, &version);
        settle(worker, &attempt, rc, version);
        return;
    }
    goblin_writer_abort(writer);
    if (rc == -ENOSPC || rc == -ENOMEM) {
        yield_room(worker);
    } else if (rc != GOBLIN_OK) {
        (void)crash_fail(worker->shared, "streaming to key %u: %s", key, goblin_strerror(rc));
    }
    doing(worker, CRASH_IDLE);
}

/* ---- the whole store ----------------------------------------------------------------------- */

static void sync_all(struct worker *worker)
{
    struct crash_shared *shared = worker->shared;
    static _Thread_local uint32_t acked[CRASH_KEYS_MAX];
    for (unsigned key = 0; key < worker->setting->keys; key++) {
        acked[key] = atomic_load(&shared->keys[key].acked);
    }
    doing(worker, CRASH_SYNC);
    int rc = goblin_sync(worker->victim->store);
    doing(worker, CRASH_IDLE);
    if (rc != GOBLIN_OK) {
        (void)crash_fail(shared, "sync: %s", goblin_strerror(rc));
        return;
    }
    for (unsigned key = 0; key < worker->setting->keys; key++) {
        crashkey_raise(&shared->keys[key], acked[key] - 1);
    }
}

static void checkpoint(struct worker *worker)
{
    doing(worker, CRASH_CHECKPOINT);
    int rc = goblin_checkpoint(worker->victim->store);
    doing(worker, CRASH_IDLE);
    if (rc != GOBLIN_OK) {
        (void)crash_fail(worker->shared, "checkpoint: %s", goblin_strerror(rc));
    }
}

/* Nothing else runs: every key is this thread's for once. */
static void clear(struct worker *worker)
{
    struct crash_shared *shared = worker->shared;
    const struct crash_state absent = {.life = shared->life, .promise = GOBLIN_DURABILITY_SYNCED};
    (void)pthread_rwlock_wrlock(&worker->victim->clearing);
    for (unsigned key = 0; key < worker->setting->keys; key++) {
        crashkey_intend(&shared->keys[key], &absent);
    }
    doing(worker, CRASH_CLEAR);
    int rc = goblin_clear(worker->victim->store);
    for (unsigned key = 0; key < worker->setting->keys; key++) {
        if (rc == GOBLIN_OK) {
            crashkey_acknowledge(&shared->keys[key], 0, crash_now_ns(), GOBLIN_DURABILITY_SYNCED);
        } else {
            crashkey_withdraw(&shared->keys[key]);
        }
    }
    doing(worker, CRASH_IDLE);
    (void)pthread_rwlock_unlock(&worker->victim->clearing);
    if (rc != GOBLIN_OK && rc != -ENOSPC) {
        (void)crash_fail(shared, "clear: %s", goblin_strerror(rc));
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void look(struct worker *worker, unsigned key, bool own)
{
    doing(worker, CRASH_READ);
    (void)crash_check_key(worker->victim, worker->reader, key, own);
    doing(worker, CRASH_IDLE);
}

static void step(struct worker *worker)
{
    unsigned keys = worker->setting->keys;
    unsigned own = worker->thread + CRASH_THREADS * (unsigned)below(worker, keys / CRASH_THREADS);
    if (!crashkey_has_room(&worker->shared->keys[own], 1 + RING_RESERVE)) {
        sync_all(worker);
        return;
    }
    if (worker->thirst > 0) {
        worker->thirst--;
        erase(worker, own);
        return;
    }
    uint64_t roll = below(worker, 1000);
    if (roll < 430) {
        put(worker, own);
    } else if (roll < 540) {
        stream(worker, own);
    } else if (roll < 640) {
        erase(worker, own);
    } else if (roll < 710) {
        amend(worker, own);
    } else if (roll < 850) {
        look(worker, own, true);
    } else if (roll < 940) {
        look(worker, (unsigned)below(worker, keys), false);
    } else if (roll < 950) {
        if (!worker->setting->hasty || chance(worker, 2)) {
            sync_all(worker);
        }
    } else if (roll < 954) {
        checkpoint(worker);
    } else if (worker->thread == 0) {
        atomic_fetch_add(&worker->shared->now_ms, (int64_t)below(worker, 300));
    }
}

static bool clears_now(struct worker *worker)
{
    if (!worker->setting->clears) {
        return false;
    }
    bool wanted = worker->shared->plan.target == CRASH_AT_CLEAR;
    return below(worker, wanted ? 200 : 8000) == 0;
}

static void run(struct worker *worker)
{
    struct crash_shared *shared = worker->shared;
    unsigned pause_us = worker->setting->pause_us;
    while (!atomic_load(&shared->stop) && !atomic_load(&shared->failed)) {
        if (clears_now(worker)) {
            clear(worker);
        }
        (void)pthread_rwlock_rdlock(&worker->victim->clearing);
        step(worker);
        (void)pthread_rwlock_unlock(&worker->victim->clearing);
        if (pause_us > 0) {
            crash_sleep_ns((int64_t)below(worker, 2 * (uint64_t)pause_us) * 1000);
        }
    }
}

void crash_work(struct crash_victim *victim, unsigned thread)
{
    struct crash_shared *shared = victim->shared;
    struct worker worker = {
        .victim = victim,
        .shared = shared,
        .setting = &shared->setting,
        .thread = thread,
        .value = malloc(CRASH_VALUE_MAX),
    };
    gb_rng_init(&worker.rng,
                gb_rng_mix(shared->setting.seed ^ shared->life) + CRASH_THREADS * 8 + thread);
    int rc = goblin_reader_create(&worker.reader, victim->store, NULL);
    if (rc == GOBLIN_OK && worker.value != NULL) {
        run(&worker);
    } else {
        (void)crash_fail(shared, "a worker's buffers: %s", goblin_strerror(rc));
    }
    goblin_reader_destroy(worker.reader);
    free(worker.value);
}
