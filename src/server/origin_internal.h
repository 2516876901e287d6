/*
 * The origin from the inside.
 *
 *     origin.c         options, the table of fills, the loop's sockets and timer for libcurl
 *     origin_fill.c    one request to the origin: its head, its bytes, its end
 *     origin_store.c   what becomes of the bytes: one put, or a stream
 *     origin_follow.c  who reads along
 *
 * Locks: the table's, then a fill's, then a loop's of its posts. A fill is in the table until its
 * answer is stored, or is known to be for nobody else. References: the home loop's until it is
 * over, the table's, and one per follower. Nothing is posted to the home loop once `over` is set.
 */
#ifndef GB_SERVER_ORIGIN_INTERNAL_H
#define GB_SERVER_ORIGIN_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "server/backend.h"
#include "server/metrics.h"
#include "server/origin.h"

#define GB_ORIGIN_WINDOW_BYTES 262144u /* what a fill holds at the most */
#define GB_ORIGIN_WINDOW_LEAST 32768u  /* when bytes are short: two pieces of libcurl's */
#define GB_ORIGIN_PIECE_BYTES  65536u  /* what is written to the store at once, if there is more */
#define GB_ORIGIN_HEAD_BYTES   32768u  /* of an answer's fields */
#define GB_ORIGIN_BUCKETS      1024u
#define GB_ORIGIN_PLACES       64u   /* for the variants of a key */
#define GB_ORIGIN_VARY_BYTES   1024u /* of metadata that tells of them */

struct gb_origin_fill;

/* The origin on one loop; its thread's. */
struct gb_origin_loop {
    struct gb_origin *origin;
    struct gb_loop *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct gb_origin_fill *fills;
    unsigned refs; /* the timer's, and one per fill */
    bool stopped;
};

struct gb_origin {
    struct gb_origin_options options;
    char *base; /* of every URL, without a last slash */
    char name[32];
    struct gb_origin_loop **loops;
    unsigned loop_count;

    pthread_mutex_t lock; /* of the table */
    struct gb_origin_fill *buckets[GB_ORIGIN_BUCKETS];
};

struct gb_origin_follower {
    struct gb_origin_fill *fill;
    struct gb_loop *loop;
    void (*wake)(void *arg);
    void *arg;
    struct gb_post post;

    /* Under the fill's lock. */
    struct gb_origin_follower *next;
    struct gb_origin_follower *prev;
    uint64_t position;
    bool first; /* who began the fill */
    bool refused;
    bool waits;  /* wants to be woken */
    bool queued; /* its post is on its way */
    bool left;
};

/* Who takes the bytes out of the window. */
enum gb_origin_mode {
    GB_ORIGIN_MODE_PASS,   /* the slowest follower */
    GB_ORIGIN_MODE_GATHER, /* nobody yet: if it ends within the window it is put at once */
    GB_ORIGIN_MODE_STREAM, /* the store */
};

struct gb_origin_fill {
    /* Constant. */
    struct gb_origin_loop *at; /* home; until it is over */
    struct gb_loop *loop;      /* home's */
    struct gb_origin *origin;
    unsigned char *key; /* owned */
    size_t key_len;
    unsigned char *base; /* owned */
    size_t base_len;
    char *lines; /* owned: that the answer may depend on */
    size_t lines_len;
    struct gb_cache_control control;
    unsigned char *old_meta;   /* owned: of what is to be validated */
    struct gb_origin_kept old; /* lies in it */
    size_t old_meta_len;
    uint64_t old_version;
    bool validates;
    bool unstored;
    bool authorized;

    _Atomic unsigned refs;
    /* Under the table's lock. */
    struct gb_origin_fill *chain;
    bool in_table;

    /* The home loop's. */
    struct gb_origin_fill *next;
    struct gb_origin_fill *prev;
    CURL *easy;
    struct curl_slist *fields;
    struct gb_deadline deadline;
    char *head_bytes; /* owned: lines of the answer */
    size_t head_len;
    int64_t requested_s;
    int status;
    bool head_over;
    bool timed_out;
    struct gb_change change;
    struct gb_edit edit;
    struct gb_stream stream;
    bool stream_used; /* it is the backend's */
    bool stream_open;
    bool stream_busy; /* a call of it is under way */
    bool committing;
    bool change_busy;       /* the change, or the edit */
    unsigned char *put_key; /* owned: where the answer is stored */
    size_t put_key_len;
    unsigned char new_meta[GOBLIN_META_MAX];
    size_t new_meta_len;
    unsigned char vary_meta[GB_ORIGIN_VARY_BYTES];
    int64_t expires_ms;
    size_t writing;
    bool ending; /* the transfer is over; what is left is the store's */
    bool finished;

