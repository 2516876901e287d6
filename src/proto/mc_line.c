/* Command lines of the text protocol, each verb by its own short reader. */
#include "proto/mc_line.h"

#include <string.h>

typedef void read_fn(const struct gb_mc_line *line, struct gb_mc_event *event);

struct command {
    const char *word;
    unsigned char len;
    unsigned char least;
    unsigned char most;
};

static const struct command commands[] = {
#define GB_X(name, word, least, most) {word, sizeof(word) - 1, least, most},
    GB_MC_VERBS(GB_X)
#undef GB_X
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

void gb_mc_line_split(struct gb_mc_line *line, const char *data, size_t len)
{
    line->base = data;
    line->len = len;
    line->count = 0;
    size_t i = 0;
    while (line->count < GB_MC_WORDS_MAX) {
        while (i < len && data[i] == ' ') {
            i++;
        }
        if (i == len) {
            return;
        }
        const char *end = memchr(data + i, ' ', len - i);
        size_t word_len = end != NULL ? (size_t)(end - data) - i : len - i;
        line->words[line->count++] = (struct gb_mc_text){data + i, word_len};
        i += word_len;
    }
}

static bool has_noreply(const struct gb_mc_line *line)
{
    return gb_mc_is(line->words[line->count - 1], "noreply");
}

static bool take_key(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    event->request.key = line->words[1];
    if (line->words[1].len > GB_MC_KEY_MAX) {
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
        return false;
    }
    return true;
}

static void read_store(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    struct gb_mc_request *request = &event->request;
    request->noreply = has_noreply(line);
    if (!take_key(line, event)) {
        return;
    }
    uint64_t flags = 0;
    bool bad = gb_mc_read_unsigned(line->words[2], UINT32_MAX, &flags) < 0 ||
               gb_mc_read_signed(line->words[3], &request->exptime_s) < 0 ||
               gb_mc_read_unsigned(line->words[4], line->value_max, &request->size) < 0;
    if (!bad && request->verb == GB_MC_CAS) {
        bad = gb_mc_read_unsigned(line->words[5], UINT64_MAX, &request->cas) < 0;
    }
    request->client_flags = (uint32_t)flags;
    if (bad) {
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
    }
}

static void read_gat(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    if (gb_mc_read_signed(line->words[1], &event->request.exptime_s) < 0) {
        gb_mc_refuse(event, GB_MC_LITERAL("CLIENT_ERROR invalid exptime argument"));
    }
}

static void read_touch(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    event->request.noreply = has_noreply(line);
    if (take_key(line, event) && gb_mc_read_signed(line->words[2], &event->request.exptime_s) < 0) {
        gb_mc_refuse(event, GB_MC_LITERAL("CLIENT_ERROR invalid exptime argument"));
    }
}

static void read_delta(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    event->request.noreply = has_noreply(line);
    if (take_key(line, event) &&
        gb_mc_read_unsigned(line->words[2], UINT64_MAX, &event->request.delta) < 0) {
        gb_mc_refuse(event, GB_MC_LITERAL("CLIENT_ERROR invalid numeric delta argument"));
    }
}

/* Old clients send a time of 0 behind the key. */
static void read_delete(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    if (line->count > 2) {
        bool zero = gb_mc_is(line->words[2], "0");
        bool noreply = has_noreply(line);
        event->request.noreply = noreply;
        if (line->count == 3 ? !zero && !noreply : !zero || !noreply) {
            gb_mc_refuse(event, GB_MC_LITERAL("CLIENT_ERROR bad command line format.  Usage: "
                                              "delete <key> [noreply]"));
            return;
        }
    }
    (void)take_key(line, event);
}

static void read_flush(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    event->request.noreply = has_noreply(line);
    if (line->count != (event->request.noreply ? 2 : 1) &&
        gb_mc_read_signed(line->words[1], &event->request.exptime_s) < 0) {
        gb_mc_refuse(event, GB_MC_LITERAL("CLIENT_ERROR invalid exptime argument"));
    }
}

/* Of the server rather than of objects: whoever answers reads `rest`. */
static void read_rest(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    const char *behind = line->words[0].data + line->words[0].len;
    event->request.rest.data = behind;
    event->request.rest.len = line->len - (size_t)(behind - line->base);
    switch (event->request.verb) {
    case GB_MC_VERBOSITY:
    case GB_MC_CACHE_MEMLIMIT:
    case GB_MC_WATCH:
    case GB_MC_REFRESH_CERTS:
        event->request.noreply = has_noreply(line);
        break;
    default:
        break;
    }
}

static read_fn *reader_of(enum gb_mc_verb verb)
{
    switch (verb) {
    case GB_MC_GET:
    case GB_MC_GETS:
        return NULL;
    case GB_MC_GAT:
    case GB_MC_GATS:
        return read_gat;
    case GB_MC_SET:
    case GB_MC_ADD:
    case GB_MC_REPLACE:
    case GB_MC_APPEND:
    case GB_MC_PREPEND:
    case GB_MC_CAS:
        return read_store;
    case GB_MC_MG:
    case GB_MC_MS:
    case GB_MC_MD:
    case GB_MC_MA:
    case GB_MC_ME:
        return gb_mc_meta_read;
    case GB_MC_TOUCH:
        return read_touch;
    case GB_MC_DELETE:
        return read_delete;
    case GB_MC_INCR:
    case GB_MC_DECR:
        return read_delta;
    case GB_MC_FLUSH_ALL:
        return read_flush;
    default:
        return read_rest;
    }
}

static const struct command *find(struct gb_mc_text word)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (command->len == word.len && memcmp(command->word, word.data, word.len) == 0) {
            return command;
        }
    }
    return NULL;
}

void gb_mc_line_read(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    const struct command *command = line->count > 0 ? find(line->words[0]) : NULL;
    if (command == NULL || line->count < command->least || line->count > command->most) {
        gb_mc_refuse(event, GB_MC_LITERAL("ERROR"));
        return;
    }
    event->kind = GB_MC_REQUEST;
    event->request.verb = (enum gb_mc_verb)(command - commands);
    event->request.words = (unsigned char)line->count;
    read_fn *reader = reader_of(event->request.verb);
    if (reader != NULL) {
        reader(line, event);
    }
}
