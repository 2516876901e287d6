/*
 * The bytes of a corpus: made from nothing (payload.h), or real files, whose pages are advised
 * away after every read so that no cache of the kernel helps an engine.
 *
 * Made once and inherited by forked workers; each thread takes a window of its own.
 */
#ifndef GB_BENCH_CONTENT_H
#define GB_BENCH_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/corpus.h"
#include "bench/payload.h"
#include "goblin/error.h"

struct gb_content {
    const struct gb_corpus *corpus;
    bool generated;
    struct gb_payload payload; /* when generated */
};

/* `corpus` outlives the content. */
int gb_content_init(struct gb_content *content, const struct gb_corpus *corpus,
                    struct goblin_error *error);
void gb_content_fini(struct gb_content *content);

/* Threads: one at a time. */
struct gb_content_window {
    const struct gb_content *content;
    struct gb_payload_window payload;
    unsigned char *buffer; /* of file bytes */
    size_t capacity;
};

/* Every page the window can ever use is resident afterwards, so that memory which appears later
 * is the engine's. */
int gb_content_window_open(struct gb_content_window *window, const struct gb_content *content);
void gb_content_window_close(struct gb_content_window *window);

/* Bytes [offset, offset + len) of an object, until the next call on this window. NULL: the file
 * cannot be read (errno says why), or the piece is longer than 1 GiB or the pool (EFBIG). */
const void *gb_content_window_prepare(struct gb_content_window *window, uint64_t object,
                                      uint64_t offset, size_t len);

/* Are these the object's bytes? */
bool gb_content_window_verify(struct gb_content_window *window, uint64_t object, uint64_t offset,
                              const void *data, size_t len);

#endif
