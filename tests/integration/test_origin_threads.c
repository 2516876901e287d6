/* An origin behind the server, from within: followers on several loops, who leave, are cut, or are
 * still there when the server ends. What a client sees of it is in tests/e2e/http_origin.sh. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "lib/serve.h"
#include "server/http.h"

enum { BIG = 3000000, CONNECTIONS = 64, CLIENTS = 16 };

/* ---- an origin ----------------------------------------------------------------------------- */

struct origin {
    int fd;
    char url[64];
    pthread_t acceptor;
    pthread_t threads[CONNECTIONS];
    int sockets[CONNECTIONS];
    unsigned count;
    pthread_mutex_t lock; /* of the next two */
    pthread_cond_t moved;
    bool held;
    _Atomic unsigned asked;
};

static struct origin the_origin;

static void hold(bool held)
{
    (void)pthread_mutex_lock(&the_origin.lock);
    the_origin.held = held;
    (void)pthread_cond_broadcast(&the_origin.moved);
    (void)pthread_mutex_unlock(&the_origin.lock);
}

static void wait_while_held(void)
{
    (void)pthread_mutex_lock(&the_origin.lock);
    while (the_origin.held) {
        (void)pthread_cond_wait(&the_origin.moved, &the_origin.lock);
    }
    (void)pthread_mutex_unlock(&the_origin.lock);
}

static bool send_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool send_head(int fd, const char *status, const char *fields, size_t len)
{
    char head[512];
    int size = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status,
                        fields, len);
    return send_all(fd, head, (size_t)size);
}

/* /small…: ten bytes; /big…: BIG bytes; /pass…: they may not be stored; /cut…: half of them;
 * /stop…: the other half not before it is let go; /tag…: ten bytes that are always stale. */
static bool answer(int fd, const char *head)
{
    const char *path = head + strlen("GET /");
    unsigned char *bytes = malloc(BIG);
    bool good = bytes != NULL;
    if (!good) {
        return false;
    }
    gb_pattern_fill(bytes, BIG, 7, 0);
    if (strncmp(path, "tag", 3) == 0) {
        const char *fields = "Cache-Control: max-age=0\r\nETag: \"a\"\r\n";
        good = strstr(head, "If-None-Match") != NULL
                   ? send_all(fd, "HTTP/1.1 304 x\r\nETag: \"a\"\r\n\r\n", 29)
                   : send_head(fd, "200 x", fields, 10) && send_all(fd, bytes, 10);
    } else if (strncmp(path, "small", 5) == 0) {
        good =
            send_head(fd, "200 x", "Cache-Control: max-age=100\r\n", 10) && send_all(fd, bytes, 10);
    } else {
        const bool pass = strncmp(path, "pass", 4) == 0;
        good = send_head(fd, "200 x", pass ? "" : "Cache-Control: max-age=100\r\n", BIG) &&
               send_all(fd, bytes, BIG / 2);
        if (strncmp(path, "stop", 4) == 0) {
            wait_while_held();
        }
        good = good && strncmp(path, "cut", 3) != 0 && send_all(fd, bytes + BIG / 2, BIG / 2);
    }
    free(bytes);
    return good;
}

static void *serve_one(void *arg)
{
    int fd = *(int *)arg;
    char head[4096];
    size_t len = 0;
    while (len + 1 < sizeof(head) && recv(fd, head + len, 1, 0) == 1) {
        head[++len] = '\0';
        if (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0) {
            continue;
        }
        atomic_fetch_add(&the_origin.asked, 1);
        if (strstr(head, " /stop") == NULL) {
            wait_while_held();
        }
        if (!answer(fd, head)) {
            break;
        }
        len = 0;
    }
    (void)shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct origin *origin = arg;
    while (origin->count < CONNECTIONS) {
        int fd = accept(origin->fd, NULL, NULL);
        if (fd < 0) {
            break;
        }
        origin->sockets[origin->count] = fd;
        if (pthread_create(&origin->threads[origin->count], NULL, serve_one,
                           &origin->sockets[origin->count]) != 0) {
            (void)close(fd);
            break;
        }
        origin->count++;
    }
    return NULL;
}

