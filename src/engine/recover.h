/* What opening a store rebuilds: the index, the state of every segment, and bare items in RAM. */
#ifndef GB_ENGINE_RECOVER_H
#define GB_ENGINE_RECOVER_H

#include "engine/store.h"
#include "engine/tape.h"

/* Reads segment headers, the checkpoint if there is a usable one, and replays what it does not
 * cover. Single-threaded, before the keeper runs. */
int gb_recover(struct goblin *store, struct goblin_error *error);

/* Puts an object into the index as a bare item, unless something newer is there. `extents`: the
 * encoded list of an object in extents, else NULL. `place` as an item has it. */
int gb_recover_object(struct goblin *store, const struct gb_entry *entry,
                      const unsigned char *extents);

/* ---- checkpoint.c -------------------------------------------------------------------------- */

/* Writes a checkpoint; `clean`: the last thing a closing store does, with resident bytes beside
 * it. */
int gb_checkpoint_write(struct goblin *store, bool clean);

/* Loads objects of the checkpoint whose segments are still what they were. `covered`: one flag per
 * slot, set for segments that need no replay. 0: loaded; GOBLIN_ECORRUPT, -ENOENT: there is none
 * that counts. */
int gb_checkpoint_load(struct goblin *store, bool *covered);

/* Installs resident bytes from the file that a clean close left, hottest first; what had none there
 * and is wanted comes from the log. In the background; ends early when memory is full or the store
 * closes. */
void gb_warm(struct goblin *store);

#endif
