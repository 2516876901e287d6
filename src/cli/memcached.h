/*
 * `goblin memcached`: memcached's own command line, so that service files and test suites written
 * for it run unchanged. An option that has a meaning here has the same one; one that tunes what
 * Goblin does not have (slabs, UDP) is accepted with a warning; one that would change what clients
 * see (the binary protocol, SASL) is refused. Exit codes are memcached's: 1, or those of
 * sysexits.h.
 *
 * memcached.c reads the command line, memcached_run.c does what it says.
 */
#ifndef GB_CLI_MEMCACHED_H
#define GB_CLI_MEMCACHED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <goblin/error.h>

#include "server/tls.h"

#define GB_MEMCACHED_LISTEN_MAX 16u
#define GB_MEMCACHED_STORES_MAX 8u

struct gb_memcached_settings {
    int port; /* -1: any, 0: none */
    const char *listen[GB_MEMCACHED_LISTEN_MAX];
    bool listen_plain[GB_MEMCACHED_LISTEN_MAX]; /* "notls:": despite -Z */
    unsigned listen_count;
    const char *unix_path; /* without TLS always */
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
    bool tls;
    struct gb_certs_files tls_files; /* the key's is NULL: it is in the chain's */
    struct gb_tls_options tls_options;
    char *stores[GB_MEMCACHED_STORES_MAX]; /* from ext_path; none: a scratch directory. Owned */
    size_t store_count;
    uint64_t store_bytes; /* of all of them */
    unsigned verbose;
    bool daemon;
    bool lock_memory;
    bool core_dumps;
    bool no_flush;
    bool no_dump;
    bool no_watch;
    bool shutdown;
    bool test_clock;
    bool help;
    bool version;
    bool license;
    int refusal; /* what to exit with, when something was refused */
};

/* Fills in what argv[1…] says over memcached's defaults; warnings go to standard error.
 * Returns GOBLIN_OK or GOBLIN_EOPTION, explained. Threads: one at a time (getopt_long). */
int gb_memcached_parse(struct gb_memcached_settings *settings, int argc, char **argv,
                       struct goblin_error *error);
void gb_memcached_free(struct gb_memcached_settings *settings);

/* -h: only what has a meaning here. */
void gb_memcached_help(FILE *out);

/* The program; argv[0] is not looked at. Returns the exit code. */
int gb_memcached_run(int argc, char **argv);

#endif
