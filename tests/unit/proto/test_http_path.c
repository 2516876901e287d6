/* Targets, paths and keys. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "proto/http_path.h"

static void expect_parts(const char *text, const char *authority, const char *path,
                         const char *query)
{
    struct gb_http_target target;
    assert_int_equal(gb_http_path_split(gb_http_text_of(text), &target), 0);
    assert_true(gb_http_text_equal(target.authority, gb_http_text_of(authority)));
    assert_true((target.authority.at == NULL) == (authority == NULL));
    assert_true(gb_http_text_equal(target.path, gb_http_text_of(path)));
    assert_true(gb_http_text_equal(target.query, gb_http_text_of(query)));
    assert_true((target.query.at == NULL) == (query == NULL));
}

static void a_target__is_taken_apart(void **state)
{
    (void)state;
    expect_parts("/", NULL, "/", NULL);
    expect_parts("/where?q=now", NULL, "/where", "q=now");
    expect_parts("/a?", NULL, "/a", "");
    expect_parts("/a?b?c", NULL, "/a", "b?c");
    expect_parts("//a", NULL, "//a", NULL);
    expect_parts("*", NULL, "*", NULL);
}

static void an_absolute_target__has_an_authority(void **state)
{
    (void)state;
    expect_parts("http://www.example.org/pub/WWW/TheProject.html", "www.example.org",
                 "/pub/WWW/TheProject.html", NULL);
    expect_parts("HTTPS://[::1]:80/x", "[::1]:80", "/x", NULL);
    expect_parts("http://h", "h", "/", NULL);
    expect_parts("http://h?q", "h", "/", "q");
    expect_parts("http://h/?q=/", "h", "/", "q=/");
}

static void what_is_no_target__is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "a",           "**",       "*/",
                                      "host:80", "ftp://h/",    "http:/h/", "http:///x",
                                      "http://", "http://u@h/", "?q"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct gb_http_target target;
        assert_int_equal(gb_http_path_split(gb_http_text_of(bad[i]), &target), -EINVAL);
    }
}

static void expect_decoded(struct gb_http_text text, struct gb_http_text bytes)
{
    char out[64];
    int64_t len = gb_http_path_decode(text, out, sizeof(out));
    assert_true(len == (int64_t)bytes.len);
    assert_memory_equal(out, bytes.at, bytes.len);
}

static void escapes__stand_for_any_byte(void **state)
{
    (void)state;
    expect_decoded(GB_HTTP_TEXT("a%20b"), GB_HTTP_TEXT("a b"));
    expect_decoded(GB_HTTP_TEXT("%00%ff%FF"), GB_HTTP_TEXT("\0\xff\xff"));
    expect_decoded(GB_HTTP_TEXT("%2f%2E%25"), GB_HTTP_TEXT("/.%"));
    expect_decoded(GB_HTTP_TEXT("%2541"), GB_HTTP_TEXT("%41"));
    expect_decoded(GB_HTTP_TEXT("\xc3\xa4"), GB_HTTP_TEXT("\xc3\xa4"));
    expect_decoded(GB_HTTP_TEXT("a+b"), GB_HTTP_TEXT("a+b"));
}

static void nothing__is_normalised(void **state)
{
    (void)state;
    expect_decoded(GB_HTTP_TEXT("a/../b"), GB_HTTP_TEXT("a/../b"));
    expect_decoded(GB_HTTP_TEXT("../../etc/passwd"), GB_HTTP_TEXT("../../etc/passwd"));
    expect_decoded(GB_HTTP_TEXT("/a//b/./"), GB_HTTP_TEXT("/a//b/./"));
    expect_decoded(GB_HTTP_TEXT(""), GB_HTTP_TEXT(""));
}

static void what_cannot_stand_in_a_path__is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"%",   "%4",   "a%4",  "%g0",  "%0g",   "%%41", "% 41",
                                      "a b", "a\tb", "a\rb", "a\nb", "a\x7f", "a#b"};
    char out[64];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gb_http_path_decode(gb_http_text_of(bad[i]), out, sizeof(out)), -EINVAL);
    }
    assert_int_equal(gb_http_path_decode(GB_HTTP_TEXT("a\0b"), out, sizeof(out)), -EINVAL);
}

