/* Error lines of the program. */
#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>

enum gb_exit gb_say(enum gb_exit code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    flockfile(stderr);
    (void)fputs("goblin: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    funlockfile(stderr);
    va_end(args);
    return code;
}

int gb_say_explain(struct goblin_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return GOBLIN_EOPTION;
}
