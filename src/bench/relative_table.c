/* Rows into columns, lines and medians; files into rows. */
#include "bench/relative.h"

#include "bench/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_FIRST = 64, FILE_MAX_BYTES = 64 << 20 };

/* ---- rows ----------------------------------------------------------------------------------- */

void gb_relative_rows_fini(struct gb_relative_rows *rows)
{
    free(rows->items);
    *rows = (struct gb_relative_rows){0};
}

int gb_relative_rows_add(struct gb_relative_rows *rows, const struct gb_relative_row *row,
                         struct goblin_error *error)
{
    if (rows->count == GB_RELATIVE_ROWS_MAX) {
        gb_explain_set(error, "more than %d measurements", GB_RELATIVE_ROWS_MAX);
        return -E2BIG;
    }
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : ROWS_FIRST;
        struct gb_relative_row *items = realloc(rows->items, capacity * sizeof(*items));
        if (!items) {
            gb_explain_set(error, "out of memory");
            return -ENOMEM;
        }
        rows->items = items;
        rows->capacity = capacity;
    }
    rows->items[rows->count++] = *row;
    return 0;
}

static int slurp(FILE *file, char **text, size_t *len)
{
    size_t capacity = 0;
    *text = NULL;
    *len = 0;
    do {
        if (*len == capacity) {
            capacity = capacity ? 2 * capacity : BUFSIZ;
            char *grown = capacity <= FILE_MAX_BYTES ? realloc(*text, capacity) : NULL;
            if (!grown) {
                return capacity <= FILE_MAX_BYTES ? -ENOMEM : -EFBIG;
            }
            *text = grown;
        }
        *len += fread(*text + *len, 1, capacity - *len, file);
    } while (!feof(file) && !ferror(file));
    return ferror(file) ? -EIO : 0;
}

int gb_relative_file(const char *path, unsigned source, struct gb_relative_rows *rows,
                     struct goblin_error *error)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = fopen(path, "re");
    int rc = file ? slurp(file, &text, &len) : -errno;
    if (file) {
        fclose(file);
    }
    if (rc < 0) {
        gb_explain_set(error, "%s: %s", path, strerror(-rc));
        free(text);
        return rc;
    }
    const char *name = strrchr(path, '/');
    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", text[blank]) && text[blank]) {
        blank++;
    }
    rc = blank < len && text[blank] == '['
             ? gb_relative_json(text, len, source, rows, error)
             : gb_relative_dbbench(text, len, name ? name + 1 : path, source, rows, error);
    free(text);
    if (rc < 0) {
        gb_explain_wrap(error, path);
    }
    return rc;
}

/* ---- columns and lines ---------------------------------------------------------------------- */

static size_t column_of(struct gb_relative_table *table, const struct gb_relative_row *row)
{
    size_t i = 0;
    while (i < table->column_count && (table->columns[i].source != row->source ||
                                       strcmp(table->columns[i].engine, row->engine) != 0 ||
                                       strcmp(table->columns[i].version, row->version) != 0)) {
        i++;
    }
    if (i == table->column_count && i < GB_RELATIVE_COLUMNS_MAX) {
        table->columns[table->column_count++] = (struct gb_relative_column){
            .engine = row->engine, .version = row->version, .source = row->source};
    }
    return i;
}

static size_t line_of(struct gb_relative_table *table, const struct gb_relative_row *row)
{
    size_t i = 0;
    while (i < table->line_count && (strcmp(table->lines[i].workload, row->workload) != 0 ||
                                     strcmp(table->lines[i].step, row->step) != 0)) {
        i++;
    }
    if (i == table->line_count && i < GB_RELATIVE_LINES_MAX) {
        table->lines[table->line_count++] =
            (struct gb_relative_line){.workload = row->workload, .step = row->step};
    }
    return i;
}

/* Lines of a workload together, workloads and steps in the order in which they first came. */
static void sort_lines(struct gb_relative_table *table)
{
    for (size_t i = 1; i < table->line_count; i++) {
        struct gb_relative_line line = table->lines[i];
        size_t to = i;
        for (size_t k = 0; k < i; k++) {
            to = strcmp(table->lines[k].workload, line.workload) == 0 ? k + 1 : to;
        }
        memmove(&table->lines[to + 1], &table->lines[to], (i - to) * sizeof(line));
        table->lines[to] = line;
    }
}

