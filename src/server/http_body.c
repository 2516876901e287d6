/*
 * An object's bytes, or parts of it, as the client takes them.
 *
 * The reader brings chunks, which are held where they are until libmicrohttpd has copied them to
 * its block and the socket. A client that takes nothing for limits.hold_ms must not keep them: what
 * it has not taken is copied if the budget has room, else dropped, and read again, in small
 * windows, when it takes more. If the object is another one by then the connection is closed: half
 * of one and half of the other is no answer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/rng.h"
#include "proto/http_meta.h"
#include "server/conn.h"
#include "server/http_internal.h"
#include "server/http_socket.h"

#define WINDOW_LEAST (64 * GB_KIB)
#define WINDOW_MOST  (8 * GB_MIB)

static struct gb_http_conn *conn_of(struct gb_http_body *body)
{
    struct gb_http_request *request =
        (struct gb_http_request *)(void *)((char *)body - offsetof(struct gb_http_request, body));
    return (struct gb_http_conn *)(void *)((char *)request -
                                           offsetof(struct gb_http_conn, request));
}

static uint64_t range_end(const struct gb_http_body *body)
{
    return body->ranges[body->range].first + body->ranges[body->range].len;
}

/* ---- parts --------------------------------------------------------------------------------- */

static void put_part_head(struct gb_http_body *body)
{
    const struct gb_http_range *range = &body->ranges[body->range];
    int len = snprintf(body->text, sizeof(body->text),
                       "\r\n--%s\r\nContent-Type: %s\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64
                       "/%" PRIu64 "\r\n\r\n",
                       body->boundary, body->type, range->first, range->first + range->len - 1,
                       body->size);
    GB_ASSERT(len > 0 && (size_t)len < sizeof(body->text));
    body->text_len = (size_t)len;
    body->text_gone = 0;
}

static void put_end(struct gb_http_body *body)
{
    int len = snprintf(body->text, sizeof(body->text), "\r\n--%s--\r\n", body->boundary);
    body->text_len = (size_t)len;
    body->text_gone = 0;
    body->ended = true;
}

static void begin_range(struct gb_http_body *body)
{
    body->at = body->gone = body->ranges[body->range].first;
    if (body->multipart) {
        put_part_head(body);
    }
}

uint64_t gb_http_body_length(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    uint64_t sum = 0;
    for (body->range = 0; body->range < body->range_count; body->range++) {
        sum += body->ranges[body->range].len;
        if (body->multipart) {
            put_part_head(body);
            sum += body->text_len;
        }
    }
    if (body->multipart) {
        put_end(body);
        sum += body->text_len;
        body->ended = false;
    }
    body->range = 0;
    if (body->multipart) {
        put_part_head(body);
    }
    return sum;
}

static void name_boundary(struct gb_http_conn *conn)
{
    uint64_t state = gb_loop_clock_ns() ^ conn->request.body.version;
    uint64_t a = gb_rng_split(&state) ^ (uintptr_t)conn;
    uint64_t b = gb_rng_split(&state);
    (void)snprintf(conn->request.body.boundary, sizeof(conn->request.body.boundary),
                   "%016" PRIx64 "%016" PRIx64, gb_rng_mix(a), b);
}

/* ---- chunks -------------------------------------------------------------------------------- */

static void free_chunk(struct gb_http_conn *conn, struct gb_http_chunk *chunk)
{
    struct gb_loop *loop = conn->http->loop;
    if (chunk->copy != NULL) {
        free(chunk->copy);
        gb_loop_give_bytes(loop, chunk->charge);
    } else {
        goblin_release(loop->reader, chunk->hold);
        gb_loop_touch_reader(loop);
    }
}

static void drop_first(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_http_chunk chunk = body->chunks[body->first];
    body->first = (body->first + 1) % GB_HTTP_HELD_MAX;
    body->count--;
    free_chunk(conn, &chunk);
}

static struct gb_http_chunk *add_chunk(struct gb_http_body *body, const struct goblin_chunk *chunk)
{
    struct gb_http_chunk *at = &body->chunks[(body->first + body->count) % GB_HTTP_HELD_MAX];
    *at = (struct gb_http_chunk){
        .data = chunk->data, .len = chunk->len, .offset = chunk->offset, .hold = chunk->hold};
    body->count++;
    return at;
}

static bool copy_chunk(struct gb_loop *loop, struct gb_http_chunk *chunk, size_t len)
{
    if (!gb_limits_take(loop->limits, len)) {
        return false;
    }
    unsigned char *copy = malloc(len);
    if (copy == NULL) {
        gb_loop_give_bytes(loop, len);
        return false;
    }
    memcpy(copy, chunk->data, len);
    chunk->data = chunk->copy = copy;
    chunk->len = len;
    chunk->charge = len;
    return true;
}

