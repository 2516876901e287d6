/* The asynchronous form of reading: many requests on one reader, callbacks that submit and cancel,
 * held chunks, a full reader, readiness by eventfd, and a reader destroyed in mid-flight. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fixture.h"
#include "lib/pattern.h"

#define OBJECTS   40u
#define HOLDS_MAX 8u

/* Small, middling and large ones in turn. */
static size_t size_at(unsigned number)
{
    static const size_t sizes[] = {0, 900, 15000, 40000, 300000, 1500000};
    return sizes[number % 6] + number;
}

/* One request and all that its callbacks saw. */
struct ask {
    struct goblin_request request;
    struct gb_key key;
    struct gb_fixture *fixture;
    struct goblin_reader *reader;
    unsigned number;
    uint64_t next;
    unsigned chunks;
    unsigned done;
    int result;
    bool wrong;

    int answer;          /* of on_chunk */
    struct ask *cancels; /* cancelled in on_chunk */
    struct ask *then;    /* submitted in on_done */
    struct ask *besides; /* submitted in the first on_chunk */
    bool refused;        /* a submit in a callback was refused */

    uint64_t hold[HOLDS_MAX];
    const unsigned char *held[HOLDS_MAX];
    size_t held_len[HOLDS_MAX];
    uint64_t held_offset[HOLDS_MAX];
    unsigned holds;
};

static void start(struct ask *ask)
{
    int rc = goblin_submit(ask->reader, &ask->request);
    ask->refused = ask->refused || rc != GOBLIN_OK;
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct ask *ask = arg;
    ask->wrong = ask->wrong || ask->done > 0 || chunk->offset != ask->next ||
                 !gb_pattern_holds(chunk->data, chunk->len, ask->number, chunk->offset);
    ask->next = chunk->offset + chunk->len;
    struct ask *besides = ask->chunks++ == 0 ? ask->besides : NULL;
    if (besides != NULL) {
        start(besides);
    }
    if (ask->cancels != NULL) {
        goblin_cancel(ask->reader, &ask->cancels->request);
    }
    if (ask->answer == GOBLIN_CHUNK_HOLD) {
        if (ask->holds == HOLDS_MAX) {
            return GOBLIN_CHUNK_DONE;
        }
        ask->hold[ask->holds] = chunk->hold;
        ask->held[ask->holds] = chunk->data;
        ask->held_len[ask->holds] = chunk->len;
        ask->held_offset[ask->holds++] = chunk->offset;
    }
    return ask->answer;
}

static void take_end(void *arg, int result, const struct goblin_info *info)
{
    struct ask *ask = arg;
    ask->done++;
    ask->result = result;
    ask->wrong = ask->wrong || (result == GOBLIN_OK) != (info != NULL) ||
                 (info != NULL && info->size != size_at(ask->number));
    if (ask->then != NULL) {
        start(ask->then);
    }
}

static void prepare(struct ask *ask, struct gb_fixture *fixture, struct goblin_reader *reader,
                    unsigned number)
{
    *ask = (struct ask){.fixture = fixture, .reader = reader, .number = number};
    ask->request = (struct goblin_request){
        .key = gb_key_at(&ask->key, number),
        .on_chunk = take_chunk,
        .on_done = take_end,
        .arg = ask,
    };
}

static void expect_whole(const struct ask *ask)
{
    assert_false(ask->wrong);
    assert_int_equal(ask->done, 1);
    assert_int_equal(ask->result, GOBLIN_OK);
    assert_int_equal(ask->next, size_at(ask->number));
}

static void poll_all(struct goblin_reader *reader)
{
    int left = 1;
    while (left > 0) {
        left = goblin_poll(reader, -1);
        assert_true(left >= 0);
    }
}

static void open_filled(struct gb_fixture *fixture)
{
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, size_at(i), i), GOBLIN_OK);
    }
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
}

static struct goblin_reader *make_reader(struct gb_fixture *fixture, unsigned buffers,
                                         unsigned requests)
{
    struct goblin_reader *reader = NULL;
    const struct goblin_reader_options options = {.buffers = buffers, .requests = requests};
    assert_int_equal(goblin_reader_create(&reader, fixture->store, &options), GOBLIN_OK);
    return reader;
}

