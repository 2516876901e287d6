/* Small arithmetic every room needs: alignment, minima, little-endian loads and stores. */
#ifndef GB_BASE_BITS_H
#define GB_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GB_KIB ((uint64_t)1024)
#define GB_MIB (1024 * GB_KIB)
#define GB_GIB (1024 * GB_MIB)

/* `alignment` is a power of two. */
static inline uint64_t gb_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static inline uint64_t gb_align_down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

static inline uint64_t gb_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t gb_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline bool gb_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define GB_LE16(value) (value)
#define GB_LE32(value) (value)
#define GB_LE64(value) (value)
#else
#define GB_LE16(value) __builtin_bswap16(value)
#define GB_LE32(value) __builtin_bswap32(value)
#define GB_LE64(value) __builtin_bswap64(value)
#endif

static inline uint16_t gb_load_le16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof(value));
    return GB_LE16(value);
}

static inline uint32_t gb_load_le32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return GB_LE32(value);
}

static inline uint64_t gb_load_le64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return GB_LE64(value);
}

static inline void gb_store_le16(void *to, uint16_t value)
{
    value = GB_LE16(value);
    memcpy(to, &value, sizeof(value));
}

static inline void gb_store_le32(void *to, uint32_t value)
{
    value = GB_LE32(value);
    memcpy(to, &value, sizeof(value));
}

static inline void gb_store_le64(void *to, uint64_t value)
{
    value = GB_LE64(value);
    memcpy(to, &value, sizeof(value));
}

#endif
