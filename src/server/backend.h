/*
 * The one way by which protocols reach the store: changes, streams, reads.
 *
 * The local backend does what cannot block at once, on the loop, and gives the rest to the workers;
 * a replicated one takes the same table. Protocols never call goblin_put and its like themselves.
 * What only looks (goblin_stats, goblin_iterate, goblin_scan, goblin_hint) they call directly, the
 * walks from a job of server/work.h.
 *
 * A change, an edit or a stream is the caller's memory, zeroed and filled in, and the backend's
 * from the call until it is over. Whatever it points to is borrowed as long.
 *
 * Threads: that of the loop handed in; `done` is called there too.
 */
#ifndef GB_SERVER_BACKEND_H
#define GB_SERVER_BACKEND_H

#include <limits.h>

#include <goblin/goblin.h>
#include <goblin/reader.h>
#include <goblin/writer.h>

#include "server/loop.h"
#include "server/work.h"

/* "Not yet: done will be called", where else an answer or a fault stands. */
#define GB_PENDING INT_MAX

/* ---- changes ------------------------------------------------------------------------------- */

enum gb_change_kind {
    GB_CHANGE_PUT = 0,
    GB_CHANGE_DELETE = 1,
    GB_CHANGE_TOUCH = 2, /* options.expires_ms, options.durability */
    GB_CHANGE_AMEND = 3, /* `amendment` and `before`; options.durability */
    GB_CHANGE_SYNC = 4,
    GB_CHANGE_CLEAR = 5,
};

struct gb_change {
    enum gb_change_kind kind;
    struct goblin_slice key;
    struct goblin_slice value;
    struct goblin_put_options options;
    struct goblin_amendment amendment;
    /* Not called when gb_backend_change answered at once. */
    void (*done)(struct gb_change *change);
    void *arg;

    int result;                /* as goblin_put, goblin_delete … return it */
    uint64_t version;          /* as goblin_put tells it */
    struct goblin_info before; /* as goblin_amend tells it */

    struct gb_loop *loop; /* the backend's from here on */
    struct gb_job job;
};

/* Returns the answer or fault (also in change->result) if the change could be made at once, and
 * GB_PENDING if `done` will be called. */
int gb_backend_change(struct gb_loop *loop, struct gb_change *change);

/* ---- edits --------------------------------------------------------------------------------- */

/* A value that is made from the one before: incr, append, prepend. Read, edit, stored if the
 * version is still the one that was read, else again from the start, as often as it takes. */
enum gb_edit_answer {
    GB_EDIT_STORE = 0, /* store edit->value under edit->options (condition and version are the
                          backend's to set) */
    GB_EDIT_LEAVE = 1, /* nothing is to be stored; edit->result is GOBLIN_MISS without an object,
                          GOBLIN_OK with one; the caller keeps what he found in `arg` */
    GB_EDIT_JOIN = 2,  /* the new value is edit->front, the old one, edit->back; of any length, it
                          is never in memory as a whole if it is long */
};

struct gb_edit {
    struct goblin_slice key;
    unsigned flags;       /* GOBLIN_GET_META: metadata is handed to decide */
    uint64_t value_bytes; /* decide is handed the value if it is not longer (at most 64 KiB; 0: it
                             decides by info alone) */

    /* Called once per try. `info` NULL: there is no object. `value` is empty with a NULL pointer if
     * it is longer than value_bytes. Fills in options (expiry, flags, meta, durability) and value,
     * or front and back; what they point to lives until done. */
    enum gb_edit_answer (*decide)(struct gb_edit *edit, const struct goblin_info *info,
                                  struct goblin_slice meta, struct goblin_slice value);
    void (*done)(struct gb_edit *edit); /* not called when gb_backend_edit answered at once */
    void *arg;

    struct goblin_put_options options;
    struct goblin_slice value;
    struct goblin_slice front;
    struct goblin_slice back;

    int result;       /* GOBLIN_OK: stored or left; GOBLIN_MISS; a fault */
    uint64_t version; /* of what is there now */

    struct gb_edit_work *work; /* the backend's */
};

