/*
 * The server as a whole: what src/cli fills in and runs, and what protocols may ask of it.
 *
 * gb_server_run is the life of a process: it opens the store and the listeners, runs the loops,
 * tells systemd (if it listens) how it goes, and returns when SIGTERM or SIGINT has been obeyed.
 * gb_server_start and gb_server_stop are the same without signals, for tests.
 *
 * Signals: SIGTERM, SIGINT: drain (stop accepting, finish what has begun up to drain_ms, close the
 * store); a second one ends the waiting. SIGHUP: reopen logs, reload what protocols read from
 * files.
 */
#ifndef GB_SERVER_SERVER_H
#define GB_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <goblin/goblin.h>

#include "server/limits.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/origin.h"
#include "server/protocol.h"

struct gb_server;

#define GB_SERVER_ADDRESSES_MAX 16u

/* Where one protocol is served. */
struct gb_server_listen {
    const struct gb_protocol *protocol;
    const void *options; /* the protocol's own; lives as long as the server */
    const char *address; /* "127.0.0.1:11211", "[::1]:0", ":11211" (all), "/run/x.sock",
                            "unix:relative.sock"; a name is resolved */
    bool tls;
};

struct gb_server_options {
    struct goblin_options store; /* memory_bytes is set by the server, log and clocks as they are */
    uint64_t memory_bytes;       /* engine and network together; 0: 256 MiB */

    struct gb_server_listen listen[GB_SERVER_ADDRESSES_MAX];
    size_t listen_count;
    unsigned unix_mode;    /* permissions of unix sockets; 0: 0700 */
    int backlog;           /* 0: 1024 */
    const char *port_file; /* written once all listen: a line "PROTOCOL ADDRESS" each; NULL: none */
    const char *pid_file;

    unsigned threads; /* loops; 0: one per core this process may use */
    struct gb_limits_options limits;
    struct gb_log_options log;
    struct gb_origin_options origin;
    bool quiet_start; /* no words about how to talk to it on standard output */

    /* Called once, when all listeners accept; may be NULL. */
    void (*on_ready)(void *arg, struct gb_server *server);
    void *on_ready_arg;

    int64_t (*clock)(void *arg); /* monotonic milliseconds for deadlines; NULL: CLOCK_MONOTONIC */
    void *clock_arg;
};

/* Returns GOBLIN_OK after a drained end, or the fault, explained. */
int gb_server_run(const struct gb_server_options *options, struct goblin_error *error);

/* Looks at everything that can be looked at without opening anything: --check-config. */
int gb_server_check(const struct gb_server_options *options, struct goblin_error *error);

/* Returns when all listeners accept. Owns: options are copied, not what they point to. */
int gb_server_start(struct gb_server **out, const struct gb_server_options *options,
                    struct goblin_error *error);
/* Begins to drain; returns at once. Threads: any. */
void gb_server_drain(struct gb_server *server);
/* Drains, ends after drain_ms at the latest, closes the store. Returns what goblin_close does. */
int gb_server_stop(struct gb_server *server);
void gb_server_reload(struct gb_server *server);

/* ---- for protocols. Threads: any ----------------------------------------------------------- */

const struct gb_server_options *gb_server_options_of(const struct gb_server *server);
struct gb_limits *gb_server_limits(struct gb_server *server);
struct gb_log *gb_server_log(struct gb_server *server);
struct goblin *gb_server_store(struct gb_server *server);
/* NULL: there is none. */
struct gb_origin *gb_server_origin(struct gb_server *server);
/* The whole machine is ready: the store is open, all listeners accept, it is not draining. */
bool gb_server_ready(const struct gb_server *server);
int64_t gb_server_uptime_ms(const struct gb_server *server);

unsigned gb_server_loop_count(const struct gb_server *server);
struct gb_loop *gb_server_loop(struct gb_server *server, unsigned number);
size_t gb_server_listener_count(const struct gb_server *server);
const struct gb_listener *gb_server_listener(const struct gb_server *server, size_t number);

void gb_server_sum_metrics(struct gb_server *server, struct gb_metrics_snapshot *snapshot);

/* X(name, help): as of now. */
#define GB_SERVER_GAUGES(X)                                                                        \
    X(connections, "connections open")                                                             \
    X(connections_limit, "connections that may be open")                                           \
    X(network_bytes, "bytes of the network budget in use")                                         \
    X(network_budget_bytes, "the network budget")                                                  \
    X(waiting, "connections that wait for bytes of the budget")                                    \
    X(streams, "uploads under way")                                                                \
    X(streams_waiting, "uploads that wait for another to end")                                     \
    X(workers, "threads for what may block")                                                       \
    X(workers_idle, "of these without work")                                                       \
    X(jobs_waiting, "jobs that no worker has taken yet")                                           \
    X(loops, "event loops")                                                                        \
    X(draining, "1 from SIGTERM on")

struct gb_server_gauges {
#define GB_X(name, help) uint64_t name;
    GB_SERVER_GAUGES(GB_X)
#undef GB_X
};
void gb_server_read_gauges(struct gb_server *server, struct gb_server_gauges *gauges);

/* Begins the end of the process, as SIGTERM does: for a protocol's own command to shut down. */
void gb_server_ask_to_end(struct gb_server *server);

#endif
