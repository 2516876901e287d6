/*
 * Inside a reader: requests in progress (struct gb_get), the pieces of tail they have in flight,
 * and the windows of checksums that verify them. reader.c keeps the reader, get_small.c answers
 * what is small and resident, get.c starts all other requests and hands bytes over, get_many.c
 * starts many, tail.c plans and verifies device reads, run.c has those that several requests share.
 * What one request is of a scan (scan_values.c), it reads ahead and waits for its turn.
 *
 * Positions inside a request are payload positions: metadata first, then the value.
 */
#ifndef GB_ENGINE_READER_INTERNAL_H
#define GB_ENGINE_READER_INTERNAL_H

#include <goblin/reader.h>

#include "engine/run.h"
#include "engine/store.h"

#define GB_SMALL_MAX    2048u /* resident payloads up to this are copied rather than pinned */
#define GB_WINDOW_BYTES 8192u /* checksums read at once */
#define GB_DEPTH_MAX    64u
#define GB_NO_BUFFER    UINT32_MAX

/* Tokens of held chunks: what kind, and which. */
#define GB_HOLD_KINDS 4u
enum gb_hold_kind { GB_HOLD_BLOCK, GB_HOLD_BUFFER, GB_HOLD_SMALL };

static inline uint64_t gb_hold_token(enum gb_hold_kind kind, uint64_t value)
{
    return value * GB_HOLD_KINDS + kind;
}

struct gb_get;

/* Sums of units [first, first + count) of one extent. */
struct gb_window {
    struct gb_get *get;
    unsigned char *data;       /* aligned; NULL until first used */
    const unsigned char *sums; /* of unit `first` */
    uint32_t extent;
    uint32_t refs; /* pieces that will be verified by it */
    uint64_t first;
    uint64_t count;
    int32_t result;
    bool used;
    bool reading;
};

enum gb_piece_state { GB_PIECE_READING, GB_PIECE_READY };

/* A stretch of payload on its way from the device. */
struct gb_piece {
    struct gb_get *get;
    struct gb_window *window; /* NULL: the sums came with the bytes, or none are needed */
    struct gb_run *run;       /* where its bytes come; NULL: it is read by itself */
    struct gb_segment *segment;
    uint64_t from; /* payload positions; from the first byte read to one behind the last */
    uint64_t to;
    uint64_t at;         /* offset of `from` in the segment */
    uint32_t skew;       /* where `from` lies in the buffer */
    uint32_t sums;       /* where its sums lie in the buffer, if window is NULL */
    uint32_t len;        /* bytes read */
    uint32_t buffer;     /* GB_NO_BUFFER: it lands in a run, or where goblin_load wants it */
    unsigned char *data; /* where the read lands */
    int32_t result;
    uint8_t state;
    bool trusted; /* came from a write block in RAM */
};

struct gb_get {
    struct gb_get *next; /* in the reader's list of active ones, or of free ones */
    struct goblin_reader *reader;
    struct goblin_request *request; /* NULL: ended; only the device is still busy with it */
    int *answer;                    /* goblin_get's; NULL for a submitted one */
    struct goblin_buffer *load;     /* goblin_load's: tail reads land in it; else NULL */
    struct goblin_info info;
    struct goblin_slice key; /* of `item` */

    const struct gb_item *item; /* pinned, or `clone` */
    uint64_t pinned;            /* its place; 0: not pinned */
    struct gb_item *clone;      /* heap copy of header, key, extents when pinning was refused */
    uint64_t place;             /* consistent with sequence */
    uint64_t sequence;
    uint64_t size; /* payload */
    uint32_t resident;
    uint32_t meta_len;
    uint32_t extent_count; /* 1 for a direct object */
    bool holds_segments;

    uint64_t start; /* payload range asked for */
    uint64_t end;
    uint64_t deliver_at; /* next payload position to hand over */
    uint64_t plan_at;    /* next one to read */
    bool handed;         /* a chunk has been handed over */
    bool waits;          /* for its turn: it may read, and hands nothing over */
    bool reads;          /* and it does, or did, while it waited */
    bool busy;           /* its callback is running */
    bool free;           /* on the reader's list of free ones */
    uint32_t pass;       /* of the reader's walks, the last that met it */
    unsigned accesses;   /* of the object, this one counted */

    unsigned char *meta; /* gathers the metadata when asked for and not at hand */
    bool want_meta;

    struct gb_piece pieces[GB_DEPTH_MAX];
    unsigned piece_head;
    unsigned piece_count;
    unsigned in_flight; /* device reads, windows included */
    unsigned ahead;     /* the request's; 0: no limit */
    unsigned held;      /* buffers that the caller holds */
    bool first_planned;
    bool tail_handed; /* the first piece has been handed over */
    struct gb_window windows[2];
    struct gb_run *run; /* planned for its first piece; NULL: none */

    struct gb_promotion promotion;

