/* The index: finding, locking and changing the entries of one bucket. */
#include "engine/index_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

#define HUGE_PAGE_BYTES (2 * GB_MIB)
/* From here on, huge pages: 4 to 7 % more looks per second in a table of 128 MiB, nothing in one of
 * 32 MiB. Two of them may be half used, which must be little beside what the range may come to. */
#define HUGE_FROM_BYTES (256 * GB_MIB)

int gb_index_create(struct gb_index **out, const unsigned char *arena, uint64_t max_bytes)
{
    uint64_t max_buckets = max_bytes / sizeof(struct gb_bucket);
    if (max_buckets < 2 * (uint64_t)GB_INDEX_FIRST_BUCKETS || max_bytes > SIZE_MAX / 2) {
        return -EINVAL;
    }
    struct gb_index *index = aligned_alloc(alignof(struct gb_index), sizeof(*index));
    if (index == NULL) {
        return -ENOMEM;
    }
    memset(index, 0, sizeof(*index));
    bool huge = max_bytes >= HUGE_FROM_BYTES;
    uint64_t table_bytes = max_buckets * sizeof(struct gb_bucket);
    index->range_bytes = table_bytes + (huge ? HUGE_PAGE_BYTES : 0);
    index->range = mmap(NULL, index->range_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (index->range == MAP_FAILED) {
        free(index);
        return -ENOMEM;
    }
    uintptr_t start = (uintptr_t)index->range;
    if (huge) {
        start = gb_align_up(start, HUGE_PAGE_BYTES);
        /* Advice only: without huge pages the table is as right, and slower. */
        (void)madvise((void *)start, table_bytes, MADV_HUGEPAGE);
    }
    index->table = (struct gb_bucket *)start;
    index->end = index->table + max_buckets;
    index->max_buckets = max_buckets;
    index->arena = arena;
    index->claimed = GB_INDEX_FIRST_BUCKETS;
    atomic_init(&index->buckets, GB_INDEX_FIRST_BUCKETS);
    atomic_flag_clear(&index->growing);
    atomic_flag_clear(&index->nodes_lock);
    *out = index;
    return 0;
}

void gb_index_destroy(struct gb_index *index)
{
    if (index == NULL) {
        return;
    }
    (void)munmap(index->range, index->range_bytes);
    free(index);
}

void gb_index_reset(struct gb_index *index)
{
    if (madvise(index->range, index->range_bytes, MADV_DONTNEED) != 0) {
        memset(index->table, 0, atomic_load(&index->buckets) * sizeof(struct gb_bucket));
        uint64_t nodes = atomic_load(&index->nodes);
        memset(index->end - nodes, 0, nodes * sizeof(struct gb_bucket));
    }
    index->free_node = 0;
    index->claimed = GB_INDEX_FIRST_BUCKETS;
    atomic_store(&index->nodes, 0);
    atomic_store(&index->buckets, GB_INDEX_FIRST_BUCKETS);
    for (unsigned i = 0; i < GB_INDEX_STRIPES; i++) {
        atomic_store(&index->stripes[i].count, 0);
    }
}

uint64_t gb_index_hash(const void *key, size_t len)
{
    return XXH3_64bits(key, len);
}

void gb_index_prefetch(const struct gb_index *index, uint64_t hash)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    __builtin_prefetch(&index->table[gb_index_home(buckets, hash)]);
}

void gb_index_prefetch_item(const struct gb_index *index, uint64_t hash)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    const struct gb_bucket *bucket = &index->table[gb_index_home(buckets, hash)];
    for (unsigned matches = gb_index_look_tags(bucket, hash); matches != 0;
         matches &= matches - 1) {
        uint64_t value = gb_index_slot(bucket, (unsigned)__builtin_ctz(matches) / 2 - 1);
        __builtin_prefetch(gb_index_item(index, value));
        gb_index_look_prefetch(index, value, GB_INDEX_LOOK_HEAD);
    }
}

uint64_t gb_index_count(const struct gb_index *index)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < GB_INDEX_STRIPES; i++) {
        count += atomic_load_explicit(&index->stripes[i].count, memory_order_relaxed);
    }
    return count;
}

uint64_t gb_index_bytes(const struct gb_index *index)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_relaxed) +
                       atomic_load_explicit(&index->nodes, memory_order_relaxed);
    return sizeof(*index) + buckets * sizeof(struct gb_bucket);
}

