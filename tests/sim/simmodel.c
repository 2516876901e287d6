/* The histories of keys and how crashes cut them. */
#include "sim/simmodel.h"

#include <stdlib.h>
#include <string.h>

#include "sim/simpages.h"

void simkey_init(struct simkey *key)
{
    *key = (struct simkey){0};
    const struct simstate absent = {0};
    simkey_append(key, &absent, GOBLIN_DURABILITY_SYNCED);
}

void simkey_fini(struct simkey *key)
{
    free(key->states);
    *key = (struct simkey){0};
}

const struct simstate *simkey_current(const struct simkey *key)
{
    return &key->states[key->count - 1];
}

bool simstate_visible(const struct simstate *state, int64_t now_ms)
{
    return state->present && (state->expires_ms == 0 || state->expires_ms > now_ms);
}

void simkey_acknowledge(struct simkey *key, enum goblin_durability durability)
{
    if (durability >= GOBLIN_DURABILITY_WRITTEN) {
        key->written = key->count - 1;
    }
    if (durability >= GOBLIN_DURABILITY_SYNCED) {
        key->synced = key->count - 1;
    }
}

/* States below both floors can never be seen again. */
static void forget_old(struct simkey *key)
{
    size_t gone = key->synced < key->written ? key->synced : key->written;
    memmove(key->states, key->states + gone, (key->count - gone) * sizeof(*key->states));
    key->count -= gone;
    key->written -= gone;
    key->synced -= gone;
}

void simkey_append(struct simkey *key, const struct simstate *state,
                   enum goblin_durability acknowledged)
{
    if (key->count == key->capacity) {
        if (key->count > 0) {
            forget_old(key);
        }
        key->capacity = key->count < 8 ? 16 : key->count * 2;
        key->states = sim_realloc(key->states, key->capacity * sizeof(*key->states));
    }
    key->states[key->count++] = *state;
    simkey_acknowledge(key, acknowledged);
}

static bool matches(const struct simstate *state, const struct goblin_info *info, int64_t now_ms)
{
    if (!simstate_visible(state, now_ms) || info == NULL) {
        return !simstate_visible(state, now_ms) && info == NULL;
    }
    return info->flags == state->flags && info->marks == state->marks &&
           info->size == state->size && info->meta_len == state->meta_len &&
           info->expires_ms == state->expires_ms &&
           (state->version == 0 || info->version == state->version);
}

static void learn_version(struct simstate *state, const struct goblin_info *info)
{
    if (info != NULL) {
        state->version = info->version;
    }
}

bool simkey_agrees(struct simkey *key, const struct goblin_info *info, int64_t now_ms)
{
    struct simstate *current = &key->states[key->count - 1];
    if (!matches(current, info, now_ms)) {
        return false;
    }
    learn_version(current, info);
    return true;
}

/* The process died: what is there now was there then, and nothing newer is; but what it was not
 * promised to a power cut may still be undone by one. */
static bool survive_kill(struct simkey *key, const struct goblin_info *info, int64_t now_ms)
{
    size_t first = key->count;
    size_t last = 0;
    for (size_t i = key->written; i < key->count; i++) {
        if (matches(&key->states[i], info, now_ms)) {
            learn_version(&key->states[i], info);
            first = first == key->count ? i : first;
            last = i;
        }
    }
    if (first == key->count) {
        return false;
    }
    key->count = last + 1;
    key->written = first;
    return true;
}

/* The power failed: what is there is on the disk for good. */
static bool survive_power_cut(struct simkey *key, const struct goblin_info *info, int64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = key->synced; i < key->count; i++) {
        if (matches(&key->states[i], info, now_ms)) {
            learn_version(&key->states[i], info);
            key->states[kept++] = key->states[i];
        }
    }
    if (kept == 0) {
        return false;
    }
    key->count = kept;
    key->written = 0;
    key->synced = 0;
    return true;
}

bool simkey_survives(struct simkey *key, enum simcrash crash, const struct goblin_info *info,
                     int64_t now_ms)
{
    switch (crash) {
    case SIMCRASH_KILL:
        return survive_kill(key, info, now_ms);
    case SIMCRASH_POWER:
        return survive_power_cut(key, info, now_ms);
    case SIMCRASH_NONE:
    default:
        return simkey_agrees(key, info, now_ms);
    }
}
