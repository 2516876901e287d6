/* Verbs about a whole store: init, stats, clear. */
#include <errno.h>
#include <string.h>

#include <goblin/stats.h>

#include "base/bits.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/verbs.h"

/* ---- init ---------------------------------------------------------------------------------- */

struct init_settings {
    uint64_t size_bytes;
    uint64_t segment_bytes;
    uint64_t lanes;
    int mode;
};

static const struct gb_option init_options[] = {
    {.name = "size",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct init_settings, size_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "disk for the whole store, all drives together (required)"},
    {.name = "segment",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct init_settings, segment_bytes),
     .value = "SIZE",
     .least = GB_MIB,
     .most = GB_GIB,
     .help = "size of a segment, a power of two (chosen from the size)"},
    {.name = "lanes",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct init_settings, lanes),
     .value = "N",
     .least = 1,
     .most = 16,
     .help = "independent append streams (4)"},
    {.name = "mode",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct init_settings, mode),
     .value = "cache|store",
     .help = "when full, drop the oldest objects, or refuse writes (cache)"},
    {0},
};

static enum gb_exit run_init(const struct gb_verb_call *call)
{
    const struct init_settings *init = call->settings;
    const char *name = call->operands[0];
    if (init->size_bytes == 0) {
        return gb_say(GB_EXIT_USAGE, "init: say how much disk the store may use: --size 100G");
    }
    struct gb_session session;
    struct goblin_error error = {{0}};
    int result = gb_session_try_open(&session, name, call->store,
                                     &(struct goblin_options){.read_only = true}, &error);
    if (result == GOBLIN_OK) {
        (void)gb_session_close(&session, GB_EXIT_OK);
        return gb_say(GB_EXIT_FAULT, "%s: there is a store already; goblin clear empties it", name);
    }
    if (result != -ENOENT) {
        return gb_session_say_open(result, &error);
    }
    const struct goblin_options options = {
        .create = true,
        .size_bytes = init->size_bytes,
        .segment_bytes = init->segment_bytes,
        .lanes = (unsigned)init->lanes,
        .mode = (enum goblin_mode)init->mode,
    };
    enum gb_exit code = gb_session_open(&session, name, call->store, &options);
    return code == GB_EXIT_OK ? gb_session_close(&session, code) : code;
}

const struct gb_verb gb_verbs_init = {
    .name = "init",
    .operands = "DIR[,DIR2...]",
    .summary = "Makes a store in an empty or absent directory",
    .details = "A directory that holds anything else is refused and never touched. Give one\n"
               "directory per drive.",
    .options = init_options,
    .settings_bytes = sizeof(struct init_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_init,
};

/* ---- stats --------------------------------------------------------------------------------- */

struct stats_settings {
    bool json;
};

static const struct gb_option stats_options[] = {
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct stats_settings, json),
     .help = "print one JSON object"},
    {0},
};

static uint64_t stats_value(const struct goblin_stats *stats,
                            const struct goblin_stats_field *field)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + field->offset, sizeof(value));
    return value;
}

static void print_stats_json(const struct goblin_stats *stats)
{
    size_t count;
    const struct goblin_stats_field *fields = goblin_stats_fields(&count);
    struct gb_json json;
    gb_json_init(&json, stdout);
    gb_json_object(&json, NULL);
    for (size_t i = 0; i < count; i++) {
        gb_json_unsigned(&json, fields[i].name, stats_value(stats, &fields[i]));
    }
    gb_json_end(&json);
    (void)gb_json_finish(&json); /* a write error stays with stdout, which is checked at the end */
}

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name);
    return len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
}

static void format_value(char *text, const char *name, uint64_t value)
{
    if (ends_in(name, "_bytes")) {
        (void)gb_units_format_size(text, GB_UNITS_TEXT, value);
    } else if (ends_in(name, "_permille")) {
        (void)snprintf(text, GB_UNITS_TEXT, "%llu.%03llu", (unsigned long long)value / 1000,
                       (unsigned long long)value % 1000);
    } else {
        (void)gb_units_format_count(text, GB_UNITS_TEXT, value);
    }
}

/* Counters start at 0 with every open, so that here only those that moved mean anything. */
static void print_stats_text(const struct goblin_stats *stats)
{
    size_t count;
    const struct goblin_stats_field *fields = goblin_stats_fields(&count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = stats_value(stats, &fields[i]);
        if (fields[i].counter && value == 0) {
            continue;
        }
        char text[GB_UNITS_TEXT];
        format_value(text, fields[i].name, value);
        (void)printf("%-28s %12s  %s\n", fields[i].name, text, fields[i].help);
    }
}

static enum gb_exit run_stats(const struct gb_verb_call *call)
{
    const struct stats_settings *settings = call->settings;
    struct gb_session session;
    enum gb_exit code = gb_session_open(&session, call->operands[0], call->store,
                                        &(struct goblin_options){.read_only = true});
    if (code != GB_EXIT_OK) {
        return code;
    }
    struct goblin_stats stats;
    goblin_stats(session.store, &stats);
    if (settings->json) {
        print_stats_json(&stats);
    } else {
        print_stats_text(&stats);
    }
    return gb_session_close(&session, GB_EXIT_OK);
}

const struct gb_verb gb_verbs_stats = {
    .name = "stats",
    .operands = "DIR",
    .summary = "Prints what a store holds: objects, disk and memory",
    .options = stats_options,
    .settings_bytes = sizeof(struct stats_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_stats,
};

/* ---- clear --------------------------------------------------------------------------------- */

struct clear_settings {
    bool yes;
};

static const struct gb_option clear_options[] = {
    {.name = "yes",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct clear_settings, yes),
     .help = "really do it (required)"},
    {0},
};

static enum gb_exit run_clear(const struct gb_verb_call *call)
{
    const struct clear_settings *settings = call->settings;
    const char *name = call->operands[0];
    if (!settings->yes) {
        return gb_say(GB_EXIT_USAGE, "clear: this removes every object in %s; add --yes to do it",
                      name);
    }
    struct gb_session session;
    enum gb_exit code = gb_session_open(&session, name, call->store, &(struct goblin_options){0});
    if (code != GB_EXIT_OK) {
        return code;
    }
    int result = goblin_clear(session.store);
    if (result < 0) {
        code = gb_session_say(&session, "clear", NULL, result);
    }
    return gb_session_close(&session, code);
}

const struct gb_verb gb_verbs_clear = {
    .name = "clear",
    .operands = "DIR --yes",
    .summary = "Removes every object, durably",
    .options = clear_options,
    .settings_bytes = sizeof(struct clear_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_clear,
};
