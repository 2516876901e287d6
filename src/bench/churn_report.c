/* churn.json, churn.md and the table of a churn. */
#include "bench/churn.h"

#include "base/bits.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/explain.h"
#include "bench/report_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const phase_names[GB_CHURN_PHASES] = {"idle", "busy", "after"};

/* The files of any report are opened and closed by its directory alone. */
static struct gb_report files_of(const struct gb_churn_report *report)
{
    return (struct gb_report){.directory = report->options->out};
}

/* ---- churn.json ---------------------------------------------------------------------------- */

static void json_options(struct gb_json *json, const struct gb_churn_report *report)
{
    const struct gb_churn_options *options = report->options;
    gb_json_object(json, "run");
    gb_json_string(json, "command", options->command);
    gb_json_string(json, "corpus", report->corpus->description);
    gb_json_unsigned(json, "objects", report->corpus->count);
    gb_json_unsigned(json, "live_bytes", gb_churn_live_bytes(report->corpus));
    gb_json_unsigned(json, "size_bytes", options->size_bytes);
    gb_json_real(json, "fill", options->fill);
    gb_json_unsigned(json, "memory_bytes", options->memory_bytes);
    gb_json_unsigned(json, "write_rate_bytes_s", options->write_rate);
    gb_json_unsigned(json, "read_rate_s", options->read_rate);
    gb_json_unsigned(json, "busy_s", options->duration_s);
    gb_json_unsigned(json, "idle_s", options->idle_s);
    gb_json_unsigned(json, "rounds", options->rounds);
    gb_json_real(json, "age", options->age);
    gb_json_unsigned(json, "seed", options->seed);
    gb_json_bool(json, "evicts", options->evicts);
    gb_json_bool(json, "device_shared", report->device_shared);
    gb_json_end(json);
}

static void json_reads(struct gb_json *json, const struct gb_churn_result *result)
{
    gb_json_object(json, "reads");
    for (int i = 0; i < GB_CHURN_PHASES; i++) {
        const struct gb_churn_reads *reads = &result->reads[i];
        gb_json_object(json, phase_names[i]);
        gb_json_rounded(json, "seconds", reads->seconds, 3);
        gb_json_unsigned(json, "count", reads->count);
        gb_json_unsigned(json, "from_device", reads->disk_count);
        gb_json_unsigned(json, "misses", reads->misses);
        gb_json_rounded(json, "p50_us", reads->p50_us, 1);
        gb_json_rounded(json, "p99_us", reads->p99_us, 1);
        gb_json_rounded(json, "p999_us", reads->p999_us, 1);
        gb_json_rounded(json, "max_us", reads->max_us, 1);
        gb_json_rounded(json, "all_p99_us", reads->all_p99_us, 1);
        gb_json_rounded(json, "all_max_us", reads->all_max_us, 1);
        gb_json_rounded(json, "longest_gap_ms", reads->gap_ms, 3);
        gb_json_rounded(json, "cpu_seconds", reads->cpu_seconds, 3);
        gb_json_end(json);
    }
    gb_json_end(json);
    gb_json_rounded(json, "busy_p99_over_idle_p99", result->busy_ratio, 3);
}

static void json_writes(struct gb_json *json, const struct gb_churn_result *result)
{
    gb_json_object(json, "writes");
    gb_json_unsigned(json, "count", result->puts);
    gb_json_unsigned(json, "refused", result->refused);
    gb_json_rounded(json, "asked_mib_s", result->asked_mib_s, 3);
    gb_json_rounded(json, "written_mib_s", result->written_mib_s, 3);
    gb_json_rounded(json, "put_p50_us", result->put_p50_us, 1);
    gb_json_rounded(json, "put_p99_us", result->put_p99_us, 1);
    gb_json_rounded(json, "longest_put_ms", result->put_max_ms, 3);
    gb_json_rounded(json, "longest_gap_ms", result->put_gap_ms, 3);
    gb_json_end(json);
}

