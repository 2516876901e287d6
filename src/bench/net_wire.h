/*
 * A network of two nameless network namespaces and a pair of interfaces between them: the client in
 * one, servers in the other. What servers send is held to a rate by a token bucket of two frames,
 * without segmentation offload, so that idle time cannot be banked and what the client sees is the
 * wire.
 *
 * Made with ip(8) and tc(8), which must be allowed to: root, or CAP_NET_ADMIN and CAP_SYS_ADMIN.
 * The namespaces end with the last process and descriptor in them.
 */
#ifndef GB_BENCH_NET_WIRE_H
#define GB_BENCH_NET_WIRE_H

#include <stdint.h>

#include "goblin/error.h"

#define GB_NET_WIRE_CLIENT "10.234.5.1"
#define GB_NET_WIRE_SERVER "10.234.5.2"

/* Descriptors of namespaces; -1: none. */
struct gb_net_wire {
    int own; /* where the thread came from */
    int client;
    int server;
};

/* Makes it and moves this thread, and those it will start, to the client's end. After a fault the
 * thread is where it was, and there is nothing to close. Errors: -EPERM, -ENOENT without the tools,
 * -EIO if they refuse; explained. */
int gb_net_wire_open(struct gb_net_wire *wire, uint64_t rate_bps, struct goblin_error *error);

/* Moves this thread back. */
void gb_net_wire_close(struct gb_net_wire *wire);

#endif
