/* Lines of logs: put together, written, and their files. */
#include "server/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "server/loop.h"

#define LINE_BYTES    8192u
#define BUFFER_BYTES  65536u
#define ACCESS_FIELDS 9u

struct log_file {
    const char *name; /* NULL: a descriptor of the process */
    int fd;           /* -1: none */
    _Atomic uint64_t lost;
};

struct gb_log {
    struct gb_log_options options;
    char *names[3];
    struct log_file events;
    struct log_file access;
    struct log_file slow;
    pthread_mutex_t reopen_lock;
};

struct line {
    char bytes[LINE_BYTES];
    size_t len;
    bool json;
};

static const char *const level_names[] = {"error", "warning", "info"};

/* ---- lines --------------------------------------------------------------------------------- */

/* What does not fit is cut off; room for the end stays. */
static void put(struct line *line, const char *text, size_t len)
{
    size_t room = sizeof(line->bytes) - 16 - line->len;
    len = len < room ? len : room;
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Quoted, so that one request is one line whatever a key contains: backslash, quote and what is not
 * printable ASCII become \xNN, in JSON \u00NN. */
static void put_quoted(struct line *line, const char *text, size_t len)
{
    put_text(line, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            put(line, text + i, 1);
            continue;
        }
        char code[8];
        int n = snprintf(code, sizeof(code), line->json ? "\\u%04x" : "\\x%02x", c);
        put(line, code, (size_t)n);
    }
    put_text(line, "\"");
}

static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return len > 0;
}

static void put_name(struct line *line, const char *name)
{
    put_text(line, line->json ? ",\"" : " ");
    put_text(line, name);
    put_text(line, line->json ? "\":" : "=");
}

static void put_field(struct line *line, const struct gb_log_field *field)
{
    put_name(line, field->name);
    if (field->text == NULL) {
        char digits[24];
        int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)field->number);
        put(line, digits, (size_t)n);
    } else if (!line->json && is_plain(field->text, field->len)) {
        put(line, field->text, field->len);
    } else {
        put_quoted(line, field->text, field->len);
    }
}

static void begin(struct line *line, bool json, const char *level, const char *event)
{
    struct timespec now;
    struct tm parts;
    char stamp[64];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &parts);
    n += (size_t)snprintf(stamp + n, sizeof(stamp) - n, ".%03ldZ", now.tv_nsec / 1000000);
    line->len = 0;
    line->json = json;
    put_text(line, json ? "{\"time\":\"" : "");
    put(line, stamp, n);
    put_text(line, json ? "\",\"level\":\"" : " ");
    put_text(line, level);
    put_text(line, json ? "\",\"event\":" : " ");
    if (json || !is_plain(event, strlen(event))) {
        put_quoted(line, event, strlen(event));
    } else {
        put_text(line, event);
    }
}

static void end(struct line *line)
{
    const char *text = line->json ? "}\n" : "\n";
    memcpy(line->bytes + line->len, text, strlen(text));
    line->len += strlen(text);
}

/* ---- files --------------------------------------------------------------------------------- */

static void write_all(struct log_file *file, const char *bytes, size_t len)
{
    if (file->fd < 0) {
        return;
    }
    ssize_t n = 0;
    do {
        n = write(file->fd, bytes, len);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)len) {
        atomic_fetch_add_explicit(&file->lost, 1, memory_order_relaxed);
    }
}

static int open_name(const char *name)
{
    int fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    return fd < 0 ? -errno : fd;
}

static int open_file(struct log_file *file, char **copy, const char *name, int otherwise,
                     struct goblin_error *error)
{
    file->fd = otherwise;
    if (name == NULL || strcmp(name, "-") == 0) {
        file->fd = name == NULL || otherwise >= 0 ? otherwise : STDOUT_FILENO;
        return GOBLIN_OK;
    }
    *copy = strdup(name);
    file->fd = *copy == NULL ? -ENOMEM : open_name(name);
    if (file->fd < 0) {
        int rc = file->fd;
        file->fd = -1;
        if (error != NULL) {
            (void)snprintf(error->text, sizeof(error->text), "log %s: %s", name,
                           goblin_strerror(rc));
        }
        return rc;
    }
    file->name = *copy;
    return GOBLIN_OK;
}

int gb_log_open(struct gb_log **out, const struct gb_log_options *options,
                struct goblin_error *error)
{
    struct gb_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return -ENOMEM;
    }
    log->options = *options;
    log->access.fd = log->slow.fd = -1;
    (void)pthread_mutex_init(&log->reopen_lock, NULL);
    int rc = open_file(&log->events, &log->names[0], options->file, STDERR_FILENO, error);
    if (rc == GOBLIN_OK) {
        rc = open_file(&log->access, &log->names[1], options->access_file, -1, error);
    }
    if (rc == GOBLIN_OK) {
        rc = open_file(&log->slow, &log->names[2], options->slow_file, -1, error);
    }
    if (rc != GOBLIN_OK) {
        gb_log_close(log);
        return rc;
    }
    *out = log;
    return GOBLIN_OK;
}

static void close_file(struct log_file *file)
{
    if (file->name != NULL && file->fd >= 0) {
        (void)close(file->fd);
    }
}

void gb_log_close(struct gb_log *log)
{
    if (log == NULL) {
        return;
    }
    close_file(&log->events);
    close_file(&log->access);
    close_file(&log->slow);
    for (size_t i = 0; i < 3; i++) {
        free(log->names[i]);
    }
    (void)pthread_mutex_destroy(&log->reopen_lock);
    free(log);
}

