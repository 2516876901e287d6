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

enum gb_checkpoint_kind {
    GB_CHECKPOINT_RUNNING,
    GB_CHECKPOINT_OPENING, /* before the store has changed anything: it says all there is */
    GB_CHECKPOINT_CLEAN,   /* the last thing a closing store does, with resident bytes beside it */
};

/* Writes a checkpoint, on two drives if there are two, so that one may be lost. */
int gb_checkpoint_write(struct goblin *store, enum gb_checkpoint_kind kind);

/* Loads objects of the newest checkpoint that is whole, as far as their segments are still what
 * they were. `covered`: one flag per slot, set for segments that need no replay. *exact: nothing
 * was written after it. 0: loaded; GOBLIN_ECORRUPT, -ENOENT: there is none that counts. */
int gb_checkpoint_load(struct goblin *store, bool *covered, bool *exact);

/* Reads a drive's checkpoint. 0: it is whole; -ENOENT: there is none; else what is wrong, and
 * *offset says where. */
int gb_checkpoint_verify(struct goblin *store, const struct gb_drive *drive, uint64_t *offset);

/* ---- absent.c ------------------------------------------------------------------------------ */

/* An object, or a part of it, lay in this slot and is not found: counts it if that is because of a
 * drive. Returns whether it is. */
bool gb_absent_note(struct goblin *store, uint32_t slot);

/* After the log has been read without drives or segments lost since the last opening: a cache drops
 * what a record on them may have replaced, which an exact checkpoint would have told. */
void gb_absent_settle(struct goblin *store, bool exact);

/* Installs resident bytes from the file that a clean close left, hottest first; what had none there
 * and is wanted comes from the log. In the background; ends early when memory is full or the store
 * closes. */
void gb_warm(struct goblin *store);

#endif
