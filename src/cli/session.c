/* Opening and closing the store of a verb, and its faults in words. */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cli/text.h"

const struct gb_option gb_session_options[] = {
    {.name = "memory",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct gb_session_settings, memory_bytes),
     .value = "SIZE",
     .least = 8 * GB_MIB,
     .help = "RAM for the store, everything included (256M)"},
    {.name = "io",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct gb_session_settings, io),
     .value = "auto|uring|sync",
     .help = "how to talk to the device (auto)"},
    {.name = "caching",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct gb_session_settings, caching),
     .value = "direct|buffered",
     .help = "past the page cache, or through it (direct)"},
    {.name = "heads-dir",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct gb_session_settings, heads_dir),
     .value = "DIR",
     .help = "where the resident bytes are kept between runs"},
    {.name = "residency",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct gb_session_settings, residency),
     .value = "adaptive|fixed",
     .help = "what stays in RAM: what pays most, or equal heads (adaptive)"},
    {.name = "degraded",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct gb_session_settings, degraded),
     .help = "in store mode: open without missing drives or segments"},
    {.name = "admit",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct gb_session_settings, admit),
     .value = "all|second",
     .help = "what a cache writes: all, or what is asked for again (all)"},
    {.name = "write-budget",
     .kind = GB_OPTION_SIZE,
     .offset = offsetof(struct gb_session_settings, write_budget_day_bytes),
     .value = "SIZE",
     .least = GB_MIB,
     .help = "the most a cache writes to its drives in a day (no limit)"},
    {.name = "log",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct gb_session_settings, log),
     .value = "error|warn|info",
     .help = "what of the library's log to show (warn)"},
    {0},
};

const struct gb_session_settings gb_session_defaults = {
    .memory_bytes = 256 * GB_MIB,
    .log = GOBLIN_LOG_WARN,
};

static void show_log(void *arg, enum goblin_log_level level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", ""};
    const struct gb_session *session = arg;
    if (level <= session->log) {
        (void)gb_say(GB_EXIT_OK, "%s%s", names[level], line);
    }
}

/* Cuts the operand at its commas. */
static int split_dirs(struct gb_session *session, struct goblin_error *error)
{
    session->dirs_text = strdup(session->name);
    if (session->dirs_text == NULL) {
        (void)gb_say_explain(error, "%s: %s", session->name, goblin_strerror(-ENOMEM));
        return -ENOMEM;
    }
    for (char *rest = session->dirs_text, *dir; (dir = strsep(&rest, ",")) != NULL;) {
        if (dir[0] == '\0') {
            return gb_say_explain(error, "'%s': a directory's name is empty", session->name);
        }
        if (session->dir_count == GB_SESSION_DIRS_MAX) {
            return gb_say_explain(error, "'%s': at most %u directories", session->name,
                                  GB_SESSION_DIRS_MAX);
        }
        session->dirs[session->dir_count++] = dir;
    }
    return GOBLIN_OK;
}

void gb_session_forget(struct gb_session *session)
{
    free(session->dirs_text);
    session->dirs_text = NULL;
    session->dir_count = 0;
}

int gb_session_prepare(struct gb_session *session, const char *name,
                       const struct gb_session_settings *settings, struct goblin_options *options,
                       struct goblin_error *error)
{
    *session = (struct gb_session){.name = name, .log = (enum goblin_log_level)settings->log};
    int result = split_dirs(session, error);
    if (result != GOBLIN_OK) {
        gb_session_forget(session);
        return result;
    }
    options->dirs = session->dirs;
    options->dir_count = session->dir_count;
    options->heads_dir = settings->heads_dir;
    options->degraded = settings->degraded;
    options->memory_bytes = settings->memory_bytes;
    options->io = (enum goblin_io)settings->io;
    options->caching = (enum goblin_caching)settings->caching;
    options->residency = (enum goblin_residency)settings->residency;
    options->admit = (enum goblin_admit)settings->admit;
    options->write_budget_day_bytes = settings->write_budget_day_bytes;
    options->log = show_log;
    options->log_arg = session;
    return GOBLIN_OK;
}

int gb_session_try_open(struct gb_session *session, const char *name,
                        const struct gb_session_settings *settings,
                        const struct goblin_options *options, struct goblin_error *error)
{
    struct goblin_options all = *options;
    int result = gb_session_prepare(session, name, settings, &all, error);
    if (result == GOBLIN_OK) {
        result = goblin_open(&session->store, &all, error);
    }
    if (result != GOBLIN_OK) {
        session->store = NULL;
        gb_session_forget(session);
    }
    return result;
}

/* What the library's own words leave out. */
static const char *open_remedy(int fault)
{
    switch (fault) {
    case -ENOENT:
        return ": goblin init DIR --size SIZE";
    case GOBLIN_ENOTSTORE:
        return ": check the name, or give init an empty directory";
    default:
        return "";
    }
}

enum gb_exit gb_session_say_open(int fault, const struct goblin_error *error)
{
    return gb_say(fault == GOBLIN_EOPTION ? GB_EXIT_USAGE : GB_EXIT_FAULT, "%s%s", error->text,
                  open_remedy(fault));
}

enum gb_exit gb_session_open(struct gb_session *session, const char *name,
                             const struct gb_session_settings *settings,
                             const struct goblin_options *options)
{
    struct goblin_error error = {{0}};
    int result = gb_session_try_open(session, name, settings, options, &error);
    return result == GOBLIN_OK ? GB_EXIT_OK : gb_session_say_open(result, &error);
}

enum gb_exit gb_session_close(struct gb_session *session, enum gb_exit code)
{
    if (session->store == NULL) {
        return code;
    }
    int result = goblin_close(session->store);
    session->store = NULL;
    if (result < 0) {
        code = gb_session_say(session, "close", NULL, result);
    }
    gb_session_forget(session);
    return code;
}

static const char *remedy(int fault)
{
    switch (fault) {
    case -ENOSPC:
        return "; the store is full, or values being written take half of it: remove objects, or "
               "make a larger one";
    case -EDQUOT:
        return "; the write budget of the day is spent for now: try later, or give --write-budget "
               "more";
    case -ENOMEM:
        return "; give --memory more";
    case GOBLIN_ETOOBIG:
        return "; make a larger store with init --size";
    case GOBLIN_ECORRUPT:
        return "; see what is damaged with goblin check";
    case GOBLIN_ESIZE:
        return "; the source changed while it was being read";
    default:
        return "";
    }
}

enum gb_exit gb_session_say(const struct gb_session *session, const char *doing,
                            const struct goblin_slice *key, int fault)
{
    if (key == NULL) {
        return gb_say(GB_EXIT_FAULT, "%s: %s: %s%s", session->name, doing, goblin_strerror(fault),
                      remedy(fault));
    }
    char text[GB_TEXT_KEY];
    return gb_say(GB_EXIT_FAULT, "%s: %s '%s': %s%s", session->name, doing,
                  gb_text_format_key(text, *key, false), goblin_strerror(fault), remedy(fault));
}
