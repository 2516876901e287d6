/* summary.json and metadata.json: see report.h. */
#include "bench/report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/json.h"
#include "bench/explain.h"
#include "bench/report_parts.h"

void gb_report_latency(const struct gb_histogram *histogram_ns, struct gb_latency *out)
{
    out->mean_us = gb_histogram_mean(histogram_ns) / 1e3;
    out->p50_us = gb_histogram_quantile(histogram_ns, 0.5) / 1e3;
    out->p99_us = gb_histogram_quantile(histogram_ns, 0.99) / 1e3;
    out->p999_us = gb_histogram_quantile(histogram_ns, 0.999) / 1e3;
}

double gb_report_mib_s(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / (double)GB_MIB / seconds : 0;
}

FILE *gb_report_create(const struct gb_report *report, const char *name, struct goblin_error *error)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", report->directory, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        gb_explain_set(error, "%s: %s", path, strerror(errno));
    }
    return file;
}

int gb_report_finish(const struct gb_report *report, FILE *file, const char *name,
                     struct goblin_error *error)
{
    bool is_bad = ferror(file) != 0;
    if (fclose(file) != 0 || is_bad) {
        gb_explain_set(error, "%s/%s: not written in full", report->directory, name);
        return -EIO;
    }
    return 0;
}

static void write_latency(struct gb_json *json, const char *name, const struct gb_latency *latency,
                          bool has_p999)
{
    gb_json_object(json, name);
    gb_json_rounded(json, "mean", latency->mean_us, 3);
    gb_json_rounded(json, "p50", latency->p50_us, 3);
    gb_json_rounded(json, "p99", latency->p99_us, 3);
    if (has_p999) {
        gb_json_rounded(json, "p999", latency->p999_us, 3);
    }
    gb_json_end(json);
}

static void write_link(struct gb_json *json, const struct gb_link *link)
{
    gb_json_object(json, "link");
    gb_json_unsigned(json, "rate_bps", link->rate_bps);
    gb_json_rounded(json, "storage_s", (double)link->storage_ns / 1e9, 9);
    gb_json_rounded(json, "wire_s", (double)link->wire_ns / 1e9, 9);
    gb_json_rounded(json, "overlap_s", (double)gb_link_overlap_ns(link) / 1e9, 9);
    gb_json_rounded(json, "total_s", (double)link->total_ns / 1e9, 9);
    gb_json_rounded(json, "mib_s", gb_link_mib_s(link), 3);
    gb_json_end(json);
}

static void write_engine(struct gb_json *json, const struct gb_engine_result *engine)
{
    gb_json_object(json, NULL);
    gb_json_string(json, "name", engine->name);
    gb_json_unsigned(json, "objects", engine->objects);
    gb_json_unsigned(json, "bytes", engine->bytes);
    gb_json_rounded(json, "populate_seconds", engine->populate_seconds, 6);
    gb_json_rounded(json, "populate_mib_s",
                    gb_report_mib_s(engine->bytes, engine->populate_seconds), 3);
    gb_json_rounded(json, "barrier_seconds", engine->barrier_seconds, 6);
    gb_json_unsigned(json, "requests", engine->requests);
    gb_json_unsigned(json, "replay_bytes", engine->replay_bytes);
    gb_json_rounded(json, "replay_seconds", engine->replay_seconds, 6);
    gb_json_rounded(json, "replay_mib_s",
                    gb_report_mib_s(engine->replay_bytes, engine->replay_seconds), 3);
    write_latency(json, "ttfb_us", &engine->ttfb, false);
    write_latency(json, "ttlb_us", &engine->ttlb, true);
    write_latency(json, "disk_ttlb_us", &engine->disk_ttlb, false);
    gb_json_unsigned(json, "device_reads", engine->device_reads);
    gb_json_unsigned(json, "device_read_bytes", engine->device_read_bytes);
    gb_json_unsigned(json, "device_write_bytes", engine->device_write_bytes);
    gb_json_unsigned(json, "rss_peak_bytes", engine->rss_peak_bytes);
    gb_json_unsigned(json, "memory_budget_bytes", engine->memory_budget_bytes);
    write_link(json, &engine->link);
    gb_json_end(json);
}

