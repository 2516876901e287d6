/* The table of engines, and the one that does nothing. */
#include "bench/engine.h"
#include "bench/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gb_engine_ops *const gb_engine_table[] = {
    &gb_engine_null,
    &gb_engine_control,
    &gb_engine_goblin_fixed,
    &gb_engine_goblin,
    &gb_engine_rocksdb,
    &gb_engine_rocksdb_blob,
    &gb_engine_rocksdb_cached,
    &gb_engine_rocksdb_blob_cached,
    NULL,
};

const struct gb_engine_ops *gb_engine_find(const char *name, size_t len)
{
    for (size_t i = 0; gb_engine_table[i]; i++) {
        if (strlen(gb_engine_table[i]->name) == len &&
            memcmp(gb_engine_table[i]->name, name, len) == 0) {
            return gb_engine_table[i];
        }
    }
    return NULL;
}

static int list_add(const struct gb_engine_ops **engines, size_t *count, const char *name,
                    size_t len, struct goblin_error *error)
{
    const struct gb_engine_ops *ops = gb_engine_find(name, len);
    if (!ops) {
        char known[256] = "";
        for (size_t i = 0; gb_engine_table[i]; i++) {
            strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
            strncat(known, gb_engine_table[i]->name, sizeof(known) - strlen(known) - 1);
        }
        gb_explain_set(error, "\"%.*s\" is no engine: give some of %s", (int)len, name, known);
        return -EINVAL;
    }
    for (size_t i = 0; i < *count; i++) {
        if (engines[i] == ops) {
            return 0;
        }
    }
    engines[(*count)++] = ops; /* the table is shorter than the list */
    return 0;
}

int gb_engine_list(const struct gb_engine_ops **engines, size_t *count, const char *names,
                   struct goblin_error *error)
{
    int rc = 0;
    while (rc == 0) {
        size_t len = strcspn(names, ",");
        rc = list_add(engines, count, names, len, error);
        if (names[len] == '\0') {
            break;
        }
        names += len + 1;
    }
    return rc;
}

/* ---- null: makes every value as it is put, keeps the sizes alone, answers at once ---------- */

static int null_open(void **engine, const struct gb_engine_config *config,
                     enum gb_engine_phase phase, struct goblin_error *error)
{
    (void)phase;
    struct gb_engine_config *kept = malloc(sizeof(*kept));
    if (!kept) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    *kept = *config;
    *engine = kept;
    return 0;
}

static int null_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                    const struct gb_engine_value *value)
{
    (void)engine;
    (void)worker;
    (void)key;
    for (uint64_t offset = 0; offset < value->size; offset += GB_ENGINE_PIECE_BYTES) {
        uint64_t left = value->size - offset;
        size_t len = left < GB_ENGINE_PIECE_BYTES ? (size_t)left : GB_ENGINE_PIECE_BYTES;
        if (!value->window(value->arg, offset, len)) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int null_barrier(void *engine, struct goblin_error *error)
{
    (void)engine;
    (void)error;
    return 0;
}

static int null_get(void *engine, const struct gb_engine_get *get)
{
    const struct gb_engine_config *config = engine;
    get->chunk(get->arg, NULL, (size_t)config->size_of(config->size_arg, get->key->number));
    return GB_ENGINE_RAM;
}

static void null_stats(void *engine, struct gb_engine_stats *stats)
{
    (void)engine;
    memset(stats, 0, sizeof(*stats));
    stats->known = true;
}

static int null_close(void *engine)
{
    free(engine);
    return 0;
}

const struct gb_engine_ops gb_engine_null = {
    .name = "null",
    .describe = "makes every value, stores nothing, answers at once: what the harness costs",
    .open = null_open,
    .put = null_put,
    .barrier = null_barrier,
    .get = null_get,
    .stats = null_stats,
    .close = null_close,
};
