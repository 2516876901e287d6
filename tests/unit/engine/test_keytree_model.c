/* The tree of keys against a sorted array: random keys of several shapes come, go and are copied
 * out in both directions, and the tree's own order is checked. GOBLIN_SEED replays a run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/rng.h"
#include "engine/keytree_internal.h"

#define TREE_BYTES (64 * GB_MIB)

static uint64_t test_seed;

/* ---- the sorted array ---------------------------------------------------------------------- */

struct member {
    unsigned char *key;
    uint32_t len;
    bool present;
};

struct model {
    struct gb_rng rng;
    struct gb_keytree tree;
    struct member *members; /* in the order of their keys, each key once */
    uint32_t count;
    uint32_t present;
    struct gb_keybatch batch;
};

static int compare(const void *a, uint32_t a_len, const void *b, uint32_t b_len)
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

/* Writes a key to a buffer of GOBLIN_KEY_MAX bytes; returns its length. */
typedef uint32_t (*shape_fn)(struct gb_rng *rng, unsigned char *key);

static uint32_t random_bytes(struct gb_rng *rng, unsigned char *key, uint32_t from, uint32_t len)
{
    for (uint32_t i = from; i < len; i++) {
        key[i] = (unsigned char)gb_rng_below(rng, 256);
    }
    return len;
}

/* Few letters, so that most keys begin others. */
static uint32_t shape_short(struct gb_rng *rng, unsigned char *key)
{
    uint32_t len = 1 + (uint32_t)gb_rng_below(rng, 12);
    for (uint32_t i = 0; i < len; i++) {
        key[i] = (unsigned char)gb_rng_below(rng, 3);
    }
    return len;
}

static uint32_t shape_digits(struct gb_rng *rng, unsigned char *key)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "user%016d", (int)gb_rng_below(rng, 100000));
    memcpy(key, text, (size_t)n);
    return (uint32_t)n;
}

static uint32_t shape_random(struct gb_rng *rng, unsigned char *key)
{
    return random_bytes(rng, key, 0, 20);
}

/* Thousands of bytes in common, then a few of their own. */
static uint32_t shape_common(struct gb_rng *rng, unsigned char *key)
{
    static const uint32_t prefixes[] = {100, 130, 1000, 4000, 4090};
    uint32_t prefix = prefixes[gb_rng_below(rng, 5)];
    memset(key, 'p', prefix);
    return random_bytes(rng, key, prefix, prefix + 1 + (uint32_t)gb_rng_below(rng, 6));
}

static uint32_t shape_any_length(struct gb_rng *rng, unsigned char *key)
{
    uint32_t len = 1 + (uint32_t)gb_rng_below(rng, GOBLIN_KEY_MAX);
    if (gb_rng_below(rng, 4) == 0) {
        len = gb_rng_below(rng, 2) == 0 ? 1 : GOBLIN_KEY_MAX;
    }
    uint32_t prefix = (uint32_t)gb_rng_below(rng, len);
    memset(key, 0xff, prefix);
    return random_bytes(rng, key, prefix, len);
}

/* Everything above in one tree. */
static uint32_t shape_mixed(struct gb_rng *rng, unsigned char *key)
{
    static const shape_fn shapes[] = {shape_short, shape_digits, shape_random, shape_common,
                                      shape_any_length};
    return shapes[gb_rng_below(rng, 5)](rng, key);
}

static void make_members(struct model *model, shape_fn shape, uint32_t count)
{
    model->members = calloc(count, sizeof(*model->members));
    assert_non_null(model->members);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char key[GOBLIN_KEY_MAX];
        uint32_t len = shape(&model->rng, key);
        model->members[i] = (struct member){.key = malloc(len), .len = len};
        assert_non_null(model->members[i].key);
        memcpy(model->members[i].key, key, len);
    }
    qsort(model->members, count, sizeof(*model->members), by_key);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && by_key(&model->members[kept - 1], &model->members[i]) == 0) {
            free(model->members[i].key);
        } else {
            model->members[kept++] = model->members[i];
        }
    }
    model->count = kept;
}

static struct model *make_model(shape_fn shape, uint32_t count)
{
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    gb_rng_init(&model->rng, test_seed + count);
    assert_int_equal(gb_keytree_init(&model->tree, TREE_BYTES), 0);
    make_members(model, shape, count);
    return model;
}

