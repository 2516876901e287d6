/* Reclaiming disk: emptying segments so that lanes can fill them again. The cleaner's work. */
#ifndef GB_ENGINE_RECLAIM_H
#define GB_ENGINE_RECLAIM_H

#include "engine/store.h"
#include "engine/victim.h"

/* Empties one segment, if there is one worth it. 1: done; it is free, or will be as soon as its
 * readers are done; 0: nothing to empty now; negative: a fault. */
int gb_reclaim_one(struct goblin *store, enum gb_effort effort);

/* Frees what was emptied and is not read any more. Returns how many segments. */
uint32_t gb_reclaim_drained(struct goblin *store);

/* Free segments the cleaner tries to have. */
uint32_t gb_reclaim_target(const struct goblin *store);

#endif
