/* Keys, ranges and times as text. */
#include "cli/text.h"

#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/say.h"

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int parse_hex(const char *text, size_t len, unsigned char *storage,
                     struct goblin_error *error)
{
    if (len % 2 != 0) {
        return gb_say_explain(error, "key %.64s: hex needs two digits per byte", text);
    }
    for (size_t i = 0; i < len / 2; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return gb_say_explain(error, "key %.64s: not hex; leave --hex away for a plain key",
                                  text);
        }
        storage[i] = (unsigned char)(high << 4 | low);
    }
    return GOBLIN_OK;
}

int gb_text_parse_key(const char *text, bool hex, unsigned char storage[GOBLIN_KEY_MAX],
                      struct goblin_slice *key, struct goblin_error *error)
{
    size_t len = strlen(text);
    size_t key_len = hex ? len / 2 : len;
    if (len == 0 || key_len > GOBLIN_KEY_MAX) {
        return gb_say_explain(error, "a key is 1 to %u bytes, this one has %zu", GOBLIN_KEY_MAX,
                              key_len);
    }
    if (hex) {
        int result = parse_hex(text, len, storage, error);
        if (result != GOBLIN_OK) {
            return result;
        }
    }
    *key = (struct goblin_slice){hex ? (const void *)storage : text, key_len};
    return GOBLIN_OK;
}

/* Length of the well-formed UTF-8 sequence at `bytes` (RFC 3629, table of section 4), 0 if there is
 * none. */
static size_t utf8_len(const unsigned char *bytes, size_t len)
{
    unsigned char lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t want = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : 0;
    if (lead >= 0xf0 && lead <= 0xf4) {
        want = 4;
    }
    if (want == 0 || want > len) {
        return 0;
    }
    unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < least || bytes[1] > most) {
        return 0;
    }
    for (size_t i = 2; i < want; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return want;
}

/* C1 controls (U+0080 to U+009F) steer terminals as the ASCII ones do. */
static bool is_printable(const unsigned char *bytes, size_t len)
{
    if (len == 1) {
        return bytes[0] >= 0x20 && bytes[0] != 0x7f && bytes[0] != '\\';
    }
    return len > 1 && !(bytes[0] == 0xc2 && bytes[1] < 0xa0);
}

const char *gb_text_format_key(char out[GB_TEXT_KEY], struct goblin_slice key, bool hex)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = key.data;
    char *to = out;
    for (size_t i = 0; i < key.len;) {
        size_t len = hex ? 0 : utf8_len(bytes + i, key.len - i);
        if (len != 0 && is_printable(bytes + i, len)) {
            memcpy(to, bytes + i, len);
            to += len;
            i += len;
            continue;
        }
        if (!hex) {
            *to++ = '\\';
            *to++ = 'x';
        }
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
        i++;
    }
    *to = '\0';
    return out;
}

static bool is_utf8(struct goblin_slice key)
{
    const unsigned char *bytes = key.data;
    for (size_t i = 0; i < key.len;) {
        size_t len = utf8_len(bytes + i, key.len - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

void gb_text_json_key(struct gb_json *json, struct goblin_slice key)
{
    if (is_utf8(key)) {
        gb_json_string_len(json, "key", key.data, key.len);
        return;
    }
    char text[GB_TEXT_KEY];
    gb_json_string(json, "key_hex", gb_text_format_key(text, key, true));
}

void gb_text_json_info(struct gb_json *json, struct goblin_slice key,
                       const struct goblin_info *info)
{
    gb_json_object(json, NULL);
    gb_text_json_key(json, key);
    gb_json_unsigned(json, "size", info->size);
    gb_json_unsigned(json, "resident", info->resident);
    gb_json_unsigned(json, "version", info->version);
    gb_json_unsigned(json, "flags", info->flags);
    gb_json_signed(json, "expires_ms", info->expires_ms);
    gb_json_unsigned(json, "metadata", info->meta_len);
    gb_json_unsigned(json, "marks", info->marks);
    gb_json_end(json);
}

int gb_text_parse_range(const char *text, struct gb_text_range *range, struct goblin_error *error)
{
    char first[GB_UNITS_TEXT];
    const char *dash = strchr(text, '-');
    if (dash == NULL || (size_t)(dash - text) >= sizeof(first)) {
        return gb_say_explain(error, "range %.64s: give A-B, A- or -N", text);
    }
    memcpy(first, text, (size_t)(dash - text));
    first[dash - text] = '\0';
    const char *last = dash + 1;
    *range = (struct gb_text_range){.last = UINT64_MAX, .suffix = first[0] == '\0'};
    if (first[0] != '\0' && gb_units_parse_size(first, &range->first) != 0) {
        return gb_say_explain(error, "range %.64s: %s is not a size", text, first);
    }
    if ((last[0] != '\0' || range->suffix) && gb_units_parse_size(last, &range->last) != 0) {
        return gb_say_explain(error, "range %.64s: give A-B, A- or -N", text);
    }
    if (range->suffix && range->last == 0) {
        return gb_say_explain(error, "range %.64s: the last 0 bytes are none", text);
    }
    if (!range->suffix && range->last < range->first) {
        return gb_say_explain(error, "range %.64s: ends before it starts", text);
    }
    return GOBLIN_OK;
}

const char *gb_text_format_time(char out[GB_TEXT_TIME], int64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;
    if (time_ms == 0) {
        (void)snprintf(out, GB_TEXT_TIME, "never");
    } else if (time_ms < 0 || gmtime_r(&seconds, &tm) == NULL || tm.tm_year > 9999 - 1900) {
        (void)snprintf(out, GB_TEXT_TIME, "%lld ms", (long long)time_ms);
    } else {
        size_t len = strftime(out, GB_TEXT_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
        (void)snprintf(out + len, GB_TEXT_TIME - len, ".%03dZ", (int)(time_ms % 1000));
    }
    return out;
}

int64_t gb_text_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
