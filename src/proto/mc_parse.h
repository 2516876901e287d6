/*
 * The memcached parser: bytes in, events out.
 *
 * It is fed what a connection has received and not yet consumed, any split of it, and owns no
 * buffer: an event's texts lie in the input and stay good as long as the caller leaves those bytes
 * alone (a key that was base64 lies in the event). A value is announced by its request and then
 * streamed, piece by piece as it arrives.
 *
 *     get a b            REQUEST(get a)  REQUEST(get b)  KEYS_END
 *     set a 0 0 3        REQUEST(set, size 3)  VALUE(...)…  VALUE_END(good)
 *     anything wrong     REFUSED(text)
 *
 * What comes out depends on the bytes alone, never on how they were split. After a line that is
 * refused, the next line is a command again, as with memcached: a refused `set` leaves its value to
 * be taken for commands, a refused `ms` whose length could be read is swallowed with its value.
 *
 * Keep in mind: a whole line must fit the caller's buffer (GB_MC_LINE_MAX); only get, gets, gat and
 * gats may be longer, and are then read key by key.
 */
#ifndef GB_PROTO_MC_PARSE_H
#define GB_PROTO_MC_PARSE_H

#include "proto/mc.h"

enum gb_mc_event_kind {
    GB_MC_MORE,      /* nothing whole is left: come back with more bytes behind what is left */
    GB_MC_REQUEST,   /* a request, or one key of a get; a value follows if gb_mc_stores(verb) */
    GB_MC_KEYS_END,  /* the last key of a get has been told */
    GB_MC_VALUE,     /* `text`: bytes of the value */
    GB_MC_VALUE_END, /* the value is complete; `good`: and ended as it must */
    GB_MC_REFUSED,   /* answer with `text`, unless request.noreply */
    GB_MC_CLOSE,     /* a line too long to be anything: close the connection */
};

struct gb_mc_event {
    enum gb_mc_event_kind kind;
    bool good;
    struct gb_mc_text text;
    uint64_t swallow; /* of REFUSED: bytes that follow, are no commands, and tell nothing */
    struct gb_mc_request request;
    char decoded[GB_MC_KEY_MAX / 4 * 3]; /* the key, if it was base64; an event is not copied */
};

/* Owner: the connection. */
struct gb_mc_parser {
    uint64_t value_max;
    uint64_t left; /* bytes of a value still to come, or to be swallowed */
    int64_t exptime_s;
    enum gb_mc_verb verb; /* of the keys being read */
    unsigned char mode;
    unsigned char ends; /* bytes of a value's \r\n seen */
    bool ends_good;
    bool any_key;
};

/* Values are announced up to the larger of value_max_bytes and GB_MC_VALUE_MAX; a longer one is a
 * line that cannot be read. */
void gb_mc_parser_init(struct gb_mc_parser *parser, uint64_t value_max_bytes);

/* Takes the next event from data[0…len) and returns how many bytes it used up; of MORE too, bytes
 * that were swallowed. After CLOSE nothing is taken. */
size_t gb_mc_parse(struct gb_mc_parser *parser, const char *data, size_t len,
                   struct gb_mc_event *event);

/* Of the value that has been announced, and of its end, nothing more is to be told. */
void gb_mc_parser_swallow(struct gb_mc_parser *parser);

/* What is left of the value went another way; what comes next is its end. */
void gb_mc_parser_taken(struct gb_mc_parser *parser);

/* The same, with all of the value and its end at hand: whether end[0…2) is one. */
bool gb_mc_parser_end(struct gb_mc_parser *parser, const char *end);

/* After a key: if nothing but the end of its line follows, takes that (KEYS_END is not told) and
 * returns how many bytes it is, else 0. */
size_t gb_mc_parser_keys_end(struct gb_mc_parser *parser, const char *data, size_t len);

/* Keys that data[0…len) will ask for or set, as far as a glance tells: those of a line of keys and
 * of the lines behind it, past values that are all there, up to `most`. *covered is how far it has
 * looked, at least one byte. Advice only: what is wrong is found by parsing. Keys in base64 are
 * none. */
size_t gb_mc_parser_peek(const struct gb_mc_parser *parser, const char *data, size_t len,
                         struct gb_mc_text *keys, size_t most, size_t *covered);

/* Between two lines: the next byte is the first of a command. */
bool gb_mc_parser_idle(const struct gb_mc_parser *parser);

/* Within a line of keys. */
bool gb_mc_parser_in_keys(const struct gb_mc_parser *parser);

#endif
