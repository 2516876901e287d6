/* Scans, of keys and of values, beside inserts, deletes, overwrites, eviction and clear: in order,
 * no key twice, the right bytes, and every key that stays is there. GOBLIN_SEED replays the
 * choices. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <goblin/scan.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"

#define STEADY   1500u /* keys with even numbers, which stay */
#define WRITERS  2u
#define SCANNERS 2u
#define CHANGES  (GB_SANITIZED ? 10000u : 60000u)

struct crew {
    struct gb_fixture *fixture;
    uint64_t seed;
    bool clears;  /* the second writer empties the store now and then: nothing stays */
    bool evicts;  /* a cache under pressure: nothing is sure to stay */
    size_t value; /* bytes */
    uint64_t spread;
    _Atomic unsigned writing;
    _Atomic uint64_t scans;
    _Atomic uint64_t refused; /* for lack of memory */
    _Atomic uint64_t faults;
};

struct hand {
    struct crew *crew;
    unsigned number;
    struct gb_rng rng;
    struct goblin_reader *reader; /* of those who scan */
    pthread_t thread;
};

static void complain(struct crew *crew, const char *what, long long number)
{
    if (atomic_fetch_add(&crew->faults, 1) < 10) {
        printf("%s: %lld\n", what, number);
    }
}

/* ---- writing ------------------------------------------------------------------------------- */

static void change_once(struct hand *hand, unsigned char *value)
{
    struct crew *crew = hand->crew;
    struct goblin *store = crew->fixture->store;
    struct gb_key text;
    uint64_t dice = gb_rng_below(&hand->rng, 100);
    uint64_t number = 2 * gb_rng_below(&hand->rng, crew->spread) + 1;
    if (dice < 30) {
        number = 2 * gb_rng_below(&hand->rng, STEADY); /* overwritten, never gone */
    }
    const struct goblin_slice key = gb_key_at(&text, number);
    int rc = GOBLIN_OK;
    if (dice < 65) {
        gb_pattern_fill(value, crew->value, number, 0);
        rc = goblin_put(store, key, (struct goblin_slice){value, crew->value}, NULL, NULL);
    } else if (dice < 98 || !crew->clears || hand->number != 0) {
        rc = goblin_delete(store, key, NULL);
    } else if (gb_rng_below(&hand->rng, 40) == 0) {
        rc = goblin_clear(store);
    }
    if (rc != GOBLIN_OK && rc != GOBLIN_MISS) {
        complain(crew, "a change", rc);
    }
}

static void *write_all(void *arg)
{
    struct hand *hand = arg;
    unsigned char *value = calloc(1, hand->crew->value);
    for (unsigned i = 0; i < CHANGES; i++) {
        change_once(hand, value);
    }
    free(value);
    atomic_fetch_sub(&hand->crew->writing, 1);
    return NULL;
}

/* ---- scanning ------------------------------------------------------------------------------ */

struct walk {
    struct crew *crew;
    bool reverse;
    char last[40];
    size_t last_len;
    uint64_t steady;
    uint64_t seen;
    unsigned stop_after;
};

static int look(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct walk *walk = arg;
    char text[40] = "";
    (void)info;
    memcpy(text, key.data, gb_min(key.len, sizeof(text) - 1));
    int order = walk->seen > 0 ? strcmp(walk->last, text) : 0;
    if (walk->seen > 0 && (walk->reverse ? order <= 0 : order >= 0)) {
        complain(walk->crew, "not in order", order);
    }
    memcpy(walk->last, text, sizeof(text));
    walk->last_len = key.len;
    walk->seen++;
    /* gb_key_at pads its numbers, so the last digits are the number's. */
    walk->steady += strtoull(text + strcspn(text, "0123456789"), NULL, 10) % 2 == 0;
    return walk->stop_after > 0 && --walk->stop_after == 0;
}

