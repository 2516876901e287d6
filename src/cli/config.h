/*
 * Options from a file and from the environment, for verbs that run as services.
 *
 * The names are those of the command line. In the file, which is INI, they stand alone or in
 * sections: in [http] `tokens` is --http-tokens if there is such an option, else --tokens. In the
 * environment they are in capitals with underscores: GOBLIN_STORE_SIZE. A list may be given several
 * times in the file, and parted by commas in the environment. The command line overrides the
 * environment, which overrides the file.
 */
#ifndef GB_CLI_CONFIG_H
#define GB_CLI_CONFIG_H

#include <stddef.h>

#include "cli/options.h"

extern const struct gb_option gb_config_options[];

/* The settings of gb_config_options, and what the values point to. Zero at first. */
struct gb_config {
    const char *file;
    bool check; /* --check-config */
    char **texts;
    size_t text_count;
};

/* Reads the file, if there is one, then the environment.
 * Returns GOBLIN_OK, or a fault that names file and line, or the variable. */
int gb_config_load(struct gb_config *config, const struct gb_option_group *groups,
                   size_t group_count, struct goblin_error *error);

/* After this the values are gone. */
void gb_config_free(struct gb_config *config);

#endif
