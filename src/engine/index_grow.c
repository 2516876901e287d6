/* The index as a whole: its nodes, its growth by splitting, and the walk over all of it. */
#include "engine/index_internal.h"

#include "base/assert.h"

/* An unlock adds at most one entry, so that two splits per unlock always catch up. */
#define SPLITS_PER_UNLOCK 2

/* ---- nodes --------------------------------------------------------------------------------- */

static void lock_nodes(struct gb_index *index)
{
    unsigned turns = 0;
    while (atomic_flag_test_and_set_explicit(&index->nodes_lock, memory_order_acquire)) {
        gb_index_wait(&turns);
    }
}

static void unlock_nodes(struct gb_index *index)
{
    atomic_flag_clear_explicit(&index->nodes_lock, memory_order_release);
}

static void clear_slots(struct gb_bucket *bucket)
{
    for (unsigned i = 0; i < GB_BUCKET_SLOTS; i++) {
        gb_index_set_slot(&bucket->slots[i], 0);
    }
}

struct gb_bucket *gb_index_grow_take(struct gb_index *index)
{
    struct gb_bucket *node = NULL;
    lock_nodes(index);
    uint64_t nodes = atomic_load_explicit(&index->nodes, memory_order_relaxed);
    if (index->free_node != 0) {
        node = index->end - index->free_node;
        struct gb_bucket *next = gb_index_next(index, node);
        index->free_node = next == NULL ? 0 : (uint64_t)(index->end - next);
    } else if (nodes < GB_WORD_NODE_MAX &&
               nodes + atomic_load_explicit(&index->buckets, memory_order_relaxed) <
                   index->max_buckets) {
        node = index->end - (nodes + 1);
        atomic_store_explicit(&index->nodes, nodes + 1, memory_order_relaxed);
    }
    unlock_nodes(index);
    if (node != NULL) {
        gb_index_link(index, node, NULL);
    }
    return node;
}

/* The node's slots must be empty: stale readers may still be looking, and what they find in a node
 * they follow to an item. */
void gb_index_grow_give(struct gb_index *index, struct gb_bucket *node)
{
    lock_nodes(index);
    gb_index_link(index, node, index->free_node == 0 ? NULL : index->end - index->free_node);
    index->free_node = (uint64_t)(index->end - node);
    unlock_nodes(index);
}

/* ---- splitting ----------------------------------------------------------------------------- */

/* A chain under construction. */
struct chain {
    struct gb_bucket *tail;
    unsigned used; /* slots of the tail */
};

/* A split only redistributes entries, and two dense chains never need more nodes together than
 * the one they came from, so it lives on the nodes it has already read: `spare`. */
static void append(struct gb_index *index, struct chain *chain, uint64_t value,
                   struct gb_bucket **spare)
{
    if (chain->used == GB_BUCKET_SLOTS) {
        struct gb_bucket *node = *spare;
        GB_ASSERT(node != NULL);
        *spare = gb_index_next(index, node);
        gb_index_link(index, node, NULL);
        gb_index_link(index, chain->tail, node);
        *chain = (struct chain){.tail = node};
    }
    gb_index_set_slot(&chain->tail->slots[chain->used++], value);
}

static uint64_t hash_of(const struct gb_index *index, uint64_t value)
{
    const struct gb_item *item = gb_index_item(index, value);
    return gb_index_hash(item->key, gb_item_key_len(item));
}

/* Reads and empties one bucket; starts fetching the items. */
static unsigned drain(const struct gb_index *index, struct gb_bucket *bucket,
                      uint64_t values[static GB_BUCKET_SLOTS])
{
    unsigned used = 0;
    while (used < GB_BUCKET_SLOTS && (values[used] = gb_index_slot(bucket, used)) != 0) {
        const struct gb_item *item = gb_index_item(index, values[used]);
        __builtin_prefetch(&item->size_key);
        __builtin_prefetch(item->key);
        used++;
    }
    clear_slots(bucket);
    return used;
}

/* Moves to `fresh` the entries of `old` whose hash has `bit`. `old` is locked, so its items stay
 * where they are; nobody else knows `fresh` yet. */
static void redistribute(struct gb_index *index, struct gb_bucket *old, struct gb_bucket *fresh,
                         uint64_t bit)
{
    struct chain stay = {.tail = old};
    struct chain go = {.tail = fresh};
    struct gb_bucket *spare = NULL;
    struct gb_bucket *bucket = old;
    while (bucket != NULL) {
        uint64_t values[GB_BUCKET_SLOTS];
        struct gb_bucket *next = gb_index_next(index, bucket);
        unsigned used = drain(index, bucket, values);
        if (bucket == old) {
            gb_index_link(index, old, NULL);
        } else {
            gb_index_link(index, bucket, spare);
            spare = bucket;
        }
        for (unsigned i = 0; i < used; i++) {
            bool goes = (hash_of(index, values[i]) & bit) != 0;
            append(index, goes ? &go : &stay, values[i], &spare);
        }
        bucket = next;
    }
    while (spare != NULL) {
        struct gb_bucket *next = gb_index_next(index, spare);
        gb_index_grow_give(index, spare);
        spare = next;
    }
}

