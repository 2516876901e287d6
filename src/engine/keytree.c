/* The B+tree of keys: coming and going. Copying out stands in keytree_copy.c. */
#include "engine/keytree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/keytree_internal.h"

/* A leaf with less than this joins a neighbour if the two then leave room for more. */
#define FEW_BYTES    (GB_KEYTREE_NODE / 4)
#define JOINED_BYTES (GB_KEYTREE_NODE / 4 * 3)

/* The largest content a node is ever given: three long separators and one that comes, laid out
 * again behind a first key in full. */
#define DESK_BYTES (6 * GB_KEYRUN_ENTRY_MAX)

struct gb_keytree_desk {
    unsigned char whole[DESK_BYTES];
    unsigned char right[DESK_BYTES];
    unsigned char separator[GOBLIN_KEY_MAX];
    unsigned char next_separator[GOBLIN_KEY_MAX];
    unsigned char last[GOBLIN_KEY_MAX]; /* the greatest key, while tree->last_leaf is known */
    uint32_t last_len;
    uint32_t last_at; /* of its entry in the leaf */
};

int gb_keytree_init(struct gb_keytree *tree, uint64_t bytes_most)
{
    tree->root = GB_KEYPAGES_NONE;
    tree->last_leaf = GB_KEYPAGES_NONE;
    tree->desk = malloc(sizeof(*tree->desk));
    if (tree->desk == NULL) {
        return -ENOMEM;
    }
    int rc = gb_keypages_init(&tree->pages, bytes_most);
    if (rc < 0) {
        gb_keytree_fini(tree);
        return rc;
    }
    atomic_store(&tree->desk_bytes, sizeof(*tree->desk));
    return 0;
}

void gb_keytree_fini(struct gb_keytree *tree)
{
    free(tree->desk);
    tree->desk = NULL;
    gb_keypages_fini(&tree->pages);
    tree->root = GB_KEYPAGES_NONE;
    tree->last_leaf = GB_KEYPAGES_NONE;
    atomic_store(&tree->count, 0);
    atomic_store(&tree->desk_bytes, 0);
}

uint64_t gb_keytree_count(const struct gb_keytree *tree)
{
    return atomic_load_explicit(&tree->count, memory_order_relaxed);
}

uint64_t gb_keytree_bytes(const struct gb_keytree *tree)
{
    return gb_keypages_bytes(&tree->pages) +
           atomic_load_explicit(&tree->desk_bytes, memory_order_relaxed);
}

/* Only the lock's holder changes it. */
static void count_key(struct gb_keytree *tree, uint64_t change)
{
    atomic_store_explicit(&tree->count, gb_keytree_count(tree) + change, memory_order_relaxed);
}

/* ---- nodes --------------------------------------------------------------------------------- */

static uint32_t capacity(const struct gb_keynode *node)
{
    return node->units * GB_KEYPAGES_UNIT - (uint32_t)sizeof(*node);
}

static uint32_t units_for(uint32_t used)
{
    return (uint32_t)(gb_align_up(used + sizeof(struct gb_keynode), GB_KEYPAGES_UNIT) /
                      GB_KEYPAGES_UNIT);
}

/* Fills a node of its own with the run. GB_KEYPAGES_NONE: no room. */
static uint32_t make_node(struct gb_keytree *tree, const struct gb_keyrun *run, uint32_t count,
                          uint32_t level)
{
    uint32_t units = units_for(run->used);
    uint32_t number = gb_keypages_take(&tree->pages, units);
    if (number != GB_KEYPAGES_NONE) {
        struct gb_keynode *node = gb_keypages_at(&tree->pages, number);
        *node = (struct gb_keynode){.used = (uint16_t)run->used,
                                    .count = (uint16_t)count,
                                    .units = (uint8_t)units,
                                    .level = (uint8_t)level};
        memcpy(node->bytes, run->bytes, run->used);
    }
    return number;
}

static void free_node(struct gb_keytree *tree, uint32_t number)
{
    gb_keypages_give(&tree->pages, number, gb_keytree_node(tree, number)->units);
}

/* Where the number of the path's node `depth` stands. */
static void set_number(struct gb_keytree *tree, const struct gb_keypath *path, uint32_t depth,
                       uint32_t number)
{
    if (depth == 0) {
        tree->root = number;
        return;
    }
    const struct gb_keystep *step = &path->steps[depth - 1];
    struct gb_keyrun parent = gb_keytree_run(gb_keytree_node(tree, step->number));
    gb_keyrun_set_child(&parent, step->at, number);
}