/* The client was too slow: nothing of it stays in the reader's buffers. */
static void park(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_loop *loop = conn->http->loop;
    if (body->active != NULL) {
        body->parking = true;
        goblin_cancel(loop->reader, body->active);
    }
    uint64_t kept = body->gone;
    struct gb_http_chunk *first = &body->chunks[body->first];
    if (first->copy == NULL) {
        const struct gb_http_chunk held = *first;
        if (copy_chunk(loop, first, gb_min(first->len, loop->limits->set.output_bytes))) {
            goblin_release(loop->reader, held.hold);
            gb_metrics_add(loop->metrics, GB_METRICS_holds_copied, 1);
        }
    }
    size_t keep = first->copy != NULL ? 1 : 0;
    kept += keep == 1 ? first->len : 0;
    while (body->count > keep) {
        struct gb_http_chunk *last =
            &body->chunks[(body->first + body->count - 1) % GB_HTTP_HELD_MAX];
        body->count--;
        free_chunk(conn, last);
        gb_metrics_add(loop->metrics, GB_METRICS_holds_dropped, 1);
    }
    gb_loop_touch_reader(loop);
    body->at = kept;
    body->window = WINDOW_LEAST;
}

/* Within hold_ms a client that keeps up takes a short block, of which long ones are several. */
static bool keeps_up(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    if (body->gone != body->seen_gone) {
        body->seen_gone = body->gone;
        return true;
    }
    uint64_t acked = gb_http_socket_acknowledged(conn->fd);
    bool moves = acked - body->seen_acked >= GB_HTTP_BLOCK_BYTES;
    body->seen_acked = acked;
    return moves;
}

static void hold_fired(struct gb_deadline *deadline)
{
    struct gb_http_body *body =
        (struct gb_http_body *)(void *)((char *)deadline - offsetof(struct gb_http_body, hold));
    struct gb_http_conn *conn = conn_of(body);
    struct gb_loop *loop = conn->http->loop;
    if (body->count == 0 || body->fixed) {
        return;
    }
    if (!keeps_up(conn)) {
        park(conn);
        return;
    }
    gb_loop_arm(loop, &body->hold, loop->now_ms + loop->limits->set.hold_ms);
}

/* ---- reading ------------------------------------------------------------------------------- */

int gb_http_body_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_body *body = &conn->request.body;
    struct gb_loop *loop = conn->http->loop;
    if (conn->request.abandoned || body->parking) {
        return GOBLIN_CHUNK_STOP;
    }
    if (chunk->info->version != body->version) {
        body->fault = -ESTALE;
        return GOBLIN_CHUNK_STOP;
    }
    if (body->count == GB_HTTP_HELD_MAX) {
        body->parking = true; /* read on when these have gone */
        return GOBLIN_CHUNK_STOP;
    }
    body->at = chunk->offset + chunk->len;
    body->from_disk = body->from_disk || !chunk->resident;
    gb_http_resume(conn);
    if (chunk->len == 0) {
        return GOBLIN_CHUNK_DONE;
    }
    struct gb_http_chunk *at = add_chunk(body, chunk);
    if (chunk->len <= GB_HTTP_COPY_BYTES && copy_chunk(loop, at, chunk->len)) {
        return GOBLIN_CHUNK_DONE;
    }
    if (!gb_wheel_is_armed(&body->hold)) {
        body->hold.fire = hold_fired;
        body->seen_gone = body->gone;
        gb_loop_arm(loop, &body->hold, loop->now_ms + loop->limits->set.hold_ms);
    }
    return GOBLIN_CHUNK_HOLD;
}

/* For the look too, which has told of what it found. */
void gb_http_body_done(void *arg, int result, const struct goblin_info *info)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_body *body = &conn->request.body;
    (void)info;
    body->active = NULL;
    if (body->parking) {
        body->parking = false;
    } else if (result != GOBLIN_OK && body->fault == 0) {
        body->fault = result == GOBLIN_MISS ? -ESTALE : result;
    }
}

static void read_done(void *arg, int result, const struct goblin_info *info)
{
    struct gb_http_conn *conn = arg;
    gb_loop_request_ended(conn->http->loop);
    gb_http_body_done(conn, result, info);
    if (conn->request.abandoned) {
        gb_http_clean(conn);
    } else {
        gb_http_resume(conn);
    }
    gb_http_unref(conn);
}

static void submit(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_loop *loop = conn->http->loop;
    uint64_t len = range_end(body) - body->at;
    if (body->window > 0) {
        gb_metrics_add(loop->metrics, GB_METRICS_sends_resumed, 1);
        len = gb_min(len, body->window);
        body->window = gb_min(body->window * 2, WINDOW_MOST);
    }
    body->request = (struct goblin_request){
        .key = {conn->request.key, conn->request.key_len},
        .offset = body->at,
        .length = len,
        .ahead = GB_HTTP_AHEAD,
        .on_chunk = gb_http_body_chunk,
        .on_done = read_done,
        .arg = conn,
    };
    body->active = &body->request;
    gb_http_ref(conn);
    int rc = gb_backend_read(loop, &body->request);
    if (rc == GOBLIN_OK) {
        return;
    }
    body->active = NULL;
    gb_http_unref(conn);
    if (rc == -EAGAIN) {
        body->waiting = true;
        gb_metrics_add(loop->metrics, GB_METRICS_waits_request, 1);
        gb_loop_wait(&loop->request_line, &body->waiter);
        return;
    }
    body->fault = rc;
}

