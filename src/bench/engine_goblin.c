/* libgoblin through its public API, with fixed heads as in the study and with adaptive residency.
 */
#include "bench/engine.h"
#include "bench/explain.h"
#include "bench/scratch.h"

#include <goblin/goblin.h>
#include <goblin/reader.h>
#include <goblin/stats.h>
#include <goblin/writer.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PUT_WHOLE_MAX_BYTES = 4 << 20, /* beyond this a value is streamed */
    ROUNDING_BYTES = 4096,
    SPARE_BYTES = 512 << 20,
    WARM_POLL_MS = 5,
};

struct goblin_engine {
    struct goblin *store;
    struct goblin_reader *reader; /* while replaying */
};

struct goblin_get {
    const struct gb_engine_get *get;
    bool disk;
};

static void goblin_log(void *arg, enum goblin_log_level level, const char *line)
{
    (void)arg;
    if (level != GOBLIN_LOG_INFO) {
        fprintf(stderr, "goblin: %s\n", line);
    }
}

static int goblin_engine_close(void *engine)
{
    struct goblin_engine *goblin = engine;
    goblin_reader_destroy(goblin->reader);
    int rc = goblin->store ? goblin_close(goblin->store) : GOBLIN_OK;
    free(goblin);
    return rc < 0 ? rc : 0;
}

/* Room for every value, its headers and rounding, and as much again of the slack that segments
 * being filled by several lanes need. */
static uint64_t goblin_disk_bytes(const struct gb_engine_config *config)
{
    return config->bytes + config->bytes / 16 + config->objects * ROUNDING_BYTES + SPARE_BYTES;
}

static int goblin_engine_open(void **engine, const struct gb_engine_config *config,
                              enum gb_engine_phase phase, enum goblin_residency residency,
                              struct goblin_error *error)
{
    struct goblin_engine *goblin = calloc(1, sizeof(*goblin));
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
    options.create = phase == GB_ENGINE_POPULATE;
    if (options.create) {
        options.size_bytes = config->disk_bytes ? config->disk_bytes : goblin_disk_bytes(config);
    }
    options.mode = config->keeps_all ? GOBLIN_MODE_STORE : GOBLIN_MODE_CACHE;
    options.lanes = options.create ? config->workers : 0;
    options.memory_bytes = config->memory_bytes;
    options.residency = residency;
    options.first_chunk_bytes = (uint32_t)config->first_chunk_bytes;
    if (residency == GOBLIN_RESIDENCY_ADAPTIVE) {
        options.head_bytes = (uint32_t)config->floor_bytes;
    }
    options.log = goblin_log;
    int rc = goblin_open(&goblin->store, &options, error);
    if (rc >= 0 && phase != GB_ENGINE_POPULATE) {
        rc = goblin_reader_create(&goblin->reader, goblin->store, NULL);
    }
    if (rc < 0) {
        if (!error->text[0]) {
            gb_explain_set(error, "%s", goblin_strerror(rc));
        }
        goblin_engine_close(goblin);
        return rc;
    }
    *engine = goblin;
    return 0;
}

static int goblin_fixed_open(void **engine, const struct gb_engine_config *config,
                             enum gb_engine_phase phase, struct goblin_error *error)
{
    return goblin_engine_open(engine, config, phase, GOBLIN_RESIDENCY_FIXED, error);
}

static int goblin_adaptive_open(void **engine, const struct gb_engine_config *config,
                                enum gb_engine_phase phase, struct goblin_error *error)
{
    return goblin_engine_open(engine, config, phase, GOBLIN_RESIDENCY_ADAPTIVE, error);
}

static int goblin_stream(struct goblin *store, struct goblin_slice key,
                         const struct gb_engine_value *value)
{
    struct goblin_writer *writer = NULL;
    int rc = goblin_writer_begin(&writer, store, key, value->size, NULL);
    if (rc < 0) {
        return rc;
    }
    for (uint64_t offset = 0; offset < value->size; offset += GB_ENGINE_PIECE_BYTES) {
        uint64_t left = value->size - offset;
        size_t len = left < GB_ENGINE_PIECE_BYTES ? (size_t)left : GB_ENGINE_PIECE_BYTES;
        const void *data = value->window(value->arg, offset, len);
        rc = data ? goblin_writer_write(writer, data, len) : -ENOMEM;
        if (rc < 0) {
            goblin_writer_abort(writer);
            return rc;
        }
    }
    return goblin_writer_commit(writer, NULL);
}

