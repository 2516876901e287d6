/*
 * Reading: ordered chunks, the head first.
 *
 * A reader belongs to one thread at a time and owns an I/O ring and aligned chunk buffers out of
 * the store's memory budget. A request's chunks arrive in order: first, during goblin_submit
 * itself, the resident head straight from the store's RAM (before any I/O is submitted), then,
 * during goblin_poll, the tail chunks as the device delivers them. Every byte from the device has
 * been verified against its checksum before a callback sees it; a value that fails is a miss
 * (-> GOBLIN_ECORRUPT if chunks were already handed over) and is counted.
 *
 * Callbacks run on the reader's thread, outside any lock, and may call into the store, but not
 * into the same reader except goblin_submit, goblin_cancel and goblin_release.
 *
 * Threads: all calls on one reader from one thread at a time.
 */
#ifndef GOBLIN_READER_H
#define GOBLIN_READER_H

#include <goblin/goblin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct goblin_reader;

struct goblin_reader_options {
    unsigned buffers;  /* chunk buffers; 0: the store's depth. More let more requests progress */
    unsigned requests; /* requests in flight at once; 0: 64. Beyond it submit says -EAGAIN */
    unsigned threads;  /* on the sync I/O path, threads of the reader's own, up to 16, that wait for
                          the device; 0: none, then submit and poll wait for it themselves */
};

/* Errors: -ENOMEM (also when the buffers would take more than the memory budget allows). */
GOBLIN_NODISCARD int goblin_reader_create(struct goblin_reader **out, struct goblin *store,
                                          const struct goblin_reader_options *options);

/* Cancels what is in flight, waits for the device and frees. NULL is fine. */
void goblin_reader_destroy(struct goblin_reader *reader);

struct goblin_chunk {
    const void *data;
    size_t len;
    uint64_t offset;                /* of data[0] in the value */
    const struct goblin_info *info; /* of the object; lives as long as the callback runs */
    struct goblin_slice meta;       /* on a request's first chunk, if GOBLIN_GET_META was asked */
    bool resident;                  /* came from RAM */
    bool last;                      /* nothing follows */
    uint64_t hold;                  /* for goblin_release */
};

enum goblin_chunk_answer {
    GOBLIN_CHUNK_DONE = 0, /* the bytes are not needed after the callback returns */
    GOBLIN_CHUNK_HOLD = 1, /* the caller will goblin_release(chunk->hold); until then the bytes stay
                              and, for tail chunks, one buffer fewer is there for reading ahead */
    GOBLIN_CHUNK_STOP = -1, /* cancel the request; on_done gets GOBLIN_ECANCELED */
};

/* An object of size 0, or an empty range, gives one chunk of length 0. */
typedef int (*goblin_chunk_fn)(void *arg, const struct goblin_chunk *chunk);

/* The request is over: result is GOBLIN_OK, GOBLIN_MISS, GOBLIN_ECANCELED, GOBLIN_ECORRUPT or a
 * negative errno. `info` is valid for GOBLIN_OK, during the call. The struct goblin_request
 * may be reused from here on. */
typedef void (*goblin_done_fn)(void *arg, int result, const struct goblin_info *info);

enum goblin_get_flags {
    GOBLIN_GET_META = 1u << 0,     /* hand over the user metadata with the first chunk */
    GOBLIN_GET_RESIDENT = 1u << 1, /* what is in RAM only: never touches the device */
    GOBLIN_GET_QUIET = 1u << 2,    /* counts neither as an access of the object nor as a get (scans,
                                       backups) */
};

struct goblin_request {
    struct goblin_slice key; /* borrowed until goblin_submit returns */
    uint64_t offset;         /* of the range; at or past the end gives an empty chunk */
    uint64_t length;         /* 0: to the end; cut off at the end */
    unsigned flags;
    unsigned ahead; /* tail chunks that may be on their way or held at once, so that one consumer
                       who is slow leaves buffers to others; 0: as many as depth and buffers let */
    goblin_chunk_fn on_chunk;
    goblin_done_fn on_done; /* may be NULL for goblin_get */
    void *arg;
    void *internal; /* the library's, until on_done */
};

/* Starts a request. The head chunk is delivered before it returns, and on_done too if nothing is
 * left to read (misses included). Owns: *request is the library's until on_done.
 * Returns GOBLIN_OK when on_done has been or will be called; a fault moves nothing: -EAGAIN (too
 * many in flight), GOBLIN_EKEY, -EINVAL. */
GOBLIN_NODISCARD int goblin_submit(struct goblin_reader *reader, struct goblin_request *request);

/* Delivers what has become ready. timeout_ms 0 returns at once, < 0 waits for at least one event.
 * Returns the number of requests still in flight, or a fault of the ring itself. */
GOBLIN_NODISCARD int goblin_poll(struct goblin_reader *reader, int timeout_ms);

/* An eventfd that becomes readable when goblin_poll has something to do; goblin_poll drains it.
 * Never close it. -ENOSYS on the sync I/O path without `threads`: the device work of a request is
 * done by then, and goblin_poll hands it over without waiting. */
GOBLIN_NODISCARD int goblin_reader_eventfd(struct goblin_reader *reader);

/* Asks a request to end; on_done gets GOBLIN_ECANCELED, perhaps during this call, unless it was
 * complete. Harmless for one that has ended. */
void goblin_cancel(struct goblin_reader *reader, struct goblin_request *request);

/* Gives back a held chunk. Requests that waited for its buffer go on at the next goblin_poll. */
void goblin_release(struct goblin_reader *reader, uint64_t hold);

/* Submit and poll until done, in one call. Other requests of the reader progress meanwhile.
 * Returns what on_done would have got. */
GOBLIN_NODISCARD int goblin_get(struct goblin_reader *reader, struct goblin_request *request);

/* Many gets in one call: results[i] is what goblin_get would return for requests[i], and on_done,
 * where it is not NULL, is called as well. Memory is fetched for many keys at once, as by
 * goblin_hint, and what is not resident is read in parallel: at once as many pieces as the reader
 * has buffers and as many requests as it has room for; any more follow as these end. So chunks of
 * one request arrive in order, those of different requests as they come. A key that stands there
 * several times is answered as often.
 * Returns GOBLIN_OK when each request has its result. A fault of the arguments (GOBLIN_EKEY,
 * -EINVAL) starts none. Any other fault ends those that have no result yet with GOBLIN_ECANCELED:
 * that of the ring itself, or -EAGAIN, when the caller holds so many chunks that no request can go
 * on. Not to be called from a callback of the reader. Blocks. */
GOBLIN_NODISCARD int goblin_get_many(struct goblin_reader *reader, struct goblin_request *requests,
                                     size_t count, int *results);

/* A grow-only buffer, page-aligned. Zero it first; free with goblin_buffer_free. */
struct goblin_buffer {
    unsigned char *data;
    size_t len;
    size_t capacity;
};
void goblin_buffer_free(struct goblin_buffer *buffer);

/* Reads a whole value into `buffer`, tail reads landing at their final offsets where alignment
 * allows it. `info` and `meta` may be NULL. Returns GOBLIN_OK, GOBLIN_MISS or a fault. A value of
 * which any byte cannot be read, or fails its checksum, is a miss: it is never GOBLIN_ECORRUPT.
 * On a miss the buffer's len is 0. Blocks. */
GOBLIN_NODISCARD int goblin_load(struct goblin_reader *reader, struct goblin_slice key,
                                 struct goblin_buffer *buffer, struct goblin_info *info,
                                 struct goblin_buffer *meta);

#ifdef __cplusplus
}
#endif

#endif
