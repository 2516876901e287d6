/*
 * A server in this process, in a scratch directory, with the tests' own protocol on a port that the
 * system chose; and clients that fail the test rather than wait for ever.
 */
#ifndef GB_TESTS_SERVE_H
#define GB_TESTS_SERVE_H

#include <netinet/in.h>

#include "lib/fixture.h"
#include "lib/lineproto.h"
#include "server/server.h"

struct gb_serve {
    char root[256];
    char dir[300];
    char unix_path[300];
    const char *dirs[1];
    struct gb_server_options options; /* of the next start; a test changes what it needs */
    struct gb_server *server;
    _Atomic int64_t now_ms; /* the server's monotonic clock */
};

/* cmocka set-up and tear-down; the server is not started. */
int gb_serve_setup(void **state);
int gb_serve_teardown(void **state);

void gb_serve_start(struct gb_serve *serve);
void gb_serve_stop(struct gb_serve *serve);
void gb_serve_advance(struct gb_serve *serve, int64_t ms);
uint64_t gb_serve_counter(struct gb_serve *serve, enum gb_metrics_counter counter);
uint64_t gb_serve_ended(struct gb_serve *serve, unsigned why); /* enum gb_conn_end */
struct gb_server_gauges gb_serve_gauges(struct gb_serve *serve);
/* What the loops keep of the network budget for connections to come: with none open, all that is
 * in use. */
uint64_t gb_serve_pooled_bytes(struct gb_serve *serve);

/* ---- clients ------------------------------------------------------------------------------- */

/* How many connections there can be at once, up to `wanted`: each takes a descriptor at both ends.
 * Raises the limit as far as it may. */
size_t gb_client_most(size_t wanted);

/* Connected to the first listener. */
int gb_client_open(struct gb_serve *serve);
int gb_client_open_at(const char *address); /* as listeners say it */
void gb_client_say(int fd, const char *text);
void gb_client_send(int fd, const void *data, size_t len);
/* Reads as many bytes as the text has and asserts that they are it. */
void gb_client_expect(int fd, const char *text);
void gb_client_receive(int fd, void *data, size_t len);
/* Asserts that the peer closes, with nothing before. */
void gb_client_expect_end(int fd);
/* "set" of a pattern, without reading the answer; "get" of it whole, with the answer read. */
void gb_client_set(int fd, const char *key, size_t size, uint64_t seed);
void gb_client_get(int fd, const char *key, size_t size, uint64_t seed);
/* The body of a value that was asked for: `VALUE n`, pattern from `offset`, newline. */
void gb_client_expect_value(int fd, size_t size, uint64_t seed, uint64_t offset);

/* Waits, a millisecond at a time, until the condition holds; fails the test after a long while. */
#define gb_await(condition)                                                                        \
    do {                                                                                           \
        for (int await_ms = 0; !(condition); await_ms++) {                                         \
            gb_await_step(await_ms, #condition);                                                   \
        }                                                                                          \
    } while (false)
void gb_await_step(int waited_ms, const char *what);

#endif
