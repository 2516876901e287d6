/*
 * One look into the index, inline: index.c builds gb_index_find of it, and where a hit must cost as
 * little as it can (get_small.c) it stands in the caller.
 *
 * Fewer instructions are worth more here than they seem: a get waits for the memory of the bucket
 * and then of the item, and what is left of the processor's window reaches into the next one.
 */
#ifndef GB_ENGINE_INDEX_LOOK_H
#define GB_ENGINE_INDEX_LOOK_H

#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/bits.h"
#include "engine/index_internal.h"

/* For what is used more than once and worth its bytes each time. */
#define GB_ALWAYS_INLINE inline __attribute__((always_inline))

/* Lines of an item that are fetched at once: header, key and some 400 bytes for whoever wants the
 * bytes; header and key for whoever replaces it. */
#define GB_INDEX_LOOK_BYTES 8u
#define GB_INDEX_LOOK_HEAD  2u

/* ---- is it there? -------------------------------------------------------------------------- */

/* A key of usual length in whole words, the last one overlapping. */
static inline bool gb_index_look_equal(const unsigned char *a, const unsigned char *b, size_t len)
{
    if (len < 8 || len > 64) {
        return memcmp(a, b, len) == 0;
    }
    const unsigned char *last = a + len - 8;
    uint64_t differ = gb_load_le64(last) ^ gb_load_le64(b + len - 8);
    for (; a < last; a += 8, b += 8) {
        differ |= gb_load_le64(a) ^ gb_load_le64(b);
    }
    return differ == 0;
}

static inline bool gb_index_look_key(const struct gb_item *item, const void *key, size_t len)
{
    return gb_item_key_len(item) == len && gb_index_look_equal(item->key, key, len);
}

/*
 * Which slots of the bucket have the tag of `hash`: bit 2 * i + 2 for slot i. Only a hint, because
 * the caller reads a slot again before it believes it. So plain loads will do where the machine
 * has them wide (an aligned load of 16 bytes tears at most between slots), and a look that takes
 * fewer instructions lets the processor see further ahead: a third more gets, measured.
 */
#if defined(__SSE2__) && !GB_TSAN
static inline __m128i gb_index_look_pair(const struct gb_bucket *bucket, unsigned pair, __m128i tag)
{
    __m128i words = _mm_load_si128((const __m128i *)(const void *)bucket + pair);
    return _mm_cmpeq_epi32(_mm_srli_epi64(words, GB_PLACE_BITS), tag);
}

static inline unsigned gb_index_look_tags(const struct gb_bucket *bucket, uint64_t hash)
{
    const __m128i tag = _mm_set1_epi64x((long long)(hash >> GB_PLACE_BITS));
    __m128i low =
        _mm_packs_epi32(gb_index_look_pair(bucket, 0, tag), gb_index_look_pair(bucket, 1, tag));
    __m128i high =
        _mm_packs_epi32(gb_index_look_pair(bucket, 2, tag), gb_index_look_pair(bucket, 3, tag));
    /* Two bits per word: of its lower half's and its upper half's comparison, which is of zeros.
     * The bucket's own word goes out too. */
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0x5554;
}
#else
static inline unsigned gb_index_look_tags(const struct gb_bucket *bucket, uint64_t hash)
{
    unsigned matches = 0;
    for (unsigned i = 0; i < GB_BUCKET_SLOTS; i++) {
        uint64_t tag = gb_index_slot(bucket, i) >> GB_PLACE_BITS;
        matches |= (unsigned)(tag == hash >> GB_PLACE_BITS) << (2 * i + 2);
    }
    return matches;
}
#endif

/* All lines that will be needed are asked for at once, rather than after the key has come and was
 * compared. */
static inline void gb_index_look_prefetch(const struct gb_index *index, uint64_t value,
                                          unsigned lines)
{
    const char *item = (const char *)gb_index_item(index, value);
#pragma GCC unroll 8
    for (unsigned line = 1; line < lines; line++) {
        __builtin_prefetch(item + (size_t)line * 64);
    }
}

