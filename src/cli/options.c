/* Option tables over getopt_long: parsing into settings structs, and the help text. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/units.h"
#include "cli/say.h"

/* getopt_long's answers for long options: outside the range of characters. */
enum { LONG_BASE = 256, LETTERS_MAX = 2 * GB_OPTIONS_MAX + 3, HELP_COLUMN = 30 };

struct parser {
    struct option longs[GB_OPTIONS_MAX + 1];
    const struct gb_option *rows[GB_OPTIONS_MAX];
    void *settings[GB_OPTIONS_MAX];
    size_t count;
    char letters[LETTERS_MAX];
    struct goblin_error *error;
};

static void add_row(struct parser *parser, const struct gb_option *row, void *settings)
{
    GB_ASSERT(parser->count < GB_OPTIONS_MAX);
    size_t index = parser->count++;
    parser->rows[index] = row;
    parser->settings[index] = settings;
    int argument = row->kind == GB_OPTION_FLAG ? no_argument : required_argument;
    parser->longs[index] =
        (struct option){.name = row->name, .has_arg = argument, .val = LONG_BASE + (int)index};
    if (row->letter != 0) {
        size_t len = strlen(parser->letters);
        parser->letters[len++] = row->letter;
        if (argument == required_argument) {
            parser->letters[len++] = ':';
        }
        parser->letters[len] = '\0';
    }
}

static size_t find_row(const struct parser *parser, int answer)
{
    if (answer >= LONG_BASE) {
        return (size_t)(answer - LONG_BASE);
    }
    for (size_t i = 0; i < parser->count; i++) {
        if (parser->rows[i]->letter == answer) {
            return i;
        }
    }
    return parser->count;
}

static int parse_choice(const struct gb_option *row, const char *text, int *out,
                        struct goblin_error *error)
{
    const char *word = row->value;
    size_t text_len = strlen(text);
    for (int i = 0;; i++) {
        size_t len = strcspn(word, "|");
        if (len == text_len && memcmp(word, text, len) == 0) {
            *out = i;
            return GOBLIN_OK;
        }
        if (word[len] == '\0') {
            return gb_say_explain(error, "--%s %s: give one of %s", row->name, text, row->value);
        }
        word += len + 1;
    }
}

static const char *format_limit(char *text, const struct gb_option *row, uint64_t limit)
{
    if (row->kind == GB_OPTION_SIZE) {
        return gb_units_format_size_exact(text, GB_UNITS_TEXT, limit);
    }
    if (row->kind == GB_OPTION_DURATION) {
        return gb_units_format_duration(text, GB_UNITS_TEXT, limit * 1000000);
    }
    (void)snprintf(text, GB_UNITS_TEXT, "%llu", (unsigned long long)limit);
    return text;
}

static const char *example_of(const struct gb_option *row)
{
    return row->kind == GB_OPTION_SIZE       ? "a size such as 64M or 1.5G"
           : row->kind == GB_OPTION_DURATION ? "a duration such as 500ms, 30s or 1h"
                                             : "a whole number";
}

static int parse_number(const struct gb_option *row, const char *text, uint64_t *out,
                        struct goblin_error *error)
{
    int result = row->kind == GB_OPTION_SIZE       ? gb_units_parse_size(text, out)
                 : row->kind == GB_OPTION_DURATION ? gb_units_parse_duration(text, out)
                                                   : gb_units_parse_count(text, out);
    if (result == -ERANGE) {
        return gb_say_explain(error, "--%s %s: too large", row->name, text);
    }
    if (result != 0) {
        return gb_say_explain(error, "--%s %s: give %s", row->name, text, example_of(row));
    }
    if (row->kind == GB_OPTION_DURATION) {
        *out /= 1000000;
    }
    char limit[GB_UNITS_TEXT];
    if (*out < row->least) {
        return gb_say_explain(error, "--%s %s: at least %s", row->name, text,
                              format_limit(limit, row, row->least));
    }
    if (row->most != 0 && *out > row->most) {
        return gb_say_explain(error, "--%s %s: at most %s", row->name, text,
                              format_limit(limit, row, row->most));
    }
    return GOBLIN_OK;
}

/* What is set when an option comes without a value is `yes`. */
static int parse_flag(const struct gb_option *row, const char *text, bool *out,
                      struct goblin_error *error)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return GOBLIN_OK;
        }
    }
    return gb_say_explain(error, "--%s %s: give yes or no", row->name, text);
}

static int add_item(const struct gb_option *row, struct gb_option_list *list, const char *text,
                    enum gb_option_source source, struct goblin_error *error)
{
    if (list->source != source) {
        *list = (struct gb_option_list){.source = source};
    }
    if (list->count == GB_OPTION_LIST_MAX) {
        return gb_say_explain(error, "--%s %s: at most %u of them", row->name, text,
                              GB_OPTION_LIST_MAX);
    }
    list->items[list->count++] = text;
    return GOBLIN_OK;
}

