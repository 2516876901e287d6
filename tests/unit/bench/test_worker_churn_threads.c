/* Reads beside overwrites on an engine made of a table, which misbehaves on demand. */
#include "bench/churn_store.h"
#include "bench/worker.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OBJECTS = 20, OBJECT_BYTES = 3000, AGE_BYTES = 10 * OBJECTS * OBJECT_BYTES };

enum fault { NONE, WRONG_BYTE, OLD_VALUE, OTHER_VALUE, FORGETFUL, FULL, FAILING_PUT, FAILING_GET };

/* `lock` guards all of it. */
static struct {
    pthread_mutex_t lock;
    enum fault fault;
    uint64_t puts;
    unsigned char values[OBJECTS][OBJECT_BYTES];
    unsigned char first[OBJECTS][OBJECT_BYTES];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int table_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                     const struct gb_engine_value *value)
{
    (void)engine;
    (void)worker;
    const void *data = value->window(value->arg, 0, (size_t)value->size);
    pthread_mutex_lock(&table.lock);
    int rc = 0;
    if (table.fault == FAILING_PUT) {
        rc = -EIO;
    } else if (table.fault == FULL && table.puts++ % 2 == 0) {
        rc = -ENOSPC;
    } else {
        memcpy(table.values[key->number], data, OBJECT_BYTES);
    }
    pthread_mutex_unlock(&table.lock);
    return rc;
}

static int table_get(void *engine, const struct gb_engine_get *get)
{
    (void)engine;
    unsigned char copy[OBJECT_BYTES];
    uint64_t number = get->key->number;
    pthread_mutex_lock(&table.lock);
    enum fault fault = table.fault;
    memcpy(copy, table.values[fault == OTHER_VALUE ? (number + 1) % OBJECTS : number],
           OBJECT_BYTES);
    if (fault == OLD_VALUE) {
        memcpy(copy, table.first[number], OBJECT_BYTES);
    }
    pthread_mutex_unlock(&table.lock);
    if (fault == FAILING_GET) {
        return -EIO;
    }
    if (fault == FORGETFUL && number == 3) {
        return GB_ENGINE_MISS;
    }
    copy[OBJECT_BYTES - 1] ^= fault == WRONG_BYTE;
    get->chunk(get->arg, copy, 1000);
    get->chunk(get->arg, copy + 1000, OBJECT_BYTES - 1000);
    return number % 2 ? GB_ENGINE_DISK : GB_ENGINE_RAM;
}

static int table_barrier(void *engine, struct goblin_error *error)
{
    (void)engine;
    (void)error;
    return 0;
}

static void table_stats(void *engine, struct gb_engine_stats *stats)
{
    (void)engine;
    *stats = (struct gb_engine_stats){.counted_write_bytes = 5, .live_bytes = 6};
}

static const struct gb_engine_ops table_ops = {
    .name = "table",
    .keeps_bytes = true,
    .put = table_put,
    .barrier = table_barrier,
    .get = table_get,
    .stats = table_stats,
};

struct fixture {
    struct gb_corpus corpus;
    struct gb_content content;
    struct gb_content_window window;
    struct gb_worker worker;
    struct gb_worker_state state;
    struct gb_worker_reply reply;
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
        fixture->corpus.sizes[i] = OBJECT_BYTES;
    }
    assert_int_equal(gb_content_init(&fixture->content, &fixture->corpus, &error), 0);
    assert_int_equal(gb_content_window_open(&fixture->window, &fixture->content), 0);
    fixture->worker = (struct gb_worker){
        .ops = &table_ops,
        .config = {.dir = "/proc"},
        .content = &fixture->content,
        .shared = gb_worker_shared_create(1, 1),
        .churn = gb_churn_store_create(OBJECTS),
    };
    assert_non_null(fixture->worker.shared);
    assert_non_null(fixture->worker.churn);
    fixture->worker.churn->write_rate = 10 << 20;
    fixture->worker.churn->read_rate = 2000;
    fixture->state = (struct gb_worker_state){
        .worker = &fixture->worker, .engine = &table, .windows = &fixture->window};
    table.fault = NONE;
    table.puts = 0;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        const void *value = gb_content_window_prepare(&fixture->window, i, 0, OBJECT_BYTES);
        memcpy(table.values[i], value, OBJECT_BYTES);
        memcpy(table.first[i], value, OBJECT_BYTES);
    }
    *state = fixture;
    return 0;
}

static int fixture_destroy(void **state)
{
    struct fixture *fixture = *state;
    gb_content_window_close(&fixture->window);
    gb_content_fini(&fixture->content);
    gb_worker_shared_destroy(fixture->worker.shared);
    gb_churn_store_destroy(fixture->worker.churn);
    free(fixture->corpus.sizes);
    free(fixture);
    return 0;
}

static int phase(struct fixture *fixture, enum gb_churn_phase phase)
{
    const struct gb_worker_order order = {GB_WORKER_PHASE, phase, 1};
    return gb_worker_phase(&fixture->state, &order, &fixture->reply);
}

static int age(struct fixture *fixture)
{
    const struct gb_worker_order order = {GB_WORKER_AGE, 0, AGE_BYTES};
    return gb_worker_age(&fixture->state, &order, &fixture->reply);
}

