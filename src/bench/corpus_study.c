/*
 * The study's corpus, rebuilt from what was published of it: six size classes with their counts,
 * bytes and shares of requests, the median and the 99th percentile, and both byte totals.
 *
 * Within a class, sizes follow a truncated Pareto law whose exponent is solved so that the class
 * has its bytes; classes that hold a published percentile are cut there in two, so that it comes
 * out right. Popularity is Zipf within a class. Paired at random, sizes and ranks would return more
 * bytes than the study did, so in the last class, which decides the sum, larger objects are made
 * less popular by as much as it takes.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/rng.h"
#include "bench/corpus_build.h"
#include "bench/popularity.h"

/* Cumulative, as published; the last class's bytes follow from the exact total. */
struct size_class {
    double upper_bytes;
    uint64_t objects;
    double gib; /* of sizes rounded up to 16 */
    double request_share;
    double cut_bytes;   /* a published percentile inside this class, or 0 */
    double cut_objects; /* objects up to it, in the whole corpus */
};

#define KIB 1024.0
#define MIB (1024 * KIB)

static const struct size_class classes[] = {
    {16 * KIB, 116720, 1.042, 0.5236, 0, 0},
    {32 * KIB, 200196, 2.741, 0.7512, 26.3 * KIB, 0.50 * 373165},
    {64 * KIB, 245409, 4.775, 0.8406, 0, 0},
    {128 * KIB, 319623, 10.998, 0.9450, 0, 0},
    {256 * KIB, 343728, 14.984, 0.9793, 0, 0},
    {150.1 * MIB, 373165, 62.113, 1.0, 2.495 * MIB, 0.99 * 373165},
};

enum {
    CLASSES = sizeof(classes) / sizeof(classes[0]),
    FIT_STEPS = 50,
    LEAN_STEPS = 12,
    SWAP_TRIES = 200000,
    LAST_CLASS_SHARE = 8, /* no object is more than this part of its class's bytes */
};

#define SETTLED 1e-5 /* how near the returned bytes have to come */

static const double smallest_bytes = 64;
static const double exponent_limit = 60;

/* One class at one scale, ready to be filled. */
struct plan {
    double low;
    double high;
    double cut;       /* 0 = none */
    double cut_share; /* of the class's objects below the cut */
    uint64_t objects;
    double bytes; /* rounded up to 16 */
    uint64_t requests;
    uint64_t *sizes;  /* [objects], rising until paired with counts */
    uint32_t *counts; /* [objects] */
};

/* Truncated Pareto: the share `u` of all sizes in [low, high] lies below the result. */
static double pareto(double low, double high, double exponent, double u)
{
    double span = log(high / low);
    double scaled = exponent * span;
    double v = fabs(scaled) < 1e-9 ? u : -log1p(-u * -expm1(-scaled)) / scaled;
    return low * exp(span * v);
}

static double quantile(const struct plan *plan, double exponent, double u)
{
    if (plan->cut <= 0) {
        return pareto(plan->low, plan->high, exponent, u);
    }
    if (u < plan->cut_share) {
        return pareto(plan->low, plan->cut, exponent, u / plan->cut_share);
    }
    return pareto(plan->cut, plan->high, exponent, (u - plan->cut_share) / (1 - plan->cut_share));
}

/* Fills sizes for an exponent and returns their sum, each rounded up to 16. Even steps, the last
 * one at the very end, so that the largest object has the published size. */
static double fill_sizes(struct plan *plan, double exponent)
{
    uint64_t sum = 0;
    uint64_t least = (uint64_t)plan->low + 1;
    uint64_t most = (uint64_t)plan->high;
    for (uint64_t i = 0; i < plan->objects; i++) {
        double u = ((double)i + 0.5) / ((double)plan->objects - 0.5);
        uint64_t size = (uint64_t)llround(quantile(plan, exponent, fmin(u, 1)));
        plan->sizes[i] = gb_min(gb_max(size, least), most);
        sum += gb_align_up(plan->sizes[i], 16);
    }
    return (double)sum;
}

