/* Drives: the directories of a store, their identities and locks, and the I/O backend over them. */
#ifndef GB_ENGINE_DRIVE_H
#define GB_ENGINE_DRIVE_H

#include <goblin/options.h>

#include "engine/segment.h"

/* Chooses the backend that options->io asks for, probing io_uring in the first directory that
 * exists. Owns: *io is the caller's. */
int gb_drives_choose_io(struct gb_io **io, const struct goblin_options *options,
                        struct goblin_error *error);

/* Opens every directory and locks it; makes the store if they are empty and options->create is set.
 * A directory that holds anything else is never touched. `options` resolved. On a fault nothing
 * stays open. Owns: *drives until gb_drives_close. */
int gb_drives_open(struct gb_drive **drives, unsigned *count, struct gb_io *io,
                   const struct goblin_options *options, struct goblin_error *error);
void gb_drives_close(struct gb_drive *drives, unsigned count);

/* Notes a new epoch on every drive. One drive: the next number. Several go from an even one to the
 * next even one, all of them passing the odd one between together, so that drives which are one
 * apart have met a crash here, and one that is further behind missed an opening. */
int gb_drives_enter_epoch(struct gb_drive *drives, unsigned count, struct goblin_error *error);

#endif
