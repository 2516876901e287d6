/* Targets, paths and keys: see http_path.h. */
#include "proto/http_path.h"

#include <errno.h>

static size_t position_of(struct gb_http_text text, char c)
{
    const char *found = text.len > 0 ? memchr(text.at, c, text.len) : NULL;
    return found == NULL ? text.len : (size_t)(found - text.at);
}

static bool begins_with(struct gb_http_text text, struct gb_http_text prefix)
{
    return text.len >= prefix.len &&
           gb_http_text_same_name((struct gb_http_text){text.at, prefix.len}, prefix);
}

static struct gb_http_text behind(struct gb_http_text text, size_t count)
{
    return (struct gb_http_text){text.at + count, text.len - count};
}

/* Takes "http://authority" from the front. */
static int split_authority(struct gb_http_text *text, struct gb_http_text *authority)
{
    const struct gb_http_text plain = GB_HTTP_TEXT("http://");
    const struct gb_http_text secure = GB_HTTP_TEXT("https://");
    if (!begins_with(*text, plain) && !begins_with(*text, secure)) {
        return -EINVAL;
    }
    *text = behind(*text, begins_with(*text, plain) ? plain.len : secure.len);
    size_t slash = position_of(*text, '/');
    size_t mark = position_of(*text, '?');
    *authority = (struct gb_http_text){text->at, slash < mark ? slash : mark};
    *text = behind(*text, authority->len);
    /* A user's name in front of the host is for nobody but phishers (RFC 9110, 4.2.4). */
    return authority->len == 0 || position_of(*authority, '@') < authority->len ? -EINVAL : 0;
}

int gb_http_path_split(struct gb_http_text text, struct gb_http_target *out)
{
    *out = (struct gb_http_target){.authority = {NULL, 0}};
    if (gb_http_text_equal(text, GB_HTTP_TEXT("*"))) {
        out->path = text;
        return 0;
    }
    if (text.len == 0 || (text.at[0] != '/' && split_authority(&text, &out->authority) != 0)) {
        return -EINVAL;
    }
    size_t mark = position_of(text, '?');
    out->path = (struct gb_http_text){text.at, mark};
    if (mark == 0) {
        out->path = GB_HTTP_TEXT("/");
    }
    if (mark < text.len) {
        out->query = behind(text, mark + 1);
    }
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int64_t decode(struct gb_http_text text, bool plus_is_space, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c <= ' ' || c == 0x7f || c == '#') {
            return -EINVAL;
        }
        if (c == '%') {
            int high = i + 2 < text.len ? hex_value(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_value(text.at[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return -EINVAL;
            }
            c = (unsigned char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (len == size) {
            return -ENAMETOOLONG;
        }
        out[len++] = (char)c;
    }
    return (int64_t)len;
}

int64_t gb_http_path_decode(struct gb_http_text text, char *out, size_t size)
{
    return decode(text, false, out, size);
}

int64_t gb_http_path_decode_query(struct gb_http_text text, char *out, size_t size)
{
    return decode(text, true, out, size);
}

bool gb_http_path_next_parameter(struct gb_http_text *query, struct gb_http_text *name,
                                 struct gb_http_text *value)
{
    while (query->len > 0) {
        size_t end = position_of(*query, '&');
        const struct gb_http_text pair = {query->at, end};
        *query = behind(*query, end < query->len ? end + 1 : end);
        if (pair.len == 0) {
            continue;
        }
        size_t sign = position_of(pair, '=');
        *name = (struct gb_http_text){pair.at, sign};
        *value = (struct gb_http_text){NULL, 0};
        if (sign < pair.len) {
            *value = behind(pair, sign + 1);
        }
        return true;
    }
    return false;
}

static bool stands_for_itself(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == '/';
}

int64_t gb_http_path_encode(struct gb_http_text key, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.at[i];
        size_t need = stands_for_itself(key.at[i]) ? 1 : 3;
        if (size - len < need) {
            return -ENAMETOOLONG;
        }
        if (need == 1) {
            out[len++] = (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 0xf];
        }
    }
    return (int64_t)len;
}
