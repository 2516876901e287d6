/* Lanes, appending: write blocks, records, summaries. When to turn to another segment, and waiting
 * for room, stand in lane_room.c, durability and reading back in lane_sync.c. */
#include "engine/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/pause.h"
#include "engine/drive.h"
#include "engine/headers.h"
#include "engine/iomem.h"
#include "engine/lane_internal.h"
#include "engine/store.h"

#define LANE_UNITS_MAX 512u /* of a record: what fits into the largest write block */
#define SUMMARY_PIECES 512u /* of a segment's size, one piece of the summary */

static uint32_t summary_piece_bytes(const struct gb_lane *lane)
{
    uint64_t bytes = gb_max(lane->store->segments.segment_bytes / SUMMARY_PIECES, 16 * GB_KIB);
    return (uint32_t)gb_min(bytes, lane->store->options.write_block_bytes / 4);
}

uint32_t gb_lane_inline_max(const struct goblin *store)
{
    uint64_t block = store->options.write_block_bytes;
    return (uint32_t)gb_align_down(
        gb_min(block, store->segments.segment_bytes / 4) - 3 * (uint64_t)GB_BLOCK, GB_BLOCK);
}

int64_t gb_lane_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int gb_lane_init(struct gb_lane *lane, struct goblin *store, unsigned number)
{
    *lane = (struct gb_lane){.store = store, .number = number, .next_serial = 1};
    gb_cursor_init(&lane->cursor, GB_BLOCK_HOT);
    (void)pthread_mutex_init(&lane->lock, NULL);
    (void)pthread_mutex_init(&lane->sync_lock, NULL);
    (void)pthread_cond_init(&lane->sync_done, NULL);
    uint64_t share = store->options.memory_bytes / 24 / store->lane_count;
    lane->block_count =
        (unsigned)gb_max(2, gb_min(share / store->options.write_block_bytes, GB_LANE_BLOCKS_MAX));
    size_t summary_bytes = (size_t)summary_piece_bytes(lane) + GB_ENTRY_MAX;
    lane->summary = malloc(summary_bytes);
    lane->spare_rescue = malloc(sizeof(*lane->spare_rescue));
    if (lane->summary == NULL || lane->spare_rescue == NULL) {
        return -ENOMEM;
    }
    atomic_fetch_add(&store->budget.other, summary_bytes);
    return store->io->ops->queue_create(store->io, GB_LANE_BLOCKS_MAX, &lane->queue);
}

void gb_lane_fini(struct gb_lane *lane)
{
    if (lane->store == NULL) {
        return;
    }
    if (lane->queue != NULL) {
        lane->queue->io->ops->queue_destroy(lane->queue);
    }
    for (unsigned i = 0; i < lane->block_count; i++) {
        gb_iomem_unmap(lane->blocks[i].data, lane->store->options.write_block_bytes);
    }
    gb_lane_rescue_fini(lane);
    while (lane->sealing != NULL) {
        struct gb_sealing *next = lane->sealing->next;
        free(lane->sealing);
        lane->sealing = next;
    }
    free(lane->summary);
    (void)pthread_mutex_destroy(&lane->lock);
    (void)pthread_mutex_destroy(&lane->sync_lock);
    (void)pthread_cond_destroy(&lane->sync_done);
    lane->store = NULL;
}

/* ---- write blocks -------------------------------------------------------------------------- */

static void start_block(struct gb_lane *lane, struct gb_write_block *block)
{
    block->state = GB_WRITE_FILLING;
    block->segment = lane->segment;
    block->offset = lane->position;
    block->fill = 0;
    block->serial = lane->next_serial++;
    block->spills_from = 0;
    block->first_record = 0;
    block->since_ns = gb_lane_now_ns();
    lane->current = block;
    GB_ASSERT(block->offset % GB_BLOCK == 0);
}

static int make_block(struct gb_lane *lane, struct gb_write_block *block)
{
    block->data = gb_iomem_map(lane->store->options.write_block_bytes);
    if (block->data == NULL) {
        return -ENOMEM;
    }
    /* Never refused: gb_lane_init saw to it that so many blocks fit. */
    (void)gb_store_take_memory(lane->store, &lane->store->budget.write,
                               lane->store->options.write_block_bytes, UINT64_MAX);
    return 0;
}

void gb_lane_free_block(struct gb_lane *lane, unsigned char *data)
{
    gb_iomem_unmap(data, lane->store->options.write_block_bytes);
    atomic_fetch_sub(&lane->store->budget.write, lane->store->options.write_block_bytes);
}