static void free_model(struct model *model)
{
    gb_keytree_fini(&model->tree);
    for (uint32_t i = 0; i < model->count; i++) {
        free(model->members[i].key);
    }
    free(model->members);
    free(model);
}

static struct goblin_slice key_of(const struct member *member)
{
    return (struct goblin_slice){member->key, member->len};
}

static void change(struct model *model, uint32_t i, bool present)
{
    struct member *member = &model->members[i];
    if (present) {
        assert_int_equal(gb_keytree_insert(&model->tree, key_of(member)), !member->present);
    } else {
        assert_int_equal(gb_keytree_remove(&model->tree, key_of(member)), member->present);
    }
    model->present += (uint32_t)present - (uint32_t)member->present;
    member->present = present;
    assert_int_equal(gb_keytree_count(&model->tree), model->present);
}

/* ---- the order of the tree itself ---------------------------------------------------------- */

struct census {
    uint64_t keys;
    uint64_t units;
};

static void check_run(const struct gb_keyrun *run, uint32_t count)
{
    unsigned char key[GOBLIN_KEY_MAX];
    unsigned char last[GOBLIN_KEY_MAX];
    uint32_t last_len = 0;
    uint32_t entries = 0;
    for (uint32_t at = 0; at < run->used; entries++) {
        struct gb_keyrun_entry entry = gb_keyrun_entry(run, at);
        uint32_t len = entry.shared + entry.rest;
        assert_true(entry.shared <= last_len && len <= GOBLIN_KEY_MAX);
        memcpy(key + entry.shared, run->bytes + entry.key, entry.rest);
        assert_true(entries == 0 || compare(last, last_len, key, len) < 0);
        assert_true(entry.shared == last_len || last[entry.shared] != key[entry.shared]);
        memcpy(last, key, len);
        last_len = len;
        at = entry.next;
        assert_true(at <= run->used);
    }
    assert_int_equal(entries, count);
}

/* All keys below `number` are at least `low` (NULL: no bound) and less than `high`. */
static void check_node(const struct gb_keytree *tree, uint32_t number, const struct member *low,
                       const struct member *high, struct census *census)
{
    struct gb_keynode *node = gb_keytree_node(tree, number);
    struct gb_keyrun run = gb_keytree_run(node);
    assert_true(node->count > 0);
    assert_true(node->used + sizeof(*node) <= node->units * GB_KEYPAGES_UNIT);
    check_run(&run, node->count);
    census->units += node->units;
    census->keys += node->level == 0 ? node->count : 0;
    unsigned char key[GOBLIN_KEY_MAX];
    unsigned char next_key[GOBLIN_KEY_MAX];
    for (uint32_t at = 0; at < run.used;) {
        struct member here = {.key = key, .len = gb_keyrun_key(&run, at, key)};
        uint32_t next = gb_keyrun_entry(&run, at).next;
        if (node->level == 0) {
            assert_true(low == NULL || by_key(low, &here) <= 0);
            assert_true(high == NULL || by_key(&here, high) < 0);
        } else {
            uint32_t child = gb_keyrun_child(&run, at);
            assert_int_equal(gb_keytree_node(tree, child)->level, node->level - 1);
            assert_int_equal(here.len == 0, at == 0);
            struct member upper = {.key = next_key};
            if (next < run.used) {
                upper.len = gb_keyrun_key(&run, next, next_key);
            }
            check_node(tree, child, at == 0 ? low : &here, next < run.used ? &upper : high, census);
        }
        at = next;
    }
}

static void check_tree(const struct model *model)
{
    struct census census = {0};
    if (model->tree.root != GB_KEYPAGES_NONE) {
        check_node(&model->tree, model->tree.root, NULL, NULL, &census);
    }
    assert_int_equal(census.keys, model->present);
    /* Every unit belongs to a node, and every page has a unit in it. */
    uint64_t taken = 0;
    for (uint32_t i = 0; i < model->tree.pages.words; i++) {
        taken += (uint64_t)__builtin_popcountll(model->tree.pages.used[i]);
    }
    assert_int_equal(taken, census.units);
    uint64_t pages = atomic_load(&model->tree.pages.bytes);
    assert_true(pages >= taken * GB_KEYPAGES_UNIT);
    assert_true(pages <= taken * GB_KEYPAGES_UNIT * model->tree.pages.page_units);
}

