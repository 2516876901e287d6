/* Many gets in one call: every request has its own answer, whatever the reader has room for, beside
 * requests that were submitted before; what is held too long ends the call, not the store. */
#include <errno.h>
#include <string.h>

#include "lib/fixture.h"
#include "lib/pattern.h"

#define OBJECTS 120u
#define MANY    300u

/* Small, middling and large ones in turn. */
static size_t size_at(unsigned number)
{
    static const size_t sizes[] = {0, 400, 900, 15000, 40000, 300000};
    return sizes[number % 6] + number;
}

struct ask {
    struct gb_key key;
    unsigned number;
    uint64_t next;
    unsigned done;
    int result;
    bool wrong;
    int answer; /* of on_chunk */
    uint64_t hold[8];
    unsigned holds;
};

struct batch {
    struct ask asks[MANY];
    struct goblin_request requests[MANY];
    int results[MANY];
};

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct ask *ask = arg;
    ask->wrong = ask->wrong || ask->done > 0 || chunk->offset != ask->next ||
                 !gb_pattern_holds(chunk->data, chunk->len, ask->number, chunk->offset);
    ask->next = chunk->offset + chunk->len;
    if (ask->answer == GOBLIN_CHUNK_HOLD) {
        assert_true(ask->holds < 8);
        ask->hold[ask->holds++] = chunk->hold;
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
}

/* Requests for keys `first`, first + step, and so on. */
static void prepare(struct batch *batch, unsigned count, unsigned first, unsigned step)
{
    memset(batch, 0, sizeof(*batch));
    for (unsigned i = 0; i < count; i++) {
        struct ask *ask = &batch->asks[i];
        ask->number = first + i * step;
        batch->requests[i] = (struct goblin_request){
            .key = gb_key_at(&ask->key, ask->number),
            .on_chunk = take_chunk,
            .on_done = take_end,
            .arg = ask,
        };
    }
}

static void expect_whole(const struct ask *ask)
{
    assert_false(ask->wrong);
    assert_int_equal(ask->done, 1);
    assert_int_equal(ask->result, GOBLIN_OK);
    assert_int_equal(ask->next, size_at(ask->number));
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
    const struct goblin_reader_options options = {
        .buffers = buffers, .requests = requests, .threads = buffers > 4 ? 3 : 0};
    assert_int_equal(goblin_reader_create(&reader, fixture->store, &options), GOBLIN_OK);
    return reader;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* More keys than the reader has requests or buffers, and more than one group of them; each third
 * is not there. */
static void get_many__answers_each(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch batch;
    static const unsigned counts[] = {0, 1, 2, 31, 32, 33, 64, MANY};
    static const unsigned rooms[][2] = {{1, 1}, {4, 3}, {16, 64}};
    open_filled(fixture);
    for (unsigned r = 0; r < 3; r++) {
        struct goblin_reader *reader = make_reader(fixture, rooms[r][0], rooms[r][1]);
        for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            prepare(&batch, counts[c], 0, 1);
            for (unsigned i = 0; i < counts[c]; i++) {
                batch.asks[i].number = i * 7 % (OBJECTS * 3 / 2);
                batch.requests[i].key = gb_key_at(&batch.asks[i].key, batch.asks[i].number);
                batch.requests[i].flags = i % 2 == 0 ? GOBLIN_GET_QUIET : 0;
            }
            assert_int_equal(goblin_get_many(reader, batch.requests, counts[c], batch.results),
                             GOBLIN_OK);
            for (unsigned i = 0; i < counts[c]; i++) {
                assert_int_equal(batch.results[i], batch.asks[i].result);
                if (batch.asks[i].number < OBJECTS) {
                    expect_whole(&batch.asks[i]);
                } else {
                    assert_int_equal(batch.asks[i].done, 1);
                    assert_int_equal(batch.results[i], GOBLIN_MISS);
                    assert_int_equal(batch.asks[i].next, 0);
                }
            }
            assert_int_equal(goblin_poll(reader, 0), 0);
        }
        goblin_reader_destroy(reader);
    }
}

static void get_many__counts_what_gets_would(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch batch;
    open_filled(fixture);
    struct goblin_stats before = gb_fixture_stats(fixture);
    prepare(&batch, 90, OBJECTS - 60, 1);
    assert_int_equal(goblin_get_many(fixture->reader, batch.requests, 90, batch.results),
                     GOBLIN_OK);
    struct goblin_stats after = gb_fixture_stats(fixture);
    assert_int_equal(after.gets - before.gets, 90);
    assert_int_equal(after.hits - before.hits, 60);
    assert_int_equal(after.misses - before.misses, 30);
}

