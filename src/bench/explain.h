/* Writes the sentence that goes with a fault. */
#ifndef GB_BENCH_EXPLAIN_H
#define GB_BENCH_EXPLAIN_H

#include "goblin/error.h"

/* As printf; what does not fit is cut off. */
__attribute__((format(printf, 2, 3))) void gb_explain_set(struct goblin_error *error,
                                                          const char *format, ...);

/* Puts "<text>: " in front of what is there: outside-in. */
void gb_explain_wrap(struct goblin_error *error, const char *text);

#endif
