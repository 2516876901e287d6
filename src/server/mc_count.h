/* What the memcached sessions of one loop count, under memcached's names. One writer, its loop. */
#ifndef GB_SERVER_MC_COUNT_H
#define GB_SERVER_MC_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

/* X(name), in the order of `stats` */
#define GB_MC_COUNTERS(X)                                                                          \
    X(cmd_get)                                                                                     \
    X(cmd_set)                                                                                     \
    X(cmd_flush)                                                                                   \
    X(cmd_touch)                                                                                   \
    X(cmd_meta)                                                                                    \
    X(get_hits)                                                                                    \
    X(get_misses)                                                                                  \
    X(get_failed)                                                                                  \
    X(delete_misses)                                                                               \
    X(delete_hits)                                                                                 \
    X(incr_misses)                                                                                 \
    X(incr_hits)                                                                                   \
    X(decr_misses)                                                                                 \
    X(decr_hits)                                                                                   \
    X(cas_misses)                                                                                  \
    X(cas_hits)                                                                                    \
    X(cas_badval)                                                                                  \
    X(touch_hits)                                                                                  \
    X(touch_misses)                                                                                \
    X(store_too_large)                                                                             \
    X(store_no_memory)                                                                             \
    X(auth_cmds)                                                                                   \
    X(auth_errors)                                                                                 \
    X(log_watcher_sent)                                                                            \
    X(log_watcher_skipped)

enum gb_mc_counter {
#define GB_X(name) GB_MC_COUNT_##name,
    GB_MC_COUNTERS(GB_X)
#undef GB_X
        GB_MC_COUNTER_COUNT,
};

struct gb_mc_counts {
    _Atomic uint64_t counters[GB_MC_COUNTER_COUNT]; /* relaxed: each is a number by itself */
};

static inline void gb_mc_count(struct gb_mc_counts *counts, enum gb_mc_counter counter)
{
    _Atomic uint64_t *at = &counts->counters[counter];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

#endif
