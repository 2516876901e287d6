/* Residency, promotion: an object that was read from the device asks for room in RAM. */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "engine/residency_internal.h"
#include "engine/store.h"

#define SURVIVORS_MAX 4u   /* worthier items met before a candidate is refused */
#define TIDY_VAIN_MAX 8u   /* blocks tidied without a gain before memory counts as full */
#define STEPS_MAX     256u /* items met at all */

static uint32_t reserve_of(struct goblin *store)
{
    return atomic_load(&store->residency.ahead) + GB_RESIDENCY_RESERVE;
}

/* Memory that nobody has asked for yet: a first read may promote, without the hand. */
static bool has_slack(struct goblin *store)
{
    return gb_arena_available(&store->arena) > reserve_of(store);
}

/* Moves the hand until what it freed pays for `bytes`. */
static bool win_credit(struct goblin *store, uint32_t bytes, double worth)
{
    struct gb_residency *residency = &store->residency;
    unsigned survivors = 0;
    for (unsigned steps = 0; residency->credit < (int64_t)bytes; steps++) {
        if (gb_arena_available(&store->arena) == 0) {
            /* What survives takes blocks before those walked come back: not beyond the budget. */
            gb_store_poke(store);
            return false;
        }
        uint32_t freed = 0;
        enum gb_step step = gb_residency_step(store, worth, false, &freed);
        residency->credit += freed;
        survivors += step == GB_STEP_SURVIVED;
        if (step == GB_STEP_NOTHING || survivors >= SURVIVORS_MAX || steps >= STEPS_MAX) {
            return false;
        }
    }
    return true;
}

static uint64_t lay_promotion(struct goblin *store, uint32_t fixed, uint32_t *resident)
{
    struct gb_residency *residency = &store->residency;
    struct gb_cursor *cursor = &residency->hot;
    uint32_t bytes = (uint32_t)gb_align_up(fixed + *resident, 8);
    uint32_t room = gb_cursor_room(&store->arena, cursor);
    if (!gb_cursor_fits(&store->arena, cursor, bytes) && room > fixed + *resident / 2) {
        *resident = (uint32_t)gb_align_down(room - fixed, GB_BLOCK);
        bytes = (uint32_t)gb_align_up(fixed + *resident, 8);
    }
    if (!gb_cursor_fits(&store->arena, cursor, bytes) &&
        !gb_cursor_renew(&store->arena, cursor, reserve_of(store))) {
        gb_store_poke(store);
        return 0;
    }
    return gb_cursor_lay(&store->arena, cursor, bytes);
}

bool gb_residency_admit(struct goblin *store, const struct gb_item *item, unsigned count,
                        struct gb_promotion *promotion)
{
    struct gb_residency *residency = &store->residency;
    promotion->place = 0;
    uint64_t size = gb_item_size(item);
    uint32_t fixed = (uint32_t)sizeof(*item) + gb_item_key_len(item) + gb_item_side_len(item);
    uint32_t most = gb_arena_item_max(&store->arena) - fixed - 8;
    uint32_t resident = size <= most ? (uint32_t)size : (uint32_t)gb_align_down(most, GB_BLOCK);
    if (store->options.residency == GOBLIN_RESIDENCY_FIXED) {
        resident = gb_residency_initial(store, size);
    }
    uint32_t had = gb_item_resident(item);
    if (resident <= had || (resident < size && resident - had < resident / 4) ||
        pthread_mutex_trylock(&residency->lock) != 0) {
        return false;
    }
    uint32_t bytes = (uint32_t)gb_align_up(fixed + resident, 8);
    bool admitted = has_slack(store);
    if (!admitted && count >= 1) {
        double worth = gb_residency_worth(count, size, had, resident);
        admitted = win_credit(store, bytes, worth);
        residency->credit -= admitted ? (int64_t)bytes : 0;
    }
    if (admitted) {
        promotion->place = lay_promotion(store, fixed, &resident);
    }
    if (promotion->place != 0 && resident > had) {
        struct gb_item *copy = gb_arena_item(&store->arena, promotion->place);
        gb_item_copy_head(copy, item, resident);
        promotion->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
        promotion->hash = gb_index_hash(item->key, gb_item_key_len(item));
        promotion->resident = resident;
        promotion->filled = had;
        atomic_fetch_add(&gb_arena_block(&store->arena, promotion->place)->fillers, 1);
        memcpy(gb_promotion_bytes(store, promotion), gb_item_bytes(item), had);
    } else if (promotion->place != 0) {
        gb_cursor_unlay(&residency->hot, (uint32_t)gb_align_up(fixed + resident, 8));
        promotion->place = 0;
    }
    (void)pthread_mutex_unlock(&residency->lock);
    if (promotion->place == 0) {
        gb_tally_add_shared(&store->tally, GB_COUNT_promotions_refused, 1);
    }
    return promotion->place != 0;
}

