/* Opening and closing: directories and identities, then memory, then recovery, then the keeper. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "engine/config.h"
#include "engine/descriptors.h"
#include "engine/drive.h"
#include "engine/headers.h"
#include "engine/heads.h"
#include "engine/keeper.h"
#include "engine/recover.h"
#include "engine/store.h"

#define SEQUENCE_LEAP (UINT64_C(1) << 32) /* more than one opening draws */
#define LARGE_BLOCK   (2 * GB_MIB)

/* ---- memory -------------------------------------------------------------------------------- */

/* Large enough that what is left over at a block's end does not count and large objects fit; small
 * enough that the few that must stay free do not count either. No object has more in RAM than a
 * block takes, so it is 2 MiB as soon as there are still enough of them. */
static uint32_t arena_block_bytes(const struct goblin_options *options)
{
    bool fixed = options->residency == GOBLIN_RESIDENCY_FIXED;
    uint64_t memory = options->memory_bytes;
    uint64_t wanted = gb_max(memory / 256, memory >= 64 * LARGE_BLOCK ? LARGE_BLOCK : 0);
    uint64_t block = 128 * GB_KIB;
    while (block * 2 <= wanted && block < (fixed ? GB_MIB : 8 * GB_MIB)) {
        block *= 2;
    }
    return (uint32_t)block;
}

static int build_memory(struct goblin *store, struct goblin_error *error)
{
    const struct goblin_options *options = &store->options;
    store->budget.total = options->memory_bytes;
    uint32_t block_bytes = arena_block_bytes(options);
    uint64_t spare = (uint64_t)GB_RESIDENCY_SPARE * block_bytes;
    int rc = gb_arena_init(&store->arena, options->memory_bytes + spare, block_bytes);
    if (rc == 0) {
        rc = gb_index_create(&store->index, store->arena.base, options->memory_bytes);
    }
    if (rc < 0) {
        gb_error_set(error, "reserving addresses for %llu bytes of memory: %s",
                     (unsigned long long)options->memory_bytes, goblin_strerror(rc));
        return rc;
    }
    atomic_fetch_add(&store->budget.other,
                     store->arena.block_count * sizeof(struct gb_block) + sizeof(*store));
    gb_residency_init(&store->residency);
    return 0;
}

static int build_segments(struct goblin *store, struct goblin_error *error)
{
    int rc = gb_segments_init(&store->segments, store->io, store->drives, store->drive_count);
    if (rc < 0) {
        gb_error_set(error, "table of segments: %s", goblin_strerror(rc));
        return rc;
    }
    atomic_fetch_add(&store->budget.other, store->segments.count * sizeof(struct gb_segment));
    return 0;
}

static int build_lanes(struct goblin *store, struct goblin_error *error)
{
    store->lane_count = store->options.lanes;
    for (unsigned i = 0; i < store->lane_count; i++) {
        int rc = gb_lane_init(&store->lanes[i], store, i);
        if (rc < 0) {
            gb_error_set(error, "write buffers: %s", goblin_strerror(rc));
            return rc;
        }
    }
    /* A lane's blocks come when it writes; it cannot do with fewer than two. */
    uint64_t blocks = 2 * (uint64_t)store->lane_count * store->options.write_block_bytes;
    uint64_t spent = blocks + atomic_load(&store->budget.other);
    if (spent > store->budget.total / 2) {
        gb_error_set(error,
                     "memory of %llu bytes: %llu go to write buffers and tables; give at least "
                     "twice that, or fewer lanes",
                     (unsigned long long)store->budget.total, (unsigned long long)spent);
        return GOBLIN_EOPTION;
    }
    gb_store_rebudget(store);
    return 0;
}

/* ---- the store ----------------------------------------------------------------------------- */

static void destroy(struct goblin *store)
{
    for (unsigned i = 0; i < GB_LANES_MAX; i++) {
        gb_lane_fini(&store->lanes[i]);
    }
    gb_segments_fini(&store->segments);
    gb_drives_close(store->drives, store->drive_count);
    if (store->index != NULL) {
        gb_index_destroy(store->index);
    }
    gb_ordered_fini(&store->ordered);
    gb_arena_fini(&store->arena);
    gb_pool_fini(store);
    gb_residency_fini(&store->residency);
    gb_admission_fini(store);
    (void)pthread_mutex_destroy(&store->rescue_lock);
    (void)pthread_mutex_destroy(&store->readers_lock);
    (void)pthread_mutex_destroy(&store->keeper_lock);
    (void)pthread_mutex_destroy(&store->checkpoint_lock);
    (void)pthread_cond_destroy(&store->keeper_wake);
    if (store->io != NULL) {
        store->io->ops->destroy(store->io);
    }
    free(store->heads_dir);
    free(store);
}

