/* Keys that come next. Buckets are asked for first and items after all of them: one wait for memory
 * serves many keys. */
#include "engine/store.h"

#define AT_ONCE 32u

static void hint_some(const struct goblin *store, const struct goblin_slice *keys, size_t count)
{
    uint64_t hash[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        bool good = gb_check_key(keys[i]) == 0;
        hash[i] = good ? gb_index_hash(keys[i].data, keys[i].len) : 0;
        gb_index_prefetch(store->index, hash[i]);
    }
    for (size_t i = 0; i < count; i++) {
        gb_index_prefetch_item(store->index, hash[i]);
    }
}

void goblin_hint(const struct goblin *store, const struct goblin_slice *keys, size_t count)
{
    while (count > 0) {
        size_t some = gb_min(count, AT_ONCE);
        hint_some(store, keys, some);
        keys += some;
        count -= some;
    }
}