static void label_columns(struct gb_relative_table *table, const char *const *sources)
{
    for (size_t i = 0; i < table->column_count; i++) {
        struct gb_relative_column *column = &table->columns[i];
        bool is_unique = true;
        for (size_t k = 0; k < table->column_count; k++) {
            is_unique =
                is_unique && (k == i || strcmp(table->columns[k].engine, column->engine) != 0 ||
                              strcmp(table->columns[k].version, column->version) != 0);
        }
        snprintf(column->label, sizeof(column->label), "%s%s%s%s%s%s", column->engine,
                 column->version[0] ? " " : "", column->version, is_unique ? "" : " (",
                 is_unique ? "" : sources[column->source], is_unique ? "" : ")");
    }
}

static int choose_base(struct gb_relative_table *table, const char *base,
                       struct goblin_error *error)
{
    for (size_t i = 0; i < table->column_count; i++) {
        if (base ? strncmp(table->columns[i].label, base, strlen(base)) == 0
                 : table->columns[i].source == 0) {
            table->base = i;
            return 0;
        }
    }
    gb_explain_set(error, base ? "no column begins with \"%s\"" : "the base file holds nothing%s",
                   base ? base : " that is to be compared");
    return -ENOENT;
}

/* ---- medians -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void fill_cell(struct gb_relative_table *table, const struct gb_relative_rows *rows,
                      const char *engine, size_t line, size_t column, double *numbers)
{
    struct gb_relative_cell *cell = &table->cells[line][column];
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct gb_relative_row *row = &rows->items[i];
        if ((!engine || strcmp(row->engine, engine) == 0) && line_of(table, row) == line &&
            column_of(table, row) == column) {
            numbers[count++] = row->qps;
        }
    }
    *cell = (struct gb_relative_cell){.count = (unsigned)count};
    if (count > 0) {
        qsort(numbers, count, sizeof(*numbers), compare);
        cell->least = numbers[0];
        cell->most = numbers[count - 1];
        cell->median = (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
    }
}

static bool is_comparable(const struct gb_relative_table *table)
{
    for (size_t line = 0; line < table->line_count; line++) {
        for (size_t column = 0; column < table->column_count; column++) {
            if (column != table->base && gb_relative_ratio(table, line, column).known) {
                return true;
            }
        }
    }
    return false;
}

int gb_relative_table(struct gb_relative_table *table, const struct gb_relative_rows *rows,
                      const char *base, const char *engine, const char *const *sources,
                      struct goblin_error *error)
{
    table->column_count = 0;
    table->line_count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct gb_relative_row *row = &rows->items[i];
        if (engine && strcmp(row->engine, engine) != 0) {
            continue;
        }
        if (column_of(table, row) == GB_RELATIVE_COLUMNS_MAX ||
            line_of(table, row) == GB_RELATIVE_LINES_MAX) {
            gb_explain_set(error, "more than %d versions or %d steps", GB_RELATIVE_COLUMNS_MAX,
                           GB_RELATIVE_LINES_MAX);
            return -E2BIG;
        }
    }
    sort_lines(table);
    label_columns(table, sources);
    int rc = choose_base(table, base, error);
    double *numbers = rc < 0 ? NULL : calloc(rows->count, sizeof(*numbers));
    if (rc == 0 && !numbers) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    for (size_t line = 0; line < table->line_count && rc == 0; line++) {
        for (size_t column = 0; column < table->column_count; column++) {
            fill_cell(table, rows, engine, line, column, numbers);
        }
    }
    free(numbers);
    if (rc == 0 && !is_comparable(table)) {
        gb_explain_set(error, "no step was measured with both %s and another",
                       table->columns[table->base].label);
        rc = -ENOENT;
    }
    return rc;
}

struct gb_relative_ratio gb_relative_ratio(const struct gb_relative_table *table, size_t line,
                                           size_t column)
{
    const struct gb_relative_cell *cell = &table->cells[line][column];
    const struct gb_relative_cell *base = &table->cells[line][table->base];
    struct gb_relative_ratio ratio = {0};
    if (cell->count == 0 || base->count == 0 || base->median <= 0) {
        return ratio;
    }
    ratio.known = true;
    ratio.median = cell->median / base->median;
    ratio.least = cell->least / base->median;
    ratio.most = cell->most / base->median;
    ratio.regressed = column != table->base && ratio.median < 1 - table->threshold;
    ratio.unclear = cell->count < 2 || base->count < 2 ||
                    (cell->most >= base->least && cell->least <= base->most);
    return ratio;
}

size_t gb_relative_regressions(const struct gb_relative_table *table)
{
    size_t count = 0;
    for (size_t line = 0; line < table->line_count; line++) {
        for (size_t column = 0; column < table->column_count; column++) {
            count += gb_relative_ratio(table, line, column).regressed;
        }
    }
    return count;
}