static void json_bytes(struct gb_json *json, const struct gb_churn_result *result)
{
    const struct gb_churn_outcome *outcome = result->outcome;
    const struct gb_churn_counts *written = &outcome->written;
    gb_json_object(json, "written");
    gb_json_unsigned(json, "user_bytes", written->user_bytes);
    gb_json_unsigned(json, "engine_user_bytes", written->engine_user_bytes);
    gb_json_unsigned(json, "engine_bytes", written->engine_bytes);
    gb_json_unsigned(json, "process_bytes", written->process_bytes);
    if (written->has_device) {
        gb_json_unsigned(json, "device_bytes", written->device_bytes);
    } else {
        gb_json_null(json, "device_bytes");
    }
    gb_json_rounded(json, "engine_amplification", result->engine_amplification, 4);
    gb_json_rounded(json, "process_amplification", result->process_amplification, 4);
    gb_json_rounded(json, "device_amplification", result->device_amplification, 4);
    gb_json_rounded(json, "engine_off_percent", 100 * result->engine_off, 3);
    gb_json_rounded(json, "device_off_percent", 100 * result->device_off, 3);
    gb_json_rounded(json, "settle_seconds", outcome->settle_seconds, 3);
    gb_json_bool(json, "settled", !outcome->unsettled);
    gb_json_end(json);
    gb_json_object(json, "space");
    gb_json_unsigned(json, "peak_file_bytes", outcome->disk_peak_bytes);
    gb_json_unsigned(json, "file_bytes", outcome->disk_bytes);
    gb_json_unsigned(json, "engine_file_bytes", written->disk_file_bytes);
    gb_json_unsigned(json, "engine_used_bytes", written->disk_used_bytes);
    gb_json_unsigned(json, "engine_live_bytes", written->live_bytes);
    gb_json_rounded(json, "peak_amplification", result->peak_amplification, 4);
    gb_json_rounded(json, "amplification", result->disk_amplification, 4);
    gb_json_rounded(json, "engine_amplification", result->engine_space, 4);
    gb_json_rounded(json, "file_off_percent", 100 * result->file_off, 3);
    gb_json_end(json);
}

static void json_timeline(struct gb_json *json, const struct gb_churn_store *store)
{
    gb_json_array(json, "timeline");
    for (uint64_t i = 0; i < store->seconds; i++) {
        const struct gb_churn_second *reads = &store->read_timeline.seconds[i];
        const struct gb_churn_second *writes = &store->write_timeline.seconds[i];
        gb_json_object(json, NULL);
        gb_json_string(json, "phase", phase_names[store->phases[i]]);
        gb_json_unsigned(json, "reads", reads->count);
        gb_json_rounded(json, "read_p99_us", (double)reads->p99_ns / 1e3, 1);
        gb_json_rounded(json, "read_max_us", (double)reads->most_ns / 1e3, 1);
        gb_json_rounded(json, "written_mib", (double)writes->bytes / (double)GB_MIB, 3);
        gb_json_rounded(json, "put_max_us", (double)writes->most_ns / 1e3, 1);
        gb_json_end(json);
    }
    gb_json_end(json);
}

static void json_engine(struct gb_json *json, const struct gb_churn_result *result)
{
    const struct gb_churn_outcome *outcome = result->outcome;
    const struct gb_churn_store *store = result->store;
    gb_json_object(json, NULL);
    gb_json_string(json, "name", result->name);
    gb_json_rounded(json, "fill_seconds", outcome->fill_seconds, 3);
    gb_json_unsigned(json, "age_bytes", outcome->age_bytes);
    gb_json_rounded(json, "age_seconds", outcome->age_seconds, 3);
    json_reads(json, result);
    json_writes(json, result);
    json_bytes(json, result);
    gb_json_unsigned(json, "rss_peak_bytes", outcome->rss_peak_bytes);
    gb_json_object(json, "checked");
    gb_json_unsigned(json, "objects", store->checked);
    gb_json_unsigned(json, "lost", store->lost);
    gb_json_unsigned(json, "wrong", store->wrong);
    gb_json_unsigned(json, "stale", store->stale);
    gb_json_end(json);
    json_timeline(json, store);
    gb_json_end(json);
}

