/* Segment headers, both of them: reading, judging, mending, wiping. */
#include "engine/headers.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "engine/config.h"
#include "engine/drive.h"

#define MEND_BOTH ((1u << GB_HEADER_COPIES) - 1)

static uint64_t place_of(const struct goblin *store, unsigned copy)
{
    return gb_segment_header_at(store->segments.segment_bytes, copy);
}

/* ---- looking ------------------------------------------------------------------------------- */

static bool is_shortage(int fault)
{
    return fault == -ENOMEM || fault == -EMFILE || fault == -ENFILE;
}

static bool belongs(const struct goblin *store, const struct gb_segment *segment,
                    const struct gb_segment_header *header)
{
    return memcmp(header->store_id, store->segments.store_id, sizeof(header->store_id)) == 0 &&
           header->slot == segment->slot && header->lane < store->lane_count &&
           header->segment_bytes == store->segments.segment_bytes;
}

/* One copy; an enum gb_copy, or what ends the opening. *header is its own if it is good, *fault is
 * why it is of no use. */
static int look_at(struct goblin *store, const struct gb_segment *segment, unsigned copy,
                   struct gb_segment_header *header, int *fault)
{
    static const unsigned char zeros[GB_BLOCK];
    alignas(GB_BLOCK) unsigned char block[GB_BLOCK];
    int64_t n = store->io->ops->file_read(segment->file, block, GB_BLOCK, place_of(store, copy));
    if (n < 0) {
        *fault = (int)n;
        return is_shortage((int)n) ? (int)n : GB_COPY_UNREADABLE;
    }
    gb_store_count_read(store, (uint64_t)n);
    /* A file that a crash left short reads as if it had been given its size. */
    memset(block + n, 0, GB_BLOCK - (size_t)n);
    int rc = gb_segment_header_decode(header, block);
    if (rc == GOBLIN_EFORMAT) {
        return rc; /* whoever wrote it is not to be written over */
    }
    if (rc == 0 && belongs(store, segment, header)) {
        return GB_COPY_GOOD;
    }
    if (memcmp(block, zeros, GB_BLOCK) == 0) {
        return GB_COPY_ZERO;
    }
    *fault = GOBLIN_ECORRUPT;
    return gb_segment_header_torn(block) ? GB_COPY_TORN : GB_COPY_DAMAGED;
}

