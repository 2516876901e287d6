/* Operations: each is drawn, done, and its answer held against the model. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "engine/keeper.h"
#include "lib/pattern.h"
#include "sim/simrun_internal.h"

/* ---- drawing ------------------------------------------------------------------------------- */

static uint64_t draw_size(struct simrun *run)
{
    switch (simrun_below(run, 32)) {
    case 0:
        return simrun_below(run, SIMRUN_VALUE_MAX);
    case 1:
    case 2:
        return simrun_below(run, 256 * GB_KIB);
    case 3:
    case 4:
    case 5:
        return simrun_below(run, 64 * GB_KIB);
    case 6:
        return 0;
    case 7:
        return GB_PACKED_MAX - 2 + simrun_below(run, 5);
    case 8:
        return 4 * GB_UNIT - 2 + simrun_below(run, 5);
    default:
        return simrun_below(run, 6 * GB_KIB);
    }
}

static enum goblin_durability draw_durability(struct simrun *run)
{
    static const enum goblin_durability choices[] = {
        GOBLIN_DURABILITY_DEFAULT, GOBLIN_DURABILITY_NONE,    GOBLIN_DURABILITY_NONE,
        GOBLIN_DURABILITY_NONE,    GOBLIN_DURABILITY_WRITTEN, GOBLIN_DURABILITY_SYNCED,
    };
    return choices[simrun_below(run, 6)];
}

/* An operation that must not wait asks for no durability. */
static bool draw_nowait(struct simrun *run, enum goblin_durability *durability)
{
    if (!simrun_chance(run, 15)) {
        return false;
    }
    *durability = GOBLIN_DURABILITY_NONE;
    return true;
}

static int64_t draw_expiry(struct simrun *run)
{
    if (!simrun_chance(run, 12)) {
        return 0;
    }
    return run->now_ms - 200 + (int64_t)simrun_below(run, 5000);
}

static enum goblin_durability promised(const struct simrun *run, enum goblin_durability asked)
{
    return asked == GOBLIN_DURABILITY_DEFAULT ? run->options.durability : asked;
}

static struct simstate draw_state(struct simrun *run)
{
    struct simstate state = {
        .present = true,
        .marks = simrun_chance(run, 20) ? (uint8_t)simrun_below(run, GOBLIN_MARKS + 1) : 0,
        .flags = ++run->next_write,
        .size = draw_size(run),
        .meta_len = simrun_chance(run, 15) ? (uint32_t)simrun_below(run, GOBLIN_META_MAX + 1) : 0,
        .expires_ms = draw_expiry(run),
    };
    return state;
}

/* ---- judging answers ----------------------------------------------------------------------- */

/* Faults that a store which is full, poor or thrifty may give; the operation then did nothing. */
static bool may_refuse(struct simrun *run, int rc)
{
    bool refused = rc == -ENOSPC || rc == -ENOMEM ||
                   (rc == -EDQUOT && run->options.write_budget_day_bytes != 0);
    run->result->refused += refused;
    return refused;
}

static int expected_answer(const struct simrun *run, unsigned key, enum goblin_condition condition,
                           uint64_t if_version)
{
    const struct simstate *state = simkey_current(&run->keys[key]);
    bool there = simstate_visible(state, run->now_ms);
    switch (condition) {
    case GOBLIN_IF_ABSENT:
        return there ? GOBLIN_EXISTS : GOBLIN_OK;
    case GOBLIN_IF_PRESENT:
        return there ? GOBLIN_OK : GOBLIN_MISS;
    case GOBLIN_IF_VERSION:
        return !there ? GOBLIN_MISS : state->version == if_version ? GOBLIN_OK : GOBLIN_CHANGED;
    case GOBLIN_ALWAYS:
    default:
        return GOBLIN_OK;
    }
}

/* Whether the answer is right because the object left while the operation made room for itself. */
static bool left_meanwhile(struct simrun *run, unsigned key, int rc)
{
    if (rc < 0 || !simcheck_counters(run) || (!run->evicts && !simrun_hurt(run)) ||
        !simstate_visible(simkey_current(&run->keys[key]), run->now_ms)) {
        return false;
    }
    const struct simstate absent = {0};
    simkey_append(&run->keys[key], &absent, GOBLIN_DURABILITY_NONE);
    return true;
}

