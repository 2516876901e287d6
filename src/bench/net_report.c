/* The rows as JSON, as Markdown and as a table for a terminal. */
#include "bench/net.h"

#include "base/bits.h"
#include "base/json.h"
#include "base/units.h"
#include "bench/explain.h"
#include "bench/report_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static double us(double ns)
{
    return ns / 1e3;
}

static double quantile_us(const struct gb_histogram *histogram, double quantile)
{
    return us(gb_histogram_quantile(histogram, quantile));
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)GB_MIB;
}

/* Of one core, by all threads of the generator together. */
static double client_percent(const struct gb_net_row *row)
{
    const struct gb_net_tally *tally = &row->tally;
    return tally->seconds > 0 ? 100 * tally->client_cpu_s / tally->seconds : 0;
}

static double server_percent(const struct gb_net_row *row)
{
    const struct gb_net_tally *tally = &row->tally;
    return tally->seconds > 0 ? 100 * row->server_cpu_s / tally->seconds : 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_times(struct gb_json *json, const char *name, const struct gb_histogram *times)
{
    if (times->count == 0) {
        return;
    }
    gb_json_object(json, name);
    gb_json_unsigned(json, "count", times->count);
    gb_json_rounded(json, "mean", us(gb_histogram_mean(times)), 1);
    gb_json_rounded(json, "p50", quantile_us(times, 0.5), 1);
    gb_json_rounded(json, "p90", quantile_us(times, 0.9), 1);
    gb_json_rounded(json, "p99", quantile_us(times, 0.99), 1);
    gb_json_rounded(json, "p999", quantile_us(times, 0.999), 1);
    gb_json_rounded(json, "max", us((double)times->most), 1);
    gb_json_end(json);
}

static void json_counts(struct gb_json *json, const struct gb_net_tally *tally)
{
    gb_json_unsigned(json, "requests", tally->requests);
    gb_json_unsigned(json, "asked", tally->asked);
    gb_json_unsigned(json, "hits", tally->hits);
    gb_json_unsigned(json, "misses", tally->misses);
    gb_json_unsigned(json, "sets", tally->sets);
    gb_json_unsigned(json, "stored", tally->stored);
    gb_json_unsigned(json, "refilled", tally->refilled);
    gb_json_unsigned(json, "refused", tally->refused);
    gb_json_unsigned(json, "errors", tally->errors);
    gb_json_unsigned(json, "wrong", tally->wrong);
    gb_json_unsigned(json, "unanswered", tally->unanswered);
    gb_json_unsigned(json, "broken", tally->broken);
    gb_json_unsigned(json, "late", tally->late);
    gb_json_unsigned(json, "got_bytes", tally->got_bytes);
    gb_json_unsigned(json, "set_bytes", tally->set_bytes);
}

static void json_row(struct gb_json *json, const struct gb_net *net, const struct gb_net_row *row)
{
    double ratio = gb_net_row_ratio(net, row);
    gb_json_object(json, NULL);
    gb_json_string(json, "case", row->case_name);
    gb_json_string(json, "work", row->work);
    gb_json_string(json, "peer", row->peer);
    gb_json_unsigned(json, "turns", row->turns);
    gb_json_rounded(json, "seconds", row->tally.seconds, 3);
    gb_json_rounded(json, "ops_s", gb_net_row_ops(row), 1);
    gb_json_rounded(json, "ops_s_least", row->ops_least, 1);
    gb_json_rounded(json, "ops_s_most", row->ops_most, 1);
    gb_json_rounded(json, "mib_s", gb_net_row_mib_s(row), 2);
    if (ratio > 0) {
        gb_json_rounded(json, "goblin_over_this", ratio, 3);
    }
    gb_json_rounded(json, "server_cpu_s", row->server_cpu_s, 3);
    gb_json_rounded(json, "server_cpu_us_per_op", gb_net_row_cpu_us(row), 3);
    gb_json_rounded(json, "client_cpu_s", row->tally.client_cpu_s, 3);
    gb_json_unsigned(json, "rss_bytes", row->rss_bytes);
    gb_json_bool(json, "capped", row->is_capped);
    json_counts(json, &row->tally);
    if (row->is_checked) {
        gb_json_unsigned(json, "objects", row->objects);
        gb_json_unsigned(json, "lost", row->lost);
    }
    if (row->per_object_bytes > 0) {
        gb_json_rounded(json, "ram_per_object_bytes", row->per_object_bytes, 1);
    }
    json_times(json, "first_byte_us", &row->tally.first_ns);
    json_times(json, "get_us", &row->tally.get_ns);
    json_times(json, "set_us", &row->tally.set_ns);
    json_times(json, "from_sending_us", &row->tally.sent_ns);
    gb_json_end(json);
}

static void json_run(struct gb_json *json, const struct gb_net_options *options)
{
    gb_json_object(json, "run");
    gb_json_string(json, "command", options->command);
    gb_json_real(json, "scale", options->scale);
    gb_json_real(json, "zipf", options->zipf);
    gb_json_unsigned(json, "rounds", options->rounds);
    gb_json_real(json, "turn_s", options->duration_s);
    gb_json_unsigned(json, "generator_threads", options->threads);
    gb_json_unsigned(json, "server_threads", options->server_threads);
    gb_json_unsigned(json, "connections", options->connections);
    gb_json_unsigned(json, "pipeline_depth", options->depth);
    gb_json_bool(json, "pinned", options->pin);
    gb_json_unsigned(json, "seed", options->seed);
    gb_json_end(json);
}

int gb_net_report_json(const struct gb_net *net, const char *path, struct goblin_error *error)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        gb_explain_set(error, "--json %s: %s", path, strerror(errno));
        return -errno;
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_object(&json, NULL);
    gb_report_machine(&json, ".");
    json_run(&json, &net->options);
    gb_json_string(&json, "left_out", net->left_out);
    gb_json_array(&json, "rows");
    for (size_t i = 0; i < net->row_count; i++) {
        json_row(&json, net, net->rows[i]);
    }
    gb_json_end(&json);
    gb_json_end(&json);
    int rc = gb_json_finish(&json);
    rc = fclose(file) != 0 ? -EIO : rc;
    if (rc < 0) {
        gb_explain_set(error, "--json %s: not written in full", path);
    }
    return rc;
}

