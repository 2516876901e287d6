/* An object's bytes, or parts of it, as the client takes them: see http_body.c. */
#ifndef GB_SERVER_HTTP_BODY_H
#define GB_SERVER_HTTP_BODY_H

#include <sys/types.h>

#include "proto/http_range.h"
#include "server/backend.h"

#define GB_HTTP_BLOCK_BYTES 65536u /* of a response that is produced as it goes out */
#define GB_HTTP_COPY_BYTES  4096u  /* what is not longer is copied rather than held */
#define GB_HTTP_AHEAD       3u     /* tail chunks of one body in the reader's buffers */
#define GB_HTTP_HELD_MAX    6u     /* chunks of one body in all */

struct gb_http_conn;

/* A stretch of bytes that have come and have not gone. */
struct gb_http_chunk {
    const unsigned char *data;
    size_t len;
    uint64_t offset;
    uint64_t hold; /* of the reader's, if `copy` is NULL */
    unsigned char *copy;
    size_t charge;
};

/* The bytes of an object on their way out, one range after another. */
struct gb_http_body {
    struct gb_http_range *ranges; /* owned */
    size_t range_count;
    size_t range;     /* which one is being sent */
    uint64_t at;      /* next byte of it that the reader has to bring */
    uint64_t gone;    /* next byte of it that goes out */
    uint64_t version; /* of the object; another one ends the response */
    uint64_t size;
    uint64_t window; /* read per request, for a client that was slow; 0: all */
    bool multipart;
    bool ended;     /* the last text has been put */
    char type[256]; /* of every part */
    char boundary[40];
    char text[512]; /* a part's head, or the end */
    size_t text_len;
    size_t text_gone;

    struct gb_http_chunk chunks[GB_HTTP_HELD_MAX]; /* a ring */
    size_t first;
    size_t count;
    struct goblin_request request;
    struct goblin_request *active; /* what brings bytes: this one, the look's, or none */
    struct gb_waiter waiter;       /* in the request line */
    struct gb_waiter room_waiter;  /* in the line for bytes, for what libmicrohttpd takes */
    struct gb_deadline hold;
    uint64_t seen_gone;  /* when `hold` was armed */
    uint64_t seen_acked; /* when the client was last asked whether it keeps up */
    uint64_t charge;     /* of the block that libmicrohttpd takes */
    int fault;
    unsigned tries;
    bool parking; /* `active` was cancelled: it is to be read again later */
    bool waiting; /* in the request line */
    bool room;    /* the bytes are there */
    bool from_disk;
    bool fixed; /* answered with the chunk itself: it stays where it is until the end */
};

/* Prepares a body of these ranges of the object that was looked at. Errors: -ENOMEM. */
int gb_http_body_init(struct gb_http_conn *conn, const struct gb_http_range *ranges, size_t count,
                      const char *type);
/* How many bytes it is in all. */
uint64_t gb_http_body_length(struct gb_http_conn *conn);
/* Begins to read, if nothing is on its way or has come. */
void gb_http_body_read(struct gb_http_conn *conn);
/* The reader's callbacks, also for a read that the look begins: `arg` is the connection. */
int gb_http_body_chunk(void *arg, const struct goblin_chunk *chunk);
void gb_http_body_done(void *arg, int result, const struct goblin_info *info);
/* For MHD_create_response_from_callback; `arg` is the connection. */
ssize_t gb_http_body_produce(void *arg, uint64_t position, char *to, size_t most);
void gb_http_body_clean(struct gb_http_conn *conn);
/* Forgets what was read, to begin anew. */
void gb_http_body_drop(struct gb_http_conn *conn);

#endif