/* ---- looking ------------------------------------------------------------------------------- */

bool gb_index_unchanged(const struct gb_glimpse *glimpse)
{
    return gb_index_look_holds(glimpse);
}

/* The nodes behind the glimpsed bucket. Nodes move between chains, so the home bucket must be
 * unchanged before each step, or the walk might stray into other chains for ever. */
static const struct gb_item *find_in_nodes(const struct gb_look *look,
                                           const struct gb_glimpse *glimpse)
{
    const struct gb_bucket *node = gb_index_node(look->index, glimpse->version);
    while (node != NULL) {
        uint64_t value;
        if (gb_index_look_bucket(look, node, &value) != NULL) {
            return gb_index_item(look->index, value);
        }
        node = gb_index_next(look->index, node);
        if (!gb_index_unchanged(glimpse)) {
            break;
        }
    }
    return NULL;
}

const struct gb_item *gb_index_look_patiently(const struct gb_index *index, uint64_t hash,
                                              const void *key, size_t len,
                                              struct gb_glimpse *glimpse)
{
    const struct gb_look look = {index, key, len, hash, GB_INDEX_LOOK_BYTES};
    for (unsigned turns = 0;; gb_index_wait(&turns)) {
        uint64_t buckets = gb_index_look_home(index, hash, glimpse);
        if ((glimpse->version & GB_WORD_LOCKED) != 0) {
            continue;
        }
        uint64_t value;
        if (gb_index_look_bucket(&look, glimpse->bucket, &value) != NULL) {
            return gb_index_item(index, value);
        }
        const struct gb_item *item = find_in_nodes(&look, glimpse);
        if (item != NULL || gb_index_look_missing(index, hash, buckets, glimpse)) {
            return item;
        }
    }
}

const struct gb_item *gb_index_find(const struct gb_index *index, uint64_t hash, const void *key,
                                    size_t len, struct gb_glimpse *glimpse)
{
    return gb_index_look(index, hash, key, len, glimpse);
}

/* ---- locking ------------------------------------------------------------------------------- */

bool gb_index_bucket_try_lock(struct gb_bucket *bucket)
{
    uint64_t word = atomic_load_explicit(&bucket->word, memory_order_relaxed);
    /* Acquire: pairs with gb_index_bucket_unlock; we see what the last holder did. */
    if ((word & GB_WORD_LOCKED) != 0 ||
        !atomic_compare_exchange_weak_explicit(&bucket->word, &word, word | GB_WORD_LOCKED,
                                               memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    /* Pairs with the fence in gb_index_unchanged: no store that follows is seen before the lock. */
    gb_index_fence_release();
    return true;
}

void gb_index_bucket_unlock(struct gb_bucket *bucket)
{
    uint64_t word = atomic_load_explicit(&bucket->word, memory_order_relaxed);
    /* Release: pairs with the acquire loads in gb_index_find and gb_index_bucket_try_lock. */
    atomic_store_explicit(&bucket->word, word + GB_WORD_VERSION - GB_WORD_LOCKED,
                          memory_order_release);
}

/* 1: locked; 0: someone else has it; -1: it was split meanwhile. */
static int try_lock_home(struct gb_index *index, uint64_t hash, struct gb_locked *locked)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_acquire);
    struct gb_bucket *home = &index->table[gb_index_home(buckets, hash)];
    if (!gb_index_bucket_try_lock(home)) {
        return 0;
    }
    uint64_t now = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    if (now != buckets && &index->table[gb_index_home(now, hash)] != home) {
        gb_index_bucket_unlock(home);
        return -1;
    }
    *locked = (struct gb_locked){.index = index, .bucket = home, .hash = hash, .slot = NULL};
    return 1;
}

void gb_index_lock(struct gb_index *index, uint64_t hash, struct gb_locked *locked)
{
    unsigned turns = 0;
    while (try_lock_home(index, hash, locked) != 1) {
        gb_index_wait(&turns);
    }
}

bool gb_index_try_lock(struct gb_index *index, uint64_t hash, struct gb_locked *locked)
{
    int got;
    do {
        got = try_lock_home(index, hash, locked);
    } while (got < 0);
    return got == 1;
}

void gb_index_unlock(struct gb_locked *locked)
{
    gb_index_bucket_unlock(locked->bucket);
    gb_index_grow(locked->index, locked->hash);
}

