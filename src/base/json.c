/* JSON writer: see json.h. */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void gb_json_init(struct gb_json *json, FILE *file)
{
    *json = (struct gb_json){.file = file};
}

static void put(struct gb_json *json, const char *text)
{
    (void)fputs(text, json->file);
}

static void new_line(struct gb_json *json)
{
    if (json->compact) {
        return;
    }
    (void)fputc('\n', json->file);
    for (int i = 0; i < json->depth; i++) {
        put(json, "  ");
    }
}

/* Length of the valid UTF-8 sequence at `text`, or 0. Refuses overlong forms and surrogates. */
static size_t sequence_length(const unsigned char *text, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t need = text[0] < 0x80             ? 1
                  : (text[0] & 0xe0) == 0xc0 ? 2
                  : (text[0] & 0xf0) == 0xe0 ? 3
                  : (text[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    if (need == 0 || need > len) {
        return 0;
    }
    uint32_t point = need == 1 ? text[0] : text[0] & (0xffu >> (need + 1));
    for (size_t i = 1; i < need; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (text[i] & 0x3fu);
    }
    bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < least[need] || point > 0x10ffff || is_surrogate ? 0 : need;
}

static void put_escaped(struct gb_json *json, unsigned char c)
{
    switch (c) {
    case '"':
        put(json, "\\\"");
        break;
    case '\\':
        put(json, "\\\\");
        break;
    case '\n':
        put(json, "\\n");
        break;
    case '\r':
        put(json, "\\r");
        break;
    case '\t':
        put(json, "\\t");
        break;
    default:
        if (c < 0x20 || c == 0x7f) {
            (void)fprintf(json->file, "\\u%04x", c);
        } else {
            (void)fputc(c, json->file);
        }
    }
}

static void put_quoted(struct gb_json *json, const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    (void)fputc('"', json->file);
    for (size_t i = 0; i < len;) {
        size_t step = sequence_length(bytes + i, len - i);
        if (step == 1) {
            put_escaped(json, bytes[i]);
        } else if (step == 0) {
            put(json, "\\ufffd");
            step = 1;
        } else {
            (void)fwrite(bytes + i, 1, step, json->file);
        }
        i += step;
    }
    (void)fputc('"', json->file);
}

/* The comma, the line and the name that come before any value. */
static void begin_value(struct gb_json *json, const char *name)
{
    GB_ASSERT(!json->done);
    if (json->depth == 0) {
        GB_ASSERT(name == NULL);
        return;
    }
    bool is_array = json->levels[json->depth - 1].is_array;
    GB_ASSERT(is_array == (name == NULL));
    if (json->levels[json->depth - 1].has_members) {
        (void)fputc(',', json->file);
    }
    json->levels[json->depth - 1].has_members = true;
    new_line(json);
    if (name != NULL) {
        put_quoted(json, name, strlen(name));
        put(json, json->compact ? ":" : ": ");
    }
}

static void end_value(struct gb_json *json)
{
    json->done = json->depth == 0;
}

static void open_level(struct gb_json *json, const char *name, bool is_array)
{
    GB_ASSERT(json->depth < GB_JSON_DEPTH_MAX);
    begin_value(json, name);
    (void)fputc(is_array ? '[' : '{', json->file);
    json->levels[json->depth].is_array = is_array;
    json->levels[json->depth].has_members = false;
    json->depth++;
}

void gb_json_object(struct gb_json *json, const char *name)
{
    open_level(json, name, false);
}

void gb_json_array(struct gb_json *json, const char *name)
{
    open_level(json, name, true);
}

void gb_json_end(struct gb_json *json)
{
    GB_ASSERT(json->depth > 0);
    json->depth--;
    if (json->levels[json->depth].has_members) {
        new_line(json);
    }
    (void)fputc(json->levels[json->depth].is_array ? ']' : '}', json->file);
    end_value(json);
}

void gb_json_string(struct gb_json *json, const char *name, const char *text)
{
    gb_json_string_len(json, name, text, strlen(text));
}

void gb_json_string_len(struct gb_json *json, const char *name, const char *text, size_t len)
{
    begin_value(json, name);
    put_quoted(json, text, len);
    end_value(json);
}

void gb_json_unsigned(struct gb_json *json, const char *name, uint64_t value)
{
    begin_value(json, name);
    (void)fprintf(json->file, "%llu", (unsigned long long)value);
    end_value(json);
}

void gb_json_signed(struct gb_json *json, const char *name, int64_t value)
{
    begin_value(json, name);
    (void)fprintf(json->file, "%lld", (long long)value);
    end_value(json);
}

void gb_json_real(struct gb_json *json, const char *name, double value)
{
    if (!isfinite(value)) {
        gb_json_null(json, name);
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    begin_value(json, name);
    put(json, text);
    end_value(json);
}

void gb_json_rounded(struct gb_json *json, const char *name, double value, int digits)
{
    GB_ASSERT(digits >= 0 && digits <= 9);
    char text[32];
    if (!isfinite(value) || fabs(value) >= 1e15) {
        gb_json_real(json, name, value);
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*f", digits, value);
    gb_json_real(json, name, strtod(text, NULL));
}

void gb_json_bool(struct gb_json *json, const char *name, bool value)
{
    begin_value(json, name);
    put(json, value ? "true" : "false");
    end_value(json);
}

void gb_json_null(struct gb_json *json, const char *name)
{
    begin_value(json, name);
    put(json, "null");
    end_value(json);
}

int gb_json_finish(struct gb_json *json)
{
    GB_ASSERT(json->done);
    (void)fputc('\n', json->file);
    return fflush(json->file) != 0 || ferror(json->file) ? -EIO : 0;
}
