/* What goblin-bench kv writes, read again: JSON (RFC 8259), an array of flat objects. */
#include "bench/relative.h"

#include "bench/explain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 32,
    NUMBER_MAX = 64,
    HEX_DIGITS = 4,
    UTF8_TWO = 0x80,
    UTF8_THREE = 0x800,
};

/* Between two tokens of the text. `is_bad` stays. */
struct cursor {
    const char *at;
    const char *end;
    bool is_bad;
};

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) && *cursor->at) {
        cursor->at++;
    }
}

static bool peek(struct cursor *cursor, char wanted)
{
    skip_space(cursor);
    return !cursor->is_bad && cursor->at < cursor->end && *cursor->at == wanted;
}

static bool take(struct cursor *cursor, char wanted)
{
    bool is_there = peek(cursor, wanted);
    cursor->at += is_there;
    return is_there;
}

static void need(struct cursor *cursor, char wanted)
{
    cursor->is_bad = !take(cursor, wanted) || cursor->is_bad;
}

/* ---- strings -------------------------------------------------------------------------------- */

/* What does not fit is cut off. */
struct sink {
    char *text; /* [GB_RELATIVE_NAME], or NULL */
    size_t len;
};

static void put_byte(struct sink *sink, unsigned byte)
{
    if (sink->text && sink->len + 1 < GB_RELATIVE_NAME) {
        sink->text[sink->len++] = (char)byte;
        sink->text[sink->len] = '\0';
    }
}

static unsigned take_hex(struct cursor *cursor)
{
    unsigned code = 0;
    for (int i = 0; i < HEX_DIGITS; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit =
            cursor->at < cursor->end && *cursor->at ? strchr(digits, *cursor->at) : NULL;
        if (!digit) {
            cursor->is_bad = true;
            return 0;
        }
        code = code << 4 | ((unsigned)(digit - digits) & 0xf);
        cursor->at++;
    }
    return code;
}

static void take_escape(struct cursor *cursor, struct sink *sink)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char letter = '\0';
    if (cursor->at < cursor->end) {
        letter = *cursor->at++;
    }
    const char *known = letter ? strchr(names, letter) : NULL;
    if (known) {
        put_byte(sink, (unsigned char)meanings[known - names]);
    } else if (letter == 'u') {
        unsigned code = take_hex(cursor);
        if (code < UTF8_TWO) {
            put_byte(sink, code);
        } else if (code < UTF8_THREE) {
            put_byte(sink, 0xc0 | code >> 6);
            put_byte(sink, 0x80 | (code & 0x3f));
        } else {
            put_byte(sink, 0xe0 | code >> 12);
            put_byte(sink, 0x80 | (code >> 6 & 0x3f));
            put_byte(sink, 0x80 | (code & 0x3f));
        }
    } else {
        cursor->is_bad = true;
    }
}

static void take_string(struct cursor *cursor, char *text)
{
    struct sink sink = {.text = text};
    if (text) {
        text[0] = '\0';
    }
    need(cursor, '"');
    while (!cursor->is_bad && cursor->at < cursor->end && *cursor->at != '"') {
        char letter = *cursor->at++;
        if (letter == '\\') {
            take_escape(cursor, &sink);
        } else if ((unsigned char)letter < ' ') {
            cursor->is_bad = true;
        } else {
            put_byte(&sink, (unsigned char)letter);
        }
    }
    cursor->is_bad = cursor->is_bad || cursor->at == cursor->end;
    cursor->at += !cursor->is_bad;
}

/* ---- other values --------------------------------------------------------------------------- */

static double take_number(struct cursor *cursor)
{
    char text[NUMBER_MAX];
    char *end = NULL;
    size_t len = 0;
    skip_space(cursor);
    while (cursor->at + len < cursor->end && len + 1 < sizeof(text) && cursor->at[len] &&
           strchr("+-.0123456789eE", cursor->at[len])) {
        text[len] = cursor->at[len];
        len++;
    }
    text[len] = '\0';
    double number = strtod(text, &end);
    if (len == 0 || end != text + len || !isfinite(number)) {
        cursor->is_bad = true;
        return 0;
    }
    cursor->at += len;
    return number;
}

static void take_word(struct cursor *cursor)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(cursor->end - cursor->at) >= len && memcmp(cursor->at, words[i], len) == 0) {
            cursor->at += len;
            return;
        }
    }
    (void)take_number(cursor);
}

/* Any value. Depth is bounded by counting brackets rather than by recursion. */
static void skip_value(struct cursor *cursor)
{
    char closing[DEPTH_MAX];
    int depth = 0;
    do {
        if (depth > 0 && take(cursor, closing[depth - 1])) {
            depth--;
            continue;
        }
        if (depth > 0 && closing[depth - 1] == '}' && !peek(cursor, ',')) {
            take_string(cursor, NULL);
            need(cursor, ':');
        }
        if (take(cursor, ',') && depth > 0) {
            continue;
        }
        if (depth < DEPTH_MAX && take(cursor, '[')) {
            closing[depth++] = ']';
        } else if (depth < DEPTH_MAX && take(cursor, '{')) {
            closing[depth++] = '}';
        } else if (peek(cursor, '"')) {
            take_string(cursor, NULL);
        } else {
            take_word(cursor);
        }
    } while (depth > 0 && !cursor->is_bad);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void take_member(struct cursor *cursor, struct gb_relative_row *row, bool *has_qps)
{
    char name[GB_RELATIVE_NAME];
    const struct {
        const char *name;
        char *text;
    } texts[] = {
        {"engine", row->engine},
        {"version", row->version},
        {"workload", row->workload},
        {"step", row->step},
    };
    take_string(cursor, name);
    need(cursor, ':');
    if (!cursor->is_bad && strcmp(name, "qps") == 0) {
        row->qps = take_number(cursor);
        *has_qps = true;
        return;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!cursor->is_bad && strcmp(name, texts[i].name) == 0) {
            take_string(cursor, texts[i].text);
            return;
        }
    }
    if (!cursor->is_bad) {
        skip_value(cursor);
    }
}

static void take_row(struct cursor *cursor, struct gb_relative_row *row)
{
    bool has_qps = false;
    need(cursor, '{');
    if (!take(cursor, '}')) {
        do {
            take_member(cursor, row, &has_qps);
        } while (take(cursor, ','));
        need(cursor, '}');
    }
    cursor->is_bad = cursor->is_bad || !has_qps || row->qps < 0 || !row->engine[0] ||
                     !row->workload[0] || !row->step[0];
}

int gb_relative_json(const char *text, size_t len, unsigned source, struct gb_relative_rows *rows,
                     struct goblin_error *error)
{
    struct cursor cursor = {.at = text, .end = text + len};
    int rc = 0;
    need(&cursor, '[');
    if (!take(&cursor, ']')) {
        do {
            struct gb_relative_row row = {.source = source};
            take_row(&cursor, &row);
            rc = cursor.is_bad ? 0 : gb_relative_rows_add(rows, &row, error);
        } while (rc == 0 && take(&cursor, ','));
        need(&cursor, ']');
    }
    skip_space(&cursor);
    if (rc == 0 && (cursor.is_bad || cursor.at != cursor.end)) {
        unsigned line = 1;
        for (const char *at = text; at < cursor.at; at++) {
            line += *at == '\n';
        }
        gb_explain_set(error, "line %u: this is not what goblin-bench kv writes", line);
        rc = -EBADMSG;
    }
    return rc;
}
