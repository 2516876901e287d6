/*
 * The memcached protocol on the server: text and meta, over server/conn.h.
 *
 * What memcached answers is answered here with the same bytes; where Goblin has nothing to set
 * (slab classes, LRU queues) the command is accepted or refused as a memcached would that has the
 * feature switched off. cas is the object's version, client flags are its flags, exptime its
 * expiry; stale and token-sent of the meta protocol are its marks.
 *
 * A value whose head is resident goes out at once, while its tail is being read. Should the tail
 * turn out unreadable, what was announced cannot be taken back: the connection is closed.
 *
 * Threads: one struct gb_memcache serves all loops.
 */
#ifndef GB_SERVER_MEMCACHE_H
#define GB_SERVER_MEMCACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "server/protocol.h"
#include "server/tls.h"

/* Clients read the number for what they may ask. */
#define GB_MC_VERSION_TEXT "1.6.18-goblin-" GOBLIN_VERSION

struct gb_memcache;

struct gb_memcache_options {
    uint64_t value_max_bytes;  /* larger values are refused; 0: 1 GiB */
    const char *auth_file;     /* lines NAME:PASSWORD; NULL: nobody need say who he is */
    struct gb_tls_options tls; /* of listeners that have it */
    bool no_flush;             /* flush_all is refused (memcached -F) */
    bool no_dump;              /* metadump and cachedump are (memcached -X) */
    bool no_watch;             /* watch is (memcached -W) */
    bool shutdown;             /* shutdown is obeyed (memcached -A) */
    /* The test's clock: milliseconds that `debugtime N` adds to. NULL: there is no such command. */
    _Atomic int64_t *clock_offset_ms;
};

/* What gb_server_listen.options of this protocol points to. Destroy it after the server.
 * Owns:   options are copied, texts and certificates' names borrowed until then.
 * Errors: those of the authentication file and of the certificates, explained; -ENOMEM. */
int gb_memcache_create(struct gb_memcache **out, const struct gb_memcache_options *options,
                       struct goblin_error *error);
void gb_memcache_destroy(struct gb_memcache *memcache);

extern const struct gb_protocol gb_memcache_protocol;

#endif
