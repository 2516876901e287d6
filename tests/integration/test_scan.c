/* Scans by one thread: order, bounds, going on, what comes and goes, memory, reopening. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <goblin/scan.h>

#include "base/rng.h"
#include "lib/fixture.h"

/* ---- a sorted array of short keys ---------------------------------------------------------- */

#define MEMBERS 3000u
#define LONGEST 12u

struct member {
    unsigned char key[LONGEST];
    size_t len;
    bool present;
};

struct model {
    struct gb_rng rng;
    struct member members[MEMBERS]; /* in order */
    unsigned count;
};

static int compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int order = memcmp(a, b, gb_min(a_len, b_len));
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_key(const void *a, const void *b)
{
    const struct member *x = a;
    const struct member *y = b;
    return compare(x->key, x->len, y->key, y->len);
}

/* Few different bytes, 0 and 255 among them, so that keys begin one another. */
static struct member random_member(struct gb_rng *rng)
{
    static const unsigned char bytes[] = {0, 'a', 'b', 254, 255};
    struct member member = {.len = 1 + gb_rng_below(rng, LONGEST)};
    for (size_t i = 0; i < member.len; i++) {
        member.key[i] = bytes[gb_rng_below(rng, sizeof(bytes))];
    }
    return member;
}

static struct model *new_model(void)
{
    struct model *model = calloc(1, sizeof(*model));
    uint64_t seed = 0;
    assert_non_null(model);
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
    const char *given = getenv("GOBLIN_SEED");
    seed = given != NULL ? strtoull(given, NULL, 0) : seed;
    printf("GOBLIN_SEED=%llu\n", (unsigned long long)seed);
    gb_rng_init(&model->rng, seed);
    for (unsigned i = 0; i < MEMBERS; i++) {
        model->members[i] = random_member(&model->rng);
    }
    qsort(model->members, MEMBERS, sizeof(model->members[0]), by_key);
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (model->count == 0 ||
            by_key(&model->members[model->count - 1], &model->members[i]) != 0) {
            model->members[model->count++] = model->members[i];
        }
    }
    return model;
}

static struct goblin_slice slice_of(const struct member *member)
{
    return (struct goblin_slice){member->key, member->len};
}

static void set_present(struct gb_fixture *fixture, struct member *member, bool present)
{
    struct goblin_slice key = slice_of(member);
    int rc = present ? goblin_put(fixture->store, key, key, NULL, NULL)
                     : goblin_delete(fixture->store, key, NULL);
    assert_int_equal(rc, present || member->present ? GOBLIN_OK : GOBLIN_MISS);
    member->present = present;
}

static bool in_range(const struct member *member, const struct goblin_range *range)
{
    const unsigned char *key = member->key;
    size_t len = member->len;
    if (range->from.len > 0 && compare(key, len, range->from.data, range->from.len) < 0) {
        return false;
    }
    if (range->to.len > 0 && compare(key, len, range->to.data, range->to.len) >= 0) {
        return false;
    }
    if (range->prefix.len > len ||
        (range->prefix.len > 0 && memcmp(key, range->prefix.data, range->prefix.len) != 0)) {
        return false;
    }
    int order = range->after.len > 0 ? compare(key, len, range->after.data, range->after.len) : 0;
    return range->after.len == 0 || (range->reverse ? order < 0 : order > 0);
}

struct expectation {
    const struct model *model;
    const struct goblin_range *range;
    unsigned next; /* member that may come next; wraps below 0 */
    size_t seen;
};

static unsigned next_in_range(const struct expectation *expected)
{
    unsigned i = expected->next;
    while (i < expected->model->count &&
           !(expected->model->members[i].present &&
             in_range(&expected->model->members[i], expected->range))) {
        i = expected->range->reverse ? i - 1 : i + 1;
    }
    return i;
}

static int expect_key(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct expectation *expected = arg;
    unsigned i = next_in_range(expected);
    assert_true(i < expected->model->count);
    const struct member *member = &expected->model->members[i];
    assert_int_equal(key.len, member->len);
    assert_memory_equal(key.data, member->key, member->len);
    assert_int_equal(info->size, member->len);
    expected->next = expected->range->reverse ? i - 1 : i + 1;
    expected->seen++;
    return 0;
}

