/* Stores for the integration tests. */
#include "lib/fixture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/io.h"
#include "lib/pattern.h"

#define START_MS INT64_C(1700000000000)

/* ---- life ---------------------------------------------------------------------------------- */

void gb_fixture_begin(void)
{
    char why[256];
    struct gb_io *io = NULL;
    const char *dir = getenv("TMPDIR");
    if (gb_io_uring_create(&io, dir != NULL ? dir : "/var/tmp", why, sizeof(why)) < 0) {
        printf("no io_uring here (%s): the sync path alone is tested\n", why);
        cmocka_set_skip_filter("*(io_uring)");
        return;
    }
    io->ops->destroy(io);
}

static int64_t read_clock(void *arg)
{
    return atomic_load(&((struct gb_fixture *)arg)->now_ms);
}

static void keep_line(void *arg, enum goblin_log_level level, const char *line)
{
    (void)level;
    struct gb_fixture *fixture = arg;
    (void)pthread_mutex_lock(&fixture->log_lock);
    size_t len = strlen(line);
    if (fixture->log_len + len + 2 < sizeof(fixture->log)) {
        memcpy(fixture->log + fixture->log_len, line, len);
        fixture->log_len += len;
        fixture->log[fixture->log_len++] = '\n';
    }
    (void)pthread_mutex_unlock(&fixture->log_lock);
}

static int setup(void **state, enum goblin_io io)
{
    struct gb_fixture *fixture = calloc(1, sizeof(*fixture));
    const char *dir = getenv("TMPDIR");
    if (fixture == NULL) {
        return -1;
    }
    (void)snprintf(fixture->root, sizeof(fixture->root), "%s/goblin-test-XXXXXX",
                   dir != NULL ? dir : "/var/tmp");
    if (mkdtemp(fixture->root) == NULL) {
        free(fixture);
        return -1;
    }
    for (unsigned i = 0; i < GB_FIXTURE_DRIVES; i++) {
        (void)snprintf(fixture->drive[i], sizeof(fixture->drive[i]), "%s/drive%u", fixture->root,
                       i);
        fixture->dirs[i] = fixture->drive[i];
    }
    (void)pthread_mutex_init(&fixture->log_lock, NULL);
    atomic_init(&fixture->now_ms, START_MS);
    fixture->options = (struct goblin_options){
        .dirs = fixture->dirs,
        .dir_count = 1,
        .create = true,
        .size_bytes = 64 * GB_MIB,
        .segment_bytes = 2 * GB_MIB,
        .lanes = 2,
        .mode = GOBLIN_MODE_STORE,
        .memory_bytes = 32 * GB_MIB,
        .checkpoint_s = UINT32_MAX,
        .io = io,
        .log = keep_line,
        .log_arg = fixture,
        .clock = read_clock,
        .clock_arg = fixture,
    };
    *state = fixture;
    return 0;
}

int gb_fixture_setup_uring(void **state)
{
    return setup(state, GOBLIN_IO_URING);
}