/* An operation failed because the disk did, but goes on: it has taken place or not. */
static bool doubt(struct simrun *run, unsigned key, const struct simstate *state)
{
    struct simkey *model = &run->keys[key];
    const struct simstate before = *simkey_current(model);
    struct goblin_info info;
    int rc = goblin_stat(run->store, simrun_name(run, key), &info);
    const struct goblin_info *seen = rc == GOBLIN_OK ? &info : NULL;
    simkey_append(model, state, GOBLIN_DURABILITY_NONE);
    if (!simkey_agrees(model, seen, run->now_ms)) {
        simkey_append(model, &before, GOBLIN_DURABILITY_NONE);
    }
    return simcheck_info(run, key);
}

/* An operation on one key and what is expected of it. */
struct attempt {
    const char *what;
    unsigned key;
    int expected;
    enum goblin_durability durability; /* of its acknowledgement */
    bool nowait;                       /* it may come to nothing */
    bool erases;                       /* it must find room */
    struct simstate state;             /* that it is to give the key */
};

/* The attempt has been answered. */
static bool settle(struct simrun *run, const struct attempt *attempt, int rc)
{
    const struct simstate *state = &attempt->state;
    unsigned key = attempt->key;
    simrun_trace(run, "%s key %u flags %x size %llu expires %lld marks %x durability %d: %d",
                 attempt->what, key, state->flags, (unsigned long long)state->size,
                 (long long)state->expires_ms, state->marks, (int)attempt->durability, rc);
    if (rc == -EAGAIN && attempt->nowait) {
        run->result->refused++;
        return simcheck_info(run, key);
    }
    if (rc == attempt->expected || left_meanwhile(run, key, rc)) {
        if (rc == GOBLIN_OK) {
            simkey_append(&run->keys[key], state, attempt->durability);
        }
        return true;
    }
    if (rc < 0 && simrun_dark(run)) {
        if (attempt->expected == GOBLIN_OK) {
            simkey_append(&run->keys[key], state, GOBLIN_DURABILITY_NONE);
        }
        return true;
    }
    if (rc == -EIO && simfaults_bearable(run)) {
        return simrun_fail(run, "%s of key %u hears of a write that failed", attempt->what, key);
    }
    if (rc < 0 && simrun_hurt(run)) {
        return attempt->expected != GOBLIN_OK || doubt(run, key, state);
    }
    if (rc == -ENOSPC && attempt->erases && simfaults_deletes_fit(run)) {
        return simrun_fail(run, "%s of key %u finds no room", attempt->what, key);
    }
    if (may_refuse(run, rc)) {
        return simcheck_counters(run) && simcheck_info(run, key);
    }
    return simrun_fail(run, "%s of key %u answered %d (%s), not %d", attempt->what, key, rc,
                       goblin_strerror(rc), attempt->expected);
}

/* ---- put, delete, amend -------------------------------------------------------------------- */

/* Condition and version that sometimes hold and sometimes do not. */
static void draw_condition(struct simrun *run, unsigned key, struct goblin_put_options *options)
{
    if (!simrun_chance(run, 20)) {
        return;
    }
    options->condition = (enum goblin_condition)(1 + simrun_below(run, 3));
    options->if_version = simkey_current(&run->keys[key])->version;
    if (simrun_chance(run, 25)) {
        options->if_version ^= 1;
    }
}

static struct goblin_put_options draw_options(struct simrun *run, unsigned key,
                                              struct simstate *state, unsigned char *meta)
{
    gb_pattern_fill(meta, state->meta_len, simrun_meta_seed(key, state->flags), 0);
    struct goblin_put_options options = {
        .meta = {meta, state->meta_len},
        .expires_ms = state->expires_ms,
        .flags = state->flags,
        .marks = state->marks,
        .durability = draw_durability(run),
    };
    draw_condition(run, key, &options);
    if (simrun_chance(run, 5)) {
        options.version = 1000000 + simrun_below(run, 1000);
        state->version = options.version;
    }
    return options;
}

