/* Residency, the hand: walking blocks, deciding what stays, making room. Promotion stands in
 * promote.c. */
#include "engine/residency.h"

#include <string.h>

#include "base/assert.h"
#include "engine/rcu.h"
#include "engine/residency_internal.h"
#include "engine/store.h"

/* A device read costs about this much, whatever its size, and this much per byte. Only the ratio
 * matters: it says how many bytes weigh as much as one read. */
#define READ_NS 55000.0
#define BYTE_NS 0.4

#define FLOOR_BONUS    4.0  /* a floor's byte hides latency as well as saving device time */
#define GREEDY_LIVE    0.85 /* blocks with less of themselves alive are walked first */
#define EPOCH_REQUESTS 6u   /* per object, until heat is halved */
#define AHEAD_MAX      8u   /* blocks kept available for puts at the most */
#define GIVE_WAY_TRIES 16u
#define THRESHOLD_MIN  1e-6
#define THRESHOLD_MAX  1e9

void gb_residency_init(struct gb_residency *residency)
{
    *residency =
        (struct gb_residency){.block = GB_NO_BLOCK, .threshold = THRESHOLD_MIN, .ahead = 1};
    gb_cursor_init(&residency->hot, GB_BLOCK_HOT);
    gb_cursor_init(&residency->cold, GB_BLOCK_COLD);
    (void)pthread_mutex_init(&residency->lock, NULL);
}

void gb_residency_fini(struct gb_residency *residency)
{
    (void)pthread_mutex_destroy(&residency->lock);
}

static uint32_t floor_of(const struct goblin *store, uint64_t size)
{
    return (uint32_t)gb_min(size, store->options.head_bytes);
}

uint32_t gb_residency_initial(const struct goblin *store, uint64_t size)
{
    return floor_of(store, size);
}

double gb_residency_worth(unsigned count, uint64_t size, uint64_t from, uint64_t to)
{
    if (to <= from) {
        return 0;
    }
    double saved = (double)(to - from) * BYTE_NS + (to >= size ? READ_NS : 0);
    return count * saved / (double)(to - from);
}

void gb_residency_tick(struct goblin *store, uint64_t requests)
{
    struct gb_residency *residency = &store->residency;
    uint64_t now =
        atomic_fetch_add_explicit(&residency->epoch_requests, requests, memory_order_relaxed) +
        requests;
    uint64_t period = gb_max(1024, EPOCH_REQUESTS * gb_index_count(store->index));
    if (now >= period && atomic_compare_exchange_strong(&residency->epoch_requests, &now, 0)) {
        atomic_fetch_add_explicit(&residency->epoch, 1, memory_order_relaxed);
    }
}

/* ---- which block --------------------------------------------------------------------------- */

/* The block with the smallest live share if that is small; else, unless only such are wanted, the
 * oldest hot one, else the oldest cold one. */
static uint32_t choose_block(struct goblin *store, bool only_empty)
{
    struct gb_arena *arena = &store->arena;
    uint32_t oldest = GB_NO_BLOCK;
    uint32_t emptiest = GB_NO_BLOCK;
    uint64_t oldest_stamp = UINT64_MAX;
    double least_live = 2.0;
    uint32_t hot = 0;
    uint32_t cold_oldest = GB_NO_BLOCK;
    uint64_t cold_stamp = UINT64_MAX;
    (void)pthread_mutex_lock(&arena->lock);
    for (uint32_t i = 0; i < arena->never_used; i++) {
        const struct gb_block *block = &arena->blocks[i];
        if (block->state != GB_BLOCK_SEALED || atomic_load(&block->fillers) > 0) {
            continue;
        }
        double live = (double)gb_block_live(block) / arena->block_bytes;
        if (live < least_live) {
            least_live = live;
            emptiest = i;
        }
        if (block->kind == GB_BLOCK_HOT) {
            hot++;
            if (block->stamp < oldest_stamp) {
                oldest_stamp = block->stamp;
                oldest = i;
            }
        } else if (block->stamp < cold_stamp) {
            cold_stamp = block->stamp;
            cold_oldest = i;
        }
    }
    uint32_t used = atomic_load(&arena->used);
    (void)pthread_mutex_unlock(&arena->lock);
    if (emptiest != GB_NO_BLOCK && least_live < GREEDY_LIVE) {
        return emptiest;
    }
    if (only_empty) {
        return GB_NO_BLOCK;
    }
    /* Hot blocks are walked in turn; when few are left, what fills memory lies in cold ones. */
    if (oldest != GB_NO_BLOCK && (hot > used / 8 || cold_oldest == GB_NO_BLOCK)) {
        return oldest;
    }
    return cold_oldest;
}

