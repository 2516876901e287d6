/* Streams of requests: see netstream.h. */
#include "lib/netstream.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fixture.h"
#include "lib/pattern.h"
#include "proto/base64.h"

enum { LETTERS = 12, KEYS = 5, COMMANDS_MOST = 40, REQUESTS_MOST = 14 };

struct maker {
    struct gb_netstream *stream;
    struct gb_rng *rng;
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void *grow(void *memory, size_t *room, size_t need, size_t size)
{
    if (need > *room) {
        *room = need * 2;
        memory = realloc(memory, *room * size);
        assert_non_null(memory);
    }
    return memory;
}

static void add_edge(struct gb_netstream *stream, size_t at)
{
    if (stream->edge_count > 0 && stream->edges[stream->edge_count - 1] >= at) {
        return;
    }
    stream->edges =
        grow(stream->edges, &stream->edge_room, stream->edge_count + 1, sizeof(stream->edges[0]));
    stream->edges[stream->edge_count++] = at;
}

static void add(struct gb_netstream *stream, const void *bytes, size_t len)
{
    stream->bytes = grow(stream->bytes, &stream->room, stream->len + len, 1);
    memcpy(stream->bytes + stream->len, bytes, len);
    stream->len += len;
}

/* Text, with an edge on both sides of whatever parts its words. */
__attribute__((format(printf, 2, 3))) static void say(struct maker *maker, const char *format, ...)
{
    static char text[8192];
    va_list list;
    va_start(list, format);
    int len = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    assert_true(len >= 0 && (size_t)len < sizeof(text));
    for (int i = 0; i < len; i++) {
        if (strchr(" \r\n:,;/", text[i]) != NULL) {
            add_edge(maker->stream, maker->stream->len + (size_t)i);
            add_edge(maker->stream, maker->stream->len + (size_t)i + 1);
        }
    }
    add(maker->stream, text, (size_t)len);
}

static void add_value(struct maker *maker, size_t size)
{
    struct gb_netstream *stream = maker->stream;
    unsigned char *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, gb_rng_next(maker->rng), 0);
    add_edge(stream, stream->len);
    if (size > 1) {
        add_edge(stream, stream->len + size / 2);
    }
    add(stream, value, size);
    add_edge(stream, stream->len);
    free(value);
}

/* ---- draws ----------------------------------------------------------------------------------- */

static unsigned draw(struct maker *maker, unsigned below)
{
    return (unsigned)gb_rng_below(maker->rng, below);
}

static bool one_in(struct maker *maker, unsigned n)
{
    return draw(maker, n) == 0;
}

/* Around what is gathered whole, streamed, read from the device in pieces; mostly small. */
static size_t draw_size(struct maker *maker)
{
    static const size_t sizes[] = {0,    1,     2,     100,   1000,  2047,  4096, 8191,
                                   8192, 16384, 16385, 20000, 65536, 70000, 99999};
    if (!one_in(maker, 4)) {
        return draw(maker, 200);
    }
    return sizes[draw(maker, sizeof(sizes) / sizeof(sizes[0]))] + draw(maker, 2);
}

struct key {
    char text[64];
};

static const char *draw_key(struct maker *maker, struct key *key)
{
    memset(key->text, maker->stream->letter, LETTERS);
    (void)snprintf(key->text + LETTERS, sizeof(key->text) - LETTERS, "%u", draw(maker, KEYS));
    return key->text;
}

/* A key whose version the client gives with every write, so that it may ask for it. */
static const char *draw_versioned(struct maker *maker, struct key *key)
{
    memset(key->text, maker->stream->letter, LETTERS);
    (void)snprintf(key->text + LETTERS, sizeof(key->text) - LETTERS, "v%u", draw(maker, 2));
    return key->text;
}

/* ---- memcached ------------------------------------------------------------------------------- */

static void say_set(struct maker *maker)
{
    static const char *const verbs[] = {"set", "set", "set", "add", "replace", "append", "prepend"};
    static const char *const expiries[] = {"0", "0", "1000", "-1"};
    struct key key;
    const char *verb = verbs[draw(maker, 7)];
    bool refused = one_in(maker, 20);
    size_t size = refused ? GB_NETSTREAM_VALUE_MAX + 1 : draw_size(maker);
    say(maker, "%s %s %u %s %zu%s\r\n", verb, draw_key(maker, &key), draw(maker, 1000),
        expiries[draw(maker, 4)], size, one_in(maker, 4) ? " noreply" : "");
    add_value(maker, size);
    if (one_in(maker, 30)) {
        say(maker, "too much");
    }
    say(maker, "\r\n");
}

