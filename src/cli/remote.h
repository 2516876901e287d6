/*
 * Verbs that ask a running server, over HTTP, instead of opening the store, which the server has.
 *
 * Everything is said here: misses, refusals and faults. A value that does not come or go whole is a
 * fault, and leaves what was there.
 */
#ifndef GB_CLI_REMOTE_H
#define GB_CLI_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "cli/options.h"
#include "cli/say.h"
#include "cli/text.h"

struct gb_remote_settings {
    char *server; /* NULL: none, the store is opened */
    const char *token_file;
};

extern const struct gb_option gb_remote_options[];

/* Says that an option is of no use with --server. */
enum gb_exit gb_remote_refuse(const char *verb, const char *option);

/* `range` NULL: all of it. `output` as of gb_sink_init. */
enum gb_exit gb_remote_get(const struct gb_remote_settings *remote, struct goblin_slice key,
                           const struct gb_text_range *range, const char *output);

struct gb_remote_put {
    int fd;
    const char *path; /* for messages */
    int64_t ttl_ms;   /* 0: for ever; the server takes whole seconds, rounded up */
    bool if_absent;
    bool if_present;
    int durability; /* none, written, synced */
};

enum gb_exit gb_remote_put(const struct gb_remote_settings *remote, struct goblin_slice key,
                           const struct gb_remote_put *put);

enum gb_exit gb_remote_rm(const struct gb_remote_settings *remote, struct goblin_slice key);

/* Prints what the server tells of the object. */
enum gb_exit gb_remote_stat(const struct gb_remote_settings *remote, struct goblin_slice key);

/* Hands over the keys that begin with `prefix` in their order, until `on_key` answers nonzero. */
enum gb_exit gb_remote_ls(const struct gb_remote_settings *remote, struct goblin_slice prefix,
                          int (*on_key)(void *arg, struct goblin_slice key), void *arg);

#endif
