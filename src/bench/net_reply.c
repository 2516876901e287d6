/* Replies in pieces: see net_reply.h. */
#include "bench/net_reply.h"

#include "base/bits.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    AT_LINE,       /* memcached: a line of a reply */
    AT_VALUE_END,  /* memcached: what ends a value's bytes */
    AT_STATUS,     /* HTTP: the status line */
    AT_HEADER,     /* HTTP: a header line */
    AT_BODY,       /* both: `left` bytes */
    AT_CHUNK,      /* HTTP: a chunk's size */
    AT_CHUNK_BODY, /* HTTP: `left` bytes of it */
    AT_CHUNK_END,  /* HTTP: the line end behind it */
    AT_TRAILER,    /* HTTP: lines behind the last chunk */
    AT_END,        /* HTTP: nothing of the reply is left */
};

void gb_net_reply_init(struct gb_net_reply *reply, enum gb_net_protocol protocol)
{
    reply->protocol = protocol;
    reply->state = protocol == GB_NET_HTTP ? AT_STATUS : AT_LINE;
    reply->left = 0;
    reply->code = 0;
    reply->is_chunked = false;
    reply->is_value = false;
    reply->closes = false;
    reply->line_len = 0;
}

/* ---- lines --------------------------------------------------------------------------------- */

struct line {
    const char *text; /* not terminated; without its end */
    size_t len;
};

/* Takes a whole line, gathering one that comes in pieces. False: it is not whole yet, or (`*bad`)
 * longer than any server's. */
static bool take_line(struct gb_net_reply *reply, const unsigned char *data, size_t len,
                      size_t *used, struct line *line, bool *bad)
{
    const unsigned char *end = len > 0 ? memchr(data, '\n', len) : NULL;
    size_t piece = end ? (size_t)(end - data) + 1 : len;
    *used = piece;
    if (piece > sizeof(reply->line) - reply->line_len) {
        *bad = true;
        return false;
    }
    if (end && reply->line_len == 0) {
        line->text = (const char *)data;
        line->len = piece;
    } else {
        if (piece > 0) {
            memcpy(reply->line + reply->line_len, data, piece);
        }
        reply->line_len += piece;
        if (!end) {
            return false;
        }
        line->text = reply->line;
        line->len = reply->line_len;
        reply->line_len = 0;
    }
    line->len--;
    if (line->len > 0 && line->text[line->len - 1] == '\r') {
        line->len--;
    }
    return true;
}

static bool begins_with(const struct line *line, const char *word)
{
    size_t len = strlen(word);
    return line->len >= len && memcmp(line->text, word, len) == 0;
}

/* A number that fills the text up to a blank or its end; false if there is none. */
static bool read_number(const char *text, size_t len, unsigned base, uint64_t *out)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; digits < len && isxdigit((unsigned char)text[digits]); digits++) {
        char c = text[digits];
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
        if (digit >= base || number > (UINT64_MAX - digit) / base) {
            return false;
        }
        number = number * base + digit;
    }
    *out = number;
    return digits > 0 && (digits == len || text[digits] == ' ' || text[digits] == ';');
}

/* ---- memcached ----------------------------------------------------------------------------- */

/* VALUE <key> <flags> <bytes>[ <cas>] */
static void read_value_line(struct gb_net_reply *reply, const struct line *line,
                            struct gb_net_event *event)
{
    enum { WORD = 6 };
    const char *end = line->text + line->len;
    const char *key = line->text + WORD;
    const char *key_end = memchr(key, ' ', (size_t)(end - key));
    const char *flags = key_end ? key_end + 1 : end;
    const char *flags_end = memchr(flags, ' ', (size_t)(end - flags));
    uint64_t bytes = 0;
    if (!flags_end || key_end == key ||
        !read_number(flags_end + 1, (size_t)(end - flags_end - 1), 10, &bytes)) {
        event->kind = GB_NET_BAD;
        return;
    }
    event->kind = GB_NET_VALUE;
    event->key = key;
    event->key_len = (size_t)(key_end - key);
    event->bytes = bytes;
    reply->left = bytes;
    reply->state = bytes > 0 ? AT_BODY : AT_VALUE_END;
}