static void worker_churn__reads_beside_overwrites_and_keeps_the_books(void **state)
{
    struct fixture *fixture = *state;
    const struct gb_churn_store *store = fixture->worker.churn;
    assert_int_equal(phase(fixture, GB_CHURN_IDLE), 0);
    assert_int_equal(store->counts.user_bytes, 0);
    assert_int_equal(phase(fixture, GB_CHURN_BUSY), 0);
    assert_int_equal(store->seconds, 2);
    assert_int_equal(store->phases[0], GB_CHURN_IDLE);
    assert_int_equal(store->phases[1], GB_CHURN_BUSY);
    assert_int_equal(store->writes.bytes, store->writes.all.count * OBJECT_BYTES);
    assert_int_equal(store->counts.user_bytes, store->writes.all.count * (OBJECT_BYTES + 16));
    assert_int_equal(store->counts.engine_bytes, 5);
    assert_false(store->counts.has_device);
    /* No faster than asked for, and a machine under load may be slower. */
    assert_in_range(store->writes.bytes, 1, (10 << 20) + OBJECT_BYTES);
    assert_in_range(store->reads[GB_CHURN_BUSY].all.count, 1, 2001);
    assert_true(store->reads[GB_CHURN_BUSY].disk.count > 0);
    assert_true(store->reads[GB_CHURN_BUSY].disk.count < store->reads[GB_CHURN_BUSY].all.count);
    assert_int_equal(store->read_timeline.seconds[1].count, store->reads[GB_CHURN_BUSY].all.count);
    assert_int_equal(store->write_timeline.seconds[0].count, 0);
    assert_int_equal(store->write_timeline.seconds[1].bytes, store->writes.bytes);
    assert_int_equal(gb_worker_settle(&fixture->state, &fixture->reply), 0);
    assert_int_equal(gb_worker_inspect(&fixture->state, &fixture->reply), 0);
    assert_int_equal(store->checked, OBJECTS);
    assert_int_equal(store->lost + store->wrong + store->stale + store->refused, 0);
}

static void worker_churn__sees_wrong_old_and_foreign_values(void **state)
{
    struct fixture *fixture = *state;
    struct gb_churn_store *store = fixture->worker.churn;
    assert_int_equal(age(fixture), 0); /* ten versions on: hardly an object has its first */
    static const struct {
        enum fault fault;
        bool is_wrong;
    } cases[] = {{WRONG_BYTE, true}, {OTHER_VALUE, true}, {OLD_VALUE, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        table.fault = cases[i].fault;
        store->wrong = 0;
        store->stale = 0;
        assert_int_equal(phase(fixture, GB_CHURN_IDLE), 0);
        assert_int_equal(store->wrong > 0, cases[i].is_wrong);
        assert_int_equal(store->stale > 0, !cases[i].is_wrong);
        store->wrong = 0;
        store->stale = 0;
        assert_int_equal(gb_worker_inspect(&fixture->state, &fixture->reply), 0);
        assert_int_equal(store->wrong > 0, cases[i].is_wrong);
        assert_int_equal(store->stale > 0, !cases[i].is_wrong);
    }
    table.fault = FORGETFUL;
    assert_int_equal(gb_worker_inspect(&fixture->state, &fixture->reply), 0);
    assert_int_equal(store->lost, 1);
    assert_int_equal(phase(fixture, GB_CHURN_AFTER), 0);
    assert_true(store->reads[GB_CHURN_AFTER].misses > 0);
}

static void worker_churn__goes_on_when_a_store_is_full(void **state)
{
    struct fixture *fixture = *state;
    struct gb_churn_store *store = fixture->worker.churn;
    table.fault = FULL;
    assert_int_equal(phase(fixture, GB_CHURN_BUSY), 0);
    assert_true(store->refused > 0);
    assert_true(store->writes.all.count > 0);
    assert_int_equal(gb_worker_inspect(&fixture->state, &fixture->reply), 0);
    assert_int_equal(store->wrong + store->stale + store->lost, 0);
}

static void worker_churn__reports_faults(void **state)
{
    struct fixture *fixture = *state;
    table.fault = FAILING_PUT;
    assert_int_equal(age(fixture), -EIO);
    assert_int_equal(phase(fixture, GB_CHURN_BUSY), -EIO);
    assert_non_null(strstr(fixture->reply.error.text, "overwrites"));
    table.fault = FAILING_GET;
    assert_int_equal(phase(fixture, GB_CHURN_IDLE), -EIO);
    assert_int_equal(gb_worker_inspect(&fixture->state, &fixture->reply), -EIO);
    const struct gb_worker_order bad[] = {{GB_WORKER_PHASE, GB_CHURN_PHASES, 1},
                                          {GB_WORKER_PHASE, GB_CHURN_IDLE, 0},
                                          {GB_WORKER_PHASE, 0, GB_CHURN_SECONDS_MAX + 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gb_worker_phase(&fixture->state, &bad[i], &fixture->reply), -EINVAL);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_create, fixture_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(worker_churn__reads_beside_overwrites_and_keeps_the_books),
        CASE(worker_churn__sees_wrong_old_and_foreign_values),
        CASE(worker_churn__goes_on_when_a_store_is_full),
        CASE(worker_churn__reports_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
