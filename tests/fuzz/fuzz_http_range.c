/* Fuzz: Range and If-Range. Whatever is asked for lies within the object, in ranges that do not
 * touch. The first eight bytes are the object's size. */
#include "fuzz/fuzz.h"
#include "proto/http_range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gb_http_ranges ranges;
    if (size < 8) {
        return 0;
    }
    uint64_t object = gb_load_le64(data);
    const struct gb_http_text field = {(const char *)data + 8, size - 8};
    (void)gb_http_range_if(field, GB_HTTP_TEXT("\"a\""), 784111777, 784111778);
    enum gb_http_range_answer answer = gb_http_range_resolve(field, object, &ranges);
    GB_ASSERT(ranges.count <= GB_HTTP_RANGES_MAX);
    GB_ASSERT((answer == GB_HTTP_RANGE_PART) == (ranges.count > 0));
    uint64_t total = 0;
    for (size_t i = 0; i < ranges.count; i++) {
        const struct gb_http_range *range = &ranges.at[i];
        GB_ASSERT(range->len > 0 && range->first < object && range->len <= object - range->first);
        total += range->len;
        GB_ASSERT(total >= range->len && total <= object);
        for (size_t j = 0; j < i; j++) {
            const struct gb_http_range *other = &ranges.at[j];
            GB_ASSERT(other->first + other->len < range->first ||
                      range->first + range->len < other->first);
        }
    }
    return 0;
}
