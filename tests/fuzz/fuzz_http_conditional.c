/* Fuzz: conditional requests. The input is up to four fields parted by line ends; whether there is
 * an object, and whether it is read, is the first byte's. */
#include "fuzz/fuzz.h"
#include "proto/http_conditional.h"

static struct gb_http_text take_line(struct gb_http_text *rest)
{
    if (rest->len == 0) {
        return (struct gb_http_text){NULL, 0};
    }
    const char *end = memchr(rest->at, '\n', rest->len);
    const struct gb_http_text line = {rest->at, end == NULL ? rest->len : (size_t)(end - rest->at)};
    size_t step = line.len + (end != NULL);
    *rest = (struct gb_http_text){rest->at + step, rest->len - step};
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct gb_http_text rest = {(const char *)data + 1, size - 1};
    const struct gb_http_conditions conditions = {
        .if_match = take_line(&rest),
        .if_none_match = take_line(&rest),
        .if_modified_since = take_line(&rest),
        .if_unmodified_since = take_line(&rest),
    };
    const struct gb_http_validators validators = {
        .exists = (data[0] & 1) != 0,
        .has_modified = (data[0] & 2) != 0,
        .etag = (data[0] & 4) != 0 ? GB_HTTP_TEXT("W/\"a\"") : GB_HTTP_TEXT("\"a\""),
        .modified_s = 784111777,
    };
    bool reading = (data[0] & 8) != 0;
    enum gb_http_verdict verdict =
        gb_http_conditional_judge(&conditions, &validators, reading, 784111777);
    GB_ASSERT(reading ? verdict != GB_HTTP_BAD_CONDITION : verdict != GB_HTTP_NOT_MODIFIED);
    GB_ASSERT(validators.exists || verdict != GB_HTTP_NOT_MODIFIED);
    return 0;
}
