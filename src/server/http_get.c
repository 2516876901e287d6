/* GET and HEAD of an object. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "proto/http_meta.h"
#include "server/http_internal.h"

/* How often it is begun anew when the object changes between the look and the read. */
#define TRIES_MOST 5u

#define LONG_BLOCK_BYTES 131072u

/* NOLINTNEXTLINE(readability-non-const-parameter): the signature is libmicrohttpd's */
static ssize_t no_bytes(void *arg, uint64_t position, char *to, size_t most)
{
    (void)arg;
    (void)position;
    (void)to;
    (void)most;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* An answer that tells of a body of so many bytes and has none: to HEAD, and of status 304. */
static struct MHD_Response *bodiless(uint64_t size)
{
    return MHD_create_response_from_callback(size, 1, no_bytes, NULL, NULL);
}

static enum MHD_Result answer_head(struct gb_http_conn *conn)
{
    const struct gb_http_object *object = &conn->request.look.object;
    struct MHD_Response *response = bodiless(object->info.size);
    gb_http_add_object(conn, response, object, "");
    return gb_http_answer(conn, 200, response);
}

static enum MHD_Result answer_unsatisfiable(struct gb_http_conn *conn)
{
    static char text[] = "nothing of the range lies within the object\n";
    char range[48];
    (void)snprintf(range, sizeof(range), "bytes */%" PRIu64, conn->request.look.object.info.size);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof(text) - 1, text, MHD_RESPMEM_PERSISTENT);
    gb_http_add_field(response, "Content-Range", range);
    gb_http_add_field(response, "Content-Type", "text/plain; charset=utf-8");
    return gb_http_answer(conn, 416, response);
}

/* A condition decides. MHD_NO: none does. */
static bool judge(struct gb_http_conn *conn, enum MHD_Result *result)
{
    const struct gb_http_object *object = &conn->request.look.object;
    switch (gb_http_judge(conn, object, true)) {
    case GB_HTTP_PROCEED:
    case GB_HTTP_BAD_CONDITION:
        return false;
    case GB_HTTP_NOT_MODIFIED: {
        struct MHD_Response *response = bodiless(object->info.size);
        gb_http_add_object(conn, response, object, NULL);
        *result = gb_http_answer(conn, 304, response);
        return true;
    }
    case GB_HTTP_PRECONDITION_FAILED:
        *result = gb_http_answer_text(conn, 412, "a condition does not hold");
        return true;
    }
    return false;
}

/* ---- with bytes ---------------------------------------------------------------------------- */

/* The Content-Type of parts. */
static void name_type(const struct gb_http_object *object, char *type, size_t size)
{
    struct gb_http_text rest = gb_http_meta_entries(object->meta, object->info.meta_len);
    struct gb_http_meta_entry entry;
    (void)snprintf(type, size, "application/octet-stream");
    while (gb_http_meta_next(&rest, &entry)) {
        if (entry.kind == GB_HTTP_META_CONTENT_TYPE && entry.value.len < size) {
            (void)snprintf(type, size, "%.*s", (int)entry.value.len, entry.value.at);
        }
    }
}

/* Which bytes are asked for. Sets up the body, or answers. */
static enum MHD_Result choose_ranges(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    const struct gb_http_object *object = &request->look.object;
    struct gb_http_ranges ranges = {.count = 0};
    enum gb_http_range_answer answer = GB_HTTP_RANGE_WHOLE;
    if (gb_http_range_if(request->fields.if_range, gb_http_text_of(object->etag),
                         object->modified_ms / 1000, conn->http->loop->wall_ms / 1000)) {
        answer = gb_http_range_resolve(request->fields.range, object->info.size, &ranges);
    }
    if (answer == GB_HTTP_RANGE_NONE) {
        return answer_unsatisfiable(conn);
    }
    request->status = answer == GB_HTTP_RANGE_PART ? 206 : 200;
    if (answer == GB_HTTP_RANGE_WHOLE) {
        ranges.at[0] = (struct gb_http_range){0, object->info.size};
        ranges.count = 1;
    }
    char type[sizeof(request->body.type)];
    name_type(object, type, sizeof(type));
    if (gb_http_body_init(conn, ranges.at, ranges.count, type) < 0) {
        return gb_http_answer_fault(conn, -ENOMEM);
    }
    return MHD_YES;
}

/* Long blocks go out with fewer calls: for as long as few others want bytes. How far a client has
 * got with one nobody can tell of a unix socket. */
static bool take_long_block(struct gb_http_conn *conn, uint64_t length)
{
    struct gb_limits *limits = conn->http->loop->limits;
    uint64_t used = atomic_load_explicit(&limits->used_bytes, memory_order_relaxed);
    bool spare = used + LONG_BLOCK_BYTES <= limits->set.network_bytes / 4;
    if (length <= GB_HTTP_BLOCK_BYTES || conn->listener->is_unix || !spare ||
        !gb_limits_take(limits, LONG_BLOCK_BYTES)) {
        return false;
    }
    conn->request.body.charge = LONG_BLOCK_BYTES;
    return true;
}

static void room_there(struct gb_waiter *waiter)
{
    struct gb_http_body *body =
        (struct gb_http_body *)(void *)((char *)waiter -
                                        offsetof(struct gb_http_body, room_waiter));
    struct gb_http_conn *conn =
        (struct gb_http_conn *)(void *)((char *)body - offsetof(struct gb_http_request, body) -
                                        offsetof(struct gb_http_conn, request));
    struct gb_loop *loop = conn->http->loop;
    if (!gb_limits_take(loop->limits, GB_HTTP_BLOCK_BYTES)) {
        gb_loop_wait(&loop->bytes_line, &body->room_waiter);
        return;
    }
    body->charge = GB_HTTP_BLOCK_BYTES;
    gb_http_resume(conn);
}