/* One that nobody waits for: where there is no ring, threads carry out its reads. */
static struct goblin_reader *make_watched_reader(struct gb_fixture *fixture, unsigned buffers,
                                                 unsigned requests)
{
    struct goblin_reader *reader = NULL;
    const struct goblin_reader_options options = {
        .buffers = buffers, .requests = requests, .threads = 3};
    assert_int_equal(goblin_reader_create(&reader, fixture->store, &options), GOBLIN_OK);
    return reader;
}

/* ---- many at once -------------------------------------------------------------------------- */

static void poll__carries_many_requests(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    for (unsigned buffers = 1; buffers <= 16; buffers *= 4) {
        struct goblin_reader *reader = make_reader(fixture, buffers, OBJECTS);
        for (unsigned i = 0; i < OBJECTS; i++) {
            prepare(&asks[i], fixture, reader, i);
            asks[i].request.flags = GOBLIN_GET_QUIET;
            assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
            /* The head has come by now. */
            assert_true(asks[i].chunks > 0 || asks[i].done > 0);
        }
        poll_all(reader);
        for (unsigned i = 0; i < OBJECTS; i++) {
            expect_whole(&asks[i]);
        }
        goblin_reader_destroy(reader);
    }
}

static void submit__tells_misses_at_once(void **state)
{
    struct gb_fixture *fixture = *state;
    struct ask ask;
    open_filled(fixture);
    prepare(&ask, fixture, fixture->reader, 4711);
    assert_int_equal(goblin_submit(fixture->reader, &ask.request), GOBLIN_OK);
    assert_int_equal(ask.done, 1);
    assert_int_equal(ask.result, GOBLIN_MISS);
    assert_int_equal(goblin_poll(fixture->reader, 0), 0);
    assert_int_equal(goblin_poll(fixture->reader, -1), 0);
    ask.request.on_chunk = NULL;
    assert_int_equal(goblin_submit(fixture->reader, &ask.request), -EINVAL);
    ask.request.key.len = 0;
    assert_int_equal(goblin_submit(fixture->reader, &ask.request), GOBLIN_EKEY);
}

static void submit__says_when_the_reader_is_full(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[4];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 2, 3);
    unsigned taken = 0;
    for (unsigned i = 0; i < 4; i++) {
        prepare(&asks[i], fixture, reader, 5);
        int rc = goblin_submit(reader, &asks[i].request);
        assert_int_equal(rc, i < 3 ? GOBLIN_OK : -EAGAIN);
        taken += rc == GOBLIN_OK;
    }
    assert_int_equal(taken, 3);
    poll_all(reader);
    assert_int_equal(asks[3].done, 0);
    assert_int_equal(goblin_submit(reader, &asks[3].request), GOBLIN_OK);
    poll_all(reader);
    for (unsigned i = 0; i < 4; i++) {
        expect_whole(&asks[i]);
    }
    goblin_reader_destroy(reader);
}

static void callbacks__may_submit(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 2, 8);
    for (unsigned i = 0; i < OBJECTS; i++) {
        prepare(&asks[i], fixture, reader, i);
    }
    /* A chain through on_done, and from each link a neighbour through on_chunk. */
    for (unsigned i = 0; i + 2 < OBJECTS; i += 2) {
        asks[i].then = &asks[i + 2];
        asks[i].besides = &asks[i + 1];
    }
    asks[OBJECTS - 2].besides = &asks[OBJECTS - 1];
    start(&asks[0]);
    poll_all(reader);
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_false(asks[i].refused);
        expect_whole(&asks[i]);
    }
    goblin_reader_destroy(reader);
}

/* ---- cancelling ---------------------------------------------------------------------------- */

static void cancel__ends_a_request_in_flight(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 4, OBJECTS);
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            prepare(&asks[i], fixture, reader, i);
            assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
        }
        for (unsigned i = round % 2; i < OBJECTS; i += 2) {
            unsigned done = asks[i].done;
            goblin_cancel(reader, &asks[i].request);
            assert_true(done == 1 || asks[i].result == GOBLIN_ECANCELED);
            goblin_cancel(reader, &asks[i].request); /* harmless */
            assert_int_equal(asks[i].done, 1);
        }
        poll_all(reader);
        for (unsigned i = 0; i < OBJECTS; i++) {
            assert_int_equal(asks[i].done, 1);
            assert_false(asks[i].wrong);
            if (asks[i].result != GOBLIN_ECANCELED) {
                expect_whole(&asks[i]);
            }
        }
    }
    goblin_reader_destroy(reader);
}

