/* Health, readiness, metrics, and the page that draws them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/stats.h>

#include "server/conn.h"
#include "server/http_internal.h"
#include "server/server.h"

/* ---- health -------------------------------------------------------------------------------- */

enum MHD_Result gb_http_health(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    return gb_http_answer_text(conn, 200, "ok");
}

enum MHD_Result gb_http_readiness(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    bool ready = gb_server_ready(conn->http->loop->server) && !conn->http->loop->draining;
    return ready ? gb_http_answer_text(conn, 200, "ready")
                 : gb_http_answer_text(conn, 503, "not ready");
}

/* ---- metrics, in Prometheus' text format, version 0.0.4 -------------------------------------- */

static void put_head(FILE *out, const char *prefix, const char *name, const char *help,
                     const char *type)
{
    (void)fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, type);
}

static void put_store(FILE *out, struct goblin *store)
{
    struct goblin_stats stats;
    size_t count = 0;
    const struct goblin_stats_field *fields = goblin_stats_fields(&count);
    goblin_stats(store, &stats);
    for (size_t i = 0; i < count; i++) {
        char name[128];
        uint64_t value = 0;
        memcpy(&value, (const char *)&stats + fields[i].offset, sizeof(value));
        (void)snprintf(name, sizeof(name), "%s%s", fields[i].name,
                       fields[i].counter ? "_total" : "");
        put_head(out, "goblin_", name, fields[i].help, fields[i].counter ? "counter" : "gauge");
        (void)fprintf(out, "goblin_%s %" PRIu64 "\n", name, value);
    }
}

static void put_gauges(FILE *out, struct gb_server *server)
{
    struct gb_server_gauges gauges;
    gb_server_read_gauges(server, &gauges);
#define GB_X(name, help)                                                                           \
    put_head(out, "goblin_server_", #name, help, "gauge");                                         \
    (void)fprintf(out, "goblin_server_" #name " %" PRIu64 "\n", gauges.name);
    GB_SERVER_GAUGES(GB_X)
#undef GB_X
    put_head(out, "goblin_server_", "uptime_seconds", "since the server started", "gauge");
    (void)fprintf(out, "goblin_server_uptime_seconds %.3f\n",
                  (double)gb_server_uptime_ms(server) / 1000);
}

static void put_counters(FILE *out, const struct gb_metrics_snapshot *snapshot)
{
    static const char *const ends[] = {
#define GB_X(name) #name,
        GB_CONN_ENDS(GB_X)
#undef GB_X
    };
    for (size_t i = 0; i < GB_METRICS_COUNTER_COUNT; i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%s_total", gb_metrics_counter_names[i].name);
        put_head(out, "goblin_server_", name, gb_metrics_counter_names[i].help, "counter");
        (void)fprintf(out, "goblin_server_%s %" PRIu64 "\n", name, snapshot->counters[i]);
    }
    put_head(out, "goblin_server_", "closed_total", "connections closed, by why", "counter");
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)fprintf(out, "goblin_server_closed_total{why=\"%s\"} %" PRIu64 "\n", ends[i],
                      snapshot->ends[i]);
    }
}

/* One series; a bound per factor of two is enough to be scraped. */
static void put_times(FILE *out, const char *labels, const struct gb_metrics_times *times)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < GB_METRICS_BUCKETS; i++) {
        uint64_t bound_ns = gb_metrics_bound_ns(i);
        sum += times->buckets[i];
        if (bound_ns != UINT64_MAX && i % GB_METRICS_STEPS == 0) {
            (void)fprintf(out, "goblin_request_seconds_bucket{%s,le=\"%.9g\"} %" PRIu64 "\n",
                          labels, (double)bound_ns / 1e9, sum);
        }
    }
    (void)fprintf(out,
                  "goblin_request_seconds_bucket{%s,le=\"+Inf\"} %" PRIu64
                  "\ngoblin_request_seconds_sum{%s} %.9f\ngoblin_request_seconds_count{%s} %" PRIu64
                  "\n",
                  labels, sum, labels, (double)times->sum_ns / 1e9, labels, sum);
}

static void put_latencies(FILE *out, const struct gb_metrics_snapshot *snapshot)
{
    put_head(out, "goblin_", "request_seconds", "time from a request to its answer", "histogram");
    for (size_t op = 0; op < GB_METRICS_OP_COUNT; op++) {
        for (size_t tier = 0; tier < GB_METRICS_TIER_COUNT; tier++) {
            const struct gb_metrics_times *times = &snapshot->latency[op][tier];
            if (times->count > 0) {
                char labels[96];
                (void)snprintf(labels, sizeof(labels), "op=\"%s\",tier=\"%s\"",
                               gb_metrics_op_names[op].name, gb_metrics_tier_names[tier].name);
                put_times(out, labels, times);
            }
        }
    }
}

static int write_metrics(struct gb_server *server, char **text, size_t *len)
{
    struct gb_metrics_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    FILE *out = snapshot != NULL ? open_memstream(text, len) : NULL;
    if (out == NULL) {
        free(snapshot);
        return -1;
    }
    gb_server_sum_metrics(server, snapshot);
    put_store(out, gb_server_store(server));
    put_gauges(out, server);
    put_counters(out, snapshot);
    put_latencies(out, snapshot);
    free(snapshot);
    return fclose(out);
}

enum MHD_Result gb_http_metrics(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    char *text = NULL;
    size_t len = 0;
    if (write_metrics(conn->http->loop->server, &text, &len) != 0) {
        free(text);
        return gb_http_answer_text(conn, 503, "no memory");
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
    }
    gb_http_add_field(response, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    gb_http_add_field(response, "Cache-Control", "no-store");
    conn->request.bytes_out = len;
    return gb_http_answer(conn, 200, response);
}

/* ---- the page ------------------------------------------------------------------------------ */

/* It holds no data: those it asks /metrics for, which may want a token. */
enum MHD_Result gb_http_status(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    /* MHD does not write to persistent memory. */
    void *page = (void *)(uintptr_t)gb_http_page;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(gb_http_page_len, page, MHD_RESPMEM_PERSISTENT);
    gb_http_add_field(response, "Content-Type", "text/html; charset=utf-8");
    gb_http_add_field(response, "Cache-Control", "no-cache");
    gb_http_add_field(response, "Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                      "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
                      "form-action 'none'");
    gb_http_add_field(response, "X-Content-Type-Options", "nosniff");
    conn->request.bytes_out = gb_http_page_len;
    return gb_http_answer(conn, 200, response);
}
