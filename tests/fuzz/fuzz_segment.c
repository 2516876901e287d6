/* Segment header and footer: as given, and again with a good sum. */
#include "engine/format_headers.h"
#include "fuzz/fuzz.h"

#define SALT UINT64_C(0x5a17)

static void check(const unsigned char *block)
{
    unsigned char again[GB_BLOCK];
    struct gb_segment_header header;
    if (gb_segment_header_decode(&header, block) == 0) {
        gb_segment_header_encode(&header, again);
        GB_ASSERT(memcmp(again, block, GB_BLOCK) == 0);
        GB_ASSERT(!gb_segment_header_torn(block)); /* a free segment is told from a good one */
    }
    struct gb_segment_footer footer;
    if (gb_segment_footer_decode(&footer, SALT, block) == 0) {
        gb_segment_footer_encode(&footer, SALT, again);
        GB_ASSERT(memcmp(again, block, GB_BLOCK) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char block[GB_BLOCK];
    fuzz_block(block, data, size);
    check(block);
    reseal_block(block, 0);
    check(block);
    reseal_block(block, SALT);
    check(block);
    return 0;
}
