/* The one place that ends the process: a broken invariant inside Goblin itself. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void gb_assert_failed(const char *expression, const char *file, int line)
{
    (void)fprintf(stderr, "goblin: assertion failed: %s (%s:%d)\n", expression, file, line);
    abort();
}
