/* Blocks of the RAM log: free list, cursors, pins, limbo. See arena.h for a block's life. */
#include "engine/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"

#define FIRST_PLACE 64u /* places are never 0: block 0 starts here */

int gb_arena_init(struct gb_arena *arena, uint64_t reserve, uint32_t block_bytes)
{
    GB_ASSERT(gb_is_power_of_two(block_bytes) && reserve >= block_bytes);
    *arena = (struct gb_arena){.block_bytes = block_bytes, .free_head = GB_NO_BLOCK};
    arena->block_shift = (unsigned)__builtin_ctz(block_bytes);
    arena->block_count = (uint32_t)(reserve / block_bytes);
    arena->reserved_bytes = (uint64_t)arena->block_count * block_bytes;
    arena->blocks = calloc(arena->block_count, sizeof(*arena->blocks));
    if (arena->blocks == NULL) {
        return -ENOMEM;
    }
    /* Huge pages want 2 MiB alignment: map more and cut. */
    uint64_t slack = 2 * GB_MIB;
    unsigned char *raw = mmap(NULL, arena->reserved_bytes + slack, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        int rc = -errno;
        free(arena->blocks);
        arena->blocks = NULL;
        return rc;
    }
    unsigned char *base = (unsigned char *)gb_align_up((uintptr_t)raw, slack);
    if (base > raw) {
        (void)munmap(raw, (size_t)(base - raw));
    }
    unsigned char *end = base + arena->reserved_bytes;
    unsigned char *raw_end = raw + arena->reserved_bytes + slack;
    if (raw_end > end) {
        (void)munmap(end, (size_t)(raw_end - end));
    }
    arena->base = base;
    (void)madvise(arena->base, arena->reserved_bytes, MADV_HUGEPAGE);
    (void)pthread_mutex_init(&arena->lock, NULL);
    atomic_store(&arena->allowed, arena->block_count);
    return 0;
}

void gb_arena_fini(struct gb_arena *arena)
{
    if (arena->base != NULL) {
        (void)munmap(arena->base, arena->reserved_bytes);
        (void)pthread_mutex_destroy(&arena->lock);
    }
    free(arena->blocks);
    *arena = (struct gb_arena){0};
}

uint32_t gb_arena_item_max(const struct gb_arena *arena)
{
    return (uint32_t)gb_min(arena->block_bytes - FIRST_PLACE, gb_align_down(GB_RESIDENT_MAX, 4096));
}

static void seal_locked(struct gb_arena *arena, uint32_t number, uint32_t fill)
{
    struct gb_block *block = &arena->blocks[number];
    block->fill = fill;
    block->state = GB_BLOCK_SEALED;
    block->stamp = ++arena->next_stamp;
}

static void leave_block_locked(struct gb_arena *arena, struct gb_cursor *cursor)
{
    if (cursor->block == GB_NO_BLOCK) {
        return;
    }
    if (cursor->gap_block != GB_NO_BLOCK) {
        seal_locked(arena, cursor->gap_block, cursor->gap_fill);
    }
    cursor->gap_block = cursor->block;
    cursor->gap_fill = cursor->fill;
    cursor->block = GB_NO_BLOCK;
    cursor->fill = 0;
}

static uint32_t take_free_locked(struct gb_arena *arena)
{
    uint32_t number = arena->free_head;
    if (number != GB_NO_BLOCK) {
        arena->free_head = arena->blocks[number].next_free;
        return number;
    }
    return arena->never_used < arena->block_count ? arena->never_used++ : GB_NO_BLOCK;
}

