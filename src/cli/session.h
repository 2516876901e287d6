/*
 * A store opened for one verb: its directories from the operand, its options from the command
 * line, its faults put into words.
 */
#ifndef GB_CLI_SESSION_H
#define GB_CLI_SESSION_H

#include <goblin/goblin.h>

#include "cli/options.h"
#include "cli/say.h"

#define GB_SESSION_DIRS_MAX 64u

/* What every verb that opens a store lets the user set. */
struct gb_session_settings {
    uint64_t memory_bytes;
    const char *heads_dir;
    bool degraded;
    int io;        /* enum goblin_io */
    int caching;   /* enum goblin_caching */
    int residency; /* enum goblin_residency */
    int log;       /* enum goblin_log_level */
    int admit;     /* enum goblin_admit */
    uint64_t write_budget_day_bytes;
};

extern const struct gb_option gb_session_options[];
extern const struct gb_session_settings gb_session_defaults;

struct gb_session {
    struct goblin *store;
    const char *name; /* the operand: "DIR" or "DIR,DIR2" */
    char *dirs_text;
    const char *dirs[GB_SESSION_DIRS_MAX];
    size_t dir_count;
    enum goblin_log_level log;
};

/* Splits `name` at commas and opens the store there. `options` carries what the verb itself sets
 * (read_only, create and the settings of creation); the rest is filled in.
 * Returns GB_EXIT_OK, or another code when a fault has been said; the session is then closed. */
enum gb_exit gb_session_open(struct gb_session *session, const char *name,
                             const struct gb_session_settings *settings,
                             const struct goblin_options *options);

/* As gb_session_open, but returns what goblin_open does and leaves it to the caller to say it. */
int gb_session_try_open(struct gb_session *session, const char *name,
                        const struct gb_session_settings *settings,
                        const struct goblin_options *options, struct goblin_error *error);

/* Fills in what is not the verb's own, for a call that opens the store by itself; opens nothing.
 * What `options` points to lives until gb_session_forget. */
int gb_session_prepare(struct gb_session *session, const char *name,
                       const struct gb_session_settings *settings, struct goblin_options *options,
                       struct goblin_error *error);
void gb_session_forget(struct gb_session *session);

/* Says what gb_session_try_open could not do. */
enum gb_exit gb_session_say_open(int fault, const struct goblin_error *error);

/* Closes the store; a fault then (what was written last did not reach the disk) is said and beats
 * a better `code`. Harmless for a session that is not open. */
enum gb_exit gb_session_close(struct gb_session *session, enum gb_exit code);

/* Says "goblin: DIR: doing 'key': sentence; remedy". `key` may be NULL. Threads: any. */
enum gb_exit gb_session_say(const struct gb_session *session, const char *doing,
                            const struct goblin_slice *key, int fault);

#endif
