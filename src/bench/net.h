/*
 * goblin-bench net: servers side by side under one load generator. Every case starts its peers,
 * gives them the same objects, lets them take turns, and ends them; what is measured becomes rows.
 *
 *     net_options.c   the command line
 *     net.c           the command: cases one after the other, reports
 *     net_cases.c     the cases over memcached's protocol; net_cases_http.c, net_case_link.c those
 *                     over HTTP
 *     net_bout.c      what cases are made of: start, fill, turns, check
 *     net_set.c       objects and orders of requests
 *     net_peers.c     how each server is started
 *     net_server.c    processes; net_load.c and net_conn.c the generator; net_reply.c replies
 *     net_wire.c      a network of two namespaces; net_null.c a server that only knows its RAM
 *     net_row.c       figures of a row
 *     net_report.c    JSON, Markdown, the table; net_plots.c the plots
 */
#ifndef GB_BENCH_NET_H
#define GB_BENCH_NET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/net_load.h"
#include "bench/net_null.h"
#include "bench/net_server.h"
#include "bench/net_wire.h"
#include "goblin/error.h"

enum { GB_NET_CASES_MAX = 16, GB_NET_PEERS_MAX = 8, GB_NET_ROWS_MAX = 256 };

/* The programs that peers are. X(name) */
#define GB_NET_PROGRAMS(X) X(goblin) X(memcached) X(nginx) X(varnishd)

enum gb_net_program {
#define GB_X(name) GB_NET_PROGRAM_##name,
    GB_NET_PROGRAMS(GB_X)
#undef GB_X
        GB_NET_PROGRAM_COUNT,
    GB_NET_PROGRAM_none = GB_NET_PROGRAM_COUNT, /* this one itself */
};

struct gb_net;
struct gb_net_case {
    const char *name;
    const char *help;
    int (*run)(struct gb_net *net, struct goblin_error *error);
};

/* All of them; *count says how many. Static. */
const struct gb_net_case *gb_net_cases(size_t *count);
int gb_net_case_static(struct gb_net *net, struct goblin_error *error);
int gb_net_case_large(struct gb_net *net, struct goblin_error *error);
int gb_net_case_link(struct gb_net *net, struct goblin_error *error);

struct gb_net_options {
    const struct gb_net_case *cases[GB_NET_CASES_MAX];
    size_t case_count;
    const char *peers; /* "a,b": of a case's own only these; NULL: all */
    const char *dir;
    const char *out;  /* NULL: no Markdown, no plots */
    const char *json; /* NULL: none */
    const char *programs[GB_NET_PROGRAM_COUNT];
    double scale;
    double zipf;
    uint64_t rounds;
    double duration_s; /* of each work, per turn */
    uint64_t threads;
    uint64_t server_threads;
    uint64_t connections;
    uint64_t depth; /* of pipelined works */
    uint64_t seed;
    bool pin;
    bool list;
    bool keep;
    char command[1024];
};

/* Returns 0, 1 when help was printed, or -EINVAL with the flag, the limit and the remedy. */
int gb_net_options_parse(struct gb_net_options *options, int argc, char **argv,
                         struct goblin_error *error);

/* ---- rows ---------------------------------------------------------------------------------- */

/* One work of one peer, all rounds together. */
struct gb_net_row {
    const char *case_name;
    char work[48];
    const char *peer;
    struct gb_net_tally tally;
    uint64_t turns;
    double ops_least; /* of a turn */
    double ops_most;
    double server_cpu_s;
    uint64_t rss_bytes;      /* of the server, after a turn, at the most */
    double per_object_bytes; /* its growth by one object; 0: not measured */
    uint64_t objects;        /* that were to be stored; 0: none were */
    uint64_t lost;           /* acknowledged, and not there when all was read again */
    bool is_checked;         /* `lost` was counted */
    bool is_capped;          /* in a memory cgroup */
    bool prepares;           /* for what the case is about */
};

struct gb_net {
    struct gb_net_options options;
    char scratch[PATH_MAX];
    struct gb_net_row *rows[GB_NET_ROWS_MAX];
    size_t row_count;
    char left_out[512]; /* what could not be measured here: "peer (why), case (why)" */
};

/* Notes a peer or case that cannot be measured on this machine, once, and says so. */
void gb_net_leave_out(struct gb_net *net, const char *what, const char *why);

/* Finds the row, or adds one. NULL: no memory, or too many. */
struct gb_net_row *gb_net_row(struct gb_net *net, const char *case_name, const char *work,
                              const char *peer);

/* A turn is over. */
void gb_net_row_add(struct gb_net_row *row, const struct gb_net_tally *tally, double server_cpu_s,
                    uint64_t rss_bytes);

/* Keys got and set per second, both by whole runs; 0 for no time. */
double gb_net_row_ops(const struct gb_net_row *row);
double gb_net_row_mib_s(const struct gb_net_row *row);  /* values got and stored */
double gb_net_row_cpu_us(const struct gb_net_row *row); /* the server's, per operation */

/* goblin's throughput over this row's in the same work; 0: there is none to compare. By bytes
 * where values are large. */
double gb_net_row_ratio(const struct gb_net *net, const struct gb_net_row *row);

/* ---- peers --------------------------------------------------------------------------------- */

/* What a case asks of a server. */
struct gb_net_plan {
    enum gb_net_protocol protocol;
    uint64_t memory_bytes;
    uint64_t store_bytes; /* on the drive */
    uint64_t value_bytes; /* the largest */
    uint64_t cap_bytes;   /* of a memory cgroup; 0: none */
    unsigned threads;
    const char *files;              /* nginx: what it serves */
    uint16_t origin_port;           /* varnish: where it fetches */
    const struct gb_net_null *null; /* null: what it answers */
};

