/*
 * What the parts of a connection know of each other: conn.c (life, events, deadlines),
 * conn_input.c (turns and buffers), conn_upload.c, conn_output.c (the list of what is to be sent),
 * conn_send.c (objects) and conn_tls.c.
 *
 * Output. conn->main is what can be written now. Behind it stand the sends in order. The first of
 * them, the one whose turn it is, writes into main; the others gather in lists of their own. What
 * is appended behind a send waits in its `after`. When a send is complete (all of it delivered, and
 * none of it in the reader's buffers any more) its trailer and `after` move to main, and the turn
 * is the next one's. So bytes of the reader's buffers that stand in main belong to the first send
 * alone, and nothing stands behind them but more of it: they can be dropped from any byte on.
 *
 * Threads: the loop's.
 */
#ifndef GB_SERVER_CONN_INTERNAL_H
#define GB_SERVER_CONN_INTERNAL_H

#include "server/conn.h"
#include "server/tls.h"

/* Read at once, and borrowed by who waits: a 512th of the network budget within these bounds. */
#define GB_CONN_SCRATCH_LEAST 16384u
#define GB_CONN_SCRATCH_MOST  65536u
#define GB_CONN_BLOCK_BYTES   8192u  /* of output */
#define GB_CONN_COPY_BYTES    4096u  /* chunks up to this are copied rather than held */
#define GB_CONN_AHEAD         3u     /* tail chunks of one send in the reader's buffers */
#define GB_CONN_WINDOW_BYTES  65536u /* read at first for a client that was too slow */
#define GB_CONN_WINDOW_MOST   8388608u
#define GB_CONN_IOV           64
#define GB_CONN_SENDS_KEPT    256u /* free ones, for sends to come */
/* Of the budget, for a send: with the copy of its key. */
#define GB_CONN_SEND_CHARGE   (sizeof(struct gb_send) + 256u)

_Static_assert(GB_CONN_BLOCK_BYTES >= GB_CONN_RESERVE_MAX, "a reserved reply lies in one block");

enum gb_piece_kind {
    GB_PIECE_OWNED, /* block or copy: `bytes`, charged with `charge` */
    GB_PIECE_HELD,  /* the reader's: `hold` */
};

/* A stretch of output. */
struct gb_piece_out {
    struct gb_piece_out *next;
    const unsigned char *data; /* of what is unsent */
    size_t len;
    uint64_t hold;
    uint64_t offset; /* of `data` in the value; of held ones */
    size_t room;     /* behind the data; of blocks */
    uint64_t charge; /* taken of the budget */
    uint8_t kind;
    bool pending; /* the reader does not know yet that it is held */
    unsigned char bytes[];
};

struct gb_pieces {
    struct gb_piece_out *first;
    struct gb_piece_out *last;
};

struct gb_send {
    struct gb_send *next;
    struct gb_conn *conn;
    struct gb_send_request ask;
    struct goblin_request request;
    struct gb_waiter waiter; /* for room in the reader */
    unsigned char *key;      /* a copy, once it must outlive gb_conn_send */

    uint64_t at;      /* next byte of the value to be delivered */
    uint64_t end;     /* behind the last one; valid from the head on */
    uint64_t version; /* of the object that the head told of */
    uint64_t window;  /* bytes read per request; 0: all */

    struct gb_pieces own; /* while it is not its turn */
    struct gb_pieces trailer;
    struct gb_pieces after;
    unsigned holds; /* its pieces in the reader's buffers, or in RAM pinned for them */

    bool headed;   /* on_head was called */
    bool bodied;   /* on_body was called */
    bool released; /* the chunk that is being delivered has gone out already */
    bool submitting;
    bool reading;   /* the request is the reader's */
    bool parked;    /* bytes were given up; goes on from `at` when main is empty */
    bool done;      /* all delivered */
    bool from_disk; /* at least in part */
};