static void woken(struct gb_waiter *waiter)
{
    struct gb_http_body *body =
        (struct gb_http_body *)(void *)((char *)waiter - offsetof(struct gb_http_body, waiter));
    struct gb_http_conn *conn = conn_of(body);
    body->waiting = false;
    submit(conn);
    if (!body->waiting) {
        gb_http_resume(conn);
    }
}

void gb_http_body_read(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    if (body->active == NULL && !body->waiting && body->count == 0 && body->fault == 0 &&
        body->range < body->range_count && body->at < range_end(body)) {
        submit(conn);
    }
}

int gb_http_body_init(struct gb_http_conn *conn, const struct gb_http_range *ranges, size_t count,
                      const char *type)
{
    struct gb_http_body *body = &conn->request.body;
    const struct gb_http_object *object = &conn->request.look.object;
    body->ranges = malloc(count * sizeof(*ranges));
    if (body->ranges == NULL) {
        return -ENOMEM;
    }
    memcpy(body->ranges, ranges, count * sizeof(*ranges));
    body->range_count = count;
    body->version = object->info.version;
    body->size = object->info.size;
    body->waiter.wake = woken;
    body->multipart = count > 1;
    (void)snprintf(body->type, sizeof(body->type), "%s", type);
    if (body->multipart) {
        name_boundary(conn);
    }
    if (body->at == 0) { /* else the look has brought bytes of the only range already */
        begin_range(body);
    }
    return GOBLIN_OK;
}

/* ---- going out ----------------------------------------------------------------------------- */

static size_t take_text(struct gb_http_body *body, char *to, size_t most)
{
    size_t len = gb_min(most, body->text_len - body->text_gone);
    memcpy(to, body->text + body->text_gone, len);
    body->text_gone += len;
    return len;
}

static size_t take_bytes(struct gb_http_conn *conn, char *to, size_t most)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_http_chunk *chunk = &body->chunks[body->first];
    size_t len = gb_min(most, chunk->len);
    memcpy(to, chunk->data, len);
    chunk->data += len;
    chunk->len -= len;
    body->gone += len;
    if (chunk->len == 0) {
        drop_first(conn);
    }
    return len;
}

/* What comes next, or 0 if it has not come yet. */
static size_t take(struct gb_http_conn *conn, char *to, size_t most)
{
    struct gb_http_body *body = &conn->request.body;
    for (;;) {
        if (body->text_gone < body->text_len) {
            return take_text(body, to, most);
        }
        if (body->range == body->range_count) {
            if (!body->multipart || body->ended) {
                return 0;
            }
            put_end(body);
        } else if (body->gone == range_end(body)) {
            if (++body->range < body->range_count) {
                begin_range(body);
            }
        } else if (body->count > 0) {
            return take_bytes(conn, to, most);
        } else {
            return 0;
        }
    }
}

static bool is_through(const struct gb_http_body *body)
{
    return body->range == body->range_count && (!body->multipart || body->ended) &&
           body->text_gone == body->text_len;
}

ssize_t gb_http_body_produce(void *arg, uint64_t position, char *to, size_t most)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_body *body = &conn->request.body;
    (void)position;
    for (;;) {
        size_t len = take(conn, to, most);
        if (len > 0) {
            conn->request.bytes_out += len;
            gb_http_body_read(conn); /* so that it is there when it is asked for */
            return (ssize_t)len;
        }
        if (is_through(body)) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        gb_http_body_read(conn);
        if (body->count > 0) {
            continue;
        }
        if (body->fault != 0) {
            gb_http_cut(conn, body->fault == -ESTALE ? GB_CONN_END_changed : GB_CONN_END_broken);
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        gb_http_suspend(conn);
        return 0;
    }
}

void gb_http_body_drop(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    while (body->count > 0) {
        drop_first(conn);
    }
    free(body->ranges);
    body->ranges = NULL;
    body->range_count = body->range = 0;
    body->at = body->gone = 0;
    body->fault = 0;
    body->text_len = body->text_gone = 0;
}

void gb_http_body_clean(struct gb_http_conn *conn)
{
    struct gb_http_body *body = &conn->request.body;
    struct gb_loop *loop = conn->http->loop;
    gb_wheel_drop(&loop->wheel, &body->hold);
    gb_loop_leave(&loop->request_line, &body->waiter);
    gb_loop_leave(&loop->bytes_line, &body->room_waiter);
    gb_loop_give_bytes(loop, body->charge);
    body->charge = 0;
    body->waiting = false;
    while (body->count > 0) {
        drop_first(conn);
    }
    if (body->active != NULL) {
        body->parking = true; /* nobody wants to hear how it ended */
        goblin_cancel(loop->reader, body->active);
    }
}
