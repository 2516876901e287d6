/*
 * What a protocol is to the server: a name, state of its own per loop, and what becomes of a socket
 * that was accepted for it.
 *
 * A protocol over connections of ours (server/conn.h) hands the socket to gb_conn_open; one that
 * owns its sockets (libmicrohttpd) gives it to its library, and tells gb_limits_end when it is
 * closed. protocols.c lists the protocols of the program; tests bring their own.
 *
 * Threads: those of a loop run on its thread; `start` before that begins, `stop` at its end.
 */
#ifndef GB_SERVER_PROTOCOL_H
#define GB_SERVER_PROTOCOL_H

#include <goblin/goblin.h>

struct gb_loop;
struct gb_listener;

struct gb_protocol {
    const char *name; /* "memcache", "http": in logs, metrics and options */

    /* A command line that talks to it, shown when the server starts: the words ADDRESS, HOST and
     * PORT are replaced. */
    const char *example;

    /* Once per loop and protocol that listens, before the first socket. `options` are those of the
     * first of its listeners; each listener carries its own (gb_listener). *state is handed to the
     * other calls. May be NULL. Returns GOBLIN_OK, or a fault explained in `error`: the server
     * does not start. */
    int (*start)(struct gb_loop *loop, const void *options, void **state,
                 struct goblin_error *error);

    /* A connected socket, non-blocking and close-on-exec, already counted against the limits.
     * Owns: fd, also when it fails; gb_limits_end is due once it is closed. */
    void (*accept)(struct gb_loop *loop, void *state, const struct gb_listener *listener, int fd);

    /* SIGHUP: certificates, tokens and the like are read anew. Faults are logged and leave what
     * was there. May be NULL. */
    void (*reload)(struct gb_loop *loop, void *state);

    /* Nothing is accepted any more: finish what has begun, close what is idle. Connections of ours
     * are seen to by the loop. May be NULL. */
    void (*drain)(struct gb_loop *loop, void *state);

    /* The loop ends: whatever is open is closed now, nothing of the state stays behind. May be
     * NULL. */
    void (*stop)(struct gb_loop *loop, void *state);
};

/* The protocols of the program by name, or NULL. Static. */
const struct gb_protocol *gb_protocols_find(const char *name);

#endif