/* Home buckets and nodes grow towards each other: a claim keeps the next home bucket out of the
 * nodes' reach until the split that fills it is published. */
static bool claim_bucket(struct gb_index *index)
{
    lock_nodes(index);
    bool room = index->claimed + atomic_load_explicit(&index->nodes, memory_order_relaxed) <
                index->max_buckets;
    index->claimed += room ? 1 : 0;
    unlock_nodes(index);
    return room;
}

static void disclaim_bucket(struct gb_index *index)
{
    lock_nodes(index);
    index->claimed--;
    unlock_nodes(index);
}

/* Under `growing`. False: someone holds the bucket, or the range is full. */
static bool split_next(struct gb_index *index)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    uint64_t half = UINT64_C(1) << (63 - __builtin_clzll(buckets));
    struct gb_bucket *old = &index->table[buckets - half];
    if (!claim_bucket(index)) {
        return false;
    }
    if (!gb_index_bucket_try_lock(old)) {
        disclaim_bucket(index);
        return false;
    }
    redistribute(index, old, &index->table[buckets], half);
    /* Release: pairs with the acquire loads of `buckets`; the fresh bucket's contents are there.
     * Before the unlock, so that whoever sees the thinned bucket sees the new number too. */
    atomic_store_explicit(&index->buckets, buckets + 1, memory_order_release);
    gb_index_bucket_unlock(old);
    return true;
}

static bool wants_split(struct gb_index *index, uint64_t hash)
{
    uint64_t count =
        atomic_load_explicit(&gb_index_stripe(index, hash)->count, memory_order_relaxed);
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    return count * GB_INDEX_STRIPES * 16 > buckets * GB_INDEX_LOAD_SIXTEENTHS &&
           buckets + atomic_load_explicit(&index->nodes, memory_order_relaxed) < index->max_buckets;
}

void gb_index_grow(struct gb_index *index, uint64_t hash)
{
    if (!wants_split(index, hash) ||
        atomic_flag_test_and_set_explicit(&index->growing, memory_order_acquire)) {
        return;
    }
    for (unsigned i = 0; i < SPLITS_PER_UNLOCK && wants_split(index, hash); i++) {
        if (!split_next(index)) {
            break;
        }
    }
    atomic_flag_clear_explicit(&index->growing, memory_order_release);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static uint64_t reverse_bits(uint64_t x)
{
    x = (x & UINT64_C(0x5555555555555555)) << 1 | (x >> 1 & UINT64_C(0x5555555555555555));
    x = (x & UINT64_C(0x3333333333333333)) << 2 | (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
    return __builtin_bswap64(x);
}

static unsigned chain_length(const struct gb_index *index, const struct gb_bucket *bucket)
{
    unsigned length = 0;
    for (; bucket != NULL; bucket = gb_index_next(index, bucket)) {
        for (unsigned i = 0; i < GB_BUCKET_SLOTS && gb_index_slot(bucket, i) != 0; i++) {
            length++;
        }
    }
    return length;
}

static _Atomic uint64_t *chain_slot(const struct gb_index *index, struct gb_bucket *bucket,
                                    unsigned i)
{
    for (; i >= GB_BUCKET_SLOTS; i -= GB_BUCKET_SLOTS) {
        bucket = gb_index_next(index, bucket);
    }
    return &bucket->slots[i];
}

/*
 * Read backwards, the bits that choose a bucket are the leading bits of a number, and the buckets
 * cut the range of that number into intervals, which a split halves. The cursor walks the range
 * from 0: what lies before it has been visited, however the intervals are cut meanwhile.
 */
void gb_index_scan_bucket(struct gb_index *index, uint64_t *cursor, gb_index_visit_fn visit,
                          void *arg)
{
    struct gb_locked locked;
    gb_index_lock(index, reverse_bits(*cursor), &locked);
    /* Backwards: a removal fills its hole with the last entry, which has been visited. */
    for (unsigned i = chain_length(index, locked.bucket); i-- > 0;) {
        locked.slot = chain_slot(index, locked.bucket, i);
        uint64_t value = atomic_load_explicit(locked.slot, memory_order_relaxed);
        visit(arg, &locked, gb_index_item(index, value));
    }
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    uint64_t home = (uint64_t)(locked.bucket - index->table);
    uint64_t width = UINT64_C(1) << (64 - gb_index_level(buckets, home));
    *cursor = gb_align_down(*cursor, width) + width;
    gb_index_unlock(&locked);
}