static void cancel__may_be_called_in_a_callback(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 3, OBJECTS);
    for (unsigned shift = 0; shift < 7; shift++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            prepare(&asks[i], fixture, reader, i);
        }
        /* Itself, its neighbours, far ones: every third cancels somebody. */
        for (unsigned i = 0; i < OBJECTS; i += 3) {
            asks[i].cancels = &asks[(i + shift) % OBJECTS];
        }
        for (unsigned i = 0; i < OBJECTS; i++) {
            assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
        }
        poll_all(reader);
        for (unsigned i = 0; i < OBJECTS; i++) {
            assert_int_equal(asks[i].done, 1);
            assert_false(asks[i].wrong);
            if (asks[i].result != GOBLIN_ECANCELED) {
                expect_whole(&asks[i]);
            }
        }
    }
    goblin_reader_destroy(reader);
}

/* ---- hinting ------------------------------------------------------------------------------- */

static void hint__changes_and_counts_nothing(void **state)
{
    struct gb_fixture *fixture = *state;
    open_filled(fixture);
    static struct gb_key names[100];
    struct goblin_slice keys[100];
    for (unsigned i = 0; i < 100; i++) {
        keys[i] = gb_key_at(&names[i], i); /* most are not there */
    }
    keys[3] = (struct goblin_slice){NULL, 0};
    keys[5] = (struct goblin_slice){keys[5].data, 0};
    keys[7] = (struct goblin_slice){keys[7].data, GOBLIN_KEY_MAX + 1};
    const size_t counts[] = {0, 1, 31, 32, 33, 64, 100};
    struct goblin_stats before = gb_fixture_stats(fixture);
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        goblin_hint(fixture->store, keys, counts[i]);
    }
    struct goblin_stats after = gb_fixture_stats(fixture);
    assert_int_equal(after.gets, before.gets);
    assert_int_equal(after.misses, before.misses);
    assert_int_equal(after.objects, before.objects);
    assert_int_equal(after.device_reads, before.device_reads);
    for (unsigned i = 0; i < OBJECTS; i++) {
        gb_fixture_expect(fixture, i, size_at(i), i);
    }
}

/* ---- holding ------------------------------------------------------------------------------- */

static void expect_held(const struct ask *ask)
{
    for (unsigned i = 0; i < ask->holds; i++) {
        assert_true(
            gb_pattern_holds(ask->held[i], ask->held_len[i], ask->number, ask->held_offset[i]));
    }
}

static void hold__keeps_resident_bytes(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[3];
    fixture->options.memory_bytes = 8 * GB_MIB;
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 2, 4);
    const unsigned numbers[] = {0, 1, 8};
    for (unsigned i = 0; i < 3; i++) {
        prepare(&asks[i], fixture, reader, numbers[i]);
        asks[i].request.flags = GOBLIN_GET_RESIDENT;
        asks[i].answer = GOBLIN_CHUNK_HOLD;
        assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
        assert_int_equal(asks[i].done, 1);
        assert_int_equal(asks[i].holds, 1);
    }
    /* RAM turns over several times meanwhile, and the objects themselves go. */
    for (unsigned i = 0; i < 4000; i++) {
        assert_int_equal(gb_fixture_put(fixture, 100 + i % 2000, 8000, 77), GOBLIN_OK);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(goblin_delete(fixture->store, asks[i].request.key, NULL), GOBLIN_OK);
        expect_held(&asks[i]);
        goblin_release(reader, asks[i].hold[0]);
    }
    assert_int_equal(gb_fixture_stats(fixture).pinned_blocks, 0);
    goblin_reader_destroy(reader);
}

static void hold__keeps_tail_chunks(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[2];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 8, 4);
    for (unsigned round = 0; round < 3; round++) {
        prepare(&asks[0], fixture, reader, 5);
        asks[0].answer = GOBLIN_CHUNK_HOLD;
        asks[0].request.length = 600000;
        asks[0].request.flags = GOBLIN_GET_QUIET;
        assert_int_equal(goblin_submit(reader, &asks[0].request), GOBLIN_OK);
        poll_all(reader);
        assert_int_equal(asks[0].done, 1);
        assert_in_range(asks[0].holds, 3, 7);
        /* Others go on with the buffers that are left. */
        prepare(&asks[1], fixture, reader, 11);
        assert_int_equal(goblin_submit(reader, &asks[1].request), GOBLIN_OK);
        poll_all(reader);
        expect_whole(&asks[1]);
        expect_held(&asks[0]);
        for (unsigned i = 0; i < asks[0].holds; i++) {
            goblin_release(reader, asks[0].hold[i]);
        }
    }
    goblin_reader_destroy(reader);
}

