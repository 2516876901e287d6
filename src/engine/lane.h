/*
 * Lanes: the append streams of the disk log.
 *
 * A key belongs to the lane that its hash chooses, for good, so all records of a key lie in one
 * lane in the order of their sequence numbers. That is what lets the oldest segment of a lane
 * leave without a trace: nothing older of its keys can come back.
 *
 * A lane fills aligned write blocks and hands full ones to the device; a few are in flight at once.
 * Appending is in three steps under the lane's lock: gb_lane_begin lays key and payload and leaves
 * the header open; then the caller publishes under the key's bucket lock, which is when the
 * sequence number is drawn; then gb_lane_commit stamps the header, or gb_lane_cancel takes it all
 * back. A block is not written while a header in it is open.
 *
 * Lock order: lane -> bucket -> (arena, segments).
 */
#ifndef GB_ENGINE_LANE_H
#define GB_ENGINE_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/arena.h"
#include "engine/counters.h"
#include "engine/format.h"
#include "engine/io.h"
#include "engine/segment.h"

struct goblin;

#define GB_LANES_MAX       16u
#define GB_LANE_BLOCKS_MAX 6u
#define GB_LANE_DIRTY_MAX  8u

enum gb_write_state { GB_WRITE_FREE, GB_WRITE_FILLING, GB_WRITE_HELD, GB_WRITE_IN_FLIGHT };

struct gb_write_block {
    unsigned char *data; /* NULL: not made, or given back */
    struct gb_segment *segment;
    uint64_t offset; /* of data[0] in its segment */
    uint32_t fill;
    uint32_t state;
    uint64_t serial;       /* rises with every block the lane starts */
    uint64_t spills_from;  /* offset of the record that began in the block before; 0: none */
    uint64_t first_record; /* offset of the first that begins here; 0: none */
    int64_t since_ns;      /* when its first byte came */
};

/* A block that the device refused; see lane_rescue.c. */
struct gb_rescue {
    struct gb_rescue *next; /* of a higher serial */
    unsigned char *data;
    struct gb_segment *segment;
    uint64_t offset;
    uint32_t fill;
    uint64_t serial;
    uint64_t spills_from;
    uint64_t first_record;
    bool lost; /* some of it */
    bool done; /* its records are elsewhere */
};

/* A segment that waits for its footer: everything is submitted, not all written. */
struct gb_sealing {
    struct gb_sealing *next;
    struct gb_segment *segment;
    struct gb_segment_footer footer;
    bool whole; /* the summary is; without it there will be no footer, and recovery scans */
};

struct gb_lane {
    pthread_mutex_t lock;
    struct goblin *store;
    unsigned number;

    struct gb_segment *segment; /* open one, or NULL */
    uint64_t position;          /* where the next byte goes in it */
    unsigned kept_for; /* enum gb_claim: it was one of the last free ones, taken for such appends;
                          others may not fill it yet */
    struct gb_write_block blocks[GB_LANE_BLOCKS_MAX];
    unsigned block_count; /* that it may have at once; made when needed, freed when idle */
    struct gb_write_block *current; /* NULL: none */
    uint64_t next_serial;
    struct gb_rescue *rescues;
    struct gb_rescue *spare_rescue;
    bool rescuing;
    uint64_t lost_serial;      /* a block that could not be saved; 0: none */
    _Atomic uint64_t moved_to; /* what was to be in blocks up to here may be in this one */
    struct gb_queue *queue;

    unsigned char *summary; /* entries of the open segment since its last piece */
    uint32_t summary_len;
    uint32_t summary_count;
    bool summary_failed;             /* some record is not in it */
    struct gb_segment_footer footer; /* of the open segment, as it grows */
    struct gb_sealing *sealing;

    struct gb_cursor cursor; /* where this lane's new items go in RAM */
    struct gb_tally tally;

    pthread_mutex_t sync_lock; /* guards the next three; never taken with `lock` held */
    pthread_cond_t sync_done;
    bool syncing;
    uint64_t synced_serial; /* blocks up to here are safe */

    /* Written to since their last sync; under `lock`. More than these have only the flag that all
     * of them have. */
    struct gb_segment *dirty[GB_LANE_DIRTY_MAX];
    unsigned dirty_count;
    bool dirty_beyond;
};

