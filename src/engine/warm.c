/* Warming after open: heads from the file of a clean close, then from the log, hottest first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/heads.h"
#include "engine/reader_internal.h"
#include "engine/recover.h"

#define WARM_KEYS    256u /* keys gathered before they are read */
#define WARM_FLIGHTS 8u   /* objects read at once */

struct wanted {
    uint64_t sequence;
    uint32_t resident;
    uint32_t key_len;
    unsigned char key[GOBLIN_KEY_MAX];
};

/* An object on its way from the log into the room that was laid for it. */
struct flight {
    struct warming *warming;
    struct goblin_request request;
    struct gb_promotion promotion;
    uint32_t resident;
    bool busy;
};

struct warming {
    struct goblin *store;
    struct goblin_reader *reader;
    unsigned least; /* accesses of the objects this pass takes */
    unsigned most;
    struct wanted *wanted;
    unsigned count;
    struct flight flights[WARM_FLIGHTS];
};

/* ---- which --------------------------------------------------------------------------------- */

static uint32_t target_of(const struct goblin *store, const struct gb_item *item)
{
    uint64_t size = gb_item_size(item);
    uint64_t target = gb_residency_initial(store, size);
    if (store->options.residency == GOBLIN_RESIDENCY_ADAPTIVE) {
        target = gb_max(target, gb_item_warm(item));
    }
    uint64_t most = gb_arena_item_max(&store->arena) - sizeof(*item) - gb_item_key_len(item) -
                    gb_item_side_len(item) - 8;
    return (uint32_t)(target <= most ? target : gb_align_down(most, GB_BLOCK));
}

static void want_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct warming *warming = arg;
    uint32_t target = target_of(warming->store, item);
    uint32_t epoch = atomic_load_explicit(&warming->store->residency.epoch, memory_order_relaxed);
    unsigned count = gb_heat_count(atomic_load_explicit(&item->heat, memory_order_relaxed), epoch);
    if (gb_item_resident(item) >= target || count < warming->least || count > warming->most ||
        warming->count == WARM_KEYS) {
        return;
    }
    struct wanted *wanted = &warming->wanted[warming->count++];
    wanted->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
    wanted->resident = target;
    wanted->key_len = gb_item_key_len(item);
    memcpy(wanted->key, item->key, wanted->key_len);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void take_bytes(struct flight *flight, uint64_t at, const void *bytes, size_t len)
{
    if (len > 0 && at < flight->resident) {
        memcpy(gb_promotion_bytes(flight->warming->store, &flight->promotion) + at, bytes,
               gb_min(len, flight->resident - at));
    }
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct flight *flight = arg;
    take_bytes(flight, 0, chunk->meta.data, chunk->meta.len);
    take_bytes(flight, chunk->info->meta_len + chunk->offset, chunk->data, chunk->len);
    return GOBLIN_CHUNK_DONE;
}

static void land(void *arg, int result, const struct goblin_info *info)
{
    (void)info;
    struct flight *flight = arg;
    if (result == GOBLIN_OK) {
        gb_residency_finish(flight->warming->store, &flight->promotion);
    } else {
        gb_residency_drop(flight->warming->store, &flight->promotion);
    }
    flight->busy = false;
}

static int find_flight(struct warming *warming, struct flight **out)
{
    for (;;) {
        for (unsigned i = 0; i < WARM_FLIGHTS; i++) {
            if (!warming->flights[i].busy) {
                *out = &warming->flights[i];
                return 0;
            }
        }
        int rc = goblin_poll(warming->reader, -1);
        if (rc < 0) {
            return rc;
        }
    }
}

/* Starts reading one object's first bytes. Negative: stop warming. */
static int warm_one(struct warming *warming, const struct wanted *wanted)
{
    struct flight *flight = NULL;
    int rc = find_flight(warming, &flight);
    if (rc < 0) {
        return rc;
    }
    const struct goblin_slice key = {wanted->key, wanted->key_len};
    rc = gb_residency_restore(warming->store, key, wanted->sequence, wanted->resident,
                              &flight->promotion);
    if (rc <= 0) {
        return rc;
    }
    flight->warming = warming;
    flight->resident = wanted->resident;
    flight->busy = true;
    flight->request = (struct goblin_request){
        .key = key,
        .length = wanted->resident, /* metadata comes on top; what is too much is not kept */
        .flags = GOBLIN_GET_META | GOBLIN_GET_QUIET,
        .on_chunk = take_chunk,
        .on_done = land,
        .arg = flight,
    };
    rc = goblin_submit(warming->reader, &flight->request);
    if (rc < 0) {
        land(flight, rc, NULL);
    }
    return rc < 0 ? rc : 0;
}

static int run_pass(struct warming *warming)
{
    uint64_t cursor = 0;
    int rc = 0;
    do {
        warming->count = 0;
        do {
            gb_index_scan_bucket(warming->store->index, &cursor, want_item, warming);
        } while (cursor != 0 && warming->count < WARM_KEYS / 2);
        for (unsigned i = 0; rc == 0 && i < warming->count; i++) {
            rc = atomic_load(&warming->store->keeper_stop) ? -ECANCELED
                                                           : warm_one(warming, &warming->wanted[i]);
        }
    } while (rc == 0 && cursor != 0);
    return rc;
}

static void warm_from_log(struct goblin *store)
{
    static const unsigned bounds[][2] = {{8, 15}, {2, 7}, {0, 1}};
    struct warming warming = {.store = store};
    warming.wanted = malloc(WARM_KEYS * sizeof(*warming.wanted));
    const struct goblin_reader_options options = {.requests = 2 * WARM_FLIGHTS};
    if (warming.wanted != NULL && goblin_reader_create(&warming.reader, store, &options) >= 0) {
        int rc = 0;
        for (unsigned i = 0; rc == 0 && i < 3; i++) {
            warming.least = bounds[i][0];
            warming.most = bounds[i][1];
            rc = run_pass(&warming);
        }
    }
    while (warming.reader != NULL && goblin_poll(warming.reader, -1) > 0) {
        /* what is in flight lands */
    }
    goblin_reader_destroy(warming.reader);
    free(warming.wanted);
}

void gb_warm(struct goblin *store)
{
    int rc = 0;
    if (store->heads_salt != 0 && store->heads_dir != NULL) {
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
