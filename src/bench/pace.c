/* A steady rate: see pace.h. */
#include "bench/pace.h"

#include "base/bits.h"
#include "bench/progress.h"

#include <errno.h>
#include <time.h>

enum { SECOND_NS = 1000 * 1000 * 1000 };

uint64_t gb_pace_due_ns(const struct gb_pace *pace)
{
    if (pace->per_s == 0) {
        return pace->started_ns;
    }
    uint64_t seconds = pace->taken / pace->per_s;
    double rest = (double)(pace->taken % pace->per_s) / (double)pace->per_s;
    return pace->started_ns + seconds * SECOND_NS + (uint64_t)(rest * SECOND_NS);
}

uint64_t gb_pace_wait(const struct gb_pace *pace, uint64_t end_ns)
{
    uint64_t now_ns = gb_progress_now_ns();
    uint64_t due_ns = gb_pace_due_ns(pace);
    if (due_ns <= now_ns) {
        return pace->per_s == 0 ? now_ns : due_ns;
    }
    uint64_t until_ns = gb_min(due_ns, end_ns);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                                   .tv_nsec = (long)(until_ns % SECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    return gb_progress_now_ns();
}