/* A larger exponent makes smaller objects. */
static void fit_sizes(struct plan *plan)
{
    double low = -exponent_limit;
    double high = exponent_limit;
    for (int step = 0; step < FIT_STEPS; step++) {
        double middle = (low + high) / 2;
        if (fill_sizes(plan, middle) > plan->bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (void)fill_sizes(plan, (low + high) / 2);
}

static void plan_class(struct plan *plan, size_t index, double scale, uint64_t requests)
{
    const struct size_class *class = &classes[index];
    const struct size_class *below = index == 0 ? NULL : &classes[index - 1];
    uint64_t below_objects = below == NULL ? 0 : below->objects;
    double below_gib = below == NULL ? 0 : below->gib;
    double below_share = below == NULL ? 0 : below->request_share;
    double all = (double)requests;
    /* Cumulative values are rounded, not differences, so that the sums come out whole. */
    plan->objects = (uint64_t)(llround((double)class->objects * scale) -
                               llround((double)below_objects * scale));
    plan->requests = (uint64_t)(llround(all * class->request_share) - llround(all * below_share));
    double gib = index + 1 == CLASSES ? (double)GB_STUDY_OBJECT_BYTES / (double)GB_GIB : class->gib;
    plan->bytes = (gib - below_gib) * (double)GB_GIB * scale;
    plan->low = below == NULL ? smallest_bytes : below->upper_bytes;
    plan->high = class->upper_bytes;
    if (index + 1 == CLASSES) {
        plan->high = fmin(plan->high, plan->bytes / LAST_CLASS_SHARE);
        plan->high = fmax(plan->high, 2 * plan->low);
    }
    plan->cut = class->cut_bytes < plan->high ? class->cut_bytes : 0;
    plan->cut_share =
        (class->cut_objects - (double)below_objects) / (double)(class->objects - below_objects);
}

static double returned_bytes(const struct plan *plan)
{
    double sum = 0;
    for (uint64_t i = 0; i < plan->objects; i++) {
        sum += (double)plan->sizes[i] * plan->counts[i];
    }
    return sum;
}

struct scored {
    double score;
    uint64_t size;
};

static int compare_score(const void *a, const void *b)
{
    double left = ((const struct scored *)a)->score;
    double right = ((const struct scored *)b)->score;
    return left < right ? -1 : left > right;
}

static int compare_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Gives rank r the size with the r-th lowest score; the score mixes the size's own place with fixed
 * noise. `lean` 0 pairs at random, 1 makes the smallest the most popular, -1 the largest. */
static void pair(struct plan *plan, const uint64_t *rising, struct scored *scored, double lean,
                 uint64_t seed)
{
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (uint64_t i = 0; i < plan->objects; i++) {
        double place = (double)i / (double)plan->objects;
        double noise = gb_rng_unit(&rng);
        scored[i] =
            (struct scored){.score = lean * place + (1 - fabs(lean)) * noise, .size = rising[i]};
    }
    qsort(scored, plan->objects, sizeof(*scored), compare_score);
    for (uint64_t i = 0; i < plan->objects; i++) {
        plan->sizes[i] = scored[i].size;
    }
}

/* Pairing moves in jumps (one popular object more or less); swapping two sizes at a time takes up
 * what is left of the difference. */
static void swap_towards(struct plan *plan, double wanted, uint64_t seed)
{
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    double missing = wanted - returned_bytes(plan);
    for (int i = 0; i < SWAP_TRIES && fabs(missing) > wanted * SETTLED; i++) {
        uint64_t a = gb_rng_below(&rng, plan->objects);
        uint64_t b = gb_rng_below(&rng, plan->objects);
        double gain = ((double)plan->counts[a] - (double)plan->counts[b]) *
                      ((double)plan->sizes[b] - (double)plan->sizes[a]);
        if (fabs(missing - gain) < fabs(missing)) {
            uint64_t size = plan->sizes[a];
            plan->sizes[a] = plan->sizes[b];
            plan->sizes[b] = size;
            missing -= gain;
        }
    }
}

/* Pairs sizes with ranks so that the class returns `wanted` bytes, as far as it can. */
static int lean_towards(struct plan *plan, double wanted, uint64_t seed)
{
    uint64_t *rising = malloc((plan->objects + 1) * sizeof(*rising));
    struct scored *scored = malloc((plan->objects + 1) * sizeof(*scored));
    if (rising == NULL || scored == NULL) {
        free(rising);
        free(scored);
        return -ENOMEM;
    }
    memcpy(rising, plan->sizes, plan->objects * sizeof(*rising));
    qsort(rising, plan->objects, sizeof(*rising), compare_size);
    double low = -1;
    double high = 1;
    for (int step = 0; step < LEAN_STEPS; step++) {
        double lean = (low + high) / 2;
        pair(plan, rising, scored, lean, seed);
        if (returned_bytes(plan) > wanted) {
            low = lean;
        } else {
            high = lean;
        }
    }
    free(rising);
    free(scored);
    if (plan->objects > 1) {
        swap_towards(plan, wanted, seed + 1);
    }
    return 0;
}

/* Sizes and counts of a class, paired at random. */
static int fill_class(struct plan *plan, double zipf_exponent, struct gb_rng *rng)
{
    plan->sizes = malloc((plan->objects + 1) * sizeof(*plan->sizes));
    plan->counts = malloc((plan->objects + 1) * sizeof(*plan->counts));
    if (plan->sizes == NULL || plan->counts == NULL) {
        return -ENOMEM;
    }
    if (plan->objects == 0) {
        return 0;
    }
    fit_sizes(plan);
    gb_popularity_zipf(plan->objects, zipf_exponent, plan->requests, plan->counts);
    for (uint64_t i = plan->objects; i > 1; i--) {
        uint64_t other = gb_rng_below(rng, i);
        uint64_t size = plan->sizes[other];
        plan->sizes[other] = plan->sizes[i - 1];
        plan->sizes[i - 1] = size;
    }
    return 0;
}

/* From the last class down, until all classes together return `wanted` bytes. */
static int settle(struct plan *plans, double wanted, uint64_t seed)
{
    double returned = 0;
    for (size_t i = 0; i < CLASSES; i++) {
        returned += returned_bytes(&plans[i]);
    }
    for (size_t i = CLASSES; i > 0 && fabs(returned - wanted) > wanted * SETTLED; i--) {
        struct plan *plan = &plans[i - 1];
        double others = returned - returned_bytes(plan);
        int result = lean_towards(plan, wanted - others, seed + i);
        if (result < 0) {
            return result;
        }
        returned = others + returned_bytes(plan);
    }
    return 0;
}

/* All classes in one, in an order that says nothing. */
static int merge(const struct plan *plans, uint64_t seed, struct gb_corpus *corpus,
                 uint32_t **counts)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CLASSES; i++) {
        total += plans[i].objects;
    }
    uint64_t *sizes = malloc((total + 1) * sizeof(*sizes));
    uint32_t *merged = malloc((total + 1) * sizeof(*merged));
    uint32_t *order = malloc((total + 1) * sizeof(*order));
    if (sizes == NULL || merged == NULL || order == NULL) {
        free(sizes);
        free(merged);
        free(order);
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < total; i++) {
        order[i] = (uint32_t)i;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    gb_popularity_shuffle(&rng, order, total);
    uint64_t next = 0;
    for (size_t i = 0; i < CLASSES; i++) {
        for (uint64_t n = 0; n < plans[i].objects; n++, next++) {
            sizes[order[next]] = plans[i].sizes[n];
            merged[order[next]] = plans[i].counts[n];
        }
    }
    free(order);
    corpus->sizes = sizes;
    corpus->count = total;
    *counts = merged;
    return 0;
}

int gb_corpus_study_list(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                         uint64_t requests, uint32_t **counts)
{
    struct plan plans[CLASSES] = {{0}};
    struct gb_rng rng;
    gb_rng_init(&rng, options->seed);
    int result = 0;
    for (size_t i = 0; i < CLASSES && result == 0; i++) {
        plan_class(&plans[i], i, options->scale, requests);
        result = fill_class(&plans[i], options->zipf_exponent, &rng);
    }
    if (result == 0) {
        double mean = (double)GB_STUDY_REQUEST_BYTES / (double)GB_STUDY_REQUESTS;
        result = settle(plans, mean * (double)requests, options->seed);
    }
    if (result == 0) {
        result = merge(plans, options->seed, &build->corpus, counts);
    }
    for (size_t i = 0; i < CLASSES; i++) {
        free(plans[i].sizes);
        free(plans[i].counts);
    }
    return result;
}
