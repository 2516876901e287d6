/* Credit of writers while free segments are short. */
#include "engine/throttle.h"

#include <time.h>

#include "engine/lane_internal.h"

#define STEP_NS 2000000L

/* What writers may take in advance: half of the free segments that are theirs. */
static int64_t slack(struct goblin *store)
{
    uint32_t free = gb_segments_free_count(&store->segments);
    uint32_t reserve = gb_lane_reserve_segments(store, GB_CLAIM_PLAIN);
    uint64_t theirs = free > reserve ? free - reserve : 0;
    return (int64_t)(theirs * store->segments.segment_bytes / 2);
}

void gb_throttle_wait_slowly(struct goblin *store, uint64_t bytes)
{
    struct gb_throttle *throttle = &store->throttle;
    if (!store->cleaner.running) {
        return; /* a store that does its own rounds */
    }
    int64_t left = atomic_fetch_sub(&throttle->credit, (int64_t)bytes) - (int64_t)bytes;
    bool waited = false;
    for (unsigned ms = 0; ms < GB_THROTTLE_MS && left < -slack(store); ms += STEP_NS / 1000000) {
        const struct timespec pause = {.tv_nsec = STEP_NS};
        (void)nanosleep(&pause, NULL);
        waited = true;
        if (!atomic_load(&throttle->tight)) {
            break;
        }
        left = atomic_load(&throttle->credit);
    }
    gb_tally_add_shared(&store->tally, GB_COUNT_puts_delayed, waited);
}

bool gb_throttle_would_wait(struct goblin *store, uint64_t bytes)
{
    struct gb_throttle *throttle = &store->throttle;
    return atomic_load_explicit(&throttle->tight, memory_order_relaxed) && store->cleaner.running &&
           atomic_load(&throttle->credit) - (int64_t)bytes < -slack(store);
}

void gb_throttle_begin(struct goblin *store)
{
    if (!atomic_load(&store->throttle.tight)) {
        atomic_store(&store->throttle.credit, 0);
        atomic_store(&store->throttle.tight, true);
    }
}

void gb_throttle_end(struct goblin *store)
{
    atomic_store(&store->throttle.tight, false);
}

void gb_throttle_earn(struct goblin *store, int64_t bytes)
{
    /* What nobody needs is not saved up: it would let a burst through later. */
    int64_t most = (int64_t)store->segments.segment_bytes;
    int64_t credit = atomic_fetch_add(&store->throttle.credit, bytes) + bytes;
    if (credit > most) {
        (void)atomic_compare_exchange_strong(&store->throttle.credit, &credit, most);
    }
}