    uint32_t number; /* among the reader's */
    uint32_t holds;  /* of `small` by the caller */
    unsigned char small[GB_SMALL_MAX];
};

struct gb_chunk_buffer {
    unsigned char *data;
    struct gb_get *holder; /* the request that counts it as held */
    uint32_t slices;       /* runs that lie in it */
    bool used;
};

struct goblin_reader {
    struct goblin_reader *next; /* in the store's list */
    struct goblin *store;
    struct gb_queue *queue;
    unsigned char *memory; /* of all chunk buffers */
    size_t memory_bytes;
    struct gb_chunk_buffer *buffers;
    unsigned buffer_count;
    unsigned buffers_free;
    uint32_t buffer_bytes;
    unsigned depth;
    struct gb_get *gets;
    unsigned get_count;
    struct gb_get *free_gets;
    struct gb_get *active; /* newest first */
    unsigned active_count;
    uint64_t budget_bytes;
    struct gb_tally tally;
    _Atomic uint64_t small_hits; /* gets answered at once; goblin_stats adds them to the tally */
    _Atomic uint64_t small_bytes;
    uint32_t ticks;
    uint32_t pass;
    bool starved; /* a request found no buffer for what it could read */
    bool gathers; /* reads are prepared, and submitted for several requests at once */
    struct gb_value_scan *values; /* NULL until its first scan of values */
    struct gb_runs *runs;         /* of those scans */
};

/* ---- tail.c -------------------------------------------------------------------------------- */

/* Starts as many reads as depth and buffers allow; they go to the device at the next submit of the
 * queue. A fault ends the request's reading. */
int gb_tail_plan(struct gb_get *get);

/* Whether the piece's bytes are what was written: 0, GOBLIN_ECORRUPT or -EIO. */
int gb_tail_verify(const struct gb_get *get, const struct gb_piece *piece);

/* What a read's tag points at. */
enum gb_tag { GB_TAG_PIECE, GB_TAG_WINDOW, GB_TAG_RUN, GB_TAGS = 4 };

static inline void *gb_tail_tag(void *what, enum gb_tag tag)
{
    return (unsigned char *)what + tag;
}

/* An event of the reader's queue. */
void gb_tail_complete(void *tag, int32_t result);

/* The piece is done with. */
void gb_tail_release(struct gb_get *get, struct gb_piece *piece, bool keep_buffer);

/* ---- reader.c ------------------------------------------------------------------------------ */

/* Makes room for a value of `bytes` and for what a direct read may write behind it. */
int gb_buffer_reserve(struct goblin_buffer *buffer, uint64_t bytes);

/* There is a free one. */
unsigned gb_reader_take_buffer(struct goblin_reader *reader);
void gb_reader_give_buffer(struct goblin_reader *reader, unsigned number);

/* ---- get.c --------------------------------------------------------------------------------- */

/* Hands over what is ready; ends the request when all is. True if it ended. */
bool gb_get_advance(struct gb_get *get);

/* The request is over with `result`; the get is recycled when the device is done with it. */
void gb_get_end(struct gb_get *get, int result);

/* Back on the free list if nothing uses it any more. */
void gb_get_recycle(struct gb_get *get);

void gb_get_release_hold(struct goblin_reader *reader, uint64_t hold);

/* `hash`: the key's; `answer`: where the result goes, for a caller that waits; `load`: where the
 * bytes shall land. Both may be NULL. */
void gb_get_start(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash,
                  int *answer, struct goblin_buffer *load);

/* The same for a request that hands nothing over before its turn, and reads meanwhile. `run`: the
 * one planned for it, or NULL. What it reads goes to the device at the next submit of the queue. */
void gb_get_start_ahead(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash,
                        struct gb_run *run);

/* For requests that have not ended. */

/* Whether all that it will read is on its way. */
bool gb_get_planned(const struct goblin_request *request);

/* It is its turn. */
void gb_get_take_turn(struct goblin_request *request);

/* Whether it has something to read, no buffer for it, and nothing on its way. */
bool gb_get_starves(const struct goblin_request *request);

/* ---- scan_values.c ------------------------------------------------------------------------- */

/* Frees what the reader's scans have kept for the next one. */
void gb_value_scan_free(struct goblin_reader *reader);

/* ---- get_small.c --------------------------------------------------------------------------- */

#define GB_GET_NOT_SMALL INT32_MAX

/* A hit on a small resident object, which is most of what a cache is asked: no state, no lists.
 * Every request comes here first and is counted towards the ageing of heat. Returns what the
 * request answered, or GB_GET_NOT_SMALL: it is for gb_get_start, nothing was handed over. */
int gb_get_small(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash);

/* The same for goblin_load: copies straight into `buffer` (and `meta`, which may be NULL) if they
 * are large enough already. */
bool gb_get_small_load(struct goblin_reader *reader, struct goblin_slice key, uint64_t hash,
                       struct goblin_buffer *const into[2], struct goblin_info *info);

#endif
