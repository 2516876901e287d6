/* Lanes, durability: finished writes, group-committed syncs, footers of sealed segments, and
 * reading back what the device does not have yet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/lane_internal.h"
#include "engine/store.h"

#define RESCUES_MAX 8u /* abandoned segments in a row before a write is given up */

void gb_lane_advance(struct gb_lane *lane, struct gb_segment *segment)
{
    uint64_t written = segment == lane->segment ? lane->position : segment->used_bytes;
    for (unsigned i = 0; i < lane->block_count; i++) {
        const struct gb_write_block *block = &lane->blocks[i];
        if (block->state != GB_WRITE_FREE && block->segment == segment) {
            written = gb_min(written, block->offset);
        }
    }
    for (const struct gb_rescue *rescue = lane->rescues; rescue != NULL; rescue = rescue->next) {
        if (rescue->segment == segment) {
            written = gb_min(written, rescue->offset);
        }
    }
    /* Release: pairs with the acquire load of a reader that then reads the device. */
    atomic_store_explicit(&segment->written, written, memory_order_release);
}

/* A lane that seals faster than the keeper settles has more than the list takes: whoever syncs next
 * then looks through the lane's segments for the others. */
static void note_dirty(struct gb_lane *lane, struct gb_segment *segment)
{
    if (atomic_exchange(&segment->dirty, true)) {
        return;
    }
    if (lane->dirty_count < GB_LANE_DIRTY_MAX) {
        lane->dirty[lane->dirty_count++] = segment;
    } else {
        lane->dirty_beyond = true;
    }
}

void gb_lane_clean(struct gb_lane *lane, struct gb_segment *segment)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < lane->dirty_count; i++) {
        if (lane->dirty[i] != segment) {
            lane->dirty[kept++] = lane->dirty[i];
        }
    }
    lane->dirty_count = kept;
    atomic_store(&segment->dirty, false);
}

int gb_lane_reap(struct gb_lane *lane, int timeout_ms)
{
    struct gb_event events[GB_LANE_BLOCKS_MAX];
    const struct gb_io_ops *ops = lane->queue->io->ops;
    int count = ops->queue_reap(lane->queue, events, GB_LANE_BLOCKS_MAX, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct gb_write_block *block = events[i].tag;
        struct gb_segment *segment = block->segment;
        if (events[i].result < 0) {
            gb_tally_add(&lane->tally, GB_COUNT_write_errors, 1);
            gb_store_write_failed(lane->store, segment, block->offset, events[i].result);
            gb_lane_detach(lane, block);
        }
        block->state = GB_WRITE_FREE;
        note_dirty(lane, segment);
        gb_lane_advance(lane, segment);
    }
    return count;
}

int gb_lane_flush(struct gb_lane *lane, int64_t min_age_ns)
{
    int rc = 0;
    gb_lane_lock(lane);
    struct gb_write_block *block = lane->current;
    if (block != NULL && block->fill > 0 && gb_lane_now_ns() - block->since_ns >= min_age_ns) {
        rc = gb_lane_submit(lane, block);
    }
    (void)gb_lane_reap(lane, 0);
    if (lane->segment != NULL && atomic_load(&lane->segment->failing)) {
        (void)gb_lane_seal(lane); /* so that the cleaner can empty it */
    }
    (void)gb_lane_rescue(lane);
    gb_lane_unlock(lane);
    return rc;
}

uint64_t gb_lane_serial(struct gb_lane *lane)
{
    gb_lane_lock(lane);
    uint64_t serial = lane->next_serial - 1;
    gb_lane_unlock(lane);
    return serial;
}

static bool in_flight_up_to(const struct gb_lane *lane, uint64_t serial)
{
    for (unsigned i = 0; i < lane->block_count; i++) {
        if (lane->blocks[i].state == GB_WRITE_IN_FLIGHT && lane->blocks[i].serial <= serial) {
            return true;
        }
    }
    return false;
}

/* Where what was begun in the block `serial` is now, at the latest. */
static uint64_t moved(const struct gb_lane *lane, uint64_t serial)
{
    uint64_t moved_to = atomic_load(&lane->moved_to);
    return serial < moved_to ? moved_to : serial;
}

static int written_locked(struct gb_lane *lane, uint64_t serial)
{
    for (unsigned tries = 0; tries < RESCUES_MAX; tries++) {
        int rc = 0;
        uint64_t until = moved(lane, serial);
        if (lane->current != NULL && lane->current->serial <= until) {
            rc = gb_lane_submit(lane, lane->current);
        }
        while (rc >= 0 && in_flight_up_to(lane, until)) {
            rc = gb_lane_reap(lane, -1);
        }
        if (rc >= 0 && !gb_lane_rescue_pending(lane, until)) {
            /* From the first block that was lost on, nobody can be told that all before his is
             * safe. */
            return lane->lost_serial != 0 && lane->lost_serial <= until ? -EIO : 0;
        }
        if (rc < 0 || gb_lane_rescue(lane) < 0) {
            return rc < 0 ? rc : -EIO; /* also for want of room: the device has refused it */
        }
    }
    return -EIO;
}

