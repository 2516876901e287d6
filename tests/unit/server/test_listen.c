/* Addresses: what is one, what is not, and what is said of it; and sockets at them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/listen.h"

static const struct gb_listen_options how = {.sockets = 2, .backlog = 16, .unix_mode = 0750};

static void check__takes_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {
        "127.0.0.1:11211", ":80", "[::1]:0", "[::]:65535", "localhost:1", "/run/x.sock", "unix:x",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(gb_listen_check(good[i], NULL), GOBLIN_OK);
    }
}

static void check__refuses_others_in_words(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"localhost", "give HOST:PORT"}, {"127.0.0.1:", "give HOST:PORT"},
        {"a:65536", "give HOST:PORT"},   {"a:-1", "give HOST:PORT"},
        {"a:1x", "give HOST:PORT"},      {"::1:80", "[brackets]"},
        {"unix:", "1 to 107 bytes"},     {"", "give HOST:PORT"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct goblin_error error;
        assert_int_equal(gb_listen_check(bad[i][0], &error), GOBLIN_EOPTION);
        assert_non_null(strstr(error.text, bad[i][1]));
    }
    char path[200];
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[199] = '\0';
    assert_int_equal(gb_listen_check(path, NULL), GOBLIN_EOPTION);
}

static void open__gives_all_sockets_of_a_place_one_port(void **state)
{
    (void)state;
    struct gb_listen_place places[GB_LISTEN_PLACES_MAX];
    struct gb_listen_place others[GB_LISTEN_PLACES_MAX];
    struct goblin_error error;
    assert_int_equal(gb_listen_open(places, "127.0.0.1:0", &how, &error), 1);
    assert_int_equal(places[0].fd_count, 2);
    assert_int_equal(strncmp(places[0].address, "127.0.0.1:", 10), 0);
    assert_string_not_equal(places[0].address, "127.0.0.1:0");
    assert_int_equal(gb_listen_open(others, places[0].address, &how, &error), -EADDRINUSE);
    assert_non_null(strstr(error.text, places[0].address));
    gb_listen_close(&places[0]);
}

static void unix_socket__replaces_one_that_is_left_over(void **state)
{
    (void)state;
    char dir[] = "/tmp/goblin-listen-XXXXXX";
    char path[64];
    struct gb_listen_place places[GB_LISTEN_PLACES_MAX];
    struct gb_listen_place others[GB_LISTEN_PLACES_MAX];
    struct goblin_error error;
    struct stat status;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/socket", dir);
    assert_int_equal(gb_listen_open(places, path, &how, &error), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0750);
    assert_int_equal(gb_listen_open(others, path, &how, &error), -EADDRINUSE); /* it is alive */
    gb_listen_close(&places[0]);
    assert_int_equal(gb_listen_open(places, path, &how, &error), 1); /* it is not any more */
    gb_listen_close(&places[0]);
    gb_listen_remove(path);
    FILE *file = fopen(path, "w"); /* not ours to remove */
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(gb_listen_open(places, path, &how, &error), -EADDRINUSE);
    assert_int_equal(stat(path, &status), 0);
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__takes_addresses),
        cmocka_unit_test(check__refuses_others_in_words),
        cmocka_unit_test(open__gives_all_sockets_of_a_place_one_port),
        cmocka_unit_test(unix_socket__replaces_one_that_is_left_over),
    };
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
