/* Looking: what a store holds against the log. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "crash/crash.h"
#include "lib/pattern.h"

bool crash_fail(struct crash_shared *shared, const char *format, ...)
{
    if (!atomic_exchange(&shared->failed, true)) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(shared->why, sizeof(shared->why), format, args);
        va_end(args);
        atomic_store(&shared->said, true);
    }
    return false;
}

struct goblin_slice crash_name(struct crash_name *name, unsigned key)
{
    int len = snprintf(name->text, sizeof(name->text), "crash/%u", key);
    return (struct goblin_slice){name->text, (size_t)len};
}

struct crash_view crash_view(struct crash_victim *victim)
{
    struct crash_shared *shared = victim->shared;
    const struct goblin_options *options = &shared->setting.options;
    /* Counters die with the victim, so a cache that may have come round counts as one that did. */
    bool round = atomic_load(&shared->laid_bytes) > options->size_bytes / 3;
    return (struct crash_view){
        .now_ms = atomic_load(&shared->now_ms),
        .lax = options->mode == GOBLIN_MODE_CACHE && (round || atomic_load(&shared->evicts)),
    };
}

/* Adds to the log what came since the last time. */
static void note_progress(struct crash_victim *victim, struct goblin_stats *stats)
{
    struct crash_shared *shared = victim->shared;
    struct goblin_stats *last = &victim->counted;
    (void)pthread_mutex_lock(&victim->counting);
    goblin_stats(victim->store, stats);
    atomic_fetch_add(&shared->reclaimed, stats->segments_reclaimed - last->segments_reclaimed);
    atomic_fetch_add(&shared->evicted,
                     stats->left_disk + stats->left_ram - last->left_disk - last->left_ram);
    atomic_fetch_add(&shared->checkpoints, stats->checkpoints - last->checkpoints);
    *last = *stats;
    (void)pthread_mutex_unlock(&victim->counting);
}

bool crash_count(struct crash_victim *victim)
{
    struct crash_shared *shared = victim->shared;
    struct goblin_stats stats;
    note_progress(victim, &stats);
    uint64_t evicted = stats.left_disk + stats.left_ram;
    if (evicted > 0) {
        atomic_store(&shared->evicts, true);
    }
    if (stats.left_bad + stats.checksum_errors + stats.read_errors + stats.write_errors > 0) {
        return crash_fail(shared,
                          "%" PRIu64 " objects bad, %" PRIu64 " bad sums, %" PRIu64
                          " bad reads, %" PRIu64 " bad writes",
                          stats.left_bad, stats.checksum_errors, stats.read_errors,
                          stats.write_errors);
    }
    if (evicted > 0 && shared->setting.options.mode == GOBLIN_MODE_STORE) {
        return crash_fail(shared,
                          "a store dropped %" PRIu64 " objects for disk, %" PRIu64 " for memory",
                          stats.left_disk, stats.left_ram);
    }
    return true;
}

/* ---- one key ------------------------------------------------------------------------------- */

static bool complain(struct crash_victim *victim, unsigned key, const struct goblin_info *info,
                     const char *when)
{
    struct crash_shared *shared = victim->shared;
    struct crash_view view = crash_view(victim);
    char may[4096];
    char seen[192] = "nothing";
    crashkey_describe(&shared->keys[key], view.now_ms, may, sizeof(may));
    if (info != NULL) {
        (void)snprintf(seen, sizeof(seen),
                       "write %" PRIu32 ", %" PRIu64 " bytes, meta %" PRIu32 ", version %" PRIu64
                       ", expires %" PRId64,
                       info->flags, info->size, info->meta_len, info->version, info->expires_ms);
    }
    return crash_fail(shared, "%s key %u (crash/%u) holds %s;%s the log has:%s", when, key, key,
                      seen, view.lax ? " it may have been evicted;" : "", may);
}

static bool bytes_hold(unsigned key, const struct goblin_info *info,
                       const struct goblin_buffer *value, const struct goblin_buffer *meta)
{
    return value->len == info->size && meta->len == info->meta_len &&
           gb_pattern_holds(value->data, value->len, crash_value_seed(key, info->flags), 0) &&
           gb_pattern_holds(meta->data, meta->len, crash_meta_seed(key, info->flags), 0);
}

struct buffers {
    struct goblin_buffer value;
    struct goblin_buffer meta;
};

