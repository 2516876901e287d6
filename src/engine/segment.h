/*
 * Segments: the files of the disk log, over one or more drives.
 *
 * Slots are numbered through all drives; each is a file of fixed size in its drive's directory,
 * made when first needed. A segment is taken for one lane, filled front to back, sealed, and freed
 * when nothing in it lives.
 *
 *   free -> open -> sealed -> reclaiming -> draining -> free
 *
 * A draining one is empty; requests that began before may still read it.
 *
 * Threads: any. `lock` guards states and the free list; the numbers that readers and lanes touch
 * are atomics. `generation`, `salt` and `file` of a segment do not change while a reader holds it.
 */
#ifndef GB_ENGINE_SEGMENT_H
#define GB_ENGINE_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/counters.h"
#include "engine/format.h"
#include "engine/io.h"

enum gb_segment_status {
    GB_SEGMENT_FREE,
    GB_SEGMENT_OPEN,
    GB_SEGMENT_SEALED,
    GB_SEGMENT_RECLAIMING,
    GB_SEGMENT_DRAINING,
    GB_SEGMENT_PREPARING, /* its file is being made */
    GB_SEGMENT_LOST,      /* its drive is missing, or it could not be read or written */
};

struct gb_segment {
    struct gb_file *file; /* NULL: not made yet */
    uint64_t generation;
    uint64_t salt;
    _Atomic uint64_t live_bytes; /* spans of records and extents that the index names */
    _Atomic uint64_t laid_bytes; /* spans of all records and rooms, dead ones too */
    _Atomic uint64_t kept_bytes; /* of these, deletes and new expiries: they move on while anything
                                    older is there */
    _Atomic uint64_t written;    /* the device has everything below this offset */
    uint64_t used_bytes;         /* end of the last record; final once sealed */
    _Atomic uint32_t readers;    /* requests that may read it */
    _Atomic uint32_t pending;    /* extents still being streamed */
    _Atomic bool stream_dirty;   /* streams wrote to it since it was last synced */
    _Atomic bool dirty;          /* its lane did: see gb_lane_clean */
    _Atomic bool unsafe;         /* a sync failed: see gb_segment_sync */
    _Atomic bool failing;        /* the device refused a part of it: to be emptied and set aside */
    uint32_t slot;
    uint8_t drive;
    uint8_t lane;
    uint8_t status;
    bool guarded; /* holds a CLEAR that older segments of its lane still need */
    bool stuck;   /* it could not be emptied: left alone until the next open */
    bool named;   /* the checkpoint that was loaded tells of it */
    bool held;    /* and of objects in it */
    bool gone;    /* an exact one did, though it is free: they are lost */
    bool refused; /* it is failing because it could not be written or synced, not for a read */
    bool spare;   /* of a lost one: it is empty all the same, its headers wiped or never written */
    uint32_t failed_in; /* its drive's `returns` when it failed */
    uint8_t mend;       /* while opening: a bit for each header to be written, or wiped, anew */
    pthread_mutex_t sync_lock; /* a leaf: one gb_segment_sync at a time */
    int doubt; /* negative: at opening neither header could be read, nothing is known of it */
};

/* Names in a drive's directory. */
#define GB_SEGMENT_NAME    "%08u.seg"
#define GB_CHECKPOINT_NAME "CHECKPOINT"
#define GB_CHECKPOINT_NEW  ".new" /* behind it while it is being written */

/* Of a retired drive; the cleaner's, see trial.h. */
struct gb_trials {
    bool waiting;     /* for the next one */
    int64_t since_ms; /* the last one, or since the drive was retired, or has returned */
    int64_t pause_ms;
    uint32_t count; /* since it was retired */
};

