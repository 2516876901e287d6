/* Conditional requests: see http_conditional.h. */
#include "proto/http_conditional.h"

#include "proto/http_date.h"

/* The tag without its mark of weakness. */
static struct gb_http_text opaque_tag(struct gb_http_text etag)
{
    if (etag.len >= 2 && etag.at[0] == 'W' && etag.at[1] == '/') {
        return (struct gb_http_text){etag.at + 2, etag.len - 2};
    }
    return etag;
}

static bool is_weak(struct gb_http_text etag)
{
    return etag.len >= 2 && etag.at[0] == 'W';
}

bool gb_http_conditional_is_etag(struct gb_http_text text)
{
    const struct gb_http_text tag = opaque_tag(text);
    if (tag.len < 2 || tag.at[0] != '"' || tag.at[tag.len - 1] != '"') {
        return false;
    }
    for (size_t i = 1; i + 1 < tag.len; i++) {
        unsigned char c = (unsigned char)tag.at[i];
        if (c <= ' ' || c == '"' || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* The next member of a list of entity tags. Not the general list: a backslash is a letter like any
 * other here, and escapes nothing. Returns false at the end; *tag is empty where the list breaks
 * the grammar, and nothing follows. */
static bool next_tag(struct gb_http_text *rest, struct gb_http_text *tag)
{
    while (rest->len > 0 && (rest->at[0] == ',' || rest->at[0] == ' ' || rest->at[0] == '\t')) {
        rest->at++;
        rest->len--;
    }
    if (rest->len == 0) {
        return false;
    }
    size_t open = opaque_tag(*rest).at == rest->at ? 0 : 2;
    size_t end = open + 1;
    while (end < rest->len && rest->at[end] != '"') {
        end++;
    }
    *tag = (struct gb_http_text){rest->at, end < rest->len ? end + 1 : rest->len};
    struct gb_http_text behind = {rest->at + tag->len, rest->len - tag->len};
    const struct gb_http_text gap = gb_http_text_trim(behind);
    if (!gb_http_conditional_is_etag(*tag) || (gap.len > 0 && gap.at[0] != ',')) {
        *tag = (struct gb_http_text){rest->at, 0};
        behind.len = 0;
    }
    *rest = behind;
    return true;
}

enum match { MATCH_NO, MATCH_YES, MATCH_BAD };

/* Whether a list holds the object's tag. Strong comparison: both strong, and the same; weak: the
 * same but for the mark. A list is read to its end, so that a bad one is bad whatever it begins
 * with. */
static enum match find_tag(struct gb_http_text list, const struct gb_http_validators *validators,
                           bool strong)
{
    if (gb_http_text_equal(gb_http_text_trim(list), GB_HTTP_TEXT("*"))) {
        return validators->exists ? MATCH_YES : MATCH_NO;
    }
    bool found = false;
    size_t count = 0;
    struct gb_http_text tag;
    while (next_tag(&list, &tag)) {
        count++;
        if (tag.len == 0) {
            return MATCH_BAD;
        }
        bool comparable =
            validators->exists && !(strong && (is_weak(tag) || is_weak(validators->etag)));
        found = found ||
                (comparable && gb_http_text_equal(opaque_tag(tag), opaque_tag(validators->etag)));
    }
    if (count == 0) {
        return MATCH_BAD;
    }
    return found ? MATCH_YES : MATCH_NO;
}

/* Whether the object was modified after the date, or is not there to tell; `ignore` where the field
 * says nothing. */
static bool modified_after(struct gb_http_text field, const struct gb_http_validators *validators,
                           int64_t now_s, bool ignore)
{
    int64_t date_s = 0;
    if (!validators->exists || !validators->has_modified ||
        gb_http_date_parse(gb_http_text_trim(field), now_s, &date_s) != 0) {
        return ignore;
    }
    return validators->modified_s > date_s;
}

enum gb_http_verdict gb_http_conditional_judge(const struct gb_http_conditions *conditions,
                                               const struct gb_http_validators *validators,
                                               bool reading, int64_t now_s)
{
    if (conditions->if_match.at != NULL) {
        enum match match = find_tag(conditions->if_match, validators, true);
        if (match == MATCH_BAD && !reading) {
            return GB_HTTP_BAD_CONDITION;
        }
        if (match != MATCH_YES) {
            return GB_HTTP_PRECONDITION_FAILED;
        }
    } else if (conditions->if_unmodified_since.at != NULL &&
               modified_after(conditions->if_unmodified_since, validators, now_s, false)) {
        return GB_HTTP_PRECONDITION_FAILED;
    }
    if (conditions->if_none_match.at != NULL) {
        enum match match = find_tag(conditions->if_none_match, validators, false);
        if (match == MATCH_BAD && !reading) {
            return GB_HTTP_BAD_CONDITION;
        }
        if (match == MATCH_YES) {
            return reading ? GB_HTTP_NOT_MODIFIED : GB_HTTP_PRECONDITION_FAILED;
        }
    } else if (reading && conditions->if_modified_since.at != NULL &&
               !modified_after(conditions->if_modified_since, validators, now_s, true)) {
        return GB_HTTP_NOT_MODIFIED;
    }
    return GB_HTTP_PROCEED;
}
