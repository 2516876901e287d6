/* Relative throughput as text, as Markdown, and as plots. */
#include "bench/relative.h"

#include "bench/explain.h"
#include "bench/gnuplot.h"
#include "bench/scratch.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum { CELL_MAX = 64, COMMANDS_MAX = 4096, STEP_COLUMNS = 14 };

/* "0.93 (0.90–0.95) regression"; of one measurement there is no range. */
static void format_cell(const struct gb_relative_table *table, size_t line, size_t column,
                        char text[CELL_MAX])
{
    struct gb_relative_ratio ratio = gb_relative_ratio(table, line, column);
    if (!ratio.known) {
        snprintf(text, CELL_MAX, "-");
        return;
    }
    int len = snprintf(text, CELL_MAX, "%.2f", ratio.median);
    if (table->cells[line][column].count > 1) {
        len +=
            snprintf(text + len, CELL_MAX - (size_t)len, " (%.2f..%.2f)", ratio.least, ratio.most);
    }
    if (ratio.regressed) {
        snprintf(text + len, CELL_MAX - (size_t)len, "%s", ratio.unclear ? " !?" : " !");
    }
}

static bool begins_workload(const struct gb_relative_table *table, size_t line)
{
    return line == 0 || strcmp(table->lines[line - 1].workload, table->lines[line].workload) != 0;
}

/* How often it was measured: "3", "1 to 3". */
static void format_counts(const struct gb_relative_table *table, char *text, size_t text_len)
{
    unsigned least = UINT_MAX;
    unsigned most = 0;
    for (size_t line = 0; line < table->line_count; line++) {
        for (size_t column = 0; column < table->column_count; column++) {
            unsigned count = table->cells[line][column].count;
            least = count > 0 && count < least ? count : least;
            most = count > most ? count : most;
        }
    }
    if (least < most) {
        snprintf(text, text_len, "%u to %u", least, most);
    } else {
        snprintf(text, text_len, "%u", most);
    }
}

static void print_legend(const struct gb_relative_table *table, FILE *out)
{
    char counts[CELL_MAX];
    format_counts(table, counts, sizeof(counts));
    fprintf(out,
            "Operations a second / those of %s: median of %s (least..most of the version / median "
            "of the base). A ! marks what is more than %.3g %% slower, !? where that may be noise: "
            "ranges overlap, or there was one measurement.\n",
            table->columns[table->base].label, counts, 100 * table->threshold);
}

/* ---- text ----------------------------------------------------------------------------------- */

static int column_width(const struct gb_relative_table *table, size_t column)
{
    size_t width = strlen(table->columns[column].label);
    for (size_t line = 0; line < table->line_count; line++) {
        char text[CELL_MAX];
        format_cell(table, line, column, text);
        width = strlen(text) > width ? strlen(text) : width;
    }
    return (int)width;
}

void gb_relative_text(const struct gb_relative_table *table, FILE *out)
{
    for (size_t line = 0; line < table->line_count; line++) {
        if (begins_workload(table, line)) {
            fprintf(out, "%s%-*s %12s", line ? "\n" : "", STEP_COLUMNS, table->lines[line].workload,
                    "base ops/s");
            for (size_t column = 0; column < table->column_count; column++) {
                fprintf(out, "  %-*s", column_width(table, column), table->columns[column].label);
            }
            fprintf(out, "\n");
        }
        fprintf(out, "%-*s %12.0f", STEP_COLUMNS, table->lines[line].step,
                table->cells[line][table->base].median);
        for (size_t column = 0; column < table->column_count; column++) {
            char text[CELL_MAX];
            format_cell(table, line, column, text);
            fprintf(out, "  %-*s", column_width(table, column), text);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "\n");
    print_legend(table, out);
}

/* ---- Markdown ------------------------------------------------------------------------------- */

void gb_relative_markdown(const struct gb_relative_table *table, FILE *out)
{
    for (size_t line = 0; line < table->line_count; line++) {
        if (begins_workload(table, line)) {
            fprintf(out, "%s| %s | base ops/s |", line ? "\n" : "", table->lines[line].workload);
            for (size_t column = 0; column < table->column_count; column++) {
                fprintf(out, " %s |", table->columns[column].label);
            }
            fprintf(out, "\n|---|---|");
            for (size_t column = 0; column < table->column_count; column++) {
                fprintf(out, "---|");
            }
            fprintf(out, "\n");
        }
        fprintf(out, "| %s | %.0f |", table->lines[line].step,
                table->cells[line][table->base].median);
        for (size_t column = 0; column < table->column_count; column++) {
            char text[CELL_MAX];
            const char *bold = gb_relative_ratio(table, line, column).regressed ? "**" : "";
            format_cell(table, line, column, text);
            fprintf(out, " %s%s%s |", bold, text, bold);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "\n");
    print_legend(table, out);
}

/* ---- plots ---------------------------------------------------------------------------------- */

static FILE *create(const char *directory, const char *name, struct goblin_error *error)
{
    char path[PATH_MAX];
    FILE *file = NULL;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) < sizeof(path)) {
        file = fopen(path, "we");
    }
    if (!file) {
        gb_explain_set(error, "%s/%s: %s", directory, name, strerror(errno));
    }
    return file;
}

