/* Columns of request logs: see trace_columns.h. */
#include "bench/trace_columns.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { COLUMNS_MAX = 64, TWITTER_COLUMNS = 7 };

#define SIZE_MAX_BYTES (UINT64_C(1) << 40) /* more is a mistake in the log */

struct field {
    const char *text;
    size_t len;
};

/* Header names by meaning, the better ones first. */
static const char *const object_names[] = {"obj_id",
                                           "object_id",
                                           "objectid",
                                           "cachekey",
                                           "cache_key",
                                           "anonymized key",
                                           "key",
                                           "hashed_path_query",
                                           "hashed_host_path_query",
                                           "object",
                                           "obj",
                                           "hashed_host_and_path",
                                           "id",
                                           "url",
                                           "uri",
                                           "path",
                                           "lba",
                                           NULL};
static const char *const size_names[] = {
    "obj_size", "object_size",   "objectsize",   "value_size", "value size",     "val_size", "size",
    "bytes",    "response_size", "responsesize", "length",     "content_length", "op_size",  NULL};
static const char *const operation_names[] = {"op",      "operation", "optype",
                                              "op_type", "method",    NULL};

static const struct {
    const char *name;
    enum gb_trace_operation operation;
} operations[] = {
    {"get", GB_TRACE_READ},     {"gets", GB_TRACE_READ},       {"read", GB_TRACE_READ},
    {"head", GB_TRACE_READ},    {"get_lease", GB_TRACE_READ},  {"set", GB_TRACE_WRITE},
    {"add", GB_TRACE_WRITE},    {"replace", GB_TRACE_WRITE},   {"cas", GB_TRACE_WRITE},
    {"append", GB_TRACE_WRITE}, {"prepend", GB_TRACE_WRITE},   {"incr", GB_TRACE_WRITE},
    {"decr", GB_TRACE_WRITE},   {"put", GB_TRACE_WRITE},       {"post", GB_TRACE_WRITE},
    {"write", GB_TRACE_WRITE},  {"set_lease", GB_TRACE_WRITE}, {"delete", GB_TRACE_DELETE},
    {"purge", GB_TRACE_DELETE},
};

__attribute__((format(printf, 3, 4))) static int complain(char *complaint, size_t complaint_bytes,
                                                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(complaint, complaint_bytes, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

void gb_trace_columns_init(struct gb_trace_columns *columns, enum gb_trace_format format)
{
    *columns = (struct gb_trace_columns){.format = format, .operation = -1};
}

/* Cuts at the separator and trims blanks. Returns the number of fields, COLUMNS_MAX + 1 if there
 * are more. */
static int cut(const char *line, char separator, struct field *fields)
{
    int count = 0;
    for (;;) {
        const char *end = strchr(line, separator);
        size_t len = end == NULL ? strlen(line) : (size_t)(end - line);
        if (count == COLUMNS_MAX) {
            return COLUMNS_MAX + 1;
        }
        while (len > 0 && *line == ' ') {
            line++;
            len--;
        }
        while (len > 0 && line[len - 1] == ' ') {
            len--;
        }
        fields[count++] = (struct field){.text = line, .len = len};
        if (end == NULL) {
            return count;
        }
        line = end + 1;
    }
}

static char find_separator(const char *line)
{
    static const char candidates[] = ",\t; ";
    for (const char *at = candidates; *at != '\0'; at++) {
        if (strchr(line, *at) != NULL) {
            return *at;
        }
    }
    return ',';
}

static bool is_number(struct field field)
{
    size_t digits = 0;
    for (size_t i = 0; i < field.len; i++) {
        if (!isdigit((unsigned char)field.text[i]) && field.text[i] != '.') {
            return false;
        }
        digits++;
    }
    return digits > 0;
}

static bool equals(struct field field, const char *name)
{
    return strlen(name) == field.len && strncasecmp(field.text, name, field.len) == 0;
}

static int find_column(const struct field *fields, int count, const char *const *names)
{
    for (; *names != NULL; names++) {
        for (int i = 0; i < count; i++) {
            if (equals(fields[i], *names)) {
                return i;
            }
        }
    }
    return -1;
}

static int find_operation(struct field field)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (equals(field, operations[i].name)) {
            return (int)operations[i].operation;
        }
    }
    return -1;
}

static void set_twitter(struct gb_trace_columns *columns)
{
    columns->format = GB_TRACE_TWITTER;
    columns->separator = ',';
    columns->count = TWITTER_COLUMNS;
    columns->object = 1;
    columns->size = 3;
    columns->operation = 5;
    columns->is_object_greedy = true;
}

/* relative_unix, hash, [image type,] response size, time to first byte */
static int set_wiki(struct gb_trace_columns *columns, int count, char *complaint, size_t bytes)
{
    if (count != 4 && count != 5) {
        return complain(complaint, bytes, "%d columns where wiki has 4 or 5", count);
    }
    columns->format = GB_TRACE_WIKI;
    columns->count = count;
    columns->object = 1;
    columns->size = count - 2;
    return 0;
}

