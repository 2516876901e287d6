/*
 * From a request's target to a key and back (RFC 9112, 3.2; RFC 3986, 2.1).
 *
 * A key is the target's path behind its first slash with every %HH turned into the byte it stands
 * for, and nothing else done to it: `..`, `.`, `//`, a last slash, letters in either case, %2F and
 * %00 are bytes of a key like any other. A store has no directories that one could climb out of;
 * and two paths that differ after decoding are two objects. What cannot stand in a path (controls,
 * spaces, DEL, `#`) and a % without two hexadecimal digits is an error; bytes from 0x80 on stand
 * for themselves, for many clients send them so.
 *
 * Threads: pure functions, any thread. Nothing is allocated.
 */
#ifndef GB_PROTO_HTTP_PATH_H
#define GB_PROTO_HTTP_PATH_H

#include "proto/http_text.h"

struct gb_http_target {
    struct gb_http_text authority; /* of the absolute form; absent otherwise */
    struct gb_http_text path;      /* from its first slash on, as it came; `*` of OPTIONS too */
    struct gb_http_text query;     /* behind the `?`; absent if there is none */
};

/* Takes "/path?query", "http://host/path?query" and "*" apart; the parts lie in `text`. An absolute
 * form without a path has "/". Returns 0 or -EINVAL. */
int gb_http_path_split(struct gb_http_text text, struct gb_http_target *out);

/* Decodes into `out`, which may be where `text` lies. Returns the number of bytes; -EINVAL;
 * -ENAMETOOLONG if they are more than `size`. */
int64_t gb_http_path_decode(struct gb_http_text text, char *out, size_t size);

/* The same for a name or a value of a query, in which `+` is a space. */
int64_t gb_http_path_decode_query(struct gb_http_text text, char *out, size_t size);

/* The next `name=value` of a query, as it came; a name without `=` has an absent value. */
bool gb_http_path_next_parameter(struct gb_http_text *query, struct gb_http_text *name,
                                 struct gb_http_text *value);

/* A key as a path without its first slash: everything but letters, digits, `-._~` and `/` becomes
 * %HH, so it decodes to the same key. At most three bytes per byte. Returns how many were written,
 * or -ENAMETOOLONG. */
int64_t gb_http_path_encode(struct gb_http_text key, char *out, size_t size);

#endif
