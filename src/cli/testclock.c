/* The clock of --test-clock. */
#include "cli/testclock.h"

#include <stdatomic.h>
#include <time.h>

int64_t gb_testclock_read(void *arg)
{
    const _Atomic int64_t *offset_ms = arg;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    /* Relaxed: the offset guards no other data. */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 +
           atomic_load_explicit(offset_ms, memory_order_relaxed);
}
