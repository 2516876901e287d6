/* Streaming writers: aborts at every stage, announced sizes, conditions at commit, many at once,
 * values larger than memory, and the limit on what is uncommitted. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fixture.h"
#include "lib/pattern.h"

#define STEP (100 * GB_KIB)

static int write_pattern(struct goblin_writer *writer, uint64_t from, uint64_t to, uint64_t seed)
{
    static _Thread_local unsigned char piece[STEP];
    int rc = GOBLIN_OK;
    while (from < to && rc == GOBLIN_OK) {
        size_t n = gb_min(STEP, to - from);
        gb_pattern_fill(piece, n, seed, from);
        rc = goblin_writer_write(writer, piece, n);
        from += n;
    }
    return rc;
}

static struct goblin_writer *begin(struct gb_fixture *fixture, uint64_t number, uint64_t size,
                                   const struct goblin_put_options *options)
{
    struct gb_key key;
    struct goblin_writer *writer = NULL;
    assert_int_equal(
        goblin_writer_begin(&writer, fixture->store, gb_key_at(&key, number), size, options),
        GOBLIN_OK);
    return writer;
}

/* ---- abort --------------------------------------------------------------------------------- */

static const uint64_t stages[] = {0, 1, 5000, 60000, 200000, 3 * GB_MIB, 9 * GB_MIB};
#define STAGES (sizeof(stages) / sizeof(stages[0]))

static void abort__leaves_no_trace_at_any_stage(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < STAGES; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 20000 + i, 100 + i), GOBLIN_OK);
    }
    for (unsigned round = 0; round < 2; round++) {
        uint64_t announced = round == 0 ? 10 * GB_MIB : GOBLIN_SIZE_UNKNOWN;
        for (unsigned i = 0; i < STAGES; i++) {
            /* Over an object, and where none is. */
            for (unsigned key = i; key < 200; key += 100) {
                struct goblin_writer *writer = begin(fixture, key, announced, NULL);
                assert_int_equal(write_pattern(writer, 0, stages[i], 1), GOBLIN_OK);
                goblin_writer_abort(writer);
            }
        }
    }
    goblin_writer_abort(NULL);
    for (unsigned reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(gb_fixture_stats(fixture).objects, STAGES);
        for (unsigned i = 0; i < STAGES; i++) {
            gb_fixture_expect(fixture, i, 20000 + i, 100 + i);
            gb_fixture_expect_none(fixture, 100 + i);
        }
        gb_fixture_reopen(fixture);
    }
}

static void abort__gives_the_space_back(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    /* Ten times the store goes by; every second value stays uncommitted, the others are deleted. */
    for (unsigned i = 0; i < 64; i++) {
        struct goblin_writer *writer = begin(fixture, i, 10 * GB_MIB, NULL);
        assert_int_equal(write_pattern(writer, 0, 10 * GB_MIB, i), GOBLIN_OK);
        if (i % 2 == 0) {
            goblin_writer_abort(writer);
        } else {
            struct gb_key key;
            assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_OK);
            assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, i), NULL), GOBLIN_OK);
        }
    }
    assert_int_equal(gb_fixture_stats(fixture).objects, 0);
    assert_int_equal(gb_fixture_stats(fixture).live_bytes, 0);
}

/* ---- sizes that do not hold ---------------------------------------------------------------- */

static void write__refuses_more_than_announced(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < STAGES; i++) {
        struct goblin_writer *writer = begin(fixture, i, stages[i], NULL);
        assert_int_equal(write_pattern(writer, 0, stages[i], 1), GOBLIN_OK);
        assert_int_equal(goblin_writer_write(writer, "x", 1), GOBLIN_ESIZE);
        /* After a fault only abort is left; a commit says so and stores nothing. */
        assert_int_equal(goblin_writer_write(writer, "x", 1), GOBLIN_ESIZE);
        if (i % 2 == 0) {
            goblin_writer_abort(writer);
        } else {
            assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_ESIZE);
        }
        gb_fixture_expect_none(fixture, i);
    }
}

