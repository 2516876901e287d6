/* The index with one thread: finding, changing, overflowing, growing and walking. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/index_look.h"

#define RANGE_BYTES       GB_MIB
#define SMALL_RANGE_BYTES (64 * GB_KIB) /* 1024 buckets */
#define ARENA_BYTES       (64 * GB_MIB)
#define NUMBERS           200000

/* An arena that only grows, and the index over it. */
struct fixture {
    unsigned char *arena;
    uint64_t used;
    struct gb_index *index;
};

static void open_fixture(struct fixture *fixture, uint64_t max_bytes)
{
    fixture->arena = aligned_alloc(64, ARENA_BYTES);
    assert_non_null(fixture->arena);
    fixture->used = 64;
    assert_int_equal(gb_index_create(&fixture->index, fixture->arena, max_bytes), 0);
}

static void close_fixture(struct fixture *fixture)
{
    gb_index_destroy(fixture->index);
    free(fixture->arena);
}

/* A new item with that key; its place. */
static uint64_t add_item(struct fixture *fixture, const void *key, size_t len)
{
    uint64_t place = fixture->used;
    uint64_t footprint = gb_align_up(sizeof(struct gb_item) + len, 8);
    assert_true(place + footprint <= ARENA_BYTES);
    struct gb_item *item = (struct gb_item *)(void *)(fixture->arena + place);
    memset(item, 0, sizeof(*item));
    item->size_key = gb_item_pack_size(0, (uint32_t)len, GB_FORM_DIRECT);
    memcpy(item->key, key, len);
    fixture->used += footprint;
    return place;
}

static uint64_t place_of(const struct fixture *fixture, const void *key, size_t len)
{
    struct gb_glimpse glimpse;
    const struct gb_item *item =
        gb_index_find(fixture->index, gb_index_hash(key, len), key, len, &glimpse);
    assert_true(gb_index_unchanged(&glimpse));
    return item == NULL ? 0 : (uint64_t)((const unsigned char *)item - fixture->arena);
}

/* Inserts, replaces, or with place 0 removes. The insert's answer, else 0. */
static int set_place(struct fixture *fixture, const void *key, size_t len, uint64_t place)
{
    struct gb_locked locked;
    int answer = 0;
    gb_index_lock(fixture->index, gb_index_hash(key, len), &locked);
    if (gb_index_find_locked(&locked, key, len) == NULL) {
        answer = place == 0 ? 0 : gb_index_insert_locked(&locked, place);
    } else if (place == 0) {
        gb_index_remove_locked(&locked);
    } else {
        gb_index_replace_locked(&locked, place);
    }
    gb_index_unlock(&locked);
    return answer;
}

static int add_number(struct fixture *fixture, uint64_t number)
{
    return set_place(fixture, &number, sizeof(number), add_item(fixture, &number, sizeof(number)));
}

static uint64_t place_of_number(const struct fixture *fixture, uint64_t number)
{
    return place_of(fixture, &number, sizeof(number));
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % limit;
}

