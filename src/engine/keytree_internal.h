/*
 * What the files of the key tree share: the node and the way down to one.
 *
 *   0       2       4       5       6       8
 *   +-------+-------+-------+-------+-------+------------
 *   | used  | count | units | level |   0   | run …
 *   +-------+-------+-------+-------+-------+------------
 *
 * Level 0 is a leaf. The run of a node above has the number of a child behind each key.
 */
#ifndef GB_ENGINE_KEYTREE_INTERNAL_H
#define GB_ENGINE_KEYTREE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/keyrun.h"
#include "engine/keytree.h"

#define GB_KEYTREE_NODE  GB_KEYPAGES_UNIT /* bytes of an ordinary node */
#define GB_KEYTREE_CHILD 4u               /* payload bytes above the leaves */
#define GB_KEYTREE_DEPTH                                                                           \
    40u /* every node above the leaves is made with two children,
                                             and nodes are numbered by 32 bits */

struct gb_keynode {
    uint16_t used;  /* bytes of the run */
    uint16_t count; /* entries */
    uint8_t units;
    uint8_t level;
    uint16_t zero;
    unsigned char bytes[];
};

_Static_assert(sizeof(struct gb_keynode) == 8, "a node's header is 8 bytes");

/* A node on the way down, and which of its entries was taken. */
struct gb_keystep {
    uint32_t number;
    uint32_t at;
};

struct gb_keypath {
    uint32_t depth; /* of the leaf */
    struct gb_keystep steps[GB_KEYTREE_DEPTH];
};

static inline struct gb_keynode *gb_keytree_node(const struct gb_keytree *tree, uint32_t number)
{
    return gb_keypages_at(&tree->pages, number);
}

static inline struct gb_keyrun gb_keytree_run(struct gb_keynode *node)
{
    return (struct gb_keyrun){
        .bytes = node->bytes,
        .used = node->used,
        .payload = node->level > 0 ? GB_KEYTREE_CHILD : 0,
    };
}

/* The leaf that holds the key or would; an empty key: the first leaf. The tree is not empty. */
struct gb_keynode *gb_keytree_descend(const struct gb_keytree *tree, struct goblin_slice key,
                                      struct gb_keypath *path);

#endif
