/* Objects that come from an origin, over HTTP: see http_origin.c. */
#ifndef GB_SERVER_HTTP_ORIGIN_H
#define GB_SERVER_HTTP_ORIGIN_H

#include <microhttpd.h>

#include "server/origin.h"

struct gb_http_conn;
struct gb_http_object;
struct gb_http_origin;

/* With an origin the query belongs to the key. Errors: -ENOMEM, -EINVAL. */
int gb_http_origin_key(struct gb_http_conn *conn);
/* Prepares a GET or HEAD whose key is made, and gives it its step; or answers. */
enum MHD_Result gb_http_origin_begin(struct gb_http_conn *conn);
/* The object is not the one any more that was looked at: it has been forgotten. */
enum MHD_Result gb_http_origin_again(struct gb_http_conn *conn);
void gb_http_origin_clean(struct gb_http_conn *conn);

/* The origin's entity tag, if the object is an origin's: true, and "" if it gave none. */
bool gb_http_origin_etag(const struct gb_http_object *object, char *etag, size_t size);
/* Adds what tells of the age of an object that is an origin's; false: it is none. */
bool gb_http_origin_add_age(struct gb_http_conn *conn, struct MHD_Response *response,
                            const struct gb_http_object *object);

/* ---- http_origin_answer.c ------------------------------------------------------------------- */

/* Asks the origin; http_origin.c. */
int gb_http_origin_ask(struct gb_http_conn *conn);
/* Answers with what the follower reads. */
enum MHD_Result gb_http_origin_answer(struct gb_http_conn *conn);

/* A GET or HEAD for which the origin may be asked. */
struct gb_http_origin {
    struct gb_origin_follower *follower;
    char *path;          /* owned: of the origin's URL */
    char *lines;         /* owned: what the answer may depend on */
    char *extra;         /* owned: what else is sent */
    unsigned char *base; /* owned: the key without a variant */
    size_t base_len;
    unsigned char *meta; /* owned: of the stale object; `kept` lies in it */
    size_t meta_len;
    struct gb_origin_kept kept;
    uint64_t version; /* of what stands at the key; 0: nothing */
    char variant[GB_ORIGIN_HEAD_VARIANT_MAX];
    size_t variant_len;
    bool has_variant;
    bool has_kept;
    bool validated;   /* the origin has said that what is there is good */
    bool takes_stale; /* the origin has failed: what is there must do */
    bool alone;
    bool unstored;
    bool unkept; /* the store is not asked either */
    bool authorized;
    bool loops;      /* the request has been here before */
    bool anew;       /* what was looked up is to be forgotten first */
    bool serves;     /* what was looked up is the answer */
    bool from_store; /* the rest of the body comes from there */
    bool resumes;    /* asked a second time, for the rest of the body */
    bool resumed;
    unsigned tries;
    uint64_t at;  /* next byte of the body */
    uint64_t end; /* UINT64_MAX: nobody knows */
};

#endif
