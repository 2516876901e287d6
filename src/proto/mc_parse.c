/* The memcached parser's states: a line, keys of a get, a value and its end, what is skipped. */
#include "proto/mc_parse.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "proto/mc_line.h"

enum {
    MODE_LINE,
    MODE_KEYS,
    MODE_VALUE,
    MODE_SWALLOW,
    MODE_SKIP, /* to the end of the line */
    MODE_CLOSED,
};

enum { LEADING_SPACES_MAX = 100 };

void gb_mc_parser_init(struct gb_mc_parser *parser, uint64_t value_max_bytes)
{
    *parser = (struct gb_mc_parser){.value_max = gb_max(value_max_bytes, GB_MC_VALUE_MAX)};
}

void gb_mc_parser_swallow(struct gb_mc_parser *parser)
{
    GB_ASSERT(parser->mode == MODE_VALUE);
    parser->left += 2U - parser->ends;
    parser->mode = MODE_SWALLOW;
}

void gb_mc_parser_taken(struct gb_mc_parser *parser)
{
    GB_ASSERT(parser->mode == MODE_VALUE);
    parser->left = 0;
}

bool gb_mc_parser_end(struct gb_mc_parser *parser, const char *end)
{
    GB_ASSERT(parser->mode == MODE_VALUE && parser->ends == 0);
    parser->mode = MODE_LINE;
    return end[0] == '\r' && end[1] == '\n';
}

size_t gb_mc_parser_keys_end(struct gb_mc_parser *parser, const char *data, size_t len)
{
    GB_ASSERT(parser->mode == MODE_KEYS);
    size_t end = len > 0 && data[0] == '\r' ? 1 : 0;
    if (end == len || data[end] != '\n') {
        return 0;
    }
    parser->mode = MODE_LINE;
    return end + 1;
}

bool gb_mc_parser_idle(const struct gb_mc_parser *parser)
{
    return parser->mode == MODE_LINE;
}

bool gb_mc_parser_in_keys(const struct gb_mc_parser *parser)
{
    return parser->mode == MODE_KEYS;
}

static bool reads_keys(enum gb_mc_verb verb)
{
    return verb == GB_MC_GET || verb == GB_MC_GETS || verb == GB_MC_GAT || verb == GB_MC_GATS;
}

/* The keys of a line that is whole. A key too long refuses all of it, before any is answered. */
static bool keys_fit(const struct gb_mc_line *line)
{
    struct gb_mc_text rest = {line->words[1].data,
                              line->len - (size_t)(line->words[1].data - line->base)};
    struct gb_mc_text key;
    do {
        key = gb_mc_next_word(&rest);
    } while (key.len > 0 && key.len <= GB_MC_KEY_MAX);
    return key.len == 0;
}

static void start_keys(struct gb_mc_parser *parser, const struct gb_mc_request *request)
{
    parser->mode = MODE_KEYS;
    parser->verb = request->verb;
    parser->exptime_s = request->exptime_s;
    parser->any_key = false;
}

/* Where the keys of the line begin. */
static size_t keys_offset(const struct gb_mc_line *line, enum gb_mc_verb verb)
{
    const struct gb_mc_text *before = &line->words[0];
    if (verb == GB_MC_GAT || verb == GB_MC_GATS) {
        before = &line->words[1];
    }
    return (size_t)(before->data - line->base) + before->len;
}

/* No end within the longest line: what may be longer is read key by key, the rest is no client of
 * ours. */
static size_t read_long_line(struct gb_mc_parser *parser, const char *data,
                             struct gb_mc_event *event)
{
    struct gb_mc_line line;
    gb_mc_line_split(&line, data, GB_MC_LINE_MAX);
    event->kind = GB_MC_CLOSE;
    if (line.count > 1 && line.words[0].data - data <= LEADING_SPACES_MAX) {
        gb_mc_line_read(&line, event);
        bool gets = event->kind == GB_MC_REQUEST && reads_keys(event->request.verb);
        size_t offset = gets ? keys_offset(&line, event->request.verb) : 0;
        if (gets && offset < GB_MC_LINE_MAX) {
            start_keys(parser, &event->request);
            return offset;
        }
        event->kind = GB_MC_CLOSE;
    }
    parser->mode = MODE_CLOSED;
    return 0;
}

