/* The keeper's rounds. */
#include "engine/keeper.h"

#include <errno.h>
#include <time.h>

#include "engine/expire.h"
#include "engine/reclaim.h"
#include "engine/recover.h"

#define ROUND_NS       50000000L
#define PREFAULT_BYTES (32u << 20)         /* of RAM, beyond the blocks in use */
#define IDLE_NS        INT64_C(2000000000) /* write blocks unused for this long are given back */

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void keep_lanes(struct goblin *store)
{
    /* Half the promised delay: a block waits at most one more round. */
    int64_t age_ns = (int64_t)store->options.flush_ms * 1000000 / 2;
    for (unsigned i = 0; i < store->lane_count; i++) {
        (void)gb_lane_flush(&store->lanes[i], age_ns);
        (void)gb_lane_settle(&store->lanes[i], false);
        gb_lane_trim(&store->lanes[i], IDLE_NS);
    }
}

static void keep_memory(struct goblin *store)
{
    gb_store_rebudget(store);
    gb_residency_reclaim(store, gb_residency_look_ahead(store));
    gb_residency_release(store);
    gb_arena_trim(&store->arena);
    gb_arena_prefault(&store->arena, PREFAULT_BYTES >> store->arena.block_shift);
}

static void settle_all(struct goblin *store)
{
    for (unsigned i = 0; i < store->lane_count; i++) {
        (void)gb_lane_settle(&store->lanes[i], true);
    }
}

static void keep_disk(struct goblin *store)
{
    int prepared = gb_segments_prepare(&store->segments, 2 * store->lane_count);
    if (prepared < 0) {
        gb_store_log(store, GOBLIN_LOG_ERROR, "making segments ahead failed: %s",
                     goblin_strerror(prepared));
    }
    while (gb_segments_free_count(&store->segments) < gb_reclaim_target(store) &&
           !atomic_load(&store->keeper_stop)) {
        int rc = gb_reclaim_one(store);
        if (rc == 0) {
            /* What waits for its footer may be the oldest of its lane. */
            settle_all(store);
            rc = gb_reclaim_one(store);
        }
        if (rc < 0 && rc != -ECANCELED) {
            gb_store_log(store, GOBLIN_LOG_ERROR, "reclaiming a segment failed: %s",
                         goblin_strerror(rc));
        }
        if (rc <= 0) {
            atomic_fetch_add(&store->reclaim_failures, 1);
            if (store->options.mode == GOBLIN_MODE_STORE) {
                gb_segments_none(&store->segments);
            }
            return;
        }
    }
}

void gb_keeper_round(struct goblin *store)
{
    keep_memory(store);
    keep_lanes(store);
    if (store->options.mode == GOBLIN_MODE_STORE) {
        gb_expire_some(store);
    }
    keep_disk(store);
}

static void wait_round(struct goblin *store)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ROUND_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&store->keeper_lock);
    if (!atomic_load(&store->keeper_poked) && !atomic_load(&store->keeper_stop)) {
        (void)pthread_cond_timedwait(&store->keeper_wake, &store->keeper_lock, &until);
    }
    atomic_store(&store->keeper_poked, false);
    (void)pthread_mutex_unlock(&store->keeper_lock);
}

static void *keep(void *arg)
{
    struct goblin *store = arg;
    int64_t checkpointed = now_ns();
    int64_t trimmed = checkpointed;
    int64_t period = (int64_t)store->options.checkpoint_s * 1000000000;
    while (!atomic_load(&store->keeper_stop)) {
        wait_round(store);
        gb_keeper_round(store);
        if (now_ns() - trimmed > IDLE_NS) {
            gb_pool_trim(store);
            trimmed = now_ns();
        }
        if (store->options.checkpoint_s != UINT32_MAX && now_ns() - checkpointed > period) {
            (void)gb_checkpoint_write(store, GB_CHECKPOINT_RUNNING);
            checkpointed = now_ns();
        }
    }
    return NULL;
}

static void *warm(void *arg)
{
    gb_warm(arg);
    return NULL;
}

int gb_keeper_start(struct goblin *store)
{
    int rc = pthread_create(&store->keeper, NULL, keep, store);
    if (rc != 0) {
        return -rc;
    }
    store->keeper_running = true;
    atomic_store(&store->warming, gb_index_count(store->index) > 0);
    if (atomic_load(&store->warming)) {
        rc = pthread_create(&store->warmer, NULL, warm, store);
        store->warmer_running = rc == 0;
        atomic_store(&store->warming, rc == 0);
    }
    return -rc;
}

void gb_keeper_stop(struct goblin *store)
{
    atomic_store(&store->keeper_stop, true);
    if (store->warmer_running) {
        (void)pthread_join(store->warmer, NULL);
        store->warmer_running = false;
    }
    if (store->keeper_running) {
        (void)pthread_mutex_lock(&store->keeper_lock);
        (void)pthread_cond_signal(&store->keeper_wake);
        (void)pthread_mutex_unlock(&store->keeper_lock);
        (void)pthread_join(store->keeper, NULL);
        store->keeper_running = false;
    }
}
