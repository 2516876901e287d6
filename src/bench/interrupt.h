/* SIGINT and SIGTERM end a long measurement at its next step, so that it can clean up. */
#ifndef GB_BENCH_INTERRUPT_H
#define GB_BENCH_INTERRUPT_H

#include <stdbool.h>

/* From now on the two signals only set a mark. Threads: the whole process. */
void gb_interrupt_catch(void);

/* Did one come? */
bool gb_interrupt_seen(void);

#endif
