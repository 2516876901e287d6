/*
 * How the corpus makers share their work: a growing set of objects with keys, and the errors they
 * explain. For corpus*.c and trace.c only.
 */
#ifndef GB_BENCH_CORPUS_BUILD_H
#define GB_BENCH_CORPUS_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/corpus.h"

struct gb_corpus_build {
    struct gb_corpus corpus; /* grows; taken over by the caller at the end */
    uint64_t room;           /* of sizes and key_offsets */
    uint64_t key_room;       /* of key_text */
    uint32_t *table;         /* open addressing: object + 1, 0 = free; a power of two long */
    uint64_t table_size;
};

void gb_corpus_build_init(struct gb_corpus_build *build);
void gb_corpus_build_fini(struct gb_corpus_build *build); /* unless taken */

/* Finds the key's object, or adds one of size 0. Errors: -ENOMEM, -E2BIG at 2^32 - 1 objects,
 * -EINVAL for a key that is empty or longer than GB_CORPUS_KEY_MAX. */
__attribute__((warn_unused_result)) int gb_corpus_build_intern(struct gb_corpus_build *build,
                                                               const char *key, size_t key_len,
                                                               uint32_t *object);

/* The hash behind it, for sampling by key. */
uint64_t gb_corpus_build_hash(const char *key, size_t key_len, uint64_t seed);

/* Keeps a random `keep` of the objects, in random order (keep >= count only shuffles). Errors:
 * -ENOMEM. */
__attribute__((warn_unused_result)) int gb_corpus_build_sample(struct gb_corpus_build *build,
                                                               uint64_t keep, uint64_t seed);

/* Moves the finished corpus out and frees the rest. */
void gb_corpus_build_take(struct gb_corpus_build *build, struct gb_corpus *corpus);

/* Writes a text into `error` (which may be NULL) and returns `code`. */
__attribute__((format(printf, 3, 4))) int gb_corpus_build_fail(struct goblin_error *error, int code,
                                                               const char *format, ...);

/* The makers. Each fills the build with objects. */
int gb_corpus_debian_list(struct gb_corpus_build *build, const char *directory,
                          struct goblin_error *error);
int gb_corpus_data_list(struct gb_corpus_build *build, const char *directory,
                        struct goblin_error *error);

/* Sizes of the study's objects at options->scale, and how often each is asked for. Owns: *counts
 * (corpus.count long) is the caller's to free. */
int gb_corpus_study_list(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                         uint64_t requests, uint32_t **counts);

#endif
