/* What is made of an origin's answer: kept, shared, passed on; what is kept of it; what a 304
 * changes. */
#include <errno.h>
#include <string.h>

#include "lib/fixture.h"

#include "proto/origin_head.h"

enum { NOW_S = 1700000000 };
#define DATE "Date: Tue, 14 Nov 2023 22:13:20 GMT\n" /* NOW_S */

static struct gb_http_text text(const char *from)
{
    return gb_http_text_of(from);
}

static struct gb_origin_head read_head(int status, const char *lines)
{
    struct gb_origin_head head;
    gb_origin_head_read(&head, status, text(lines), NOW_S, NOW_S);
    return head;
}

static struct gb_cache_control asked(const char *directives)
{
    struct gb_cache_control control;
    gb_cache_control_init(&control);
    gb_cache_control_add(&control, text(directives));
    return control;
}

static bool keeps(int status, const char *lines)
{
    const struct gb_origin_head head = read_head(status, lines);
    const struct gb_cache_control none = asked("");
    return gb_origin_head_may_keep(&head, &none);
}

static bool shares(int status, const char *lines)
{
    const struct gb_origin_head head = read_head(status, lines);
    const struct gb_cache_control none = asked("");
    return gb_origin_head_may_share(&head, &none);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void a_block__is_read_line_by_line(void **state)
{
    (void)state;
    struct gb_http_text lines = text("A: 1\r\nno colon\n folded: x\nB:2\nC:  \r\nlast: y");
    struct gb_http_text name;
    struct gb_http_text value;
    const char *const expected[][2] = {{"A", "1"}, {"B", "2"}, {"C", ""}, {"last", "y"}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(gb_origin_head_next(&lines, &name, &value));
        assert_true(gb_http_text_equal(name, text(expected[i][0])));
        assert_true(gb_http_text_equal(value, text(expected[i][1])));
    }
    assert_false(gb_origin_head_next(&lines, &name, &value));
}

static void a_line__has_blanks_for_what_no_line_may_have(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"A: b\r\n", "A: b\r\n"},       {"A:\tb\n", "A:\tb\n"}, {"A: \001b\177\r\n", "A:  b \r\n"},
        {"A: b\rc\nd\n", "A: b c d\n"}, {"A: b\r", "A: b "},    {"", ""},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char out[16];
        size_t len = strlen(lines[i][0]);
        gb_origin_head_add(out, lines[i][0], len);
        assert_memory_equal(out, lines[i][1], len);
    }
}

static void lengths__that_differ_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(read_head(200, "Content-Length: 5\n").length, 5);
    assert_false(read_head(200, "Content-Length: 5\nContent-Length: 5\n").bad);
    assert_true(read_head(200, "Content-Length: 5\nContent-Length: 6\n").bad);
    assert_true(read_head(200, "Content-Length: x\n").bad);
    assert_true(read_head(200, "Content-Length: 5\nTransfer-Encoding: chunked\n").length ==
                GB_ORIGIN_HEAD_LENGTH_UNKNOWN);
}

static void an_entity_tag__that_is_none_is_left_out(void **state)
{
    (void)state;
    assert_non_null(read_head(200, "ETag: \"a\"\n").etag.at);
    assert_non_null(read_head(200, "ETag: W/\"a\"\n").etag.at);
    assert_null(read_head(200, "ETag: a\n").etag.at);
}

/* ---- judging ------------------------------------------------------------------------------- */

static void answers__are_kept_only_if_a_shared_cache_may(void **state)
{
    (void)state;
    assert_true(keeps(200, "Cache-Control: max-age=9\n"));
    assert_true(keeps(200, "Cache-Control: max-age=0\nETag: \"a\"\n")); /* to be validated */
    assert_true(keeps(200, "Cache-Control: no-cache\nETag: \"a\"\n"));
    assert_true(keeps(200, "Cache-Control: max-age=0, stale-if-error=9\n"));
    assert_false(keeps(200, "Cache-Control: max-age=0\n")); /* of no use ever */
    assert_true(keeps(200, "Cache-Control: max-age=9\nAge: 8\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nAge: 9\n")); /* nor this */
    assert_false(keeps(200, ""));
    assert_false(keeps(200, "Cache-Control: no-store, max-age=9\n"));
    assert_false(keeps(200, "Cache-Control: private, max-age=9\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nSet-Cookie: a=b\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nContent-Range: bytes 0-1/2\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nVary: *\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nVary: a, *\n"));
    assert_false(keeps(200, "Cache-Control: max-age=9\nVary: a\nVary: b\n"));
    assert_false(keeps(404, "Cache-Control: max-age=9\n"));
    assert_false(keeps(206, "Cache-Control: max-age=9\n"));
}

