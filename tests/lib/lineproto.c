/* The tests' protocol: see lineproto.h. */
#include "lib/lineproto.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "server/conn.h"
#include "server/metrics.h"

#define KEY_MAX 64u

struct session {
    struct gb_conn *conn;
    char key[KEY_MAX + 1];
    struct gb_change change;
    struct gb_edit edit;
    struct gb_stream stream;
    struct gb_job sleep;
    uint64_t left; /* of an upload, or of spam */
    uint64_t number;
    char text[32];
    bool spamming;
    bool streaming; /* the stream is in use */
};

static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_over = PTHREAD_COND_INITIALIZER;
static bool awake = true;

void gb_line_awake(void)
{
    (void)pthread_mutex_lock(&sleep_lock);
    awake = true;
    (void)pthread_cond_broadcast(&sleep_over);
    (void)pthread_mutex_unlock(&sleep_lock);
}

void gb_line_sleep(void)
{
    (void)pthread_mutex_lock(&sleep_lock);
    awake = false;
    (void)pthread_mutex_unlock(&sleep_lock);
}

static void say(struct gb_conn *conn, const char *text)
{
    gb_conn_append(conn, text, strlen(text));
}

static void say_result(struct gb_conn *conn, int result)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "ERROR %d\n", result);
    say(conn, result == GOBLIN_OK ? "OK\n" : result == GOBLIN_MISS ? "MISS\n" : text);
}

static struct goblin_slice key_of(const struct session *session)
{
    return (struct goblin_slice){session->key, strlen(session->key)};
}

/* ---- set ----------------------------------------------------------------------------------- */

static void changed(struct gb_change *change)
{
    struct session *session = change->arg;
    say_result(session->conn, change->result);
    gb_conn_resume(session->conn);
}

static void begin_change(struct session *session, const struct gb_change *change)
{
    session->change = *change;
    session->change.done = changed;
    session->change.arg = session;
    int result = gb_backend_change(gb_conn_loop(session->conn), &session->change);
    if (result == GB_PENDING) {
        gb_conn_pause(session->conn);
    } else {
        say_result(session->conn, result);
    }
}

static void stream_over(struct gb_stream *stream)
{
    struct session *session = stream->arg;
    session->streaming = false;
    gb_conn_unref(session->conn);
}

static void committed(struct gb_stream *stream)
{
    struct session *session = stream->arg;
    say_result(session->conn, stream->result);
    gb_conn_resume(session->conn);
    stream_over(stream);
}

static void uploaded(struct gb_conn *conn, struct gb_stream *stream, int result)
{
    struct session *session = gb_conn_state(conn);
    if (result < 0) {
        say_result(conn, result);
        gb_backend_stream_abort(stream);
        return;
    }
    gb_conn_pause(conn);
    session->stream.done = committed;
    gb_backend_stream_commit(stream);
}

static void begun(struct gb_stream *stream)
{
    struct session *session = stream->arg;
    struct gb_conn *conn = session->conn;
    if (stream->result < 0) {
        say_result(conn, stream->result);
        gb_conn_swallow(conn, session->left);
        gb_conn_resume(conn);
        stream_over(stream);
        return;
    }
    if (gb_conn_is_closed(conn)) {
        gb_conn_resume(conn);
        gb_backend_stream_abort(stream);
        return;
    }
    gb_conn_upload(conn, stream, session->left, uploaded);
    gb_conn_resume(conn);
}

static void begin_upload(struct session *session, uint64_t size)
{
    session->left = size;
    session->stream = (struct gb_stream){
        .key = key_of(session),
        .size = size,
        .done = begun,
        .gone = stream_over,
        .arg = session,
    };
    session->streaming = true;
    gb_conn_ref(session->conn);
    gb_conn_pause(session->conn);
    gb_backend_stream_begin(gb_conn_loop(session->conn), &session->stream);
}

/* ---- get ----------------------------------------------------------------------------------- */

static enum gb_send_answer found(struct gb_send *send, int result, const struct goblin_info *info,
                                 struct goblin_slice meta)
{
    (void)meta;
    char text[48];
    if (result == GOBLIN_OK) {
        uint64_t from = gb_min(gb_send_tag(send)[0], info->size);
        uint64_t most = info->size - from;
        uint64_t asked = gb_send_tag(send)[1];
        (void)snprintf(text, sizeof(text), "VALUE %llu\n",
                       (unsigned long long)(asked == 0 ? most : gb_min(asked, most)));
    } else if (result == GOBLIN_MISS) {
        (void)snprintf(text, sizeof(text), "MISS\n");
    } else {
        (void)snprintf(text, sizeof(text), "ERROR %d\n", result);
    }
    gb_send_tag(send)[2] = result == GOBLIN_OK;
    gb_send_append(send, text, strlen(text));
    return GB_SEND_BODY;
}

