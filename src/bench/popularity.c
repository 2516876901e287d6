/* Request counts and their order: see popularity.h. */
#include "bench/popularity.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Objects of similar size among which a shift deals counts. */
enum { SHIFT_GROUP = 64 };

void gb_popularity_zipf(uint64_t ranks, double exponent, uint64_t total, uint32_t *counts)
{
    double sum = 0;
    for (uint64_t i = 0; i < ranks; i++) {
        sum += pow((double)(i + 1), -exponent);
    }
    double reached = 0;
    uint64_t given = 0;
    for (uint64_t i = 0; i < ranks; i++) {
        reached += pow((double)(i + 1), -exponent);
        uint64_t until = (uint64_t)floor((double)total * (reached / sum) + 0.5);
        if (i + 1 == ranks || until > total) {
            until = total;
        }
        counts[i] = (uint32_t)(until - given);
        given = until;
    }
}

void gb_popularity_shuffle(struct gb_rng *rng, uint32_t *items, uint64_t count)
{
    for (uint64_t i = count; i > 1; i--) {
        uint64_t other = gb_rng_below(rng, i);
        uint32_t item = items[other];
        items[other] = items[i - 1];
        items[i - 1] = item;
    }
}

struct sized {
    uint64_t size;
    uint32_t object;
};

static int compare_size(const void *a, const void *b)
{
    const struct sized *left = a;
    const struct sized *right = b;
    if (left->size != right->size) {
        return left->size < right->size ? -1 : 1;
    }
    return left->object < right->object ? -1 : left->object > right->object;
}

/* Objects in order of size, or NULL. */
static uint32_t *order_by_size(const struct gb_corpus *corpus)
{
    struct sized *sized = malloc((corpus->count + 1) * sizeof(*sized));
    uint32_t *order = malloc((corpus->count + 1) * sizeof(*order));
    if (sized == NULL || order == NULL) {
        free(sized);
        free(order);
        return NULL;
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        sized[i] = (struct sized){.size = corpus->sizes[i], .object = (uint32_t)i};
    }
    qsort(sized, corpus->count, sizeof(*sized), compare_size);
    for (uint64_t i = 0; i < corpus->count; i++) {
        order[i] = sized[i].object;
    }
    free(sized);
    return order;
}

/* Which object takes over whose counts: a shuffle within groups of neighbours in size. */
static void deal(struct gb_rng *rng, const uint32_t *order, uint64_t count, uint32_t *heir)
{
    for (uint64_t at = 0; at < count; at += SHIFT_GROUP) {
        uint32_t group[SHIFT_GROUP];
        uint64_t len = count - at < SHIFT_GROUP ? count - at : SHIFT_GROUP;
        memcpy(group, order + at, len * sizeof(*group));
        gb_popularity_shuffle(rng, group, len);
        for (uint64_t i = 0; i < len; i++) {
            heir[order[at + i]] = group[i];
        }
    }
}

/* Requests by popularity alone: one phase per shift and one before the first. */
static int fill_phases(const struct gb_corpus *corpus, const uint32_t *counts, unsigned shifts,
                       struct gb_rng *rng, uint32_t *objects)
{
    uint32_t *order = NULL;
    uint32_t *heir = NULL;
    if (shifts > 0) {
        order = order_by_size(corpus);
        heir = malloc((corpus->count + 1) * sizeof(*heir));
        if (order == NULL || heir == NULL) {
            free(order);
            free(heir);
            return -ENOMEM;
        }
    }
    uint64_t phases = (uint64_t)shifts + 1;
    uint64_t used = 0;
    for (uint64_t phase = 0; phase < phases; phase++) {
        uint64_t start = used;
        if (phase > 0) {
            deal(rng, order, corpus->count, heir);
        }
        for (uint64_t i = 0; i < corpus->count; i++) {
            /* Rounding that depends on the object, or all the single requests would fall into the
             * last phase. */
            uint64_t turn = i % phases;
            uint64_t until = (counts[i] * (phase + 1) + turn) / phases;
            uint64_t done = (counts[i] * phase + turn) / phases;
            for (uint64_t n = done; n < until; n++) {
                objects[used++] = phase > 0 ? heir[i] : (uint32_t)i;
            }
        }
        gb_popularity_shuffle(rng, objects + start, used - start);
    }
    free(order);
    free(heir);
    return 0;
}

/* Every so many requests one goes to a walk through all objects; what was there is dropped. */
static void weave_scan(uint32_t *objects, uint64_t count, double share, uint64_t corpus_count)
{
    double due = 0;
    uint32_t next = 0;
    for (uint64_t i = 0; i < count; i++) {
        due += share;
        if (due >= 1) {
            due -= 1;
            objects[i] = next;
            next = next + 1 == corpus_count ? 0 : next + 1;
        }
    }
}

static void count_bytes(const struct gb_corpus *corpus, struct gb_schedule *schedule)
{
    schedule->total_bytes = 0;
    for (uint64_t i = 0; i < schedule->count; i++) {
        schedule->total_bytes += corpus->sizes[schedule->objects[i]];
    }
}

int gb_popularity_schedule(const struct gb_corpus *corpus, const uint32_t *counts,
                           const struct gb_corpus_options *options, struct gb_schedule *out)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < corpus->count; i++) {
        total += counts[i];
    }
    uint32_t *objects = malloc((total + 1) * sizeof(*objects));
    if (objects == NULL) {
        return -ENOMEM;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, options->seed ^ UINT64_C(0x5c4ed01e));
    int result = fill_phases(corpus, counts, options->shifts, &rng, objects);
    if (result < 0) {
        free(objects);
        return result;
    }
    if (options->scan_share > 0) {
        weave_scan(objects, total, options->scan_share, corpus->count);
    }
    *out = (struct gb_schedule){.count = total, .objects = objects};
    count_bytes(corpus, out);
    return 0;
}

int gb_popularity_each_once(const struct gb_corpus *corpus, uint64_t seed, struct gb_schedule *out)
{
    uint32_t *objects = malloc((corpus->count + 1) * sizeof(*objects));
    if (objects == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        objects[i] = (uint32_t)i;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, seed ^ UINT64_C(0x0ce));
    gb_popularity_shuffle(&rng, objects, corpus->count);
    *out = (struct gb_schedule){.count = corpus->count, .objects = objects};
    count_bytes(corpus, out);
    return 0;
}
