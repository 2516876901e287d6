/*
 * The memcached parser's events as text, for tests: one line per event, pieces of a value joined,
 * so that the same bytes must give the same text however they were split.
 */
#ifndef GB_TESTS_MCEVENTS_H
#define GB_TESTS_MCEVENTS_H

#include <stddef.h>

#include "proto/mc_parse.h"

enum { GB_MCEVENTS_MAX = 1 << 16 };

struct gb_mcevents {
    struct gb_mc_parser parser;
    char held[GB_MC_LINE_MAX]; /* what the parser left of the pieces before */
    size_t held_len;
    bool in_value;
    bool closed;
    size_t len;
    char text[GB_MCEVENTS_MAX]; /* terminated; what does not fit is left out */
};

void gb_mcevents_init(struct gb_mcevents *events);

/* Feeds the next piece. */
void gb_mcevents_feed(struct gb_mcevents *events, const char *data, size_t len);

#endif