struct gb_upload {
    struct gb_conn *conn;
    struct gb_stream *stream;
    void (*done)(struct gb_conn *conn, struct gb_stream *stream, int result);
    /* The stream's own, put back when it is over. */
    void (*stream_done)(struct gb_stream *stream);
    void (*stream_gone)(struct gb_stream *stream);
    void *stream_arg;
    uint64_t left; /* to arrive */
    size_t half_bytes;
    unsigned filling; /* which half */
    size_t filled;    /* of it */
    size_t ready;     /* bytes in the other half that are being written; 0: none */
    int result;
    unsigned char *bytes; /* both halves; NULL until the budget had them */
};

struct gb_conn {
    struct gb_loop *loop;
    const struct gb_listener *listener;
    const struct gb_conn_ops *ops;
    struct gb_conn *next; /* of the loop's */
    struct gb_conn *prev;
    struct gb_conn *next_ready; /* in the loop's list of those with more to do */
    struct gb_conn *next_dirty; /* in the loop's list of those with output to write */
    uint64_t number;
    uint64_t charge; /* of the fixed part */
    uv_poll_t poll;
    int fd;
    int events;                 /* polled for */
    struct gb_tls_session *tls; /* NULL: in plain text */
    size_t tls_charge;          /* for what its socket has not taken */

    unsigned refs; /* 1 for being open */
    unsigned pauses;
    enum gb_conn_end why; /* once it is closed */
    bool closed;
    bool listens;   /* all that is expected of the client: it is never idle */
    bool finishing; /* no more commands; closes when all is sent */
    bool ended;     /* the peer sends no more */
    bool shaking;   /* hands, by TLS: nothing else happens before that is done */
    bool is_ready;
    bool is_dirty;
    bool in_turn;
    bool in_row;  /* a command has been taken in this turn */
    bool waiting; /* in the line for bytes */
    bool full;    /* on_drained is due */
    bool handle_closed;
    bool partial; /* a command has begun to arrive */

    /* Input: `len` bytes from `start` in `in`, which is the loop's scratch during a turn. */
    unsigned char *in;
    size_t in_capacity;
    size_t start;
    size_t len;
    size_t want; /* do not call before so many are there */
    uint64_t in_charge;
    uint64_t swallow;
    struct gb_upload *upload;
    struct gb_waiter waiter;

    /* Output. */
    struct gb_pieces main;
    struct gb_send *sends;
    struct gb_send *sends_last;
    unsigned send_count;
    size_t unsent; /* bytes in all lists */
    bool blocked;  /* the socket took no more */
    bool flushing;

    /* Deadlines are armed late and looked at when they fire, so that a command costs nothing. */
    struct gb_deadline input_deadline;
    struct gb_deadline stall_deadline;
    struct gb_deadline hold_deadline;
    int64_t command_ms;   /* of the last command */
    int64_t begun_ms;     /* since when the present one has made no progress worth the name */
    uint64_t begun_bytes; /* bytes_in then */
    int64_t stall_ms;     /* since when output has made none */
    uint64_t stall_bytes; /* bytes_out then */
    uint64_t hold_bytes;  /* bytes_out when the hold deadline was armed */

    uint64_t bytes_in;
    uint64_t bytes_out;
    char peer[64];
    _Alignas(max_align_t) unsigned char state[];
};

/* What connections of one loop share. */
struct gb_conn_pools {
    unsigned char *scratch; /* NULL: somebody kept it */
    size_t scratch_bytes;
    struct gb_piece_out *blocks; /* free, charged */
    unsigned block_count;
    unsigned blocks_most;
    struct gb_piece_out *held; /* free ones without bytes */
    struct gb_send *sends;     /* free, charged */
    unsigned send_count;
    struct gb_conn *ready;
    struct gb_conn *ready_last;
    struct gb_conn *dirty;
};

/* ---- conn.c -------------------------------------------------------------------------------- */

void gb_conn_pools_init(struct gb_loop *loop);
void gb_conn_pools_fini(struct gb_loop *loop);

/* All connections with more to do have a turn; true if some still have. */
bool gb_conn_run_ready(struct gb_loop *loop);
/* Writes what was appended outside of turns. True if there was something. */
bool gb_conn_run_dirty(struct gb_loop *loop);
void gb_conn_drain_all(struct gb_loop *loop);
void gb_conn_cut_all(struct gb_loop *loop);

