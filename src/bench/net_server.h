/*
 * A server process of the bench: started with a directory and a port of its own, watched from
 * outside, and ended by its process id.
 *
 * Belongs to the thread that started it: when that thread ends, the server is told to.
 */
#ifndef GB_BENCH_NET_SERVER_H
#define GB_BENCH_NET_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "goblin/error.h"

enum { GB_NET_ARGUMENTS_MAX = 48, GB_NET_ARGUMENT_TEXT = 4096 };

/* A command line that is put together word by word. */
struct gb_net_argv {
    char *words[GB_NET_ARGUMENTS_MAX + 1];
    size_t count;
    char text[GB_NET_ARGUMENT_TEXT];
    size_t used;
};

/* Adds one word, as printf. More than there is room for is a programmer's error. */
__attribute__((format(printf, 2, 3))) void gb_net_argv_add(struct gb_net_argv *argv,
                                                           const char *format, ...);

struct gb_net_server {
    const char *name; /* of the peer; borrowed */
    pid_t pid;        /* 0: not running */
    char host[16];    /* where it listens: an IPv4 address; "": 127.0.0.1 */
    uint16_t port;
    int netns; /* descriptor of the network namespace it runs in; 0: the bench's own */
    /* What the process does if it is no program: returns its exit code. NULL: a program. */
    int (*own)(const struct gb_net_server *server, const void *arg);
    const void *own_arg;
    char dir[PATH_MAX];    /* everything of it lies below */
    char cgroup[PATH_MAX]; /* "": none */
};

/* Of the process and all its descendants. */
struct gb_net_usage {
    double cpu_s;
    uint64_t rss_bytes; /* what they share counts once: the resident shared pages of the largest */
};

/* A port of 127.0.0.1 that nobody listens on just now. */
int gb_net_server_port(uint16_t *port, struct goblin_error *error);

/* Where the program is: `program` itself if it has a slash, else searched in PATH and the
 * directories of system programs. -ENOENT. */
int gb_net_server_find(const char *program, char path[PATH_MAX]);

/* A memory cgroup of `bytes` for a server that is started afterwards. Errors: what the machine
 * does not allow. */
int gb_net_server_cap(struct gb_net_server *server, uint64_t bytes, struct goblin_error *error);

/* Where it listens. */
const char *gb_net_server_host(const struct gb_net_server *server);

/* Starts it, its output going to <dir>/log, on `cores` processors from the first one (0: all), and
 * waits until it accepts connections. `argv` is for programs. Errors: -ENOENT, -ETIMEDOUT, -ECHILD
 * if it ended at once; the last line of its log is in the text. */
int gb_net_server_start(struct gb_net_server *server, const struct gb_net_argv *argv,
                        unsigned cores, struct goblin_error *error);

/* Has it ended by itself? Says how: "with code 1", "by signal 9". */
bool gb_net_server_has_ended(const struct gb_net_server *server, char how[32]);

/* Errors: -ECHILD: it has ended by itself. */
int gb_net_server_usage(const struct gb_net_server *server, struct gb_net_usage *usage);

/* SIGTERM, and SIGKILL to all of them after 20 s; removes the cgroup. Harmless if it does not run.
 * Returns 0, or -ETIMEDOUT if it had to be killed. */
int gb_net_server_stop(struct gb_net_server *server);

#endif
