/* Option tables: what they accept, what they refuse and how they say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/options.h"

struct settings {
    bool quick;
    const char *name;
    uint64_t size_bytes;
    int64_t ttl_ms;
    uint64_t count;
    int mode;
};

static const struct gb_option table[] = {
    {.name = "quick",
     .letter = 'q',
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct settings, quick),
     .help = "hurry"},
    {.name = "name",
     .letter = 'n',
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct settings, name),
     .value = "NAME",
     .help = "what it is called"},
    {.name = "size",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct settings, size_bytes),
     .value = "SIZE",
     .least = 4096,
     .most = 1 << 30,
     .help = "how large"},
    {.name = "ttl",
     .kind = GB_OPTION_DURATION,
     .offset = offsetof(struct settings, ttl_ms),
     .value = "TIME",
     .least = 1,
     .help = "how long"},
    {.name = "count",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct settings, count),
     .value = "N",
     .most = 64,
     .help = "how many"},
    {.name = "mode",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct settings, mode),
     .value = "cache|store|storeroom",
     .help = "which way"},
    {0},
};

enum { ARGUMENTS_MAX = 16 };

/* Parses the words of `line`; getopt_long moves them about, so they are copied. */
static int parse(struct settings *settings, const char *line, bool stop_at_operand,
                 struct goblin_error *error)
{
    static char words[512]; /* the settings point into it */
    char *argv[ARGUMENTS_MAX] = {(char *)"verb"};
    int argc = 1;
    *settings = (struct settings){.mode = 1};
    *error = (struct goblin_error){{0}};
    (void)snprintf(words, sizeof(words), "%s", line);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    const struct gb_option_group groups[] = {{"Options", table, settings}};
    return gb_options_parse(groups, 1, argc, argv, stop_at_operand, error);
}

static void parse__fills_every_kind_of_member(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    int first = parse(&settings, "--quick --name x --size 1.5M --ttl 90s --count 7 --mode store",
                      false, &error);
    assert_int_equal(first, 12);
    assert_true(settings.quick);
    assert_string_equal(settings.name, "x");
    assert_int_equal(settings.size_bytes, 1536 * 1024);
    assert_int_equal(settings.ttl_ms, 90000);
    assert_int_equal(settings.count, 7);
    assert_int_equal(settings.mode, 1);
}

static void parse__takes_letters_and_joined_values(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_int_equal(parse(&settings, "-qnabc --size=8K", false, &error), 3);
    assert_true(settings.quick);
    assert_string_equal(settings.name, "abc");
    assert_int_equal(settings.size_bytes, 8192);
}

static void parse__leaves_defaults_alone(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_int_equal(parse(&settings, "", false, &error), 1);
    assert_int_equal(settings.mode, 1);
    assert_false(settings.quick);
}

static void parse__moves_operands_behind_options(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_int_equal(parse(&settings, "dir --quick - key", false, &error), 2);
    assert_true(settings.quick);
}

static void parse__stops_at_the_verb_when_asked(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_int_equal(parse(&settings, "--count 3 get --quick", true, &error), 3);
    assert_int_equal(settings.count, 3);
    assert_false(settings.quick);
}

static void parse__takes_everything_after_two_dashes_as_operands(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_int_equal(parse(&settings, "-- --quick", false, &error), 2);
    assert_false(settings.quick);
}

static void parse__tells_similar_choices_apart(void **state)
{
    (void)state;
    struct settings settings;
    struct goblin_error error;
    assert_true(parse(&settings, "--mode storeroom", false, &error) > 0);
    assert_int_equal(settings.mode, 2);
    assert_int_equal(parse(&settings, "--mode stor", false, &error), GOBLIN_EOPTION);
    assert_int_equal(settings.mode, 1);
}

static void parse__names_option_limit_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *text;
    } cases[] = {
        {"--size 1K", "--size 1K: at least 4K"},
        {"--size 2G", "--size 2G: at most 1G"},
        {"--size big", "--size big: give a size such as 64M or 1.5G"},
        {"--size 99999999999P", "--size 99999999999P: too large"},
        {"--size -4K", "--size -4K: give a size such as 64M or 1.5G"},
        {"--ttl 10", "--ttl 10: give a duration such as 500ms, 30s or 1h"},
        {"--ttl 10us", "--ttl 10us: at least 1 ms"},
        {"--count 65", "--count 65: at most 64"},
        {"--count many", "--count many: give a whole number"},
        {"--mode fast", "--mode fast: give one of cache|store|storeroom"},
        {"--name", "--name needs a value: NAME"},
        {"-n", "--name needs a value: NAME"},
        {"--quick=yes", "--quick takes no value"},
        {"--nonsense", "--nonsense: no such option, or not a unique one"},
        {"-x", "-x: no such option"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings;
        struct goblin_error error;
        assert_int_equal(parse(&settings, cases[i].line, false, &error), GOBLIN_EOPTION);
        assert_string_equal(error.text, cases[i].text);
    }
}

static void print__shows_every_row_once(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    const struct gb_option_group groups[] = {{"Options", table, NULL}};
    gb_options_print(out, groups, 1);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "\nOptions:\n"
                              "  -q, --quick                 hurry\n"
                              "  -n, --name NAME             what it is called\n"
                              "      --size SIZE             how large\n"
                              "      --ttl TIME              how long\n"
                              "      --count N               how many\n"
                              "      --mode cache|store|storeroom\n"
                              "                              which way\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__fills_every_kind_of_member),
        cmocka_unit_test(parse__takes_letters_and_joined_values),
        cmocka_unit_test(parse__leaves_defaults_alone),
        cmocka_unit_test(parse__moves_operands_behind_options),
        cmocka_unit_test(parse__stops_at_the_verb_when_asked),
        cmocka_unit_test(parse__takes_everything_after_two_dashes_as_operands),
        cmocka_unit_test(parse__tells_similar_choices_apart),
        cmocka_unit_test(parse__names_option_limit_and_remedy),
        cmocka_unit_test(print__shows_every_row_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