static int goblin_engine_put(void *engine, unsigned worker, const struct gb_engine_key *key,
                             const struct gb_engine_value *value)
{
    (void)worker;
    struct goblin_engine *goblin = engine;
    struct goblin_slice name = {key->data, key->len};
    int rc;
    if (value->size > PUT_WHOLE_MAX_BYTES) {
        rc = goblin_stream(goblin->store, name, value);
    } else {
        struct goblin_slice bytes = {value->window(value->arg, 0, (size_t)value->size),
                                     (size_t)value->size};
        rc = bytes.data ? goblin_put(goblin->store, name, bytes, NULL, NULL) : -ENOMEM;
    }
    if (rc < 0 && rc != -ENOSPC) { /* what a full store means is the caller's to say */
        fprintf(stderr, "goblin: put: %s\n", goblin_strerror(rc));
    }
    return rc < 0 ? rc : 0;
}

static int goblin_barrier(void *engine, struct goblin_error *error)
{
    struct goblin_engine *goblin = engine;
    int rc = goblin_sync(goblin->store);
    if (rc < 0) {
        gb_explain_set(error, "goblin: sync: %s", goblin_strerror(rc));
        return rc;
    }
    return 0;
}

static int goblin_warm(void *engine)
{
    struct goblin_engine *goblin = engine;
    const struct timespec pause = {.tv_nsec = WARM_POLL_MS * 1000000L};
    struct goblin_stats stats;
    for (;;) {
        goblin_stats(goblin->store, &stats);
        if (!stats.warming) {
            return 0;
        }
        nanosleep(&pause, NULL);
    }
}

static int goblin_on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct goblin_get *state = arg;
    state->get->chunk(state->get->arg, chunk->data, chunk->len);
    state->disk = state->disk || !chunk->resident;
    return GOBLIN_CHUNK_DONE;
}

static int goblin_engine_get(void *engine, const struct gb_engine_get *get)
{
    struct goblin_engine *goblin = engine;
    struct goblin_get state = {.get = get};
    struct goblin_request request = {
        .key = {get->key->data, get->key->len},
        .flags = get->quiet ? GOBLIN_GET_QUIET : 0,
        .on_chunk = goblin_on_chunk,
        .arg = &state,
    };
    int rc = goblin_get(goblin->reader, &request);
    if (rc < 0) {
        fprintf(stderr, "goblin: get: %s\n", goblin_strerror(rc));
        return rc;
    }
    if (rc == GOBLIN_MISS) {
        return GB_ENGINE_MISS;
    }
    return state.disk ? GB_ENGINE_DISK : GB_ENGINE_RAM;
}

static void goblin_engine_stats(void *engine, struct gb_engine_stats *stats)
{
    struct goblin_engine *goblin = engine;
    struct goblin_stats own;
    goblin_stats(goblin->store, &own);
    *stats = (struct gb_engine_stats){
        .known = true,
        .device_reads = own.device_reads,
        .device_read_bytes = own.device_read_bytes,
        .device_writes = own.device_writes,
        .device_write_bytes = own.device_write_bytes,
        .promotions = own.promotions,
        .arena_moved_bytes = own.arena_moved_bytes,
        .memory_used_bytes = own.memory_used_bytes,
        .counted_write_bytes = own.device_write_bytes,
        .counted_user_bytes = own.put_bytes + own.put_key_bytes,
        .live_bytes = own.live_user_bytes,
        .disk_used_bytes = own.disk_used_bytes,
        .disk_file_bytes = own.disk_file_bytes,
    };
}

#define GOBLIN_OPERATIONS                                                                          \
    .keeps_bytes = true, .disk_factor = 1.2, .put = goblin_engine_put, .barrier = goblin_barrier,  \
    .warm = goblin_warm, .get = goblin_engine_get, .stats = goblin_engine_stats,                   \
    .close = goblin_engine_close

const struct gb_engine_ops gb_engine_goblin_fixed = {
    .name = "goblin-fixed",
    .describe = "libgoblin with the study's policy: a 16 KiB head of everything",
    .open = goblin_fixed_open,
    GOBLIN_OPERATIONS,
};
const struct gb_engine_ops gb_engine_goblin = {
    .name = "goblin",
    .describe = "libgoblin as it comes: adaptive residency in the same budget",
    .open = goblin_adaptive_open,
    GOBLIN_OPERATIONS,
};
