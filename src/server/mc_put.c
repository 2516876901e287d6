/* set, add, replace, cas, ms: values that come whole, and such as are streamed to disk. */
#include "server/mc_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A stream outlives its connection until nothing of it is in use any more. */
struct gb_mc_upload {
    struct gb_stream stream;
    struct gb_mc_session *session; /* not once the connection has aborted the stream */
    struct gb_mc_request request;  /* its texts lie below */
    uint64_t begun_ns;
    char key[GB_MC_KEY_MAX];
    char opaque[GB_MC_OPAQUE_MAX];
};

/* ---- what is asked of the store, and how its answer is called ------------------------------ */

static bool compares(const struct gb_mc_request *request)
{
    return request->verb == GB_MC_CAS ||
           (request->verb == GB_MC_MS && gb_mc_has(request, 'C') && request->mode != 'E');
}

static enum goblin_condition condition_of(const struct gb_mc_request *request)
{
    if (compares(request)) {
        return GOBLIN_IF_VERSION;
    }
    if (request->verb == GB_MC_ADD || (request->verb == GB_MC_MS && request->mode == 'E')) {
        return GOBLIN_IF_ABSENT;
    }
    if (request->verb == GB_MC_REPLACE || (request->verb == GB_MC_MS && request->mode == 'R')) {
        return GOBLIN_IF_PRESENT;
    }
    return GOBLIN_ALWAYS;
}

static void fill_options(const struct gb_mc_session *session, struct goblin_put_options *options)
{
    const struct gb_mc_request *request = &session->event.request;
    options->flags = request->client_flags;
    options->expires_ms = gb_mc_session_expiry(session, request->exptime_s);
    options->condition = condition_of(request);
    options->if_version = request->cas;
    options->version = request->new_cas;
}

struct verdict {
    const char *text;
    char code[3];
};

static struct verdict judge(const struct gb_mc_request *request, int result)
{
    switch (result) {
    case GOBLIN_OK:
        return (struct verdict){"STORED", "HD"};
    case GOBLIN_CHANGED:
        return (struct verdict){"EXISTS", "EX"};
    case GOBLIN_MISS:
        if (compares(request)) {
            return (struct verdict){"NOT_FOUND", "NF"};
        }
        return (struct verdict){"NOT_STORED", "NS"};
    default:
        return (struct verdict){"NOT_STORED", "NS"};
    }
}

static void count_compare(struct gb_mc_session *session, int result)
{
    if (!compares(&session->event.request) || result < 0) {
        return;
    }
    gb_mc_session_count(session, result == GOBLIN_OK        ? GB_MC_COUNT_cas_hits
                                 : result == GOBLIN_CHANGED ? GB_MC_COUNT_cas_badval
                                                            : GB_MC_COUNT_cas_misses);
}

static void answer_put(struct gb_mc_session *session, int result, uint64_t version)
{
    const struct gb_mc_request *request = &session->event.request;
    struct verdict verdict = judge(request, result);
    gb_mc_session_count(session, GB_MC_COUNT_cmd_set);
    count_compare(session, result);
    if (request->verb == GB_MC_MS) {
        const struct gb_mc_object object = {.size = request->size,
                                            .cas = result == GOBLIN_OK ? version : 0};
        gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
        gb_mc_session_say_meta(session, verdict.code, &object, result == GOBLIN_OK);
    } else {
        gb_mc_session_say(session,
                          (struct gb_mc_text){verdict.text, __builtin_strlen(verdict.text)});
    }
    gb_mc_session_done(session, GB_METRICS_OP_put, verdict.text);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void dropped(struct gb_mc_session *session, int result)
{
    (void)result; /* the client hears of the fault that led here */
    gb_mc_session_say_fault(session, session->fault);
    gb_mc_session_done(session, GB_METRICS_OP_put, "FAILED");
}

/* In a cache a value that could not be set takes the one before along, as with memcached; a store
 * keeps what it has. */
void gb_mc_put_refuse(struct gb_mc_session *session, int fault)
{
    const struct gb_mc_request *request = &session->event.request;
    const struct gb_server_options *options = gb_server_options_of(session->home->loop->server);
    bool sets = request->verb == GB_MC_SET || (request->verb == GB_MC_MS && request->mode == 'S');
    session->fault = fault;
    gb_mc_session_count(session, GB_MC_COUNT_cmd_set);
    if (sets && !compares(request) && options->store.mode == GOBLIN_MODE_CACHE) {
        (void)gb_mc_session_new_change(session, GB_CHANGE_DELETE);
        gb_mc_session_change(session, dropped);
    } else {
        dropped(session, GOBLIN_OK);
    }
}

/* Of meta commands every error is told. */
void gb_mc_put_bad(struct gb_mc_session *session)
{
    struct gb_mc_request *request = &session->event.request;
    request->noreply = request->noreply && request->verb != GB_MC_MS;
    gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR bad data chunk"));
}

/* ---- values that are all there ------------------------------------------------------------- */

static void put_done(struct gb_mc_session *session, int result);

/* ms with I: a value older than what is there is stored all the same, and marked stale. */
static bool puts_stale(struct gb_mc_session *session, int result)
{
    const struct gb_mc_request *request = &session->event.request;
    struct goblin_put_options *options = &session->change.options;
    if (result != GOBLIN_CHANGED || request->verb != GB_MC_MS || !gb_mc_has(request, 'I') ||
        gb_backend_stat(session->home->loop, session->change.key, &session->info) != GOBLIN_OK ||
        request->cas >= session->info.version) {
        return false;
    }
    options->if_version = session->info.version;
    options->expires_ms = session->info.expires_ms;
    options->marks = GB_MC_STALE | (session->info.marks & GB_MC_SENT);
    return true;
}

static void put_done(struct gb_mc_session *session, int result)
{
    if (puts_stale(session, result)) {
        gb_mc_session_change(session, put_done);
    } else if (result < 0) {
        gb_mc_put_refuse(session, result);
    } else {
        answer_put(session, result, session->change.version);
    }
}

void gb_mc_put_value(struct gb_mc_session *session, struct goblin_slice value)
{
    struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_PUT);
    change->value = value;
    fill_options(session, &change->options);
    gb_mc_session_change(session, put_done);
}

