/* Command lines by table. */
#include "bench/flags.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct target {
    const char *text;
    uint64_t size;
    uint64_t rate;
    uint64_t count;
    double real;
    bool on;
    int custom;
};

static int take_custom(void *target, const char *text, struct goblin_error *error)
{
    if (strcmp(text, "good") != 0) {
        strcpy(error->text, "not good");
        return -EINVAL;
    }
    ((struct target *)target)->custom = 7;
    return 0;
}

#define AT(field) offsetof(struct target, field)

static const struct gb_flag flags[] = {
    {.name = "text", .kind = GB_FLAG_TEXT, .offset = AT(text), .value = "NAME", .help = "a name"},
    {.name = "size", .kind = GB_FLAG_SIZE, .offset = AT(size), .value = "SIZE", .help = "a size"},
    {.name = "rate", .kind = GB_FLAG_RATE, .offset = AT(rate), .value = "RATE", .help = "a rate"},
    {.name = "count",
     .kind = GB_FLAG_COUNT,
     .offset = AT(count),
     .least = 2,
     .most = 9,
     .value = "N",
     .help = "a count"},
    {.name = "real",
     .kind = GB_FLAG_REAL,
     .offset = AT(real),
     .most = 3,
     .value = "X",
     .help = "a number"},
    {.name = "on", .kind = GB_FLAG_SWITCH, .offset = AT(on), .help = "a switch"},
    {.name = "custom",
     .kind = GB_FLAG_CUSTOM,
     .value = "WORD",
     .take = take_custom,
     .help = "a word"},
    {.name = NULL},
};

static int parse(struct target *target, struct goblin_error *error, const char *a, const char *b)
{
    char *arguments[] = {(char *)"command", (char *)a, (char *)b, NULL};
    memset(target, 0, sizeof(*target));
    error->text[0] = '\0';
    return gb_flags_parse(flags, target, b ? 3 : 2, arguments, error);
}

static void flags_parse__fills_every_kind(void **state)
{
    (void)state;
    struct target target = {0};
    struct goblin_error error = {{0}};
    char *arguments[] = {(char *)"command", (char *)"--text=a b",
                         (char *)"--size",  (char *)"4K",
                         (char *)"--rate",  (char *)"937mbit",
                         (char *)"--count", (char *)"9",
                         (char *)"--real",  (char *)"0.5",
                         (char *)"--on",    (char *)"--custom",
                         (char *)"good",    NULL};
    assert_int_equal(gb_flags_parse(flags, &target, 13, arguments, &error), 0);
    assert_string_equal(target.text, "a b");
    assert_int_equal(target.size, 4096);
    assert_int_equal(target.rate, 937000000);
    assert_int_equal(target.count, 9);
    assert_true(target.real == 0.5);
    assert_true(target.on);
    assert_int_equal(target.custom, 7);
}

static void flags_parse__names_flag_and_limit_when_a_number_is_outside(void **state)
{
    (void)state;
    struct target target;
    struct goblin_error error;
    assert_int_equal(parse(&target, &error, "--count", "10"), -EINVAL);
    assert_non_null(strstr(error.text, "--count 10 is outside 2 to 9"));
    assert_int_equal(parse(&target, &error, "--real", "3.5"), -EINVAL);
    assert_non_null(strstr(error.text, "--real"));
    assert_int_equal(target.count, 0);
}

static void flags_parse__refuses_what_it_cannot_read(void **state)
{
    (void)state;
    struct target target;
    struct goblin_error error;
    static const char *const bad[][2] = {
        {"--size", "much"}, {"--rate", "fast"}, {"--text", ""},    {"--custom", "bad"},
        {"--count", "-1"},  {"--count", NULL},  {"--other", NULL}, {"bare", NULL},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(&target, &error, bad[i][0], bad[i][1]), -EINVAL);
        assert_non_null(strstr(error.text, bad[i][0]));
    }
    assert_int_equal(parse(&target, &error, "--custom", "bad"), -EINVAL);
    assert_string_equal(error.text, "--custom: not good");
}

static void flags_parse__asks_for_help(void **state)
{
    (void)state;
    struct target target;
    struct goblin_error error;
    assert_int_equal(parse(&target, &error, "--help", NULL), 1);
}

static void flags_command__repeats_what_was_typed_as_far_as_it_fits(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"study"}, (char[]){"--dir"}, (char[]){"x"}};
    char text[40];
    gb_flags_command(text, sizeof(text), 3, argv);
    assert_string_equal(text, "goblin-bench study --dir x");
    gb_flags_command(text, 20, 3, argv);
    assert_string_equal(text, "goblin-bench study ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_parse__fills_every_kind),
        cmocka_unit_test(flags_parse__names_flag_and_limit_when_a_number_is_outside),
        cmocka_unit_test(flags_parse__refuses_what_it_cannot_read),
        cmocka_unit_test(flags_parse__asks_for_help),
        cmocka_unit_test(flags_command__repeats_what_was_typed_as_far_as_it_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
