/*
 * What the network may cost: connections, memory, time.
 *
 * One budget of bytes for the whole server, apart from the engine's memory (rule 11: an eighth of
 * --memory): every connection's fixed part, input buffers, output blocks and buffers of uploads are
 * taken from it before they are allocated. Who cannot have his bytes waits in his loop's line
 * (server/loop.h) and does not read meanwhile; while fewer than a connection's bytes are left,
 * nothing is accepted. What is taken is taken whole before it is used, so nobody holds half of
 * what he needs while he waits for the rest.
 *
 * Threads: any; counters are atomics (relaxed: each is a sum by itself and guards no other data).
 */
#ifndef GB_SERVER_LIMITS_H
#define GB_SERVER_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a client must move, or finish, within request_ms or stall_ms to be given as long again: a
 * trickle of bytes does not hold a connection for ever. */
#define GB_LIMITS_PROGRESS_BYTES 65536u

/* Zero in options means what stands in brackets; gb_limits_init puts it there. */
struct gb_limits_options {
    uint64_t network_bytes; /* of all buffers; (an eighth of --memory, at least 1 MiB) */
    uint64_t whole_bytes;   /* a value up to this is gathered in memory and stored at once, a
                                 larger one streams; (256 KiB, less in a small budget) */
    uint64_t upload_bytes;  /* a streaming upload's buffers, both; (512 KiB, less …) */
    uint64_t output_bytes;  /* a connection with so much unsent gets no new command; (256 KiB) */
    unsigned connections;   /* (what the limit on descriptors leaves, 65,536 at the most) */
    unsigned turn_commands; /* of one connection before others have their turn; (64) */
    unsigned sends;         /* objects on their way out at once, per connection; (16) */
    unsigned streams;       /* uploads under way at once, all loops; (64) */
    unsigned workers;       /* threads for what may block, at the most; (32) */
    int64_t idle_ms;        /* between requests; (10 minutes); < 0: for ever */
    int64_t request_ms;     /* for a request that has begun to arrive; (60 s) */
    int64_t stall_ms;       /* for output that the client does not take; (60 s) */
    int64_t hold_ms;        /* until unsent bytes must leave the reader's buffers; (50) */
    int64_t drain_ms;       /* at SIGTERM, for requests under way; (30 s) */
};

struct gb_limits {
    struct gb_limits_options set; /* constant after gb_limits_init */
    _Atomic uint64_t used_bytes;
    _Atomic unsigned connections;
    _Atomic unsigned crowd;   /* the most connections since memory was last given to the system */
    _Atomic unsigned waiters; /* in the loops' lines, so that giving back wakes only if it helps */
};

/* Fills in the defaults for a server of `memory_bytes` in all. */
void gb_limits_init(struct gb_limits *limits, const struct gb_limits_options *options,
                    uint64_t memory_bytes);

/* Takes bytes of the budget; false: they are not there, nothing was taken. */
bool gb_limits_take(struct gb_limits *limits, uint64_t bytes);
/* For the few bytes without which nothing could be finished or refused: may overrun the budget by
 * as much as one output block per connection. */
void gb_limits_take_anyway(struct gb_limits *limits, uint64_t bytes);
void gb_limits_give(struct gb_limits *limits, uint64_t bytes);

/* Counts a connection; false: there are enough. */
bool gb_limits_begin(struct gb_limits *limits);
void gb_limits_end(struct gb_limits *limits);

/* Whether a crowd has left: true once for each, for who then gives what it has freed back to the
 * system. */
bool gb_limits_crowd_left(struct gb_limits *limits);

#endif
