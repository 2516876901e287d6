/*
 * Moving what lives in a segment to the head of its lane, so that the segment can be freed. What
 * moves is found through the index and not through its record, so an object is moved (or not found
 * worth it) as it is now. A move takes a fresh sequence and publishes only if the slot still names
 * what was copied.
 */
#ifndef GB_ENGINE_RELOCATE_H
#define GB_ENGINE_RELOCATE_H

#include "engine/store.h"
#include "engine/tape.h"

struct gb_mover {
    struct goblin *store;
    struct gb_segment *segment; /* what is being emptied */
    struct gb_tape payloads;
    unsigned char *buffer;
    size_t buffer_bytes;
    uint64_t moved_bytes; /* spans written so far */
};

int gb_mover_init(struct gb_mover *mover, struct goblin *store, struct gb_segment *segment);
void gb_mover_fini(struct gb_mover *mover);

/* Moves what the object has in the segment: its payload or some extents of it, or the list of them.
 * 0: moved, or nothing of it was there. GOBLIN_ECORRUPT, -EIO: it cannot be read; -ENOSPC and
 * others: there is no room for it. */
int gb_relocate_object(struct gb_mover *mover, struct goblin_slice key);

/* Moves a tombstone that still guards against something older, or a META that still amends
 * something older. */
int gb_relocate_amendment(struct gb_mover *mover, const struct gb_entry *entry);

/* Makes a DELETE or META say what holds of its key now that it is to be laid again; `item` is the
 * key's (NULL: it has none) and its bucket locked. False: it is needed no longer. */
bool gb_relocate_restate(struct gb_record *record, const struct gb_item *item);

/* Whether the object has something in the slot. */
bool gb_relocate_is_in(const struct gb_item *item, uint32_t slot);
/* Whether an object in extents has one in the slot. */
bool gb_relocate_touches(const struct gb_item *item, uint32_t slot);

/* The object of the key has left, and records of it may lie elsewhere: a tombstone says so. */
int gb_relocate_bury(struct gb_mover *mover, struct goblin_slice key);

#endif
