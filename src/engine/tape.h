/*
 * A tape: reading one segment file front to back (or in any order) through one aligned window,
 * decoding what lies in it. For recovery, reclaiming and checks; not for serving.
 *
 * Threads: one at a time. Blocks: on the device.
 */
#ifndef GB_ENGINE_TAPE_H
#define GB_ENGINE_TAPE_H

#include "engine/format.h"
#include "engine/segment.h"

struct gb_tape {
    const struct gb_segment *segment;
    uint64_t segment_bytes;
    unsigned char *window;
    uint64_t window_bytes; /* read at once, besides what was asked for */
    uint64_t window_offset;
    uint64_t window_len;
    struct gb_tally *tally; /* where reads are counted, or NULL */
    /* Told of entries that are about to be visited, so that what they need can be fetched; NULL:
     * nobody is. Only of a summary's. */
    void (*hint)(void *arg, const struct gb_entry *entries, size_t count);
};

#define GB_TAPE_HINTS 16u /* entries at once, at most */

int gb_tape_open(struct gb_tape *tape, const struct gb_segments *segments,
                 const struct gb_segment *segment);
void gb_tape_close(struct gb_tape *tape);

/* From here on in small reads: for work beside requests, which wait longer behind large ones than
 * it gains by them. */
void gb_tape_narrow(struct gb_tape *tape);
/* The segment has been written to since: the window is read anew. */
void gb_tape_forget(struct gb_tape *tape);

/* `len` (at most 64 KiB) bytes at `offset`. The pointer lives until the next call. Negative errno;
 * -ENODATA past the end of the segment. */
int gb_tape_at(struct gb_tape *tape, uint64_t offset, uint32_t len, const unsigned char **bytes);

/* Verifies a payload and, if `out` is not NULL, copies it there. 0, GOBLIN_ECORRUPT or errno. */
int gb_tape_payload(struct gb_tape *tape, uint64_t offset, uint64_t len, unsigned char *out);

/* A stretch of a payload, in whole units. */
struct gb_part {
    uint64_t offset; /* of the payload in the segment */
    uint64_t len;    /* of the payload */
    uint64_t from;   /* of the stretch in the payload, a multiple of GB_UNIT */
    uint64_t to;     /* a multiple of GB_UNIT, or len */
};

/* The same for a part: its first byte comes to out[0]. */
int gb_tape_part(struct gb_tape *tape, const struct gb_part *part, unsigned char *out);

/* Called for every record that counts, in the order of the log; entry->place is its offset. Nonzero
 * stops. */
typedef int (*gb_tape_fn)(void *arg, const struct gb_entry *entry);

/* Visits the records of a segment: by its summary if it has a valid footer, else by scanning it
 * with every payload verified. *used_bytes: end of the last record; *sealed (set
 * before the first visit): it had a footer. */
int gb_tape_records(struct gb_tape *tape, gb_tape_fn visit, void *arg, uint64_t *used_bytes,
                    bool *sealed);

#endif
