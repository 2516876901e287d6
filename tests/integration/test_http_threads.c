/* HTTP's server from within: clients that are slow, cut, or gone, and what is left behind. What a
 * client sees of the protocol is in tests/e2e/http*. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "lib/serve.h"
#include "server/conn.h"
#include "server/http.h"
#include "server/loop.h"
#include "server/server_internal.h"

static const struct gb_http_options http_options = {.value_bytes = 64 * GB_MIB};

static int setup(void **state)
{
    if (gb_serve_setup(state) != 0) {
        return -1;
    }
    struct gb_serve *serve = *state;
    serve->options.listen[0] = (struct gb_server_listen){
        .protocol = &gb_http_protocol, .options = &http_options, .address = "127.0.0.1:0"};
    return 0;
}

static void say_line(int fd, const char *method, const char *path, const char *fields)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: test\r\n%s\r\n", method, path,
                   fields);
    gb_client_say(fd, text);
}

/* Reads a head; returns its status, and Content-Length in *length. */
static int read_head(int fd, size_t *length)
{
    char head[4096];
    size_t len = 0;
    do {
        assert_true(len + 1 < sizeof(head));
        gb_client_receive(fd, head + len, 1);
        head[++len] = '\0';
    } while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0);
    const char *field = strstr(head, "\r\nContent-Length: ");
    *length = field == NULL ? 0 : strtoul(field + strlen("\r\nContent-Length: "), NULL, 10);
    return (int)strtol(head + strlen("HTTP/1.1 "), NULL, 10);
}

static void expect_status(int fd, int status)
{
    size_t length = 0;
    char body[1024];
    assert_int_equal(read_head(fd, &length), status);
    assert_true(length <= sizeof(body));
    gb_client_receive(fd, body, length);
}

static void put_head(int fd, const char *path, size_t size)
{
    char fields[64];
    (void)snprintf(fields, sizeof(fields), "Content-Length: %zu\r\n", size);
    say_line(fd, "PUT", path, fields);
}

static void put(int fd, const char *path, size_t size, uint64_t seed, int status)
{
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    gb_pattern_fill(bytes, size, seed, 0);
    put_head(fd, path, size);
    gb_client_send(fd, bytes, size);
    expect_status(fd, status);
    free(bytes);
}

/* The body of an object, from `from` on. */
static void expect_bytes(int fd, size_t size, uint64_t seed, uint64_t from)
{
    unsigned char bytes[16384];
    unsigned char expected[16384];
    for (size_t done = 0; done < size;) {
        size_t len = gb_min(size - done, sizeof(bytes));
        gb_client_receive(fd, bytes, len);
        gb_pattern_fill(expected, len, seed, from + done);
        assert_memory_equal(bytes, expected, len);
        done += len;
    }
}

static void get(int fd, const char *path, size_t size, uint64_t seed)
{
    size_t length = 0;
    say_line(fd, "GET", path, "");
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(length, size);
    expect_bytes(fd, size, seed, 0);
}

/* ---- a pipeline and the others of its loop -------------------------------------------------- */

struct rounds {
    struct gb_post post;
    struct gb_hook hook;
    struct gb_loop *loop;
    _Atomic unsigned count;
};

static void count_round(struct gb_hook *hook)
{
    struct rounds *rounds = (struct rounds *)(void *)((char *)hook - offsetof(struct rounds, hook));
    atomic_fetch_add(&rounds->count, 1);
}

static void begin_counting(struct gb_post *post)
{
    struct rounds *rounds = (struct rounds *)(void *)post;
    rounds->hook.run = count_round;
    gb_loop_add_hook(rounds->loop, &rounds->hook);
    atomic_fetch_add(&rounds->count, 1);
}

