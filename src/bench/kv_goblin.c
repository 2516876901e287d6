/*
 * libgoblin for small values, through its public API.
 *
 * A range is a scan of values on the thread's reader. Several gets at once are goblin_get_many,
 * whose requests tell what the slots hold; entries are handed over in order as soon as those before
 * them have been.
 */
#include "bench/explain.h"
#include "bench/kv_engine.h"

#include <goblin/goblin.h>
#include <goblin/reader.h>
#include <goblin/scan.h>
#include <goblin/stats.h>

#include "base/bits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SMALL_CHUNK_BYTES = 16 << 10,
    BUFFERS = 32,      /* fewer in little memory */
    RECORD_BYTES = 64, /* about what a record has beside key and value */
    SPARE_BYTES = 64 << 20,
    WARM_POLL_MS = 5,
    LANES_USUAL = 4, /* fewer threads write to fewer, so that neighbours lie closer together */
};

struct goblin_kv {
    struct goblin *store;
    size_t key_bytes;
    size_t value_bytes;
};

struct session;

struct slot {
    struct session *session;
    unsigned char *key; /* [key_bytes] */
    unsigned char *value;
    size_t value_len;
    int result; /* GOBLIN_OK, GOBLIN_MISS or a fault */
    bool is_done;
    bool is_out; /* handed over */
};

/* Belongs to one thread. */
struct session {
    struct goblin_kv *goblin;
    struct goblin_reader *reader;
    unsigned char *bytes; /* keys and values of the slots */
    gb_kv_entry_fn entry;
    void *arg;
    unsigned submitted;
    unsigned next; /* to hand over */
    unsigned found;
    int fault;
    struct slot slots[GB_KV_BATCH_MAX];
    struct goblin_request requests[GB_KV_BATCH_MAX]; /* of the slots */
};

static void goblin_log(void *arg, enum goblin_log_level level, const char *line)
{
    (void)arg;
    if (level != GOBLIN_LOG_INFO) {
        fprintf(stderr, "goblin: %s\n", line);
    }
}

static int kv_close(void *engine)
{
    struct goblin_kv *goblin = engine;
    int rc = goblin->store ? goblin_close(goblin->store) : GOBLIN_OK;
    free(goblin);
    return rc < 0 ? rc : 0;
}

/* Waits until what was in RAM is there again. */
static void warm(struct goblin *store)
{
    const struct timespec pause = {.tv_nsec = WARM_POLL_MS * 1000000L};
    struct goblin_stats stats;
    for (goblin_stats(store, &stats); stats.warming; goblin_stats(store, &stats)) {
        nanosleep(&pause, NULL);
    }
}

static int kv_open(void **engine, const struct gb_kv_config *config, struct goblin_error *error)
{
    struct goblin_kv *goblin = calloc(1, sizeof(*goblin));
    if (!goblin) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    char data[PATH_MAX];
    snprintf(data, sizeof(data), "%s/data", config->dir);
    const char *const dirs[] = {data};
    struct goblin_options options = GOBLIN_OPTIONS_INIT;
    options.dirs = dirs;
    options.dir_count = 1;
    options.create = config->create;
    if (config->create) {
        uint64_t record = config->key_bytes + config->value_bytes + RECORD_BYTES;
        options.size_bytes =
            SPARE_BYTES + (uint64_t)((double)(config->keys_most * record) * config->size_factor);
    }
    options.lanes = config->create && config->threads < LANES_USUAL ? config->threads : 0;
    options.mode = GOBLIN_MODE_STORE;
    options.memory_bytes = config->memory_bytes;
    options.ordered = GOBLIN_ORDERED_ALWAYS;
    options.caching = config->direct ? GOBLIN_CACHING_DIRECT : GOBLIN_CACHING_BUFFERED;
    if (config->value_bytes <= SMALL_CHUNK_BYTES / 2) {
        options.chunk_bytes = SMALL_CHUNK_BYTES; /* so that many small reads have a buffer each */
        options.first_chunk_bytes = SMALL_CHUNK_BYTES;
    }
    options.log = goblin_log;
    goblin->key_bytes = config->key_bytes;
    goblin->value_bytes = config->value_bytes;
    int rc = goblin_open(&goblin->store, &options, error);
    if (rc < 0) {
        if (!error->text[0]) {
            gb_explain_set(error, "%s", goblin_strerror(rc));
        }
        kv_close(goblin);
        return rc;
    }
    warm(goblin->store);
    *engine = goblin;
    return 0;
}

