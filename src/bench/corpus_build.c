/* A growing set of objects with keys: see corpus_build.h. */
#include "bench/corpus_build.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

enum { TABLE_LEAST = 1024 };

void gb_corpus_build_init(struct gb_corpus_build *build)
{
    *build = (struct gb_corpus_build){0};
}

void gb_corpus_build_fini(struct gb_corpus_build *build)
{
    gb_corpus_fini(&build->corpus);
    free(build->table);
    build->table = NULL;
}

int gb_corpus_build_fail(struct goblin_error *error, int code, const char *format, ...)
{
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
        va_end(arguments);
    }
    return code;
}

/* Eight bytes at a time through the mixer; the length and the seed go in first. */
uint64_t gb_corpus_build_hash(const char *key, size_t key_len, uint64_t seed)
{
    uint64_t hash = gb_rng_mix(seed ^ (key_len * UINT64_C(0x9e3779b97f4a7c15)));
    while (key_len > 0) {
        uint64_t word = 0;
        size_t step = key_len < sizeof(word) ? key_len : sizeof(word);
        memcpy(&word, key, step);
        hash = gb_rng_mix(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
        key += step;
        key_len -= step;
    }
    return gb_rng_mix(hash);
}

static const char *key_of(const struct gb_corpus *corpus, uint64_t object, size_t *len)
{
    GB_ASSERT(object < corpus->count && corpus->key_offsets != NULL);
    *len = corpus->key_offsets[object + 1] - corpus->key_offsets[object];
    return corpus->key_text + corpus->key_offsets[object];
}

/* The key's slot in the table, or the free one where it belongs. */
static uint32_t *find_slot(struct gb_corpus_build *build, const char *key, size_t key_len)
{
    uint64_t mask = build->table_size - 1;
    uint64_t at = gb_corpus_build_hash(key, key_len, 0) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *slot = &build->table[at];
        if (*slot == 0) {
            return slot;
        }
        size_t len;
        const char *other = key_of(&build->corpus, *slot - 1, &len);
        if (len == key_len && memcmp(other, key, len) == 0) {
            return slot;
        }
    }
}

static int grow_table(struct gb_corpus_build *build)
{
    if (2 * build->corpus.count < build->table_size) {
        return 0;
    }
    uint64_t size = build->table_size == 0 ? TABLE_LEAST : 4 * build->table_size;
    uint32_t *table = calloc(size, sizeof(*table));
    if (table == NULL) {
        return -ENOMEM;
    }
    free(build->table);
    build->table = table;
    build->table_size = size;
    for (uint64_t i = 0; i < build->corpus.count; i++) {
        size_t len;
        const char *key = key_of(&build->corpus, i, &len);
        *find_slot(build, key, len) = (uint32_t)i + 1;
    }
    return 0;
}

static int grow_objects(struct gb_corpus_build *build)
{
    struct gb_corpus *corpus = &build->corpus;
    if (corpus->count < build->room) {
        return 0;
    }
    uint64_t room = build->room == 0 ? TABLE_LEAST : 2 * build->room;
    uint64_t *sizes = realloc(corpus->sizes, room * sizeof(*sizes));
    if (sizes == NULL) {
        return -ENOMEM;
    }
    corpus->sizes = sizes;
    uint64_t *offsets = realloc(corpus->key_offsets, (room + 1) * sizeof(*offsets));
    if (offsets == NULL) {
        return -ENOMEM;
    }
    corpus->key_offsets = offsets;
    corpus->key_offsets[0] = 0;
    build->room = room;
    return 0;
}

static int add_key(struct gb_corpus_build *build, const char *key, size_t key_len)
{
    struct gb_corpus *corpus = &build->corpus;
    uint64_t used = corpus->key_offsets[corpus->count];
    if (used + key_len > build->key_room) {
        uint64_t room = 2 * build->key_room + 64 * (uint64_t)TABLE_LEAST;
        char *text = realloc(corpus->key_text, room);
        if (text == NULL) {
            return -ENOMEM;
        }
        corpus->key_text = text;
        build->key_room = room;
    }
    memcpy(corpus->key_text + used, key, key_len);
    corpus->key_offsets[corpus->count + 1] = used + key_len;
    return 0;
}

int gb_corpus_build_intern(struct gb_corpus_build *build, const char *key, size_t key_len,
                           uint32_t *object)
{
    if (key_len == 0 || key_len > GB_CORPUS_KEY_MAX) {
        return -EINVAL;
    }
    int result = grow_table(build);
    if (result < 0) {
        return result;
    }
    uint32_t *slot = find_slot(build, key, key_len);
    if (*slot != 0) {
        *object = *slot - 1;
        return 0;
    }
    if (build->corpus.count == UINT32_MAX) {
        return -E2BIG;
    }
    result = grow_objects(build);
    if (result == 0) {
        result = add_key(build, key, key_len);
    }
    if (result < 0) {
        return result;
    }
    *object = (uint32_t)build->corpus.count;
    build->corpus.sizes[build->corpus.count++] = 0;
    *slot = *object + 1;
    return 0;
}

int gb_corpus_build_sample(struct gb_corpus_build *build, uint64_t keep, uint64_t seed)
{
    struct gb_corpus *corpus = &build->corpus;
    uint32_t *order = malloc((corpus->count + 1) * sizeof(*order));
    struct gb_corpus_build chosen;
    gb_corpus_build_init(&chosen);
    chosen.corpus.directory = corpus->directory;
    corpus->directory = NULL;
    int result = order == NULL ? -ENOMEM : 0;
    for (uint64_t i = 0; order != NULL && i < corpus->count; i++) {
        order[i] = (uint32_t)i;
    }
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (uint64_t i = 0; i < corpus->count && i < keep && result == 0; i++) {
        uint64_t other = i + gb_rng_below(&rng, corpus->count - i);
        uint32_t from = order[other];
        order[other] = order[i];
        size_t len;
        const char *key = key_of(corpus, from, &len);
        uint32_t object;
        result = gb_corpus_build_intern(&chosen, key, len, &object);
        if (result == 0) {
            GB_ASSERT(corpus->sizes != NULL && chosen.corpus.sizes != NULL);
            chosen.corpus.sizes[object] = corpus->sizes[from];
        }
    }
    free(order);
    gb_corpus_build_fini(build);
    *build = chosen;
    return result;
}

void gb_corpus_build_take(struct gb_corpus_build *build, struct gb_corpus *corpus)
{
    *corpus = build->corpus;
    corpus->total_bytes = 0;
    corpus->max_bytes = 0;
    for (uint64_t i = 0; i < corpus->count; i++) {
        corpus->total_bytes += corpus->sizes[i];
        if (corpus->sizes[i] > corpus->max_bytes) {
            corpus->max_bytes = corpus->sizes[i];
        }
    }
    build->corpus = (struct gb_corpus){0};
    gb_corpus_build_fini(build);
}
