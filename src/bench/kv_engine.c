/* The table of engines for small values. */
#include "bench/kv_engine.h"

#include <string.h>

const struct gb_kv_ops *const gb_kv_table[] = {
    &gb_kv_goblin, &gb_kv_rocksdb, &gb_kv_leveldb, &gb_kv_lmdb, NULL,
};

const struct gb_kv_ops *gb_kv_find(const char *name, size_t len)
{
    for (size_t i = 0; gb_kv_table[i]; i++) {
        if (strlen(gb_kv_table[i]->name) == len && memcmp(gb_kv_table[i]->name, name, len) == 0) {
            return gb_kv_table[i];
        }
    }
    return NULL;
}
