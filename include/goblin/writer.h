/*
 * Streaming a value in: begin, write as often as needed, then commit or abort.
 *
 * Bytes go to disk as they come, through two aligned blocks of the store's memory budget, so a
 * value may be far larger than RAM. Nothing is visible before goblin_writer_commit, which
 * publishes the whole value atomically: a reader sees the old object or the new one. Conditions
 * are judged, and version and order are taken, at commit. Abort, or a crash before commit,
 * leaves no trace.
 *
 * Threads: one thread at a time per writer. Blocks: on the device, when both blocks are in flight.
 */
#ifndef GOBLIN_WRITER_H
#define GOBLIN_WRITER_H

#include <goblin/goblin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct goblin_writer;

#define GOBLIN_SIZE_UNKNOWN UINT64_MAX

/* Starts a value of `size` bytes, or of GOBLIN_SIZE_UNKNOWN. Key, metadata and options are copied.
 * Blocks: never on the device or another call. What it needs of RAM it takes, or makes room for by
 *         itself; -ENOMEM comes at once.
 * Errors: as goblin_put; -ENOSPC also when uncommitted values would take more than half the
 *         store; -ENOMEM when the memory budget has no block left for another writer; -EINVAL for
 *         `nowait`: later calls wait. */
GOBLIN_NODISCARD int goblin_writer_begin(struct goblin_writer **out, struct goblin *store,
                                         struct goblin_slice key, uint64_t size,
                                         const struct goblin_put_options *options);

/* Appends. A device that refuses some of the bytes is no fault as long as another place takes them.
 * After a fault only abort is left.
 * Errors: GOBLIN_ESIZE: more bytes than announced; -ENOSPC: no room; -EIO: no drive takes any more,
 *         or one that failed does not give back what it had taken. */
GOBLIN_NODISCARD int goblin_writer_write(struct goblin_writer *writer, const void *data,
                                         size_t len);

/* Publishes and frees the writer, whatever the answer. Answers as goblin_put, errors as
 * goblin_writer_write too; GOBLIN_ESIZE: fewer bytes than announced, nothing was stored. */
GOBLIN_NODISCARD int goblin_writer_commit(struct goblin_writer *writer, uint64_t *version);

/* Drops everything and frees the writer. NULL is fine. */
void goblin_writer_abort(struct goblin_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
