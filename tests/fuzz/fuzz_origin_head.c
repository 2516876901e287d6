/* Fuzz: the head of an origin's answer, and what is kept of it. The first four bytes say when it
 * came and to what; then come, parted by zeros, the answer's lines, those of a later 304, and the
 * request's. What is kept must be used as the answer would be, however old it is; what a 304 has
 * made of it must be as young as the 304. */
#include "fuzz/fuzz.h"
#include "proto/http_conditional.h"
#include "proto/origin_head.h"

enum { META_MAX = 1 << 17, RECEIVED_S = 2000000000 };

/* A block of the input as a server gathers it. */
static struct gb_http_text take_block(char *out, const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size == 0 ? NULL : memchr(*data, 0, *size);
    size_t len = end == NULL ? *size : (size_t)(end - *data);
    for (size_t at = 0; at < len;) {
        const uint8_t *line_end = memchr(*data + at, '\n', len - at);
        size_t step = line_end == NULL ? len - at : (size_t)(line_end - *data) + 1 - at;
        gb_origin_head_add(out + at, (const char *)*data + at, step);
        at += step;
    }
    *data += len + (end != NULL);
    *size -= len + (end != NULL);
    return (struct gb_http_text){out, len};
}

static struct gb_cache_control directives_of(struct gb_http_text lines)
{
    struct gb_cache_control control;
    struct gb_http_text name;
    struct gb_http_text value;
    gb_cache_control_init(&control);
    while (gb_origin_head_next(&lines, &name, &value)) {
        GB_ASSERT(gb_http_text_is_token(name));
        if (gb_http_text_same_name(name, GB_HTTP_TEXT("Cache-Control"))) {
            gb_cache_control_add(&control, value);
        }
    }
    return control;
}

static void check_text(struct gb_http_text kept, struct gb_http_text given)
{
    GB_ASSERT((kept.at == NULL) == (given.at == NULL) && gb_http_text_equal(kept, given));
}

/* However old it is. */
static void check_use(const struct gb_cache_response *kept, const struct gb_cache_response *given,
                      const struct gb_cache_control *request, int64_t since_s)
{
    static const int64_t later_s[] = {0, 1, 59, 3600, 86400, 604800, INT64_C(1) << 33};
    for (size_t i = 0; i < sizeof(later_s) / sizeof(later_s[0]); i++) {
        int64_t now_s = since_s + later_s[i];
        GB_ASSERT(gb_cache_control_use(kept, request, now_s) ==
                  gb_cache_control_use(given, request, now_s));
        GB_ASSERT(gb_cache_control_use_on_error(kept, request, now_s) ==
                  gb_cache_control_use_on_error(given, request, now_s));
    }
}

/* What a 304 says about what was kept in `meta`, which expires at `expires_ms`. */
static void validate(const struct gb_origin_head *head, struct gb_http_text meta,
                     int64_t expires_ms)
{
    static unsigned char out[META_MAX];
    struct gb_http_meta_writer writer;
    struct gb_origin_kept kept;
    struct gb_origin_kept renewed;
    gb_origin_head_kept(&kept, meta.at, meta.len, expires_ms);
    if (!kept.is_object) {
        return; /* nobody asks about it */
    }
    int64_t until_ms = 0;
    if (gb_origin_head_same(head, &kept, &until_ms)) {
        gb_origin_head_kept(&renewed, meta.at, meta.len, until_ms);
        GB_ASSERT(renewed.birth_s == gb_origin_head_birth_s(head));
    }
    gb_http_meta_begin(&writer, out, sizeof(out));
    if (!gb_origin_head_renew(head, meta, &kept, &writer, &until_ms)) {
        return;
    }
    gb_origin_head_kept(&renewed, out, writer.len, until_ms);
    GB_ASSERT(renewed.is_object && renewed.birth_s == gb_origin_head_birth_s(head));
    check_text(renewed.etag, head->etag.at != NULL ? head->etag : kept.etag);
    check_text(renewed.variant, kept.variant);
    const struct gb_cache_control *said =
        head->has_cache_control ? &head->cache.control : &kept.cache.control;
    GB_ASSERT(renewed.cache.control.no_cache == said->no_cache &&
              renewed.cache.control.must_revalidate == said->must_revalidate &&
              renewed.cache.control.max_age_s == said->max_age_s &&
              renewed.cache.control.s_maxage_s == said->s_maxage_s);
}

static void keep(const struct gb_origin_head *head, const struct gb_origin_head *later,
                 struct gb_http_text lines)
{
    static unsigned char out[META_MAX];
    static char variant[GB_ORIGIN_HEAD_VARIANT_MAX];
    const struct gb_cache_control request = directives_of(lines);
    int64_t len = gb_origin_head_variant(head->vary, lines, variant, sizeof(variant));
    GB_ASSERT(len <= (int64_t)sizeof(variant));
    bool may = gb_origin_head_may_keep(head, &request);
    GB_ASSERT(!may || gb_origin_head_may_share(head, &request));
    if (!may || len < 0) {
        return;
    }
    const struct gb_http_text told = {head->vary.at == NULL ? NULL : variant, (size_t)len};
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, out, sizeof(out));
    if (!gb_origin_head_keep(head, told, &writer)) {
        return;
    }
    int64_t birth_s = gb_origin_head_birth_s(head);
    int64_t expires_ms = (birth_s + gb_origin_head_kept_s(head)) * 1000;
    struct gb_origin_kept kept;
    gb_origin_head_kept(&kept, out, writer.len, expires_ms);
    GB_ASSERT(kept.is_object && !kept.is_vary && kept.birth_s == birth_s);
    check_text(kept.etag, head->etag);
    check_text(kept.vary, head->vary);
    check_text(kept.variant, told);
    check_use(&kept.cache, &head->cache, &request, head->cache.received_s);
    validate(later, (struct gb_http_text){(const char *)out, writer.len}, expires_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > META_MAX / 2) {
        return 0;
    }
    static char blocks[3][META_MAX / 2];
    const uint8_t *given = data;
    const int64_t requested_s = RECEIVED_S + GB_CACHE_CONTROL_AGE_MAX - data[1];
    const int64_t received_s = requested_s + data[2];
    int status = data[0] < 128 ? 200 : 100 + data[0] * 2;
    struct gb_origin_head head;
    struct gb_origin_head later;
    size_t left = size - 4;
    gb_origin_head_read(&later, 304, (struct gb_http_text){NULL, 0}, received_s, received_s);
    validate(&later, (struct gb_http_text){(const char *)data, size}, received_s * 1000);
    data += 4;
    gb_origin_head_read(&head, status, take_block(blocks[0], &data, &left), requested_s,
                        received_s);
    head.cache.authorized = (given[3] & 1) != 0;
    gb_origin_head_read(&later, 304, take_block(blocks[1], &data, &left), received_s + 100,
                        received_s + 100);
    const struct gb_http_text lines = take_block(blocks[2], &data, &left);
    GB_ASSERT(head.etag.at == NULL || gb_http_conditional_is_etag(head.etag));
    struct gb_http_text rest = head.lines;
    struct gb_http_text name;
    struct gb_http_text value;
    while (gb_origin_head_next(&rest, &name, &value)) {
        bool passes = gb_origin_head_passes(head.lines, name);
        GB_ASSERT(!passes || !gb_http_text_same_name(name, GB_HTTP_TEXT("Connection")));
        (void)gb_origin_head_asks(name);
        (void)gb_origin_head_names(value, GB_HTTP_TEXT("goblin"));
    }
    keep(&head, &later, lines);
    return 0;
}
