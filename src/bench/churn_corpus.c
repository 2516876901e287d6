/* Objects that fill a store to a given share. */
#include "bench/churn.h"

#include "base/bits.h"
#include "base/rng.h"
#include "bench/explain.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEY_BYTES = 16, /* of gb_corpus_key where there are no texts */
    HEADER_BYTES = 64,
    PACKED_MAX_BYTES = 16 << 10,
    HALF_PAGE_BYTES = 2048,
    OBJECTS_MIN = 16,
};

static uint64_t footprint(uint64_t size)
{
    return KEY_BYTES + HEADER_BYTES + size + (size > PACKED_MAX_BYTES ? HALF_PAGE_BYTES : 0);
}

static int grow(struct gb_corpus *corpus, uint64_t *capacity)
{
    if (corpus->count < *capacity) {
        return 0;
    }
    *capacity = *capacity ? *capacity * 2 : 1024;
    uint64_t *sizes = realloc(corpus->sizes, *capacity * sizeof(*sizes));
    if (!sizes) {
        return -ENOMEM;
    }
    corpus->sizes = sizes;
    return 0;
}

int gb_churn_corpus(const struct gb_churn_options *options, struct gb_corpus *out,
                    struct goblin_error *error)
{
    double wanted = options->fill * (double)options->size_bytes;
    double span = log((double)options->most_bytes / (double)options->least_bytes);
    uint64_t capacity = 0;
    uint64_t taken = 0;
    struct gb_rng rng;
    gb_rng_init(&rng, options->seed);
    *out = (struct gb_corpus){.seed = options->seed};
    for (;;) {
        double drawn = (double)options->least_bytes * exp(span * gb_rng_unit(&rng));
        uint64_t size = gb_min((uint64_t)drawn, options->most_bytes);
        if ((double)(taken + footprint(size)) > wanted) {
            break;
        }
        int rc = grow(out, &capacity);
        if (rc < 0 || out->count == UINT32_MAX) {
            gb_corpus_fini(out);
            gb_explain_set(error, "too many objects: give a smaller --size or a larger --least");
            return rc < 0 ? rc : -EINVAL;
        }
        out->sizes[out->count++] = size;
        out->total_bytes += size;
        out->max_bytes = gb_max(out->max_bytes, size);
        taken += footprint(size);
    }
    if (out->count < OBJECTS_MIN) {
        gb_corpus_fini(out);
        gb_explain_set(error, "--size holds only a few objects: give a larger one or a smaller "
                              "--most");
        return -EINVAL;
    }
    snprintf(out->description, sizeof(out->description), "%llu objects of %llu to %llu bytes",
             (unsigned long long)out->count, (unsigned long long)options->least_bytes,
             (unsigned long long)options->most_bytes);
    return 0;
}

uint64_t gb_churn_live_bytes(const struct gb_corpus *corpus)
{
    return corpus->total_bytes + corpus->count * KEY_BYTES;
}