static void commit__refuses_less_than_announced(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < STAGES; i++) {
        struct goblin_writer *writer = begin(fixture, i, stages[i] + 1, NULL);
        assert_int_equal(write_pattern(writer, 0, stages[i], 1), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_ESIZE);
        gb_fixture_expect_none(fixture, i);
    }
    assert_int_equal(gb_fixture_stats(fixture).puts, 0);
    struct gb_key key;
    struct goblin_writer *writer = NULL;
    assert_int_equal(
        goblin_writer_begin(&writer, fixture->store, gb_key_at(&key, 0), 65 * GB_MIB, NULL),
        GOBLIN_ETOOBIG);
}

/* ---- conditions ---------------------------------------------------------------------------- */

static void commit__judges_conditions_at_the_end(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < STAGES; i++) {
        const struct goblin_put_options absent = {.condition = GOBLIN_IF_ABSENT};
        struct goblin_writer *first = begin(fixture, i, stages[i], &absent);
        struct goblin_writer *second = begin(fixture, i, GOBLIN_SIZE_UNKNOWN, &absent);
        assert_int_equal(write_pattern(first, 0, stages[i], 1), GOBLIN_OK);
        assert_int_equal(write_pattern(second, 0, stages[i], 2), GOBLIN_OK);
        uint64_t stored = 0;
        uint64_t version = 0;
        assert_int_equal(goblin_writer_commit(second, &stored), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(first, &version), GOBLIN_EXISTS);
        assert_int_equal(version, stored);
        gb_fixture_expect(fixture, i, stages[i], 2);

        struct goblin_put_options same = {.condition = GOBLIN_IF_VERSION, .if_version = stored};
        first = begin(fixture, i, stages[i], &same);
        second = begin(fixture, i, stages[i], &same);
        assert_int_equal(write_pattern(first, 0, stages[i], 3), GOBLIN_OK);
        assert_int_equal(write_pattern(second, 0, stages[i], 4), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(first, NULL), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(second, NULL), GOBLIN_CHANGED);
        gb_fixture_expect(fixture, i, stages[i], 3);

        const struct goblin_put_options present = {.condition = GOBLIN_IF_PRESENT};
        first = begin(fixture, 100 + i, stages[i], &present);
        assert_int_equal(write_pattern(first, 0, stages[i], 5), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(first, NULL), GOBLIN_MISS);
        gb_fixture_expect_none(fixture, 100 + i);
    }
}

static void commit__takes_version_and_metadata_along(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < STAGES; i++) {
        struct gb_key key;
        struct goblin_info info;
        struct goblin_buffer buffer = {0};
        struct goblin_buffer meta = {0};
        char text[16] = "some metadata";
        const struct goblin_put_options options = {
            .meta = {text, 13}, .version = 77, .flags = 5, .durability = GOBLIN_DURABILITY_SYNCED};
        struct goblin_writer *writer = begin(fixture, i, stages[i], &options);
        memset(text, 0, sizeof(text)); /* it was copied */
        assert_int_equal(write_pattern(writer, 0, stages[i], 1), GOBLIN_OK);
        uint64_t version = 0;
        assert_int_equal(goblin_writer_commit(writer, &version), GOBLIN_OK);
        assert_int_equal(version, 77);
        assert_int_equal(goblin_load(fixture->reader, gb_key_at(&key, i), &buffer, &info, &meta),
                         GOBLIN_OK);
        assert_int_equal(info.version, 77);
        assert_int_equal(info.flags, 5);
        assert_int_equal(info.size, stages[i]);
        assert_int_equal(meta.len, 13);
        assert_memory_equal(meta.data, "some metadata", 13);
        assert_true(gb_pattern_holds(buffer.data, buffer.len, 1, 0));
        goblin_buffer_free(&buffer);
        goblin_buffer_free(&meta);
    }
}

