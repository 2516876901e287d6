/* Reclaiming disk: emptying segments so that lanes can fill them again. The keeper's work. */
#ifndef GB_ENGINE_RECLAIM_H
#define GB_ENGINE_RECLAIM_H

#include "engine/store.h"

/* Frees one segment if one can be freed. 1: freed; 0: nothing to free now; negative: a fault. */
int gb_reclaim_one(struct goblin *store);

/* Free segments the keeper tries to have. */
uint32_t gb_reclaim_target(const struct goblin *store);

#endif
