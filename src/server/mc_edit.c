/* append, prepend, incr, decr, ma: values that are made from the ones before. */
#include "server/mc_session.h"

#include <string.h>

/* The longest old value that can be a number: blanks behind it count for nothing. */
#define NUMBER_BYTES 64u

enum outcome {
    OUTCOME_STORED,
    OUTCOME_MADE,    /* stored where nothing was */
    OUTCOME_MISSING, /* no object */
    OUTCOME_OTHER,   /* another version than was asked for */
    OUTCOME_NO_NUMBER,
};

static struct gb_edit *new_edit(struct gb_mc_session *session)
{
    memset(&session->edit, 0, sizeof(session->edit));
    session->edit.key = gb_mc_slice(session->event.request.key);
    session->edit.arg = session;
    session->edit.flags = GOBLIN_GET_META;
    return &session->edit;
}

static void edit_done(struct gb_edit *edit)
{
    struct gb_mc_session *session = edit->arg;
    struct gb_conn *conn = session->conn;
    if (!gb_conn_is_closed(conn)) {
        session->next_step(session, edit->result);
    }
    gb_conn_resume(conn);
}

static void run_edit(struct gb_mc_session *session, gb_mc_step *step)
{
    session->edit.done = edit_done;
    session->next_step = step;
    int result = gb_backend_edit(session->home->loop, &session->edit);
    if (result == GB_PENDING) {
        gb_conn_pause(session->conn);
    } else {
        step(session, result);
    }
}

/* Everything but the value stays as it was. */
static void keep_rest(struct gb_edit *edit, const struct goblin_info *info,
                      struct goblin_slice meta)
{
    edit->options.flags = info->flags;
    edit->options.expires_ms = info->expires_ms;
    edit->options.meta = meta;
}

static bool is_other_version(const struct gb_mc_request *request, const struct goblin_info *info)
{
    return gb_mc_has(request, 'C') && info->version != request->cas;
}

/* ---- append, prepend ----------------------------------------------------------------------- */

static bool goes_in_front(const struct gb_mc_request *request)
{
    return request->verb == GB_MC_PREPEND || request->mode == 'P';
}

static enum gb_edit_answer decide_join(struct gb_edit *edit, const struct goblin_info *info,
                                       struct goblin_slice meta, struct goblin_slice value)
{
    struct gb_mc_session *session = edit->arg;
    const struct gb_mc_request *request = &session->event.request;
    (void)value;
    edit->options.version = request->new_cas;
    if (info == NULL) {
        if (!gb_mc_has(request, 'N')) {
            session->outcome = OUTCOME_MISSING;
            return GB_EDIT_LEAVE;
        }
        session->outcome = OUTCOME_MADE;
        session->info.size = request->size;
        edit->options.flags = request->client_flags;
        edit->options.expires_ms = gb_mc_session_expiry(session, request->vivify_s);
        edit->value = session->piece;
        return GB_EDIT_STORE;
    }
    if (is_other_version(request, info)) {
        session->outcome = OUTCOME_OTHER;
        return GB_EDIT_LEAVE;
    }
    keep_rest(edit, info, meta);
    session->outcome = OUTCOME_STORED;
    session->info.size = info->size + request->size;
    edit->front = goes_in_front(request) ? session->piece : (struct goblin_slice){NULL, 0};
    edit->back = goes_in_front(request) ? (struct goblin_slice){NULL, 0} : session->piece;
    return GB_EDIT_JOIN;
}

static void joined(struct gb_mc_session *session, int result)
{
    gb_mc_session_count(session, GB_MC_COUNT_cmd_set);
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
        gb_mc_session_done(session, GB_METRICS_OP_edit, "FAILED");
        return;
    }
    bool stored = session->outcome == OUTCOME_STORED || session->outcome == OUTCOME_MADE;
    bool other = session->outcome == OUTCOME_OTHER;
    const char *status = stored ? "STORED" : other ? "EXISTS" : "NOT_STORED";
    if (session->event.request.verb == GB_MC_MS) {
        const struct gb_mc_object object = {.size = session->info.size,
                                            .cas = stored ? session->edit.version : 0};
        gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
        gb_mc_session_say_meta(session, stored ? "HD" : other ? "EX" : "NS", &object, stored);
    } else {
        gb_mc_session_say(session, (struct gb_mc_text){status, strlen(status)});
    }
    gb_mc_session_done(session, GB_METRICS_OP_edit, status);
}