void gb_lane_trim(struct gb_lane *lane, int64_t min_age_ns)
{
    gb_lane_lock(lane);
    int64_t now = gb_lane_now_ns();
    for (unsigned i = 0; i < lane->block_count; i++) {
        struct gb_write_block *block = &lane->blocks[i];
        if (block->data != NULL && block->state == GB_WRITE_FREE &&
            now - block->since_ns >= min_age_ns) {
            gb_lane_free_block(lane, block->data);
            block->data = NULL;
        }
    }
    gb_lane_unlock(lane);
}

/* A free block at the lane's position: one that is there, a new one, or the first to come back. */
static int next_block(struct gb_lane *lane)
{
    for (;;) {
        struct gb_write_block *spare = NULL;
        for (unsigned i = 0; i < lane->block_count; i++) {
            struct gb_write_block *block = &lane->blocks[i];
            if (block->state == GB_WRITE_FREE && (spare == NULL || spare->data == NULL)) {
                spare = block;
            }
        }
        if (spare != NULL && spare->data == NULL) {
            (void)gb_lane_reap(lane, 0);
            for (unsigned i = 0; i < lane->block_count; i++) {
                if (lane->blocks[i].state == GB_WRITE_FREE && lane->blocks[i].data != NULL) {
                    spare = &lane->blocks[i];
                }
            }
        }
        if (spare != NULL && (spare->data != NULL || make_block(lane, spare) == 0)) {
            start_block(lane, spare);
            return 0;
        }
        if (spare != NULL && lane->queue->io->ops->queue_in_flight(lane->queue) == 0) {
            return -ENOMEM;
        }
        int rc = gb_lane_reap(lane, -1);
        if (rc < 0) {
            return rc;
        }
    }
}

int gb_lane_submit(struct gb_lane *lane, struct gb_write_block *block)
{
    GB_ASSERT(block->state == GB_WRITE_FILLING || block->state == GB_WRITE_HELD);
    const struct gb_io_ops *ops = lane->queue->io->ops;
    uint32_t len = (uint32_t)gb_align_up(block->fill, GB_BLOCK);
    memset(block->data + block->fill, 0, len - block->fill);
    if (block == lane->current) {
        lane->position = block->offset + len;
        lane->current = NULL;
    }
    if (len == 0) {
        block->state = GB_WRITE_FREE;
        return 0;
    }
    const struct gb_operation write = {
        .op = GB_OP_WRITE,
        .file = block->segment->file,
        .buffer = block->data,
        .len = len,
        .offset = block->offset,
        .tag = block,
    };
    block->state = GB_WRITE_IN_FLIGHT;
    int rc = ops->queue_prepare(lane->queue, &write);
    if (rc == 0) {
        rc = ops->queue_submit(lane->queue);
    }
    gb_tally_add(&lane->tally, GB_COUNT_device_writes, 1);
    gb_tally_add(&lane->tally, GB_COUNT_device_write_bytes, len);
    gb_admission_charge(&lane->store->admission, len);
    return rc < 0 ? rc : 0;
}

/* ---- laying bytes at the position ---------------------------------------------------------- */

/* Appends to the current block and, when that is full, to the next; the full one is held until its
 * open header is stamped. */
static int lay_across(struct gb_lane *lane, const void *data, uint64_t len)
{
    const unsigned char *from = data;
    uint32_t block_bytes = lane->store->options.write_block_bytes;
    while (len > 0) {
        struct gb_write_block *block = lane->current;
        if (block == NULL || block->fill == block_bytes) {
            if (block != NULL) {
                block->state = GB_WRITE_HELD;
                lane->current = NULL;
            }
            int rc = next_block(lane);
            if (rc < 0) {
                return rc;
            }
            block = lane->current;
        }
        uint32_t n = (uint32_t)gb_min(len, block_bytes - block->fill);
        memcpy(block->data + block->fill, from, n);
        from += n;
        block->fill += n;
        lane->position += n;
        len -= n;
    }
    return 0;
}

/* The same, at once where there is room, as there nearly always is. */
static inline int lay(struct gb_lane *lane, const void *data, uint64_t len)
{
    struct gb_write_block *block = lane->current;
    if (block == NULL || len > lane->store->options.write_block_bytes - block->fill) {
        return lay_across(lane, data, len);
    }
    if (len > 0) {
        memcpy(block->data + block->fill, data, len);
        block->fill += (uint32_t)len;
        lane->position += len;
    }
    return 0;
}

