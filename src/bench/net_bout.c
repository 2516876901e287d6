/* What cases are made of: peers that are started, filled, take turns, and are ended. */
#include "bench/net.h"

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_DEPTH = 4, WARM_SHARE = 5 };

/* ---- who takes part ------------------------------------------------------------------------ */

bool gb_net_wants(const struct gb_net *net, const char *peer)
{
    const char *list = net->options.peers;
    size_t len = strlen(peer);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, peer, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return list == NULL;
}

int gb_net_bout_open(struct gb_net_bout *bout, struct gb_net *net, const char *name,
                     const char *const *peers, struct goblin_error *error)
{
    char path[PATH_MAX];
    *bout = (struct gb_net_bout){.net = net, .name = name};
    snprintf(bout->dir, sizeof(bout->dir), "%.*s/%s", PATH_MAX - 64, net->scratch, name);
    for (; *peers; peers++) {
        const struct gb_net_peer *peer = gb_net_peer_find(*peers);
        if (!gb_net_wants(net, *peers)) {
            continue;
        }
        if (!peer->own && gb_net_server_find(net->options.programs[peer->program], path) < 0) {
            gb_net_leave_out(net, *peers, "not installed");
            continue;
        }
        bout->contenders[bout->count++].peer = peer;
    }
    if (bout->count == 0) {
        gb_explain_set(error, "%s: none of its peers is wanted and installed", name);
        return -ENOENT;
    }
    return gb_scratch_make(bout->dir, error);
}

void gb_net_bout_close(struct gb_net_bout *bout)
{
    for (size_t i = 0; i < bout->count; i++) {
        if (gb_net_server_stop(&bout->contenders[i].server) < 0) {
            fprintf(stderr, "%s: %s did not end when it was asked to\n", bout->name,
                    bout->contenders[i].peer->name);
        }
    }
    gb_net_set_fini(&bout->set);
    if (bout->dir[0] && !bout->net->options.keep) {
        gb_scratch_remove(bout->dir);
    }
}

struct gb_net_contender *gb_net_bout_find(struct gb_net_bout *bout, const char *peer)
{
    for (size_t i = 0; i < bout->count; i++) {
        if (strcmp(bout->contenders[i].peer->name, peer) == 0) {
            return &bout->contenders[i];
        }
    }
    return NULL;
}

int gb_net_bout_start(struct gb_net_bout *bout, struct gb_net_contender *contender,
                      struct goblin_error *error)
{
    const struct gb_net_options *options = &bout->net->options;
    struct gb_net_server *server = &contender->server;
    const struct gb_net_plan *plan = &contender->plan;
    struct gb_net_argv argv = {.count = 0};
    char program[PATH_MAX];
    server->name = contender->peer->name;
    snprintf(server->dir, sizeof(server->dir), "%.*s/%s", PATH_MAX - 64, bout->dir, server->name);
    int rc = gb_scratch_make(server->dir, error);
    rc = rc < 0 ? rc : gb_net_server_port(&server->port, error);
    if (rc < 0) {
        return rc;
    }
    if (bout->wire) {
        snprintf(server->host, sizeof(server->host), "%s", GB_NET_WIRE_SERVER);
        server->netns = bout->wire->server;
    }
    if (plan->cap_bytes > 0 && gb_net_server_cap(server, plan->cap_bytes, error) < 0) {
        fprintf(stderr, "%s: %s: %s; it runs without\n", bout->name, server->name, error->text);
    }
    server->own = contender->peer->own;
    server->own_arg = plan->null;
    if (!server->own) {
        rc = gb_net_server_find(options->programs[contender->peer->program], program);
        if (rc < 0) {
            gb_explain_set(error, "%s is gone", server->name);
            return rc;
        }
        gb_net_argv_add(&argv, "%s", program);
        rc = contender->peer->command(plan, server, &argv, error);
    }
    unsigned cores = options->pin ? plan->threads : 0;
    return rc < 0 ? rc : gb_net_server_start(server, &argv, cores, error);
}

int gb_net_bout_start_all(struct gb_net_bout *bout, const struct gb_net_plan *plan,
                          struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < bout->count && rc == 0; i++) {
        bout->contenders[i].plan = *plan;
        rc = gb_net_bout_start(bout, &bout->contenders[i], error);
    }
    return rc;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* Looks at a server when counting begins and ends. */
struct meter {
    const struct gb_net_server *server;
    struct gb_net_usage begun;
    struct gb_net_usage ended;
    int result;
};

static void on_mark(void *arg, bool begins)
{
    struct meter *meter = arg;
    int rc = gb_net_server_usage(meter->server, begins ? &meter->begun : &meter->ended);
    meter->result = meter->result < 0 ? meter->result : rc;
}

