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
    size_t left; /* keys still wanted */
    bool reverse;
    bool ended;
    bool behind; /* the lower bound itself is not wanted */
    struct goblin_slice low;
    struct goblin_slice high;
    struct gb_keybatch batch;
    unsigned char low_bytes[GOBLIN_KEY_MAX];
    unsigned char high_bytes[GOBLIN_KEY_MAX];
};

/* Owns: *out until gb_scan_end; the range is copied. Errors: those of goblin_scan. */
int gb_scan_begin(struct gb_scan **out, struct goblin *store, const struct goblin_range *range);
void gb_scan_end(struct gb_scan *scan);

/* Fills scan->batch with the next keys, at most scan->left, which the caller lowers by what counts.
 * Returns how many; 0: the range is at its end. Blocks: while the set is built. */
int gb_scan_next(struct gb_scan *scan);

#endif