/* Zeroes; never more than an alignment's worth. */
static int lay_until(struct gb_lane *lane, uint64_t offset)
{
    static const unsigned char zeroes[GB_BLOCK];
    GB_ASSERT(offset >= lane->position && offset - lane->position <= sizeof(zeroes));
    return lay(lane, zeroes, offset - lane->position);
}

/* The bytes [begin, end) of the payload, which may come from both of its parts. */
static void find_bytes(const struct gb_append *append, uint64_t begin, uint64_t end,
                       const unsigned char *piece[2], size_t size[2])
{
    uint64_t from = 0; /* where the part starts in the payload */
    for (unsigned i = 0; i < 2; i++) {
        uint64_t first = gb_max(from, begin);
        uint64_t until = gb_min(from + append->part_len[i], end);
        size[i] = until > first ? (size_t)(until - first) : 0;
        piece[i] = size[i] > 0 ? (const unsigned char *)append->parts[i] + (first - from) : NULL;
        from += append->part_len[i];
    }
}

/* Lays one unit of the payload, which begins `at` bytes into it, and sums it while the processor
 * still has it at hand: as it came, because a sum over the block would wait for the stores. */
static int lay_unit(struct gb_lane *lane, const struct gb_append *append, uint64_t at,
                    unsigned char *sum)
{
    const struct gb_layout *layout = &append->layout;
    const unsigned char *piece[2];
    size_t size[2];
    find_bytes(append, at, gb_min(at + GB_UNIT, layout->payload_len), piece, size);
    gb_store_le64(sum, gb_unit_sum2(piece[0], size[0], piece[1], size[1], lane->segment->salt,
                                    layout->payload_offset + at));
    int rc = lay(lane, piece[0], size[0]);
    return rc < 0 ? rc : lay(lane, piece[1], size[1]);
}

/* Payload and table. */
static int lay_payload(struct gb_lane *lane, const struct gb_append *append)
{
    unsigned char table[LANE_UNITS_MAX * GB_SUM_SIZE];
    const struct gb_layout *layout = &append->layout;
    uint64_t units = gb_units(layout->payload_len);
    GB_ASSERT(units <= LANE_UNITS_MAX &&
              layout->payload_len == append->part_len[0] + append->part_len[1]);
    int rc = lay_until(lane, layout->payload_offset);
    for (uint64_t i = 0; rc == 0 && i < units; i++) {
        rc = lay_unit(lane, append, i * GB_UNIT, table + i * GB_SUM_SIZE);
    }
    if (rc == 0) {
        rc = lay_until(lane, layout->table_offset);
    }
    return rc < 0 ? rc : lay(lane, table, units * GB_SUM_SIZE);
}

/* A current block with room for a header and key: they lie in one, so that they can be stamped in
 * place. */
static int ready_block(struct gb_lane *lane, uint32_t head_len)
{
    int rc = 0;
    if (lane->current != NULL &&
        lane->current->fill + head_len > lane->store->options.write_block_bytes) {
        rc = gb_lane_submit(lane, lane->current);
    }
    if (rc == 0 && lane->current == NULL) {
        rc = next_block(lane);
    }
    return rc;
}

/* Header room and payload and table; on success the record ends at append->layout.end. */
static int lay_record(struct gb_lane *lane, struct gb_append *append)
{
    uint32_t head_len = GB_RECORD_HEADER + append->record.key_len;
    int rc = ready_block(lane, head_len);
    if (rc < 0) {
        return rc;
    }
    append->first = lane->current;
    append->first_fill = lane->current->fill;
    append->first_position = lane->position;
    append->offset = lane->position;
    append->header = lane->current->data + lane->current->fill;
    if (lane->current->first_record == 0) {
        lane->current->first_record = append->offset;
    }
    gb_record_layout(&append->record, append->offset, &append->layout);
    lane->current->fill += head_len;
    lane->position += head_len;
    if (append->layout.payload_len > 0) {
        rc = lay_payload(lane, append);
    }
    if (rc == 0) {
        rc = lay_until(lane, append->layout.end);
    }
    if (rc == 0 && lane->current != append->first) {
        lane->current->spills_from = append->offset;
    }
    return rc;
}

