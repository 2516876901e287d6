/* What HTTP keeps beside a value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/http_meta.h"

static void expect_entry(struct gb_http_text *rest, const char *name, const char *value)
{
    struct gb_http_meta_entry entry;
    assert_true(gb_http_meta_next(rest, &entry));
    assert_true(gb_http_text_equal(entry.name, gb_http_text_of(name)));
    if (value != NULL) {
        assert_true(gb_http_text_equal(entry.value, gb_http_text_of(value)));
    }
}

static void what_is_kept__comes_back(void **state)
{
    (void)state;
    unsigned char bytes[256];
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, bytes, sizeof(bytes));
    gb_http_meta_modified(&writer, INT64_C(1767225600123));
    assert_true(
        gb_http_meta_field(&writer, GB_HTTP_TEXT("content-type"), GB_HTTP_TEXT("text/plain")));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("Content-Encoding"), GB_HTTP_TEXT("br")));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("X-Meta-Owner"), GB_HTTP_TEXT("me")));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("CACHE-CONTROL"), GB_HTTP_TEXT("")));
    assert_false(writer.full);
    assert_true(gb_http_meta_modified_ms(bytes, writer.len) == INT64_C(1767225600123));
    struct gb_http_text rest = gb_http_meta_entries(bytes, writer.len);
    expect_entry(&rest, "", NULL);
    expect_entry(&rest, "Content-Type", "text/plain");
    expect_entry(&rest, "Content-Encoding", "br");
    expect_entry(&rest, "X-Meta-Owner", "me");
    expect_entry(&rest, "Cache-Control", "");
    struct gb_http_meta_entry entry;
    assert_false(gb_http_meta_next(&rest, &entry));
}

static void other_fields__are_not_kept(void **state)
{
    (void)state;
    unsigned char bytes[256];
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, bytes, sizeof(bytes));
    static const char *const names[] = {"Host",    "Content-Length", "Authorization", "X-Meta",
                                        "X-Meta-", "X-Meta-a b",     "Set-Cookie"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(gb_http_meta_field(&writer, gb_http_text_of(names[i]), GB_HTTP_TEXT("x")));
    }
    assert_int_equal(writer.len, 2);
}

static void too_much__is_noticed(void **state)
{
    (void)state;
    unsigned char bytes[10];
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, bytes, sizeof(bytes));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("Content-Type"), GB_HTTP_TEXT("12345")));
    assert_false(writer.full);
    gb_http_meta_begin(&writer, bytes, sizeof(bytes));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("Content-Type"), GB_HTTP_TEXT("123456")));
    assert_true(writer.full);
    static char large[70000];
    static unsigned char room[80000];
    gb_http_meta_begin(&writer, room, sizeof(room));
    assert_true(gb_http_meta_field(&writer, GB_HTTP_TEXT("Content-Type"),
                                   (struct gb_http_text){large, sizeof(large)}));
    assert_true(writer.full);
}

static void what_others_keep__is_as_good_as_none(void **state)
{
    (void)state;
    assert_null(gb_http_meta_entries("", 0).at);
    assert_null(gb_http_meta_entries("\xb7", 1).at);
    assert_null(gb_http_meta_entries("\xb7\x02", 2).at);
    assert_null(gb_http_meta_entries("text", 4).at);
    assert_true(gb_http_meta_modified_ms("text", 4) == -1);
    assert_true(gb_http_meta_modified_ms("\xb7\x01", 2) == -1);
}

static void unknown_and_broken_entries__are_passed_over(void **state)
{
    (void)state;
    static const char bytes[] = "\xb7\x01"
                                "\x30\x02\x00xy" /* unknown */
                                "\x02\x03\x00"
                                "a\nb"                /* would end its field */
                                "\x40\x03\x00\x09xy"  /* a name longer than the entry */
                                "\x40\x04\x00\x03x-m" /* not a name that is kept */
                                "\x01\x01\x00x"       /* a time of one byte */
                                "\x04\x02\x00"
                                "de"
                                "\x02\x09\x00"
                                "cut";
    struct gb_http_text rest = gb_http_meta_entries(bytes, sizeof(bytes) - 1);
    struct gb_http_meta_entry entry;
    expect_entry(&rest, "Content-Language", "de");
    assert_false(gb_http_meta_next(&rest, &entry));
    assert_true(gb_http_meta_modified_ms(bytes, sizeof(bytes) - 1) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept__comes_back),
        cmocka_unit_test(other_fields__are_not_kept),
        cmocka_unit_test(too_much__is_noticed),
        cmocka_unit_test(what_others_keep__is_as_good_as_none),
        cmocka_unit_test(unknown_and_broken_entries__are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