static void bodied(struct gb_send *send, bool from_ram)
{
    struct gb_loop *loop = gb_conn_loop(gb_send_conn(send));
    bool hit = gb_send_tag(send)[2] != 0;
    if (hit) {
        gb_send_append(send, "\n", 1);
    }
    gb_metrics_time(loop->metrics, GB_METRICS_OP_get,
                    !hit       ? GB_METRICS_TIER_miss
                    : from_ram ? GB_METRICS_TIER_ram
                               : GB_METRICS_TIER_disk,
                    1);
}

static void begin_get(struct session *session, uint64_t from, uint64_t len)
{
    const struct gb_send_request request = {
        .key = key_of(session),
        .offset = from,
        .length = len,
        .on_head = found,
        .on_body = bodied,
        .tag = {from, len},
    };
    gb_conn_send(session->conn, &request);
}

/* ---- edits --------------------------------------------------------------------------------- */

static enum gb_edit_answer join(struct gb_edit *edit, const struct goblin_info *info,
                                struct goblin_slice meta, struct goblin_slice value)
{
    (void)meta;
    (void)value;
    edit->back = ((struct session *)edit->arg)->change.value;
    return info == NULL ? GB_EDIT_LEAVE : GB_EDIT_JOIN;
}

static enum gb_edit_answer add(struct gb_edit *edit, const struct goblin_info *info,
                               struct goblin_slice meta, struct goblin_slice value)
{
    (void)meta;
    struct session *session = edit->arg;
    char old[24] = "0";
    if (info != NULL && value.data != NULL && value.len < sizeof(old)) {
        memcpy(old, value.data, value.len);
        old[value.len] = '\0';
    }
    (void)snprintf(session->text, sizeof(session->text), "%llu",
                   strtoull(old, NULL, 10) + (unsigned long long)session->number);
    edit->value = (struct goblin_slice){session->text, strlen(session->text)};
    return GB_EDIT_STORE;
}

static void say_edit(struct session *session, int result)
{
    if (session->edit.decide == add && result == GOBLIN_OK) {
        say(session->conn, session->text);
        say(session->conn, "\n");
    } else {
        say_result(session->conn, result);
    }
}

static void edited(struct gb_edit *edit)
{
    struct session *session = edit->arg;
    say_edit(session, edit->result);
    gb_conn_resume(session->conn);
}