static size_t read_line(struct gb_mc_parser *parser, const char *data, size_t len,
                        struct gb_mc_event *event)
{
    size_t window = len < GB_MC_LINE_MAX ? len : GB_MC_LINE_MAX;
    const char *newline = window > 0 ? memchr(data, '\n', window) : NULL;
    if (newline == NULL) {
        return window < GB_MC_LINE_MAX ? 0 : read_long_line(parser, data, event);
    }
    size_t used = (size_t)(newline - data) + 1;
    size_t line_len = used - 1;
    if (line_len > 1 && data[line_len - 1] == '\r') {
        line_len--;
    }
    line_len = strnlen(data, line_len); /* a NUL ends the line, too */
    struct gb_mc_line line = {.value_max = parser->value_max};
    gb_mc_line_split(&line, data, line_len);
    gb_mc_line_read(&line, event);
    if (event->kind != GB_MC_REQUEST) {
        if (event->swallow > 0) {
            parser->left = event->swallow;
            parser->mode = MODE_SWALLOW;
        }
    } else if (gb_mc_stores(event->request.verb)) {
        parser->left = event->request.size;
        parser->ends = 0;
        parser->ends_good = true;
        parser->mode = MODE_VALUE;
    } else if (reads_keys(event->request.verb)) {
        if (!keys_fit(&line)) {
            gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
        } else {
            start_keys(parser, &event->request);
            return keys_offset(&line, event->request.verb);
        }
    }
    return used;
}

static size_t end_keys(struct gb_mc_parser *parser, const char *data, size_t at,
                       struct gb_mc_event *event)
{
    parser->mode = data[at] == '\n' ? MODE_LINE : MODE_SKIP;
    event->kind = GB_MC_KEYS_END;
    if (!parser->any_key && (parser->verb == GB_MC_GET || parser->verb == GB_MC_GETS)) {
        gb_mc_refuse(event, GB_MC_LITERAL("ERROR"));
    }
    return at + 1;
}

static size_t read_key(struct gb_mc_parser *parser, const char *data, size_t len,
                       struct gb_mc_event *event)
{
    size_t start = 0;
    while (start < len && data[start] == ' ') {
        start++;
    }
    size_t end = start;
    while (end < len && end - start < GB_MC_KEY_MAX + 2 && data[end] != ' ' && data[end] != '\n' &&
           data[end] != '\0') {
        end++;
    }
    bool delimited = end < len && (data[end] == ' ' || data[end] == '\n' || data[end] == '\0');
    size_t key_len = end - start;
    if (delimited && data[end] == '\n' && key_len > 0 && data[end - 1] == '\r') {
        key_len--;
    }
    if (key_len > GB_MC_KEY_MAX && (delimited || key_len > GB_MC_KEY_MAX + 1)) {
        parser->mode = MODE_SKIP;
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
        return end;
    }
    if (!delimited) {
        return start;
    }
    if (key_len == 0) {
        return end_keys(parser, data, end, event);
    }
    parser->any_key = true;
    event->kind = GB_MC_REQUEST;
    event->request.verb = parser->verb;
    event->request.exptime_s = parser->exptime_s;
    event->request.key = (struct gb_mc_text){data + start, key_len};
    return end;
}

static size_t read_value(struct gb_mc_parser *parser, const char *data, size_t len,
                         struct gb_mc_event *event)
{
    if (parser->left > 0) {
        size_t piece = (size_t)gb_min(parser->left, len);
        if (piece > 0) {
            event->kind = GB_MC_VALUE;
            event->text = (struct gb_mc_text){data, piece};
            parser->left -= piece;
        }
        return piece;
    }
    size_t used = 0;
    while (used < len && parser->ends < 2) {
        parser->ends_good = parser->ends_good && data[used] == "\r\n"[parser->ends];
        parser->ends++;
        used++;
    }
    if (parser->ends == 2) {
        event->kind = GB_MC_VALUE_END;
        event->good = parser->ends_good;
        parser->mode = MODE_LINE;
    }
    return used;
}

/* Takes what tells nothing. Returns the bytes used; the mode says whether that was all of it. */
static size_t pass_over(struct gb_mc_parser *parser, const char *data, size_t len)
{
    if (parser->mode == MODE_SWALLOW) {
        size_t piece = (size_t)gb_min(parser->left, len);
        parser->left -= piece;
        parser->mode = parser->left == 0 ? MODE_LINE : MODE_SWALLOW;
        return piece;
    }
    const char *newline = len > 0 ? memchr(data, '\n', len) : NULL;
    if (newline == NULL) {
        return len;
    }
    parser->mode = MODE_LINE;
    return (size_t)(newline - data) + 1;
}

/* All but the room for a decoded key. */
static void clear(struct gb_mc_event *event)
{
    memset(event, 0, offsetof(struct gb_mc_event, decoded));
    event->kind = GB_MC_MORE;
}

size_t gb_mc_parse(struct gb_mc_parser *parser, const char *data, size_t len,
                   struct gb_mc_event *event)
{
    clear(event);
    size_t used = 0;
    if (parser->mode == MODE_SWALLOW || parser->mode == MODE_SKIP) {
        used = pass_over(parser, data, len);
    }
    if (parser->mode == MODE_LINE) {
        used += read_line(parser, data + used, len - used, event);
        if (parser->mode != MODE_KEYS) {
            return used;
        }
        clear(event);
    }
    switch (parser->mode) {
    case MODE_KEYS:
        return used + read_key(parser, data + used, len - used, event);
    case MODE_VALUE:
        return used + read_value(parser, data + used, len - used, event);
    case MODE_CLOSED:
        event->kind = GB_MC_CLOSE;
        return used;
    default:
        return used;
    }
}
