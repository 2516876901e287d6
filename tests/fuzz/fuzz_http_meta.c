/* Fuzz: HTTP's metadata. What is read and written again reads the same. */
#include "fuzz/fuzz.h"
#include "proto/http_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char again[GB_BLOCK * 32];
    struct gb_http_meta_writer writer;
    struct gb_http_meta_entry entry;
    gb_http_meta_begin(&writer, again, sizeof(again));
    struct gb_http_text rest = gb_http_meta_entries(data, size);
    while (gb_http_meta_next(&rest, &entry)) {
        if (entry.kind == GB_HTTP_META_MODIFIED) {
            gb_http_meta_modified(&writer, (int64_t)gb_load_le64(entry.value.at));
        } else if (entry.kind >= GB_HTTP_META_VARY && entry.kind <= GB_HTTP_META_VARIANT) {
            gb_http_meta_entry(&writer, entry.kind, entry.value); /* an origin's, not a PUT's */
        } else {
            GB_ASSERT(gb_http_meta_field(&writer, entry.name, entry.value));
        }
    }
    if (writer.full) {
        return 0;
    }
    GB_ASSERT(gb_http_meta_modified_ms(data, size) == gb_http_meta_modified_ms(again, writer.len));
    rest = gb_http_meta_entries(data, size);
    struct gb_http_text rest_again = gb_http_meta_entries(again, writer.len);
    while (gb_http_meta_next(&rest, &entry)) {
        struct gb_http_meta_entry copy;
        GB_ASSERT(gb_http_meta_next(&rest_again, &copy));
        GB_ASSERT(copy.kind == entry.kind && gb_http_text_equal(copy.name, entry.name) &&
                  gb_http_text_equal(copy.value, entry.value));
    }
    GB_ASSERT(!gb_http_meta_next(&rest_again, &entry));
    return 0;
}
