/* Fault loops over the calls that read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/scan.h>

#include "lib/faultloop.h"
#include "lib/pattern.h"

#define LARGE 7u /* an object in extents, of 700,000 bytes */

/* Nothing is resident but what opening has brought. */
static void start_cold(struct gb_world *world)
{
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
    assert_int_equal(gb_world_open(world), GOBLIN_OK);
    assert_int_equal(gb_world_make_reader(world), GOBLIN_OK);
}

static void start_cold_without_reader(struct gb_world *world)
{
    start_cold(world);
    gb_world_drop_reader(world);
}

static void by_plain_reads(struct gb_world *world)
{
    world->fixture->options.io = GOBLIN_IO_SYNC;
}

static int make_reader_with_threads(struct gb_world *world)
{
    static const struct goblin_reader_options options = {.threads = 2};
    int rc = goblin_reader_create(&world->fixture->reader, world->fixture->store, &options);
    if (rc < 0) {
        world->fixture->reader = NULL;
    }
    return rc;
}

static void start_cold_with_threads(struct gb_world *world)
{
    start_cold_without_reader(world);
    assert_int_equal(make_reader_with_threads(world), GOBLIN_OK);
}

static int get(struct gb_world *world, uint64_t number, uint64_t offset, uint64_t length,
               unsigned flags)
{
    const struct goblin_request range = {.offset = offset, .length = length, .flags = flags};
    return gb_fixture_read(world->fixture, number, world->objects[number].now.seed, &range, NULL);
}

static int get_small(struct gb_world *world)
{
    return get(world, 0, 0, 0, 0);
}

static int get_middling(struct gb_world *world)
{
    return get(world, 3, 0, 0, 0);
}

static int get_large(struct gb_world *world)
{
    return get(world, LARGE, 0, 0, 0);
}

/* The second time it asks to become resident. */
static int get_twice(struct gb_world *world)
{
    int rc = get(world, 6, 0, 0, 0);
    return rc < 0 ? rc : get(world, 6, 0, 0, 0);
}

static int get_range(struct gb_world *world)
{
    return get(world, LARGE, 333333, 111111, 0);
}

static int get_resident(struct gb_world *world)
{
    return get(world, 6, 0, 0, GOBLIN_GET_RESIDENT);
}

static int load(struct gb_world *world)
{
    struct gb_key key;
    struct goblin_buffer buffer = {0};
    struct goblin_buffer meta = {0};
    struct goblin_info info;
    const struct gb_world_state *state = &world->objects[LARGE].now;
    int rc = goblin_load(world->fixture->reader, gb_key_at(&key, LARGE), &buffer, &info, &meta);
    if (rc == GOBLIN_OK) {
        assert_int_equal(buffer.len, state->size);
        assert_true(gb_pattern_holds(buffer.data, buffer.len, state->seed, 0));
    }
    goblin_buffer_free(&buffer);
    goblin_buffer_free(&meta);
    return rc;
}

/* ---- many at once -------------------------------------------------------------------------- */

struct flight {
    struct goblin_request request;
    struct gb_key key;
    uint64_t seed;
    uint64_t next;
    int result;
    bool done;
};

static int fly_on(void *arg, const struct goblin_chunk *chunk)
{
    struct flight *flight = arg;
    assert_int_equal(chunk->offset, flight->next);
    assert_true(gb_pattern_holds(chunk->data, chunk->len, flight->seed, chunk->offset));
    flight->next += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static void land(void *arg, int result, const struct goblin_info *info)
{
    (void)info;
    struct flight *flight = arg;
    assert_false(flight->done);
    flight->done = true;
    flight->result = result;
}

static void prepare_flight(struct gb_world *world, struct flight *flight, unsigned i)
{
    static const uint64_t numbers[] = {7, 6, 3, 2, 8, 0};
    flight->seed = world->objects[numbers[i]].now.seed;
    flight->request = (struct goblin_request){
        .key = gb_key_at(&flight->key, numbers[i]),
        .on_chunk = fly_on,
        .on_done = land,
        .arg = flight,
    };
}

/* Several requests in flight; what the first of them that failed says. */
static int get_at_once(struct gb_world *world)
{
    struct flight flights[6] = {0};
    struct goblin_reader *reader = world->fixture->reader;
    int answer = GOBLIN_OK;
    for (unsigned i = 0; i < 6; i++) {
        struct flight *flight = &flights[i];
        prepare_flight(world, flight, i);
        int rc = goblin_submit(reader, &flight->request);
        if (rc < 0) {
            flight->done = true;
            flight->result = rc;
        }
    }
    int left = 1;
    while (left > 0) {
        left = goblin_poll(reader, -1);
    }
    if (left < 0) {
        goblin_reader_destroy(reader); /* ends those that are in flight */
        world->fixture->reader = NULL;
        answer = left;
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_true(flights[i].done);
        answer = flights[i].result < 0 ? flights[i].result : answer;
    }
    return answer;
}

/* The same in one call. */
static int get_many(struct gb_world *world)
{
    struct flight flights[6] = {0};
    struct goblin_request requests[6];
    int results[6];
    for (unsigned i = 0; i < 6; i++) {
        prepare_flight(world, &flights[i], i);
        requests[i] = flights[i].request;
    }
    int answer = goblin_get_many(world->fixture->reader, requests, 6, results);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(flights[i].done);
        assert_int_equal(flights[i].result, results[i]);
        answer = answer == GOBLIN_OK && results[i] < 0 ? results[i] : answer;
    }
    return answer;
}

static int ask_for_eventfd(struct gb_world *world)
{
    int fd = goblin_reader_eventfd(world->fixture->reader);
    return fd == -ENOSYS ? GOBLIN_OK : fd;
}