/* The value of a key never changes, only where it lies. */
static int look_inside(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct walk *walk = arg;
    char text[40] = "";
    memcpy(text, key.data, gb_min(key.len, sizeof(text) - 1));
    uint64_t number = strtoull(text + strcspn(text, "0123456789"), NULL, 10);
    if (chunk->info->size != walk->crew->value ||
        !gb_pattern_holds(chunk->data, chunk->len, number, chunk->offset)) {
        complain(walk->crew, "not its value", (long long)number);
    }
    return chunk->offset == 0 ? look(arg, key, chunk->info) : 0;
}

/* One scan of everything, now and then stopped and begun again behind the last key. */
static void scan_once(struct hand *hand)
{
    bool values = hand->reader != NULL && gb_rng_below(&hand->rng, 3) > 0;
    struct crew *crew = hand->crew;
    struct walk walk = {.crew = crew, .reverse = gb_rng_below(&hand->rng, 2) == 0};
    int rc = 1;
    bool stopped = true;
    while (stopped) {
        const struct goblin_range range = {
            .reverse = walk.reverse,
            .after = {walk.last, walk.last_len},
        };
        unsigned most = 1 + (unsigned)gb_rng_below(&hand->rng, 4000);
        walk.stop_after = most;
        rc = values ? goblin_scan_values(hand->reader, &range, 0, look_inside, &walk)
                    : goblin_scan(crew->fixture->store, &range, look, &walk);
        stopped = rc == 1 && walk.stop_after == 0;
    }
    if (rc == -ENOMEM && crew->evicts) {
        atomic_fetch_add(&crew->refused, 1);
    } else if (rc != GOBLIN_OK) {
        complain(crew, "a scan", rc);
    } else if (!crew->clears && !crew->evicts && walk.steady != STEADY) {
        complain(crew, "keys that stay", (long long)walk.steady);
    }
    atomic_fetch_add(&crew->scans, 1);
}

static void *scan_all(void *arg)
{
    struct hand *hand = arg;
    if (goblin_reader_create(&hand->reader, hand->crew->fixture->store, NULL) != GOBLIN_OK) {
        hand->reader = NULL; /* no memory for it: keys alone */
    }
    while (atomic_load(&hand->crew->writing) > 0) {
        scan_once(hand);
    }
    goblin_reader_destroy(hand->reader);
    return NULL;
}

/* ---- afterwards: what the index holds, the set holds ---------------------------------------- */

static int count_key(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    (void)info;
    ++*(uint64_t *)arg;
    return 0;
}

/* Objects that the store itself has let go. */
static uint64_t departures(struct gb_fixture *fixture)
{
    struct goblin_stats stats = gb_fixture_stats(fixture);
    return stats.left_disk + stats.left_ram;
}

/* While the cleaner still evicts, both are counted again. */
static void check_quiet(struct gb_fixture *fixture)
{
    uint64_t scanned = 0;
    uint64_t iterated = 0;
    uint64_t ordered = 0;
    uint64_t before = 0;
    do {
        before = departures(fixture);
        scanned = 0;
        int rc = goblin_scan(fixture->store, NULL, count_key, &scanned);
        if (rc == -ENOMEM) {
            return; /* memory too small for it */
        }
        assert_int_equal(rc, GOBLIN_OK);
        uint64_t cursor = 0;
        iterated = 0;
        assert_int_equal(goblin_iterate(fixture->store, &cursor, 0, count_key, &iterated),
                         GOBLIN_OK);
        ordered = gb_fixture_stats(fixture).ordered_keys;
    } while (departures(fixture) != before);
    assert_int_equal(scanned, iterated);
    assert_int_equal(scanned, ordered);
}

static void start(struct hand *hand, struct crew *crew, unsigned number, void *(*run)(void *))
{
    *hand = (struct hand){.crew = crew, .number = number};
    gb_rng_init(&hand->rng, crew->seed + number);
    assert_int_equal(pthread_create(&hand->thread, NULL, run, hand), 0);
}

