/* Scans of values by one thread: the right bytes in order whatever is in RAM, few reads for what
 * lies together, and what the callback may do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <goblin/scan.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define FIRST   100000u /* keys of six digits are in the order of their numbers */
#define OBJECTS 1500u

struct object {
    bool present;
    size_t size;
    uint64_t seed;
};

struct model {
    struct gb_fixture *fixture;
    struct gb_rng rng;
    struct object objects[OBJECTS];
};

static struct model *new_model(struct gb_fixture *fixture)
{
    struct model *model = calloc(1, sizeof(*model));
    uint64_t seed = 0;
    assert_non_null(model);
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
    const char *given = getenv("GOBLIN_SEED");
    seed = given != NULL ? strtoull(given, NULL, 0) : seed;
    printf("GOBLIN_SEED=%llu\n", (unsigned long long)seed);
    gb_rng_init(&model->rng, seed);
    model->fixture = fixture;
    return model;
}

/* Mostly small, some of several units, now and then one in extents. */
static size_t random_size(struct gb_rng *rng)
{
    uint64_t dice = gb_rng_below(rng, 100);
    if (dice < 85) {
        return gb_rng_below(rng, 2500);
    }
    return dice < 99 ? gb_rng_below(rng, 90000) : gb_rng_below(rng, 400000);
}

static void change(struct model *model, unsigned number)
{
    struct object *object = &model->objects[number];
    uint64_t dice = gb_rng_below(&model->rng, 10);
    if (object->present && dice == 0) {
        struct gb_key key;
        assert_int_equal(
            goblin_delete(model->fixture->store, gb_key_at(&key, FIRST + number), NULL), GOBLIN_OK);
        object->present = false;
        return;
    }
    *object = (struct object){true, random_size(&model->rng), gb_rng_next(&model->rng)};
    int rc = dice == 1 ? gb_fixture_stream(model->fixture, FIRST + number, object->size,
                                           object->seed, 50000)
                       : gb_fixture_put(model->fixture, FIRST + number, object->size, object->seed);
    assert_int_equal(rc, GOBLIN_OK);
}

/* ---- what a scan must give ----------------------------------------------------------------- */

struct expectation {
    struct model *model;
    const struct goblin_range *range;
    int64_t number; /* whose chunks are coming, or that may come next */
    uint64_t offset;
    size_t seen;
    size_t stop_after; /* 0: never */
    bool only_resident;
};

static int64_t step(const struct expectation *expected)
{
    return expected->range->reverse ? -1 : 1;
}

static bool is_there(const struct expectation *expected)
{
    return expected->number >= 0 && expected->number < (int64_t)OBJECTS;
}

static void pass_absent(struct expectation *expected)
{
    while (is_there(expected) && !expected->model->objects[expected->number].present) {
        expected->number += step(expected);
    }
}

static int expect_chunk(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct expectation *expected = arg;
    struct gb_key text;
    struct goblin_slice wanted = gb_key_at(&text, 0);
    if (expected->offset == 0) {
        pass_absent(expected);
        while (expected->only_resident && is_there(expected)) {
            wanted = gb_key_at(&text, FIRST + (uint64_t)expected->number);
            if (wanted.len == key.len && memcmp(wanted.data, key.data, key.len) == 0) {
                break;
            }
            expected->number += step(expected);
            pass_absent(expected);
        }
    }
    assert_true(is_there(expected));
    const struct object *object = &expected->model->objects[expected->number];
    wanted = gb_key_at(&text, FIRST + (uint64_t)expected->number);
    assert_int_equal(key.len, wanted.len);
    assert_memory_equal(key.data, wanted.data, key.len);
    assert_int_equal(chunk->info->size, object->size);
    assert_int_equal(chunk->offset, expected->offset);
    assert_true(gb_pattern_holds(chunk->data, chunk->len, object->seed, chunk->offset));
    expected->offset += chunk->len;
    assert_int_equal(chunk->last, expected->offset == object->size);
    if (chunk->last) {
        expected->number += step(expected);
        expected->offset = 0;
        expected->seen++;
    }
    return expected->stop_after > 0 && expected->seen == expected->stop_after ? 77 : 0;
}

