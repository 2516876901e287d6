/* What is kept of an origin's answer: see origin_head.h. */
#include "base/bits.h"
#include "proto/origin_head.h"

/* The entry GB_HTTP_META_ORIGIN: how long it is kept and fresh from its birth on (8 each,
 * little-endian), and 1 if the origin gave an Expires field, else 0. */
#define RECORD_BYTES 17u

/* The greatest number of seconds that is counted with. */
#define SECONDS_MAX (INT64_C(1) << 40)

int64_t gb_origin_head_birth_s(const struct gb_origin_head *head)
{
    return head->cache.received_s - gb_cache_control_age(&head->cache, head->cache.received_s);
}

static int64_t clamp(int64_t seconds)
{
    return seconds < 0 ? 0 : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
}

static int64_t kept_s(const struct gb_cache_control *control, int64_t lifetime_s,
                      bool has_validator)
{
    int64_t grace_s = control->stale_if_error_s > control->stale_while_revalidate_s
                          ? control->stale_if_error_s
                          : control->stale_while_revalidate_s;
    if (has_validator && grace_s < GB_ORIGIN_HEAD_KEEP_S) {
        grace_s = GB_ORIGIN_HEAD_KEEP_S;
    }
    return clamp(clamp(lifetime_s) + clamp(grace_s));
}

static bool is_validatable(const struct gb_origin_head *head)
{
    return head->etag.at != NULL || head->cache.modified_s != GB_CACHE_CONTROL_ABSENT;
}

int64_t gb_origin_head_kept_s(const struct gb_origin_head *head)
{
    return kept_s(&head->cache.control, gb_cache_control_lifetime(&head->cache),
                  is_validatable(head));
}

static void put_record(struct gb_http_meta_writer *writer, int64_t kept, int64_t lifetime,
                       bool has_expires)
{
    unsigned char record[RECORD_BYTES];
    gb_store_le64(record, (uint64_t)kept);
    gb_store_le64(record + 8, (uint64_t)clamp(lifetime));
    record[16] = has_expires ? 1 : 0;
    gb_http_meta_entry(writer, GB_HTTP_META_ORIGIN,
                       (struct gb_http_text){(const char *)record, sizeof(record)});
}

static void put_text(struct gb_http_meta_writer *writer, enum gb_http_meta_kind kind,
                     struct gb_http_text text)
{
    if (text.at != NULL) {
        gb_http_meta_entry(writer, kind, text);
    }
}

/* Fields that a PUT would keep too: what describes the body, and X-Meta-…; and Cache-Control. */
static void put_fields(struct gb_http_meta_writer *writer, struct gb_http_text lines)
{
    struct gb_http_text name;
    struct gb_http_text value;
    while (gb_origin_head_next(&lines, &name, &value)) {
        (void)gb_http_meta_field(writer, name, value);
    }
}

bool gb_origin_head_keep(const struct gb_origin_head *head, struct gb_http_text variant,
                         struct gb_http_meta_writer *writer)
{
    put_record(writer, gb_origin_head_kept_s(head), gb_cache_control_lifetime(&head->cache),
               head->cache.expires_s != GB_CACHE_CONTROL_ABSENT);
    if (head->cache.modified_s != GB_CACHE_CONTROL_ABSENT) {
        gb_http_meta_modified(writer, head->cache.modified_s * 1000);
    }
    put_text(writer, GB_HTTP_META_ETAG, head->etag);
    put_text(writer, GB_HTTP_META_VARY, head->vary);
    put_text(writer, GB_HTTP_META_VARIANT, variant);
    put_fields(writer, head->lines);
    return !writer->full;
}

