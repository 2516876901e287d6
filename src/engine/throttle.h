/*
 * Writers beside a cleaner that makes room for them. Free segments come in large steps; a writer
 * that may go on until there are none stops for as long as the next one takes. So as soon as they
 * run short, writers spend credit, which the cleaner earns byte by byte as it passes what is dead,
 * and wait a little each when it is spent.
 */
#ifndef GB_ENGINE_THROTTLE_H
#define GB_ENGINE_THROTTLE_H

#include "engine/store.h"

/* About to append `bytes`; no lock is held. Waits at most GB_THROTTLE_MS, if at all. */
#define GB_THROTTLE_MS 50u
void gb_throttle_wait_slowly(struct goblin *store, uint64_t bytes);

static inline void gb_throttle_wait(struct goblin *store, uint64_t bytes)
{
    if (atomic_load_explicit(&store->throttle.tight, memory_order_relaxed)) {
        gb_throttle_wait_slowly(store, bytes);
    }
}

/* For a writer that must not wait: whether it would have to; and, having appended, that it did. */
bool gb_throttle_would_wait(struct goblin *store, uint64_t bytes);

static inline void gb_throttle_spend(struct goblin *store, uint64_t bytes)
{
    if (atomic_load_explicit(&store->throttle.tight, memory_order_relaxed)) {
        atomic_fetch_sub(&store->throttle.credit, (int64_t)bytes);
    }
}

/* The cleaner's: free segments run short; there are enough again. */
void gb_throttle_begin(struct goblin *store);
void gb_throttle_end(struct goblin *store);

/* The cleaner's: so many bytes more than it moved are behind it. */
void gb_throttle_earn(struct goblin *store, int64_t bytes);

#endif
