/* Warming after open: heads from the file of a clean close, the rest from the log, hottest first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/heads.h"
#include "engine/rcu.h"
#include "engine/reader_internal.h"
#include "engine/recover.h"

#define WARM_KEYS 256u /* keys gathered before they are read */

struct wanted {
    uint64_t sequence;
    uint32_t resident;
    uint32_t key_len;
    unsigned char key[GOBLIN_KEY_MAX];
};

struct pass {
    struct goblin *store;
    unsigned least; /* accesses */
    unsigned most;
    struct wanted *wanted;
    unsigned count;
};

static void want_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct pass *pass = arg;
    uint64_t size = gb_item_size(item);
    uint32_t target = gb_residency_initial(pass->store, size);
    uint32_t epoch = atomic_load_explicit(&pass->store->residency.epoch, memory_order_relaxed);
    unsigned count =
        gb_heat_count(atomic_load_explicit(&item->heat, memory_order_relaxed), epoch);
    if (gb_item_resident(item) >= target || count < pass->least || count > pass->most ||
        pass->count == WARM_KEYS) {
        return;
    }
    struct wanted *wanted = &pass->wanted[pass->count++];
    wanted->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
    wanted->resident = target;
    wanted->key_len = gb_item_key_len(item);
    memcpy(wanted->key, item->key, wanted->key_len);
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    unsigned char *payload = arg;
    if (chunk->meta.len > 0) {
        memcpy(payload, chunk->meta.data, chunk->meta.len);
    }
    memcpy(payload + chunk->info->meta_len + chunk->offset, chunk->data, chunk->len);
    return GOBLIN_CHUNK_DONE;
}

/* Reads one object's first bytes and gives them to it. Negative: stop warming. */
static int warm_one(struct goblin *store, struct goblin_reader *reader, const struct wanted *wanted,
                    unsigned char *payload)
{
    const struct goblin_slice key = {wanted->key, wanted->key_len};
    struct goblin_request request = {
        .key = key,
        .length = wanted->resident,
        .flags = GOBLIN_GET_META | GOBLIN_GET_QUIET,
        .on_chunk = take_chunk,
        .arg = payload,
    };
    int rc = goblin_get(reader, &request);
    if (rc != GOBLIN_OK) {
        return rc < 0 && rc != GOBLIN_ECORRUPT ? rc : 0;
    }
    struct gb_promotion promotion;
    int room = gb_residency_restore(store, key, wanted->sequence, wanted->resident, &promotion);
    if (room > 0) {
        memcpy(gb_promotion_bytes(store, &promotion), payload, wanted->resident);
        gb_residency_finish(store, &promotion);
    }
    return room < 0 ? room : 0;
}

static int run_pass(struct pass *pass, struct goblin_reader *reader, unsigned char *payload)
{
    uint64_t cursor = 0;
    int rc = 0;
    do {
        pass->count = 0;
        do {
            gb_index_scan_bucket(pass->store->index, &cursor, want_item, pass);
        } while (cursor != 0 && pass->count < WARM_KEYS / 2);
        for (unsigned i = 0; rc == 0 && i < pass->count; i++) {
            rc = atomic_load(&pass->store->keeper_stop)
                     ? -ECANCELED
                     : warm_one(pass->store, reader, &pass->wanted[i], payload);
        }
    } while (rc == 0 && cursor != 0);
    return rc;
}

static void warm_from_log(struct goblin *store)
{
    static const unsigned bounds[][2] = {{8, 15}, {2, 7}, {0, 1}};
    struct goblin_reader *reader = NULL;
    struct pass pass = {.store = store};
    pass.wanted = malloc(WARM_KEYS * sizeof(*pass.wanted));
    unsigned char *payload = malloc(2 * (GOBLIN_META_MAX + (size_t)store->options.head_bytes));
    const struct goblin_reader_options options = {.requests = 1, .buffers = 1};
    if (pass.wanted != NULL && payload != NULL &&
        goblin_reader_create(&reader, store, &options) >= 0) {
        int rc = 0;
        for (unsigned i = 0; rc == 0 && i < 3; i++) {
            pass.least = bounds[i][0];
            pass.most = bounds[i][1];
            rc = run_pass(&pass, reader, payload);
        }
    }
    goblin_reader_destroy(reader);
    free(payload);
    free(pass.wanted);
}

void gb_warm(struct goblin *store)
{
    int rc = 0;
    if (store->heads_salt != 0) {
        rc = gb_heads_load(store, store->heads_salt);
        if (rc == GOBLIN_ECORRUPT) {
            gb_store_log(store, GOBLIN_LOG_WARN,
                         "the heads file is damaged: heads come from the log");
        }
    }
    if (rc != -ENOMEM) {
        warm_from_log(store);
    }
    atomic_store(&store->warming, false);
}
