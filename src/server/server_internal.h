/* The server from the inside: server.c puts it together, server_run.c is the life of a process. */
#ifndef GB_SERVER_SERVER_INTERNAL_H
#define GB_SERVER_SERVER_INTERNAL_H

#include <stdatomic.h>

#include "server/listen.h"
#include "server/loop.h"
#include "server/server.h"

struct gb_server {
    struct gb_server_options options; /* with what was left to us filled in; constant */
    struct gb_limits limits;
    struct gb_log *log;
    struct goblin *store;
    struct gb_work *work;
    struct gb_backend *backend;
    struct gb_origin *origin; /* NULL: there is none */

    struct gb_listener listeners[GB_LOOP_LISTENERS_MAX]; /* constant once loops run */
    struct gb_listen_place places[GB_LOOP_LISTENERS_MAX];
    unsigned listener_count;

    struct gb_loop **loops; /* constant once they run */
    unsigned loops_planned;
    unsigned loop_count; /* created so far */

    int64_t started_ms;
    int64_t drain_until_ms;
    _Atomic bool ready;
    _Atomic bool draining;
    _Atomic bool end_asked;
    bool ready_once;
    bool hurry; /* the end waits for nobody any more */

    _Atomic bool runs; /* gb_server_run waits for signals */
};

bool gb_server_drained(const struct gb_server *server);
bool gb_server_end_asked(const struct gb_server *server);

#endif
