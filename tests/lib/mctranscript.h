/* Transcripts for the memcached parser: bytes, and the events they must give at every split. */
#ifndef GB_TESTS_MCTRANSCRIPT_H
#define GB_TESTS_MCTRANSCRIPT_H

#include <stddef.h>

struct gb_mctranscript {
    const char *input;
    const char *events; /* as lib/mcevents.h writes them */
};

/* Feeds the input whole, byte by byte, and in two pieces cut at every place; fails the test unless
 * all give `events`. */
void gb_mctranscript_check(const char *input, size_t len, const char *events);

void gb_mctranscript_check_all(const struct gb_mctranscript *samples, size_t count);

#define GB_MCTRANSCRIPTS(samples)                                                                  \
    gb_mctranscript_check_all(samples, sizeof(samples) / sizeof((samples)[0]))

#endif
