/* get, gets, gat, gats, mg, me: objects on their way to a client. */
#include "server/mc_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/mc_watch.h"

/* ---- answers ------------------------------------------------------------------------------- */

static struct gb_mc_answer *new_answer(struct gb_mc_session *session)
{
    struct gb_mc_loop *home = session->home;
    struct gb_mc_answer *answer = home->free_answers;
    if (answer != NULL) {
        home->free_answers = answer->next;
        home->free_answer_count--;
    } else {
        answer = malloc(sizeof(*answer));
        if (answer == NULL) {
            return NULL;
        }
        gb_limits_take_anyway(home->loop->limits, sizeof(*answer));
    }
    memset(answer, 0, offsetof(struct gb_mc_answer, key));
    answer->session = session;
    answer->request = session->event.request;
    answer->begun_ns = session->begun_ns;
    answer->next = session->answers;
    if (session->answers != NULL) {
        session->answers->prev = answer;
    }
    session->answers = answer;
    return answer;
}

/* Of no list any more. */
static void give_back(struct gb_mc_loop *home, struct gb_mc_answer *answer)
{
    if (home->free_answer_count < GB_MC_ANSWERS_KEPT) {
        answer->next = home->free_answers;
        home->free_answers = answer;
        home->free_answer_count++;
    } else {
        free(answer);
        gb_loop_give_bytes(home->loop, sizeof(*answer));
    }
}

static void free_answer(struct gb_mc_answer *answer)
{
    struct gb_mc_session *session = answer->session;
    if (answer->prev != NULL) {
        answer->prev->next = answer->next;
    } else {
        session->answers = answer->next;
    }
    if (answer->next != NULL) {
        answer->next->prev = answer->prev;
    }
    give_back(session->home, answer);
}

void gb_mc_get_close(struct gb_mc_session *session)
{
    struct gb_mc_answer *answer = session->answers;
    session->answers = NULL;
    while (answer != NULL) {
        struct gb_mc_answer *next = answer->next;
        give_back(session->home, answer);
        answer = next;
    }
}

static void keep_text(struct gb_mc_text *text, char *room)
{
    if (text->len > 0) {
        memcpy(room, text->data, text->len);
        text->data = room;
    }
}

/* ---- objects ------------------------------------------------------------------------------- */

static struct gb_mc_answer *answer_of(struct gb_send *send)
{
    return (struct gb_mc_answer *)(uintptr_t)gb_send_tag(send)[0];
}

static char *write_text_head(const struct gb_mc_answer *answer, const struct goblin_info *info,
                             char *to)
{
    enum gb_mc_verb verb = answer->request.verb;
    bool cas = verb == GB_MC_GETS || verb == GB_MC_GATS;
    return gb_mc_write_value_head(to, answer->request.key, info->flags, info->size,
                                  cas ? &info->version : NULL);
}

static char *write_meta_head(const struct gb_mc_answer *answer, const struct goblin_info *info,
                             char *to)
{
    struct gb_mc_object object;
    gb_mc_session_describe(answer->session, info, &object);
    if (answer->changed) {
        object.left_before_s = answer->left_before_s;
    }
    if (answer->won) {
        object.won = true;
        object.sent = false;
    }
    return gb_mc_write_meta(to, &answer->request, gb_mc_has(&answer->request, 'v') ? "VA" : "HD",
                            &object);
}

static void say_miss(struct gb_send *send, const struct gb_mc_answer *answer)
{
    if (answer->request.verb == GB_MC_MG && !answer->request.noreply) {
        char text[GB_MC_META_HEAD_MAX];
        const char *end = gb_mc_write_meta(text, &answer->request, "EN", NULL);
        gb_send_append(send, text, (size_t)(end - text));
    }
}

static void count_look(const struct gb_mc_answer *answer, int result,
                       const struct goblin_info *info)
{
    struct gb_mc_session *session = answer->session;
    if (result == GOBLIN_OK) {
        gb_mc_session_count(session, GB_MC_COUNT_get_hits);
    } else {
        gb_mc_session_count(session, GB_MC_COUNT_get_misses);
    }
    if (result < 0) {
        gb_mc_session_count(session, GB_MC_COUNT_get_failed);
    }
    gb_mc_watch_fetch(session, &answer->request, info);
}

static enum gb_send_answer on_head(struct gb_send *send, int result, const struct goblin_info *info,
                                   struct goblin_slice meta)
{
    (void)meta;
    struct gb_mc_answer *answer = answer_of(send);
    count_look(answer, result, info);
    if (result != GOBLIN_OK) { /* what cannot be read is not there */
        say_miss(send, answer);
        return GB_SEND_NO_BODY;
    }
    char text[GB_MC_META_HEAD_MAX];
    bool is_meta = answer->request.verb == GB_MC_MG;
    const char *end =
        is_meta ? write_meta_head(answer, info, text) : write_text_head(answer, info, text);
    gb_send_append(send, text, (size_t)(end - text));
    answer->hit = true;
    answer->bytes = info->size;
    return is_meta && !gb_mc_has(&answer->request, 'v') ? GB_SEND_NO_BODY : GB_SEND_BODY;
}