static uint64_t new_seed(const char *test)
{
    const char *given = getenv("GOBLIN_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    (void)printf("%s: seed %llu\n", test, (unsigned long long)seed);
    return seed;
}

/* Every chain is dense and every entry is in its home. */
static void check_chains(const struct fixture *fixture)
{
    const struct gb_index *index = fixture->index;
    uint64_t buckets = atomic_load(&index->buckets);
    uint64_t count = 0;
    for (uint64_t home = 0; home < buckets; home++) {
        const struct gb_bucket *bucket = &index->table[home];
        for (; bucket != NULL; bucket = gb_index_next(index, bucket)) {
            bool last = gb_index_next(index, bucket) == NULL;
            unsigned used = 0;
            for (unsigned i = 0; i < GB_BUCKET_SLOTS; i++) {
                uint64_t slot = gb_index_slot(bucket, i);
                if (slot == 0) {
                    assert_true(last);
                    continue;
                }
                assert_int_equal(used++, i);
                const struct gb_item *item = gb_index_item(index, slot);
                uint64_t hash = gb_index_hash(item->key, gb_item_key_len(item));
                assert_int_equal(gb_index_home(buckets, hash), home);
                assert_int_equal(hash >> GB_PLACE_BITS, slot >> GB_PLACE_BITS);
            }
            assert_true(used > 0 || bucket == &index->table[home]);
            count += used;
        }
    }
    assert_int_equal(count, gb_index_count(index));
}

static void create__refuses_a_range_too_small_or_too_large(void **state)
{
    (void)state;
    struct gb_index *index = NULL;
    assert_int_equal(gb_index_create(&index, NULL, 4096), -EINVAL);
    assert_int_equal(gb_index_create(&index, NULL, UINT64_MAX), -EINVAL);
    assert_null(index);
    gb_index_destroy(NULL);
}

static void find__misses_in_an_empty_index(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    assert_int_equal(place_of(&fixture, "a", 1), 0);
    assert_int_equal(gb_index_count(fixture.index), 0);
    close_fixture(&fixture);
}

static void find__tells_keys_apart_by_every_byte_and_by_length(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    unsigned char key[4096] = {0};
    for (size_t len = 1; len <= sizeof(key); len = len < 64 ? len + 1 : len * 2) {
        uint64_t place = add_item(&fixture, key, len);
        assert_int_equal(place_of(&fixture, key, len), 0);
        assert_int_equal(set_place(&fixture, key, len, place), 0);
        assert_int_equal(place_of(&fixture, key, len), place);
        key[len - 1] ^= 1;
        assert_int_equal(place_of(&fixture, key, len), 0);
        key[len - 1] ^= 1;
    }
    check_chains(&fixture);
    close_fixture(&fixture);
}

/* Same hash, other key: what a collision of hashes looks like. */
static void find__compares_keys_when_hashes_are_equal(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    const uint64_t hash = gb_index_hash("one", 3);
    const char *keys[] = {"one", "two", "six"};
    uint64_t places[3];
    for (int i = 0; i < 3; i++) {
        struct gb_locked locked;
        places[i] = add_item(&fixture, keys[i], 3);
        gb_index_lock(fixture.index, hash, &locked);
        assert_null(gb_index_find_locked(&locked, keys[i], 3));
        assert_int_equal(gb_index_insert_locked(&locked, places[i]), 0);
        gb_index_unlock(&locked);
    }
    for (int i = 0; i < 3; i++) {
        struct gb_glimpse glimpse;
        const struct gb_item *item = gb_index_find(fixture.index, hash, keys[i], 3, &glimpse);
        assert_ptr_equal(item, fixture.arena + places[i]);
    }
    close_fixture(&fixture);
}

/* Whole words are compared, the last one overlapping: no byte may fall between them, at whatever
 * address. */
static void find__compares_every_byte_of_a_key(void **state)
{
    (void)state;
    unsigned char one[200];
    unsigned char other[208];
    for (size_t i = 0; i < sizeof(one); i++) {
        one[i] = (unsigned char)(i * 7);
    }
    for (size_t len = 1; len <= sizeof(one); len++) {
        unsigned char *copy = other + len % 8;
        memcpy(copy, one, len);
        assert_true(gb_index_look_equal(one, copy, len));
        for (size_t i = 0; i < len; i++) {
            copy[i] ^= (unsigned char)(1 << len % 8);
            assert_false(gb_index_look_equal(one, copy, len));
            copy[i] ^= (unsigned char)(1 << len % 8);
        }
    }
}

static void unchanged__fails_under_a_lock_and_after_it(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    uint64_t number = 7;
    uint64_t hash = gb_index_hash(&number, sizeof(number));
    assert_int_equal(add_number(&fixture, number), 0);
    struct gb_glimpse glimpse;
    assert_non_null(gb_index_find(fixture.index, hash, &number, sizeof(number), &glimpse));
    assert_true(gb_index_unchanged(&glimpse));
    struct gb_locked locked;
    gb_index_lock(fixture.index, hash, &locked);
    assert_false(gb_index_unchanged(&glimpse));
    gb_index_unlock(&locked);
    assert_false(gb_index_unchanged(&glimpse));
    close_fixture(&fixture);
}

static void try_lock__refuses_a_locked_bucket(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    struct gb_locked locked;
    struct gb_locked second;
    assert_true(gb_index_try_lock(fixture.index, 5, &locked));
    assert_false(gb_index_try_lock(fixture.index, 5, &second));
    assert_true(gb_index_try_lock(fixture.index, 6, &second));
    gb_index_unlock(&second);
    gb_index_unlock(&locked);
    assert_true(gb_index_try_lock(fixture.index, 5, &locked));
    gb_index_unlock(&locked);
    close_fixture(&fixture);
}

static void find_place_locked__finds_exactly_the_place_it_is_given(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, RANGE_BYTES);
    uint64_t number = 7;
    assert_int_equal(add_number(&fixture, number), 0);
    uint64_t place = place_of_number(&fixture, number);
    uint64_t moved = add_item(&fixture, &number, sizeof(number));
    struct gb_locked locked;
    gb_index_lock(fixture.index, gb_index_hash(&number, sizeof(number)), &locked);
    assert_false(gb_index_find_place_locked(&locked, moved));
    assert_true(gb_index_find_place_locked(&locked, place));
    gb_index_replace_locked(&locked, moved);
    assert_false(gb_index_find_place_locked(&locked, place));
    gb_index_unlock(&locked);
    assert_int_equal(place_of_number(&fixture, number), moved);
    close_fixture(&fixture);
}

