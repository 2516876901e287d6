/*
 * Option tables: one row says what an option is called, what it takes, where it goes and how the
 * help explains it, so that the parser and the help text cannot disagree.
 *
 * A row writes one member of a settings struct, which the caller zeroes first (or fills with
 * defaults). A group is a table with the struct it writes; a verb has its own group and shares the
 * one that opens stores.
 */
#ifndef GB_CLI_OPTIONS_H
#define GB_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <goblin/error.h>

enum gb_option_kind {
    GB_OPTION_FLAG,     /* bool */
    GB_OPTION_TEXT,     /* const char *, borrowed from argv */
    GB_OPTION_SIZE,     /* uint64_t bytes, "100G" */
    GB_OPTION_DURATION, /* int64_t ms, "1h" */
    GB_OPTION_COUNT,    /* uint64_t, plain decimal */
    GB_OPTION_CHOICE,   /* int: which word of `value`, from 0 */
    GB_OPTION_LIST,     /* struct gb_option_list: may be given several times */
};

/* Where a value comes from. A later source overrides an earlier one, lists as a whole. */
enum gb_option_source {
    GB_SOURCE_DEFAULT = 0,
    GB_SOURCE_FILE,
    GB_SOURCE_ENVIRONMENT,
    GB_SOURCE_COMMAND,
};

#define GB_OPTION_LIST_MAX 16u

struct gb_option_list {
    const char *items[GB_OPTION_LIST_MAX]; /* borrowed */
    unsigned count;
    enum gb_option_source source;
};

struct gb_option {
    const char *name; /* the long name; NULL ends a table */
    char letter;      /* the short name, or 0 */
    enum gb_option_kind kind;
    size_t offset;     /* of the member in the settings struct */
    const char *value; /* the argument's name in the help; of a choice its words: "auto|sync" */
    uint64_t least;    /* of a size, duration or count; `most` 0: no limit */
    uint64_t most;
    const char *help;
};

struct gb_option_group {
    const char *title; /* over the options in the help */
    const struct gb_option *options;
    void *settings;
};

#define GB_OPTIONS_MAX 96u

/* Parses argv[1…]; operands are moved behind the options. With `stop_at_operand` it ends at the
 * first one (options in front of a verb). Lists that an earlier call filled begin anew.
 * Returns the index of the first operand, or GOBLIN_EOPTION with the option, the limit and the
 * remedy in `error`. Threads: one at a time (getopt_long). */
int gb_options_parse(const struct gb_option_group *groups, size_t group_count, int argc,
                     char **argv, bool stop_at_operand, struct goblin_error *error);

/* Sets the option called `name` from a text that outlives the settings; a flag takes yes or no.
 * Returns GOBLIN_OK, GOBLIN_MISS if no group has it, or GOBLIN_EOPTION, explained. */
int gb_options_set(const struct gb_option_group *groups, size_t group_count, const char *name,
                   const char *text, enum gb_option_source source, struct goblin_error *error);

void gb_options_print(FILE *out, const struct gb_option_group *groups, size_t group_count);

#endif
