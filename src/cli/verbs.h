/*
 * Verbs: what `goblin <verb>` can be, each a table row with its options, its help and its code.
 *
 * One file per family defines its rows; command.c lists them, parses and calls.
 */
#ifndef GB_CLI_VERBS_H
#define GB_CLI_VERBS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/config.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/say.h"
#include "cli/session.h"

struct gb_verb_call {
    const struct gb_session_settings *store;
    const void *settings; /* the verb's own, as its options filled them */
    const struct gb_config *config;
    const struct gb_remote_settings *remote;
    char **operands; /* with --server the first one is its address */
    int operand_count;
};

struct gb_verb {
    const char *name;
    const char *operands; /* "DIR KEY FILE|-" */
    const char *summary;  /* one line */
    const char *details;  /* a paragraph or more, in lines, or NULL */
    const struct gb_option *options;
    size_t settings_bytes; /* zeroed before parsing */
    int operands_least;
    int operands_most; /* -1: any number */
    bool opens_store;  /* takes gb_session_options too */
    bool asks_server;  /* takes gb_remote_options too: --server in place of the first operand */
    bool configurable; /* takes gb_config_options too: a file, and the environment */
    enum gb_exit (*run)(const struct gb_verb_call *call);
};

/* For tables of verbs without options of their own. */
extern const struct gb_option gb_verbs_no_options[];

extern const struct gb_verb gb_verbs_init;
extern const struct gb_verb gb_verbs_put;
extern const struct gb_verb gb_verbs_get;
extern const struct gb_verb gb_verbs_rm;
extern const struct gb_verb gb_verbs_touch;
extern const struct gb_verb gb_verbs_ls;
extern const struct gb_verb gb_verbs_stat;
extern const struct gb_verb gb_verbs_load;
extern const struct gb_verb gb_verbs_check;
extern const struct gb_verb gb_verbs_stats;
extern const struct gb_verb gb_verbs_clear;
extern const struct gb_verb gb_verbs_serve;
extern const struct gb_verb gb_verbs_top;

#endif
