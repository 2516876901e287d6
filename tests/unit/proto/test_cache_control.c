/* What a shared cache may do with a response. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proto/cache_control.h"

#define NOW_S   INT64_C(1000000)
#define ABSENT  GB_CACHE_CONTROL_ABSENT
#define ANY_AGE GB_CACHE_CONTROL_AGE_MAX

static struct gb_cache_control control_of(const char *field)
{
    struct gb_cache_control control;
    gb_cache_control_init(&control);
    gb_cache_control_add(&control, gb_http_text_of(field));
    return control;
}

/* A response of status 200, made, sent and received at NOW_S. */
static struct gb_cache_response response_of(const char *field)
{
    return (struct gb_cache_response){
        .control = control_of(field),
        .status = 200,
        .date_s = NOW_S,
        .expires_s = ABSENT,
        .modified_s = ABSENT,
        .age_s = ABSENT,
        .requested_s = NOW_S,
        .received_s = NOW_S,
    };
}

static bool storable(const struct gb_cache_response *response)
{
    const struct gb_cache_control request = control_of("");
    return gb_cache_control_may_store(response, &request);
}

static bool storable_with(const char *field)
{
    const struct gb_cache_response response = response_of(field);
    return storable(&response);
}

static enum gb_cache_use use_after(const char *response_field, const char *request_field,
                                   int64_t seconds)
{
    const struct gb_cache_response response = response_of(response_field);
    const struct gb_cache_control request = control_of(request_field);
    return gb_cache_control_use(&response, &request, NOW_S + seconds);
}

static bool on_error(const char *response_field, const char *request_field, int64_t seconds)
{
    const struct gb_cache_response response = response_of(response_field);
    const struct gb_cache_control request = control_of(request_field);
    return gb_cache_control_use_on_error(&response, &request, NOW_S + seconds);
}

/* ---- directives ---------------------------------------------------------------------------- */

static void directives__are_read(void **state)
{
    (void)state;
    struct gb_cache_control control =
        control_of("max-age=3600, s-maxage=\"60\" , Must-Revalidate,PUBLIC, immutable, "
                   "stale-while-revalidate=5,stale-if-error=7, unknown=3, ext=\"a, no-store\"");
    assert_true(control.max_age_s == 3600);
    assert_true(control.s_maxage_s == 60);
    assert_true(control.stale_while_revalidate_s == 5);
    assert_true(control.stale_if_error_s == 7);
    assert_true(control.must_revalidate && control.is_public && control.immutable);
    assert_false(control.no_store || control.no_cache || control.is_private);
    assert_true(control.min_fresh_s == ABSENT && control.max_stale_s == ABSENT);

    control = control_of("no-store, no-cache=\"set-cookie, x\", private=\"a\", no-transform, "
                         "only-if-cached, must-understand, proxy-revalidate, min-fresh=9");
    assert_true(control.no_store && control.no_cache && control.is_private);
    assert_true(control.no_transform && control.only_if_cached && control.must_understand);
    assert_true(control.proxy_revalidate && control.min_fresh_s == 9);
}

static void lines__add_up(void **state)
{
    (void)state;
    struct gb_cache_control control = control_of("max-age=5");
    gb_cache_control_add(&control, GB_HTTP_TEXT("no-cache, max-age=9"));
    assert_true(control.no_cache);
    assert_true(control.max_age_s == 5);
}

static void ages__saturate_and_bad_ones_are_none(void **state)
{
    (void)state;
    assert_true(control_of("max-age=2147483647").max_age_s == ANY_AGE - 1);
    assert_true(control_of("max-age=2147483649").max_age_s == ANY_AGE);
    assert_true(control_of("max-age=99999999999999999999999999").max_age_s == ANY_AGE);
    static const char *const bad[] = {"max-age",     "max-age=",     "max-age=-1",
                                      "max-age=1.5", "max-age=\"1",  "max-age=\"",
                                      "max-age=1s",  "max-age=0x10", "max-age=a, max-age=7"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(control_of(bad[i]).max_age_s == 0);
    }
    assert_true(control_of("max-agee=5, xmax-age=5").max_age_s == ABSENT);
}

static void max_stale__may_go_without_a_number(void **state)
{
    (void)state;
    assert_true(control_of("max-stale").max_stale_s == ANY_AGE);
    assert_true(control_of("max-stale=0").max_stale_s == 0);
    assert_true(control_of("max-stale=").max_stale_s == 0);
}

