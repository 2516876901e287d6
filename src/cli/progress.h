/*
 * A progress line on standard error for work that takes a while: bar, bytes, rate and time left.
 *
 * Silent unless standard error is a terminal. Any thread may add; whoever adds when a fifth of a
 * second has passed redraws the line, so there is no thread and no lock.
 */
#ifndef GB_CLI_PROGRESS_H
#define GB_CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_PROGRESS_LINE 256u

struct gb_progress {
    const char *label;
    uint64_t total_bytes; /* 0: unknown, no bar and no time left */
    uint64_t start_ns;
    bool shown;
    _Atomic uint64_t done_bytes; /* relaxed: a display */
    _Atomic uint64_t drawn_ns;   /* relaxed: the thread that swaps it draws */
};

/* Whether a progress line would be seen (so that totals are worth finding out). */
bool gb_progress_visible(void);

void gb_progress_init(struct gb_progress *progress, const char *label, uint64_t total_bytes);

/* Threads: any. */
void gb_progress_add(struct gb_progress *progress, uint64_t bytes);

/* Wipes the line, before other text and at the end. */
void gb_progress_clear(const struct gb_progress *progress);

/* The line alone, without control characters. Returns `line`. */
const char *gb_progress_format(char line[GB_PROGRESS_LINE], const struct gb_progress *progress,
                               uint64_t now_ns);

/* CLOCK_MONOTONIC. */
uint64_t gb_progress_now_ns(void);

#endif
