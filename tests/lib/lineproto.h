/*
 * A protocol for tests of the server's core: lines that ask for what connections, backend and
 * limits can do, without a real protocol's rules.
 *
 *     echo TEXT            -> TEXT
 *     set KEY BYTES\n…     -> OK | ERROR n      (whole up to whole_bytes, else streamed)
 *     sync KEY BYTES\n…    the same, durably
 *     get KEY [FROM LEN]   -> VALUE n\n… | MISS | ERROR n
 *     join KEY BYTES\n…    -> OK | MISS         (appended to what is there)
 *     add KEY N            -> the sum, as text of the value
 *     del KEY              -> OK | MISS
 *     spam BYTES           -> so many dots and a newline, made as the output drains
 *     sleep                -> AWAKE, when the test says so: gb_line_awake
 *     shut                 the connection is finished
 */
#ifndef GB_TESTS_LINEPROTO_H
#define GB_TESTS_LINEPROTO_H

#include "server/protocol.h"

extern const struct gb_protocol gb_line_protocol;

/* Lets every `sleep` that has begun, and begins from here on, end; gb_line_sleep undoes it. */
void gb_line_awake(void);
void gb_line_sleep(void);

#endif
