/*
 * HTTP's dates (RFC 9110, 5.6.7): the three forms that are read, the one that is written.
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT     IMF-fixdate, the only one written
 *     Sunday, 06-Nov-94 08:49:37 GMT    RFC 850
 *     Sun Nov  6 08:49:37 1994          asctime()
 *
 * Units: seconds since 1970-01-01 UTC. Threads: pure functions, any thread.
 */
#ifndef GB_PROTO_HTTP_DATE_H
#define GB_PROTO_HTTP_DATE_H

#include "proto/http_text.h"

/* Bytes of a date that is written, without the terminator. */
enum { GB_HTTP_DATE_LEN = 29 };

/* Reads any of the three forms, with nothing around it. Names are as the grammar has them, letter
 * for letter; the date must exist, but nobody checks that it was that day of the week. A leap
 * second is the second after it. A year of two digits that would lie more than 50 years ahead of
 * `now_s` is the one a century before. Returns 0 or -EINVAL. */
int gb_http_date_parse(struct gb_http_text text, int64_t now_s, int64_t *out_s);

/* Writes `time_s`, cut to the years 0 to 9999, with a terminator. Returns `out`. */
const char *gb_http_date_write(int64_t time_s, char out[GB_HTTP_DATE_LEN + 1]);

#endif
