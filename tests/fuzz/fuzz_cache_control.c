/* Fuzz: Cache-Control, Age and Vary. The first four bytes say what else is known of the response;
 * then come, parted by line ends, the response's directives, the request's, Age, and Vary, which
 * names fields whose value is the rest. */
#include "fuzz/fuzz.h"
#include "proto/cache_control.h"

static struct gb_http_text take_line(struct gb_http_text *rest)
{
    const char *end = rest->len == 0 ? NULL : memchr(rest->at, '\n', rest->len);
    const struct gb_http_text line = {rest->at, end == NULL ? rest->len : (size_t)(end - rest->at)};
    size_t step = line.len + (end != NULL);
    *rest = (struct gb_http_text){rest->at + step, rest->len - step};
    return line;
}

static struct gb_http_text field_of(void *arg, struct gb_http_text name, size_t number)
{
    const struct gb_http_text *value = arg;
    (void)name;
    return number == 0 ? *value : (struct gb_http_text){NULL, 0};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) {
        return 0;
    }
    struct gb_http_text rest = {(const char *)data + 4, size - 4};
    struct gb_cache_control request;
    struct gb_cache_response response = {
        .status = 100 + data[0] * 2,
        .vary_all = (data[1] & 1) != 0,
        .authorized = (data[1] & 2) != 0,
        .date_s = (data[1] & 4) != 0 ? -1 : 1000 + data[2],
        .expires_s = (data[1] & 8) != 0 ? -1 : 1000 + data[3],
        .modified_s = (data[1] & 16) != 0 ? -1 : 1000 - data[3],
        .requested_s = 1100,
        .received_s = 1100 + data[2] / 16,
    };
    gb_cache_control_init(&response.control);
    gb_cache_control_init(&request);
    gb_cache_control_add(&response.control, take_line(&rest));
    gb_cache_control_add(&request, take_line(&rest));
    response.age_s = gb_cache_control_age_field(take_line(&rest));
    (void)gb_cache_control_may_store(&response, &request);
    int64_t age = gb_cache_control_age(&response, 1200);
    int64_t lifetime = gb_cache_control_lifetime(&response);
    GB_ASSERT(age >= 0 && lifetime >= 0 && lifetime <= GB_CACHE_CONTROL_AGE_MAX);
    enum gb_cache_use use = gb_cache_control_use(&response, &request, 1200);
    GB_ASSERT(use != GB_CACHE_BEHIND || age >= lifetime);
    GB_ASSERT(!response.control.must_revalidate || use != GB_CACHE_FRESH || age < lifetime);
    (void)gb_cache_control_use_on_error(&response, &request, 1200);

    static char key[4096];
    const struct gb_http_text vary = take_line(&rest);
    int64_t len = gb_cache_control_vary_key(vary, field_of, &rest, key, sizeof(key));
    GB_ASSERT(len <= (int64_t)sizeof(key));
    return 0;
}