static void start_origin(void)
{
    struct origin *origin = &the_origin;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    memset(origin, 0, sizeof(*origin));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    origin->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(origin->fd >= 0);
    assert_int_equal(bind(origin->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(origin->fd, CONNECTIONS), 0);
    assert_int_equal(getsockname(origin->fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(origin->url, sizeof(origin->url), "http://127.0.0.1:%u",
                   ntohs(address.sin_port));
    (void)pthread_mutex_init(&origin->lock, NULL);
    (void)pthread_cond_init(&origin->moved, NULL);
    assert_int_equal(pthread_create(&origin->acceptor, NULL, accept_all, origin), 0);
}

static void stop_origin(void)
{
    struct origin *origin = &the_origin;
    hold(false);
    (void)shutdown(origin->fd, SHUT_RDWR);
    (void)pthread_join(origin->acceptor, NULL);
    for (unsigned i = 0; i < origin->count; i++) {
        (void)shutdown(origin->sockets[i], SHUT_RDWR);
        (void)pthread_join(origin->threads[i], NULL);
        (void)close(origin->sockets[i]);
    }
    (void)close(origin->fd);
}

static int setup(void **state)
{
    static const struct gb_http_options http_options;
    if (gb_serve_setup(state) != 0) {
        return -1;
    }
    start_origin();
    struct gb_serve *serve = *state;
    serve->options.listen[0] = (struct gb_server_listen){
        .protocol = &gb_http_protocol, .options = &http_options, .address = "127.0.0.1:0"};
    serve->options.origin.url = the_origin.url;
    return 0;
}

static int teardown(void **state)
{
    hold(false);
    int rc = gb_serve_teardown(state);
    stop_origin();
    return rc;
}

/* ---- clients ------------------------------------------------------------------------------- */

static int ask(struct gb_serve *serve, const char *path)
{
    char text[256];
    int fd = gb_client_open(serve);
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path);
    gb_client_say(fd, text);
    return fd;
}

static int read_head(int fd)
{
    char head[4096];
    size_t len = 0;
    do {
        assert_true(len + 1 < sizeof(head));
        gb_client_receive(fd, head + len, 1);
        head[++len] = '\0';
    } while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0);
    return (int)strtol(head + strlen("HTTP/1.1 "), NULL, 10);
}

static void expect_all(int fd, size_t size)
{
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    assert_int_equal(read_head(fd), 200);
    gb_client_receive(fd, bytes, size);
    assert_true(gb_pattern_holds(bytes, size, 7, 0));
    free(bytes);
    (void)close(fd);
}

/* Until the server has cut it off. */
static void expect_cut(int fd, size_t most)
{
    char bytes[65536];
    size_t sum = 0;
    ssize_t len = 0;
    /* Rings of the store interrupt. */
    while ((len = TEMP_FAILURE_RETRY(recv(fd, bytes, sizeof(bytes), 0))) > 0) {
        sum += (size_t)len;
    }
    assert_true(len == 0 || errno == ECONNRESET);
    assert_true(sum < most);
    (void)close(fd);
}

/* Takes from each what it has, in turn: who must wait for bytes of the budget, or to be accepted at
 * all, gets there when another is through. */
static void expect_all_together(struct gb_serve *serve, const int *fds)
{
    enum { MOST = BIG + 4096 };
    static char bytes[CLIENTS][MOST];
    size_t got[CLIENTS] = {0};
    unsigned left = CLIENTS;
    for (int tries = 0; left > 0; tries++) {
        gb_await_step(tries, "all clients have all bytes");
        gb_serve_advance(serve, 1);
        for (unsigned i = 0; i < CLIENTS; i++) {
            ssize_t len = -1;
            while (got[i] < MOST &&
                   (len = recv(fds[i], bytes[i] + got[i], MOST - got[i], MSG_DONTWAIT)) > 0) {
                got[i] += (size_t)len;
                tries = 0;
            }
            assert_int_not_equal(len, 0);
            const char *end = memmem(bytes[i], got[i], "\r\n\r\n", 4);
            if (end != NULL && got[i] == (size_t)(end + 4 - bytes[i]) + BIG) {
                assert_true(gb_pattern_holds(end + 4, BIG, 7, 0));
                got[i] = MOST;
                left--;
                (void)close(fds[i]);
            }
        }
    }
}

static void open_all(struct gb_serve *serve, int *fds, const char *path)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = ask(serve, path);
    }
}

/* ---- tests --------------------------------------------------------------------------------- */

static void clients__of_all_loops_follow_one_request(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    gb_serve_start(serve);
    hold(true);
    open_all(serve, fds, "/big");
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == CLIENTS - 1);
    hold(false);
    /* One after another, so that most of them fall behind the window and go to the store. */
    for (unsigned i = 0; i < CLIENTS; i++) {
        expect_all(fds[i], BIG);
    }
    expect_all(ask(serve, "/big"), BIG);
    assert_int_equal(atomic_load(&the_origin.asked), 1);
}

static void a_thousand_clients__have_the_origin_asked_once(void **state)
{
    struct gb_serve *serve = *state;
    enum { MANY = 1000 };
    static int fds[MANY];
    const unsigned count = (unsigned)gb_client_most(MANY);
    serve->options.limits.network_bytes = 96 * GB_MIB;
    serve->options.memory_bytes = 160 * GB_MIB;
    gb_serve_start(serve);
    hold(true);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = ask(serve, "/small");
    }
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == count - 1);
    hold(false);
    for (unsigned i = 0; i < count; i++) {
        expect_all(fds[i], 10);
    }
    assert_int_equal(atomic_load(&the_origin.asked), 1);
}