static void an_age__is_one_number(void **state)
{
    (void)state;
    assert_true(gb_cache_control_age_field(GB_HTTP_TEXT(" 30 ")) == 30);
    assert_true(gb_cache_control_age_field(GB_HTTP_TEXT("99999999999999999999999")) == ANY_AGE);
    assert_true(gb_cache_control_age_field(GB_HTTP_TEXT("")) == ABSENT);
    assert_true(gb_cache_control_age_field(GB_HTTP_TEXT("-1")) == ABSENT);
    assert_true(gb_cache_control_age_field(GB_HTTP_TEXT("3, 5")) == ABSENT);
    assert_true(gb_cache_control_age_field(gb_http_text_of(NULL)) == ABSENT);
}

/* ---- storing ------------------------------------------------------------------------------- */

static void what_is_cacheable_by_its_status__may_be_stored(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("");
    static const int yes[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        response.status = yes[i];
        assert_true(storable(&response));
    }
    static const int no[] = {100, 101, 201, 206, 302, 304, 307, 400, 403, 500, 502, 503, 504};
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        response.status = no[i];
        assert_false(storable(&response));
    }
}

static void any_other__must_say_so(void **state)
{
    (void)state;
    static const char *const fields[] = {"max-age=5", "s-maxage=5", "public"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct gb_cache_response response = response_of(fields[i]);
        response.status = 503;
        assert_true(storable(&response));
        response.status = 206;
        assert_false(storable(&response));
    }
    struct gb_cache_response response = response_of("");
    response.status = 302;
    response.expires_s = NOW_S + 10;
    assert_true(storable(&response));
}

static void no_store_and_private__forbid_it(void **state)
{
    (void)state;
    assert_false(storable_with("no-store, max-age=5"));
    assert_false(storable_with("private, max-age=5"));
    assert_false(storable_with("private=\"x-user\", max-age=5"));
    assert_false(storable_with("public, private"));
    assert_true(storable_with("no-cache"));
    const struct gb_cache_response response = response_of("max-age=5");
    const struct gb_cache_control request = control_of("no-store");
    assert_false(gb_cache_control_may_store(&response, &request));
}

static void must_understand__stands_above_no_store(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("must-understand, no-store, max-age=5");
    assert_true(storable(&response));
    response.status = 299;
    assert_false(storable(&response));
}

static void an_authorized_answer__must_be_for_all(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        bool storable;
    } cases[] = {{"max-age=5", false}, {"", false},
                 {"public", true},     {"must-revalidate, max-age=5", true},
                 {"s-maxage=5", true}, {"proxy-revalidate, max-age=5", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gb_cache_response response = response_of(cases[i].field);
        response.authorized = true;
        assert_true(storable(&response) == cases[i].storable);
    }
}

static void what_varies_by_everything__is_not_stored(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("max-age=5");
    response.vary_all = true;
    assert_false(storable(&response));
}

/* ---- freshness ----------------------------------------------------------------------------- */

static void a_lifetime__comes_from_the_first_that_is_there(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("max-age=10, s-maxage=20");
    response.expires_s = NOW_S + 30;
    response.modified_s = NOW_S - 1000;
    assert_true(gb_cache_control_lifetime(&response) == 20);
    response.control = control_of("max-age=10");
    assert_true(gb_cache_control_lifetime(&response) == 10);
    response.control = control_of("");
    assert_true(gb_cache_control_lifetime(&response) == 30);
    response.expires_s = ABSENT;
    assert_true(gb_cache_control_lifetime(&response) == 100);
    response.modified_s = ABSENT;
    assert_true(gb_cache_control_lifetime(&response) == 0);
}

static void expires__is_counted_from_the_date(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("");
    response.date_s = NOW_S - 500;
    response.expires_s = NOW_S;
    assert_true(gb_cache_control_lifetime(&response) == 500);
    response.expires_s = NOW_S - 600;
    assert_true(gb_cache_control_lifetime(&response) == 0);
    response.expires_s = 0;
    assert_true(gb_cache_control_lifetime(&response) == 0);
    response.date_s = ABSENT; /* then what counts is when it came */
    response.expires_s = NOW_S + 40;
    assert_true(gb_cache_control_lifetime(&response) == 40);
}

static void a_guess__is_a_tenth_up_to_a_day(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("");
    response.modified_s = 0;
    response.date_s = INT64_C(100) * 86400;
    assert_true(gb_cache_control_lifetime(&response) == GB_CACHE_CONTROL_HEURISTIC_MAX);
    response.modified_s = response.date_s + 1000;
    assert_true(gb_cache_control_lifetime(&response) == 0);
    response.modified_s = response.date_s - 1000;
    response.status = 503;
    assert_true(gb_cache_control_lifetime(&response) == 0);
    response.control = control_of("public");
    assert_true(gb_cache_control_lifetime(&response) == 100);
}

