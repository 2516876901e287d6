/* Admission with everything running: writers, readers that ask again, a keeper that writes what was
 * asked for, and a RAM too small for it all. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define WORKERS    3u
#define KEYS       1500u /* of each worker; others read them too */
#define OPERATIONS 4000u
#define VALUE_MAX  (20 * GB_KIB)

struct crew {
    struct gb_fixture *fixture;
    uint64_t seed;
    _Atomic unsigned wrong;
};

struct worker {
    struct crew *crew;
    unsigned number;
    uint32_t written[KEYS]; /* number of the last write; 0: deleted or never */
    uint32_t next;
};

/* The object's flags say which write it is, and size and bytes follow from it and the key. */
static uint64_t seed_of(uint64_t key, uint32_t write)
{
    return gb_rng_mix(key << 32 | write);
}

static size_t size_of(uint64_t key, uint32_t write)
{
    return (size_t)(seed_of(key, write) % VALUE_MAX);
}

static void write_one(struct worker *worker, struct gb_rng *rng, unsigned char *value)
{
    unsigned mine = (unsigned)gb_rng_below(rng, KEYS);
    uint64_t number = (uint64_t)worker->number * KEYS + mine;
    struct gb_key key;
    struct goblin_slice name = gb_key_at(&key, number);
    if (gb_rng_below(rng, 10) == 0) {
        int rc = goblin_delete(worker->crew->fixture->store, name, NULL);
        worker->crew->wrong += rc < 0;
        worker->written[mine] = 0;
        return;
    }
    uint32_t write = ++worker->next;
    const struct goblin_put_options options = {.flags = write};
    gb_pattern_fill(value, size_of(number, write), seed_of(number, write), 0);
    int rc = goblin_put(worker->crew->fixture->store, name,
                        (struct goblin_slice){value, size_of(number, write)}, &options, NULL);
    bool spent = rc == -EDQUOT && worker->crew->fixture->options.write_budget_day_bytes != 0;
    worker->crew->wrong += rc != GOBLIN_OK && !spent;
    worker->written[mine] = rc == GOBLIN_OK ? write : worker->written[mine];
}

static void read_one(struct worker *worker, struct gb_rng *rng, struct goblin_reader *reader,
                     struct goblin_buffer *loaded)
{
    uint64_t number = gb_rng_below(rng, (uint64_t)WORKERS * KEYS);
    struct gb_key key;
    struct goblin_info info;
    int rc = goblin_load(reader, gb_key_at(&key, number), loaded, &info, NULL);
    bool mine = number / KEYS == worker->number;
    if (rc == GOBLIN_OK) {
        bool holds = info.size == size_of(number, info.flags) &&
                     gb_pattern_holds(loaded->data, loaded->len, seed_of(number, info.flags), 0);
        bool newest = !mine || worker->written[number % KEYS] == info.flags;
        worker->crew->wrong += !holds || !newest;
    } else {
        worker->crew->wrong += rc != GOBLIN_MISS; /* a cache may have let it go */
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct gb_rng rng;
    gb_rng_init(&rng, worker->crew->seed + worker->number);
    unsigned char *value = malloc(VALUE_MAX);
    struct goblin_reader *reader = NULL;
    struct goblin_buffer loaded = {0};
    if (value == NULL ||
        goblin_reader_create(&reader, worker->crew->fixture->store, NULL) != GOBLIN_OK) {
        worker->crew->wrong++;
        free(value);
        return NULL;
    }
    for (unsigned i = 0; i < OPERATIONS; i++) {
        if (gb_rng_below(&rng, 3) == 0) {
            write_one(worker, &rng, value);
        } else {
            read_one(worker, &rng, reader, &loaded);
        }
    }
    goblin_reader_destroy(reader);
    goblin_buffer_free(&loaded);
    free(value);
    return NULL;
}

static void run_crew(struct gb_fixture *fixture, struct goblin_stats *stats)
{
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.size_bytes = 48 * GB_MIB;
    fixture->options.segment_bytes = GB_MIB;
    fixture->options.memory_bytes = 16 * GB_MIB;
    struct crew crew = {.fixture = fixture};
    assert_int_equal(getrandom(&crew.seed, sizeof(crew.seed), 0), sizeof(crew.seed));
    const char *given = getenv("GOBLIN_SEED");
    crew.seed = given != NULL ? strtoull(given, NULL, 0) : crew.seed;
    print_message("seed %llu (GOBLIN_SEED)\n", (unsigned long long)crew.seed);
    gb_fixture_open(fixture);
    struct worker *workers = calloc(WORKERS, sizeof(*workers));
    assert_non_null(workers);
    pthread_t threads[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.crew = &crew, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    free(workers);
    assert_int_equal(crew.wrong, 0);
    *stats = gb_fixture_stats(fixture);
    assert_int_equal(stats->puts, stats->objects + stats->left_overwritten + stats->left_deleted +
                                      stats->left_disk + stats->left_ram + stats->left_admission);
    assert_int_equal(stats->left_bad, 0);
    assert_true(stats->admission_refused > 0);
    assert_true(stats->admission_written > 0);
}

static void second__holds_with_threads(void **state)
{
    struct gb_fixture *fixture = *state;
    struct goblin_stats stats;
    fixture->options.admit = GOBLIN_ADMIT_SECOND;
    run_crew(fixture, &stats);
    assert_true(stats.left_admission > 0);
    assert_int_equal(stats.admission_rejected, 0);
}

static void budget__holds_with_threads(void **state)
{
    struct gb_fixture *fixture = *state;
    struct goblin_stats stats;
    /* All at once spends ten minutes' worth, and the clock stands still. */
    fixture->options.write_budget_day_bytes = 144 * 8 * GB_MIB;
    fixture->options.admit = GOBLIN_ADMIT_SECOND;
    run_crew(fixture, &stats);
    assert_true(stats.admission_rejected > 0);
    assert_int_equal(stats.write_budget_left_bytes, 0);
    /* What the bucket held, what was in flight when it ran dry, and tombstones. */
    assert_true(stats.device_write_bytes < 12 * GB_MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(second__holds_with_threads),
        GB_ON_BOTH_PATHS(budget__holds_with_threads),
    };
    return gb_fixture_run("admission_threads", tests);
}