/* The descriptor stays the same, so nobody who is writing need know. */
static void reopen(struct gb_log *log, struct log_file *file)
{
    if (file->name == NULL) {
        return;
    }
    int fd = open_name(file->name);
    int rc = fd < 0 ? fd : 0;
    if (fd >= 0) {
        rc = dup3(fd, file->fd, O_CLOEXEC) < 0 ? -errno : 0;
        (void)close(fd);
    }
    if (rc < 0) {
        const struct gb_log_field fields[] = {
            GB_LOG_TEXT("file", file->name),
            GB_LOG_TEXT("error", goblin_strerror(rc)),
        };
        gb_log_event(log, GOBLIN_LOG_ERROR, "log not reopened", fields, 2);
    }
}

void gb_log_reopen(struct gb_log *log)
{
    (void)pthread_mutex_lock(&log->reopen_lock);
    reopen(log, &log->events);
    reopen(log, &log->access);
    reopen(log, &log->slow);
    (void)pthread_mutex_unlock(&log->reopen_lock);
}

/* ---- events -------------------------------------------------------------------------------- */

bool gb_log_wants(const struct gb_log *log, enum goblin_log_level level)
{
    return level <= log->options.level;
}

void gb_log_event(struct gb_log *log, enum goblin_log_level level, const char *event,
                  const struct gb_log_field *fields, size_t count)
{
    if (!gb_log_wants(log, level)) {
        return;
    }
    struct line line;
    begin(&line, log->options.format == GB_LOG_FORMAT_JSON, level_names[level], event);
    for (size_t i = 0; i < count; i++) {
        put_field(&line, &fields[i]);
    }
    uint64_t lost = atomic_exchange_explicit(&log->events.lost, 0, memory_order_relaxed) +
                    atomic_exchange_explicit(&log->access.lost, 0, memory_order_relaxed) +
                    atomic_exchange_explicit(&log->slow.lost, 0, memory_order_relaxed);
    if (lost > 0) {
        put_field(&line, &(struct gb_log_field)GB_LOG_NUMBER("lines_lost", lost));
    }
    end(&line);
    write_all(&log->events, line.bytes, line.len);
}

void gb_log_engine(void *arg, enum goblin_log_level level, const char *text)
{
    const struct gb_log_field field[] = {GB_LOG_TEXT("text", text)};
    gb_log_event(arg, level, "store", field, 1);
}

/* ---- accesses ------------------------------------------------------------------------------ */

static bool is_slow(const struct gb_log *log, uint64_t duration_ns)
{
    return log->options.slow_ms > 0 && duration_ns >= (uint64_t)log->options.slow_ms * 1000000;
}

bool gb_log_wants_access(const struct gb_log *log, uint64_t duration_ns)
{
    return log->access.fd >= 0 || is_slow(log, duration_ns);
}

static void format_access(struct line *line, bool json, const char *event,
                          const struct gb_log_access *access)
{
    const struct gb_log_field fields[ACCESS_FIELDS] = {
        GB_LOG_TEXT("protocol", access->protocol),
        GB_LOG_TEXT("peer", access->peer),
        GB_LOG_TEXT("command", access->command),
        GB_LOG_SLICE("key", access->key),
        GB_LOG_TEXT("status", access->status),
        GB_LOG_NUMBER("bytes_in", access->bytes_in),
        GB_LOG_NUMBER("bytes_out", access->bytes_out),
        GB_LOG_TEXT("tier", gb_metrics_tier_names[access->tier].name),
        GB_LOG_NUMBER("us", access->duration_ns / 1000),
    };
    begin(line, json, strcmp(event, "slow") == 0 ? "warning" : "info", event);
    for (size_t i = 0; i < ACCESS_FIELDS; i++) {
        if (fields[i].text != NULL || fields[i].number != 0 || i == ACCESS_FIELDS - 1) {
            put_field(line, &fields[i]);
        }
    }
    end(line);
}

void gb_log_access(struct gb_loop *loop, const struct gb_log_access *access)
{
    struct gb_log *log = loop->log;
    bool json = log->options.format == GB_LOG_FORMAT_JSON;
    struct line line;
    if (is_slow(log, access->duration_ns)) {
        gb_metrics_add(loop->metrics, GB_METRICS_slow_requests, 1);
        format_access(&line, json, "slow", access);
        write_all(log->slow.fd >= 0 ? &log->slow : &log->events, line.bytes, line.len);
    }
    if (log->access.fd < 0) {
        return;
    }
    format_access(&line, json, "access", access);
    struct gb_log_buffer *buffer = &loop->access_lines;
    if (buffer->bytes == NULL) {
        buffer->bytes = malloc(BUFFER_BYTES);
        if (buffer->bytes != NULL) {
            gb_limits_take_anyway(loop->limits, BUFFER_BYTES);
        } else {
            write_all(&log->access, line.bytes, line.len);
            return;
        }
    }
    if (buffer->len + line.len > BUFFER_BYTES) {
        gb_log_flush(loop);
    }
    memcpy(buffer->bytes + buffer->len, line.bytes, line.len);
    buffer->len += line.len;
}

void gb_log_flush(struct gb_loop *loop)
{
    struct gb_log_buffer *buffer = &loop->access_lines;
    if (buffer->len > 0) {
        write_all(&loop->log->access, buffer->bytes, buffer->len);
        buffer->len = 0;
    }
}

void gb_log_drop_buffer(struct gb_loop *loop)
{
    gb_log_flush(loop);
    if (loop->access_lines.bytes != NULL) {
        free(loop->access_lines.bytes);
        gb_limits_give(loop->limits, BUFFER_BYTES);
    }
}
