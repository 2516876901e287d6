/* Requests: from the lookup to the last chunk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/rcu.h"
#include "engine/reader_internal.h"

/* ---- the end of a request ------------------------------------------------------------------ */

/* Adds `delta` to the readers of every segment that the object lies in. */
static void count_reader(const struct gb_get *get, uint32_t delta)
{
    struct gb_segments *segments = &get->reader->store->segments;
    if (gb_item_form(get->item) != GB_FORM_EXTENTS) {
        atomic_fetch_add(&gb_segment_at(segments, get->place)->readers, delta);
        return;
    }
    const unsigned char *list = get->item->key + gb_item_key_len(get->item) + GB_EXTENTS_HEADER;
    for (uint32_t i = 0; i < get->extent_count; i++) {
        struct gb_extent extent;
        int rc = gb_extent_decode(&extent, list + (size_t)i * GB_EXTENT_SIZE);
        GB_ASSERT(rc == 0);
        atomic_fetch_add(&gb_segment_at(segments, extent.place)->readers, delta);
    }
}

static void hold_segments(struct gb_get *get)
{
    get->holds_segments = true;
    count_reader(get, 1);
}

static void let_segments_go(struct gb_get *get)
{
    if (get->holds_segments) {
        get->holds_segments = false;
        count_reader(get, UINT32_MAX); /* one fewer */
    }
}

