/* An object's metadata and validators, before anything is decided by them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http_meta.h"
#include "server/http_internal.h"

/* The version alone tells two values of a key apart in one store; the size makes it less likely
 * that two stores behind one name agree on it by chance. */
void gb_http_etag(char *etag, uint64_t version, uint64_t size)
{
    (void)snprintf(etag, GB_HTTP_ETAG_BYTES, "\"%" PRIx64 "-%" PRIx64 "\"", version, size);
}

void gb_http_object_clear(struct gb_http_object *object)
{
    free(object->meta);
    *object = (struct gb_http_object){.modified_ms = -1};
}

/* Without memory for it the metadata is left out; `info` then says that there is none. */
void gb_http_object_fill(struct gb_http_object *object, const struct goblin_info *info,
                         struct goblin_slice meta)
{
    gb_http_object_clear(object);
    object->info = *info;
    object->info.meta_len = 0;
    object->meta = meta.len > 0 ? malloc(meta.len) : NULL;
    if (object->meta != NULL) {
        memcpy(object->meta, meta.data, meta.len);
        object->info.meta_len = (uint16_t)meta.len;
    }
    if (!gb_http_origin_etag(object, object->etag, sizeof(object->etag))) {
        gb_http_etag(object->etag, info->version, info->size);
    }
    object->modified_ms = gb_http_meta_modified_ms(object->meta, object->info.meta_len);
}

bool gb_http_has_conditions(const struct gb_http_conn *conn)
{
    const struct gb_http_conditions *conditions = &conn->request.fields.conditions;
    return conditions->if_match.at != NULL || conditions->if_none_match.at != NULL ||
           conditions->if_modified_since.at != NULL || conditions->if_unmodified_since.at != NULL;
}

enum gb_http_verdict gb_http_judge(struct gb_http_conn *conn, const struct gb_http_object *object,
                                   bool reading)
{
    const struct gb_http_validators validators = {
        .exists = object != NULL,
        .has_modified = object != NULL && object->modified_ms >= 0,
        .etag = gb_http_text_of(object != NULL ? object->etag : NULL),
        .modified_s = object != NULL ? object->modified_ms / 1000 : 0,
    };
    return gb_http_conditional_judge(&conn->request.fields.conditions, &validators, reading,
                                     conn->http->loop->wall_ms / 1000);
}

/* ---- looking ------------------------------------------------------------------------------- */

static int on_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_look *look = &conn->request.look;
    if (look->over) {
        return gb_http_body_chunk(conn, chunk);
    }
    gb_http_object_fill(&look->object, chunk->info, chunk->meta);
    look->result = GOBLIN_OK;
    look->over = true;
    look->from_disk = !chunk->resident;
    if (look->body) {
        conn->request.body.version = chunk->info->version;
        return gb_http_body_chunk(conn, chunk);
    }
    gb_http_resume(conn);
    return GOBLIN_CHUNK_DONE;
}

static void on_done(void *arg, int result, const struct goblin_info *info)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_look *look = &conn->request.look;
    gb_loop_request_ended(conn->http->loop);
    look->reading = false;
    if (!look->over) {
        look->result = result;
        look->over = true;
        conn->request.body.active = NULL;
    } else if (look->body) {
        gb_http_body_done(conn, result, info);
    }
    if (conn->request.abandoned) {
        gb_http_clean(conn);
    } else {
        gb_http_resume(conn);
    }
    gb_http_unref(conn);
}

static void submit(struct gb_http_conn *conn)
{
    struct gb_http_look *look = &conn->request.look;
    struct gb_loop *loop = conn->http->loop;
    look->request = (struct goblin_request){
        .key = {conn->request.key, conn->request.key_len},
        /* Behind the end of anything: metadata alone. */
        .offset = look->body ? 0 : UINT64_MAX,
        .flags = GOBLIN_GET_META | (look->body ? 0 : (unsigned)GOBLIN_GET_QUIET),
        .ahead = GB_HTTP_AHEAD,
        .on_chunk = on_chunk,
        .on_done = on_done,
        .arg = conn,
    };
    look->reading = true;
    conn->request.body.active = look->body ? &look->request : NULL;
    gb_http_ref(conn);
    int rc = gb_backend_read(loop, &look->request);
    if (rc == GOBLIN_OK) {
        return;
    }
    look->reading = false;
    conn->request.body.active = NULL;
    gb_http_unref(conn);
    if (rc == -EAGAIN) {
        gb_metrics_add(loop->metrics, GB_METRICS_waits_request, 1);
        gb_loop_wait(&loop->request_line, &look->waiter);
        return;
    }
    look->result = rc;
    look->over = true;
}

static void woken(struct gb_waiter *waiter)
{
    struct gb_http_look *look =
        (struct gb_http_look *)(void *)((char *)waiter - offsetof(struct gb_http_look, waiter));
    struct gb_http_conn *conn = look->request.arg;
    submit(conn);
    if (look->over) {
        gb_http_resume(conn);
    }
}

bool gb_http_look(struct gb_http_conn *conn, bool body)
{
    struct gb_http_look *look = &conn->request.look;
    if (!look->begun) {
        look->begun = true;
        look->body = body;
        look->waiter.wake = woken;
        look->object.modified_ms = -1;
        submit(conn);
    }
    return look->over;
}