static void plan_load(const struct gb_net_bout *bout, const struct gb_net_contender *contender,
                      const struct gb_net_work *work, struct gb_net_load *load)
{
    const struct gb_net_options *options = &bout->net->options;
    unsigned connections = (unsigned)options->connections;
    unsigned threads = (unsigned)options->threads;
    connections = work->connections ? work->connections : connections;
    bool is_timed = work->requests == 0 && !work->in_turn;
    uint64_t duration_ms = (uint64_t)(options->duration_s * 1000);
    *load = (struct gb_net_load){
        .set = &bout->set,
        .protocol = contender->plan.protocol,
        .host = gb_net_server_host(&contender->server),
        .port = contender->server.port,
        .threads = threads < connections ? threads : connections,
        .connections = connections,
        .depth = work->depth ? work->depth : 1,
        .keys = work->keys,
        .set_share = work->set_share,
        .rate_per_s = work->rate_per_s,
        .in_turn = work->in_turn,
        .whole = work->whole,
        .refills = work->refills,
        .first = contender->place,
        .requests = work->requests,
        .warm_ms = is_timed ? duration_ms / WARM_SHARE : 0,
        .duration_ms = is_timed ? duration_ms : 0,
        .seed = options->seed + contender->place,
        .first_core = options->pin ? (int)options->server_threads : -1,
        .mark = on_mark,
    };
}

static void tell(const struct gb_net_bout *bout, const struct gb_net_contender *contender,
                 const struct gb_net_work *work, const struct gb_net_tally *tally)
{
    double seconds = tally->seconds > 0 ? tally->seconds : 1;
    fprintf(stderr, "%-9s %-28s %-10s %10.0f/s %8.0f MiB/s %s\n", bout->name, work->name,
            contender->peer->name, (double)(tally->asked + tally->sets) / seconds,
            (double)(tally->got_bytes + tally->set_bytes) / (double)GB_MIB / seconds,
            tally->wrong > 0 ? "WRONG BYTES" : "");
}

int gb_net_bout_turn(struct gb_net_bout *bout, struct gb_net_contender *contender,
                     const struct gb_net_work *work, struct goblin_error *error)
{
    struct gb_net_row *row = gb_net_row(bout->net, bout->name, work->name, contender->peer->name);
    struct gb_net_tally *tally = malloc(sizeof(*tally));
    struct meter meter = {.server = &contender->server};
    struct gb_net_load load;
    if (!row || !tally) {
        free(tally);
        gb_explain_set(error, "no memory for figures");
        return -ENOMEM;
    }
    plan_load(bout, contender, work, &load);
    load.mark_arg = &meter;
    int rc = gb_net_load_run(&load, tally, error);
    char how[32];
    if (rc != -EINTR && gb_net_server_has_ended(&contender->server, how)) {
        rc = -ECHILD;
        gb_explain_set(error, "%s: %s ended %s under load, %s", bout->name, contender->peer->name,
                       how, work->name);
    } else if (rc < 0) {
        char where[128];
        snprintf(where, sizeof(where), "%s: %s, %s", bout->name, contender->peer->name, work->name);
        gb_explain_wrap(error, where);
    } else if (meter.result < 0) {
        rc = meter.result;
        gb_explain_set(error, "%s: %s cannot be watched: %s", bout->name, contender->peer->name,
                       strerror(-rc));
    } else {
        gb_net_row_add(row, tally, meter.ended.cpu_s - meter.begun.cpu_s, meter.ended.rss_bytes);
        row->prepares = work->prepares;
        row->is_capped = contender->server.cgroup[0] != '\0';
        contender->place = work->in_turn ? contender->place : tally->next;
        tell(bout, contender, work, tally);
    }
    free(tally);
    return rc;
}

int gb_net_bout_rounds(struct gb_net_bout *bout, const struct gb_net_work *works, size_t count,
                       struct goblin_error *error)
{
    int rc = 0;
    for (uint64_t round = 0; round < bout->net->options.rounds; round++) {
        for (size_t i = 0; i < count && rc == 0; i++) {
            for (size_t turn = 0; turn < bout->count && rc == 0; turn++) {
                size_t who = (size_t)(turn + round) % bout->count;
                rc = gb_net_bout_turn(bout, &bout->contenders[who], &works[i], error);
            }
        }
    }
    return rc;
}

/* ---- all objects --------------------------------------------------------------------------- */

int gb_net_bout_fill(struct gb_net_bout *bout, struct gb_net_contender *contender, unsigned depth,
                     struct goblin_error *error)
{
    const struct gb_net_work fill = {
        .name = "fill",
        .depth = depth,
        .set_share = 1,
        .in_turn = true,
        .prepares = true,
    };
    return gb_net_bout_turn(bout, contender, &fill, error);
}

int gb_net_bout_check(struct gb_net_bout *bout, struct gb_net_contender *contender,
                      struct goblin_error *error)
{
    const struct gb_net_work check = {
        .name = "check",
        .depth = CHECK_DEPTH,
        .in_turn = true,
        .whole = true,
        .prepares = true,
    };
    int rc = gb_net_bout_turn(bout, contender, &check, error);
    if (rc == 0) {
        const char *peer = contender->peer->name;
        struct gb_net_row *row = gb_net_row(bout->net, bout->name, "check", peer);
        const struct gb_net_row *fill = gb_net_row(bout->net, bout->name, "fill", peer);
        if (!row || !fill) {
            return -ENOMEM;
        }
        uint64_t stored = fill->tally.stored;
        row->objects = bout->set.corpus.count;
        row->is_checked = true;
        row->lost = stored > row->tally.hits ? stored - row->tally.hits : 0;
    }
    return rc;
}
