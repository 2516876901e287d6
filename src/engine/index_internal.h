/*
 * What the files of the index share: the bucket, the table and the arithmetic between them.
 *
 * Chains are dense: a home bucket fills from slot 0, its nodes (overflow buckets) are full except
 * the last, and no node is empty. So a scan ends at the first zero, and a chain never holds more
 * nodes than its entries need. The home bucket's lock covers the whole chain.
 */
#ifndef GB_ENGINE_INDEX_INTERNAL_H
#define GB_ENGINE_INDEX_INTERNAL_H

#include <sched.h>
#include <stdalign.h>

#include "base/pause.h"
#include "engine/index.h"
#include "engine/item.h"
#include "engine/rcu.h"

#define GB_BUCKET_SLOTS 7

/*
 * The word of a bucket, from the top: 35 bits of version, 28 bits that number the next node (0:
 * none), one bit that says locked. An unlock adds one to the version; a carry falls off the top.
 */
#define GB_WORD_LOCKED   UINT64_C(1)
#define GB_WORD_NODE_LOW UINT64_C(2)
#define GB_WORD_NODE_MAX ((UINT64_C(1) << 28) - 1)
#define GB_WORD_NODE     (GB_WORD_NODE_MAX << 1)
#define GB_WORD_VERSION  (UINT64_C(1) << 29)

#define GB_PLACE_BITS 48
#define GB_PLACE_MASK ((UINT64_C(1) << GB_PLACE_BITS) - 1)

struct gb_bucket {
    alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t slots[GB_BUCKET_SLOTS]; /* tag: 16, place: 48; 0: empty */
};

_Static_assert(sizeof(struct gb_bucket) == 64, "a bucket is a cache line");

/* Entries are counted by the low bits of their hash, so that writers rarely share a line, and each
 * counter alone is a fair sample of how full the table is. */
#define GB_INDEX_STRIPES 8

/* The smallest table; no fewer than the stripes, so that a bucket lies in one stripe. */
#define GB_INDEX_FIRST_BUCKETS 64

/* Entries per bucket at which the table grows, in sixteenths. See docs/adr/0002-index.md. */
#define GB_INDEX_LOAD_SIXTEENTHS 72

struct gb_stripe {
    alignas(64) _Atomic uint64_t count;
};

/* Home buckets fill the reserved range from its start, nodes from its end: node i is end[-i]. */
struct gb_index {
    struct gb_bucket *table;
    struct gb_bucket *end;
    const unsigned char *arena;
    void *range; /* as mapped */
    size_t range_bytes;
    uint64_t max_buckets; /* home buckets and nodes together */

    /* How many home buckets there are; this alone is the state of linear hashing. Stored with
     * release under `growing`; the acquire load that finds a bucket sees its contents. */
    _Atomic uint64_t buckets;

    alignas(64) atomic_flag growing; /* held by whoever splits; taken before a bucket's lock */

    /* Nodes. The lock is innermost and is held for a few instructions. */
    alignas(64) atomic_flag nodes_lock;
    uint64_t free_node;     /* under nodes_lock: head of the free list, linked by the words */
    uint64_t claimed;       /* under nodes_lock: `buckets`, and one more during a split */
    _Atomic uint64_t nodes; /* written under nodes_lock: nodes ever taken from the range */

    struct gb_stripe stripes[GB_INDEX_STRIPES];
};

/* The seqlock's fences. ThreadSanitizer has no model of fences (gcc refuses them under it); the
 * accesses they order are all atomic, so that it has nothing to report without them either. */
static inline void gb_index_fence_acquire(void)
{
#if GB_TSAN
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

static inline void gb_index_fence_release(void)
{
#if GB_TSAN
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_release);
#endif
}

/* One turn of waiting for a lock: the processor's pause at first, then the rest of the slice. */
static inline void gb_index_wait(unsigned *turns)
{
    if (++*turns > 64) {
        (void)sched_yield();
        return;
    }
    gb_pause();
}

/*
 * Linear hashing with `buckets` = 2^level + split: a hash belongs to the bucket that its low
 * level + 1 bits number if there is one, else to the one its low level bits number.
 */
static inline uint64_t gb_index_home(uint64_t buckets, uint64_t hash)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll(buckets);
    uint64_t home = hash & mask;
    return home < buckets ? home : home & mask >> 1;
}

/* How many low bits of the hash the entries of bucket `home` share. */
static inline unsigned gb_index_level(uint64_t buckets, uint64_t home)
{
    unsigned level = 63 - (unsigned)__builtin_clzll(buckets);
    uint64_t half = UINT64_C(1) << level;
    return home >= half || home < buckets - half ? level + 1 : level;
}

static inline struct gb_bucket *gb_index_node(const struct gb_index *index, uint64_t word)
{
    uint64_t number = (word & GB_WORD_NODE) / GB_WORD_NODE_LOW;
    return number == 0 ? NULL : index->end - number;
}

static inline struct gb_bucket *gb_index_next(const struct gb_index *index,
                                              const struct gb_bucket *bucket)
{
    return gb_index_node(index, atomic_load_explicit(&bucket->word, memory_order_relaxed));
}

/* Links `node` (NULL: nothing) behind `bucket`; version and lock bit stay. Relaxed: readers of the
 * chain learn from the home bucket's version that it changed. */
static inline void gb_index_link(const struct gb_index *index, struct gb_bucket *bucket,
                                 const struct gb_bucket *node)
{
    uint64_t word = atomic_load_explicit(&bucket->word, memory_order_relaxed) & ~GB_WORD_NODE;
    if (node != NULL) {
        word |= (uint64_t)(index->end - node) * GB_WORD_NODE_LOW;
    }
    atomic_store_explicit(&bucket->word, word, memory_order_relaxed);
}

static inline uint64_t gb_index_slot(const struct gb_bucket *bucket, unsigned i)
{
    return atomic_load_explicit(&bucket->slots[i], memory_order_relaxed);
}

/* Release: a reader that acquires the slot sees the item it points at, and sees the lock that was
 * taken before the store when it reads the version again. */
static inline void gb_index_set_slot(_Atomic uint64_t *slot, uint64_t value)
{
    atomic_store_explicit(slot, value, memory_order_release);
}

static inline struct gb_item *gb_index_item(const struct gb_index *index, uint64_t slot)
{
    /* The arena belongs to the index's user; the index itself never writes to it. */
    return (struct gb_item *)(uintptr_t)(index->arena + (slot & GB_PLACE_MASK));
}

static inline struct gb_stripe *gb_index_stripe(struct gb_index *index, uint64_t hash)
{
    return &index->stripes[hash % GB_INDEX_STRIPES];
}

/* ---- index.c ------------------------------------------------------------------------------- */

bool gb_index_bucket_try_lock(struct gb_bucket *bucket);
void gb_index_bucket_unlock(struct gb_bucket *bucket);

/* ---- index_grow.c -------------------------------------------------------------------------- */

/* A node with empty slots that follows nothing, or NULL when the range is full. */
struct gb_bucket *gb_index_grow_take(struct gb_index *index);
void gb_index_grow_give(struct gb_index *index, struct gb_bucket *node);

/* Splits the next bucket, or a few, if the stripe of `hash` says that the table is too full.
 * The caller holds no lock. Gives up where it would have to wait. */
void gb_index_grow(struct gb_index *index, uint64_t hash);

#endif
