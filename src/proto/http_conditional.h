/*
 * Conditional requests (RFC 9110, 13): what If-Match, If-None-Match, If-Modified-Since and
 * If-Unmodified-Since say of an object, in the order of precedence of section 13.2.2. If-Range,
 * which comes last, is http_range.h's.
 *
 * A server asks only when it would answer with success otherwise (13.2.1). A field that comes in
 * several lines is handed over as one list.
 *
 * Threads: pure functions, any thread.
 */
#ifndef GB_PROTO_HTTP_CONDITIONAL_H
#define GB_PROTO_HTTP_CONDITIONAL_H

#include "proto/http_text.h"

/* The fields of a request; absent ones have `at` NULL. */
struct gb_http_conditions {
    struct gb_http_text if_match;
    struct gb_http_text if_none_match;
    struct gb_http_text if_modified_since;
    struct gb_http_text if_unmodified_since;
};

/* What there is. Without an object only `exists` counts. */
struct gb_http_validators {
    bool exists;
    bool has_modified;
    struct gb_http_text etag; /* with its quotes, and W/ in front if it is weak */
    int64_t modified_s;
};

enum gb_http_verdict {
    GB_HTTP_PROCEED = 0,
    GB_HTTP_NOT_MODIFIED = 304,
    GB_HTTP_BAD_CONDITION = 400, /* a list of entity tags that is none, where guessing could harm */
    GB_HTTP_PRECONDITION_FAILED = 412,
};

/* `reading`: the method is GET or HEAD. Then an entity tag that follows no grammar is one that
 * matches nothing; for methods that change something the whole request is refused. Dates that
 * follow no grammar are ignored, as the RFC says. */
enum gb_http_verdict gb_http_conditional_judge(const struct gb_http_conditions *conditions,
                                               const struct gb_http_validators *validators,
                                               bool reading, int64_t now_s);

/* Whether the text is an entity tag: a quoted string without escapes, perhaps with W/ in front. */
bool gb_http_conditional_is_etag(struct gb_http_text text);

#endif