static bool begin_walk(struct goblin *store, bool only_empty)
{
    struct gb_residency *residency = &store->residency;
    if (atomic_load(&store->arena.limbo) >= GB_RESIDENCY_SPARE / 2) {
        return false; /* readers hold what was walked; more walking would not free it */
    }
    uint32_t block = choose_block(store, only_empty);
    if (block == GB_NO_BLOCK || !gb_arena_walk(&store->arena, block)) {
        return false;
    }
    residency->block = block;
    residency->offset = block == 0 ? 64 : 0;
    residency->ahead_offset = residency->offset;
    residency->ahead_first = residency->ahead_end = 0;
    residency->walked_live = gb_block_live(&store->arena.blocks[block]);
    residency->walked_kept = 0;
    return true;
}

static void end_walk(struct goblin *store)
{
    struct gb_residency *residency = &store->residency;
    gb_arena_walked(&store->arena, residency->block);
    residency->block = GB_NO_BLOCK;
}

/* ---- moving an item ------------------------------------------------------------------------ */

void gb_item_copy_head(struct gb_item *to, const struct gb_item *from, uint32_t resident)
{
    atomic_init(&to->place, atomic_load_explicit(&from->place, memory_order_relaxed));
    atomic_init(&to->sequence, atomic_load_explicit(&from->sequence, memory_order_relaxed));
    atomic_init(&to->version, atomic_load_explicit(&from->version, memory_order_relaxed));
    to->size_key = from->size_key;
    atomic_init(&to->expiry_meta, atomic_load_explicit(&from->expiry_meta, memory_order_relaxed));
    atomic_init(&to->flags, atomic_load_explicit(&from->flags, memory_order_relaxed));
    gb_item_set_resident(to, resident);
    atomic_init(&to->heat, atomic_load_explicit(&from->heat, memory_order_relaxed));
    memcpy(to->key, from->key, gb_item_key_len(from) + gb_item_side_len(from));
}

/* Room for a copy with up to *resident bytes, fewer if only that many fit. */
static uint64_t lay_copy(struct goblin *store, const struct gb_item *item, uint32_t *resident)
{
    struct gb_residency *residency = &store->residency;
    bool hot = *resident > floor_of(store, gb_item_size(item));
    struct gb_cursor *cursor = hot ? &residency->hot : &residency->cold;
    uint32_t fixed = (uint32_t)sizeof(*item) + gb_item_key_len(item) + gb_item_side_len(item);
    uint32_t bytes = (uint32_t)gb_align_up(fixed + *resident, 8);
    uint32_t room = gb_cursor_room(&store->arena, cursor);
    if (!gb_cursor_fits(&store->arena, cursor, bytes) && hot && room > fixed + *resident / 2 &&
        !gb_item_ram_only(item)) {
        /* The rest of the block takes a good part of it. */
        *resident = (uint32_t)gb_align_down(room - fixed, GB_BLOCK);
        bytes = (uint32_t)gb_align_up(fixed + *resident, 8);
    }
    if (!gb_cursor_fits(&store->arena, cursor, bytes) &&
        !gb_cursor_renew(&store->arena, cursor, GB_RENEW_FORCED)) {
        return 0;
    }
    return gb_cursor_lay(&store->arena, cursor, bytes);
}

