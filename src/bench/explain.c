/* Error texts. */
#include "bench/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gb_explain_set(struct goblin_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}

void gb_explain_wrap(struct goblin_error *error, const char *text)
{
    char inner[sizeof(error->text)];
    memcpy(inner, error->text, sizeof(inner));
    gb_explain_set(error, "%s: %s", text, inner);
}
