/* Transcripts fed to the memcached parser at every split. */
#include "lib/mctranscript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/mcevents.h"

static void compare(const struct gb_mcevents *events, const char *input, const char *expected,
                    size_t cut)
{
    if (strcmp(events->text, expected) != 0) {
        fail_msg("\"%.200s\" cut at %zu gave\n%s\nnot\n%s", input, cut, events->text, expected);
    }
}

void gb_mctranscript_check(const char *input, size_t len, const char *expected)
{
    struct gb_mcevents *events = malloc(sizeof(*events));
    assert_non_null(events);
    for (size_t cut = 0; cut <= len; cut++) {
        gb_mcevents_init(events);
        gb_mcevents_feed(events, input, cut);
        gb_mcevents_feed(events, input + cut, len - cut);
        compare(events, input, expected, cut);
    }
    gb_mcevents_init(events);
    for (size_t at = 0; at < len; at++) {
        gb_mcevents_feed(events, input + at, 1);
    }
    compare(events, input, expected, SIZE_MAX);
    free(events);
}

void gb_mctranscript_check_all(const struct gb_mctranscript *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gb_mctranscript_check(samples[i].input, strlen(samples[i].input), samples[i].events);
    }
}
