/* report.md: the figures as tables, the plots beneath. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/units.h"
#include "bench/report_parts.h"

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)GB_MIB;
}

static void write_run(FILE *file, const struct gb_report *report)
{
    (void)fprintf(file, "# Object-cache study\n\n");
    if (report->corpus != NULL) {
        (void)fprintf(file, "Corpus: %s (scale %g, seed %llu).\n\n", report->corpus, report->scale,
                      (unsigned long long)report->seed);
    }
    if (report->command != NULL) {
        (void)fprintf(file, "```\n%s\n```\n\n", report->command);
    }
}

/* What the others are held against: rocksdb as the study ran it, else the first that stores. */
static const struct gb_engine_result *find_base(const struct gb_report *report)
{
    const struct gb_engine_result *base = NULL;
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        if (strcmp(engine->name, "rocksdb") == 0) {
            return engine;
        }
        if (base == NULL && engine->device_write_bytes > 0) {
            base = engine;
        }
    }
    return base != NULL ? base : &report->engines[0];
}

static void write_throughput(FILE *file, const struct gb_report *report)
{
    const struct gb_engine_result *first = find_base(report);
    (void)fprintf(file,
                  "## Population and replay\n\n"
                  "| engine | populate MiB/s | seconds | of these barrier | replay MiB/s | "
                  "seconds | second half | against %s |\n|---|---|---|---|---|---|---|---|\n",
                  first->name);
    double base = gb_report_mib_s(first->replay_bytes, first->replay_seconds);
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        double replay = gb_report_mib_s(engine->replay_bytes, engine->replay_seconds);
        (void)fprintf(file, "| %s | %.1f | %.2f | %.2f | %.1f | %.2f | %.2f | %.2f × |\n",
                      engine->name, gb_report_mib_s(engine->bytes, engine->populate_seconds),
                      engine->populate_seconds, engine->barrier_seconds, replay,
                      engine->replay_seconds, engine->second_half_seconds,
                      base > 0 ? replay / base : 0);
    }
}

static void write_latencies(FILE *file, const struct gb_report *report)
{
    (void)fprintf(file, "\n## Time to first and to last byte, µs\n\n"
                        "| engine | first: mean | p50 | p99 | last: mean | p50 | p99 | p99.9 | "
                        "from disk, first: mean | last: mean | p50 | p99 | share from disk |\n"
                        "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        double share = engine->requests > 0
                           ? 100 * (double)engine->disk_requests / (double)engine->requests
                           : 0;
        (void)fprintf(file,
                      "| %s | %.2f | %.2f | %.2f | %.1f | %.1f | %.1f | %.1f | %.2f | %.1f | %.1f "
                      "| %.1f | %.1f %% |\n",
                      engine->name, engine->ttfb.mean_us, engine->ttfb.p50_us, engine->ttfb.p99_us,
                      engine->ttlb.mean_us, engine->ttlb.p50_us, engine->ttlb.p99_us,
                      engine->ttlb.p999_us, engine->disk_ttfb.mean_us, engine->disk_ttlb.mean_us,
                      engine->disk_ttlb.p50_us, engine->disk_ttlb.p99_us, share);
    }
}

static void write_resources(FILE *file, const struct gb_report *report)
{
    (void)fprintf(file, "\n## Memory and device\n\n"
                        "| engine | budget MiB | peak RSS MiB | device reads | read MiB | written "
                        "MiB | written / user bytes | misses | wrong bytes |\n"
                        "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        char reads[GB_UNITS_TEXT];
        char misses[GB_UNITS_TEXT];
        double amplification =
            engine->bytes > 0 ? (double)engine->device_write_bytes / (double)engine->bytes : 0;
        (void)fprintf(file, "| %s | %.0f | %.0f | %s | %.0f | %.0f | %.3f | %s | %s |\n",
                      engine->name, mib(engine->memory_budget_bytes), mib(engine->rss_peak_bytes),
                      gb_units_format_count(reads, sizeof(reads), engine->device_reads),
                      mib(engine->device_read_bytes), mib(engine->device_write_bytes),
                      amplification, gb_units_format_count(misses, sizeof(misses), engine->misses),
                      engine->verify_failures == 0 ? "none" : "**YES: this run is void**");
    }
}