bool gb_cursor_renew(struct gb_arena *arena, struct gb_cursor *cursor, uint32_t reserve)
{
    (void)pthread_mutex_lock(&arena->lock);
    leave_block_locked(arena, cursor);
    uint32_t used = atomic_load(&arena->used);
    uint32_t number = GB_NO_BLOCK;
    if (reserve == GB_RENEW_FORCED || used + reserve < atomic_load(&arena->allowed)) {
        number = take_free_locked(arena);
    }
    if (number != GB_NO_BLOCK) {
        struct gb_block *block = &arena->blocks[number];
        block->state = GB_BLOCK_OPEN;
        block->kind = cursor->kind;
        atomic_store_explicit(&block->live, 0, memory_order_relaxed);
        atomic_store(&arena->used, used + 1);
        cursor->block = number;
        cursor->fill = number == 0 ? FIRST_PLACE : 0;
    }
    (void)pthread_mutex_unlock(&arena->lock);
    return number != GB_NO_BLOCK;
}

uint64_t gb_cursor_lay(struct gb_arena *arena, struct gb_cursor *cursor, uint32_t bytes)
{
    GB_ASSERT(bytes % 8 == 0 && gb_cursor_fits(arena, cursor, bytes));
    cursor->in_gap = gb_cursor_fits_gap(arena, cursor, bytes);
    uint32_t block = cursor->in_gap ? cursor->gap_block : cursor->block;
    uint32_t *fill = cursor->in_gap ? &cursor->gap_fill : &cursor->fill;
    uint64_t place = ((uint64_t)block << arena->block_shift) + *fill;
    *fill += bytes;
    return place;
}

void gb_cursor_unlay(struct gb_cursor *cursor, uint32_t bytes)
{
    uint32_t *fill = cursor->in_gap ? &cursor->gap_fill : &cursor->fill;
    GB_ASSERT(*fill >= bytes);
    *fill -= bytes;
}

static uint64_t live_of(const struct gb_item *item)
{
    return (uint64_t)gb_item_resident(item) << 32 | gb_item_footprint(item);
}

void gb_arena_born(struct gb_arena *arena, const struct gb_item *item)
{
    struct gb_block *block = gb_arena_block(arena, gb_arena_place(arena, item));
    atomic_fetch_add_explicit(&block->live, live_of(item), memory_order_relaxed);
}

void gb_arena_died(struct gb_arena *arena, const struct gb_item *item)
{
    uint64_t gone = live_of(item);
    struct gb_block *block = gb_arena_block(arena, gb_arena_place(arena, item));
    uint64_t before = atomic_fetch_sub_explicit(&block->live, gone, memory_order_relaxed);
    GB_ASSERT((uint32_t)before >= (uint32_t)gone && before >= gone);
}

void gb_arena_count(const struct gb_arena *arena, uint64_t *live_bytes, uint64_t *resident_bytes)
{
    *live_bytes = 0;
    *resident_bytes = 0;
    for (uint32_t i = 0; i < arena->block_count; i++) {
        uint64_t live = atomic_load_explicit(&arena->blocks[i].live, memory_order_relaxed);
        *live_bytes += (uint32_t)live;
        *resident_bytes += live >> 32;
    }
}

bool gb_arena_pin(struct gb_arena *arena, uint64_t place)
{
    struct gb_block *block = gb_arena_block(arena, place);
    uint32_t pins = atomic_fetch_add_explicit(&block->pins, 1, memory_order_acquire);
    if (pins > 0) {
        return true;
    }
    uint32_t pinned = atomic_fetch_add_explicit(&arena->pinned, 1, memory_order_relaxed) + 1;
    if (pinned > atomic_load_explicit(&arena->allowed, memory_order_relaxed) / 4 + 1) {
        gb_arena_unpin(arena, place);
        return false;
    }
    return true;
}

void gb_arena_unpin(struct gb_arena *arena, uint64_t place)
{
    struct gb_block *block = gb_arena_block(arena, place);
    /* Release: the reader's last look at the bytes comes before the reclaimer's acquire load. */
    uint32_t pins = atomic_fetch_sub_explicit(&block->pins, 1, memory_order_release);
    GB_ASSERT(pins > 0);
    if (pins == 1) {
        atomic_fetch_sub_explicit(&arena->pinned, 1, memory_order_relaxed);
    }
}

