/*
 * Keys in order: which keys a store holds, from one to another, by prefix, forwards or backwards.
 *
 * Keys are ordered as unsigned bytes, a key before all that it begins. A store keeps its keys in
 * order from the first scan on (goblin_options.ordered): that one reads the whole index first, and
 * from then on a key that comes or goes costs a little more.
 */
#ifndef GOBLIN_SCAN_H
#define GOBLIN_SCAN_H

#include <goblin/goblin.h>
#include <goblin/reader.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All that is set must hold; an empty slice sets nothing. */
struct goblin_range {
    struct goblin_slice from;   /* keys not less than this */
    struct goblin_slice to;     /* keys less than this */
    struct goblin_slice prefix; /* keys that begin so */
    struct goblin_slice after;  /* keys behind this one in the direction of the scan: the last one
                                   seen, to go on where a scan was stopped */
    size_t limit;               /* visit so many at most; 0: no limit */
    bool reverse;               /* greatest first */
};

/* Visits the objects of the range in order of their keys. `range` NULL: all of them. Writers go on
 * beside it: an object that exists throughout the scan is visited exactly once, one that comes or
 * goes meanwhile once or not at all, and `info` is as of the moment. Expired objects are passed
 * over. The callback may call into the store; it runs without any lock.
 * Returns GOBLIN_OK, or the callback's nonzero answer.
 * Blocks: the first scan of a store puts its keys in order, some hundred thousand to a million of
 *         them per second; so does one after memory had been too small.
 * Errors: GOBLIN_EUNORDERED (switched off at open); -ENOMEM (`memory_bytes` is too small to keep
 *         this store's keys in order); GOBLIN_EKEY (a bound is longer than a key may be). A scan
 *         that has begun may also end so. */
GOBLIN_NODISCARD int goblin_scan(struct goblin *store, const struct goblin_range *range,
                                 goblin_iterate_fn visit, void *arg);

/* A chunk of the value under `key`, as <goblin/reader.h> has them: those of one object come one
 * after the other, in order, resident ones first, the last one is marked `last`; most small values
 * come in one. Both arguments, and what they point at, are gone when the callback returns, and
 * nothing of a chunk can be held. Anything but 0 ends the scan. It runs as a reader's callbacks
 * do. */
typedef int (*goblin_scan_fn)(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk);

/* As goblin_scan, with values: each as of a moment between the calls for the objects around it, or
 * a little earlier. While one is handed over those behind it are being read, the further ahead the
 * longer the scan goes on, and neighbours on disk together: keys that were written in order are
 * read nearly as the log lies, in few large reads; others keep the device busy with many at once.
 * Buffers and requests are the reader's, and what it has of them bounds what is on its way; a
 * quarter of the requests is left to others. `flags`: of enum goblin_get_flags; with
 * GOBLIN_GET_RESIDENT objects that are not all in RAM are passed over, or broken off.
 * A value that is found bad or cannot be read is passed over and counted as ever. If some of it has
 * been handed over already it is broken off: no chunk of it is `last`.
 * A scan begins at no cost worth mentioning but for a reader's first one, which takes some 120 KiB
 * of memory that the reader keeps.
 * Returns GOBLIN_OK, or the callback's nonzero answer. In either case nothing is on its way for it
 * that would call back any more.
 * Blocks: as goblin_scan, and for the device.
 * Errors: those of goblin_scan; -ENOMEM (also for the memory of a first scan, as in
 *         goblin_reader_create); -EBUSY: the reader is in a scan already; -EAGAIN: all its requests
 *         are held by others; a fault of the ring. */
GOBLIN_NODISCARD int goblin_scan_values(struct goblin_reader *reader,
                                        const struct goblin_range *range, unsigned flags,
                                        goblin_scan_fn visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