/* In each round all that the loop serves has its turn. */
static void pipeline__takes_rounds(void **state)
{
    struct gb_serve *serve = *state;
    enum { REQUESTS = 200 };
    serve->options.threads = 1;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/object", 10, 1, 201);
    struct rounds rounds = {.post = {.run = begin_counting}, .loop = serve->server->loops[0]};
    gb_loop_post(rounds.loop, &rounds.post);
    gb_await(atomic_load(&rounds.count) > 0);
    const char one[] = "GET /object HTTP/1.1\r\nHost: test\r\n\r\n";
    char all[REQUESTS * (sizeof(one) - 1) + 1];
    for (size_t i = 0; i < REQUESTS; i++) {
        memcpy(all + i * (sizeof(one) - 1), one, sizeof(one));
    }
    unsigned before = atomic_load(&rounds.count);
    gb_client_send(fd, all, sizeof(all) - 1);
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t length = 0;
        assert_int_equal(read_head(fd, &length), 200);
        expect_bytes(fd, length, 1, 0);
    }
    assert_true(atomic_load(&rounds.count) - before >= REQUESTS / 8);
    (void)close(fd);
    gb_serve_stop(serve);
}

/* Turns the clock on, a step for every round of the server's, until what is waited for has come. */
#define turn_until(serve, step_ms, condition)                                                      \
    do {                                                                                           \
        for (int waited_ms = 0; !(condition); waited_ms += 20) {                                   \
            gb_await_step(waited_ms, #condition);                                                  \
            gb_serve_advance(serve, step_ms);                                                      \
            (void)usleep(20000);                                                                   \
        }                                                                                          \
    } while (0)

static void turn_until_cut(struct gb_serve *serve, unsigned why)
{
    turn_until(serve, 15000, gb_serve_ended(serve, why) > 0);
}

/* All that was taken for connections has been given back. */
static void expect_nothing_left(struct gb_serve *serve)
{
    turn_until(serve, 200, gb_serve_gauges(serve).connections == 0);
    gb_await(gb_serve_gauges(serve).network_bytes == 0);
    gb_await(gb_serve_gauges(serve).streams == 0);
}

/* ---- values of every length ------------------------------------------------------------------ */

static void values__of_every_length_come_back(void **state)
{
    struct gb_serve *serve = *state;
    static const size_t sizes[] = {0,      1,      100,    4096,    4097,    65536,  65537,
                                   262144, 262145, 524288, 1048577, 3000000, 9000000};
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put(fd, "/k", sizes[i], 10 + i, i == 0 ? 201 : 204);
        get(fd, "/k", sizes[i], 10 + i);
        get(fd, "/k", sizes[i], 10 + i);
    }
    (void)close(fd);
    expect_nothing_left(serve);
}

static void ranges__are_read_from_anywhere(void **state)
{
    struct gb_serve *serve = *state;
    static const struct {
        const char *field;
        uint64_t from;
        size_t len;
    } cases[] = {{"Range: bytes=0-0\r\n", 0, 1},
                 {"Range: bytes=16383-16384\r\n", 16383, 2},
                 {"Range: bytes=1000000-2999999\r\n", 1000000, 2000000},
                 {"Range: bytes=-70000\r\n", 8930000, 70000},
                 {"Range: bytes=8999999-\r\n", 8999999, 1}};
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 9000000, 7, 201);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = 0;
        say_line(fd, "GET", "/k", cases[i].field);
        assert_int_equal(read_head(fd, &length), 206);
        assert_int_equal(length, cases[i].len);
        expect_bytes(fd, cases[i].len, 7, cases[i].from);
    }
    (void)close(fd);
}

