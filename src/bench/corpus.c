/* Corpora and schedules from their descriptions: see corpus.h. */
#include "bench/corpus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "bench/corpus_build.h"
#include "bench/popularity.h"
#include "bench/trace.h"

static const char apt_lists[] = "/var/lib/apt/lists";

void gb_corpus_defaults(struct gb_corpus_options *options)
{
    *options = (struct gb_corpus_options){
        .kind = GB_CORPUS_STUDY, .scale = 1, .zipf_exponent = 0.9, .seed = 1};
}

void gb_corpus_fini(struct gb_corpus *corpus)
{
    free(corpus->sizes);
    free(corpus->directory);
    free(corpus->key_text);
    free(corpus->key_offsets);
    *corpus = (struct gb_corpus){0};
}

void gb_schedule_fini(struct gb_schedule *schedule)
{
    free(schedule->objects);
    *schedule = (struct gb_schedule){0};
}

size_t gb_corpus_key(const struct gb_corpus *corpus, uint64_t object, char key[GB_CORPUS_KEY_MAX])
{
    if (corpus->key_text == NULL) {
        /* A bijection of the number: opaque, unique, and in no useful order. Written by hand, since
         * load generators make millions a second. */
        enum { DIGITS = 16 };
        uint64_t opaque = gb_rng_mix(object ^ gb_rng_mix(corpus->seed));
        for (int i = DIGITS - 1; i >= 0; i--) {
            key[i] = "0123456789abcdef"[opaque & 15];
            opaque >>= 4;
        }
        return DIGITS;
    }
    size_t len = corpus->key_offsets[object + 1] - corpus->key_offsets[object];
    memcpy(key, corpus->key_text + corpus->key_offsets[object], len);
    return len;
}

static int check_options(const struct gb_corpus_options *options, struct goblin_error *error)
{
    double most = options->kind == GB_CORPUS_STUDY ? 64 : 1;
    if (!(options->scale > 0 && options->scale <= most)) {
        return gb_corpus_build_fail(error, -EINVAL, "scale %g is not within (0, %g]",
                                    options->scale, most);
    }
    if (!(options->zipf_exponent >= 0 && options->zipf_exponent <= 3)) {
        return gb_corpus_build_fail(error, -EINVAL, "Zipf exponent %g is not within [0, 3]",
                                    options->zipf_exponent);
    }
    if (!(options->scan_share >= 0 && options->scan_share < 1)) {
        return gb_corpus_build_fail(error, -EINVAL, "scan share %g is not within [0, 1)",
                                    options->scan_share);
    }
    if (options->requests > UINT32_MAX) {
        return gb_corpus_build_fail(error, -EINVAL, "more than %u requests", UINT32_MAX);
    }
    bool needs_path = options->kind == GB_CORPUS_DATA || options->kind == GB_CORPUS_TRACE;
    if (needs_path && options->path == NULL) {
        return gb_corpus_build_fail(error, -EINVAL, "no path to read the corpus from");
    }
    return 0;
}

/* The study's ratio of requests to objects, for corpora that bring none of their own. */
static uint64_t default_requests(double objects)
{
    return (uint64_t)llround(objects * ((double)GB_STUDY_REQUESTS / (double)GB_STUDY_OBJECTS));
}

/* Zipf over all objects, whose order is random already. */
static int list_named(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                      uint32_t **counts, struct goblin_error *error)
{
    const char *path = options->path != NULL ? options->path : apt_lists;
    int result = options->kind == GB_CORPUS_DATA ? gb_corpus_data_list(build, path, error)
                                                 : gb_corpus_debian_list(build, path, error);
    if (result < 0) {
        return result;
    }
    if (build->corpus.count == 0) {
        return gb_corpus_build_fail(error, -EINVAL, "%s: no objects found", path);
    }
    double share = (double)build->corpus.count * options->scale;
    uint64_t keep = share < 1 ? 1 : (uint64_t)llround(share);
    result = gb_corpus_build_sample(build, keep, options->seed);
    if (result < 0) {
        return result;
    }
    uint64_t count = build->corpus.count;
    *counts = malloc((count + 1) * sizeof(**counts));
    if (*counts == NULL) {
        return -ENOMEM;
    }
    uint64_t requests =
        options->requests != 0 ? options->requests : default_requests((double)count);
    gb_popularity_zipf(count, options->zipf_exponent, requests, *counts);
    return 0;
}

