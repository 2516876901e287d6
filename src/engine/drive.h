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
 * A directory that holds anything else is never touched. Drives that cannot be used are marked as
 * missing, if at least one is there and the store may do without; one that missed an opening is
 * emptied before it counts as there. `options` resolved. On a fault nothing stays open. Owns:
 * *drives until gb_drives_close. */
int gb_drives_open(struct gb_drive **drives, unsigned *count, struct gb_io *io,
                   const struct goblin_options *options, struct goblin_error *error);
void gb_drives_close(struct gb_drive *drives, unsigned count);

/* Something that lay on a drive has been lost since the store was last opened: with it, or with a
 * segment of it. */
bool gb_drives_bereft(const struct gb_drive *drives, unsigned count);

/* The newest epoch of the drives. */
uint64_t gb_drives_epoch(const struct gb_drive *drives, unsigned count);

/* What an epoch begins with, besides the drives that are missing. */
struct gb_passage {
    uint64_t floor;
    uint32_t strayed;
};

/* Notes a new epoch on every drive. One drive: the next number. Several go from an even one to the
 * next even one, all of them passing the odd one between together, so that drives which are one
 * apart have met a crash here, and one that is further behind missed an opening. */
int gb_drives_enter_epoch(struct gb_drive *drives, unsigned count, const struct gb_passage *passage,
                          struct goblin_error *error);

/* Notes on every drive that the lane has a segment away from its own drive, before anything is
 * written to it. The caller keeps others out. 0 if one drive at least has it. */
int gb_drives_note_stray(struct gb_drive *drives, unsigned count, unsigned lane);

#endif
