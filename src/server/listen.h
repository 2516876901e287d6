/*
 * Addresses as people write them, and sockets that listen at them.
 *
 * "127.0.0.1:11211", "[::1]:0", "localhost:80" (every address of the name), ":11211" (all
 * addresses, IPv4 and IPv6), "/run/goblin.sock" and "unix:goblin.sock". Port 0: the system chooses
 * one.
 *
 * A TCP place has a socket per loop (SO_REUSEPORT); that another process has the port is found out
 * first, for with SO_REUSEPORT the kernel would share the port between the two. A unix socket that
 * is left over, with nobody listening, is replaced; anything else at its path is not touched.
 */
#ifndef GB_SERVER_LISTEN_H
#define GB_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include <goblin/error.h>

#include "server/loop.h"

#define GB_LISTEN_PLACES_MAX 8u /* of one address */

struct gb_listen_options {
    unsigned sockets; /* per TCP place */
    int backlog;
    unsigned unix_mode;
};

struct gb_listen_place {
    bool is_unix;
    char address[GB_LOOP_ADDRESS_TEXT]; /* the real one */
    unsigned fd_count;
    int *fds; /* who takes one puts -1 there */
};

/* Whether the text is an address; resolves nothing. GOBLIN_OK, or GOBLIN_EOPTION explained. */
int gb_listen_check(const char *address, struct goblin_error *error);

/* Returns how many places listen now (at least one), or a fault, explained. */
int gb_listen_open(struct gb_listen_place places[GB_LISTEN_PLACES_MAX], const char *address,
                   const struct gb_listen_options *options, struct goblin_error *error);

/* Closes what nobody took, and frees. */
void gb_listen_close(struct gb_listen_place *place);
/* Removes a unix socket's path; after its socket was closed. */
void gb_listen_remove(const char *address);

#endif
