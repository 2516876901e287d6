/* The grammar that HTTP's fields share. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/http_text.h"

static void expect_elements(const char *list, const char *const *elements)
{
    struct gb_http_text rest = gb_http_text_of(list);
    struct gb_http_text element;
    for (; *elements != NULL; elements++) {
        assert_true(gb_http_text_next(&rest, &element));
        assert_true(gb_http_text_equal(element, gb_http_text_of(*elements)));
    }
    assert_false(gb_http_text_next(&rest, &element));
}

static void a_list__is_parted_by_commas(void **state)
{
    (void)state;
    expect_elements("a,b", (const char *const[]){"a", "b", NULL});
    expect_elements(" a \t,\tb c ", (const char *const[]){"a", "b c", NULL});
    expect_elements("", (const char *const[]){NULL});
}

static void a_list__has_no_empty_elements(void **state)
{
    (void)state;
    expect_elements("foo ,bar,", (const char *const[]){"foo", "bar", NULL});
    expect_elements("foo , ,bar,charlie", (const char *const[]){"foo", "bar", "charlie", NULL});
    expect_elements(",   ,", (const char *const[]){NULL});
}

static void a_comma_in_quotes__parts_nothing(void **state)
{
    (void)state;
    expect_elements("a=\"1,2\", b", (const char *const[]){"a=\"1,2\"", "b", NULL});
    expect_elements("\"a\\\",b\",c", (const char *const[]){"\"a\\\",b\"", "c", NULL});
    expect_elements("\"never closed,b", (const char *const[]){"\"never closed,b", NULL});
    expect_elements("\"cut\\", (const char *const[]){"\"cut\\", NULL});
}

static void an_absent_field__is_an_empty_list(void **state)
{
    (void)state;
    struct gb_http_text rest = gb_http_text_of(NULL);
    struct gb_http_text element;
    assert_null(rest.at);
    assert_false(gb_http_text_next(&rest, &element));
}

static void a_token__is_made_of_tchars(void **state)
{
    (void)state;
    assert_true(gb_http_text_is_token(GB_HTTP_TEXT("X-a!#$%&'*+-.^_`|~09")));
    assert_false(gb_http_text_is_token(GB_HTTP_TEXT("")));
    assert_false(gb_http_text_is_token(GB_HTTP_TEXT("a b")));
    assert_false(gb_http_text_is_token(GB_HTTP_TEXT("a:")));
    assert_false(gb_http_text_is_token(GB_HTTP_TEXT("a\0")));
    assert_false(gb_http_text_is_token(GB_HTTP_TEXT("\xc3\xa4")));
}

static void names__are_the_same_in_either_case(void **state)
{
    (void)state;
    assert_true(gb_http_text_same_name(GB_HTTP_TEXT("Accept"), GB_HTTP_TEXT("aCCEPT")));
    assert_false(gb_http_text_same_name(GB_HTTP_TEXT("Accept"), GB_HTTP_TEXT("Accept-")));
    assert_false(gb_http_text_same_name(GB_HTTP_TEXT("a["), GB_HTTP_TEXT("A{")));
    assert_false(gb_http_text_equal(GB_HTTP_TEXT("a"), GB_HTTP_TEXT("A")));
}

static void a_number__is_digits_alone(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("0"), &value), 0);
    assert_true(value == 0);
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("18446744073709551615"), &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("00000000000000000000000000012"), &value), 0);
    assert_true(value == 12);
    static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "1e3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gb_http_text_number(gb_http_text_of(bad[i]), &value), -EINVAL);
        assert_true(value == 12);
    }
}

static void a_number__saturates(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("18446744073709551616"), &value), -ERANGE);
    assert_true(value == UINT64_MAX);
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("99999999999999999999999"), &value), -ERANGE);
    assert_true(value == UINT64_MAX);
    assert_int_equal(gb_http_text_number(GB_HTTP_TEXT("99999999999999999999999x"), &value),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list__is_parted_by_commas),
        cmocka_unit_test(a_list__has_no_empty_elements),
        cmocka_unit_test(a_comma_in_quotes__parts_nothing),
        cmocka_unit_test(an_absent_field__is_an_empty_list),
        cmocka_unit_test(a_token__is_made_of_tchars),
        cmocka_unit_test(names__are_the_same_in_either_case),
        cmocka_unit_test(a_number__is_digits_alone),
        cmocka_unit_test(a_number__saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