static void read_memcache_line(struct gb_net_reply *reply, const struct line *line,
                               struct gb_net_event *event)
{
    if (begins_with(line, "VALUE ")) {
        read_value_line(reply, line, event);
        return;
    }
    event->kind = GB_NET_REPLY;
    if (begins_with(line, "END") || begins_with(line, "STORED")) {
        event->status = GB_NET_DONE;
    } else if (begins_with(line, "NOT_STORED") || begins_with(line, "SERVER_ERROR")) {
        event->status = GB_NET_REFUSED;
    } else if (begins_with(line, "CLIENT_ERROR") || begins_with(line, "ERROR")) {
        event->status = GB_NET_ERROR;
    } else {
        event->kind = GB_NET_BAD;
    }
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static bool has_body(const struct gb_net_reply *reply)
{
    return reply->code >= 200 && reply->code != 204 && reply->code != 304;
}

static void read_status(struct gb_net_reply *reply, const struct line *line,
                        struct gb_net_event *event)
{
    enum { CODE_AT = 9, CODE_LEN = 3 };
    uint64_t code = 0;
    bool good = begins_with(line, "HTTP/1.") && line->len >= CODE_AT + CODE_LEN &&
                read_number(line->text + CODE_AT, line->len - CODE_AT, 10, &code) && code >= 100 &&
                code <= 599;
    event->kind = good ? GB_NET_MORE : GB_NET_BAD;
    reply->code = (int)code;
    reply->is_chunked = false;
    reply->closes = good && line->text[7] == '0';
    reply->left = GB_NET_BYTES_UNKNOWN;
    reply->state = AT_HEADER;
}

static bool has_name(const struct line *line, const char *name, struct line *value)
{
    size_t len = strlen(name);
    if (line->len <= len || line->text[len] != ':' || strncasecmp(line->text, name, len) != 0) {
        return false;
    }
    value->text = line->text + len + 1;
    value->len = line->len - len - 1;
    while (value->len > 0 && *value->text == ' ') {
        value->text++;
        value->len--;
    }
    return true;
}

/* The empty line: what follows? */
static void end_headers(struct gb_net_reply *reply, struct gb_net_event *event)
{
    if (reply->code < 200) { /* 100 Continue: the reply itself is still to come */
        reply->state = AT_STATUS;
        return;
    }
    bool body = has_body(reply);
    if (!body) {
        reply->left = 0;
    } else if (!reply->is_chunked && reply->left == GB_NET_BYTES_UNKNOWN) {
        event->kind = GB_NET_BAD; /* a body up to the end of the connection: not for keep-alive */
        return;
    }
    reply->is_value = reply->code == 200 || reply->code == 206;
    if (reply->is_value) {
        event->kind = GB_NET_VALUE;
        event->key = NULL;
        event->key_len = 0;
        event->bytes = reply->is_chunked ? GB_NET_BYTES_UNKNOWN : reply->left;
    }
    if (body && reply->is_chunked) {
        reply->state = AT_CHUNK;
    } else {
        reply->state = reply->left > 0 ? AT_BODY : AT_END;
    }
}

static void read_header(struct gb_net_reply *reply, const struct line *line,
                        struct gb_net_event *event)
{
    struct line value;
    event->kind = GB_NET_MORE;
    if (line->len == 0) {
        end_headers(reply, event);
    } else if (has_name(line, "Content-Length", &value)) {
        if (!read_number(value.text, value.len, 10, &reply->left)) {
            event->kind = GB_NET_BAD;
        }
    } else if (has_name(line, "Transfer-Encoding", &value)) {
        reply->is_chunked = value.len >= 7 && strncasecmp(value.text, "chunked", 7) == 0;
    } else if (has_name(line, "Connection", &value)) {
        reply->closes = value.len >= 5 && strncasecmp(value.text, "close", 5) == 0;
    }
}

static void read_chunk(struct gb_net_reply *reply, const struct line *line,
                       struct gb_net_event *event)
{
    event->kind = read_number(line->text, line->len, 16, &reply->left) ? GB_NET_MORE : GB_NET_BAD;
    reply->state = reply->left > 0 ? AT_CHUNK_BODY : AT_TRAILER;
}

static enum gb_net_status status_of(int code)
{
    if (code < 400) {
        return GB_NET_DONE;
    }
    if (code == 404) {
        return GB_NET_MISSING;
    }
    return code >= 500 || code == 413 ? GB_NET_REFUSED : GB_NET_ERROR;
}

static void end_http(struct gb_net_reply *reply, struct gb_net_event *event)
{
    event->kind = GB_NET_REPLY;
    event->status = status_of(reply->code);
    event->closes = reply->closes;
    reply->state = AT_STATUS;
}

/* ---- both ---------------------------------------------------------------------------------- */

/* Hands on what is there of the body; of one that is no value nothing is said. */
static size_t take_body(struct gb_net_reply *reply, const unsigned char *data, size_t len,
                        struct gb_net_event *event)
{
    size_t piece = (size_t)gb_min(len, reply->left);
    reply->left -= piece;
    bool is_memcache = reply->protocol == GB_NET_MEMCACHE;
    if (piece > 0 && (is_memcache || reply->is_value)) {
        event->kind = GB_NET_BODY;
        event->data = data;
        event->len = piece;
    }
    if (reply->left == 0 && is_memcache) {
        reply->state = AT_VALUE_END;
    } else if (reply->left == 0) {
        reply->state = reply->state == AT_CHUNK_BODY ? AT_CHUNK_END : AT_END;
    }
    return piece;
}

static void read_line(struct gb_net_reply *reply, const struct line *line,
                      struct gb_net_event *event)
{
    switch (reply->state) {
    case AT_LINE:
        read_memcache_line(reply, line, event);
        return;
    case AT_STATUS:
        read_status(reply, line, event);
        return;
    case AT_HEADER:
        read_header(reply, line, event);
        return;
    case AT_CHUNK:
        read_chunk(reply, line, event);
        return;
    case AT_TRAILER:
        reply->state = line->len == 0 ? AT_END : AT_TRAILER;
        return;
    default: /* the end of a line alone */
        event->kind = line->len == 0 ? GB_NET_MORE : GB_NET_BAD;
        reply->state = reply->state == AT_VALUE_END ? AT_LINE : AT_CHUNK;
    }
}

size_t gb_net_reply_next(struct gb_net_reply *reply, const unsigned char *data, size_t len,
                         struct gb_net_event *event)
{
    size_t total = 0;
    event->kind = GB_NET_MORE;
    event->closes = false;
    while (event->kind == GB_NET_MORE) {
        if (reply->state == AT_END) {
            end_http(reply, event);
            break;
        }
        if (total == len) {
            break;
        }
        if (reply->state == AT_BODY || reply->state == AT_CHUNK_BODY) {
            total += take_body(reply, data + total, len - total, event);
            continue;
        }
        struct line line;
        bool bad = false;
        size_t used = 0;
        bool whole = take_line(reply, data + total, len - total, &used, &line, &bad);
        total += used;
        if (bad) {
            event->kind = GB_NET_BAD;
        } else if (whole) {
            read_line(reply, &line, event);
        }
    }
    return total;
}
