/* Sums of payload units: the one place where hashing is a matter of bytes per second, so it uses
 * the widest vectors that the processor has, chosen by libxxhash at run time. */
#include "engine/format.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

#include "base/bits.h"

/* Odd, so offsets give different seeds; and not a header's, so no unit passes for one. */
#define UNIT_SUM_STEP UINT64_C(0xd6e8feb86659fd93)

static uint64_t unit_seed(uint64_t salt, uint64_t offset)
{
    return salt + offset * UNIT_SUM_STEP;
}

uint64_t gb_unit_sum(const void *unit, size_t len, uint64_t salt, uint64_t offset)
{
    return XXH3_64bits_withSeed(unit, len, unit_seed(salt, offset));
}

uint64_t gb_unit_sum2(const void *first, size_t first_len, const void *rest, size_t rest_len,
                      uint64_t salt, uint64_t offset)
{
    if (first_len == 0) {
        return gb_unit_sum(rest, rest_len, salt, offset);
    }
    if (rest_len == 0) {
        return gb_unit_sum(first, first_len, salt, offset);
    }
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_64bits_reset_withSeed(&state, unit_seed(salt, offset));
    (void)XXH3_64bits_update(&state, first, first_len);
    (void)XXH3_64bits_update(&state, rest, rest_len);
    return XXH3_64bits_digest(&state);
}

void gb_table_encode(const void *payload, size_t len, uint64_t salt, uint64_t payload_offset,
                     unsigned char *table)
{
    const unsigned char *bytes = payload;
    for (size_t done = 0; done < len; done += GB_UNIT, table += GB_SUM_SIZE) {
        size_t unit = gb_min(len - done, GB_UNIT);
        gb_store_le64(table, gb_unit_sum(bytes + done, unit, salt, payload_offset + done));
    }
}
