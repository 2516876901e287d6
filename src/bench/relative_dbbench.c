/*
 * What db_bench prints, of RocksDB's or LevelDB's:
 *
 *     RocksDB:    version 7.8.3
 *     fillseq      :   2.5 micros/op 399999 ops/sec 0.05 seconds 20000 operations;  160.2 MB/s
 *
 * and report.tsv, which RocksDB's benchmark.sh makes of it: comments, a line of names, a line for
 * every test. Steps get the names that goblin-bench kv has for them.
 */
#include "bench/relative.h"

#include "bench/explain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096, FIELDS_MAX = 64 };

static const char workload[] = "db_bench";
static const double us_per_s = 1e6;

struct log {
    struct gb_relative_rows *rows;
    unsigned source;
    bool reverse; /* ranges run backwards */
    char engine[GB_RELATIVE_NAME];
    char version[GB_RELATIVE_NAME];
    int columns[3]; /* of a report.tsv: ops_sec, test, version; -1 before its line of names */
};

enum { OPS = 0, TEST = 1, VERSION = 2 };

static void copy_word(char *to, const char *from, size_t len)
{
    len = len < GB_RELATIVE_NAME ? len : GB_RELATIVE_NAME - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

static void name_step(const struct log *log, const char *name, size_t len, char *step)
{
    static const struct {
        const char *name;
        const char *step;
        const char *reverse;
    } known[] = {
        {"seekrandomwhilewriting", "fwdrangeww", "revrangeww"},
        {"fwdrangewhilewriting", "fwdrangeww", NULL},
        {"revrangewhilewriting", "revrangeww", NULL},
        {"readwhilewriting", "readww", NULL},
        {"seekrandom", "fwdrange", "revrange"},
        {"multireadrandom", "multiread", NULL},
        {"overwriteandwait", "overwrite", NULL},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0) {
            const char *own = log->reverse && known[i].reverse ? known[i].reverse : known[i].step;
            copy_word(step, own, strlen(own));
            return;
        }
    }
    copy_word(step, name, len);
}

/* The number in front of `unit`; false if there is none. */
static bool number_before(const char *line, const char *unit, double *number)
{
    const char *at = strstr(line, unit);
    while (at && at > line && at[-1] == ' ') {
        at--;
    }
    const char *begin = at;
    while (begin && begin > line && begin[-1] != ' ') {
        begin--;
    }
    char *end = NULL;
    *number = begin ? strtod(begin, &end) : 0;
    return begin && end == at && end > begin && isfinite(*number) && *number > 0;
}

static int add(struct log *log, const char *name, size_t len, double qps,
               struct goblin_error *error)
{
    struct gb_relative_row row = {.qps = qps, .source = log->source};
    memcpy(row.engine, log->engine, sizeof(row.engine));
    memcpy(row.version, log->version, sizeof(row.version));
    memcpy(row.workload, workload, sizeof(workload));
    name_step(log, name, len, row.step);
    return gb_relative_rows_add(log->rows, &row, error);
}

/* ---- what db_bench prints ------------------------------------------------------------------- */

static void see_version(struct log *log, const char *line)
{
    static const struct {
        const char *label;
        const char *engine;
    } labels[] = {{"RocksDB:", "rocksdb"}, {"LevelDB:", "leveldb"}};
    static const char word[] = "version";
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        const char *at = strstr(line, word);
        if (strncmp(line, labels[i].label, strlen(labels[i].label)) == 0 && at) {
            at += strlen(word);
            at += strspn(at, " ");
            copy_word(log->engine, labels[i].engine, strlen(labels[i].engine));
            copy_word(log->version, at, strcspn(at, " \r"));
        }
    }
}

static int see_result(struct log *log, const char *line, struct goblin_error *error)
{
    size_t len = strcspn(line, " :");
    const char *colon = line + len + strspn(line + len, " ");
    double number = 0;
    if (len == 0 || *colon != ':') {
        return 0;
    }
    if (number_before(line, "ops/sec", &number)) {
        return add(log, line, len, number, error);
    }
    return number_before(line, "micros/op", &number) ? add(log, line, len, us_per_s / number, error)
                                                     : 0;
}

/* ---- report.tsv ----------------------------------------------------------------------------- */

static size_t split(char *line, const char **fields)
{
    size_t count = 0;
    while (count < FIELDS_MAX) {
        fields[count++] = line;
        line = strchr(line, '\t');
        if (!line) {
            break;
        }
        *line++ = '\0';
    }
    return count;
}

static int see_tsv(struct log *log, char *line, struct goblin_error *error)
{
    static const char *const names[] = {"ops_sec", "test", "version"};
    const char *fields[FIELDS_MAX];
    size_t count = split(line, fields);
    if (strcmp(fields[0], names[OPS]) == 0) {
        for (int k = 0; k < 3; k++) {
            log->columns[k] = -1;
            for (size_t i = 0; i < count; i++) {
                log->columns[k] = strcmp(fields[i], names[k]) == 0 ? (int)i : log->columns[k];
            }
        }
        return 0;
    }
    if (log->columns[TEST] < 0 || log->columns[VERSION] < 0 ||
        count <= (size_t)log->columns[TEST] || count <= (size_t)log->columns[VERSION]) {
        return 0;
    }
    char *end = NULL;
    const char *test = fields[log->columns[TEST]];
    double number = strtod(fields[log->columns[OPS]], &end);
    if (end == fields[log->columns[OPS]] || !isfinite(number) || number <= 0 ||
        strcspn(test, ".") == 0) {
        return 0; /* "failed" */
    }
    copy_word(log->version, fields[log->columns[VERSION]], strlen(fields[log->columns[VERSION]]));
    return add(log, test, strcspn(test, "."), number, error);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int see_line(struct log *log, char *line, struct goblin_error *error)
{
    const char *last = strrchr(line, '\r'); /* progress is drawn over itself */
    const char *rest = last && last[1] ? last + 1 : line;
    log->reverse = log->reverse || strstr(line, "--reverse_iterator=true") ||
                   strstr(line, "--reverse_iterator=1");
    if (log->columns[OPS] >= 0 || strncmp(line, "ops_sec\t", strlen("ops_sec\t")) == 0) {
        return see_tsv(log, line, error);
    }
    see_version(log, rest);
    return see_result(log, rest, error);
}

int gb_relative_dbbench(const char *text, size_t len, const char *name, unsigned source,
                        struct gb_relative_rows *rows, struct goblin_error *error)
{
    struct log log = {.rows = rows, .source = source, .engine = "rocksdb", .columns = {-1, -1, -1}};
    const char *end = text + len;
    size_t before = rows->count;
    int rc = 0;
    log.reverse = strstr(name, "revrange") != NULL;
    while (text < end && rc == 0) {
        char line[LINE_MAX_BYTES];
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t whole = (size_t)((newline ? newline : end) - text);
        size_t kept = whole < sizeof(line) ? whole : sizeof(line) - 1;
        memcpy(line, text + whole - kept, kept); /* of a long one the end counts */
        line[kept] = '\0';
        rc = see_line(&log, line, error);
        text += whole + (newline != NULL);
    }
    if (rc == 0 && rows->count == before) {
        gb_explain_set(error, "it is neither from goblin-bench kv nor from db_bench");
        rc = -EBADMSG;
    }
    return rc;
}