bool gb_arena_walk(struct gb_arena *arena, uint32_t number)
{
    (void)pthread_mutex_lock(&arena->lock);
    struct gb_block *block = &arena->blocks[number];
    bool taken = block->state == GB_BLOCK_SEALED &&
                 atomic_load_explicit(&block->fillers, memory_order_acquire) == 0;
    if (taken) {
        block->state = GB_BLOCK_WALKING;
    }
    (void)pthread_mutex_unlock(&arena->lock);
    return taken;
}

void gb_arena_walked(struct gb_arena *arena, uint32_t number)
{
    (void)pthread_mutex_lock(&arena->lock);
    struct gb_block *block = &arena->blocks[number];
    GB_ASSERT(block->state == GB_BLOCK_WALKING);
    GB_ASSERT(atomic_load(&block->live) == 0);
    block->state = GB_BLOCK_LIMBO;
    block->stamp = ++arena->next_stamp;
    atomic_fetch_add(&arena->limbo, 1);
    (void)pthread_mutex_unlock(&arena->lock);
}

uint64_t gb_arena_limbo_stamp(struct gb_arena *arena)
{
    (void)pthread_mutex_lock(&arena->lock);
    uint64_t stamp = arena->next_stamp;
    (void)pthread_mutex_unlock(&arena->lock);
    return stamp;
}

uint32_t gb_arena_release(struct gb_arena *arena, uint64_t before)
{
    uint32_t freed = 0;
    (void)pthread_mutex_lock(&arena->lock);
    for (uint32_t i = 0; i < arena->never_used && atomic_load(&arena->limbo) > 0; i++) {
        struct gb_block *block = &arena->blocks[i];
        /* Acquire: pairs with the release in gb_arena_unpin. */
        if (block->state == GB_BLOCK_LIMBO && block->stamp <= before &&
            atomic_load_explicit(&block->pins, memory_order_acquire) == 0) {
            block->state = GB_BLOCK_FREE;
            block->next_free = arena->free_head;
            arena->free_head = i;
            atomic_fetch_sub(&arena->limbo, 1);
            atomic_fetch_sub(&arena->used, 1);
            freed++;
        }
    }
    (void)pthread_mutex_unlock(&arena->lock);
    return freed;
}

uint32_t gb_arena_available(struct gb_arena *arena)
{
    uint32_t used = atomic_load(&arena->used);
    uint32_t allowed = atomic_load(&arena->allowed);
    return used < allowed ? allowed - used : 0;
}

void gb_arena_prefault(struct gb_arena *arena, uint32_t blocks)
{
    (void)pthread_mutex_lock(&arena->lock);
    uint32_t first = arena->never_used;
    (void)pthread_mutex_unlock(&arena->lock);
    uint64_t end = gb_min((uint64_t)first + blocks, atomic_load(&arena->allowed));
    first = (uint32_t)gb_max(first, arena->prefaulted);
    if (first >= end) {
        return;
    }
    /* Changes nothing that is there, so a block may be opened meanwhile. Kernels before 5.14 do not
     * know it, and then the first touch pays. */
    (void)madvise(arena->base + ((uint64_t)first << arena->block_shift),
                  (end - first) << arena->block_shift, MADV_POPULATE_WRITE);
    arena->prefaulted = (uint32_t)end;
}

void gb_arena_trim(struct gb_arena *arena)
{
    (void)pthread_mutex_lock(&arena->lock);
    /* Touched blocks: used ones and those on the free list; the list is trimmed from its end by
     * forgetting the contents of free blocks, which costs a fault when they are opened again. */
    uint32_t used = atomic_load(&arena->used);
    uint32_t allowed = atomic_load(&arena->allowed);
    uint32_t keep = used < allowed ? allowed - used : 0;
    for (uint32_t number = arena->free_head; number != GB_NO_BLOCK;
         number = arena->blocks[number].next_free) {
        if (keep > 0) {
            keep--;
            continue;
        }
        (void)madvise(arena->base + ((uint64_t)number << arena->block_shift), arena->block_bytes,
                      MADV_DONTNEED);
    }
    (void)pthread_mutex_unlock(&arena->lock);
}