struct gb_net_peer {
    const char *name;
    enum gb_net_program program;
    /* Adds arguments and writes what configuration they name below server->dir. */
    int (*command)(const struct gb_net_plan *plan, const struct gb_net_server *server,
                   struct gb_net_argv *argv, struct goblin_error *error);
    /* Instead of a program: see gb_net_server.own; its argument is plan->null. */
    int (*own)(const struct gb_net_server *server, const void *arg);
};

/* Is it among --peers? */
bool gb_net_wants(const struct gb_net *net, const char *peer);

const struct gb_net_peer *gb_net_peer_find(const char *name);

/* ---- sets ---------------------------------------------------------------------------------- */

/* `count` objects, sizes drawn evenly over the logarithm of [least, most]; `requests` of them by
 * Zipf's law. Owns: gb_net_set_fini. Errors: -ENOMEM, -EINVAL for none, errno of
 * the pool. */
struct gb_net_set_options {
    uint64_t count;       /* 0: as many as make total_bytes */
    uint64_t total_bytes; /* 0: `count` says */
    uint64_t least_bytes;
    uint64_t most_bytes;
    double zipf;
    uint64_t requests; /* 0: 16 per object, at least 100,000 */
    uint64_t seed;
};
int gb_net_set_init(struct gb_net_set *set, const struct gb_net_set_options *options,
                    struct goblin_error *error);
/* The study's corpus and schedule. */
int gb_net_set_study(struct gb_net_set *set, double scale, double zipf, uint64_t seed,
                     struct goblin_error *error);
void gb_net_set_fini(struct gb_net_set *set); /* harmless on a zeroed one */

/* Every object as a file <dir>/<key>, synced and out of the page cache, so that who reads it first
 * is charged for its pages. */
int gb_net_set_write(const struct gb_net_set *set, const char *dir, struct goblin_error *error);
/* Takes such files out of the page cache again. */
int gb_net_set_forget(const struct gb_net_set *set, const char *dir, struct goblin_error *error);

/* ---- bouts --------------------------------------------------------------------------------- */

struct gb_net_contender {
    const struct gb_net_peer *peer;
    struct gb_net_plan plan;
    struct gb_net_server server;
    uint64_t place; /* in the schedule */
};

/* The peers of one case over one set. */
struct gb_net_bout {
    struct gb_net *net;
    const char *name; /* of the case */
    struct gb_net_set set;
    struct gb_net_contender contenders[GB_NET_PEERS_MAX];
    size_t count;
    char dir[PATH_MAX];
    const struct gb_net_wire *wire; /* between client and servers; NULL: the loopback */
};

struct gb_net_work {
    const char *name;
    unsigned depth;       /* 0: 1 */
    unsigned keys;        /* of a get; 0: 1 */
    unsigned connections; /* 0: as --connections */
    double set_share;
    uint64_t rate_per_s; /* 0: closed loop */
    uint64_t requests;   /* 0: --duration */
    bool in_turn;        /* every object once */
    bool whole;
    bool refills;  /* see gb_net_load */
    bool prepares; /* left out of the plot of latencies if the case has other works */
};

/* Takes in those of `peers` (ended by NULL) that --peers wants and the machine has, with the plan
 * as it stands; the case may change each one's before it is started. Owns: gb_net_bout_close, after
 * a fault too. Errors: -ENOENT if nobody is left. */
int gb_net_bout_open(struct gb_net_bout *bout, struct gb_net *net, const char *name,
                     const char *const *peers, struct goblin_error *error);
void gb_net_bout_close(struct gb_net_bout *bout); /* ends servers, removes their data */

struct gb_net_contender *gb_net_bout_find(struct gb_net_bout *bout, const char *peer);

int gb_net_bout_start(struct gb_net_bout *bout, struct gb_net_contender *contender,
                      struct goblin_error *error);
int gb_net_bout_start_all(struct gb_net_bout *bout, const struct gb_net_plan *plan,
                          struct goblin_error *error);

/* One turn of one contender, counted in the work's row. */
int gb_net_bout_turn(struct gb_net_bout *bout, struct gb_net_contender *contender,
                     const struct gb_net_work *work, struct goblin_error *error);

/* --rounds rounds in which all contenders do all works in turns. */
int gb_net_bout_rounds(struct gb_net_bout *bout, const struct gb_net_work *works, size_t count,
                       struct goblin_error *error);

/* Stores every object, or reads every one again, whole, and counts what is lost. */
int gb_net_bout_fill(struct gb_net_bout *bout, struct gb_net_contender *contender, unsigned depth,
                     struct goblin_error *error);
int gb_net_bout_check(struct gb_net_bout *bout, struct gb_net_contender *contender,
                      struct goblin_error *error);

/* ---- reports ------------------------------------------------------------------------------- */

void gb_net_report_print(const struct gb_net *net, FILE *out);
int gb_net_report_json(const struct gb_net *net, const char *path, struct goblin_error *error);
/* <out>/net.md and, where there is gnuplot, its plots. */
int gb_net_report_markdown(const struct gb_net *net, struct goblin_error *error);
/* 1 = drawn, 0 = only data files, because there is no gnuplot. */
int gb_net_plots(const struct gb_net *net, struct goblin_error *error);

/* Any row with wrong bytes, or of goblin with lost ones? */
bool gb_net_is_void(const struct gb_net *net);

/* The command; argv[0] is "net". Returns an exit code. */
int gb_cmd_net(int argc, char **argv);

#endif
