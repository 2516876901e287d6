/* Admission: the budget, what is kept in RAM alone, and what is written after all. */
#include "engine/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lane_internal.h"
#include "engine/put.h"
#include "engine/rcu.h"

#define DAY_MS      86400000.0
#define BURST_MS    INT64_C(600000) /* what the bucket holds at the most */
#define REFILL_MS   1000            /* between two refills */
#define ASKED_BYTES (64 * GB_KIB)
#define BLOCK_SHARE 8u /* of an arena block, the largest value kept in RAM alone */

static int64_t burst_bytes(const struct gb_admission *admission)
{
    return (int64_t)((double)admission->day_bytes * (double)BURST_MS / DAY_MS);
}

int gb_admission_init(struct goblin *store)
{
    struct gb_admission *admission = &store->admission;
    (void)pthread_mutex_init(&admission->lock, NULL);
    admission->day_bytes = store->options.write_budget_day_bytes;
    admission->second = store->options.admit == GOBLIN_ADMIT_SECOND;
    if (admission->day_bytes == 0 && !admission->second) {
        return 0;
    }
    admission->ram_max =
        (uint32_t)gb_min(store->arena.block_bytes / BLOCK_SHARE, gb_lane_inline_max(store));
    atomic_store(&admission->left, burst_bytes(admission));
    atomic_store(&admission->refilled_ms, gb_store_now_ms(store));
    admission->asked.bytes = malloc(ASKED_BYTES);
    admission->taken.bytes = malloc(ASKED_BYTES);
    atomic_fetch_add(&store->budget.other, 2 * ASKED_BYTES);
    return admission->asked.bytes != NULL && admission->taken.bytes != NULL ? 0 : -ENOMEM;
}

void gb_admission_fini(struct goblin *store)
{
    free(store->admission.asked.bytes);
    free(store->admission.taken.bytes);
    (void)pthread_mutex_destroy(&store->admission.lock);
}

/* ---- the budget ---------------------------------------------------------------------------- */

/* A clock that steps back gives nothing, one that leaps ahead no more than the bucket holds. */
static void refill(struct goblin *store)
{
    struct gb_admission *admission = &store->admission;
    int64_t now = gb_store_now_ms(store);
    int64_t since = atomic_load_explicit(&admission->refilled_ms, memory_order_relaxed);
    if ((now >= since && now - since < REFILL_MS) || pthread_mutex_trylock(&admission->lock) != 0) {
        return;
    }
    int64_t elapsed = now - atomic_exchange(&admission->refilled_ms, now);
    if (elapsed > 0) {
        double part = (double)(elapsed < BURST_MS ? elapsed : BURST_MS) / DAY_MS;
        double due = admission->owed + part * (double)admission->day_bytes;
        int64_t whole = (int64_t)due;
        admission->owed = due - (double)whole;
        int64_t left = atomic_fetch_add(&admission->left, whole) + whole;
        int64_t over = left - burst_bytes(admission);
        if (over > 0) {
            atomic_fetch_sub(&admission->left, over);
        }
    }
    (void)pthread_mutex_unlock(&admission->lock);
}

static bool is_spent(struct goblin *store)
{
    if (store->admission.day_bytes == 0) {
        return false;
    }
    refill(store);
    return atomic_load_explicit(&store->admission.left, memory_order_relaxed) <= 0;
}

uint64_t gb_admission_left(const struct gb_admission *admission)
{
    int64_t left = atomic_load_explicit(&admission->left, memory_order_relaxed);
    return left > 0 ? (uint64_t)left : 0;
}

int gb_admission_allow(struct goblin *store, enum goblin_durability durability)
{
    if (gb_put_durability(store, durability) > GOBLIN_DURABILITY_NONE || !is_spent(store)) {
        return 0;
    }
    gb_tally_add_shared(&store->tally, GB_COUNT_admission_rejected, 1);
    return -EDQUOT;
}

/* ---- puts ---------------------------------------------------------------------------------- */

/* Whether the key is on disk, or in RAM alone and was asked for. */
static bool is_known(struct goblin *store, uint64_t hash, const void *key, size_t len)
{
    gb_rcu_read_lock();
    struct gb_glimpse glimpse;
    const struct gb_item *item = gb_index_find(store->index, hash, key, len, &glimpse);
    bool known =
        item != NULL && atomic_load_explicit(&item->place, memory_order_relaxed) != GB_PLACE_RAM;
    gb_rcu_read_unlock();
    return known;
}

int gb_admission_publish(struct goblin *store, struct gb_publication *publication)
{
    const struct gb_admission *admission = &store->admission;
    enum goblin_durability durability = publication->options->durability;
    if (admission->ram_max == 0 || gb_put_durability(store, durability) > GOBLIN_DURABILITY_NONE) {
        return gb_publish(store, publication);
    }
    if (publication->object_size > admission->ram_max) {
        int rc = gb_admission_allow(store, durability);
        return rc < 0 ? rc : gb_publish(store, publication);
    }
    const struct gb_append *append = &publication->append;
    publication->ram_only =
        is_spent(store) || (admission->second && !is_known(store, publication->hash, append->key,
                                                           append->record.key_len));
    if (publication->ram_only) {
        publication->resident_want = (uint32_t)publication->object_size;
    }
    int answer = gb_publish(store, publication);
    if (publication->ram_only && answer == GOBLIN_OK) {
        gb_tally_add(&publication->lane->tally, GB_COUNT_admission_refused, 1);
    }
    return answer;
}

