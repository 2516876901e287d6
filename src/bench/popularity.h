/*
 * Popularity: how many requests each object gets, and in which order they come.
 *
 * Counts are exact rather than drawn (each rank's share rounded so that the sum is right), then the
 * order is shuffled; so a small corpus has the same shape as a large one.
 */
#ifndef GB_BENCH_POPULARITY_H
#define GB_BENCH_POPULARITY_H

#include <stdint.h>

#include "base/rng.h"
#include "bench/corpus.h"

/* counts[rank] of `total` requests for `ranks` objects with weights (rank + 1)^-exponent. */
void gb_popularity_zipf(uint64_t ranks, double exponent, uint64_t total, uint32_t *counts);

void gb_popularity_shuffle(struct gb_rng *rng, uint32_t *items, uint64_t count);

/* A schedule with counts[object] requests each (scans come on top, out of the same sum), following
 * options->shifts, scan_share and seed. A shift deals the counts anew among objects of similar
 * size, so that what is asked for changes and how much is returned does not. Errors: -ENOMEM. */
__attribute__((warn_unused_result)) int gb_popularity_schedule(
    const struct gb_corpus *corpus, const uint32_t *counts, const struct gb_corpus_options *options,
    struct gb_schedule *out);

/* Every object once, in random order. */
__attribute__((warn_unused_result)) int gb_popularity_each_once(const struct gb_corpus *corpus,
                                                                uint64_t seed,
                                                                struct gb_schedule *out);

#endif
