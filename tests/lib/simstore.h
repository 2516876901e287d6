/*
 * A store on a simulated disk without background threads, for tests that count, crash or spoil: the
 * keeper's rounds, the clock and the crashes are the test's to make. What cannot fail in a sound
 * engine is asserted here.
 */
#ifndef GB_TESTS_SIMSTORE_H
#define GB_TESTS_SIMSTORE_H

#include "engine/store.h"
#include "lib/fixture.h"
#include "sim/simdisk.h"

struct gb_simstore {
    struct gb_io *disk;
    const char *dirs[2];
    struct goblin_options options; /* of the next open; a test changes what it needs */
    struct goblin *store;
    struct goblin_reader *reader;
    int64_t now_ms;               /* the store's clock */
    struct simdisk_counts before; /* the store was opened */
    uint64_t put_count;           /* since then, and what was put */
    uint64_t key_bytes;
    uint64_t value_bytes;
};

/* cmocka's set-up and teardown: a small cache of two drives that is made at the first open. */
int gb_simstore_setup(void **state);
int gb_simstore_teardown(void **state);

#define GB_ON_A_SIMULATED_DISK(test)                                                               \
    cmocka_unit_test_setup_teardown(test, gb_simstore_setup, gb_simstore_teardown)

/* Opens without a reader; the answer is the test's to judge. */
int gb_simstore_try_open(struct gb_simstore *sim, struct goblin_error *error);
void gb_simstore_open(struct gb_simstore *sim);
void gb_simstore_close(struct gb_simstore *sim);
/* The process dies and is started again; what it had written stays. */
void gb_simstore_crash(struct gb_simstore *sim);

/* Stores `size` bytes of the pattern of `seed`, with some bytes of metadata. */
int gb_simstore_try_put(struct gb_simstore *sim, uint64_t number, size_t size, uint64_t seed,
                        enum goblin_durability durability);
/* The same with durability none, and seed `number`; asserts that it is stored. */
void gb_simstore_put(struct gb_simstore *sim, uint64_t number, size_t size);
/* Reads it whole; asserts that it is of that size and seed. */
void gb_simstore_expect(struct gb_simstore *sim, uint64_t number, size_t size, uint64_t seed);
/* Whether there is such an object, without an access. */
bool gb_simstore_has(struct gb_simstore *sim, uint64_t number);

struct goblin_stats gb_simstore_stats(const struct gb_simstore *sim);

#endif
