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

#ifdef __cplusplus
}
#endif

#endif