static int finish(FILE *file, const char *name, struct goblin_error *error)
{
    bool is_bad = ferror(file) != 0;
    if (fclose(file) != 0 || is_bad) {
        gb_explain_set(error, "%s: it could not be written whole", name);
        return -EIO;
    }
    return 0;
}

/* A name as a file may have it. */
static void plot_name(const char *workload, char *name, size_t name_len)
{
    snprintf(name, name_len, "relative_%s", workload);
    for (char *at = name; *at; at++) {
        bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                        (*at >= '0' && *at <= '9') || *at == '_' || *at == '-';
        if (!is_plain) {
            *at = '_';
        }
    }
}

/* Step, then ratio, least and most of every column. */
static int plot_data(const struct gb_relative_table *table, size_t first, const char *directory,
                     const char *name, struct goblin_error *error)
{
    char file_name[GB_RELATIVE_NAME * 3];
    snprintf(file_name, sizeof(file_name), "%s.dat", name);
    FILE *file = create(directory, file_name, error);
    if (!file) {
        return -EIO;
    }
    for (size_t line = first;
         line < table->line_count && (line == first || !begins_workload(table, line)); line++) {
        fprintf(file, "\"%s\"", table->lines[line].step);
        for (size_t column = 0; column < table->column_count; column++) {
            struct gb_relative_ratio ratio = gb_relative_ratio(table, line, column);
            if (ratio.known) {
                fprintf(file, " %.4f %.4f %.4f", ratio.median, ratio.least, ratio.most);
            } else {
                fprintf(file, " NaN NaN NaN");
            }
        }
        fprintf(file, "\n");
    }
    return finish(file, file_name, error);
}

static int plot(const struct gb_relative_table *table, size_t first, const char *directory,
                struct goblin_error *error)
{
    char name[GB_RELATIVE_NAME * 2];
    char commands[COMMANDS_MAX];
    plot_name(table->lines[first].workload, name, sizeof(name));
    int rc = plot_data(table, first, directory, name, error);
    if (rc < 0) {
        return rc;
    }
    int len = snprintf(commands, sizeof(commands),
                       "set title \"%s: operations a second / those of %s\" noenhanced\n"
                       "set style data histogram\n"
                       "set style histogram errorbars gap 1 linewidth 1\n"
                       "set style fill solid 0.7\n"
                       "set yrange [0:]\n"
                       "set key noenhanced\n"
                       "set xtics noenhanced\n"
                       "plot 1 notitle linecolor rgb '#888888'",
                       table->lines[first].workload, table->columns[table->base].label);
    for (size_t column = 0; column < table->column_count && len < COMMANDS_MAX; column++) {
        size_t at = 2 + 3 * column;
        len += snprintf(commands + len, sizeof(commands) - (size_t)len,
                        ", '%s.dat' using %zu:%zu:%zu:xtic(1) title \"%s\"", name, at, at + 1,
                        at + 2, table->columns[column].label);
    }
    if (len + 1 >= COMMANDS_MAX) {
        gb_explain_set(error, "too many columns for a plot");
        return -E2BIG;
    }
    commands[len] = '\n';
    commands[len + 1] = '\0';
    return gb_gnuplot_draw(directory, name, commands, error);
}

int gb_relative_write(const struct gb_relative_table *table, const char *directory,
                      struct goblin_error *error)
{
    int rc = gb_scratch_make(directory, error);
    FILE *file = rc < 0 ? NULL : create(directory, "relative.md", error);
    if (!file) {
        return rc < 0 ? rc : -EIO;
    }
    gb_relative_markdown(table, file);
    for (size_t line = 0; line < table->line_count && rc >= 0; line++) {
        if (begins_workload(table, line)) {
            rc = plot(table, line, directory, error);
        }
        if (begins_workload(table, line) && rc > 0) {
            char name[GB_RELATIVE_NAME * 2];
            plot_name(table->lines[line].workload, name, sizeof(name));
            fprintf(file, "\n![%s](%s.svg)\n", table->lines[line].workload, name);
        }
    }
    int finished = finish(file, "relative.md", error);
    return rc < 0 ? rc : finished;
}
