/*
 * A connection: bytes in, commands one at a time; bytes and objects out, in the order asked for.
 *
 * The session (a protocol's state machine) is a table of functions. It is given what has arrived
 * and takes one command per call; the connection sees to turns, limits, deadlines and
 * back-pressure: it calls for no command and reads nothing while the session waits for something
 * (gb_conn_pause), while more than limits.output_bytes are unsent or limits.sends objects are
 * under way, or while the network budget has no room.
 *
 * Output is a list of owned blocks and of held chunks of the reader, written with writev. An object
 * (gb_conn_send) takes its place in the output when it is asked for; objects are read at the same
 * time and go out in order. What the socket does not take within limits.hold_ms leaves the reader's
 * buffers: it is copied if the budget has room, else dropped and read again from that byte on, when
 * the client has taken what came before, provided the object's version is still the same; else the
 * connection is closed and counted.
 *
 * Deadlines (limits): idle_ms between commands, request_ms for a command that has begun to arrive,
 * stall_ms for output. Each of the last two begins anew only after GB_LIMITS_PROGRESS_BYTES.
 *
 * A pipelined end of stream is honoured: what has arrived is answered before the connection closes.
 *
 * Over TLS (tls.h) all of this is the same, once the handshake is done; what it costs is taken from
 * the budget when the socket is accepted.
 *
 * Units: bytes. Threads: the loop's, for everything.
 */
#ifndef GB_SERVER_CONN_H
#define GB_SERVER_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/reader.h>

#include "server/backend.h"
#include "server/loop.h"

struct gb_conn;
struct gb_tls;

/* Why a connection was closed; counted by gb_metrics under these names. X(name) */
#define GB_CONN_ENDS(X)                                                                            \
    X(client)    /* the peer closed or reset it */                                                 \
    X(session)   /* the session closed it */                                                       \
    X(idle)      /* nothing came within idle_ms */                                                 \
    X(request)   /* a command, or a handshake, did not arrive within request_ms */                 \
    X(stalled)   /* output was not taken within stall_ms */                                        \
    X(changed)   /* an object changed while its client was slow */                                 \
    X(broken)    /* a value failed when part of it was out */                                      \
    X(drained)   /* the server ends */                                                             \
    X(handshake) /* TLS was not agreed on */

enum gb_conn_end {
#define GB_X(name) GB_CONN_END_##name,
    GB_CONN_ENDS(GB_X)
#undef GB_X
        GB_CONN_END_COUNT,
};

#define GB_CONN_CLOSE (-1)

struct gb_conn_ops {
    size_t state_bytes; /* zeroed memory behind every connection, for gb_conn_state */

    /* May append a greeting. Returns GOBLIN_OK, or a fault: the connection is closed. May be
     * NULL. */
    int (*on_open)(struct gb_conn *conn);

    /* At least one byte has arrived that was not consumed yet; `data` is all there is. Takes one
     * command, or a part of one that can be dealt with by itself. Returns how many bytes are
     * consumed; 0: more must come first (gb_conn_want says how many); GB_CONN_CLOSE.
     * Bytes that were given stay where they are, consumed or not, until on_bytes is called again or
     * gb_conn_resume returns: what waits in a pause may borrow keys and values from them. */
    ptrdiff_t (*on_bytes)(struct gb_conn *conn, const unsigned char *data, size_t len);

    /* Output has been sent to below half its limit, after gb_conn_full was true. May be NULL. */
    void (*on_drained)(struct gb_conn *conn);

    /* The connection is about to be cut for idle, request or drained; a last word may be appended,
     * it is sent if the socket takes it at once. May be NULL. */
    void (*on_cut)(struct gb_conn *conn, enum gb_conn_end why);

    /* The socket is closed. Nothing but gb_conn_resume and what only tells of the connection
     * (gb_conn_state, gb_conn_why_closed …) may be called from here on. The state lives until
     * pauses and references are over. May be NULL. */
    void (*on_close)(struct gb_conn *conn);

    /* The memory goes now; the last call. May be NULL. */
    void (*on_free)(struct gb_conn *conn);
};

/* ---- life ---------------------------------------------------------------------------------- */

/* Makes a connection of an accepted socket that is counted against the limits; over TLS, unless
 * `tls` is NULL. Owns: fd, also when it fails; the connection frees itself. Errors: -ENOMEM. */
int gb_conn_open(struct gb_loop *loop, const struct gb_listener *listener, int fd,
                 const struct gb_conn_ops *ops, struct gb_tls *tls);

void *gb_conn_state(struct gb_conn *conn);
struct gb_loop *gb_conn_loop(const struct gb_conn *conn);
const struct gb_listener *gb_conn_listener(const struct gb_conn *conn);
bool gb_conn_is_closed(const struct gb_conn *conn);
/* Of a connection that is closed. */
enum gb_conn_end gb_conn_why_closed(const struct gb_conn *conn);

/* The peer as text: "127.0.0.1:51234", "unix". Lives as long as the connection. */
const char *gb_conn_peer(const struct gb_conn *conn);
uint64_t gb_conn_number(const struct gb_conn *conn); /* unique in the server's life */
int gb_conn_fd(const struct gb_conn *conn);
int64_t gb_conn_idle_ms(const struct gb_conn *conn); /* since its last command */
uint64_t gb_conn_bytes_in(const struct gb_conn *conn);
uint64_t gb_conn_bytes_out(const struct gb_conn *conn);

