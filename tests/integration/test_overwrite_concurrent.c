/* Readers beside overwrites, deletes, touches, iteration and clear, from several threads: a reader
 * sees an old value or a new one, never a mixture. Every value says what it is. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"

#define KEYS       60u
#define THREADS    3u
#define OPERATIONS (GB_SANITIZED ? 250u : 1200u)

/* What a value's seed says: the key, and a number that also gives the size. */
static uint64_t seed_of(uint64_t key, uint64_t number)
{
    return key << 32 | number;
}

static size_t size_of(uint64_t seed)
{
    static const size_t sizes[] = {8, 600, 5000, 12000, 30000, 70000, 200000, 700000};
    uint64_t mixed = gb_rng_mix(seed);
    return sizes[mixed % 8] + (size_t)(mixed >> 32) % 500;
}

struct crew {
    struct gb_fixture *fixture;
    uint64_t seed;
    _Atomic bool over;
    _Atomic unsigned finished; /* hands that did all they had to */
    _Atomic uint64_t reads;
    _Atomic uint64_t hits;
    _Atomic uint64_t faults; /* answers that no call may give here */
    _Atomic uint64_t mixed;  /* values that were not whole */
};

struct hand {
    struct crew *crew;
    unsigned number;
    pthread_t thread;
    struct gb_rng rng;
};

static void complain(struct crew *crew, const char *what, long long answer)
{
    if (atomic_fetch_add(&crew->faults, 1) < 10) {
        printf("%s: %lld\n", what, answer);
    }
}

/* ---- changing ------------------------------------------------------------------------------ */

static int put_streamed(struct crew *crew, struct goblin_slice key, const unsigned char *value,
                        size_t size, bool abort)
{
    struct goblin_writer *writer = NULL;
    int rc = goblin_writer_begin(&writer, crew->fixture->store, key, GOBLIN_SIZE_UNKNOWN, NULL);
    if (rc == -ENOMEM) {
        return GOBLIN_OK; /* too many at once */
    }
    for (size_t at = 0; rc == GOBLIN_OK && at < size; at += 50000) {
        rc = goblin_writer_write(writer, value + at, gb_min(50000, size - at));
    }
    if (rc != GOBLIN_OK || abort) {
        goblin_writer_abort(writer);
        return rc;
    }
    return goblin_writer_commit(writer, NULL);
}

static void change_once(struct hand *hand, uint64_t key_number, uint64_t step, unsigned char *value)
{
    struct crew *crew = hand->crew;
    struct goblin *store = crew->fixture->store;
    struct gb_key text;
    const struct goblin_slice key = gb_key_at(&text, key_number);
    uint64_t dice = gb_rng_below(&hand->rng, 16);
    uint64_t seed = seed_of(key_number, step * THREADS + hand->number);
    size_t size = size_of(seed);
    int rc = GOBLIN_OK;
    if (dice < 1) {
        rc = goblin_delete(store, key, NULL);
    } else if (dice < 3) {
        rc = goblin_touch(store, key, dice == 1 ? 0 : crew->fixture->now_ms + 1000000,
                          GOBLIN_DURABILITY_DEFAULT);
    } else {
        gb_pattern_fill(value, size, seed, 0);
        rc = dice < 7 ? put_streamed(crew, key, value, size, dice == 3)
                      : goblin_put(store, key, (struct goblin_slice){value, size}, NULL, NULL);
    }
    if (rc != GOBLIN_OK && rc != GOBLIN_MISS) {
        static const char *const names[] = {"delete", "touch", "touch"};
        complain(crew, dice < 3 ? names[dice] : dice < 7 ? "stream" : "put", rc);
    }
}

