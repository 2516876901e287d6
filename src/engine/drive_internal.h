/* One directory at a time: what drives.c, which sees all of them, asks of drive.c. */
#ifndef GB_ENGINE_DRIVE_INTERNAL_H
#define GB_ENGINE_DRIVE_INTERNAL_H

#include "engine/drive.h"

enum gb_claim {
    GB_CLAIM_EMPTY, /* nothing there, or what a crash left of a first identity */
    GB_CLAIM_BARE,  /* an identity and nothing else */
    GB_CLAIM_STORE,
};

/* Opens and locks the identity file of drive->dir and reads it; with `make`, makes directory and
 * file if they are absent. An enum gb_claim, or what is wrong; GOBLIN_EFORMAT leaves the version
 * that was found in drive->identity. Owns: the file is the drive's, also after a fault. */
int gb_drive_claim(struct gb_drive *drive, struct gb_io *io, const struct goblin_options *options,
                   bool make);

/* Closes the identity file, which gives the lock up. */
void gb_drive_release(struct gb_drive *drive);

/* Writes the identity durably, into the block that its epoch says. */
int gb_drive_write_identity(struct gb_drive *drive);
/* Writes it durably into block 0 or 1. */
int gb_drive_write_block(struct gb_drive *drive, unsigned number);

/* Makes the names of the directory and of those above it durable. */
int gb_drive_sync_parents(struct gb_io *io, const char *dir);

/* Removes the segments and checkpoints of the drive's slots, durably. */
int gb_drive_empty(struct gb_drive *drive);

/* Direct I/O, if the file system takes it, and the alignment it wants. */
void gb_drive_probe_direct(struct gb_drive *drive, const struct goblin_options *options);

/* Says what gb_drive_claim found wrong. */
void gb_drive_explain(const struct gb_drive *drive, int rc, struct goblin_error *error);

#endif
