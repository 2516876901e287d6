/* Conditional requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/http_conditional.h"

#define MODIFIED_S INT64_C(784111777)
#define BEFORE     "Sun, 06 Nov 1994 08:49:36 GMT"
#define EXACTLY    "Sun, 06 Nov 1994 08:49:37 GMT"
#define AFTER      "Sun, 06 Nov 1994 08:49:38 GMT"

enum { READING = true, WRITING = false };

struct question {
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
};

static enum gb_http_verdict judge(const struct question *question, const char *etag, bool reading)
{
    const struct gb_http_conditions conditions = {
        .if_match = gb_http_text_of(question->if_match),
        .if_none_match = gb_http_text_of(question->if_none_match),
        .if_modified_since = gb_http_text_of(question->if_modified_since),
        .if_unmodified_since = gb_http_text_of(question->if_unmodified_since),
    };
    const struct gb_http_validators validators = {
        .exists = etag != NULL,
        .has_modified = etag != NULL,
        .etag = gb_http_text_of(etag),
        .modified_s = MODIFIED_S,
    };
    return gb_http_conditional_judge(&conditions, &validators, reading, MODIFIED_S + 1000);
}

#define JUDGE(etag, reading, ...) judge(&(struct question){__VA_ARGS__}, etag, reading)

static void without_conditions__a_request_proceeds(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", READING, .if_match = NULL), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE(NULL, WRITING, .if_match = NULL), GB_HTTP_PROCEED);
}

static void if_match__compares_strongly(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"a\""), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"x\", \"a\" ,\"c3piozzzz\""),
                     GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"b\""), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "W/\"a\""), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("W/\"a\"", WRITING, .if_match = "W/\"a\""), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("W/\"a\"", WRITING, .if_match = "\"a\""), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_match = "\"b\""), GB_HTTP_PRECONDITION_FAILED);
}

static void if_match_star__wants_an_object(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = " * "), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE(NULL, WRITING, .if_match = "*"), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE(NULL, WRITING, .if_match = "\"a\""), GB_HTTP_PRECONDITION_FAILED);
    /* A star in quotes is a tag. */
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"*\""), GB_HTTP_PRECONDITION_FAILED);
}

static void if_none_match__compares_weakly(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "\"a\""), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "W/\"a\""), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("W/\"a\"", READING, .if_none_match = "\"a\""), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "\"b\", W/\"a\""),
                     GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "\"b\""), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_none_match = "\"a\""),
                     GB_HTTP_PRECONDITION_FAILED);
}

static void if_none_match_star__wants_no_object(void **state)
{
    (void)state;
    assert_int_equal(JUDGE(NULL, WRITING, .if_none_match = "*"), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_none_match = "*"), GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "*"), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE(NULL, WRITING, .if_none_match = "\"a\""), GB_HTTP_PROCEED);
}

static void commas_backslashes_and_stars__are_letters_of_a_tag(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a,b\"", READING, .if_none_match = "\"x\",\"a,b\""),
                     GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\\\"", READING, .if_none_match = "\"a\\\", \"b\""),
                     GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"\"", READING, .if_none_match = "\"\""), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"\"", READING, .if_none_match = ", ,\"x\",,\"\","),
                     GB_HTTP_NOT_MODIFIED);
}

static const char *const bad_lists[] = {
    "",         "a",       "\"a",         "a\"",    "W/",
    "W/a",      "w/\"a\"", "\"a\" \"b\"", "\"a\"b", "*, \"a\"",
    "\"a\", *", "\"a b\"", "\"a\", b",    "W/\"a",  "\"a\",\"\x7f\"",
    ",",
};

static void bad_lists__match_nothing_when_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_lists) / sizeof(bad_lists[0]); i++) {
        assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = bad_lists[i]), GB_HTTP_PROCEED);
        assert_int_equal(JUDGE("\"a\"", READING, .if_match = bad_lists[i]),
                         GB_HTTP_PRECONDITION_FAILED);
    }
}

