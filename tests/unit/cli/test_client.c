/* The HTTP client: answers in every framing, cut at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/client.h"

/* What the client makes of `len` bytes of an answer, after which the server is gone: the status or
 * fault, and the body in `body`; `end` is what the last read said. */
static int hear(const char *answer, size_t len, bool is_head, char body[64], ssize_t *end)
{
    struct gb_client *client = calloc(1, sizeof(*client));
    struct goblin_error error = {{0}};
    int fds[2];
    assert_non_null(client);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(write(fds[1], answer, len), len);
    assert_int_equal(close(fds[1]), 0);
    client->fd = fds[0];
    client->is_head = is_head;
    int status = gb_client_answer(client, &error);
    size_t got = 0;
    *end = 0;
    while (status >= 0 && (*end = gb_client_read(client, body + got, 3, &error)) > 0) {
        got += (size_t)*end;
        assert_true(got < 60);
    }
    assert_int_equal(status < 0 || *end < 0, error.text[0] != '\0');
    body[got] = '\0';
    gb_client_close(client);
    free(client);
    return status;
}

#define HEAR(answer, is_head) hear(answer, sizeof(answer) - 1, is_head, body, &end)

static void client__reads_a_body_of_known_length(void **state)
{
    (void)state;
    char body[64];
    ssize_t end;
    assert_int_equal(HEAR("HTTP/1.1 200 OK\r\ncontent-LENGTH: 7\r\n\r\n1234567tail", false), 200);
    assert_string_equal(body, "1234567");
    assert_int_equal(end, 0);
}

static void client__reads_chunks(void **state)
{
    (void)state;
    char body[64];
    ssize_t end;
    assert_int_equal(HEAR("HTTP/1.1 206 Part\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "4\r\nabcd\r\n5;x=y\r\nefghi\r\n0\r\n\r\n",
                          false),
                     206);
    assert_string_equal(body, "abcdefghi");
    assert_int_equal(end, 0);
}

static void client__reads_to_the_end_of_the_connection(void **state)
{
    (void)state;
    char body[64];
    ssize_t end;
    assert_int_equal(HEAR("HTTP/1.0 200 OK\r\n\r\nall there is", false), 200);
    assert_string_equal(body, "all there is");
    assert_int_equal(end, 0);
}

static void client__expects_no_body_where_none_comes(void **state)
{
    (void)state;
    char body[64];
    ssize_t end;
    assert_int_equal(HEAR("HTTP/1.1 204 No\r\n\r\n", false), 204);
    assert_int_equal(end, 0);
    assert_int_equal(HEAR("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true), 200);
    assert_int_equal(end, 0);
    assert_string_equal(body, "");
}

static void client__passes_over_what_comes_before_the_answer(void **state)
{
    (void)state;
    char body[64];
    ssize_t end;
    assert_int_equal(
        HEAR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", false),
        404);
    assert_string_equal(body, "no");
}

static void client__never_takes_a_cut_answer_for_a_whole_one(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n1234567",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n",
    };
    char body[64];
    ssize_t end;
    for (size_t i = 0; i < 2; i++) {
        for (size_t len = 0; len < strlen(answers[i]); len++) {
            int status = hear(answers[i], len, false, body, &end);
            assert_true(status < 0 || end < 0);
        }
        assert_int_equal(hear(answers[i], strlen(answers[i]), false, body, &end), 200);
        assert_int_equal(end, 0);
    }
}

static void client__refuses_what_is_not_http(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "ERROR\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    };
    char body[64];
    ssize_t end;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int status = hear(answers[i], strlen(answers[i]), false, body, &end);
        assert_true(status < 0 || end < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__reads_a_body_of_known_length),
        cmocka_unit_test(client__reads_chunks),
        cmocka_unit_test(client__reads_to_the_end_of_the_connection),
        cmocka_unit_test(client__expects_no_body_where_none_comes),
        cmocka_unit_test(client__passes_over_what_comes_before_the_answer),
        cmocka_unit_test(client__never_takes_a_cut_answer_for_a_whole_one),
        cmocka_unit_test(client__refuses_what_is_not_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