static bool step_put(struct simrun *run, unsigned key)
{
    unsigned char meta[GOBLIN_META_MAX];
    struct attempt put = {.what = "put", .key = key, .state = draw_state(run)};
    struct goblin_put_options options = draw_options(run, key, &put.state, meta);
    put.nowait = options.nowait = draw_nowait(run, &options.durability);
    put.expected = expected_answer(run, key, options.condition, options.if_version);
    put.durability = promised(run, options.durability);
    gb_pattern_fill(run->value, put.state.size, simrun_value_seed(key, put.state.flags), 0);
    uint64_t version = 0;
    int rc = goblin_put(run->store, simrun_name(run, key),
                        (struct goblin_slice){run->value, put.state.size}, &options, &version);
    if (rc == GOBLIN_OK) {
        put.state.version = version;
    }
    return settle(run, &put, rc);
}

static bool step_delete(struct simrun *run, unsigned key)
{
    struct goblin_put_options options = {.durability = draw_durability(run)};
    draw_condition(run, key, &options);
    if (options.condition == GOBLIN_IF_ABSENT || options.condition == GOBLIN_ALWAYS) {
        options.condition = GOBLIN_ALWAYS;
    }
    bool there = simstate_visible(simkey_current(&run->keys[key]), run->now_ms);
    int expected = expected_answer(run, key, options.condition, options.if_version);
    options.nowait = draw_nowait(run, &options.durability);
    const struct attempt erase = {
        .what = "delete",
        .key = key,
        .expected = there ? expected : GOBLIN_MISS,
        .durability = promised(run, options.durability),
        .nowait = options.nowait,
        .erases = true,
    };
    int rc = goblin_delete(run->store, simrun_name(run, key), &options);
    if (rc == GOBLIN_MISS && !there && options.condition == GOBLIN_ALWAYS) {
        /* Then nothing is there as safely as was asked. */
        simkey_append(&run->keys[key], &erase.state, erase.durability);
    }
    return settle(run, &erase, rc);
}

static int64_t draw_later(struct simrun *run)
{
    return simrun_chance(run, 40) ? 0 : run->now_ms - 50 + (int64_t)simrun_below(run, 5000);
}

/* An amendment, and what it makes of the state. */
static struct goblin_amendment draw_amendment(struct simrun *run, unsigned key,
                                              struct simstate *state)
{
    struct goblin_put_options options = {.condition = GOBLIN_ALWAYS};
    draw_condition(run, key, &options);
    struct goblin_amendment amendment = {
        .condition = options.condition == GOBLIN_IF_ABSENT ? GOBLIN_IF_PRESENT : options.condition,
        .if_version = options.if_version,
        .durability = draw_durability(run),
    };
    if (simrun_chance(run, 50)) {
        amendment.what |= GOBLIN_AMEND_EXPIRES;
        amendment.expires_ms = state->expires_ms = draw_later(run);
    }
    if (simrun_chance(run, 40)) {
        amendment.what |= GOBLIN_AMEND_FLAGS;
        state->flags = (state->flags & SIMSTATE_WRITE) | (uint32_t)simrun_below(run, 256) << 24;
        amendment.flags = state->flags;
    }
    if (simrun_chance(run, 30)) {
        amendment.what |= GOBLIN_AMEND_VERSION;
        amendment.version = simrun_chance(run, 50) ? 1000000 + simrun_below(run, 1000) : 0;
        state->version = amendment.version;
    }
    if (simrun_chance(run, 50)) {
        amendment.marks_set = (uint8_t)simrun_below(run, GOBLIN_MARKS + 1);
        amendment.marks_clear = (uint8_t)simrun_below(run, GOBLIN_MARKS + 1);
        state->marks = (uint8_t)((state->marks & ~amendment.marks_clear) | amendment.marks_set);
    }
    return amendment;
}

