/*
 * A file to read from, unpacked on the way if its name says so (.zst, .gz, .xz, .lz4, .bz2, by the
 * usual tools). Belongs to one thread.
 */
#ifndef GB_BENCH_SOURCE_H
#define GB_BENCH_SOURCE_H

#include <stdio.h>
#include <sys/types.h>

#include "goblin/error.h"

struct gb_source {
    FILE *file;
    pid_t tool; /* 0 when the file is read as it is */
    const char *tool_name;
};

/* Errors: errno of open; -ENOENT with a text when the tool is not installed. */
__attribute__((warn_unused_result)) int gb_source_open(struct gb_source *source, const char *path,
                                                       struct goblin_error *error);
/* After reading to the end: -EIO with a text if the tool failed (a damaged file). When the caller
 * stopped early, `is_at_end` is 0 and the tool's complaint about that is ignored. */
int gb_source_close(struct gb_source *source, const char *path, int is_at_end,
                    struct goblin_error *error);

#endif