static void an_age__is_the_greatest_that_it_can_be(void **state)
{
    (void)state;
    struct gb_cache_response response = response_of("");
    assert_true(gb_cache_control_age(&response, NOW_S + 7) == 7);
    response.age_s = 30;
    assert_true(gb_cache_control_age(&response, NOW_S + 7) == 37);
    response.requested_s = NOW_S - 4; /* it was on its way for that long, at most */
    assert_true(gb_cache_control_age(&response, NOW_S + 7) == 41);
    response.date_s = NOW_S - 100;
    assert_true(gb_cache_control_age(&response, NOW_S + 7) == 107);
    response.date_s = NOW_S + 100; /* a clock that is ahead */
    assert_true(gb_cache_control_age(&response, NOW_S + 7) == 41);
    assert_true(gb_cache_control_age(&response, NOW_S - 7) == 34);
    response.date_s = ABSENT;
    assert_true(gb_cache_control_age(&response, NOW_S) == 34);
}

/* ---- use ----------------------------------------------------------------------------------- */

static void a_response__is_fresh_for_its_lifetime(void **state)
{
    (void)state;
    assert_int_equal(use_after("max-age=10", "", 0), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "", 9), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "", 10), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=0", "", 0), GB_CACHE_VALIDATE);
}

static void no_cache__asks_first(void **state)
{
    (void)state;
    assert_int_equal(use_after("no-cache, max-age=10", "", 1), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=10", "no-cache", 1), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("no-cache, stale-while-revalidate=99", "max-stale", 1),
                     GB_CACHE_VALIDATE);
}

static void a_client__may_want_it_younger(void **state)
{
    (void)state;
    assert_int_equal(use_after("max-age=10", "max-age=5", 5), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "max-age=5", 6), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=10", "max-age=0", 0), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "min-fresh=5", 5), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "min-fresh=5", 6), GB_CACHE_VALIDATE);
}

static void a_client__may_take_it_stale(void **state)
{
    (void)state;
    assert_int_equal(use_after("max-age=10", "max-stale=5", 15), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "max-stale=5", 16), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=10", "max-stale", 100000), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10, must-revalidate", "max-stale", 11), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=10, proxy-revalidate", "max-stale", 11), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("s-maxage=10", "max-stale", 11), GB_CACHE_VALIDATE);
}

static void while_it_is_validated__it_may_be_used(void **state)
{
    (void)state;
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=5", "", 9), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=5", "", 14), GB_CACHE_BEHIND);
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=5", "", 15), GB_CACHE_VALIDATE);
    assert_int_equal(use_after("s-maxage=10, stale-while-revalidate=5", "", 12), GB_CACHE_BEHIND);
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=5, must-revalidate", "", 12),
                     GB_CACHE_VALIDATE);
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=5", "max-age=3", 12),
                     GB_CACHE_VALIDATE);
}