static void say_ms(struct maker *maker)
{
    struct key key;
    char encoded[128];
    const char *text = draw_key(maker, &key);
    size_t size = draw_size(maker);
    bool binary = one_in(maker, 3);
    if (binary) {
        size_t len = gb_base64_encode(encoded, text, strlen(text));
        encoded[len] = '\0';
        text = encoded;
    }
    say(maker, "ms %s %zu T%u F%u%s%s%s M%c\r\n", text, size, draw(maker, 2) * 100,
        draw(maker, 100), binary ? " b k" : "", one_in(maker, 3) ? " Oopaque" : "",
        one_in(maker, 4) ? " q" : "", "SEAPR"[draw(maker, 5)]);
    add_value(maker, size);
    say(maker, "\r\n");
}

static void say_versioned(struct maker *maker)
{
    struct key key;
    const char *text = draw_versioned(maker, &key);
    unsigned version = 1 + draw(maker, 3);
    switch (draw(maker, 5)) {
    case 0:
        say(maker, "gets %s\r\n", text);
        break;
    case 1:
        say(maker, "mg %s c v\r\n", text);
        break;
    case 2:
        say(maker, "ms %s 3 C%u E%u c\r\nabc\r\n", text, version, 1 + draw(maker, 3));
        break;
    default:
        say(maker, "ms %s 5 E%u c\r\nfives\r\n", text, version);
        break;
    }
}

static void say_get(struct maker *maker)
{
    struct key key;
    unsigned keys = one_in(maker, 10) ? 300 : 1 + draw(maker, 6);
    say(maker, "%s", one_in(maker, 4) ? "gat 100" : "get");
    for (unsigned i = 0; i < keys; i++) {
        say(maker, " %s", draw_key(maker, &key));
    }
    say(maker, "%s\n", one_in(maker, 5) ? "" : "\r");
}

static void say_mg(struct maker *maker)
{
    static const char *const flags[] = {
        "v",   "s v k f", "v t q",    "k O123", "N30 v s",   "v T200 t",   "R30 v", "s f k q",
        "v v", "Z",       "v k E x#", "",       "N30 R30 v", "N-1 v k Oz", "k q",   "f t s"};
    struct key key;
    say(maker, "mg %s %s\r\n", draw_key(maker, &key), flags[draw(maker, 16)]);
}

static void say_change(struct maker *maker)
{
    static const char *const formats[] = {
        "delete %s\r\n",         "delete %s noreply\r\n", "md %s\r\n",
        "md %s q I T30\r\n",     "md %s x\r\n",           "touch %s 100\r\n",
        "incr %s 7\r\n",         "decr %s 3\r\n",         "ma %s N0 J5 v\r\n",
        "ma %s MD D2 v t q\r\n", "incr %s nonsense\r\n",  "set %s 0 0 2\r\n12\r\n",
    };
    struct key key;
    unsigned which = draw(maker, 12);
    const char *text = draw_key(maker, &key);
    char line[128];
    const char *gap = strstr(formats[which], "%s");
    (void)snprintf(line, sizeof(line), "%.*s%s%s", (int)(gap - formats[which]), formats[which],
                   text, gap + 2);
    say(maker, "%s", line);
}

static void say_odd(struct maker *maker)
{
    static const char *const lines[] = {
        "mn\r\n",
        "version\r\n",
        "verbosity 1\r\n",
        "bogus\r\n",
        "get\r\n",
        "\r\n",
        "set a b c d\r\n",
        "mg\r\n",
        "ms \r\n",
        "touch\r\n",
        "gat 1\r\n",
        "delete\r\n",
        "\n",
        "incr x\r\n",
        "verbosity\r\n",
        "set k 0 0\r\n",
        "cas a 0 0 -1 1\r\n",
        "mg  v\r\n",
        "  mn  \r\n",
        "me\r\n",
    };
    say(maker, "%s", lines[draw(maker, 20)]);
}