static int copy_settings(struct goblin *store, const struct goblin_options *options)
{
    store->options = *options;
    if (options->heads_dir != NULL) {
        store->heads_dir = strdup(options->heads_dir);
        if (store->heads_dir == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* What finding and entering the drives cost them, and what lies there besides segments. */
static void count_opening(struct goblin *store)
{
    for (unsigned i = 0; i < store->drive_count; i++) {
        gb_store_count_read(store, store->drives[i].read_bytes);
    }
    gb_store_count_identities(store);
    if (store->heads_dir != NULL) {
        gb_heads_measure(store);
    }
}

/* What a crash took with it had been numbered, and its versions told: they are not given again.
 * Each opening has a range of its own, so that several crashes in a row do not meet in one. */
static void leap(struct goblin *store)
{
    uint64_t first_epoch = store->drive_count > 1 ? 2 : 1;
    uint64_t begin = (store->epoch - gb_min(store->epoch, first_epoch)) * SEQUENCE_LEAP;
    atomic_store(&store->sequence, gb_max(atomic_load(&store->sequence), begin));
}

/* Lanes with segments on other drives than their own. */
static uint32_t find_strays(struct goblin *store)
{
    uint32_t strayed = 0;
    for (unsigned lane = 0; lane < store->lane_count; lane++) {
        unsigned home = gb_segments_home(&store->segments, lane);
        bool away = home < store->drive_count && store->drives[home].missing;
        strayed |= (uint32_t)away << lane;
    }
    for (uint32_t i = 0; i < store->segments.count; i++) {
        const struct gb_segment *segment = &store->segments.table[i];
        if (segment->status == GB_SEGMENT_SEALED &&
            gb_segments_home(&store->segments, segment->lane) != segment->drive) {
            strayed |= 1u << segment->lane;
        }
    }
    return strayed;
}

/* What was lost must not come back once this opening has changed anything. */
static int begin_epoch(struct goblin *store, const struct gb_refusals *refusals,
                       struct goblin_error *error)
{
    struct gb_passage passage = {
        .floor = store->drives[0].identity.floor,
        .beyond = refusals->epoch,
        .strayed = find_strays(store),
    };
    if (gb_drives_bereft(store->drives, store->drive_count) && store->epoch > 0) {
        passage.floor = gb_store_next_sequence(store);
        int rc = gb_checkpoint_write(store, GB_CHECKPOINT_OPENING);
        if (rc < 0) {
            gb_error_set(error, "a checkpoint after a loss: %s", goblin_strerror(rc));
            return rc;
        }
    }
    int rc = gb_drives_enter_epoch(store->drives, store->drive_count, &passage, error);
    store->epoch = gb_drives_epoch(store->drives, store->drive_count);
    return rc;
}

static void warn_of_buffering(const struct goblin *store)
{
    for (unsigned i = 0; i < store->drive_count; i++) {
        if (!store->drives[i].direct && !store->drives[i].missing &&
            store->options.caching == GOBLIN_CACHING_DIRECT) {
            gb_store_log(store, GOBLIN_LOG_WARN,
                         "%s: the file system refuses direct I/O; the page cache is used, which "
                         "`memory` does not bound",
                         store->drives[i].dir);
        }
    }
}

static int build(struct goblin *store, const struct goblin_options *options,
                 const struct gb_refusals *refusals, struct goblin_error *error)
{
    int rc = copy_settings(store, options);
    if (rc < 0) {
        gb_error_set(error, "%s", goblin_strerror(rc));
        return rc;
    }
    gb_config_resolve(&store->options); /* for a store that is made; adopted and resolved again */
    rc = gb_drives_open(&store->drives, &store->drive_count, store->io, &store->options, refusals,
                        error);
    if (rc < 0) {
        return rc;
    }
    struct goblin_options adopted = *options;
    rc = gb_config_adopt(&adopted, &store->drives[0].identity, error);
    if (rc < 0) {
        return rc;
    }
    gb_config_resolve(&adopted);
    store->options = adopted;
    store->options.dirs = NULL;
    store->options.heads_dir = NULL;
    warn_of_buffering(store);
    rc = build_memory(store, error);
    if (rc == 0) {
        rc = build_segments(store, error);
    }
    if (rc == 0 && store->segments.count > gb_descriptors_most()) {
        gb_store_log(store, GOBLIN_LOG_INFO,
                     "%u segments, and by RLIMIT_NOFILE %u may be open at once: their files are "
                     "opened as they are needed",
                     store->segments.count, gb_descriptors_most());
    }
    if (rc == 0) {
        store->segments.tally = &store->tally;
        rc = build_lanes(store, error);
    }
    if (rc == 0) {
        rc = gb_admission_init(store);
    }
    if (rc == 0) {
        store->epoch = gb_drives_epoch(store->drives, store->drive_count);
        rc = gb_recover(store, error);
    }
    if (rc == 0 && !options->read_only) {
        rc = begin_epoch(store, refusals, error);
        leap(store);
        if (rc == 0) {
            gb_headers_mend(store);
        }
    }
    count_opening(store);
    return rc;
}

static struct goblin *create_store(struct gb_io *io)
{
    struct goblin *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->io = io;
    gb_pool_init(&store->pool);
    gb_ordered_init(&store->ordered);
    (void)pthread_mutex_init(&store->rescue_lock, NULL);
    (void)pthread_mutex_init(&store->readers_lock, NULL);
    (void)pthread_mutex_init(&store->keeper_lock, NULL);
    (void)pthread_mutex_init(&store->checkpoint_lock, NULL);
    (void)pthread_cond_init(&store->keeper_wake, NULL);
    return store;
}

/* A drive that refuses to be written to is one that is missing. What has been read from it counts
 * for nothing then, so the opening begins again. */
static int open_with_what_is_there(struct goblin **out, const struct goblin_options *options,
                                   struct gb_io *io, struct goblin_error *error)
{
    struct gb_refusals refusals = {.epoch = 0};
    for (;;) {
        struct goblin *store = create_store(io);
        if (store == NULL) {
            io->ops->destroy(io);
            gb_error_set(error, "%s", goblin_strerror(-ENOMEM));
            return -ENOMEM;
        }
        int rc = build(store, options, &refusals, error);
        if (rc >= 0) {
            *out = store;
            return 0;
        }
        bool again = gb_drives_refused(store->drives, store->drive_count, rc, &refusals);
        store->io = again ? NULL : io;
        destroy(store);
        if (!again) {
            return rc;
        }
    }
}

int gb_store_open(struct goblin **out, const struct goblin_options *options, struct gb_io *io,
                  struct goblin_error *error)
{
    int rc = open_with_what_is_there(out, options, io, error);
    if (rc < 0) {
        gb_error_wrap(error, "open store");
        return rc;
    }
    gb_error_set(error, "%s", "");
    if ((*out)->options.ordered == GOBLIN_ORDERED_ALWAYS) {
        (void)gb_ordered_build(*out); /* begins; the keeper goes on, and so does a scan */
    }
    return GOBLIN_OK;
}

int goblin_open(struct goblin **out, const struct goblin_options *options,
                struct goblin_error *error)
{
    int rc = goblin_options_check(options, error);
    if (rc < 0) {
        gb_error_wrap(error, "open store");
        return rc;
    }
    struct gb_io *io = NULL;
    rc = gb_drives_choose_io(&io, options, error);
    if (rc < 0) {
        gb_error_wrap(error, "open store");
        return rc;
    }
    rc = gb_store_open(out, options, io, error);
    if (rc >= 0 && !options->read_only) {
        int started = gb_keeper_start(*out);
        if (started < 0) {
            gb_error_set(error, "open store: background threads: %s", goblin_strerror(started));
            gb_store_abandon(*out);
            return started;
        }
    }
    return rc;
}

int goblin_close(struct goblin *store)
{
    if (store == NULL) {
        return GOBLIN_OK;
    }
    gb_keeper_stop(store); /* the warmer has a reader of its own */
    GB_ASSERT(store->readers == NULL);
    int rc = 0;
    if (!store->options.read_only) {
        gb_admission_round(store);
        for (unsigned i = 0; i < store->lane_count; i++) {
            int rolled = gb_lane_roll(&store->lanes[i]);
            int settled = gb_lane_settle(&store->lanes[i], true);
            rc = rc < 0 ? rc : (rolled < 0 ? rolled : settled);
        }
        int written = gb_checkpoint_write(store, GB_CHECKPOINT_CLEAN);
        rc = rc < 0 ? rc : written;
    }
    destroy(store);
    return rc < 0 ? rc : GOBLIN_OK;
}

void gb_store_abandon(struct goblin *store)
{
    gb_keeper_stop(store);
    destroy(store);
}
