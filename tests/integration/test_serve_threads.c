/* The server's core over the tests' own protocol: commands and objects in order, uploads, edits,
 * and connections that end in every way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "lib/serve.h"
#include "server/conn.h"

/* ---- commands ------------------------------------------------------------------------------ */

static void commands__are_answered_in_order(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "echo a\nget k\nset k 5\nhelloecho b\nget k\ndel k\nget k\necho c\n");
    gb_client_expect(fd, "a\nMISS\nOK\nb\nVALUE 5\nhello\nOK\nMISS\nc\n");
    (void)close(fd);
}

static void commands__may_be_cut_anywhere(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    const char *text = "echo a\nset k 11\nhello worldget k\necho b\nget k 6 5\n";
    for (size_t i = 0; i < strlen(text); i++) {
        gb_client_send(fd, text + i, 1);
    }
    gb_client_expect(fd, "a\nOK\nVALUE 11\nhello world\nb\nVALUE 5\nworld\n");
    (void)close(fd);
}

static void commands__before_the_end_of_the_stream_are_answered(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "set k 5\nhelloadd n 7\nget k\necho part of a line");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    gb_client_expect(fd, "OK\n7\nVALUE 5\nhello\n");
    gb_client_expect_end(fd);
    (void)close(fd);
}

static void commands__behind_a_waiting_one_wait(void **state)
{
    struct gb_serve *serve = *state;
    gb_line_sleep();
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    int other = gb_client_open(serve);
    gb_client_say(fd, "echo a\nsleep\necho b\nsync k 3\nabcecho c\n");
    gb_client_expect(fd, "a\n");
    gb_client_say(other, "echo d\n");
    gb_client_expect(other, "d\n");
    gb_line_awake();
    gb_client_expect(fd, "AWAKE\nb\nOK\nc\n");
    (void)close(fd);
    (void)close(other);
}

static void a_long_pipeline__lets_others_have_their_turn(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 1;
    serve->options.limits.turn_commands = 8;
    gb_serve_start(serve);
    enum { LINES = 5000, LINE = 7 };
    char *text = malloc(LINES * LINE + 1);
    assert_non_null(text);
    for (size_t i = 0; i < LINES; i++) {
        (void)snprintf(text + i * LINE, LINE + 1, "echo a\n");
    }
    int fd = gb_client_open(serve);
    gb_client_send(fd, text, (size_t)LINES * LINE);
    for (size_t i = 0; i < LINES; i++) {
        gb_client_expect(fd, "a\n");
    }
    assert_true(gb_serve_counter(serve, GB_METRICS_turns_ended) > 0);
    free(text);
    (void)close(fd);
}

static void output__that_is_not_taken_stops_input(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    enum { BYTES = 8 * 1024 * 1024 };
    char *dots = malloc(BYTES);
    assert_non_null(dots);
    gb_client_say(fd, "spam 8388608\necho b\n");
    gb_await(gb_serve_counter(serve, GB_METRICS_bytes_out) > 0);
    assert_true(gb_serve_gauges(serve).network_bytes < 2 * GB_MIB);
    gb_client_receive(fd, dots, BYTES);
    assert_true(dots[0] == '.' && dots[BYTES - 1] == '.');
    gb_client_expect(fd, "\nb\n");
    free(dots);
    (void)close(fd);
}

