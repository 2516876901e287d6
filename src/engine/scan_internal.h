/*
 * A scan as the engine goes through it: batches of keys, each copied out of the ordered set under
 * its lock and then the caller's to look up, in any way it likes. goblin_scan asks the index what
 * is known of each; a scan that reads values takes the same batches.
 *
 * Threads: one at a time per scan.
 */
#ifndef GB_ENGINE_SCAN_INTERNAL_H
#define GB_ENGINE_SCAN_INTERNAL_H

#include <goblin/scan.h>

#include "engine/store.h"

struct gb_scan {
    struct goblin *store;
    bool reverse;
    bool ended;
    bool behind; /* the lower bound itself is not wanted */
    struct goblin_slice low;
    struct goblin_slice high;
    unsigned char low_bytes[GOBLIN_KEY_MAX];
    unsigned char high_bytes[GOBLIN_KEY_MAX];
};

/* 0, or what goblin_scan says of a store or a range with which it cannot begin. The range is
 * copied; there is nothing to end. */
int gb_scan_init(struct gb_scan *scan, struct goblin *store, const struct goblin_range *range);

/* Fills `batch` with the next keys, `most` of them at most. Returns how many; 0: the range is at
 * its end, or `most` is 0. Blocks: while the set is built. */
int gb_scan_next(struct gb_scan *scan, struct gb_keybatch *batch, size_t most);

/* What is left of a scan's limit: of `limit` 0, everything. */
static inline size_t gb_scan_limit(const struct goblin_range *range)
{
    return range->limit != 0 ? range->limit : SIZE_MAX;
}

#endif
