/*
 * What `goblin top` shows: two samples of a server's /metrics, put into lines of plain ASCII.
 *
 * Threads: any; no state.
 */
#ifndef GB_CLI_TOPVIEW_H
#define GB_CLI_TOPVIEW_H

#include <stdio.h>

/* The number of a series, named with its labels as it stands in the text; 0 if it is not there. */
double gb_topview_value(const char *text, const char *series);

/* Writes the view, a line each. `before` is an older text; NULL: since the server started.
 * Units: seconds between the two, ignored without `before`. */
void gb_topview_write(FILE *out, const char *address, const char *now, const char *before,
                      double seconds);

#endif
