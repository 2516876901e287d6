/* See arguments.h. */
#include "lib/arguments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void gb_arguments_split(struct gb_arguments *arguments, const char *line)
{
    char *rest = NULL;
    int len = snprintf(arguments->text, sizeof(arguments->text), "%s", line);
    assert_true(len >= 0 && (size_t)len < sizeof(arguments->text));
    arguments->argc = 0;
    for (char *word = strtok_r(arguments->text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(arguments->argc < GB_ARGUMENTS_MAX);
        arguments->argv[arguments->argc++] = word;
    }
    arguments->argv[arguments->argc] = NULL;
}
