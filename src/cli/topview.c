/* The lines of goblin top. */
#include "cli/topview.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define BAR_CELLS    24
#define SERIES_BYTES 160u

struct view {
    FILE *out;
    const char *now;
    const char *before; /* NULL: from zero */
    double seconds;
};

double gb_topview_value(const char *text, const char *series)
{
    const size_t len = strlen(series);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, series, len) == 0 && line[len] == ' ') {
            return strtod(line + len + 1, NULL);
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return 0;
}

/* What was added since the older text. */
static double grown(const struct view *view, const char *series)
{
    double before = view->before == NULL ? 0 : gb_topview_value(view->before, series);
    double now = gb_topview_value(view->now, series);
    return now > before ? now - before : 0; /* another server has begun at zero */
}

static double rate(const struct view *view, const char *series)
{
    return view->seconds > 0 ? grown(view, series) / view->seconds : 0;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static const char *size_of(char text[GB_UNITS_TEXT], double bytes)
{
    return gb_units_format_size(text, GB_UNITS_TEXT, (uint64_t)bytes);
}

static const char *time_of(char text[GB_UNITS_TEXT], double seconds)
{
    return gb_units_format_duration(text, GB_UNITS_TEXT, (uint64_t)(seconds * 1e9));
}

static const char *count_of(char text[GB_UNITS_TEXT], double count)
{
    return gb_units_format_count(text, GB_UNITS_TEXT, (uint64_t)(count + 0.5));
}

/* "memory  [######      ] 3 MiB of 12 MiB" */
static void put_bar(const struct view *view, const char *name, double used, double of)
{
    char cells[BAR_CELLS + 1];
    char texts[2][GB_UNITS_TEXT];
    double share = of <= 0 ? 0 : used >= of ? 1 : used / of;
    int full = (int)(share * BAR_CELLS + 0.5);
    memset(cells, ' ', BAR_CELLS);
    memset(cells, '#', (size_t)full);
    cells[BAR_CELLS] = '\0';
    (void)fprintf(view->out, "%-8s [%s] %s of %s\n", name, cells, size_of(texts[0], used),
                  size_of(texts[1], of));
}

/* ---- parts --------------------------------------------------------------------------------- */

static void put_head(const struct view *view, const char *address)
{
    char texts[3][GB_UNITS_TEXT];
    const char *now = view->now;
    (void)fprintf(view->out, "goblin at %s, up %s%s; %s objects, %s connections\n\n", address,
                  time_of(texts[0], gb_topview_value(now, "goblin_server_uptime_seconds")),
                  gb_topview_value(now, "goblin_server_draining") > 0 ? ", draining" : "",
                  count_of(texts[1], gb_topview_value(now, "goblin_objects")),
                  count_of(texts[2], gb_topview_value(now, "goblin_server_connections")));
}

static void put_room(const struct view *view)
{
    static const char *const owners[] = {"arena", "index", "ordered", "write", "read", "other"};
    const char *now = view->now;
    put_bar(view, "disk", gb_topview_value(now, "goblin_disk_used_bytes"),
            gb_topview_value(now, "goblin_disk_bytes"));
    put_bar(view, "memory", gb_topview_value(now, "goblin_memory_used_bytes"),
            gb_topview_value(now, "goblin_memory_budget_bytes"));
    put_bar(view, "network", gb_topview_value(now, "goblin_server_network_bytes"),
            gb_topview_value(now, "goblin_server_network_budget_bytes"));
    (void)fputs("memory by owner:", view->out);
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
        char series[SERIES_BYTES];
        char text[GB_UNITS_TEXT];
        (void)snprintf(series, sizeof(series), "goblin_memory_%s_bytes", owners[i]);
        (void)fprintf(view->out, "%s %s %s", i == 0 ? "" : ",", owners[i],
                      size_of(text, gb_topview_value(now, series)));
    }
    (void)fputs("\n\n", view->out);
}