static bool step_amend(struct simrun *run, unsigned key)
{
    struct attempt amend = {.what = "amend", .key = key, .state = *simkey_current(&run->keys[key])};
    struct goblin_amendment amendment = draw_amendment(run, key, &amend.state);
    amend.nowait = amendment.nowait = draw_nowait(run, &amendment.durability);
    amend.expected = expected_answer(
        run, key, amendment.condition != GOBLIN_ALWAYS ? amendment.condition : GOBLIN_IF_PRESENT,
        amendment.if_version);
    amend.durability = promised(run, amendment.durability);
    struct goblin_info before;
    int rc = goblin_amend(run->store, simrun_name(run, key), &amendment, &before);
    if ((rc == GOBLIN_OK || rc == GOBLIN_CHANGED) &&
        !simkey_agrees(&run->keys[key], &before, run->now_ms)) {
        return simrun_fail(run, "amend of key %u: it was not flags %x version %llu marks %x", key,
                           before.flags, (unsigned long long)before.version, before.marks);
    }
    /* The store may have numbered it; that is the version from now on. */
    return settle(run, &amend, rc) && (rc != GOBLIN_OK || simcheck_info(run, key));
}

static bool step_touch(struct simrun *run, unsigned key)
{
    enum goblin_durability durability = draw_durability(run);
    struct attempt touch = {
        .what = "touch",
        .key = key,
        .expected = expected_answer(run, key, GOBLIN_IF_PRESENT, 0),
        .durability = promised(run, durability),
        .state = *simkey_current(&run->keys[key]),
    };
    touch.state.expires_ms = draw_later(run);
    int rc = goblin_touch(run->store, simrun_name(run, key), touch.state.expires_ms, durability);
    return settle(run, &touch, rc);
}

/* ---- streams ------------------------------------------------------------------------------- */

void simwork_drop_streams(struct simrun *run)
{
    for (unsigned i = 0; i < SIMRUN_STREAMS; i++) {
        goblin_writer_abort(run->streams[i].writer);
        run->streams[i].writer = NULL;
    }
}

static bool begin_stream(struct simrun *run, struct simstream *stream, unsigned key)
{
    unsigned char meta[GOBLIN_META_MAX];
    *stream = (struct simstream){.key = key, .state = draw_state(run)};
    struct goblin_put_options options = draw_options(run, key, &stream->state, meta);
    /* A version that was right at begin is not worth much at commit. */
    options.condition = options.condition == GOBLIN_IF_VERSION ? GOBLIN_ALWAYS : options.condition;
    stream->condition = options.condition;
    stream->durability = promised(run, options.durability);
    uint64_t size = simrun_chance(run, 50) ? GOBLIN_SIZE_UNKNOWN : stream->state.size;
    int rc =
        goblin_writer_begin(&stream->writer, run->store, simrun_name(run, key), size, &options);
    simrun_trace(run, "begin key %u write %u size %llu: %d", key, stream->state.flags,
                 (unsigned long long)size, rc);
    if (rc != GOBLIN_OK) {
        stream->writer = NULL;
    }
    return rc == GOBLIN_OK || may_refuse(run, rc) || simrun_dark(run) || simrun_hurt(run) ||
           simrun_fail(run, "begin of key %u: %s", key, goblin_strerror(rc));
}

static bool feed_stream(struct simrun *run, struct simstream *stream)
{
    uint64_t left = stream->state.size - stream->given;
    size_t len = (size_t)gb_min(left, 1 + simrun_below(run, 200 * GB_KIB));
    gb_pattern_fill(run->value, len, simrun_value_seed(stream->key, stream->state.flags),
                    stream->given);
    int rc = goblin_writer_write(stream->writer, run->value, len);
    simrun_trace(run, "write %zu of write %u: %d", len, stream->state.flags, rc);
    stream->given += len;
    if (rc == GOBLIN_OK) {
        return true;
    }
    goblin_writer_abort(stream->writer);
    stream->writer = NULL;
    return may_refuse(run, rc) || simrun_dark(run) ||
           (simrun_hurt(run) && !(rc == -EIO && simfaults_bearable(run))) ||
           simrun_fail(run, "write to key %u: %s", stream->key, goblin_strerror(rc));
}

static bool commit_stream(struct simrun *run, struct simstream *stream)
{
    struct attempt commit = {
        .what = "commit",
        .key = stream->key,
        .expected = expected_answer(run, stream->key, stream->condition, 0),
        .durability = stream->durability,
        .state = stream->state,
    };
    uint64_t version = 0;
    int rc = goblin_writer_commit(stream->writer, &version);
    stream->writer = NULL;
    if (rc == GOBLIN_OK) {
        commit.state.version = version;
    }
    return settle(run, &commit, rc);
}

