/* Lists of extents; and the same bytes as a unit in two pieces, cut where the first byte says. */
#include "fuzz/fuzz.h"

static void check_sums(const uint8_t *data, size_t size)
{
    size_t cut = size > 0 ? data[0] * size / 255 : 0;
    uint64_t sum = gb_unit_sum(data, size, size, 4096);
    GB_ASSERT(gb_unit_sum2(data, cut, data + cut, size - cut, size, 4096) == sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= GB_EXTENT_SIZE; at += GB_EXTENT_SIZE) {
        struct gb_extent extent;
        if (gb_extent_decode(&extent, data + at) == 0) {
            unsigned char again[GB_EXTENT_SIZE];
            GB_ASSERT(gb_place_offset(extent.place) + extent.len <= GB_PLACE_OFFSET_MASK);
            gb_extent_encode(&extent, again);
            GB_ASSERT(memcmp(again, data + at, GB_EXTENT_SIZE) == 0);
        }
    }
    check_sums(data, size);
    return 0;
}