static void insert__keeps_every_entry_while_the_table_grows(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 16 * GB_MIB);
    double sum = 0;
    double worst = 0;
    uint64_t samples = 0;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(add_number(&fixture, i), 0);
        if (i >= NUMBERS / 2 && i % 1000 == 0) {
            double each = (double)gb_index_bytes(fixture.index) / (double)(i + 1);
            sum += each;
            worst = each > worst ? each : worst;
            samples++;
        }
    }
    assert_int_equal(gb_index_count(fixture.index), NUMBERS);
    for (uint64_t i = 0; i < NUMBERS; i++) {
        assert_int_not_equal(place_of_number(&fixture, i), 0);
        assert_int_equal(place_of_number(&fixture, i + NUMBERS), 0);
    }
    check_chains(&fixture);
    (void)printf("bytes per entry over a doubling: mean %.1f, worst %.1f\n", sum / (double)samples,
                 worst);
    assert_true(sum / (double)samples <= 18);
    assert_true(worst <= 22);
    close_fixture(&fixture);
}

static void insert__answers_enomem_and_changes_nothing_when_the_range_is_full(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, SMALL_RANGE_BYTES);
    uint64_t number = 0;
    while (add_number(&fixture, number) == 0) {
        number++;
    }
    /* The range holds 1024 buckets of 7; growth has stopped and the chains have taken the rest. */
    assert_in_range(number, 1024 * 3, 1024 * 7);
    assert_int_equal(gb_index_count(fixture.index), number);
    assert_int_equal(gb_index_bytes(fixture.index), SMALL_RANGE_BYTES + sizeof(struct gb_index));
    assert_int_equal(place_of_number(&fixture, number), 0);
    for (uint64_t i = 0; i < number; i++) {
        assert_int_not_equal(place_of_number(&fixture, i), 0);
    }
    check_chains(&fixture);
    /* Room comes back with deletes. */
    for (uint64_t i = 0; i < number; i++) {
        assert_int_equal(set_place(&fixture, &i, sizeof(i), 0), 0);
    }
    assert_int_equal(gb_index_count(fixture.index), 0);
    for (uint64_t i = 0; i < number; i++) {
        assert_int_equal(add_number(&fixture, i), 0);
    }
    check_chains(&fixture);
    close_fixture(&fixture);
}

static void remove__gives_nodes_back_for_reuse(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 16 * GB_MIB);
    for (uint64_t i = 0; i < 20000; i++) {
        assert_int_equal(add_number(&fixture, i), 0);
    }
    uint64_t bytes = gb_index_bytes(fixture.index);
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < 20000; i++) {
            assert_int_equal(set_place(&fixture, &i, sizeof(i), 0), 0);
        }
        for (uint64_t i = 0; i < 20000; i++) {
            assert_int_equal(add_number(&fixture, i), 0);
        }
        check_chains(&fixture);
    }
    /* A stripe may have been a little fuller when it grew the table. */
    assert_true(gb_index_bytes(fixture.index) <= bytes + bytes / 50);
    close_fixture(&fixture);
}

static void reset__empties_the_index_and_gives_its_memory_back(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 16 * GB_MIB);
    uint64_t bytes = gb_index_bytes(fixture.index);
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 3000; i++) {
            assert_int_equal(add_number(&fixture, i), 0);
        }
        check_chains(&fixture);
        gb_index_reset(fixture.index);
        assert_int_equal(gb_index_bytes(fixture.index), bytes);
        assert_int_equal(gb_index_count(fixture.index), 0);
        assert_int_equal(place_of_number(&fixture, 17), 0);
    }
    close_fixture(&fixture);
}