/* ---- values that are streamed -------------------------------------------------------------- */

static struct gb_mc_upload *upload_of(struct gb_stream *stream)
{
    return (struct gb_mc_upload *)stream; /* its first member */
}

static void upload_gone(struct gb_stream *stream)
{
    free(upload_of(stream));
}

/* The stream ends here; its memory goes when the backend is through with it. */
static void abort_upload(struct gb_mc_session *session)
{
    struct gb_stream *stream = &session->upload->stream;
    session->upload = NULL;
    session->upload_ends = false;
    gb_backend_stream_abort(stream);
}

/* The stream is over by itself. */
static void free_upload(struct gb_mc_session *session)
{
    free(session->upload);
    session->upload = NULL;
}

/* The command is the upload's again, for answering. */
static struct gb_mc_session *take_back(struct gb_mc_upload *upload)
{
    struct gb_mc_session *session = upload->session;
    session->event.request = upload->request;
    session->begun_ns = upload->begun_ns;
    return session;
}

static void upload_committed(struct gb_stream *stream)
{
    struct gb_mc_session *session = take_back(upload_of(stream));
    struct gb_conn *conn = session->conn;
    if (!gb_conn_is_closed(conn)) {
        if (stream->result < 0) {
            gb_mc_put_refuse(session, stream->result);
        } else {
            answer_put(session, stream->result, stream->version);
        }
    }
    free_upload(session);
    gb_conn_resume(conn);
}

static void upload_received(struct gb_conn *conn, struct gb_stream *stream, int result)
{
    struct gb_mc_session *session = take_back(upload_of(stream));
    (void)conn;
    gb_mc_parser_taken(&session->parser);
    if (result == GOBLIN_OK) {
        session->upload_ends = true;
        return;
    }
    gb_mc_parser_swallow(&session->parser);
    gb_mc_put_refuse(session, result);
    abort_upload(session);
}

static void upload_begun(struct gb_stream *stream)
{
    struct gb_mc_session *session = take_back(upload_of(stream));
    struct gb_conn *conn = session->conn;
    bool closed = gb_conn_is_closed(conn);
    if (stream->result < 0) { /* the stream is over */
        if (!closed) {
            gb_mc_parser_swallow(&session->parser);
            gb_mc_put_refuse(session, stream->result);
        }
        free_upload(session);
    } else if (closed) {
        abort_upload(session);
    } else {
        gb_conn_upload(conn, stream, stream->size, upload_received);
    }
    gb_conn_resume(conn);
}

static void keep_text(struct gb_mc_text *text, char *room)
{
    if (text->len > 0) {
        memcpy(room, text->data, text->len);
        text->data = room;
    }
}

void gb_mc_put_upload(struct gb_mc_session *session)
{
    struct gb_mc_upload *upload = calloc(1, sizeof(*upload));
    if (upload == NULL) {
        gb_mc_parser_swallow(&session->parser);
        gb_mc_put_refuse(session, -ENOMEM);
        return;
    }
    upload->session = session;
    upload->begun_ns = session->begun_ns;
    upload->request = session->event.request;
    keep_text(&upload->request.key, upload->key);
    keep_text(&upload->request.opaque, upload->opaque);
    struct gb_stream *stream = &upload->stream;
    stream->key = gb_mc_slice(upload->request.key);
    stream->size = upload->request.size;
    stream->done = upload_begun;
    stream->gone = upload_gone;
    fill_options(session, &stream->options);
    session->upload = upload;
    gb_conn_pause(session->conn);
    gb_backend_stream_begin(session->home->loop, stream);
}

void gb_mc_put_end(struct gb_mc_session *session, bool good)
{
    struct gb_stream *stream = &session->upload->stream;
    (void)take_back(session->upload);
    session->upload_ends = false;
    if (good) {
        stream->done = upload_committed;
        gb_conn_pause(session->conn);
        gb_backend_stream_commit(stream);
        return;
    }
    gb_mc_put_bad(session);
    abort_upload(session);
}

/* The session sees to an upload only while it waits for its end; before that the connection does,
 * and what has been asked of the backend is answered all the same. */
void gb_mc_put_close(struct gb_mc_session *session)
{
    if (session->upload_ends) {
        abort_upload(session);
    }
}
