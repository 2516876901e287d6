/*
 * A steady rate: says when the next of so many units a second is due. What came late is made up
 * for as fast as may be, as a user's load does. Belongs to one thread.
 */
#ifndef GB_BENCH_PACE_H
#define GB_BENCH_PACE_H

#include <stdint.h>

struct gb_pace {
    uint64_t started_ns;
    uint64_t per_s; /* 0: flat out, everything is due at once */
    uint64_t taken;
};

/* When the next unit is due; `started_ns` when there is no rate. */
uint64_t gb_pace_due_ns(const struct gb_pace *pace);

/* Sleeps until then, but not beyond `end_ns`. Returns the moment the unit's time counts from: now
 * if it was waited for or there is no rate, else when it was due. */
uint64_t gb_pace_wait(const struct gb_pace *pace, uint64_t end_ns);

#endif