int gb_headers_look(struct goblin *store, const struct gb_segment *segment,
                    struct gb_headers *headers)
{
    *headers = (struct gb_headers){.fault = 0};
    struct gb_segment_header found[GB_HEADER_COPIES];
    for (unsigned copy = 0; copy < GB_HEADER_COPIES; copy++) {
        int rc = look_at(store, segment, copy, &found[copy], &headers->fault);
        if (rc < 0) {
            return rc;
        }
        headers->copies[copy] = (enum gb_copy)rc;
        headers->empty |= rc == GB_COPY_ZERO || rc == GB_COPY_TORN;
        if (rc == GB_COPY_GOOD &&
            (!headers->good || found[copy].generation > headers->header.generation)) {
            headers->header = found[copy];
            headers->good = true;
        }
    }
    headers->empty &= !headers->good;
    /* Two good ones differ where the device has lost a write: the older one is none. */
    for (unsigned copy = 0; copy < GB_HEADER_COPIES; copy++) {
        if (headers->copies[copy] == GB_COPY_GOOD &&
            found[copy].generation != headers->header.generation) {
            headers->copies[copy] = GB_COPY_DAMAGED;
            headers->fault = GOBLIN_ECORRUPT;
        }
    }
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void take_header(struct goblin *store, struct gb_segment *segment,
                        const struct gb_segment_header *header)
{
    segment->status = GB_SEGMENT_SEALED;
    segment->lane = (uint8_t)header->lane;
    segment->generation = header->generation;
    segment->salt = header->salt;
    segment->used_bytes = store->segments.segment_bytes;
    atomic_store(&segment->written, store->segments.segment_bytes);
    store->segments.free_count--;
    atomic_store(&store->sequence, gb_max(atomic_load(&store->sequence), header->generation));
}

/* The segment is used on the word of one copy, or is free though something stands in the other. */
static void note_mending(struct goblin *store, struct gb_segment *segment,
                         const struct gb_headers *headers)
{
    bool hurt = false;
    for (unsigned copy = 0; copy < GB_HEADER_COPIES; copy++) {
        enum gb_copy found = headers->copies[copy];
        bool as_it_should_be = found == (headers->good ? GB_COPY_GOOD : GB_COPY_ZERO);
        segment->mend |= as_it_should_be ? 0 : (uint8_t)(1u << copy);
        hurt |= found == GB_COPY_DAMAGED || found == GB_COPY_UNREADABLE;
    }
    if (hurt && headers->good) {
        gb_tally_add_shared(&store->tally, GB_COUNT_headers_by_copy, 1);
        gb_store_log(store, GOBLIN_LOG_WARN,
                     "segment %u: one of its two headers cannot be read (%s): the other one does",
                     segment->slot, goblin_strerror(headers->fault));
    }
}

/* A crash may have left the file of a free segment without the room that it is to have: it is to be
 * made again, ahead of need. */
static void let_go_if_short(struct goblin *store, struct gb_segment *segment)
{
    const struct gb_io_ops *ops = store->io->ops;
    uint64_t size = 0;
    if (ops->file_size(segment->file, &size) < 0 || size < store->segments.segment_bytes) {
        ops->file_close(segment->file);
        segment->file = NULL;
    }
}

/* 0, what ends the opening, or (*doubt) why nothing is known of the segment. */
static int read_segment(struct goblin *store, struct gb_segment *segment, int *doubt)
{
    struct gb_headers headers;
    int rc = gb_segment_open_file(&store->segments, segment, false);
    if (rc == -ENOENT) {
        return 0; /* not made yet */
    }
    if (rc < 0) {
        *doubt = rc;
        return is_shortage(rc) ? rc : 0;
    }
    rc = gb_headers_look(store, segment, &headers);
    if (rc < 0) {
        return rc;
    }
    if (headers.good) {
        take_header(store, segment, &headers.header);
    } else if (!headers.empty) {
        *doubt = headers.fault;
        return 0;
    }
    note_mending(store, segment, &headers);
    if (!headers.good && !store->options.read_only) {
        let_go_if_short(store, segment);
    }
    return 0;
}

static void lose(struct goblin *store, struct gb_segment *segment)
{
    segment->status = GB_SEGMENT_LOST;
    store->segments.free_count--;
}

int gb_headers_read(struct goblin *store)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        if (gb_store_drive(store, segment)->missing) {
            lose(store, segment);
            continue;
        }
        int doubt = 0;
        rc = read_segment(store, segment, &doubt);
        if (rc == 0 && doubt < 0) {
            lose(store, segment);
            segment->doubt = doubt;
        }
    }
    return rc;
}

/* ---- what is lost -------------------------------------------------------------------------- */

/* Nothing that counts was in it: to be wiped and used. */
static void clear_up(struct goblin *store, struct gb_segment *segment)
{
    segment->doubt = 0;
    segment->status = GB_SEGMENT_FREE;
    segment->mend = MEND_BOTH;
    store->segments.free_count++;
}

/* Whether the checkpoint, exact, says that the segment holds something, and it does not. */
static bool is_gone(const struct goblin *store, const struct gb_segment *segment)
{
    const struct gb_drive *drive = gb_store_drive(store, segment);
    return segment->named && segment->status == GB_SEGMENT_FREE && !drive->missing &&
           !drive->bereft;
}

static int refuse(const struct goblin *store, const struct gb_segment *segment, unsigned count,
                  struct goblin_error *error)
{
    char path[256];
    if (gb_segment_path(&store->segments, segment->slot, path, sizeof(path)) < 0) {
        path[0] = '\0';
    }
    gb_error_set(error,
                 "%s%s: neither header of the segment can be read (%s); without it its objects are "
                 "lost and what it replaced or deleted may be back: bring the drive in order, or "
                 "goblin check --repair makes what is left the store, or `degraded` (--degraded) "
                 "serves it",
                 path, count > 1 ? " and others" : "", goblin_strerror(segment->doubt));
    return GOBLIN_ESEGMENT;
}

