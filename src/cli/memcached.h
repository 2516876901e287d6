/*
 * `goblin memcached`: memcached's own command line, so that service files and test suites written
 * for it run unchanged. An option that has a meaning here has the same one; one that tunes what
 * Goblin does not have is accepted with a warning; one that would change what clients see (the
 * binary protocol, SASL, UDP) is refused.
 *
 * memcached.c reads the command line, memcached_run.c does what it says.
 */
#ifndef GB_CLI_MEMCACHED_H
#define GB_CLI_MEMCACHED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <goblin/error.h>

#include "cli/say.h"

#define GB_MEMCACHED_LISTEN_MAX 16u

struct gb_memcached_settings {
    int port; /* -1: any, 0: none */
    const char *listen[GB_MEMCACHED_LISTEN_MAX];
    unsigned listen_count;
    const char *unix_path;
    unsigned unix_mode;
    uint64_t memory_bytes;
    uint64_t item_bytes; /* the largest value */
    bool keep_all;       /* -M: a full store refuses */
    unsigned connections;
    unsigned threads; /* 0: one per core */
    unsigned turn_commands;
    unsigned backlog;
    int64_t idle_ms; /* < 0: for ever */
    const char *pid_file;
    const char *user;
    const char *auth_file;
    char *store; /* from ext_path; NULL: a scratch directory. Owned */
    uint64_t store_bytes;
    unsigned verbose;
    bool daemon;
    bool lock_memory;
    bool core_dumps;
    bool no_flush;
    bool no_dump;
    bool no_watch;
    bool shutdown;
    bool help;
    bool version;
};

/* Fills in what argv[1…] says over memcached's defaults; warnings go to standard error.
 * Returns GOBLIN_OK or GOBLIN_EOPTION, explained. Threads: one at a time (getopt_long). */
int gb_memcached_parse(struct gb_memcached_settings *settings, int argc, char **argv,
                       struct goblin_error *error);
void gb_memcached_free(struct gb_memcached_settings *settings);

/* -h: only what has a meaning here. */
void gb_memcached_help(FILE *out);

/* The program; argv[0] is not looked at. */
enum gb_exit gb_memcached_run(int argc, char **argv);

#endif
