/*
 * What a server answers, byte by byte: replies of memcached's text protocol (to get and set) and of
 * HTTP/1.1 (to GET and PUT), in pieces of any size. Owns no socket and allocates nothing; values
 * are handed on where they lie.
 *
 *     do {
 *         used = gb_net_reply_next(&reply, data, len, &event);
 *         data += used, len -= used;
 *         ... event ...
 *     } while (event.kind != GB_NET_MORE && event.kind != GB_NET_BAD);
 *
 * Belongs to one thread.
 */
#ifndef GB_BENCH_NET_REPLY_H
#define GB_BENCH_NET_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_net_protocol {
    GB_NET_MEMCACHE,
    GB_NET_HTTP,
};

enum gb_net_event_kind {
    GB_NET_MORE,  /* all bytes are taken; what comes next is needed */
    GB_NET_VALUE, /* a value begins: key (memcached), bytes */
    GB_NET_BODY,  /* the next bytes of it: data, len (not 0) */
    GB_NET_REPLY, /* the reply is over: status, closes */
    GB_NET_BAD,   /* no server may say this: the connection is of no use any more */
};

enum gb_net_status {
    GB_NET_DONE,    /* END, STORED, 2xx */
    GB_NET_MISSING, /* 404; memcached tells a miss by END without a value */
    GB_NET_REFUSED, /* SERVER_ERROR, NOT_STORED, 5xx, 413: the server could or would not */
    GB_NET_ERROR,   /* ERROR, CLIENT_ERROR, other 4xx: the client asked for nonsense */
};

#define GB_NET_BYTES_UNKNOWN UINT64_MAX /* of a chunked value */

struct gb_net_event {
    enum gb_net_event_kind kind;
    enum gb_net_status status;
    bool closes;     /* the server will close the connection */
    uint64_t bytes;  /* of the value */
    const char *key; /* until the next call; not terminated */
    size_t key_len;
    const unsigned char *data;
    size_t len;
};

enum { GB_NET_LINE_MAX = 8192 };

struct gb_net_reply {
    enum gb_net_protocol protocol;
    int state;
    uint64_t left; /* of the value, or of a chunk */
    int code;      /* HTTP status */
    bool is_chunked;
    bool is_value; /* the body is one */
    bool closes;
    size_t line_len; /* of a line that came in pieces */
    char line[GB_NET_LINE_MAX];
};

void gb_net_reply_init(struct gb_net_reply *reply, enum gb_net_protocol protocol);

/* Takes bytes up to the next event and says how many. */
size_t gb_net_reply_next(struct gb_net_reply *reply, const unsigned char *data, size_t len,
                         struct gb_net_event *event);

#endif
