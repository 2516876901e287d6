/*
 * Clocks: expiry to the millisecond, the wall clock stepped by an hour either way, times beyond
 * 2038 and at the format's limit, and a process that is stopped for five seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "lib/fixture.h"

#define SECOND_MS   INT64_C(1000)
#define HOUR_MS     INT64_C(3600000)
#define EXPIRY_MOST ((INT64_C(1) << 44) - 1)

/* What this program's own reading of the wall clock is ahead of the kernel's. To whoever waits for
 * a time that it has read, that is a clock stepped back. */
static _Atomic int64_t wall_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && clock == CLOCK_REALTIME) {
        now->tv_sec += (time_t)atomic_load(&wall_ahead_s);
    }
    return rc;
}

static void put_until(struct gb_fixture *fixture, uint64_t number, int64_t expires_ms)
{
    struct gb_key key;
    const struct goblin_put_options options = {.expires_ms = expires_ms};
    assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, number), GOBLIN_LITERAL("value"),
                                &options, NULL),
                     GOBLIN_OK);
}

static bool there(struct gb_fixture *fixture, uint64_t number)
{
    struct gb_key key;
    struct goblin_buffer buffer = {0};
    int rc = goblin_load(fixture->reader, gb_key_at(&key, number), &buffer, NULL, NULL);
    bool good = rc == GOBLIN_OK && buffer.len == 5 && memcmp(buffer.data, "value", 5) == 0;
    assert_true(good || rc == GOBLIN_MISS);
    goblin_buffer_free(&buffer);
    return good;
}

static void ttl_of_a_second__lives_a_second_and_no_longer(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    int64_t now = atomic_load(&fixture->now_ms);
    put_until(fixture, 1, now + SECOND_MS);
    put_until(fixture, 2, now + 3 * SECOND_MS);
    atomic_store(&fixture->now_ms, now + SECOND_MS - 1);
    assert_true(there(fixture, 1));
    atomic_store(&fixture->now_ms, now + SECOND_MS);
    assert_false(there(fixture, 1));
    gb_fixture_reopen(fixture);
    assert_false(there(fixture, 1));
    atomic_store(&fixture->now_ms, now + 3 * SECOND_MS - 1);
    assert_true(there(fixture, 2));
    atomic_store(&fixture->now_ms, now + 3 * SECOND_MS);
    assert_false(there(fixture, 2));
}

static void wall_clock__steps_by_an_hour_either_way(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    int64_t now = atomic_load(&fixture->now_ms);
    put_until(fixture, 1, now + 2 * HOUR_MS);
    put_until(fixture, 2, now + HOUR_MS / 2);
    put_until(fixture, 3, 0);
    atomic_store(&fixture->now_ms, now + HOUR_MS);
    assert_true(there(fixture, 1));
    assert_false(there(fixture, 2));
    assert_true(there(fixture, 3));
    put_until(fixture, 2, now + HOUR_MS + SECOND_MS);
    assert_true(there(fixture, 2));
    /* And back by two: nothing that lives may go for it, and what is written counts. */
    atomic_store(&fixture->now_ms, now - HOUR_MS);
    assert_true(there(fixture, 1));
    assert_true(there(fixture, 2));
    assert_true(there(fixture, 3));
    gb_fixture_reopen(fixture);
    put_until(fixture, 3, now - HOUR_MS + SECOND_MS);
    assert_true(there(fixture, 1));
    assert_true(there(fixture, 3));
    atomic_store(&fixture->now_ms, now - HOUR_MS + SECOND_MS);
    assert_false(there(fixture, 3));
    assert_true(there(fixture, 2));
}

static void expiries__reach_beyond_2038_and_to_the_formats_limit(void **state)
{
    struct gb_fixture *fixture = *state;
    const int64_t expiries[] = {
        ((INT64_C(1) << 31) - 1) * 1000,
        (INT64_C(1) << 31) * 1000 + 1,
        (INT64_C(1) << 32) * 1000 + 1,
        EXPIRY_MOST - 1,
        EXPIRY_MOST,
    };
    const size_t count = sizeof(expiries) / sizeof(expiries[0]);
    gb_fixture_open(fixture);
    for (size_t i = 0; i < count; i++) {
        put_until(fixture, i, expiries[i]);
    }
    struct gb_key key;
    const struct goblin_put_options beyond = {.expires_ms = EXPIRY_MOST + 1};
    assert_int_equal(
        goblin_put(fixture->store, gb_key_at(&key, count), GOBLIN_LITERAL("value"), &beyond, NULL),
        -EINVAL);
    gb_fixture_reopen(fixture);
    for (size_t i = 0; i < count; i++) {
        struct goblin_info info;
        assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info), GOBLIN_OK);
        assert_int_equal(info.expires_ms, expiries[i]);
        atomic_store(&fixture->now_ms, expiries[i] - 1);
        assert_true(there(fixture, i));
        atomic_store(&fixture->now_ms, expiries[i]);
        assert_false(there(fixture, i));
    }
}

