/*
 * reads.csv: one row for every measured request.
 *
 *     engine,slice,index,object,bytes,first_ns,last_ns,source,chunks
 *     goblin,0,17,40223,70000,1480,61200,disk,16384:1480 53616:61200
 *
 * `index` is the request's place in the schedule, times count from the request's own start, source
 * is ram, disk or miss, and chunks are `bytes:ready_ns` in callback order separated by spaces (none
 * for an empty value or a miss). Engine names are letters, digits, dots, dashes and underscores.
 *
 * Memory is one buffer and the longest row. A writer or reader belongs to one thread.
 */
#ifndef GB_BENCH_READS_CSV_H
#define GB_BENCH_READS_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "bench/link.h"
#include "goblin/error.h"

enum { GB_READ_ENGINE_MAX = 48 };

enum gb_read_source { GB_READ_RAM, GB_READ_DISK, GB_READ_MISS };

struct gb_read {
    const char *engine; /* from the reader: borrowed until the next row */
    uint64_t slice;
    uint64_t index;
    uint64_t object;
    uint64_t bytes;
    uint64_t first_ns;
    uint64_t last_ns;
    enum gb_read_source source;
    const struct gb_chunk *chunks; /* from the reader: borrowed until the next row */
    size_t chunk_count;
};

struct gb_reads_writer;

/* Writes the header. With `append` an existing file is continued and the header written only if the
 * file is empty. Owns: *out until close. Errors: errno of open, -ENOMEM. */
__attribute__((warn_unused_result)) int gb_reads_writer_open(const char *path, int append,
                                                             struct gb_reads_writer **out);
/* Buffers; a write error is kept and returned by this and every later call. */
int gb_reads_writer_add(struct gb_reads_writer *writer, const struct gb_read *read);
/* Hands what is buffered to the kernel, so that a crash of the process loses no finished row. */
int gb_reads_writer_flush(struct gb_reads_writer *writer);
/* Flushes and frees; returns the first error since open. NULL is allowed. */
int gb_reads_writer_close(struct gb_reads_writer *writer);

struct gb_reads_reader;

/* Checks the header. Owns: *out until close. Errors: errno of open, -EINVAL, -ENOMEM. */
__attribute__((warn_unused_result)) int gb_reads_reader_open(const char *path,
                                                             struct gb_reads_reader **out,
                                                             struct goblin_error *error);
/* 1 and a row, 0 at the end, or -EINVAL with "file:line: what is wrong". */
__attribute__((warn_unused_result)) int gb_reads_reader_next(struct gb_reads_reader *reader,
                                                             struct gb_read *out,
                                                             struct goblin_error *error);
void gb_reads_reader_close(struct gb_reads_reader *reader); /* NULL is allowed */

#endif