static void *change_all(void *arg)
{
    struct hand *hand = arg;
    unsigned char *value = malloc(GB_MIB);
    for (uint64_t step = 0; step < OPERATIONS; step++) {
        change_once(hand, gb_rng_below(&hand->rng, KEYS), step, value);
    }
    free(value);
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct look {
    struct crew *crew;
    uint64_t key;
    uint64_t seed;
    uint64_t next;
    bool known;
    bool mixed;
};

static int look_at(void *arg, const struct goblin_chunk *chunk)
{
    struct look *look = arg;
    if (!look->known && chunk->len >= 8) {
        look->seed = gb_pattern_seed(chunk->data);
        look->known = true;
        look->mixed = look->seed >> 32 != look->key || chunk->info->size != size_of(look->seed);
    }
    look->mixed = look->mixed || chunk->offset != look->next ||
                  !gb_pattern_holds(chunk->data, chunk->len, look->seed, chunk->offset);
    look->next = chunk->offset + chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static void read_once(struct hand *hand, struct goblin_reader *reader)
{
    struct crew *crew = hand->crew;
    struct gb_key text;
    struct look look = {.crew = crew, .key = gb_rng_below(&hand->rng, KEYS)};
    struct goblin_request request = {
        .key = gb_key_at(&text, look.key),
        .flags = gb_rng_below(&hand->rng, 8) == 0 ? GOBLIN_GET_RESIDENT : 0,
        .on_chunk = look_at,
        .arg = &look,
    };
    int rc = goblin_get(reader, &request);
    atomic_fetch_add(&crew->reads, 1);
    if (rc == GOBLIN_OK) {
        atomic_fetch_add(&crew->hits, 1);
        bool short_one = request.flags == 0 && look.next != size_of(look.seed);
        if (look.mixed || !look.known || short_one) {
            atomic_fetch_add(&crew->mixed, 1);
        }
    } else if (rc != GOBLIN_MISS) {
        complain(crew, "a read", rc);
    }
}

static void *read_all(void *arg)
{
    struct hand *hand = arg;
    struct goblin_reader *reader = NULL;
    int rc = goblin_reader_create(&reader, hand->crew->fixture->store, NULL);
    if (rc != GOBLIN_OK) {
        complain(hand->crew, "a reader", rc);
        return NULL;
    }
    while (!atomic_load(&hand->crew->over)) {
        read_once(hand, reader);
    }
    goblin_reader_destroy(reader);
    return NULL;
}

/* ---- the crews ----------------------------------------------------------------------------- */

static void init_crew(struct crew *crew, struct gb_fixture *fixture)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *crew = (struct crew){.fixture = fixture, .seed = (uint64_t)now.tv_nsec};
    printf("seed %llu\n", (unsigned long long)crew->seed);
}

static void start(struct hand *hand, struct crew *crew, unsigned number, void *(*run)(void *))
{
    *hand = (struct hand){.crew = crew, .number = number};
    gb_rng_init(&hand->rng, crew->seed + (uint64_t)(uintptr_t)hand);
    assert_int_equal(pthread_create(&hand->thread, NULL, run, hand), 0);
}

static void join(struct hand *hands, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(hands[i].thread, NULL);
    }
}

static void fill(struct gb_fixture *fixture)
{
    for (unsigned i = 0; i < KEYS; i++) {
        uint64_t seed = seed_of(i, 0);
        assert_int_equal(gb_fixture_put(fixture, i, size_of(seed), seed), GOBLIN_OK);
    }
}

static void expect_all_whole(struct crew *crew)
{
    struct hand hand = {.crew = crew};
    for (unsigned i = 0; i < 20 * KEYS; i++) {
        read_once(&hand, crew->fixture->reader);
        gb_rng_init(&hand.rng, i);
    }
    assert_int_equal(crew->mixed, 0);
    assert_int_equal(crew->faults, 0);
}

static void churn(struct gb_fixture *fixture)
{
    struct hand changers[THREADS];
    struct hand readers[THREADS];
    struct crew crew;
    fixture->options.size_bytes = 256 * GB_MIB;
    gb_fixture_open(fixture);
    fill(fixture);
    init_crew(&crew, fixture);
    for (unsigned i = 0; i < THREADS; i++) {
        start(&readers[i], &crew, i, read_all);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        start(&changers[i], &crew, i, change_all);
    }
    join(changers, THREADS);
    atomic_store(&crew.over, true);
    join(readers, THREADS);
    assert_int_equal(crew.mixed, 0);
    assert_int_equal(crew.faults, 0);
    assert_true(crew.hits > 0);
    assert_int_equal(gb_fixture_stats(fixture).checksum_errors, 0);
    assert_int_equal(gb_fixture_stats(fixture).left_bad, 0);
    expect_all_whole(&crew);
    gb_fixture_reopen(fixture);
    expect_all_whole(&crew);
}