/* The node's content becomes `run`, in place or, if it does not fit there, elsewhere. */
static int refill(struct gb_keytree *tree, struct gb_keypath *path, uint32_t depth,
                  const struct gb_keyrun *run, uint32_t count)
{
    uint32_t old = path->steps[depth].number;
    struct gb_keynode *node = gb_keytree_node(tree, old);
    if (units_for(run->used) == node->units) {
        memcpy(node->bytes, run->bytes, run->used);
        node->used = (uint16_t)run->used;
        node->count = (uint16_t)count;
        return 0;
    }
    uint32_t number = make_node(tree, run, count, node->level);
    if (number == GB_KEYPAGES_NONE) {
        return -ENOMEM;
    }
    free_node(tree, old);
    path->steps[depth].number = number;
    set_number(tree, path, depth, number);
    return 0;
}

/* ---- the way down -------------------------------------------------------------------------- */

/* The entry whose child covers the key: the last one that is not greater. */
static uint32_t covering(const struct gb_keyrun *run, struct goblin_slice key)
{
    struct gb_keyrun_spot spot = gb_keyrun_seek(run, key);
    return spot.found ? spot.at : spot.before;
}

struct gb_keynode *gb_keytree_descend(const struct gb_keytree *tree, struct goblin_slice key,
                                      struct gb_keypath *path)
{
    path->depth = 0;
    uint32_t number = tree->root;
    for (;;) {
        GB_ASSERT(path->depth < GB_KEYTREE_DEPTH);
        struct gb_keynode *node = gb_keytree_node(tree, number);
        struct gb_keystep *step = &path->steps[path->depth];
        *step = (struct gb_keystep){.number = number};
        if (node->level == 0) {
            return node;
        }
        struct gb_keyrun run = gb_keytree_run(node);
        step->at = covering(&run, key);
        number = gb_keyrun_child(&run, step->at);
        path->depth++;
    }
}

/* ---- coming -------------------------------------------------------------------------------- */

/* An entry that is to come to a node of the path. */
struct arrival {
    struct goblin_slice key;
    uint32_t child;
    uint32_t depth; /* of the node; below 0 there is none: the root was cut */
};

/* How much a node may hold: what its first real key takes must leave room for others. */
static uint32_t most_of(const struct gb_keyrun *run)
{
    uint32_t first = gb_keyrun_entry(run, 0).next;
    if (run->payload > 0 && first < run->used) {
        first = gb_keyrun_entry(run, first).next;
    }
    uint32_t node = GB_KEYTREE_NODE - (uint32_t)sizeof(struct gb_keynode);
    return (uint32_t)gb_max(node, first + GB_KEYTREE_NODE / 2);
}

/* Where to cut: at its end if that is where the new key went, for more will go there. */
static uint32_t choose_cut(const struct gb_keyrun *run, uint32_t count, bool at_end)
{
    uint32_t least = run->payload > 0 ? 2 : 1;
    if (!at_end) {
        return gb_keyrun_middle(run, count, least);
    }
    uint32_t cut = run->used;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        cut = i == count - least ? at : cut;
        at = gb_keyrun_entry(run, at).next;
    }
    return cut;
}

static uint32_t count_entries(const struct gb_keyrun *run)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < run->used; at = gb_keyrun_entry(run, at).next) {
        count++;
    }
    return count;
}

/* Cuts `whole`: the node keeps what lies before `cut`, a new one gets the rest, and `arrival` says
 * what the parent must be told. */
