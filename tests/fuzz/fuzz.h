/*
 * What every fuzz target has: one function that takes any bytes and must neither crash nor break an
 * assertion. Beyond surviving, the targets of the format hold every decoder to this: what it
 * accepts, the encoder writes back bit for bit.
 */
#ifndef GB_TESTS_FUZZ_H
#define GB_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "engine/format.h"
#include "lib/reseal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A block that begins with the input and is zero behind it, so that small inputs reach far. */
static inline void fuzz_block(unsigned char *block, const uint8_t *data, size_t size)
{
    memset(block, 0, GB_BLOCK);
    if (size > 0) {
        memcpy(block, data, gb_min(size, GB_BLOCK));
    }
}

#endif
