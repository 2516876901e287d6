/* How soon a store answers after it is opened. */
#include "bench/micro.h"

#include "bench/explain.h"
#include "bench/progress.h"
#include "goblin/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int remove_checkpoint(const char *dir, struct goblin_error *error)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/CHECKPOINT", dir);
    if (unlink(path) < 0) {
        /* Opening would be timed with what it is to do without. */
        gb_explain_set(error, "%s: %s", path, strerror(errno));
        return -errno;
    }
    return 0;
}

static int on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    size_t *bytes = arg;
    *bytes += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

/* The middle one: neither first nor last in any file. */
static int get_one(const struct gb_micro_store *store)
{
    char key[GB_MICRO_KEY_BYTES + 1];
    size_t bytes = 0;
    struct goblin_reader *reader = NULL;
    gb_micro_store_key(store->objects / 2, key);
    struct goblin_request request = {
        .key = {key, GB_MICRO_KEY_BYTES}, .on_chunk = on_chunk, .arg = &bytes};
    int rc = goblin_reader_create(&reader, store->goblin, NULL);
    rc = rc < 0 ? rc : goblin_get(reader, &request);
    goblin_reader_destroy(reader);
    if (rc == GOBLIN_MISS || (rc > 0 && bytes != store->value_bytes)) {
        return -ENOENT;
    }
    return rc < 0 ? rc : 0;
}

int gb_micro_store_reopen(struct gb_micro_store *store, bool checkpoint, double *seconds,
                          struct goblin_error *error)
{
    const char *dirs[1];
    struct goblin_options options;
    gb_micro_store_options(store, dirs, &options);
    int rc = goblin_close(store->goblin);
    store->goblin = NULL;
    rc = rc < 0 ? rc : 0;
    if (rc == 0 && !checkpoint) {
        rc = remove_checkpoint(store->dir, error);
    }
    uint64_t started_ns = gb_progress_now_ns();
    rc = rc < 0 ? rc : goblin_open(&store->goblin, &options, error);
    rc = rc < 0 ? rc : get_one(store);
    *seconds = (double)(gb_progress_now_ns() - started_ns) / 1e9;
    return rc;
}
