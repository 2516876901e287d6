/* Scans over the ordered set: a batch of keys is copied out, then each is looked up and handed over
 * without a lock, then the next batch begins behind the last key. */
#include <goblin/scan.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scan_internal.h"

static bool is_bound(struct goblin_slice slice)
{
    return slice.len <= GOBLIN_KEY_MAX && (slice.len == 0 || slice.data != NULL);
}

/* What comes before what. */
static int compare(struct goblin_slice a, struct goblin_slice b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static void copy_slice(unsigned char *buffer, struct goblin_slice *slice)
{
    if (slice->len > 0) {
        memcpy(buffer, slice->data, slice->len);
    }
    slice->data = buffer;
}

/* The first key behind all that begin with the prefix: its last byte that can be raised, raised.
 * False: there is none. */
static bool behind_prefix(struct goblin_slice prefix, unsigned char *buffer,
                          struct goblin_slice *out)
{
    const unsigned char *bytes = prefix.data;
    size_t len = prefix.len;
    while (len > 0 && bytes[len - 1] == 0xff) {
        len--;
    }
    if (len == 0) {
        return false;
    }
    memcpy(buffer, bytes, len);
    buffer[len - 1]++;
    *out = (struct goblin_slice){buffer, len};
    return true;
}

/* One lower and one upper bound out of all that the range sets. */
static void settle_bounds(struct gb_scan *scan, const struct goblin_range *range)
{
    struct goblin_slice low = range->from;
    struct goblin_slice high = range->to;
    struct goblin_slice behind;
    unsigned char buffer[GOBLIN_KEY_MAX];
    scan->behind = false;
    if (range->prefix.len > 0) {
        if (low.len == 0 || compare(low, range->prefix) < 0) {
            low = range->prefix;
        }
        if (behind_prefix(range->prefix, buffer, &behind) &&
            (high.len == 0 || compare(behind, high) < 0)) {
            high = behind;
        }
    }
    if (range->after.len > 0 && range->reverse) {
        high = high.len == 0 || compare(range->after, high) < 0 ? range->after : high;
    } else if (range->after.len > 0 && (low.len == 0 || compare(low, range->after) <= 0)) {
        low = range->after;
        scan->behind = true;
    }
    scan->low = low;
    scan->high = high;
    copy_slice(scan->low_bytes, &scan->low);
    copy_slice(scan->high_bytes, &scan->high);
}

int gb_scan_init(struct gb_scan *scan, struct goblin *store, const struct goblin_range *range)
{
    if (store->options.ordered == GOBLIN_ORDERED_OFF) {
        return GOBLIN_EUNORDERED;
    }
    if (!is_bound(range->from) || !is_bound(range->to) || !is_bound(range->prefix) ||
        !is_bound(range->after)) {
        return GOBLIN_EKEY;
    }
    scan->store = store;
    scan->reverse = range->reverse;
    scan->ended = false;
    settle_bounds(scan, range);
    return 0;
}

/* The keys of the batch that lie in the range. */
static uint32_t within(const struct gb_scan *scan, const struct gb_keybatch *batch)
{
    uint32_t count = batch->count;
    for (; count > 0; count--) {
        struct goblin_slice key = gb_keybatch_key(batch, count - 1);
        if (scan->reverse ? scan->low.len == 0 || compare(key, scan->low) >= 0
                          : scan->high.len == 0 || compare(key, scan->high) < 0) {
            break;
        }
    }
    return count;
}

/* The next batch begins behind the last key of this one. */
static void go_on(struct gb_scan *scan, const struct gb_keybatch *batch)
{
    struct goblin_slice last = gb_keybatch_key(batch, batch->count - 1);
    struct goblin_slice *bound = scan->reverse ? &scan->high : &scan->low;
    unsigned char *bytes = scan->reverse ? scan->high_bytes : scan->low_bytes;
    memcpy(bytes, last.data, last.len);
    *bound = (struct goblin_slice){bytes, last.len};
    scan->behind = true;
}

int gb_scan_next(struct gb_scan *scan, struct gb_keybatch *batch, size_t most)
{
    struct gb_ordered_ask ask = {
        .bound = scan->reverse ? scan->high : scan->low,
        .behind = scan->behind,
        .reverse = scan->reverse,
        .most = (uint32_t)gb_min(most, GB_KEYBATCH_KEYS),
        .batch = batch,
    };
    batch->count = 0;
    if (ask.most == 0 || scan->ended) {
        return 0;
    }
    while (!gb_ordered_copy(&scan->store->ordered, &ask)) {
        int rc = gb_ordered_build(scan->store);
        if (rc < 0) {
            return rc;
        }
    }
    uint32_t count = batch->count;
    if (count == 0) {
        scan->ended = true;
        return 0;
    }
    go_on(scan, batch);
    batch->count = within(scan, batch);
    scan->ended = batch->count < count; /* the rest lies beyond the range */
    return (int)batch->count;
}

/* ---- keys with what is known of their objects ---------------------------------------------- */

struct tour {
    struct gb_scan scan;
    struct gb_keybatch batch;
    size_t left; /* objects still wanted */
};

static int visit_batch(struct tour *tour, goblin_iterate_fn visit, void *arg)
{
    struct goblin *store = tour->scan.store;
    for (uint32_t i = 0; i < tour->batch.count; i++) {
        struct goblin_slice key = gb_keybatch_key(&tour->batch, i);
        gb_index_prefetch(store->index, gb_index_hash(key.data, key.len));
    }
    for (uint32_t i = 0; i < tour->batch.count; i++) {
        struct goblin_slice key = gb_keybatch_key(&tour->batch, i);
        struct goblin_info info;
        if (goblin_stat(store, key, &info) != GOBLIN_OK) {
            continue; /* gone since it was copied */
        }
        int rc = visit(arg, key, &info);
        if (rc != 0) {
            return rc;
        }
        tour->left--;
    }
    return 0;
}

int goblin_scan(struct goblin *store, const struct goblin_range *range, goblin_iterate_fn visit,
                void *arg)
{
    static const struct goblin_range all;
    range = range != NULL ? range : &all;
    struct tour *tour = malloc(sizeof(*tour));
    if (tour == NULL) {
        return -ENOMEM;
    }
    atomic_fetch_add(&store->budget.other, sizeof(*tour));
    tour->left = gb_scan_limit(range);
    int rc = gb_scan_init(&tour->scan, store, range);
    while (rc == 0) {
        rc = gb_scan_next(&tour->scan, &tour->batch, tour->left);
        if (rc <= 0) {
            break;
        }
        rc = visit_batch(tour, visit, arg);
    }
    atomic_fetch_sub(&store->budget.other, sizeof(*tour));
    free(tour);
    return rc != 0 ? rc : GOBLIN_OK;
}
