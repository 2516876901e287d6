/*
 * The origin: where the answers come from that the store does not have.
 *
 * A *fill* is one request to the origin, on the loop of whoever asked first. Its bytes go through a
 * window of bounded size: from the origin, to the store (backend.h's streams), and to all who
 * *follow* it, on whichever loop they are. There is one fill per key in the process; who asks for a
 * key that is being filled follows that fill.
 *
 *     origin -> [ window ] -> store
 *                   |
 *                   +-> followers
 *
 * While the answer is being stored the window moves on with the store: a follower that is slower
 * falls behind, waits until the answer is stored as a whole, and reads on from the store. Nobody
 * holds up a fill, and a fill goes on when nobody follows any more. What is not stored moves with
 * the slowest follower, and ends with the last.
 *
 * A store that fails turns a fill into one that is not stored. An origin that fails in the middle
 * fails the followers, and nothing is stored.
 *
 * Threads: calls are made on the loop that is handed in; a follower belongs to it.
 */
#ifndef GB_SERVER_ORIGIN_H
#define GB_SERVER_ORIGIN_H

#include <sys/types.h>

#include "proto/origin_head.h"
#include "server/loop.h"

struct gb_origin;
struct gb_origin_follower;

/* Zero means what stands in brackets. */
struct gb_origin_options {
    const char *url;       /* "http://host:port/base"; NULL: no origin */
    int64_t timeout_ms;    /* without a byte; (30 s) */
    unsigned connections;  /* of all loops; (64) */
    uint64_t object_bytes; /* what is larger is not stored; (1 GiB) */
    unsigned redirects;    /* how many are followed; (none) */
    const char *ca_file;   /* certificates to trust, PEM; (the system's) */
};

/* Looks at the options. */
int gb_origin_check(const struct gb_origin_options *options, struct goblin_error *error);

/* For all loops of a server. Threads: the one that starts it, before the loops run and after they
 * have ended. */
int gb_origin_create(struct gb_origin **out, const struct gb_origin_options *options,
                     unsigned loops, struct goblin_error *error);
void gb_origin_destroy(struct gb_origin *origin);

/* A loop's part. `stop` fails every fill of the loop; followers have left before. */
int gb_origin_start(struct gb_origin *origin, struct gb_loop *loop);
void gb_origin_stop(struct gb_origin *origin, struct gb_loop *loop);

/* What this server is called in Via fields: of this process alone, so that a loop is seen. */
const char *gb_origin_name(const struct gb_origin *origin);

/* What is asked for. All of it is copied. */
struct gb_origin_ask {
    struct goblin_slice key;           /* where the answer is looked for, and fills are shared */
    struct goblin_slice base;          /* the key without a variant */
    const char *path;                  /* "/path?query", escaped */
    struct gb_http_text lines;         /* fields that the answer may depend on, and Via */
    struct gb_http_text extra;         /* fields that it may not depend on */
    const struct gb_origin_kept *kept; /* is to be validated; NULL: nothing is there */
    struct goblin_slice meta;          /* of it */
    uint64_t version;                  /* of what stands at `key`; 0: nothing */
    struct gb_cache_control control;   /* of the request */
    bool alone;                        /* not to be shared */
    bool unstored;
    bool authorized; /* `extra` says who asks */
};

enum gb_origin_state {
    GB_ORIGIN_ASKING,   /* nothing has come yet */
    GB_ORIGIN_ANSWERED, /* there is a head */
    GB_ORIGIN_REFUSED,  /* the answer is for another one alone: ask for yourself */
    GB_ORIGIN_SAME,     /* what was kept is good again: look it up */
    GB_ORIGIN_FAILED,   /* no answer */
};

/* Follows the fill of the key, or begins it. `wake` is called on the loop when the state has
 * changed, or bytes have come, after somebody was told to wait; never during a call.
 * Errors: -ENOMEM, -EINVAL, GOBLIN_ECLOSED. */
int gb_origin_follow(struct gb_origin *origin, struct gb_loop *loop,
                     const struct gb_origin_ask *ask, struct gb_origin_follower **out);
void gb_origin_set_wake(struct gb_origin_follower *follower, void (*wake)(void *arg), void *arg);
/* NULL is fine. */
void gb_origin_leave(struct gb_origin_follower *follower);

enum gb_origin_state gb_origin_state(struct gb_origin_follower *follower);
/* Of one that has answered; lives as long as the follower. */
const struct gb_origin_head *gb_origin_head(const struct gb_origin_follower *follower);
/* The variant that the answer is; absent if it is the only one. */
struct gb_http_text gb_origin_variant(const struct gb_origin_follower *follower);
/* What is kept of the answer; NULL: it is not stored. */
const struct gb_origin_kept *gb_origin_keeps(const struct gb_origin_follower *follower,
                                             struct goblin_slice *meta);
/* The status to tell of one that has failed: 502 or 504. */
int gb_origin_failure(const struct gb_origin_follower *follower);

/* The follower waits for bytes of the network budget: what is held for him is given back if the
 * store has it. */
void gb_origin_wait(struct gb_origin_follower *follower);

#define GB_ORIGIN_END    0          /* all bytes were read */
#define GB_ORIGIN_WAIT   (-EAGAIN)  /* `wake` will be called */
#define GB_ORIGIN_STORED (-ESPIPE)  /* the rest is in the store: gb_origin_stored */
#define GB_ORIGIN_LOST   (-ENODATA) /* it has gone by, and the store has failed */

/* Reads from `position`, which only grows. Returns how many bytes were read, one of the above, or
 * the fault that ends it. */
ssize_t gb_origin_read(struct gb_origin_follower *follower, uint64_t position, void *to,
                       size_t most);
/* Where the rest is. The key lives as long as the follower. */
void gb_origin_stored(struct gb_origin_follower *follower, struct goblin_slice *key,
                      struct goblin_info *info);

/* Where a variant of `base` stands: one of 64 places per key. Writes the key; false: too long. */
bool gb_origin_place(struct goblin_slice base, struct gb_http_text variant, unsigned char *out,
                     size_t size, size_t *len);

#endif