int gb_fixture_setup_sync(void **state)
{
    return setup(state, GOBLIN_IO_SYNC);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

int gb_fixture_teardown(void **state)
{
    struct gb_fixture *fixture = *state;
    goblin_reader_destroy(fixture->reader);
    (void)goblin_close(fixture->store);
    int rc = nftw(fixture->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    (void)pthread_mutex_destroy(&fixture->log_lock);
    free(fixture);
    return rc;
}

int gb_fixture_try_open(struct gb_fixture *fixture, struct goblin_error *error)
{
    return goblin_open(&fixture->store, &fixture->options, error);
}

void gb_fixture_open(struct gb_fixture *fixture)
{
    struct goblin_error error = {.text = ""};
    int rc = gb_fixture_try_open(fixture, &error);
    if (rc != GOBLIN_OK) {
        fail_msg("open: %d, %s", rc, error.text);
    }
    fixture->options.create = false;
    assert_int_equal(goblin_reader_create(&fixture->reader, fixture->store, NULL), GOBLIN_OK);
}

void gb_fixture_close(struct gb_fixture *fixture)
{
    goblin_reader_destroy(fixture->reader);
    fixture->reader = NULL;
    struct goblin *store = fixture->store;
    fixture->store = NULL;
    assert_int_equal(goblin_close(store), GOBLIN_OK);
}

void gb_fixture_reopen(struct gb_fixture *fixture)
{
    gb_fixture_close(fixture);
    gb_fixture_open(fixture);
}

bool gb_fixture_logged(struct gb_fixture *fixture, const char *text)
{
    (void)pthread_mutex_lock(&fixture->log_lock);
    fixture->log[fixture->log_len] = '\0';
    bool found = strstr(fixture->log, text) != NULL;
    (void)pthread_mutex_unlock(&fixture->log_lock);
    return found;
}

struct goblin_stats gb_fixture_stats(const struct gb_fixture *fixture)
{
    struct goblin_stats stats;
    goblin_stats(fixture->store, &stats);
    return stats;
}

void gb_fixture_await_warm(struct gb_fixture *fixture)
{
    for (unsigned i = 0; gb_fixture_stats(fixture).warming != 0; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        assert_true(i < 30000);
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- objects ------------------------------------------------------------------------------- */

struct goblin_slice gb_key_at(struct gb_key *key, uint64_t number)
{
    int len = snprintf(key->text, sizeof(key->text), "key/%llu", (unsigned long long)number);
    return (struct goblin_slice){key->text, (size_t)len};
}

int gb_fixture_put(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed)
{
    struct gb_key key;
    unsigned char *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, seed, 0);
    int rc = goblin_put(fixture->store, gb_key_at(&key, number), (struct goblin_slice){value, size},
                        NULL, NULL);
    free(value);
    return rc;
}

int gb_fixture_stream(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed,
                      size_t step)
{
    struct gb_key key;
    struct goblin_writer *writer = NULL;
    unsigned char *piece = malloc(step);
    assert_non_null(piece);
    int rc = goblin_writer_begin(&writer, fixture->store, gb_key_at(&key, number), size, NULL);
    for (size_t at = 0; rc == GOBLIN_OK && at < size;) {
        size_t n = gb_min(step, size - at);
        gb_pattern_fill(piece, n, seed, at);
        rc = goblin_writer_write(writer, piece, n);
        at += n;
    }
    free(piece);
    if (rc != GOBLIN_OK) {
        goblin_writer_abort(writer);
        return rc;
    }
    return goblin_writer_commit(writer, NULL);
}

struct gather {
    uint64_t seed;
    uint64_t next; /* offset that the next chunk must have */
    bool first;
    bool device; /* a chunk has come from the device */
    bool last;
    const char *wrong; /* what was not as it should be */
};

static int gather_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct gather *gather = arg;
    const char *wrong = NULL;
    if (gather->last) {
        wrong = "a chunk after the last";
    } else if (gather->first && chunk->len == 0 && !chunk->last) {
        wrong = "an empty chunk that is not all";
    } else if (!gather->first && chunk->len == 0) {
        wrong = "an empty chunk behind others";
    } else if (chunk->offset != gather->next) {
        wrong = "a gap or a step back";
    } else if (chunk->resident && gather->device) {
        wrong = "resident bytes behind the device's";
    } else if (chunk->offset + chunk->len > chunk->info->size && chunk->len > 0) {
        wrong = "bytes past the end";
    } else if (!gb_pattern_holds(chunk->data, chunk->len, gather->seed, chunk->offset)) {
        wrong = "other bytes";
    }
    gather->wrong = gather->wrong != NULL ? gather->wrong : wrong;
    gather->first = false;
    gather->device = gather->device || !chunk->resident;
    gather->last = chunk->last;
    gather->next = chunk->offset + chunk->len;
    return GOBLIN_CHUNK_DONE;
}

int gb_fixture_read(struct gb_fixture *fixture, uint64_t number, uint64_t seed,
                    const struct goblin_request *range, uint64_t *total)
{
    struct gb_key key;
    struct goblin_info info = {0};
    struct gather gather = {.seed = seed, .first = true};
    struct goblin_request request = *range;
    request.key = gb_key_at(&key, number);
    request.on_chunk = gather_chunk;
    request.arg = &gather;
    uint64_t start = range->offset;
    if (range->offset > 0 && goblin_stat(fixture->store, request.key, &info) == GOBLIN_OK) {
        start = gb_min(range->offset, info.size);
    }
    gather.next = start;
    int rc = goblin_get(fixture->reader, &request);
    if (gather.wrong != NULL) {
        fail_msg("key %llu, offset %llu, length %llu: %s, before %llu", (unsigned long long)number,
                 (unsigned long long)range->offset, (unsigned long long)range->length, gather.wrong,
                 (unsigned long long)gather.next);
    }
    bool resident_only = (range->flags & GOBLIN_GET_RESIDENT) != 0;
    if (rc == GOBLIN_OK && !gather.last && !resident_only) {
        fail_msg("key %llu: no chunk was the last", (unsigned long long)number);
    }
    if (total != NULL) {
        *total = gather.next - start;
    }
    return rc;
}

void gb_fixture_expect(struct gb_fixture *fixture, uint64_t number, size_t size, uint64_t seed)
{
    const struct goblin_request whole = {.offset = 0};
    uint64_t total = 0;
    int rc = gb_fixture_read(fixture, number, seed, &whole, &total);
    if (rc != GOBLIN_OK || total != size) {
        fail_msg("key %llu of %zu bytes: answer %d, %llu bytes", (unsigned long long)number, size,
                 rc, (unsigned long long)total);
    }
}

void gb_fixture_expect_none(struct gb_fixture *fixture, uint64_t number)
{
    struct gb_key key;
    struct goblin_info info;
    const struct goblin_request whole = {.offset = 0};
    assert_int_equal(gb_fixture_read(fixture, number, 0, &whole, NULL), GOBLIN_MISS);
    assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, number), &info), GOBLIN_MISS);
}