/* Random inserts, replacements and removals beside a plain table of places. */
static void index__agrees_with_a_plain_table(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 16 * GB_MIB);
    uint64_t random = new_seed("index__agrees_with_a_plain_table");
    static uint64_t model[20000];
    uint64_t count = 0;
    for (int step = 0; step < 400000; step++) {
        uint64_t number = random_below(&random, 20000);
        uint64_t choice = random_below(&random, 8);
        if (choice < 4) {
            assert_int_equal(place_of_number(&fixture, number), model[number]);
        } else {
            /* Mostly adding in the first half, mostly removing in the second. */
            bool removes = (choice < 5) == (step < 200000);
            count -= model[number] != 0;
            model[number] = removes ? 0 : add_item(&fixture, &number, sizeof(number));
            count += model[number] != 0;
            assert_int_equal(set_place(&fixture, &number, sizeof(number), model[number]), 0);
        }
        assert_int_equal(gb_index_count(fixture.index), count);
    }
    for (uint64_t number = 0; number < 20000; number++) {
        assert_int_equal(place_of_number(&fixture, number), model[number]);
    }
    check_chains(&fixture);
    close_fixture(&fixture);
}

static void count_visit(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    unsigned *visits = arg;
    uint64_t number;
    memcpy(&number, item->key, sizeof(number));
    visits[number]++;
    assert_non_null(locked->slot);
}

/* Entries that were there before the walk are visited once, whatever is added or removed between
 * its steps and however often the table doubles meanwhile. */
static void scan__visits_what_is_there_throughout_while_the_table_grows(void **state)
{
    (void)state;
    uint64_t random = new_seed("scan__visits_what_is_there_throughout");
    for (int round = 0; round < 30; round++) {
        struct fixture fixture;
        open_fixture(&fixture, 16 * GB_MIB);
        static unsigned visits[NUMBERS];
        memset(visits, 0, sizeof(visits));
        uint64_t before = 1 + random_below(&random, 5000);
        for (uint64_t i = 0; i < before; i++) {
            assert_int_equal(add_number(&fixture, i), 0);
        }
        uint64_t added = before;
        uint64_t pace = random_below(&random, 60);
        uint64_t cursor = 0;
        do {
            gb_index_scan_bucket(fixture.index, &cursor, count_visit, visits);
            for (uint64_t i = 0; i < pace && added < 40000; i++) {
                assert_int_equal(add_number(&fixture, added++), 0);
                if (i % 3 == 0 && added > before + 1) {
                    uint64_t victim = before + random_below(&random, added - before);
                    assert_int_equal(set_place(&fixture, &victim, sizeof(victim), 0), 0);
                }
            }
        } while (cursor != 0);
        for (uint64_t i = 0; i < added; i++) {
            assert_true(i < before ? visits[i] == 1 : visits[i] <= 1);
        }
        close_fixture(&fixture);
    }
}

static void remove_odd(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    count_visit(arg, locked, item);
    uint64_t number;
    memcpy(&number, item->key, sizeof(number));
    if (number % 2 == 1) {
        gb_index_remove_locked(locked);
    }
}

static void scan__lets_the_visitor_remove_what_it_visits(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, SMALL_RANGE_BYTES);
    static unsigned visits[NUMBERS];
    memset(visits, 0, sizeof(visits));
    for (uint64_t i = 0; i < 3000; i++) {
        assert_int_equal(add_number(&fixture, i), 0);
    }
    uint64_t cursor = 0;
    do {
        gb_index_scan_bucket(fixture.index, &cursor, remove_odd, visits);
    } while (cursor != 0);
    assert_int_equal(gb_index_count(fixture.index), 1500);
    for (uint64_t i = 0; i < 3000; i++) {
        assert_int_equal(visits[i], 1);
        assert_int_equal(place_of_number(&fixture, i) != 0, i % 2 == 0);
    }
    check_chains(&fixture);
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__refuses_a_range_too_small_or_too_large),
        cmocka_unit_test(find__misses_in_an_empty_index),
        cmocka_unit_test(find__tells_keys_apart_by_every_byte_and_by_length),
        cmocka_unit_test(find__compares_keys_when_hashes_are_equal),
        cmocka_unit_test(find__compares_every_byte_of_a_key),
        cmocka_unit_test(unchanged__fails_under_a_lock_and_after_it),
        cmocka_unit_test(try_lock__refuses_a_locked_bucket),
        cmocka_unit_test(find_place_locked__finds_exactly_the_place_it_is_given),
        cmocka_unit_test(insert__keeps_every_entry_while_the_table_grows),
        cmocka_unit_test(insert__answers_enomem_and_changes_nothing_when_the_range_is_full),
        cmocka_unit_test(remove__gives_nodes_back_for_reuse),
        cmocka_unit_test(reset__empties_the_index_and_gives_its_memory_back),
        cmocka_unit_test(index__agrees_with_a_plain_table),
        cmocka_unit_test(scan__visits_what_is_there_throughout_while_the_table_grows),
        cmocka_unit_test(scan__lets_the_visitor_remove_what_it_visits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