static void bad_lists__are_refused_when_writing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_lists) / sizeof(bad_lists[0]); i++) {
        assert_int_equal(JUDGE("\"a\"", WRITING, .if_none_match = bad_lists[i]),
                         GB_HTTP_BAD_CONDITION);
        assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = bad_lists[i]), GB_HTTP_BAD_CONDITION);
        assert_int_equal(JUDGE(NULL, WRITING, .if_none_match = bad_lists[i]),
                         GB_HTTP_BAD_CONDITION);
    }
}

static void if_modified_since__is_for_reading(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = BEFORE), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = EXACTLY), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = AFTER), GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_modified_since = AFTER), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = "yesterday"), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = ""), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_modified_since = AFTER ", " AFTER),
                     GB_HTTP_PROCEED);
}

static void if_unmodified_since__is_for_both(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_unmodified_since = BEFORE),
                     GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_unmodified_since = EXACTLY), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_unmodified_since = AFTER), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_unmodified_since = BEFORE),
                     GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_unmodified_since = "never"), GB_HTTP_PROCEED);
    assert_int_equal(JUDGE(NULL, WRITING, .if_unmodified_since = BEFORE), GB_HTTP_PROCEED);
}

static void tags__take_precedence_over_dates(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "\"b\"", .if_modified_since = AFTER),
                     GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_none_match = "\"a\"", .if_modified_since = BEFORE),
                     GB_HTTP_NOT_MODIFIED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"a\"", .if_unmodified_since = BEFORE),
                     GB_HTTP_PROCEED);
    assert_int_equal(JUDGE("\"a\"", WRITING, .if_match = "\"b\"", .if_unmodified_since = AFTER),
                     GB_HTTP_PRECONDITION_FAILED);
}

static void matching__comes_before_not_matching(void **state)
{
    (void)state;
    assert_int_equal(JUDGE("\"a\"", READING, .if_match = "\"b\"", .if_none_match = "\"a\""),
                     GB_HTTP_PRECONDITION_FAILED);
    assert_int_equal(JUDGE("\"a\"", READING, .if_match = "\"a\"", .if_none_match = "\"a\""),
                     GB_HTTP_NOT_MODIFIED);
    assert_int_equal(
        JUDGE("\"a\"", READING, .if_unmodified_since = AFTER, .if_modified_since = AFTER),
        GB_HTTP_NOT_MODIFIED);
}

static void an_object_without_a_date__has_none_to_compare(void **state)
{
    (void)state;
    const struct gb_http_validators validators = {.exists = true, .etag = GB_HTTP_TEXT("\"a\"")};
    const struct gb_http_conditions since = {.if_modified_since = GB_HTTP_TEXT(AFTER)};
    const struct gb_http_conditions unmodified = {.if_unmodified_since = GB_HTTP_TEXT(BEFORE)};
    assert_int_equal(gb_http_conditional_judge(&since, &validators, true, 0), GB_HTTP_PROCEED);
    assert_int_equal(gb_http_conditional_judge(&unmodified, &validators, true, 0), GB_HTTP_PROCEED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_conditions__a_request_proceeds),
        cmocka_unit_test(if_match__compares_strongly),
        cmocka_unit_test(if_match_star__wants_an_object),
        cmocka_unit_test(if_none_match__compares_weakly),
        cmocka_unit_test(if_none_match_star__wants_no_object),
        cmocka_unit_test(commas_backslashes_and_stars__are_letters_of_a_tag),
        cmocka_unit_test(bad_lists__match_nothing_when_reading),
        cmocka_unit_test(bad_lists__are_refused_when_writing),
        cmocka_unit_test(if_modified_since__is_for_reading),
        cmocka_unit_test(if_unmodified_since__is_for_both),
        cmocka_unit_test(tags__take_precedence_over_dates),
        cmocka_unit_test(matching__comes_before_not_matching),
        cmocka_unit_test(an_object_without_a_date__has_none_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
