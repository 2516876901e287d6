/* What is stored and asked for. */
#include "bench/net.h"

#include "base/bits.h"
#include "base/rng.h"
#include "bench/corpus.h"
#include "bench/explain.h"
#include "bench/popularity.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUESTS_PER_OBJECT = 16, REQUESTS_MIN = 100 * 1000, PIECE_BYTES = 1 << 20 };

static uint64_t draw_size(struct gb_rng *rng, const struct gb_net_set_options *options)
{
    double span = log((double)options->most_bytes / (double)options->least_bytes);
    double drawn = (double)options->least_bytes * exp(span * gb_rng_unit(rng));
    return gb_max(options->least_bytes, gb_min((uint64_t)drawn, options->most_bytes));
}

/* How many sizes of the sequence make up total_bytes, or `count`. */
static uint64_t count_objects(const struct gb_net_set_options *options)
{
    if (options->count > 0) {
        return options->count;
    }
    struct gb_rng rng;
    uint64_t count = 0;
    uint64_t total = 0;
    gb_rng_init(&rng, options->seed);
    while (total < options->total_bytes && count < UINT32_MAX) {
        total += draw_size(&rng, options);
        count++;
    }
    return count;
}

static int make_corpus(struct gb_corpus *corpus, const struct gb_net_set_options *options)
{
    struct gb_rng rng;
    gb_rng_init(&rng, options->seed);
    corpus->seed = options->seed;
    corpus->count = count_objects(options);
    if (corpus->count == 0) {
        return -EINVAL;
    }
    corpus->sizes = malloc(corpus->count * sizeof(*corpus->sizes));
    if (!corpus->sizes) {
        corpus->count = 0;
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        uint64_t size = draw_size(&rng, options);
        corpus->sizes[i] = size;
        corpus->total_bytes += size;
        corpus->max_bytes = gb_max(corpus->max_bytes, size);
    }
    return 0;
}

static int make_schedule(struct gb_net_set *set, const struct gb_net_set_options *options)
{
    uint64_t wanted = options->requests
                          ? options->requests
                          : gb_max(REQUESTS_MIN, set->corpus.count * REQUESTS_PER_OBJECT);
    uint32_t *counts = malloc(set->corpus.count * sizeof(*counts));
    struct gb_corpus_options order;
    if (!counts) {
        return -ENOMEM;
    }
    gb_corpus_defaults(&order);
    order.seed = options->seed;
    gb_popularity_zipf(set->corpus.count, options->zipf, wanted, counts);
    int rc = gb_popularity_schedule(&set->corpus, counts, &order, &set->schedule);
    free(counts);
    return rc;
}

static int set_explain(struct gb_net_set *set, int rc, struct goblin_error *error)
{
    if (rc < 0) {
        gb_explain_set(error, "objects to store: %s", strerror(-rc));
        gb_net_set_fini(set);
    }
    return rc;
}

int gb_net_set_init(struct gb_net_set *set, const struct gb_net_set_options *options,
                    struct goblin_error *error)
{
    *set = (struct gb_net_set){0};
    int rc = make_corpus(&set->corpus, options);
    rc = rc < 0 ? rc : make_schedule(set, options);
    rc = rc < 0 ? rc : gb_payload_init(&set->payload, options->seed, GB_PAYLOAD_POOL_BYTES);
    return set_explain(set, rc, error);
}

int gb_net_set_study(struct gb_net_set *set, double scale, double zipf, uint64_t seed,
                     struct goblin_error *error)
{
    struct gb_corpus_options options;
    *set = (struct gb_net_set){0};
    gb_corpus_defaults(&options);
    options.scale = scale;
    options.zipf_exponent = zipf;
    options.seed = seed;
    int rc = gb_corpus_make(&options, &set->corpus, &set->schedule, error);
    if (rc < 0) {
        return rc;
    }
    rc = gb_payload_init(&set->payload, seed, GB_PAYLOAD_POOL_BYTES);
    return set_explain(set, rc, error);
}

void gb_net_set_fini(struct gb_net_set *set)
{
    if (set->payload.pool) {
        gb_payload_fini(&set->payload);
    }
    gb_schedule_fini(&set->schedule);
    gb_corpus_fini(&set->corpus);
    *set = (struct gb_net_set){0};
}

/* ---- files --------------------------------------------------------------------------------- */

static int write_object(struct gb_payload_window *window, int fd, uint64_t object, uint64_t size)
{
    uint64_t done = 0;
    while (done < size) {
        uint64_t len = gb_min(size - done, PIECE_BYTES);
        const void *data = gb_payload_window_prepare(window, object, size, done, len);
        ssize_t written = write(fd, data, (size_t)len);
        if (written < 0) {
            return -errno;
        }
        done += (uint64_t)written;
    }
    if (fdatasync(fd) < 0) {
        return -errno;
    }
    return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int open_file(const struct gb_net_set *set, const char *dir, uint64_t object, int how)
{
    char path[PATH_MAX];
    char key[GB_CORPUS_KEY_MAX];
    size_t key_len = gb_corpus_key(&set->corpus, object, key);
    if (snprintf(path, sizeof(path), "%s/%.*s", dir, (int)key_len, key) >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    int fd = open(path, how | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd;
}

static int write_file(const struct gb_net_set *set, struct gb_payload_window *window,
                      const char *dir, uint64_t object)
{
    int fd = open_file(set, dir, object, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0) {
        return fd;
    }
    int rc = write_object(window, fd, object, set->corpus.sizes[object]);
    return close(fd) < 0 && rc == 0 ? -errno : rc;
}

int gb_net_set_write(const struct gb_net_set *set, const char *dir, struct goblin_error *error)
{
    struct gb_payload_window window;
    int rc = gb_payload_window_open(&window, &set->payload);
    if (rc == 0) {
        for (uint64_t i = 0; i < set->corpus.count && rc == 0; i++) {
            rc = write_file(set, &window, dir, i);
        }
        gb_payload_window_close(&window);
    }
    if (rc < 0) {
        gb_explain_set(error, "files to serve in %s: %s", dir, strerror(-rc));
    }
    return rc;
}

int gb_net_set_forget(const struct gb_net_set *set, const char *dir, struct goblin_error *error)
{
    int rc = 0;
    for (uint64_t i = 0; i < set->corpus.count && rc == 0; i++) {
        int fd = open_file(set, dir, i, O_RDONLY);
        if (fd < 0) {
            rc = fd;
        } else {
            rc = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
    }
    if (rc < 0) {
        gb_explain_set(error, "files to serve in %s: %s", dir, strerror(-rc));
    }
    return rc;
}