static void ranges__in_one_answer_come_in_order(void **state)
{
    struct gb_serve *serve = *state;
    size_t length = 0;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 9000000, 7, 201);
    say_line(fd, "GET", "/k", "Range: bytes=8000000-8999999,0-99,500000-999999\r\n");
    assert_int_equal(read_head(fd, &length), 206);
    static const struct {
        const char *text;
        uint64_t from;
        size_t len;
    } parts[] = {{"bytes 8000000-8999999/9000000", 8000000, 1000000},
                 {"bytes 0-99/9000000", 0, 100},
                 {"bytes 500000-999999/9000000", 500000, 500000}};
    for (size_t i = 0; i < 3; i++) {
        char head[512];
        size_t len = 0;
        do {
            gb_client_receive(fd, head + len, 1);
            head[++len] = '\0';
        } while (strstr(head, "\r\n\r\n") == NULL);
        assert_non_null(strstr(head, parts[i].text));
        expect_bytes(fd, parts[i].len, 7, parts[i].from);
        length -= len + parts[i].len;
    }
    char end[128];
    assert_true(length < sizeof(end));
    gb_client_receive(fd, end, length);
    assert_memory_equal(end + length - 4, "--\r\n", 4);
    get(fd, "/k", 9000000, 7);
    (void)close(fd);
}

/* ---- slow clients -------------------------------------------------------------------------- */

/* Until a client that takes nothing has had to give up the reader's buffers. */
static void wait_for_park(struct gb_serve *serve)
{
    turn_until(serve, 100, /* more than hold_ms */
               gb_serve_counter(serve, GB_METRICS_holds_copied) +
                       gb_serve_counter(serve, GB_METRICS_holds_dropped) >
                   0);
}

static void a_client_that_is_slow__gets_all_of_it(void **state)
{
    struct gb_serve *serve = *state;
    size_t length = 0;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 32 * GB_MIB, 3, 201);
    say_line(fd, "GET", "/k", "");
    assert_int_equal(read_head(fd, &length), 200);
    wait_for_park(serve);
    expect_bytes(fd, 32 * GB_MIB, 3, 0);
    assert_true(gb_serve_counter(serve, GB_METRICS_sends_resumed) > 0);
    (void)close(fd);
    expect_nothing_left(serve);
}

static void an_object_that_changes_under_a_slow_client__ends_the_answer(void **state)
{
    struct gb_serve *serve = *state;
    size_t length = 0;
    gb_serve_start(serve);
    int slow = gb_client_open(serve);
    int other = gb_client_open(serve);
    put(other, "/k", 32 * GB_MIB, 3, 201);
    say_line(slow, "GET", "/k", "");
    assert_int_equal(read_head(slow, &length), 200);
    wait_for_park(serve);
    put(other, "/k", 100, 4, 204);
    unsigned char *bytes = malloc(32 * GB_MIB);
    size_t got = 0;
    assert_non_null(bytes);
    for (ssize_t n = 1; n > 0; got += (size_t)n) {
        n = recv(slow, bytes, 32 * GB_MIB, 0);
        n = n < 0 ? 0 : n;
    }
    assert_true(got < 32 * GB_MIB);
    gb_await(gb_serve_ended(serve, GB_CONN_END_changed) == 1);
    get(other, "/k", 100, 4);
    free(bytes);
    (void)close(slow);
    (void)close(other);
    expect_nothing_left(serve);
}

static void a_client_that_takes_nothing__is_cut(void **state)
{
    struct gb_serve *serve = *state;
    size_t length = 0;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 32 * GB_MIB, 3, 201);
    say_line(fd, "GET", "/k", "");
    assert_int_equal(read_head(fd, &length), 200);
    turn_until_cut(serve, GB_CONN_END_stalled);
    expect_nothing_left(serve);
    (void)close(fd);
}

static void a_head_that_trickles__is_cut(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    gb_client_say(fd, "GET /k HT");
    turn_until_cut(serve, GB_CONN_END_request);
    expect_nothing_left(serve);
    (void)close(fd);
}

static void a_body_that_trickles__is_cut(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put_head(fd, "/k", 1000000);
    gb_client_say(fd, "some of it");
    gb_await(gb_serve_gauges(serve).streams == 1);
    turn_until_cut(serve, GB_CONN_END_request);
    expect_nothing_left(serve);
    (void)close(fd);
}

