/* Drives: the directories of a store, their identities and locks, and the I/O backend over them. */
#ifndef GB_ENGINE_DRIVE_H
#define GB_ENGINE_DRIVE_H

#include <goblin/options.h>

#include "engine/segment.h"

/* Chooses the backend that options->io asks for, probing io_uring in the first directory that
 * exists. Owns: *io is the caller's. */
int gb_drives_choose_io(struct gb_io **io, const struct goblin_options *options,
                        struct goblin_error *error);

/* Drives that did not take their new identity: the opening begins again without them. */
struct gb_refusals {
    int faults[GB_DRIVES_MAX]; /* 0: none */
    uint64_t epoch;            /* the greatest that any of them may have noted nevertheless */
};

/* Opens every directory and locks it; makes the store if they are empty and options->create is set.
 * A directory that holds anything else is never touched. Drives that cannot be used are marked as
 * missing, if at least one is there and the store may do without; one that missed an opening is
 * emptied before it counts as there. `options` resolved. On a fault nothing stays open. Owns:
 * *drives until gb_drives_close. Those in `refusals` are missing. */
int gb_drives_open(struct gb_drive **drives, unsigned *count, struct gb_io *io,
                   const struct goblin_options *options, const struct gb_refusals *refusals,
                   struct goblin_error *error);
void gb_drives_close(struct gb_drive *drives, unsigned count);

/* Something that lay on a drive has been lost since the store was last opened: with it, or with a
 * segment of it. */
bool gb_drives_bereft(const struct gb_drive *drives, unsigned count);

/* The newest epoch of the drives. */
uint64_t gb_drives_epoch(const struct gb_drive *drives, unsigned count);

/* What an epoch begins with, besides the drives that are missing. */
struct gb_passage {
    uint64_t floor;
    uint64_t beyond; /* the new epoch is greater than this one */
    uint32_t strayed;
};

/* Notes a new epoch on every drive. One drive: the next number. Several go from an even one to the
 * next even one, all of them passing the odd one between together, so that drives which are one
 * apart have met a crash here, and one that is further behind missed an opening. A drive that does
 * not take its identity is marked as `refused`. */
int gb_drives_enter_epoch(struct gb_drive *drives, unsigned count, const struct gb_passage *passage,
                          struct goblin_error *error);

/* Adds the drives that have refused their identity. Returns whether there is one, and others are
 * left. */
bool gb_drives_refused(const struct gb_drive *drives, unsigned count, int fault,
                       struct gb_refusals *refusals);

/* Writes the identity of a drive once more, with all that has been noted. The same. */
int gb_drives_note_again(struct gb_drive *drive);

/* Notes on every drive that the lane has a segment away from its own drive, before anything is
 * written to it. The caller keeps others out. 0 if one drive at least has it. */
int gb_drives_note_stray(struct gb_drive *drives, unsigned count, unsigned lane);

#endif