int gb_lane_written(struct gb_lane *lane, uint64_t serial)
{
    gb_lane_lock(lane);
    int rc = written_locked(lane, serial);
    gb_lane_unlock(lane);
    return rc;
}

/* A dirty segment of the lane that its list had no place for, from the slot *at on. */
static struct gb_segment *take_beyond(const struct gb_lane *lane, uint32_t *at)
{
    struct gb_segments *segments = &lane->store->segments;
    struct gb_segment *found = NULL;
    (void)pthread_mutex_lock(&segments->lock);
    for (; found == NULL && *at < segments->count; ++*at) {
        struct gb_segment *segment = &segments->table[*at];
        if (segment->lane == lane->number && gb_segment_is_log(segment) &&
            atomic_exchange(&segment->dirty, false)) {
            found = segment;
        }
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return found;
}

static bool is_emptied(struct gb_segments *segments, const struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    bool emptied = segment->status == GB_SEGMENT_DRAINING || !gb_segment_is_log(segment);
    (void)pthread_mutex_unlock(&segments->lock);
    return emptied;
}

/* With the lane unlocked: the cleaner may be done with the segment before the sync is. */
static int sync_segment(struct gb_lane *lane, struct gb_segment *segment)
{
    int rc = gb_segment_sync(&lane->store->segments, segment);
    if (rc < 0) {
        gb_lane_lock(lane);
        if (!is_emptied(&lane->store->segments, segment)) {
            note_dirty(lane, segment);
        }
        gb_lane_unlock(lane);
    }
    return rc;
}

/* Syncs every segment with blocks on the device; returns the serial up to which they are safe. */
static int sync_dirty(struct gb_lane *lane, uint64_t serial, uint64_t *safe)
{
    gb_lane_lock(lane);
    int rc = written_locked(lane, serial);
    struct gb_segment *dirty[GB_LANE_DIRTY_MAX];
    unsigned count = lane->dirty_count;
    bool beyond = lane->dirty_beyond;
    memcpy(dirty, lane->dirty, sizeof(dirty));
    for (unsigned i = 0; i < count; i++) {
        atomic_store(&dirty[i]->dirty, false);
    }
    lane->dirty_count = 0;
    lane->dirty_beyond = false;
    *safe = lane->next_serial - 1;
    for (unsigned i = 0; i < lane->block_count; i++) {
        if (lane->blocks[i].state != GB_WRITE_FREE) {
            *safe = gb_min(*safe, lane->blocks[i].serial - 1);
        }
    }
    for (const struct gb_rescue *rescue = lane->rescues; rescue != NULL; rescue = rescue->next) {
        if (!rescue->done) {
            *safe = gb_min(*safe, rescue->serial - 1);
        }
    }
    gb_lane_unlock(lane);
    for (unsigned i = 0; i < count; i++) {
        int synced = sync_segment(lane, dirty[i]);
        rc = rc < 0 ? rc : synced;
    }
    uint32_t at = 0;
    for (struct gb_segment *segment = NULL; beyond && (segment = take_beyond(lane, &at)) != NULL;) {
        int synced = sync_segment(lane, segment);
        rc = rc < 0 ? rc : synced;
    }
    return rc;
}

int gb_lane_synced(struct gb_lane *lane, uint64_t serial)
{
    int rc = 0;
    (void)pthread_mutex_lock(&lane->sync_lock);
    while (rc >= 0 && lane->synced_serial < moved(lane, serial)) {
        if (lane->syncing) {
            (void)pthread_cond_wait(&lane->sync_done, &lane->sync_lock);
            continue;
        }
        lane->syncing = true;
        (void)pthread_mutex_unlock(&lane->sync_lock);
        uint64_t safe = 0;
        rc = sync_dirty(lane, serial, &safe);
        (void)pthread_mutex_lock(&lane->sync_lock);
        lane->syncing = false;
        if (rc >= 0) {
            lane->synced_serial = gb_max(lane->synced_serial, safe);
        }
        (void)pthread_cond_broadcast(&lane->sync_done);
    }
    (void)pthread_mutex_unlock(&lane->sync_lock);
    return rc < 0 ? rc : 0;
}

int gb_lane_roll(struct gb_lane *lane)
{
    int rc = 0;
    gb_lane_lock(lane);
    if (lane->segment != NULL && lane->position > GB_SEGMENT_HEADER) {
        rc = gb_lane_seal(lane);
    }
    gb_lane_unlock(lane);
    return rc;
}

/* ---- footers ------------------------------------------------------------------------------- */

/* Unlinks one segment whose last byte is on the device and whose streams have ended. */
static struct gb_sealing *take_settled(struct gb_lane *lane, bool *more)
{
    struct gb_sealing *found = NULL;
    gb_lane_lock(lane);
    (void)gb_lane_reap(lane, 0);
    for (struct gb_sealing **at = &lane->sealing; *at != NULL; at = &(*at)->next) {
        struct gb_segment *segment = (*at)->segment;
        if (atomic_load(&segment->written) >= segment->used_bytes &&
            atomic_load(&segment->pending) == 0) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    *more = lane->sealing != NULL;
    gb_lane_unlock(lane);
    return found;
}

/* A footer says that its records, and the streams that they list, are safe: synced first. */
static int write_footer(struct gb_lane *lane, const struct gb_sealing *sealing)
{
    struct goblin *store = lane->store;
    struct gb_segment *segment = sealing->segment;
    void *block = NULL;
    if (posix_memalign(&block, GB_BLOCK, GB_BLOCK) != 0) {
        return -ENOMEM;
    }
    gb_segment_footer_encode(&sealing->footer, segment->salt, block);
    const struct gb_io_ops *ops = store->io->ops;
    int rc = gb_segment_sync(&store->segments, segment);
    if (rc >= 0) {
        gb_lane_lock(lane);
        gb_lane_clean(lane, segment);
        gb_lane_unlock(lane);
        rc = gb_segments_sync_streams(&store->segments);
    }
    if (rc >= 0) {
        int64_t n = ops->file_write(segment->file, block, GB_BLOCK,
                                    store->segments.segment_bytes - GB_SEGMENT_FOOTER);
        rc = n < 0 ? (int)n : 0;
        gb_store_count_write(store, GB_BLOCK);
    }
    free(block);
    return rc;
}

int gb_lane_settle(struct gb_lane *lane, bool all)
{
    int rc = all ? gb_lane_written(lane, gb_lane_serial(lane)) : 0;
    bool more = rc >= 0;
    while (more) {
        struct gb_sealing *sealing = take_settled(lane, &more);
        if (sealing == NULL) {
            break;
        }
        int wrote = sealing->whole ? write_footer(lane, sealing) : 0;
        if (wrote < 0) {
            gb_store_log(lane->store, GOBLIN_LOG_ERROR, "sealing segment %u failed: %s",
                         sealing->segment->slot, goblin_strerror(wrote));
            rc = wrote;
        }
        gb_segments_seal(&lane->store->segments, sealing->segment);
        free(sealing);
    }
    return rc;
}

/* ---- reading back -------------------------------------------------------------------------- */

static bool copy_from_blocks(const struct gb_lane *lane, const struct gb_segment *segment,
                             uint64_t offset, unsigned char *to, uint32_t len)
{
    while (len > 0) {
        uint32_t n = 0;
        for (unsigned i = 0; i < lane->block_count && n == 0; i++) {
            const struct gb_write_block *block = &lane->blocks[i];
            if (block->state == GB_WRITE_FREE || block->segment != segment ||
                offset < block->offset) {
                continue;
            }
            uint64_t skip = offset - block->offset;
            uint64_t there = block->state == GB_WRITE_IN_FLIGHT ? gb_align_up(block->fill, GB_BLOCK)
                                                                : block->fill;
            if (skip < there) {
                n = (uint32_t)gb_min(len, there - skip);
                memcpy(to, block->data + skip, n);
            }
        }
        for (const struct gb_rescue *rescue = lane->rescues; rescue != NULL && n == 0;
             rescue = rescue->next) {
            uint64_t there = rescue->offset + gb_align_up(rescue->fill, GB_BLOCK);
            if (rescue->segment == segment && offset >= rescue->offset && offset < there) {
                n = (uint32_t)gb_min(len, there - offset);
                memcpy(to, rescue->data + (offset - rescue->offset), n);
            }
        }
        if (n == 0) {
            return false;
        }
        offset += n;
        to += n;
        len -= n;
    }
    return true;
}

int gb_lane_fetch(struct gb_lane *lane, struct gb_segment *segment, uint64_t offset, void *to,
                  uint32_t len, uint64_t end)
{
    int rc = 0;
    gb_lane_lock(lane);
    (void)gb_lane_reap(lane, 0);
    if (atomic_load(&segment->written) < end) {
        if (copy_from_blocks(lane, segment, offset, to, len)) {
            rc = 1;
        } else {
            /* Partly on the device: let it have the rest, if it takes it. If not, what it has and
             * what is kept for it make the whole, unless something of that was lost. */
            int wrote = written_locked(lane, lane->next_serial - 1);
            if (atomic_load(&segment->written) < end) {
                rc = wrote == 0 || lane->lost_serial == 0
                         ? gb_lane_assemble(lane, segment, offset, to, len)
                         : wrote;
            }
        }
    }
    gb_lane_unlock(lane);
    return rc;
}
