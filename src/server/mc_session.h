/*
 * What the parts of the memcached session know of each other: memcache.c (the protocol, and what
 * its loops share), mc_session.c (a connection and its commands), mc_get.c, mc_put.c (values that
 * come), mc_edit.c (values made from old ones), mc_change.c (delete, touch, flush_all), mc_stats.c,
 * mc_dump.c, mc_watch.c and mc_auth.c.
 *
 * A command is carried out in steps. Each asks the backend for something and names what follows;
 * what is answered at once follows at once, else the connection pauses, and the command's texts
 * stay where they were received. Objects on their way out (struct gb_mc_answer) outlive their
 * command.
 *
 * Threads: the loop's, but for struct gb_memcache.
 */
#ifndef GB_SERVER_MC_SESSION_H
#define GB_SERVER_MC_SESSION_H

#include <pthread.h>

#include "proto/mc_admin.h"
#include "proto/mc_parse.h"
#include "proto/mc_write.h"
#include "server/backend.h"
#include "server/conn.h"
#include "server/log.h"
#include "server/mc_count.h"
#include "server/memcache.h"
#include "server/metrics.h"
#include "server/server.h"

/* The marks of an object (GOBLIN_MARKS) that are memcached's. */
#define GB_MC_STALE 0x01u /* invalidated, still served */
#define GB_MC_SENT  0x02u /* a client was told to make it anew */

struct gb_mc_auth;
struct gb_mc_dump;
struct gb_mc_session;
struct gb_mc_watcher;

struct gb_memcache {
    struct gb_memcache_options options; /* constant */
    _Atomic unsigned topics;            /* that somebody watches; relaxed: a hint */
    _Atomic uint64_t last_line;         /* number of the last line told to watchers; relaxed */
    pthread_mutex_t lock;               /* for what follows */
    struct gb_mc_loop *loops;
    uint64_t baseline[GB_MC_COUNTER_COUNT]; /* what `stats reset` subtracts */
};

struct gb_mc_loop {
    struct gb_memcache *memcache;
    struct gb_loop *loop;
    struct gb_mc_loop *next; /* under memcache->lock */
    struct gb_mc_counts counts;
    struct gb_mc_answer *free_answers; /* charged */
    unsigned free_answer_count;
    struct gb_mc_auth *auth; /* NULL: none is asked for */
    struct gb_tls *tls;      /* NULL: no listener has it */
    struct gb_mc_watcher *watchers;
    _Atomic unsigned
        topics; /* of theirs; written under memcache->lock, read with it or as a hint */
    struct gb_deadline flush; /* of a delayed flush_all */
};

#define GB_MC_ANSWERS_KEPT 256u /* free ones, for answers to come */

/* An object on its way to the client. In the list of its session from gb_conn_send to on_body. */
struct gb_mc_answer {
    struct gb_mc_answer *next;
    struct gb_mc_answer *prev;
    struct gb_mc_session *session;
    struct gb_mc_request request; /* its texts are kept below once they must outlive the command */
    uint64_t begun_ns;
    uint64_t bytes;
    int64_t left_before_s; /* when the command itself has changed the expiry */
    bool last;             /* key of its line */
    bool hit;
    bool won;
    bool changed; /* left_before_s counts */
    bool over;
    char key[GB_MC_KEY_MAX];
    char opaque[GB_MC_OPAQUE_MAX];
};

/* What follows a change: `result` is the backend's. */
typedef void gb_mc_step(struct gb_mc_session *session, int result);

struct gb_mc_session {
    struct gb_conn *conn;
    struct gb_mc_loop *home;
    struct gb_mc_parser parser;
    struct gb_mc_event event; /* the command that is being carried out */
    struct gb_mc_answer *answers;
    struct gb_mc_upload *upload; /* a value that is streamed in, the command's own */
    bool upload_ends;            /* all of it is here, its end is not */
    struct gb_mc_watcher *watcher;
    struct gb_mc_dump *dump;
    uint64_t begun_ns;
    uint64_t ended_ns; /* of the command before, if it has ended by itself; 0: it has not */
    size_t hinted;     /* bytes of the input whose keys were hinted at */
    bool authenticated;
    gb_mc_step *next_step;
    union {
        struct gb_change change;
        struct gb_edit edit;
    };
    struct goblin_info info;   /* of the object, when a step looked first */
    struct goblin_slice piece; /* what append and prepend add */
    char number[64];           /* of arithmetic: the new value */
    size_t number_len;
    int64_t expires_ms; /* of arithmetic: of the new value */
    int fault;
    uint8_t outcome;
};

/* ---- mc_session.c -------------------------------------------------------------------------- */