int gb_headers_judge(struct goblin *store, bool exact, struct goblin_error *error)
{
    const struct gb_segment *first = NULL;
    unsigned count = 0;
    for (uint32_t i = 0; i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        struct gb_drive *drive = &store->drives[segment->drive];
        /* What it deleted or replaced must not be found by a later opening. */
        drive->pierced |= segment->doubt < 0 && (!exact || segment->named);
        drive->pierced |= exact && is_gone(store, segment);
        if (segment->doubt < 0 && exact && !segment->held) {
            clear_up(store, segment);
        } else if (segment->doubt < 0) {
            first = first == NULL ? segment : first;
            count++;
            gb_store_log(store, GOBLIN_LOG_ERROR,
                         "segment %u: neither of its headers can be read (%s): its objects are "
                         "lost",
                         i, goblin_strerror(segment->doubt));
        } else if (exact && segment->held && is_gone(store, segment)) {
            segment->gone = true;
            gb_store_log(store, GOBLIN_LOG_ERROR,
                         "segment %u: it is empty, and was not: its objects are lost", i);
        }
    }
    bool stern = store->options.mode == GOBLIN_MODE_STORE && !store->options.degraded;
    return count > 0 && stern ? refuse(store, first, count, error) : 0;
}

/* ---- mending ------------------------------------------------------------------------------- */

void gb_headers_encode(const struct gb_segments *segments, const struct gb_segment *segment,
                       unsigned char *block)
{
    struct gb_segment_header header = {
        .slot = segment->slot,
        .lane = segment->lane,
        .generation = segment->generation,
        .salt = segment->salt,
        .segment_bytes = segments->segment_bytes,
    };
    memcpy(header.store_id, segments->store_id, sizeof(header.store_id));
    gb_segment_header_encode(&header, block);
}

int gb_headers_write(struct goblin *store, const struct gb_segment *segment, unsigned copy)
{
    alignas(GB_BLOCK) unsigned char block[GB_BLOCK];
    gb_headers_encode(&store->segments, segment, block);
    int64_t n = store->io->ops->file_write(segment->file, block, GB_BLOCK, place_of(store, copy));
    gb_store_count_write(store, GB_BLOCK);
    return n < 0 ? (int)n : 0;
}

int gb_headers_wipe(struct goblin *store, const struct gb_segment *segment)
{
    static const alignas(GB_BLOCK) unsigned char zeros[GB_BLOCK];
    const struct gb_io_ops *ops = store->io->ops;
    int rc = 0;
    for (unsigned copy = 0; rc == 0 && copy < GB_HEADER_COPIES; copy++) {
        int64_t n = ops->file_write(segment->file, zeros, GB_BLOCK, place_of(store, copy));
        rc = n < 0 ? (int)n : 0;
        gb_store_count_write(store, GB_BLOCK);
    }
    if (rc == 0) {
        rc = ops->file_sync(segment->file);
        gb_store_count_sync(store);
    }
    return rc < 0 ? rc : 0;
}

static void write_anew(struct goblin *store, struct gb_segment *segment)
{
    int rc = 0;
    uint64_t at = 0;
    for (unsigned copy = 0; rc == 0 && copy < GB_HEADER_COPIES; copy++) {
        if ((segment->mend >> copy & 1) != 0) {
            at = place_of(store, copy);
            rc = gb_headers_write(store, segment, copy);
        }
    }
    rc = rc < 0 ? rc : gb_segment_sync(&store->segments, segment);
    if (rc < 0) {
        gb_store_write_failed(store, segment, at, rc);
    }
}

/* Of a free segment, or of one that is lost for good. */
static void wipe_anew(struct goblin *store, struct gb_segment *segment)
{
    int rc = gb_segment_open_file(&store->segments, segment, false);
    rc = rc < 0 ? rc : gb_headers_wipe(store, segment);
    bool was_free = segment->status == GB_SEGMENT_FREE;
    segment->status = rc < 0 ? GB_SEGMENT_LOST : GB_SEGMENT_FREE;
    if (was_free && rc < 0) {
        store->segments.free_count--;
    } else if (!was_free && rc >= 0) {
        segment->doubt = 0;
        store->segments.free_count++;
    }
    if (rc < 0) {
        gb_store_log(store, GOBLIN_LOG_ERROR, "segment %u cannot be freed (%s): it is set aside",
                     segment->slot, goblin_strerror(rc));
    }
}

void gb_headers_mend(struct goblin *store)
{
    for (uint32_t i = 0; i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        /* A store keeps what it was opened without: its operator may find a way to it yet. */
        bool given_up = segment->doubt < 0 && store->options.mode == GOBLIN_MODE_CACHE;
        if (given_up || (segment->mend != 0 && segment->status == GB_SEGMENT_FREE)) {
            wipe_anew(store, segment);
        } else if (segment->mend != 0 && segment->status == GB_SEGMENT_SEALED) {
            write_anew(store, segment);
        }
        segment->mend = 0;
    }
}