static void answers__to_who_is_known_are_kept_only_if_the_origin_says_so(void **state)
{
    (void)state;
    const struct gb_cache_control none = asked("");
    const char *const may[] = {"Cache-Control: public, max-age=9\n", "Cache-Control: s-maxage=9\n",
                               "Cache-Control: max-age=9, must-revalidate\n"};
    for (size_t i = 0; i < 3; i++) {
        struct gb_origin_head head = read_head(200, may[i]);
        head.cache.authorized = true;
        assert_true(gb_origin_head_may_keep(&head, &none));
    }
    struct gb_origin_head head = read_head(200, "Cache-Control: max-age=9\n");
    head.cache.authorized = true;
    assert_false(gb_origin_head_may_keep(&head, &none));
    assert_false(gb_origin_head_may_share(&head, &none));
}

static void answers__are_shared_if_they_are_for_nobody_alone(void **state)
{
    (void)state;
    assert_true(shares(200, "Cache-Control: max-age=9\n"));
    assert_true(shares(404, ""));
    assert_true(shares(500, ""));
    assert_true(shares(503, "Retry-After: 5\n"));
    assert_false(shares(200, ""));
    assert_false(shares(302, "Location: /x\n"));
    assert_false(shares(401, ""));
    assert_false(shares(404, "Cache-Control: private\n"));
    assert_false(shares(404, "Cache-Control: no-store\n"));
    assert_false(shares(404, "Vary: Accept\n"));
    assert_false(shares(500, "Set-Cookie: a=b\n"));
    const struct gb_origin_head head = read_head(200, "Cache-Control: max-age=9\n");
    const struct gb_cache_control no_store = asked("no-store");
    assert_false(gb_origin_head_may_share(&head, &no_store));
}

static void fields__of_one_connection_are_not_passed_on(void **state)
{
    (void)state;
    const struct gb_http_text lines = text("Connection: close, X-Hop\nConnection: X-Other\n");
    const char *const stay[] = {"Connection", "keep-alive", "Transfer-Encoding",
                                "Upgrade",    "x-hop",      "X-OTHER",
                                "Via",        "Age",        "Trailer"};
    for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++) {
        assert_false(gb_origin_head_passes(lines, text(stay[i])));
    }
    assert_true(gb_origin_head_passes(lines, text("Location")));
    assert_true(gb_origin_head_passes(lines, text("Set-Cookie")));
    assert_true(gb_origin_head_passes(text(""), text("X-Hop")));
}

static void a_loop__is_seen_by_the_name_alone(void **state)
{
    (void)state;
    assert_true(gb_origin_head_names(text("1.1 goblin-1"), text("goblin-1")));
    assert_true(gb_origin_head_names(text("1.0 a, HTTP/1.1  goblin-1 (x)"), text("goblin-1")));
    assert_false(gb_origin_head_names(text("1.1 goblin-12"), text("goblin-1")));
    assert_false(gb_origin_head_names(text("goblin-1"), text("goblin-1")));
    assert_false(gb_origin_head_names(text(""), text("goblin-1")));
}

static void variants__are_told_apart_by_what_the_origin_was_asked(void **state)
{
    (void)state;
    char a[64];
    char b[64];
    const struct gb_http_text vary = text("Accept-Language");
    int64_t a_len = gb_origin_head_variant(vary, text("Accept: x\naccept-language: de\n"), a, 64);
    int64_t b_len = gb_origin_head_variant(vary, text("Accept-Language: de\n"), b, 64);
    assert_true(a_len > 0 && a_len == b_len && memcmp(a, b, (size_t)a_len) == 0);
    b_len = gb_origin_head_variant(vary, text("Accept-Language: en\n"), b, 64);
    assert_false(a_len == b_len && memcmp(a, b, (size_t)a_len) == 0);
    assert_int_equal(gb_origin_head_variant(text("*"), text(""), a, 64), -EINVAL);
    assert_true(gb_origin_head_asks(text("accept-encoding")));
    assert_false(gb_origin_head_asks(text("Cookie")));
}

/* ---- keeping ------------------------------------------------------------------------------- */

struct kept {
    unsigned char meta[4096];
    size_t len;
    int64_t expires_ms;
    struct gb_origin_kept kept;
};

static void keep(struct kept *kept, const char *lines)
{
    const struct gb_origin_head head = read_head(200, lines);
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, kept->meta, sizeof(kept->meta));
    assert_true(gb_origin_head_keep(&head, text(NULL), &writer));
    kept->len = writer.len;
    kept->expires_ms = (gb_origin_head_birth_s(&head) + gb_origin_head_kept_s(&head)) * 1000;
    gb_origin_head_kept(&kept->kept, kept->meta, kept->len, kept->expires_ms);
}

