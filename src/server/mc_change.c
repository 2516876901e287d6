/* delete, md, touch, flush_all: objects that go, or change without a value. */
#include "server/mc_session.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- delete -------------------------------------------------------------------------------- */

static void count_delete(struct gb_mc_session *session, int result)
{
    gb_mc_session_count(session,
                        result == GOBLIN_OK ? GB_MC_COUNT_delete_hits : GB_MC_COUNT_delete_misses);
}

static void deleted(struct gb_mc_session *session, int result)
{
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
        gb_mc_session_done(session, GB_METRICS_OP_delete, "FAILED");
        return;
    }
    count_delete(session, result);
    gb_mc_session_say(session,
                      result == GOBLIN_OK ? GB_MC_LITERAL("DELETED") : GB_MC_LITERAL("NOT_FOUND"));
    gb_mc_session_done(session, GB_METRICS_OP_delete,
                       result == GOBLIN_OK ? "DELETED" : "NOT_FOUND");
}

void gb_mc_change_delete(struct gb_mc_session *session)
{
    (void)gb_mc_session_new_change(session, GB_CHANGE_DELETE);
    gb_mc_session_change(session, deleted);
}

/* ---- md ------------------------------------------------------------------------------------ */

static void deleted_meta(struct gb_mc_session *session, int result)
{
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
        gb_mc_session_done(session, GB_METRICS_OP_delete, "FAILED");
        return;
    }
    count_delete(session, result);
    const char *code = result == GOBLIN_OK ? "HD" : result == GOBLIN_CHANGED ? "EX" : "NF";
    gb_mc_session_say_meta(session, code, NULL, result == GOBLIN_OK);
    gb_mc_session_done(session, GB_METRICS_OP_delete, code);
}

/* I: the object stays and is marked stale, for the next client to win. */
static void mark_stale(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    struct goblin_amendment *amendment =
        &gb_mc_session_new_change(session, GB_CHANGE_AMEND)->amendment;
    amendment->what = GOBLIN_AMEND_VERSION;
    amendment->version = request->new_cas;
    amendment->marks_set = GB_MC_STALE;
    amendment->marks_clear = GB_MC_SENT;
    if (gb_mc_has(request, 'T')) {
        amendment->what |= GOBLIN_AMEND_EXPIRES;
        amendment->expires_ms = gb_mc_session_expiry(session, request->exptime_s);
    }
    if (gb_mc_has(request, 'C')) {
        amendment->condition = GOBLIN_IF_VERSION;
        amendment->if_version = request->cas;
    }
    gb_mc_session_change(session, deleted_meta);
}

static void empty_object(struct gb_mc_session *session);

static void emptied(struct gb_mc_session *session, int result)
{
    bool theirs = gb_mc_has(&session->event.request, 'C');
    if (result == GOBLIN_CHANGED && !theirs) {
        empty_object(session);
    } else {
        deleted_meta(session, result);
    }
}

/* x: only the value goes, and its client flags. The version stays unless it is stale from now on,
 * or another was given. */
static void empty_object(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    int found = gb_backend_stat(session->home->loop, gb_mc_slice(request->key), &session->info);
    bool stale = gb_mc_has(request, 'I');
    if (found != GOBLIN_OK || (gb_mc_has(request, 'C') && session->info.version != request->cas)) {
        deleted_meta(session, found == GOBLIN_OK ? GOBLIN_CHANGED : found);
        return;
    }
    struct goblin_put_options *options = &gb_mc_session_new_change(session, GB_CHANGE_PUT)->options;
    options->condition = GOBLIN_IF_VERSION;
    options->if_version = session->info.version;
    options->expires_ms = gb_mc_session_expiry(session, request->exptime_s);
    options->flags = request->client_flags;
    options->marks = stale ? GB_MC_STALE : 0;
    options->version = gb_mc_has(request, 'E') ? request->new_cas
                       : stale                 ? 0
                                               : session->info.version;
    gb_mc_session_change(session, emptied);
}