void gb_lane_cancel(struct gb_lane *lane, struct gb_append *append)
{
    if (lane->current != NULL && lane->current != append->first) {
        lane->current->state = GB_WRITE_FREE;
    }
    append->first->state = GB_WRITE_FILLING;
    append->first->fill = append->first_fill;
    if (append->first->first_record == append->offset) {
        append->first->first_record = 0;
    }
    lane->current = append->first;
    lane->position = append->first_position;
}

/* ---- segments ------------------------------------------------------------------------------ */

/* Should the drive be missing after a crash, its lane must not pass for one that kept away. */
static void note_stray(struct gb_lane *lane, const struct gb_segment *segment)
{
    struct goblin *store = lane->store;
    unsigned home = gb_segments_home(&store->segments, lane->number);
    if (home >= store->drive_count || segment->drive == home) {
        return;
    }
    (void)pthread_mutex_lock(&store->segments.strays_lock);
    int rc = 0;
    if ((store->drives[segment->drive].identity.strayed >> lane->number & 1) == 0) {
        rc = gb_drives_note_stray(store->drives, store->drive_count, lane->number);
        gb_store_count_identities(store);
    }
    (void)pthread_mutex_unlock(&store->segments.strays_lock);
    if (rc < 0) {
        gb_store_log(store, GOBLIN_LOG_WARN, "noting where lane %u writes failed: %s", lane->number,
                     goblin_strerror(rc));
    }
}

/* At once, so that whatever is in the segment later is as safe by either header. Where the device
 * refuses it the segment is failing, and the next append turns to another. */
static int write_second_header(struct gb_lane *lane)
{
    struct goblin *store = lane->store;
    int rc = gb_headers_write(store, lane->segment, 1);
    if (rc == -ENOSPC || rc == -EDQUOT) {
        rc = gb_segments_give_back(&store->segments, lane->segment, rc);
        lane->segment = NULL;
        return rc;
    }
    if (rc < 0) {
        gb_tally_add(&lane->tally, GB_COUNT_write_errors, 1);
        gb_store_write_failed(store, lane->segment,
                              gb_segment_header_at(store->segments.segment_bytes, 1), rc);
    }
    return 0;
}

int gb_lane_open_segment(struct gb_lane *lane, enum gb_claim claim)
{
    struct goblin *store = lane->store;
    uint64_t generation = gb_store_next_sequence(store);
    uint32_t reserve = gb_lane_reserve_segments(store, claim);
    int rc = -EIO;
    for (unsigned tries = 0; rc == -EIO && tries < GB_DRIVE_FAILURES_MAX; tries++) {
        rc = gb_segments_take(&store->segments, lane->number, generation, reserve, &lane->segment);
    }
    if (rc < 0) {
        lane->segment = NULL;
        return rc;
    }
    note_stray(lane, lane->segment);
    rc = write_second_header(lane);
    if (rc < 0) {
        return rc;
    }
    lane->kept_for = claim;
    gb_store_poke(store); /* to make files, or room, for the next ones */
    lane->position = 0;
    lane->footer = (struct gb_segment_footer){.generation = generation};
    lane->summary_len = 0;
    lane->summary_count = 0;
    lane->summary_failed = false;
    unsigned char block[GB_BLOCK];
    gb_headers_encode(&store->segments, lane->segment, block);
    return lay(lane, block, sizeof(block));
}

/* Stamps a header that lies open and notes its sequence in the footer. */
static void stamp(struct gb_lane *lane, struct gb_append *append, uint64_t sequence)
{
    append->record.sequence = sequence;
    gb_record_encode(&append->record, append->key, lane->segment->salt, append->offset,
                     append->header);
    struct gb_segment_footer *footer = &lane->footer;
    footer->used_bytes = append->layout.end;
    footer->max_sequence = gb_max(footer->max_sequence, sequence);
    if (footer->min_sequence == 0 || sequence < footer->min_sequence) {
        footer->min_sequence = sequence;
    }
    if (append->first != lane->current) {
        /* A failure is the block's: whoever waits for its serial hears of it. */
        (void)gb_lane_submit(lane, append->first);
    }
}