static void check_scan(struct gb_fixture *fixture, const struct model *model,
                       const struct goblin_range *range)
{
    struct expectation expected = {
        .model = model, .range = range, .next = range->reverse ? model->count - 1 : 0};
    assert_int_equal(goblin_scan(fixture->store, range, expect_key, &expected), GOBLIN_OK);
    if (range->limit == 0 || expected.seen < range->limit) {
        assert_true(next_in_range(&expected) >= model->count);
    } else {
        assert_int_equal(expected.seen, range->limit);
    }
}

static void check_everything(struct gb_fixture *fixture, const struct model *model)
{
    check_scan(fixture, model, &(struct goblin_range){0});
    check_scan(fixture, model, &(struct goblin_range){.reverse = true});
}

static void scan__keeps_to_any_bounds(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    struct model *model = new_model();
    for (unsigned i = 0; i < model->count; i++) {
        set_present(fixture, &model->members[i], gb_rng_below(&model->rng, 3) > 0);
    }
    check_everything(fixture, model);
    for (unsigned i = 0; i < 4000; i++) {
        struct member bounds[4];
        for (unsigned j = 0; j < 4; j++) {
            bounds[j] = random_member(&model->rng);
        }
        bounds[2].len = 1 + bounds[2].len % 3; /* a prefix */
        uint64_t dice = gb_rng_next(&model->rng);
        struct goblin_range range = {.reverse = (dice & 1) != 0, .limit = dice >> 8 & 7};
        range.from = (dice & 2) != 0 ? slice_of(&bounds[0]) : range.from;
        range.to = (dice & 4) != 0 ? slice_of(&bounds[1]) : range.to;
        range.prefix = (dice & 8) != 0 ? slice_of(&bounds[2]) : range.prefix;
        range.after = (dice & 16) != 0 ? slice_of(&bounds[3]) : range.after;
        range.limit = (dice & 32) != 0 ? range.limit : 0;
        check_scan(fixture, model, &range);
    }
    free(model);
}

static void scan__follows_what_comes_and_goes(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    struct model *model = new_model();
    check_everything(fixture, model); /* from here on the set is kept */
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 1000; i++) {
            struct member *member = &model->members[gb_rng_below(&model->rng, model->count)];
            set_present(fixture, member, gb_rng_below(&model->rng, 5) > round % 5);
        }
        check_everything(fixture, model);
        if (round == 10) {
            assert_int_equal(goblin_clear(fixture->store), GOBLIN_OK);
            for (unsigned i = 0; i < model->count; i++) {
                model->members[i].present = false;
            }
            assert_int_equal(gb_fixture_stats(fixture).ordered_keys, 0);
            check_everything(fixture, model);
        }
    }
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.ordered_keys, stats.objects);
    free(model);
}

static void scan__finds_the_same_after_reopening(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    struct model *model = new_model();
    for (unsigned i = 0; i < model->count; i++) {
        set_present(fixture, &model->members[i], gb_rng_below(&model->rng, 2) == 0);
    }
    gb_fixture_reopen(fixture);
    assert_int_equal(gb_fixture_stats(fixture).memory_ordered_bytes, 0); /* nobody has asked */
    check_everything(fixture, model);
    fixture->options.read_only = true;
    gb_fixture_reopen(fixture);
    check_everything(fixture, model);
    fixture->options.read_only = false;
    fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
    gb_fixture_reopen(fixture);
    set_present(fixture, &model->members[0], true);
    const struct timespec pause = {.tv_nsec = 1000000};
    while (gb_fixture_stats(fixture).ordered_keys < gb_fixture_stats(fixture).objects) {
        (void)nanosleep(&pause, NULL); /* built without being asked */
    }
    check_everything(fixture, model);
    free(model);
}

/* ---- going on ------------------------------------------------------------------------------ */

