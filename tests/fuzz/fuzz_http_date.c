/* Fuzz: dates. What is read comes back from what is written. The first eight bytes are the present
 * time. */
#include "fuzz/fuzz.h"
#include "proto/http_date.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8) {
        return 0;
    }
    /* As far as a clock of milliseconds goes. */
    int64_t now_s = (int64_t)(gb_load_le64(data) >> 12);
    int64_t time_s = 0;
    char text[GB_HTTP_DATE_LEN + 1];
    if (gb_http_date_parse((struct gb_http_text){(const char *)data + 8, size - 8}, now_s,
                           &time_s) == 0) {
        int64_t again = 0;
        (void)gb_http_date_write(time_s, text);
        GB_ASSERT(gb_http_date_parse(gb_http_text_of(text), now_s, &again) == 0);
        GB_ASSERT(again == time_s || text[12] == '9' || time_s < 0);
    }
    (void)gb_http_date_write((int64_t)gb_load_le64(data), text);
    GB_ASSERT(strlen(text) == GB_HTTP_DATE_LEN);
    GB_ASSERT(gb_http_date_parse(gb_http_text_of(text), now_s, &time_s) == 0);
    return 0;
}
