/*
 * A B+tree of keys alone: 1 to 4096 bytes, any bytes, each at most once.
 *
 * A node is a run of front-coded keys (keyrun.h) of up to 512 bytes, or one whose first key is long
 * and that has half as much besides. Leaves hold the keys; above them lie separators, cut to what
 * tells two children apart, with the number of the child behind each. The first separator of a node
 * is empty: it stands for everything below the second.
 *
 * A full node is cut in two by bytes, but where keys come in order, at its end: then it stays full.
 * A leaf of which little is left joins a neighbour, an empty one leaves at once. Inner nodes, a
 * hundredth of the whole, only leave when they are empty.
 *
 * Threads: one lock for all calls, shared for those that take a const tree; the two numbers below
 * may be read without. Blocks: never.
 */
#ifndef GB_ENGINE_KEYTREE_H
#define GB_ENGINE_KEYTREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "engine/keypages.h"

struct gb_keytree_desk;

struct gb_keytree {
    struct gb_keypages pages;
    struct gb_keytree_desk *desk; /* where nodes are taken apart */
    uint32_t root;                /* GB_KEYPAGES_NONE: empty */
    uint32_t last_leaf;           /* what the desk's last key is in; GB_KEYPAGES_NONE: not known */
    _Atomic uint64_t count;
    _Atomic uint64_t desk_bytes;
};

/* An empty tree that takes up to `bytes_most`, out of one that is zero or has been ended. 0, or
 * -ENOMEM and there is nothing to end. */
int gb_keytree_init(struct gb_keytree *tree, uint64_t bytes_most);
/* Frees everything. Harmless on what is zero or has been ended. */
void gb_keytree_fini(struct gb_keytree *tree);

/* 1: added, 0: it was there. -ENOMEM: it does not fit, and the tree is good for nothing any more
 * but gb_keytree_fini. */
int gb_keytree_insert(struct gb_keytree *tree, struct goblin_slice key);
/* Whether it was there. */
bool gb_keytree_remove(struct gb_keytree *tree, struct goblin_slice key);

uint64_t gb_keytree_count(const struct gb_keytree *tree);
/* Memory in use. */
uint64_t gb_keytree_bytes(const struct gb_keytree *tree);

/* ---- copying keys out ---------------------------------------------------------------------- */

#define GB_KEYBATCH_KEYS  128u
#define GB_KEYBATCH_BYTES (32u * 1024)

/* Keys in the order of the walk. */
struct gb_keybatch {
    uint32_t count;
    uint32_t len;
    struct {
        uint32_t at;
        uint32_t len;
    } keys[GB_KEYBATCH_KEYS];
    unsigned char bytes[GB_KEYBATCH_BYTES];
};

static inline struct goblin_slice gb_keybatch_key(const struct gb_keybatch *batch, uint32_t i)
{
    return (struct goblin_slice){batch->bytes + batch->keys[i].at, batch->keys[i].len};
}

/* The first keys that are not less than `from`, or with `behind` greater; an empty `from`: the very
 * first. At most `most`, at least one unless there is none. */
void gb_keytree_forward(const struct gb_keytree *tree, struct goblin_slice from, bool behind,
                        uint32_t most, struct gb_keybatch *batch);
/* The last keys that are less than `to`, greatest first; an empty `to`: the very last. */
void gb_keytree_backward(const struct gb_keytree *tree, struct goblin_slice to, uint32_t most,
                         struct gb_keybatch *batch);

#endif