bool gb_origin_head_keep_vary(struct gb_http_text vary, struct gb_http_meta_writer *writer)
{
    put_text(writer, GB_HTTP_META_VARY, vary);
    return !writer->full;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_record(struct gb_origin_kept *kept, struct gb_http_text record, int64_t expires_ms)
{
    if (record.len != RECORD_BYTES) {
        return;
    }
    kept->is_object = true;
    kept->kept_s = clamp((int64_t)gb_load_le64(record.at));
    kept->lifetime_s = clamp((int64_t)gb_load_le64(record.at + 8));
    kept->has_expires = record.at[16] != 0;
    /* One without expiry: older than anything. */
    kept->birth_s = expires_ms == 0 ? -SECONDS_MAX : expires_ms / 1000 - kept->kept_s;
}

static void read_entry(struct gb_origin_kept *kept, const struct gb_http_meta_entry *entry,
                       int64_t expires_ms)
{
    switch (entry->kind) {
    case GB_HTTP_META_ORIGIN:
        read_record(kept, entry->value, expires_ms);
        break;
    case GB_HTTP_META_ETAG:
        kept->etag = entry->value;
        break;
    case GB_HTTP_META_VARY:
        kept->vary = entry->value;
        break;
    case GB_HTTP_META_VARIANT:
        kept->variant = entry->value;
        break;
    case GB_HTTP_META_CACHE_CONTROL:
        kept->cache_control = entry->value;
        gb_cache_control_add(&kept->cache.control, entry->value);
        break;
    default:
        break;
    }
}

void gb_origin_head_kept(struct gb_origin_kept *kept, const void *meta, size_t len,
                         int64_t expires_ms)
{
    struct gb_http_text rest = gb_http_meta_entries(meta, len);
    struct gb_http_meta_entry entry;
    *kept = (struct gb_origin_kept){.modified_ms = gb_http_meta_modified_ms(meta, len)};
    gb_cache_control_init(&kept->cache.control);
    while (gb_http_meta_next(&rest, &entry)) {
        read_entry(kept, &entry, expires_ms);
    }
    kept->is_vary = !kept->is_object && kept->vary.at != NULL;
    kept->cache.status = 200;
    kept->cache.date_s = kept->cache.requested_s = kept->cache.received_s = kept->birth_s;
    kept->cache.expires_s = kept->birth_s + kept->lifetime_s;
    kept->cache.modified_s = kept->cache.age_s = GB_CACHE_CONTROL_ABSENT;
}

/* ---- a 304 ----------------------------------------------------------------------------------- */

static int64_t expiry_ms(const struct gb_origin_head *head, int64_t keep_s)
{
    int64_t expires_ms = (gb_origin_head_birth_s(head) + keep_s) * 1000;
    return expires_ms != 0 ? expires_ms : 1; /* 0 would be never */
}

static int64_t seconds_apart(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static bool same_cache_control(const struct gb_origin_head *head, const struct gb_origin_kept *kept)
{
    struct gb_http_text lines = head->lines;
    struct gb_http_text name;
    struct gb_http_text value;
    bool seen = false;
    while (gb_origin_head_next(&lines, &name, &value)) {
        if (!gb_http_text_same_name(name, GB_HTTP_TEXT("Cache-Control"))) {
            continue;
        }
        if (seen || kept->cache_control.at == NULL ||
            !gb_http_text_equal(value, kept->cache_control)) {
            return false;
        }
        seen = true;
    }
    return true;
}

static bool weakly_same(struct gb_http_text a, struct gb_http_text b)
{
    const struct gb_http_text weak = GB_HTTP_TEXT("W/");
    struct gb_http_text *const both[] = {&a, &b};
    for (size_t i = 0; i < 2; i++) {
        if (both[i]->len > weak.len && memcmp(both[i]->at, weak.at, weak.len) == 0) {
            *both[i] = (struct gb_http_text){both[i]->at + weak.len, both[i]->len - weak.len};
        }
    }
    return gb_http_text_equal(a, b);
}

bool gb_origin_head_same(const struct gb_origin_head *head, const struct gb_origin_kept *kept,
                         int64_t *expires_ms)
{
    *expires_ms = expiry_ms(head, kept->kept_s);
    /* What counts is how long it lasts: the two dates of an Expires move on together. */
    bool expires = head->cache.expires_s != GB_CACHE_CONTROL_ABSENT;
    bool lasts =
        !expires || (kept->has_expires &&
                     seconds_apart(gb_cache_control_lifetime(&head->cache), kept->lifetime_s) <= 1);
    bool tagged =
        head->etag.at == NULL || kept->etag.at == NULL || weakly_same(head->etag, kept->etag);
    bool limited = head->has_cache_control && kept->cache.control.max_age_s >= 0;
    return same_cache_control(head, kept) && (lasts || limited) && tagged;
}

bool gb_origin_head_renew(const struct gb_origin_head *head, struct gb_http_text meta,
                          const struct gb_origin_kept *kept, struct gb_http_meta_writer *writer,
                          int64_t *expires_ms)
{
    struct gb_cache_response cache = head->cache;
    struct gb_http_text rest = gb_http_meta_entries(meta.at, meta.len);
    struct gb_http_meta_entry entry;
    if (!head->has_cache_control) {
        cache.control = kept->cache.control;
    }
    bool says = head->has_cache_control || cache.expires_s != GB_CACHE_CONTROL_ABSENT;
    int64_t lifetime_s = says ? gb_cache_control_lifetime(&cache) : kept->lifetime_s;
    struct gb_http_text etag = head->etag.at != NULL ? head->etag : kept->etag;
    bool valid = etag.at != NULL || kept->modified_ms >= 0;
    int64_t keep_s = kept_s(&cache.control, lifetime_s, valid);
    *expires_ms = expiry_ms(head, keep_s);
    put_record(writer, keep_s, lifetime_s,
               cache.expires_s != GB_CACHE_CONTROL_ABSENT || (kept->has_expires && !says));
    put_text(writer, GB_HTTP_META_ETAG, etag);
    while (gb_http_meta_next(&rest, &entry)) {
        bool replaced = entry.kind == GB_HTTP_META_ORIGIN || entry.kind == GB_HTTP_META_ETAG ||
                        (entry.kind == GB_HTTP_META_CACHE_CONTROL && head->has_cache_control);
        if (replaced) {
            continue;
        }
        if (entry.kind == GB_HTTP_META_NAMED) {
            (void)gb_http_meta_field(writer, entry.name, entry.value);
        } else {
            gb_http_meta_entry(writer, entry.kind, entry.value);
        }
    }
    struct gb_http_text lines = head->lines;
    struct gb_http_text name;
    struct gb_http_text value;
    while (gb_origin_head_next(&lines, &name, &value)) {
        if (gb_http_text_same_name(name, GB_HTTP_TEXT("Cache-Control"))) {
            (void)gb_http_meta_field(writer, name, value);
        }
    }
    return !writer->full;
}
