/*
 * What the parts of HTTP know of each other.
 *
 *     http.c           daemons, sockets, deadlines: the life of connections
 *     http_request.c   from a request's head to who deals with it, and what it leaves behind
 *     http_answer.c    responses
 *     http_look.c      an object's metadata and validators, before anything is decided by them
 *     http_get.c       GET and HEAD of an object
 *     http_body.c      an object's bytes, or parts of it, as the client takes them
 *     http_origin.c    GET and HEAD where an origin stands behind the store
 *     http_origin_answer.c   answers with what the origin sends
 *     http_put.c       PUT and DELETE
 *     http_upload.c    the body of a PUT, gathered or streamed
 *     http_list.c      the keys of a prefix
 *     http_status.c    health, metrics, and the page that draws them (status.html)
 *     http_tokens.c    who may do what
 *     http_tls.c       how connections come by a certificate (certs.h)
 *
 * A connection has one request at a time, and lives as long as libmicrohttpd or anything that was
 * begun for it needs it. `step` is what goes on with the request when libmicrohttpd calls: it
 * answers, or suspends, or takes bytes of the body. Whoever finishes what was waited for calls
 * gb_http_resume.
 *
 * Threads: the loop's.
 */
#ifndef GB_SERVER_HTTP_INTERNAL_H
#define GB_SERVER_HTTP_INTERNAL_H

#include <sys/types.h>

#include <microhttpd.h>

#include "proto/cache_control.h"
#include "proto/http_conditional.h"
#include "proto/http_path.h"
#include "server/backend.h"
#include "server/certs.h"
#include "server/http.h"
#include "server/http_access.h"
#include "server/http_body.h"
#include "server/http_origin.h"
#include "server/http_upload.h"
#include "server/metrics.h"

#define GB_HTTP_POOL_BYTES 32768u /* a connection's memory within libmicrohttpd */
#define GB_HTTP_TLS_BYTES  49152u /* and within GnuTLS */
#define GB_HTTP_ETAG_BYTES 208u   /* an origin may have long ones */

struct gb_http;
struct gb_http_conn;

/* The fields of a request that anything depends on; absent ones have `at` NULL. They lie in
 * libmicrohttpd's memory until the request is over. */
struct gb_http_fields {
    struct gb_http_text host;
    struct gb_http_text range;
    struct gb_http_text if_range;
    struct gb_http_conditions conditions;
    struct gb_http_text content_length;
    struct gb_http_text transfer_encoding;
    struct gb_http_text content_range;
    struct gb_http_text content_type;
    struct gb_http_text expect;
    struct gb_http_text authorization;
    struct gb_http_text origin;
    struct gb_http_text ttl;
    struct gb_http_text durability;
    struct gb_cache_control cache_control;
    unsigned hosts;
    bool bad;     /* breaks the grammar, or says twice what may be said once */
    char *joined; /* memory of lists that came in several lines */
    bool no_memory;
};

enum gb_http_method {
    GB_HTTP_GET,
    GB_HTTP_HEAD,
    GB_HTTP_PUT,
    GB_HTTP_DELETE,
    GB_HTTP_OPTIONS,
    GB_HTTP_OTHER,
};

/* An object as it was found: what conditions are judged by and answers tell of. */
struct gb_http_object {
    struct goblin_info info;
    char etag[GB_HTTP_ETAG_BYTES];
    int64_t modified_ms; /* -1: unknown */
    unsigned char *meta; /* meta_len of info */
};

/* A look at an object without its bytes, or with its first ones. */
struct gb_http_look {
    struct goblin_request request;
    struct gb_waiter waiter;
    struct gb_http_object object;
    int result; /* once it is over: GOBLIN_OK, GOBLIN_MISS or a fault */
    bool begun;
    bool over;
    bool reading; /* the request is the reader's */
    bool body;    /* the body is to be had with it: its first chunk is the body's */
    bool from_disk;
};

/* Bytes of a body that have come and were not taken yet. */
struct gb_http_input {
    const char *data;
    size_t len;
};

struct gb_http_request {
    enum MHD_Result (*step)(struct gb_http_conn *conn, struct gb_http_input *input);
    char *target; /* owned, as it came */
    size_t target_len;
    struct gb_http_target parts;
    unsigned char *key; /* owned */
    size_t key_len;
    struct gb_http_fields fields;
    enum gb_http_method method;
    const char *method_name;
    bool begun;
    bool answered;
    bool abandoned; /* it is over, but something that was begun for it is not */
    int status;
    uint64_t begun_ns;
    uint64_t bytes_in;
    uint64_t bytes_out; /* that libmicrohttpd asked for, or the whole of what it has */
    enum gb_metrics_op op;
    enum gb_metrics_tier tier;

    struct gb_http_look look;
    struct gb_http_body body;
    struct gb_http_upload upload;
    struct gb_http_list *list;
    struct gb_http_origin *origin;
};

struct gb_http_conn {
    struct gb_http *http;
    struct MHD_Connection *mhd;
    const struct gb_listener *listener;
    struct gb_http_conn *next;
    struct gb_http_conn *prev;
    unsigned refs; /* 1 for libmicrohttpd's */
    int fd;
    bool tls;
    bool closed; /* libmicrohttpd has let go of it */
    bool suspended;
    bool cut; /* shut down for a reason of ours, which was counted */
    uint64_t charge;
    struct gb_certs *certs; /* of its handshake */

    struct gb_deadline deadline;
    int64_t since_ms; /* when it last made progress, or fell idle */
    uint64_t seen;    /* bytes then */
    bool arriving;    /* bytes of a head have come, and no request yet */
    bool known;       /* it has had a request */
    bool was_busy;    /* there was a request since the deadline last fired */

