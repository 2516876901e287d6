/*
 * What a callback keeps of a value that is being handed over, to be compared after the clock has
 * stopped: the first and last 64 bytes of every chunk. Belongs to one thread.
 */
#ifndef GB_BENCH_SAMPLES_H
#define GB_BENCH_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GB_SAMPLE_BYTES = 64,
    GB_SAMPLES_MAX = 1024, /* chunks of one value that are looked at */
};

struct gb_sample {
    uint64_t offset; /* of the chunk in the value */
    size_t len;      /* of the chunk, not 0 */
    unsigned char first[GB_SAMPLE_BYTES];
    unsigned char last[GB_SAMPLE_BYTES];
};

struct gb_samples {
    uint64_t bytes; /* of all chunks so far */
    uint32_t count;
    struct gb_sample *items; /* [GB_SAMPLES_MAX] */
};

/* Owns: gb_samples_fini. Errors: -ENOMEM. */
int gb_samples_init(struct gb_samples *samples);
void gb_samples_fini(struct gb_samples *samples);

void gb_samples_clear(struct gb_samples *samples);

/* The next chunk of the value; `data` NULL: only its length is known. */
void gb_samples_add(struct gb_samples *samples, const void *data, size_t len);

typedef bool (*gb_samples_same_fn)(void *arg, uint64_t offset, const void *data, size_t len);

/* Does `same` hold for all that was kept? Adds to *compared_bytes what was looked at. */
bool gb_samples_match(const struct gb_samples *samples, gb_samples_same_fn same, void *arg,
                      uint64_t *compared_bytes);

#endif