void gb_get_recycle(struct gb_get *get)
{
    if (get->request != NULL || get->in_flight > 0 || get->busy || get->free) {
        return;
    }
    struct goblin_reader *reader = get->reader;
    while (get->piece_count > 0) {
        gb_tail_release(get, &get->pieces[get->piece_head], false);
    }
    for (unsigned i = 0; get->held > 0 && i < reader->buffer_count; i++) {
        if (reader->buffers[i].holder == get) {
            reader->buffers[i].holder = NULL; /* stays with the caller, on nobody's account */
            get->held--;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        get->windows[i].used = false;
        get->windows[i].refs = 0;
    }
    let_segments_go(get);
    if (get->pinned != 0) {
        gb_arena_unpin(&reader->store->arena, get->pinned);
        get->pinned = 0;
    }
    free(get->meta);
    get->meta = NULL;
    get->item = NULL;
    if (get->holds == 0) {
        free(get->clone);
        get->clone = NULL;
    }
    struct gb_get **at = &reader->active;
    while (*at != NULL && *at != get) {
        at = &(*at)->next;
    }
    if (*at == get) {
        *at = get->next;
        reader->active_count--;
    }
    if (get->holds == 0) {
        get->free = true;
        get->next = reader->free_gets;
        reader->free_gets = get;
    }
}

void gb_get_end(struct gb_get *get, int result)
{
    struct goblin_reader *reader = get->reader;
    struct goblin_request *request = get->request;
    if (request == NULL) {
        return;
    }
    get->request = NULL;
    if (get->promotion.place != 0) {
        gb_residency_drop(reader->store, &get->promotion);
    }
    bool counts = (request->flags & GOBLIN_GET_QUIET) == 0;
    gb_tally_add(&reader->tally, GB_COUNT_hits, counts && result == GOBLIN_OK);
    gb_tally_add(&reader->tally, GB_COUNT_misses, counts && result == GOBLIN_MISS);
    if (get->answer != NULL) {
        *get->answer = result;
    }
    if (request->on_done != NULL) {
        request->on_done(request->arg, result, result == GOBLIN_OK ? &get->info : NULL);
    }
}

/* ---- handing over -------------------------------------------------------------------------- */

/* One callback. False: the caller stopped the request, which has ended. */
static bool call_back(struct gb_get *get, struct goblin_chunk *chunk)
{
    struct goblin_reader *reader = get->reader;
    struct goblin_request *request = get->request;
    chunk->info = &get->info;
    chunk->last = get->deliver_at >= get->end;
    if (!get->handed && get->want_meta) {
        chunk->meta = (struct goblin_slice){get->meta, get->meta_len};
    }
    get->handed = true;
    gb_tally_add(&reader->tally, GB_COUNT_get_bytes, chunk->len);
    gb_tally_add(&reader->tally, GB_COUNT_get_resident_bytes, chunk->resident ? chunk->len : 0);
    get->busy = true;
    int answer = request->on_chunk(request->arg, chunk);
    get->busy = false;
    if (answer == GOBLIN_CHUNK_HOLD) {
        if (chunk->hold % GB_HOLD_KINDS == GB_HOLD_BLOCK) {
            /* The request's own pin keeps the block while the second one is taken. */
            atomic_fetch_add(&gb_arena_block(&reader->store->arena, get->pinned)->pins, 1);
        } else if (chunk->hold % GB_HOLD_KINDS == GB_HOLD_SMALL) {
            get->holds++;
        }
    }
    if (answer < 0 && get->request != NULL) {
        gb_get_end(get, GOBLIN_ECANCELED);
    }
    /* Tells take_piece whether the buffer stays with the embedder. */
    chunk->hold = answer == GOBLIN_CHUNK_HOLD ? chunk->hold : UINT64_MAX;
    return get->request != NULL;
}

/* Hands over payload [from, from + len): metadata is gathered, what lies outside the range
 * dropped. */
static bool hand_over(struct gb_get *get, uint64_t from, const unsigned char *bytes, uint64_t len,
                      struct goblin_chunk *chunk)
{
    if (get->want_meta && from < get->meta_len) {
        memcpy(get->meta + from, bytes, gb_min(len, get->meta_len - from));
    }
    uint64_t begin = gb_max(from, get->deliver_at);
    uint64_t end = gb_min(from + len, get->end);
    if (begin >= end || begin != get->deliver_at) {
        return get->request != NULL;
    }
    chunk->data = bytes + (begin - from);
    chunk->len = end - begin;
    chunk->offset = begin - get->meta_len;
    get->deliver_at = end;
    return call_back(get, chunk);
}

static void fill_promotion(struct gb_get *get, const struct gb_piece *piece,
                           const unsigned char *bytes)
{
    struct gb_promotion *promotion = &get->promotion;
    if (promotion->place == 0 || piece->from > promotion->filled ||
        piece->to <= promotion->filled) {
        return;
    }
    uint64_t skip = promotion->filled - piece->from;
    uint64_t n = gb_min(piece->to, promotion->resident) - promotion->filled;
    memcpy(gb_promotion_bytes(get->reader->store, promotion) + promotion->filled, bytes + skip, n);
    promotion->filled += (uint32_t)n;
    if (promotion->filled == promotion->resident) {
        gb_residency_finish(get->reader->store, promotion);
    }
}

/* An empty range or value still gives one chunk. */
static bool hand_empty(struct gb_get *get)
{
    if (get->handed) {
        return true;
    }
    struct goblin_chunk chunk = {
        .data = get->small,
        .resident = true,
        .offset = get->start - get->meta_len,
        .hold = gb_hold_token(GB_HOLD_SMALL, get->number),
    };
    return call_back(get, &chunk);
}

/* The object's bytes are bad or cannot be read: it leaves. `piece` is where, if that is known. */
static void drop_bad(struct gb_get *get, const struct gb_piece *piece, int reason)
{
    struct goblin *store = get->reader->store;
    gb_tally_add(&get->reader->tally,
                 reason == GOBLIN_ECORRUPT ? GB_COUNT_checksum_errors : GB_COUNT_read_errors, 1);
    struct gb_segment *segment = gb_segment_at(&store->segments, get->place);
    uint64_t offset = gb_place_offset(get->place);
    if (piece != NULL) {
        segment = piece->segment;
        offset = piece->at;
    }
    gb_store_read_failed(store, segment, offset, reason);
    if (store->options.read_only) {
        return;
    }
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(get->key.data, get->key.len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, get->key.data, get->key.len);
    if (item != NULL &&
        atomic_load_explicit(&item->sequence, memory_order_relaxed) == get->sequence) {
        gb_store_forget_locked(store, &locked, item);
        atomic_store_explicit(&store->forgetful, true, memory_order_relaxed);
        gb_tally_add_shared(&store->tally, GB_COUNT_left_bad, 1);
    }
    gb_index_unlock(&locked);
}

static void fail(struct gb_get *get, const struct gb_piece *piece, int reason)
{
    if (reason == -ENOMEM || reason == -EMFILE) {
        gb_get_end(get, reason); /* says nothing of the object */
        return;
    }
    drop_bad(get, piece, reason);
    /* What goblin_load has gathered nobody has seen. */
    bool seen = get->handed && get->load == NULL;
    gb_get_end(get, seen ? GOBLIN_ECORRUPT : GOBLIN_MISS);
}

/* A read for several has failed, perhaps not for this one's bytes. */
static void read_alone(struct gb_get *get, struct gb_piece *piece)
{
    get->plan_at = piece->from;
    gb_tail_release(get, piece, false);
}

/* The oldest piece has come. True: the request goes on. */
static bool take_piece(struct gb_get *get)
{
    struct gb_piece *piece = &get->pieces[get->piece_head];
    int rc = gb_tail_verify(get, piece);
    if (rc == -EIO && piece->run != NULL) {
        read_alone(get, piece);
        return true;
    }
    if (rc < 0) {
        fail(get, piece, rc);
        return false;
    }
    unsigned buffer = piece->buffer;
    const unsigned char *bytes = piece->data + piece->skew;
    struct goblin_chunk chunk = {.hold = gb_hold_token(GB_HOLD_BUFFER, buffer)};
    uint64_t before = get->deliver_at;
    bool on = hand_over(get, piece->from, bytes, piece->to - piece->from, &chunk);
    bool held = get->deliver_at != before && chunk.hold != UINT64_MAX;
    if (on) {
        fill_promotion(get, piece, bytes);
    }
    gb_tail_release(get, piece, held);
    get->tail_handed = true;
    return on;
}

static bool piece_ready(const struct gb_get *get)
{
    const struct gb_piece *piece = &get->pieces[get->piece_head];
    if (get->piece_count == 0 || get->waits) {
        return false;
    }
    if (piece->run != NULL) {
        return !piece->run->reading;
    }
    return piece->state == GB_PIECE_READY && (piece->window == NULL || !piece->window->reading);
}

bool gb_get_advance(struct gb_get *get)
{
    /* Again when what was planned came from a write block: no event will tell of it. */
    do {
        while (get->request != NULL && !get->busy && piece_ready(get)) {
            if (!take_piece(get)) {
                break;
            }
        }
        if (get->request == NULL || get->busy) {
            break;
        }
        int rc = gb_tail_plan(get);
        if (rc < 0) {
            fail(get, NULL, rc);
        } else if (!get->waits && get->deliver_at >= get->end && get->piece_count == 0 &&
                   get->plan_at >= get->end && hand_empty(get)) {
            gb_get_end(get, GOBLIN_OK);
        }
    } while (get->request != NULL && piece_ready(get));
    if (get->request == NULL) {
        gb_get_recycle(get);
        return true;
    }
    return false;
}

/* ---- the beginning ------------------------------------------------------------------------- */

static int clone_item(struct gb_get *get, const struct gb_item *item)
{
    /* What is in RAM alone can be read from nowhere else. */
    uint32_t resident = gb_item_ram_only(item) ? gb_item_resident(item) : 0;
    size_t len = sizeof(*item) + gb_item_key_len(item) + gb_item_side_len(item) + resident;
    get->clone = malloc(len);
    if (get->clone == NULL) {
        return -ENOMEM;
    }
    get->clone->size_key = item->size_key;
    gb_item_set_resident(get->clone, resident);
    memcpy(get->clone->key, item->key, len - sizeof(*item));
    get->item = get->clone;
    get->resident = resident;
    return 0;
}

static void set_range(struct gb_get *get, const struct goblin_request *request)
{
    uint64_t size = get->info.size;
    uint64_t from = gb_min(request->offset, size);
    uint64_t len = request->length == 0 ? size - from : gb_min(request->length, size - from);
    get->start = get->meta_len + from;
    get->end = get->start + len;
    get->deliver_at = get->start;
    get->want_meta = (request->flags & GOBLIN_GET_META) != 0 && get->meta_len > 0;
}

/* Inside the read-side section, with a consistent look at the item: takes hold of what the request
 * will need. */
static int take_item(struct gb_get *get, const struct gb_item *item,
                     const struct goblin_request *request)
{
    bool whole = get->end <= get->resident && (!get->want_meta || get->meta_len <= get->resident);
    uint64_t place = gb_arena_place(&get->reader->store->arena, item);
    get->item = item;
    get->extent_count = 1;
    if (gb_item_form(item) == GB_FORM_EXTENTS) {
        get->extent_count = (uint32_t)gb_load_le64(item->key + gb_item_key_len(item));
    }
    int rc = 0;
    if (gb_arena_pin(&get->reader->store->arena, place)) {
        get->pinned = place;
    } else {
        rc = clone_item(get, item);
        whole = gb_item_ram_only(item);
    }
    get->key = (struct goblin_slice){get->item->key, gb_item_key_len(item)};
    if (rc == 0 && !whole && (request->flags & GOBLIN_GET_RESIDENT) == 0) {
        hold_segments(get);
    }
    return rc;
}

/* Looks the key up and takes hold of it: 0, a fault, or GOBLIN_ECANCELED as "not there". */
static int look_up(struct gb_get *get, const struct goblin_request *request, uint64_t hash)
{
    struct goblin *store = get->reader->store;
    const struct goblin_slice key = request->key;
    int rc = GOBLIN_ECANCELED;
    gb_rcu_read_lock();
    for (;;) {
        struct gb_glimpse glimpse;
        const struct gb_item *item = gb_index_find(store->index, hash, key.data, key.len, &glimpse);
        if (item == NULL) {
            break;
        }
        get->place = atomic_load_explicit(&item->place, memory_order_relaxed);
        get->sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
        gb_item_describe(item, &get->info);
        if (!gb_index_unchanged(&glimpse)) {
            continue;
        }
        if (gb_store_expired(store, get->info.expires_ms)) {
            break;
        }
        get->size = gb_item_size(item);
        get->meta_len = get->info.meta_len;
        get->resident = gb_item_resident(item);
        set_range(get, request);
        if ((request->flags & GOBLIN_GET_QUIET) == 0) {
            uint32_t epoch = atomic_load_explicit(&store->residency.epoch, memory_order_relaxed);
            get->accesses = gb_heat_touch((struct gb_item *)(uintptr_t)item, epoch);
            if (gb_item_ram_only(item)) {
                gb_admission_ask(store, (struct gb_item *)(uintptr_t)item);
            }
        }
        rc = take_item(get, item, request);
        break;
    }
    gb_rcu_read_unlock();
    return rc;
}

/* The resident part of a held item. */
static bool answer_head(struct gb_get *get)
{
    if (get->want_meta) {
        get->meta = malloc(get->meta_len);
        if (get->meta == NULL) {
            gb_get_end(get, -ENOMEM);
            return false;
        }
    }
    const unsigned char *bytes = gb_item_bytes(get->item);
    struct goblin_chunk chunk = {.resident = true,
                                 .hold = gb_hold_token(GB_HOLD_BLOCK, get->pinned)};
    if (get->pinned == 0) {
        chunk.hold = gb_hold_token(GB_HOLD_SMALL, get->number); /* the bytes are a copy */
    }
    uint64_t have = get->resident;
    if (get->want_meta && have < get->meta_len) {
        memcpy(get->meta, bytes, have);
        return true; /* no chunk before the metadata is there */
    }
    if (have > 0 && !hand_over(get, 0, bytes, have, &chunk)) {
        return false;
    }
    return true;
}

static void admit(struct gb_get *get, const struct goblin_request *request)
{
    bool all = request->offset == 0 && get->end == get->size;
    if (all && get->request != NULL && get->pinned != 0 &&
        (request->flags & GOBLIN_GET_QUIET) == 0) {
        (void)gb_residency_admit(get->reader->store, get->item, get->accesses, &get->promotion);
    }
}

static void submit_reads(struct goblin_reader *reader)
{
    if (!reader->gathers) {
        (void)reader->queue->io->ops->queue_submit(reader->queue);
    }
}

/* Whether anything has to be read, and from where on. */
static bool has_tail(struct gb_get *get, const struct goblin_request *request)
{
    get->plan_at = gb_max(get->start, get->resident);
    if ((get->want_meta && get->resident < get->meta_len) || request->offset == 0) {
        get->plan_at = get->resident;
    }
    if (get->plan_at < get->end && (request->flags & GOBLIN_GET_RESIDENT) == 0) {
        return true;
    }
    get->plan_at = get->end;
    return false;
}

/* What is not resident: plan, submit, and while the device works ask for room in RAM. */
static void read_tail(struct gb_get *get, const struct goblin_request *request)
{
    struct goblin_reader *reader = get->reader;
    if (!has_tail(get, request)) {
        bool whole = get->deliver_at >= get->end;
        gb_tally_add(&reader->tally, GB_COUNT_hits_resident, whole);
        if (!whole || hand_empty(get)) {
            gb_get_end(get, whole || get->handed ? GOBLIN_OK : GOBLIN_MISS);
        }
        gb_get_recycle(get);
        return;
    }
    int rc = get->load != NULL ? gb_buffer_reserve(get->load, get->info.size) : 0;
    if (rc < 0) {
        gb_get_end(get, rc);
        gb_get_recycle(get);
        return;
    }
    rc = gb_tail_plan(get);
    if (rc < 0) {
        fail(get, NULL, rc);
        gb_get_recycle(get);
        return;
    }
    submit_reads(reader);
    admit(get, request);
    if (piece_ready(get)) {
        (void)gb_get_advance(get);
        submit_reads(reader);
    }
}

static struct gb_get *take_get(struct goblin_reader *reader, struct goblin_request *request,
                               int *answer, struct goblin_buffer *load)
{
    struct gb_get *get = reader->free_gets;
    reader->free_gets = get->next;
    get->free = false;
    get->request = request;
    get->answer = answer;
    get->load = load;
    get->handed = false;
    get->first_planned = false;
    get->tail_handed = false;
    get->waits = false;
    get->reads = false;
    get->run = NULL;
    get->extent_count = 1;
    get->plan_at = 0;
    get->accesses = 0;
    get->promotion.place = 0;
    get->ahead = request->ahead;
    get->next = reader->active;
    reader->active = get;
    reader->active_count++;
    request->internal = get;
    return get;
}

void gb_get_start(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash,
                  int *answer, struct goblin_buffer *load)
{
    struct gb_get *get = take_get(reader, request, answer, load);
    gb_tally_add(&reader->tally, GB_COUNT_gets, (request->flags & GOBLIN_GET_QUIET) == 0);
    int rc = look_up(get, request, hash);
    if (rc < 0) {
        gb_get_end(get, rc == GOBLIN_ECANCELED ? GOBLIN_MISS : rc);
        gb_get_recycle(get);
        return;
    }
    if (!answer_head(get)) {
        gb_get_recycle(get);
        return;
    }
    read_tail(get, request);
}

/* ---- requests of a scan ------------------------------------------------------------------- */

void gb_get_start_ahead(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash,
                        struct gb_run *run)
{
    struct gb_get *get = take_get(reader, request, NULL, NULL);
    gb_tally_add(&reader->tally, GB_COUNT_gets, (request->flags & GOBLIN_GET_QUIET) == 0);
    get->waits = true;
    int rc = look_up(get, request, hash);
    if (rc < 0) {
        gb_get_end(get, rc == GOBLIN_ECANCELED ? GOBLIN_MISS : rc);
        gb_get_recycle(get);
        return;
    }
    if (!has_tail(get, request)) {
        return;
    }
    get->reads = true;
    get->run = run;
    rc = gb_tail_plan(get);
    get->run = NULL;
    if (rc < 0) {
        fail(get, NULL, rc);
        gb_get_recycle(get);
    } else if (run == NULL || !run->shared) {
        /* Of a run that brings others, too, no read is saved by having this one in RAM. */
        admit(get, request);
    }
}

bool gb_get_planned(const struct goblin_request *request)
{
    const struct gb_get *get = request->internal;
    return get->plan_at >= get->end;
}

void gb_get_take_turn(struct goblin_request *request)
{
    struct gb_get *get = request->internal;
    get->waits = false;
    if (!answer_head(get)) {
        gb_get_recycle(get);
    } else if (!get->reads) {
        read_tail(get, request);
    } else {
        (void)gb_get_advance(get);
    }
}

bool gb_get_starves(const struct goblin_request *request)
{
    const struct gb_get *get = request->internal;
    return get->piece_count == 0 && get->plan_at < get->end && get->reader->buffers_free == 0;
}

/* ---- held chunks --------------------------------------------------------------------------- */

void gb_get_release_hold(struct goblin_reader *reader, uint64_t hold)
{
    uint64_t value = hold / GB_HOLD_KINDS;
    switch ((enum gb_hold_kind)(hold % GB_HOLD_KINDS)) {
    case GB_HOLD_BLOCK:
        gb_arena_unpin(&reader->store->arena, value);
        break;
    case GB_HOLD_BUFFER:
        gb_reader_give_buffer(reader, (unsigned)value);
        break;
    case GB_HOLD_SMALL: {
        struct gb_get *get = &reader->gets[value];
        GB_ASSERT(get->holds > 0);
        if (--get->holds == 0) {
            gb_get_recycle(get);
        }
        break;
    }
    default:
        break;
    }
}