static void release__lets_a_starved_request_go_on(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask ask;
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 1, 4);
    prepare(&ask, fixture, reader, 5);
    ask.answer = GOBLIN_CHUNK_HOLD;
    assert_int_equal(goblin_submit(reader, &ask.request), GOBLIN_OK);
    while (ask.done == 0) {
        assert_true(goblin_poll(reader, -1) >= 0);
        /* The head pins RAM; a tail chunk takes the only buffer. */
        while (ask.holds > 0) {
            expect_held(&ask);
            goblin_release(reader, ask.hold[--ask.holds]);
        }
    }
    expect_whole(&ask);
    goblin_reader_destroy(reader);
}

static void ahead__leaves_buffers_to_others(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[2];
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 4, 4);
    prepare(&asks[0], fixture, reader, 5);
    asks[0].answer = GOBLIN_CHUNK_HOLD;
    asks[0].request.flags = GOBLIN_GET_QUIET;
    asks[0].request.ahead = 2;
    assert_int_equal(goblin_submit(reader, &asks[0].request), GOBLIN_OK);
    while (asks[0].holds < 3) { /* the head and two of the tail */
        assert_true(goblin_poll(reader, -1) >= 0);
    }
    prepare(&asks[1], fixture, reader, 11);
    asks[1].request.flags = GOBLIN_GET_QUIET;
    assert_int_equal(goblin_submit(reader, &asks[1].request), GOBLIN_OK);
    while (asks[1].done == 0) {
        assert_true(goblin_poll(reader, -1) >= 0);
    }
    expect_whole(&asks[1]);
    assert_int_equal(asks[0].holds, 3);
    while (asks[0].done == 0) {
        while (asks[0].holds > 0) {
            expect_held(&asks[0]);
            goblin_release(reader, asks[0].hold[--asks[0].holds]);
        }
        assert_true(goblin_poll(reader, -1) >= 0);
        assert_in_range(asks[0].holds, 0, 2);
    }
    expect_whole(&asks[0]);
    goblin_reader_destroy(reader); /* what is held of a request that is over is nobody's to count */
}

/* ---- readiness ----------------------------------------------------------------------------- */

/* An event loop: polls only when the eventfd says so. */
static void loop_until_done(struct goblin_reader *reader)
{
    int fd = goblin_reader_eventfd(reader);
    assert_true(fd >= 0);
    int left = 1;
    while (left > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int n = poll(&ready, 1, 10000);
        if (n != 1) {
            fail_msg("%d requests are left and nothing will happen", left);
        }
        left = goblin_poll(reader, 0);
        assert_true(left >= 0);
    }
}

static void eventfd__tells_when_to_poll(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    if (fixture->options.io == GOBLIN_IO_SYNC) {
        assert_int_equal(goblin_reader_eventfd(fixture->reader), -ENOSYS);
    }
    for (unsigned buffers = 1; buffers <= 8; buffers *= 2) {
        struct goblin_reader *reader = make_watched_reader(fixture, buffers, OBJECTS);
        for (unsigned round = 0; round < 3; round++) {
            for (unsigned i = 0; i < OBJECTS; i++) {
                prepare(&asks[i], fixture, reader, i);
                asks[i].request.flags = GOBLIN_GET_QUIET;
                asks[i].cancels = round == 1 && i % 5 == 0 ? &asks[(i + 29) % OBJECTS] : NULL;
                assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
            }
            loop_until_done(reader);
            for (unsigned i = 0; i < OBJECTS; i++) {
                assert_int_equal(asks[i].done, 1);
                if (asks[i].result != GOBLIN_ECANCELED) {
                    expect_whole(&asks[i]);
                }
            }
        }
        goblin_reader_destroy(reader);
    }
}

