/*
 * The offline bound: how little device time a schedule needs when the best objects lie in RAM whole
 * from the start and stay there, chosen with knowledge of the schedule.
 *
 * Every object keeps min(size, floor) bytes, and what is left of the budget makes objects whole in
 * order of device time saved per byte. Not a proof of optimality (a knapsack filled greedily, no
 * partial residency in between, no change over time), but what any static residency can hope for.
 */
#ifndef GB_BENCH_BOUND_H
#define GB_BENCH_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/corpus.h"

/* Measured cost of reading so many bytes of one object's tail; at least one point, bytes rising. */
struct gb_cost_point {
    uint64_t bytes;
    double us;
};

struct gb_cost_curve {
    const struct gb_cost_point *points;
    size_t count;
};

/* 0 for 0 bytes; the first point's time below it; straight lines between points, and beyond the
 * last the slope of the last two. Units: microseconds. */
double gb_bound_cost_us(const struct gb_cost_curve *curve, uint64_t bytes);

struct gb_bound_options {
    const struct gb_corpus *corpus;
    const struct gb_schedule *schedule;
    uint64_t plan_first; /* the part of the schedule by whose counts residency is chosen; */
    uint64_t plan_count; /* 0 = all from plan_first on */
    uint64_t budget_bytes;
    uint64_t floor_bytes;           /* resident head of every object that is not whole */
    uint64_t object_overhead_bytes; /* header, key and index per object, paid from the budget */
    const struct gb_cost_curve *curve;
};

struct gb_bound {
    const struct gb_corpus *corpus; /* borrowed */
    const struct gb_cost_curve *curve;
    uint64_t floor_bytes;    /* as asked, or less when floors alone would overrun the budget */
    uint64_t resident_bytes; /* all that the plan keeps in RAM, overhead included */
    uint64_t whole_objects;
    uint8_t *is_whole; /* [corpus->count] */
};

struct gb_bound_cost {
    double device_us;
    uint64_t requests;
    uint64_t disk_requests; /* that needed the device */
    uint64_t bytes;         /* returned */
    uint64_t disk_bytes;    /* of these, read from the device */
};

/* Owns: bound->is_whole until fini. corpus and curve outlive it. Errors: -ENOMEM. */
__attribute__((warn_unused_result)) int gb_bound_init(struct gb_bound *bound,
                                                      const struct gb_bound_options *options);
void gb_bound_fini(struct gb_bound *bound);

/* The plan with nothing but heads of `head_bytes` for everything: the study's fixed policy. Budget
 * is not looked at (resident_bytes says what it takes). */
__attribute__((warn_unused_result)) int gb_bound_init_fixed(struct gb_bound *bound,
                                                            const struct gb_corpus *corpus,
                                                            uint64_t head_bytes,
                                                            const struct gb_cost_curve *curve);

/* What requests [first, first + count) cost under the plan; count 0 = all from `first` on. */
void gb_bound_evaluate(const struct gb_bound *bound, const struct gb_schedule *schedule,
                       uint64_t first, uint64_t count, struct gb_bound_cost *out);

#endif
