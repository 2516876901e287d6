/* What the loss of a drive, or of a segment, costs besides the objects that lay on it.
 * docs/adr/0008 and 0012 explain. */
#include "engine/drive.h"
#include "engine/recover.h"

bool gb_absent_note(struct goblin *store, uint32_t slot)
{
    const struct gb_segment *segment = &store->segments.table[slot];
    bool lost = segment->doubt < 0 || store->drives[segment->drive].bereft;
    gb_tally_add_shared(&store->tally, GB_COUNT_left_drive, lost);
    return lost;
}

/* Whether the lane may have written to a drive or segment that has been lost. */
static bool touched_lost(const struct goblin *store, unsigned lane)
{
    unsigned home = gb_segments_home(&store->segments, lane);
    bool strayed = (store->drives[0].identity.strayed >> lane & 1) != 0;
    if (home >= store->drive_count || strayed) {
        return gb_drives_bereft(store->drives, store->drive_count);
    }
    return store->drives[home].bereft || store->drives[home].pierced;
}

struct doubt {
    struct goblin *store;
    bool lanes[GB_LANES_MAX];
    uint64_t count;
};

static void drop_doubtful(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    struct doubt *doubt = arg;
    uint64_t hash = gb_index_hash(item->key, gb_item_key_len(item));
    if (doubt->lanes[gb_store_lane(doubt->store, hash)->number]) {
        gb_store_forget_locked(doubt->store, locked, item);
        doubt->count++;
    }
}

void gb_absent_settle(struct goblin *store, bool exact)
{
    struct doubt doubt = {.store = store};
    unsigned lanes = 0;
    for (unsigned i = 0; i < store->lane_count; i++) {
        doubt.lanes[i] = !exact && touched_lost(store, i);
        lanes += doubt.lanes[i];
    }
    if (lanes == 0) {
        return;
    }
    if (store->options.mode == GOBLIN_MODE_STORE) {
        gb_store_log(store, GOBLIN_LOG_WARN,
                     "the store was not closed before a drive or segment was lost: an object whose "
                     "last value lay on it may be there as it was before");
        return;
    }
    uint64_t cursor = 0;
    do {
        gb_index_scan_bucket(store->index, &cursor, drop_doubtful, &doubt);
    } while (cursor != 0);
    gb_tally_add_shared(&store->tally, GB_COUNT_left_drive, doubt.count);
    gb_store_log(store, GOBLIN_LOG_WARN,
                 "the store was not closed before a drive or segment was lost: %llu other objects "
                 "are dropped, for it may have held newer values of them",
                 (unsigned long long)doubt.count);
}