static void put_rates(const struct view *view)
{
    char texts[4][GB_UNITS_TEXT];
    double gets = grown(view, "goblin_gets_total");
    double hits = grown(view, "goblin_hits_total");
    double resident = grown(view, "goblin_hits_resident_total");
    (void)fprintf(view->out, "per second: %s gets, %s puts, %s deletes, %s requests\n",
                  count_of(texts[0], rate(view, "goblin_gets_total")),
                  count_of(texts[1], rate(view, "goblin_puts_total")),
                  count_of(texts[2], rate(view, "goblin_deletes_total")),
                  count_of(texts[3], rate(view, "goblin_server_requests_total")));
    (void)fprintf(view->out, "            %s in, %s out, %s read from disk, %s written\n",
                  size_of(texts[0], rate(view, "goblin_server_bytes_in_total")),
                  size_of(texts[1], rate(view, "goblin_server_bytes_out_total")),
                  size_of(texts[2], rate(view, "goblin_device_read_bytes_total")),
                  size_of(texts[3], rate(view, "goblin_device_write_bytes_total")));
    if (gets > 0) {
        (void)fprintf(view->out, "hits:       %.1f %% of gets, %.1f %% from RAM alone\n",
                      100 * hits / gets, 100 * resident / gets);
    } else {
        (void)fputs("hits:       no gets\n", view->out);
    }
}

/* The bound of the bucket in which the share of the series' new answers is reached. */
static double quantile(const struct view *view, const char *labels, double share, double all)
{
    char start[SERIES_BYTES];
    int len = snprintf(start, sizeof(start), "goblin_request_seconds_bucket{%s,le=\"", labels);
    double bound = 0;
    for (const char *line = view->now; (line = strstr(line, start)) != NULL; line += len) {
        char series[SERIES_BYTES];
        const char *end = strchr(line, ' ');
        if (end == NULL || end - line >= (ptrdiff_t)sizeof(series)) {
            break;
        }
        memcpy(series, line, (size_t)(end - line));
        series[end - line] = '\0';
        double this_bound = strtod(line + len, NULL); /* "+Inf" is the last */
        bound = isinf(this_bound) ? bound : this_bound;
        if (grown(view, series) >= share * all) {
            break;
        }
    }
    return bound;
}

/* "op="get",tier="ram"" of one line, or nothing for other lines. */
static bool find_labels(const char *line, char labels[SERIES_BYTES])
{
    static const char start[] = "goblin_request_seconds_count{";
    const char *end = strchr(line, '}');
    if (strncmp(line, start, sizeof(start) - 1) != 0 || end == NULL) {
        return false;
    }
    line += sizeof(start) - 1;
    (void)snprintf(labels, SERIES_BYTES, "%.*s", (int)(end - line), line);
    return end - line < (ptrdiff_t)SERIES_BYTES;
}

static void put_latency(const struct view *view, const char *labels)
{
    char op[24] = "";
    char tier[24] = "";
    char series[2 * SERIES_BYTES];
    char texts[4][GB_UNITS_TEXT];
    (void)sscanf(labels, "op=\"%23[a-z]\",tier=\"%23[a-z]\"", op, tier);
    (void)snprintf(series, sizeof(series), "goblin_request_seconds_count{%s}", labels);
    double all = grown(view, series);
    (void)snprintf(series, sizeof(series), "goblin_request_seconds_sum{%s}", labels);
    double sum = grown(view, series);
    if (all > 0) {
        (void)fprintf(view->out, "%-8s %-6s %12s %10s %10s %10s\n", op, tier,
                      count_of(texts[0], view->seconds > 0 ? all / view->seconds : 0),
                      time_of(texts[1], sum / all),
                      time_of(texts[2], quantile(view, labels, 0.5, all)),
                      time_of(texts[3], quantile(view, labels, 0.99, all)));
    }
}

void gb_topview_write(FILE *out, const char *address, const char *now, const char *before,
                      double seconds)
{
    const struct view view = {
        .out = out,
        .now = now,
        .before = before,
        .seconds = before != NULL ? seconds : gb_topview_value(now, "goblin_server_uptime_seconds"),
    };
    put_head(&view, address);
    put_room(&view);
    put_rates(&view);
    (void)fprintf(out, "\n%-8s %-6s %12s %10s %10s %10s\n", "what", "from", "per second", "mean",
                  "half", "99 %");
    for (const char *line = now; line != NULL && *line != '\0';) {
        char labels[SERIES_BYTES];
        if (find_labels(line, labels)) {
            put_latency(&view, labels);
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
}
