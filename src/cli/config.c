/* Options from a file and from the environment: see config.h. */
#include "cli/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"

#define NAME_BYTES 96u
#define PREFIX     "GOBLIN_"

const struct gb_option gb_config_options[] = {
    {.name = "config",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct gb_config, file),
     .value = "FILE",
     .help = "an INI file with options; the environment overrides it"},
    {.name = "check-config",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct gb_config, check),
     .help = "say what is wrong with the options, and end"},
    {0},
};

struct reading {
    struct gb_config *config;
    const struct gb_option_group *groups;
    size_t group_count;
    struct goblin_error *error;
    FILE *file;
    int result;
    bool cut; /* the line that is being read is longer than the library takes */
};

/* A copy that lives as long as the settings. */
static const char *keep(struct gb_config *config, const char *text)
{
    char **texts = realloc(config->texts, (config->text_count + 1) * sizeof(*texts));
    if (texts == NULL) {
        return NULL;
    }
    config->texts = texts;
    char *copy = strdup(text);
    if (copy != NULL) {
        texts[config->text_count++] = copy;
    }
    return copy;
}

static int set(struct reading *reading, const char *name, const char *text,
               enum gb_option_source source)
{
    const char *copy = keep(reading->config, text);
    if (copy == NULL) {
        return -ENOMEM;
    }
    return gb_options_set(reading->groups, reading->group_count, name, copy, source,
                          reading->error);
}

/* ---- the file ------------------------------------------------------------------------------ */

static int set_from_line(struct reading *reading, const char *section, const char *name,
                         const char *value)
{
    int result = GOBLIN_MISS;
    if (section[0] != '\0') {
        char full[NAME_BYTES];
        (void)snprintf(full, sizeof(full), "%s-%s", section, name);
        result = set(reading, full, value, GB_SOURCE_FILE);
    }
    if (result == GOBLIN_MISS) {
        result = set(reading, name, value, GB_SOURCE_FILE);
    }
    if (result == GOBLIN_MISS) {
        return gb_say_explain(reading->error, "%s: no such option", name);
    }
    return result;
}

/* Nonzero: the line is fine. After the first that is not, the others are passed over. */
static int take_line(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *reading = arg;
    if (reading->result < 0) {
        return 1;
    }
    if (reading->cut) {
        reading->result = gb_say_explain(reading->error, "the line is too long");
    } else {
        int result = set_from_line(reading, section, name, value);
        reading->result = result < 0 ? result : GOBLIN_OK;
    }
    return reading->result >= 0;
}

static char *next_line(char *line, int room, void *stream)
{
    struct reading *reading = stream;
    char *got = fgets(line, room, reading->file);
    if (got != NULL && strchr(line, '\n') == NULL && strlen(line) == (size_t)room - 1) {
        reading->cut = true;
    }
    return got;
}

static int load_file(struct reading *reading, const char *name)
{
    reading->file = fopen(name, "re");
    if (reading->file == NULL) {
        return gb_say_explain(reading->error, "%s: %s", name, strerror(errno));
    }
    int line = ini_parse_stream(next_line, reading, take_line, reading);
    bool broken = ferror(reading->file) != 0;
    (void)fclose(reading->file);
    if (broken || line == -2) {
        return gb_say_explain(reading->error, "%s: cannot be read", name);
    }
    if (line > 0) {
        struct goblin_error why = *reading->error;
        return gb_say_explain(reading->error, "%s:%d: %.400s", name, line,
                              reading->result < 0 ? why.text
                                                  : "neither a [section] nor NAME = VALUE");
    }
    return reading->cut ? gb_say_explain(reading->error, "%s: a line is too long", name)
                        : GOBLIN_OK;
}

/* ---- the environment ----------------------------------------------------------------------- */

static void format_variable(char out[NAME_BYTES], const char *name)
{
    size_t len = (size_t)snprintf(out, NAME_BYTES, PREFIX "%s", name);
    for (size_t i = strlen(PREFIX); i < len && i < NAME_BYTES; i++) {
        if (out[i] == '-') {
            out[i] = '_';
        } else {
            out[i] = (char)toupper((unsigned char)out[i]);
        }
    }
}

/* A list's value is cut at its commas. */
static int set_from_variable(struct reading *reading, const struct gb_option *row, const char *text)
{
    if (row->kind != GB_OPTION_LIST) {
        return set(reading, row->name, text, GB_SOURCE_ENVIRONMENT);
    }
    char *copy = strdup(text);
    int result = copy == NULL ? -ENOMEM : GOBLIN_OK;
    char *rest = copy;
    for (char *item = NULL; result >= 0 && (item = strsep(&rest, ",")) != NULL;) {
        if (item[0] != '\0') {
            result = set(reading, row->name, item, GB_SOURCE_ENVIRONMENT);
        }
    }
    free(copy);
    return result;
}

static int load_environment(struct reading *reading)
{
    for (size_t i = 0; i < reading->group_count; i++) {
        for (const struct gb_option *row = reading->groups[i].options; row->name != NULL; row++) {
            char variable[NAME_BYTES];
            format_variable(variable, row->name);
            const char *text = getenv(variable);
            int result = text == NULL ? GOBLIN_OK : set_from_variable(reading, row, text);
            if (result < 0) {
                struct goblin_error why = *reading->error;
                return gb_say_explain(reading->error, "%s: %.400s", variable, why.text);
            }
        }
    }
    return GOBLIN_OK;
}

/* ---- both ---------------------------------------------------------------------------------- */

int gb_config_load(struct gb_config *config, const struct gb_option_group *groups,
                   size_t group_count, struct goblin_error *error)
{
    struct reading reading = {
        .config = config,
        .groups = groups,
        .group_count = group_count,
        .error = error,
    };
    const char *file = config->file != NULL ? config->file : getenv(PREFIX "CONFIG");
    int result = file == NULL ? GOBLIN_OK : load_file(&reading, file);
    if (result >= 0) {
        result = load_environment(&reading);
    }
    return result;
}

void gb_config_free(struct gb_config *config)
{
    for (size_t i = 0; i < config->text_count; i++) {
        free(config->texts[i]);
    }
    free(config->texts);
    *config = (struct gb_config){0};
}