/* How many bytes of a live item stay, at the given threshold. */
static uint32_t keep_of(const struct goblin *store, const struct gb_item *item, double threshold,
                        bool mandatory)
{
    uint32_t resident = gb_item_resident(item);
    uint64_t size = gb_item_size(item);
    uint32_t floor = (uint32_t)gb_min(floor_of(store, size), resident);
    uint32_t epoch = atomic_load_explicit(&store->residency.epoch, memory_order_relaxed);
    unsigned count = gb_heat_count(atomic_load_explicit(&item->heat, memory_order_relaxed), epoch);
    if (resident > floor && gb_residency_worth(count, size, floor, resident) > threshold) {
        return resident;
    }
    if (!mandatory || floor == 0) {
        return floor;
    }
    return FLOOR_BONUS * gb_residency_worth(count + 1, size, 0, floor) > threshold ? floor : 0;
}

/* One item under its bucket lock: moved with what it keeps, or gone. Returns bytes it takes now. */
static uint32_t settle_item(struct goblin *store, struct gb_locked *locked, struct gb_item *item,
                            uint32_t keep)
{
    struct gb_residency *residency = &store->residency;
    int64_t expires = gb_expiry_of(atomic_load_explicit(&item->expiry_meta, memory_order_relaxed));
    bool cache = store->options.mode == GOBLIN_MODE_CACHE;
    if (cache && gb_store_expired(store, expires)) {
        gb_store_forgetful(store, item);
        gb_store_forget_locked(store, locked, item);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_expired, 1);
        return 0;
    }
    bool cut = keep < gb_item_size(item) || residency->evicting;
    if (gb_item_ram_only(item) && cut) {
        gb_store_forget_locked(store, locked, item);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_admission, 1);
        return 0;
    }
    if (cache && residency->evicting && gb_item_resident(item) == 0) {
        gb_store_forget_locked(store, locked, item);
        atomic_store_explicit(&store->forgetful, true, memory_order_relaxed);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_ram, 1);
        return 0;
    }
    uint64_t place = lay_copy(store, item, &keep);
    GB_ASSERT(place != 0); /* gb_store_rebudget keeps spare addresses for the hand */
    struct gb_item *copy = gb_arena_item(&store->arena, place);
    gb_item_copy_head(copy, item, keep);
    unsigned char *bytes = copy->key + gb_item_key_len(copy) + gb_item_side_len(copy);
    memcpy(bytes, gb_item_bytes(item), keep);
    gb_arena_born(&store->arena, copy);
    gb_index_replace_locked(locked, place);
    gb_arena_died(&store->arena, item);
    gb_tally_add_shared(&store->tally, GB_COUNT_arena_moved_bytes, gb_item_footprint(copy));
    return gb_item_footprint(copy);
}

/* The next item of the block being walked. Looks at a few more beyond it, so that their buckets
 * come from memory while this one is dealt with. */
static struct gb_item *next_item(struct goblin *store, uint64_t *hash)
{
    struct gb_residency *residency = &store->residency;
    uint32_t fill = store->arena.blocks[residency->block].fill;
    uint64_t base = (uint64_t)residency->block << store->arena.block_shift;
    while (residency->ahead_end - residency->ahead_first < GB_RESIDENCY_AHEAD &&
           residency->ahead_offset < fill) {
        const struct gb_item *item = gb_arena_item(&store->arena, base + residency->ahead_offset);
        uint64_t *ahead = &residency->ahead_hash[residency->ahead_end++ % GB_RESIDENCY_AHEAD];
        *ahead = gb_index_hash(item->key, gb_item_key_len(item));
        gb_index_prefetch(store->index, *ahead);
        residency->ahead_offset += gb_item_footprint(item);
    }
    *hash = residency->ahead_hash[residency->ahead_first++ % GB_RESIDENCY_AHEAD];
    return gb_arena_item(&store->arena, base + residency->offset);
}