int gb_lane_init(struct gb_lane *lane, struct goblin *store, unsigned number);
void gb_lane_fini(struct gb_lane *lane);

static inline void gb_lane_lock(struct gb_lane *lane)
{
    (void)pthread_mutex_lock(&lane->lock);
}

/* Only if nobody holds it for longer than an append takes. */
bool gb_lane_try_lock(struct gb_lane *lane);

static inline void gb_lane_unlock(struct gb_lane *lane)
{
    (void)pthread_mutex_unlock(&lane->lock);
}

/* ---- appending, all with the lane locked --------------------------------------------------- */

/* How far an append may go into the last free segments. */
enum gb_claim {
    GB_CLAIM_PLAIN,  /* waits, and fails in the end, while only the reserve is free */
    GB_CLAIM_DELETE, /* what makes room for others: all but the cleaner's one */
    GB_CLAIM_MOVE,   /* the cleaner's: the last one too */
};

struct gb_append {
    struct gb_record record; /* in: all but the sequence */
    const void *key;         /* in */
    const void *parts[2];    /* in: the inline payload, in up to two parts */
    size_t part_len[2];
    const unsigned char *extents; /* in: PUT with extent_count: the encoded list (also parts[0]) */
    enum gb_claim claim;          /* in */
    bool nowait;                  /* in: gb_lane_begin says -EAGAIN rather than that it, or the
                                     commit, waits */

    uint64_t offset;         /* out: of the record */
    struct gb_layout layout; /* out */
    unsigned char *header;   /* where it will be stamped */
    struct gb_write_block *first;
    uint32_t first_fill;
    uint64_t first_position;
};

/* The largest inline payload a record may have. */
uint32_t gb_lane_inline_max(const struct goblin *store);

/* Lays key and payload. The lane may be unlocked and locked again while it waits for a free
 * segment. -ENOSPC: the store is full; -EAGAIN: see `nowait`; -EIO and others: the device. */
int gb_lane_begin(struct gb_lane *lane, struct gb_append *append);
/* Returns the serial to wait for. */
uint64_t gb_lane_commit(struct gb_lane *lane, struct gb_append *append, uint64_t sequence);
void gb_lane_cancel(struct gb_lane *lane, struct gb_append *append);

/* Room for a piece of a stream: an EXTENT record for up to `want` payload bytes, at least `least`.
 * The caller writes payload and table itself, then lowers segment->pending. */
struct gb_room {
    enum gb_claim claim; /* in */
    struct gb_segment *segment;
    uint64_t offset; /* of the payload, on a GB_BLOCK boundary */
    uint64_t len;
};
int gb_lane_reserve(struct gb_lane *lane, struct goblin_slice key, uint64_t stream, uint64_t want,
                    uint64_t least, struct gb_room *room);

/* ---- durability, with the lane unlocked ---------------------------------------------------- */

/* Hands the filling block to the device if it is older than `min_age_ns`. */
int gb_lane_flush(struct gb_lane *lane, int64_t min_age_ns);
/* Gives the memory of blocks back that have been free for `min_age_ns`. */
void gb_lane_trim(struct gb_lane *lane, int64_t min_age_ns);
/* The newest serial begun. */
uint64_t gb_lane_serial(struct gb_lane *lane);
/* Blocks until the block `serial` and all before it are on the device (and synced). */
int gb_lane_written(struct gb_lane *lane, uint64_t serial);
int gb_lane_synced(struct gb_lane *lane, uint64_t serial);
/* Seals the open segment, if it has anything in it. */
int gb_lane_roll(struct gb_lane *lane);
/* Writes the footers of segments that wait for one. With `all`, waits for the device first, so that
 * none is left but those with streams still running. */
int gb_lane_settle(struct gb_lane *lane, bool all);

/* ---- reading what is not written yet ------------------------------------------------------- */

/* Copies [offset, offset + len) of `segment` from the lane's blocks if all of it is there; `end`:
 * where the sums of these bytes end.
 * 1: copied; 0: the device has everything up to `end` now; negative: the write failed. */
int gb_lane_fetch(struct gb_lane *lane, struct gb_segment *segment, uint64_t offset, void *to,
                  uint32_t len, uint64_t end);

#endif
