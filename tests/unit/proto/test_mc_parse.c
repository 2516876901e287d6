/* The memcached parser: transcripts of the text protocol, each fed at every split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mcevents.h"
#include "lib/mctranscript.h"

static void retrieval__one_request_per_key(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"get a\r\n", "get key=a\nend\n"},
        {"get a\n", "get key=a\nend\n"},
        {"  get  a   bb ccc  \r\n", "get key=a\nget key=bb\nget key=ccc\nend\n"},
        {"gets a b\r\nget c\r\n", "gets key=a\ngets key=b\nend\nget key=c\nend\n"},
        {"gat 100 a b\r\n", "gat key=a exp=100\ngat key=b exp=100\nend\n"},
        {"gats -1 a\r\n", "gats key=a exp=-1\nend\n"},
        {"gat 100\r\n", "end\n"},
        {"gat ten a\r\n", "! CLIENT_ERROR invalid exptime argument\n"},
        {"get\r\n", "! ERROR\n"},
        {"get \r\n", "! ERROR\n"},
        {"gats 5\r\n", "end\n"},
        {"get a\rb \tc\r\n", "get key=a\\0db\nget key=\\09c\nend\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void storage__announces_and_streams_its_value(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"set a 0 0 3\r\nabc\r\n", "set key=a size=3\nvalue abc\ngood\n"},
        {"set a 5 100 3\nabc\r\n", "set key=a flags=5 exp=100 size=3\nvalue abc\ngood\n"},
        {"set a 0 0 0\r\n\r\n", "set key=a\ngood\n"},
        {"add a 4294967295 -1 1 noreply\r\nx\r\n",
         "add key=a flags=4294967295 exp=-1 size=1 noreply\nvalue x\ngood\n"},
        {"replace a 0 0 1\r\nx\r\nappend b 0 0 1\r\ny\r\nprepend c 0 0 1\r\nz\r\n",
         "replace key=a size=1\nvalue x\ngood\nappend key=b size=1\nvalue y\ngood\n"
         "prepend key=c size=1\nvalue z\ngood\n"},
        {"cas a 1 2 3 18446744073709551615\r\nabc\r\n",
         "cas key=a flags=1 exp=2 size=3 cas=18446744073709551615\nvalue abc\ngood\n"},
        {"cas a 0 0 1 7 noreply\r\nx\r\n", "cas key=a size=1 cas=7 noreply\nvalue x\ngood\n"},
        {"set a 0 0 7\r\nget b\r\n\r\nget c\r\n",
         "set key=a size=7\nvalue get b\r\n\ngood\nget key=c\nend\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

/* As with memcached: so many bytes and two more are read, whatever they are. */
static void storage__tells_a_bad_end_and_goes_on_behind_it(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"set a 0 0 3\r\nabcde\r\n", "set key=a size=3\nvalue abc\nbad\n! ERROR\n"},
        {"set a 0 0 3\r\nabc\n\nget b\r\n", "set key=a size=3\nvalue abc\nbad\nget key=b\nend\n"},
        {"set a 0 0 3\r\nabc\rxget b\r\n", "set key=a size=3\nvalue abc\nbad\nget key=b\nend\n"},
        {"set a 0 0 2\r\nabcdefgh\r\nget b\r\n",
         "set key=a size=2\nvalue ab\nbad\n! ERROR\nget key=b\nend\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void storage__refuses_what_it_cannot_read_and_takes_the_value_for_commands(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"set a 0 0\r\n", "! ERROR\n"},
        {"set a 0 0 1 2 3\r\n", "! ERROR\n"},
        {"set a x 0 3\r\nget b\r\n", "! CLIENT_ERROR bad command line format\nget key=b\nend\n"},
        {"set a -1 0 3\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 4294967296 0 3\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 0 x 3\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 0 0 -1\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 0 0 2147483646\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 0 0 99999999999999999999999\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"set a 0 0 noreply\r\n", "(silent) CLIENT_ERROR bad command line format\n"},
        {"set a 0 0 3x\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"cas a 0 0 3\r\n", "! ERROR\n"},
        {"cas a 0 0 3 x\r\n", "! CLIENT_ERROR bad command line format\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void other_verbs__are_read_with_their_arguments(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"touch a 60\r\n", "touch key=a exp=60\n"},
        {"touch a 60 noreply\r\n", "touch key=a exp=60 noreply\n"},
        {"touch a\r\n", "! ERROR\n"},
        {"touch a x\r\n", "! CLIENT_ERROR invalid exptime argument\n"},
        {"incr a 5\r\n", "incr key=a delta=5\n"},
        {"decr a 18446744073709551615 noreply\r\n",
         "decr key=a delta=18446744073709551615 noreply\n"},
        {"incr a -1\r\n", "! CLIENT_ERROR invalid numeric delta argument\n"},
        {"incr a x\r\n", "! CLIENT_ERROR invalid numeric delta argument\n"},
        {"incr a 18446744073709551616\r\n", "! CLIENT_ERROR invalid numeric delta argument\n"},
        {"incr a\r\n", "! ERROR\n"},
        {"delete a\r\n", "delete key=a\n"},
        {"delete a 0\r\n", "delete key=a\n"},
        {"delete a noreply\r\n", "delete key=a noreply\n"},
        {"delete a 0 noreply\r\n", "delete key=a noreply\n"},
        {"delete a 5\r\n",
         "! CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\n"},
        {"delete a 5 noreply\r\n",
         "(silent) CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\n"},
        {"delete a 0 noreply x\r\n", "! ERROR\n"},
        {"delete\r\n", "! ERROR\n"},
        {"flush_all\r\n", "flush_all\n"},
        {"flush_all 10\r\n", "flush_all exp=10\n"},
        {"flush_all noreply\r\n", "flush_all noreply\n"},
        {"flush_all 10 noreply\r\n", "flush_all exp=10 noreply\n"},
        {"flush_all x\r\n", "! CLIENT_ERROR invalid exptime argument\n"},
        {"flush_all 1 2 3\r\n", "! ERROR\n"},
        {"version\r\nquit\r\n", "version rest=\nquit rest=\n"},
        {"stats\r\n", "stats rest=\n"},
        {"stats items\r\n", "stats rest=\\20items\n"},
        {"verbosity 1 noreply\r\n", "verbosity rest=\\201\\20noreply noreply\n"},
        {"verbosity\r\n", "! ERROR\n"},
        {"watch fetchers\r\n", "watch rest=\\20fetchers\n"},
        {"lru_crawler metadump all\r\n", "lru_crawler rest=\\20metadump\\20all\n"},
        {"cache_memlimit 64\r\n", "cache_memlimit rest=\\2064\n"},
        {"slabs automove 1\r\n", "slabs rest=\\20automove\\201\n"},
        {"shutdown\r\n", "shutdown rest=\n"},
        {"debugtime 5\r\n", "debugtime rest=\\205\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void what_is_no_command__is_answered_and_passed_over(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"\r\n", "! ERROR\n"},       {"\n", "! ERROR\n"},
        {"   \r\n", "! ERROR\n"},    {"GET a\r\n", "! ERROR\n"},
        {"gett a\r\n", "! ERROR\n"}, {"g\r\nget a\r\n", "! ERROR\nget key=a\nend\n"},
        {"get\ta\r\n", "! ERROR\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void a_nul__ends_the_line(void **state)
{
    (void)state;
    static const char input[] = "get a\0b c\r\nget d\r\n\0x\r\n";
    gb_mctranscript_check(input, sizeof(input) - 1, "get key=a\nend\nget key=d\nend\n! ERROR\n");
}

static void keys__are_at_most_250_bytes(void **state)
{
    (void)state;
    char key[252];
    char input[600];
    char expected[600];
    memset(key, 'k', sizeof(key));
    (void)snprintf(input, sizeof(input), "get %.250s\r\n", key);
    (void)snprintf(expected, sizeof(expected), "get key=%.250s\nend\n", key);
    gb_mctranscript_check(input, strlen(input), expected);
    static const char *const refused[] = {
        "get %.251s\r\n",    "get a %.251s b\r\n", "set %.251s 0 0 3\r\n", "touch %.251s 0\r\n",
        "incr %.251s 1\r\n", "delete %.251s\r\n",  "gat 0 %.251s\r\n"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(input, sizeof(input), refused[i], key);
#pragma GCC diagnostic pop
        gb_mctranscript_check(input, strlen(input), "! CLIENT_ERROR bad command line format\n");
    }
}

/* "get" and then keys until the line has `len` bytes before its end. */
static size_t make_long_get(char *input, const char *verb, size_t len, char *expected)
{
    size_t used = (size_t)sprintf(input, "%s", verb);
    size_t said = 0;
    while (used + 12 <= len) {
        char key[12];
        (void)snprintf(key, sizeof(key), "k%zu", used);
        used += (size_t)sprintf(input + used, " %s", key);
        said += (size_t)sprintf(expected + said, "%.4s key=%s\n", verb, key);
    }
    used += (size_t)sprintf(input + used, "\r\n");
    (void)sprintf(expected + said, "end\n");
    return used;
}

static void a_line_of_many_keys__has_no_limit(void **state)
{
    (void)state;
    static char input[20000];
    static char expected[GB_MCEVENTS_MAX];
    for (size_t len = 1900; len < 16000; len += 700) {
        size_t used = make_long_get(input, "get", len, expected);
        struct gb_mcevents *events = malloc(sizeof(*events));
        assert_non_null(events);
        for (size_t step = 1; step < 4096; step = step * 3 + 1) {
            gb_mcevents_init(events);
            for (size_t at = 0; at < used; at += step) {
                gb_mcevents_feed(events, input + at, used - at < step ? used - at : step);
            }
            assert_string_equal(events->text, expected);
        }
        free(events);
    }
}

static void a_line_of_many_keys__refuses_a_long_key_where_it_stands(void **state)
{
    (void)state;
    static char input[8192];
    static char expected[GB_MCEVENTS_MAX];
    size_t used = make_long_get(input, "gets", 4000, expected) - 2;
    memset(input + used, 'k', 300);
    input[used] = ' ';
    (void)strcpy(input + used + 300, " b\r\nget c\r\n");
    (void)strcpy(expected + strlen(expected) - 4,
                 "! CLIENT_ERROR bad command line format\nget key=c\nend\n");
    gb_mctranscript_check(input, strlen(input), expected);
}

static void a_long_line_of_anything_else__closes(void **state)
{
    (void)state;
    static char input[4096];
    memset(input, 'x', sizeof(input));
    gb_mctranscript_check(input, GB_MC_LINE_MAX - 1, "");
    gb_mctranscript_check(input, sizeof(input), "close\n");
    input[GB_MC_LINE_MAX - 1] = '\n';
    gb_mctranscript_check(input, GB_MC_LINE_MAX, "! ERROR\n");
    memset(input, ' ', sizeof(input));
    memcpy(input + 101, "get a", 5);
    gb_mctranscript_check(input, sizeof(input), "close\n");
    memset(input, ' ', sizeof(input));
    memcpy(input, "set a 0 0 1", 11);
    gb_mctranscript_check(input, sizeof(input), "close\n");
    memset(input, ' ', sizeof(input));
    memcpy(input, "get", 3);
    gb_mctranscript_check(input, sizeof(input), "close\n");
}

static void parser_swallow__passes_over_the_value_and_its_end(void **state)
{
    (void)state;
    static const char input[] = "set a 0 0 5\r\nhello\r\nget b\r\n";
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    gb_mc_parser_init(&parser, 0);
    assert_true(gb_mc_parser_idle(&parser));
    size_t used = gb_mc_parse(&parser, input, sizeof(input) - 1, &event);
    assert_int_equal(used, 13);
    assert_int_equal(event.kind, GB_MC_REQUEST);
    assert_false(gb_mc_parser_idle(&parser));
    gb_mc_parser_swallow(&parser);
    assert_int_equal(gb_mc_parse(&parser, input + used, 3, &event), 3);
    assert_int_equal(event.kind, GB_MC_MORE);
    used += 3;
    used += gb_mc_parse(&parser, input + used, sizeof(input) - 1 - used, &event);
    assert_int_equal(event.kind, GB_MC_REQUEST);
    assert_memory_equal(event.request.key.data, "b", 1);
}

static void parser_taken__waits_for_the_values_end(void **state)
{
    (void)state;
    static const char line[] = "set a 0 0 1000000\r\n";
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    gb_mc_parser_init(&parser, 0);
    assert_int_equal(gb_mc_parse(&parser, line, sizeof(line) - 1, &event), sizeof(line) - 1);
    gb_mc_parser_taken(&parser);
    assert_int_equal(gb_mc_parse(&parser, "\r", 1, &event), 1);
    assert_int_equal(event.kind, GB_MC_MORE);
    assert_int_equal(gb_mc_parse(&parser, "\nget", 4, &event), 1);
    assert_int_equal(event.kind, GB_MC_VALUE_END);
    assert_true(event.good);
    assert_true(gb_mc_parser_idle(&parser));
}

static void a_larger_limit__lets_larger_values_be_announced(void **state)
{
    (void)state;
    static const char line[] = "set a 0 0 4294967296\r\n";
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    gb_mc_parser_init(&parser, UINT64_C(1) << 32);
    (void)gb_mc_parse(&parser, line, sizeof(line) - 1, &event);
    assert_int_equal(event.kind, GB_MC_REQUEST);
    assert_int_equal(event.request.size, UINT64_C(1) << 32);
}

static void expiry__is_relative_up_to_30_days_and_a_date_beyond(void **state)
{
    (void)state;
    const int64_t now_ms = 1700000000123;
    assert_int_equal(gb_mc_expiry_ms(0, now_ms), 0);
    assert_int_equal(gb_mc_expiry_ms(1, now_ms), now_ms + 1000);
    assert_int_equal(gb_mc_expiry_ms(2592000, now_ms), now_ms + 2592000000);
    assert_int_equal(gb_mc_expiry_ms(2592001, now_ms), 2592001000);
    assert_int_equal(gb_mc_expiry_ms(1800000000, now_ms), 1800000000000);
    assert_int_equal(gb_mc_expiry_ms(-1, now_ms), 1);
    assert_int_equal(gb_mc_expiry_ms(INT64_MIN, now_ms), 1);
    assert_int_equal(gb_mc_expiry_ms(INT64_MAX, now_ms), INT64_MAX);
    assert_int_equal(gb_mc_left_s(0, now_ms), -1);
    assert_int_equal(gb_mc_left_s(now_ms + 1000, now_ms), 1);
    assert_int_equal(gb_mc_left_s(now_ms + 1001, now_ms), 2);
    assert_int_equal(gb_mc_left_s(now_ms - 5, now_ms), 0);
}

static void numbers__are_whole_and_in_range(void **state)
{
    (void)state;
    uint64_t number = 77;
    int64_t integer = 77;
    assert_int_equal(gb_mc_read_unsigned(GB_MC_LITERAL("+5"), 9, &number), 0);
    assert_int_equal(number, 5);
    assert_true(gb_mc_read_unsigned(GB_MC_LITERAL("10"), 9, &number) < 0);
    assert_true(gb_mc_read_unsigned(GB_MC_LITERAL(""), 9, &number) < 0);
    assert_true(gb_mc_read_unsigned(GB_MC_LITERAL("+"), 9, &number) < 0);
    assert_true(gb_mc_read_unsigned(GB_MC_LITERAL("5 "), 9, &number) < 0);
    assert_int_equal(number, 5);
    assert_int_equal(gb_mc_read_signed(GB_MC_LITERAL("-9223372036854775807"), &integer), 0);
    assert_int_equal(integer, -INT64_MAX);
    assert_true(gb_mc_read_signed(GB_MC_LITERAL("-"), &integer) < 0);
    assert_true(gb_mc_read_signed(GB_MC_LITERAL("-+5"), &integer) < 0);
    assert_true(gb_mc_read_signed(GB_MC_LITERAL("9223372036854775808"), &integer) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retrieval__one_request_per_key),
        cmocka_unit_test(storage__announces_and_streams_its_value),
        cmocka_unit_test(storage__tells_a_bad_end_and_goes_on_behind_it),
        cmocka_unit_test(storage__refuses_what_it_cannot_read_and_takes_the_value_for_commands),
        cmocka_unit_test(other_verbs__are_read_with_their_arguments),
        cmocka_unit_test(what_is_no_command__is_answered_and_passed_over),
        cmocka_unit_test(a_nul__ends_the_line),
        cmocka_unit_test(keys__are_at_most_250_bytes),
        cmocka_unit_test(a_line_of_many_keys__has_no_limit),
        cmocka_unit_test(a_line_of_many_keys__refuses_a_long_key_where_it_stands),
        cmocka_unit_test(a_long_line_of_anything_else__closes),
        cmocka_unit_test(parser_swallow__passes_over_the_value_and_its_end),
        cmocka_unit_test(parser_taken__waits_for_the_values_end),
        cmocka_unit_test(a_larger_limit__lets_larger_values_be_announced),
        cmocka_unit_test(expiry__is_relative_up_to_30_days_and_a_date_beyond),
        cmocka_unit_test(numbers__are_whole_and_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