/* ---- copying out against the array --------------------------------------------------------- */

/* What the array says comes at or behind place `from`, in the walk's direction. */
static uint32_t next_present(const struct model *model, uint32_t from, bool reverse)
{
    while (from < model->count && !model->members[from].present) {
        from = reverse ? from - 1 : from + 1; /* wraps below 0 to beyond the end */
    }
    return from;
}

static uint32_t check_batch(const struct model *model, uint32_t from, bool reverse, uint32_t most)
{
    const struct gb_keybatch *batch = &model->batch;
    assert_true(batch->count <= most);
    for (uint32_t i = 0; i < batch->count; i++) {
        from = next_present(model, from, reverse);
        assert_true(from < model->count);
        struct goblin_slice key = gb_keybatch_key(batch, i);
        const struct member *member = &model->members[from];
        assert_int_equal(key.len, member->len);
        assert_memory_equal(key.data, member->key, member->len);
        from = reverse ? from - 1 : from + 1;
    }
    if (batch->count == 0) {
        assert_true(next_present(model, from, reverse) >= model->count);
    }
    return from;
}

/* From a bound that may be present or not. */
static void check_from(struct model *model, uint32_t i, uint32_t most)
{
    struct goblin_slice bound = key_of(&model->members[i]);
    gb_keytree_forward(&model->tree, bound, false, most, &model->batch);
    (void)check_batch(model, i, false, most);
    gb_keytree_forward(&model->tree, bound, true, most, &model->batch);
    (void)check_batch(model, i + 1, false, most);
    gb_keytree_backward(&model->tree, bound, most, &model->batch);
    (void)check_batch(model, i - 1, true, most);
}

static void walk_all(struct model *model, bool reverse)
{
    uint32_t most = 1 + (uint32_t)gb_rng_below(&model->rng, 200);
    uint32_t i = reverse ? model->count - 1 : 0;
    struct goblin_slice last = {NULL, 0};
    unsigned char key[GOBLIN_KEY_MAX];
    uint64_t seen = 0;
    do {
        if (reverse) {
            gb_keytree_backward(&model->tree, last, most, &model->batch);
        } else {
            gb_keytree_forward(&model->tree, last, true, most, &model->batch);
        }
        i = check_batch(model, i, reverse, most);
        seen += model->batch.count;
        if (model->batch.count > 0) {
            last = gb_keybatch_key(&model->batch, model->batch.count - 1);
            memcpy(key, last.data, last.len);
            last.data = key;
        }
    } while (model->batch.count > 0);
    assert_int_equal(seen, model->present);
}

static void check_all(struct model *model)
{
    check_tree(model);
    walk_all(model, false);
    walk_all(model, true);
}

/* ---- the tests ----------------------------------------------------------------------------- */

static void check_shape(shape_fn shape, uint32_t keys, uint32_t steps)
{
    struct model *model = make_model(shape, keys);
    check_all(model);
    /* Tides: mostly coming, then mostly going, so that nodes are cut, join and vanish. */
    for (uint32_t tide = 0; tide < 6; tide++) {
        uint64_t coming = tide % 2 == 0 ? 85 : 15;
        for (uint32_t i = 0; i < steps; i++) {
            uint32_t at = (uint32_t)gb_rng_below(&model->rng, model->count);
            change(model, at, gb_rng_below(&model->rng, 100) < coming);
            if (i % 16 == 0) {
                check_from(model, (uint32_t)gb_rng_below(&model->rng, model->count),
                           1 + (uint32_t)gb_rng_below(&model->rng, GB_KEYBATCH_KEYS));
            }
        }
        check_all(model);
    }
    for (uint32_t i = 0; i < model->count; i++) {
        change(model, i, false);
    }
    check_all(model);
    assert_int_equal(atomic_load(&model->tree.pages.bytes), 0);
    free_model(model);
}

static void keytree__agrees_with_an_array_on_short_keys(void **state)
{
    (void)state;
    check_shape(shape_short, 20000, 20000);
}

static void keytree__agrees_with_an_array_on_numbered_keys(void **state)
{
    (void)state;
    check_shape(shape_digits, 20000, 20000);
}

