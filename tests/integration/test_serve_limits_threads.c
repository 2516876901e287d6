/* What slow, silent and numerous clients can do to the server, and how it ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "lib/serve.h"
#include "server/conn.h"
#include "server/loop_internal.h"

#define BIG_BYTES 8000000u

/* A client with a small receive buffer that has asked for the big object and reads nothing. */
static int open_slow(struct gb_serve *serve, const char *command)
{
    int fd = gb_client_open(serve);
    gb_client_say(fd, command);
    return fd;
}

static void store_big(struct gb_serve *serve)
{
    int fd = gb_client_open(serve);
    gb_client_set(fd, "big", BIG_BYTES, 1);
    gb_client_expect(fd, "OK\n");
    gb_client_set(fd, "other", 3000000, 2);
    gb_client_expect(fd, "OK\n");
    (void)close(fd);
}

/* ---- slow readers -------------------------------------------------------------------------- */

static void slow_readers__leave_the_buffers_to_others(void **state)
{
    struct gb_serve *serve = *state;
    enum { SLOW = 12 };
    int slow[SLOW];
    serve->options.threads = 1;
    serve->options.clock = NULL;
    gb_serve_start(serve);
    store_big(serve);
    for (unsigned i = 0; i < SLOW; i++) {
        slow[i] = open_slow(serve, "get big\necho end\n");
    }
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > SLOW * 1000);
    int fd = gb_client_open(serve);
    for (unsigned i = 0; i < 40; i++) {
        gb_client_get(fd, "other", 3000000, 2);
    }
    assert_true(gb_serve_counter(serve, GB_METRICS_holds_copied) +
                    gb_serve_counter(serve, GB_METRICS_holds_dropped) >
                0);
    assert_true(gb_serve_gauges(serve).network_bytes <= 8 * GB_MIB);
    for (unsigned i = 0; i < SLOW; i++) {
        gb_client_expect_value(slow[i], BIG_BYTES, 1, 0); /* every byte, where it went on */
        gb_client_expect(slow[i], "end\n");
        (void)close(slow[i]);
    }
    assert_true(gb_serve_counter(serve, GB_METRICS_sends_resumed) > 0);
    (void)close(fd);
    gb_await(gb_serve_gauges(serve).connections == 0);
}

static void a_slow_reader__whose_object_changes_is_closed(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 1;
    gb_serve_start(serve);
    store_big(serve);
    int slow = open_slow(serve, "get big\n");
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > 1000);
    gb_await(
        (gb_serve_advance(serve, 100), gb_serve_counter(serve, GB_METRICS_holds_copied) +
                                               gb_serve_counter(serve, GB_METRICS_holds_dropped) >
                                           0));
    int fd = gb_client_open(serve);
    gb_client_set(fd, "big", 5, 3);
    gb_client_expect(fd, "OK\n");
    char *bytes = malloc(65536);
    assert_non_null(bytes);
    ssize_t n = 1;
    size_t total = 0;
    while (n > 0) {
        n = TEMP_FAILURE_RETRY(recv(slow, bytes, 65536, 0));
        total += n > 0 ? (size_t)n : 0;
    }
    free(bytes);
    assert_true(total < BIG_BYTES);
    assert_int_equal(gb_serve_ended(serve, GB_CONN_END_changed), 1);
    (void)close(slow);
    (void)close(fd);
}

static void a_reader_that_stalls__is_cut(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.stall_ms = 5000;
    gb_serve_start(serve);
    store_big(serve);
    int slow = open_slow(serve, "get big\n");
    int spam = open_slow(serve, "spam 50000000\n");
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > 10000);
    gb_await((gb_serve_advance(serve, 500), gb_serve_ended(serve, GB_CONN_END_stalled) == 2));
    gb_await(gb_serve_gauges(serve).connections == 0);
    (void)close(slow);
    (void)close(spam);
}

/* ---- silent ones --------------------------------------------------------------------------- */

static void an_idle_connection__is_told_and_closed(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.idle_ms = 30000;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "echo a\n");
    gb_client_expect(fd, "a\n");
    gb_serve_advance(serve, 20000);
    gb_client_say(fd, "echo b\n");
    gb_client_expect(fd, "b\n");
    gb_await((gb_serve_advance(serve, 1000), gb_serve_ended(serve, GB_CONN_END_idle) == 1));
    gb_client_expect(fd, "BYE idle\n");
    gb_client_expect_end(fd);
    (void)close(fd);
}

static void half_a_request__is_waited_for_only_so_long(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.request_ms = 3000;
    gb_serve_start(serve);
    int line = gb_client_open(serve);
    int value = gb_client_open(serve);
    int upload = gb_client_open(serve);
    gb_client_say(line, "echo half a li");
    gb_client_say(value, "set k 1000\nhalf a value");
    gb_client_say(upload, "set k 9000000\nthe beginning");
    gb_await((gb_serve_advance(serve, 500), gb_serve_ended(serve, GB_CONN_END_request) == 3));
    gb_client_expect(line, "BYE request\n");
    gb_client_expect_end(line);
    gb_await(gb_serve_gauges(serve).connections == 0);
    gb_await(gb_serve_gauges(serve).streams == 0);
    (void)close(line);
    (void)close(value);
    (void)close(upload);
}

