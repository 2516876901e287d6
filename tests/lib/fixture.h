/*
 * A store in a scratch directory, for the integration tests: options that suit a test, a clock that
 * the test turns, the lines the store has logged, and the two I/O paths as a test's parameter.
 * Everything that cannot fail in a sound engine is asserted here.
 */
#ifndef GB_TESTS_FIXTURE_H
#define GB_TESTS_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <goblin/reader.h>
#include <goblin/stats.h>
#include <goblin/writer.h>

#include "base/bits.h"

#define GB_FIXTURE_DRIVES 3u

struct gb_fixture {
    char root[256];
    char drive[GB_FIXTURE_DRIVES][320];
    const char *dirs[GB_FIXTURE_DRIVES];
    struct goblin_options options; /* of the next open; a test changes what it needs */
    struct goblin *store;
    struct goblin_reader *reader;
    _Atomic int64_t now_ms; /* the store's clock */
    pthread_mutex_t log_lock;
    char log[16384];
    size_t log_len;
};

/* The same test twice, on io_uring and on the synchronous path. */
#define GB_ON_BOTH_PATHS(test)                                                                     \
    {#test " (io_uring)", test, gb_fixture_setup_uring, gb_fixture_teardown, NULL},                \
    {                                                                                              \
#test " (sync)", test, gb_fixture_setup_sync, gb_fixture_teardown, NULL                    \
    }

/* Runs a group; where the kernel has no rings it says so and leaves the ring half out. */
#define gb_fixture_run(name, tests)                                                                \
    (gb_fixture_begin(), cmocka_run_group_tests_name(name, tests, NULL, NULL))

void gb_fixture_begin(void);
int gb_fixture_setup_uring(void **state);
int gb_fixture_setup_sync(void **state);
int gb_fixture_teardown(void **state);

/* Opens with fixture->options, without a reader; the answer is the test's to judge. */
int gb_fixture_try_open(struct gb_fixture *fixture, struct goblin_error *error);
/* Opens, makes a reader, and from then on asks for no `create`. */
void gb_fixture_open(struct gb_fixture *fixture);
void gb_fixture_close(struct gb_fixture *fixture);
void gb_fixture_reopen(struct gb_fixture *fixture);

/* Whether a logged line contains `text`. */
bool gb_fixture_logged(struct gb_fixture *fixture, const char *text);

/* Waits until the store has read its heads back. */
void gb_fixture_await_warm(struct gb_fixture *fixture);

struct goblin_stats gb_fixture_stats(const struct gb_fixture *fixture);

/* ---- objects whose values are patterns ----------------------------------------------------- */

/* Key number `number` as text; the slice lies in `text`. */
struct gb_key {
    char text[40];
};
struct goblin_slice gb_key_at(struct gb_key *key, uint64_t number);

/* Stores `size` bytes of the pattern of `seed` under a key; returns what goblin_put does. */
int gb_fixture_put(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed);
/* The same through a writer, in steps of `step` bytes. */
int gb_fixture_stream(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed,
                      size_t step);

/* Reads [offset, offset + length) as goblin_request means them and asserts that the chunks came in
 * order, without gaps, resident ones first, and that their bytes are those of `seed`. Returns
 * what goblin_get does; *total is how many bytes came, if it is not NULL. */
int gb_fixture_read(struct gb_fixture *fixture, uint64_t number, uint64_t seed,
                    const struct goblin_request *range, uint64_t *total);

/* Asserts that the key holds exactly `size` bytes of `seed`, by goblin_get. */
void gb_fixture_expect(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed);
/* Asserts that the key holds nothing, by goblin_get and goblin_stat. */
void gb_fixture_expect_none(struct gb_fixture *fixture, uint64_t number);

#endif
