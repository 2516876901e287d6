/*
 * One simulated life of a store: a seed draws the options, the operations, the crashes and what the
 * disk does in them, and everything the store answers is held against what it promised.
 *
 * Everything happens on one thread, the store's background work included, so a seed gives the same
 * run every time (but for the random salts of segments, on which nothing depends).
 */
#ifndef GB_SIM_SIMRUN_H
#define GB_SIM_SIMRUN_H

#include <stdbool.h>
#include <stdint.h>

struct simrun_result {
    char why[512]; /* empty: all promises were kept */
    uint64_t operations;
    unsigned crashes;
    unsigned power_cuts;
    unsigned clean_closes;
    uint64_t reclaimed;   /* segments */
    uint64_t evicted;     /* objects */
    uint64_t kept_in_ram; /* values, by admission */
    uint64_t written_later;
    uint64_t refused;    /* operations, for lack of room */
    uint64_t rescued;    /* times that a stream was moved from a segment that failed */
    uint64_t returned;   /* drives, after they had been retired */
    unsigned times_full; /* that others filled the file system */
    unsigned headers;    /* of segments that were damaged, one of two or both */
    unsigned segments_lost;
};

/* Returns whether all promises were kept. `trace`: prints every step. */
bool simrun(uint64_t seed, bool trace, struct simrun_result *result);

#endif