void gb_conn_mark_ready(struct gb_conn *conn);
void gb_conn_mark_dirty(struct gb_conn *conn);

/* Polls for what the connection now waits for, and closes it when it is through. */
void gb_conn_settle(struct gb_conn *conn);

/* ---- conn_input.c -------------------------------------------------------------------------- */

/* Whether bytes are wanted from the socket. */
bool gb_conn_wants_input(const struct gb_conn *conn);
void gb_conn_read(struct gb_conn *conn);
void gb_conn_turn(struct gb_conn *conn);
void gb_conn_free_input(struct gb_conn *conn);
/* Whether a command may be taken now. */
bool gb_conn_can_take(const struct gb_conn *conn);
void gb_conn_wait_for_bytes(struct gb_conn *conn);
/* If part of a request is there, or bytes of one are still to come, request_ms counts from here
 * on. */
void gb_conn_note_partial(struct gb_conn *conn);

/* ---- conn_upload.c ------------------------------------------------------------------------- */

/* Where, and how many, bytes may be received; 0: none now. */
size_t gb_conn_upload_room(struct gb_upload *upload, unsigned char **to);
/* False: the upload is over. */
bool gb_conn_upload_take(struct gb_upload *upload, size_t len);
/* Feeds it what has been received already. */
void gb_conn_upload_feed(struct gb_conn *conn);
void gb_conn_upload_wake(struct gb_upload *upload);
void gb_conn_upload_close(struct gb_conn *conn);

/* ---- conn_tls.c ---------------------------------------------------------------------------- */

/* As gb_conn_open, first of all. Errors: -ENOMEM. */
int gb_conn_tls_open(struct gb_conn *conn, struct gb_tls *tls);
void gb_conn_tls_close(struct gb_conn *conn);
/* As gb_tls_send. */
ssize_t gb_conn_tls_send(struct gb_conn *conn, const struct iovec *iov, size_t count);
/* Goes on with the handshake. */
void gb_conn_tls_shake(struct gb_conn *conn);

/* Whether there is input of which the socket does not tell. */
static inline bool gb_conn_tls_has_more(const struct gb_conn *conn)
{
    return conn->tls != NULL && gb_tls_has_more(conn->tls);
}

/* Whether there is output that is not in `main` any more, nor with the socket. */
static inline bool gb_conn_tls_is_unsent(const struct gb_conn *conn)
{
    return conn->tls != NULL && gb_tls_is_unsent(conn->tls);
}

/* ---- conn_output.c ------------------------------------------------------------------------- */

void gb_conn_flush(struct gb_conn *conn);
void gb_conn_put(struct gb_conn *conn, struct gb_pieces *pieces, const void *data, size_t len);
/* Appends a held chunk; NULL without memory. */
struct gb_piece_out *gb_conn_put_held(struct gb_conn *conn, struct gb_pieces *pieces,
                                      const struct goblin_chunk *chunk);
/* Appends a copy of a chunk of any length if the budget has room for it. */
bool gb_conn_put_copy(struct gb_conn *conn, struct gb_pieces *pieces,
                      const struct goblin_chunk *chunk);
void gb_conn_splice(struct gb_pieces *to, struct gb_pieces *from);
/* Frees pieces, giving back what they hold; returns how many bytes they had. */
size_t gb_conn_drop_pieces(struct gb_conn *conn, struct gb_pieces *pieces);
void gb_conn_hold_fired(struct gb_deadline *deadline);

/* ---- conn_send.c --------------------------------------------------------------------------- */

/* A held piece of the first send has gone out, or was copied. */
void gb_conn_send_unheld(struct gb_conn *conn);
/* Bytes of the first send were dropped from `offset` on. */
void gb_conn_send_dropped(struct gb_conn *conn, uint64_t offset);
/* Moves on: complete sends leave, a parked one whose turn it is is read again. */
void gb_conn_send_advance(struct gb_conn *conn);
void gb_conn_send_close(struct gb_conn *conn);

#endif