/* ---- objects ------------------------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 900, 4096, 4097, 15000, 70000, 300000, 1500000, 5000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void store_sizes(int fd)
{
    char key[16];
    for (unsigned i = 0; i < SIZES; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        gb_client_set(fd, key, sizes[i], i);
        gb_client_expect(fd, "OK\n");
    }
}

static void objects__of_any_size_come_back(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    store_sizes(fd);
    assert_true(gb_serve_counter(serve, GB_METRICS_uploads) > 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%u", i);
            gb_client_get(fd, key, sizes[i], i);
        }
    }
    gb_client_say(fd, "get k9 123456 1000000\nget k9 4999999\nget k9 6000000\n");
    gb_client_expect_value(fd, 1000000, 9, 123456);
    gb_client_expect_value(fd, 1, 9, 4999999);
    gb_client_expect_value(fd, 0, 9, 0);
    (void)close(fd);
}

static void objects__asked_for_at_once_come_in_order(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.sends = 5;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    store_sizes(fd);
    gb_serve_stop(serve);
    (void)close(fd);
    serve->options.store.create = false;
    gb_serve_start(serve); /* heads are cold, so that many have to be read */
    fd = gb_client_open(serve);
    for (unsigned i = 0; i < 40; i++) {
        char line[64];
        (void)snprintf(line, sizeof(line), "get k%u\necho %u\nget none\n", i * 7 % SIZES, i);
        gb_client_say(fd, line);
    }
    for (unsigned i = 0; i < 40; i++) {
        char line[64];
        gb_client_expect_value(fd, sizes[i * 7 % SIZES], i * 7 % SIZES, 0);
        (void)snprintf(line, sizeof(line), "%u\nMISS\n", i);
        gb_client_expect(fd, line);
    }
    (void)close(fd);
}

static void objects__wait_for_room_in_the_reader(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 24 };
    int fds[CLIENTS];
    serve->options.threads = 1;
    serve->options.clock = NULL; /* those who are slow to read are so by the real one */
    serve->options.limits.sends = 64;
    gb_serve_start(serve);
    fds[0] = gb_client_open(serve);
    gb_client_set(fds[0], "big", 1500000, 1);
    gb_client_expect(fds[0], "OK\n");
    for (unsigned i = 1; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        gb_client_say(fds[i], "get big\nget big\nget big\nget big\n");
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        for (unsigned j = 0; j < 4; j++) {
            gb_client_expect_value(fds[i], 1500000, 1, 0);
        }
        (void)close(fds[i]);
    }
    gb_await(gb_serve_gauges(serve).connections == 0);
}

/* ---- edits --------------------------------------------------------------------------------- */

static void edits__of_many_at_once_lose_nothing(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 8, TIMES = 100 };
    int fds[CLIENTS];
    gb_serve_start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
        for (unsigned j = 0; j < TIMES; j++) {
            gb_client_say(fds[i], "add n 3\n");
        }
        gb_client_say(fds[i], "shut\n");
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        char byte = 0;
        while (TEMP_FAILURE_RETRY(recv(fds[i], &byte, 1, 0)) == 1) {
        }
        (void)close(fds[i]);
    }
    int fd = gb_client_open(serve);
    gb_client_say(fd, "add n 0\n");
    gb_client_expect(fd, "2400\n");
    (void)close(fd);
}

static void join__makes_short_and_long_values_longer(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "join none 3\nabcset k 3\nabcjoin k 3\ndefget k\n");
    gb_client_expect(fd, "MISS\nOK\nOK\nVALUE 6\nabcdef\n");
    enum { PART = 200000, PARTS = 8 };
    char *part = malloc(PART);
    assert_non_null(part);
    gb_client_set(fd, "long", PART, 5);
    gb_client_expect(fd, "OK\n");
    for (unsigned i = 1; i < PARTS; i++) {
        gb_pattern_fill(part, PART, 5, (uint64_t)i * PART);
        gb_client_say(fd, "join long 200000\n");
        gb_client_send(fd, part, PART);
        gb_client_expect(fd, "OK\n");
    }
    gb_client_get(fd, "long", (size_t)PART * PARTS, 5);
    free(part);
    (void)close(fd);
}

/* ---- uploads ------------------------------------------------------------------------------- */

struct uploader {
    struct gb_serve *serve;
    pthread_t thread;
    pthread_barrier_t *all_begun;
    unsigned number;
    char answer[16];
};

#define UPLOAD_BYTES (2u * 1024 * 1024)