static void keytree__agrees_with_an_array_on_random_keys(void **state)
{
    (void)state;
    check_shape(shape_random, 20000, 20000);
}

static void keytree__agrees_with_an_array_on_long_common_prefixes(void **state)
{
    (void)state;
    check_shape(shape_common, 6000, 6000);
}

static void keytree__agrees_with_an_array_on_keys_of_any_length(void **state)
{
    (void)state;
    check_shape(shape_any_length, 3000, 3000);
}

static void keytree__agrees_with_an_array_on_all_of_them(void **state)
{
    (void)state;
    check_shape(shape_mixed, 8000, 8000);
}

/* In order and against it, where nodes are cut at their end, and from the middle outwards. */
static void keytree__takes_keys_in_order_either_way(void **state)
{
    (void)state;
    struct model *model = make_model(shape_digits, 20000);
    for (uint32_t i = 0; i < model->count; i++) {
        change(model, i, true);
    }
    check_all(model);
    uint64_t dense = atomic_load(&model->tree.pages.bytes);
    for (uint32_t i = model->count; i-- > 0;) {
        change(model, i, false);
    }
    assert_int_equal(atomic_load(&model->tree.pages.bytes), 0);
    for (uint32_t i = model->count; i-- > 0;) {
        change(model, i, true);
    }
    check_all(model);
    /* Keys in order leave full nodes behind. */
    assert_true(dense < atomic_load(&model->tree.pages.bytes));
    free_model(model);
}

/* What is left of a large tree takes little memory, wherever the keys are that stay. */
static void keytree__shrinks_with_its_keys(void **state)
{
    (void)state;
    struct model *model = make_model(shape_random, 20000);
    for (uint32_t i = 0; i < model->count; i++) {
        change(model, i, true);
    }
    uint64_t full = atomic_load(&model->tree.pages.bytes);
    for (uint32_t i = 0; i < model->count; i++) {
        change(model, i, i % 20 == 0);
    }
    check_all(model);
    assert_true(atomic_load(&model->tree.pages.bytes) < full / 5);
    free_model(model);
}

static void keytree__says_when_it_is_full(void **state)
{
    (void)state;
    struct gb_keytree tree = {0};
    assert_int_equal(gb_keytree_init(&tree, GB_MIB), 0);
    struct gb_rng rng;
    gb_rng_init(&rng, test_seed);
    int rc = 1;
    while (rc == 1) {
        unsigned char key[GOBLIN_KEY_MAX];
        uint32_t len = shape_random(&rng, key);
        rc = gb_keytree_insert(&tree, (struct goblin_slice){key, len});
        assert_true(gb_keytree_bytes(&tree) <= GB_MIB + 64 * GB_KIB);
    }
    assert_int_equal(rc, -ENOMEM);
    assert_true(gb_keytree_count(&tree) > 30000);
    gb_keytree_fini(&tree);
    assert_int_equal(gb_keytree_bytes(&tree), 0);
    assert_int_equal(gb_keytree_count(&tree), 0);
    gb_keytree_fini(&tree);
}

int main(void)
{
    const char *given = getenv("GOBLIN_SEED");
    if (given != NULL) {
        test_seed = strtoull(given, NULL, 0);
    } else if (getrandom(&test_seed, sizeof(test_seed), 0) != sizeof(test_seed)) {
        return 1;
    }
    printf("GOBLIN_SEED=%llu\n", (unsigned long long)test_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keytree__agrees_with_an_array_on_short_keys),
        cmocka_unit_test(keytree__agrees_with_an_array_on_numbered_keys),
        cmocka_unit_test(keytree__agrees_with_an_array_on_random_keys),
        cmocka_unit_test(keytree__agrees_with_an_array_on_long_common_prefixes),
        cmocka_unit_test(keytree__agrees_with_an_array_on_keys_of_any_length),
        cmocka_unit_test(keytree__agrees_with_an_array_on_all_of_them),
        cmocka_unit_test(keytree__takes_keys_in_order_either_way),
        cmocka_unit_test(keytree__shrinks_with_its_keys),
        cmocka_unit_test(keytree__says_when_it_is_full),
    };
    return cmocka_run_group_tests_name("keytree", tests, NULL, NULL);
}
