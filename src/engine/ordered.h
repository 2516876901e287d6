/*
 * The ordered set: every key of the index once more, in order. It changes when a key appears or
 * disappears, and at no other time.
 *
 * It is built from the index the first time that somebody scans, or from open on if the options say
 * so, and kept from then on. Building walks the index bucket by bucket and adds what it finds,
 * while whoever adds or removes a key does the same to the set, under the bucket's lock: so after
 * the walk the set holds what the index holds.
 *
 * It may take half of `memory`. If it would need more, or if headers and keys alone fill memory and
 * it is in their way, it is given up as a whole: no put fails for it, and scans say so until
 * there are a quarter fewer objects than there were.
 *
 * Lock order: building -> bucket -> the set's lock, which is a leaf. It is held for one key at a
 * time, or shared while one batch of keys is copied out.
 */
#ifndef GB_ENGINE_ORDERED_H
#define GB_ENGINE_ORDERED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "engine/keytree.h"

enum gb_ordered_state {
    GB_ORDERED_IDLE = 0,     /* there is none */
    GB_ORDERED_BUILDING = 1, /* keys that come and go count, the index is being walked */
    GB_ORDERED_WHOLE = 2,    /* it holds what the index holds */
    GB_ORDERED_GIVEN_UP = 3, /* there was no room */
};

struct gb_ordered {
    pthread_rwlock_t lock; /* the tree, and every change of state */
    struct gb_keytree tree;
    _Atomic unsigned state;   /* enum gb_ordered_state */
    pthread_mutex_t building; /* what follows, and the making and freeing of the tree */
    uint64_t cursor;          /* of the walk over the index */
    uint64_t too_many;        /* objects for which there was no room; 0: not known */
};

void gb_ordered_init(struct gb_ordered *ordered);
void gb_ordered_fini(struct gb_ordered *ordered);

/* Whether keys that come and go count now. Relaxed: under a bucket's lock the answer is right for
 * the keys of that bucket, because the walk that comes after takes the lock too. */
static inline bool gb_ordered_kept(const struct gb_ordered *ordered)
{
    unsigned state = atomic_load_explicit(&ordered->state, memory_order_relaxed);
    return state == GB_ORDERED_BUILDING || state == GB_ORDERED_WHOLE;
}

/* A key that came or went; its bucket is locked. Called only if gb_ordered_kept. Never fails. */
void gb_ordered_add(struct gb_ordered *ordered, struct goblin_slice key);
void gb_ordered_remove(struct gb_ordered *ordered, struct goblin_slice key);

uint64_t gb_ordered_bytes(const struct gb_ordered *ordered);
uint64_t gb_ordered_count(const struct gb_ordered *ordered);

/* Goes on building for some thousand keys. 1: the set is whole; 0: there is more to do;
 * -ENOMEM: there is no room for it. The caller holds no lock. */
int gb_ordered_build(struct goblin *store);

/* The keeper's round: frees a set that was given up; builds if the options ask for it. */
void gb_ordered_keep(struct goblin *store);

/* Gives the set up for the sake of memory. False: there was none. Holds no bucket. */
bool gb_ordered_give_up(struct goblin *store);

/* Which keys to copy out, and where. */
struct gb_ordered_ask {
    struct goblin_slice bound; /* forward: from it on; reverse: before it; empty: no bound */
    bool behind;               /* forward: the bound itself is not wanted */
    bool reverse;
    uint32_t most;
    struct gb_keybatch *batch;
};

/* False: the set is not whole. */
bool gb_ordered_copy(struct gb_ordered *ordered, const struct gb_ordered_ask *ask);

#endif
