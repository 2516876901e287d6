/*
 * Streams of requests for the network fuzzer: what one client sends on one connection, drawn from a
 * seed. The answers to a stream depend on nothing but its bytes: its keys are its own, and what a
 * store numbers by itself is not asked for.
 */
#ifndef GB_TESTS_NETSTREAM_H
#define GB_TESTS_NETSTREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rng.h"

/* Largest value that the fuzzed server takes. */
#define GB_NETSTREAM_VALUE_MAX 100000u

struct gb_netstream {
    bool http;
    bool mutated;
    char letter; /* that its keys are made of */
    unsigned char *bytes;
    size_t len;
    size_t room;
    size_t *edges; /* ascending: where something begins or ends */
    size_t edge_count;
    size_t edge_room;
};

/* Two of three are valid, refusals among what they ask for included, and end so that the server
 * closes the connection once all is answered. The third is broken in a few places. */
void gb_netstream_make(struct gb_netstream *stream, struct gb_rng *rng, bool http, char letter);

void gb_netstream_fini(struct gb_netstream *stream);

/* Takes from answers what the clock and the store's numbers make different every time (Date, ETag,
 * invitations to send a body); of what breaks off, the line that is not whole. Works in place;
 * returns the new length. */
size_t gb_netstream_normalise(unsigned char *answers, size_t len, bool http, bool whole);

#endif
