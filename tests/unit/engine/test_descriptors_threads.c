/* The pool of descriptors: closing and opening again, alone and from several threads. */
#include "engine/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"

#define FILES   24
#define MOST    4
#define THREADS 4
#define ROUNDS  4000

struct fixture {
    char dir[128];
    struct gb_descriptors pool;
    struct gb_descriptor files[FILES];
};

static void path_of(const struct fixture *fixture, unsigned i, char path[160])
{
    (void)snprintf(path, 160, "%s/%u", fixture->dir, i);
}

/* Every file holds its own number. */
static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    const char *base = getenv("TMPDIR");
    if (fixture == NULL) {
        return -1;
    }
    (void)snprintf(fixture->dir, sizeof(fixture->dir), "%s/goblin-descriptors-XXXXXX",
                   base != NULL ? base : "/var/tmp");
    if (mkdtemp(fixture->dir) == NULL) {
        return -1;
    }
    gb_descriptors_init(&fixture->pool);
    fixture->pool.most = MOST;
    for (uint32_t i = 0; i < FILES; i++) {
        char path[160];
        path_of(fixture, i, path);
        int fd = gb_descriptors_open(&fixture->pool, &fixture->files[i], path,
                                     O_RDWR | O_CREAT | O_EXCL);
        if (fd < 0 || pwrite(fd, &i, sizeof(i), 0) != sizeof(i)) {
            return -1;
        }
        gb_descriptors_release(&fixture->files[i]);
    }
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < FILES; i++) {
        char path[160];
        path_of(fixture, i, path);
        gb_descriptors_close(&fixture->pool, &fixture->files[i]);
        (void)unlink(path);
    }
    gb_descriptors_fini(&fixture->pool);
    int rc = rmdir(fixture->dir);
    free(fixture);
    return rc;
}

static bool holds(struct fixture *fixture, uint32_t i)
{
    uint32_t found = UINT32_MAX;
    int fd = gb_descriptors_acquire(&fixture->pool, &fixture->files[i]);
    bool good = fd >= 0 && pread(fd, &found, sizeof(found), 0) == sizeof(found) && found == i;
    if (fd >= 0) {
        gb_descriptors_release(&fixture->files[i]);
    }
    return good;
}

static void descriptors__keep_no_more_open_than_they_may(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->pool.open, MOST);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < FILES; i++) {
            assert_true(holds(fixture, i));
            assert_int_equal(fixture->pool.open, MOST);
        }
    }
}

static void descriptors__in_use_are_never_closed(void **state)
{
    struct fixture *fixture = *state;
    int fds[FILES];
    /* All at once: more than it should have, as long as they are needed. */
    for (unsigned i = 0; i < FILES; i++) {
        fds[i] = gb_descriptors_acquire(&fixture->pool, &fixture->files[i]);
        assert_true(fds[i] >= 0);
    }
    for (uint32_t i = 0; i < FILES; i++) {
        uint32_t found = UINT32_MAX;
        assert_int_equal(pread(fds[i], &found, sizeof(found), 0), sizeof(found));
        assert_int_equal(found, i);
        gb_descriptors_release(&fixture->files[i]);
    }
    assert_true(holds(fixture, 0));
    assert_int_equal(fixture->pool.open, FILES);
    gb_descriptors_close(&fixture->pool, &fixture->files[1]);
    char path[160];
    path_of(fixture, 1, path);
    int fd = gb_descriptors_open(&fixture->pool, &fixture->files[1], path, O_RDWR);
    assert_true(fd >= 0);
    gb_descriptors_release(&fixture->files[1]);
    assert_int_equal(fixture->pool.open, MOST);
}

static void descriptors__used_of_late_stay_open(void **state)
{
    struct fixture *fixture = *state;
    assert_true(holds(fixture, 0));
    for (uint32_t i = 1; i < FILES; i++) {
        assert_true(holds(fixture, 0));
        assert_true(holds(fixture, i));
        assert_true(atomic_load(&fixture->files[0].users) != GB_DESCRIPTOR_CLOSED);
    }
}

static void descriptors__say_what_open_says(void **state)
{
    struct fixture *fixture = *state;
    char path[160];
    struct gb_descriptor missing;
    path_of(fixture, FILES, path);
    assert_int_equal(gb_descriptors_open(&fixture->pool, &missing, path, O_RDWR), -ENOENT);
    path_of(fixture, 0, path);
    assert_int_equal(atomic_load(&fixture->files[0].users), GB_DESCRIPTOR_CLOSED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(gb_descriptors_acquire(&fixture->pool, &fixture->files[0]), -ENOENT);
}

static void descriptors__survive_a_change_of_directory(void **state)
{
    struct fixture *fixture = *state;
    char before[4096];
    struct gb_descriptor relative;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(fixture->dir), 0);
    assert_true(gb_descriptors_open(&fixture->pool, &relative, "7", O_RDWR) >= 0);
    gb_descriptors_release(&relative);
    assert_int_equal(chdir(before), 0);
    for (uint32_t i = 8; i < FILES; i++) {
        assert_true(holds(fixture, i));
    }
    assert_int_equal(atomic_load(&relative.users), GB_DESCRIPTOR_CLOSED);
    int fd = gb_descriptors_acquire(&fixture->pool, &relative);
    uint32_t found = UINT32_MAX;
    assert_int_equal(pread(fd, &found, sizeof(found), 0), sizeof(found));
    assert_int_equal(found, 7);
    gb_descriptors_release(&relative);
    gb_descriptors_close(&fixture->pool, &relative);
}

struct crowd {
    struct fixture *fixture;
    uint64_t seed;
    bool good;
};

static void *use_at_random(void *arg)
{
    struct crowd *crowd = arg;
    struct gb_rng rng;
    gb_rng_init(&rng, crowd->seed);
    crowd->good = true;
    for (unsigned i = 0; i < ROUNDS; i++) {
        crowd->good &= holds(crowd->fixture, (uint32_t)gb_rng_below(&rng, FILES));
    }
    return NULL;
}

static void descriptors__give_each_thread_the_file_it_asked_for(void **state)
{
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.fixture = *state, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, use_at_random, &crowds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(crowds[i].good);
    }
    assert_true(holds(*state, 0));
    assert_true(((struct fixture *)*state)->pool.open <= MOST + THREADS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(descriptors__keep_no_more_open_than_they_may),
        TEST(descriptors__in_use_are_never_closed),
        TEST(descriptors__used_of_late_stay_open),
        TEST(descriptors__say_what_open_says),
        TEST(descriptors__survive_a_change_of_directory),
        TEST(descriptors__give_each_thread_the_file_it_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
