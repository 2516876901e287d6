/*
 * The RAM log's ground: one reserved range of addresses cut into blocks of equal size.
 *
 * Items are laid into a block by a cursor (bump pointer); a sealed block is walked from front to
 * back when its memory is wanted, what deserves to stay is laid elsewhere, and the block is free
 * again after a grace period and when no reader pins it. Which block is walked, and what deserves
 * to stay, is decided in residency.c; this module only keeps the blocks.
 *
 *   free -> open (a cursor's) -> sealed -> walking -> limbo -> free
 *
 * Threads: any. `lock` guards the states and the list of free blocks; live, pins and fillers are
 * atomics. A cursor belongs to whoever holds the lock its owner names.
 */
#ifndef GB_ENGINE_ARENA_H
#define GB_ENGINE_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/item.h"

enum gb_block_state {
    GB_BLOCK_FREE,
    GB_BLOCK_OPEN,
    GB_BLOCK_SEALED,
    GB_BLOCK_WALKING,
    GB_BLOCK_LIMBO,
};

enum gb_block_kind {
    GB_BLOCK_HOT,  /* new items, and survivors with more than their floor */
    GB_BLOCK_COLD, /* headers and floors that survived a pass */
};

struct gb_block {
    /* Of items that an index slot names: payload bytes in the upper half, bytes in the lower. One
     * word, so that an item's birth or death is one atomic step; goblin_stats adds blocks up. */
    _Atomic uint64_t live;
    _Atomic uint32_t pins;    /* readers that look at its bytes */
    _Atomic uint32_t fillers; /* promotions that still copy bytes in: not walked before 0 */
    uint32_t fill;            /* bytes laid, final once sealed */
    uint32_t next_free;
    uint8_t state;
    uint8_t kind;
    uint64_t stamp; /* order of sealing */
};

#define GB_NO_BLOCK UINT32_MAX

struct gb_arena {
    unsigned char *base;
    uint64_t reserved_bytes;
    uint32_t block_bytes;
    unsigned block_shift;
    uint32_t block_count; /* reserved */
    struct gb_block *blocks;

    pthread_mutex_t lock;
    uint32_t free_head;
    uint32_t never_used; /* blocks from here on have not been opened */
    uint32_t prefaulted; /* nor touched, from here on; the keeper's */
    uint64_t next_stamp;
    _Atomic uint32_t allowed; /* blocks that the memory budget has room for */
    _Atomic uint32_t used;    /* blocks not free */
    _Atomic uint32_t limbo;
    _Atomic uint32_t pinned; /* blocks with pins */
};

/* `reserve`: addresses, a multiple of block_bytes; no memory is touched. */
int gb_arena_init(struct gb_arena *arena, uint64_t reserve, uint32_t block_bytes);
void gb_arena_fini(struct gb_arena *arena);

static inline struct gb_item *gb_arena_item(const struct gb_arena *arena, uint64_t place)
{
    return (struct gb_item *)(void *)(arena->base + place);
}

static inline uint64_t gb_arena_place(const struct gb_arena *arena, const struct gb_item *item)
{
    return (uint64_t)((const unsigned char *)item - arena->base);
}

static inline struct gb_block *gb_arena_block(struct gb_arena *arena, uint64_t place)
{
    return &arena->blocks[place >> arena->block_shift];
}

/* ---- laying items -------------------------------------------------------------------------- */

/* Two blocks: the one being filled, and the gap at the end of the one before, where smaller items
 * still fit. */
struct gb_cursor {
    uint32_t block; /* GB_NO_BLOCK: none */
    uint32_t fill;
    uint32_t gap_block;
    uint32_t gap_fill;
    bool in_gap;  /* where the last item went */
    uint8_t kind; /* enum gb_block_kind */
};

static inline void gb_cursor_init(struct gb_cursor *cursor, enum gb_block_kind kind)
{
    *cursor =
        (struct gb_cursor){.block = GB_NO_BLOCK, .gap_block = GB_NO_BLOCK, .kind = (uint8_t)kind};
}

