/* Readers of request logs: see trace.h. */
#include "bench/trace.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "bench/source.h"
#include "bench/trace_columns.h"

enum {
    RECORD_BYTES = 24,
    LINE_MAX_BYTES = 1 << 20,
};

struct reading {
    struct gb_corpus_build *build;
    const struct gb_corpus_options *options;
    struct gb_schedule *schedule;
    uint64_t room;
    uint64_t keep_below; /* objects whose hash is below it are kept */
    FILE *file;
    const char *name;
    uint64_t number; /* of the line or record */
    struct goblin_error *error;
};

static int fail(const struct reading *reading, int code, const char *complaint)
{
    return gb_corpus_build_fail(reading->error, code, "%s:%llu: %s", reading->name,
                                (unsigned long long)reading->number, complaint);
}

static int add_request(struct reading *reading, uint32_t object)
{
    struct gb_schedule *schedule = reading->schedule;
    if (schedule->count == UINT32_MAX) {
        return fail(reading, -E2BIG, "more than 4294967295 requests");
    }
    if (schedule->count == reading->room) {
        uint64_t room = reading->room == 0 ? 4096 : 2 * reading->room;
        uint32_t *objects = realloc(schedule->objects, room * sizeof(*objects));
        if (objects == NULL) {
            return -ENOMEM;
        }
        schedule->objects = objects;
        reading->room = room;
    }
    schedule->objects[schedule->count++] = object;
    return 0;
}

/* 0 = go on, 1 = as many requests as were asked for. */
static int add_entry(struct reading *reading, const struct gb_trace_entry *entry)
{
    if (entry->operation == GB_TRACE_DELETE) {
        return 0;
    }
    if (gb_corpus_build_hash(entry->key, entry->key_len, reading->options->seed) >
        reading->keep_below) {
        return 0;
    }
    uint32_t object;
    int result = gb_corpus_build_intern(reading->build, entry->key, entry->key_len, &object);
    if (result < 0) {
        return fail(reading, result,
                    result == -EINVAL  ? "the object's name is empty or too long"
                    : result == -E2BIG ? "more than 4294967295 objects"
                                       : "not enough memory");
    }
    uint64_t *size = &reading->build->corpus.sizes[object];
    *size = gb_max(*size, entry->size);
    if (entry->operation == GB_TRACE_WRITE) {
        return 0;
    }
    result = add_request(reading, object);
    if (result < 0) {
        return result;
    }
    uint64_t wanted = reading->options->requests;
    return wanted != 0 && reading->schedule->count >= wanted;
}

static int read_records(struct reading *reading)
{
    unsigned char record[RECORD_BYTES];
    size_t len;
    while ((len = fread(record, 1, sizeof(record), reading->file)) == sizeof(record)) {
        char key[17];
        reading->number++;
        uint64_t id = gb_load_le64(record + 4);
        (void)snprintf(key, sizeof(key), "%016llx", (unsigned long long)id);
        struct gb_trace_entry entry = {
            .key = key, .key_len = 16, .size = gb_load_le32(record + 12)};
        int result = add_entry(reading, &entry);
        if (result != 0) {
            return result;
        }
    }
    if (len != 0) {
        reading->number++;
        return fail(reading, -EINVAL, "the last record is cut short (a record has 24 bytes)");
    }
    return 0;
}

/* Lines of columns, the first of which may be a header. */
static int read_line(struct reading *reading, struct gb_trace_columns *columns, char *line,
                     size_t len)
{
    if (len > LINE_MAX_BYTES || strlen(line) != len) {
        return fail(reading, -EINVAL, "not a line of text (records are read as format oracle)");
    }
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r')) {
        line[--len] = '\0';
    }
    if (len == 0 || *line == '#') {
        return 0;
    }
    char complaint[256];
    if (!columns->is_known) {
        int result = gb_trace_columns_learn(columns, line, complaint, sizeof(complaint));
        if (result < 0) {
            return fail(reading, result, complaint);
        }
        if (columns->has_header) {
            return 0;
        }
    }
    struct gb_trace_entry entry;
    int result = gb_trace_columns_split(columns, line, &entry, complaint, sizeof(complaint));
    if (result < 0) {
        return fail(reading, result, complaint);
    }
    return add_entry(reading, &entry);
}

static int read_lines(struct reading *reading, enum gb_trace_format format)
{
    struct gb_trace_columns columns;
    gb_trace_columns_init(&columns, format);
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int result = 0;
    while (result == 0 && (len = getline(&line, &room, reading->file)) >= 0) {
        reading->number++;
        result = read_line(reading, &columns, line, (size_t)len);
    }
    free(line);
    return result;
}

static bool format_named(const char *name, enum gb_trace_format *format)
{
    static const char *const names[] = {"oracle", "csv", "twitter", "wiki"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            *format = (enum gb_trace_format)i;
            return true;
        }
    }
    return false;
}

/* Records cannot be told from text by their first bytes for sure; their names can. */
static enum gb_trace_format guess_format(const char *name)
{
    bool is_binary = strcasestr(name, "oraclegeneral") != NULL || strstr(name, ".bin") != NULL;
    return is_binary ? GB_TRACE_ORACLE : GB_TRACE_CSV;
}

int gb_trace_read_stream(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                         FILE *file, const char *name, struct gb_schedule *schedule,
                         struct goblin_error *error)
{
    *schedule = (struct gb_schedule){0};
    double keep = options->scale * 0x1p64;
    struct reading reading = {.build = build,
                              .options = options,
                              .schedule = schedule,
                              .keep_below = keep >= 0x1p64 ? UINT64_MAX : (uint64_t)keep,
                              .file = file,
                              .name = name,
                              .error = error};
    enum gb_trace_format format = guess_format(name);
    if (options->trace_format != NULL && !format_named(options->trace_format, &format)) {
        return gb_corpus_build_fail(error, -EINVAL,
                                    "\"%s\" is not a trace format (oracle, csv, twitter, wiki)",
                                    options->trace_format);
    }
    int result = format == GB_TRACE_ORACLE ? read_records(&reading) : read_lines(&reading, format);
    if (result >= 0 && ferror(file)) {
        return fail(&reading, -EIO, "cannot be read");
    }
    if (result >= 0 && schedule->count == 0) {
        return gb_corpus_build_fail(error, -EINVAL, "%s: no requests found", name);
    }
    return result;
}

int gb_trace_read(struct gb_corpus_build *build, const struct gb_corpus_options *options,
                  struct gb_schedule *schedule, struct goblin_error *error)
{
    struct gb_source source;
    *schedule = (struct gb_schedule){0};
    int result = gb_source_open(&source, options->path, error);
    if (result < 0) {
        return result;
    }
    result = gb_trace_read_stream(build, options, source.file, options->path, schedule, error);
    int closed = gb_source_close(&source, options->path, result == 0, result < 0 ? NULL : error);
    return result < 0 ? result : closed;
}
