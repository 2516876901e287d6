/*
 * Blocks of write_block_bytes that streams hand on to each other: mapped, so that those too many
 * really go back to the kernel, and kept a while, because a fresh mapping costs its page faults.
 * A block counts as write memory from its mapping
 * to its unmapping, spare or not.
 *
 * Threads: any; `lock` guards all.
 */
#ifndef GB_ENGINE_POOL_H
#define GB_ENGINE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct goblin;

#define GB_POOL_SPARE_MAX 8u

struct gb_pool {
    pthread_mutex_t lock;
    void *spare[GB_POOL_SPARE_MAX];
    unsigned count;
    unsigned least; /* spare ones since the last trim: so many were not needed */
};

void gb_pool_init(struct gb_pool *pool);
void gb_pool_fini(struct goblin *store);

/* Whether the budget has `count` blocks and so many bytes more for writing. Waits for nothing. */
bool gb_pool_has(struct goblin *store, unsigned count, uint64_t more_bytes);

/* NULL: out of memory, or the budget has no more for writing. */
void *gb_pool_take(struct goblin *store);
/* The same with the budget's last word unheard: NULL only if the system has none. */
void *gb_pool_take_anyway(struct goblin *store);
void gb_pool_give(struct goblin *store, void *block);

/* Unmaps what nobody has needed since the last call. */
void gb_pool_trim(struct goblin *store);

#endif
