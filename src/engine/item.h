/*
 * An item: what RAM holds of one object.
 *
 *   0         8         16         24            32             40     44        47    48
 *   +---------+---------+----------+-------------+--------------+------+---------+-----+-----+-----
 *   | place   | sequence| version  | size, key   | expiry, marks| flags| resident| heat| key | …
 *   +---------+---------+----------+-------------+--------------+------+---------+-----+-----+-----
 *
 * Items lie back to back in the blocks of the RAM log, 8-aligned, header and key and resident
 * bytes contiguous, so that a hit on a small object costs two cache misses (bucket, item).
 *
 * `place`, `sequence` and what an amendment changes (`version`, `expiry_meta`, `flags`) change only
 * under the bucket lock of the key and are read without it, so they are atomics: relaxed, because
 * the bucket's version orders them for those who look at it; for those who do not, `version` is
 * stored last and loaded first, so that what they see with a version is never older than it. But a
 * get turns GB_PLACE_RAM into GB_PLACE_ASKED without a lock. `heat` is a lossy counter that anyone
 * bumps. All else is written before publication and never after.
 */
#ifndef GB_ENGINE_ITEM_H
#define GB_ENGINE_ITEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "engine/format.h"

struct gb_item {
    _Atomic uint64_t place;       /* gb_place of the payload on disk, or one of GB_PLACE_* */
    _Atomic uint64_t sequence;    /* of the record that recovery would take */
    _Atomic uint64_t version;     /* what users see */
    uint64_t size_key;            /* payload bytes: 44 bits; key length - 1: 12; form: 1; percent of
                                     the payload that was resident before the last close: 7 */
    _Atomic uint64_t expiry_meta; /* expiry in ms since 1970: 44 bits; meta length: 13; marks: 7 */
    _Atomic uint32_t flags;       /* the user's */
    uint16_t resident_low;        /* resident payload bytes, 24 bits */
    uint8_t resident_high;
    _Atomic uint8_t heat; /* accesses: 4 bits; epoch of the last one: 4 bits */
    unsigned char key[];
};

_Static_assert(sizeof(struct gb_item) == 48, "an item header is 48 bytes");

/* Of an object in RAM alone (engine/admission.h); no payload lies that near a segment's start. */
#define GB_PLACE_RAM   UINT64_C(0)
#define GB_PLACE_ASKED UINT64_C(1) /* and a get has found it: it is to be written */

#define GB_SIZE_BITS    44
#define GB_SIZE_MASK    ((UINT64_C(1) << GB_SIZE_BITS) - 1)
#define GB_RESIDENT_MAX ((UINT32_C(1) << 24) - 1)
#define GB_META_BITS    13
#define GB_FORM_SHIFT   56
#define GB_WARM_SHIFT   (GB_FORM_SHIFT + 1)
#define GB_MARKS_SHIFT  (GB_SIZE_BITS + GB_META_BITS)

enum gb_form {
    GB_FORM_DIRECT = 0,  /* `place` is where the payload lies, in one piece */
    GB_FORM_EXTENTS = 1, /* in several; the list lies between key and resident bytes, `place` is
                            where it lies on disk */
};

static inline uint64_t gb_item_size(const struct gb_item *item)
{
    return item->size_key & GB_SIZE_MASK;
}

static inline uint32_t gb_item_key_len(const struct gb_item *item)
{
    return (uint32_t)(item->size_key >> GB_SIZE_BITS & 0xfff) + 1;
}

static inline enum gb_form gb_item_form(const struct gb_item *item)
{
    return (enum gb_form)(item->size_key >> GB_FORM_SHIFT & 1);
}

static inline bool gb_item_ram_only(const struct gb_item *item)
{
    return atomic_load_explicit(&item->place, memory_order_relaxed) <= GB_PLACE_ASKED;
}

static inline uint64_t gb_item_pack_size(uint64_t size, uint32_t key_len, enum gb_form form)
{
    return size | (uint64_t)(key_len - 1) << GB_SIZE_BITS | (uint64_t)form << GB_FORM_SHIFT;
}

static inline uint64_t gb_item_pack_expiry(int64_t expires_ms, uint32_t meta_len, uint8_t marks)
{
    return ((uint64_t)expires_ms & GB_SIZE_MASK) | (uint64_t)meta_len << GB_SIZE_BITS |
           (uint64_t)marks << GB_MARKS_SHIFT;
}