static enum gb_cache_use use(const struct kept *kept, int64_t now_s)
{
    const struct gb_cache_control none = asked("");
    return gb_cache_control_use(&kept->kept.cache, &none, now_s);
}

static void what_is_kept__ages_from_its_birth_on(void **state)
{
    (void)state;
    struct kept kept;
    keep(&kept, DATE "Cache-Control: max-age=100\nAge: 30\nETag: \"a\"\nX-Meta-A: b\n"
                     "Server: s\nVary: Accept\n");
    assert_true(kept.kept.is_object);
    assert_false(kept.kept.is_vary);
    assert_int_equal(kept.kept.birth_s, NOW_S - 30);
    assert_int_equal(kept.kept.lifetime_s, 100);
    assert_true(gb_http_text_equal(kept.kept.etag, text("\"a\"")));
    assert_true(gb_http_text_equal(kept.kept.vary, text("Accept")));
    assert_int_equal(gb_cache_control_age(&kept.kept.cache, NOW_S + 10), 40);
    assert_int_equal(use(&kept, NOW_S + 69), GB_CACHE_FRESH);
    assert_int_equal(use(&kept, NOW_S + 70), GB_CACHE_VALIDATE);
    assert_int_equal(kept.expires_ms, (NOW_S - 30 + 100 + GB_ORIGIN_HEAD_KEEP_S) * INT64_C(1000));
}

static void lifetimes__come_from_whoever_tells_them(void **state)
{
    (void)state;
    struct kept kept;
    keep(&kept, DATE "Cache-Control: max-age=5, s-maxage=50\n");
    assert_int_equal(kept.kept.lifetime_s, 50);
    keep(&kept, DATE "Expires: Tue, 14 Nov 2023 22:15:00 GMT\n");
    assert_int_equal(kept.kept.lifetime_s, 100);
    assert_true(kept.kept.has_expires);
    assert_int_equal(use(&kept, NOW_S + 99), GB_CACHE_FRESH);
    keep(&kept, DATE "Last-Modified: Tue, 14 Nov 2023 21:56:40 GMT\n"); /* 1,000 s ago */
    assert_int_equal(kept.kept.lifetime_s, 100);
    keep(&kept, DATE "Cache-Control: max-age=0, stale-while-revalidate=60, stale-if-error=90\n");
    assert_int_equal(kept.expires_ms, (NOW_S + 90) * INT64_C(1000));
    assert_int_equal(use(&kept, NOW_S + 59), GB_CACHE_BEHIND);
    assert_int_equal(use(&kept, NOW_S + 60), GB_CACHE_VALIDATE);
}

static void an_object__that_somebody_made_immortal_is_stale(void **state)
{
    (void)state;
    struct kept kept;
    keep(&kept, DATE "Cache-Control: max-age=100\n");
    gb_origin_head_kept(&kept.kept, kept.meta, kept.len, 0);
    assert_int_equal(use(&kept, NOW_S), GB_CACHE_VALIDATE);
}

static void metadata__of_others_is_no_origins(void **state)
{
    (void)state;
    struct gb_origin_kept kept;
    gb_origin_head_kept(&kept, "abc", 3, 0);
    assert_false(kept.is_object || kept.is_vary);
    gb_origin_head_kept(&kept, NULL, 0, 0);
    assert_false(kept.is_object || kept.is_vary);
    unsigned char meta[64];
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, meta, sizeof(meta));
    gb_http_meta_entry(&writer, GB_HTTP_META_ORIGIN, text("short"));
    gb_origin_head_kept(&kept, meta, writer.len, 0);
    assert_false(kept.is_object || kept.is_vary);
    gb_http_meta_begin(&writer, meta, sizeof(meta));
    assert_true(gb_origin_head_keep_vary(text("Accept"), &writer));
    gb_origin_head_kept(&kept, meta, writer.len, 0);
    assert_true(!kept.is_object && kept.is_vary);
    gb_http_meta_begin(&writer, meta, 8);
    assert_false(gb_origin_head_keep_vary(text("Accept-Language"), &writer));
}

/* ---- a 304 --------------------------------------------------------------------------------- */

static bool is_same(const struct kept *kept, const char *lines, int64_t *expires_ms)
{
    const struct gb_origin_head head = read_head(304, lines);
    return gb_origin_head_same(&head, &kept->kept, expires_ms);
}