static int store_value(const struct gb_option *row, void *settings, const char *text,
                       enum gb_option_source source, struct goblin_error *error)
{
    char *member = (char *)settings + row->offset;
    uint64_t number = 0;
    int choice = 0;
    bool flag = false;
    int result = GOBLIN_OK;
    switch (row->kind) {
    case GB_OPTION_FLAG:
        result = parse_flag(row, text, &flag, error);
        if (result == GOBLIN_OK) {
            memcpy(member, &flag, sizeof(flag));
        }
        return result;
    case GB_OPTION_LIST:
        return add_item(row, (struct gb_option_list *)(void *)member, text, source, error);
    case GB_OPTION_TEXT:
        memcpy(member, &text, sizeof(text));
        return GOBLIN_OK;
    case GB_OPTION_CHOICE:
        result = parse_choice(row, text, &choice, error);
        if (result == GOBLIN_OK) {
            memcpy(member, &choice, sizeof(choice));
        }
        return result;
    case GB_OPTION_SIZE:
    case GB_OPTION_DURATION:
    case GB_OPTION_COUNT:
        break;
    }
    result = parse_number(row, text, &number, error);
    if (result == GOBLIN_OK) {
        memcpy(member, &number, sizeof(number));
    }
    return result;
}

/* What getopt_long rejected: an unknown option ('?') or a missing argument (':'). */
static int explain_rejection(const struct parser *parser, int answer, char **argv)
{
    if (answer == ':') {
        size_t index = find_row(parser, optopt);
        GB_ASSERT(index < parser->count);
        return gb_say_explain(parser->error, "--%s needs a value: %s", parser->rows[index]->name,
                              parser->rows[index]->value);
    }
    if (optopt == 0) {
        return gb_say_explain(parser->error, "%s: no such option, or not a unique one",
                              argv[optind - 1]);
    }
    if (optopt >= LONG_BASE) {
        return gb_say_explain(parser->error, "--%s takes no value",
                              parser->rows[find_row(parser, optopt)]->name);
    }
    return gb_say_explain(parser->error, "-%c: no such option", optopt);
}

/* A command line that is read again says everything anew, lists too. */
static void forget_list(const struct gb_option *row, void *settings)
{
    struct gb_option_list *list = (void *)((char *)settings + row->offset);
    if (row->kind == GB_OPTION_LIST && list->source == GB_SOURCE_COMMAND) {
        *list = (struct gb_option_list){.count = 0};
    }
}

int gb_options_parse(const struct gb_option_group *groups, size_t group_count, int argc,
                     char **argv, bool stop_at_operand, struct goblin_error *error)
{
    struct parser parser = {.error = error};
    (void)snprintf(parser.letters, sizeof(parser.letters), "%s", stop_at_operand ? "+:" : ":");
    for (size_t i = 0; i < group_count; i++) {
        for (const struct gb_option *row = groups[i].options; row->name != NULL; row++) {
            add_row(&parser, row, groups[i].settings);
            forget_list(row, groups[i].settings);
        }
    }
    opterr = 0;
    optind = 0; /* makes glibc start afresh, permutation state included */
    for (;;) {
        int answer = getopt_long(argc, argv, parser.letters, parser.longs, NULL);
        if (answer == -1) {
            return optind;
        }
        if (answer == '?' || answer == ':') {
            return explain_rejection(&parser, answer, argv);
        }
        size_t index = find_row(&parser, answer);
        GB_ASSERT(index < parser.count);
        const char *text = parser.rows[index]->kind == GB_OPTION_FLAG ? "yes" : optarg;
        int result =
            store_value(parser.rows[index], parser.settings[index], text, GB_SOURCE_COMMAND, error);
        if (result != GOBLIN_OK) {
            return result;
        }
    }
}

int gb_options_set(const struct gb_option_group *groups, size_t group_count, const char *name,
                   const char *text, enum gb_option_source source, struct goblin_error *error)
{
    for (size_t i = 0; i < group_count; i++) {
        for (const struct gb_option *row = groups[i].options; row->name != NULL; row++) {
            if (strcmp(row->name, name) == 0) {
                return store_value(row, groups[i].settings, text, source, error);
            }
        }
    }
    return GOBLIN_MISS;
}

static void print_row(FILE *out, const struct gb_option *row)
{
    char letter[8] = "    ";
    if (row->letter != 0) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    }
    bool takes_value = row->kind != GB_OPTION_FLAG;
    int used = fprintf(out, "  %s--%s%s%s", letter, row->name, takes_value ? " " : "",
                       takes_value ? row->value : "");
    if (used >= HELP_COLUMN) {
        used = fprintf(out, "\n") - 1;
    }
    (void)fprintf(out, "%*s%s\n", HELP_COLUMN - used, "", row->help);
}

void gb_options_print(FILE *out, const struct gb_option_group *groups, size_t group_count)
{
    for (size_t i = 0; i < group_count; i++) {
        if (groups[i].options->name == NULL) {
            continue;
        }
        (void)fprintf(out, "\n%s:\n", groups[i].title);
        for (const struct gb_option *row = groups[i].options; row->name != NULL; row++) {
            print_row(out, row);
        }
    }
}