static void kv_detach(void *arg)
{
    struct session *session = arg;
    goblin_reader_destroy(session->reader);
    free(session->bytes);
    free(session);
}

static int kv_attach(void *engine, void **out)
{
    struct goblin_kv *goblin = engine;
    size_t slot_bytes = goblin->key_bytes + goblin->value_bytes;
    struct goblin_reader_options options = {.buffers = BUFFERS, .requests = GB_KV_BATCH_MAX};
    struct session *session = calloc(1, sizeof(*session));
    if (!session) {
        return -ENOMEM;
    }
    session->goblin = goblin;
    session->bytes = malloc(slot_bytes * GB_KV_BATCH_MAX);
    int rc = -ENOMEM;
    for (; session->bytes && rc == -ENOMEM && options.buffers > 0; options.buffers /= 2) {
        rc = goblin_reader_create(&session->reader, goblin->store, &options);
    }
    if (rc < 0) {
        kv_detach(session);
        return rc;
    }
    for (unsigned i = 0; i < GB_KV_BATCH_MAX; i++) {
        session->slots[i].session = session;
        session->slots[i].key = session->bytes + i * slot_bytes;
        session->slots[i].value = session->slots[i].key + goblin->key_bytes;
    }
    *out = session;
    return 0;
}

static int kv_put(void *engine, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct goblin_kv *goblin = engine;
    int rc = goblin_put(goblin->store, (struct goblin_slice){key.data, key.len},
                        (struct goblin_slice){value.data, value.len}, NULL, NULL);
    if (rc < 0) {
        fprintf(stderr, "goblin: put: %s\n", goblin_strerror(rc));
    }
    return rc < 0 ? rc : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Slots that are done, from the next one on, in order. */
static void hand_over(struct session *session)
{
    while (session->next < session->submitted && session->slots[session->next].is_done) {
        struct slot *slot = &session->slots[session->next++];
        if (slot->result == GOBLIN_OK && !slot->is_out) {
            session->entry(session->arg,
                           (struct gb_kv_bytes){slot->key, session->goblin->key_bytes},
                           (struct gb_kv_bytes){slot->value, slot->value_len});
        }
        session->found += slot->result == GOBLIN_OK;
        if (slot->result < 0 && session->fault == 0) {
            session->fault = slot->result;
        }
    }
}

static int on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct slot *slot = arg;
    struct session *session = slot->session;
    if (slot == &session->slots[session->next] && chunk->offset == 0 && chunk->last) {
        session->entry(session->arg, (struct gb_kv_bytes){slot->key, session->goblin->key_bytes},
                       (struct gb_kv_bytes){chunk->data, chunk->len});
        slot->is_out = true;
        return GOBLIN_CHUNK_DONE;
    }
    if (chunk->offset + chunk->len > session->goblin->value_bytes) {
        session->fault = -EBADMSG; /* no value that the bench has put */
        return GOBLIN_CHUNK_STOP;
    }
    memcpy(slot->value + chunk->offset, chunk->data, chunk->len);
    slot->value_len = chunk->offset + chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static void on_done(void *arg, int result, const struct goblin_info *info)
{
    struct slot *slot = arg;
    (void)info;
    slot->result = result;
    slot->is_done = true;
    hand_over(slot->session);
}

static void begin(struct session *session, gb_kv_entry_fn entry, void *arg)
{
    session->entry = entry;
    session->arg = arg;
    session->submitted = 0;
    session->next = 0;
    session->found = 0;
    session->fault = 0;
}

/* The next slot's request is for this key. */
static int prepare(struct session *session, unsigned number, struct goblin_slice key)
{
    if (number == GB_KV_BATCH_MAX || key.len != session->goblin->key_bytes) {
        return -EINVAL;
    }
    struct slot *slot = &session->slots[number];
    memcpy(slot->key, key.data, key.len);
    slot->is_done = false;
    slot->is_out = false;
    slot->value_len = 0;
    session->requests[number] = (struct goblin_request){
        .key = {slot->key, key.len}, .on_chunk = on_chunk, .on_done = on_done, .arg = slot};
    return 0;
}

static int submit(struct session *session, struct goblin_slice key)
{
    int rc = prepare(session, session->submitted, key);
    if (rc == 0) {
        rc = goblin_submit(session->reader, &session->requests[session->submitted]);
    }
    if (rc < 0) {
        return rc;
    }
    session->submitted++;
    hand_over(session);
    return 0;
}

/* Waits for what is on its way, in any case; `rc` is what came before. How many were found. */
static int finish(struct session *session, int rc)
{
    while (session->next < session->submitted) {
        int polled = goblin_poll(session->reader, -1);
        if (polled < 0) {
            return polled;
        }
        hand_over(session);
    }
    rc = rc < 0 ? rc : session->fault;
    if (rc < 0) {
        fprintf(stderr, "goblin: get: %s\n", goblin_strerror(rc));
    }
    return rc < 0 ? rc : (int)session->found;
}

static int kv_multiget(void *arg, const struct gb_kv_bytes *keys, unsigned count,
                       gb_kv_entry_fn entry, void *entry_arg)
{
    struct session *session = arg;
    int results[GB_KV_BATCH_MAX];
    int rc = 0;
    begin(session, entry, entry_arg);
    for (unsigned i = 0; i < count && rc == 0; i++) {
        rc = prepare(session, i, (struct goblin_slice){keys[i].data, keys[i].len});
    }
    if (rc == 0) {
        session->submitted = count;
        rc = goblin_get_many(session->reader, session->requests, count, results);
    }
    if (rc < 0) {
        session->submitted = session->next; /* nothing is on its way */
    }
    return finish(session, rc < 0 ? rc : 0);
}

static int kv_get(void *arg, struct gb_kv_bytes key, gb_kv_entry_fn entry, void *entry_arg)
{
    struct session *session = arg;
    begin(session, entry, entry_arg);
    return finish(session, submit(session, (struct goblin_slice){key.data, key.len}));
}

static int visit(void *arg, struct goblin_slice key, const struct goblin_chunk *chunk)
{
    struct session *session = arg;
    struct slot *slot = &session->slots[0];
    const void *value = chunk->data;
    size_t len = chunk->offset + chunk->len;
    if (chunk->len != chunk->info->size) {
        if (len > session->goblin->value_bytes) {
            return -EBADMSG; /* no value that the bench has put */
        }
        memcpy(slot->value + chunk->offset, chunk->data, chunk->len);
        value = slot->value;
    }
    if (chunk->last) {
        session->entry(session->arg, (struct gb_kv_bytes){key.data, key.len},
                       (struct gb_kv_bytes){value, len});
        session->found++;
    }
    return 0;
}

static int kv_scan(void *arg, const struct gb_kv_range *range, gb_kv_entry_fn entry,
                   void *entry_arg)
{
    struct session *session = arg;
    unsigned char behind[GOBLIN_KEY_MAX];
    struct goblin_range keys = {.limit = range->count, .reverse = range->reverse};
    if (range->from.len >= sizeof(behind)) {
        return GOBLIN_EKEY;
    }
    if (range->reverse) {
        /* The least key that is greater: the same and a zero. */
        memcpy(behind, range->from.data, range->from.len);
        behind[range->from.len] = '\0';
        keys.to = (struct goblin_slice){behind, range->from.len + 1};
    } else {
        keys.from = (struct goblin_slice){range->from.data, range->from.len};
    }
    begin(session, entry, entry_arg);
    int rc = goblin_scan_values(session->reader, &keys, 0, visit, session);
    if (rc < 0) {
        fprintf(stderr, "goblin: scan: %s\n", goblin_strerror(rc));
    }
    return rc < 0 ? rc : (int)session->found;
}

static int kv_settle(void *engine, uint64_t until_ns, struct goblin_error *error)
{
    struct goblin_kv *goblin = engine;
    (void)until_ns;
    int rc = goblin_sync(goblin->store);
    if (rc < 0) {
        gb_explain_set(error, "sync: %s", goblin_strerror(rc));
    }
    return rc < 0 ? rc : 0;
}

static void kv_version(void *engine, char *text, size_t text_len)
{
    (void)engine;
    snprintf(text, text_len, "%s", GOBLIN_VERSION);
}

const struct gb_kv_ops gb_kv_goblin = {
    .name = "goblin",
    .describe = "libgoblin as a store: every key and header in RAM, values as far as they fit",
    .direct = true,
    .open = kv_open,
    .close = kv_close,
    .attach = kv_attach,
    .detach = kv_detach,
    .put = kv_put,
    .get = kv_get,
    .multiget = kv_multiget,
    .scan = kv_scan,
    .settle = kv_settle,
    .version = kv_version,
};
