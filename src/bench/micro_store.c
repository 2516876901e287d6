/* Stores of small values: filled, overwritten and read as fast as the library can. */
#include "bench/micro.h"

#include "base/rng.h"
#include "bench/explain.h"
#include "bench/progress.h"
#include "bench/scratch.h"
#include "goblin/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OVERHEAD_BYTES = 112 /* of a value in the log */ };

struct getter {
    struct gb_micro_store *store;
    struct goblin_reader *reader;
    pthread_t thread;
    pthread_barrier_t *start;
    uint64_t count;
    unsigned ahead;
    bool load;
    uint64_t seed;
    uint64_t begun_ns;
    uint64_t ended_ns;
    int result;
    size_t copied;
    unsigned char value[GB_MICRO_VALUE_BYTES];
    struct goblin_buffer buffer;
};

void gb_micro_store_key(uint64_t number, char key[GB_MICRO_KEY_BYTES + 1])
{
    /* By hand: at millions a second, printf would be what is measured. */
    memset(key, '0', GB_MICRO_KEY_BYTES);
    key[GB_MICRO_KEY_BYTES] = '\0';
    for (char *at = key + GB_MICRO_KEY_BYTES; number > 0; number /= 10) {
        *--at = (char)('0' + number % 10);
    }
}

static void micro_value(uint64_t number, unsigned char *value)
{
    memcpy(value, &number, sizeof(number));
}

void gb_micro_store_options(const struct gb_micro_store *store, const char **dirs,
                            struct goblin_options *made)
{
    *made = (struct goblin_options)GOBLIN_OPTIONS_INIT;
    dirs[0] = store->dir;
    made->dirs = dirs;
    made->dir_count = 1;
    made->create = true;
    made->size_bytes = store->size_bytes;
    made->memory_bytes = store->memory_bytes;
    made->durability = GOBLIN_DURABILITY_NONE;
}

int gb_micro_store_open(struct gb_micro_store *store, const struct gb_micro_options *options,
                        uint64_t puts, struct goblin_error *error)
{
    const char *dirs[1];
    struct goblin_options made;
    if ((size_t)snprintf(store->dir, sizeof(store->dir), "%s/goblin-micro-%d", options->dir,
                         (int)getpid()) >= sizeof(store->dir)) {
        return -ENAMETOOLONG;
    }
    store->value_bytes = store->value_bytes == 0 ? GB_MICRO_VALUE_BYTES : store->value_bytes;
    store->size_bytes =
        (store->objects + puts) * (store->value_bytes + OVERHEAD_BYTES) + (UINT64_C(512) << 20);
    gb_micro_store_options(store, dirs, &made);
    int rc = gb_scratch_check(options->dir, made.size_bytes, error);
    rc = rc < 0 ? rc : gb_scratch_make(store->dir, error);
    rc = rc < 0 ? rc : goblin_open(&store->goblin, &made, error);
    return rc < 0 ? rc : 0;
}

void gb_micro_store_close(struct gb_micro_store *store)
{
    if (store->goblin && goblin_close(store->goblin) < 0) {
        fprintf(stderr, "goblin-bench micro: closing the store failed\n");
    }
    store->goblin = NULL;
    if (store->dir[0]) {
        gb_scratch_remove(store->dir);
    }
}

static int micro_put(struct gb_micro_store *store, uint64_t number, unsigned char *value)
{
    char key[GB_MICRO_KEY_BYTES + 1];
    gb_micro_store_key(number, key);
    micro_value(number, value);
    struct goblin_slice name = {key, GB_MICRO_KEY_BYTES};
    struct goblin_slice bytes = {value, store->value_bytes};
    return goblin_put(store->goblin, name, bytes, NULL, NULL);
}

int gb_micro_store_load(struct gb_micro_store *store, uint64_t first, uint64_t end,
                        struct goblin_error *error)
{
    unsigned char value[GB_MICRO_LARGE_BYTES];
    memset(value, 0x5a, sizeof(value));
    for (uint64_t i = first; i < end; i++) {
        int rc = micro_put(store, i, value);
        if (rc < 0) {
            gb_explain_set(error, "put: %s", goblin_strerror(rc));
            return rc;
        }
    }
    return 0;
}

int gb_micro_store_overwrite(struct gb_micro_store *store, uint64_t count, double *seconds,
                             struct goblin_error *error)
{
    unsigned char value[GB_MICRO_LARGE_BYTES];
    struct gb_rng rng;
    memset(value, 0x5a, sizeof(value));
    gb_rng_init(&rng, count);
    uint64_t started_ns = gb_progress_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        int rc = micro_put(store, gb_rng_below(&rng, store->objects), value);
        if (rc < 0) {
            gb_explain_set(error, "put: %s", goblin_strerror(rc));
            return rc;
        }
    }
    *seconds = (double)(gb_progress_now_ns() - started_ns) / 1e9;
    return 0;
}

static int getter_on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct getter *getter = arg;
    if (chunk->len > sizeof(getter->value) - getter->copied) {
        return GOBLIN_CHUNK_STOP;
    }
    memcpy(getter->value + getter->copied, chunk->data, chunk->len);
    getter->copied += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static bool getter_right(uint64_t number, const void *value, size_t len)
{
    return len == GB_MICRO_VALUE_BYTES && memcmp(value, &number, sizeof(number)) == 0;
}

