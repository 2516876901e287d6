/* Workers: a scripted engine in a process of its own, populated, reopened, replayed, verified. */
#include "bench/scratch.h"
#include "bench/worker.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 40, REQUESTS = 200, OBJECT_MAX = 300000 };

/* Keeps values in memory that outlives close and reopen. `fault` makes it misbehave. */
enum fault { NONE, WRONG_BYTE, SHORT_VALUE, FAILING_GET, DYING_GET };

struct table {
    enum fault fault;
    unsigned char *values[OBJECTS];
    uint64_t sizes[OBJECTS];
};

static struct table table;

static int table_open(void **engine, const struct gb_engine_config *config,
                      enum gb_engine_phase phase, struct goblin_error *error)
{
    (void)config;
    (void)phase;
    (void)error;
    *engine = &table;
    return 0;
}

static int table_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                     const struct gb_engine_value *value)
{
    (void)engine;
    (void)worker;
    const void *data = value->window(value->arg, 0, (size_t)value->size);
    unsigned char *copy = malloc((size_t)value->size + 1);
    if (!data || !copy) {
        return -ENOMEM;
    }
    memcpy(copy, data, (size_t)value->size);
    table.values[key->number] = copy;
    table.sizes[key->number] = value->size;
    return 0;
}

static int table_barrier(void *engine, struct goblin_error *error)
{
    (void)engine;
    (void)error;
    return 0;
}

static int table_get(void *engine, const struct gb_engine_get *get)
{
    (void)engine;
    uint64_t number = get->key->number;
    uint64_t size = table.sizes[number];
    if (table.fault == FAILING_GET && number == 7) {
        return -EIO;
    }
    if (table.fault == DYING_GET && number == 7) {
        raise(SIGKILL);
    }
    if (table.fault == WRONG_BYTE && number == 7) {
        table.values[number][size - 1] ^= 1;
    }
    if (table.fault == SHORT_VALUE && number == 7) {
        size--;
    }
    uint64_t head = size < 1000 ? size : 1000;
    get->chunk(get->arg, table.values[number], (size_t)head);
    if (size > head) {
        get->chunk(get->arg, table.values[number] + head, (size_t)(size - head));
    }
    return size > head ? GB_ENGINE_DISK : GB_ENGINE_RAM;
}

static void table_stats(void *engine, struct gb_engine_stats *stats)
{
    (void)engine;
    memset(stats, 0, sizeof(*stats));
    stats->known = true;
}

static int table_close(void *engine)
{
    (void)engine;
    return 0;
}

static const struct gb_engine_ops table_ops = {
    .name = "table",
    .keeps_bytes = true,
    .open = table_open,
    .put = table_put,
    .barrier = table_barrier,
    .get = table_get,
    .stats = table_stats,
    .close = table_close,
};

struct fixture {
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct gb_content content;
    struct gb_worker worker;
};

static int fixture_create(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct goblin_error error;
    assert_non_null(fixture);
    fixture->corpus.count = OBJECTS;
    fixture->corpus.seed = 5;
    fixture->corpus.sizes = calloc(OBJECTS, sizeof(uint64_t));
    for (uint64_t i = 0; i < OBJECTS; i++) {
        fixture->corpus.sizes[i] = 1 + i * i * i * 7919 % OBJECT_MAX;
        fixture->corpus.total_bytes += fixture->corpus.sizes[i];
    }
    fixture->corpus.max_bytes = OBJECT_MAX;
    fixture->schedule.count = REQUESTS;
    fixture->schedule.objects = calloc(REQUESTS, sizeof(uint32_t));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        fixture->schedule.objects[i] = i * 11 % OBJECTS;
    }
    assert_int_equal(gb_content_init(&fixture->content, &fixture->corpus, &error), 0);
    fixture->worker = (struct gb_worker){
        .ops = &table_ops,
        .config = {.objects = OBJECTS, .bytes = fixture->corpus.total_bytes, .workers = 3},
        .schedule = &fixture->schedule,
        .content = &fixture->content,
        .shared = gb_worker_shared_create(REQUESTS, (uint64_t)REQUESTS * OBJECT_MAX),
        .verify_every = 4,
    };
    assert_non_null(fixture->worker.shared);
    memset(&table, 0, sizeof(table));
    *state = fixture;
    return 0;
}

static int fixture_destroy(void **state)
{
    struct fixture *fixture = *state;
    gb_worker_stop(&fixture->worker);
    gb_worker_shared_destroy(fixture->worker.shared);
    gb_content_fini(&fixture->content);
    free(fixture->corpus.sizes);
    free(fixture->schedule.objects);
    free(fixture);
    return 0;
}

static int order(struct fixture *fixture, struct gb_worker_order order,
                 struct gb_worker_reply *reply, struct goblin_error *error)
{
    int rc = gb_worker_send(&fixture->worker, &order, error);
    while (rc == 0) {
        rc = gb_worker_receive(&fixture->worker, 1000, reply, error);
    }
    return rc;
}