extern const struct gb_conn_ops gb_mc_session_ops;

/* Does session->change, then calls `step`, at once or after a pause. */
void gb_mc_session_change(struct gb_mc_session *session, gb_mc_step *step);

/* Zeroes session->change for the command's key. */
struct gb_change *gb_mc_session_new_change(struct gb_mc_session *session, enum gb_change_kind kind);

/* A line of answer, unless the command wanted none. */
void gb_mc_session_say(struct gb_mc_session *session, struct gb_mc_text text);

/* A meta answer; `nominal` ones are not sent to a quiet (q) command. */
void gb_mc_session_say_meta(struct gb_mc_session *session, const char code[2],
                            const struct gb_mc_object *object, bool nominal);

/* What a fault of the store is called; meta commands hear it even when they are quiet. */
void gb_mc_session_say_fault(struct gb_mc_session *session, int fault);

/* Nanoseconds since the command began, which ends now: the next one of the turn begins then. */
uint64_t gb_mc_session_ended(struct gb_mc_session *session, uint64_t begun_ns);

/* The command is over: it is timed and logged. */
void gb_mc_session_done(struct gb_mc_session *session, enum gb_metrics_op op, const char *status);

static inline void gb_mc_session_count(struct gb_mc_session *session, enum gb_mc_counter counter)
{
    gb_mc_count(&session->home->counts, counter);
}

static inline struct goblin_slice gb_mc_slice(struct gb_mc_text text)
{
    return (struct goblin_slice){text.data, text.len};
}

/* The expiry that a time of the command means. */
int64_t gb_mc_session_expiry(const struct gb_mc_session *session, int64_t exptime_s);

/* What a meta answer tells of `info`. */
void gb_mc_session_describe(const struct gb_mc_session *session, const struct goblin_info *info,
                            struct gb_mc_object *object);

/* ---- mc_get.c ------------------------------------------------------------------------------ */

/* One key of get, gets, gat, gats; `last`: nothing but the end of the line follows. */
void gb_mc_get_key(struct gb_mc_session *session, bool last);
void gb_mc_get_meta(struct gb_mc_session *session);
void gb_mc_get_debug(struct gb_mc_session *session);
void gb_mc_get_close(struct gb_mc_session *session);

/* ---- mc_put.c ------------------------------------------------------------------------------ */

/* A value of the command that is all there. */
void gb_mc_put_value(struct gb_mc_session *session, struct goblin_slice value);
/* One that is to be streamed; the session pauses until it has begun. */
void gb_mc_put_upload(struct gb_mc_session *session);
/* Its end has come. */
void gb_mc_put_end(struct gb_mc_session *session, bool good);
/* The value does not end as it must. */
void gb_mc_put_bad(struct gb_mc_session *session);
/* It will not be stored: what the key held before must not pass for it. */
void gb_mc_put_refuse(struct gb_mc_session *session, int fault);
void gb_mc_put_close(struct gb_mc_session *session);

/* ---- mc_edit.c ----------------------------------------------------------------------------- */

void gb_mc_edit_join(struct gb_mc_session *session, struct goblin_slice value);
void gb_mc_edit_delta(struct gb_mc_session *session);

/* ---- mc_change.c --------------------------------------------------------------------------- */

void gb_mc_change_delete(struct gb_mc_session *session);
void gb_mc_change_delete_meta(struct gb_mc_session *session);
void gb_mc_change_touch(struct gb_mc_session *session);
void gb_mc_change_flush(struct gb_mc_session *session);
/* A delayed flush_all of the loop is dropped. */
void gb_mc_change_stop(struct gb_mc_loop *home);

/* ---- mc_stats.c ---------------------------------------------------------------------------- */

void gb_mc_stats_answer(struct gb_mc_session *session);

/* ---- mc_dump.c ----------------------------------------------------------------------------- */

enum gb_mc_dump_form { GB_MC_DUMP_META, GB_MC_DUMP_MG, GB_MC_DUMP_CACHE };

/* Lists objects, at most `limit` (0: all), in slices on a worker. */
void gb_mc_dump_begin(struct gb_mc_session *session, enum gb_mc_dump_form form, uint64_t limit);
/* The client has taken what was listed. */
void gb_mc_dump_drained(struct gb_mc_session *session);
/* The connection is closed. */
void gb_mc_dump_close(struct gb_mc_session *session);

/* ---- memcache.c ---------------------------------------------------------------------------- */

/* What the sessions of a loop share, NULL for a loop that does not serve us; `options` are a
 * listener's. */
struct gb_mc_loop *gb_memcache_home(const void *options, const struct gb_loop *loop);

#endif
