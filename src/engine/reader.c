/* Readers: their buffers and rings, and the public calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/iomem.h"
#include "engine/reader_internal.h"

#define DEFAULT_REQUESTS 64u
#define REQUESTS_MAX     65536u
#define EVENTS_AT_ONCE   32u

/* ---- life ---------------------------------------------------------------------------------- */

static int make_queue(struct goblin_reader *reader, unsigned threads)
{
    struct gb_io *io = reader->store->io;
    unsigned depth = reader->buffer_count + 2 * reader->get_count + GB_RUNS_READING;
    int rc = io->ops->queue_create(io, depth, &reader->queue);
    if (rc < 0 || threads == 0 || !reader->queue->io->ops->submit_waits) {
        return rc;
    }
    struct gb_queue *queue = NULL;
    rc = gb_io_threads_queue_create(depth, (unsigned)gb_min(threads, GB_IO_THREADS_MAX), &queue);
    if (rc == 0) {
        reader->queue->io->ops->queue_destroy(reader->queue);
        reader->queue = queue;
    }
    return rc;
}

static int make_buffers(struct goblin_reader *reader)
{
    reader->buffers = calloc(reader->buffer_count, sizeof(*reader->buffers));
    reader->gets = calloc(reader->get_count, sizeof(*reader->gets));
    if (reader->buffers == NULL || reader->gets == NULL) {
        return -ENOMEM;
    }
    reader->memory = gb_iomem_map(reader->memory_bytes);
    if (reader->memory == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < reader->buffer_count; i++) {
        reader->buffers[i].data = reader->memory + i * (size_t)reader->buffer_bytes;
    }
    for (unsigned i = reader->get_count; i > 0; i--) {
        struct gb_get *get = &reader->gets[i - 1];
        get->number = i - 1;
        get->reader = reader;
        get->free = true;
        get->next = reader->free_gets;
        reader->free_gets = get;
    }
    reader->buffers_free = reader->buffer_count;
    return 0;
}

static void destroy(struct goblin_reader *reader)
{
    struct goblin *store = reader->store;
    if (reader->queue != NULL) {
        reader->queue->io->ops->queue_destroy(reader->queue);
    }
    gb_value_scan_free(reader);
    gb_iomem_unmap(reader->memory, reader->memory_bytes);
    for (unsigned i = 0; reader->gets != NULL && i < reader->get_count; i++) {
        free(reader->gets[i].windows[0].data);
        free(reader->gets[i].windows[1].data);
    }
    free(reader->buffers);
    free(reader->gets);
    atomic_fetch_sub(&store->budget.read, reader->budget_bytes);
    gb_store_rebudget(store);
    free(reader);
}

int goblin_reader_create(struct goblin_reader **out, struct goblin *store,
                         const struct goblin_reader_options *options)
{
    struct goblin_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return -ENOMEM;
    }
    const struct goblin_options *settings = &store->options;
    unsigned buffers = options != NULL ? options->buffers : 0;
    unsigned requests = options != NULL ? options->requests : 0;
    reader->store = store;
    reader->depth = settings->depth;
    reader->buffer_count = buffers == 0 ? settings->depth : buffers;
    reader->get_count = (unsigned)gb_min(requests == 0 ? DEFAULT_REQUESTS : requests, REQUESTS_MAX);
    uint32_t largest = (uint32_t)gb_max(settings->chunk_bytes, settings->first_chunk_bytes);
    reader->buffer_bytes = largest + GB_UNIT + 2 * GB_BLOCK;
    reader->memory_bytes =
        gb_iomem_size(reader->buffer_count * (size_t)reader->buffer_bytes, store->budget.total);
    reader->budget_bytes =
        reader->memory_bytes + reader->get_count * (uint64_t)sizeof(struct gb_get);
    if (!gb_store_take_memory(store, &store->budget.read, reader->budget_bytes,
                              store->budget.total / 2)) {
        free(reader);
        return -ENOMEM;
    }
    int rc = make_buffers(reader);
    if (rc == 0) {
        rc = make_queue(reader, options != NULL ? options->threads : 0);
    }
    if (rc < 0) {
        destroy(reader);
        return rc;
    }
    (void)pthread_mutex_lock(&store->readers_lock);
    reader->next = store->readers;
    store->readers = reader;
    (void)pthread_mutex_unlock(&store->readers_lock);
    *out = reader;
    return GOBLIN_OK;
}

