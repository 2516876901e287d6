/*
 * HTTP/1.1: objects by path, over libmicrohttpd. docs/protocol.md says what a client sees.
 *
 * Each loop has a libmicrohttpd daemon of its own, one for plain connections and one for TLS, in
 * its mode of external polling: the loop polls the daemon's epoll descriptor, and runs it also when
 * it asks for that by its timeout. The daemon owns the sockets, reads requests and writes
 * responses; what a request does is ours (http_*.c). Whatever must wait (for the device, a worker,
 * bytes of the network budget) suspends the connection and resumes it when it is there.
 */
#ifndef GB_SERVER_HTTP_H
#define GB_SERVER_HTTP_H

#include <goblin/goblin.h>

#include "server/certs.h"
#include "server/protocol.h"

/* Requests for `host` (NULL: any; in either case, without a port) whose path begins with `path` are
 * for the key `key` + what follows. The first rule that fits counts. */
struct gb_http_rule {
    const char *host;
    const char *path; /* begins with a slash */
    const char *key;
};

struct gb_http_options {
    bool read_only;          /* nothing but GET, HEAD and OPTIONS */
    const char *tokens_file; /* who may do what; NULL: everybody everything */
    const char *origins;     /* CORS: "*", or origins parted by spaces; NULL: none */
    const struct gb_certs_files *certificates; /* the first is for who names no other */
    size_t certificate_count;
    const struct gb_http_rule *rules; /* none: any host, "/", "" */
    size_t rule_count;
    uint64_t value_bytes; /* a larger value is refused; 0: 1 GiB */
};

extern const struct gb_protocol gb_http_protocol;

/* Reads every file that the options name, as a start would. */
int gb_http_check(const struct gb_http_options *options, struct goblin_error *error);

#endif
