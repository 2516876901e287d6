/* Writer and reader of reads.csv: see reads_csv.h. */
#include "bench/reads_csv.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

static const char header[] = "engine,slice,index,object,bytes,first_ns,last_ns,source,chunks";
static const char *const source_names[] = {"ram", "disk", "miss"};

enum {
    BUFFER_BYTES = 1 << 20,
    NUMBER_MAX = 21, /* 64 bits in decimal and one separator */
    LINE_MAX_BYTES = 64 << 20,
    COLUMNS = 9,
};

struct gb_reads_writer {
    int fd;
    int fault; /* the first one, kept */
    size_t used;
    char buffer[BUFFER_BYTES];
};

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t step = write(fd, bytes, len);
        if (step < 0 && errno == EINTR) {
            continue;
        }
        if (step < 0) {
            return -errno;
        }
        bytes += step;
        len -= (size_t)step;
    }
    return 0;
}

int gb_reads_writer_flush(struct gb_reads_writer *writer)
{
    if (writer->fault == 0) {
        writer->fault = write_all(writer->fd, writer->buffer, writer->used);
    }
    writer->used = 0;
    return writer->fault;
}

/* Makes room for `len` more bytes, which is far less than the buffer. */
static void reserve(struct gb_reads_writer *writer, size_t len)
{
    if (writer->used + len > sizeof(writer->buffer)) {
        (void)gb_reads_writer_flush(writer);
    }
}

static void put_text(struct gb_reads_writer *writer, const char *text, char after)
{
    size_t len = strlen(text);
    reserve(writer, len + 1);
    memcpy(writer->buffer + writer->used, text, len);
    writer->used += len;
    writer->buffer[writer->used++] = after;
}

static void put_number(struct gb_reads_writer *writer, uint64_t value, char after)
{
    char digits[NUMBER_MAX];
    size_t at = sizeof(digits);
    digits[--at] = after;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    reserve(writer, NUMBER_MAX);
    memcpy(writer->buffer + writer->used, digits + at, sizeof(digits) - at);
    writer->used += sizeof(digits) - at;
}

int gb_reads_writer_open(const char *path, int append, struct gb_reads_writer **out)
{
    struct gb_reads_writer *writer = malloc(sizeof(*writer));
    if (writer == NULL) {
        return -ENOMEM;
    }
    writer->fault = 0;
    writer->used = 0;
    int mode = append ? O_APPEND : O_TRUNC;
    writer->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0666);
    struct stat status;
    if (writer->fd < 0 || fstat(writer->fd, &status) != 0) {
        int result = -errno;
        if (writer->fd >= 0) {
            (void)close(writer->fd);
        }
        free(writer);
        return result;
    }
    if (status.st_size == 0) {
        put_text(writer, header, '\n');
    }
    *out = writer;
    return 0;
}

static bool is_engine_name(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr(".-_", name[i]) == NULL) {
            return false;
        }
    }
    return len > 0 && len < GB_READ_ENGINE_MAX;
}

int gb_reads_writer_add(struct gb_reads_writer *writer, const struct gb_read *read)
{
    GB_ASSERT(is_engine_name(read->engine));
    put_text(writer, read->engine, ',');
    put_number(writer, read->slice, ',');
    put_number(writer, read->index, ',');
    put_number(writer, read->object, ',');
    put_number(writer, read->bytes, ',');
    put_number(writer, read->first_ns, ',');
    put_number(writer, read->last_ns, ',');
    put_text(writer, source_names[read->source], ',');
    for (size_t i = 0; i < read->chunk_count; i++) {
        put_number(writer, read->chunks[i].bytes, ':');
        put_number(writer, read->chunks[i].ready_ns, i + 1 < read->chunk_count ? ' ' : '\n');
    }
    if (read->chunk_count == 0) {
        put_text(writer, "", '\n');
    }
    return writer->fault;
}

int gb_reads_writer_close(struct gb_reads_writer *writer)
{
    if (writer == NULL) {
        return 0;
    }
    int result = gb_reads_writer_flush(writer);
    if (close(writer->fd) != 0 && result == 0) {
        result = -errno;
    }
    free(writer);
    return result;
}

struct gb_reads_reader {
    FILE *file;
    char *path;
    char *line;
    size_t line_bytes;
    uint64_t line_number;
    char engine[GB_READ_ENGINE_MAX];
    struct gb_chunk *chunks;
    size_t chunk_room;
};

/* Gives -EINVAL with the place and the complaint. */
__attribute__((format(printf, 3, 4))) static int complain(const struct gb_reads_reader *reader,
                                                          struct goblin_error *error,
                                                          const char *format, ...)
{
    if (error == NULL) {
        return -EINVAL;
    }
    int used = snprintf(error->text, sizeof(error->text), "%s:%llu: ", reader->path,
                        (unsigned long long)reader->line_number);
    if (used > 0 && (size_t)used < sizeof(error->text)) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->text + used, sizeof(error->text) - (size_t)used, format, arguments);
        va_end(arguments);
    }
    return -EINVAL;
}

/* The next line without its end: 1, 0 at the end of the file, or a fault. */
static int read_line(struct gb_reads_reader *reader, struct goblin_error *error)
{
    errno = 0;
    ssize_t len = getline(&reader->line, &reader->line_bytes, reader->file);
    reader->line_number++;
    if (len < 0) {
        if (ferror(reader->file) || errno == ENOMEM) {
            int fault = errno == 0 ? EIO : errno;
            (void)complain(reader, error, "%s", strerror(fault));
            return -fault;
        }
        return 0;
    }
    if (len > LINE_MAX_BYTES || strlen(reader->line) != (size_t)len) {
        return complain(reader, error, "the row is not text of at most %d bytes", LINE_MAX_BYTES);
    }
    if (reader->line[len - 1] != '\n') {
        return complain(reader, error, "the last row is cut short");
    }
    reader->line[len - 1] = '\0';
    return 1;
}