/* ---- gets ---------------------------------------------------------------------------------- */

void gb_admission_ask(struct goblin *store, struct gb_item *item)
{
    struct gb_admission *admission = &store->admission;
    uint64_t none = GB_PLACE_RAM;
    const uint32_t len = gb_item_key_len(item);
    if (atomic_load_explicit(&item->place, memory_order_relaxed) != GB_PLACE_RAM ||
        pthread_mutex_trylock(&admission->lock) != 0) {
        return; /* asked for already; or the next get will do */
    }
    struct gb_asked *asked = &admission->asked;
    bool noted =
        asked->len + sizeof(len) + len <= ASKED_BYTES &&
        atomic_compare_exchange_strong_explicit(&item->place, &none, GB_PLACE_ASKED,
                                                memory_order_relaxed, memory_order_relaxed);
    if (noted) {
        memcpy(asked->bytes + asked->len, &len, sizeof(len));
        memcpy(asked->bytes + asked->len + sizeof(len), item->key, len);
        asked->len += sizeof(len) + len;
    }
    bool much = asked->len > ASKED_BYTES / 2;
    (void)pthread_mutex_unlock(&admission->lock);
    if (noted && much) {
        gb_store_poke(store);
    }
}

/* ---- writing after all --------------------------------------------------------------------- */

/* An object in RAM alone, copied out. */
struct copy {
    struct gb_record record;
    uint64_t sequence;
    unsigned char *payload;
};

/* 1: copied; 0: nothing to write; -ENOMEM. */
static int copy_out(struct goblin *store, uint64_t hash, struct goblin_slice key, struct copy *copy)
{
    int rc = 0;
    gb_rcu_read_lock();
    struct gb_glimpse glimpse;
    const struct gb_item *item = gb_index_find(store->index, hash, key.data, key.len, &glimpse);
    if (item != NULL && gb_item_ram_only(item)) {
        uint64_t packed = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
        uint64_t size = gb_item_size(item);
        copy->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
        copy->record = (struct gb_record){
            .type = GB_RECORD_PUT,
            .key_len = (uint16_t)key.len,
            .meta_len = (uint16_t)gb_meta_len_of(packed),
            .size = size,
        };
        copy->payload = malloc(size + 1);
        rc = copy->payload != NULL ? 1 : -ENOMEM;
        if (rc == 1) {
            memcpy(copy->payload, gb_item_bytes(item), size);
        }
        if (rc == 1 && gb_store_expired(store, gb_expiry_of(packed))) {
            free(copy->payload);
            rc = 0;
        }
    }
    gb_rcu_read_unlock();
    return rc;
}

int gb_admission_write(struct goblin *store, struct goblin_slice key)
{
    static const struct goblin_put_options always;
    uint64_t hash = gb_index_hash(key.data, key.len);
    struct copy copy;
    int rc = copy_out(store, hash, key, &copy);
    if (rc <= 0) {
        return rc;
    }
    /* As a relocation: as amended, and only if it is still the same. The cleaner must not wait for
     * the space that it makes itself, as a plain append does. */
    struct gb_publication publication = {
        .lane = gb_store_lane(store, hash),
        .hash = hash,
        .append = {.record = copy.record,
                   .key = key.data,
                   .parts = {copy.payload},
                   .part_len = {copy.record.size},
                   .claim = GB_CLAIM_DELETE},
        .options = &always,
        .form = GB_FORM_DIRECT,
        .object_size = copy.record.size,
        .resident_parts = {copy.payload},
        .resident_len = {copy.record.size},
        .resident_want = (uint32_t)copy.record.size,
        .relocates = copy.sequence,
    };
    gb_lane_lock(publication.lane);
    rc = gb_publish(store, &publication);
    gb_lane_unlock(publication.lane);
    free(copy.payload);
    gb_tally_add_shared(&store->tally, GB_COUNT_admission_written, rc == GOBLIN_OK);
    return rc < 0 ? rc : 0;
}

/* It could not be written: the next get asks again. */
static void unask(struct goblin *store, struct goblin_slice key)
{
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(key.data, key.len), &locked);
    struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    if (item != NULL && gb_item_ram_only(item)) {
        atomic_store_explicit(&item->place, GB_PLACE_RAM, memory_order_relaxed);
    }
    gb_index_unlock(&locked);
}

static void take_asked(struct gb_admission *admission)
{
    (void)pthread_mutex_lock(&admission->lock);
    struct gb_asked empty = {.bytes = admission->taken.bytes};
    admission->taken = admission->asked;
    admission->asked = empty;
    (void)pthread_mutex_unlock(&admission->lock);
    admission->taken_at = 0;
}

void gb_admission_round(struct goblin *store)
{
    struct gb_admission *admission = &store->admission;
    if (admission->ram_max == 0) {
        return;
    }
    if (admission->taken_at == admission->taken.len) {
        take_asked(admission);
    }
    uint32_t reserve = gb_lane_reserve_segments(store, GB_CLAIM_PLAIN);
    while (admission->taken_at < admission->taken.len && !is_spent(store) &&
           gb_segments_free_count(&store->segments) > reserve) {
        const unsigned char *at = admission->taken.bytes + admission->taken_at;
        uint32_t len = 0;
        memcpy(&len, at, sizeof(len));
        const struct goblin_slice key = {at + sizeof(len), len};
        admission->taken_at += sizeof(len) + len;
        if (gb_admission_write(store, key) < 0) {
            unask(store, key);
            return;
        }
    }
}