static void begin_edit(struct session *session, const struct gb_edit *edit)
{
    session->edit = *edit;
    session->edit.key = key_of(session);
    session->edit.done = edited;
    session->edit.arg = session;
    int result = gb_backend_edit(gb_conn_loop(session->conn), &session->edit);
    if (result == GB_PENDING) {
        gb_conn_pause(session->conn);
    } else {
        say_edit(session, result);
    }
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void sleep_job(struct gb_job *job)
{
    (void)job;
    (void)pthread_mutex_lock(&sleep_lock);
    while (!awake) {
        (void)pthread_cond_wait(&sleep_over, &sleep_lock);
    }
    (void)pthread_mutex_unlock(&sleep_lock);
}

static void sleep_done(struct gb_job *job)
{
    struct session *session =
        (struct session *)(void *)((char *)job - offsetof(struct session, sleep));
    say(session->conn, "AWAKE\n");
    gb_conn_resume(session->conn);
}

static void begin_sleep(struct session *session)
{
    struct gb_loop *loop = gb_conn_loop(session->conn);
    session->sleep = (struct gb_job){.run = sleep_job, .done = sleep_done};
    gb_conn_pause(session->conn);
    gb_work_submit(loop->work, loop, &session->sleep);
}

/* Ends with its pause when all has been made. */
static void spam(struct session *session)
{
    static const char dots[] = "................................................................";
    while (session->left > 0 && !gb_conn_full(session->conn)) {
        size_t n = (size_t)gb_min(session->left, sizeof(dots) - 1);
        gb_conn_append(session->conn, dots, n);
        session->left -= n;
    }
    if (session->left == 0) {
        session->spamming = false;
        gb_conn_append(session->conn, "\n", 1);
        gb_conn_resume(session->conn);
    }
}

static void on_drained(struct gb_conn *conn)
{
    struct session *session = gb_conn_state(conn);
    if (session->spamming) {
        spam(session);
    }
}

static void on_close(struct gb_conn *conn)
{
    struct session *session = gb_conn_state(conn);
    if (session->spamming) {
        session->spamming = false;
        gb_conn_resume(conn);
    }
}

static void on_cut(struct gb_conn *conn, enum gb_conn_end why)
{
    say(conn, why == GB_CONN_END_idle      ? "BYE idle\n"
              : why == GB_CONN_END_request ? "BYE request\n"
                                           : "BYE\n");
}

/* A command with a value behind its line. Returns what on_bytes does. */
static ptrdiff_t with_value(struct session *session, const char *verb, size_t line,
                            const unsigned char *data, size_t len)
{
    const struct gb_limits_options *set = &gb_conn_loop(session->conn)->limits->set;
    uint64_t size = session->number;
    bool is_set = strcmp(verb, "set") == 0;
    if (is_set && size > set->whole_bytes) {
        begin_upload(session, size);
        return (ptrdiff_t)line;
    }
    if (size > set->whole_bytes) {
        return GB_CONN_CLOSE;
    }
    if (len < line + size) {
        gb_conn_want(session->conn, line + (size_t)size);
        return 0;
    }
    session->change.value = (struct goblin_slice){data + line, (size_t)size};
    if (strcmp(verb, "join") == 0) {
        begin_edit(session, &(struct gb_edit){.decide = join});
    } else {
        begin_change(session, &(struct gb_change){
                                  .key = key_of(session),
                                  .value = session->change.value,
                                  .options.durability = is_set ? GOBLIN_DURABILITY_DEFAULT
                                                               : GOBLIN_DURABILITY_WRITTEN,
                              });
    }
    return (ptrdiff_t)(line + size);
}

static bool run_line(struct session *session, const char *verb, uint64_t second)
{
    if (strcmp(verb, "get") == 0) {
        begin_get(session, session->number, second);
    } else if (strcmp(verb, "del") == 0) {
        begin_change(session,
                     &(struct gb_change){.kind = GB_CHANGE_DELETE, .key = key_of(session)});
    } else if (strcmp(verb, "add") == 0) {
        begin_edit(session, &(struct gb_edit){.decide = add, .value_bytes = 24});
    } else if (strcmp(verb, "sleep") == 0) {
        begin_sleep(session);
    } else if (strcmp(verb, "spam") == 0) {
        session->left = strtoull(session->key, NULL, 10);
        session->spamming = true;
        gb_conn_pause(session->conn);
        spam(session);
    } else if (strcmp(verb, "shut") == 0) {
        gb_conn_finish(session->conn);
    } else {
        return false;
    }
    return true;
}

static ptrdiff_t on_bytes(struct gb_conn *conn, const unsigned char *data, size_t len)
{
    struct session *session = gb_conn_state(conn);
    const unsigned char *end = memchr(data, '\n', len);
    if (end == NULL) {
        return len > 4096 ? GB_CONN_CLOSE : 0;
    }
    size_t line = (size_t)(end - data) + 1;
    if (len >= 5 && memcmp(data, "echo ", 5) == 0) {
        gb_conn_append(conn, data + 5, line - 5);
        return (ptrdiff_t)line;
    }
    char text[256];
    char verb[16] = "";
    unsigned long long first = 0;
    unsigned long long second = 0;
    (void)snprintf(text, sizeof(text), "%.*s", (int)(line - 1), (const char *)data);
    session->conn = conn;
    session->key[0] = '\0';
    if (sscanf(text, "%15s %64s %llu %llu", verb, session->key, &first, &second) < 1) {
        return GB_CONN_CLOSE;
    }
    session->number = first;
    if (strcmp(verb, "set") == 0 || strcmp(verb, "sync") == 0 || strcmp(verb, "join") == 0) {
        return with_value(session, verb, line, data, len);
    }
    return run_line(session, verb, second) ? (ptrdiff_t)line : GB_CONN_CLOSE;
}

static const struct gb_conn_ops session_ops = {
    .state_bytes = sizeof(struct session),
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_cut = on_cut,
    .on_close = on_close,
};

static void accept_line(struct gb_loop *loop, void *state, const struct gb_listener *listener,
                        int fd)
{
    (void)state;
    /* Without memory a connection less. */
    (void)gb_conn_open(loop, listener, fd, &session_ops, NULL);
}

const struct gb_protocol gb_line_protocol = {
    .name = "line",
    .accept = accept_line,
};