struct gb_look {
    const struct gb_index *index;
    const void *key;
    size_t len;
    uint64_t hash;
    unsigned lines; /* to fetch */
};

/* The slot of the key in one bucket, or NULL; and what it held. */
static GB_ALWAYS_INLINE const _Atomic uint64_t *gb_index_look_bucket(const struct gb_look *look,
                                                                     const struct gb_bucket *bucket,
                                                                     uint64_t *value)
{
    for (unsigned matches = gb_index_look_tags(bucket, look->hash); matches != 0;
         matches &= matches - 1) {
        const _Atomic uint64_t *slot = &bucket->slots[(unsigned)__builtin_ctz(matches) / 2 - 1];
        /* Acquire: pairs with gb_index_set_slot, so that the item's key is there. A slot may have
         * emptied, or be empty while the tag looked for is 0. */
        *value = atomic_load_explicit(slot, memory_order_acquire);
        gb_index_look_prefetch(look->index, *value, look->lines);
        if (*value != 0 &&
            gb_index_look_key(gb_index_item(look->index, *value), look->key, look->len)) {
            return slot;
        }
    }
    return NULL;
}

/* ---- is what was seen still so? ------------------------------------------------------------ */

/* Takes the glimpse. Acquire: pairs with the store in gb_index_bucket_unlock; the chain and its
 * items are as that writer left them, or newer. */
static inline uint64_t gb_index_look_home(const struct gb_index *index, uint64_t hash,
                                          struct gb_glimpse *glimpse)
{
    uint64_t buckets = atomic_load_explicit(&index->buckets, memory_order_acquire);
    glimpse->bucket = &index->table[gb_index_home(buckets, hash)];
    glimpse->version = atomic_load_explicit(&glimpse->bucket->word, memory_order_acquire);
    return buckets;
}

static inline bool gb_index_look_holds(const struct gb_glimpse *glimpse)
{
    /* Pairs with the fence in gb_index_bucket_try_lock: whoever read what a writer stored after
     * locking sees the lock, or a later version, here. */
    gb_index_fence_acquire();
    return atomic_load_explicit(&glimpse->bucket->word, memory_order_relaxed) == glimpse->version;
}

/* A miss counts if the bucket did not change and is still the key's. If it had been split before
 * we read its word, that word's unlock came after the new number of buckets, which we therefore
 * see. */
static inline bool gb_index_look_missing(const struct gb_index *index, uint64_t hash,
                                         uint64_t buckets, const struct gb_glimpse *glimpse)
{
    if (!gb_index_look_holds(glimpse)) {
        return false;
    }
    uint64_t now = atomic_load_explicit(&index->buckets, memory_order_relaxed);
    return now == buckets || &index->table[gb_index_home(now, hash)] == glimpse->bucket;
}

/* ---- both ---------------------------------------------------------------------------------- */

/* What gb_index_look does when its one quick look was not enough. Kept apart, so that the quick
 * look stays in registers. In index.c. */
const struct gb_item *gb_index_look_patiently(const struct gb_index *index, uint64_t hash,
                                              const void *key, size_t len,
                                              struct gb_glimpse *glimpse);

/* As gb_index_find. */
static GB_ALWAYS_INLINE const struct gb_item *gb_index_look(const struct gb_index *index,
                                                            uint64_t hash, const void *key,
                                                            size_t len, struct gb_glimpse *glimpse)
{
    const struct gb_look look = {index, key, len, hash, GB_INDEX_LOOK_BYTES};
    uint64_t buckets = gb_index_look_home(index, hash, glimpse);
    if ((glimpse->version & GB_WORD_LOCKED) == 0) {
        uint64_t value;
        if (gb_index_look_bucket(&look, glimpse->bucket, &value) != NULL) {
            return gb_index_item(index, value);
        }
        if ((glimpse->version & GB_WORD_NODE) == 0 &&
            gb_index_look_missing(index, hash, buckets, glimpse)) {
            return NULL;
        }
    }
    return gb_index_look_patiently(index, hash, key, len, glimpse);
}

#endif