/* Of objects [low, high), or all of them from `low` on if that is not less than `high`. */
static void check_scan(struct model *model, unsigned low, unsigned high, bool reverse, size_t limit,
                       size_t stop_after)
{
    struct gb_key from;
    struct gb_key to;
    struct goblin_range range = {
        .from = gb_key_at(&from, FIRST + low), .reverse = reverse, .limit = limit};
    if (low < high) {
        range.to = gb_key_at(&to, FIRST + high);
    }
    int64_t end = low < high ? (int64_t)high : (int64_t)OBJECTS;
    struct expectation expected = {
        .model = model,
        .range = &range,
        .number = reverse ? end - 1 : (int64_t)low,
        .stop_after = stop_after,
    };
    int rc = goblin_scan_values(model->fixture->reader, &range, 0, expect_chunk, &expected);
    if (rc == 77) {
        assert_int_equal(expected.seen, stop_after);
        return;
    }
    assert_int_equal(rc, GOBLIN_OK);
    assert_int_equal(expected.offset, 0);
    if (limit > 0 && expected.seen == limit) {
        return;
    }
    pass_absent(&expected);
    assert_true(reverse ? expected.number < (int64_t)low : expected.number >= end);
}

static void check_random_scan(struct model *model)
{
    struct gb_rng *rng = &model->rng;
    uint64_t dice = gb_rng_next(rng);
    unsigned low = (unsigned)gb_rng_below(rng, OBJECTS);
    unsigned high = (dice & 2) != 0 ? (unsigned)gb_min(low + gb_rng_below(rng, 40), OBJECTS) : 0;
    size_t limit = (dice & 4) != 0 ? 1 + gb_rng_below(rng, 30) : 0;
    size_t stop_after = (dice & 24) == 0 ? 1 + gb_rng_below(rng, 300) : 0;
    check_scan(model, low, high, (dice & 1) != 0, limit, stop_after);
}

static void run_model(struct gb_fixture *fixture)
{
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.size_bytes = 96 * GB_MIB;
    gb_fixture_open(fixture);
    struct model *model = new_model(fixture);
    for (unsigned i = 0; i < OBJECTS; i++) {
        change(model, i);
    }
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 200; i++) {
            change(model, (unsigned)gb_rng_below(&model->rng, OBJECTS));
        }
        check_scan(model, 0, 0, false, 0, 0);
        check_scan(model, 0, 0, true, 0, 0);
        for (unsigned i = 0; i < 150; i++) {
            check_random_scan(model);
        }
        if (round % 2 == 0) {
            gb_fixture_reopen(fixture);
        }
    }
    assert_true(gb_fixture_stats(fixture).device_reads > 0);
    free(model);
}

static void scan__gives_what_the_model_holds(void **state)
{
    run_model(*state);
}

static void scan__gives_it_with_one_buffer_and_one_request(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.chunk_bytes = 16 * GB_KIB;
    fixture->options.first_chunk_bytes = 16 * GB_KIB;
    gb_fixture_open(fixture);
    struct model *model = new_model(fixture);
    for (unsigned i = 0; i < OBJECTS / 3; i++) {
        change(model, i);
    }
    gb_fixture_reopen(fixture);
    for (unsigned requests = 1; requests < 8; requests++) {
        const struct goblin_reader_options options = {.buffers = 1, .requests = requests};
        goblin_reader_destroy(fixture->reader);
        assert_int_equal(goblin_reader_create(&fixture->reader, fixture->store, &options),
                         GOBLIN_OK);
        check_scan(model, 0, 0, requests % 2 == 0, 0, 0);
    }
    free(model);
}

static void scan__gives_it_from_the_page_cache(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.caching = GOBLIN_CACHING_BUFFERED;
    run_model(fixture);
}

/* ---- few reads ----------------------------------------------------------------------------- */

#define MANY  20000u
#define SMALL 400u

struct count {
    uint64_t objects;
    uint64_t bytes;
};

