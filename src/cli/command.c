/* The list of verbs, help and version, and the way from argv to a verb's code. */
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config.h"
#include "cli/memcached.h"
#include "cli/verbs.h"

static const struct gb_verb *const verbs[] = {
    &gb_verbs_init,  &gb_verbs_put,   &gb_verbs_get,   &gb_verbs_rm,   &gb_verbs_touch,
    &gb_verbs_ls,    &gb_verbs_stat,  &gb_verbs_stats, &gb_verbs_load, &gb_verbs_check,
    &gb_verbs_clear, &gb_verbs_serve, &gb_verbs_top,
};
enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

const struct gb_option gb_verbs_no_options[] = {{0}};

struct front_settings {
    bool help;
    bool version;
};

static const struct gb_option front_options[] = {
    {.name = "help",
     .letter = 'h',
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct front_settings, help),
     .help = "explain the program or the verb"},
    {.name = "version",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct front_settings, version),
     .help = "print the version"},
    {0},
};

static const struct gb_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i]->name, name) == 0) {
            return verbs[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *out)
{
    (void)fputs("usage: goblin VERB OPERANDS [OPTIONS]\n\n", out);
    for (size_t i = 0; i < VERB_COUNT; i++) {
        (void)fprintf(out, "  %-9s  %s\n", verbs[i]->name, verbs[i]->summary);
    }
    (void)fputs("  memcached  Serves a store under memcached's own command line\n"
                "  help       explain the program, or one verb: goblin help VERB\n"
                "  version    print the version\n\n"
                "DIR is a store's directory, or several, one per drive: DIR1,DIR2.\n"
                "Exit codes: 0 done, 1 no such object or damage found, 2 wrong usage, 3 fault.\n",
                out);
}

static void print_verb(FILE *out, const struct gb_verb *verb)
{
    (void)fprintf(out, "usage: goblin %s%s%s [OPTIONS]\n\n%s.\n", verb->name,
                  verb->operands[0] == '\0' ? "" : " ", verb->operands, verb->summary);
    if (verb->details != NULL) {
        (void)fprintf(out, "\n%s\n", verb->details);
    }
    gb_options_print(out, &(struct gb_option_group){"Options", verb->options, NULL}, 1);
    if (verb->asks_server) {
        gb_options_print(out, &(struct gb_option_group){"Instead of DIR", gb_remote_options, NULL},
                         1);
    }
    if (verb->opens_store) {
        gb_options_print(
            out, &(struct gb_option_group){"Options of the store", gb_session_options, NULL}, 1);
    }
    if (verb->configurable) {
        gb_options_print(
            out, &(struct gb_option_group){"Where options come from", gb_config_options, NULL}, 1);
    }
}

static enum gb_exit help(const char *name)
{
    if (name == NULL) {
        print_overview(stdout);
        return GB_EXIT_OK;
    }
    if (strcmp(name, "memcached") == 0) {
        gb_memcached_help(stdout);
        return GB_EXIT_OK;
    }
    const struct gb_verb *verb = find_verb(name);
    if (verb == NULL) {
        return gb_say(GB_EXIT_USAGE, "%s: no such verb; goblin help lists them", name);
    }
    print_verb(stdout, verb);
    return GB_EXIT_OK;
}

static enum gb_exit version(void)
{
    (void)printf("goblin %s\n", GOBLIN_VERSION);
    return GB_EXIT_OK;
}

static enum gb_exit check_operands(const struct gb_verb *verb, int count)
{
    if (count < verb->operands_least) {
        return gb_say(GB_EXIT_USAGE, "%s: too few operands; usage: goblin %s %s", verb->name,
                      verb->name, verb->operands);
    }
    if (verb->operands_most >= 0 && count > verb->operands_most) {
        return gb_say(GB_EXIT_USAGE, "%s: too many operands; usage: goblin %s %s", verb->name,
                      verb->name, verb->operands);
    }
    return GB_EXIT_OK;
}

/* Runs the verb, whose options have been taken. */
static enum gb_exit run_operands(const struct gb_verb *verb, const struct gb_verb_call *call)
{
    enum gb_exit code = check_operands(verb, call->operand_count);
    return code == GB_EXIT_OK ? verb->run(call) : code;
}

/* argv[0] is the verb; `store` holds what stood in front of it. */
static enum gb_exit run_verb(const struct gb_verb *verb, struct gb_session_settings *store,
                             int argc, char **argv)
{
    struct front_settings front = {0};
    void *settings = calloc(1, verb->settings_bytes + 1); /* never of zero bytes */
    if (settings == NULL) {
        return gb_say(GB_EXIT_FAULT, "%s: %s", verb->name, strerror(ENOMEM));
    }
    struct gb_config config = {0};
    struct gb_remote_settings remote = {0};
    const struct gb_option_group groups[] = {
        {"", front_options, &front},
        {"", verb->options, settings},
        {"", verb->opens_store ? gb_session_options : gb_verbs_no_options, store},
        {"", verb->configurable ? gb_config_options : gb_verbs_no_options, &config},
        {"", verb->asks_server ? gb_remote_options : gb_verbs_no_options, &remote},
    };
    const size_t count = sizeof(groups) / sizeof(groups[0]);
    struct goblin_error error;
    int first = gb_options_parse(groups, count, argc, argv, false, &error);
    if (first >= 0 && verb->configurable && !front.help && !front.version) {
        /* The command line has the last word, so it is read once more. */
        first = gb_config_load(&config, &groups[1], 2, &error);
        if (first >= 0) {
            first = gb_options_parse(groups, count, argc, argv, false, &error);
        }
    }
    enum gb_exit code = GB_EXIT_OK;
    if (first < 0) {
        code = gb_say(GB_EXIT_USAGE, "%s: %s", verb->name, error.text);
    } else if (front.help) {
        print_verb(stdout, verb);
    } else if (front.version) {
        code = version();
    } else {
        if (remote.server != NULL) {
            argv[--first] = remote.server; /* the place of an option that has been taken */
        }
        code = run_operands(verb, &(struct gb_verb_call){.store = store,
                                                         .settings = settings,
                                                         .config = &config,
                                                         .remote = &remote,
                                                         .operands = argv + first,
                                                         .operand_count = argc - first});
    }
    gb_config_free(&config);
    free(settings);
    return code;
}

static enum gb_exit dispatch(int argc, char **argv)
{
    struct front_settings front = {0};
    struct gb_session_settings store = gb_session_defaults;
    const struct gb_option_group groups[] = {
        {"", front_options, &front},
        {"", gb_session_options, &store},
    };
    struct goblin_error error;
    int first = gb_options_parse(groups, 2, argc, argv, true, &error);
    if (first < 0) {
        return gb_say(GB_EXIT_USAGE, "%s", error.text);
    }
    if (front.version) {
        return version();
    }
    if (front.help) {
        return help(first < argc ? argv[first] : NULL);
    }
    if (first == argc) {
        print_overview(stderr);
        return GB_EXIT_USAGE;
    }
    const char *name = argv[first];
    if (strcmp(name, "help") == 0) {
        return help(first + 1 < argc ? argv[first + 1] : NULL);
    }
    if (strcmp(name, "version") == 0) {
        return version();
    }
    if (strcmp(name, "memcached") == 0) {
        return first == 1 ? (enum gb_exit)gb_memcached_run(argc - first, argv + first)
                          : gb_say(GB_EXIT_USAGE, "%s: its options stand behind it", name);
    }
    const struct gb_verb *verb = find_verb(name);
    if (verb == NULL) {
        return gb_say(GB_EXIT_USAGE, "%s: no such verb; goblin help lists them", name);
    }
    return run_verb(verb, &store, argc - first, argv + first);
}

int gb_command_run(int argc, char **argv)
{
    enum gb_exit code = dispatch(argc, argv);
    errno = 0;
    /* A reader that has seen enough (`| head`) is no fault. */
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && errno != EPIPE && code == GB_EXIT_OK) {
        code = gb_say(GB_EXIT_FAULT, "standard output: %s", strerror(errno != 0 ? errno : EIO));
    }
    return (int)code;
}
