/*
 * Request logs of other people, read as corpora.
 *
 *     oracle    libCacheSim oracleGeneral: packed 24-byte little-endian records of u32 time, u64
 *               object, u32 size, i64 next access
 *     csv       libCacheSim csv, CDN csv and anything alike: a header row whose names say which
 *               column is the object and which its size (and perhaps operation); or no header, and
 *               the columns time, object, size
 *     twitter   Twitter cache-trace clusters: timestamp, key, key size, value size, client,
 *               operation, ttl; no header
 *     wiki      Wikimedia caching data of 2019: tab-separated relative_unix, hashed path and query,
 *               (image type,) response size, time to first byte; with or without its header
 *
 * When no format is given, names with "oracleGeneral" or ".bin" in them are taken for oracle, and
 * the first line of everything else tells. Separators of csv are commas, tabs, semicolons or
 * spaces, whichever the first line holds. Files that end in .zst, .gz, .xz, .lz4 or .bz2 go through
 * that tool. An object's size is the largest the log shows. Reads (get, gets, read, head ... or no
 * operation at all) become requests; writes only tell of objects and sizes; deletes are passed
 * over. The scale keeps that share of the objects, chosen by hash, with all their requests.
 */
#ifndef GB_BENCH_TRACE_H
#define GB_BENCH_TRACE_H

#include <stdio.h>

#include "bench/corpus.h"
#include "bench/corpus_build.h"

/* Reads options->path in options->trace_format; stops after options->requests requests if that is
 * not 0. schedule->total_bytes is left for the caller. Owns: schedule->objects is the caller's to
 * free, also after a fault. Errors: -EINVAL with "file:line: what is wrong" (file:record for
 * binaries), -E2BIG for more than 2^32 - 1 objects or requests. */
__attribute__((warn_unused_result)) int gb_trace_read(struct gb_corpus_build *build,
                                                      const struct gb_corpus_options *options,
                                                      struct gb_schedule *schedule,
                                                      struct goblin_error *error);

/* The same over an open stream, for input that has no file; `name` stands in messages. */
__attribute__((warn_unused_result)) int gb_trace_read_stream(
    struct gb_corpus_build *build, const struct gb_corpus_options *options, FILE *file,
    const char *name, struct gb_schedule *schedule, struct goblin_error *error);

#endif
