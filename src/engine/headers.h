/*
 * Segment headers: each stands twice in its segment, at the front and before the footer, so that
 * what a segment holds, its deletes above all, is not forgotten with one block. docs/format.md
 * tells free segments from damaged ones, docs/adr/0012 says why.
 *
 * Threads: opening is single-threaded; gb_headers_write and gb_headers_wipe by whoever has the
 * segment.
 */
#ifndef GB_ENGINE_HEADERS_H
#define GB_ENGINE_HEADERS_H

#include "engine/format_headers.h"
#include "engine/store.h"

/* What one of a segment's two header blocks is. */
enum gb_copy {
    GB_COPY_GOOD,
    GB_COPY_ZERO,       /* wiped, or never written */
    GB_COPY_TORN,       /* a crash in writing or wiping it left some of its sectors */
    GB_COPY_DAMAGED,    /* anything else, another segment's header too */
    GB_COPY_UNREADABLE, /* the device does not give it */
};

struct gb_headers {
    enum gb_copy copies[GB_HEADER_COPIES];
    int fault;                       /* of what could not be read, the last one */
    bool good;                       /* at least one copy is */
    bool empty;                      /* none is, and the segment is known to hold nothing */
    struct gb_segment_header header; /* if one is good: the newest */
};

/* Reads both headers of a segment whose file is open. 0, or what ends the opening: GOBLIN_EFORMAT,
 * or a shortage that says nothing of the drive. */
int gb_headers_look(struct goblin *store, const struct gb_segment *segment,
                    struct gb_headers *headers);

/* Opening, first: what every segment is. One with nothing to go by is lost and doubtful. */
int gb_headers_read(struct goblin *store);

/* After the checkpoint has been loaded, or has not: what the doubtful ones mean. `exact`: it is the
 * last thing that was written, so that what it does not name holds nothing. A store in store mode
 * is refused unless `degraded`. */
int gb_headers_judge(struct goblin *store, bool exact, struct goblin_error *error);

/* When the new epoch is safe, and with it that what was lost stays lost: writes headers anew from
 * their copies and wipes what is to be free. What cannot be written is set aside. */
void gb_headers_mend(struct goblin *store);

/* Encodes the header of a segment that has been taken. */
void gb_headers_encode(const struct gb_segments *segments, const struct gb_segment *segment,
                       unsigned char *block);

/* Writes one copy of the header, without a sync. */
int gb_headers_write(struct goblin *store, const struct gb_segment *segment, unsigned copy);

/* Wipes both copies, durably: then the segment is free. A crash between the two leaves one that is
 * good, and with it all records. */
int gb_headers_wipe(struct goblin *store, const struct gb_segment *segment);

#endif