static void background__goes_on_when_the_wall_clock_steps_back(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.flush_ms = 50;
    atomic_store(&wall_ahead_s, 3600);
    gb_fixture_open(fixture);
    uint64_t before = gb_fixture_stats(fixture).device_writes;
    assert_int_equal(gb_fixture_put(fixture, 1, 1000, 1), GOBLIN_OK);
    bool written = false;
    for (unsigned i = 0; i < 10000 && !written; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
        written = gb_fixture_stats(fixture).device_writes > before;
    }
    atomic_store(&wall_ahead_s, 0);
    assert_true(written); /* `none` is written within its delay, in one round of the keeper's */
}

/* ---- a process that is stopped ------------------------------------------------------------- */

/* The child's life: real clock, real expiry. Says 'a' when it may be stopped, works on, and ends
 * when told to with whether all was as it should be. */
static int live_through_a_stop(struct gb_fixture *fixture, int told, int tell)
{
    fixture->options.clock = NULL;
    fixture->options.flush_ms = 50;
    gb_fixture_open(fixture);
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    put_until(fixture, 1, ((int64_t)now.tv_sec + 3) * 1000);
    put_until(fixture, 2, ((int64_t)now.tv_sec + 3600) * 1000);
    struct timespec start;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    bool good = write(tell, "a", 1) == 1;
    uint64_t puts = 0;
    char end = 0;
    while (good && read(told, &end, 1) != 1) { /* does not block */
        good = gb_fixture_put(fixture, 100 + puts % 50, 1000 + puts % 50 * 3000, puts) == GOBLIN_OK;
        puts++;
    }
    struct timespec stop;
    (void)clock_gettime(CLOCK_MONOTONIC, &stop);
    good = good && stop.tv_sec - start.tv_sec >= 4 && puts > 1 && !there(fixture, 1) &&
           there(fixture, 2) && goblin_sync(fixture->store) == GOBLIN_OK;
    gb_fixture_reopen(fixture);
    good = good && there(fixture, 2);
    gb_fixture_expect(fixture, 100 + (puts - 1) % 50, 1000 + (puts - 1) % 50 * 3000, puts - 1);
    gb_fixture_close(fixture);
    return good ? 0 : 1;
}

static void process__goes_on_after_five_seconds_of_sigstop(void **state)
{
    int told[2];
    int tell[2];
    assert_int_equal(pipe2(told, O_NONBLOCK), 0);
    assert_int_equal(pipe(tell), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(live_through_a_stop(*state, told[0], tell[1]));
    }
    char ready = 0;
    assert_int_equal(read(tell[0], &ready, 1), 1);
    const struct timespec pause = {.tv_sec = 5};
    const struct timespec moment = {.tv_nsec = 200000000};
    (void)nanosleep(&moment, NULL);
    assert_int_equal(kill(child, SIGSTOP), 0);
    (void)nanosleep(&pause, NULL);
    assert_int_equal(kill(child, SIGCONT), 0);
    (void)nanosleep(&moment, NULL);
    assert_int_equal(write(told[1], "e", 1), 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (unsigned i = 0; i < 2; i++) {
        (void)close(told[i]);
        (void)close(tell[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(ttl_of_a_second__lives_a_second_and_no_longer),
        GB_ON_BOTH_PATHS(wall_clock__steps_by_an_hour_either_way),
        GB_ON_BOTH_PATHS(expiries__reach_beyond_2038_and_to_the_formats_limit),
        GB_ON_BOTH_PATHS(background__goes_on_when_the_wall_clock_steps_back),
        GB_ON_BOTH_PATHS(process__goes_on_after_five_seconds_of_sigstop),
    };
    return gb_fixture_run("clock", tests);
}
