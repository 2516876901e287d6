/* Words, numbers and times of the memcached protocol. */
#include "proto/mc.h"

#include <errno.h>
#include <string.h>

#define RELATIVE_MAX_S ((int64_t)60 * 60 * 24 * 30)

struct gb_mc_text gb_mc_next_word(struct gb_mc_text *rest)
{
    while (rest->len > 0 && *rest->data == ' ') {
        rest->data++;
        rest->len--;
    }
    const char *end = rest->len > 0 ? memchr(rest->data, ' ', rest->len) : NULL;
    struct gb_mc_text word = {rest->data, end != NULL ? (size_t)(end - rest->data) : rest->len};
    rest->data += word.len;
    rest->len -= word.len;
    return word;
}

int gb_mc_read_unsigned(struct gb_mc_text text, uint64_t most, uint64_t *out)
{
    size_t i = text.len > 0 && text.data[0] == '+' ? 1 : 0;
    if (i == text.len) {
        return -EINVAL;
    }
    uint64_t value = 0;
    bool fits = true;
    for (; i < text.len; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9) {
            return -EINVAL;
        }
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, digit, &value);
    }
    if (!fits || value > most) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}

int gb_mc_read_signed(struct gb_mc_text text, int64_t *out)
{
    bool negative = text.len > 1 && text.data[0] == '-' && text.data[1] != '+';
    struct gb_mc_text digits = {text.data + negative, text.len - negative};
    uint64_t value;
    int result = gb_mc_read_unsigned(digits, INT64_MAX, &value);
    if (result == 0) {
        *out = negative ? -(int64_t)value : (int64_t)value;
    }
    return result;
}

int64_t gb_mc_expiry_ms(int64_t exptime_s, int64_t now_ms)
{
    if (exptime_s == 0) {
        return 0;
    }
    if (exptime_s < 0) {
        return 1;
    }
    if (exptime_s <= RELATIVE_MAX_S) {
        return now_ms + exptime_s * 1000;
    }
    return exptime_s > INT64_MAX / 1000 ? INT64_MAX : exptime_s * 1000;
}

int64_t gb_mc_left_s(int64_t expires_ms, int64_t now_ms)
{
    if (expires_ms == 0) {
        return -1;
    }
    int64_t left_ms = expires_ms - now_ms;
    return left_ms > 0 ? left_ms / 1000 + (left_ms % 1000 != 0) : 0;
}

const char *gb_mc_verb_name(enum gb_mc_verb verb)
{
    static const char *const names[] = {
#define GB_X(name, word, least, most) word,
        GB_MC_VERBS(GB_X)
#undef GB_X
    };
    return names[verb];
}
