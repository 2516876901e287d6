/* Looking: what a store holds against what it may hold. */
#include <stdio.h>
#include <string.h>

#include <goblin/stats.h>

#include "lib/pattern.h"
#include "sim/simrun_internal.h"

static void describe(const struct goblin_info *info, char *text, size_t len)
{
    if (info == NULL) {
        (void)snprintf(text, len, "nothing");
        return;
    }
    (void)snprintf(text, len,
                   "flags %x (%llu bytes, meta %u, version %llu, expires %lld, marks %x)",
                   info->flags, (unsigned long long)info->size, info->meta_len,
                   (unsigned long long)info->version, (long long)info->expires_ms, info->marks);
}

static void describe_states(const struct simrun *run, const struct simkey *key, size_t from,
                            char *text, size_t len)
{
    text[0] = '\0';
    for (size_t i = from; i < key->count; i++) {
        const struct simstate *state = &key->states[i];
        size_t at = strlen(text);
        if (simstate_visible(state, run->now_ms)) {
            (void)snprintf(text + at, len - at, " %x/v%llu/e%lld/m%x", state->flags,
                           (unsigned long long)state->version, (long long)state->expires_ms,
                           state->marks);
        } else {
            (void)snprintf(text + at, len - at, state->present ? " expired(%x)" : " nothing",
                           state->flags);
        }
    }
}

/* Holds `info` (NULL: nothing is there) against the model. */
static bool judge(struct simrun *run, unsigned key, const struct goblin_info *info,
                  enum simcrash crash)
{
    struct simkey *model = &run->keys[key];
    if (simkey_survives(model, crash, info, run->now_ms)) {
        return true;
    }
    if (info == NULL && run->losing) {
        /* It went with a drive, for good. */
        const struct simstate absent = {0};
        simkey_append(model, &absent, GOBLIN_DURABILITY_SYNCED);
        return true;
    }
    if (info == NULL && simcheck_counters(run) && (run->evicts || simrun_hurt(run))) {
        /* It left for lack of room; the log may still hold it at the next opening. */
        const struct simstate absent = {0};
        simkey_append(model, &absent, GOBLIN_DURABILITY_NONE);
        return true;
    }
    char seen[160];
    char may[256];
    size_t from = crash == SIMCRASH_POWER  ? model->synced
                  : crash == SIMCRASH_KILL ? model->written
                                           : model->count - 1;
    describe(info, seen, sizeof(seen));
    describe_states(run, model, from, may, sizeof(may));
    return simrun_fail(run, "key %u holds %s, but after %s it may hold only:%s", key, seen,
                       crash == SIMCRASH_POWER  ? "a power cut"
                       : crash == SIMCRASH_KILL ? "a kill"
                                                : "no crash",
                       may);
}

bool simcheck_info(struct simrun *run, unsigned key)
{
    struct goblin_info info;
    int rc = goblin_stat(run->store, simrun_name(run, key), &info);
    if (rc < 0) {
        return simrun_fail(run, "stat of key %u: %s", key, goblin_strerror(rc));
    }
    return judge(run, key, rc == GOBLIN_OK ? &info : NULL, SIMCRASH_NONE);
}

bool simcheck_bytes(struct simrun *run, unsigned key, enum simcrash crash)
{
    struct goblin_info info;
    int rc = goblin_load(run->reader, simrun_name(run, key), &run->loaded, &info, &run->meta);
    if (simrun_dark(run) || (rc < 0 && simrun_hurt(run))) {
        return true;
    }
    if (rc < 0) {
        return simrun_fail(run, "load of key %u: %s", key, goblin_strerror(rc));
    }
    if (rc == GOBLIN_OK &&
        (run->loaded.len != info.size || run->meta.len != info.meta_len ||
         !gb_pattern_holds(run->loaded.data, run->loaded.len, simrun_value_seed(key, info.flags),
                           0) ||
         !gb_pattern_holds(run->meta.data, run->meta.len, simrun_meta_seed(key, info.flags), 0))) {
        return simrun_fail(run,
                           "key %u: flags %x, size %llu (loaded %zu), meta %u (loaded %zu): "
                           "wrong bytes",
                           key, info.flags, (unsigned long long)info.size, run->loaded.len,
                           info.meta_len, run->meta.len);
    }
    return judge(run, key, rc == GOBLIN_OK ? &info : NULL, crash);
}

/* ---- ranges -------------------------------------------------------------------------------- */

