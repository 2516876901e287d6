/* Expired objects of a store in store mode. In a cache they leave with their segments. */
#ifndef GB_ENGINE_EXPIRE_H
#define GB_ENGINE_EXPIRE_H

#include "engine/store.h"

/* Looks at some more of the index and deletes what has expired there, tombstone included: a record
 * whose object merely vanished could leave before an older one of its key, which would come back.
 * The keeper's work. */
void gb_expire_some(struct goblin *store);

#endif