/* ---- Markdown ------------------------------------------------------------------------------ */

static void markdown_throughput(FILE *file, const struct gb_net *net, const char *name)
{
    fputs("| work | peer | per second | least and most of a turn | MiB/s | goblin is | "
          "server CPU µs each | server CPU % | client CPU % | RSS MiB |\n"
          "|---|---|---|---|---|---|---|---|---|---|\n",
          file);
    for (size_t i = 0; i < net->row_count; i++) {
        const struct gb_net_row *row = net->rows[i];
        char ratio[32] = "";
        if (strcmp(row->case_name, name) != 0) {
            continue;
        }
        if (gb_net_row_ratio(net, row) > 0) {
            snprintf(ratio, sizeof(ratio), "%.2f ×", gb_net_row_ratio(net, row));
        }
        fprintf(file,
                "| %s | %s%s | %.0f | %.0f – %.0f | %.1f | %s | %.1f | %.0f | %.0f | %.0f |\n",
                row->work, row->peer, row->is_capped ? ", capped" : "", gb_net_row_ops(row),
                row->ops_least, row->ops_most, gb_net_row_mib_s(row), ratio, gb_net_row_cpu_us(row),
                server_percent(row), client_percent(row), mib(row->rss_bytes));
    }
}

static void markdown_latency(FILE *file, const struct gb_net *net, const char *name)
{
    fprintf(file, "\nMicroseconds from when a request was due:\n\n"
                  "| work | peer | first byte: mean | p50 | p99 | get: p50 | p99 | p99.9 | max | "
                  "set: p50 | p99 | p99.9 | max | from sending: p99 |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < net->row_count; i++) {
        const struct gb_net_row *row = net->rows[i];
        const struct gb_net_tally *tally = &row->tally;
        if (strcmp(row->case_name, name) != 0) {
            continue;
        }
        fprintf(file, "| %s | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f ", row->work,
                row->peer, us(gb_histogram_mean(&tally->first_ns)),
                quantile_us(&tally->first_ns, 0.5), quantile_us(&tally->first_ns, 0.99),
                quantile_us(&tally->get_ns, 0.5), quantile_us(&tally->get_ns, 0.99),
                quantile_us(&tally->get_ns, 0.999), quantile_us(&tally->get_ns, 1));
        fprintf(file, "| %.0f | %.0f | %.0f | %.0f | %.0f |\n", quantile_us(&tally->set_ns, 0.5),
                quantile_us(&tally->set_ns, 0.99), quantile_us(&tally->set_ns, 0.999),
                quantile_us(&tally->set_ns, 1), quantile_us(&tally->sent_ns, 0.99));
    }
}

static void markdown_counts(FILE *file, const struct gb_net *net, const char *name)
{
    fprintf(file, "\n| work | peer | keys asked for | hits | misses | sets | stored | set again | "
                  "refused | "
                  "errors | wrong | unanswered | broken | late | lost | RAM per object |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < net->row_count; i++) {
        const struct gb_net_row *row = net->rows[i];
        const struct gb_net_tally *tally = &row->tally;
        char lost[32] = "";
        char ram[32] = "";
        if (strcmp(row->case_name, name) != 0) {
            continue;
        }
        if (row->is_checked) {
            snprintf(lost, sizeof(lost), "%llu", (unsigned long long)row->lost);
        }
        if (row->per_object_bytes > 0) {
            snprintf(ram, sizeof(ram), "%.0f B", row->per_object_bytes);
        }
        const uint64_t counts[] = {
            tally->asked,  tally->hits,       tally->misses,  tally->sets,
            tally->stored, tally->refilled,   tally->refused, tally->errors,
            tally->wrong,  tally->unanswered, tally->broken,  tally->late,
        };
        fprintf(file, "| %s | %s ", row->work, row->peer);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            fprintf(file, "| %llu ", (unsigned long long)counts[c]);
        }
        fprintf(file, "| %s | %s |\n", lost, ram);
    }
}

