/* A run of entries, as a summary or a chunk of objects holds them. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        struct gb_entry entry;
        unsigned char again[GB_ENTRY_MAX];
        int taken = gb_entry_decode(&entry, data + at, size - at);
        if (taken < 0) {
            break;
        }
        GB_ASSERT(taken > 0 && (size_t)taken <= size - at && taken <= (int)GB_ENTRY_MAX);
        GB_ASSERT(entry.key + entry.record.key_len == data + at + taken);
        GB_ASSERT(gb_entry_encode(&entry, again) == (size_t)taken);
        GB_ASSERT(memcmp(again, data + at, (size_t)taken) == 0);
        at += (size_t)taken;
    }
    return 0;
}
