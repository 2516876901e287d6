/* What HTTP's fields have in common: see http_text.h. */
#include "proto/http_text.h"

#include <errno.h>

static bool is_tchar(unsigned char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
        return true;
    }
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool gb_http_text_is_token(struct gb_http_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_tchar((unsigned char)text.at[i])) {
            return false;
        }
    }
    return text.len > 0;
}

bool gb_http_text_equal(struct gb_http_text a, struct gb_http_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool gb_http_text_same_name(struct gb_http_text a, struct gb_http_text b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (gb_http_text_lower(a.at[i]) != gb_http_text_lower(b.at[i])) {
            return false;
        }
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct gb_http_text gb_http_text_trim(struct gb_http_text text)
{
    while (text.len > 0 && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* Length of the element that `text` begins with: up to a comma outside of quotes, or all of it. */
static size_t element_length(struct gb_http_text text)
{
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text.at[i] == '\\') {
            i++;
        } else if (!quoted && text.at[i] == ',') {
            return i;
        }
    }
    return text.len;
}

bool gb_http_text_next(struct gb_http_text *rest, struct gb_http_text *element)
{
    while (rest->len > 0) {
        size_t len = element_length(*rest);
        size_t step = len < rest->len ? len + 1 : len;
        *element = gb_http_text_trim((struct gb_http_text){rest->at, len});
        rest->at += step;
        rest->len -= step;
        if (element->len > 0) {
            return true;
        }
    }
    return false;
}

int gb_http_text_number(struct gb_http_text text, uint64_t *out)
{
    if (text.len == 0) {
        return -EINVAL;
    }
    uint64_t value = 0;
    bool fits = true;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return -EINVAL;
        }
        uint64_t digit = (uint64_t)(text.at[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            fits = false;
        } else {
            value = value * 10 + digit;
        }
    }
    *out = fits ? value : UINT64_MAX;
    return fits ? 0 : -ERANGE;
}
