/* Replies of servers, whole and cut at every place. */
#include "bench/net_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 32768 };

/* What was said, as text: V(key bytes), the body's bytes in <>, R(status) with ! if the server
 * closes, BAD. */
struct heard {
    char text[TEXT_MAX];
    size_t len;
    bool in_body;
};

static void hear(struct heard *heard, const char *text, size_t len)
{
    assert_true(heard->len + len < TEXT_MAX);
    memcpy(heard->text + heard->len, text, len);
    heard->len += len;
    heard->text[heard->len] = '\0';
}

static void hear_event(struct heard *heard, const struct gb_net_event *event)
{
    char text[512];
    if (event->kind != GB_NET_BODY && event->kind != GB_NET_MORE && heard->in_body) {
        heard->in_body = false;
        hear(heard, ">", 1);
    }
    switch (event->kind) {
    case GB_NET_VALUE:
        if (event->bytes == GB_NET_BYTES_UNKNOWN) {
            snprintf(text, sizeof(text), "V(?)");
        } else {
            snprintf(text, sizeof(text), "V(%.*s %llu)", (int)event->key_len,
                     event->key ? event->key : "", (unsigned long long)event->bytes);
        }
        hear(heard, text, strlen(text));
        break;
    case GB_NET_BODY:
        assert_true(event->len > 0);
        if (!heard->in_body) {
            heard->in_body = true;
            hear(heard, "<", 1);
        }
        hear(heard, (const char *)event->data, event->len);
        break;
    case GB_NET_REPLY:
        snprintf(text, sizeof(text), "R(%d)%s", (int)event->status, event->closes ? "!" : "");
        hear(heard, text, strlen(text));
        break;
    case GB_NET_BAD:
        hear(heard, "BAD", 3);
        break;
    case GB_NET_MORE:
        break;
    }
}

/* Hands over one piece, in memory that ends with it. False: BAD was said. */
static bool feed(struct gb_net_reply *reply, struct heard *heard, const char *data, size_t len)
{
    unsigned char *piece = malloc(len + 1);
    struct gb_net_event event = {.kind = GB_NET_MORE};
    size_t at = 0;
    assert_non_null(piece);
    memcpy(piece, data, len);
    do {
        at += gb_net_reply_next(reply, piece + at, len - at, &event);
        assert_true(at <= len);
        hear_event(heard, &event);
    } while (event.kind != GB_NET_MORE && event.kind != GB_NET_BAD);
    assert_true(event.kind == GB_NET_BAD || at == len);
    free(piece);
    return event.kind != GB_NET_BAD;
}

/* Whole, cut in two at every place, and byte by byte, it is always the same. */
static void check(enum gb_net_protocol protocol, const char *said, const char *wanted)
{
    static struct heard heard;
    static struct gb_net_reply reply;
    size_t len = strlen(said);
    for (size_t cut = 0; cut <= len; cut++) {
        heard = (struct heard){.len = 0};
        gb_net_reply_init(&reply, protocol);
        if (feed(&reply, &heard, said, cut)) {
            feed(&reply, &heard, said + cut, len - cut);
        }
        assert_string_equal(heard.text, wanted);
    }
    heard = (struct heard){.len = 0};
    gb_net_reply_init(&reply, protocol);
    for (size_t i = 0; i < len && feed(&reply, &heard, said + i, 1); i++) {
    }
    assert_string_equal(heard.text, wanted);
}

static void memcached_replies__are_read_in_any_pieces(void **state)
{
    (void)state;
    check(GB_NET_MEMCACHE, "VALUE k1 0 5\r\nab\r\nc\r\nEND\r\n", "V(k1 5)<ab\r\nc>R(0)");
    check(GB_NET_MEMCACHE, "VALUE a 7 0\r\n\r\nVALUE b 0 3 99\r\nxyz\r\nEND\r\nEND\r\n",
          "V(a 0)V(b 3)<xyz>R(0)R(0)");
    check(GB_NET_MEMCACHE, "STORED\r\nNOT_STORED\r\nSERVER_ERROR out of memory\r\n",
          "R(0)R(2)R(2)");
    check(GB_NET_MEMCACHE, "ERROR\r\nCLIENT_ERROR bad data chunk\r\n", "R(3)R(3)");
}

