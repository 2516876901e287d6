/*
 * Runs: device reads that several requests of a scan share.
 *
 * Values of neighbouring keys often lie side by side on disk. A scan that looks ahead plans which
 * stretches of segments it will need, has them read in one go, and lets each request take its bytes
 * from there. The request verifies them as ever. A run that cannot be read is nobody's fault: each
 * request then reads by itself.
 *
 * Runs lie in slices of chunk buffers, many small ones in one buffer. One is there while somebody
 * plans to use it or has a piece in it, and holds its segment meanwhile, so that what it has read
 * is what the places of objects in that segment stand for.
 *
 * Threads: the reader's. Blocks: only where submitting does.
 */
#ifndef GB_ENGINE_RUN_H
#define GB_ENGINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/segment.h"

struct goblin_reader;
struct gb_get;
struct gb_piece;

#define GB_RUNS_MAX     128u
#define GB_RUNS_READING 64u /* at once */

struct gb_run {
    struct gb_segment *segment; /* NULL: not in use */
    uint64_t from;              /* in the segment; aligned as its drive wants it */
    uint64_t to;
    unsigned char *data; /* NULL: planned, not asked for yet */
    struct goblin_reader *reader;
    uint32_t buffer; /* that it has a slice of */
    uint32_t plans;  /* to take something from it */
    uint32_t pieces; /* that do */
    int32_t result;
    bool reading;
    bool shared; /* more than one had a plan for it */
};

struct gb_runs {
    uint32_t filling; /* the buffer that slices are cut from; GB_NO_BUFFER: none */
    uint32_t fill;    /* bytes of it that are taken */
    uint32_t last;    /* the run planned last */
    uint32_t reading;
    uint32_t waiting; /* planned, not asked for yet */
    struct gb_run runs[GB_RUNS_MAX];
};

void gb_runs_init(struct gb_runs *runs);
/* Lets go of all; the device is done with them. */
void gb_runs_fini(struct gb_runs *runs);

/* Plans to take [from, to) of the segment from a run: one that has it, one close by that is not
 * asked for yet and now reaches further, or a new one. NULL: better read by itself. In the
 * read-side section in which an object was found to lie there. */
struct gb_run *gb_run_plan(struct goblin_reader *reader, struct gb_segment *segment, uint64_t from,
                           uint64_t to);

/* The plan has been carried out, or is given up. */
void gb_run_unplan(struct gb_run *run);

/* Asks for what has been planned, as far as there is room; it goes to the device at the next submit
 * of the queue. */
void gb_runs_start(struct goblin_reader *reader);

/* Has the piece's bytes, piece->len of them from `read_from` on, come from the run planned for its
 * request. False: that does not have them. */
bool gb_run_take(struct gb_run *run, struct gb_piece *piece, uint64_t read_from);

/* What has come of the piece: bytes from its first one on, or a fault. */
int32_t gb_run_result(const struct gb_piece *piece);

/* An event of the reader's queue. */
void gb_run_complete(struct gb_run *run, int32_t result);

/* The piece needs its run no more. */
void gb_run_release(struct gb_piece *piece);

#endif