static inline int64_t gb_expiry_of(uint64_t expiry_meta)
{
    return (int64_t)(expiry_meta & GB_SIZE_MASK);
}

static inline uint32_t gb_meta_len_of(uint64_t expiry_meta)
{
    return (uint32_t)(expiry_meta >> GB_SIZE_BITS & 0x1fff);
}

static inline uint8_t gb_marks_of(uint64_t expiry_meta)
{
    return (uint8_t)(expiry_meta >> GB_MARKS_SHIFT);
}

static inline uint32_t gb_item_resident(const struct gb_item *item)
{
    return (uint32_t)item->resident_low | (uint32_t)item->resident_high << 16;
}

static inline void gb_item_set_resident(struct gb_item *item, uint32_t bytes)
{
    item->resident_low = (uint16_t)bytes;
    item->resident_high = (uint8_t)(bytes >> 16);
}

/* How much was resident when the store was closed, for an item that open made bare. */
static inline uint64_t gb_item_pack_warm(uint64_t size_key, uint64_t resident)
{
    uint64_t size = size_key & GB_SIZE_MASK;
    uint64_t percent = size == 0 ? 0 : 100 * resident / size;
    return size_key | percent << GB_WARM_SHIFT;
}

static inline uint64_t gb_item_warm(const struct gb_item *item)
{
    uint64_t size = gb_item_size(item);
    uint64_t percent = item->size_key >> GB_WARM_SHIFT;
    return percent >= 100 ? size : gb_align_down(size * percent / 100, GB_BLOCK);
}

/* ---- what changes while the bytes stay ----------------------------------------------------- */

/* Of an item that nobody sees yet: what its record says. */
static inline void gb_item_init_state(struct gb_item *item, const struct gb_record *record)
{
    atomic_init(&item->version, record->version);
    atomic_init(&item->expiry_meta,
                gb_item_pack_expiry(record->expires_ms, record->meta_len, record->marks));
    atomic_init(&item->flags, record->flags);
}

/* A record about the object says how it is now. The bucket is locked. */
static inline void gb_item_tell(const struct gb_item *item, struct gb_record *record)
{
    uint64_t packed = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
    record->version = atomic_load_explicit(&item->version, memory_order_relaxed);
    record->flags = atomic_load_explicit(&item->flags, memory_order_relaxed);
    record->expires_ms = gb_expiry_of(packed);
    record->marks = gb_marks_of(packed);
}

/* The object is from now on as the record says. The bucket is locked. */
static inline void gb_item_amend(struct gb_item *item, const struct gb_record *record)
{
    uint64_t packed = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
    packed = gb_item_pack_expiry(record->expires_ms, gb_meta_len_of(packed), record->marks);
    atomic_store_explicit(&item->expiry_meta, packed, memory_order_relaxed);
    atomic_store_explicit(&item->flags, record->flags, memory_order_relaxed);
    /* Release: pairs with the acquire load in gb_item_describe. */
    atomic_store_explicit(&item->version, record->version, memory_order_release);
}

/* Behind the key of a GB_FORM_EXTENTS item: a little-endian count (8 bytes), then the extents as
 * they are encoded on disk. */
#define GB_EXTENTS_HEADER 8u

/* Bytes between key and resident bytes. */
static inline uint32_t gb_item_side_len(const struct gb_item *item)
{
    if (gb_item_form(item) != GB_FORM_EXTENTS) {
        return 0;
    }
    return GB_EXTENTS_HEADER +
           (uint32_t)gb_load_le64(item->key + gb_item_key_len(item)) * GB_EXTENT_SIZE;
}

static inline const unsigned char *gb_item_bytes(const struct gb_item *item)
{
    return item->key + gb_item_key_len(item) + gb_item_side_len(item);
}

/* Bytes an item takes in its block. */
static inline uint32_t gb_item_footprint_for(uint32_t key_len, uint32_t side_len, uint32_t resident)
{
    return (uint32_t)gb_align_up(sizeof(struct gb_item) + key_len + side_len + resident, 8);
}

static inline uint32_t gb_item_footprint(const struct gb_item *item)
{
    return gb_item_footprint_for(gb_item_key_len(item), gb_item_side_len(item),
                                 gb_item_resident(item));
}

#endif
