/*
 * Command lines of the meta protocol: mg ms md ma me, each a key, of ms a length, and flags of one
 * letter with a token behind some of them.
 *
 * A flag that means nothing to a verb is let through, as memcached does; one that nobody knows, or
 * the same twice, refuses the line. P and L are for proxies on the way and ignored.
 */
#include <string.h>

#include "proto/base64.h"
#include "proto/mc_line.h"

/* What may be wrong with a flag; the last of them is what the client hears. */
#define BAD_TOKEN "CLIENT_ERROR bad token in command line format"

/* Line and event at once, while the flags are read. */
struct reading {
    const struct gb_mc_line *line;
    struct gb_mc_event *event;
    struct gb_mc_request *request; /* the event's */
    struct gb_mc_text fault;       /* empty: none */
    bool over;                     /* no use in reading on */
};

static void fault(struct reading *reading, struct gb_mc_text text)
{
    reading->fault = text;
}

static void read_seconds(struct reading *reading, struct gb_mc_text token, int64_t *out)
{
    if (gb_mc_read_signed(token, out) < 0) {
        fault(reading, GB_MC_LITERAL(BAD_TOKEN));
    }
}

static void read_number(struct reading *reading, struct gb_mc_text token, uint64_t *out,
                        struct gb_mc_text complaint)
{
    if (gb_mc_read_unsigned(token, UINT64_MAX, out) < 0) {
        fault(reading, complaint);
    }
}

static void read_key(struct reading *reading)
{
    struct gb_mc_text *key = &reading->request->key;
    char *decoded = reading->event->decoded;
    ssize_t len = gb_base64_decode(decoded, key->data, key->len);
    reading->request->key_binary = true;
    if (len < 0) {
        fault(reading, GB_MC_LITERAL("CLIENT_ERROR error decoding key"));
    } else {
        *key = (struct gb_mc_text){decoded, (size_t)len};
    }
}

static void read_client_flags(struct reading *reading, struct gb_mc_text token)
{
    uint64_t flags = 0;
    if (gb_mc_read_unsigned(token, UINT32_MAX, &flags) < 0) {
        fault(reading, GB_MC_LITERAL(GB_MC_BAD_LINE));
    }
    reading->request->client_flags = (uint32_t)flags;
}

static void read_mode(struct reading *reading, struct gb_mc_text token)
{
    if (token.len != 1) {
        fault(reading, GB_MC_LITERAL("CLIENT_ERROR incorrect length for M token"));
    } else {
        reading->request->mode = token.data[0];
    }
}

static void read_flag(struct reading *reading, struct gb_mc_text word)
{
    struct gb_mc_request *request = reading->request;
    struct gb_mc_text token = {word.data + 1, word.len - 1};
    switch (word.data[0]) {
    case 'b':
        read_key(reading);
        break;
    case 'N':
        read_seconds(reading, token, &request->vivify_s);
        break;
    case 'T':
        read_seconds(reading, token, &request->exptime_s);
        break;
    case 'R':
        read_seconds(reading, token, &request->recache_s);
        break;
    case 'F':
        read_client_flags(reading, token);
        break;
    case 'C':
        read_number(reading, token, &request->cas, GB_MC_LITERAL(BAD_TOKEN));
        break;
    case 'E':
        read_number(reading, token, &request->new_cas, GB_MC_LITERAL(BAD_TOKEN));
        break;
    case 'J':
        read_number(reading, token, &request->initial,
                    GB_MC_LITERAL("CLIENT_ERROR invalid numeric initial value"));
        break;
    case 'D':
        read_number(reading, token, &request->delta,
                    GB_MC_LITERAL("CLIENT_ERROR invalid numeric delta value"));
        break;
    case 'M':
        read_mode(reading, token);
        break;
    case 'O':
        request->opaque = word;
        break;
    case 'q':
        request->noreply = true;
        break;
    default:
        if (strchr("ILPcfhklstuvx", word.data[0]) == NULL) {
            fault(reading, GB_MC_LITERAL("CLIENT_ERROR invalid flag"));
            reading->over = true;
        }
        break;
    }
}