enum gb_step gb_residency_step(struct goblin *store, double threshold, bool mandatory,
                               uint32_t *freed)
{
    struct gb_residency *residency = &store->residency;
    *freed = 0;
    if (residency->block == GB_NO_BLOCK && !begin_walk(store, false)) {
        return GB_STEP_NOTHING;
    }
    const struct gb_block *block = &store->arena.blocks[residency->block];
    if (residency->offset >= block->fill) {
        end_walk(store);
        return GB_STEP_BLOCK;
    }
    uint64_t hash;
    struct gb_item *item = next_item(store, &hash);
    uint64_t place = gb_arena_place(&store->arena, item);
    uint32_t bytes = gb_item_footprint(item);
    uint32_t resident = gb_item_resident(item);
    residency->offset += bytes;
    struct gb_locked locked;
    gb_index_lock(store->index, hash, &locked);
    if (!gb_index_find_place_locked(&locked, place)) {
        gb_index_unlock(&locked);
        *freed = bytes;
        return GB_STEP_DEAD;
    }
    uint32_t keep = keep_of(store, item, threshold, mandatory);
    uint32_t floor = floor_of(store, gb_item_size(item));
    uint32_t now = settle_item(store, &locked, item, keep);
    gb_index_unlock(&locked);
    residency->walked_kept += now;
    *freed = bytes > now ? bytes - now : 0;
    if (now == 0) {
        return GB_STEP_DEAD;
    }
    return keep == resident && keep > floor ? GB_STEP_SURVIVED : GB_STEP_CUT;
}

/* ---- making room --------------------------------------------------------------------------- */

/* Headers and keys alone take more than half of what the arena may have. */
static bool is_crowded(struct goblin *store)
{
    uint64_t live = 0;
    uint64_t resident = 0;
    gb_arena_count(&store->arena, &live, &resident);
    uint64_t capacity = (uint64_t)atomic_load(&store->arena.allowed) * store->arena.block_bytes;
    return live > resident && live - resident > capacity / 2;
}

/* After a block walked for new objects: too little freed raises the threshold. */
static void adjust_threshold(struct goblin *store)
{
    struct gb_residency *residency = &store->residency;
    double kept = (double)residency->walked_kept / store->arena.block_bytes;
    if (kept > 0.75) {
        residency->threshold =
            residency->threshold * 2 < THRESHOLD_MAX ? residency->threshold * 2 : THRESHOLD_MAX;
    } else if (kept < 0.5 && residency->threshold > THRESHOLD_MIN) {
        residency->threshold *= 0.8;
    }
    /* Some blocks hold nothing but headers; that is no want of memory while others hold more. */
    bool evict = kept > 0.75 && residency->threshold >= THRESHOLD_MAX && is_crowded(store);
    if (evict && !residency->told) {
        residency->told = true; /* it may be so, and not, with every block */
        gb_store_log(
            store, GOBLIN_LOG_WARN,
            "memory of %llu bytes is too small for the keys of this store: %s; raise it or "
            "store fewer objects",
            (unsigned long long)store->budget.total,
            store->options.mode == GOBLIN_MODE_CACHE ? "objects leave"
                                                     : "soon it can take no more");
    }
    residency->evicting = evict;
}

static bool walk_block(struct goblin *store)
{
    struct gb_residency *residency = &store->residency;
    enum gb_step step = GB_STEP_DEAD;
    while (step != GB_STEP_BLOCK) {
        uint32_t freed = 0;
        step = gb_residency_step(store, residency->threshold, true, &freed);
        if (step == GB_STEP_NOTHING) {
            return false;
        }
    }
    adjust_threshold(store);
    return true;
}

/* Whether the arena has more blocks than its share, the hand's own left aside. */
static bool beyond(struct goblin *store)
{
    return atomic_load(&store->arena.used) > atomic_load(&store->arena.allowed);
}

