/* Deleting what has expired, some buckets of the index at a time. */
#include "engine/expire.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_BUCKETS 512u
#define ROUND_BYTES   (32 * GB_KIB) /* of keys; more than one bucket's longest */

/* Keys found in a round, each behind its length. */
struct harvest {
    struct goblin *store;
    unsigned char *bytes;
    size_t len;
};

static bool is_expired(struct goblin *store, const struct gb_item *item)
{
    int64_t expires = gb_expiry_of(atomic_load_explicit(&item->expiry_meta, memory_order_relaxed));
    return gb_expired(expires, gb_store_now_ms(store));
}

static void gather(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct harvest *harvest = arg;
    uint32_t key_len = gb_item_key_len(item);
    if (!is_expired(harvest->store, item) ||
        harvest->len + sizeof(key_len) + key_len > ROUND_BYTES) {
        return;
    }
    memcpy(harvest->bytes + harvest->len, &key_len, sizeof(key_len));
    memcpy(harvest->bytes + harvest->len + sizeof(key_len), item->key, key_len);
    harvest->len += sizeof(key_len) + key_len;
}

static int bury(struct goblin *store, const unsigned char *key, uint32_t key_len)
{
    uint64_t hash = gb_index_hash(key, key_len);
    struct gb_lane *lane = gb_store_lane(store, hash);
    struct gb_append append = {
        .record = {.type = GB_RECORD_DELETE, .key_len = (uint16_t)key_len},
        .key = key,
        .claim = GB_CLAIM_DELETE,
    };
    gb_lane_lock(lane);
    int rc = gb_lane_begin(lane, &append);
    if (rc == 0) {
        struct gb_locked locked;
        gb_index_lock(store->index, hash, &locked);
        struct gb_item *item = gb_index_find_locked(&locked, key, key_len);
        bool expired = item != NULL && is_expired(store, item);
        uint64_t sequence = 0;
        if (expired) {
            sequence = gb_store_next_sequence(store);
            append.record.version = atomic_load_explicit(&item->version, memory_order_relaxed);
            gb_store_forget_locked(store, &locked, item);
        }
        gb_index_unlock(&locked);
        if (expired) {
            (void)gb_lane_commit(lane, &append, sequence);
            gb_tally_add(&lane->tally, GB_COUNT_left_expired, 1);
        } else {
            gb_lane_cancel(lane, &append);
        }
    }
    gb_lane_unlock(lane);
    return rc;
}

static void forget(struct goblin *store, const unsigned char *key, uint32_t key_len)
{
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(key, key_len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key, key_len);
    if (item != NULL && is_expired(store, item)) {
        gb_store_forgetful(store, item);
        gb_store_forget_locked(store, &locked, item);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_expired, 1);
    }
    gb_index_unlock(&locked);
}

void gb_expire_some(struct goblin *store)
{
    if (!atomic_load_explicit(&store->expiring, memory_order_relaxed)) {
        return;
    }
    struct harvest harvest = {.store = store, .bytes = malloc(ROUND_BYTES)};
    if (harvest.bytes == NULL) {
        return; /* the next round will do */
    }
    uint32_t buckets = 0;
    do {
        gb_index_scan_bucket(store->index, &store->expire_cursor, gather, &harvest);
        buckets++;
    } while (store->expire_cursor != 0 && buckets < ROUND_BUCKETS && harvest.len < ROUND_BYTES / 2);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < harvest.len;) {
        uint32_t key_len = 0;
        memcpy(&key_len, harvest.bytes + at, sizeof(key_len));
        const unsigned char *key = harvest.bytes + at + sizeof(key_len);
        if (store->options.mode == GOBLIN_MODE_CACHE) {
            forget(store, key, key_len);
        } else {
            rc = bury(store, key, key_len);
        }
        at += sizeof(key_len) + key_len;
    }
    free(harvest.bytes);
}