static void a_connection_without_requests__is_cut_after_a_while(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 10, 1, 201);
    gb_await(gb_serve_gauges(serve).connections == 1);
    for (int i = 0; i < 20; i++) {
        gb_serve_advance(serve, 15000);
        (void)usleep(5000);
    }
    get(fd, "/k", 10, 1); /* five minutes are not enough */
    turn_until_cut(serve, GB_CONN_END_idle);
    gb_client_expect_end(fd);
    (void)close(fd);
}

/* ---- clients that go ----------------------------------------------------------------------- */

static void an_upload_that_breaks_off__leaves_nothing(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    static const size_t sizes[] = {1000, 1000000, 20000000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int fd = gb_client_open(serve);
        unsigned char *bytes = calloc(1, sizes[i]);
        assert_non_null(bytes);
        put_head(fd, "/k", sizes[i]);
        gb_client_send(fd, bytes, sizes[i] - 1);
        (void)close(fd);
        free(bytes);
    }
    expect_nothing_left(serve);
    assert_true(gb_serve_ended(serve, GB_CONN_END_request) == 0);
    int fd = gb_client_open(serve);
    say_line(fd, "GET", "/k", "");
    expect_status(fd, 404);
    (void)close(fd);
}

static void a_client_that_leaves_in_the_middle__leaves_nothing(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put(fd, "/k", 32 * GB_MIB, 3, 201);
    for (int i = 0; i < 20; i++) {
        size_t length = 0;
        int other = gb_client_open(serve);
        say_line(other, "GET", "/k", i % 2 == 0 ? "" : "Range: bytes=1000-20000000\r\n");
        if (i % 3 != 0) {
            assert_int_equal(read_head(other, &length), i % 2 == 0 ? 200 : 206);
        }
        (void)close(other);
    }
    get(fd, "/k", 32 * GB_MIB, 3);
    (void)close(fd);
    expect_nothing_left(serve);
}

static void clients_that_left_before_they_were_accepted__do_not_stay(void **state)
{
    struct gb_serve *serve = *state;
    int fds[20];
    serve->options.limits.connections = 4;
    gb_serve_start(serve);
    for (int i = 0; i < 20; i++) {
        fds[i] = gb_client_open(serve);
        gb_client_say(fds[i], "GET /k HT");
    }
    gb_await(gb_serve_gauges(serve).connections == 4);
    for (int i = 19; i >= 0; i--) {
        (void)close(fds[i]);
    }
    int fd = gb_client_open(serve);
    say_line(fd, "GET", "/k", "");
    /* Accepting stops for a moment at its limit. */
    turn_until(serve, 40, gb_serve_counter(serve, GB_METRICS_requests) > 0);
    expect_status(fd, 404);
    (void)close(fd);
    expect_nothing_left(serve);
}

static void a_server_that_stops__lets_go_of_everything(void **state)
{
    struct gb_serve *serve = *state;
    size_t length = 0;
    serve->options.limits.drain_ms = 50;
    gb_serve_start(serve);
    int idle = gb_client_open(serve);
    int reading = gb_client_open(serve);
    int writing = gb_client_open(serve);
    put(idle, "/k", 32 * GB_MIB, 3, 201);
    say_line(reading, "GET", "/k", "");
    assert_int_equal(read_head(reading, &length), 200);
    put_head(writing, "/w", 10000000);
    gb_client_say(writing, "some of it");
    gb_await(gb_serve_gauges(serve).streams == 1);
    gb_serve_stop(serve);
    (void)close(idle);
    (void)close(reading);
    (void)close(writing);
}

/* ---- limits -------------------------------------------------------------------------------- */

struct uploader {
    pthread_t thread;
    struct gb_serve *serve;
    uint64_t number;
    _Atomic bool done;
};

