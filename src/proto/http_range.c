/* Range and If-Range: see http_range.h. */
#include "proto/http_range.h"

#include <errno.h>

#include "base/bits.h"
#include "proto/http_date.h"

enum spec {
    SPEC_BAD,
    SPEC_OUTSIDE, /* follows the grammar, names no byte of the object */
    SPEC_NOTHING, /* the last bytes of an object that has none */
    SPEC_INSIDE,
};

/* A number too large for 64 bits is larger than any object: nothing else matters about it. */
static bool read_position(struct gb_http_text text, uint64_t *out)
{
    return gb_http_text_number(text, out) != -EINVAL;
}

/* One of "first-last", "first-", "-suffix". */
static enum spec read_spec(struct gb_http_text spec, uint64_t size, struct gb_http_range *out)
{
    const char *dash = memchr(spec.at, '-', spec.len);
    if (dash == NULL) {
        return SPEC_BAD;
    }
    const struct gb_http_text before = {spec.at, (size_t)(dash - spec.at)};
    const struct gb_http_text after = {dash + 1, spec.len - before.len - 1};
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;
    if (before.len == 0) {
        uint64_t suffix = 0;
        if (!read_position(after, &suffix)) {
            return SPEC_BAD;
        }
        if (suffix == 0 || size == 0) {
            return suffix == 0 ? SPEC_OUTSIDE : SPEC_NOTHING;
        }
        suffix = gb_min(suffix, size);
        *out = (struct gb_http_range){size - suffix, suffix};
        return SPEC_INSIDE;
    }
    if (!read_position(before, &first) || (after.len > 0 && !read_position(after, &last)) ||
        last < first) {
        return SPEC_BAD;
    }
    if (first >= size) {
        return SPEC_OUTSIDE;
    }
    *out = (struct gb_http_range){first, gb_min(last, size - 1) - first + 1};
    return SPEC_INSIDE;
}

/* Whether the two overlap, touch, or have no gap between them that is worth a part of its own. */
static bool are_near(struct gb_http_range a, struct gb_http_range b)
{
    uint64_t a_end = a.first + a.len;
    uint64_t b_end = b.first + b.len;
    return a.first <= b_end + gb_min(GB_HTTP_RANGE_GAP, UINT64_MAX - b_end) &&
           b.first <= a_end + gb_min(GB_HTTP_RANGE_GAP, UINT64_MAX - a_end);
}

/* Adds a range, or joins it to those it is near to; what it has grown to may be near to more. */
static void add_range(struct gb_http_ranges *ranges, struct gb_http_range range)
{
    size_t place = ranges->count;
    for (size_t i = 0; i < ranges->count;) {
        const struct gb_http_range other = ranges->at[i];
        if (!are_near(other, range)) {
            i++;
            continue;
        }
        uint64_t end = gb_max(other.first + other.len, range.first + range.len);
        range.first = gb_min(other.first, range.first);
        range.len = end - range.first;
        ranges->count--;
        memmove(&ranges->at[i], &ranges->at[i + 1], (ranges->count - i) * sizeof(range));
        place = gb_min(place, i);
        i = 0;
    }
    memmove(&ranges->at[place + 1], &ranges->at[place], (ranges->count - place) * sizeof(range));
    ranges->at[place] = range;
    ranges->count++;
}

enum gb_http_range_answer gb_http_range_resolve(struct gb_http_text field, uint64_t size,
                                                struct gb_http_ranges *out)
{
    static const char unit[] = "bytes=";
    const size_t unit_len = sizeof(unit) - 1;
    out->count = 0;
    field = gb_http_text_trim(field);
    if (field.len < unit_len || !gb_http_text_same_name((struct gb_http_text){field.at, unit_len},
                                                        GB_HTTP_TEXT("bytes="))) {
        return GB_HTTP_RANGE_WHOLE;
    }
    struct gb_http_text rest = {field.at + unit_len, field.len - unit_len};
    struct gb_http_text spec;
    size_t specs = 0;
    bool nothing = false;
    while (gb_http_text_next(&rest, &spec)) {
        struct gb_http_range range;
        enum spec kind = read_spec(spec, size, &range);
        if (kind == SPEC_BAD || ++specs > GB_HTTP_RANGES_MAX) {
            out->count = 0;
            return GB_HTTP_RANGE_WHOLE;
        }
        nothing = nothing || kind == SPEC_NOTHING;
        if (kind == SPEC_INSIDE) {
            add_range(out, range);
        }
    }
    if (out->count > 0) {
        return GB_HTTP_RANGE_PART;
    }
    /* The last bytes of nothing are satisfiable, but there is no Content-Range that could say so.
     * */
    return specs == 0 || nothing ? GB_HTTP_RANGE_WHOLE : GB_HTTP_RANGE_NONE;
}

bool gb_http_range_if(struct gb_http_text field, struct gb_http_text etag, int64_t modified_s,
                      int64_t now_s)
{
    if (field.at == NULL) {
        return true;
    }
    field = gb_http_text_trim(field);
    if (field.len > 0 && (field.at[0] == '"' || field.at[0] == 'W')) {
        bool is_strong = field.at[0] == '"';
        if (is_strong || (field.len > 1 && field.at[1] == '/')) {
            return is_strong && gb_http_text_equal(field, etag);
        }
    }
    int64_t date_s = 0;
    return gb_http_date_parse(field, now_s, &date_s) == 0 && date_s == modified_s &&
           modified_s < now_s;
}
