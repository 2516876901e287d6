/* Gets of small resident objects, most of what a cache is asked: bytes are copied out within the
 * read-side section and handed over after it, without state, lists or pins. */
#include <string.h>

#include "engine/index_look.h"
#include "engine/rcu.h"
#include "engine/reader_internal.h"

#define TICK_REQUESTS 256u

/* What a small resident object answers, copied out of its block. */
struct quick {
    struct goblin_info info;
    uint64_t from;  /* payload position of the first byte copied */
    uint64_t start; /* payload range asked for */
    uint64_t end;
};

static inline void tick(struct goblin_reader *reader)
{
    if (++reader->ticks == TICK_REQUESTS) {
        reader->ticks = 0;
        gb_residency_tick(reader->store, TICK_REQUESTS);
    }
}

/* A small object is worth its bytes after a few accesses; beyond them one in four counts. */
static inline void touch(const struct goblin_reader *reader, struct gb_item *item)
{
    uint32_t epoch = atomic_load_explicit(&reader->store->residency.epoch, memory_order_relaxed);
    (void)gb_heat_touch_sparing(item, epoch, 4, reader->ticks % 4 == 0);
    if (gb_item_ram_only(item)) {
        gb_admission_ask(reader->store, item);
    }
}

static inline void count(struct goblin_reader *reader, uint64_t bytes)
{
    uint64_t hits = atomic_load_explicit(&reader->small_hits, memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(&reader->small_bytes, memory_order_relaxed);
    atomic_store_explicit(&reader->small_hits, hits + 1, memory_order_relaxed);
    atomic_store_explicit(&reader->small_bytes, sum + bytes, memory_order_relaxed);
}

/* Inside the read-side section: the key's item, described, or NULL. */
static GB_ALWAYS_INLINE struct gb_item *find(const struct goblin_reader *reader,
                                             struct goblin_slice key, uint64_t hash,
                                             struct goblin_info *info)
{
    struct goblin *store = reader->store;
    struct gb_glimpse glimpse;
    const struct gb_item *item = gb_index_look(store->index, hash, key.data, key.len, &glimpse);
    if (item == NULL) {
        return NULL;
    }
    gb_item_describe(item, info);
    if (gb_store_expired(store, info->expires_ms)) {
        return NULL;
    }
    return (struct gb_item *)(uintptr_t)item;
}

/* Inside the read-side section: true if all that is asked for is resident and small. */
static inline bool copy_range(struct goblin_reader *reader, const struct goblin_request *request,
                              struct gb_item *item, struct quick *quick, unsigned char *to)
{
    uint32_t meta_len = quick->info.meta_len;
    uint64_t size = quick->info.size;
    uint64_t start = gb_min(request->offset, size);
    uint64_t len = size - start;
    if (request->length != 0) {
        len = gb_min(len, request->length);
    }
    quick->start = start + meta_len;
    quick->end = quick->start + len;
    /* Metadata, if it is asked for, lies in front and is copied with all between. */
    bool want_meta = (request->flags & GOBLIN_GET_META) != 0;
    quick->from = want_meta && meta_len > 0 ? 0 : quick->start;
    if (quick->end > gb_item_resident(item) || quick->end - quick->from > GB_SMALL_MAX) {
        return false;
    }
    memcpy(to, gb_item_bytes(item) + quick->from, quick->end - quick->from);
    if ((request->flags & GOBLIN_GET_QUIET) == 0) {
        touch(reader, item);
    }
    return true;
}

/* Hands a copied answer over. `get` lends its buffer, and is off the list meanwhile, so that
 * requests which the callback submits take others. */
static inline int hand_over(struct gb_get *get, struct goblin_request *request,
                            const struct quick *quick)
{
    struct goblin_reader *reader = get->reader;
    struct goblin_chunk chunk = {
        .data = get->small + (quick->start - quick->from),
        .len = quick->end - quick->start,
        .offset = quick->start - quick->info.meta_len,
        .info = &quick->info,
        .resident = true,
        .last = true,
        .hold = gb_hold_token(GB_HOLD_SMALL, get->number),
    };
    if ((request->flags & GOBLIN_GET_META) != 0) {
        chunk.meta = (struct goblin_slice){get->small, quick->info.meta_len};
    }
    reader->free_gets = get->next;
    int told = request->on_chunk(request->arg, &chunk);
    if (told == GOBLIN_CHUNK_HOLD) {
        get->free = false;
        get->holds = 1;
    } else {
        get->next = reader->free_gets;
        reader->free_gets = get;
    }
    if (told < 0) {
        return GOBLIN_ECANCELED;
    }
    if ((request->flags & GOBLIN_GET_QUIET) == 0) {
        count(reader, chunk.len);
    }
    return GOBLIN_OK;
}

int gb_get_small(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash)
{
    struct gb_get *get = reader->free_gets;
    struct quick quick;
    tick(reader);
    gb_rcu_read_lock();
    struct gb_item *item = find(reader, request->key, hash, &quick.info);
    bool done = item != NULL && copy_range(reader, request, item, &quick, get->small);
    gb_rcu_read_unlock();
    if (!done) {
        return GB_GET_NOT_SMALL;
    }
    int answer = hand_over(get, request, &quick);
    if (request->on_done != NULL) {
        request->on_done(request->arg, answer, answer == GOBLIN_OK ? &quick.info : NULL);
    }
    return answer;
}

/* Inside the read-side section: the whole payload into buffers that are large enough. */
static inline bool copy_whole(const struct gb_item *item, const struct goblin_info *info,
                              struct goblin_buffer *const into[2])
{
    uint64_t payload = info->meta_len + info->size;
    if (payload > gb_item_resident(item) || payload > GB_SMALL_MAX ||
        info->size >= into[0]->capacity) {
        return false;
    }
    const unsigned char *bytes = gb_item_bytes(item);
    if (into[1] != NULL) {
        if (info->meta_len >= into[1]->capacity) {
            return false;
        }
        into[1]->len = info->meta_len;
        memcpy(into[1]->data, bytes, info->meta_len);
    }
    into[0]->len = info->size;
    memcpy(into[0]->data, bytes + info->meta_len, info->size);
    return true;
}

bool gb_get_small_load(struct goblin_reader *reader, struct goblin_slice key, uint64_t hash,
                       struct goblin_buffer *const into[2], struct goblin_info *info)
{
    struct goblin_info found;
    tick(reader);
    gb_rcu_read_lock();
    struct gb_item *item = find(reader, key, hash, &found);
    bool done = item != NULL && copy_whole(item, &found, into);
    if (done) {
        touch(reader, item);
    }
    gb_rcu_read_unlock();
    if (!done) {
        return false;
    }
    count(reader, found.size);
    if (info != NULL) {
        *info = found;
    }
    return true;
}
