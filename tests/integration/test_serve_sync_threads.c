/* A server where there is no io_uring: threads of its loops read, and nobody sees a difference. */
#include <pthread.h>
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

struct client {
    struct gb_serve *serve;
    unsigned number;
    pthread_t thread;
};

/* Each in a thread: who does not read holds what the others wait for, until a deadline by a clock
 * that stands still here. */
static void *read_all(void *arg)
{
    const struct client *client = arg;
    int fd = gb_client_open(client->serve);
    for (unsigned i = 0; i < OBJECTS; i++) {
        char line[32];
        (void)snprintf(line, sizeof(line), "get object%u\n", (client->number * 5 + i) % OBJECTS);
        gb_client_say(fd, line);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        gb_client_expect_value(fd, BYTES, (client->number * 5 + i) % OBJECTS, 0);
    }
    (void)close(fd);
    return NULL;
}

static void reads_by_threads__bring_the_same_bytes(void **state)
{
    struct gb_serve *serve = *state;
    struct client clients[CLIENTS];
    start(serve);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.serve = serve, .number = i};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, read_all, &clients[i]), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
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
