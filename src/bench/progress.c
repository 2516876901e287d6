/* A progress line with rate and time left. */
#include "bench/progress.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REDRAW_NS = 200 * 1000 * 1000 };

uint64_t gb_progress_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void gb_progress_begin(struct gb_progress *progress, const char *label, uint64_t total_bytes)
{
    memset(progress, 0, sizeof(*progress));
    progress->label = label;
    progress->total = total_bytes;
    progress->terminal = isatty(STDERR_FILENO) == 1;
    progress->started_ns = gb_progress_now_ns();
}

void gb_progress_update(struct gb_progress *progress, uint64_t done_bytes)
{
    if (!progress->terminal) {
        return;
    }
    uint64_t now_ns = gb_progress_now_ns();
    if (now_ns - progress->shown_ns < REDRAW_NS || now_ns == progress->started_ns) {
        return;
    }
    progress->shown_ns = now_ns;
    double seconds = (double)(now_ns - progress->started_ns) / 1e9;
    double rate = (double)done_bytes / seconds;
    uint64_t left = done_bytes < progress->total ? progress->total - done_bytes : 0;
    char eta[GB_UNITS_TEXT] = "?";
    if (rate > 0) {
        gb_units_format_duration(eta, sizeof(eta), (uint64_t)((double)left / rate * 1e9));
    }
    double part = progress->total ? (double)done_bytes / (double)progress->total * 100 : 100;
    fprintf(stderr, "\r\033[K%-44s %5.1f %%  %8.1f MiB/s  %s left", progress->label, part,
            rate / (1 << 20), eta);
    fflush(stderr);
}

void gb_progress_end(struct gb_progress *progress)
{
    if (progress->terminal && progress->shown_ns) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