static int cut_node(struct gb_keytree *tree, struct gb_keypath *path, struct gb_keyrun *whole,
                    uint32_t cut, struct arrival *arrival)
{
    struct gb_keytree_desk *desk = tree->desk;
    struct gb_keyrun right = {.bytes = desk->right, .payload = whole->payload};
    struct gb_keyrun_entry entry = gb_keyrun_entry(whole, cut);
    uint32_t len = gb_keyrun_key(whole, cut, desk->next_separator);
    if (whole->payload > 0) {
        /* The key moves up; its child becomes the first of the right half, under an empty one. */
        const struct gb_keyrun_spot first = {.before = GB_KEYRUN_NONE};
        gb_keyrun_insert(&right, &first, (struct goblin_slice){"", 0}, gb_keyrun_child(whole, cut));
        gb_keyrun_append(&right, whole, entry.next);
    } else {
        gb_keyrun_append(&right, whole, cut);
        len = entry.shared + 1; /* enough to be greater than what lies left */
    }
    whole->used = cut;
    uint32_t level = gb_keytree_node(tree, path->steps[arrival->depth].number)->level;
    uint32_t number = make_node(tree, &right, count_entries(&right), level);
    if (number == GB_KEYPAGES_NONE ||
        refill(tree, path, arrival->depth, whole, count_entries(whole)) < 0) {
        return -ENOMEM;
    }
    memcpy(desk->separator, desk->next_separator, len);
    arrival->key = (struct goblin_slice){desk->separator, len};
    arrival->child = number;
    return 0;
}

/* The root was cut: a new one above its two halves. */
static int raise_root(struct gb_keytree *tree, const struct arrival *arrival)
{
    struct gb_keyrun run = {.bytes = tree->desk->whole, .payload = GB_KEYTREE_CHILD};
    const struct gb_keyrun_spot first = {.before = GB_KEYRUN_NONE};
    gb_keyrun_insert(&run, &first, (struct goblin_slice){"", 0}, tree->root);
    struct gb_keyrun_spot spot = gb_keyrun_seek(&run, arrival->key);
    gb_keyrun_insert(&run, &spot, arrival->key, arrival->child);
    uint32_t level = gb_keytree_node(tree, tree->root)->level + 1u;
    uint32_t number = make_node(tree, &run, 2, level);
    if (number == GB_KEYPAGES_NONE) {
        return -ENOMEM;
    }
    tree->root = number;
    return 0;
}

/* The entry does not fit into the node as it is. 1: the parent is to be told of `arrival` now. */
static int overflow(struct gb_keytree *tree, struct gb_keypath *path,
                    const struct gb_keyrun_spot *spot, struct arrival *arrival)
{
    const struct gb_keynode *node = gb_keytree_node(tree, path->steps[arrival->depth].number);
    struct gb_keyrun whole = {
        .bytes = tree->desk->whole,
        .used = node->used,
        .payload = node->level > 0 ? GB_KEYTREE_CHILD : 0,
    };
    memcpy(whole.bytes, node->bytes, node->used);
    bool at_end = spot->at == whole.used;
    gb_keyrun_insert(&whole, spot, arrival->key, arrival->child);
    uint32_t count = node->count + 1u;
    uint32_t least = node->level > 0 ? 4 : 2;
    if (count < least || whole.used <= most_of(&whole)) {
        return refill(tree, path, arrival->depth, &whole, count);
    }
    uint32_t cut = choose_cut(&whole, count, at_end);
    int rc = cut_node(tree, path, &whole, cut, arrival);
    return rc < 0 ? rc : 1;
}

static int arrive(struct gb_keytree *tree, struct gb_keypath *path, struct gb_keyrun_spot spot,
                  struct arrival *arrival)
{
    for (;;) {
        struct gb_keynode *node = gb_keytree_node(tree, path->steps[arrival->depth].number);
        struct gb_keyrun run = gb_keytree_run(node);
        uint32_t growth = gb_keyrun_growth(&run, &spot, (uint32_t)arrival->key.len);
        if (node->used + growth <= capacity(node)) {
            gb_keyrun_insert(&run, &spot, arrival->key, arrival->child);
            node->used = (uint16_t)run.used;
            node->count++;
            return 0;
        }
        int rc = overflow(tree, path, &spot, arrival);
        if (rc <= 0) {
            return rc;
        }
        if (arrival->depth == 0) {
            return raise_root(tree, arrival);
        }
        arrival->depth--;
        node = gb_keytree_node(tree, path->steps[arrival->depth].number);
        run = gb_keytree_run(node);
        spot = gb_keyrun_seek(&run, arrival->key);
    }
}

static int plant(struct gb_keytree *tree, struct goblin_slice key)
{
    struct gb_keyrun run = {.bytes = tree->desk->whole};
    const struct gb_keyrun_spot first = {.before = GB_KEYRUN_NONE};
    gb_keyrun_insert(&run, &first, key, 0);
    tree->root = make_node(tree, &run, 1, 0);
    return tree->root != GB_KEYPAGES_NONE ? 0 : -ENOMEM;
}

