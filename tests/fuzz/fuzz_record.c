/* A record's header and key: as given, and again with a good sum. The first eight bytes say where
 * in its segment the record lies. */
#include <errno.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"

#define SALT UINT64_C(0x5a17)

static void check_layout(const struct gb_record *record, uint64_t offset)
{
    struct gb_layout layout;
    gb_record_layout(record, offset, &layout);
    GB_ASSERT(layout.payload_len == gb_record_inline_len(record));
    GB_ASSERT(layout.payload_offset >= offset + GB_RECORD_HEADER + record->key_len);
    GB_ASSERT(layout.payload_offset % (layout.payload_len > GB_PACKED_MAX ? GB_BLOCK : 8) == 0);
    GB_ASSERT(layout.table_offset % 8 == 0 && layout.end % 8 == 0);
    GB_ASSERT(layout.table_offset >= layout.payload_offset + layout.payload_len);
    GB_ASSERT(layout.end == layout.table_offset + gb_units(layout.payload_len) * GB_SUM_SIZE);
}

static void check(uint64_t offset, const unsigned char *bytes, size_t len)
{
    struct gb_record record;
    int rc = gb_record_decode(&record, SALT, offset, bytes, len);
    GB_ASSERT(rc != -ENODATA || len < GB_RECORD_HEADER + 4096);
    if (rc == 0) {
        unsigned char again[GB_RECORD_HEADER + 4096];
        size_t need = GB_RECORD_HEADER + record.key_len;
        GB_ASSERT(need <= len);
        gb_record_encode(&record, bytes + GB_RECORD_HEADER, SALT, offset, again);
        GB_ASSERT(memcmp(again, bytes, need) == 0);
        check_layout(&record, offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8) {
        return 0;
    }
    uint64_t offset = gb_load_le64(data) & GB_PLACE_OFFSET_MASK & ~UINT64_C(7);
    size_t len = size - 8;
    check(offset, data + 8, len);
    if (len >= GB_RECORD_HEADER) {
        unsigned char *bytes = malloc(len); /* of the exact size: a sanitizer sees reads beyond */
        GB_ASSERT(bytes != NULL);
        memcpy(bytes, data + 8, len);
        size_t key_len = gb_load_le16(bytes + 6);
        reseal_record(bytes, gb_min(key_len, len - GB_RECORD_HEADER), SALT, offset);
        check(offset, bytes, len);
        free(bytes);
    }
    return 0;
}
