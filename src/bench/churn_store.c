/* Shared memory of a churn: see churn_store.h. */
#include "bench/churn_store.h"

#include <stddef.h>
#include <sys/mman.h>

enum { VERSION_SHIFT = 32 };

struct gb_churn_store *gb_churn_store_create(uint64_t objects)
{
    uint64_t bytes = sizeof(struct gb_churn_store) + objects * sizeof(struct gb_churn_versions);
    struct gb_churn_store *store =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (store == MAP_FAILED) {
        return NULL;
    }
    store->mapped_bytes = bytes;
    store->object_count = objects;
    for (int i = 0; i < GB_CHURN_PHASES; i++) {
        gb_churn_tally_init(&store->reads[i]);
    }
    gb_churn_tally_init(&store->writes);
    return store;
}

void gb_churn_store_destroy(struct gb_churn_store *store)
{
    if (store) {
        munmap(store, store->mapped_bytes);
    }
}

uint64_t gb_churn_value(uint64_t object, uint32_t version)
{
    return (uint64_t)version << VERSION_SHIFT | object;
}

uint32_t gb_churn_value_version(uint64_t value)
{
    return (uint32_t)(value >> VERSION_SHIFT);
}