static void unchanged__is_a_new_expiry_and_nothing_else(void **state)
{
    (void)state;
    struct kept kept;
    int64_t expires_ms = 0;
    keep(&kept, "Date: Tue, 14 Nov 2023 22:03:20 GMT\nCache-Control: max-age=100\nETag: \"a\"\n");
    assert_int_equal(kept.kept.birth_s, NOW_S - 600);
    assert_true(is_same(&kept, DATE, &expires_ms));
    assert_int_equal(expires_ms, kept.expires_ms + 600000);
    assert_true(is_same(&kept, DATE "Cache-Control: max-age=100\nETag: W/\"a\"\n", &expires_ms));
    assert_true(is_same(&kept, DATE "Age: 10\n", &expires_ms));
    assert_int_equal(expires_ms, kept.expires_ms + 590000);
    assert_false(is_same(&kept, DATE "Cache-Control: max-age=200\n", &expires_ms));
    assert_false(is_same(&kept, DATE "ETag: \"b\"\n", &expires_ms));
    assert_false(is_same(&kept, DATE "Expires: Tue, 14 Nov 2023 22:15:00 GMT\n", &expires_ms));
    keep(&kept, DATE "Expires: Tue, 14 Nov 2023 22:15:00 GMT\nETag: \"a\"\n");
    assert_true(is_same(&kept, DATE "Expires: Tue, 14 Nov 2023 22:15:01 GMT\n", &expires_ms));
    assert_false(is_same(&kept, DATE "Expires: Tue, 14 Nov 2023 22:15:09 GMT\n", &expires_ms));
}

static void changed__is_what_was_kept_with_what_is_new(void **state)
{
    (void)state;
    struct kept kept;
    keep(&kept, DATE "Cache-Control: max-age=100\nETag: \"a\"\nX-Meta-A: b\nContent-Type: c/d\n"
                     "Last-Modified: Tue, 14 Nov 2023 21:56:40 GMT\n");
    const struct gb_origin_head head = read_head(304, DATE "Cache-Control: max-age=7\n");
    unsigned char meta[4096];
    struct gb_http_meta_writer writer;
    int64_t expires_ms = 0;
    gb_http_meta_begin(&writer, meta, sizeof(meta));
    const struct gb_http_text old = {(const char *)kept.meta, kept.len};
    assert_true(gb_origin_head_renew(&head, old, &kept.kept, &writer, &expires_ms));
    struct gb_origin_kept renewed;
    gb_origin_head_kept(&renewed, meta, writer.len, expires_ms);
    assert_int_equal(renewed.lifetime_s, 7);
    assert_int_equal(renewed.birth_s, NOW_S);
    assert_int_equal(renewed.modified_ms, kept.kept.modified_ms);
    assert_true(gb_http_text_equal(renewed.etag, text("\"a\"")));
    assert_true(gb_http_text_equal(renewed.cache_control, text("max-age=7")));
    struct gb_http_text rest = gb_http_meta_entries(meta, writer.len);
    struct gb_http_meta_entry entry;
    size_t found = 0;
    while (gb_http_meta_next(&rest, &entry)) {
        found += entry.kind == GB_HTTP_META_NAMED || entry.kind == GB_HTTP_META_CONTENT_TYPE;
    }
    assert_int_equal(found, 2);
    gb_http_meta_begin(&writer, meta, 40);
    assert_false(gb_origin_head_renew(&head, old, &kept.kept, &writer, &expires_ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block__is_read_line_by_line),
        cmocka_unit_test(a_line__has_blanks_for_what_no_line_may_have),
        cmocka_unit_test(lengths__that_differ_are_an_error),
        cmocka_unit_test(an_entity_tag__that_is_none_is_left_out),
        cmocka_unit_test(answers__are_kept_only_if_a_shared_cache_may),
        cmocka_unit_test(answers__to_who_is_known_are_kept_only_if_the_origin_says_so),
        cmocka_unit_test(answers__are_shared_if_they_are_for_nobody_alone),
        cmocka_unit_test(fields__of_one_connection_are_not_passed_on),
        cmocka_unit_test(a_loop__is_seen_by_the_name_alone),
        cmocka_unit_test(variants__are_told_apart_by_what_the_origin_was_asked),
        cmocka_unit_test(what_is_kept__ages_from_its_birth_on),
        cmocka_unit_test(lifetimes__come_from_whoever_tells_them),
        cmocka_unit_test(an_object__that_somebody_made_immortal_is_stale),
        cmocka_unit_test(metadata__of_others_is_no_origins),
        cmocka_unit_test(unchanged__is_a_new_expiry_and_nothing_else),
        cmocka_unit_test(changed__is_what_was_kept_with_what_is_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