static int list_study(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                      uint32_t **counts, struct goblin_error *error)
{
    double objects = (double)GB_STUDY_OBJECTS * options->scale;
    uint64_t requests = options->requests != 0 ? options->requests : default_requests(objects);
    int result = gb_corpus_study_list(build, options, requests, counts);
    if (result == 0 && build->corpus.count == 0) {
        return gb_corpus_build_fail(error, -EINVAL, "scale %g leaves no objects", options->scale);
    }
    return result;
}

static void describe(struct gb_corpus *corpus, const struct gb_corpus_options *options,
                     const struct gb_schedule *schedule)
{
    static const char *const kinds[] = {"study", "debian", "data", "trace"};
    char objects[GB_UNITS_TEXT];
    char bytes[GB_UNITS_TEXT];
    char requests[GB_UNITS_TEXT];
    char returned[GB_UNITS_TEXT];
    char order[64];
    if (options->is_each_once) {
        (void)snprintf(order, sizeof(order), "each once");
    } else if (options->kind == GB_CORPUS_TRACE) {
        (void)snprintf(order, sizeof(order), "in the log's order");
    } else {
        (void)snprintf(order, sizeof(order), "Zipf %g%s", options->zipf_exponent,
                       options->kind == GB_CORPUS_STUDY ? " within size classes" : "");
    }
    (void)snprintf(corpus->description, sizeof(corpus->description),
                   "%s: %s objects, %s; %s requests, %s, %s", kinds[options->kind],
                   gb_units_format_count(objects, sizeof(objects), corpus->count),
                   gb_units_format_size(bytes, sizeof(bytes), corpus->total_bytes),
                   gb_units_format_count(requests, sizeof(requests), schedule->count),
                   gb_units_format_size(returned, sizeof(returned), schedule->total_bytes), order);
}

static int make_schedule(const struct gb_corpus *corpus, const struct gb_corpus_options *options,
                         const uint32_t *counts, struct gb_schedule *schedule)
{
    if (options->is_each_once) {
        gb_schedule_fini(schedule);
        return gb_popularity_each_once(corpus, options->seed, schedule);
    }
    if (options->kind == GB_CORPUS_TRACE) {
        for (uint64_t i = 0; i < schedule->count; i++) {
            schedule->total_bytes += corpus->sizes[schedule->objects[i]];
        }
        return 0;
    }
    return gb_popularity_schedule(corpus, counts, options, schedule);
}

int gb_corpus_make(const struct gb_corpus_options *options, struct gb_corpus *corpus,
                   struct gb_schedule *schedule, struct goblin_error *error)
{
    int result = check_options(options, error);
    if (result < 0) {
        return result;
    }
    struct gb_corpus_build build;
    struct gb_schedule made = {0};
    uint32_t *counts = NULL;
    gb_corpus_build_init(&build);
    if (options->kind == GB_CORPUS_STUDY) {
        result = list_study(&build, options, &counts, error);
    } else if (options->kind == GB_CORPUS_TRACE) {
        result = gb_trace_read(&build, options, &made, error);
    } else {
        result = list_named(&build, options, &counts, error);
    }
    if (result < 0) {
        goto fini_build;
    }
    gb_corpus_build_take(&build, corpus);
    corpus->seed = options->seed;
    result = make_schedule(corpus, options, counts, &made);
    if (result < 0) {
        gb_corpus_fini(corpus);
        goto fini_build;
    }
    describe(corpus, options, &made);
    *schedule = made;
    free(counts);
    return 0;

fini_build:
    gb_schedule_fini(&made);
    gb_corpus_build_fini(&build);
    free(counts);
    if (result == -ENOMEM) {
        return gb_corpus_build_fail(error, result, "not enough memory for the corpus");
    }
    return result;
}