void gb_mc_change_delete_meta(struct gb_mc_session *session)
{
    const struct gb_mc_request *request = &session->event.request;
    gb_mc_session_count(session, GB_MC_COUNT_cmd_meta);
    if (gb_mc_has(request, 'x')) {
        empty_object(session);
    } else if (gb_mc_has(request, 'I')) {
        mark_stale(session);
    } else {
        struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_DELETE);
        if (gb_mc_has(request, 'C')) {
            change->options.condition = GOBLIN_IF_VERSION;
            change->options.if_version = request->cas;
        }
        gb_mc_session_change(session, deleted_meta);
    }
}

/* ---- touch --------------------------------------------------------------------------------- */

static void touched(struct gb_mc_session *session, int result)
{
    gb_mc_session_count(session, GB_MC_COUNT_cmd_touch);
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
        gb_mc_session_done(session, GB_METRICS_OP_touch, "FAILED");
        return;
    }
    gb_mc_session_count(session,
                        result == GOBLIN_OK ? GB_MC_COUNT_touch_hits : GB_MC_COUNT_touch_misses);
    gb_mc_session_say(session,
                      result == GOBLIN_OK ? GB_MC_LITERAL("TOUCHED") : GB_MC_LITERAL("NOT_FOUND"));
    gb_mc_session_done(session, GB_METRICS_OP_touch, result == GOBLIN_OK ? "TOUCHED" : "NOT_FOUND");
}

void gb_mc_change_touch(struct gb_mc_session *session)
{
    struct gb_change *change = gb_mc_session_new_change(session, GB_CHANGE_TOUCH);
    change->options.expires_ms = gb_mc_session_expiry(session, session->event.request.exptime_s);
    gb_mc_session_change(session, touched);
}

/* ---- flush_all ----------------------------------------------------------------------------- */

static void flushed(struct gb_mc_session *session, int result)
{
    if (result < 0) {
        gb_mc_session_say_fault(session, result);
    } else {
        gb_mc_session_say(session, GB_MC_LITERAL("OK"));
    }
    gb_mc_session_done(session, GB_METRICS_OP_other, result < 0 ? "FAILED" : "OK");
}

/* May end after the loop has stopped serving us. */
static void flushed_late(struct gb_change *change)
{
    if (change->result < 0) {
        const char *why = goblin_strerror(change->result);
        const struct gb_log_field fields[] = {GB_LOG_TEXT("error", why)};
        gb_log_event(change->arg, GOBLIN_LOG_ERROR, "delayed_flush_failed", fields, 1);
    }
    free(change);
}

static void flush_due(struct gb_deadline *deadline)
{
    struct gb_mc_loop *home =
        (struct gb_mc_loop *)(void *)((char *)deadline - offsetof(struct gb_mc_loop, flush));
    struct gb_change *change = calloc(1, sizeof(*change));
    if (change == NULL) { /* later, then */
        gb_loop_arm(home->loop, deadline, home->loop->now_ms + 1000);
        return;
    }
    change->kind = GB_CHANGE_CLEAR;
    change->done = flushed_late;
    change->arg = home->loop->log;
    if (gb_backend_change(home->loop, change) != GB_PENDING) {
        flushed_late(change);
    }
}

/* Each loop has one flush to come: the last that was asked for there. */
void gb_mc_change_flush(struct gb_mc_session *session)
{
    struct gb_mc_loop *home = session->home;
    int64_t at_ms = gb_mc_session_expiry(session, session->event.request.exptime_s);
    gb_mc_session_count(session, GB_MC_COUNT_cmd_flush);
    if (home->memcache->options.no_flush) {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR flush_all not allowed"));
    } else if (at_ms > home->loop->wall_ms) {
        home->flush.fire = flush_due;
        gb_loop_arm(home->loop, &home->flush, home->loop->now_ms + (at_ms - home->loop->wall_ms));
        flushed(session, GOBLIN_OK);
    } else {
        (void)gb_mc_session_new_change(session, GB_CHANGE_CLEAR);
        gb_mc_session_change(session, flushed);
    }
}

void gb_mc_change_stop(struct gb_mc_loop *home)
{
    gb_wheel_drop(&home->loop->wheel, &home->flush);
}