static void read_flags(struct reading *reading, unsigned first)
{
    struct gb_mc_request *request = reading->request;
    for (unsigned i = first; i < reading->line->count && !reading->over; i++) {
        struct gb_mc_text word = reading->line->words[i];
        unsigned char letter = (unsigned char)word.data[0];
        bool alphabetic = (letter | 32) >= 'a' && (letter | 32) <= 'z';
        if (letter >= 127 || (alphabetic && gb_mc_has(request, (char)letter))) {
            fault(reading, GB_MC_LITERAL("CLIENT_ERROR duplicate flag"));
            return;
        }
        if (!alphabetic) {
            fault(reading, GB_MC_LITERAL("CLIENT_ERROR invalid flag"));
            return;
        }
        request->given |= GB_MC_FLAG(letter);
        request->order[request->options++] = (char)letter;
        read_flag(reading, word);
    }
}

/* A mode not given is the verb's own; the signs are other names. */
static void settle_mode(struct reading *reading)
{
    struct gb_mc_request *request = reading->request;
    bool sets = request->verb == GB_MC_MS;
    if (!sets && request->verb != GB_MC_MA) {
        request->mode = 0;
        return;
    }
    if (!gb_mc_has(request, 'M')) {
        request->mode = sets ? 'S' : 'I';
        return;
    }
    if (!sets && (request->mode == '+' || request->mode == '-')) {
        request->mode = request->mode == '+' ? 'I' : 'D';
    }
    if (request->mode == 0 || strchr(sets ? "SEAPR" : "ID", request->mode) == NULL) {
        fault(reading, sets ? GB_MC_LITERAL("CLIENT_ERROR invalid mode for ms M token")
                            : GB_MC_LITERAL("CLIENT_ERROR invalid mode for ma M token"));
    }
}

static void read_me(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    struct reading reading = {.line = line, .event = event, .request = &event->request};
    if (line->count > 2 && gb_mc_is(line->words[2], "b")) {
        read_key(&reading);
    }
    if (reading.fault.len > 0) {
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
    }
}

/* The refusals that memcached words differently for md and ma. */
static struct gb_mc_text word_fault(enum gb_mc_verb verb, struct gb_mc_text text)
{
    bool terse = verb == GB_MC_MD || verb == GB_MC_MA;
    return terse ? GB_MC_LITERAL("CLIENT_ERROR invalid or duplicate flag") : text;
}

static void read_options(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    struct gb_mc_request *request = &event->request;
    struct reading reading = {.line = line, .event = event, .request = request};
    request->delta = 1;
    read_flags(&reading, request->verb == GB_MC_MS ? 3 : 2);
    if (reading.fault.len > 0) {
        reading.fault = word_fault(request->verb, reading.fault);
    } else {
        settle_mode(&reading);
        if (reading.fault.len == 0 && request->opaque.len > GB_MC_OPAQUE_MAX) {
            fault(&reading, GB_MC_LITERAL("CLIENT_ERROR opaque token too long"));
        }
    }
    if (reading.fault.len > 0) {
        request->noreply = false;
        event->swallow = request->verb == GB_MC_MS ? request->size + 2 : 0;
        gb_mc_refuse(event, reading.fault);
    }
}

void gb_mc_meta_read(const struct gb_mc_line *line, struct gb_mc_event *event)
{
    struct gb_mc_request *request = &event->request;
    bool sets = request->verb == GB_MC_MS;
    if (line->count < (sets ? 3U : 2U) || line->words[1].len > GB_MC_KEY_MAX) {
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
        return;
    }
    request->key = line->words[1];
    if (request->verb == GB_MC_ME) {
        read_me(line, event);
    } else if (line->count > GB_MC_OPTIONS_MAX + 2) {
        gb_mc_refuse(event, request->verb == GB_MC_MG
                                ? GB_MC_LITERAL("CLIENT_ERROR options flags are too long")
                                : GB_MC_LITERAL("CLIENT_ERROR options flags too long"));
    } else if (sets && gb_mc_read_unsigned(line->words[2], line->value_max, &request->size) < 0) {
        gb_mc_refuse(event, GB_MC_LITERAL(GB_MC_BAD_LINE));
    } else {
        read_options(line, event);
    }
}
