/* The head of an origin's answer: see origin_head.h. */
#include "proto/origin_head.h"

#include "base/bits.h"
#include "proto/http_conditional.h"
#include "proto/http_date.h"

void gb_origin_head_add(char *out, const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        bool is_end = c == '\n' ? i + 1 == len : c == '\r' && i + 2 == len && line[i + 1] == '\n';
        bool is_control = (c < ' ' && c != '\t') || c == 0x7f;
        out[i] = line[i];
        if (is_control && !is_end) {
            out[i] = ' ';
        }
    }
}

bool gb_origin_head_next(struct gb_http_text *lines, struct gb_http_text *name,
                         struct gb_http_text *value)
{
    while (lines->len > 0) {
        const char *end = memchr(lines->at, '\n', lines->len);
        size_t len = end == NULL ? lines->len : (size_t)(end - lines->at);
        struct gb_http_text line = {lines->at, len};
        size_t skip = end == NULL ? len : len + 1;
        *lines = (struct gb_http_text){lines->at + skip, lines->len - skip};
        if (line.len > 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        const char *colon = line.len == 0 ? NULL : memchr(line.at, ':', line.len);
        if (colon == NULL) {
            continue;
        }
        *name = (struct gb_http_text){line.at, (size_t)(colon - line.at)};
        *value = gb_http_text_trim((struct gb_http_text){colon + 1, line.len - name->len - 1});
        if (gb_http_text_is_token(*name)) {
            return true;
        }
    }
    return false;
}

static bool is(struct gb_http_text name, const char *other)
{
    return gb_http_text_same_name(name, gb_http_text_of(other));
}

static void read_length(struct gb_origin_head *head, struct gb_http_text value)
{
    uint64_t length = 0;
    if (gb_http_text_number(value, &length) != 0 ||
        (head->length != GB_ORIGIN_HEAD_LENGTH_UNKNOWN && head->length != length)) {
        head->bad = true;
        return;
    }
    head->length = length;
}

static int64_t read_date(struct gb_http_text value, int64_t now_s, int64_t otherwise)
{
    int64_t time_s = 0;
    return gb_http_date_parse(value, now_s, &time_s) == 0 ? time_s : otherwise;
}

static void read_field(struct gb_origin_head *head, struct gb_http_text name,
                       struct gb_http_text value)
{
    struct gb_cache_response *cache = &head->cache;
    int64_t now_s = cache->received_s;
    if (is(name, "Cache-Control")) {
        gb_cache_control_add(&cache->control, value);
        head->has_cache_control = true;
    } else if (is(name, "Date")) {
        cache->date_s = read_date(value, now_s, GB_CACHE_CONTROL_ABSENT);
    } else if (is(name, "Expires")) {
        cache->expires_s = read_date(value, now_s, 0);
    } else if (is(name, "Last-Modified")) {
        cache->modified_s = read_date(value, now_s, GB_CACHE_CONTROL_ABSENT);
    } else if (is(name, "Age")) {
        cache->age_s = gb_cache_control_age_field(value);
    } else if (is(name, "Content-Length")) {
        read_length(head, value);
    } else if (is(name, "Content-Range")) {
        head->has_range = true;
    } else if (is(name, "Set-Cookie")) {
        head->sets_cookie = true;
    } else if (is(name, "ETag")) {
        bool usable = value.len <= GB_ORIGIN_HEAD_ETAG_MAX && gb_http_conditional_is_etag(value);
        head->etag = usable ? value : (struct gb_http_text){NULL, 0};
    } else if (is(name, "Vary")) {
        head->vary = head->vary_lines++ == 0 ? value : head->vary;
    }
}

static bool lists(struct gb_http_text list, const char *name)
{
    struct gb_http_text element;
    while (gb_http_text_next(&list, &element)) {
        if (is(element, name)) {
            return true;
        }
    }
    return false;
}

void gb_origin_head_read(struct gb_origin_head *head, int status, struct gb_http_text lines,
                         int64_t requested_s, int64_t received_s)
{
    struct gb_http_text name;
    struct gb_http_text value;
    *head = (struct gb_origin_head){.lines = lines, .length = GB_ORIGIN_HEAD_LENGTH_UNKNOWN};
    head->cache = (struct gb_cache_response){
        .status = status,
        .date_s = GB_CACHE_CONTROL_ABSENT,
        .expires_s = GB_CACHE_CONTROL_ABSENT,
        .modified_s = GB_CACHE_CONTROL_ABSENT,
        .age_s = GB_CACHE_CONTROL_ABSENT,
        .requested_s = requested_s,
        .received_s = received_s,
    };
    gb_cache_control_init(&head->cache.control);
    bool coded = false;
    while (gb_origin_head_next(&lines, &name, &value)) {
        read_field(head, name, value);
        coded = coded || is(name, "Transfer-Encoding");
    }
    if (coded) {
        head->length = GB_ORIGIN_HEAD_LENGTH_UNKNOWN;
    }
    /* Two lines are one list, but nobody sends them: as cautious as `*`. */
    head->cache.vary_all = head->vary_lines > 1 || lists(head->vary, "*");
}

/* So old that it has been of no use since before it came: nothing to be kept. */
static bool is_past(const struct gb_origin_head *head)
{
    return gb_origin_head_birth_s(head) + gb_origin_head_kept_s(head) <= head->cache.received_s;
}

bool gb_origin_head_may_keep(const struct gb_origin_head *head,
                             const struct gb_cache_control *request)
{
    return head->cache.status == 200 && !head->sets_cookie && !head->has_range &&
           gb_cache_control_may_store(&head->cache, request) && !is_past(head);
}

bool gb_origin_head_may_share(const struct gb_origin_head *head,
                              const struct gb_cache_control *request)
{
    const struct gb_cache_response *cache = &head->cache;
    if (gb_origin_head_may_keep(head, request)) {
        return true;
    }
    return cache->status >= 400 && !head->sets_cookie && !cache->control.is_private &&
           !cache->control.no_store && !request->no_store && !cache->authorized &&
           cache->status != 401 && head->vary_lines == 0;
}

bool gb_origin_head_passes(struct gb_http_text lines, struct gb_http_text name)
{
    static const char *const never[] = {
        "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Transfer-Encoding",
        "TE",         "Trailer",    "Upgrade",          "Content-Length",     "Age",
        "Via",
    };
    struct gb_http_text other;
    struct gb_http_text value;
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        if (is(name, never[i])) {
            return false;
        }
    }
    while (gb_origin_head_next(&lines, &other, &value)) {
        struct gb_http_text element;
        while (is(other, "Connection") && gb_http_text_next(&value, &element)) {
            if (gb_http_text_same_name(element, name)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- what is asked --------------------------------------------------------------------------- */

bool gb_origin_head_asks(struct gb_http_text name)
{
    static const char *const names[] = {"Accept", "Accept-Charset", "Accept-Encoding",
                                        "Accept-Language", "User-Agent"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is(name, names[i])) {
            return true;
        }
    }
    return false;
}

bool gb_origin_head_names(struct gb_http_text via, struct gb_http_text name)
{
    struct gb_http_text element;
    while (gb_http_text_next(&via, &element)) {
        const char *blank = memchr(element.at, ' ', element.len);
        if (blank == NULL) {
            continue;
        }
        size_t front = (size_t)(blank - element.at);
        struct gb_http_text by =
            gb_http_text_trim((struct gb_http_text){blank, element.len - front});
        const char *end = by.len == 0 ? NULL : memchr(by.at, ' ', by.len);
        by.len = end == NULL ? by.len : (size_t)(end - by.at);
        if (gb_http_text_same_name(by, name)) {
            return true;
        }
    }
    return false;
}

static struct gb_http_text find_line(void *arg, struct gb_http_text name, size_t number)
{
    struct gb_http_text lines = *(const struct gb_http_text *)arg;
    struct gb_http_text other;
    struct gb_http_text value;
    while (gb_origin_head_next(&lines, &other, &value)) {
        if (gb_http_text_same_name(name, other) && number-- == 0) {
            return value;
        }
    }
    return (struct gb_http_text){NULL, 0};
}

int64_t gb_origin_head_variant(struct gb_http_text vary, struct gb_http_text lines, char *out,
                               size_t size)
{
    return gb_cache_control_vary_key(vary, find_line, &lines, out, size);
}
