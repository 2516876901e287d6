/* What lane.c and lane_sync.c share. All with the lane locked. */
#ifndef GB_ENGINE_LANE_INTERNAL_H
#define GB_ENGINE_LANE_INTERNAL_H

#include "engine/lane.h"

int64_t gb_lane_now_ns(void);

/* Hands a block to the device, padded to GB_BLOCK. */
int gb_lane_submit(struct gb_lane *lane, struct gb_write_block *block);

/* Takes finished writes; timeout as in queue_reap. */
int gb_lane_reap(struct gb_lane *lane, int timeout_ms);

/* Recomputes how far a segment is written. */
void gb_lane_advance(struct gb_lane *lane, struct gb_segment *segment);

/* Closes the open segment for appends; its footer follows in gb_lane_settle. */
int gb_lane_seal(struct gb_lane *lane);

/* An open segment with `need` bytes left. May unlock and lock the lane. */
int gb_lane_ready(struct gb_lane *lane, uint64_t need, enum gb_claim claim);

/* Free segments that such appends must leave. */
uint32_t gb_lane_reserve_segments(const struct goblin *store, enum gb_claim claim);

#endif