void goblin_reader_destroy(struct goblin_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    struct goblin *store = reader->store;
    for (struct gb_get *get = reader->active; get != NULL; get = get->next) {
        gb_get_end(get, GOBLIN_ECANCELED);
    }
    while (reader->active != NULL) {
        struct gb_get *next = NULL;
        for (struct gb_get *get = reader->active; get != NULL; get = next) {
            next = get->next;
            gb_get_recycle(get);
        }
        if (reader->active != NULL && goblin_poll(reader, -1) < 0) {
            break;
        }
    }
    (void)pthread_mutex_lock(&store->readers_lock);
    struct goblin_reader **at = &store->readers;
    while (*at != reader) {
        at = &(*at)->next;
    }
    *at = reader->next;
    uint64_t hits = atomic_load(&reader->small_hits);
    uint64_t bytes = atomic_load(&reader->small_bytes);
    gb_tally_add(&reader->tally, GB_COUNT_gets, hits);
    gb_tally_add(&reader->tally, GB_COUNT_hits, hits);
    gb_tally_add(&reader->tally, GB_COUNT_hits_resident, hits);
    gb_tally_add(&reader->tally, GB_COUNT_get_bytes, bytes);
    gb_tally_add(&reader->tally, GB_COUNT_get_resident_bytes, bytes);
    for (unsigned i = 0; i < GB_COUNTERS; i++) {
        gb_tally_add_shared(&store->tally, i, gb_tally_get(&reader->tally, i));
    }
    (void)pthread_mutex_unlock(&store->readers_lock);
    destroy(reader);
}

unsigned gb_reader_take_buffer(struct goblin_reader *reader)
{
    for (unsigned i = 0; i < reader->buffer_count; i++) {
        if (!reader->buffers[i].used) {
            reader->buffers[i].used = true;
            reader->buffers_free--;
            return i;
        }
    }
    GB_ASSERT(reader->buffers_free > 0);
    return GB_NO_BUFFER;
}

void gb_reader_give_buffer(struct goblin_reader *reader, unsigned number)
{
    struct gb_chunk_buffer *buffer = &reader->buffers[number];
    GB_ASSERT(number < reader->buffer_count && buffer->used);
    if (buffer->holder != NULL) {
        buffer->holder->held--;
        buffer->holder = NULL;
    }
    buffer->used = false;
    reader->buffers_free++;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int check(const struct goblin_reader *reader, const struct goblin_request *request)
{
    int rc = gb_check_key(request->key);
    if (rc < 0) {
        return rc;
    }
    if (request->on_chunk == NULL) {
        return -EINVAL;
    }
    return reader->free_gets == NULL ? -EAGAIN : 0;
}

int goblin_submit(struct goblin_reader *reader, struct goblin_request *request)
{
    int rc = check(reader, request);
    if (rc < 0) {
        return rc;
    }
    uint64_t hash = gb_index_hash(request->key.data, request->key.len);
    if (gb_get_small(reader, request, hash) == GB_GET_NOT_SMALL) {
        gb_get_start(reader, request, hash, NULL, NULL);
    }
    return GOBLIN_OK;
}

/* Every active request once. Callbacks change the list: a request that was to be next may have been
 * recycled, then the walk starts again and passes over those that had their turn. */
static void advance_each(struct goblin_reader *reader)
{
    uint32_t pass = ++reader->pass;
    struct gb_get *next = NULL;
    for (struct gb_get *get = reader->active; get != NULL; get = next) {
        next = get->next;
        if (get->pass == pass) {
            continue;
        }
        get->pass = pass;
        (void)gb_get_advance(get);
        if (next != NULL && next->free) {
            next = reader->active;
        }
    }
}

/* Delivers and plans, until no request waits for a buffer that another has given back: it has
 * nothing in flight, so no event would remember it. */
static void advance_all(struct goblin_reader *reader)
{
    do {
        reader->starved = false;
        advance_each(reader);
    } while (reader->starved && reader->buffers_free > 0);
}

int goblin_poll(struct goblin_reader *reader, int timeout_ms)
{
    const struct gb_io_ops *ops = reader->queue->io->ops;
    struct gb_event events[EVENTS_AT_ONCE];
    advance_all(reader); /* what a write block already gave, and held buffers that came back */
    for (;;) {
        bool nothing = ops->queue_in_flight(reader->queue) == 0;
        int n = ops->queue_reap(reader->queue, events, EVENTS_AT_ONCE, nothing ? 0 : timeout_ms);
        if (n < 0) {
            return n;
        }
        for (int i = 0; i < n; i++) {
            gb_tail_complete(events[i].tag, events[i].result);
        }
        if (n > 0) {
            advance_all(reader);
            (void)ops->queue_submit(reader->queue);
        }
        if (n < (int)EVENTS_AT_ONCE) {
            return (int)reader->active_count;
        }
        timeout_ms = 0;
    }
}

int goblin_reader_eventfd(struct goblin_reader *reader)
{
    return reader->queue->io->ops->queue_eventfd(reader->queue);
}

void goblin_cancel(struct goblin_reader *reader, struct goblin_request *request)
{
    for (struct gb_get *get = reader->active; get != NULL; get = get->next) {
        if (get->request == request) {
            gb_get_end(get, GOBLIN_ECANCELED);
            gb_get_recycle(get);
            return;
        }
    }
}

void goblin_release(struct goblin_reader *reader, uint64_t hold)
{
    gb_get_release_hold(reader, hold);
}

static int wait_for(struct goblin_reader *reader, struct goblin_request *request, uint64_t hash,
                    struct goblin_buffer *load)
{
    int answer = INT32_MAX;
    int rc = 0;
    gb_get_start(reader, request, hash, &answer, load);
    while (rc >= 0 && answer == INT32_MAX) {
        rc = goblin_poll(reader, -1);
    }
    if (rc < 0) {
        goblin_cancel(reader, request); /* nothing in the reader may point here any more */
    }
    /* The caller has his buffer back when nothing is on its way there, also after a fault. */
    const struct gb_get *get = load != NULL ? request->internal : NULL;
    while (rc >= 0 && get != NULL && get->load == load && get->in_flight > 0) {
        rc = goblin_poll(reader, -1);
    }
    return rc < 0 ? rc : answer;
}

int goblin_get(struct goblin_reader *reader, struct goblin_request *request)
{
    int rc = check(reader, request);
    if (rc < 0) {
        return rc;
    }
    uint64_t hash = gb_index_hash(request->key.data, request->key.len);
    rc = gb_get_small(reader, request, hash);
    return rc == GB_GET_NOT_SMALL ? wait_for(reader, request, hash, NULL) : rc;
}

/* ---- load ---------------------------------------------------------------------------------- */

void goblin_buffer_free(struct goblin_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct goblin_buffer){0};
}