static void log_answer(const struct gb_mc_answer *answer, enum gb_metrics_tier tier)
{
    struct gb_loop *loop = answer->session->home->loop;
    uint64_t duration_ns = gb_mc_session_ended(answer->session, answer->begun_ns);
    gb_metrics_time(loop->metrics, GB_METRICS_OP_get, tier, duration_ns);
    if (gb_log_wants_access(loop->log, duration_ns)) {
        const struct gb_log_access access = {
            .protocol = gb_memcache_protocol.name,
            .peer = gb_conn_peer(answer->session->conn),
            .command = gb_mc_verb_name(answer->request.verb),
            .status = answer->hit ? "HIT" : "MISS",
            .key = gb_mc_slice(answer->request.key),
            .bytes_out = answer->bytes,
            .tier = tier,
            .duration_ns = duration_ns,
        };
        gb_log_access(loop, &access);
    }
}

static void on_body(struct gb_send *send, bool from_ram)
{
    struct gb_mc_answer *answer = answer_of(send);
    bool body =
        answer->hit && (answer->request.verb != GB_MC_MG || gb_mc_has(&answer->request, 'v'));
    if (body && answer->last) {
        gb_send_append(send, "\r\nEND\r\n", 7);
    } else if (body) {
        gb_send_append(send, "\r\n", 2);
    } else if (answer->last) {
        gb_send_append(send, "END\r\n", 5);
    }
    log_answer(answer, !answer->hit ? GB_METRICS_TIER_miss
                       : from_ram   ? GB_METRICS_TIER_ram
                                    : GB_METRICS_TIER_disk);
    answer->over = true;
    free_answer(answer);
}

/* Takes a place in the output for the answer's object. */
static void send_object(struct gb_mc_session *session, struct gb_mc_answer *answer)
{
    const struct gb_send_request ask = {
        .key = gb_mc_slice(answer->request.key),
        .flags = gb_mc_has(&answer->request, 'u') ? GOBLIN_GET_QUIET : 0,
        .on_head = on_head,
        .on_body = on_body,
        .tag = {(uint64_t)(uintptr_t)answer},
    };
    gb_mc_session_count(session, GB_MC_COUNT_cmd_get);
    gb_conn_send(session->conn, &ask);
    if (!answer->over && !gb_conn_is_closed(session->conn)) {
        keep_text(&answer->request.key, answer->key);
        keep_text(&answer->request.opaque, answer->opaque);
    }
}

static struct gb_mc_answer *begin_answer(struct gb_mc_session *session)
{
    struct gb_mc_answer *answer = new_answer(session);
    if (answer == NULL) {
        gb_mc_session_say(session,
                          GB_MC_LITERAL("SERVER_ERROR out of memory writing get response"));
        gb_conn_finish(session->conn);
    }
    return answer;
}

/* ---- get, gat ------------------------------------------------------------------------------ */

static void send_key(struct gb_mc_session *session)
{
    struct gb_mc_answer *answer = begin_answer(session);
    if (answer != NULL) {
        answer->last = session->outcome != 0;
        send_object(session, answer);
    }
}

static void touched_key(struct gb_mc_session *session, int result)
{
    gb_mc_session_count(session,
                        result == GOBLIN_OK ? GB_MC_COUNT_touch_hits : GB_MC_COUNT_touch_misses);
    send_key(session);
}

void gb_mc_get_key(struct gb_mc_session *session, bool last)
{
    session->outcome = last;
    if (session->event.request.verb == GB_MC_GET || session->event.request.verb == GB_MC_GETS) {
        send_key(session);
        return;
    }
    gb_mc_session_count(session, GB_MC_COUNT_cmd_touch);
    struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_TOUCH);
    change->options.expires_ms = gb_mc_session_expiry(session, session->event.request.exptime_s);
    gb_mc_session_change(session, touched_key);
}

/* ---- mg ------------------------------------------------------------------------------------ */

static void look_meta(struct gb_mc_session *session);

static void send_meta(struct gb_mc_session *session, bool won)
{
    struct gb_mc_answer *answer = begin_answer(session);
    if (answer == NULL) {
        return;
    }
    answer->won = won;
    answer->changed = gb_mc_has(&answer->request, 'T') && session->info.version != 0;
    answer->left_before_s = gb_mc_left_s(session->info.expires_ms, session->home->loop->wall_ms);
    send_object(session, answer);
}

/* The expiry once the command's flags have been obeyed in their order. */
static int64_t meta_expiry(const struct gb_mc_session *session, bool created)
{
    const struct gb_mc_request *request = &session->event.request;
    int64_t expires_ms = session->info.expires_ms;
    for (unsigned i = 0; i < request->options; i++) {
        if (request->order[i] == 'T') {
            expires_ms = gb_mc_session_expiry(session, request->exptime_s);
        } else if (request->order[i] == 'N' && created) {
            expires_ms = gb_mc_session_expiry(session, request->vivify_s);
        }
    }
    return expires_ms;
}

