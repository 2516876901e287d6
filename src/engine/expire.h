/* Expired objects leave, some buckets of the index at a time. */
#ifndef GB_ENGINE_EXPIRE_H
#define GB_ENGINE_EXPIRE_H

#include "engine/store.h"

/* Looks at some more of the index and lets go of what has expired there. In a store a tombstone
 * tells of it: a record whose object merely vanished could leave before an older one of its key,
 * which would come back. A cache saves the writing: it is `forgetful`, and whoever reclaims disk
 * minds that. The cleaner's work. */
void gb_expire_some(struct goblin *store);

#endif