int gb_buffer_reserve(struct goblin_buffer *buffer, uint64_t bytes)
{
    /* The last read is rounded up, and may bring the sums along. */
    size_t capacity =
        gb_align_up(bytes + gb_units(bytes) * GB_SUM_SIZE + 2 * (uint64_t)GB_BLOCK, GB_BLOCK);
    if (capacity <= buffer->capacity) {
        return 0;
    }
    void *data = NULL;
    if (posix_memalign(&data, GB_BLOCK, capacity) != 0) {
        return -ENOMEM;
    }
    free(buffer->data);
    *buffer = (struct goblin_buffer){.data = data, .capacity = capacity};
    return 0;
}

struct load {
    struct goblin_buffer *buffer;
    struct goblin_buffer *meta;
    struct goblin_info info;
    int fault;
};

static int load_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct load *load = arg;
    if (chunk->offset == 0) {
        load->info = *chunk->info;
        load->fault = gb_buffer_reserve(load->buffer, chunk->info->size);
        if (load->fault == 0 && load->meta != NULL) {
            load->fault = gb_buffer_reserve(load->meta, chunk->meta.len);
            if (load->fault == 0 && chunk->meta.len > 0) {
                memcpy(load->meta->data, chunk->meta.data, chunk->meta.len);
            }
            load->meta->len = chunk->meta.len;
        }
        if (load->fault < 0) {
            return GOBLIN_CHUNK_STOP;
        }
        load->buffer->len = chunk->info->size;
    }
    unsigned char *to = load->buffer->data + chunk->offset;
    if (chunk->data != to) {
        memcpy(to, chunk->data, chunk->len);
    }
    return GOBLIN_CHUNK_DONE;
}

int goblin_load(struct goblin_reader *reader, struct goblin_slice key, struct goblin_buffer *buffer,
                struct goblin_info *info, struct goblin_buffer *meta)
{
    struct load load = {.buffer = buffer, .meta = meta};
    struct goblin_request request = {
        .key = key,
        .flags = meta != NULL ? GOBLIN_GET_META : 0,
        .on_chunk = load_chunk,
        .arg = &load,
    };
    int rc = check(reader, &request);
    if (rc < 0) {
        return rc;
    }
    uint64_t hash = gb_index_hash(key.data, key.len);
    if (gb_get_small_load(reader, key, hash, (struct goblin_buffer *[]){buffer, meta}, info)) {
        return GOBLIN_OK;
    }
    rc = wait_for(reader, &request, hash, buffer);
    if (load.fault < 0) {
        return load.fault;
    }
    if (rc != GOBLIN_OK) {
        buffer->len = 0; /* of a head that has no tail nothing is told */
    } else if (info != NULL) {
        *info = load.info;
    }
    return rc;
}