static void get_many__refuses_bad_arguments_at_once(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch batch;
    open_filled(fixture);
    for (unsigned bad = 0; bad < 2; bad++) {
        prepare(&batch, 40, 0, 1);
        if (bad == 0) {
            batch.requests[39].key.len = 0;
        } else {
            batch.requests[39].on_chunk = NULL;
        }
        assert_int_equal(goblin_get_many(fixture->reader, batch.requests, 40, batch.results),
                         bad == 0 ? GOBLIN_EKEY : -EINVAL);
        for (unsigned i = 0; i < 40; i++) {
            assert_int_equal(batch.asks[i].done, 0);
        }
    }
}

/* A callback may end its own request; on_done may be missing. */
static void get_many__ends_what_is_stopped(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch batch;
    open_filled(fixture);
    prepare(&batch, 60, 0, 2);
    for (unsigned i = 0; i < 60; i++) {
        batch.asks[i].answer = i % 3 == 0 ? GOBLIN_CHUNK_STOP : GOBLIN_CHUNK_DONE;
        batch.requests[i].on_done = NULL;
    }
    assert_int_equal(goblin_get_many(fixture->reader, batch.requests, 60, batch.results),
                     GOBLIN_OK);
    for (unsigned i = 0; i < 60; i++) {
        assert_false(batch.asks[i].wrong);
        assert_int_equal(batch.results[i], i % 3 == 0 ? GOBLIN_ECANCELED : GOBLIN_OK);
        if (i % 3 != 0) {
            assert_int_equal(batch.asks[i].next, size_at(batch.asks[i].number));
        }
    }
}

/* What was submitted before goes on meanwhile, also when it takes all the reader's room. */
static void get_many__shares_the_reader(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch before;
    static struct batch batch;
    open_filled(fixture);
    struct goblin_reader *reader = make_reader(fixture, 2, 4);
    prepare(&before, 4, 5, 6); /* large ones */
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(goblin_submit(reader, &before.requests[i]), GOBLIN_OK);
    }
    prepare(&batch, OBJECTS, 0, 1);
    assert_int_equal(goblin_get_many(reader, batch.requests, OBJECTS, batch.results), GOBLIN_OK);
    for (unsigned i = 0; i < OBJECTS; i++) {
        expect_whole(&batch.asks[i]);
    }
    while (goblin_poll(reader, -1) > 0) {
    }
    for (unsigned i = 0; i < 4; i++) {
        expect_whole(&before.asks[i]);
    }
    goblin_reader_destroy(reader);
}

/* ---- what the caller holds ----------------------------------------------------------------- */

static void release_all(struct goblin_reader *reader, struct ask *ask)
{
    while (ask->holds > 0) {
        goblin_release(reader, ask->hold[--ask->holds]);
    }
}

/* All buffers, or all requests, are held: the call says so instead of waiting for ever. */
static void get_many__says_when_all_is_held(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct batch batch;
    open_filled(fixture);
    for (unsigned what = 0; what < 2; what++) {
        struct goblin_reader *reader = make_reader(fixture, 2, 8);
        prepare(&batch, 40, what == 0 ? 5 : 1, what == 0 ? 6 : 12); /* large; small */
        batch.asks[19].number = 0;
        for (unsigned i = 0; i < 40; i++) {
            batch.asks[i].number %= OBJECTS;
            batch.requests[i].key = gb_key_at(&batch.asks[i].key, batch.asks[i].number);
            batch.asks[i].answer = GOBLIN_CHUNK_HOLD;
        }
        assert_int_equal(goblin_get_many(reader, batch.requests, 40, batch.results), -EAGAIN);
        unsigned ended = 0;
        for (unsigned i = 0; i < 40; i++) {
            assert_false(batch.asks[i].wrong);
            assert_int_equal(batch.asks[i].done, 1);
            assert_int_equal(batch.asks[i].result, batch.results[i]);
            assert_true(batch.results[i] == GOBLIN_OK || batch.results[i] == GOBLIN_ECANCELED);
            ended += batch.results[i] == GOBLIN_ECANCELED;
            release_all(reader, &batch.asks[i]);
        }
        assert_true(ended > 0);
        prepare(&batch, OBJECTS, 0, 1);
        assert_int_equal(goblin_get_many(reader, batch.requests, OBJECTS, batch.results),
                         GOBLIN_OK);
        for (unsigned i = 0; i < OBJECTS; i++) {
            expect_whole(&batch.asks[i]);
        }
        goblin_reader_destroy(reader);
    }
    assert_int_equal(gb_fixture_stats(fixture).pinned_blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(get_many__answers_each),
        GB_ON_BOTH_PATHS(get_many__counts_what_gets_would),
        GB_ON_BOTH_PATHS(get_many__refuses_bad_arguments_at_once),
        GB_ON_BOTH_PATHS(get_many__ends_what_is_stopped),
        GB_ON_BOTH_PATHS(get_many__shares_the_reader),
        GB_ON_BOTH_PATHS(get_many__says_when_all_is_held),
    };
    return gb_fixture_run("many gets", tests);
}