static void a_waiting_command__is_not_held_against_the_client(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.idle_ms = 1000;
    serve->options.limits.request_ms = 1000;
    gb_line_sleep();
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    int idle = gb_client_open(serve);
    gb_client_say(fd, "sleep\necho half a li");
    gb_await(gb_serve_gauges(serve).workers - gb_serve_gauges(serve).workers_idle == 1);
    for (unsigned i = 0; i < 20; i++) {
        gb_serve_advance(serve, 500);
        gb_await_step(0, "");
    }
    gb_await((gb_serve_advance(serve, 100), gb_serve_ended(serve, GB_CONN_END_idle) == 1));
    gb_line_awake();
    gb_client_expect(fd, "AWAKE\n");
    gb_client_say(fd, "ne\n");
    gb_client_expect(fd, "half a line\n");
    (void)close(fd);
    (void)close(idle);
}

/* ---- many ---------------------------------------------------------------------------------- */

static void connections__beyond_the_limit_wait(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.connections = 2;
    gb_serve_start(serve);
    int a = gb_client_open(serve);
    int b = gb_client_open(serve);
    gb_client_say(a, "echo a\n");
    gb_client_expect(a, "a\n");
    gb_client_say(b, "echo b\n");
    gb_client_expect(b, "b\n");
    int c = gb_client_open(serve); /* the kernel's doing */
    gb_client_say(c, "echo c\n");
    gb_await((gb_serve_advance(serve, 100), gb_serve_counter(serve, GB_METRICS_accept_stops) > 0));
    assert_int_equal(gb_serve_gauges(serve).connections, 2);
    (void)close(a);
    gb_await((gb_serve_advance(serve, 100), gb_serve_counter(serve, GB_METRICS_accepted) == 3));
    gb_client_expect(c, "c\n");
    (void)close(b);
    (void)close(c);
}

static void connections__are_spread_evenly(void **state)
{
    struct gb_serve *serve = *state;
    enum { LOOPS = 4, CLIENTS = 40 };
    int fds[CLIENTS];
    serve->options.threads = LOOPS;
    gb_serve_start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
        gb_client_say(fds[i], "echo a\n");
        gb_client_expect(fds[i], "a\n");
    }
    for (unsigned i = 0; i < LOOPS; i++) {
        const struct gb_loop *loop = gb_server_loop(serve->server, i);
        gb_await(atomic_load(&loop->internal->load) == CLIENTS / LOOPS);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
}

static void half_finished_connections__cost_little_and_leave_nothing(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 400 };
    static int fds[CLIENTS];
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "echo a\n");
    gb_client_expect(fd, "a\n");
    (void)close(fd);
    gb_await(gb_serve_gauges(serve).connections == 0);
    uint64_t before = gb_serve_gauges(serve).network_bytes;
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
        gb_client_say(fds[i], i % 2 == 0 ? "get half" : "set k 100\nhalf");
    }
    gb_await(gb_serve_gauges(serve).connections == CLIENTS);
    assert_true(gb_serve_gauges(serve).network_bytes - before < CLIENTS * 4096);
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
    gb_await(gb_serve_gauges(serve).connections == 0);
    gb_await(gb_serve_gauges(serve).network_bytes <= before + 65536);
}

static void silent_connections__leave_the_others_room_to_speak(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 900 };
    static int fds[CLIENTS];
    serve->options.limits.network_bytes = GB_MIB;
    gb_serve_start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve); /* most wait in the kernel's queue */
    }
    gb_await((gb_serve_advance(serve, 50), gb_serve_counter(serve, GB_METRICS_accept_stops) > 10));
    assert_true(gb_serve_gauges(serve).connections < CLIENTS);
    gb_client_say(fds[0], "set k 5\nhelloget k\n");
    gb_client_expect(fds[0], "OK\nVALUE 5\nhello\n");
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
    gb_await(
        (gb_serve_advance(serve, 50), gb_serve_counter(serve, GB_METRICS_accepted) == CLIENTS));
    gb_await(gb_serve_gauges(serve).connections == 0);
}

