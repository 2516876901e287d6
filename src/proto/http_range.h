/*
 * Which bytes a Range field asks for (RFC 9110, 14), and whether an If-Range field lets it.
 *
 * A field is ignored, and the whole object sent, if it is in another unit than bytes, if it does
 * not follow the grammar, or if it names more than GB_HTTP_RANGES_MAX ranges. What cannot be
 * satisfied is left out; ranges that overlap, or whose gap costs less than the head of another
 * part, become one. So no request makes more of an object than once its bytes.
 *
 * Threads: pure functions, any thread.
 */
#ifndef GB_PROTO_HTTP_RANGE_H
#define GB_PROTO_HTTP_RANGE_H

#include "proto/http_text.h"

/* As many ranges as one request may name, and the gap that is sent rather than left out. */
enum { GB_HTTP_RANGES_MAX = 128, GB_HTTP_RANGE_GAP = 80 };

struct gb_http_range {
    uint64_t first;
    uint64_t len; /* never 0 */
};

/* In the order in which they were asked for, a joined one at the place of its first. */
struct gb_http_ranges {
    size_t count;
    struct gb_http_range at[GB_HTTP_RANGES_MAX];
};

enum gb_http_range_answer {
    GB_HTTP_RANGE_WHOLE = 0, /* 200: as if there were no such field */
    GB_HTTP_RANGE_PART = 1,  /* 206: what out->at says */
    GB_HTTP_RANGE_NONE = 2,  /* 416: nothing of it lies within the object */
};

/* `field` is the value of Range, absent or not; `size` is the object's, in bytes. */
enum gb_http_range_answer gb_http_range_resolve(struct gb_http_text field, uint64_t size,
                                                struct gb_http_ranges *out);

/* Whether the value of If-Range, absent or not, holds for an object with this entity tag (with its
 * quotes) and time of modification: else Range is to be ignored. A date holds only if it is the
 * very one, and at least a second old, for only then is it a strong validator. */
bool gb_http_range_if(struct gb_http_text field, struct gb_http_text etag, int64_t modified_s,
                      int64_t now_s);

#endif