static bool step_stream(struct simrun *run, unsigned key)
{
    struct simstream *stream = &run->streams[simrun_below(run, SIMRUN_STREAMS)];
    if (stream->writer == NULL) {
        return begin_stream(run, stream, key);
    }
    if (simrun_chance(run, 5)) {
        simrun_trace(run, "abort write %u", stream->state.flags);
        goblin_writer_abort(stream->writer);
        stream->writer = NULL;
        return true;
    }
    while (stream->given < stream->state.size) {
        if (!feed_stream(run, stream)) {
            return false;
        }
        if (stream->writer == NULL || simrun_chance(run, 30)) {
            return true;
        }
    }
    return simcheck_info(run, stream->key) && commit_stream(run, stream);
}

/* ---- the whole store ----------------------------------------------------------------------- */

static bool step_sync(struct simrun *run)
{
    int rc = goblin_sync(run->store);
    simrun_trace(run, "sync: %d", rc);
    if (rc != GOBLIN_OK) {
        return simrun_dark(run) || simrun_hurt(run) ||
               simrun_fail(run, "sync: %s", goblin_strerror(rc));
    }
    simfaults_all_synced(run, simfaults_given_up(run));
    return true;
}

static bool step_clear(struct simrun *run)
{
    int rc = goblin_clear(run->store);
    simrun_trace(run, "clear: %d", rc);
    if (may_refuse(run, rc)) {
        return true;
    }
    if (rc != GOBLIN_OK && !simrun_dark(run) && !simrun_hurt(run)) {
        return simrun_fail(run, "clear: %s", goblin_strerror(rc));
    }
    const struct simstate absent = {0};
    bool good = true;
    for (unsigned key = 0; good && key < run->key_count; key++) {
        if (rc == GOBLIN_OK || simrun_dark(run)) {
            simkey_append(&run->keys[key], &absent,
                          rc == GOBLIN_OK ? GOBLIN_DURABILITY_SYNCED : GOBLIN_DURABILITY_NONE);
        } else {
            good = doubt(run, key, &absent);
        }
    }
    return good;
}

static bool step_checkpoint(struct simrun *run)
{
    int rc = goblin_checkpoint(run->store);
    simrun_trace(run, "checkpoint: %d", rc);
    return rc == GOBLIN_OK || simrun_dark(run) || simrun_hurt(run) ||
           (rc == -ENOSPC && run->faults.was_full) ||
           simrun_fail(run, "checkpoint: %s", goblin_strerror(rc));
}

static bool step_background(struct simrun *run)
{
    switch (simrun_below(run, 4)) {
    case 0:
        gb_keeper_round(run->store);
        simrun_trace(run, "round");
        return true;
    case 1: {
        unsigned lane = (unsigned)simrun_below(run, run->store->lane_count);
        int rc = gb_lane_flush(&run->store->lanes[lane], 0);
        simrun_trace(run, "flush lane %u: %d", lane, rc);
        return true;
    }
    case 2:
        run->now_ms += (int64_t)simrun_below(run, 2000);
        simrun_trace(run, "now %lld", (long long)run->now_ms);
        return true;
    default:
        return simcheck_iteration(run);
    }
}

bool simwork_step(struct simrun *run)
{
    unsigned key = (unsigned)simrun_below(run, run->key_count);
    run->result->operations++;
    if ((run->evicts || simrun_hurt(run)) && !simcheck_info(run, key)) {
        return false;
    }
    uint64_t roll = simrun_below(run, 1000);
    if (roll < 380) {
        return step_put(run, key);
    } else if (roll < 540) {
        return step_stream(run, key);
    } else if (roll < 640) {
        return step_delete(run, key);
    } else if (roll < 660) {
        return step_touch(run, key);
    } else if (roll < 720) {
        return step_amend(run, key);
    } else if (roll < 800) {
        return simcheck_bytes(run, key, SIMCRASH_NONE);
    } else if (roll < 850) {
        return simcheck_range(run, key);
    } else if (roll < 880) {
        return step_sync(run);
    } else if (roll < 892) {
        return step_checkpoint(run);
    } else if (roll < 895) {
        return step_clear(run);
    }
    return step_background(run);
}
