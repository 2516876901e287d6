/*
 * Bytes between file descriptors and the store.
 *
 * Descriptors may be pipes, terminals or files, blocking or not: short reads and writes, EINTR and
 * EAGAIN are dealt with here.
 */
#ifndef GB_CLI_STREAM_H
#define GB_CLI_STREAM_H

#include <goblin/writer.h>

#include "cli/progress.h"

/* The largest value that is stored in one piece from the buffer; larger ones are streamed. */
#define GB_STREAM_BUFFER ((size_t)1 << 20)

/* Reads until `len` bytes or the end. Returns 0 with *got, or a negative errno. */
int gb_stream_read(int fd, void *buffer, size_t len, size_t *got);

/* Writes everything. Returns 0 or a negative errno (-EPIPE: the reader has gone). */
int gb_stream_write(int fd, const void *data, size_t len);

struct gb_stream_source {
    int fd;
    uint64_t size;                /* or GOBLIN_SIZE_UNKNOWN */
    unsigned char *buffer;        /* GB_STREAM_BUFFER bytes, the caller's */
    struct gb_progress *progress; /* or NULL */
    uint64_t bytes;               /* out: what was read */
    int source_fault;             /* out: the negative errno of reading, when that is what failed */
};

/* The bytes that a regular file still has from where `fd` stands; GOBLIN_SIZE_UNKNOWN for none, and
 * for everything else. */
uint64_t gb_stream_size(int fd);

/* Stores what the source gives, up to its end, as one object. Returns as goblin_put. */
int gb_stream_put(struct goblin *store, struct goblin_slice key, struct gb_stream_source *source,
                  const struct goblin_put_options *options, uint64_t *version);

#endif
