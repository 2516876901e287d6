/* Command lines by table. */
#include "bench/flags.h"

#include "base/assert.h"
#include "base/units.h"
#include "bench/explain.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FLAGS_MAX = 64, HELP_COLUMN = 26 };

static int flag_in_limits(const struct gb_flag *flag, double number, const char *text,
                          struct goblin_error *error)
{
    if ((flag->least == 0 && flag->most == 0) || (number >= flag->least && number <= flag->most)) {
        return 0;
    }
    gb_explain_set(error, "--%s %s is outside %.10g to %.10g: give a %s between them", flag->name,
                   text, flag->least, flag->most, flag->value);
    return -EINVAL;
}

static int flag_take_integer(const struct gb_flag *flag, void *place, const char *text,
                             struct goblin_error *error)
{
    uint64_t number = 0;
    const char *example = "a count such as 250 or 10k";
    int rc;
    if (flag->kind == GB_FLAG_SIZE) {
        rc = gb_units_parse_size(text, &number);
        example = "a size such as 652M or 4GiB";
    } else if (flag->kind == GB_FLAG_RATE) {
        rc = gb_units_parse_rate(text, &number);
        example = "a rate such as 937mbit or 10gbit";
    } else {
        rc = gb_units_parse_count(text, &number);
    }
    if (rc < 0) {
        gb_explain_set(error, "--%s \"%s\" is not a %s: give %s", flag->name, text, flag->value,
                       example);
        return -EINVAL;
    }
    rc = flag_in_limits(flag, (double)number, text, error);
    if (rc == 0) {
        memcpy(place, &number, sizeof(number));
    }
    return rc;
}

static int flag_take(const struct gb_flag *flag, void *target, const char *text,
                     struct goblin_error *error)
{
    void *place = (char *)target + flag->offset;
    switch (flag->kind) {
    case GB_FLAG_TEXT:
        if (text[0] == '\0') {
            gb_explain_set(error, "--%s is empty: give a %s", flag->name, flag->value);
            return -EINVAL;
        }
        memcpy(place, &text, sizeof(text));
        return 0;
    case GB_FLAG_SWITCH: {
        bool on = true;
        memcpy(place, &on, sizeof(on));
        return 0;
    }
    case GB_FLAG_REAL: {
        double number = 0;
        if (gb_units_parse_real(text, flag->least, flag->most, &number) < 0) {
            gb_explain_set(error, "--%s \"%s\": give a number from %.10g to %.10g", flag->name,
                           text, flag->least, flag->most);
            return -EINVAL;
        }
        memcpy(place, &number, sizeof(number));
        return 0;
    }
    case GB_FLAG_CUSTOM: {
        int rc = flag->take(target, text, error);
        if (rc < 0) {
            char name[64] = "--";
            strncat(name, flag->name, sizeof(name) - 3);
            gb_explain_wrap(error, name);
        }
        return rc;
    }
    default:
        return flag_take_integer(flag, place, text, error);
    }
}

int gb_flags_parse_bare(const struct gb_flag *flags, void *target, int argc, char **argv,
                        int *first, struct goblin_error *error)
{
    struct option options[FLAGS_MAX + 2];
    size_t count = 0;
    memset(options, 0, sizeof(options));
    for (; flags[count].name; count++) {
        GB_ASSERT(count < FLAGS_MAX);
        bool bare = flags[count].kind == GB_FLAG_SWITCH;
        options[count].name = flags[count].name;
        options[count].has_arg = bare ? no_argument : required_argument;
    }
    options[count].name = "help";
    optind = 1;
    opterr = 0;
    for (;;) {
        int index = -1;
        int found = getopt_long(argc, argv, ":", options, &index);
        if (found == -1) {
            break;
        }
        if (found != 0) {
            gb_explain_set(error, "%s %s; see %s --help", argv[optind - 1],
                           found == ':' ? "needs a value" : "is no flag of this command", argv[0]);
            return -EINVAL;
        }
        if ((size_t)index == count) {
            return 1;
        }
        int rc = flag_take(&flags[index], target, optarg, error);
        if (rc < 0) {
            return rc;
        }
    }
    *first = optind;
    return 0;
}

int gb_flags_parse(const struct gb_flag *flags, void *target, int argc, char **argv,
                   struct goblin_error *error)
{
    int first = argc;
    int rc = gb_flags_parse_bare(flags, target, argc, argv, &first, error);
    if (rc == 0 && first < argc) {
        gb_explain_set(error, "\"%s\" is not a flag; see %s --help", argv[first], argv[0]);
        return -EINVAL;
    }
    return rc;
}

void gb_flags_command(char *text, size_t text_len, int argc, char *const *argv)
{
    snprintf(text, text_len, "goblin-bench");
    for (int i = 0; i < argc; i++) {
        size_t used = strlen(text);
        snprintf(text + used, text_len - used, " %s", argv[i]);
    }
}

void gb_flags_help(const struct gb_flag *flags, FILE *out)
{
    for (; flags->name; flags++) {
        int len = fprintf(out, "  --%s%s%s", flags->name, flags->value ? " " : "",
                          flags->value ? flags->value : "");
        fprintf(out, "%*s%s\n", len < HELP_COLUMN ? HELP_COLUMN - len : 1, "", flags->help);
    }
    fprintf(out, "  --help%*sthis text\n", HELP_COLUMN - 8, "");
}
