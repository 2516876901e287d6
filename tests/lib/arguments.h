/* A command line as main() gets it, from one string. */
#ifndef GB_TESTS_ARGUMENTS_H
#define GB_TESTS_ARGUMENTS_H

enum { GB_ARGUMENTS_MAX = 24 };

struct gb_arguments {
    char text[512];
    char *argv[GB_ARGUMENTS_MAX + 1];
    int argc;
};

/* Splits "name --flag value" at its spaces; `argv` points into the structure. */
void gb_arguments_split(struct gb_arguments *arguments, const char *line);

#endif