/* Writes what has gathered of the summary as a record of its own. */
static int lay_summary(struct gb_lane *lane)
{
    if (lane->summary_len == 0) {
        return 0;
    }
    struct gb_append piece = {
        .record = {.type = GB_RECORD_SUMMARY, .size = lane->summary_len},
        .parts = {lane->summary},
        .part_len = {lane->summary_len},
    };
    GB_ASSERT(lane->footer.piece_count < GB_PIECES_MAX);
    int rc = lay_record(lane, &piece);
    if (rc < 0) {
        return rc;
    }
    stamp(lane, &piece, gb_store_next_sequence(lane->store));
    lane->footer.pieces[lane->footer.piece_count++] = (uint32_t)(piece.offset >> 3);
    lane->footer.record_count += lane->summary_count;
    lane->summary_len = 0;
    lane->summary_count = 0;
    return 0;
}

static int summarise(struct gb_lane *lane, const struct gb_append *append)
{
    struct gb_entry entry = {.record = append->record, .key = append->key, .place = append->offset};
    lane->summary_len += (uint32_t)gb_entry_encode(&entry, lane->summary + lane->summary_len);
    lane->summary_count++;
    return lane->summary_len >= summary_piece_bytes(lane) ? lay_summary(lane) : 0;
}

int gb_lane_seal(struct gb_lane *lane)
{
    struct gb_segment *segment = lane->segment;
    if (segment == NULL) {
        return 0;
    }
    struct gb_sealing *sealing = malloc(sizeof(*sealing));
    if (sealing == NULL) {
        return -ENOMEM;
    }
    bool failing = atomic_load(&segment->failing);
    int rc = failing ? 0 : lay_summary(lane);
    if (lane->current != NULL && failing) {
        gb_lane_detach(lane, lane->current);
    } else if (lane->current != NULL && rc == 0) {
        rc = gb_lane_submit(lane, lane->current);
    }
    segment->used_bytes = lane->position;
    sealing->segment = segment;
    sealing->whole = rc == 0 && !lane->summary_failed && !failing;
    sealing->footer = lane->footer;
    sealing->next = lane->sealing;
    lane->sealing = sealing;
    lane->segment = NULL;
    gb_lane_advance(lane, segment);
    gb_store_poke(lane->store);
    return rc;
}

/* Bytes that a segment must still have for a record and for being sealed after it, besides what has
 * gathered of the summary. */
static uint64_t room_needed(const struct gb_append *append)
{
    uint64_t payload = gb_record_inline_len(&append->record);
    uint64_t record = gb_span(append->record.key_len, payload) + 2 * (uint64_t)GB_BLOCK;
    uint64_t summary = append->record.key_len + 128u;
    return record + gb_span(0, summary) + 2 * (uint64_t)GB_BLOCK + GB_SEGMENT_TRAILER;
}

/* ---- appending without waiting ------------------------------------------------------------- */

#define LOCK_TRIES 200u /* some microseconds, which is what an append takes */

bool gb_lane_try_lock(struct gb_lane *lane)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (pthread_mutex_trylock(&lane->lock) == 0) {
            return true;
        }
        gb_pause();
    }
    return false;
}

static unsigned count_free_blocks(const struct gb_lane *lane)
{
    unsigned count = 0;
    for (unsigned i = 0; i < lane->block_count; i++) {
        const struct gb_write_block *block = &lane->blocks[i];
        count += block->state == GB_WRITE_FREE && block->data != NULL;
    }
    return count;
}

/* With what may lie in front of the payload, of its table and behind. */
static uint64_t padded_span(uint32_t key_len, uint64_t payload_len)
{
    return gb_span(key_len, payload_len) + (payload_len > GB_PACKED_MAX ? GB_BLOCK : 0) + 24;
}

/* Bytes that the record takes in write blocks, at most, and the piece of the summary that its
 * commit may lay behind it. */
static uint64_t bytes_to_lay(const struct gb_lane *lane, const struct gb_append *append)
{
    uint32_t key_len = append->record.key_len;
    uint64_t bytes = padded_span(key_len, gb_record_inline_len(&append->record));
    uint64_t summary = lane->summary_len + key_len + 128u;
    return summary >= summary_piece_bytes(lane) ? bytes + padded_span(0, summary) : bytes;
}

/* Whether there are write blocks for so much, and the device takes full ones without waiting. */
static bool has_blocks(struct gb_lane *lane, const struct gb_append *append)
{
    uint64_t bytes = bytes_to_lay(lane, append);
    uint64_t block_bytes = lane->store->options.write_block_bytes;
    uint64_t left = lane->current != NULL ? block_bytes - lane->current->fill : 0;
    if (bytes <= left) {
        return true;
    }
    if (lane->queue->io->ops->submit_waits) {
        return false;
    }
    /* Of each block a header that does not fit leaves the end empty. */
    bytes += GB_RECORD_HEADER + append->record.key_len + GB_RECORD_HEADER;
    uint64_t need = (bytes - left + block_bytes - 1) / block_bytes;
    if (count_free_blocks(lane) < need) {
        (void)gb_lane_reap(lane, 0);
    }
    return count_free_blocks(lane) >= need;
}