static void eventfd__tells_of_chains_too(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    struct goblin_reader *reader = make_watched_reader(fixture, 1, 4);
    for (unsigned i = 0; i < OBJECTS; i++) {
        prepare(&asks[i], fixture, reader, i);
        asks[i].request.flags = GOBLIN_GET_QUIET;
        asks[i].then = i + 1 < OBJECTS ? &asks[i + 1] : NULL;
    }
    start(&asks[0]);
    loop_until_done(reader);
    for (unsigned i = 0; i < OBJECTS; i++) {
        expect_whole(&asks[i]);
    }
    goblin_reader_destroy(reader);
}

static void submit__gives_at_once_what_waits_to_be_written(void **state)
{
    struct gb_fixture *fixture = *state;
    struct ask ask;
    fixture->options.flush_ms = 3600000;
    gb_fixture_open(fixture);
    struct goblin_reader *reader = make_reader(fixture, 1, 1);
    uint64_t reads = gb_fixture_stats(fixture).device_reads;
    assert_int_equal(gb_fixture_put(fixture, 3, size_at(3), 3), GOBLIN_OK);
    prepare(&ask, fixture, reader, 3);
    assert_int_equal(goblin_submit(reader, &ask.request), GOBLIN_OK);
    expect_whole(&ask);
    assert_true(ask.chunks > 1);
    assert_int_equal(gb_fixture_stats(fixture).device_reads, reads);
    goblin_reader_destroy(reader);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void destroy__cancels_what_is_in_flight(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ask asks[OBJECTS];
    open_filled(fixture);
    for (unsigned round = 0; round < 4; round++) {
        struct goblin_reader *reader = make_reader(fixture, 2 + round, OBJECTS);
        for (unsigned i = 0; i < OBJECTS; i++) {
            prepare(&asks[i], fixture, reader, i);
            assert_int_equal(goblin_submit(reader, &asks[i].request), GOBLIN_OK);
        }
        for (unsigned i = 0; i < round; i++) {
            assert_true(goblin_poll(reader, 0) >= 0);
        }
        goblin_reader_destroy(reader);
        for (unsigned i = 0; i < OBJECTS; i++) {
            assert_int_equal(asks[i].done, 1);
            assert_false(asks[i].wrong);
            assert_true(asks[i].result == GOBLIN_OK || asks[i].result == GOBLIN_ECANCELED);
        }
    }
    assert_int_equal(gb_fixture_stats(fixture).pinned_blocks, 0);
    goblin_reader_destroy(NULL);
}

static void reader__is_refused_beyond_the_budget(void **state)
{
    struct gb_fixture *fixture = *state;
    struct goblin_reader *readers[64] = {0};
    unsigned count = 0;
    open_filled(fixture);
    int rc = GOBLIN_OK;
    while (rc == GOBLIN_OK) {
        assert_true(count < 64);
        rc = goblin_reader_create(&readers[count], fixture->store, NULL);
        count += rc == GOBLIN_OK;
    }
    assert_int_equal(rc, -ENOMEM);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.memory_read_bytes <= stats.memory_budget_bytes / 2);
    for (unsigned i = 0; i < OBJECTS; i++) {
        gb_fixture_expect(fixture, i, size_at(i), i);
    }
    for (unsigned i = 0; i < count; i++) {
        goblin_reader_destroy(readers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(poll__carries_many_requests),
        GB_ON_BOTH_PATHS(submit__tells_misses_at_once),
        GB_ON_BOTH_PATHS(submit__says_when_the_reader_is_full),
        GB_ON_BOTH_PATHS(callbacks__may_submit),
        GB_ON_BOTH_PATHS(cancel__ends_a_request_in_flight),
        GB_ON_BOTH_PATHS(cancel__may_be_called_in_a_callback),
        GB_ON_BOTH_PATHS(hint__changes_and_counts_nothing),
        GB_ON_BOTH_PATHS(hold__keeps_resident_bytes),
        GB_ON_BOTH_PATHS(hold__keeps_tail_chunks),
        GB_ON_BOTH_PATHS(release__lets_a_starved_request_go_on),
        GB_ON_BOTH_PATHS(ahead__leaves_buffers_to_others),
        GB_ON_BOTH_PATHS(eventfd__tells_when_to_poll),
        GB_ON_BOTH_PATHS(eventfd__tells_of_chains_too),
        GB_ON_BOTH_PATHS(submit__gives_at_once_what_waits_to_be_written),
        GB_ON_BOTH_PATHS(destroy__cancels_what_is_in_flight),
        GB_ON_BOTH_PATHS(reader__is_refused_beyond_the_budget),
    };
    return gb_fixture_run("async", tests);
}
