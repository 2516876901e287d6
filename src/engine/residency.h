/*
 * Residency: which bytes of which objects stay in RAM.
 *
 * Fixed: every object keeps a head of head_bytes as long as memory lasts. Adaptive: every object
 * keeps a floor of head_bytes, and what is left goes where it saves most device time per byte. The
 * worth of bytes is accesses x device time saved / bytes, accesses being a four-bit count that
 * halves about once per six requests per object.
 *
 * The hand walks the RAM log's blocks, oldest first. What it meets is dead (and gone), keeps its
 * bytes (laid again), or is cut down to its floor, under pressure to a bare header. It moves
 *  - for a candidate (an object just read from the device that would become whole): items worth
 *    less are cut until there is room, and after four that are worth more the candidate is refused;
 *  - for new objects: against a threshold that rises while too little is freed and sinks again.
 * Floors and headers that survive move to cold blocks, walked only when much in them is dead.
 *
 * Lock order: residency -> bucket -> arena. Lanes may call in with their own lock held.
 */
#ifndef GB_ENGINE_RESIDENCY_H
#define GB_ENGINE_RESIDENCY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "engine/arena.h"

struct goblin;

/* Items that the hand looks at before it comes to them. */
#define GB_RESIDENCY_AHEAD 4u

struct gb_residency {
    pthread_mutex_t lock;
    struct gb_cursor hot;
    struct gb_cursor cold;
    uint32_t block; /* being walked; GB_NO_BLOCK: none */
    uint32_t offset;
    uint32_t ahead_offset; /* of the first item in it not looked at; hashes of those before it: */
    uint32_t ahead_first;
    uint32_t ahead_end;
    uint64_t ahead_hash[GB_RESIDENCY_AHEAD];
    int64_t credit;       /* bytes freed by candidates' walks and not yet used */
    double threshold;     /* worth below which bytes go, for new objects */
    bool evicting;        /* bare headers alone are too many: cold objects leave */
    bool told;            /* and that has been logged */
    uint32_t walked_live; /* of the block being walked */
    uint32_t walked_kept;
    _Atomic uint32_t ahead;          /* blocks that the keeper keeps available for puts */
    _Atomic uint32_t renewals;       /* blocks that puts took since the keeper looked */
    _Atomic uint32_t epoch;          /* of the heat counters */
    _Atomic uint64_t epoch_requests; /* requests since it began */
};

void gb_residency_init(struct gb_residency *residency);
void gb_residency_fini(struct gb_residency *residency);

/* Blocks that promotions leave free beyond what the keeper keeps ahead of puts: what the hand may
 * hold at once while it walks a block (survivors with their bytes, survivors without). */
#define GB_RESIDENCY_RESERVE 2u

/* Blocks of the budget that are the hand's alone: what it picks up lies twice for a while. */
#define GB_RESIDENCY_HAND 2u

/* Blocks of addresses beyond the budget, so that the hand can always lay what it picks up. */
#define GB_RESIDENCY_SPARE 16u

/* Payload bytes a new object starts with in RAM. */
uint32_t gb_residency_initial(const struct goblin *store, uint64_t size);

/* ---- heat ---------------------------------------------------------------------------------- */

static inline unsigned gb_heat_count(uint8_t heat, uint32_t epoch)
{
    return (unsigned)(heat >> 4) >> ((epoch - heat) & 15u);
}

/* Counts an access; lossy. Returns the count with it. From `often` on it is only written down if
 * `sure`, so that most accesses leave the item's cache line as it was. */
static inline unsigned gb_heat_touch_sparing(struct gb_item *item, uint32_t epoch, unsigned often,
                                             bool sure)
{
    uint8_t heat = atomic_load_explicit(&item->heat, memory_order_relaxed);
    unsigned count = gb_heat_count(heat, epoch);
    bool writes = count < often || sure;
    count += count < 15;
    uint8_t next = (uint8_t)(count << 4 | (epoch & 15u));
    if (writes && next != heat) {
        atomic_store_explicit(&item->heat, next, memory_order_relaxed);
    }
    return count;
}

static inline unsigned gb_heat_touch(struct gb_item *item, uint32_t epoch)
{
    return gb_heat_touch_sparing(item, epoch, 16, true);
}

/* Adds a batch of requests to the clock that ages heat. */
void gb_residency_tick(struct goblin *store, uint64_t requests);

/* ---- making room --------------------------------------------------------------------------- */

/* How many blocks should be available, by what puts have taken of late. The keeper's, once a
 * round. */
uint32_t gb_residency_look_ahead(struct goblin *store);

/* Opens a block for a lane's cursor, walking the hand itself if the keeper is behind. May wait
 * for a grace period, so not inside a read-side critical section. False: no block to be had now. */
bool gb_residency_renew(struct goblin *store, struct gb_cursor *cursor);

/* The same without waiting or walking: false also where that would help. The keeper is woken. */
bool gb_residency_try_renew(struct goblin *store, struct gb_cursor *cursor);

/* Walks until `blocks` are available or coming, or nothing more can be freed. */
void gb_residency_reclaim(struct goblin *store, uint32_t blocks);

/* Walks one block that is mostly dead, if there is one, cutting nothing. True: it did. */
bool gb_residency_tidy(struct goblin *store);

/* After the arena's share of the budget became smaller: gives back what is beyond it, as far as
 * pins let it. May wait for a grace period. */
void gb_residency_give_way(struct goblin *store);

/* Waits for a grace period and frees what was walked before. */
void gb_residency_release(struct goblin *store);

/* ---- promotion ----------------------------------------------------------------------------- */

/* An object on its way to having more bytes in RAM: laid, named by nothing, being filled. */
struct gb_promotion {
    uint64_t place; /* 0: none */
    uint64_t sequence;
    uint64_t hash;
    uint32_t resident;
    uint32_t filled;
};

/* Asks for room to keep `item`'s first bytes (all if a block takes them). `count`: its accesses
 * with this one. The caller has the item's block pinned. True: *promotion must be finished or
 * dropped. */
bool gb_residency_admit(struct goblin *store, const struct gb_item *item, unsigned count,
                        struct gb_promotion *promotion);

/* Asks for room for the first `resident` bytes of an object that open found bare. 1: *promotion
 * must be finished or dropped; 0: the object is gone, changed or has them; -ENOMEM: memory is
 * full. */
int gb_residency_restore(struct goblin *store, struct goblin_slice key, uint64_t sequence,
                         uint32_t resident, struct gb_promotion *promotion);

/* Where payload byte 0 goes. */
unsigned char *gb_promotion_bytes(struct goblin *store, const struct gb_promotion *promotion);

/* All `resident` bytes are in place: swings the index to it, if the object is still the same. */
void gb_residency_finish(struct goblin *store, struct gb_promotion *promotion);
void gb_residency_drop(struct goblin *store, struct gb_promotion *promotion);

#endif
