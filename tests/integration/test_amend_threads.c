/* Amendments from several threads beside readers: one of them sees a mark clear, and nobody sees a
 * version with flags that are older than it. */
#include <stdlib.h>
#include <string.h>

#include "lib/fixture.h"

#define THREADS 4u
#define KEYS    300u
#define STEPS   3000u

struct crew {
    struct gb_fixture *fixture;
    pthread_barrier_t start;
    _Atomic unsigned first[KEYS]; /* who saw the key's mark clear */
    _Atomic unsigned faults;
    _Atomic unsigned torn;
    _Atomic bool over;
};

static void *mark_all(void *arg)
{
    struct crew *crew = arg;
    const struct goblin_amendment mark = {.marks_set = 0x10};
    (void)pthread_barrier_wait(&crew->start);
    for (unsigned i = 0; i < KEYS; i++) {
        struct gb_key key;
        struct goblin_info before;
        int rc = goblin_amend(crew->fixture->store, gb_key_at(&key, i), &mark, &before);
        atomic_fetch_add(&crew->faults, rc != GOBLIN_OK);
        atomic_fetch_add(&crew->first[i], (before.marks & 0x10) == 0);
    }
    return NULL;
}

static void mark__is_found_clear_by_exactly_one(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 100, i), GOBLIN_OK);
    }
    struct crew crew = {.fixture = fixture};
    pthread_t threads[THREADS];
    assert_int_equal(pthread_barrier_init(&crew.start, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, mark_all, &crew), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&crew.start);
    assert_int_equal(crew.faults, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(crew.first[i], 1);
    }
    assert_int_equal(gb_fixture_stats(fixture).amends, KEYS * THREADS);
}

/* Flags and version are the same number in every amendment. */
static void *watch(void *arg)
{
    struct crew *crew = arg;
    struct goblin_reader *reader = NULL;
    struct goblin_buffer buffer = {0};
    int rc = goblin_reader_create(&reader, crew->fixture->store, NULL);
    for (unsigned i = 0; rc == GOBLIN_OK && !atomic_load(&crew->over); i++) {
        struct gb_key key;
        struct goblin_info info;
        const struct goblin_slice name = gb_key_at(&key, i % 2);
        rc = i % 4 < 2 ? goblin_stat(crew->fixture->store, name, &info)
                       : goblin_load(reader, name, &buffer, &info, NULL);
        atomic_fetch_add(&crew->torn, info.flags < info.version);
    }
    atomic_fetch_add(&crew->faults, rc != GOBLIN_OK);
    goblin_buffer_free(&buffer);
    goblin_reader_destroy(reader);
    return NULL;
}

static void flags__are_never_older_than_the_version_beside_them(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    const struct goblin_put_options options = {.version = 1, .flags = 1};
    struct gb_key key;
    for (unsigned i = 0; i < 2; i++) { /* a small object, and one with a tail */
        static const unsigned char value[100000];
        assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, i),
                                    (struct goblin_slice){value, i == 0 ? 100 : sizeof(value)},
                                    &options, NULL),
                         GOBLIN_OK);
    }
    struct crew crew = {.fixture = fixture};
    pthread_t watchers[2];
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&watchers[i], NULL, watch, &crew), 0);
    }
    for (uint32_t step = 2; step < STEPS; step++) {
        const struct goblin_amendment amendment = {
            .what = GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION, .flags = step, .version = step};
        assert_int_equal(goblin_amend(fixture->store, gb_key_at(&key, step % 2), &amendment, NULL),
                         GOBLIN_OK);
    }
    atomic_store(&crew.over, true);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(watchers[i], NULL), 0);
    }
    assert_int_equal(crew.faults, 0);
    assert_int_equal(crew.torn, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(mark__is_found_clear_by_exactly_one),
        GB_ON_BOTH_PATHS(flags__are_never_older_than_the_version_beside_them),
    };
    return gb_fixture_run("amend_threads", tests);
}
