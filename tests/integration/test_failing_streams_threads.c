/* Streams of several threads beside the background threads, while now and then a write fails. */
#include <pthread.h>
#include <string.h>

#include "engine/keeper.h"
#include "lib/pattern.h"
#include "lib/simstore.h"

#define THREADS 3u
#define VALUES  12u /* of each */
#define PIECE   30000u

struct job {
    struct gb_simstore *sim;
    unsigned thread;
    int rc; /* the first fault, or GOBLIN_OK */
};

static uint64_t number_of(const struct job *job, unsigned value)
{
    return 9 * (job->thread * VALUES + value); /* without metadata: see gb_simstore_expect */
}

static uint64_t size_of(unsigned value)
{
    return 70000 + (uint64_t)value % 4 * 400001;
}

static int stream_one(const struct job *job, unsigned value)
{
    unsigned char piece[PIECE];
    struct gb_key key;
    struct goblin_writer *writer = NULL;
    uint64_t number = number_of(job, value);
    uint64_t size = size_of(value);
    int rc = goblin_writer_begin(&writer, job->sim->store, gb_key_at(&key, number),
                                 value % 2 == 0 ? size : GOBLIN_SIZE_UNKNOWN, NULL);
    if (rc < 0) {
        return rc;
    }
    for (uint64_t at = 0; at < size && rc == GOBLIN_OK; at += PIECE) {
        size_t n = gb_min(PIECE, size - at);
        gb_pattern_fill(piece, n, number, at);
        rc = goblin_writer_write(writer, piece, n);
    }
    if (rc < 0) {
        goblin_writer_abort(writer);
        return rc;
    }
    return goblin_writer_commit(writer, NULL);
}

static void *stream_many(void *arg)
{
    struct job *job = arg;
    for (unsigned value = 0; value < VALUES && job->rc == GOBLIN_OK; value++) {
        job->rc = stream_one(job, value);
    }
    return NULL;
}

/* Two writes fail, early and late, so that the drive is not given up. */
static void streams__go_on_in_many_threads(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.dir_count = 1;
    sim->options.size_bytes = 96 * GB_MIB;
    sim->options.mode = GOBLIN_MODE_STORE;
    sim->options.durability = GOBLIN_DURABILITY_WRITTEN;
    sim->options.flush_ms = 20;
    gb_simstore_open(sim);
    assert_int_equal(gb_keeper_start(sim->store), 0);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 60);
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < THREADS; i++) {
            jobs[i] = (struct job){.sim = sim, .thread = i, .rc = GOBLIN_OK};
            assert_int_equal(pthread_create(&threads[i], NULL, stream_many, &jobs[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL);
            assert_int_equal(jobs[i].rc, GOBLIN_OK);
        }
        simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 100);
    }
    struct goblin_stats stats = gb_simstore_stats(sim);
    assert_int_equal(stats.write_errors, 2);
    assert_true(stats.streams_rescued + stats.blocks_rescued > 0);
    for (unsigned i = 0; i < THREADS * VALUES; i++) {
        gb_simstore_expect(sim, 9 * i, size_of(i % VALUES), 9 * i);
    }
    gb_keeper_stop(sim->store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {GB_ON_A_SIMULATED_DISK(streams__go_on_in_many_threads)};
    return cmocka_run_group_tests_name("failing_streams_threads", tests, NULL, NULL);
}
