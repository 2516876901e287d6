/* Memory is a promise: under a mixed load of several threads what the library says it holds adds up
 * and stays within the budget, and the process agrees. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"

#define VALUE_MAX (600 * GB_KIB)
#define LOADERS   3u

/* Resident bytes of this process, from /proc/self/status. */
static uint64_t resident_bytes(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    assert_non_null(status);
    while (fgets(line, sizeof(line), status) != NULL) {
        if (sscanf(line, "VmRSS: %llu", &kib) == 1) {
            break;
        }
    }
    (void)fclose(status);
    assert_true(kib > 0);
    return kib * GB_KIB;
}

struct load {
    struct gb_fixture *fixture;
    uint64_t seed;
    uint64_t keys;
    size_t size_most;
    unsigned operations;
    unsigned char *value; /* made and touched before the baseline is taken */
    _Atomic unsigned *running;
    int fault;
};

static int discard(void *arg, const struct goblin_chunk *chunk)
{
    (void)arg;
    (void)chunk;
    return GOBLIN_CHUNK_DONE;
}

static int one_operation(struct load *load, struct goblin_reader *reader, struct gb_rng *rng)
{
    struct goblin *store = load->fixture->store;
    struct gb_key text;
    const struct goblin_slice key = gb_key_at(&text, gb_rng_below(rng, load->keys));
    uint64_t dice = gb_rng_below(rng, 20);
    size_t size = gb_rng_below(rng, load->size_most);
    if (dice < 10) {
        struct goblin_request request = {.key = key, .on_chunk = discard};
        return goblin_get(reader, &request);
    }
    if (dice < 11) {
        return goblin_delete(store, key, NULL);
    }
    if (dice < 18) {
        const struct goblin_slice value = {load->value, size};
        return goblin_put(store, key, value, NULL, NULL);
    }
    struct goblin_writer *writer = NULL;
    int rc = goblin_writer_begin(&writer, store, key, GOBLIN_SIZE_UNKNOWN, NULL);
    if (rc == GOBLIN_OK) {
        rc = goblin_writer_write(writer, load->value, size);
    }
    if (rc == GOBLIN_OK && dice == 18) {
        return goblin_writer_commit(writer, NULL);
    }
    goblin_writer_abort(writer);
    return rc == -ENOMEM ? GOBLIN_OK : rc;
}

static void *run_load(void *arg)
{
    struct load *load = arg;
    struct goblin_reader *reader = NULL;
    struct gb_rng rng;
    gb_rng_init(&rng, load->seed);
    const struct goblin_reader_options options = {.buffers = 2, .requests = 4};
    int rc = goblin_reader_create(&reader, load->fixture->store, &options);
    for (unsigned i = 0; rc >= 0 && i < load->operations; i++) {
        rc = one_operation(load, reader, &rng);
    }
    load->fault = rc < 0 ? rc : 0;
    goblin_reader_destroy(reader);
    atomic_fetch_sub(load->running, 1);
    return NULL;
}

/* What was worst while the load ran. */
struct peak {
    uint64_t used_bytes;
    uint64_t rss_bytes;
    bool adds_up;
};

static void watch(struct gb_fixture *fixture, struct peak *peak)
{
    struct goblin_stats stats = gb_fixture_stats(fixture);
    uint64_t sum = stats.memory_arena_bytes + stats.memory_index_bytes +
                   stats.memory_ordered_bytes + stats.memory_write_bytes + stats.memory_read_bytes +
                   stats.memory_other_bytes;
    peak->adds_up = peak->adds_up && sum == stats.memory_used_bytes;
    peak->used_bytes = gb_max(peak->used_bytes, stats.memory_used_bytes);
    peak->rss_bytes = gb_max(peak->rss_bytes, resident_bytes());
}

