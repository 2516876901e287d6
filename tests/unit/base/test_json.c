/* The JSON writer, text for text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct document {
    struct gb_json json;
    FILE *file;
    char *text;
    size_t len;
};

static void begin(struct document *document, bool compact)
{
    document->file = open_memstream(&document->text, &document->len);
    assert_non_null(document->file);
    gb_json_init(&document->json, document->file);
    document->json.compact = compact;
}

static void expect(struct document *document, const char *text)
{
    assert_int_equal(gb_json_finish(&document->json), 0);
    assert_int_equal(fclose(document->file), 0);
    assert_string_equal(document->text, text);
    free(document->text);
}

static void writer__places_commas_and_indentation(void **state)
{
    (void)state;
    struct document document;
    begin(&document, false);
    gb_json_object(&document.json, NULL);
    gb_json_string(&document.json, "name", "goblin");
    gb_json_array(&document.json, "sizes");
    gb_json_unsigned(&document.json, NULL, 0);
    gb_json_unsigned(&document.json, NULL, UINT64_MAX);
    gb_json_end(&document.json);
    gb_json_object(&document.json, "empty");
    gb_json_end(&document.json);
    gb_json_signed(&document.json, "least", INT64_MIN);
    gb_json_end(&document.json);
    expect(&document, "{\n  \"name\": \"goblin\",\n  \"sizes\": [\n    0,\n    "
                      "18446744073709551615\n  ],\n  \"empty\": {},\n  \"least\": "
                      "-9223372036854775808\n}\n");
}

static void compact_writer__keeps_to_one_line(void **state)
{
    (void)state;
    struct document document;
    begin(&document, true);
    gb_json_array(&document.json, NULL);
    gb_json_bool(&document.json, NULL, true);
    gb_json_null(&document.json, NULL);
    gb_json_object(&document.json, NULL);
    gb_json_bool(&document.json, "a", false);
    gb_json_end(&document.json);
    gb_json_end(&document.json);
    expect(&document, "[true,null,{\"a\":false}]\n");
}

static void strings__are_escaped(void **state)
{
    (void)state;
    struct document document;
    begin(&document, true);
    gb_json_array(&document.json, NULL);
    gb_json_string(&document.json, NULL, "a\"b\\c\n\r\t\x01\x7f/");
    gb_json_string(&document.json, NULL, "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    gb_json_string_len(&document.json, NULL, "a\0b", 3);
    gb_json_end(&document.json);
    expect(&document, "[\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u007f/\",\"h\xc3\xa9 \xe2\x82\xac "
                      "\xf0\x9f\x98\x80\",\"a\\u0000b\"]\n");
}

static void strings__replace_what_is_not_utf8(void **state)
{
    (void)state;
    struct document document;
    begin(&document, true);
    gb_json_array(&document.json, NULL);
    gb_json_string(&document.json, NULL, "\xff");
    gb_json_string(&document.json, NULL, "\xc3");         /* cut short */
    gb_json_string(&document.json, NULL, "\xc0\xaf");     /* overlong */
    gb_json_string(&document.json, NULL, "\xed\xa0\x80"); /* a surrogate */
    gb_json_string(&document.json, NULL, "\xf4\x90\x80\x80x");
    gb_json_end(&document.json);
    expect(&document, "[\"\\ufffd\",\"\\ufffd\",\"\\ufffd\\ufffd\",\"\\ufffd\\ufffd\\ufffd\","
                      "\"\\ufffd\\ufffd\\ufffd\\ufffdx\"]\n");
}

static void reals__read_back_equal(void **state)
{
    (void)state;
    struct document document;
    begin(&document, true);
    gb_json_array(&document.json, NULL);
    gb_json_real(&document.json, NULL, 0.1);
    gb_json_real(&document.json, NULL, 1.0 / 3);
    gb_json_real(&document.json, NULL, 0);
    gb_json_real(&document.json, NULL, (double)NAN);
    gb_json_real(&document.json, NULL, (double)INFINITY);
    gb_json_rounded(&document.json, NULL, 98.27861, 2);
    gb_json_rounded(&document.json, NULL, 98.0, 3);
    gb_json_end(&document.json);
    expect(&document, "[0.1,0.3333333333333333,0,null,null,98.28,98]\n");
}

static void finish__reports_a_full_disk(void **state)
{
    (void)state;
    FILE *file = fopen("/dev/full", "w");
    if (file == NULL) {
        skip();
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_string(&json, NULL, "lost");
    assert_int_equal(gb_json_finish(&json), -EIO);
    (void)fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer__places_commas_and_indentation),
        cmocka_unit_test(compact_writer__keeps_to_one_line),
        cmocka_unit_test(strings__are_escaped),
        cmocka_unit_test(strings__replace_what_is_not_utf8),
        cmocka_unit_test(reals__read_back_equal),
        cmocka_unit_test(finish__reports_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