static void uncommitted_values__are_not_seen(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    assert_int_equal(gb_fixture_put(fixture, 0, 30000, 1), GOBLIN_OK);
    struct goblin_writer *over = begin(fixture, 0, 5 * GB_MIB, NULL);
    struct goblin_writer *fresh = begin(fixture, 1, GOBLIN_SIZE_UNKNOWN, NULL);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t from = i * 5 * GB_MIB / 10;
        uint64_t to = (i + 1) * 5 * GB_MIB / 10;
        assert_int_equal(write_pattern(over, from, to, 2), GOBLIN_OK);
        assert_int_equal(write_pattern(fresh, from, to, 3), GOBLIN_OK);
        gb_fixture_expect(fixture, 0, 30000, 1);
        gb_fixture_expect_none(fixture, 1);
        assert_int_equal(gb_fixture_stats(fixture).objects, 1);
    }
    assert_int_equal(goblin_writer_commit(over, NULL), GOBLIN_OK);
    assert_int_equal(goblin_writer_commit(fresh, NULL), GOBLIN_OK);
    gb_fixture_expect(fixture, 0, 5 * GB_MIB, 2);
    gb_fixture_expect(fixture, 1, 5 * GB_MIB, 3);
}

/* ---- many, and large ----------------------------------------------------------------------- */

struct stream_job {
    struct gb_fixture *fixture;
    unsigned thread;
    unsigned committed;
    int fault;
};

static void *stream_many(void *arg)
{
    struct stream_job *job = arg;
    for (unsigned i = 0; i < 12 && job->fault == 0; i++) {
        struct gb_key key;
        struct goblin_writer *writer = NULL;
        uint64_t number = job->thread * 100u + i;
        uint64_t size = 1000 + (uint64_t)i * i * 9000;
        int rc = goblin_writer_begin(&writer, job->fixture->store, gb_key_at(&key, number),
                                     i % 3 == 0 ? GOBLIN_SIZE_UNKNOWN : size, NULL);
        rc = rc == GOBLIN_OK ? write_pattern(writer, 0, size, number) : rc;
        if (rc < 0 || i % 4 == 3) {
            goblin_writer_abort(writer);
        } else {
            rc = goblin_writer_commit(writer, NULL);
            job->committed += rc == GOBLIN_OK;
        }
        job->fault = rc < 0 ? rc : 0;
    }
    return NULL;
}

static void writers__may_be_many_at_once(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    gb_fixture_open(fixture);
    pthread_t threads[6];
    struct stream_job jobs[6];
    for (unsigned i = 0; i < 6; i++) {
        jobs[i] = (struct stream_job){.fixture = fixture, .thread = i};
        assert_int_equal(pthread_create(&threads[i], NULL, stream_many, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < 6; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].fault, 0);
        assert_int_equal(jobs[i].committed, 9);
    }
    for (unsigned reopened = 0; reopened < 2; reopened++) {
        for (unsigned number = 0; number < 600; number++) {
            uint64_t i = number % 100;
            if (i < 12 && i % 4 != 3) {
                gb_fixture_expect(fixture, number, 1000 + i * i * 9000, number);
            } else if (i < 12) {
                gb_fixture_expect_none(fixture, number);
            }
        }
        gb_fixture_reopen(fixture);
    }
}

static void writers__are_refused_when_memory_has_no_block_left(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    struct goblin_writer *writers[256] = {0};
    unsigned count = 0;
    int rc = GOBLIN_OK;
    while (rc == GOBLIN_OK) {
        struct gb_key key;
        assert_true(count < 256);
        rc = goblin_writer_begin(&writers[count], fixture->store, gb_key_at(&key, count), 100000,
                                 NULL);
        count += rc == GOBLIN_OK;
    }
    assert_int_equal(rc, -ENOMEM);
    assert_true(count >= 4);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
    /* Those that did begin go on, and one that ends makes room for another. */
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(write_pattern(writers[i], 0, 100000, i), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(writers[i], NULL), GOBLIN_OK);
    }
    for (unsigned i = 0; i < count; i++) {
        gb_fixture_expect(fixture, i, 100000, i);
    }
    assert_int_equal(gb_fixture_stream(fixture, 0, 200000, 9, 5000), GOBLIN_OK);
}

