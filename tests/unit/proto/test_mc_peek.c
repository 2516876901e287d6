/* The glance ahead: which keys a pipeline will ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/mc_parse.h"

enum { MOST = 4 };

/* The keys of `input`, after `parsed` events were taken from it, with a comma behind each; *covered
 * counts from there. */
static const char *peek(const char *input, unsigned parsed, size_t *covered)
{
    static char text[256];
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    struct gb_mc_text keys[MOST];
    size_t len = strlen(input);
    gb_mc_parser_init(&parser, 0);
    size_t used = 0;
    for (unsigned i = 0; i < parsed; i++) {
        used += gb_mc_parse(&parser, input + used, len - used, &event);
    }
    size_t count = gb_mc_parser_peek(&parser, input + used, len - used, keys, MOST, covered);
    assert_true(count <= MOST && *covered >= 1);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        (void)strncat(text, keys[i].data, keys[i].len);
        (void)strcat(text, ",");
    }
    return text;
}

static void peek__finds_the_keys_of_a_pipeline(void **state)
{
    (void)state;
    size_t covered;
    assert_string_equal(peek("get a\r\nget b\r\nmg c v\r\n", 0, &covered), "a,b,c,");
    assert_int_equal(covered, strlen("get a\r\nget b\r\nmg c v\r\n"));
    assert_string_equal(peek("touch a 5\r\ndelete b\r\nincr c 1\r\n", 0, &covered), "a,b,c,");
    assert_string_equal(peek("gets a  b c\r\n", 0, &covered), "a,b,c,");
    assert_string_equal(peek("\r\n\r\nnonsense\r\nget a\r\n", 0, &covered), "a,");
}

static void peek__passes_over_values_that_are_all_there(void **state)
{
    (void)state;
    size_t covered;
    assert_string_equal(peek("set a 0 0 5\r\nget x\r\nget b\r\n", 0, &covered), "a,b,");
    assert_int_equal(covered, strlen("set a 0 0 5\r\nget x\r\nget b\r\n"));
    assert_string_equal(
        peek("ms a 2 T0\r\nxx\r\ncas b 0 0 1 7 noreply\r\ny\r\nmg c v\r\n", 0, &covered), "a,b,c,");
    assert_string_equal(peek("set a 0 0 1\r\nx\r\nset b 0 0 9\r\nget c\r\n", 0, &covered), "a,b,");
    assert_string_equal(peek("set a 0 0 x\r\nget b\r\n", 0, &covered), "a,");
    assert_string_equal(peek("set a 0 0 18446744073709551615\r\nget b\r\n", 0, &covered), "a,");
}

static void peek__stops_at_enough_at_a_value_and_at_what_is_cut_off(void **state)
{
    (void)state;
    size_t covered;
    assert_string_equal(peek("get a b c d e f\r\n", 0, &covered), "a,b,c,d,");
    assert_int_equal(covered, strlen("get a b c d"));
    assert_string_equal(peek("get a\r\nset b 0 0 9\r\nget x y", 0, &covered), "a,b,");
    assert_string_equal(peek("get a\r\nms b 9\r\nget x y z", 0, &covered), "a,b,");
    assert_string_equal(peek("get a b cc", 0, &covered), "a,b,");
    assert_int_equal(covered, strlen("get a b cc"));
    assert_string_equal(peek("get", 0, &covered), "");
}

static void peek__goes_on_within_a_line_of_keys(void **state)
{
    (void)state;
    size_t covered;
    assert_string_equal(peek("get a b c\r\nget d\r\n", 1, &covered), "b,c,d,");
    assert_string_equal(peek("set a 0 0 9\r\nget b\r\n\r\n\r\n", 1, &covered), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peek__finds_the_keys_of_a_pipeline),
        cmocka_unit_test(peek__passes_over_values_that_are_all_there),
        cmocka_unit_test(peek__stops_at_enough_at_a_value_and_at_what_is_cut_off),
        cmocka_unit_test(peek__goes_on_within_a_line_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
