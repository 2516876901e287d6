/* The JSON and the table of `goblin-bench kv`. */
#include "bench/kv.h"

#include "base/json.h"
#include "bench/explain.h"

#include <errno.h>
#include <string.h>

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static double per_second(const struct gb_kv_result *result)
{
    return result->seconds > 0 ? (double)result->ops / result->seconds : 0;
}

static double cpu_us(const struct gb_kv_result *result)
{
    static const double us_per_s = 1e6;
    return result->ops ? result->cpu_s * us_per_s / (double)result->ops : 0;
}

static void json_row(struct gb_json *json, const struct gb_kv_row *row)
{
    const struct gb_kv_result *result = &row->result;
    gb_json_object(json, NULL);
    gb_json_string(json, "engine", row->engine);
    gb_json_string(json, "version", row->version);
    gb_json_string(json, "workload", gb_kv_workload_names[row->workload]);
    gb_json_string(json, "step", row->step);
    gb_json_rounded(json, "seconds", result->seconds, 6);
    gb_json_unsigned(json, "ops", result->ops);
    gb_json_rounded(json, "qps", per_second(result), 1);
    gb_json_rounded(json, "p50_us", result->p50_us, 2);
    gb_json_rounded(json, "p99_us", result->p99_us, 2);
    gb_json_rounded(json, "p999_us", result->p999_us, 2);
    gb_json_rounded(json, "longest_gap_ms", result->gap_ms, 3);
    if (row->put_bytes) {
        gb_json_rounded(json, "write_amp", ratio(result->write_bytes, row->put_bytes), 3);
    } else {
        gb_json_null(json, "write_amp");
    }
    gb_json_rounded(json, "space_amp", ratio(result->disk_bytes, result->live_bytes), 3);
    gb_json_rounded(json, "cpu_us_per_op", cpu_us(result), 3);
    gb_json_unsigned(json, "entries", result->entries);
    gb_json_unsigned(json, "puts", result->puts);
    gb_json_rounded(json, "max_us", result->max_us, 1);
    gb_json_rounded(json, "settle_seconds", result->settle_s, 2);
    gb_json_bool(json, "settled", !result->unsettled);
    gb_json_unsigned(json, "memory_bytes", row->memory_bytes);
    gb_json_unsigned(json, "page_cache_bytes", row->page_cache_bytes);
    gb_json_end(json);
}

int gb_kv_report_json(const struct gb_kv_row *rows, size_t count, const char *path,
                      struct goblin_error *error)
{
    struct gb_json json;
    FILE *file = fopen(path, "we");
    if (!file) {
        int rc = -errno;
        gb_explain_set(error, "%s: %s", path, strerror(errno));
        return rc;
    }
    gb_json_init(&json, file);
    gb_json_array(&json, NULL);
    for (size_t i = 0; i < count; i++) {
        json_row(&json, &rows[i]);
    }
    gb_json_end(&json);
    int rc = gb_json_finish(&json);
    if (fclose(file) != 0 || rc < 0) {
        gb_explain_set(error, "%s: it could not be written whole", path);
        return -EIO;
    }
    return 0;
}

void gb_kv_report_print(const struct gb_kv_row *rows, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct gb_kv_row *row = &rows[i];
        const struct gb_kv_result *result = &row->result;
        if (i == 0 || rows[i - 1].workload != row->workload) {
            fprintf(out, "%s%-6s %-14s %-8s %-18s %11s %9s %9s %10s %8s %7s %7s %8s\n",
                    i ? "\n" : "", gb_kv_workload_names[row->workload], "step", "engine", "version",
                    "ops/s", "p50 us", "p99 us", "p99.9 us", "gap ms", "write", "space", "cpu us");
        }
        fprintf(out, "%-6s %-14s %-8s %-18s %11.0f %9.1f %9.1f %10.1f %8.1f %6.2fx %6.2fx %8.2f\n",
                "", row->step, row->engine, row->version, per_second(result), result->p50_us,
                result->p99_us, result->p999_us, result->gap_ms,
                ratio(result->write_bytes, row->put_bytes),
                ratio(result->disk_bytes, result->live_bytes), cpu_us(result));
    }
}
