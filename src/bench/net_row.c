/* Figures of rows: one work of one peer each. */
#include "bench/net.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of which bytes, not requests, are what a server is asked for. */
enum { LARGE_BYTES = 64 << 10 };

static struct gb_net_row *find(const struct gb_net *net, const char *case_name, const char *work,
                               const char *peer)
{
    for (size_t i = 0; i < net->row_count; i++) {
        struct gb_net_row *row = net->rows[i];
        if (strcmp(row->case_name, case_name) == 0 && strcmp(row->work, work) == 0 &&
            strcmp(row->peer, peer) == 0) {
            return row;
        }
    }
    return NULL;
}

struct gb_net_row *gb_net_row(struct gb_net *net, const char *case_name, const char *work,
                              const char *peer)
{
    struct gb_net_row *row = find(net, case_name, work, peer);
    if (row || net->row_count == GB_NET_ROWS_MAX) {
        return row;
    }
    row = calloc(1, sizeof(*row));
    if (!row) {
        return NULL;
    }
    row->case_name = case_name;
    row->peer = peer;
    snprintf(row->work, sizeof(row->work), "%s", work);
    gb_net_tally_init(&row->tally);
    net->rows[net->row_count++] = row;
    return row;
}

static double ops_of(const struct gb_net_tally *tally)
{
    return tally->seconds > 0 ? (double)(tally->asked + tally->sets) / tally->seconds : 0;
}

void gb_net_row_add(struct gb_net_row *row, const struct gb_net_tally *tally, double server_cpu_s,
                    uint64_t rss_bytes)
{
    double ops = ops_of(tally);
    row->ops_least = row->turns == 0 || ops < row->ops_least ? ops : row->ops_least;
    row->ops_most = ops > row->ops_most ? ops : row->ops_most;
    row->turns++;
    row->server_cpu_s += server_cpu_s;
    row->rss_bytes = gb_max(row->rss_bytes, rss_bytes);
    gb_net_tally_merge(&row->tally, tally);
}

double gb_net_row_ops(const struct gb_net_row *row)
{
    return ops_of(&row->tally);
}

double gb_net_row_mib_s(const struct gb_net_row *row)
{
    uint64_t bytes = row->tally.got_bytes + row->tally.set_bytes;
    return row->tally.seconds > 0 ? (double)bytes / (double)GB_MIB / row->tally.seconds : 0;
}

double gb_net_row_cpu_us(const struct gb_net_row *row)
{
    uint64_t ops = row->tally.asked + row->tally.sets;
    return ops > 0 ? row->server_cpu_s * 1e6 / (double)ops : 0;
}

void gb_net_leave_out(struct gb_net *net, const char *what, const char *why)
{
    char note[256];
    size_t used = strlen(net->left_out);
    snprintf(note, sizeof(note), "%s (%s)", what, why);
    if (!strstr(net->left_out, note)) {
        fprintf(stderr, "left out: %s\n", note);
        snprintf(net->left_out + used, sizeof(net->left_out) - used, "%s%s", used ? ", " : "",
                 note);
    }
}

static bool is_large(const struct gb_net_row *row)
{
    uint64_t values = row->tally.hits + row->tally.stored;
    return values > 0 && (row->tally.got_bytes + row->tally.set_bytes) / values >= LARGE_BYTES;
}

double gb_net_row_ratio(const struct gb_net *net, const struct gb_net_row *row)
{
    const struct gb_net_row *ours = find(net, row->case_name, row->work, "goblin");
    if (!ours || ours == row) {
        return 0;
    }
    bool by_bytes = is_large(ours);
    double mine = by_bytes ? gb_net_row_mib_s(ours) : gb_net_row_ops(ours);
    double other = by_bytes ? gb_net_row_mib_s(row) : gb_net_row_ops(row);
    return other > 0 ? mine / other : 0;
}

bool gb_net_is_void(const struct gb_net *net)
{
    for (size_t i = 0; i < net->row_count; i++) {
        const struct gb_net_row *row = net->rows[i];
        bool is_ours = strcmp(row->peer, "goblin") == 0;
        if (row->tally.wrong > 0 || row->tally.errors > 0 || (is_ours && row->lost > 0)) {
            return true;
        }
    }
    return false;
}
