/* The body of a PUT, gathered or streamed: see http_upload.c. */
#ifndef GB_SERVER_HTTP_UPLOAD_H
#define GB_SERVER_HTTP_UPLOAD_H

#include "server/backend.h"

struct gb_http_conn;
struct gb_http_input;

enum gb_http_stream {
    GB_HTTP_STREAM_NONE, /* all that has come is gathered */
    GB_HTTP_STREAM_OPEN,
    GB_HTTP_STREAM_OVER, /* committed, failed, or given up */
};

/* The body of a PUT, and what becomes of it; of a DELETE, the change. */
struct gb_http_upload {
    struct goblin_put_options options;
    struct gb_change change;
    struct gb_stream stream;
    struct gb_waiter waiter; /* for the bytes of the buffer */
    unsigned char *meta;     /* owned; options.meta */
    unsigned char *bytes;    /* owned: two halves of a stream, or room for all of a short value */
    size_t half;             /* bytes of a half, or of all */
    size_t filled;           /* of the half that is being filled */
    bool second;             /* it is the second one */
    uint64_t charge;
    uint64_t length; /* announced, or GOBLIN_SIZE_UNKNOWN */
    uint64_t received;
    uint64_t discarded;
    uint64_t version; /* of what was stored */
    int result;       /* once it is decided */
    enum gb_http_stream state;
    bool prepared; /* the head was found good */
    bool judged;   /* and its conditions hold */
    bool ready;    /* the body may come */
    bool busy;     /* something of this is in use by the backend */
    bool decided;  /* what still comes is thrown away */
    bool opened;   /* the stream's begin has come back */
    bool committing;
    bool existed;
    bool answered_early; /* and not heard: once more at the end */
};

/* Gets room for what comes. True: there is; false: it will resume the connection. */
bool gb_http_upload_begin(struct gb_http_conn *conn);
/* Takes of what has come; leaves what must wait, and suspends. */
void gb_http_upload_take(struct gb_http_conn *conn, struct gb_http_input *input);
/* All has come. True: it is stored, or has failed; false: it will resume the connection. */
bool gb_http_upload_finish(struct gb_http_conn *conn);
/* Changes the request's key, in upload.change: upload.busy until it is decided. */
void gb_http_upload_change(struct gb_http_conn *conn, enum gb_change_kind kind);
void gb_http_upload_clean(struct gb_http_conn *conn);

#endif
