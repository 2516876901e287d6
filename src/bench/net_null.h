/*
 * The null server: answers GET over HTTP/1.1 from RAM, one connection after the other, with another
 * server's headers. It looks nothing up on a drive and copies nothing but into the socket, so what
 * a client gets from it is what the wire allows.
 */
#ifndef GB_BENCH_NET_NULL_H
#define GB_BENCH_NET_NULL_H

#include <stdint.h>

#include "goblin/error.h"

struct gb_net_server;
struct gb_net_set;

enum { GB_NET_NULL_HEADER_MAX = 4096 };

struct gb_net_null {
    const struct gb_net_set *set;
    /* A reply's header, the empty line included, cut where the number of bytes stands. */
    char before[GB_NET_NULL_HEADER_MAX];
    char after[GB_NET_NULL_HEADER_MAX];
};

/* Asks a server for the set's first object and takes over the header of its reply, or a plain one
 * if `server` is NULL. Errors: of the connection; -EPROTO. */
int gb_net_null_init(struct gb_net_null *null, const struct gb_net_set *set,
                     const struct gb_net_server *server, struct goblin_error *error);

/* The server's process: `arg` is a struct gb_net_null. Returns only if it cannot listen. */
int gb_net_null_serve(const struct gb_net_server *server, const void *arg);

#endif
