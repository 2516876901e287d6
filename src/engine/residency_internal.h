/* What residency.c and promote.c share. All under the residency lock unless said otherwise. */
#ifndef GB_ENGINE_RESIDENCY_INTERNAL_H
#define GB_ENGINE_RESIDENCY_INTERNAL_H

#include "engine/residency.h"

enum gb_step {
    GB_STEP_NOTHING,  /* no block can be walked */
    GB_STEP_BLOCK,    /* a block's end was reached */
    GB_STEP_DEAD,     /* met an item that is gone now */
    GB_STEP_CUT,      /* met one that has its floor or less now */
    GB_STEP_SURVIVED, /* met one that kept more than its floor */
};

/* Moves the hand over one item. *freed: bytes it gave up. `mandatory`: floors may be cut too. */
enum gb_step gb_residency_step(struct goblin *store, double threshold, bool mandatory,
                               uint32_t *freed);

/* Nanoseconds of device time saved per byte by having [0, to) in RAM instead of [0, from). Pure. */
double gb_residency_worth(unsigned count, uint64_t size, uint64_t from, uint64_t to);

/* Header, key and extents, with `resident` bytes to follow. Under the bucket lock of `from`. */
void gb_item_copy_head(struct gb_item *to, const struct gb_item *from, uint32_t resident);

#endif
