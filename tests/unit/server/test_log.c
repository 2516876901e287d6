/* Logs: one line per event whatever it contains, in both formats, and reopened in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/log.h"
#include "server/loop.h"

struct fixture {
    char file[64];
    char moved[72];
    char access[72];
    struct gb_log *log;
    struct gb_log_options options;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL) {
        return -1;
    }
    (void)snprintf(fixture->file, sizeof(fixture->file), "/tmp/goblin-log-XXXXXX");
    int fd = mkstemp(fixture->file);
    if (fd < 0) {
        free(fixture);
        return -1;
    }
    (void)close(fd);
    (void)snprintf(fixture->moved, sizeof(fixture->moved), "%s.1", fixture->file);
    (void)snprintf(fixture->access, sizeof(fixture->access), "%s.access", fixture->file);
    fixture->options = (struct gb_log_options){.file = fixture->file, .level = GOBLIN_LOG_INFO};
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    gb_log_close(fixture->log);
    (void)unlink(fixture->file);
    (void)unlink(fixture->moved);
    (void)unlink(fixture->access);
    free(fixture);
    return 0;
}

static void open_log(struct fixture *fixture)
{
    struct goblin_error error;
    assert_int_equal(gb_log_open(&fixture->log, &fixture->options, &error), GOBLIN_OK);
}

static char *contents(const char *name)
{
    static char text[16384];
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    return text;
}

static void log_one(struct fixture *fixture)
{
    const struct gb_log_field fields[] = {
        GB_LOG_TEXT("plain", "word"),
        GB_LOG_TEXT("odd", "a \"b\"\n\\c"),
        GB_LOG_NUMBER("n", 42),
    };
    gb_log_event(fixture->log, GOBLIN_LOG_WARN, "something", fields, 3);
}

static void text__quotes_what_would_break_a_line(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture);
    log_one(fixture);
    const char *text = contents(fixture->file);
    assert_non_null(strstr(text, "Z warning something plain=word "
                                 "odd=\"a \\x22b\\x22\\x0a\\x5cc\" n=42\n"));
}

static void json__is_an_object_per_line(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.format = GB_LOG_FORMAT_JSON;
    open_log(fixture);
    log_one(fixture);
    const char *text = contents(fixture->file);
    assert_int_equal(strncmp(text, "{\"time\":\"", 9), 0);
    assert_non_null(strstr(text, "\"level\":\"warning\",\"event\":\"something\",\"plain\":\"word\","
                                 "\"odd\":\"a \\u0022b\\u0022\\u000a\\u005cc\",\"n\":42}\n"));
}

static void level__keeps_the_rest_out(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.level = GOBLIN_LOG_ERROR;
    open_log(fixture);
    log_one(fixture);
    assert_string_equal(contents(fixture->file), "");
}

static void a_long_field__is_cut_and_the_line_ends(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture);
    char *value = malloc(100001);
    assert_non_null(value);
    memset(value, 'x', 100000);
    value[100000] = '\0';
    const struct gb_log_field field[] = {GB_LOG_TEXT("long", value)};
    gb_log_event(fixture->log, GOBLIN_LOG_INFO, "event", field, 1);
    const char *text = contents(fixture->file);
    assert_in_range(strlen(text), 4000, 8192);
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(value);
}

static void reopen__goes_on_in_a_new_file(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture);
    gb_log_event(fixture->log, GOBLIN_LOG_INFO, "first", NULL, 0);
    assert_int_equal(rename(fixture->file, fixture->moved), 0);
    gb_log_event(fixture->log, GOBLIN_LOG_INFO, "second", NULL, 0);
    gb_log_reopen(fixture->log);
    gb_log_event(fixture->log, GOBLIN_LOG_INFO, "third", NULL, 0);
    assert_non_null(strstr(contents(fixture->moved), "second"));
    assert_null(strstr(contents(fixture->moved), "third"));
    assert_non_null(strstr(contents(fixture->file), "third"));
}

static void accesses__are_gathered_and_slow_ones_told(void **state)
{
    struct fixture *fixture = *state;
    struct gb_limits limits = {.set.network_bytes = 1 << 20};
    struct gb_metrics metrics = {0};
    struct gb_loop loop = {.limits = &limits, .metrics = &metrics};
    fixture->options.access_file = fixture->access;
    fixture->options.slow_ms = 5;
    open_log(fixture);
    loop.log = fixture->log;
    struct gb_log_access access = {
        .protocol = "line",
        .peer = "unix",
        .command = "get",
        .status = "HIT",
        .key = GOBLIN_LITERAL("a key"),
        .bytes_out = 7,
        .tier = GB_METRICS_TIER_disk,
        .duration_ns = 4000000,
    };
    assert_true(gb_log_wants_access(fixture->log, 0));
    gb_log_access(&loop, &access);
    assert_string_equal(contents(fixture->access), "");
    access.duration_ns = 6000000;
    gb_log_access(&loop, &access);
    gb_log_flush(&loop);
    const char *text = contents(fixture->access);
    assert_non_null(strstr(text, " info access protocol=line peer=unix command=get "
                                 "key=\"a key\" status=HIT bytes_out=7 tier=disk us=4000\n"));
    assert_non_null(strstr(contents(fixture->file), " warning slow protocol=line "));
    assert_int_equal(atomic_load(&metrics.counters[GB_METRICS_slow_requests]), 1);
    gb_log_drop_buffer(&loop);
    assert_int_equal(atomic_load(&limits.used_bytes), 0);
}

static void a_file_that_cannot_be_opened__is_named(void **state)
{
    struct fixture *fixture = *state;
    struct goblin_error error;
    fixture->options.access_file = "/nonexistent/access.log";
    assert_int_equal(gb_log_open(&fixture->log, &fixture->options, &error), -2);
    assert_non_null(strstr(error.text, "/nonexistent/access.log"));
    fixture->log = NULL;
}

int main(void)
{
#define WITH_LOG(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_LOG(text__quotes_what_would_break_a_line),
        WITH_LOG(json__is_an_object_per_line),
        WITH_LOG(level__keeps_the_rest_out),
        WITH_LOG(a_long_field__is_cut_and_the_line_ends),
        WITH_LOG(reopen__goes_on_in_a_new_file),
        WITH_LOG(accesses__are_gathered_and_slow_ones_told),
        WITH_LOG(a_file_that_cannot_be_opened__is_named),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