static void readers__never_see_a_mixture(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    churn(fixture);
}

static void readers__never_see_a_mixture_in_little_memory(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.memory_bytes = 12 * GB_MIB;
    fixture->options.chunk_bytes = 64 * GB_KIB;
    churn(fixture);
}

static void readers__never_see_a_mixture_with_fixed_heads(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.residency = GOBLIN_RESIDENCY_FIXED;
    fixture->options.durability = GOBLIN_DURABILITY_WRITTEN;
    churn(fixture);
}

/* ---- one key, many writers of its next version --------------------------------------------- */

static void *count_up(void *arg)
{
    struct hand *hand = arg;
    struct goblin *store = hand->crew->fixture->store;
    struct goblin_reader *reader = NULL;
    struct goblin_buffer buffer = {0};
    struct goblin_info info;
    int rc = goblin_reader_create(&reader, store, NULL);
    for (unsigned done = 0; rc == GOBLIN_OK && done < 200;) {
        rc = goblin_load(reader, GOBLIN_LITERAL("counter"), &buffer, &info, NULL);
        if (rc == GOBLIN_OK) {
            uint64_t value = gb_load_le64(buffer.data) + 1;
            unsigned char bytes[8];
            gb_store_le64(bytes, value);
            const struct goblin_put_options options = {.condition = GOBLIN_IF_VERSION,
                                                       .if_version = info.version};
            rc = goblin_put(store, GOBLIN_LITERAL("counter"), (struct goblin_slice){bytes, 8},
                            &options, NULL);
            done += rc == GOBLIN_OK;
            rc = rc == GOBLIN_CHANGED ? GOBLIN_OK : rc;
        }
    }
    if (rc != GOBLIN_OK) {
        complain(hand->crew, "a count", rc);
    }
    goblin_buffer_free(&buffer);
    goblin_reader_destroy(reader);
    return NULL;
}

static void versions__let_each_step_count_once(void **state)
{
    struct gb_fixture *fixture = *state;
    struct hand hands[4];
    struct crew crew;
    struct goblin_buffer buffer = {0};
    const unsigned char zero[8] = {0};
    gb_fixture_open(fixture);
    init_crew(&crew, fixture);
    assert_int_equal(goblin_put(fixture->store, GOBLIN_LITERAL("counter"),
                                (struct goblin_slice){zero, 8}, NULL, NULL),
                     GOBLIN_OK);
    for (unsigned i = 0; i < 4; i++) {
        start(&hands[i], &crew, i, count_up);
    }
    join(hands, 4);
    assert_int_equal(crew.faults, 0);
    assert_int_equal(goblin_load(fixture->reader, GOBLIN_LITERAL("counter"), &buffer, NULL, NULL),
                     GOBLIN_OK);
    assert_int_equal(gb_load_le64(buffer.data), 800);
    goblin_buffer_free(&buffer);
}

/* ---- iteration ----------------------------------------------------------------------------- */

#define STAYING 5000u

struct census {
    unsigned char *seen;
    uint64_t visits;
    uint64_t strangers;
};

static int count_key(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct census *census = arg;
    char text[41] = {0};
    (void)info;
    memcpy(text, key.data, gb_min(key.len, 40));
    unsigned long long number = strtoull(text + 4, NULL, 10);
    census->visits++;
    if (number < STAYING) {
        census->seen[number] = 1;
    } else if (number < 1000000) {
        census->strangers++;
    }
    return 0;
}

/* Keys from a million on come and go, so that the index grows; those that stay are overwritten. */
static void *come_and_go(void *arg)
{
    struct hand *hand = arg;
    struct goblin *store = hand->crew->fixture->store;
    for (uint64_t i = 0; i < 20 * OPERATIONS; i++) {
        struct gb_key text;
        uint64_t number = 1000000 + hand->number * 1000000 + i;
        int rc = goblin_put(store, gb_key_at(&text, number), GOBLIN_LITERAL("x"), NULL, NULL);
        if (rc == GOBLIN_OK && i % 3 == 0) {
            rc = goblin_delete(store, gb_key_at(&text, number), NULL);
        }
        if (rc == GOBLIN_OK) {
            rc = goblin_put(store, gb_key_at(&text, gb_rng_below(&hand->rng, STAYING)),
                            GOBLIN_LITERAL("another"), NULL, NULL);
        }
        if (rc != GOBLIN_OK) {
            complain(hand->crew, "a change", rc);
            break;
        }
    }
    atomic_fetch_add(&hand->crew->finished, 1);
    return NULL;
}