static void a_path__may_be_as_long_as_its_place(void **state)
{
    (void)state;
    char out[4];
    assert_int_equal(gb_http_path_decode(GB_HTTP_TEXT("ab%63d"), out, sizeof(out)), 4);
    assert_int_equal(gb_http_path_decode(GB_HTTP_TEXT("abcde"), out, sizeof(out)), -ENAMETOOLONG);
}

static void a_path__is_decoded_in_place(void **state)
{
    (void)state;
    char text[] = "%61%62c%64";
    assert_int_equal(gb_http_path_decode(gb_http_text_of(text), text, sizeof(text)), 4);
    assert_memory_equal(text, "abcd", 4);
}

static void a_query__has_parameters(void **state)
{
    (void)state;
    struct gb_http_text query = GB_HTTP_TEXT("prefix=a%2Fb+c&&limit=&after&x=y=z");
    struct gb_http_text name;
    struct gb_http_text value;
    char out[16];
    assert_true(gb_http_path_next_parameter(&query, &name, &value));
    assert_true(gb_http_text_equal(name, GB_HTTP_TEXT("prefix")));
    assert_int_equal(gb_http_path_decode_query(value, out, sizeof(out)), 5);
    assert_memory_equal(out, "a/b c", 5);
    assert_true(gb_http_path_next_parameter(&query, &name, &value));
    assert_true(gb_http_text_equal(name, GB_HTTP_TEXT("limit")));
    assert_non_null(value.at);
    assert_int_equal(value.len, 0);
    assert_true(gb_http_path_next_parameter(&query, &name, &value));
    assert_true(gb_http_text_equal(name, GB_HTTP_TEXT("after")));
    assert_null(value.at);
    assert_true(gb_http_path_next_parameter(&query, &name, &value));
    assert_true(gb_http_text_equal(value, GB_HTTP_TEXT("y=z")));
    assert_false(gb_http_path_next_parameter(&query, &name, &value));
}

static void a_key__comes_back_from_its_path(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (int round = 0; round < 2000; round++) {
        char key[64];
        char path[3 * sizeof(key)];
        char again[sizeof(key)];
        size_t len = gb_rng_below(&rng, sizeof(key) + 1);
        for (size_t i = 0; i < len; i++) {
            key[i] = (char)gb_rng_below(&rng, 256);
        }
        int64_t path_len = gb_http_path_encode((struct gb_http_text){key, len}, path, sizeof(path));
        assert_true(path_len >= 0);
        assert_int_equal(gb_http_path_decode((struct gb_http_text){path, (size_t)path_len}, again,
                                             sizeof(again)),
                         len);
        assert_memory_equal(again, key, len);
    }
}

static void a_path_without_room__is_refused(void **state)
{
    (void)state;
    char out[3];
    assert_int_equal(gb_http_path_encode(GB_HTTP_TEXT("abc"), out, sizeof(out)), 3);
    assert_int_equal(gb_http_path_encode(GB_HTTP_TEXT(" "), out, sizeof(out)), 3);
    assert_memory_equal(out, "%20", 3);
    assert_int_equal(gb_http_path_encode(GB_HTTP_TEXT("a b"), out, sizeof(out)), -ENAMETOOLONG);
    assert_int_equal(gb_http_path_encode(GB_HTTP_TEXT("abcd"), out, sizeof(out)), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target__is_taken_apart),
        cmocka_unit_test(an_absolute_target__has_an_authority),
        cmocka_unit_test(what_is_no_target__is_refused),
        cmocka_unit_test(escapes__stand_for_any_byte),
        cmocka_unit_test(nothing__is_normalised),
        cmocka_unit_test(what_cannot_stand_in_a_path__is_refused),
        cmocka_unit_test(a_path__may_be_as_long_as_its_place),
        cmocka_unit_test(a_path__is_decoded_in_place),
        cmocka_unit_test(a_query__has_parameters),
        cmocka_unit_test(a_key__comes_back_from_its_path),
        cmocka_unit_test(a_path_without_room__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
