/* The pool of streams' blocks. */
#include "engine/pool.h"

#include "engine/iomem.h"
#include "engine/store.h"

void gb_pool_init(struct gb_pool *pool)
{
    *pool = (struct gb_pool){.count = 0};
    (void)pthread_mutex_init(&pool->lock, NULL);
}

static void unmap(struct goblin *store, void *block)
{
    uint32_t bytes = store->options.write_block_bytes;
    gb_iomem_unmap(block, bytes);
    atomic_fetch_sub(&store->budget.write, bytes);
}

static void *take(struct goblin *store, uint64_t most)
{
    struct gb_pool *pool = &store->pool;
    void *block = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    if (pool->count > 0) {
        block = pool->spare[--pool->count];
        pool->least = pool->count < pool->least ? pool->count : pool->least;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    uint32_t bytes = store->options.write_block_bytes;
    if (block != NULL || !gb_store_take_memory(store, &store->budget.write, bytes, most)) {
        return block;
    }
    block = gb_iomem_map(bytes);
    if (block == NULL) {
        atomic_fetch_sub(&store->budget.write, bytes);
        return NULL;
    }
    return block;
}

bool gb_pool_has(struct goblin *store, unsigned count, uint64_t more_bytes)
{
    struct gb_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    unsigned spare = pool->count < count ? pool->count : count;
    (void)pthread_mutex_unlock(&pool->lock);
    uint64_t bytes = (uint64_t)(count - spare) * store->options.write_block_bytes + more_bytes;
    return atomic_load(&store->budget.write) + bytes <= store->budget.total / 4;
}

void *gb_pool_take(struct goblin *store)
{
    return take(store, store->budget.total / 4);
}

void *gb_pool_take_anyway(struct goblin *store)
{
    return take(store, UINT64_MAX);
}

void gb_pool_give(struct goblin *store, void *block)
{
    struct gb_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    bool keep = pool->count < GB_POOL_SPARE_MAX;
    if (keep) {
        pool->spare[pool->count++] = block;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (!keep) {
        unmap(store, block);
    }
}

static void unmap_locked(struct goblin *store, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unmap(store, store->pool.spare[--store->pool.count]);
    }
}

void gb_pool_trim(struct goblin *store)
{
    struct gb_pool *pool = &store->pool;
    (void)pthread_mutex_lock(&pool->lock);
    unmap_locked(store, pool->least);
    pool->least = pool->count;
    (void)pthread_mutex_unlock(&pool->lock);
}

void gb_pool_fini(struct goblin *store)
{
    unmap_locked(store, store->pool.count);
    (void)pthread_mutex_destroy(&store->pool.lock);
}
