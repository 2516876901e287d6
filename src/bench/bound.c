/* Offline bound for static residency: see bound.h. */
#include "bench/bound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

double gb_bound_cost_us(const struct gb_cost_curve *curve, uint64_t bytes)
{
    GB_ASSERT(curve->count > 0);
    const struct gb_cost_point *points = curve->points;
    if (bytes == 0) {
        return 0;
    }
    if (bytes <= points[0].bytes || curve->count == 1) {
        return points[0].us;
    }
    size_t upper = 1;
    while (upper + 1 < curve->count && points[upper].bytes < bytes) {
        upper++;
    }
    const struct gb_cost_point *low = &points[upper - 1];
    const struct gb_cost_point *high = &points[upper];
    double slope = (high->us - low->us) / (double)(high->bytes - low->bytes);
    return low->us + slope * (double)(bytes - low->bytes);
}

struct candidate {
    uint32_t object;
    double worth; /* microseconds saved per byte */
};

static int compare_worth(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;
    if (left->worth != right->worth) {
        return left->worth > right->worth ? -1 : 1;
    }
    return left->object < right->object ? -1 : left->object > right->object;
}

/* Bytes all objects take with heads of `floor_bytes`. */
static uint64_t floor_total(const struct gb_corpus *corpus, uint64_t floor_bytes, uint64_t overhead)
{
    uint64_t total = corpus->count * overhead;
    for (uint64_t i = 0; i < corpus->count; i++) {
        total += gb_min(corpus->sizes[i], floor_bytes);
    }
    return total;
}

/* The widest floor, in whole 512 bytes, that leaves the budget intact. */
static uint64_t fit_floor(const struct gb_bound_options *options)
{
    uint64_t low = 0;
    uint64_t high = options->floor_bytes;
    if (floor_total(options->corpus, high, options->object_overhead_bytes) <=
        options->budget_bytes) {
        return high;
    }
    while (high - low > 512) {
        uint64_t middle = low + (high - low) / 2;
        if (floor_total(options->corpus, middle, options->object_overhead_bytes) <=
            options->budget_bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return gb_align_down(low, 512);
}

static uint64_t range_end(const struct gb_schedule *schedule, uint64_t first, uint64_t count)
{
    GB_ASSERT(first <= schedule->count);
    uint64_t left = schedule->count - first;
    return first + (count == 0 ? left : gb_min(count, left));
}

/* Fills the rest of the budget with whole objects in order of worth. */
static int choose_whole(struct gb_bound *bound, const struct gb_bound_options *options)
{
    const struct gb_corpus *corpus = options->corpus;
    uint32_t *requests = calloc(corpus->count + 1, sizeof(*requests));
    struct candidate *candidates = calloc(corpus->count + 1, sizeof(*candidates));
    if (requests == NULL || candidates == NULL) {
        free(requests);
        free(candidates);
        return -ENOMEM;
    }
    uint64_t end = range_end(options->schedule, options->plan_first, options->plan_count);
    for (uint64_t i = options->plan_first; i < end; i++) {
        requests[options->schedule->objects[i]]++;
    }
    size_t count = 0;
    for (uint64_t i = 0; i < corpus->count; i++) {
        if (requests[i] != 0 && corpus->sizes[i] > bound->floor_bytes) {
            uint64_t tail = corpus->sizes[i] - bound->floor_bytes;
            double saved = requests[i] * gb_bound_cost_us(options->curve, tail);
            candidates[count++] =
                (struct candidate){.object = (uint32_t)i, .worth = saved / (double)tail};
        }
    }
    qsort(candidates, count, sizeof(*candidates), compare_worth);
    for (size_t i = 0; i < count; i++) {
        uint64_t tail = corpus->sizes[candidates[i].object] - bound->floor_bytes;
        if (bound->resident_bytes + tail <= options->budget_bytes) {
            bound->resident_bytes += tail;
            bound->is_whole[candidates[i].object] = 1;
            bound->whole_objects++;
        }
    }
    free(requests);
    free(candidates);
    return 0;
}

/* Objects that the floor covers are whole already. */
static int begin_plan(struct gb_bound *bound, uint64_t overhead)
{
    const struct gb_corpus *corpus = bound->corpus;
    bound->is_whole = calloc(corpus->count + 1, 1);
    if (bound->is_whole == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        if (corpus->sizes[i] <= bound->floor_bytes) {
            bound->is_whole[i] = 1;
            bound->whole_objects++;
        }
    }
    bound->resident_bytes = floor_total(corpus, bound->floor_bytes, overhead);
    return 0;
}

int gb_bound_init(struct gb_bound *bound, const struct gb_bound_options *options)
{
    *bound = (struct gb_bound){
        .corpus = options->corpus, .curve = options->curve, .floor_bytes = fit_floor(options)};
    int result = begin_plan(bound, options->object_overhead_bytes);
    if (result < 0) {
        return result;
    }
    result = choose_whole(bound, options);
    if (result < 0) {
        gb_bound_fini(bound);
    }
    return result;
}

int gb_bound_init_fixed(struct gb_bound *bound, const struct gb_corpus *corpus, uint64_t head_bytes,
                        const struct gb_cost_curve *curve)
{
    *bound = (struct gb_bound){.corpus = corpus, .curve = curve, .floor_bytes = head_bytes};
    return begin_plan(bound, 0);
}

void gb_bound_fini(struct gb_bound *bound)
{
    free(bound->is_whole);
    bound->is_whole = NULL;
}

void gb_bound_evaluate(const struct gb_bound *bound, const struct gb_schedule *schedule,
                       uint64_t first, uint64_t count, struct gb_bound_cost *out)
{
    *out = (struct gb_bound_cost){0};
    uint64_t end = range_end(schedule, first, count);
    for (uint64_t i = first; i < end; i++) {
        uint32_t object = schedule->objects[i];
        uint64_t size = bound->corpus->sizes[object];
        out->requests++;
        out->bytes += size;
        if (!bound->is_whole[object]) {
            uint64_t tail = size - bound->floor_bytes;
            out->device_us += gb_bound_cost_us(bound->curve, tail);
            out->disk_requests++;
            out->disk_bytes += tail;
        }
    }
}