static bool is_last_leaf(const struct gb_keytree *tree, const struct gb_keypath *path)
{
    for (uint32_t i = 0; i < path->depth; i++) {
        struct gb_keyrun run = gb_keytree_run(gb_keytree_node(tree, path->steps[i].number));
        if (gb_keyrun_entry(&run, path->steps[i].at).next < run.used) {
            return false;
        }
    }
    return true;
}

static void remember_last(struct gb_keytree *tree, uint32_t leaf, uint32_t at,
                          struct goblin_slice key)
{
    struct gb_keytree_desk *desk = tree->desk;
    memcpy(desk->last, key.data, key.len);
    desk->last_len = (uint32_t)key.len;
    desk->last_at = at;
    tree->last_leaf = leaf;
}

/* A key behind all others goes to the end of the last leaf without a way down: so keys that come in
 * order cost little. False: it is not known to be one, or there is no room. */
static bool append(struct gb_keytree *tree, struct goblin_slice key)
{
    const struct gb_keytree_desk *desk = tree->desk;
    if (tree->last_leaf == GB_KEYPAGES_NONE) {
        return false;
    }
    const unsigned char *bytes = key.data;
    uint32_t shared = 0;
    while (shared < desk->last_len && shared < key.len && desk->last[shared] == bytes[shared]) {
        shared++;
    }
    bool behind =
        shared < key.len && (shared == desk->last_len || bytes[shared] > desk->last[shared]);
    struct gb_keynode *leaf = gb_keytree_node(tree, tree->last_leaf);
    struct gb_keyrun run = gb_keytree_run(leaf);
    const struct gb_keyrun_spot spot = {.at = run.used, .before = desk->last_at, .shared = shared};
    if (!behind || run.used + gb_keyrun_growth(&run, &spot, (uint32_t)key.len) > capacity(leaf)) {
        return false;
    }
    gb_keyrun_insert(&run, &spot, key, 0);
    leaf->used = (uint16_t)run.used;
    leaf->count++;
    remember_last(tree, tree->last_leaf, spot.at, key);
    return true;
}

/* 1: added, 0: it was there. */
static int add(struct gb_keytree *tree, struct goblin_slice key)
{
    struct gb_keypath path;
    struct gb_keynode *leaf = gb_keytree_descend(tree, key, &path);
    struct gb_keyrun run = gb_keytree_run(leaf);
    uint32_t count = leaf->count;
    struct gb_keyrun_spot spot = gb_keyrun_seek(&run, key);
    if (spot.found) {
        return 0;
    }
    tree->last_leaf = GB_KEYPAGES_NONE;
    bool last = spot.at == run.used && is_last_leaf(tree, &path);
    struct arrival arrival = {.key = key, .depth = path.depth};
    int rc = arrive(tree, &path, spot, &arrival);
    if (rc < 0) {
        return rc;
    }
    uint32_t number = path.steps[path.depth].number;
    if (last && gb_keytree_node(tree, number)->count == count + 1) { /* it was not cut */
        remember_last(tree, number, spot.at, key);
    }
    return 1;
}

int gb_keytree_insert(struct gb_keytree *tree, struct goblin_slice key)
{
    int rc = 1;
    if (tree->root == GB_KEYPAGES_NONE) {
        rc = plant(tree, key);
        rc = rc < 0 ? rc : 1;
    } else if (!append(tree, key)) {
        rc = add(tree, key);
    }
    if (rc == 1) {
        count_key(tree, 1);
    }
    return rc;
}

/* ---- going --------------------------------------------------------------------------------- */

/* Takes the child at `at` out of the path's node `depth`, and what becomes empty by it. */
static void drop_child(struct gb_keytree *tree, const struct gb_keypath *path, uint32_t depth,
                       uint32_t at)
{
    uint32_t number = path->steps[depth].number;
    struct gb_keynode *node = gb_keytree_node(tree, number);
    if (node->count == 1) {
        free_node(tree, number);
        if (depth == 0) {
            tree->root = GB_KEYPAGES_NONE;
        } else {
            drop_child(tree, path, depth - 1, path->steps[depth - 1].at);
        }
        return;
    }
    struct gb_keyrun run = gb_keytree_run(node);
    if (at == 0) {
        /* The next child takes the place under the empty key. */
        at = gb_keyrun_entry(&run, 0).next;
        gb_keyrun_set_child(&run, 0, gb_keyrun_child(&run, at));
    }
    gb_keyrun_remove(&run, at);
    node->used = (uint16_t)run.used;
    node->count--;
}

