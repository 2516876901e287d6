/*
 * What the program says when something goes wrong, and how it ends.
 *
 * Everything goes to standard error as one line that starts with "goblin: ", names the path or the
 * option, and where there is one, the limit and the remedy.
 */
#ifndef GB_CLI_SAY_H
#define GB_CLI_SAY_H

#include <goblin/error.h>

enum gb_exit {
    GB_EXIT_OK = 0,
    GB_EXIT_MISS = 1, /* no such object, a condition that did not hold, damage found */
    GB_EXIT_USAGE = 2,
    GB_EXIT_FAULT = 3,
};

/* Says the line and returns `code`, so that a caller can end with it. Threads: any. */
__attribute__((format(printf, 2, 3))) enum gb_exit gb_say(enum gb_exit code, const char *format,
                                                          ...);

/* Fills `error` for a caller that knows more, and returns GOBLIN_EOPTION. */
__attribute__((format(printf, 2, 3))) int gb_say_explain(struct goblin_error *error,
                                                         const char *format, ...);

#endif