static void stream__may_be_far_larger_than_memory(void **state)
{
    struct gb_fixture *fixture = *state;
    bool large = getenv("GOBLIN_TEST_LARGE") != NULL;
    uint64_t size = (large ? 1024 : 200) * GB_MIB;
    fixture->options.memory_bytes = (large ? 64 : 16) * GB_MIB;
    fixture->options.size_bytes = 3 * size;
    fixture->options.segment_bytes = 16 * GB_MIB;
    gb_fixture_open(fixture);
    for (unsigned number = 0; number < 2; number++) {
        uint64_t announced = number == 0 ? size : GOBLIN_SIZE_UNKNOWN;
        struct goblin_writer *writer = begin(fixture, number, announced, NULL);
        assert_int_equal(write_pattern(writer, 0, size, 7 + number), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_OK);
        gb_fixture_expect(fixture, number, size, 7 + number);
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
    }
    gb_fixture_reopen(fixture);
    const struct goblin_request range = {.offset = size / 2 - 10, .length = 1000000};
    assert_int_equal(gb_fixture_read(fixture, 0, 7, &range, NULL), GOBLIN_OK);
    gb_fixture_expect(fixture, 1, size, 8);
}

/* ---- the limit on what is uncommitted ------------------------------------------------------ */

static void uncommitted_values__may_take_half_the_store(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    assert_int_equal(gb_fixture_put(fixture, 50, 300000, 50), GOBLIN_OK);
    struct goblin_writer *writers[4] = {0};
    uint64_t written[4] = {0};
    int rc = GOBLIN_OK;
    unsigned last = 0;
    while (rc == GOBLIN_OK) {
        last = (last + 1) % 4;
        if (writers[last] == NULL) {
            writers[last] = begin(fixture, last, GOBLIN_SIZE_UNKNOWN, NULL);
        }
        rc = write_pattern(writers[last], written[last], written[last] + STEP, last);
        written[last] += rc == GOBLIN_OK ? STEP : 0;
        assert_true(written[last] < 40 * GB_MIB);
    }
    assert_int_equal(rc, -ENOSPC);
    uint64_t total = written[0] + written[1] + written[2] + written[3];
    assert_in_range(total, 8 * GB_MIB, 33 * GB_MIB);
    goblin_writer_abort(writers[last]);
    writers[last] = NULL;
    /* The store still takes and gives; the others commit. */
    assert_int_equal(gb_fixture_put(fixture, 51, 300000, 51), GOBLIN_OK);
    gb_fixture_expect(fixture, 50, 300000, 50);
    gb_fixture_expect(fixture, 51, 300000, 51);
    for (unsigned i = 0; i < 4; i++) {
        if (writers[i] != NULL) {
            assert_int_equal(goblin_writer_commit(writers[i], NULL), GOBLIN_OK);
            gb_fixture_expect(fixture, i, written[i], i);
        }
    }
    /* What was aborted makes room again. */
    assert_int_equal(gb_fixture_stream(fixture, last, 8 * GB_MIB, 9, STEP), GOBLIN_OK);
    gb_fixture_expect(fixture, last, 8 * GB_MIB, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(abort__leaves_no_trace_at_any_stage),
        GB_ON_BOTH_PATHS(abort__gives_the_space_back),
        GB_ON_BOTH_PATHS(write__refuses_more_than_announced),
        GB_ON_BOTH_PATHS(commit__refuses_less_than_announced),
        GB_ON_BOTH_PATHS(commit__judges_conditions_at_the_end),
        GB_ON_BOTH_PATHS(commit__takes_version_and_metadata_along),
        GB_ON_BOTH_PATHS(uncommitted_values__are_not_seen),
        GB_ON_BOTH_PATHS(writers__may_be_many_at_once),
        GB_ON_BOTH_PATHS(writers__are_refused_when_memory_has_no_block_left),
        GB_ON_BOTH_PATHS(stream__may_be_far_larger_than_memory),
        GB_ON_BOTH_PATHS(uncommitted_values__may_take_half_the_store),
    };
    return gb_fixture_run("writers", tests);
}
