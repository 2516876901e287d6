/*
 * What the files of the streaming writer share: writer.c (begin, write, commit), writer_extents.c
 * (the regions of segments that a stream fills) and writer_rescue.c (what is done about one that
 * fails).
 *
 * And writers for whoever moves objects on disk: a piece of a payload goes into extents of its own,
 * to be listed by the record that the caller then publishes. Between, goblin_writer_write; in the
 * end, whether it was published or not, goblin_writer_abort: what nobody lists is room to reclaim.
 */
#ifndef GB_ENGINE_WRITER_INTERNAL_H
#define GB_ENGINE_WRITER_INTERNAL_H

#include <goblin/writer.h>

#include "engine/store.h"

struct gb_writer_block {
    unsigned char *data;
    struct gb_segment *segment; /* it was handed to */
    uint64_t offset;            /* there */
    uint32_t len;               /* payload bytes of it that belong there; 0: they are not here */
    bool in_flight;
};

struct goblin_writer {
    struct goblin *store;
    struct gb_lane *lane;
    uint64_t hash;
    struct goblin_put_options options; /* meta.data is not valid: it went into the payload */
    uint64_t announced;                /* payload bytes, or GOBLIN_SIZE_UNKNOWN */
    uint64_t taken;                    /* payload bytes so far */
    uint64_t stream;
    int fault;
    bool moves; /* a piece that moves on disk: its bytes are in the store already */
    enum gb_claim claim;

    struct gb_writer_block blocks[2];
    unsigned filling; /* index of the block that gathers */
    uint32_t fill;
    uint32_t block_bytes;
    struct gb_queue *queue;

    struct gb_room room;  /* of the open extent; segment NULL: none */
    uint64_t room_used;   /* payload bytes handed to the device */
    bool refused;         /* and not all taken by it: see gb_writer_rescue */
    bool tabled;          /* the last of them took the table along */
    unsigned char *table; /* its sums so far, behind room for a partial block */
    uint64_t table_capacity;
    unsigned char *extents; /* encoded list of closed ones: what they hold is on the device */
    uint32_t extent_count;
    uint32_t extent_capacity;

    unsigned char *head; /* copy of the first bytes, for RAM */
    uint32_t head_len;
    uint32_t head_capacity;

    uint16_t key_len;
    unsigned char key[];
};

/* ---- writer_extents.c ---------------------------------------------------------------------- */

/* Empties the filling block as far as whole units go; with `last`, entirely. */
int gb_writer_drain(struct goblin_writer *writer, bool last);

/* All bytes of the open extent on the device, its table too, and the extent in the list. */
int gb_writer_close_extent(struct goblin_writer *writer);

/* Waits until nothing is in flight; what the device refused is noted in `refused`. */
int gb_writer_wait(struct goblin_writer *writer);

/* Room in the list of extents for `count` more. */
int gb_writer_grow_extents(struct goblin_writer *writer, uint32_t count);

/* Whatever is in the open extent is not needed there. */
void gb_writer_leave_room(struct goblin_writer *writer);

/* ---- writer_rescue.c ----------------------------------------------------------------------- */

/* The segment of the open extent has refused some of its bytes: all of them go to extents
 * elsewhere, and the stream can go on. -EIO: they cannot be had any more, or no drive is left, or
 * it is a piece that moves, of which the mover has more than these; -ENOSPC: there is no room. */
int gb_writer_rescue(struct goblin_writer *writer);

/* ---- for movers ---------------------------------------------------------------------------- */

/* Takes memory and segments that users' writers have to leave alone. */
int gb_writer_begin_move(struct goblin_writer **out, struct goblin *store, struct goblin_slice key,
                         uint64_t len);

/* All bytes are on the device, not yet synced. The list is the writer's. */
int gb_writer_finish_move(struct goblin_writer *writer, const unsigned char **extents,
                          uint32_t *count);

#endif