    char peer[GB_LOOP_ADDRESS_TEXT];
    struct gb_http_request request;
};

/* HTTP on one loop. */
struct gb_http_daemon;
struct gb_http {
    struct gb_loop *loop;
    const struct gb_http_options *options;
    struct gb_http_daemon *plain;
    struct gb_http_daemon *secure;
    struct gb_origin *origin;      /* NULL: there is none */
    struct gb_http_tokens *tokens; /* NULL: everybody may do everything */
    struct gb_certs *certs;        /* NULL: no TLS */
    struct gb_http_conn *conns;
    const struct gb_listener *accepting;
    struct gb_http_conn *accepted; /* the connection that is being accepted, if it is still there */
    bool was_accepted;             /* libmicrohttpd has told of it */
    unsigned refs;                 /* connections, daemons, and being open */
};

/* ---- http.c -------------------------------------------------------------------------------- */

/* From within a step or the production of a body: it is called again after gb_http_resume. */
void gb_http_suspend(struct gb_http_conn *conn);
void gb_http_resume(struct gb_http_conn *conn);
void gb_http_ref(struct gb_http_conn *conn);
void gb_http_unref(struct gb_http_conn *conn);
/* Looks at its deadlines after a while, from now on more often if a body is to come. */
void gb_http_watch(struct gb_http_conn *conn);
/* Ends it, counting why. */
void gb_http_cut(struct gb_http_conn *conn, unsigned why);

/* ---- http_request.c ------------------------------------------------------------------------ */

enum MHD_Result gb_http_handle(void *arg, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *len, void **request);
void *gb_http_see_target(void *arg, const char *target, struct MHD_Connection *mhd);
void gb_http_complete(void *arg, struct MHD_Connection *mhd, void **request,
                      enum MHD_RequestTerminationCode why);
/* Frees what the request holds, unless something of it is still in use: then once more later. */
void gb_http_clean(struct gb_http_conn *conn);

/* ---- http_answer.c ------------------------------------------------------------------------- */

/* Answers with a line of text. */
enum MHD_Result gb_http_answer_text(struct gb_http_conn *conn, int status, const char *text);
/* With what a fault of the store means. */
enum MHD_Result gb_http_answer_fault(struct gb_http_conn *conn, int fault);
/* Adds the fields that every answer has, and queues. Owns: response. */
enum MHD_Result gb_http_answer(struct gb_http_conn *conn, int status,
                               struct MHD_Response *response);
/* `response` may be NULL for want of memory: then all these do nothing. */
void gb_http_add_field(struct MHD_Response *response, const char *name, const char *value);
void gb_http_add_number(struct MHD_Response *response, const char *name, uint64_t value);
void gb_http_add_date(struct MHD_Response *response, const char *name, int64_t time_ms);
/* What tells of an object: validators, age, expiry, and its metadata. `type`: Content-Type, "" for
 * the object's own, NULL for an answer that has no body of it. */
void gb_http_add_object(struct gb_http_conn *conn, struct MHD_Response *response,
                        const struct gb_http_object *object, const char *type);
struct MHD_Response *gb_http_empty_response(void);

/* ---- http_look.c --------------------------------------------------------------------------- */

/* Looks for the request's key: call it until it says true, suspending in between; look.result is
 * then what was found. With `body` the object's bytes are asked for in the same breath; the first
 * of them have come when it says true, and belong to the body. */
bool gb_http_look(struct gb_http_conn *conn, bool body);
void gb_http_object_fill(struct gb_http_object *object, const struct goblin_info *info,
                         struct goblin_slice meta);
void gb_http_object_clear(struct gb_http_object *object);
/* `etag` has room for GB_HTTP_ETAG_BYTES. */
void gb_http_etag(char *etag, uint64_t version, uint64_t size);
enum gb_http_verdict gb_http_judge(struct gb_http_conn *conn, const struct gb_http_object *object,
                                   bool reading);
bool gb_http_has_conditions(const struct gb_http_conn *conn);

/* ---- http_get.c, http_put.c, http_list.c, http_status.c -------------------------------------- */

/* The largest value that a PUT may bring. */
uint64_t gb_http_value_bytes(const struct gb_http_conn *conn);
enum MHD_Result gb_http_get(struct gb_http_conn *conn, struct gb_http_input *input);
/* Whether a look may bring the first bytes along: all of the object is asked for. */
bool gb_http_wants_body(const struct gb_http_conn *conn);
/* Whether the bytes that libmicrohttpd takes for a response that is produced as it goes out are
 * there, in body.charge, for a body of `length`; false: the connection will be resumed once they
 * are. */
bool gb_http_has_room(struct gb_http_conn *conn, uint64_t length);
enum MHD_Result gb_http_put(struct gb_http_conn *conn, struct gb_http_input *input);
enum MHD_Result gb_http_delete(struct gb_http_conn *conn, struct gb_http_input *input);
enum MHD_Result gb_http_list(struct gb_http_conn *conn, struct gb_http_input *input);
void gb_http_list_clean(struct gb_http_conn *conn);
enum MHD_Result gb_http_health(struct gb_http_conn *conn, struct gb_http_input *input);
enum MHD_Result gb_http_readiness(struct gb_http_conn *conn, struct gb_http_input *input);
enum MHD_Result gb_http_metrics(struct gb_http_conn *conn, struct gb_http_input *input);
enum MHD_Result gb_http_status(struct gb_http_conn *conn, struct gb_http_input *input);

/* status.html, from the build. */
extern const unsigned char gb_http_page[];
extern const size_t gb_http_page_len;

#endif
