/*
 * A line on a terminal that shows how far long work has come, its rate and the time left. Silent
 * when standard error is not a terminal. One thread at a time.
 */
#ifndef GB_BENCH_PROGRESS_H
#define GB_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct gb_progress {
    const char *label;
    uint64_t total; /* bytes */
    uint64_t started_ns;
    uint64_t shown_ns;
    bool terminal;
};

/* `label` is borrowed until gb_progress_end. */
void gb_progress_begin(struct gb_progress *progress, const char *label, uint64_t total_bytes);

/* Cheap enough for every object: draws a few times a second. */
void gb_progress_update(struct gb_progress *progress, uint64_t done_bytes);

/* Clears the line. */
void gb_progress_end(struct gb_progress *progress);

/* Units: nanoseconds of CLOCK_MONOTONIC. */
uint64_t gb_progress_now_ns(void);

#endif
