/* Values that say whose they are: eight bytes at a time from a mixed counter. */
#include "lib/value.h"

#include <string.h>

#include "base/rng.h"

#define META_SIDE (UINT64_C(1) << 63)

static uint64_t seed_of(uint32_t key, uint32_t write)
{
    return gb_rng_mix((uint64_t)key << 32 | write);
}

static uint64_t word_at(uint64_t seed, uint64_t index)
{
    return gb_rng_mix(seed + index * UINT64_C(0x9e3779b97f4a7c15));
}

static void fill(unsigned char *to, uint64_t offset, size_t len, uint64_t seed)
{
    size_t at = 0;
    while (at < len) {
        uint64_t word = word_at(seed, (offset + at) / 8);
        size_t skip = (size_t)((offset + at) % 8);
        size_t n = len - at < 8 - skip ? len - at : 8 - skip;
        memcpy(to + at, (const unsigned char *)&word + skip, n);
        at += n;
    }
}

static bool holds(const unsigned char *bytes, uint64_t offset, size_t len, uint64_t seed)
{
    size_t at = 0;
    while (at < len) {
        uint64_t word = word_at(seed, (offset + at) / 8);
        size_t skip = (size_t)((offset + at) % 8);
        size_t n = len - at < 8 - skip ? len - at : 8 - skip;
        if (memcmp(bytes + at, (const unsigned char *)&word + skip, n) != 0) {
            return false;
        }
        at += n;
    }
    return true;
}

void value_fill(void *to, uint64_t offset, size_t len, uint32_t key, uint32_t write)
{
    fill(to, offset, len, seed_of(key, write));
}

bool value_holds(const void *bytes, uint64_t offset, size_t len, uint32_t key, uint32_t write)
{
    return holds(bytes, offset, len, seed_of(key, write));
}

void value_fill_meta(void *to, size_t len, uint32_t key, uint32_t write)
{
    fill(to, 0, len, seed_of(key, write) ^ META_SIDE);
}

bool value_meta_holds(const void *bytes, size_t len, uint32_t key, uint32_t write)
{
    return holds(bytes, 0, len, seed_of(key, write) ^ META_SIDE);
}
