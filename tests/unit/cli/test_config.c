/* Options from files and the environment: which source wins, and how a mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/config.h"

struct settings {
    bool quick;
    const char *name;
    uint64_t size_bytes;
    struct gb_option_list list;
};

static const struct gb_option table[] = {
    {.name = "quick", .kind = GB_OPTION_FLAG, .offset = offsetof(struct settings, quick)},
    {.name = "part-name",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct settings, name),
     .value = "NAME"},
    {.name = "size",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct settings, size_bytes),
     .value = "SIZE",
     .most = 1 << 30},
    {.name = "list",
     .kind = GB_OPTION_LIST,
     .offset = offsetof(struct settings, list),
     .value = "ITEM"},
    {0},
};

struct fixture {
    char file[64];
    struct settings settings;
    struct gb_config config;
    struct goblin_error error;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL) {
        return -1;
    }
    (void)snprintf(fixture->file, sizeof(fixture->file), "/tmp/goblin-config-XXXXXX");
    int fd = mkstemp(fixture->file);
    if (fd < 0) {
        free(fixture);
        return -1;
    }
    (void)close(fd);
    fixture->config.file = fixture->file;
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    (void)unlink(fixture->file);
    (void)unsetenv("GOBLIN_SIZE");
    (void)unsetenv("GOBLIN_LIST");
    (void)unsetenv("GOBLIN_QUICK");
    gb_config_free(&fixture->config);
    free(fixture);
    return 0;
}

static void write_file(const struct fixture *fixture, const char *text)
{
    FILE *file = fopen(fixture->file, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int load(struct fixture *fixture)
{
    const struct gb_option_group group = {"", table, &fixture->settings};
    return gb_config_load(&fixture->config, &group, 1, &fixture->error);
}

static void file__names_options_with_and_without_sections(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "# a comment\nsize = 64K\nquick = yes\n\n[part]\nname = a b\nlist = one\n"
                        "list = two\n");
    assert_int_equal(load(fixture), GOBLIN_OK);
    assert_int_equal(fixture->settings.size_bytes, 65536);
    assert_true(fixture->settings.quick);
    assert_string_equal(fixture->settings.name, "a b");
    assert_int_equal(fixture->settings.list.count, 2);
    assert_string_equal(fixture->settings.list.items[1], "two");
}

static void environment__overrides_the_file(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "size = 64K\nquick = yes\nlist = one\nlist = two\n");
    assert_int_equal(setenv("GOBLIN_SIZE", "1M", 1), 0);
    assert_int_equal(setenv("GOBLIN_LIST", "three", 1), 0);
    assert_int_equal(setenv("GOBLIN_QUICK", "no", 1), 0);
    assert_int_equal(load(fixture), GOBLIN_OK);
    assert_int_equal(fixture->settings.size_bytes, 1 << 20);
    assert_false(fixture->settings.quick);
    assert_int_equal(fixture->settings.list.count, 1);
    assert_string_equal(fixture->settings.list.items[0], "three");
}

static void command_line__overrides_both(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "size = 64K\nlist = one\n");
    assert_int_equal(setenv("GOBLIN_LIST", "two,three", 1), 0);
    assert_int_equal(load(fixture), GOBLIN_OK);
    assert_int_equal(fixture->settings.list.count, 2);
    const struct gb_option_group group = {"", table, &fixture->settings};
    char *argv[] = {"verb", "--size", "2M", "--list", "four", "--list", "five", NULL};
    assert_int_equal(gb_options_parse(&group, 1, 7, argv, false, &fixture->error), 7);
    assert_int_equal(fixture->settings.size_bytes, 2 << 20);
    assert_int_equal(fixture->settings.list.count, 2);
    assert_string_equal(fixture->settings.list.items[0], "four");
}

/* As for a verb with a configuration: for --config first, and again when that has been read. */
static void command_line__that_is_read_twice_does_not_double_its_lists(void **state)
{
    struct fixture *fixture = *state;
    const struct gb_option_group group = {"", table, &fixture->settings};
    char *argv[] = {"verb", "--list", "four", "--list", "five", NULL};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gb_options_parse(&group, 1, 5, argv, false, &fixture->error), 5);
    }
    assert_int_equal(fixture->settings.list.count, 2);
    assert_string_equal(fixture->settings.list.items[1], "five");
}

static void expect_fault(struct fixture *fixture, const char *text, const char *said)
{
    write_file(fixture, text);
    assert_int_equal(load(fixture), GOBLIN_EOPTION);
    if (strstr(fixture->error.text, said) == NULL) {
        fail_msg("'%s' does not say '%s'", fixture->error.text, said);
    }
}

static void mistakes__are_told_with_file_and_line(void **state)
{
    struct fixture *fixture = *state;
    char line[300];
    (void)snprintf(line, sizeof(line), "\nsize = %0250d\n", 1);
    expect_fault(fixture, "size = 1\n\nsize = big\n", ":3: --size big: give a size");
    expect_fault(fixture, "size = 2G\n", ":1: --size 2G: at most 1G");
    expect_fault(fixture, "[part]\nnone = 1\n", ":2: none: no such option");
    expect_fault(fixture, "size\n", ":1: neither a [section] nor NAME = VALUE");
    expect_fault(fixture, "quick = perhaps\n", ":1: --quick perhaps: give yes or no");
    expect_fault(fixture, line, "too long");
    assert_int_equal(setenv("GOBLIN_SIZE", "much", 1), 0);
    expect_fault(fixture, "", "GOBLIN_SIZE: --size much: give a size");
}

static void a_missing_file__is_a_fault(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.file = "/nonexistent/goblin.ini";
    assert_int_equal(load(fixture), GOBLIN_EOPTION);
    assert_non_null(strstr(fixture->error.text, "/nonexistent/goblin.ini: No such file"));
}

static void list__has_an_end(void **state)
{
    struct fixture *fixture = *state;
    char text[512] = "";
    for (unsigned i = 0; i <= GB_OPTION_LIST_MAX; i++) {
        (void)strcat(text, "list = item\n");
    }
    expect_fault(fixture, text, ":17: --list item: at most 16 of them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file__names_options_with_and_without_sections, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(environment__overrides_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(command_line__overrides_both, setup, teardown),
        cmocka_unit_test_setup_teardown(command_line__that_is_read_twice_does_not_double_its_lists,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes__are_told_with_file_and_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_file__is_a_fault, setup, teardown),
        cmocka_unit_test_setup_teardown(list__has_an_end, setup, teardown),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
