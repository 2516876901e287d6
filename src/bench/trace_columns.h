/*
 * The columns of a request log in text: which one names the object, which one has its size, which
 * one the operation. Learnt from the header or the shape of the first line; then lines are split.
 */
#ifndef GB_BENCH_TRACE_COLUMNS_H
#define GB_BENCH_TRACE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_trace_format { GB_TRACE_ORACLE, GB_TRACE_CSV, GB_TRACE_TWITTER, GB_TRACE_WIKI };

enum gb_trace_operation { GB_TRACE_READ, GB_TRACE_WRITE, GB_TRACE_DELETE };

struct gb_trace_entry {
    const char *key; /* borrowed from the line */
    size_t key_len;
    uint64_t size;
    enum gb_trace_operation operation;
};

struct gb_trace_columns {
    enum gb_trace_format format;
    bool is_known;
    bool has_header;
    char separator;
    int count;  /* columns of a line */
    int object; /* their places, from 0 */
    int size;
    int operation; /* -1 = none: everything reads */
    /* Columns from `object + 1` on are counted from the right, because keys may hold separators. */
    bool is_object_greedy;
};

void gb_trace_columns_init(struct gb_trace_columns *columns, enum gb_trace_format format);

/* From the first line. Errors: -EINVAL and a complaint. */
int gb_trace_columns_learn(struct gb_trace_columns *columns, const char *line, char *complaint,
                           size_t complaint_bytes);

/* Errors: -EINVAL and a complaint. */
int gb_trace_columns_split(const struct gb_trace_columns *columns, const char *line,
                           struct gb_trace_entry *entry, char *complaint, size_t complaint_bytes);

#endif