static int check_header(struct gb_reads_reader *reader, struct goblin_error *error)
{
    int result = read_line(reader, error);
    if (result < 0) {
        return result;
    }
    if (result == 0 || strcmp(reader->line, header) != 0) {
        return complain(reader, error, "expected the header \"%s\"", header);
    }
    return 0;
}

int gb_reads_reader_open(const char *path, struct gb_reads_reader **out, struct goblin_error *error)
{
    struct gb_reads_reader *reader = calloc(1, sizeof(*reader));
    char *name = strdup(path);
    if (reader == NULL || name == NULL) {
        free(reader);
        free(name);
        return -ENOMEM;
    }
    reader->path = name;
    int result;
    reader->file = fopen(path, "re");
    if (reader->file == NULL) {
        result = -errno;
        if (error != NULL) {
            (void)snprintf(error->text, sizeof(error->text), "%s: %s", path, strerror(errno));
        }
        goto close_reader;
    }
    (void)setvbuf(reader->file, NULL, _IOFBF, BUFFER_BYTES);
    result = check_header(reader, error);
    if (result < 0) {
        goto close_reader;
    }
    *out = reader;
    return 0;

close_reader:
    gb_reads_reader_close(reader);
    return result;
}

void gb_reads_reader_close(struct gb_reads_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->file != NULL) {
        (void)fclose(reader->file);
    }
    free(reader->chunks);
    free(reader->line);
    free(reader->path);
    free(reader);
}

/* Digits only, up to `end_mark`; moves *cursor behind it. */
static bool parse_number(char **cursor, char end_mark, uint64_t *out)
{
    char *at = *cursor;
    uint64_t value = 0;
    if (!isdigit((unsigned char)*at)) {
        return false;
    }
    for (; isdigit((unsigned char)*at); at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return false;
        }
    }
    if (*at != end_mark) {
        return false;
    }
    *cursor = at + (end_mark != '\0');
    *out = value;
    return true;
}

static int add_chunk(struct gb_reads_reader *reader, size_t count, struct gb_chunk chunk)
{
    if (count == reader->chunk_room) {
        size_t room = reader->chunk_room == 0 ? 64 : 2 * reader->chunk_room;
        struct gb_chunk *grown = realloc(reader->chunks, room * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        reader->chunks = grown;
        reader->chunk_room = room;
    }
    reader->chunks[count] = chunk;
    return 0;
}

static int parse_chunks(struct gb_reads_reader *reader, char *text, struct gb_read *out,
                        struct goblin_error *error)
{
    out->chunk_count = 0;
    uint64_t total = 0;
    uint64_t ready_ns = 0;
    while (*text != '\0') {
        struct gb_chunk chunk;
        char *space = strchr(text, ' ');
        char mark = space == NULL ? '\0' : ' ';
        if (!parse_number(&text, ':', &chunk.bytes) ||
            !parse_number(&text, mark, &chunk.ready_ns) || (mark == ' ' && *text == '\0')) {
            return complain(reader, error, "chunk %zu is not bytes:ready_ns", out->chunk_count + 1);
        }
        if (__builtin_add_overflow(total, chunk.bytes, &total) || chunk.ready_ns < ready_ns) {
            return complain(reader, error, "chunk %zu is out of order", out->chunk_count + 1);
        }
        ready_ns = chunk.ready_ns;
        int result = add_chunk(reader, out->chunk_count, chunk);
        if (result < 0) {
            return result;
        }
        out->chunk_count++;
    }
    if (total != out->bytes) {
        return complain(reader, error, "the chunks are %llu bytes together, the row says %llu",
                        (unsigned long long)total, (unsigned long long)out->bytes);
    }
    out->chunks = reader->chunks;
    return 0;
}

static int parse_source(struct gb_reads_reader *reader, char **cursor, struct gb_read *out,
                        struct goblin_error *error)
{
    for (unsigned i = 0; i < sizeof(source_names) / sizeof(source_names[0]); i++) {
        size_t len = strlen(source_names[i]);
        if (strncmp(*cursor, source_names[i], len) == 0 && (*cursor)[len] == ',') {
            out->source = (enum gb_read_source)i;
            *cursor += len + 1;
            return 0;
        }
    }
    return complain(reader, error, "source is not ram, disk or miss");
}

static int parse_row(struct gb_reads_reader *reader, struct gb_read *out,
                     struct goblin_error *error)
{
    char *cursor = strchr(reader->line, ',');
    if (cursor == NULL) {
        return complain(reader, error, "expected %d columns", COLUMNS);
    }
    *cursor++ = '\0';
    if (!is_engine_name(reader->line)) {
        return complain(reader, error, "not the name of an engine");
    }
    (void)memcpy(reader->engine, reader->line, strlen(reader->line) + 1);
    out->engine = reader->engine;
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"slice", &out->slice},       {"index", &out->index},
                   {"object", &out->object},     {"bytes", &out->bytes},
                   {"first_ns", &out->first_ns}, {"last_ns", &out->last_ns}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!parse_number(&cursor, ',', numbers[i].value)) {
            return complain(reader, error, "%s is not a number", numbers[i].name);
        }
    }
    int result = parse_source(reader, &cursor, out, error);
    if (result < 0) {
        return result;
    }
    return parse_chunks(reader, cursor, out, error);
}

int gb_reads_reader_next(struct gb_reads_reader *reader, struct gb_read *out,
                         struct goblin_error *error)
{
    int result = read_line(reader, error);
    if (result <= 0) {
        return result;
    }
    result = parse_row(reader, out, error);
    return result < 0 ? result : 1;
}