void gb_residency_reclaim(struct goblin *store, uint32_t blocks)
{
    struct gb_residency *residency = &store->residency;
    /* Every pass may free nothing but raise the threshold; it doubles, so this many are enough. */
    uint32_t passes = 2 * atomic_load(&store->arena.used) + 64;
    for (uint32_t i = 0; i < passes; i++) {
        if (gb_arena_available(&store->arena) + atomic_load(&store->arena.limbo) >= blocks) {
            return;
        }
        (void)pthread_mutex_lock(&residency->lock);
        if (beyond(store)) {
            gb_residency_release(store);
        }
        bool walked = walk_block(store);
        (void)pthread_mutex_unlock(&residency->lock);
        if (!walked) {
            return;
        }
    }
}

void gb_residency_give_way(struct goblin *store)
{
    for (unsigned i = 0; i < GIVE_WAY_TRIES && beyond(store); i++) {
        gb_residency_reclaim(store, GB_RESIDENCY_RESERVE);
        gb_residency_release(store);
    }
}

bool gb_residency_tidy(struct goblin *store)
{
    struct gb_residency *residency = &store->residency;
    (void)pthread_mutex_lock(&residency->lock);
    bool walks = residency->block != GB_NO_BLOCK || begin_walk(store, true);
    enum gb_step step = walks ? GB_STEP_DEAD : GB_STEP_NOTHING;
    while (step != GB_STEP_BLOCK && step != GB_STEP_NOTHING) {
        uint32_t freed = 0;
        step = gb_residency_step(store, 0, false, &freed);
    }
    (void)pthread_mutex_unlock(&residency->lock);
    return walks;
}

void gb_residency_release(struct goblin *store)
{
    if (atomic_load(&store->arena.limbo) == 0) {
        return;
    }
    uint64_t stamp = gb_arena_limbo_stamp(&store->arena);
    gb_rcu_synchronize();
    (void)gb_arena_release(&store->arena, stamp);
}

uint32_t gb_residency_look_ahead(struct goblin *store)
{
    struct gb_residency *residency = &store->residency;
    uint32_t taken = atomic_exchange(&residency->renewals, 0);
    uint32_t ahead = atomic_load(&residency->ahead);
    ahead =
        taken >= ahead ? (uint32_t)gb_min(taken + 1, AHEAD_MAX) : (uint32_t)gb_max(ahead - 1, 1);
    atomic_store(&residency->ahead, ahead);
    return ahead;
}

bool gb_residency_try_renew(struct goblin *store, struct gb_cursor *cursor)
{
    struct gb_residency *residency = &store->residency;
    atomic_fetch_add_explicit(&residency->renewals, 1, memory_order_relaxed);
    /* What the index and the ordered set have grown by since the last block is the arena's loss; a
     * keeper that gets no processor time must not make that an overrun. */
    gb_store_tighten(store);
    bool renewed = gb_cursor_renew(&store->arena, cursor, 0);
    if (!renewed || gb_arena_available(&store->arena) < atomic_load(&residency->ahead)) {
        gb_store_poke(store);
    }
    return renewed;
}

bool gb_residency_renew(struct goblin *store, struct gb_cursor *cursor)
{
    struct gb_residency *residency = &store->residency;
    uint32_t stuck = 0;
    if (gb_residency_try_renew(store, cursor)) {
        return true;
    }
    for (unsigned attempt = 0; attempt < 64; attempt++) {
        gb_residency_reclaim(store, 2 + stuck);
        gb_residency_release(store);
        if (gb_cursor_renew(&store->arena, cursor, 0)) {
            if (gb_arena_available(&store->arena) < atomic_load(&residency->ahead)) {
                gb_store_poke(store);
            }
            return true;
        }
        stuck = atomic_load(&store->arena.limbo); /* pinned: not coming back soon */
    }
    return false;
}