/* As gb_backend_change. Errors: also -ENOMEM, GOBLIN_ETOOBIG. */
int gb_backend_edit(struct gb_loop *loop, struct gb_edit *edit);

/* ---- streams ------------------------------------------------------------------------------- */

/* A value that is stored as it arrives (goblin_writer). At most limits.streams are under way, and
 * as many as the engine has write blocks for; who begins one more waits in line until another
 * ends, and is never refused for that. One call at a time: the next may follow when `done` of the
 * one before has been called. */
struct gb_stream {
    struct goblin_slice key;
    uint64_t size; /* or GOBLIN_SIZE_UNKNOWN */
    struct goblin_put_options options;
    /* A call is done: stream->result. Never during the call itself. */
    void (*done)(struct gb_stream *stream);
    /* After an abort, when nothing of the stream is in use any more: it may be freed. Perhaps
     * during gb_backend_stream_abort. */
    void (*gone)(struct gb_stream *stream);
    void *arg;

    int result;
    uint64_t version;

    struct gb_loop *loop; /* the backend's from here on */
    struct goblin_writer *writer;
    struct gb_job job;
    struct gb_stream *next;
    struct gb_stream *prev;
    const void *data;
    size_t len;
    uint8_t state;
    bool aborted;
    bool counted;
};

/* Result: GOBLIN_OK, or a fault, after which the stream is over (as after commit). */
void gb_backend_stream_begin(struct gb_loop *loop, struct gb_stream *stream);
/* `data` is borrowed until done. Result: GOBLIN_OK, or a fault, after which only abort is left. */
void gb_backend_stream_write(struct gb_stream *stream, const void *data, size_t len);
/* Result: as goblin_writer_commit. The stream is over. */
void gb_backend_stream_commit(struct gb_stream *stream);
/* At any time before the stream is over; `done` of a call that is under way is not called any
 * more. */
void gb_backend_stream_abort(struct gb_stream *stream);

/* ---- reads --------------------------------------------------------------------------------- */

/* goblin_submit on the loop's reader, after whatever the backend asks of a read. -EAGAIN: too many
 * in flight; stand in loop->request_line. on_done must call gb_loop_request_ended. gb_conn_send
 * does all that by itself. */
int gb_backend_read(struct gb_loop *loop, struct goblin_request *request);

/* As goblin_stat. */
int gb_backend_stat(struct gb_loop *loop, struct goblin_slice key, struct goblin_info *info);

/* ---- the table ----------------------------------------------------------------------------- */

struct gb_backend_ops {
    int (*change)(struct gb_backend *backend, struct gb_loop *loop, struct gb_change *change);
    int (*edit)(struct gb_backend *backend, struct gb_loop *loop, struct gb_edit *edit);
    void (*stream_begin)(struct gb_backend *backend, struct gb_loop *loop,
                         struct gb_stream *stream);
    void (*stream_write)(struct gb_backend *backend, struct gb_stream *stream);
    void (*stream_commit)(struct gb_backend *backend, struct gb_stream *stream);
    void (*stream_abort)(struct gb_backend *backend, struct gb_stream *stream);
    int (*read)(struct gb_backend *backend, struct gb_loop *loop, struct goblin_request *request);
    int (*stat)(struct gb_backend *backend, struct gb_loop *loop, struct goblin_slice key,
                struct goblin_info *info);
    void (*count_streams)(struct gb_backend *backend, unsigned *active, unsigned *waiting);
    void (*destroy)(struct gb_backend *backend);
};

struct gb_backend {
    const struct gb_backend_ops *ops;
};

struct gb_backend_local_options {
    struct goblin *store; /* borrowed, as the workers, until it is destroyed */
    struct gb_work *work;
    unsigned streams;                  /* at once */
    enum goblin_durability durability; /* as the store was opened with */
};

/* The store of this process. */
int gb_backend_create_local(struct gb_backend **out,
                            const struct gb_backend_local_options *options);
void gb_backend_destroy(struct gb_backend *backend);

/* Streams under way, and in line. Threads: any. */
void gb_backend_count_streams(struct gb_backend *backend, unsigned *active, unsigned *waiting);

#endif