struct steps {
    struct gb_fixture *fixture;
    unsigned char last[GOBLIN_KEY_MAX];
    size_t last_len;
    unsigned left; /* until it stops */
    unsigned seen;
};

enum { STOPPED = 77 };

static int step(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct steps *steps = arg;
    (void)info;
    memcpy(steps->last, key.data, key.len);
    steps->last_len = key.len;
    steps->seen++;
    return --steps->left == 0 ? STOPPED : 0;
}

static void scan__goes_on_where_it_was_stopped(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 10, i), GOBLIN_OK);
    }
    for (unsigned reverse = 0; reverse < 2; reverse++) {
        struct steps steps = {.fixture = fixture};
        unsigned stops = 0;
        int rc = STOPPED;
        while (rc == STOPPED) {
            struct goblin_range range = {.after = {steps.last, steps.last_len},
                                         .reverse = reverse != 0};
            steps.left = 1 + stops % 200;
            rc = goblin_scan(fixture->store, &range, step, &steps);
            stops += rc == STOPPED;
        }
        assert_int_equal(rc, GOBLIN_OK);
        assert_int_equal(steps.seen, 1000);
        assert_true(stops > 40);
    }
}

/* Deletes what it is shown and stores another key far in front of it. */
static int move_key(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct steps *steps = arg;
    assert_int_equal(info->size, 10);
    assert_int_equal(goblin_delete(steps->fixture->store, key, NULL), GOBLIN_OK);
    assert_int_equal(gb_fixture_put(steps->fixture, 100000 + steps->seen, 11, 0), GOBLIN_OK);
    steps->seen++;
    return steps->seen == 500 ? STOPPED : 0;
}

static void scan__lets_its_callback_change_the_store(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 10, i), GOBLIN_OK);
    }
    struct steps steps = {.fixture = fixture};
    assert_int_equal(goblin_scan(fixture->store, NULL, move_key, &steps), STOPPED);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.objects, 500);
    assert_int_equal(stats.ordered_keys, 500);
}

static int count_key(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    (void)info;
    ++*(unsigned *)arg;
    return 0;
}

static void scan__passes_over_what_has_expired(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    struct gb_key text;
    for (uint64_t i = 0; i < 300; i++) {
        struct goblin_put_options options = {
            .expires_ms = i % 3 == 0 ? atomic_load(&fixture->now_ms) + 1000 : 0};
        assert_int_equal(
            goblin_put(fixture->store, gb_key_at(&text, i), GOBLIN_LITERAL("v"), &options, NULL),
            GOBLIN_OK);
    }
    unsigned count = 0;
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &count), GOBLIN_OK);
    assert_int_equal(count, 300);
    atomic_fetch_add(&fixture->now_ms, 1000);
    count = 0;
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &count), GOBLIN_OK);
    assert_int_equal(count, 200);
}

/* ---- refusals and memory ------------------------------------------------------------------- */

static void scan__is_refused_where_it_is_switched_off(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.ordered = GOBLIN_ORDERED_OFF;
    gb_fixture_open(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, 10, 1), GOBLIN_OK);
    unsigned count = 0;
    int rc = goblin_scan(fixture->store, NULL, count_key, &count);
    assert_int_equal(rc, GOBLIN_EUNORDERED);
    assert_non_null(strstr(goblin_strerror(rc), "in order"));
    assert_int_equal(count, 0);
    assert_int_equal(gb_fixture_stats(fixture).memory_ordered_bytes, 0);
    fixture->options.ordered = (enum goblin_ordered)3;
    struct goblin_error error;
    assert_int_equal(goblin_options_check(&fixture->options, &error), GOBLIN_EOPTION);
    assert_non_null(strstr(error.text, "ordered"));
}

static void scan__refuses_bounds_that_are_no_keys(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    static const char bytes[GOBLIN_KEY_MAX + 1];
    const struct goblin_slice bad[] = {{bytes, sizeof(bytes)}, {NULL, 3}};
    for (unsigned i = 0; i < 2; i++) {
        const struct goblin_range ranges[] = {
            {.from = bad[i]}, {.to = bad[i]}, {.prefix = bad[i]}, {.after = bad[i]}};
        for (unsigned j = 0; j < 4; j++) {
            unsigned count = 0;
            assert_int_equal(goblin_scan(fixture->store, &ranges[j], count_key, &count),
                             GOBLIN_EKEY);
        }
    }
}

