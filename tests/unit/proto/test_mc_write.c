/* Answers of the memcached protocol, byte for byte, and that none is longer than its constant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/mc_parse.h"
#include "proto/mc_write.h"

#define CHECK(end, expected)                                                                       \
    do {                                                                                           \
        *(end) = '\0';                                                                             \
        assert_string_equal(out, expected);                                                        \
    } while (0)

static char out[2048];

static void read_request(const char *line, struct gb_mc_event *event)
{
    struct gb_mc_parser parser;
    gb_mc_parser_init(&parser, 0);
    (void)gb_mc_parse(&parser, line, strlen(line), event);
    assert_int_equal(event->kind, GB_MC_REQUEST);
}

static void write_value_head__has_key_flags_size_and_cas(void **state)
{
    (void)state;
    const uint64_t cas = UINT64_MAX;
    CHECK(gb_mc_write_value_head(out, GB_MC_LITERAL("key"), 0, 0, NULL), "VALUE key 0 0\r\n");
    CHECK(gb_mc_write_value_head(out, GB_MC_LITERAL("key"), UINT32_MAX, 1048576, &cas),
          "VALUE key 4294967295 1048576 18446744073709551615\r\n");
}

static void write_number__writes_every_length(void **state)
{
    (void)state;
    CHECK(gb_mc_write_unsigned(out, 0), "0");
    CHECK(gb_mc_write_unsigned(out, UINT64_MAX), "18446744073709551615");
    CHECK(gb_mc_write_signed(out, -1), "-1");
    CHECK(gb_mc_write_signed(out, INT64_MIN), "-9223372036854775808");
    CHECK(gb_mc_write_stat_unsigned(out, GB_MC_LITERAL("pid"), 17), "STAT pid 17\r\n");
    CHECK(gb_mc_write_stat(out, GB_MC_LITERAL("version"), GB_MC_LITERAL("1")),
          "STAT version 1\r\n");
    CHECK(gb_mc_write_line(out, GB_MC_LITERAL("STORED")), "STORED\r\n");
}

static const struct gb_mc_object sample = {.size = 5,
                                           .cas = 77,
                                           .left_s = 60,
                                           .left_before_s = 9,
                                           .idle_s = 3,
                                           .client_flags = 8,
                                           .fetched = true};

static void write_meta__answers_in_the_order_asked(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *code;
        bool hit;
        const char *answer;
    } samples[] = {
        {"mg a v\r\n", "VA", true, "VA 5\r\n"},
        {"mg a s v t c f h l k Oq u q\r\n", "VA", true, "VA 5 s5 t9 c77 f8 h1 l3 ka Oq\r\n"},
        {"mg a k c\r\n", "HD", true, "HD ka c77\r\n"},
        {"mg a t T60\r\n", "HD", true, "HD t9\r\n"},
        {"mg a T60 t\r\n", "HD", true, "HD t60\r\n"},
        {"mg Zm9v b k s\r\n", "HD", true, "HD kZm9v b s5\r\n"},
        {"mg a k Ox s v\r\n", "EN", false, "EN ka Ox\r\n"},
        {"ms a 1 c k Ox s t\r\n", "HD", true, "HD c77 ka Ox s5\r\n"},
        {"ms a 1 c k\r\n", "NS", false, "NS ka\r\n"},
        {"md a k Ox c\r\n", "HD", true, "HD ka Ox\r\n"},
        {"ma a N0 t c k\r\n", "HD", true, "HD t60 c77 ka\r\n"},
        {"ma a v\r\n", "VA", true, "VA 5\r\n"},
        {"ma a t k\r\n", "NF", false, "NF ka\r\n"},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct gb_mc_event event;
        read_request(samples[i].line, &event);
        CHECK(
            gb_mc_write_meta(out, &event.request, samples[i].code, samples[i].hit ? &sample : NULL),
            samples[i].answer);
    }
}

static void write_meta__ends_with_the_states_of_the_object(void **state)
{
    (void)state;
    struct gb_mc_event event;
    struct gb_mc_object object = sample;
    read_request("mg a c\r\n", &event);
    object.won = true;
    CHECK(gb_mc_write_meta(out, &event.request, "HD", &object), "HD c77 W\r\n");
    object.stale = true;
    CHECK(gb_mc_write_meta(out, &event.request, "HD", &object), "HD c77 X W\r\n");
    object.won = false;
    object.sent = true;
    CHECK(gb_mc_write_meta(out, &event.request, "HD", &object), "HD c77 Z X\r\n");
    read_request("md a\r\n", &event);
    CHECK(gb_mc_write_meta(out, &event.request, "HD", &object), "HD\r\n");
}

static void write_debug__tells_all(void **state)
{
    (void)state;
    struct gb_mc_event event;
    read_request("me a\r\n", &event);
    CHECK(gb_mc_write_debug(out, &event.request, &sample),
          "ME a exp=60 la=3 cas=77 fetch=yes cls=1 size=5\r\n");
    read_request("me Zm9v b\r\n", &event);
    const struct gb_mc_object bare = {.left_s = -1};
    CHECK(gb_mc_write_debug(out, &event.request, &bare),
          "ME Zm9v exp=-1 la=0 cas=0 fetch=no cls=1 size=0\r\n");
}

static void write_dump__encodes_what_is_not_plain(void **state)
{
    (void)state;
    CHECK(gb_mc_write_dump(out, GB_MC_LITERAL("a-b_c.d~e/\xff"), &sample, 1700000000),
          "key=a-b_c.d~e%2F%FF exp=1700000000 la=3 cas=77 fetch=yes cls=1 size=5\n");
    CHECK(gb_mc_write_mgdump(out, GB_MC_LITERAL("plain")), "mg plain\r\n");
    CHECK(gb_mc_write_mgdump(out, GB_MC_LITERAL("\x01\x02\x03")), "mg AQID b\r\n");
}

/* The longest of each. */
static void writers__stay_within_their_room(void **state)
{
    (void)state;
    char key[GB_MC_KEY_MAX];
    memset(key, 0xff, sizeof(key));
    const struct gb_mc_text text = {key, sizeof(key)};
    const uint64_t most = UINT64_MAX;
    const struct gb_mc_object object = {.size = most,
                                        .cas = most,
                                        .left_s = INT64_MAX,
                                        .left_before_s = INT64_MAX,
                                        .idle_s = most,
                                        .client_flags = UINT32_MAX,
                                        .fetched = true,
                                        .won = true,
                                        .stale = true,
                                        .sent = true};
    assert_true(gb_mc_write_value_head(out, text, UINT32_MAX, most, &most) - out <=
                GB_MC_VALUE_HEAD_MAX);
    struct gb_mc_event event;
    read_request("mg a s v t c f h l k O123456789012345678901234567890\r\n", &event);
    event.request.key = text;
    assert_true(gb_mc_write_meta(out, &event.request, "VA", &object) - out <= GB_MC_META_HEAD_MAX);
    event.request.key.len = GB_MC_KEY_MAX / 4 * 3;
    event.request.key_binary = true;
    assert_true(gb_mc_write_meta(out, &event.request, "VA", &object) - out <= GB_MC_META_HEAD_MAX);
    assert_true(gb_mc_write_debug(out, &event.request, &object) - out <= GB_MC_DEBUG_MAX);
    assert_true(gb_mc_write_dump(out, text, &object, INT64_MIN) - out <= GB_MC_DUMP_MAX);
    key[0] = ' ';
    assert_true(gb_mc_write_mgdump(out, text) - out <= GB_MC_DUMP_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_value_head__has_key_flags_size_and_cas),
        cmocka_unit_test(write_number__writes_every_length),
        cmocka_unit_test(write_meta__answers_in_the_order_asked),
        cmocka_unit_test(write_meta__ends_with_the_states_of_the_object),
        cmocka_unit_test(write_debug__tells_all),
        cmocka_unit_test(write_dump__encodes_what_is_not_plain),
        cmocka_unit_test(writers__stay_within_their_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