static int count_chunk(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct count *count = arg;
    (void)key;
    count->bytes += chunk->len;
    count->objects += chunk->last;
    return 0;
}

static void open_with_many(struct gb_fixture *fixture)
{
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.residency = GOBLIN_RESIDENCY_FIXED; /* bare headers once memory is full */
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(gb_fixture_put(fixture, FIRST + i, SMALL, i), GOBLIN_OK);
    }
    gb_fixture_reopen(fixture);
    gb_fixture_await_warm(fixture);
}

static void check_few_reads(struct gb_fixture *fixture, const struct goblin_range *range,
                            uint64_t objects, uint64_t reads_most, uint64_t bytes_most)
{
    struct count count = {0};
    struct goblin_stats before = gb_fixture_stats(fixture);
    assert_int_equal(
        goblin_scan_values(fixture->reader, range, GOBLIN_GET_QUIET, count_chunk, &count),
        GOBLIN_OK);
    struct goblin_stats after = gb_fixture_stats(fixture);
    assert_int_equal(count.objects, objects);
    assert_int_equal(count.bytes, objects * SMALL);
    assert_int_equal(after.gets, before.gets); /* quiet */
    assert_true(after.device_reads - before.device_reads <= reads_most);
    assert_true(after.device_read_bytes - before.device_read_bytes <= bytes_most);
}

static void scan__reads_neighbours_together(void **state)
{
    struct gb_fixture *fixture = *state;
    open_with_many(fixture);
    struct gb_key key;
    /* Records take some 500 bytes, and lie in the two lanes in order. */
    const uint64_t bytes = MANY * (SMALL + 200);
    const struct goblin_range backwards = {.reverse = true};
    check_few_reads(fixture, NULL, MANY, MANY / 20, bytes);
    check_few_reads(fixture, &backwards, MANY, MANY / 20, bytes);
    for (uint64_t i = 0; i < 50; i++) {
        const struct goblin_range range = {.from = gb_key_at(&key, FIRST + i * 300), .limit = 10};
        check_few_reads(fixture, &range, 10, 4, 32 * GB_KIB);
    }
    assert_true(gb_fixture_stats(fixture).memory_used_bytes <= fixture->options.memory_bytes);
}

/* ---- what the caller may do ---------------------------------------------------------------- */

struct guest {
    struct gb_fixture *fixture;
    struct goblin_request request;
    struct gb_key key;
    uint64_t visits;
    uint64_t answered;
};

static void count_answer(void *arg, int result, const struct goblin_info *info)
{
    struct guest *guest = arg;
    assert_int_equal(result, GOBLIN_OK);
    assert_int_equal(info->size, SMALL);
    guest->answered++;
}

static int take_any(void *arg, const struct goblin_chunk *chunk)
{
    (void)arg;
    assert_int_equal(chunk->len, SMALL);
    return GOBLIN_CHUNK_DONE;
}

/* Deletes what it sees, changes the next one, asks the reader for another, and is refused a scan
 * within the scan. */
static int meddle(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct guest *guest = arg;
    struct gb_fixture *fixture = guest->fixture;
    struct count count = {0};
    (void)chunk;
    assert_int_equal(goblin_scan_values(fixture->reader, NULL, 0, count_chunk, &count), -EBUSY);
    assert_int_equal(count.objects, 0);
    assert_int_equal(goblin_delete(fixture->store, key, NULL), GOBLIN_OK);
    if (guest->request.internal == NULL || guest->answered == guest->visits) {
        guest->visits++;
        guest->request = (struct goblin_request){
            .key = gb_key_at(&guest->key, FIRST + MANY - 1),
            .on_chunk = take_any,
            .on_done = count_answer,
            .arg = guest,
        };
        assert_int_equal(goblin_submit(fixture->reader, &guest->request), GOBLIN_OK);
    }
    return 0;
}

