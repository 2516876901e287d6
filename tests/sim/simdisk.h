/*
 * The simulated disk: a struct gb_io whose files live in memory, driven by one seed, that fails in
 * the ways disks, kernels and power supplies do.
 *
 * Time. Nothing sleeps. Every operation draws a latency on a virtual clock, so the events of a
 * queue come in an order of the seed's choosing; a write takes effect, and a read looks, when its
 * event is taken. One seed and one thread give one run; with several threads the scheduler has its
 * say too.
 *
 * What is volatile. A write, and a change of a file's size, is pending until a sync of the file
 * that was prepared after it completed. A name made, renamed or removed is pending until sync_dir
 * of the directory that holds it (of the new one, for a rename); a file's own sync says nothing of
 * its name. A sync that fails dooms what was pending: later syncs succeed without it.
 *
 * simdisk_power_cut draws how unkind to be (between keeping and dropping everything), then decides
 * for every pending write by itself, and for those in flight: kept, dropped, or torn, each 512-byte
 * sector of its own. Pending changes of size and of names are each kept or dropped, in the order
 * they were made; a rename is never half done; what lies in a lost directory is lost.
 *
 * simdisk_crash_process is kinder: what completed stays, pending as before; what is in flight
 * happens or not.
 *
 * After either the disk is down: everything answers -EIO, while the dead program's files and queues
 * can still be closed. simdisk_restart brings it up; handles from before stay dead.
 *
 * Never: short reads before the end of a file, torn sectors, acknowledged and synced data lost,
 * unless a test flips, rots, misdirects it or makes it unreadable.
 *
 * Not modelled: renaming directories (-EOPNOTSUPP), hard links, permissions.
 *
 * Threads: any; one mutex.
 */
#ifndef GB_SIM_SIMDISK_H
#define GB_SIM_SIMDISK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/io.h"

/* What faults can be aimed at. NAME: everything that takes a path except sync_dir, and changes of
 * a file's size. SYNC: file_sync, GB_OP_SYNC and sync_dir. */
enum simdisk_kind {
    SIMDISK_READ,
    SIMDISK_WRITE,
    SIMDISK_SYNC,
    SIMDISK_NAME,
    SIMDISK_ANY,
    SIMDISK_KINDS
};

/* Owns: the result until ops->destroy, which insists that files and queues were closed. The
 * directories "/" and "." are there, nothing else. Never fails. */
struct gb_io *simdisk_create(uint64_t seed);

void simdisk_power_cut(struct gb_io *io);
void simdisk_crash_process(struct gb_io *io);
void simdisk_restart(struct gb_io *io);

/* The nth operation of `kind` from now (1: the next) fails with -EIO, once, or with all that come
 * after it. A write that fails so may have written any of its sectors. n 0: no longer. */
void simdisk_fail_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n);
void simdisk_fail_from_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n);

/* Every write to a file in the directory fails with -EIO, and may have written any of its sectors,
 * as on a drive that takes nothing more. NULL: no longer. */
void simdisk_refuse_writes(struct gb_io *io, const char *dir);

/* A power cut instead of the nth operation of `kind` from now; a write is caught in flight. */
void simdisk_cut_at_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n);

/* -ENOSPC for whatever would make the files take more; each takes the larger of what is allocated
 * and what is written, in pages of 4096. */
#define SIMDISK_CAPACITY (UINT64_C(1) << 40) /* at first */
void simdisk_set_capacity(struct gb_io *io, uint64_t bytes);
/* Others take all of it but so many bytes. */
void simdisk_fill(struct gb_io *io, uint64_t but_bytes);

/* What direct I/O must keep to, or -EINVAL: 512 by default. */
void simdisk_set_alignment(struct gb_io *io, uint32_t bytes);

/* false: file_allocate answers 1, as on file systems that cannot. */
void simdisk_set_allocate(struct gb_io *io, bool possible);

/* One write in `one_in` lands elsewhere in its file and says nothing. 0, the default: none. */
void simdisk_set_misdirection(struct gb_io *io, unsigned one_in);

/* Flips the bits of `mask` in the stored byte, for good. -ENOENT, -ERANGE: past the end. */
int simdisk_flip(struct gb_io *io, const char *path, uint64_t offset, unsigned char mask);

/* Flips one bit somewhere in the file; *offset, if not NULL, says where. */
int simdisk_rot(struct gb_io *io, const char *path, uint64_t *offset);

/* These bytes of the file answer -EIO when they are read, until they are written over, or until
 * simdisk_readable. At most four places in a file. -ENOENT, -ENOSPC: too many. */
int simdisk_unreadable(struct gb_io *io, const char *path, uint64_t offset, uint64_t len);
/* Everything can be read again, in all files. */
void simdisk_readable(struct gb_io *io);

/* A device that is busy: what is in flight stays there for reaps that do not wait. One that does
 * gets it, and is counted. */
void simdisk_hold_back(struct gb_io *io, bool hold);

struct simdisk_counts {
    uint64_t operations[SIMDISK_KINDS]; /* [SIMDISK_ANY]: all */
    uint64_t read_bytes;                /* of reads and writes that succeeded */
    uint64_t written_bytes;
    uint64_t file_syncs; /* operations[SIMDISK_SYNC] but those of directories */
    uint64_t failed;     /* injected -EIO */
    uint64_t no_space;
    uint64_t misdirected;
    uint64_t flipped;
    uint64_t cuts;
    uint64_t writes_kept; /* these five: by power cuts, of what was pending */
    uint64_t writes_dropped;
    uint64_t writes_torn;
    uint64_t names_kept;
    uint64_t names_dropped;
    uint64_t syncs_doomed; /* writes that a failed sync left behind */
    uint64_t waits;        /* reaps that waited while the disk held back */
    uint64_t clock_us;     /* virtual time */
};

void simdisk_counts(struct gb_io *io, struct simdisk_counts *counts);

#endif