/* ---- readers, and what takes none ---------------------------------------------------------- */

static int make_reader(struct gb_world *world)
{
    return gb_world_make_reader(world);
}

static int make_and_destroy_readers(struct gb_world *world)
{
    int rc = GOBLIN_OK;
    for (unsigned i = 0; rc == GOBLIN_OK && i < 3; i++) {
        struct goblin_reader *reader = NULL;
        const struct goblin_reader_options options = {.buffers = 1 + i, .requests = 1 + 10 * i};
        rc = goblin_reader_create(&reader, world->fixture->store, &options);
        if (rc == GOBLIN_OK) {
            goblin_reader_destroy(reader);
        }
    }
    return rc;
}

static int stat_object(struct gb_world *world)
{
    struct gb_key key;
    struct goblin_info info;
    return goblin_stat(world->fixture->store, gb_key_at(&key, LARGE), &info);
}

static int read_stats(struct gb_world *world)
{
    struct goblin_stats stats = gb_fixture_stats(world->fixture);
    assert_int_equal(stats.objects, 9);
    return GOBLIN_OK;
}

struct tour {
    uint64_t visits;
};

static int visit(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    (void)info;
    ((struct tour *)arg)->visits++;
    return 0;
}

/* A tour that was interrupted goes on where it stood and misses nothing. */
static int iterate(struct gb_world *world)
{
    struct tour tour = {0};
    uint64_t cursor = 0;
    int rc = goblin_iterate(world->fixture->store, &cursor, 0, visit, &tour);
    if (rc < 0) {
        assert_int_equal(goblin_iterate(world->fixture->store, &cursor, 0, visit, &tour),
                         GOBLIN_OK);
    }
    assert_int_equal(tour.visits, 9);
    return rc;
}

/* The first scan of a store puts its keys in order. */
static int scan(struct gb_world *world)
{
    struct tour tour = {0};
    int rc = goblin_scan(world->fixture->store, NULL, visit, &tour);
    if (rc < 0) {
        tour.visits = 0;
        assert_int_equal(goblin_scan(world->fixture->store, NULL, visit, &tour), GOBLIN_OK);
    }
    assert_int_equal(tour.visits, 9);
    return rc;
}

struct reading {
    struct gb_world *world;
    uint64_t values;
};

static int read_value(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct reading *reading = arg;
    char text[40] = "";
    assert_true(key.len < sizeof(text));
    memcpy(text, key.data, key.len);
    uint64_t number = strtoull(text + strcspn(text, "0123456789"), NULL, 10);
    assert_true(number < GB_WORLD_OBJECTS);
    const struct gb_world_state *object = &reading->world->objects[number].now;
    assert_int_equal(chunk->info->size, object->size);
    assert_true(gb_pattern_holds(chunk->data, chunk->len, object->seed, chunk->offset));
    reading->values += chunk->last;
    return 0;
}

/* What cannot be read is passed over; all else comes once. */
static int scan_values(struct gb_world *world)
{
    struct reading reading = {.world = world};
    struct goblin_reader *reader = world->fixture->reader;
    int rc = goblin_scan_values(reader, NULL, 0, read_value, &reading);
    assert_true(reading.values <= 9);
    if (rc == GOBLIN_OK && reading.values < 9) {
        world->misses = true;
    }
    return rc;
}

static void scan_before(struct gb_world *world)
{
    assert_int_equal(scan(world), GOBLIN_OK);
}

int main(void)
{
    const struct gb_loop loops[] = {
        {"get of a small value", NULL, start_cold, get_small, 0},
        {"get of a value in one record", NULL, start_cold, get_middling, 0},
        {"get of a large value", NULL, start_cold, get_large, 0},
        {"get of what just came", NULL, NULL, get_large, 0},
        {"get, twice", NULL, start_cold, get_twice, 0},
        {"get of a range", NULL, start_cold, get_range, GB_LOOP_REAL},
        {"get of what is resident", NULL, NULL, get_resident, 0},
        {"load", NULL, start_cold, load, GB_LOOP_REAL},
        {"submit and poll", NULL, start_cold, get_at_once, GB_LOOP_REAL},
        {"get by threads", by_plain_reads, start_cold_with_threads, get_large, GB_LOOP_REAL},
        {"reader with threads", by_plain_reads, start_cold_without_reader, make_reader_with_threads,
         GB_LOOP_REAL},
        {"eventfd by threads", by_plain_reads, start_cold_with_threads, ask_for_eventfd,
         GB_LOOP_REAL},
        {"many gets", NULL, start_cold, get_many, GB_LOOP_REAL},
        {"many gets by threads", by_plain_reads, start_cold_with_threads, get_many, GB_LOOP_REAL},
        {"eventfd", NULL, NULL, ask_for_eventfd, GB_LOOP_REAL},
        {"reader", NULL, start_cold_without_reader, make_reader, GB_LOOP_REAL},
        {"readers that come and go", NULL, start_cold, make_and_destroy_readers, 0},
        {"stat", NULL, NULL, stat_object, 0},
        {"stats", NULL, NULL, read_stats, 0},
        {"iterate", NULL, start_cold, iterate, 0},
        {"scan, the first", NULL, start_cold, scan, 0},
        {"scan, another one", NULL, scan_before, scan, 0},
        {"scan of values", NULL, start_cold, scan_values, GB_LOOP_REAL},
        {"scan of values in RAM", NULL, scan_before, scan_values, 0},
    };
    return gb_loops_run("fault loops, reading", loops, sizeof(loops) / sizeof(loops[0]));
}
