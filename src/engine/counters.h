/* Counters by name. A tally belongs to one thread or lock at a time (plain adds) or is shared
 * (atomic adds); goblin_stats sums them all. The names are GOBLIN_COUNTERS of the public header. */
#ifndef GB_ENGINE_COUNTERS_H
#define GB_ENGINE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include <goblin/stats.h>

enum gb_counter {
#define GOBLIN_X(name, help) GB_COUNT_##name,
    GOBLIN_COUNTERS(GOBLIN_X)
#undef GOBLIN_X
        GB_COUNTERS
};

struct gb_tally {
    _Atomic uint64_t value[GB_COUNTERS];
};

/* The owner's add: no read-modify-write instruction, so it costs a load and a store. */
static inline void gb_tally_add(struct gb_tally *tally, enum gb_counter counter, uint64_t amount)
{
    uint64_t now = atomic_load_explicit(&tally->value[counter], memory_order_relaxed);
    atomic_store_explicit(&tally->value[counter], now + amount, memory_order_relaxed);
}

static inline void gb_tally_add_shared(struct gb_tally *tally, enum gb_counter counter,
                                       uint64_t amount)
{
    atomic_fetch_add_explicit(&tally->value[counter], amount, memory_order_relaxed);
}

static inline uint64_t gb_tally_get(const struct gb_tally *tally, enum gb_counter counter)
{
    return atomic_load_explicit(&tally->value[counter], memory_order_relaxed);
}

#endif