static void markdown_plot(FILE *file, const char *out, const char *title, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s.svg", out, name);
    if (access(path, R_OK) == 0) {
        fprintf(file, "\n![%s](%s.svg)\n", title, name);
    }
}

static void markdown_case(FILE *file, const struct gb_net *net, const struct gb_net_case *of)
{
    char name[64];
    fprintf(file, "\n## %s: %s\n\n", of->name, of->help);
    markdown_throughput(file, net, of->name);
    markdown_latency(file, net, of->name);
    markdown_counts(file, net, of->name);
    snprintf(name, sizeof(name), "net_%s", of->name);
    markdown_plot(file, net->options.out, "Throughput", name);
    snprintf(name, sizeof(name), "net_%s_latency", of->name);
    markdown_plot(file, net->options.out, "Latency", name);
}

int gb_net_report_markdown(const struct gb_net *net, struct goblin_error *error)
{
    const struct gb_net_options *options = &net->options;
    const struct gb_report files = {.directory = options->out};
    FILE *file = gb_report_create(&files, "net.md", error);
    if (!file) {
        return -EIO;
    }
    fprintf(file, "# Servers side by side\n\n    %s\n\n", options->command);
    fprintf(
        file,
        "Every work is done by one peer after the other, in %llu rounds of %.1f s; servers have "
        "%llu threads, the load generator has %llu, over %llu connections on the loopback. An "
        "operation is a key got or set. A get's time ends with the last byte, and begins when "
        "it was due: in a closed loop that is when it was sent, in an open loop when its turn "
        "had come. CPU is of a server and its children; in an open loop the generator's own "
        "delay is part of every peer's time.\n",
        (unsigned long long)options->rounds, options->duration_s,
        (unsigned long long)options->server_threads, (unsigned long long)options->threads,
        (unsigned long long)options->connections);
    if (net->left_out[0]) {
        fprintf(file, "\nLeft out: %s.\n", net->left_out);
    }
    for (size_t i = 0; i < options->case_count; i++) {
        markdown_case(file, net, options->cases[i]);
    }
    return gb_report_finish(&files, file, "net.md", error);
}

/* ---- for a terminal ------------------------------------------------------------------------ */

static void print_row(const struct gb_net *net, const struct gb_net_row *row, FILE *out)
{
    const struct gb_net_tally *tally = &row->tally;
    const struct gb_histogram *last = tally->get_ns.count > 0 ? &tally->get_ns : &tally->set_ns;
    double ratio = gb_net_row_ratio(net, row);
    char text[32] = "";
    if (ratio > 0) {
        snprintf(text, sizeof(text), "%.2f", ratio);
    }
    fprintf(out, "%-9s %-20s %-10s %9.0f %8.1f %6s %8.0f %8.0f %8.0f %8.0f", row->case_name,
            row->work, row->peer, gb_net_row_ops(row), gb_net_row_mib_s(row), text,
            us(gb_histogram_mean(&tally->first_ns)), quantile_us(&tally->first_ns, 0.99),
            quantile_us(last, 0.5), quantile_us(last, 0.99));
    fprintf(out, " %8.1f %7.0f %7llu %7llu %5llu", gb_net_row_cpu_us(row), mib(row->rss_bytes),
            (unsigned long long)tally->misses, (unsigned long long)tally->refused,
            (unsigned long long)tally->wrong);
    if (row->is_checked) {
        fprintf(out, "  lost %llu of %llu", (unsigned long long)row->lost,
                (unsigned long long)row->objects);
    }
    if (row->per_object_bytes > 0) {
        fprintf(out, ", %.0f B of RAM each", row->per_object_bytes);
    }
    fputc('\n', out);
}

void gb_net_report_print(const struct gb_net *net, FILE *out)
{
    fprintf(out, "%-9s %-20s %-10s %9s %8s %6s %8s %8s %8s %8s %8s %7s %7s %7s %5s\n", "case",
            "work", "peer", "op/s", "MiB/s", "goblin", "first us", "p99", "last p50", "p99",
            "CPU us", "RSS MiB", "misses", "refused", "wrong");
    for (size_t i = 0; i < net->row_count; i++) {
        print_row(net, net->rows[i], out);
    }
}
