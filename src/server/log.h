/*
 * The server's logs: events, accesses, slow requests; as text or as JSON, one line each.
 *
 * A line is put together on the caller's stack and written by one write() to a descriptor opened
 * with O_APPEND, so lines of different threads never mix and no lock is held. Reopening puts the
 * new file under the same descriptor (dup3). Access lines are gathered per loop and written when
 * the loop is about to sleep, or the buffer is full.
 *
 * Text:  2026-01-31T12:00:00.123Z info listening protocol=memcache address=127.0.0.1:11211
 * JSON:  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"listening","protocol":…}
 *
 * Threads: any, but for gb_log_access and its flush: the loop's.
 */
#ifndef GB_SERVER_LOG_H
#define GB_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "server/metrics.h"

struct gb_log;
struct gb_loop;

/* Access lines of one loop, on their way to the file. */
struct gb_log_buffer {
    char *bytes;
    size_t len;
};

enum gb_log_format { GB_LOG_FORMAT_TEXT = 0, GB_LOG_FORMAT_JSON = 1 };

struct gb_log_options {
    const char *file;        /* of events; NULL or "-": standard error */
    const char *access_file; /* NULL: no access log; "-": standard output */
    const char *slow_file;   /* of slow requests; NULL: among the events */
    int64_t slow_ms;         /* what is slower is logged; 0: nothing is */
    enum gb_log_format format;
    enum goblin_log_level level; /* of events; slow requests are warnings */
};

struct gb_log_field {
    const char *name;
    const char *text; /* NULL: `number` counts */
    size_t len;
    uint64_t number;
};

#define GB_LOG_TEXT(name_, text_)                                                                  \
    {                                                                                              \
        .name = (name_), .text = (text_), .len = strlen(text_)                                     \
    }
#define GB_LOG_SLICE(name_, slice_)                                                                \
    {                                                                                              \
        .name = (name_), .text = (slice_).data, .len = (slice_).len                                \
    }
#define GB_LOG_NUMBER(name_, number_)                                                              \
    {                                                                                              \
        .name = (name_), .number = (number_)                                                       \
    }

/* A request, when it has been answered. */
struct gb_log_access {
    const char *protocol;
    const char *peer;
    const char *command; /* "get", "PUT" */
    const char *status;  /* "HIT", "STORED", "206" */
    struct goblin_slice key;
    uint64_t bytes_in; /* of the value */
    uint64_t bytes_out;
    enum gb_metrics_tier tier;
    uint64_t duration_ns;
};

/* Errors: of opening the files, explained. */
int gb_log_open(struct gb_log **out, const struct gb_log_options *options,
                struct goblin_error *error);
void gb_log_close(struct gb_log *log);

/* Opens the files anew; what cannot be opened stays as it was, and is said there. */
void gb_log_reopen(struct gb_log *log);

bool gb_log_wants(const struct gb_log *log, enum goblin_log_level level);

/* Lines that cannot be written are counted, and the count is logged when one can be again. */
void gb_log_event(struct gb_log *log, enum goblin_log_level level, const char *event,
                  const struct gb_log_field *fields, size_t count);

/* For goblin_options.log: `arg` is the struct gb_log. */
void gb_log_engine(void *arg, enum goblin_log_level level, const char *text);

/* Whether gb_log_access would do anything for a request of this length: spares the filling in. */
bool gb_log_wants_access(const struct gb_log *log, uint64_t duration_ns);
void gb_log_access(struct gb_loop *loop, const struct gb_log_access *access);
void gb_log_flush(struct gb_loop *loop);
/* At the loop's end. */
void gb_log_drop_buffer(struct gb_loop *loop);

#endif