static void write_link(FILE *file, const struct gb_report *report)
{
    char rate[GB_UNITS_TEXT];
    const struct gb_link *first = &report->engines[0].link;
    if (first->rate_bps == 0) {
        return;
    }
    (void)fprintf(file,
                  "\n## Behind an idealised link of %s (limit %.2f MiB/s)\n\n"
                  "| engine | storage s | wire s | overlap s | total s | MiB/s | of the "
                  "limit |\n|---|---|---|---|---|---|---|\n",
                  gb_units_format_rate(rate, sizeof(rate), first->rate_bps),
                  gb_link_wire_mib_s(first));
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_link *link = &report->engines[i].link;
        (void)fprintf(file, "| %s | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f %% |\n",
                      report->engines[i].name, (double)link->storage_ns / 1e9,
                      (double)link->wire_ns / 1e9, (double)gb_link_overlap_ns(link) / 1e9,
                      (double)link->total_ns / 1e9, gb_link_mib_s(link),
                      100 * gb_link_mib_s(link) / gb_link_wire_mib_s(first));
    }
}

static void write_row(FILE *file, const char *what, double value, const char *unit)
{
    if (value > 0) {
        (void)fprintf(file, "| %s | %.2f %s |\n", what, value, unit);
    }
}

static void write_yardsticks(FILE *file, const struct gb_yardsticks *yard)
{
    (void)fprintf(file, "\n## Yardsticks\n\n| what | figure |\n|---|---|\n");
    write_row(file, "the harness alone, populating", yard->null_populate_mib_s, "MiB/s");
    write_row(file, "the harness alone, per request", yard->null_request_us, "µs");
    write_row(file, "fio, direct sequential writes", yard->fio_write_mib_s, "MiB/s");
    write_row(file, "control, direct reads of the same tails, mean", yard->fio_read_us, "µs");
    write_row(file, "bare copy of the heads, mean", yard->copy_us, "µs");
    write_row(file, "predicted device time, fixed heads", yard->fixed_device_seconds, "s");
    write_row(file, "predicted device time, offline bound", yard->bound_device_seconds, "s");
    write_row(file, "offline bound, resident part included", yard->bound_seconds, "s");
    write_row(file, "the same, second half of the schedule", yard->bound_half_seconds, "s");
    if (yard->bound_floor_bytes > 0) {
        (void)fprintf(file, "| objects whole in RAM under the bound, floor %.1f KiB | %llu |\n",
                      (double)yard->bound_floor_bytes / (double)GB_KIB,
                      (unsigned long long)yard->bound_whole_objects);
    }
}

static void write_plots(FILE *file, const struct gb_report *report)
{
    static const char *const plots[][2] = {
        {"latency_cdf", "Latency distributions"}, {"first_last", "First byte against last byte"},
        {"throughput", "Throughput over time"},   {"rss", "RSS against budget"},
        {"link", "Idealised link over rates"},
    };
    bool has_title = false;
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s.svg", report->directory, plots[i][0]);
        if (access(path, R_OK) == 0) {
            (void)fprintf(file, "%s![%s](%s.svg)\n\n", has_title ? "" : "\n## Plots\n\n",
                          plots[i][1], plots[i][0]);
            has_title = true;
        }
    }
}

int gb_report_write_markdown(const struct gb_report *report, struct goblin_error *error)
{
    FILE *file = gb_report_create(report, "report.md", error);
    if (file == NULL) {
        return -EIO;
    }
    write_run(file, report);
    if (report->engine_count > 0) {
        write_throughput(file, report);
        write_latencies(file, report);
        write_resources(file, report);
        write_link(file, report);
    }
    write_yardsticks(file, &report->yardsticks);
    if (report->note_count > 0) {
        (void)fprintf(file, "\n## Notes\n\n");
    }
    for (size_t i = 0; i < report->note_count; i++) {
        (void)fprintf(file, "- %s\n", report->notes[i]);
    }
    write_plots(file, report);
    return gb_report_finish(report, file, "report.md", error);
}