struct gb_drive {
    char *dir;
    struct gb_file *identity_file; /* holds the lock */
    struct gb_identity identity;
    struct gb_alignment alignment;
    bool direct;
    bool full; /* had no room for the last file; tried again at need. Under the segments' lock */
    bool full_told;      /* by gb_segments_prepare; the same */
    uint64_t writes;     /* of one block each, to the identity, that are not counted yet */
    uint64_t syncs;      /* of the identity; the same */
    uint64_t read_bytes; /* of the identity, in one read */
    unsigned failures;   /* segments on it that failed; under the lock of the segments */
    bool retired;        /* too many have: it is not written to until a trial succeeds */
    uint32_t returns;    /* times that one did; as failures */
    struct gb_trials trials;
    bool refused; /* it did not take the identity of `identity.epoch` while being opened */
    bool missing; /* it is not there: its identity is deduced, its segments are lost */
    bool bereft;  /* what it held before this opening is lost, and was not lost before */
    bool pierced; /* a segment of it is: no header of it could be read */
};

struct gb_segments {
    struct gb_io *io;
    struct gb_tally *tally; /* of the store, for tapes and syncs; may be NULL */
    struct gb_drive *drives;
    unsigned drive_count;
    uint64_t segment_bytes;
    unsigned char store_id[16];
    uint32_t count;
    struct gb_segment *table;

    pthread_mutex_t lock;
    pthread_cond_t freed;         /* a slot has become free */
    pthread_mutex_t streams_lock; /* one gb_segments_sync_streams at a time */
    pthread_mutex_t strays_lock;  /* a leaf: over the drives' identities while the store is open */
    uint32_t free_count;
    uint32_t draining_count;
    _Atomic uint32_t failing_count;   /* segments that have failed since open */
    unsigned next_drive;              /* where the search for a free slot begins */
    _Atomic uint64_t live_user_bytes; /* keys, metadata and values of what lives */
};

/* Builds the table from the drives' identities. Borrows io and drives for life. */
int gb_segments_init(struct gb_segments *segments, struct gb_io *io, struct gb_drive *drives,
                     unsigned drive_count);
void gb_segments_fini(struct gb_segments *segments);

static inline struct gb_segment *gb_segment_at(struct gb_segments *segments, uint64_t place)
{
    return &segments->table[gb_place_slot(place)];
}

/* The drive that a lane keeps to while there is room, so that all records of a key lie on one;
 * drive_count: none, where the lanes cannot be dealt evenly. */
static inline unsigned gb_segments_home(const struct gb_segments *segments, unsigned lane)
{
    unsigned lanes = segments->drives[0].identity.lanes;
    bool even = lanes % segments->drive_count == 0;
    return even ? lane % segments->drive_count : segments->drive_count;
}

/* The path of a slot's file. */
int gb_segment_path(const struct gb_segments *segments, uint32_t slot, char *path, size_t len);

/* Opens the file of a slot, making it with `create`. */
int gb_segment_open_file(struct gb_segments *segments, struct gb_segment *segment, bool create);

/* Takes a free segment for a lane, file open and preallocated, leaving `reserve` free ones, and as
 * many with a file unless more can be made. `generation` is its number. -ENOSPC: none free, or no
 * room for its file; a fault of the file system otherwise (the slot is set aside as lost). */
int gb_segments_take(struct gb_segments *segments, unsigned lane, uint64_t generation,
                     uint32_t reserve, struct gb_segment **out);

/* For want of room the segment that was taken cannot be used: it is free again, as if its file
 * could not be made. What gb_segments_take says then. */
int gb_segments_give_back(struct gb_segments *segments, struct gb_segment *segment, int fault);

/* Makes files ahead, so that `ahead` free segments have one and gb_segments_take need not wait for
 * the file system. -ENOSPC is said once, not again while it lasts. */
int gb_segments_prepare(struct gb_segments *segments, uint32_t ahead);

void gb_segments_seal(struct gb_segments *segments, struct gb_segment *segment);

/* Holds records: what is older than a tombstone must not be there any more when that leaves. */
static inline bool gb_segment_is_log(const struct gb_segment *segment)
{
    return segment->status == GB_SEGMENT_OPEN || segment->status == GB_SEGMENT_SEALED ||
           segment->status == GB_SEGMENT_RECLAIMING || segment->status == GB_SEGMENT_DRAINING;
}

/* fdatasync, one at a time: of several at once the kernel may tell but one that writing back has
 * failed. Once it has, what was written before may be lost though later ones succeed; so all later
 * ones fail too; the segment is failing, and safe again is what the cleaner has moved
 * from it. */