/* Lays a copy of `item` with room for `resident` bytes; memory must have a block to spare. */
static int lay_restored(struct goblin *store, const struct gb_item *item, uint32_t resident,
                        struct gb_promotion *promotion)
{
    struct gb_residency *residency = &store->residency;
    bool hot = resident > gb_residency_initial(store, gb_item_size(item));
    struct gb_cursor *cursor = hot ? &residency->hot : &residency->cold;
    uint32_t bytes = gb_item_footprint_for(gb_item_key_len(item), gb_item_side_len(item), resident);
    if (bytes > gb_arena_item_max(&store->arena)) {
        return 0;
    }
    if (!gb_cursor_fits(&store->arena, cursor, bytes) &&
        !gb_cursor_renew(&store->arena, cursor, atomic_load(&store->residency.ahead))) {
        return -ENOMEM;
    }
    promotion->place = gb_cursor_lay(&store->arena, cursor, bytes);
    promotion->resident = resident;
    promotion->filled = 0;
    gb_item_copy_head(gb_arena_item(&store->arena, promotion->place), item, resident);
    atomic_fetch_add(&gb_arena_block(&store->arena, promotion->place)->fillers, 1);
    return 1;
}

static int try_restore(struct goblin *store, struct goblin_slice key, uint32_t resident,
                       struct gb_promotion *promotion)
{
    int rc = 0;
    (void)pthread_mutex_lock(&store->residency.lock);
    struct gb_locked locked;
    gb_index_lock(store->index, promotion->hash, &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    if (item != NULL && resident <= gb_item_size(item) && gb_item_resident(item) < resident &&
        atomic_load_explicit(&item->sequence, memory_order_relaxed) == promotion->sequence) {
        rc = lay_restored(store, item, resident, promotion);
    }
    gb_index_unlock(&locked);
    (void)pthread_mutex_unlock(&store->residency.lock);
    return rc;
}

int gb_residency_restore(struct goblin *store, struct goblin_slice key, uint64_t sequence,
                         uint32_t resident, struct gb_promotion *promotion)
{
    *promotion =
        (struct gb_promotion){.sequence = sequence, .hash = gb_index_hash(key.data, key.len)};
    int rc = try_restore(store, key, resident, promotion);
    /* Restoring leaves bare items dead behind it: their blocks come first. Blocks with one large
     * item each can be walked for ever and none comes back. */
    uint32_t used = atomic_load(&store->arena.used);
    for (unsigned vain = 0; rc == -ENOMEM && vain < TIDY_VAIN_MAX && gb_residency_tidy(store);) {
        gb_residency_release(store);
        rc = try_restore(store, key, resident, promotion);
        uint32_t before = used;
        used = atomic_load(&store->arena.used);
        vain = used < before ? 0 : vain + 1;
    }
    return rc;
}

unsigned char *gb_promotion_bytes(struct goblin *store, const struct gb_promotion *promotion)
{
    struct gb_item *item = gb_arena_item(&store->arena, promotion->place);
    return item->key + gb_item_key_len(item) + gb_item_side_len(item);
}

void gb_residency_drop(struct goblin *store, struct gb_promotion *promotion)
{
    if (promotion->place != 0) {
        /* Release: the walker's acquire load of 0 sees all that was filled in. */
        atomic_fetch_sub_explicit(&gb_arena_block(&store->arena, promotion->place)->fillers, 1,
                                  memory_order_release);
        promotion->place = 0;
    }
}

void gb_residency_finish(struct goblin *store, struct gb_promotion *promotion)
{
    struct gb_item *copy = gb_arena_item(&store->arena, promotion->place);
    struct gb_locked locked;
    gb_index_lock(store->index, promotion->hash, &locked);
    struct gb_item *now = gb_index_find_locked(&locked, copy->key, gb_item_key_len(copy));
    bool same = now != NULL &&
                atomic_load_explicit(&now->sequence, memory_order_relaxed) == promotion->sequence;
    if (same && gb_item_resident(now) < promotion->resident) {
        struct gb_record amended;
        gb_item_tell(now, &amended);
        gb_item_amend(copy, &amended);
        atomic_store_explicit(&copy->heat, atomic_load_explicit(&now->heat, memory_order_relaxed),
                              memory_order_relaxed);
        gb_arena_born(&store->arena, copy);
        gb_index_replace_locked(&locked, promotion->place);
        gb_arena_died(&store->arena, now);
        gb_tally_add_shared(&store->tally, GB_COUNT_promotions, 1);
    }
    gb_index_unlock(&locked);
    gb_residency_drop(store, promotion);
}
