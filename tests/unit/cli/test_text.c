/* Keys, ranges and times as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/text.h"

static struct goblin_slice slice(const char *text)
{
    return (struct goblin_slice){text, strlen(text)};
}

static void parse_key__takes_the_bytes_of_the_argument(void **state)
{
    (void)state;
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    assert_int_equal(gb_text_parse_key("a/b c", false, storage, &key, &error), GOBLIN_OK);
    assert_int_equal(key.len, 5);
    assert_memory_equal(key.data, "a/b c", 5);
}

static void parse_key__reads_hex_of_either_case(void **state)
{
    (void)state;
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    assert_int_equal(gb_text_parse_key("00fFA5", true, storage, &key, &error), GOBLIN_OK);
    assert_int_equal(key.len, 3);
    assert_memory_equal(key.data, "\x00\xff\xa5", 3);
}

static void parse_key__refuses_what_is_no_key(void **state)
{
    (void)state;
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    static char longest[2 * GOBLIN_KEY_MAX + 3];
    memset(longest, 'a', GOBLIN_KEY_MAX + 1);
    assert_int_equal(gb_text_parse_key("", false, storage, &key, &error), GOBLIN_EOPTION);
    assert_int_equal(gb_text_parse_key(longest, false, storage, &key, &error), GOBLIN_EOPTION);
    assert_string_equal(error.text, "a key is 1 to 4096 bytes, this one has 4097");
    longest[GOBLIN_KEY_MAX] = '\0';
    assert_int_equal(gb_text_parse_key(longest, false, storage, &key, &error), GOBLIN_OK);
    memset(longest, 'a', sizeof(longest) - 1);
    assert_int_equal(gb_text_parse_key(longest, true, storage, &key, &error), GOBLIN_EOPTION);
    assert_int_equal(gb_text_parse_key("abc", true, storage, &key, &error), GOBLIN_EOPTION);
    assert_int_equal(gb_text_parse_key("xy", true, storage, &key, &error), GOBLIN_EOPTION);
}

static void format_key__keeps_printable_text_and_escapes_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *text;
    } cases[] = {
        {"plain/key.txt", "plain/key.txt"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"two\nlines\x1b[31m\x7f", "two\\x0alines\\x1b[31m\\x7f"},
        {"back\\slash", "back\\x5cslash"},
        {"\xc2\x85", "\\xc2\\x85"},                   /* a C1 control */
        {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
        {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},          /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"}, /* beyond U+10FFFF */
        {"cut\xe2\x82", "cut\\xe2\\x82"},
    };
    char text[GB_TEXT_KEY];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(gb_text_format_key(text, slice(cases[i].key), false), cases[i].text);
    }
}

static void format_key__has_room_for_the_longest_key(void **state)
{
    (void)state;
    static unsigned char bytes[GOBLIN_KEY_MAX];
    memset(bytes, 0xff, sizeof(bytes));
    const struct goblin_slice key = {bytes, sizeof(bytes)};
    char text[GB_TEXT_KEY];
    assert_int_equal(strlen(gb_text_format_key(text, key, false)), 4 * GOBLIN_KEY_MAX);
}

static void format_key__writes_hex_that_parses_back(void **state)
{
    (void)state;
    unsigned char storage[GOBLIN_KEY_MAX];
    char text[GB_TEXT_KEY];
    const struct goblin_slice key = {"\x00\n\xff", 3};
    struct goblin_slice back;
    struct goblin_error error;
    assert_string_equal(gb_text_format_key(text, key, true), "000aff");
    assert_int_equal(gb_text_parse_key(text, true, storage, &back, &error), GOBLIN_OK);
    assert_int_equal(back.len, 3);
    assert_memory_equal(back.data, key.data, 3);
}

static void json_key__writes_text_or_hex(void **state)
{
    (void)state;
    char *out_text = NULL;
    size_t out_len = 0;
    FILE *out = open_memstream(&out_text, &out_len);
    assert_non_null(out);
    struct gb_json json;
    gb_json_init(&json, out);
    json.compact = true;
    gb_json_array(&json, NULL);
    gb_json_object(&json, NULL);
    gb_text_json_key(&json, slice("a\"b"));
    gb_json_end(&json);
    gb_json_object(&json, NULL);
    gb_text_json_key(&json, slice("\xff"));
    gb_json_end(&json);
    gb_json_end(&json);
    assert_int_equal(gb_json_finish(&json), 0);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(out_text, "a\\\"b"));
    assert_non_null(strstr(out_text, "key_hex"));
    assert_non_null(strstr(out_text, "ff"));
    free(out_text);
}

static void parse_range__reads_the_three_forms(void **state)
{
    (void)state;
    struct gb_text_range range;
    struct goblin_error error;
    assert_int_equal(gb_text_parse_range("5-9", &range, &error), GOBLIN_OK);
    assert_int_equal(range.first, 5);
    assert_int_equal(range.last, 9);
    assert_false(range.suffix);
    assert_int_equal(gb_text_parse_range("1M-", &range, &error), GOBLIN_OK);
    assert_int_equal(range.first, 1 << 20);
    assert_true(range.last == UINT64_MAX);
    assert_int_equal(gb_text_parse_range("-4K", &range, &error), GOBLIN_OK);
    assert_true(range.suffix);
    assert_int_equal(range.last, 4096);
}

static void parse_range__refuses_the_rest(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",   "5",   "-",     "9-5", "a-b",
        "-0", "1-b", "1-2-3", "--5", "123456789012345678901234567890123456789-"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct gb_text_range range;
        struct goblin_error error;
        assert_int_equal(gb_text_parse_range(bad[i], &range, &error), GOBLIN_EOPTION);
        assert_non_null(strstr(error.text, "range"));
    }
}

static void format_time__writes_utc_and_never(void **state)
{
    (void)state;
    char text[GB_TEXT_TIME];
    assert_string_equal(gb_text_format_time(text, 0), "never");
    assert_string_equal(gb_text_format_time(text, 1), "1970-01-01T00:00:00.001Z");
    assert_string_equal(gb_text_format_time(text, 951782400000), "2000-02-29T00:00:00.000Z");
    assert_string_equal(gb_text_format_time(text, -5), "-5 ms");
    assert_string_equal(gb_text_format_time(text, INT64_MAX), "9223372036854775807 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_key__takes_the_bytes_of_the_argument),
        cmocka_unit_test(parse_key__reads_hex_of_either_case),
        cmocka_unit_test(parse_key__refuses_what_is_no_key),
        cmocka_unit_test(format_key__keeps_printable_text_and_escapes_the_rest),
        cmocka_unit_test(format_key__has_room_for_the_longest_key),
        cmocka_unit_test(format_key__writes_hex_that_parses_back),
        cmocka_unit_test(json_key__writes_text_or_hex),
        cmocka_unit_test(parse_range__reads_the_three_forms),
        cmocka_unit_test(parse_range__refuses_the_rest),
        cmocka_unit_test(format_time__writes_utc_and_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