static void iterate__visits_all_that_stays(void **state)
{
    struct gb_fixture *fixture = *state;
    struct hand hands[2];
    struct crew crew;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.size_bytes = 512 * GB_MIB;
    gb_fixture_open(fixture);
    init_crew(&crew, fixture);
    for (unsigned i = 0; i < STAYING; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 8, i), GOBLIN_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
        start(&hands[i], &crew, i, come_and_go);
    }
    unsigned missing = 0;
    unsigned rounds = 0;
    for (; atomic_load(&crew.finished) < 2; rounds++) {
        struct census census = {.seen = calloc(STAYING, 1)};
        uint64_t cursor = 0;
        int rc = GOBLIN_OK;
        do {
            rc = goblin_iterate(fixture->store, &cursor, 100, count_key, &census);
        } while (rc == GOBLIN_OK && cursor != 0);
        for (unsigned i = 0; i < STAYING; i++) {
            missing += census.seen[i] == 0;
        }
        free(census.seen);
        if (rc != GOBLIN_OK || census.strangers != 0) {
            complain(&crew, "an iteration", rc);
        }
    }
    join(hands, 2);
    assert_true(rounds > 0);
    assert_int_equal(missing, 0);
    assert_int_equal(crew.faults, 0);
}

static int stop_at_third(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    unsigned *count = arg;
    (void)key;
    (void)info;
    return ++*count == 3 ? 42 : 0;
}

static void iterate__stops_when_told(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    uint64_t cursor = 0;
    unsigned count = 0;
    assert_int_equal(goblin_iterate(fixture->store, &cursor, 0, stop_at_third, &count), GOBLIN_OK);
    assert_int_equal(count, 0);
    assert_int_equal(cursor, 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 10, i), GOBLIN_OK);
    }
    assert_int_equal(goblin_iterate(fixture->store, &cursor, 0, stop_at_third, &count), 42);
    assert_int_equal(count, 3);
}

/* ---- clear --------------------------------------------------------------------------------- */

static void clear__falls_on_one_side_of_every_put(void **state)
{
    struct gb_fixture *fixture = *state;
    struct hand changers[THREADS];
    struct hand readers[2];
    struct crew crew;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.size_bytes = GB_GIB; /* nothing leaves for lack of room */
    fixture->options.segment_bytes = 8 * GB_MIB;
    gb_fixture_open(fixture);
    fill(fixture);
    init_crew(&crew, fixture);
    for (unsigned i = 0; i < 2; i++) {
        start(&readers[i], &crew, i, read_all);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        start(&changers[i], &crew, i, change_all);
    }
    for (unsigned i = 0; i < 20; i++) {
        int rc = goblin_clear(fixture->store);
        if (rc != GOBLIN_OK) {
            complain(&crew, "a clear", rc);
        }
    }
    join(changers, THREADS);
    atomic_store(&crew.over, true);
    join(readers, 2);
    assert_int_equal(crew.mixed, 0);
    assert_int_equal(crew.faults, 0);
    uint64_t objects = gb_fixture_stats(fixture).objects;
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).objects, objects);
    expect_all_whole(&crew);
    assert_int_equal(goblin_clear(fixture->store), GOBLIN_OK);
    assert_int_equal(gb_fixture_stats(fixture).objects, 0);
    assert_int_equal(gb_fixture_stats(fixture).live_bytes, 0);
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).objects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(readers__never_see_a_mixture),
        GB_ON_BOTH_PATHS(readers__never_see_a_mixture_in_little_memory),
        GB_ON_BOTH_PATHS(readers__never_see_a_mixture_with_fixed_heads),
        GB_ON_BOTH_PATHS(versions__let_each_step_count_once),
        GB_ON_BOTH_PATHS(iterate__visits_all_that_stays),
        GB_ON_BOTH_PATHS(iterate__stops_when_told),
        GB_ON_BOTH_PATHS(clear__falls_on_one_side_of_every_put),
    };
    return gb_fixture_run("overwrite_concurrent", tests);
}