static void lower_root(struct gb_keytree *tree)
{
    while (tree->root != GB_KEYPAGES_NONE) {
        struct gb_keynode *root = gb_keytree_node(tree, tree->root);
        if (root->level == 0 || root->count > 1) {
            return;
        }
        struct gb_keyrun run = gb_keytree_run(root);
        uint32_t child = gb_keyrun_child(&run, 0);
        free_node(tree, tree->root);
        tree->root = child;
    }
}

/* The child at `at` moves to the lowest free unit, if that lies lower: of a tree that shrinks,
 * whole pages become free. */
static void settle(struct gb_keytree *tree, struct gb_keyrun *parent, uint32_t at)
{
    uint32_t old = gb_keyrun_child(parent, at);
    const struct gb_keynode *node = gb_keytree_node(tree, old);
    uint32_t number = gb_keypages_take(&tree->pages, node->units);
    if (number == GB_KEYPAGES_NONE) {
        return;
    }
    if (number > old) {
        gb_keypages_give(&tree->pages, number, node->units);
        return;
    }
    memcpy(gb_keytree_node(tree, number), node, sizeof(*node) + node->used);
    gb_keyrun_set_child(parent, at, number);
    free_node(tree, old);
}

/* The leaf at `right` of the parent's entries goes into the one at `left`, if they fit. */
static bool join(struct gb_keytree *tree, const struct gb_keypath *path, uint32_t left,
                 uint32_t right)
{
    uint32_t depth = path->depth - 1;
    struct gb_keyrun parent = gb_keytree_run(gb_keytree_node(tree, path->steps[depth].number));
    uint32_t from_number = gb_keyrun_child(&parent, right);
    struct gb_keynode *to = gb_keytree_node(tree, gb_keyrun_child(&parent, left));
    struct gb_keynode *from = gb_keytree_node(tree, from_number);
    if ((uint32_t)to->used + from->used > JOINED_BYTES) {
        return false;
    }
    struct gb_keyrun to_run = gb_keytree_run(to);
    struct gb_keyrun from_run = gb_keytree_run(from);
    gb_keyrun_append(&to_run, &from_run, 0);
    to->used = (uint16_t)to_run.used;
    to->count = (uint16_t)(to->count + from->count);
    free_node(tree, from_number);
    settle(tree, &parent, left);
    drop_child(tree, path, depth, right);
    return true;
}

static void join_neighbour(struct gb_keytree *tree, const struct gb_keypath *path)
{
    const struct gb_keystep *step = &path->steps[path->depth - 1];
    struct gb_keyrun parent = gb_keytree_run(gb_keytree_node(tree, step->number));
    uint32_t next = gb_keyrun_entry(&parent, step->at).next;
    if ((next == parent.used || !join(tree, path, step->at, next)) && step->at > 0) {
        (void)join(tree, path, gb_keyrun_previous(&parent, step->at), step->at);
    }
}

bool gb_keytree_remove(struct gb_keytree *tree, struct goblin_slice key)
{
    if (tree->root == GB_KEYPAGES_NONE) {
        return false;
    }
    struct gb_keypath path;
    struct gb_keynode *leaf = gb_keytree_descend(tree, key, &path);
    struct gb_keyrun run = gb_keytree_run(leaf);
    struct gb_keyrun_spot spot = gb_keyrun_seek(&run, key);
    if (!spot.found) {
        return false;
    }
    count_key(tree, UINT64_MAX);
    tree->last_leaf = GB_KEYPAGES_NONE;
    if (leaf->count == 1) {
        /* As a node's only child it takes the node with it. */
        free_node(tree, path.steps[path.depth].number);
        if (path.depth == 0) {
            tree->root = GB_KEYPAGES_NONE;
        } else {
            drop_child(tree, &path, path.depth - 1, path.steps[path.depth - 1].at);
        }
    } else {
        gb_keyrun_remove(&run, spot.at);
        leaf->used = (uint16_t)run.used;
        leaf->count--;
        if (leaf->used < FEW_BYTES && path.depth > 0) {
            join_neighbour(tree, &path);
        }
    }
    lower_root(tree);
    return true;
}