/* What libmicrohttpd takes for a response that is produced as it goes out. */
bool gb_http_has_room(struct gb_http_conn *conn, uint64_t length)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_loop *loop = conn->http->loop;
    if (body->charge > 0) {
        return true;
    }
    if (body->room_waiter.next != NULL) {
        return false; /* in line already: a chunk has woken us */
    }
    if (take_long_block(conn, length)) {
        return true;
    }
    if (gb_limits_take(loop->limits, GB_HTTP_BLOCK_BYTES)) {
        body->charge = GB_HTTP_BLOCK_BYTES;
        return true;
    }
    gb_metrics_add(loop->metrics, GB_METRICS_waits_bytes, 1);
    body->room_waiter.wake = room_there;
    gb_loop_wait(&loop->bytes_line, &body->room_waiter);
    return false;
}

/* A response of the one chunk that is all there is to send, without another copy of it. */
static struct MHD_Response *of_chunk(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_http_chunk *chunk = &body->chunks[body->first];
    body->fixed = true; /* until the request is over, see gb_http_clean */
    conn->request.bytes_out = chunk->len;
    return MHD_create_response_from_buffer(chunk->len, (void *)(uintptr_t)chunk->data,
                                           MHD_RESPMEM_PERSISTENT);
}

static bool is_one_chunk(const struct gb_http_conn *conn)
{
    const struct gb_http_body *body = &conn->request.body;
    /* How far it has got through a unix socket nobody can tell, so what is large is produced. */
    return body->range_count == 1 && body->count == 1 &&
           body->chunks[body->first].len == body->ranges[0].len &&
           (!conn->listener->is_unix || body->ranges[0].len <= GB_HTTP_BLOCK_BYTES);
}

static void add_range(struct gb_http_conn *conn, struct MHD_Response *response)
{
    const struct gb_http_body *body = &conn->request.body;
    char text[96];
    if (body->multipart) {
        (void)snprintf(text, sizeof(text), "multipart/byteranges; boundary=%s", body->boundary);
        gb_http_add_object(conn, response, &conn->request.look.object, text);
        return;
    }
    gb_http_add_object(conn, response, &conn->request.look.object, "");
    if (conn->request.status == 206) {
        (void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                       body->ranges[0].first, body->ranges[0].first + body->ranges[0].len - 1,
                       body->size);
        gb_http_add_field(response, "Content-Range", text);
    }
}

static enum MHD_Result answer_body(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct MHD_Response *response = NULL;
    uint64_t length = gb_http_body_length(conn);
    conn->request.tier = body->from_disk ? GB_METRICS_TIER_disk : GB_METRICS_TIER_ram;
    if (body->ranges[0].len == 0) {
        response = gb_http_empty_response();
    } else if (is_one_chunk(conn)) {
        response = of_chunk(conn);
    } else if (gb_http_has_room(conn, length)) {
        /* It zeroes its block: a short body needs no long one. */
        response = MHD_create_response_from_callback(length, gb_min(length, body->charge),
                                                     gb_http_body_produce, conn, NULL);
    } else {
        gb_http_suspend(conn);
        return MHD_YES;
    }
    if (response != NULL) {
        add_range(conn, response);
    }
    return gb_http_answer(conn, conn->request.status, response);
}

/* The object is not the one any more that was looked at. */
static bool begin_again(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    if (request->body.fault != -ESTALE || ++request->body.tries >= TRIES_MOST ||
        request->look.reading) {
        return false;
    }
    gb_http_body_drop(conn);
    gb_http_object_clear(&request->look.object);
    request->look.begun = request->look.over = false;
    return true;
}

bool gb_http_wants_body(const struct gb_http_conn *conn)
{
    return conn->request.method == GB_HTTP_GET && conn->request.fields.range.at == NULL &&
           !gb_http_has_conditions(conn);
}

static enum MHD_Result go_on(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_body *body = &request->body;
    enum MHD_Result result = MHD_YES;
    if (!gb_http_look(conn, gb_http_wants_body(conn))) {
        gb_http_suspend(conn);
        return MHD_YES;
    }
    if (request->look.result != GOBLIN_OK) {
        request->tier = GB_METRICS_TIER_miss;
        return gb_http_answer_fault(conn, request->look.result);
    }
    if (body->range_count == 0) {
        request->tier = request->look.from_disk ? GB_METRICS_TIER_disk : GB_METRICS_TIER_ram;
        if (judge(conn, &result)) {
            return result;
        }
        if (request->method == GB_HTTP_HEAD) {
            return answer_head(conn);
        }
        result = choose_ranges(conn);
        if (result != MHD_YES || request->answered) {
            return result;
        }
    }
    gb_http_body_read(conn);
    if (body->count > 0 || body->ranges[0].len == 0) {
        return answer_body(conn);
    }
    if (body->fault != 0) {
        if (!begin_again(conn)) {
            return gb_http_answer_fault(conn, body->fault);
        }
        return request->origin != NULL ? gb_http_origin_again(conn) : go_on(conn);
    }
    gb_http_suspend(conn);
    return MHD_YES;
}

enum MHD_Result gb_http_get(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    return go_on(conn);
}
