/*
 * goblin-bench relative: throughput of versions as a multiple of a base version's, as published for
 * RocksDB releases, from what goblin-bench kv or db_bench have written.
 *
 *     relative_json.c    what kv writes
 *     relative_dbbench.c what db_bench prints, and the report.tsv of its benchmark.sh
 *     relative_table.c   rows into columns, lines and medians
 *     relative_report.c  text, Markdown, plots
 *     relative.c         the command
 */
#ifndef GB_BENCH_RELATIVE_H
#define GB_BENCH_RELATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "goblin/error.h"

enum {
    GB_RELATIVE_NAME = 64,
    GB_RELATIVE_COLUMNS_MAX = 32,
    GB_RELATIVE_LINES_MAX = 256,
    GB_RELATIVE_ROWS_MAX = 1 << 16,
    GB_RELATIVE_SOURCES_MAX = 32,
};

/* One measurement of one step. */
struct gb_relative_row {
    char engine[GB_RELATIVE_NAME];
    char version[GB_RELATIVE_NAME];
    char workload[GB_RELATIVE_NAME];
    char step[GB_RELATIVE_NAME];
    double qps;
    unsigned source; /* the argument it came from */
};

/* Zero it first. Owns: gb_relative_rows_fini. */
struct gb_relative_rows {
    struct gb_relative_row *items;
    size_t count;
    size_t capacity;
};

void gb_relative_rows_fini(struct gb_relative_rows *rows);

/* Errors: -ENOMEM, -E2BIG. */
int gb_relative_rows_add(struct gb_relative_rows *rows, const struct gb_relative_row *row,
                         struct goblin_error *error);

/* ---- reading: texts are not terminated ------------------------------------------------------ */

/* An array of flat objects with at least engine, workload, step and qps; members it does not know
 * may hold anything. Errors: -EBADMSG with the line. */
int gb_relative_json(const char *text, size_t len, unsigned source, struct gb_relative_rows *rows,
                     struct goblin_error *error);

/* Lines of db_bench, of RocksDB's or LevelDB's, or of a report.tsv. `name` is the file's: one that
 * holds "revrange" says that ranges run backwards. Errors: -EBADMSG if there is no result. */
int gb_relative_dbbench(const char *text, size_t len, const char *name, unsigned source,
                        struct gb_relative_rows *rows, struct goblin_error *error);

/* A file of either kind, by what is in it. */
int gb_relative_file(const char *path, unsigned source, struct gb_relative_rows *rows,
                     struct goblin_error *error);

/* ---- the table ------------------------------------------------------------------------------ */

struct gb_relative_column {
    char label[3 * GB_RELATIVE_NAME]; /* engine and version; where that is not unique, the source */
    const char *engine;
    const char *version;
    unsigned source;
};

struct gb_relative_line {
    const char *workload;
    const char *step;
};

struct gb_relative_cell {
    unsigned count; /* measurements; 0: none */
    double median;  /* of operations a second */
    double least;
    double most;
};

/* Borrows from the rows. */
struct gb_relative_table {
    struct gb_relative_column columns[GB_RELATIVE_COLUMNS_MAX];
    size_t column_count;
    struct gb_relative_line lines[GB_RELATIVE_LINES_MAX];
    size_t line_count;
    struct gb_relative_cell cells[GB_RELATIVE_LINES_MAX][GB_RELATIVE_COLUMNS_MAX];
    size_t base;      /* the column that the others are divided by */
    double threshold; /* a share: below 1 - threshold a ratio is a regression */
};

/* `base` NULL: the first column of source 0; else the first column whose label begins with it.
 * `engine` not NULL: rows of other engines are left out. `sources` names sources, for labels.
 * Errors: -ENOMEM, -E2BIG, -ENOENT (no such base, nothing to compare), explained. */
int gb_relative_table(struct gb_relative_table *table, const struct gb_relative_rows *rows,
                      const char *base, const char *engine, const char *const *sources,
                      struct goblin_error *error);

struct gb_relative_ratio {
    bool known;
    double median; /* of the column / median of the base */
    double least;  /* least and most of the column / median of the base */
    double most;
    bool regressed; /* the median, beyond the threshold */
    bool unclear;   /* the column's range and the base's overlap, or one measurement is all */
};

struct gb_relative_ratio gb_relative_ratio(const struct gb_relative_table *table, size_t line,
                                           size_t column);

/* How many ratios are regressions. */
size_t gb_relative_regressions(const struct gb_relative_table *table);

/* ---- reports -------------------------------------------------------------------------------- */

void gb_relative_text(const struct gb_relative_table *table, FILE *out);
void gb_relative_markdown(const struct gb_relative_table *table, FILE *out);

/* <directory>/relative.md and, for every workload, relative_<workload>.dat and, where there is
 * gnuplot, .svg. */
int gb_relative_write(const struct gb_relative_table *table, const char *directory,
                      struct goblin_error *error);

/* The command; argv[0] is "relative". Returns an exit code. */
int gb_cmd_relative(int argc, char **argv);

#endif