/* The largest item a block can take. */
uint32_t gb_arena_item_max(const struct gb_arena *arena);

/* Bytes left in the cursor's block. */
static inline uint32_t gb_cursor_room(const struct gb_arena *arena, const struct gb_cursor *cursor)
{
    return cursor->block == GB_NO_BLOCK ? 0 : arena->block_bytes - cursor->fill;
}

static inline bool gb_cursor_fits_gap(const struct gb_arena *arena, const struct gb_cursor *cursor,
                                      uint32_t bytes)
{
    return cursor->gap_block != GB_NO_BLOCK && bytes <= arena->block_bytes - cursor->gap_fill;
}

/* Whether an item of `bytes` has room, in the block or in the gap. */
static inline bool gb_cursor_fits(const struct gb_arena *arena, const struct gb_cursor *cursor,
                                  uint32_t bytes)
{
    return bytes <= gb_cursor_room(arena, cursor) || gb_cursor_fits_gap(arena, cursor, bytes);
}

#define GB_RENEW_FORCED UINT32_MAX

/* Makes the cursor's block the gap, seals the gap before, and opens a free one, leaving at least
 * `reserve` blocks allowed to others; GB_RENEW_FORCED may pass what is allowed by a few blocks,
 * which is how the hand makes room. False: none to be had; the cursor has no block then. */
bool gb_cursor_renew(struct gb_arena *arena, struct gb_cursor *cursor, uint32_t reserve);

/* Lays `bytes` (a multiple of 8), which must fit. Returns the place. */
uint64_t gb_cursor_lay(struct gb_arena *arena, struct gb_cursor *cursor, uint32_t bytes);

/* Takes back the last lay, if its item was never published. */
void gb_cursor_unlay(struct gb_cursor *cursor, uint32_t bytes);

/* ---- life of an item ----------------------------------------------------------------------- */

static inline uint32_t gb_block_live(const struct gb_block *block)
{
    return (uint32_t)atomic_load_explicit(&block->live, memory_order_relaxed);
}

/* Sums over all blocks. */
void gb_arena_count(const struct gb_arena *arena, uint64_t *live_bytes, uint64_t *resident_bytes);

/* An index slot names (no longer names) the item. Under its bucket lock. */
void gb_arena_born(struct gb_arena *arena, const struct gb_item *item);
void gb_arena_died(struct gb_arena *arena, const struct gb_item *item);

/* Keeps the block's bytes in place. Inside the RCU read-side section in which the item was found;
 * the unpin from anywhere. Fails (false) when a quarter of the allowed blocks are pinned. */
bool gb_arena_pin(struct gb_arena *arena, uint64_t place);
void gb_arena_unpin(struct gb_arena *arena, uint64_t place);

/* ---- reclaiming ---------------------------------------------------------------------------- */

/* Takes a sealed block for walking; false if it is not sealed or still being filled. */
bool gb_arena_walk(struct gb_arena *arena, uint32_t number);
/* The walk is over: nothing in it is named by the index. */
void gb_arena_walked(struct gb_arena *arena, uint32_t number);
/* After a grace period that began after `before` (a stamp taken by gb_arena_limbo_stamp): frees
 * what was walked by then and is not pinned. Returns blocks freed. */
uint64_t gb_arena_limbo_stamp(struct gb_arena *arena);
uint32_t gb_arena_release(struct gb_arena *arena, uint64_t before);

/* Blocks that may still be opened within `allowed`. */
uint32_t gb_arena_available(struct gb_arena *arena);

/* Has the system provide memory for the next `blocks` blocks that nobody has used yet, as far as
 * they are allowed, so that laying the first items in them does not wait for it. The keeper's. */
void gb_arena_prefault(struct gb_arena *arena, uint32_t blocks);

/* Gives memory of free blocks beyond `allowed` back to the system. */
void gb_arena_trim(struct gb_arena *arena);

#endif
