/* What each key may hold, in memory that outlives the process. */
#include "crash/crashlog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void crashkey_init(struct crash_key *key)
{
    memset(key, 0, sizeof(*key));
    key->states[0] = (struct crash_state){.acked_ns = 1, .promise = GOBLIN_DURABILITY_SYNCED};
    atomic_store(&key->next, 1);
    atomic_store(&key->acked, 1);
}

struct crash_state *crashkey_at(struct crash_key *key, uint32_t number)
{
    return &key->states[number % CRASH_STATES];
}

struct crash_state *crashkey_current(struct crash_key *key)
{
    return crashkey_at(key, atomic_load(&key->next) - 1);
}

bool crashstate_visible(const struct crash_state *state, int64_t now_ms)
{
    return state->write != 0 && (state->expires_ms == 0 || state->expires_ms > now_ms);
}

uint32_t crashstate_flags(const struct crash_state *state)
{
    return state->write | (uint32_t)state->tint << 24;
}

bool crashkey_has_room(const struct crash_key *key, uint32_t count)
{
    return atomic_load(&key->next) - atomic_load(&key->floor) + count <= CRASH_STATES;
}

/* ---- while the process lives --------------------------------------------------------------- */

void crashkey_intend(struct crash_key *key, const struct crash_state *state)
{
    uint32_t next = atomic_load(&key->next);
    struct crash_state *to = crashkey_at(key, next);
    *to = *state;
    to->acked_ns = 0;
    atomic_store(&key->next, next + 1);
}

void crashkey_acknowledge(struct crash_key *key, uint64_t version, int64_t now_ns,
                          enum goblin_durability reached)
{
    uint32_t number = atomic_load(&key->next) - 1;
    struct crash_state *state = crashkey_at(key, number);
    state->version = version;
    atomic_signal_fence(memory_order_seq_cst); /* a kill sees the stores in this order */
    state->acked_ns = now_ns;
    atomic_store(&key->acked, number + 1);
    if (reached >= GOBLIN_DURABILITY_WRITTEN) {
        crashkey_raise(key, number);
    }
}

void crashkey_withdraw(struct crash_key *key)
{
    atomic_fetch_sub(&key->next, 1);
}

void crashkey_raise(struct crash_key *key, uint32_t number)
{
    uint32_t floor = atomic_load(&key->floor);
    while (floor < number && !atomic_compare_exchange_weak(&key->floor, &floor, number)) {
    }
}

void crashkey_end_life(struct crash_key *key, const struct crash_end *end,
                       struct crash_window *window)
{
    uint32_t next = atomic_load(&key->next);
    for (uint32_t n = atomic_load(&key->floor); n < next; n++) {
        const struct crash_state *state = crashkey_at(key, n);
        if (state->life != end->life || state->acked_ns == 0) {
            continue;
        }
        bool safe = end->clean || end->killed_ns - state->acked_ns > end->window_ns;
        if (safe) {
            crashkey_raise(key, n);
        }
        window->kept += safe && state->promise == GOBLIN_DURABILITY_NONE;
        window->risked += !safe && state->promise == GOBLIN_DURABILITY_NONE;
    }
}

/* ---- judging ------------------------------------------------------------------------------- */

static bool matches(const struct crash_state *state, const struct goblin_info *info, int64_t now_ms)
{
    if (!crashstate_visible(state, now_ms) || info == NULL) {
        return !crashstate_visible(state, now_ms) && info == NULL;
    }
    return info->flags == crashstate_flags(state) && info->marks == state->marks &&
           info->size == state->size && info->meta_len == state->meta_len &&
           info->expires_ms == state->expires_ms &&
           (state->version == 0 || info->version == state->version);
}

bool crashkey_survives(struct crash_key *key, const struct goblin_info *info,
                       const struct crash_view *view)
{
    uint32_t floor = atomic_load(&key->floor);
    if (info == NULL && view->lax) {
        /* It was evicted, or another state is what is there; the log may still hold either. */
        atomic_store(&key->acked, floor + 1);
        return true;
    }
    uint32_t seen = atomic_load(&key->next);
    while (seen > floor && !matches(crashkey_at(key, seen - 1), info, view->now_ms)) {
        seen--;
    }
    if (seen == floor) {
        return false;
    }
    struct crash_state *state = crashkey_at(key, seen - 1);
    if (info != NULL) {
        state->version = info->version;
    }
    atomic_store(&key->acked, seen);
    atomic_store(&key->next, seen);
    crashkey_raise(key, seen - 1);
    return true;
}

bool crashkey_agrees(struct crash_key *key, const struct goblin_info *info,
                     const struct crash_view *view)
{
    return (info == NULL && view->lax) || matches(crashkey_current(key), info, view->now_ms);
}

static const char *promise_name(enum goblin_durability durability)
{
    switch (durability) {
    case GOBLIN_DURABILITY_SYNCED:
        return "synced";
    case GOBLIN_DURABILITY_WRITTEN:
        return "written";
    case GOBLIN_DURABILITY_NONE:
    case GOBLIN_DURABILITY_DEFAULT:
    default:
        return "none";
    }
}

void crashkey_describe(struct crash_key *key, int64_t now_ms, char *text, size_t len)
{
    uint32_t next = atomic_load(&key->next);
    text[0] = '\0';
    for (uint32_t n = atomic_load(&key->floor); n < next; n++) {
        const struct crash_state *state = crashkey_at(key, n);
        size_t at = strlen(text);
        if (state->write == 0) {
            (void)snprintf(text + at, len - at, "\n  nothing");
        } else {
            (void)snprintf(text + at, len - at,
                           "\n  write %" PRIu32 ", %" PRIu64 " bytes, meta %" PRIu32
                           ", version %" PRIu64 ", expires %" PRId64 "%s",
                           state->write, state->size, state->meta_len, state->version,
                           state->expires_ms,
                           crashstate_visible(state, now_ms) ? "" : " (expired)");
        }
        at = strlen(text);
        (void)snprintf(text + at, len - at, "; %s, %s in life %" PRIu32 " at %" PRId64 " ns",
                       promise_name(state->promise),
                       state->acked_ns != 0 ? "acknowledged" : "never answered", state->life,
                       state->acked_ns);
    }
}