static void *upload_and_read(void *arg)
{
    struct uploader *uploader = arg;
    char path[16];
    (void)snprintf(path, sizeof(path), "/k%d", (int)uploader->number);
    int fd = gb_client_open(uploader->serve);
    put(fd, path, 2000000, uploader->number, 201);
    get(fd, path, 2000000, uploader->number);
    (void)close(fd);
    atomic_store(&uploader->done, true);
    return NULL;
}

static void uploads__wait_for_bytes_of_the_budget(void **state)
{
    struct gb_serve *serve = *state;
    struct uploader uploaders[12];
    const size_t count = sizeof(uploaders) / sizeof(uploaders[0]);
    serve->options.limits.network_bytes = GB_MIB;
    serve->options.limits.upload_bytes = 512 * GB_KIB;
    gb_serve_start(serve);
    int one = gb_client_open(serve);
    int two = gb_client_open(serve);
    gb_await(gb_serve_gauges(serve).connections == 2);
    put_head(one, "/one", 2000000);
    put_head(two, "/two", 2000000);
    gb_await(gb_serve_counter(serve, GB_METRICS_waits_bytes) > 0);
    (void)close(one);
    (void)close(two);
    for (size_t i = 0; i < count; i++) {
        uploaders[i].serve = serve;
        uploaders[i].number = i;
        atomic_init(&uploaders[i].done, false);
        assert_int_equal(pthread_create(&uploaders[i].thread, NULL, upload_and_read, &uploaders[i]),
                         0);
    }
    for (size_t i = 0; i < count; i++) {
        while (!atomic_load(&uploaders[i].done)) {
            gb_serve_advance(serve, 20); /* accepting stops for a moment when bytes are short */
            (void)usleep(10000);
        }
        assert_int_equal(pthread_join(uploaders[i].thread, NULL), 0);
    }
    expect_nothing_left(serve);
}

static void a_value_that_is_too_long__is_refused(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = gb_client_open(serve);
    put_head(fd, "/k", 64 * GB_MIB + 1);
    expect_status(fd, 413);
    gb_client_expect_end(fd);
    (void)close(fd);

    /* In chunks it is noticed on the way. */
    fd = gb_client_open(serve);
    unsigned char *bytes = calloc(1, GB_MIB);
    assert_non_null(bytes);
    say_line(fd, "PUT", "/k", "Transfer-Encoding: chunked\r\n");
    for (int i = 0; i < 65; i++) {
        gb_client_say(fd, "100000\r\n");
        gb_client_send(fd, bytes, GB_MIB);
        gb_client_say(fd, "\r\n");
    }
    gb_client_say(fd, "0\r\n\r\n");
    expect_status(fd, 413);
    free(bytes);
    (void)close(fd);
    expect_nothing_left(serve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define GB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, gb_serve_teardown)
        GB_TEST(values__of_every_length_come_back),
        GB_TEST(ranges__are_read_from_anywhere),
        GB_TEST(ranges__in_one_answer_come_in_order),
        GB_TEST(a_client_that_is_slow__gets_all_of_it),
        GB_TEST(an_object_that_changes_under_a_slow_client__ends_the_answer),
        GB_TEST(pipeline__takes_rounds),
        GB_TEST(a_client_that_takes_nothing__is_cut),
        GB_TEST(a_head_that_trickles__is_cut),
        GB_TEST(a_body_that_trickles__is_cut),
        GB_TEST(a_connection_without_requests__is_cut_after_a_while),
        GB_TEST(an_upload_that_breaks_off__leaves_nothing),
        GB_TEST(a_client_that_leaves_in_the_middle__leaves_nothing),
        GB_TEST(clients_that_left_before_they_were_accepted__do_not_stay),
        GB_TEST(a_server_that_stops__lets_go_of_everything),
        GB_TEST(uploads__wait_for_bytes_of_the_budget),
        GB_TEST(a_value_that_is_too_long__is_refused),
#undef GB_TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