static void scan__counts_its_memory(void **state)
{
    struct gb_fixture *fixture = *state;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < 20000; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 100, i), GOBLIN_OK);
    }
    struct goblin_stats before = gb_fixture_stats(fixture);
    assert_int_equal(before.memory_ordered_bytes, 0);
    unsigned count = 0;
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &count), GOBLIN_OK);
    assert_int_equal(count, 20000);
    struct goblin_stats after = gb_fixture_stats(fixture);
    assert_int_equal(after.ordered_keys, 20000);
    assert_true(after.memory_ordered_bytes >= 2 * 20000);
    assert_true(after.memory_ordered_bytes < 30 * 20000);
    assert_true(after.memory_used_bytes <= after.memory_budget_bytes);
}

/* Keys that take most of the room that an object needs. */
static struct goblin_slice long_key(char text[static 512], uint64_t number)
{
    int len = snprintf(text, 512, "%08llu/%0400llu", (unsigned long long)number * 7919 % 100000000,
                       (unsigned long long)number);
    return (struct goblin_slice){text, (size_t)len};
}

/* Stores such objects until one does not fit; how many did. */
static uint64_t fill_with_keys(struct gb_fixture *fixture)
{
    for (uint64_t i = 0;; i++) {
        char text[512];
        int rc = goblin_put(fixture->store, long_key(text, i), GOBLIN_LITERAL("v"), NULL, NULL);
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
        if (rc != GOBLIN_OK) {
            assert_int_equal(rc, -ENOMEM);
            return i;
        }
    }
}

static void ordered__gives_way_before_a_put_fails(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
    gb_fixture_open(fixture);
    uint64_t count = fill_with_keys(fixture);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.memory_ordered_bytes, 0);
    assert_true(gb_fixture_logged(fixture, "keys in order"));
    unsigned seen = 0;
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &seen), -ENOMEM);
    /* With fewer objects it comes back. */
    char text[512];
    for (uint64_t i = 0; i < count; i++) {
        if (i % 3 != 0) {
            assert_int_equal(goblin_delete(fixture->store, long_key(text, i), NULL), GOBLIN_OK);
        }
    }
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &seen), GOBLIN_OK);
    assert_int_equal(seen, (count + 2) / 3);
    stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.ordered_keys, stats.objects);
    assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
}

static void scan__says_when_memory_is_too_small(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    gb_fixture_open(fixture);
    uint64_t count = fill_with_keys(fixture);
    unsigned seen = 0;
    assert_int_equal(goblin_scan(fixture->store, NULL, count_key, &seen), -ENOMEM);
    assert_int_equal(seen, 0);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.objects, count);
    assert_int_equal(stats.memory_ordered_bytes, 0);
    assert_true(gb_fixture_logged(fixture, "keys in order"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(scan__keeps_to_any_bounds),
        GB_ON_BOTH_PATHS(scan__follows_what_comes_and_goes),
        GB_ON_BOTH_PATHS(scan__finds_the_same_after_reopening),
        GB_ON_BOTH_PATHS(scan__goes_on_where_it_was_stopped),
        GB_ON_BOTH_PATHS(scan__lets_its_callback_change_the_store),
        GB_ON_BOTH_PATHS(scan__passes_over_what_has_expired),
        GB_ON_BOTH_PATHS(scan__is_refused_where_it_is_switched_off),
        GB_ON_BOTH_PATHS(scan__refuses_bounds_that_are_no_keys),
        GB_ON_BOTH_PATHS(scan__counts_its_memory),
        GB_ON_BOTH_PATHS(ordered__gives_way_before_a_put_fails),
        GB_ON_BOTH_PATHS(scan__says_when_memory_is_too_small),
    };
    return gb_fixture_run("scan", tests);
}