/* The next connection of the loop, the first for NULL: for lists of connections. */
struct gb_conn *gb_conn_next(const struct gb_loop *loop, const struct gb_conn *conn);

/* Takes no more commands; closes when all output is sent. */
void gb_conn_finish(struct gb_conn *conn);
bool gb_conn_is_finishing(const struct gb_conn *conn);

/* From here on the client is only told things: it is not idle when it says nothing. */
void gb_conn_listen(struct gb_conn *conn);

/* Closes at once, counting why. on_close is called before it returns. */
void gb_conn_cut(struct gb_conn *conn, enum gb_conn_end why);

/* While references are held a closed connection's state stays in memory. */
void gb_conn_ref(struct gb_conn *conn);
void gb_conn_unref(struct gb_conn *conn);

/* ---- input --------------------------------------------------------------------------------- */

/* From within on_bytes, before it returns 0: it is not called again before `len` bytes (counted
 * from `data`) are there in one piece, or the peer has ended. Room for them is reserved whole;
 * until the budget has it the connection waits in line. `len` is at most limits.whole_bytes and 64
 * KiB for the command around it; longer things stream. */
void gb_conn_want(struct gb_conn *conn, size_t len);

/* From within on_bytes: another command was taken in this turn, just before. */
bool gb_conn_in_row(const struct gb_conn *conn);

/* The next `len` bytes behind what on_bytes consumes are thrown away. */
void gb_conn_swallow(struct gb_conn *conn, uint64_t len);

/* The next `len` bytes behind what on_bytes consumes go into a stream that has begun, through two
 * buffers of the network budget (waiting in line for them, then never less than both). `done` is
 * called when all have come: with GOBLIN_OK, or the fault of a write; the rest is then thrown away
 * first, so that the next command is found. It is not called when the connection closes: then the
 * stream is aborted, and freed for `stream->arg` by stream->gone. Commit is the session's. The
 * session is paused meanwhile. */
void gb_conn_upload(struct gb_conn *conn, struct gb_stream *stream, uint64_t len,
                    void (*done)(struct gb_conn *conn, struct gb_stream *stream, int result));

/* No on_bytes until gb_conn_resume, and a reference until then. Pauses nest. */
void gb_conn_pause(struct gb_conn *conn);
/* Harmless for the caller if the connection was closed meanwhile (see gb_conn_is_closed), but the
 * state may be gone when it returns. */
void gb_conn_resume(struct gb_conn *conn);

/* ---- output -------------------------------------------------------------------------------- */

/* Appends behind all that was asked for so far. Nothing is lost for lack of memory: without any the
 * connection is cut and further output ignored. */
void gb_conn_append(struct gb_conn *conn, const void *data, size_t len);

/* Room for up to `len` (at most GB_CONN_RESERVE_MAX) bytes to write a reply into directly;
 * gb_conn_commit says how many it became, before anything else is appended. NULL: no memory, the
 * connection was cut. */
#define GB_CONN_RESERVE_MAX 8192u
unsigned char *gb_conn_reserve(struct gb_conn *conn, size_t len);
void gb_conn_commit(struct gb_conn *conn, size_t len);

/* Too much is unsent: whoever produces output by himself (listings, events) stops until
 * on_drained. */
bool gb_conn_full(struct gb_conn *conn);
size_t gb_conn_unsent(const struct gb_conn *conn);

/* ---- objects on their way out -------------------------------------------------------------- */

struct gb_send;

enum gb_send_answer {
    GB_SEND_BODY = 0,    /* the bytes follow */
    GB_SEND_NO_BODY = 1, /* this was all; nothing is read */
};

struct gb_send_request {
    struct goblin_slice key; /* borrowed for the call */
    uint64_t offset;
    uint64_t length; /* 0: to the end */
    unsigned flags;  /* enum goblin_get_flags */

    /* Once, first of all, perhaps during gb_conn_send: what was found. result GOBLIN_OK with `info`
     * (and the metadata, if asked for), GOBLIN_MISS or a fault, both without. Writes what stands in
     * front of the body, or instead of it, with gb_send_append. Not called if the connection closes
     * first. */
    enum gb_send_answer (*on_head)(struct gb_send *send, int result, const struct goblin_info *info,
                                   struct goblin_slice meta);

    /* The object's last byte is in the output (not: at the client), what is appended follows it.
     * Also after a miss, a fault or GB_SEND_NO_BODY. May be NULL. Not called if the connection
     * closes first. */
    void (*on_body)(struct gb_send *send, bool from_ram);

    uint64_t tag[4]; /* the session's own, for its two functions: gb_send_tag */
};

/* Takes a place in the output for an object and asks for it. While fewer than limits.sends are
 * under way it always has room; on_bytes is not called when there are as many. Failing memory cuts
 * the connection. */
void gb_conn_send(struct gb_conn *conn, const struct gb_send_request *request);

struct gb_conn *gb_send_conn(const struct gb_send *send);
uint64_t *gb_send_tag(struct gb_send *send);
/* At the send's place in the output; from on_head and on_body. */
void gb_send_append(struct gb_send *send, const void *data, size_t len);

#endif