static void run_crew(struct gb_fixture *fixture, struct load *loads, struct peak *peak)
{
    pthread_t threads[LOADERS];
    _Atomic unsigned running = LOADERS;
    for (unsigned i = 0; i < LOADERS; i++) {
        loads[i].fixture = fixture;
        loads[i].running = &running;
        assert_int_equal(pthread_create(&threads[i], NULL, run_load, &loads[i]), 0);
    }
    while (atomic_load(&running) > 0) {
        const struct timespec pause = {.tv_nsec = 2000000};
        watch(fixture, peak);
        (void)nanosleep(&pause, NULL);
    }
    for (unsigned i = 0; i < LOADERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static void check_budget(struct gb_fixture *fixture, uint64_t memory_bytes, uint64_t keys,
                         size_t size_most, unsigned operations)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    printf("seed %ld\n", now.tv_nsec);
    struct load loads[LOADERS];
    for (unsigned i = 0; i < LOADERS; i++) {
        loads[i] = (struct load){.seed = (uint64_t)now.tv_nsec + i,
                                 .keys = keys,
                                 .size_most = size_most,
                                 .operations = GB_SANITIZED ? operations / 8 : operations,
                                 .value = malloc(VALUE_MAX)};
        assert_non_null(loads[i].value);
        gb_pattern_fill(loads[i].value, VALUE_MAX, i, 0);
    }
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.size_bytes = 256 * GB_MIB;
    fixture->options.memory_bytes = memory_bytes;
    uint64_t baseline = resident_bytes();
    struct peak peak = {.adds_up = true};
    gb_fixture_open(fixture);
    for (unsigned round = 0; round < 2; round++) {
        run_crew(fixture, loads, &peak);
        for (unsigned i = 0; i < LOADERS; i++) {
            assert_int_equal(loads[i].fault, 0);
        }
        gb_fixture_reopen(fixture);
        watch(fixture, &peak);
    }
    for (unsigned i = 0; i < LOADERS; i++) {
        free(loads[i].value);
    }
    printf("budget %llu KiB, used %llu, resident set %llu above its start\n",
           (unsigned long long)(memory_bytes / GB_KIB),
           (unsigned long long)(peak.used_bytes / GB_KIB),
           (unsigned long long)((peak.rss_bytes - baseline) / GB_KIB));
    assert_true(peak.adds_up);
    assert_true(peak.used_bytes <= memory_bytes);
    if (!GB_SANITIZED) {
        uint64_t most = memory_bytes + memory_bytes / 20 + 16 * GB_MIB;
        assert_true(peak.rss_bytes - baseline <= most);
        /* And it is used: a budget that is not spent keeps nothing in RAM. */
        assert_true(peak.used_bytes > memory_bytes / 2);
    }
}

static void memory__holds_with_small_objects(void **state)
{
    check_budget(*state, 24 * GB_MIB, 100000, 1000, 80000);
}

static void memory__holds_with_middling_objects(void **state)
{
    check_budget(*state, 32 * GB_MIB, 4000, 40000, 6000);
}

static void memory__holds_with_large_objects(void **state)
{
    check_budget(*state, 48 * GB_MIB, 400, VALUE_MAX, 800);
}

static void memory__holds_where_it_is_least(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.chunk_bytes = 64 * GB_KIB;
    check_budget(fixture, 8 * GB_MIB, 20000, 20000, 10000);
}

static void memory__holds_with_fixed_heads(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.residency = GOBLIN_RESIDENCY_FIXED;
    check_budget(fixture, 32 * GB_MIB, 4000, 60000, 6000);
}

static void memory__holds_with_keys_in_order(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
    check_budget(fixture, 24 * GB_MIB, 100000, 1000, 80000);
    assert_true(gb_fixture_stats(fixture).ordered_keys > 0);
}

/* A cache whose keys alone are too many for its memory lets objects go; it never fails. */
static void memory__lets_objects_go_where_keys_fill_it(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.size_bytes = 256 * GB_MIB;
    fixture->options.memory_bytes = 8 * GB_MIB;
    gb_fixture_open(fixture);
    const uint64_t count = GB_SANITIZED ? 100000 : 250000;
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 16, i), GOBLIN_OK);
    }
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
    assert_true(stats.left_ram > 0);
    assert_true(gb_fixture_logged(fixture, "too small for the keys"));
    for (uint64_t i = count - 100; i < count; i++) {
        gb_fixture_expect(fixture, i, 16, i);
    }
}

static void open__refuses_memory_that_cannot_work(void **state)
{
    struct gb_fixture *fixture = *state;
    struct goblin_error error = {.text = ""};
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.lanes = 8;
    fixture->options.write_block_bytes = 512 * GB_KIB;
    assert_int_equal(gb_fixture_try_open(fixture, &error), GOBLIN_EOPTION);
    assert_non_null(strstr(error.text, "memory"));
    fixture->store = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(memory__holds_with_small_objects),
        GB_ON_BOTH_PATHS(memory__holds_with_middling_objects),
        GB_ON_BOTH_PATHS(memory__holds_with_large_objects),
        GB_ON_BOTH_PATHS(memory__holds_where_it_is_least),
        GB_ON_BOTH_PATHS(memory__holds_with_fixed_heads),
        GB_ON_BOTH_PATHS(memory__holds_with_keys_in_order),
        GB_ON_BOTH_PATHS(memory__lets_objects_go_where_keys_fill_it),
        GB_ON_BOTH_PATHS(open__refuses_memory_that_cannot_work),
    };
    return gb_fixture_run("memory_threads", tests);
}