int gb_segment_sync(struct gb_segments *segments, struct gb_segment *segment);

/* Syncs every segment that streams wrote to since its last sync. */
int gb_segments_sync_streams(struct gb_segments *segments);

/* The device failed in the segment: it takes no more, and the cleaner empties it. With `write`, its
 * drive is retired after GB_DRIVE_FAILURES_MAX of them. Returns whether it was now. */
#define GB_DRIVE_FAILURES_MAX 3u
bool gb_segments_fail(struct gb_segments *segments, struct gb_segment *segment, bool write);

/* Nothing names it any more, but readers may hold it still. */
void gb_segments_drain(struct gb_segments *segments, struct gb_segment *segment);
/* Its header could not be wiped: it stays as it is, until the next open. */
void gb_segments_strand(struct gb_segments *segments, struct gb_segment *segment);
/* No reader holds it: free again or, if it was failing, set aside: for what the device refused to
 * take until the drive has returned, else until the next open. */
void gb_segments_free(struct gb_segments *segments, struct gb_segment *segment);
/* Nothing can be freed now: wakes whoever waits for a free segment, to look again or give up. */
void gb_segments_none(struct gb_segments *segments);
/* Back to sealed: it could not be emptied. */
void gb_segments_keep(struct gb_segments *segments, struct gb_segment *segment);

/* Whether every drive that is there has been retired. */
bool gb_segments_retired(struct gb_segments *segments);
bool gb_segments_is_retired(struct gb_segments *segments, unsigned drive);
/* The next empty segment behind `last` (NULL: the first) of a retired drive, or NULL; it is the
 * caller's to write to. */
struct gb_segment *gb_segments_spare(struct gb_segments *segments, unsigned drive,
                                     const struct gb_segment *last);
/* What could not be emptied, or freed, may be tried again. */
void gb_segments_unstick(struct gb_segments *segments, unsigned drive);
/* A retired drive is written to again: its empty segments are free. */
void gb_segments_return(struct gb_segments *segments, unsigned drive);

/* Free ones that can be taken: where others have filled the file system, those with a file. */
uint32_t gb_segments_free_count(struct gb_segments *segments);
uint32_t gb_segments_free_count_locked(const struct gb_segments *segments);
/* Those that are not free, whether they can be taken or not. */
uint32_t gb_segments_used_count(struct gb_segments *segments);
/* Free ones and those that will be when their readers are done. */
uint32_t gb_segments_coming_count(struct gb_segments *segments);

/* ---- accounts ---------------------------------------------------------------------------- */

/* Bytes that a record with such a key and payload counts for (without alignment). */
static inline uint64_t gb_span(uint32_t key_len, uint64_t payload_len)
{
    return GB_RECORD_HEADER + key_len + payload_len + gb_units(payload_len) * GB_SUM_SIZE;
}

/* A record was laid, or room for a piece of a stream; the lane is locked. */
static inline void gb_segment_count_laid(struct gb_segment *segment, const struct gb_record *record)
{
    bool extent = record->type == GB_RECORD_EXTENT;
    uint64_t payload = extent ? record->size : gb_record_inline_len(record);
    uint64_t span = gb_span(record->key_len, payload);
    atomic_fetch_add_explicit(&segment->laid_bytes, span, memory_order_relaxed);
    if (!extent && record->type != GB_RECORD_PUT) {
        atomic_fetch_add_explicit(&segment->kept_bytes, span, memory_order_relaxed);
    }
}

/* Sums over all segments, which is how the sum is kept off the path of every put. */
uint64_t gb_segments_live_bytes(const struct gb_segments *segments);

static inline void gb_segments_born(struct gb_segments *segments, uint64_t place, uint64_t span)
{
    atomic_fetch_add_explicit(&gb_segment_at(segments, place)->live_bytes, span,
                              memory_order_relaxed);
}

static inline void gb_segments_died(struct gb_segments *segments, uint64_t place, uint64_t span)
{
    atomic_fetch_sub_explicit(&gb_segment_at(segments, place)->live_bytes, span,
                              memory_order_relaxed);
}

#endif
