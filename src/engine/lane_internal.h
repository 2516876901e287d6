/* What the files of a lane share. All with the lane locked. */
#ifndef GB_ENGINE_LANE_INTERNAL_H
#define GB_ENGINE_LANE_INTERNAL_H

#include "engine/lane.h"

int64_t gb_lane_now_ns(void);

/* Hands a block to the device, padded to GB_BLOCK. */
int gb_lane_submit(struct gb_lane *lane, struct gb_write_block *block);

/* Takes finished writes; timeout as in queue_reap. */
int gb_lane_reap(struct gb_lane *lane, int timeout_ms);

/* The device refused the block, or shall not have it: its records are to go elsewhere. */
void gb_lane_detach(struct gb_lane *lane, struct gb_write_block *block);
/* Appends them again; no append is open. Returns 0 if none waits any more. */
int gb_lane_rescue(struct gb_lane *lane);
bool gb_lane_rescue_pending(const struct gb_lane *lane, uint64_t serial);
void gb_lane_rescue_fini(struct gb_lane *lane);

/* Copies bytes of which some are only in a block that failed. 1, or the fault of reading others. */
int gb_lane_assemble(const struct gb_lane *lane, const struct gb_segment *segment, uint64_t offset,
                     void *to, uint32_t len);

/* The segment, in which the lane writes no more, has been synced or holds nothing: it is no longer
 * among those to be synced. */
void gb_lane_clean(struct gb_lane *lane, struct gb_segment *segment);

/* A failing segment of the lane holds nothing any more: it need not be synced. Locks the lane. */
void gb_lane_saved(struct gb_lane *lane, struct gb_segment *segment);

/* Gives a block's memory back to the system. */
void gb_lane_free_block(struct gb_lane *lane, unsigned char *data);

/* Recomputes how far a segment is written. */
void gb_lane_advance(struct gb_lane *lane, struct gb_segment *segment);

/* Closes the open segment for appends; its footer follows in gb_lane_settle. */
int gb_lane_seal(struct gb_lane *lane);

/* Opens another one that leaves to others what the claim must leave. */
int gb_lane_open_segment(struct gb_lane *lane, enum gb_claim claim);

/* What the rest of the summary takes; what others have appended while the lane was unlocked
 * counts. */
uint64_t gb_lane_summary_room(const struct gb_lane *lane);
/* The end of the segment, which is left to deletes where the reserve has not one for each lane. */
uint64_t gb_lane_kept_end(const struct gb_lane *lane, enum gb_claim claim);
/* Whether the open segment takes so many bytes more. */
bool gb_lane_has_room(struct gb_lane *lane, uint64_t need, enum gb_claim claim);

/* An open segment with `need` bytes left. May unlock and lock the lane. */
int gb_lane_ready(struct gb_lane *lane, uint64_t need, enum gb_claim claim);

/* Waits, with the lane unlocked, until the cleaner has freed a segment for such appends, or has
 * found nothing: -ENOSPC. Not for the cleaner. */
int gb_lane_wait(struct gb_lane *lane, enum gb_claim claim);

/* Free segments that such appends must leave. */
uint32_t gb_lane_reserve_segments(const struct goblin *store, enum gb_claim claim);

#endif
