/*
 * Where a value goes: standard output, or a file that appears whole or not at all.
 *
 * A file is written under a temporary name beside its final one and renamed at the end, so that a
 * miss or a fault leaves an older file as it was. Devices and pipes are written in place. Nothing
 * is opened before gb_sink_open.
 */
#ifndef GB_CLI_SINK_H
#define GB_CLI_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct gb_sink {
    const char *path; /* NULL: standard output */
    char *temporary;  /* NULL: written in place */
    int fd;           /* -1: not open */
};

/* `path` NULL or "-" is standard output. Borrowed until gb_sink_close. */
void gb_sink_init(struct gb_sink *sink, const char *path);

/* Returns 0 or a negative errno. */
int gb_sink_open(struct gb_sink *sink);

int gb_sink_write(struct gb_sink *sink, const void *data, size_t len);

/* With `keep` gives the file its name, else removes it. Harmless when nothing was opened. */
int gb_sink_close(struct gb_sink *sink, bool keep);

/* For messages. */
const char *gb_sink_name(const struct gb_sink *sink);

#endif
