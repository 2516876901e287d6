/*
 * A corpus (objects with sizes and keys) and a schedule (which object each request asks for), made
 * together from a description, so that every engine sees the same ones.
 *
 * Deterministic: the same options and inputs give the same corpus and schedule on every machine.
 * Objects are numbered 0..count-1 in an order that says nothing of their size or popularity; this
 * is also the order of population. Popularity is exact rather than drawn: every object gets its
 * share of the requests rounded to a whole number, and the requests are then shuffled.
 *
 * Threads: immutable once made, readable from any number of threads. Errors: -ENOMEM, -EINVAL (with
 * a text that names the file and line where there is one), errno values of files that do not open.
 */
#ifndef GB_BENCH_CORPUS_H
#define GB_BENCH_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

enum { GB_CORPUS_KEY_MAX = 4096 };

/* What the study's own corpus and schedule had (scale 1), and its memory for each engine. */
#define GB_STUDY_OBJECTS       UINT64_C(373165)
#define GB_STUDY_REQUESTS      UINT64_C(6141630)
#define GB_STUDY_OBJECT_BYTES  UINT64_C(66693472653)
#define GB_STUDY_REQUEST_BYTES UINT64_C(285757364203)
#define GB_STUDY_MEMORY_BYTES  (UINT64_C(5220) << 20)

struct gb_corpus {
    uint64_t count;
    uint64_t *sizes;      /* [count], bytes */
    uint64_t total_bytes; /* sum of sizes */
    uint64_t max_bytes;   /* the largest size */

    char *directory;       /* real files: where they lie; NULL when the payload is generated */
    char *key_text;        /* keys back to back, or NULL: keys follow from seed and number */
    uint64_t *key_offsets; /* [count + 1] into key_text */
    uint64_t seed;

    char description[256]; /* one line for reports */
};

struct gb_schedule {
    uint64_t count;
    uint32_t *objects;    /* [count] */
    uint64_t total_bytes; /* returned by all requests together */
};

enum gb_corpus_kind {
    GB_CORPUS_STUDY,  /* the study's marginals */
    GB_CORPUS_DEBIAN, /* names and sizes of the Debian package index on this machine */
    GB_CORPUS_DATA,   /* the regular files under `path` */
    GB_CORPUS_TRACE,  /* the request log `path`; see trace.h */
};

/* Zeroed fields mean their defaults, except `scale` and `zipf_exponent`: start from
 * gb_corpus_defaults. */
struct gb_corpus_options {
    enum gb_corpus_kind kind;
    const char *path; /* DATA: directory; TRACE: file; DEBIAN: index directory, NULL = apt's */
    const char *trace_format; /* a name from trace.h, NULL = guess from the file */
    double scale;             /* of objects and requests; (0, 1], above 1 for STUDY only */
    double zipf_exponent;     /* 0 = every object alike; [0, 3]; not for TRACE */
    uint64_t seed;
    uint64_t requests; /* 0 = the kind's own number (the study's requests per object) x scale */
    bool is_each_once; /* every object exactly once in random order; `requests` is ignored */
    unsigned shifts;   /* popularity is dealt anew so many times, evenly spaced over the schedule */
    double scan_share; /* [0, 1): share of requests that walk through all objects in turn */
};

void gb_corpus_defaults(struct gb_corpus_options *options);

/* Owns: *corpus and *schedule are the caller's to fini, on success only. `error` may be NULL. */
__attribute__((warn_unused_result)) int gb_corpus_make(const struct gb_corpus_options *options,
                                                       struct gb_corpus *corpus,
                                                       struct gb_schedule *schedule,
                                                       struct goblin_error *error);

void gb_corpus_fini(struct gb_corpus *corpus);
void gb_schedule_fini(struct gb_schedule *schedule);

/* Writes the key of `object` (not terminated) and returns its length. For a DATA corpus the key is
 * the path below corpus->directory. */
size_t gb_corpus_key(const struct gb_corpus *corpus, uint64_t object, char key[GB_CORPUS_KEY_MAX]);

#endif