static void scan__lets_the_callback_use_the_store(void **state)
{
    struct guest guest = {.fixture = *state};
    open_with_many(guest.fixture);
    struct gb_key key;
    const struct goblin_range range = {.to = gb_key_at(&key, FIRST + 3000)};
    assert_int_equal(goblin_scan_values(guest.fixture->reader, &range, 0, meddle, &guest),
                     GOBLIN_OK);
    while (guest.answered < guest.visits) {
        assert_true(goblin_poll(guest.fixture->reader, -1) >= 0);
    }
    assert_true(guest.visits > 0);
    struct count count = {0};
    assert_int_equal(goblin_scan_values(guest.fixture->reader, &range, 0, count_chunk, &count),
                     GOBLIN_OK);
    assert_int_equal(count.objects, 0);
    gb_fixture_expect(guest.fixture, FIRST + MANY - 1, SMALL, MANY - 1);
}

static void scan__passes_over_what_is_not_in_ram_if_asked_to(void **state)
{
    struct gb_fixture *fixture = *state;
    open_with_many(fixture);
    struct count some = {0};
    struct count all = {0};
    struct goblin_stats before = gb_fixture_stats(fixture);
    assert_int_equal(
        goblin_scan_values(fixture->reader, NULL, GOBLIN_GET_RESIDENT, count_chunk, &some),
        GOBLIN_OK);
    assert_int_equal(gb_fixture_stats(fixture).device_reads, before.device_reads);
    assert_int_equal(goblin_scan_values(fixture->reader, NULL, 0, count_chunk, &all), GOBLIN_OK);
    assert_true(some.objects < all.objects);
    assert_int_equal(all.objects, MANY);
}

static int check_meta(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    (void)key;
    if (chunk->offset == 0) {
        assert_int_equal(chunk->meta.len, 7);
        assert_memory_equal(chunk->meta.data, "nothing", 7);
    }
    return count_chunk(arg, key, chunk);
}

static void scan__hands_metadata_over(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 8 * GB_MIB;
    gb_fixture_open(fixture);
    static unsigned char value[50000];
    const struct goblin_put_options options = {.meta = {"nothing", 7}};
    for (uint64_t i = 0; i < 300; i++) {
        struct gb_key key;
        assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, FIRST + i),
                                    (struct goblin_slice){value, i * 160}, &options, NULL),
                         GOBLIN_OK);
    }
    gb_fixture_reopen(fixture);
    struct count count = {0};
    assert_int_equal(goblin_scan_values(fixture->reader, NULL, GOBLIN_GET_META, check_meta, &count),
                     GOBLIN_OK);
    assert_int_equal(count.objects, 300);
}

static void scan__refuses_what_it_cannot_do(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.ordered = GOBLIN_ORDERED_OFF;
    gb_fixture_open(fixture);
    struct count count = {0};
    assert_int_equal(goblin_scan_values(fixture->reader, NULL, 0, count_chunk, &count),
                     GOBLIN_EUNORDERED);
    gb_fixture_close(fixture);
    fixture->options.ordered = GOBLIN_ORDERED_AUTO;
    gb_fixture_open(fixture);
    static const unsigned char bytes[GOBLIN_KEY_MAX + 1];
    const struct goblin_range range = {.from = {bytes, sizeof(bytes)}};
    assert_int_equal(goblin_scan_values(fixture->reader, &range, 0, count_chunk, &count),
                     GOBLIN_EKEY);
    assert_int_equal(goblin_scan_values(fixture->reader, NULL, 0, count_chunk, &count), GOBLIN_OK);
    assert_int_equal(count.objects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(scan__gives_what_the_model_holds),
        GB_ON_BOTH_PATHS(scan__gives_it_with_one_buffer_and_one_request),
        GB_ON_BOTH_PATHS(scan__gives_it_from_the_page_cache),
        GB_ON_BOTH_PATHS(scan__reads_neighbours_together),
        GB_ON_BOTH_PATHS(scan__lets_the_callback_use_the_store),
        GB_ON_BOTH_PATHS(scan__passes_over_what_is_not_in_ram_if_asked_to),
        GB_ON_BOTH_PATHS(scan__hands_metadata_over),
        GB_ON_BOTH_PATHS(scan__refuses_what_it_cannot_do),
    };
    return gb_fixture_run("scan_values", tests);
}