static int learn_header(struct gb_trace_columns *columns, const struct field *fields, int count,
                        char *complaint, size_t bytes)
{
    columns->has_header = true;
    columns->count = count;
    columns->object = find_column(fields, count, object_names);
    columns->size = find_column(fields, count, size_names);
    columns->operation = find_column(fields, count, operation_names);
    if (columns->object < 0) {
        return complain(complaint, bytes,
                        "no column of the header names an object (obj_id, key, url, ...)");
    }
    if (columns->size < 0) {
        return complain(complaint, bytes,
                        "no column of the header is a size (obj_size, size, bytes, ...)");
    }
    return 0;
}

static bool looks_like_twitter(const struct field *fields, int count)
{
    return count >= TWITTER_COLUMNS && is_number(fields[count - 5]) &&
           is_number(fields[count - 4]) && find_operation(fields[count - 2]) >= 0 &&
           is_number(fields[count - 1]);
}

int gb_trace_columns_learn(struct gb_trace_columns *columns, const char *line, char *complaint,
                           size_t complaint_bytes)
{
    struct field fields[COLUMNS_MAX];
    columns->is_known = true;
    if (columns->format == GB_TRACE_TWITTER) {
        set_twitter(columns);
        return 0;
    }
    columns->separator = '\t';
    if (columns->format != GB_TRACE_WIKI) {
        columns->separator = find_separator(line);
    }
    int count = cut(line, columns->separator, fields);
    if (count > COLUMNS_MAX) {
        return complain(complaint, complaint_bytes, "more than %d columns", COLUMNS_MAX);
    }
    if (!is_number(fields[0])) {
        return learn_header(columns, fields, count, complaint, complaint_bytes);
    }
    if (columns->format == GB_TRACE_WIKI) {
        return set_wiki(columns, count, complaint, complaint_bytes);
    }
    if (columns->separator == ',' && looks_like_twitter(fields, count)) {
        set_twitter(columns);
        return 0;
    }
    bool is_wiki = columns->separator == '\t' && (count == 4 || count == 5) &&
                   is_number(fields[count - 2]) && is_number(fields[count - 1]);
    if (is_wiki) {
        return set_wiki(columns, count, complaint, complaint_bytes);
    }
    if (count != 3) {
        return complain(complaint, complaint_bytes,
                        "%d columns and no header; without one they are time, object, size", count);
    }
    columns->count = 3;
    columns->object = 1;
    columns->size = 2;
    return 0;
}

/* Makes the fields of a greedy object one again; false if there are too few. */
static bool join_object(const struct gb_trace_columns *columns, struct field *fields, int *count)
{
    int extra = *count - columns->count;
    if (extra < 0) {
        return false;
    }
    struct field *object = &fields[columns->object];
    const struct field *last = &fields[columns->object + extra];
    object->len = (size_t)(last->text + last->len - object->text);
    int after = columns->count - columns->object - 1;
    memmove(object + 1, last + 1, (size_t)after * sizeof(*fields));
    *count = columns->count;
    return true;
}

static bool parse_size(struct field field, uint64_t *size)
{
    uint64_t value = 0;
    if (field.len == 0) {
        return false;
    }
    for (size_t i = 0; i < field.len; i++) {
        if (!isdigit((unsigned char)field.text[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(field.text[i] - '0'), &value)) {
            return false;
        }
    }
    *size = value;
    return true;
}

int gb_trace_columns_split(const struct gb_trace_columns *columns, const char *line,
                           struct gb_trace_entry *entry, char *complaint, size_t complaint_bytes)
{
    struct field fields[COLUMNS_MAX];
    int count = cut(line, columns->separator, fields);
    if (count > COLUMNS_MAX) {
        return complain(complaint, complaint_bytes, "more than %d columns", COLUMNS_MAX);
    }
    if (columns->is_object_greedy) {
        (void)join_object(columns, fields, &count);
    }
    if (count != columns->count) {
        return complain(complaint, complaint_bytes, "%d columns where %d are expected", count,
                        columns->count);
    }
    *entry = (struct gb_trace_entry){.key = fields[columns->object].text,
                                     .key_len = fields[columns->object].len};
    struct field size = fields[columns->size];
    if (!parse_size(size, &entry->size)) {
        return complain(complaint, complaint_bytes, "the size \"%.*s\" is not a whole number",
                        (int)(size.len < 32 ? size.len : 32), size.text);
    }
    if (entry->size > SIZE_MAX_BYTES) {
        return complain(complaint, complaint_bytes, "an object of more than 1 TiB");
    }
    if (columns->operation >= 0) {
        struct field name = fields[columns->operation];
        int operation = find_operation(name);
        if (operation < 0) {
            return complain(complaint, complaint_bytes, "the operation \"%.*s\" is not known",
                            (int)(name.len < 32 ? name.len : 32), name.text);
        }
        entry->operation = (enum gb_trace_operation)operation;
    }
    return 0;
}
