/* Sums as docs/format.md defines them, written down a second time: for tests and fuzz targets that
 * change bytes on disk and want them believed. */
#ifndef GB_TESTS_RESEAL_H
#define GB_TESTS_RESEAL_H

#include "base/bits.h"
#include "engine/format.h"
#include "engine/format_seal.h"

/* A whole block: identity, segment header or footer, checkpoint head. */
static inline void reseal_block(unsigned char *block, uint64_t seed)
{
    gb_store_le64(block + 4088, gb_format_seal_hash(block, 4088, seed));
}

/* A record's header and the `key_len` bytes of key behind it. */
static inline void reseal_record(unsigned char *record, size_t key_len, uint64_t salt,
                                 uint64_t offset)
{
    uint64_t seed = salt + offset * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t header_sum = gb_format_seal_hash(record, 72, seed);
    gb_store_le64(record + 72, gb_format_seal_hash(record + 80, key_len, header_sum));
}

#endif