static int write_json(const struct gb_churn_report *report, struct goblin_error *error)
{
    struct gb_report files = files_of(report);
    FILE *file = gb_report_create(&files, "churn.json", error);
    if (!file) {
        return -EIO;
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_object(&json, NULL);
    gb_report_machine(&json, report->options->out);
    gb_report_versions(&json, report->versions);
    json_options(&json, report);
    gb_json_array(&json, "engines");
    for (size_t i = 0; i < report->count; i++) {
        json_engine(&json, &report->results[i]);
    }
    gb_json_end(&json);
    gb_json_end(&json);
    (void)gb_json_finish(&json);
    return gb_report_finish(&files, file, "churn.json", error);
}

/* ---- churn.md ------------------------------------------------------------------------------ */

static void markdown_head(FILE *file, const struct gb_churn_report *report)
{
    const struct gb_churn_options *options = report->options;
    char size[GB_UNITS_TEXT];
    char live[GB_UNITS_TEXT];
    char memory[GB_UNITS_TEXT];
    char rate[GB_UNITS_TEXT];
    char reads[GB_UNITS_TEXT];
    gb_units_format_size(size, sizeof(size), options->size_bytes);
    gb_units_format_size(live, sizeof(live), gb_churn_live_bytes(report->corpus));
    gb_units_format_size(memory, sizeof(memory), options->memory_bytes);
    gb_units_format_size(rate, sizeof(rate), options->write_rate);
    gb_units_format_count(reads, sizeof(reads), options->read_rate);
    fprintf(file, "    %s\n\n", options->command);
    fprintf(file,
            "A store of %s holds %s, %.0f %% of it: %s. %s of memory for each engine. Before the "
            "first round %.2g of it all is overwritten flat out. ",
            size, live, 100 * options->fill, report->corpus->description, memory, options->age);
    fprintf(file,
            "One reader of random objects, %s%s, for %llu s alone, for %llu s beside a writer that "
            "overwrites random ones %s%s%s, and for %llu s after it, in %llu rounds in which the "
            "engines take turns.\n\n",
            options->read_rate ? reads : "one after the other",
            options->read_rate ? " a second" : "", (unsigned long long)options->idle_s,
            (unsigned long long)options->duration_s, options->write_rate ? "at " : "flat out",
            options->write_rate ? rate : "", options->write_rate ? " a second" : "",
            (unsigned long long)options->idle_s, (unsigned long long)options->rounds);
}

static void markdown_reads(FILE *file, const struct gb_churn_report *report)
{
    fprintf(file, "### The reader, µs, of reads that needed the device\n\n"
                  "| engine | phase | reads | of these from the device | p50 | p99 | p99.9 | max | "
                  "p99 / idle | longest gap ms | CPU s |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_result *result = &report->results[i];
        for (int phase = 0; phase < GB_CHURN_PHASES; phase++) {
            const struct gb_churn_reads *reads = &result->reads[phase];
            double idle = result->reads[GB_CHURN_IDLE].p99_us;
            char count[GB_UNITS_TEXT];
            fprintf(file,
                    "| %s | %s | %s | %.1f %% | %.0f | %.0f | %.0f | %.0f | %.2f × | %.1f | %.1f "
                    "|\n",
                    result->name, phase_names[phase],
                    gb_units_format_count(count, sizeof(count), reads->count),
                    reads->count ? 100 * (double)reads->disk_count / (double)reads->count : 0,
                    reads->p50_us, reads->p99_us, reads->p999_us, reads->max_us,
                    idle > 0 ? reads->p99_us / idle : 0, reads->gap_ms, reads->cpu_seconds);
        }
    }
}

static void markdown_writes(FILE *file, const struct gb_churn_report *report)
{
    fprintf(file,
            "\n### The writer\n\n"
            "| engine | asked MiB/s | written MiB/s | refused | put p50 µs | p99 µs | longest "
            "put ms | longest gap ms | fill s | ageing MiB/s | settling s |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_result *result = &report->results[i];
        const struct gb_churn_outcome *outcome = result->outcome;
        char asked[GB_UNITS_TEXT] = "all";
        char refused[GB_UNITS_TEXT];
        if (result->asked_mib_s > 0) {
            snprintf(asked, sizeof(asked), "%.1f", result->asked_mib_s);
        }
        fprintf(file,
                "| %s | %s | %.1f | %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.0f | %.1f%s |\n",
                result->name, asked, result->written_mib_s,
                gb_units_format_count(refused, sizeof(refused), result->refused),
                result->put_p50_us, result->put_p99_us, result->put_max_ms, result->put_gap_ms,
                outcome->fill_seconds, gb_report_mib_s(outcome->age_bytes, outcome->age_seconds),
                outcome->settle_seconds, outcome->unsettled ? " and not done" : "");
    }
}

static void percent(char *text, size_t len, double off)
{
    snprintf(text, len, "%+.1f %%", 100 * off);
}

static void markdown_bytes(FILE *file, const struct gb_churn_report *report)
{
    fprintf(file,
            "\n### Bytes\n\n"
            "| engine | write amplification: process | engine | off | device%s | off | disk at the "
            "most MiB | of the size | space amplification: at the most | settled | engine | its "
            "files off | peak RSS MiB |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            report->device_shared ? " (shared)" : "");
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_result *result = &report->results[i];
        const struct gb_churn_outcome *outcome = result->outcome;
        char device[GB_UNITS_TEXT] = "–";
        char offs[3][GB_UNITS_TEXT];
        percent(offs[0], sizeof(offs[0]), result->engine_off);
        percent(offs[1], sizeof(offs[1]), result->device_off);
        percent(offs[2], sizeof(offs[2]), result->file_off);
        if (outcome->written.has_device) {
            snprintf(device, sizeof(device), "%.2f", result->device_amplification);
        }
        fprintf(file,
                "| %s | %.2f | %.2f | %s | %s | %s | %.0f | %.0f %% | %.2f | %.2f | %.2f | %s | "
                "%.0f |\n",
                result->name, result->process_amplification, result->engine_amplification, offs[0],
                device, outcome->written.has_device ? offs[1] : "–",
                (double)outcome->disk_peak_bytes / (double)GB_MIB,
                100 * (double)outcome->disk_peak_bytes / (double)report->options->size_bytes,
                result->peak_amplification, result->disk_amplification, result->engine_space,
                offs[2], (double)outcome->rss_peak_bytes / (double)GB_MIB);
    }
}

static void markdown_notes(FILE *file, const struct gb_churn_report *report)
{
    fprintf(file,
            "\n- A read's time ends with its last byte; it begins when the read was due if the one "
            "before ended later than that. A gap is the longest time without a completed read or "
            "put, the writer's pauses included.\n"
            "- Bytes written are counted from the first overwrite until nothing had been written "
            "for half a second after the engine's barrier, and divided by keys and values "
            "overwritten: by the engine itself, by the kernel for its process, and by the block "
            "device for everybody%s.\n"
            "- Disk is what the files take, looked at ten times a second, divided by live keys and "
            "values (%llu bytes).\n"
            "- RocksDB writes without a log of its own, as Goblin with durability `none`; half of "
            "its memory is memtables, the other half block and blob cache; levels are dynamic, and "
            "blob files are collected by force beyond a quarter of garbage. It has no bound on its "
            "disk, so what it took is stated.\n",
            report->device_shared ? ", the system's own files among them" : "",
            (unsigned long long)gb_churn_live_bytes(report->corpus));
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_result *result = &report->results[i];
        const struct gb_churn_store *store = result->store;
        bool is_void = gb_churn_result_is_void(result, !report->options->evicts);
        fprintf(file,
                "- %s: %llu objects looked at in the end, %llu missing; %llu wrong and %llu stale "
                "answers in all.%s\n",
                result->name, (unsigned long long)store->checked, (unsigned long long)store->lost,
                (unsigned long long)store->wrong, (unsigned long long)store->stale,
                is_void ? " **This run is void.**" : "");
    }
}