static void values__wait_for_the_budget_and_are_all_stored(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 60, SIZE = 60000 };
    static int fds[CLIENTS];
    serve->options.limits.network_bytes = GB_MIB;
    serve->options.clock = NULL; /* accepting is tried again after a while */
    gb_serve_start(serve);
    char *value = malloc(SIZE);
    assert_non_null(value);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char line[64];
        fds[i] = gb_client_open(serve);
        (void)snprintf(line, sizeof(line), "set k%u %d\n", i, SIZE);
        gb_pattern_fill(value, SIZE, i, 0);
        gb_client_say(fds[i], line);
        gb_client_send(fds[i], value, 1000);
    }
    gb_await(gb_serve_counter(serve, GB_METRICS_waits_bytes) +
                 gb_serve_counter(serve, GB_METRICS_accept_stops) >
             0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        gb_pattern_fill(value, SIZE, i, 0);
        gb_client_send(fds[i], value + 1000, SIZE - 1000);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%u", i);
        gb_client_expect(fds[i], "OK\n");
        gb_client_get(fds[i], key, SIZE, i);
        assert_true(gb_serve_gauges(serve).network_bytes < 2 * GB_MIB);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
    free(value);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void drain__finishes_what_has_begun(void **state)
{
    struct gb_serve *serve = *state;
    gb_line_sleep();
    gb_serve_start(serve);
    store_big(serve);
    int idle = gb_client_open(serve);
    int busy = gb_client_open(serve);
    int reader = open_slow(serve, "get big\n");
    gb_client_say(idle, "echo a\n");
    gb_client_expect(idle, "a\n");
    gb_client_say(busy, "sleep\n");
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > 1000);
    gb_await(gb_serve_gauges(serve).workers - gb_serve_gauges(serve).workers_idle == 1);
    assert_true(gb_server_ready(serve->server));
    gb_server_drain(serve->server);
    assert_false(gb_server_ready(serve->server));
    gb_client_expect(idle, "BYE\n");
    gb_client_expect_end(idle);
    gb_line_awake();
    gb_client_expect(busy, "AWAKE\nBYE\n");
    gb_client_expect_end(busy);
    gb_client_expect_value(reader, BIG_BYTES, 1, 0);
    gb_client_expect(reader, "BYE\n");
    gb_client_expect_end(reader);
    gb_serve_stop(serve);
    (void)close(idle);
    (void)close(busy);
    (void)close(reader);
}

static void stop__cuts_what_does_not_end(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.drain_ms = 1;
    gb_serve_start(serve);
    store_big(serve);
    int reader = open_slow(serve, "get big\n");
    int upload = open_slow(serve, "set k 9000000\nthe beginning");
    int spam = open_slow(serve, "spam 50000000\n");
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > 10000);
    gb_await(gb_serve_gauges(serve).streams == 1);
    gb_serve_stop(serve);
    (void)close(reader);
    (void)close(upload);
    (void)close(spam);
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void addresses__of_every_kind_are_served(void **state)
{
    struct gb_serve *serve = *state;
    char port_file[400];
    (void)snprintf(port_file, sizeof(port_file), "%s/ports", serve->root);
    serve->options.port_file = port_file;
    serve->options.listen[1] =
        (struct gb_server_listen){.protocol = &gb_line_protocol, .address = serve->unix_path};
    serve->options.listen[2] =
        (struct gb_server_listen){.protocol = &gb_line_protocol, .address = "[::1]:0"};
    serve->options.listen_count = 3;
    gb_serve_start(serve);
    for (size_t i = 0; i < gb_server_listener_count(serve->server); i++) {
        const char *address = gb_server_listener(serve->server, i)->address;
        for (unsigned j = 0; j < 4; j++) {
            int fd = gb_client_open_at(address);
            gb_client_say(fd, "echo a\n");
            gb_client_expect(fd, "a\n");
            (void)close(fd);
        }
    }
    struct stat status;
    assert_int_equal(stat(serve->unix_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    FILE *file = fopen(port_file, "r");
    char line[256];
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_true(strncmp(line, "line 127.0.0.1:", 15) == 0);
    (void)fclose(file);
    gb_serve_stop(serve);
    assert_int_equal(stat(serve->unix_path, &status), -1);
}

static void an_address__that_is_taken_is_refused(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    struct gb_server_options options = serve->options;
    char other[320];
    const char *dirs[] = {other};
    struct gb_server *server = NULL;
    struct goblin_error error;
    (void)snprintf(other, sizeof(other), "%s/other", serve->root);
    options.store.dirs = dirs;
    options.listen[0].address = gb_server_listener(serve->server, 0)->address;
    assert_int_equal(gb_server_start(&server, &options, &error), -EADDRINUSE);
    assert_non_null(strstr(error.text, "in use"));
    assert_int_equal(access(other, F_OK), -1); /* no store was made */
}

int main(void)
{
#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, gb_serve_setup, gb_serve_teardown)
    const struct CMUnitTest tests[] = {
        ON_SERVER(slow_readers__leave_the_buffers_to_others),
        ON_SERVER(a_slow_reader__whose_object_changes_is_closed),
        ON_SERVER(a_reader_that_stalls__is_cut),
        ON_SERVER(an_idle_connection__is_told_and_closed),
        ON_SERVER(half_a_request__is_waited_for_only_so_long),
        ON_SERVER(a_waiting_command__is_not_held_against_the_client),
        ON_SERVER(connections__beyond_the_limit_wait),
        ON_SERVER(connections__are_spread_evenly),
        ON_SERVER(half_finished_connections__cost_little_and_leave_nothing),
        ON_SERVER(silent_connections__leave_the_others_room_to_speak),
        ON_SERVER(values__wait_for_the_budget_and_are_all_stored),
        ON_SERVER(drain__finishes_what_has_begun),
        ON_SERVER(stop__cuts_what_does_not_end),
        ON_SERVER(addresses__of_every_kind_are_served),
        ON_SERVER(an_address__that_is_taken_is_refused),
    };
    return cmocka_run_group_tests_name("serve_limits", tests, NULL, NULL);
}