static void run_crew(struct crew *crew)
{
    struct gb_fixture *fixture = crew->fixture;
    const char *given = getenv("GOBLIN_SEED");
    assert_int_equal(getrandom(&crew->seed, sizeof(crew->seed), 0), sizeof(crew->seed));
    crew->seed = given != NULL ? strtoull(given, NULL, 0) : crew->seed;
    printf("GOBLIN_SEED=%llu\n", (unsigned long long)crew->seed);
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < STEADY; i++) {
        assert_int_equal(gb_fixture_put(fixture, 2 * i, crew->value, 2 * i), GOBLIN_OK);
    }
    struct hand hands[WRITERS + SCANNERS];
    atomic_store(&crew->writing, WRITERS);
    for (unsigned i = 0; i < WRITERS + SCANNERS; i++) {
        start(&hands[i], crew, i, i < WRITERS ? write_all : scan_all);
    }
    for (unsigned i = 0; i < WRITERS + SCANNERS; i++) {
        (void)pthread_join(hands[i].thread, NULL);
    }
    printf("%llu scans, %llu refused\n", (unsigned long long)atomic_load(&crew->scans),
           (unsigned long long)atomic_load(&crew->refused));
    assert_int_equal(atomic_load(&crew->faults), 0);
    assert_true(atomic_load(&crew->scans) > 0);
    check_quiet(fixture);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
    gb_fixture_reopen(fixture);
    check_quiet(fixture);
}

static void scan__sees_every_key_that_stays(void **state)
{
    struct crew crew = {.fixture = *state, .value = 50, .spread = 3000};
    run_crew(&crew);
}

static void scan__sees_every_key_that_stays_if_kept_from_open(void **state)
{
    struct crew crew = {.fixture = *state, .value = 50, .spread = 100000};
    crew.fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
    run_crew(&crew);
}

static void scan__keeps_order_beside_clear(void **state)
{
    struct crew crew = {.fixture = *state, .value = 50, .spread = 3000, .clears = true};
    run_crew(&crew);
}

static void scan__keeps_order_while_disk_evicts(void **state)
{
    struct crew crew = {.fixture = *state, .value = 3000, .spread = 20000, .evicts = true};
    crew.fixture->options.mode = GOBLIN_MODE_CACHE;
    crew.fixture->options.size_bytes = 24 * GB_MIB;
    crew.fixture->options.segment_bytes = GB_MIB;
    run_crew(&crew);
    assert_true(gb_fixture_stats(crew.fixture).objects > 0);
}

/* More values than RAM holds, in a store whose segments are compacted all the time. */
static void scan__gives_right_values_beside_compaction(void **state)
{
    struct crew crew = {.fixture = *state, .value = 6000, .spread = 6000};
    crew.fixture->options.segment_bytes = GB_MIB;
    run_crew(&crew);
    assert_true(gb_fixture_stats(crew.fixture).device_reads > 0);
}

/* So many keys that RAM evicts and the set is given up now and then. */
static void scan__keeps_order_while_memory_evicts(void **state)
{
    struct crew crew = {.fixture = *state, .value = 8, .spread = 1000000, .evicts = true};
    crew.fixture->options.mode = GOBLIN_MODE_CACHE;
    crew.fixture->options.memory_bytes = 8 * GB_MIB;
    crew.fixture->options.write_block_bytes = 64 * GB_KIB;
    run_crew(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(scan__sees_every_key_that_stays),
        GB_ON_BOTH_PATHS(scan__sees_every_key_that_stays_if_kept_from_open),
        GB_ON_BOTH_PATHS(scan__keeps_order_beside_clear),
        GB_ON_BOTH_PATHS(scan__keeps_order_while_disk_evicts),
        GB_ON_BOTH_PATHS(scan__gives_right_values_beside_compaction),
        GB_ON_BOTH_PATHS(scan__keeps_order_while_memory_evicts),
    };
    return gb_fixture_run("scan_threads", tests);
}
