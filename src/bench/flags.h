/*
 * Command lines by table: a flag has a name, a kind, a place in a struct, limits and a line of
 * help. Parsing, error texts and --help all follow from the table.
 */
#ifndef GB_BENCH_FLAGS_H
#define GB_BENCH_FLAGS_H

#include <stddef.h>
#include <stdio.h>

#include "goblin/error.h"

enum gb_flag_kind {
    GB_FLAG_TEXT,   /* const char *: borrowed from argv */
    GB_FLAG_SIZE,   /* uint64_t bytes: 512M, 4GiB */
    GB_FLAG_RATE,   /* uint64_t bits per second: 937mbit */
    GB_FLAG_COUNT,  /* uint64_t: 250, 10k */
    GB_FLAG_REAL,   /* double */
    GB_FLAG_SWITCH, /* bool: no value, present is true */
    GB_FLAG_CUSTOM, /* `take` does it */
};

struct gb_flag {
    const char *name;
    enum gb_flag_kind kind;
    size_t offset; /* in the struct that is filled */
    double least;  /* of numbers; both 0: no limits */
    double most;
    const char *value; /* what help calls the value */
    const char *help;
    /* Returns 0, or -EINVAL with the reason (without the flag's name) in `error`. */
    int (*take)(void *target, const char *text, struct goblin_error *error);
};

/* Rows of a table whose flags are taken as they are, the second kind between limits. */
#define GB_FLAG_ROW(kind_, name_, type_, field_, value_, help_)                                    \
    {                                                                                              \
        .name = (name_), .kind = GB_FLAG_##kind_, .offset = offsetof(struct type_, field_),        \
        .value = (value_), .help = (help_)                                                         \
    }
#define GB_FLAG_LIMITED(kind_, name_, type_, field_, least_, most_, value_, help_)                 \
    {                                                                                              \
        .name = (name_), .kind = GB_FLAG_##kind_, .offset = offsetof(struct type_, field_),        \
        .least = (least_), .most = (most_), .value = (value_), .help = (help_)                     \
    }

/* Fills `target` from argv[1...]; `flags` ends with a NULL name. There are no bare arguments.
 * Returns 0, 1 for --help (nothing is printed), or -EINVAL with flag, limit and remedy. */
int gb_flags_parse(const struct gb_flag *flags, void *target, int argc, char **argv,
                   struct goblin_error *error);

/* The same for a command with bare arguments: they are argv[*first...] afterwards, in order. */
int gb_flags_parse_bare(const struct gb_flag *flags, void *target, int argc, char **argv,
                        int *first, struct goblin_error *error);

/* The line that was typed, for reports: "goblin-bench" and argv[0...]; cut off at text_len. */
void gb_flags_command(char *text, size_t text_len, int argc, char *const *argv);

void gb_flags_help(const struct gb_flag *flags, FILE *out);

#endif
