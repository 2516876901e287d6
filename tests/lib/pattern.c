/* Self-describing values. */
#include "lib/pattern.h"

#include <string.h>

#include "base/bits.h"

static uint64_t word(uint64_t seed, uint64_t number)
{
    return seed ^ (number * UINT64_C(0x9e3779b97f4a7c15));
}

void gb_pattern_fill(void *to, size_t len, uint64_t seed, uint64_t offset)
{
    unsigned char *out = to;
    while (len > 0) {
        unsigned char bytes[8];
        gb_store_le64(bytes, word(seed, offset / 8));
        size_t skip = offset % 8;
        size_t n = gb_min(len, 8 - skip);
        memcpy(out, bytes + skip, n);
        out += n;
        offset += n;
        len -= n;
    }
}

bool gb_pattern_holds(const void *bytes, size_t len, uint64_t seed, uint64_t offset)
{
    const unsigned char *in = bytes;
    unsigned char expected[4096];
    while (len > 0) {
        size_t n = gb_min(len, sizeof(expected));
        gb_pattern_fill(expected, n, seed, offset);
        if (memcmp(in, expected, n) != 0) {
            return false;
        }
        in += n;
        offset += n;
        len -= n;
    }
    return true;
}

uint64_t gb_pattern_seed(const void *bytes)
{
    return gb_load_le64(bytes);
}