int gb_report_write_summary(const struct gb_report *report, struct goblin_error *error)
{
    FILE *file = gb_report_create(report, "summary.json", error);
    if (file == NULL) {
        return -EIO;
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_object(&json, NULL);
    gb_json_array(&json, "engines");
    for (size_t i = 0; i < report->engine_count; i++) {
        write_engine(&json, &report->engines[i]);
    }
    gb_json_end(&json);
    gb_json_end(&json);
    (void)gb_json_finish(&json);
    return gb_report_finish(report, file, "summary.json", error);
}

/* The first "model name" of /proc/cpuinfo, or "unknown". */
static void read_cpu_model(char *model, size_t model_bytes)
{
    (void)snprintf(model, model_bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value != NULL) {
            value[strcspn(value, "\n")] = '\0';
            (void)snprintf(model, model_bytes, "%s", value + (value[1] == ' ' ? 2 : 1));
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void gb_report_machine(struct gb_json *json, const char *directory)
{
    char model[256];
    struct utsname system = {0};
    struct sysinfo memory = {0};
    struct statfs files = {0};
    read_cpu_model(model, sizeof(model));
    (void)uname(&system);
    (void)sysinfo(&memory);
    (void)statfs(directory, &files);
    gb_json_object(json, "machine");
    gb_json_string(json, "kernel", system.release);
    gb_json_string(json, "architecture", system.machine);
    gb_json_string(json, "cpu", model);
    gb_json_signed(json, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    gb_json_unsigned(json, "memory_bytes", (uint64_t)memory.totalram * memory.mem_unit);
    char magic[24];
    (void)snprintf(magic, sizeof(magic), "0x%lx", (unsigned long)files.f_type);
    gb_json_string(json, "results_file_system", magic);
    gb_json_end(json);
}

static void write_run(struct gb_json *json, const struct gb_report *report)
{
    char when[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) {
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    gb_json_object(json, "run");
    gb_json_string(json, "ended", when);
    gb_json_string(json, "command", report->command != NULL ? report->command : "");
    gb_json_string(json, "corpus", report->corpus != NULL ? report->corpus : "");
    gb_json_real(json, "scale", report->scale);
    gb_json_real(json, "zipf_exponent", report->zipf_exponent);
    gb_json_unsigned(json, "seed", report->seed);
    gb_json_unsigned(json, "request_bytes", report->request_bytes);
    gb_json_end(json);
}

void gb_report_versions(struct gb_json *json, const char *const *versions)
{
    gb_json_object(json, "versions");
    gb_json_string(json, "compiler", __VERSION__);
    for (; versions != NULL && versions[0] != NULL; versions += 2) {
        gb_json_string(json, versions[0], versions[1] != NULL ? versions[1] : "unknown");
    }
    gb_json_end(json);
}

/* What was measured and is not in the summary, whose fields are fixed. */
static void write_extras(struct gb_json *json, const struct gb_report *report)
{
    gb_json_array(json, "engines");
    for (size_t i = 0; i < report->engine_count; i++) {
        const struct gb_engine_result *engine = &report->engines[i];
        gb_json_object(json, NULL);
        gb_json_string(json, "name", engine->name);
        gb_json_unsigned(json, "disk_requests", engine->disk_requests);
        gb_json_unsigned(json, "misses", engine->misses);
        gb_json_unsigned(json, "verify_failures", engine->verify_failures);
        gb_json_unsigned(json, "verified_bytes", engine->verified_bytes);
        gb_json_rounded(json, "reopen_seconds", engine->reopen_seconds, 6);
        gb_json_rounded(json, "warm_seconds", engine->warm_seconds, 6);
        gb_json_unsigned(json, "rss_populate_bytes", engine->rss_populate_bytes);
        gb_json_unsigned(json, "rss_replay_bytes", engine->rss_replay_bytes);
        gb_json_unsigned(json, "replay_write_bytes", engine->replay_write_bytes);
        gb_json_unsigned(json, "promotions", engine->promotions);
        gb_json_unsigned(json, "arena_moved_bytes", engine->arena_moved_bytes);
        gb_json_rounded(json, "second_half_seconds", engine->second_half_seconds, 6);
        write_latency(json, "disk_ttfb_us", &engine->disk_ttfb, false);
        gb_json_end(json);
    }
    gb_json_end(json);
    const struct gb_yardsticks *yard = &report->yardsticks;
    gb_json_object(json, "yardsticks");
    gb_json_rounded(json, "null_populate_mib_s", yard->null_populate_mib_s, 3);
    gb_json_rounded(json, "null_request_us", yard->null_request_us, 3);
    gb_json_rounded(json, "fio_write_mib_s", yard->fio_write_mib_s, 3);
    gb_json_rounded(json, "fio_read_us", yard->fio_read_us, 3);
    gb_json_rounded(json, "copy_us", yard->copy_us, 3);
    gb_json_rounded(json, "fixed_device_seconds", yard->fixed_device_seconds, 6);
    gb_json_rounded(json, "bound_device_seconds", yard->bound_device_seconds, 6);
    gb_json_rounded(json, "bound_seconds", yard->bound_seconds, 6);
    gb_json_rounded(json, "bound_half_seconds", yard->bound_half_seconds, 6);
    gb_json_unsigned(json, "bound_floor_bytes", yard->bound_floor_bytes);
    gb_json_unsigned(json, "bound_whole_objects", yard->bound_whole_objects);
    gb_json_end(json);
    gb_json_array(json, "notes");
    for (size_t i = 0; i < report->note_count; i++) {
        gb_json_string(json, NULL, report->notes[i]);
    }
    gb_json_end(json);
}

int gb_report_write_metadata(const struct gb_report *report, const char *const *versions,
                             struct goblin_error *error)
{
    FILE *file = gb_report_create(report, "metadata.json", error);
    if (file == NULL) {
        return -EIO;
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_object(&json, NULL);
    gb_report_machine(&json, report->directory);
    write_run(&json, report);
    gb_report_versions(&json, versions);
    write_extras(&json, report);
    gb_json_end(&json);
    (void)gb_json_finish(&json);
    return gb_report_finish(report, file, "metadata.json", error);
}

int gb_report_write(const struct gb_report *report, const char *const *versions,
                    struct goblin_error *error)
{
    int result = gb_report_write_summary(report, error);
    if (result == 0) {
        result = gb_report_write_metadata(report, versions, error);
    }
    if (result == 0) {
        result = gb_report_write_plots(report, error);
    }
    return result < 0 ? result : gb_report_write_markdown(report, error);
}