static void make_memcache(struct maker *maker)
{
    void (*const commands[])(struct maker *) = {say_set, say_set,      say_ms, say_get,
                                                say_get, say_mg,       say_mg, say_change,
                                                say_odd, say_versioned};
    /* Broken, a stream might let the store number what it was to number itself. */
    unsigned kinds = maker->stream->mutated ? 9 : 10;
    unsigned count = 1 + draw(maker, COMMANDS_MOST);
    for (unsigned i = 0; i < count; i++) {
        commands[draw(maker, kinds)](maker);
    }
    say(maker, "mn\r\nquit\r\n");
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void say_head(struct maker *maker, const char *method, const char *fields)
{
    struct key key;
    say(maker, "%s%s /%s HTTP/1.1\r\nHost: test\r\n%s", one_in(maker, 20) ? "\r\n" : "", method,
        draw_key(maker, &key), fields);
    for (unsigned i = draw(maker, 4); i > 0; i--) {
        say(maker, "X-Filler-%u: %*s\r\n", i, (int)draw(maker, 300), "x");
    }
}

static void say_put(struct maker *maker)
{
    size_t size = draw_size(maker);
    say_head(maker, "PUT", one_in(maker, 3) ? "Content-Type: text/odd\r\nX-Meta-A: b, c\r\n" : "");
    if (one_in(maker, 6)) {
        say(maker, "Expect: 100-continue\r\n");
    }
    if (one_in(maker, 2)) {
        say(maker, "Content-Length: %zu\r\n\r\n", size);
        add_value(maker, size);
        return;
    }
    say(maker, "Transfer-Encoding: chunked\r\n\r\n");
    while (size > 0) {
        size_t piece = 1 + (size_t)gb_rng_below(maker->rng, size);
        say(maker, one_in(maker, 2) ? "%zx\r\n" : "%zX;a=b\r\n", piece);
        add_value(maker, piece);
        say(maker, "\r\n");
        size -= piece;
    }
    say(maker, "0\r\n%s\r\n", one_in(maker, 4) ? "X-Trailer: x\r\n" : "");
}

static void say_fetch(struct maker *maker)
{
    static const char *const fields[] = {"",
                                         "",
                                         "",
                                         "Range: bytes=0-0\r\n",
                                         "Range: bytes=100-20000\r\n",
                                         "Range: bytes=-7\r\n",
                                         "Range: bytes=999999-\r\n",
                                         "Range: nonsense\r\n",
                                         "If-None-Match: *\r\n",
                                         "If-Match: \"none\"\r\n",
                                         "Accept-Encoding: gzip\r\n"};
    static const char *const methods[] = {"GET", "GET", "GET", "HEAD", "DELETE", "OPTIONS"};
    say_head(maker, methods[draw(maker, 6)], fields[draw(maker, 11)]);
    say(maker, "\r\n");
}

static void make_http(struct maker *maker)
{
    for (unsigned i = draw(maker, REQUESTS_MOST); i > 0; i--) {
        if (one_in(maker, 2)) {
            say_put(maker);
        } else if (one_in(maker, 10)) {
            say(maker, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        } else {
            say_fetch(maker);
        }
    }
    say_head(maker, "GET", "Connection: close\r\n");
    say(maker, "\r\n");
}

/* ---- whole streams --------------------------------------------------------------------------- */

/* Keys remain its own: more is left of each than breaks could make of another stream's. */
static void mutate(struct gb_netstream *stream, struct gb_rng *rng)
{
    /* No letters: they could become a flag that asks how hot an object is. */
    static const char alphabet[] = {'\r', '\n', '\0', ' ', '0', '1', '9', '-',
                                    '+',  '#',  '/',  ':', ';', '%', ',', '\xff'};
    struct maker maker = {.stream = stream, .rng = rng};
    for (unsigned i = 1 + draw(&maker, 3); i > 0; i--) {
        size_t at = (size_t)gb_rng_below(rng, stream->len);
        size_t len = gb_min(1 + draw(&maker, 3), stream->len - at);
        if (draw(&maker, 2) == 0 && stream->edge_count > 0) {
            at = stream->edges[draw(&maker, (unsigned)stream->edge_count)];
            at = gb_min(at, stream->len - 1);
            len = 1;
        }
        switch (draw(&maker, 3)) {
        case 0: /* gone */
            memmove(stream->bytes + at, stream->bytes + at + len, stream->len - at - len);
            stream->len -= len;
            break;
        case 1: /* another */
            stream->bytes[at] = (unsigned char)alphabet[draw(&maker, sizeof(alphabet))];
            break;
        default: /* twice */
            stream->bytes = grow(stream->bytes, &stream->room, stream->len + len, 1);
            memmove(stream->bytes + at + len, stream->bytes + at, stream->len - at);
            stream->len += len;
            break;
        }
    }
}

void gb_netstream_make(struct gb_netstream *stream, struct gb_rng *rng, bool http, char letter)
{
    struct maker maker = {.stream = stream, .rng = rng};
    *stream = (struct gb_netstream){.http = http, .letter = letter};
    stream->mutated = one_in(&maker, 3);
    if (http) {
        make_http(&maker);
    } else {
        make_memcache(&maker);
    }
    if (stream->mutated) {
        mutate(stream, rng);
    }
}

void gb_netstream_fini(struct gb_netstream *stream)
{
    free(stream->bytes);
    free(stream->edges);
    *stream = (struct gb_netstream){0};
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool begins(const unsigned char *at, size_t len, const char *text)
{
    return len >= strlen(text) && memcmp(at, text, strlen(text)) == 0;
}

size_t gb_netstream_normalise(unsigned char *answers, size_t len, bool http, bool whole)
{
    size_t kept = 0;
    if (!http) {
        return len;
    }
    for (size_t at = 0; at < len;) {
        const unsigned char *end = memchr(answers + at, '\n', len - at);
        size_t line = end == NULL ? len - at : (size_t)(end - answers) + 1 - at;
        bool dropped = begins(answers + at, line, "Date: ") ||
                       begins(answers + at, line, "ETag: ") || (end == NULL && !whole);
        if (begins(answers + at, line, "HTTP/1.1 100 ")) {
            line += at + line + 2 <= len ? 2 : 0; /* the blank line behind it */
            dropped = true;
        }
        if (!dropped) {
            memmove(answers + kept, answers + at, line);
            kept += line;
        }
        at += line;
    }
    return kept;
}