struct range {
    unsigned key;
    uint64_t next; /* the offset that the next chunk must have */
    bool bad;
};

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct range *range = arg;
    if (chunk->offset != range->next ||
        !gb_pattern_holds(chunk->data, chunk->len,
                          simrun_value_seed(range->key, chunk->info->flags), chunk->offset)) {
        range->bad = true;
    }
    range->next = chunk->offset + chunk->len;
    return GOBLIN_CHUNK_DONE;
}

bool simcheck_range(struct simrun *run, unsigned key)
{
    uint64_t size = simkey_current(&run->keys[key])->size;
    struct range range = {.key = key, .next = simrun_below(run, size + 1)};
    uint64_t from = range.next;
    struct goblin_request request = {
        .key = simrun_name(run, key),
        .offset = from,
        .length = simrun_below(run, size - from + 1),
        .on_chunk = take_chunk,
        .arg = &range,
    };
    uint64_t until = request.length == 0 ? size : from + request.length;
    int rc = goblin_get(run->reader, &request);
    if (simrun_dark(run) || (rc < 0 && !range.bad && simrun_hurt(run))) {
        return true;
    }
    if (rc < 0 || range.bad || (rc == GOBLIN_OK && range.next != until)) {
        return simrun_fail(run, "range %llu+%llu of key %u: %s, ended at %llu",
                           (unsigned long long)from, (unsigned long long)(until - from), key,
                           range.bad ? "wrong bytes" : goblin_strerror(rc),
                           (unsigned long long)range.next);
    }
    return simcheck_info(run, key);
}

/* ---- the whole store ----------------------------------------------------------------------- */

struct tour {
    struct simrun *run;
    bool seen[SIMRUN_KEYS_MAX];
};

static int visit(void *arg, struct goblin_slice name, const struct goblin_info *info)
{
    struct tour *tour = arg;
    for (unsigned key = 0; key < tour->run->key_count; key++) {
        struct goblin_slice own = simrun_name(tour->run, key);
        if (own.len == name.len && memcmp(own.data, name.data, name.len) == 0) {
            tour->seen[key] = true;
            return judge(tour->run, key, info, SIMCRASH_NONE) ? 0 : -1;
        }
    }
    (void)simrun_fail(tour->run, "iteration gives a key that was never written");
    return -1;
}

bool simcheck_iteration(struct simrun *run)
{
    struct tour tour = {.run = run};
    uint64_t cursor = 0;
    do {
        int rc = goblin_iterate(run->store, &cursor, 5, visit, &tour);
        if (rc != GOBLIN_OK) {
            return simrun_fail(run, "iteration: %s", goblin_strerror(rc));
        }
    } while (cursor != 0);
    for (unsigned key = 0; key < run->key_count; key++) {
        if (!tour.seen[key] && !judge(run, key, NULL, SIMCRASH_NONE)) {
            return false;
        }
    }
    return true;
}

bool simcheck_all(struct simrun *run, enum simcrash crash)
{
    for (unsigned key = 0; key < run->key_count; key++) {
        if (!simcheck_bytes(run, key, crash)) {
            return false;
        }
        if (simrun_dark(run)) {
            return true;
        }
    }
    return simcheck_iteration(run);
}

bool simcheck_counters(struct simrun *run)
{
    struct goblin_stats stats;
    goblin_stats(run->store, &stats);
    run->evicts |= stats.left_disk > 0 || stats.left_ram > 0 || stats.admission_refused > 0;
    run->reclaimed = stats.segments_reclaimed;
    run->evicted = stats.left_disk + stats.left_ram + stats.left_admission;
    run->kept_in_ram = stats.admission_refused;
    run->written_later = stats.admission_written;
    run->rescued = stats.streams_rescued;
    run->returned = stats.drive_returns;
    if (simrun_dark(run) || simrun_hurt(run)) {
        return true;
    }
    if (stats.left_bad > 0 || stats.checksum_errors > 0 || stats.read_errors > 0 ||
        stats.write_errors > 0) {
        return simrun_fail(
            run, "%llu objects bad, %llu bad sums, %llu bad reads, %llu bad writes",
            (unsigned long long)stats.left_bad, (unsigned long long)stats.checksum_errors,
            (unsigned long long)stats.read_errors, (unsigned long long)stats.write_errors);
    }
    if (run->options.mode == GOBLIN_MODE_STORE && (stats.left_disk > 0 || stats.left_ram > 0)) {
        return simrun_fail(run, "a store dropped %llu objects for disk and %llu for RAM",
                           (unsigned long long)stats.left_disk, (unsigned long long)stats.left_ram);
    }
    return true;
}
