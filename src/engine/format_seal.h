/*
 * What the files of the format module share, and nobody else includes: the frame of a sealed block
 * (magic, version ... sum) and what makes a record one that an encoder writes.
 */
#ifndef GB_ENGINE_FORMAT_SEAL_H
#define GB_ENGINE_FORMAT_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/format.h"

#define GB_SEAL_VERSION_AT 8u
#define GB_SEAL_BODY_AT    12u /* what follows is the kind's own */
#define GB_SEAL_SUM_AT     (GB_BLOCK - 8u)

/* Zeroes the block, then writes magic (8 bytes) and version. */
void gb_format_seal_begin(unsigned char *block, const char *magic, uint32_t version);
/* Writes the sum over all that stands before it. */
void gb_format_seal_end(unsigned char *block, uint64_t seed);

/* 0, GOBLIN_ENOTSTORE (another magic), GOBLIN_ECORRUPT (bad sum) or GOBLIN_EFORMAT, in this order:
 * magic, version and sum lie where they are in every version, so a version is believed only under
 * a good sum. */
int gb_format_seal_check(const unsigned char *block, const char *magic, uint64_t seed);

/* Whether the block is zero from `from` up to its sum, as encoders leave it. */
bool gb_format_seal_is_zero(const unsigned char *block, uint32_t from);

/* XXH3 of `len` bytes seeded with `seed`. */
uint64_t gb_format_seal_hash(const void *bytes, size_t len, uint64_t seed);

/* Whether segments may be of this size: a power of two, 16 KiB to 32 GiB. */
bool gb_format_segment_bytes_valid(uint64_t segment_bytes);

/* Whether every field is in range and fields its type has no use for are 0. */
bool gb_format_record_valid(const struct gb_record *record);

#endif