static void clients__of_an_answer_for_one_alone_ask_for_themselves(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    gb_serve_start(serve);
    hold(true);
    open_all(serve, fds, "/pass");
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == CLIENTS - 1);
    hold(false);
    for (unsigned i = 0; i < CLIENTS; i++) {
        expect_all(fds[i], BIG);
    }
    assert_int_equal(atomic_load(&the_origin.asked), CLIENTS);
}

static void clients__that_leave_waste_nothing_that_is_stored(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    gb_serve_start(serve);
    hold(true);
    open_all(serve, fds, "/stop");
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(read_head(fds[i]), 200);
        (void)close(fds[i]);
    }
    hold(false);
    expect_all(ask(serve, "/stop"), BIG);
    assert_int_equal(atomic_load(&the_origin.asked), 1);
}

static void clients__that_leave_end_what_is_not_stored(void **state)
{
    struct gb_serve *serve = *state;
    gb_serve_start(serve);
    int fd = ask(serve, "/pass");
    assert_int_equal(read_head(fd), 200);
    (void)close(fd);
    gb_await(gb_serve_gauges(serve).connections == 0);
    gb_await(gb_serve_gauges(serve).network_bytes == 0);
    assert_int_equal(gb_serve_counter(serve, GB_METRICS_origin_failures), 0);
    expect_all(ask(serve, "/pass"), BIG);
}

static void an_origin__that_breaks_off_cuts_all_and_leaves_nothing(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    gb_serve_start(serve);
    int idle = gb_client_open(serve); /* the one that libmicrohttpd always looks at */
    hold(true);
    open_all(serve, fds, "/cut");
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == CLIENTS - 1);
    hold(false);
    for (unsigned i = 0; i < CLIENTS; i++) {
        expect_cut(fds[i], BIG);
    }
    assert_int_equal(gb_serve_counter(serve, GB_METRICS_origin_failures), 1);
    expect_cut(ask(serve, "/cut"), BIG);
    assert_int_equal(atomic_load(&the_origin.asked), 2);
    gb_await(gb_serve_gauges(serve).streams == 0);
    gb_await(gb_serve_gauges(serve).connections == 1);
    (void)close(idle);
    gb_await(gb_serve_gauges(serve).network_bytes == 0);
}

static void stale_objects__are_validated_together(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    gb_serve_start(serve);
    expect_all(ask(serve, "/tag"), 10);
    gb_await(gb_serve_gauges(serve).network_bytes == 0); /* it is stored, and the fill over */
    hold(true);
    open_all(serve, fds, "/tag");
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == CLIENTS - 1);
    hold(false);
    for (unsigned i = 0; i < CLIENTS; i++) {
        expect_all(fds[i], 10);
    }
    assert_int_equal(atomic_load(&the_origin.asked), 2);
    assert_int_equal(gb_serve_counter(serve, GB_METRICS_origin_revalidated), 1);
}

static void an_origin__that_is_silent_times_out(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.origin.timeout_ms = 30000;
    gb_serve_start(serve);
    hold(true);
    int fd = ask(serve, "/big");
    gb_await(atomic_load(&the_origin.asked) == 1);
    gb_serve_advance(serve, 29000);
    int other = ask(serve, "/big");
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == 1);
    gb_serve_advance(serve, 2000);
    assert_int_equal(read_head(fd), 504);
    assert_int_equal(read_head(other), 504);
    hold(false);
    (void)close(fd);
    (void)close(other);
}

static void a_server__ends_in_the_middle_of_fills(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    serve->options.limits.drain_ms = 1;
    gb_serve_start(serve);
    hold(true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = ask(serve, i % 2 == 0 ? "/stop" : "/big");
    }
    assert_int_equal(read_head(fds[0]), 200);
    gb_await(gb_serve_counter(serve, GB_METRICS_origin_collapsed) == CLIENTS - 2);
    gb_serve_stop(serve);
    hold(false);
    for (unsigned i = 0; i < CLIENTS; i++) {
        expect_cut(fds[i], BIG);
    }
}

static void a_network__short_of_bytes_makes_all_wait_and_nobody_for_ever(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.limits.network_bytes = 1200 * GB_KIB;
    gb_serve_start(serve);
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "/big%u", i / 2);
        fds[i] = ask(serve, path);
    }
    expect_all_together(serve, fds);
    assert_true(gb_serve_counter(serve, GB_METRICS_waits_bytes) > 0);
    gb_await(gb_serve_gauges(serve).network_bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clients__of_all_loops_follow_one_request, setup, teardown),
        cmocka_unit_test_setup_teardown(a_thousand_clients__have_the_origin_asked_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(clients__of_an_answer_for_one_alone_ask_for_themselves,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(clients__that_leave_waste_nothing_that_is_stored, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(clients__that_leave_end_what_is_not_stored, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_origin__that_breaks_off_cuts_all_and_leaves_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(stale_objects__are_validated_together, setup, teardown),
        cmocka_unit_test_setup_teardown(an_origin__that_is_silent_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server__ends_in_the_middle_of_fills, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_network__short_of_bytes_makes_all_wait_and_nobody_for_ever, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