static int load(struct crash_victim *victim, struct goblin_reader *reader, unsigned key,
                struct goblin_info *info)
{
    struct buffers buffers = {0};
    struct crash_name name;
    int rc = goblin_load(reader, crash_name(&name, key), &buffers.value, info, &buffers.meta);
    if (rc < 0) {
        (void)crash_fail(victim->shared, "load of key %u: %s", key, goblin_strerror(rc));
    } else if (rc == GOBLIN_OK && !bytes_hold(key, info, &buffers.value, &buffers.meta)) {
        (void)complain(victim, key, info, "wrong bytes:");
        rc = GOBLIN_ECORRUPT;
    }
    goblin_buffer_free(&buffers.value);
    goblin_buffer_free(&buffers.meta);
    return rc;
}

bool crash_check_key(struct crash_victim *victim, struct goblin_reader *reader, unsigned key,
                     bool own)
{
    struct goblin_info info;
    struct crash_view before = crash_view(victim);
    int rc = load(victim, reader, key, &info);
    if (rc < 0 || !own) {
        return rc >= 0;
    }
    struct crash_key *log = &victim->shared->keys[key];
    const struct goblin_info *seen = rc == GOBLIN_OK ? &info : NULL;
    /* The clock may have passed the expiry meanwhile, or the first object have been evicted. */
    struct crash_view after;
    if (crashkey_agrees(log, seen, &before) || !crash_count(victim) ||
        (after = crash_view(victim), crashkey_agrees(log, seen, &after))) {
        return !atomic_load(&victim->shared->failed);
    }
    return complain(victim, key, seen, "while nobody died");
}

/* ---- after opening ------------------------------------------------------------------------- */

static bool survives(struct crash_victim *victim, struct goblin_reader *reader, unsigned key)
{
    struct crash_shared *shared = victim->shared;
    struct goblin_info info;
    int rc = load(victim, reader, key, &info);
    if (rc < 0) {
        return false;
    }
    const struct goblin_info *seen = rc == GOBLIN_OK ? &info : NULL;
    struct crash_view view = crash_view(victim);
    atomic_fetch_add(&shared->looked, 1);
    atomic_fetch_add(&shared->found, seen != NULL);
    return crashkey_survives(&shared->keys[key], seen, &view) ||
           complain(victim, key, seen, "after opening");
}

struct tour {
    struct crash_victim *victim;
    unsigned char *seen; /* by key */
};

static int visit(void *arg, struct goblin_slice name, const struct goblin_info *info)
{
    struct tour *tour = arg;
    struct crash_shared *shared = tour->victim->shared;
    struct crash_view view = crash_view(tour->victim);
    char text[24] = "";
    unsigned key = UINT32_MAX;
    struct crash_name own;
    memcpy(text, name.data, gb_min(name.len, sizeof(text) - 1));
    if (sscanf(text, "crash/%u", &key) != 1 || key >= shared->setting.keys ||
        crash_name(&own, key).len != name.len || memcmp(own.text, name.data, name.len) != 0) {
        (void)crash_fail(shared, "iteration gives a key that was never written: %s", text);
        return -1;
    }
    tour->seen[key] = 1;
    return crashkey_agrees(&shared->keys[key], info, &view) ||
                   complain(tour->victim, key, info, "while being listed")
               ? 0
               : -1;
}

static bool check_iteration(struct crash_victim *victim)
{
    struct crash_shared *shared = victim->shared;
    struct tour tour = {.victim = victim, .seen = calloc(CRASH_KEYS_MAX, 1)};
    if (tour.seen == NULL) {
        return crash_fail(shared, "no memory for the list of keys");
    }
    uint64_t cursor = 0;
    int rc = goblin_iterate(victim->store, &cursor, 0, visit, &tour);
    bool good = rc == GOBLIN_OK || crash_fail(shared, "iteration: %s", goblin_strerror(rc));
    struct crash_view view = crash_view(victim);
    for (unsigned key = 0; good && key < shared->setting.keys; key++) {
        good = tour.seen[key] != 0 || crashkey_agrees(&shared->keys[key], NULL, &view) ||
               complain(victim, key, NULL, "not listed:");
    }
    free(tour.seen);
    return good;
}

bool crash_check_all(struct crash_victim *victim)
{
    struct crash_shared *shared = victim->shared;
    struct goblin_reader *reader = NULL;
    int rc = goblin_reader_create(&reader, victim->store, NULL);
    if (rc != GOBLIN_OK) {
        return crash_fail(shared, "making a reader: %s", goblin_strerror(rc));
    }
    bool good = crash_count(victim);
    for (unsigned key = 0; good && key < shared->setting.keys; key++) {
        good = survives(victim, reader, key);
    }
    goblin_reader_destroy(reader);
    return good && check_iteration(victim) && crash_count(victim);
}