static int write_markdown(const struct gb_churn_report *report, struct goblin_error *error)
{
    static const char *const plots[][2] = {{"churn_time", "Reads beside overwrites, over time"},
                                           {"churn_cdf", "Read latencies, idle and overwritten"}};
    struct gb_report files = files_of(report);
    FILE *file = gb_report_create(&files, "churn.md", error);
    if (!file) {
        return -EIO;
    }
    markdown_head(file, report);
    markdown_reads(file, report);
    markdown_writes(file, report);
    markdown_bytes(file, report);
    markdown_notes(file, report);
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s.svg", report->options->out, plots[i][0]);
        if (access(path, R_OK) == 0) {
            fprintf(file, "\n![%s](%s.svg)\n", plots[i][1], plots[i][0]);
        }
    }
    return gb_report_finish(&files, file, "churn.md", error);
}

/* ---- both, and the terminal ---------------------------------------------------------------- */

int gb_churn_report_write(const struct gb_churn_report *report, struct goblin_error *error)
{
    int rc = write_json(report, error);
    rc = rc < 0 ? rc : gb_churn_plots(report, error);
    return rc < 0 ? rc : write_markdown(report, error);
}

void gb_churn_report_print(const struct gb_churn_report *report, FILE *out)
{
    fprintf(out, "\n%-14s %9s %9s %7s %8s %8s %9s %8s %8s %8s %8s\n", "", "idle p99", "busy p99",
            "", "max", "read gap", "written", "put max", "written/", "off", "disk/");
    fprintf(out, "%-14s %9s %9s %7s %8s %8s %9s %8s %8s %8s %8s\n", "engine", "us", "us", "ratio",
            "ms", "ms", "MiB/s", "ms", "user", "%", "live");
    for (size_t i = 0; i < report->count; i++) {
        const struct gb_churn_result *result = &report->results[i];
        const struct gb_churn_reads *busy = &result->reads[GB_CHURN_BUSY];
        fprintf(out, "%-14s %9.0f %9.0f %7.2f %8.1f %8.1f %9.1f %8.1f %8.2f %8.1f %8.2f\n",
                result->name, result->reads[GB_CHURN_IDLE].p99_us, busy->p99_us, result->busy_ratio,
                busy->all_max_us / 1e3, busy->gap_ms, result->written_mib_s, result->put_max_ms,
                result->process_amplification, 100 * result->engine_off,
                result->peak_amplification);
    }
}