void gb_mc_edit_join(struct gb_mc_session *session, struct goblin_slice value)
{
    struct gb_edit *edit = new_edit(session);
    edit->decide = decide_join;
    session->piece = value;
    session->info.size = session->event.request.size;
    run_edit(session, joined);
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A number, and blanks or anything behind a blank, as memcached's strtoull would have it. */
static bool read_number(struct goblin_slice value, uint64_t *number)
{
    const char *text = value.data;
    size_t start = 0;
    while (start < value.len && is_blank(text[start])) {
        start++;
    }
    size_t end = start;
    while (end < value.len && !is_blank(text[end])) {
        end++;
    }
    return gb_mc_read_unsigned((struct gb_mc_text){text + start, end - start}, UINT64_MAX,
                               number) == 0;
}

static bool adds(const struct gb_mc_request *request)
{
    return request->verb == GB_MC_INCR || (request->verb == GB_MC_MA && request->mode == 'I');
}

/* The number as it is stored: a shorter one is padded to the old length, as memcached does. */
static void lay_number(struct gb_mc_session *session, uint64_t number, size_t old_len)
{
    char *end = gb_mc_write_unsigned(session->number, number);
    session->number_len = (size_t)(end - session->number);
    size_t len = session->number_len;
    if (len < old_len && old_len <= sizeof(session->number)) {
        memset(end, ' ', old_len - len);
        len = old_len;
    }
    session->edit.value = (struct goblin_slice){session->number, len};
}

/* Flags of ma that set the expiry, in their order. */
static int64_t delta_expiry(const struct gb_mc_session *session, int64_t expires_ms, bool made)
{
    const struct gb_mc_request *request = &session->event.request;
    for (unsigned i = 0; i < request->options; i++) {
        if (request->order[i] == 'T') {
            expires_ms = gb_mc_session_expiry(session, request->exptime_s);
        } else if (request->order[i] == 'N' && made) {
            expires_ms = gb_mc_session_expiry(session, request->vivify_s);
        }
    }
    return expires_ms;
}

static enum gb_edit_answer make_number(struct gb_edit *edit, struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    if (!gb_mc_has(request, 'N')) {
        session->outcome = OUTCOME_MISSING;
        return GB_EDIT_LEAVE;
    }
    session->outcome = OUTCOME_MADE;
    session->info = (struct goblin_info){0};
    edit->options.expires_ms = delta_expiry(session, 0, true);
    lay_number(session, request->initial, 0);
    return GB_EDIT_STORE;
}

static enum gb_edit_answer decide_delta(struct gb_edit *edit, const struct goblin_info *info,
                                        struct goblin_slice meta, struct goblin_slice value)
{
    struct gb_mc_session *session = edit->arg;
    const struct gb_mc_request *request = &session->event.request;
    edit->options.version = request->new_cas;
    if (info == NULL) {
        return make_number(edit, session);
    }
    if (is_other_version(request, info)) {
        session->outcome = OUTCOME_OTHER;
        return GB_EDIT_LEAVE;
    }
    uint64_t number = 0;
    if (value.data == NULL || !read_number(value, &number)) {
        session->outcome = OUTCOME_NO_NUMBER;
        return GB_EDIT_LEAVE;
    }
    if (adds(request)) {
        number += request->delta; /* wraps, as promised */
    } else {
        number = number > request->delta ? number - request->delta : 0;
    }
    session->outcome = OUTCOME_STORED;
    session->info = *info;
    keep_rest(edit, info, meta);
    edit->options.marks = info->marks;
    edit->options.expires_ms = delta_expiry(session, info->expires_ms, false);
    lay_number(session, number, value.len);
    return GB_EDIT_STORE;
}

static void say_number(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    const struct gb_mc_text number = {session->number, session->number_len};
    if (request->verb != GB_MC_MA) {
        gb_mc_session_say(session, number);
        return;
    }
    bool nominal = session->outcome == OUTCOME_STORED;
    const struct goblin_info info = {.size = session->number_len,
                                     .version = session->edit.version,
                                     .expires_ms = session->edit.options.expires_ms};
    struct gb_mc_object object;
    gb_mc_session_describe(session, &info, &object);
    object.left_before_s = gb_mc_left_s(session->info.expires_ms, session->home->loop->wall_ms);
    bool value = gb_mc_has(request, 'v');
    gb_mc_session_say_meta(session, value ? "VA" : "HD", &object, nominal);
    if (value && !(nominal && request->noreply)) {
        gb_conn_append(session->conn, number.data, number.len);
        gb_conn_append(session->conn, "\r\n", 2);
    }
}

/* What was not stored. */
static const char *say_why_not(struct gb_mc_session *session)
{
    struct gb_mc_request *request = &session->event.request;
    bool meta = request->verb == GB_MC_MA;
    if (session->outcome == OUTCOME_NO_NUMBER) {
        request->noreply = request->noreply && !meta;
        gb_mc_session_say(
            session, GB_MC_LITERAL("CLIENT_ERROR cannot increment or decrement non-numeric value"));
        return "NO_NUMBER";
    }
    if (session->outcome == OUTCOME_OTHER) {
        gb_mc_session_say_meta(session, "EX", NULL, false);
        return "EXISTS";
    }
    gb_mc_session_count(session, adds(request) ? GB_MC_COUNT_incr_misses : GB_MC_COUNT_decr_misses);
    if (meta) {
        gb_mc_session_say_meta(session, "NF", NULL, false);
    } else {
        gb_mc_session_say(session, GB_MC_LITERAL("NOT_FOUND"));
    }
    return "NOT_FOUND";
}

static void counted(struct gb_mc_session *session, int result)
{
    const struct gb_mc_request *request = &session->event.request;
    const char *status = "FAILED";
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
    } else if (session->outcome == OUTCOME_STORED || session->outcome == OUTCOME_MADE) {
        gb_mc_session_count(session, adds(request) ? GB_MC_COUNT_incr_hits : GB_MC_COUNT_decr_hits);
        say_number(session);
        status = "STORED";
    } else {
        status = say_why_not(session);
    }
    gb_mc_session_done(session, GB_METRICS_OP_edit, status);
}

void gb_mc_edit_delta(struct gb_mc_session *session)
{
    struct gb_edit *edit = new_edit(session);
    edit->value_bytes = NUMBER_BYTES;
    edit->decide = decide_delta;
    if (session->event.request.verb == GB_MC_MA) {
        gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
    }
    run_edit(session, counted);
}