static int getter_load(struct getter *getter, struct goblin_slice key, uint64_t number)
{
    int rc = goblin_load(getter->reader, key, &getter->buffer, NULL, NULL);
    if (rc <= 0) {
        return rc < 0 ? rc : -ENOENT;
    }
    return getter_right(number, getter->buffer.data, getter->buffer.len) ? 0 : GOBLIN_ECORRUPT;
}

static int getter_get(struct getter *getter, struct goblin_slice key, uint64_t number)
{
    struct goblin_request request = {
        .key = key,
        .on_chunk = getter_on_chunk,
        .arg = getter,
    };
    getter->copied = 0;
    int rc = goblin_get(getter->reader, &request);
    if (rc <= 0) {
        return rc < 0 ? rc : -ENOENT;
    }
    return getter_right(number, getter->value, getter->copied) ? 0 : GOBLIN_ECORRUPT;
}

/* Draws some keys and gets them. */
static int getter_some(struct getter *getter, struct gb_rng *rng, uint64_t count)
{
    uint64_t numbers[GB_MICRO_AHEAD_MAX];
    char names[GB_MICRO_AHEAD_MAX][GB_MICRO_KEY_BYTES + 1];
    struct goblin_slice keys[GB_MICRO_AHEAD_MAX];
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = gb_rng_below(rng, getter->store->objects);
        gb_micro_store_key(numbers[i], names[i]);
        keys[i] = (struct goblin_slice){names[i], GB_MICRO_KEY_BYTES};
    }
    if (count > 1) {
        goblin_hint(getter->store->goblin, keys, count);
    }
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        rc = getter->load ? getter_load(getter, keys[i], numbers[i])
                          : getter_get(getter, keys[i], numbers[i]);
    }
    return rc;
}

static void *getter_run(void *arg)
{
    struct getter *getter = arg;
    struct gb_rng rng;
    gb_rng_init(&rng, getter->seed);
    pthread_barrier_wait(getter->start);
    getter->begun_ns = gb_progress_now_ns();
    for (uint64_t i = 0; i < getter->count && getter->result == 0; i += getter->ahead) {
        uint64_t left = getter->count - i;
        getter->result = getter_some(getter, &rng, left < getter->ahead ? left : getter->ahead);
    }
    getter->ended_ns = gb_progress_now_ns();
    return NULL;
}

/* From the first thread's begin to the last one's end. */
static int getters_join(struct getter *getters, unsigned count, double *seconds)
{
    uint64_t begun_ns = UINT64_MAX;
    uint64_t ended_ns = 0;
    int rc = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(getters[i].thread, NULL);
        rc = rc < 0 ? rc : getters[i].result;
        begun_ns = getters[i].begun_ns < begun_ns ? getters[i].begun_ns : begun_ns;
        ended_ns = getters[i].ended_ns > ended_ns ? getters[i].ended_ns : ended_ns;
    }
    *seconds = ended_ns > begun_ns ? (double)(ended_ns - begun_ns) / 1e9 : 0;
    return rc;
}

int gb_micro_store_get(struct gb_micro_store *store, const struct gb_micro_gets *gets,
                       double *seconds, struct goblin_error *error)
{
    unsigned threads = gets->threads;
    struct getter *getters = calloc(threads, sizeof(*getters));
    pthread_barrier_t start;
    if (!getters) {
        return -ENOMEM;
    }
    int rc = 0;
    for (unsigned i = 0; i < threads && rc >= 0; i++) {
        getters[i] = (struct getter){.store = store,
                                     .start = &start,
                                     .count = gets->count / threads,
                                     .ahead = gets->ahead,
                                     .load = gets->load,
                                     .seed = i + 1};
        rc = goblin_reader_create(&getters[i].reader, store->goblin, NULL);
    }
    if (rc >= 0) {
        pthread_barrier_init(&start, NULL, threads);
        for (unsigned i = 0; i < threads; i++) {
            /* A thread that is missing would leave the others at the barrier: nothing to salvage.
             */
            if (pthread_create(&getters[i].thread, NULL, getter_run, &getters[i]) != 0) {
                fprintf(stderr, "goblin-bench micro: cannot start a thread\n");
                exit(1);
            }
        }
        rc = getters_join(getters, threads, seconds);
        pthread_barrier_destroy(&start);
    }
    for (unsigned i = 0; i < threads; i++) {
        goblin_reader_destroy(getters[i].reader);
        goblin_buffer_free(&getters[i].buffer);
    }
    free(getters);
    if (rc < 0) {
        gb_explain_set(error, "get: %s", goblin_strerror(rc));
    }
    return rc < 0 ? rc : 0;
}

double gb_micro_store_object_bytes(struct gb_micro_store *store, struct goblin_stats *stats)
{
    goblin_stats(store->goblin, stats);
    uint64_t taken = stats->memory_index_bytes + stats->arena_live_bytes - stats->resident_bytes;
    return stats->objects ? (double)taken / (double)stats->objects : 0;
}
