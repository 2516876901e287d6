/* Iteration over all keys, and clear. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/store.h"

#define CLEAR_PATIENCE 50u /* looks for room for a clear, 20 ms apart */

/* What one bucket held, copied out so that callbacks run without its lock. */
struct catch
{
    struct goblin *store;
    unsigned char *bytes; /* entries back to back: info, key length, key */
    size_t len;
    size_t capacity;
    int fault;
};

struct caught {
    struct goblin_info info;
    uint32_t key_len;
};

static void catch_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct catch *catch = arg;
    struct caught entry = {.key_len = gb_item_key_len(item)};
    gb_item_describe(item, &entry.info);
    if (gb_expired(entry.info.expires_ms, gb_store_now_ms(catch->store))) {
        return;
    }
    size_t need = sizeof(entry) + entry.key_len;
    if (catch->len + need > catch->capacity) {
        size_t capacity = 2 * catch->capacity + need;
        unsigned char *bytes = realloc(catch->bytes, capacity);
        if (bytes == NULL) {
            catch->fault = -ENOMEM;
            return;
        }
        catch->bytes = bytes;
        catch->capacity = capacity;
    }
    memcpy(catch->bytes + catch->len, &entry, sizeof(entry));
    memcpy(catch->bytes + catch->len + sizeof(entry), item->key, entry.key_len);
    catch->len += need;
}

static int visit_caught(const struct catch *catch, goblin_iterate_fn visit, void *arg,
                        size_t *count)
{
    size_t at = 0;
    while (at < catch->len) {
        struct caught entry;
        memcpy(&entry, catch->bytes + at, sizeof(entry));
        struct goblin_slice key = {catch->bytes + at + sizeof(entry), entry.key_len};
        int rc = visit(arg, key, &entry.info);
        if (rc != 0) {
            return rc;
        }
        ++*count;
        at += sizeof(entry) + entry.key_len;
    }
    return 0;
}

int goblin_iterate(struct goblin *store, uint64_t *cursor, size_t limit, goblin_iterate_fn visit,
                   void *arg)
{
    struct catch catch = {.store = store};
    size_t count = 0;
    int rc = 0;
    do {
        uint64_t before = *cursor;
        catch.len = 0;
        gb_index_scan_bucket(store->index, cursor, catch_item, &catch);
        if (catch.fault < 0) {
            *cursor = before; /* whoever goes on misses nothing */
        }
        rc = catch.fault < 0 ? catch.fault : visit_caught(&catch, visit, arg, &count);
    } while (rc == 0 && *cursor != 0 && (limit == 0 || count < limit));
    free(catch.bytes);
    return rc != 0 ? rc : GOBLIN_OK;
}

/* ---- clear --------------------------------------------------------------------------------- */

struct sweep {
    struct goblin *store;
    uint64_t before;
    uint64_t count;
};

static void sweep_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    struct sweep *sweep = arg;
    if (atomic_load_explicit(&item->sequence, memory_order_relaxed) < sweep->before) {
        gb_store_forget_locked(sweep->store, locked, item);
        sweep->count++;
    }
}

/* One CLEAR record in every lane, because each lane's segments leave by themselves: in all of
 * them or in none. Every lane is locked. */
static int append_clears(struct goblin *store, uint64_t serials[GB_LANES_MAX])
{
    struct gb_append appends[GB_LANES_MAX];
    int rc = 0;
    unsigned begun = 0;
    while (rc == 0 && begun < store->lane_count) {
        appends[begun] =
            (struct gb_append){.record = {.type = GB_RECORD_CLEAR}, .claim = GB_CLAIM_MOVE};
        rc = gb_lane_begin(&store->lanes[begun], &appends[begun]);
        begun += rc == 0;
    }
    for (unsigned i = 0; i < begun; i++) {
        if (rc == 0) {
            serials[i] =
                gb_lane_commit(&store->lanes[i], &appends[i], gb_store_next_sequence(store));
        } else {
            gb_lane_cancel(&store->lanes[i], &appends[i]);
        }
    }
    return rc;
}

static void lock_lanes(struct goblin *store)
{
    for (unsigned i = 0; i < store->lane_count; i++) {
        gb_lane_lock(&store->lanes[i]);
    }
}

static void unlock_lanes(struct goblin *store)
{
    for (unsigned i = store->lane_count; i > 0; i--) {
        gb_lane_unlock(&store->lanes[i - 1]);
    }
}

int goblin_clear(struct goblin *store)
{
    if (store->options.read_only) {
        return -EROFS;
    }
    uint64_t serials[GB_LANES_MAX] = {0};
    struct sweep sweep = {.store = store};
    /* With the lanes held nothing is published between the records and the sweep. */
    lock_lanes(store);
    int rc = append_clears(store, serials);
    for (unsigned i = 0; rc == -ENOSPC && i < CLEAR_PATIENCE; i++) {
        /* The keeper needs the lanes to make room. */
        unlock_lanes(store);
        const struct timespec pause = {.tv_nsec = 20000000};
        gb_store_poke(store);
        (void)nanosleep(&pause, NULL);
        lock_lanes(store);
        rc = append_clears(store, serials);
    }
    if (rc == 0) {
        sweep.before = gb_store_next_sequence(store);
        uint64_t cursor = 0;
        do {
            gb_index_scan_bucket(store->index, &cursor, sweep_item, &sweep);
        } while (cursor != 0);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_cleared, sweep.count);
    }
    unlock_lanes(store);
    for (unsigned i = 0; rc == 0 && i < store->lane_count; i++) {
        rc = gb_lane_synced(&store->lanes[i], serials[i]);
    }
    return rc < 0 ? rc : GOBLIN_OK;
}

int goblin_sync(struct goblin *store)
{
    /* The bytes of streams before the records that name them. */
    int rc = gb_segments_sync_streams(&store->segments);
    for (unsigned i = 0; i < store->lane_count; i++) {
        int synced = gb_lane_synced(&store->lanes[i], gb_lane_serial(&store->lanes[i]));
        rc = rc < 0 ? rc : synced;
    }
    return rc < 0 ? rc : GOBLIN_OK;
}
