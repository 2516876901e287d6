/*
 * A clock that tests move: the time of day and an offset, so that an expiry needs no waiting.
 */
#ifndef GB_CLI_TESTCLOCK_H
#define GB_CLI_TESTCLOCK_H

#include <stdint.h>

/* For goblin_options.clock: `arg` is the _Atomic int64_t of milliseconds to be ahead. Threads: any.
 */
int64_t gb_testclock_read(void *arg);

#endif