/* Starts with the fault set, since the worker has its own copy of this process's memory. */
static void start(struct fixture *fixture, enum fault fault, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    int rc = 0;
    table.fault = fault;
    assert_int_equal(gb_worker_start(&fixture->worker, error), 0);
    while (rc == 0) {
        rc = gb_worker_receive(&fixture->worker, 1000, &reply, error);
    }
    assert_int_equal(rc, 1);
    assert_true(reply.harness_bytes > 0);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){.verb = GB_WORKER_POPULATE}, &reply, error), 1);
    assert_true(reply.seconds >= reply.barrier_seconds);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){.verb = GB_WORKER_REOPEN}, &reply, error), 1);
}

static void worker__replays_a_slice_and_checks_every_byte(void **state)
{
    struct fixture *fixture = *state;
    struct gb_worker_reply reply;
    struct goblin_error error;
    const uint64_t first = 50;
    const uint64_t count = 100;
    start(fixture, NONE, &error);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){GB_WORKER_REPLAY, first, count}, &reply, &error),
        1);
    assert_int_equal(reply.verify_failures, 0);
    const struct gb_chunk *chunk = fixture->worker.shared->chunks;
    for (uint64_t i = 0; i < count; i++) {
        const struct gb_worker_record *record = &fixture->worker.shared->records[i];
        uint64_t size = fixture->corpus.sizes[fixture->schedule.objects[first + i]];
        assert_int_equal(record->bytes, size);
        assert_int_equal(record->chunk_count, size > 1000 ? 2 : 1);
        assert_int_equal(record->answer, size > 1000 ? GB_ENGINE_DISK : GB_ENGINE_RAM);
        assert_int_equal(record->first_ns, chunk[0].ready_ns);
        assert_int_equal(record->last_ns, chunk[record->chunk_count - 1].ready_ns);
        chunk += record->chunk_count;
    }
    assert_int_equal(
        order(fixture, (struct gb_worker_order){.verb = GB_WORKER_VERIFY}, &reply, &error), 1);
    assert_int_equal(reply.verified_bytes, fixture->corpus.total_bytes);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){.verb = GB_WORKER_END}, &reply, &error), 1);
}

static void worker__counts_wrong_bytes_and_wrong_lengths(void **state)
{
    struct fixture *fixture = *state;
    static const enum fault faults[] = {WRONG_BYTE, SHORT_VALUE};
    for (size_t i = 0; i < 2; i++) {
        struct gb_worker_reply reply;
        struct goblin_error error;
        start(fixture, faults[i], &error);
        assert_int_equal(
            order(fixture, (struct gb_worker_order){GB_WORKER_REPLAY, 0, REQUESTS}, &reply, &error),
            1);
        assert_true(reply.verify_failures > 0);
        gb_worker_stop(&fixture->worker);
    }
}

static void worker__reports_an_engines_fault(void **state)
{
    struct fixture *fixture = *state;
    struct gb_worker_reply reply;
    struct goblin_error error;
    start(fixture, FAILING_GET, &error);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){GB_WORKER_REPLAY, 0, REQUESTS}, &reply, &error),
        -EIO);
    assert_non_null(strstr(error.text, "table: get of object 7 failed"));
}

static void worker__reports_a_death(void **state)
{
    struct fixture *fixture = *state;
    struct gb_worker_reply reply;
    struct goblin_error error;
    start(fixture, DYING_GET, &error);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){GB_WORKER_REPLAY, 0, REQUESTS}, &reply, &error),
        -ECHILD);
    assert_non_null(strstr(error.text, "signal 9"));
}

static void worker__merges_chunks_beyond_their_room(void **state)
{
    struct fixture *fixture = *state;
    struct gb_worker_reply reply;
    struct goblin_error error;
    fixture->worker.shared->chunk_capacity = REQUESTS; /* one each */
    start(fixture, NONE, &error);
    assert_int_equal(
        order(fixture, (struct gb_worker_order){GB_WORKER_REPLAY, 0, REQUESTS}, &reply, &error), 1);
    assert_int_equal(reply.verify_failures, 0);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(fixture->worker.shared->records[i].chunk_count, 1);
        assert_int_equal(fixture->worker.shared->chunks[i].bytes,
                         fixture->worker.shared->records[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(worker__replays_a_slice_and_checks_every_byte,
                                        fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(worker__counts_wrong_bytes_and_wrong_lengths,
                                        fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(worker__reports_an_engines_fault, fixture_create,
                                        fixture_destroy),
        cmocka_unit_test_setup_teardown(worker__reports_a_death, fixture_create, fixture_destroy),
        cmocka_unit_test_setup_teardown(worker__merges_chunks_beyond_their_room, fixture_create,
                                        fixture_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