/* An object that nobody had: the client that made it is to fill it. */
static void made_object(struct gb_mc_session *session, int result)
{
    if (result == GOBLIN_EXISTS) {
        look_meta(session);
    } else if (result < 0) {
        gb_mc_session_say_fault(session, result);
    } else {
        const struct goblin_info info = {.version = session->change.version,
                                         .expires_ms = session->change.options.expires_ms};
        struct gb_mc_object object;
        gb_mc_session_describe(session, &info, &object);
        object.left_before_s = -1;
        object.won = true;
        bool body = gb_mc_has(&session->event.request, 'v');
        gb_mc_session_count(session, GB_MC_COUNT_cmd_get);
        gb_mc_session_count(session, GB_MC_COUNT_get_misses);
        gb_mc_session_say_meta(session, body ? "VA" : "HD", &object, false);
        if (body) {
            gb_conn_append(session->conn, "\r\n", 2);
        }
        gb_mc_session_done(session, GB_METRICS_OP_put, "WON");
    }
}

static void make_object(struct gb_mc_session *session)
{
    struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_PUT);
    session->info = (struct goblin_info){0};
    change->options.condition = GOBLIN_IF_ABSENT;
    change->options.expires_ms = meta_expiry(session, true);
    change->options.marks = GB_MC_SENT;
    change->options.version = session->event.request.new_cas;
    gb_mc_session_change(session, made_object);
}

/* R: the client that asks first when little time is left is to make the value anew. R is judged by
 * the expiry as it stands where R does among the flags. */
static bool recaches(const struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    int64_t expires_ms = session->info.expires_ms;
    for (unsigned i = 0; i < request->options; i++) {
        if (request->order[i] == 'T') {
            expires_ms = gb_mc_session_expiry(session, request->exptime_s);
        } else if (request->order[i] == 'R') {
            int64_t before_ms = gb_mc_session_expiry(session, request->recache_s);
            return expires_ms != 0 && expires_ms < before_ms;
        }
    }
    return false;
}

static void amended_object(struct gb_mc_session *session, int result)
{
    const struct gb_change *change = &session->change;
    if (result == GOBLIN_CHANGED) {
        look_meta(session);
    } else if (result < 0) {
        gb_mc_session_say_fault(session, result);
    } else {
        bool asked = (change->amendment.marks_set & GB_MC_SENT) != 0;
        bool won = result == GOBLIN_OK && asked && (change->before.marks & GB_MC_SENT) == 0;
        if (gb_mc_has(&session->event.request, 'T')) {
            gb_mc_session_count(session, result == GOBLIN_OK ? GB_MC_COUNT_touch_hits
                                                             : GB_MC_COUNT_touch_misses);
        }
        send_meta(session, won);
    }
}

static void amend_object(struct gb_mc_session *session, bool wins)
{
    const struct gb_mc_request *request = &session->event.request;
    struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_AMEND);
    change->amendment.condition = GOBLIN_IF_VERSION;
    change->amendment.if_version = session->info.version;
    change->amendment.marks_set = wins ? GB_MC_SENT : 0;
    if (gb_mc_has(request, 'T')) {
        change->amendment.what = GOBLIN_AMEND_EXPIRES;
        change->amendment.expires_ms = meta_expiry(session, false);
        gb_mc_session_count(session, GB_MC_COUNT_cmd_touch);
    }
    gb_mc_session_change(session, amended_object);
}

/* Most ask for nothing that changes the object; they go on to be sent. */
static void look_meta(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    int result = gb_backend_stat(session->home->loop, gb_mc_slice(request->key), &session->info);
    if (result != GOBLIN_OK) {
        session->info = (struct goblin_info){0};
        if (result == GOBLIN_MISS && gb_mc_has(request, 'N')) {
            make_object(session);
        } else {
            send_meta(session, false);
        }
        return;
    }
    bool unsent = (session->info.marks & GB_MC_SENT) == 0;
    bool wins = unsent && ((session->info.marks & GB_MC_STALE) != 0 || recaches(session));
    if (wins || gb_mc_has(request, 'T')) {
        amend_object(session, wins);
    } else {
        send_meta(session, false);
    }
}

void gb_mc_get_meta(struct gb_mc_session *session)
{
    gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
    look_meta(session);
}

/* ---- me ------------------------------------------------------------------------------------ */

void gb_mc_get_debug(struct gb_mc_session *session)
{
    gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
    const struct gb_mc_request *request = &session->event.request;
    int result = gb_backend_stat(session->home->loop, gb_mc_slice(request->key), &session->info);
    if (result != GOBLIN_OK) {
        gb_mc_session_say(session, GB_MC_LITERAL("EN"));
    } else {
        struct gb_mc_object object;
        gb_mc_session_describe(session, &session->info, &object);
        unsigned char *to = gb_conn_reserve(session->conn, GB_MC_DEBUG_MAX);
        if (to != NULL) {
            const char *end = gb_mc_write_debug((char *)to, request, &object);
            gb_conn_commit(session->conn, (size_t)(end - (char *)to));
        }
    }
    gb_mc_session_done(session, GB_METRICS_OP_touch, result == GOBLIN_OK ? "HIT" : "MISS");
}
