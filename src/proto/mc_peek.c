/* A glance ahead in a pipeline: which keys come. */
#include <string.h>

#include "proto/mc_parse.h"

/* A run of words, up to the end of the line or of what is there. */
struct glance {
    const char *at;
    const char *end;
};

static struct gb_mc_text next_word(struct glance *glance)
{
    while (glance->at < glance->end && *glance->at == ' ') {
        glance->at++;
    }
    const char *word = glance->at;
    while (glance->at < glance->end && *glance->at != ' ' && *glance->at != '\r' &&
           *glance->at != '\n') {
        glance->at++;
    }
    return (struct gb_mc_text){word, (size_t)(glance->at - word)};
}

/* The words of the line, or of what is there of it: each is a key. */
static size_t take_keys(struct glance *glance, struct gb_mc_text *keys, size_t most)
{
    size_t count = 0;
    while (count < most) {
        struct gb_mc_text key = next_word(glance);
        if (key.len == 0 || glance->at == glance->end) {
            break; /* the last may not be all there */
        }
        keys[count++] = key;
    }
    return count;
}

static bool skip_line(struct glance *glance)
{
    const char *newline = memchr(glance->at, '\n', (size_t)(glance->end - glance->at));
    glance->at = newline != NULL ? newline + 1 : glance->end;
    return newline != NULL;
}

static bool takes_more_keys(struct gb_mc_text verb)
{
    return gb_mc_is(verb, "get") || gb_mc_is(verb, "gets");
}

/* Behind the line of such a verb stands a value. */
static bool brings_value(struct gb_mc_text verb)
{
    return verb.len > 0 && (strchr("sarpc", verb.data[0]) != NULL || gb_mc_is(verb, "ms"));
}

/* Behind the key: passes the rest of the line and the value. False if not all of it is there. */
static bool skip_value(struct glance *glance, bool is_meta)
{
    uint64_t size;
    for (unsigned i = 0; !is_meta && i < 2; i++) {
        (void)next_word(glance); /* flags, exptime */
    }
    bool sized = gb_mc_read_unsigned(next_word(glance), GB_MC_VALUE_MAX, &size) == 0;
    if (!sized || !skip_line(glance) || size + 2 > (uint64_t)(glance->end - glance->at)) {
        return false;
    }
    glance->at += size + 2;
    return true;
}

size_t gb_mc_parser_peek(const struct gb_mc_parser *parser, const char *data, size_t len,
                         struct gb_mc_text *keys, size_t most, size_t *covered)
{
    struct glance glance = {data, data + len};
    size_t count = 0;
    bool on = true;
    if (gb_mc_parser_in_keys(parser)) {
        count = take_keys(&glance, keys, most);
        on = count < most && skip_line(&glance);
    } else if (!gb_mc_parser_idle(parser)) {
        on = false; /* within a value */
    }
    while (on && count < most && glance.at < glance.end) {
        struct gb_mc_text verb = next_word(&glance);
        size_t room = takes_more_keys(verb) ? most - count : 1;
        count += take_keys(&glance, keys + count, room);
        on = brings_value(verb) ? skip_value(&glance, gb_mc_is(verb, "ms"))
                                : count < most && skip_line(&glance);
    }
    size_t seen = (size_t)(glance.at - data);
    *covered = seen > 0 ? seen : 1;
    return count;
}