/* ---- appending ----------------------------------------------------------------------------- */

static int get_ready(struct gb_lane *lane, const struct gb_append *append)
{
    uint64_t need = room_needed(append);
    if (append->nowait) {
        return !gb_lane_rescue_pending(lane, UINT64_MAX) &&
                       gb_lane_has_room(lane, need, append->claim) && has_blocks(lane, append)
                   ? 0
                   : -EAGAIN;
    }
    (void)gb_lane_rescue(lane); /* if there is no room for it, there will be none for this */
    return gb_lane_ready(lane, need, append->claim);
}

int gb_lane_begin(struct gb_lane *lane, struct gb_append *append)
{
    int rc = get_ready(lane, append);
    if (rc < 0) {
        return rc;
    }
    rc = lay_record(lane, append);
    if (rc < 0 && append->first != NULL) {
        gb_lane_cancel(lane, append);
    }
    return rc;
}

uint64_t gb_lane_commit(struct gb_lane *lane, struct gb_append *append, uint64_t sequence)
{
    stamp(lane, append, sequence);
    gb_segment_count_laid(lane->segment, &append->record);
    uint64_t serial = lane->current != NULL ? lane->current->serial : lane->next_serial - 1;
    /* Room for it was made before the record was laid; a fault here is the device's, and the
     * segment is then scanned instead of summarised. */
    lane->summary_failed |= summarise(lane, append) < 0;
    return serial;
}

int gb_lane_reserve(struct gb_lane *lane, struct goblin_slice key, uint64_t stream, uint64_t want,
                    uint64_t least, struct gb_room *room)
{
    struct gb_append extent = {
        .record = {.type = GB_RECORD_EXTENT,
                   .key_len = (uint16_t)key.len,
                   .size = least,
                   .link = stream},
        .key = key.data,
    };
    /* The tables of a region and its padding come on top of what room_needed counts. */
    uint64_t overhead = room_needed(&extent) - least;
    (void)gb_lane_rescue(lane);
    int rc = gb_lane_ready(lane, least + overhead, room->claim);
    if (rc < 0) {
        return rc;
    }
    overhead += gb_lane_summary_room(lane) + gb_lane_kept_end(lane, room->claim);
    uint64_t left = lane->store->segments.segment_bytes - lane->position - overhead;
    /* `overhead` holds the sums for `least`; more payload needs more of them. */
    uint64_t most = left - gb_units(left) * GB_SUM_SIZE;
    extent.record.size = gb_max(least, gb_min(want, most));
    GB_ASSERT(extent.record.size > GB_PACKED_MAX);
    uint32_t head_len = GB_RECORD_HEADER + (uint32_t)key.len;
    rc = ready_block(lane, head_len);
    if (rc < 0) {
        return rc;
    }
    extent.first = lane->current;
    extent.offset = lane->position;
    extent.header = lane->current->data + lane->current->fill;
    if (lane->current->first_record == 0) {
        lane->current->first_record = extent.offset;
    }
    lane->current->fill += head_len;
    lane->position += head_len;
    /* A region always starts on a block boundary, as a payload too large to be packed does. */
    extent.layout.payload_offset = gb_align_up(lane->position, GB_BLOCK);
    extent.layout.end =
        gb_align_up(gb_table_offset(extent.layout.payload_offset, extent.record.size) +
                        gb_units(extent.record.size) * GB_SUM_SIZE,
                    GB_BLOCK);
    stamp(lane, &extent, gb_store_next_sequence(lane->store));
    GB_ASSERT(lane->current == extent.first && extent.first != NULL);
    (void)gb_lane_submit(lane, lane->current); /* a failure is the block's, as in stamp */
    room->segment = lane->segment;
    room->offset = extent.layout.payload_offset;
    room->len = extent.record.size;
    GB_ASSERT(lane->position == room->offset);
    atomic_fetch_add(&lane->segment->pending, 1);
    lane->position = extent.layout.end;
    gb_segment_count_laid(lane->segment, &extent.record);
    lane->summary_failed |= summarise(lane, &extent) < 0;
    return 0;
}