/* Asserts nothing: cmocka's are the main thread's. */
static void *upload(void *arg)
{
    struct uploader *uploader = arg;
    char line[64];
    char *value = malloc(UPLOAD_BYTES);
    int fd = gb_client_open(uploader->serve);
    if (value == NULL) {
        return NULL;
    }
    gb_pattern_fill(value, UPLOAD_BYTES, uploader->number, 0);
    int n = snprintf(line, sizeof(line), "set k%u %u\n", uploader->number, UPLOAD_BYTES);
    (void)send(fd, line, (size_t)n, MSG_NOSIGNAL);
    (void)pthread_barrier_wait(uploader->all_begun);
    for (size_t at = 0; at < UPLOAD_BYTES;) {
        ssize_t sent = TEMP_FAILURE_RETRY(send(fd, value + at, UPLOAD_BYTES - at, MSG_NOSIGNAL));
        if (sent <= 0) {
            break;
        }
        at += (size_t)sent;
    }
    (void)TEMP_FAILURE_RETRY(recv(fd, uploader->answer, sizeof(uploader->answer) - 1, 0));
    (void)close(fd);
    free(value);
    return NULL;
}

static uint64_t count_streams(struct gb_serve *serve)
{
    const struct gb_server_gauges gauges = gb_serve_gauges(serve);
    return gauges.streams + gauges.streams_waiting;
}

static void uploads__beyond_memory_wait_and_are_all_stored(void **state)
{
    struct gb_serve *serve = *state;
    enum { CLIENTS = 48 };
    static struct uploader uploaders[CLIENTS];
    pthread_barrier_t all_begun;
    assert_int_equal(pthread_barrier_init(&all_begun, NULL, CLIENTS + 1), 0);
    serve->options.memory_bytes = 32 * GB_MIB;
    serve->options.limits.network_bytes = 16 * GB_MIB;
    serve->options.limits.upload_bytes = 64 * GB_KIB;
    gb_serve_start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        uploaders[i] = (struct uploader){.serve = serve, .all_begun = &all_begun, .number = i};
        assert_int_equal(pthread_create(&uploaders[i].thread, NULL, upload, &uploaders[i]), 0);
    }
    gb_await(count_streams(serve) == CLIENTS);
    assert_true(gb_serve_gauges(serve).streams_waiting > 0);
    (void)pthread_barrier_wait(&all_begun);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(uploaders[i].thread, NULL), 0);
        assert_string_equal(uploaders[i].answer, "OK\n");
    }
    int fd = gb_client_open(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%u", i);
        gb_client_get(fd, key, UPLOAD_BYTES, i);
    }
    assert_true(gb_serve_counter(serve, GB_METRICS_waits_stream) > 0);
    (void)close(fd);
    (void)pthread_barrier_destroy(&all_begun);
    gb_await(gb_serve_gauges(serve).connections == 0);
    assert_int_equal(gb_serve_gauges(serve).streams, 0);
}

int main(void)
{
#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, gb_serve_setup, gb_serve_teardown)
    const struct CMUnitTest tests[] = {
        ON_SERVER(commands__are_answered_in_order),
        ON_SERVER(commands__may_be_cut_anywhere),
        ON_SERVER(commands__before_the_end_of_the_stream_are_answered),
        ON_SERVER(commands__behind_a_waiting_one_wait),
        ON_SERVER(a_long_pipeline__lets_others_have_their_turn),
        ON_SERVER(output__that_is_not_taken_stops_input),
        ON_SERVER(objects__of_any_size_come_back),
        ON_SERVER(objects__asked_for_at_once_come_in_order),
        ON_SERVER(objects__wait_for_room_in_the_reader),
        ON_SERVER(edits__of_many_at_once_lose_nothing),
        ON_SERVER(join__makes_short_and_long_values_longer),
        ON_SERVER(uploads__beyond_memory_wait_and_are_all_stored),
    };
    return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