static void memcached_nonsense__is_refused(void **state)
{
    (void)state;
    check(GB_NET_MEMCACHE, "VALUE k 0 x\r\n", "BAD");
    check(GB_NET_MEMCACHE, "VALUE k 0\r\n", "BAD");
    check(GB_NET_MEMCACHE, "VALUE k 0 99999999999999999999\r\n", "BAD");
    check(GB_NET_MEMCACHE, "VALUE k 0 2\r\nabc\r\nEND\r\n", "V(k 2)<ab>BAD");
    check(GB_NET_MEMCACHE, "HELLO\r\n", "BAD");
}

static void http_replies__are_read_in_any_pieces(void **state)
{
    (void)state;
    check(GB_NET_HTTP, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nServer: x\r\n\r\nbodyHTTP/1.1 ",
          "V( 4)<body>R(0)");
    check(GB_NET_HTTP,
          "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nabsent"
          "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
          "R(1)V( 0)R(0)");
    check(GB_NET_HTTP,
          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", "R(0)");
    check(GB_NET_HTTP, "HTTP/1.1 204\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
          "R(0)R(0)");
    check(GB_NET_HTTP,
          "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
          "R(2)!");
    check(GB_NET_HTTP, "HTTP/1.0 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", "R(3)!");
}

static void chunked_bodies__are_put_together(void **state)
{
    (void)state;
    check(GB_NET_HTTP,
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n",
          "V(?)<abc0123456789>R(0)");
    check(GB_NET_HTTP, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
          "V(?)<abc>BAD");
    check(GB_NET_HTTP, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "V(?)BAD");
}

static void http_nonsense__is_refused(void **state)
{
    (void)state;
    check(GB_NET_HTTP, "SSH-2.0-OpenSSH_9.2\r\n", "BAD");
    check(GB_NET_HTTP, "HTTP/1.1 999 What\r\n", "BAD");
    check(GB_NET_HTTP, "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "BAD");
    /* Up to the end of the connection: not for one that is to be used again. */
    check(GB_NET_HTTP, "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "BAD");
}

static void a_line_of_no_end__is_refused_whole_or_in_pieces(void **state)
{
    (void)state;
    enum { PIECE = 1000 };
    static struct heard heard;
    static struct gb_net_reply reply;
    static char line[GB_NET_LINE_MAX + 2];
    bool good = true;
    size_t fed = 0;
    memset(line, 'x', sizeof(line));
    memcpy(line, "END ", 4);
    heard = (struct heard){.len = 0};
    gb_net_reply_init(&reply, GB_NET_MEMCACHE);
    for (; good && fed < 2 * (size_t)GB_NET_LINE_MAX; fed += PIECE) {
        good = feed(&reply, &heard, line, PIECE);
    }
    assert_false(good);
    assert_in_range(fed, GB_NET_LINE_MAX, GB_NET_LINE_MAX + 2 * PIECE);
    gb_net_reply_init(&reply, GB_NET_MEMCACHE);
    line[GB_NET_LINE_MAX] = '\n';
    assert_false(feed(&reply, &heard, line, GB_NET_LINE_MAX + 1));
    gb_net_reply_init(&reply, GB_NET_MEMCACHE);
    line[GB_NET_LINE_MAX - 1] = '\n';
    assert_true(feed(&reply, &heard, line, GB_NET_LINE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memcached_replies__are_read_in_any_pieces),
        cmocka_unit_test(memcached_nonsense__is_refused),
        cmocka_unit_test(http_replies__are_read_in_any_pieces),
        cmocka_unit_test(chunked_bodies__are_put_together),
        cmocka_unit_test(http_nonsense__is_refused),
        cmocka_unit_test(a_line_of_no_end__is_refused_whole_or_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
