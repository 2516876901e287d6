/* The progress line. */
#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/units.h"

enum { BAR_CELLS = 20, REDRAW_NS = 200000000 };

uint64_t gb_progress_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool gb_progress_visible(void)
{
    return isatty(STDERR_FILENO) == 1;
}

void gb_progress_init(struct gb_progress *progress, const char *label, uint64_t total_bytes)
{
    progress->label = label;
    progress->total_bytes = total_bytes;
    progress->start_ns = gb_progress_now_ns();
    progress->shown = gb_progress_visible();
    atomic_init(&progress->done_bytes, 0);
    atomic_init(&progress->drawn_ns, progress->start_ns);
}

const char *gb_progress_format(char line[GB_PROGRESS_LINE], const struct gb_progress *progress,
                               uint64_t now_ns)
{
    uint64_t done = atomic_load_explicit(&progress->done_bytes, memory_order_relaxed);
    uint64_t total = progress->total_bytes;
    double seconds = (double)(now_ns - progress->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    char done_text[GB_UNITS_TEXT];
    char rate_text[GB_UNITS_TEXT];
    (void)gb_units_format_size(done_text, sizeof(done_text), done);
    (void)gb_units_format_size(rate_text, sizeof(rate_text), (uint64_t)rate);
    if (total == 0) {
        (void)snprintf(line, GB_PROGRESS_LINE, "%s  %s  %s/s", progress->label, done_text,
                       rate_text);
        return line;
    }
    double part = (double)gb_min(done, total) / (double)total;
    int filled = (int)(part * BAR_CELLS);
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = i < filled ? '#' : '.';
    }
    bar[BAR_CELLS] = '\0';
    char total_text[GB_UNITS_TEXT];
    char left_text[GB_UNITS_TEXT] = "?";
    (void)gb_units_format_size(total_text, sizeof(total_text), total);
    if (rate > 0) {
        /* Whole seconds, and never "0 ns". */
        uint64_t left_s = 1 + (uint64_t)((double)(total - gb_min(done, total)) / rate);
        (void)gb_units_format_duration(left_text, sizeof(left_text), left_s * 1000000000);
    }
    (void)snprintf(line, GB_PROGRESS_LINE, "%s [%s] %3d %%  %s of %s  %s/s  ETA %s",
                   progress->label, bar, (int)(part * 100), done_text, total_text, rate_text,
                   left_text);
    return line;
}

void gb_progress_add(struct gb_progress *progress, uint64_t bytes)
{
    (void)atomic_fetch_add_explicit(&progress->done_bytes, bytes, memory_order_relaxed);
    if (!progress->shown) {
        return;
    }
    uint64_t now_ns = gb_progress_now_ns();
    uint64_t drawn_ns = atomic_load_explicit(&progress->drawn_ns, memory_order_relaxed);
    if (now_ns < drawn_ns + REDRAW_NS ||
        !atomic_compare_exchange_strong_explicit(&progress->drawn_ns, &drawn_ns, now_ns,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return;
    }
    char line[GB_PROGRESS_LINE];
    (void)fprintf(stderr, "\r\033[K%s", gb_progress_format(line, progress, now_ns));
    (void)fflush(stderr);
}

void gb_progress_clear(const struct gb_progress *progress)
{
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
}
