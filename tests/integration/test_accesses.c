/* goblin_info.accesses: whether, and roughly how often, an object was asked for. */
#include "lib/fixture.h"

static unsigned accesses(struct gb_fixture *fixture, uint64_t number)
{
    struct gb_key key;
    struct goblin_info info;
    assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, number), &info), GOBLIN_OK);
    return info.accesses;
}

static void note(void *arg, int result, const struct goblin_info *info)
{
    assert_int_equal(result, GOBLIN_OK);
    *(unsigned *)arg = info->accesses;
}

static int pass(void *arg, const struct goblin_chunk *chunk)
{
    (void)arg;
    (void)chunk;
    return GOBLIN_CHUNK_DONE;
}

/* What a get itself is told. */
static unsigned get(struct gb_fixture *fixture, uint64_t number, unsigned flags)
{
    struct gb_key key;
    unsigned told = 99;
    struct goblin_request request = {.key = gb_key_at(&key, number),
                                     .flags = flags,
                                     .on_chunk = pass,
                                     .on_done = note,
                                     .arg = &told};
    assert_int_equal(goblin_get(fixture->reader, &request), GOBLIN_OK);
    return told;
}

static void accesses__tell_of_the_gets_before(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    static const size_t sizes[] = {10, 10000, 300000};
    for (uint64_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(gb_fixture_put(fixture, i, sizes[i], i), GOBLIN_OK);
        assert_int_equal(accesses(fixture, i), 0);
        assert_int_equal(get(fixture, i, GOBLIN_GET_QUIET), 0);
        assert_int_equal(get(fixture, i, 0), 0);
        assert_int_equal(accesses(fixture, i), 1);
        assert_int_equal(get(fixture, i, 0), 1);
        assert_int_equal(get(fixture, i, GOBLIN_GET_QUIET), 2);
        for (int more = 0; more < 100; more++) {
            assert_true(get(fixture, i, 0) >= 2);
        }
        assert_int_equal(accesses(fixture, i), 15);
        assert_int_equal(gb_fixture_put(fixture, i, sizes[i], i), GOBLIN_OK);
        assert_int_equal(accesses(fixture, i), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {GB_ON_BOTH_PATHS(accesses__tell_of_the_gets_before)};
    return gb_fixture_run("accesses", tests);
}
