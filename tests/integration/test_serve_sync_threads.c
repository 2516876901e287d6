/* A server where there is no io_uring: threads of its loops read, and nobody sees a difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/serve.h"

enum { OBJECTS = 24, BYTES = 700000, CLIENTS = 6 };

static void name_object(char name[16], unsigned number)
{
    (void)snprintf(name, 16, "object%u", number);
}

/* Streamed: of each no more than the head is in RAM before it is read. */
static void store_all(struct gb_serve *serve)
{
    int fd = gb_client_open(serve);
    for (unsigned i = 0; i < OBJECTS; i++) {
        char name[16];
        name_object(name, i);
        gb_client_set(fd, name, BYTES, i);
        gb_client_expect(fd, "OK\n");
    }
    (void)close(fd);
}

static void start(struct gb_serve *serve)
{
    serve->options.store.io = GOBLIN_IO_SYNC;
    serve->options.threads = 2;
    gb_serve_start(serve);
    store_all(serve);
}

static void reads_by_threads__bring_the_same_bytes(void **state)
{
    struct gb_serve *serve = *state;
    int fds[CLIENTS];
    start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
        for (unsigned j = 0; j < OBJECTS; j++) {
            char line[32];
            (void)snprintf(line, sizeof(line), "get object%u\n", (i * 5 + j) % OBJECTS);
            gb_client_say(fds[i], line);
        }
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        for (unsigned j = 0; j < OBJECTS; j++) {
            gb_client_expect_value(fds[i], BYTES, (i * 5 + j) % OBJECTS, 0);
        }
        (void)close(fds[i]);
    }
}

static void clients_that_leave__leave_no_reads(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    for (unsigned i = 0; i < OBJECTS; i++) {
        char line[32];
        int fd = gb_client_open(serve);
        (void)snprintf(line, sizeof(line), "get object%u\n", i);
        gb_client_say(fd, line);
        (void)close(fd);
    }
    gb_await(gb_serve_gauges(serve).connections == 0);
    int fd = gb_client_open(serve);
    gb_client_get(fd, "object3", BYTES, 3);
    (void)close(fd);
    gb_await(gb_serve_gauges(serve).connections == 0);
    gb_await(gb_serve_gauges(serve).network_bytes == gb_serve_pooled_bytes(serve));
}

int main(void)
{
#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, gb_serve_setup, gb_serve_teardown)
    const struct CMUnitTest tests[] = {
        ON_SERVER(reads_by_threads__bring_the_same_bytes),
        ON_SERVER(clients_that_leave__leave_no_reads),
    };
    return cmocka_run_group_tests_name("serve_sync", tests, NULL, NULL);
}