static void only_if_cached__never_asks(void **state)
{
    (void)state;
    assert_int_equal(use_after("max-age=10", "only-if-cached", 5), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10", "only-if-cached", 15), GB_CACHE_IMPOSSIBLE);
    assert_int_equal(use_after("max-age=10", "only-if-cached, no-cache", 5), GB_CACHE_IMPOSSIBLE);
    assert_int_equal(use_after("max-age=10", "only-if-cached, max-stale=9", 15), GB_CACHE_FRESH);
    assert_int_equal(use_after("max-age=10, stale-while-revalidate=9", "only-if-cached", 15),
                     GB_CACHE_FRESH);
}

static void when_the_origin_fails__either_side_may_allow_it(void **state)
{
    (void)state;
    assert_true(on_error("max-age=10", "", 5));
    assert_false(on_error("max-age=10", "", 15));
    assert_true(on_error("max-age=10, stale-if-error=6", "", 15));
    assert_false(on_error("max-age=10, stale-if-error=5", "", 15));
    assert_true(on_error("s-maxage=10, stale-if-error=6", "", 15));
    assert_true(on_error("max-age=10", "stale-if-error=6", 15));
    assert_false(on_error("s-maxage=10", "stale-if-error=6", 15));
    assert_false(on_error("max-age=10, must-revalidate, stale-if-error=6", "", 15));
    assert_false(on_error("max-age=10, no-cache, stale-if-error=6", "", 15));
    assert_false(on_error("max-age=10, stale-if-error=6", "no-cache", 15));
}

/* ---- Vary ---------------------------------------------------------------------------------- */

struct field {
    const char *name;
    const char *value;
};

/* `arg`: fields up to one without a name, in the order of their lines. */
static struct gb_http_text field_of(void *arg, struct gb_http_text name, size_t number)
{
    for (const struct field *field = arg; field->name != NULL; field++) {
        if (gb_http_text_same_name(name, gb_http_text_of(field->name)) && number-- == 0) {
            return gb_http_text_of(field->value);
        }
    }
    return gb_http_text_of(NULL);
}

static void expect_key(const char *vary, struct field *fields, const char *expected)
{
    char key[256];
    int64_t len =
        gb_cache_control_vary_key(gb_http_text_of(vary), field_of, fields, key, sizeof(key));
    assert_true(len == (int64_t)strlen(expected));
    assert_memory_equal(key, expected, strlen(expected));
}

static void a_key__holds_the_named_fields(void **state)
{
    (void)state;
    struct field fields[] = {{"Accept-Language", "de, en"},
                             {"accept-encoding", "gzip ,br"},
                             {"Cookie", "secret"},
                             {"Accept-Encoding", "zstd"},
                             {"X-Empty", ""},
                             {NULL, NULL}};
    expect_key("", fields, "");
    expect_key("Accept-Encoding", fields, "accept-encoding:gzip,br,zstd\n");
    expect_key("x-none", fields, "x-none\n");
    expect_key("X-Empty", fields, "x-empty:\n");
    expect_key("Accept-Language , ACCEPT-ENCODING", fields,
               "accept-encoding:gzip,br,zstd\naccept-language:de,en\n");
    expect_key("Accept-Encoding, Accept-Language, accept-encoding", fields,
               "accept-encoding:gzip,br,zstd\naccept-language:de,en\n");
    expect_key("b, a, aa, c, b, A", fields, "a\naa\nb\nc\n");
}

static void what_cannot_be_matched__has_no_key(void **state)
{
    (void)state;
    struct field none[] = {{NULL, NULL}};
    char key[16];
    static const char *const bad[] = {"*", "a, *", "a b", "\"a\"", "a:"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            gb_cache_control_vary_key(gb_http_text_of(bad[i]), field_of, none, key, sizeof(key)),
            -EINVAL);
    }
    assert_int_equal(
        gb_cache_control_vary_key(GB_HTTP_TEXT("abcdefgh, ijklmno"), field_of, none, key, 16),
        -ENAMETOOLONG);
    assert_int_equal(
        gb_cache_control_vary_key(GB_HTTP_TEXT("abcdefgh, ijklmn"), field_of, none, key, 16), 16);
}

static void a_key__has_sixteen_names_at_the_most(void **state)
{
    (void)state;
    struct field none[] = {{NULL, NULL}};
    char vary[256] = "";
    char key[256];
    for (int i = 0; i < GB_CACHE_VARY_NAMES_MAX; i++) {
        (void)snprintf(vary + strlen(vary), sizeof(vary) - strlen(vary), "x%d, ", i);
    }
    strcat(vary, "x3");
    assert_true(gb_cache_control_vary_key(gb_http_text_of(vary), field_of, none, key, 256) > 0);
    strcat(vary, ", y");
    assert_int_equal(gb_cache_control_vary_key(gb_http_text_of(vary), field_of, none, key, 256),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directives__are_read),
        cmocka_unit_test(lines__add_up),
        cmocka_unit_test(ages__saturate_and_bad_ones_are_none),
        cmocka_unit_test(max_stale__may_go_without_a_number),
        cmocka_unit_test(an_age__is_one_number),
        cmocka_unit_test(what_is_cacheable_by_its_status__may_be_stored),
        cmocka_unit_test(any_other__must_say_so),
        cmocka_unit_test(no_store_and_private__forbid_it),
        cmocka_unit_test(must_understand__stands_above_no_store),
        cmocka_unit_test(an_authorized_answer__must_be_for_all),
        cmocka_unit_test(what_varies_by_everything__is_not_stored),
        cmocka_unit_test(a_lifetime__comes_from_the_first_that_is_there),
        cmocka_unit_test(expires__is_counted_from_the_date),
        cmocka_unit_test(a_guess__is_a_tenth_up_to_a_day),
        cmocka_unit_test(an_age__is_the_greatest_that_it_can_be),
        cmocka_unit_test(a_response__is_fresh_for_its_lifetime),
        cmocka_unit_test(no_cache__asks_first),
        cmocka_unit_test(a_client__may_want_it_younger),
        cmocka_unit_test(a_client__may_take_it_stale),
        cmocka_unit_test(while_it_is_validated__it_may_be_used),
        cmocka_unit_test(only_if_cached__never_asks),
        cmocka_unit_test(when_the_origin_fails__either_side_may_allow_it),
        cmocka_unit_test(a_key__holds_the_named_fields),
        cmocka_unit_test(what_cannot_be_matched__has_no_key),
        cmocka_unit_test(a_key__has_sixteen_names_at_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
