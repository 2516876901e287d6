/*
 * Draws plots by the gnuplot program, if it is installed.
 */
#ifndef GB_BENCH_GNUPLOT_H
#define GB_BENCH_GNUPLOT_H

#include "goblin/error.h"

/* Writes <directory>/<name>.gp (it stays, so that a plot can be redrawn) with an SVG terminal and
 * the output <name>.svg set before `commands`, and runs it inside the directory. 1 = drawn, 0 =
 * there is no gnuplot. Errors: errno of the files, -EIO if gnuplot refused the commands. */
int gb_gnuplot_draw(const char *directory, const char *name, const char *commands,
                    struct goblin_error *error);

#endif