/* ---- with the lock ------------------------------------------------------------------------- */

struct gb_item *gb_index_find_locked(struct gb_locked *locked, const void *key, size_t len)
{
    const struct gb_index *index = locked->index;
    const struct gb_look look = {index, key, len, locked->hash, GB_INDEX_LOOK_HEAD};
    for (struct gb_bucket *bucket = locked->bucket; bucket != NULL;
         bucket = gb_index_next(index, bucket)) {
        uint64_t value;
        const _Atomic uint64_t *slot = gb_index_look_bucket(&look, bucket, &value);
        if (slot != NULL) {
            locked->slot = &bucket->slots[slot - bucket->slots];
            return gb_index_item(index, value);
        }
    }
    locked->slot = NULL;
    return NULL;
}

bool gb_index_find_place_locked(struct gb_locked *locked, uint64_t place)
{
    GB_ASSERT(place != 0);
    for (struct gb_bucket *bucket = locked->bucket; bucket != NULL;
         bucket = gb_index_next(locked->index, bucket)) {
        for (unsigned i = 0; i < GB_BUCKET_SLOTS; i++) {
            if ((gb_index_slot(bucket, i) & GB_PLACE_MASK) == place) {
                locked->slot = &bucket->slots[i];
                return true;
            }
        }
    }
    locked->slot = NULL;
    return false;
}

/* The last bucket of the chain, the one before it (NULL: none), and how many slots it uses. */
struct tail {
    struct gb_bucket *bucket;
    struct gb_bucket *before;
    unsigned used;
};

static struct tail find_tail(const struct gb_index *index, struct gb_bucket *home)
{
    struct tail tail = {.bucket = home};
    for (;;) {
        struct gb_bucket *next = gb_index_next(index, tail.bucket);
        if (next == NULL) {
            break;
        }
        tail.before = tail.bucket;
        tail.bucket = next;
    }
    while (tail.used < GB_BUCKET_SLOTS && gb_index_slot(tail.bucket, tail.used) != 0) {
        tail.used++;
    }
    return tail;
}

int gb_index_insert_locked(struct gb_locked *locked, uint64_t place)
{
    GB_ASSERT(place != 0 && place <= GB_PLACE_MASK);
    struct gb_index *index = locked->index;
    struct tail tail = find_tail(index, locked->bucket);
    uint64_t value = (locked->hash & ~GB_PLACE_MASK) | place;
    if (tail.used == GB_BUCKET_SLOTS) {
        struct gb_bucket *node = gb_index_grow_take(index);
        if (node == NULL) {
            return -ENOMEM;
        }
        locked->slot = &node->slots[0];
        gb_index_set_slot(locked->slot, value);
        gb_index_link(index, tail.bucket, node);
    } else {
        locked->slot = &tail.bucket->slots[tail.used];
        gb_index_set_slot(locked->slot, value);
    }
    (void)atomic_fetch_add_explicit(&gb_index_stripe(index, locked->hash)->count, 1,
                                    memory_order_relaxed);
    return 0;
}

void gb_index_replace_locked(struct gb_locked *locked, uint64_t place)
{
    GB_ASSERT(locked->slot != NULL && place != 0 && place <= GB_PLACE_MASK);
    uint64_t old = atomic_load_explicit(locked->slot, memory_order_relaxed);
    gb_index_set_slot(locked->slot, (old & ~GB_PLACE_MASK) | place);
}

void gb_index_remove_locked(struct gb_locked *locked)
{
    GB_ASSERT(locked->slot != NULL);
    struct gb_index *index = locked->index;
    /* The last entry of the chain fills the hole. */
    struct tail tail = find_tail(index, locked->bucket);
    _Atomic uint64_t *last = &tail.bucket->slots[tail.used - 1];
    gb_index_set_slot(locked->slot, atomic_load_explicit(last, memory_order_relaxed));
    gb_index_set_slot(last, 0);
    if (tail.used == 1 && tail.before != NULL) {
        gb_index_link(index, tail.before, NULL);
        gb_index_grow_give(index, tail.bucket);
    }
    locked->slot = NULL;
    (void)atomic_fetch_sub_explicit(&gb_index_stripe(index, locked->hash)->count, 1,
                                    memory_order_relaxed);
}
