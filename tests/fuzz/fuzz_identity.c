/* The identity block: as given, and again with a good sum. */
#include "fuzz/fuzz.h"

static void check(const unsigned char *block)
{
    struct gb_identity identity;
    if (gb_identity_decode(&identity, block) == 0) {
        unsigned char again[GB_BLOCK];
        gb_identity_encode(&identity, again);
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
    return 0;
}
