/*
 * Values that say what they are: every byte follows from a seed and its offset, and the first eight
 * bytes are the seed. So any stretch of any value can be checked alone, and a value that mixes two
 * others is caught.
 */
#ifndef GB_TESTS_PATTERN_H
#define GB_TESTS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the bytes [offset, offset + len) of the value of `seed`. */
void gb_pattern_fill(void *to, size_t len, uint64_t seed, uint64_t offset);

/* Whether [offset, offset + len) of the value of `seed` is what lies at `bytes`. */
bool gb_pattern_holds(const void *bytes, size_t len, uint64_t seed, uint64_t offset);

/* The seed that a value of at least eight bytes begins with. */
uint64_t gb_pattern_seed(const void *bytes);

#endif