    /* Written once, before `state` says ANSWERED. */
    struct gb_origin_head head;
    char variant[GB_ORIGIN_HEAD_VARIANT_MAX];
    struct gb_http_text variant_text;
    struct gb_origin_kept kept;
    bool keeps;

    pthread_mutex_t lock; /* of the rest */
    enum gb_origin_state state;
    enum gb_origin_mode mode;
    struct gb_origin_follower *followers;
    bool had_follower;
    bool closed;         /* the answer is for the first follower alone */
    bool stopped;        /* the origin waits for room in the window */
    struct gb_post post; /* to the home loop */
    bool posted;
    bool over;
    int failure; /* status that followers tell */
    int fault;   /* it ended in the middle */
    bool complete;
    bool lent;    /* a piece from `stored` on is being written */
    bool settled; /* the store has, or will not have it */
    bool committed;
    uint64_t version;

    unsigned char *window;
    size_t window_bytes;
    uint64_t come;   /* from the origin */
    uint64_t stored; /* of these, in the store; while streaming */
};

/* ---- origin.c ------------------------------------------------------------------------------ */

void gb_origin_leave_table(struct gb_origin_fill *fill);
/* Takes `loop`, the caller's. */
void gb_origin_unref(struct gb_origin_fill *fill, struct gb_loop *loop);
void gb_origin_ref(struct gb_origin_fill *fill);
void gb_origin_loop_unref(struct gb_origin_loop *at);
uint64_t gb_origin_hash(struct goblin_slice key);

/* ---- origin_fill.c ------------------------------------------------------------------------- */

int gb_origin_fill_create(struct gb_origin_fill **out, struct gb_origin_loop *at,
                          const struct gb_origin_ask *ask);
/* Asks. A fault leaves it as it was. */
int gb_origin_fill_start(struct gb_origin_fill *fill, const struct gb_origin_ask *ask);
void gb_origin_fill_free(struct gb_origin_fill *fill);
/* libcurl is through with it. */
void gb_origin_fill_done(struct gb_origin_fill *fill, CURLcode code);
/* Ends it in any state: nothing more is stored. */
void gb_origin_fill_end(struct gb_origin_fill *fill, int fault);
/* There may be room in the window again. */
void gb_origin_fill_go_on(struct gb_origin_fill *fill);
/* All is done: the home loop lets go of it. */
void gb_origin_fill_finish(struct gb_origin_fill *fill);
/* Has the home loop look at it. Under the lock; does nothing once it is over. */
void gb_origin_fill_poke_locked(struct gb_origin_fill *fill);

/* ---- origin_store.c ------------------------------------------------------------------------ */

/* The head has come: decides whether, where and how it is stored. */
void gb_origin_store_begin(struct gb_origin_fill *fill);
/* Bytes have come, or all of them. */
void gb_origin_store_pump(struct gb_origin_fill *fill);
void gb_origin_store_abort(struct gb_origin_fill *fill);
/* The origin said 304. */
void gb_origin_store_renew(struct gb_origin_fill *fill);

/* ---- origin_follow.c ----------------------------------------------------------------------- */

/* Wakes who waits. Under the lock. */
void gb_origin_wake_locked(struct gb_origin_fill *fill);
/* Refuses all but the first, who began it. Under the lock. */
void gb_origin_refuse_locked(struct gb_origin_fill *fill);
/* How many bytes may still come. Under the lock. */
size_t gb_origin_room_locked(const struct gb_origin_fill *fill);
/* Gives the window back if all of it is in the store. */
void gb_origin_yield(struct gb_origin_fill *fill, struct gb_loop *loop);
struct gb_origin_follower *gb_origin_follower_create(struct gb_origin_fill *fill,
                                                     struct gb_loop *loop);

#endif
