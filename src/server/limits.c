/* The network budget, and the defaults of all limits. */
#include "server/limits.h"

#include <sys/resource.h>

#include "base/assert.h"
#include "base/bits.h"

#define CONNECTIONS_MOST  65536u
#define DESCRIPTORS_SPARE 512u /* the store's files, rings, listeners, logs */
#define CROWD_LEAST       1024u

static unsigned choose_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return CONNECTIONS_MOST;
    }
    uint64_t spare = gb_min(DESCRIPTORS_SPARE, limit.rlim_cur / 2);
    return (unsigned)gb_min(limit.rlim_cur - spare, CONNECTIONS_MOST);
}

static void default_bytes(uint64_t *value, uint64_t otherwise)
{
    *value = *value == 0 ? otherwise : *value;
}

static void default_count(unsigned *value, unsigned otherwise)
{
    *value = *value == 0 ? otherwise : *value;
}

static void default_ms(int64_t *value, int64_t otherwise)
{
    *value = *value == 0 ? otherwise : *value;
}

void gb_limits_init(struct gb_limits *limits, const struct gb_limits_options *options,
                    uint64_t memory_bytes)
{
    *limits = (struct gb_limits){.set = *options};
    struct gb_limits_options *set = &limits->set;
    default_bytes(&set->network_bytes, gb_max(memory_bytes / 8, GB_MIB));
    /* So that a few who gather or upload leave something to the others. */
    uint64_t share = gb_max(set->network_bytes / 16, 64 * GB_KIB);
    default_bytes(&set->whole_bytes, gb_min(256 * GB_KIB, share));
    default_bytes(&set->upload_bytes, gb_min(512 * GB_KIB, share));
    default_bytes(&set->output_bytes, gb_min(256 * GB_KIB, share));
    default_count(&set->connections, choose_connections());
    default_count(&set->turn_commands, 64);
    default_count(&set->sends, 16);
    default_count(&set->streams, 64);
    default_count(&set->workers, 32);
    default_ms(&set->idle_ms, (int64_t)10 * 60 * 1000);
    default_ms(&set->request_ms, (int64_t)60 * 1000);
    default_ms(&set->stall_ms, (int64_t)60 * 1000);
    default_ms(&set->hold_ms, 50);
    default_ms(&set->drain_ms, (int64_t)30 * 1000);
}

bool gb_limits_take(struct gb_limits *limits, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&limits->used_bytes, memory_order_relaxed);
    do {
        if (used > limits->set.network_bytes || limits->set.network_bytes - used < bytes) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&limits->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void gb_limits_take_anyway(struct gb_limits *limits, uint64_t bytes)
{
    atomic_fetch_add_explicit(&limits->used_bytes, bytes, memory_order_relaxed);
}

void gb_limits_give(struct gb_limits *limits, uint64_t bytes)
{
    uint64_t used = atomic_fetch_sub_explicit(&limits->used_bytes, bytes, memory_order_relaxed);
    GB_ASSERT(used >= bytes);
}

bool gb_limits_begin(struct gb_limits *limits)
{
    unsigned count = atomic_load_explicit(&limits->connections, memory_order_relaxed);
    do {
        if (count >= limits->set.connections) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&limits->connections, &count, count + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void gb_limits_end(struct gb_limits *limits)
{
    unsigned count = atomic_fetch_sub_explicit(&limits->connections, 1, memory_order_relaxed);
    GB_ASSERT(count > 0);
}

bool gb_limits_crowd_left(struct gb_limits *limits)
{
    unsigned count = atomic_load_explicit(&limits->connections, memory_order_relaxed);
    unsigned crowd = atomic_load_explicit(&limits->crowd, memory_order_relaxed);
    if (count > crowd) {
        atomic_store_explicit(&limits->crowd, count, memory_order_relaxed);
        return false;
    }
    return crowd >= CROWD_LEAST && count <= crowd / 16 &&
           atomic_compare_exchange_strong_explicit(&limits->crowd, &crowd, count,
                                                   memory_order_relaxed, memory_order_relaxed);
}
