/* Events of the memcached parser, written down. */
#include "lib/mcevents.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void gb_mcevents_init(struct gb_mcevents *events)
{
    memset(events, 0, sizeof(*events));
    gb_mc_parser_init(&events->parser, 0);
}

__attribute__((format(printf, 2, 3))) static void say(struct gb_mcevents *events,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof(events->text) - events->len;
    int len = vsnprintf(events->text + events->len, room, format, arguments);
    va_end(arguments);
    GB_ASSERT(len >= 0);
    events->len += (size_t)len < room ? (size_t)len : room - 1;
}

static void say_text(struct gb_mcevents *events, const char *name, struct gb_mc_text text)
{
    if (text.data == NULL) {
        return;
    }
    say(events, " %s=", name);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c > ' ' && c < 127) {
            say(events, "%c", c);
        } else {
            say(events, "\\%02x", c);
        }
    }
}

static void say_number(struct gb_mcevents *events, const char *name, uint64_t number)
{
    if (number != 0) {
        say(events, " %s=%" PRIu64, name, number);
    }
}

static void say_seconds(struct gb_mcevents *events, const char *name, int64_t seconds)
{
    if (seconds != 0) {
        say(events, " %s=%" PRId64, name, seconds);
    }
}

static void say_request(struct gb_mcevents *events, const struct gb_mc_request *request)
{
    say(events, "%s", gb_mc_verb_name(request->verb));
    say_text(events, request->key_binary ? "binary" : "key", request->key);
    if (request->options > 0) {
        say(events, " order=%.*s", (int)request->options, request->order);
    }
    if (request->mode != 0) {
        say(events, " mode=%c", request->mode);
    }
    say_number(events, "flags", request->client_flags);
    say_seconds(events, "exp", request->exptime_s);
    say_seconds(events, "vivify", request->vivify_s);
    say_seconds(events, "recache", request->recache_s);
    say_number(events, "size", request->size);
    say_number(events, "cas", request->cas);
    say_number(events, "newcas", request->new_cas);
    say_number(events, "delta", request->delta);
    say_number(events, "initial", request->initial);
    say_text(events, "opaque", request->opaque);
    say_text(events, "rest", request->rest);
    say(events, request->noreply ? " noreply\n" : "\n");
}

static void say_event(struct gb_mcevents *events, const struct gb_mc_event *event)
{
    switch (event->kind) {
    case GB_MC_REQUEST:
        say_request(events, &event->request);
        break;
    case GB_MC_KEYS_END:
        say(events, "end\n");
        break;
    case GB_MC_VALUE:
        if (!events->in_value) {
            say(events, "value ");
            events->in_value = true;
        }
        for (size_t i = 0; i < event->text.len; i++) {
            say(events, "%c", event->text.data[i] != '\0' ? event->text.data[i] : '0');
        }
        return;
    case GB_MC_VALUE_END:
        say(events, "%s%s\n", events->in_value ? "\n" : "", event->good ? "good" : "bad");
        break;
    case GB_MC_REFUSED:
        say(events, "%s%.*s\n", event->request.noreply ? "(silent) " : "! ", (int)event->text.len,
            event->text.data);
        break;
    case GB_MC_CLOSE:
        say(events, "close\n");
        events->closed = true;
        break;
    case GB_MC_MORE:
        return;
    }
    events->in_value = false;
}

/* Takes every event out of data[0…len); returns what was used. */
static size_t drain(struct gb_mcevents *events, const char *data, size_t len)
{
    size_t used = 0;
    for (;;) {
        struct gb_mc_event event;
        size_t here = gb_mc_parse(&events->parser, data + used, len - used, &event);
        GB_ASSERT(here <= len - used);
        used += here;
        say_event(events, &event);
        if (event.kind == GB_MC_MORE || event.kind == GB_MC_CLOSE) {
            return used;
        }
        GB_ASSERT(here > 0);
    }
}

void gb_mcevents_feed(struct gb_mcevents *events, const char *data, size_t len)
{
    while (!events->closed && len > 0) {
        size_t room = sizeof(events->held) - events->held_len;
        size_t piece = len < room ? len : room;
        memcpy(events->held + events->held_len, data, piece);
        events->held_len += piece;
        size_t used = drain(events, events->held, events->held_len);
        /* A whole line always fits, so a full buffer can never wait for more. */
        GB_ASSERT(events->closed || used > 0 || events->held_len < sizeof(events->held));
        memmove(events->held, events->held + used, events->held_len - used);
        events->held_len -= used;
        data += piece;
        len -= piece;
    }
}
