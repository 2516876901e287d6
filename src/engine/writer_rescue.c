/*
 * Streams, failed writes. What an extent was to hold is in the blocks as far as it was written
 * last, and on the device, with its sums still at hand, as far as that has taken it: a second
 * writer carries all of it to extents elsewhere. The segment is abandoned, as it is for a lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/writer_internal.h"

#define READ_BYTES (128 * GB_KIB) /* at once; in whole units */

/* The bytes of the open extent from `at` on as the blocks have them, and until where; NULL: only
 * the device has them, until there. */
static const unsigned char *find_bytes(const struct goblin_writer *writer, uint64_t at,
                                       uint64_t *until)
{
    *until = writer->room_used;
    for (unsigned i = 0; i < 2; i++) {
        const struct gb_writer_block *block = &writer->blocks[i];
        if (block->len == 0) {
            continue;
        }
        GB_ASSERT(block->segment == writer->room.segment && block->offset >= writer->room.offset);
        uint64_t begin = block->offset - writer->room.offset;
        if (at >= begin && at < begin + block->len) {
            *until = begin + block->len;
            return block->data + (at - begin);
        }
        *until = begin > at ? gb_min(*until, begin) : *until;
    }
    return NULL;
}

/* Whole units of the open extent from the device, each of which must match its sum. */
static int read_back(const struct goblin_writer *writer, uint64_t at, uint64_t until,
                     unsigned char *buffer)
{
    const struct gb_segment *segment = writer->room.segment;
    uint64_t offset = writer->room.offset + at;
    GB_ASSERT(at % GB_UNIT == 0 && until % GB_UNIT == 0);
    int64_t n = segment->file->io->ops->file_read(segment->file, buffer, until - at, offset);
    if (n < 0) {
        return (int)n;
    }
    gb_store_count_read(writer->store, (uint64_t)n);
    if ((uint64_t)n < until - at) {
        return -EIO;
    }
    const unsigned char *sums = writer->table + GB_BLOCK + at / GB_UNIT * GB_SUM_SIZE;
    for (uint64_t unit = 0; unit < until - at; unit += GB_UNIT) {
        if (gb_unit_sum(buffer + unit, GB_UNIT, segment->salt, offset + unit) !=
            gb_load_le64(sums + unit / GB_UNIT * GB_SUM_SIZE)) {
            return GOBLIN_ECORRUPT;
        }
    }
    return 0;
}

/* What can be read of the extent no more is lost, and with it the stream. */
static int lose(const struct goblin_writer *writer, int fault)
{
    gb_store_log(writer->store, GOBLIN_LOG_ERROR,
                 "segment %u: bytes that a stream wrote at %llu cannot be had back (%s): it has to "
                 "begin again",
                 writer->room.segment->slot, (unsigned long long)writer->room.offset,
                 goblin_strerror(fault));
    return -EIO;
}

static int feed(const struct goblin_writer *writer, struct goblin_writer *carrier,
                unsigned char *buffer, bool *lost)
{
    int rc = 0;
    for (uint64_t at = 0, until = 0; rc == 0 && at < writer->room_used; at = until) {
        const unsigned char *bytes = find_bytes(writer, at, &until);
        if (bytes == NULL) {
            until = gb_min(until, at + READ_BYTES);
            rc = read_back(writer, at, until, buffer);
            bytes = buffer;
            *lost = rc < 0;
        }
        rc = rc == 0 ? goblin_writer_write(carrier, bytes, until - at) : lose(writer, rc);
        rc = rc == GOBLIN_OK ? 0 : rc;
    }
    return rc;
}

/* The extents of the carrier are the writer's from here on. */
static int take_over(struct goblin_writer *writer, struct goblin_writer *carrier)
{
    int rc = gb_writer_grow_extents(writer, carrier->extent_count);
    if (rc < 0) {
        return rc;
    }
    memcpy(writer->extents + (size_t)writer->extent_count * GB_EXTENT_SIZE, carrier->extents,
           (size_t)carrier->extent_count * GB_EXTENT_SIZE);
    writer->extent_count += carrier->extent_count;
    carrier->extent_count = 0;
    return 0;
}

static int carry(struct goblin_writer *writer, unsigned char *buffer, bool *lost)
{
    struct goblin_writer *carrier = NULL;
    const struct goblin_slice key = {writer->key, writer->key_len};
    int rc = gb_writer_begin_move(&carrier, writer->store, key, writer->room_used);
    if (rc < 0) {
        return rc;
    }
    carrier->claim = writer->claim; /* the cleaner's last segment is not for streams */
    rc = feed(writer, carrier, buffer, lost);
    rc = rc == 0 ? gb_writer_drain(carrier, true) : rc;
    rc = rc == 0 ? gb_writer_close_extent(carrier) : rc;
    rc = rc == 0 ? take_over(writer, carrier) : rc;
    goblin_writer_abort(carrier);
    return rc;
}

int gb_writer_rescue(struct goblin_writer *writer)
{
    struct goblin *store = writer->store;
    int rc = gb_writer_wait(writer);
    writer->refused = false;
    if (rc < 0 || writer->moves) {
        return rc < 0 ? rc : -EIO;
    }
    void *buffer = NULL;
    if (posix_memalign(&buffer, GB_BLOCK, READ_BYTES) != 0) {
        return -ENOMEM;
    }
    /* Each try but the last has met another segment that failed; so many, and all drives are
     * retired. One stream at a time: it takes memory that is not in anybody's share. */
    unsigned tries = GB_DRIVE_FAILURES_MAX * store->drive_count;
    bool lost = false;
    (void)pthread_mutex_lock(&store->rescue_lock);
    do {
        rc = carry(writer, buffer, &lost);
    } while (rc == -EIO && !lost && tries-- > 0);
    (void)pthread_mutex_unlock(&store->rescue_lock);
    free(buffer);
    if (rc == 0) {
        gb_writer_leave_room(writer);
        gb_store_poke(store); /* nothing keeps the segment from being emptied */
        gb_tally_add_shared(&store->tally, GB_COUNT_streams_rescued, 1);
    }
    return rc;
}
