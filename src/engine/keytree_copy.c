/* Copying keys out of the B+tree, in either direction. */
#include <string.h>

#include "base/bits.h"
#include "engine/keytree_internal.h"

/* ---- from leaf to leaf --------------------------------------------------------------------- */

/* From the entry chosen in the path's node `depth` down to a leaf: the first below it or the last.
 */
static struct gb_keynode *go_down(const struct gb_keytree *tree, struct gb_keypath *path,
                                  uint32_t depth, bool last)
{
    for (;;) {
        struct gb_keyrun run = gb_keytree_run(gb_keytree_node(tree, path->steps[depth].number));
        uint32_t number = gb_keyrun_child(&run, path->steps[depth].at);
        struct gb_keynode *node = gb_keytree_node(tree, number);
        depth++;
        path->steps[depth] = (struct gb_keystep){.number = number};
        if (node->level == 0) {
            path->depth = depth;
            return node;
        }
        run = gb_keytree_run(node);
        path->steps[depth].at = last ? gb_keyrun_previous(&run, run.used) : 0;
    }
}

static struct gb_keynode *next_leaf(const struct gb_keytree *tree, struct gb_keypath *path)
{
    for (uint32_t depth = path->depth; depth-- > 0;) {
        struct gb_keystep *step = &path->steps[depth];
        struct gb_keyrun run = gb_keytree_run(gb_keytree_node(tree, step->number));
        uint32_t next = gb_keyrun_entry(&run, step->at).next;
        if (next < run.used) {
            step->at = next;
            return go_down(tree, path, depth, false);
        }
    }
    return NULL;
}

static struct gb_keynode *previous_leaf(const struct gb_keytree *tree, struct gb_keypath *path)
{
    for (uint32_t depth = path->depth; depth-- > 0;) {
        struct gb_keystep *step = &path->steps[depth];
        struct gb_keyrun run = gb_keytree_run(gb_keytree_node(tree, step->number));
        if (step->at > 0) {
            step->at = gb_keyrun_previous(&run, step->at);
            return go_down(tree, path, depth, true);
        }
    }
    return NULL;
}

static struct gb_keynode *last_leaf(const struct gb_keytree *tree, struct gb_keypath *path)
{
    struct gb_keynode *root = gb_keytree_node(tree, tree->root);
    path->depth = 0;
    path->steps[0] = (struct gb_keystep){.number = tree->root};
    if (root->level == 0) {
        return root;
    }
    struct gb_keyrun run = gb_keytree_run(root);
    path->steps[0].at = gb_keyrun_previous(&run, run.used);
    return go_down(tree, path, 0, true);
}

/* ---- copying ------------------------------------------------------------------------------- */

static bool has_room(const struct gb_keybatch *batch, uint32_t most, uint32_t len)
{
    return batch->count < most && batch->len + len <= GB_KEYBATCH_BYTES;
}

/* Appends the entry's key: the bytes it shares from `shared_from`, its own from the run. */
static void take(struct gb_keybatch *batch, const struct gb_keyrun *run,
                 const struct gb_keyrun_entry *entry, const unsigned char *shared_from)
{
    unsigned char *to = batch->bytes + batch->len;
    memcpy(to, shared_from, entry->shared);
    memcpy(to + entry->shared, run->bytes + entry->key, entry->rest);
    batch->keys[batch->count].at = batch->len;
    batch->keys[batch->count].len = entry->shared + entry->rest;
    batch->count++;
    batch->len += entry->shared + entry->rest;
}

/* Entries from `begin` to before `end`, as many as there is room for; false if there are more. The
 * first one's shared bytes are built up from the run's start, the others' are those of the key
 * taken last. */
static bool take_entries(struct gb_keybatch *batch, const struct gb_keyrun *run, uint32_t begin,
                         uint32_t end, uint32_t most)
{
    unsigned char first[GOBLIN_KEY_MAX];
    if (begin == end) {
        return true;
    }
    (void)gb_keyrun_key(run, begin, first);
    const unsigned char *last = first;
    for (uint32_t at = begin; at < end;) {
        struct gb_keyrun_entry entry = gb_keyrun_entry(run, at);
        if (!has_room(batch, most, entry.shared + entry.rest)) {
            return false;
        }
        take(batch, run, &entry, last);
        last = batch->bytes + batch->keys[batch->count - 1].at;
        at = entry.next;
    }
    return true;
}

void gb_keytree_forward(const struct gb_keytree *tree, struct goblin_slice from, bool behind,
                        uint32_t most, struct gb_keybatch *batch)
{
    batch->count = 0;
    batch->len = 0;
    if (tree->root == GB_KEYPAGES_NONE) {
        return;
    }
    most = (uint32_t)gb_min(most, GB_KEYBATCH_KEYS);
    struct gb_keypath path;
    from.data = from.len > 0 ? from.data : "";
    struct gb_keynode *leaf = gb_keytree_descend(tree, from, &path);
    struct gb_keyrun run = gb_keytree_run(leaf);
    uint32_t begin = 0;
    if (from.len > 0) {
        struct gb_keyrun_spot spot = gb_keyrun_seek(&run, from);
        begin = spot.found && behind ? gb_keyrun_entry(&run, spot.at).next : spot.at;
    }
    while (take_entries(batch, &run, begin, run.used, most)) {
        leaf = next_leaf(tree, &path);
        if (leaf == NULL) {
            return;
        }
        run = gb_keytree_run(leaf);
        begin = 0;
    }
}

/* The last `most` entries before `end` begin here. */
static uint32_t last_entries(const struct gb_keyrun *run, uint32_t end, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < end; at = gb_keyrun_entry(run, at).next) {
        count++;
    }
    uint32_t begin = 0;
    for (; count > most; count--) {
        begin = gb_keyrun_entry(run, begin).next;
    }
    return begin;
}

static void turn_round(struct gb_keybatch *batch)
{
    for (uint32_t i = 0; i < batch->count / 2; i++) {
        uint32_t j = batch->count - 1 - i;
        uint32_t at = batch->keys[i].at;
        uint32_t len = batch->keys[i].len;
        batch->keys[i] = batch->keys[j];
        batch->keys[j].at = at;
        batch->keys[j].len = len;
    }
}

void gb_keytree_backward(const struct gb_keytree *tree, struct goblin_slice to, uint32_t most,
                         struct gb_keybatch *batch)
{
    batch->count = 0;
    batch->len = 0;
    if (tree->root == GB_KEYPAGES_NONE) {
        return;
    }
    most = (uint32_t)gb_min(most, GB_KEYBATCH_KEYS);
    struct gb_keypath path;
    struct gb_keynode *leaf =
        to.len > 0 ? gb_keytree_descend(tree, to, &path) : last_leaf(tree, &path);
    struct gb_keyrun run = gb_keytree_run(leaf);
    uint32_t end = to.len > 0 ? gb_keyrun_seek(&run, to).at : run.used;
    if (end == 0) {
        leaf = previous_leaf(tree, &path);
        if (leaf == NULL) {
            return;
        }
        run = gb_keytree_run(leaf);
        end = run.used;
    }
    /* Runs are read forwards only: if the last ones are too long to be taken together, fewer. */
    uint32_t wanted = most;
    while (!take_entries(batch, &run, last_entries(&run, end, wanted), end, most)) {
        wanted = (uint32_t)gb_min(wanted, batch->count + 1) / 2;
        wanted = (uint32_t)gb_max(wanted, 1);
        batch->count = 0;
        batch->len = 0;
    }
    turn_round(batch);
}
