/*
 * Answers with what an origin sends, as it comes: see http_origin.c.
 *
 * What is stored on the way is told of as it will be from the store; what is not, as the origin
 * told of it. One range of an answer whose length is known is cut out of it as it passes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "server/conn.h"
#include "server/http_internal.h"

/* ---- fields -------------------------------------------------------------------------------- */

static void add_via(struct gb_http_conn *conn, struct MHD_Response *response)
{
    char via[64];
    (void)snprintf(via, sizeof(via), "1.1 %s", gb_origin_name(conn->http->origin));
    gb_http_add_field(response, "Via", via);
}

bool gb_http_origin_etag(const struct gb_http_object *object, char *etag, size_t size)
{
    struct gb_origin_kept kept;
    gb_origin_head_kept(&kept, object->meta, object->info.meta_len, object->info.expires_ms);
    if (!kept.is_object) {
        return false;
    }
    (void)snprintf(etag, size, "%.*s", (int)kept.etag.len,
                   kept.etag.at != NULL ? kept.etag.at : "");
    return true;
}

bool gb_http_origin_add_age(struct gb_http_conn *conn, struct MHD_Response *response,
                            const struct gb_http_object *object)
{
    struct gb_origin_kept kept;
    gb_origin_head_kept(&kept, object->meta, object->info.meta_len, object->info.expires_ms);
    if (!kept.is_object) {
        return false;
    }
    int64_t now_s = conn->http->loop->wall_ms / 1000;
    gb_http_add_number(response, "Age", (uint64_t)gb_cache_control_age(&kept.cache, now_s));
    if (kept.has_expires) {
        gb_http_add_date(response, "Expires", (kept.birth_s + kept.lifetime_s) * 1000);
    }
    if (conn->http->origin != NULL) {
        add_via(conn, response);
    }
    return true;
}

/* The origin's own fields. */
static void add_lines(struct gb_http_conn *conn, struct MHD_Response *response,
                      const struct gb_origin_head *head)
{
    struct gb_http_text lines = head->lines;
    struct gb_http_text name;
    struct gb_http_text value;
    while (gb_origin_head_next(&lines, &name, &value)) {
        char *line = NULL;
        if (gb_origin_head_passes(head->lines, name) &&
            asprintf(&line, "%.*s:%.*s", (int)name.len, name.at, (int)value.len, value.at) > 0) {
            line[name.len] = '\0';
            gb_http_add_field(response, line, line + name.len + 1);
        }
        free(line);
    }
    int64_t age_s = gb_cache_control_age(&head->cache, conn->http->loop->wall_ms / 1000);
    if (age_s > 0) {
        gb_http_add_number(response, "Age", (uint64_t)age_s);
    }
    add_via(conn, response);
}

/* ---- going out ----------------------------------------------------------------------------- */

/* It fell behind what the window holds, and all is stored now. */
static int go_to_store(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_origin *origin = request->origin;
    struct goblin_slice key;
    struct goblin_info info;
    gb_origin_stored(origin->follower, &key, &info);
    unsigned char *copy = malloc(key.len + 1);
    if (copy == NULL) {
        return -ENOMEM;
    }
    memcpy(copy, key.data, key.len);
    free(request->key);
    request->key = copy;
    request->key_len = key.len;
    request->look.object.info.version = info.version;
    request->look.object.info.size = info.size;
    const struct gb_http_range rest = {origin->at, gb_min(origin->end, info.size) - origin->at};
    origin->from_store = true;
    return gb_http_body_init(conn, &rest, 1, "");
}

static ssize_t cut(struct gb_http_conn *conn)
{
    gb_http_cut(conn, GB_CONN_END_broken);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* The store has failed, and what this client lacks has gone by: it is fetched once more, for it
 * alone, if the origin's tag says that it is the same. */
static ssize_t fetch_again(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    const char *etag = conn->request.look.object.etag;
    if (origin->resumed || etag[0] != '"') {
        return cut(conn);
    }
    gb_origin_leave(origin->follower);
    origin->follower = NULL;
    origin->alone = origin->unstored = origin->resumes = origin->resumed = true;
    origin->has_kept = false;
    if (gb_http_origin_ask(conn) < 0) {
        return cut(conn);
    }
    return 1;
}

static bool is_same(const struct gb_http_conn *conn)
{
    const struct gb_http_object *object = &conn->request.look.object;
    const struct gb_origin_head *head = gb_origin_head(conn->request.origin->follower);
    return head->cache.status == 200 && head->length == object->info.size &&
           gb_http_text_equal(head->etag, gb_http_text_of(object->etag));
}

/* Whether the second answer has come and is the first one's: 1; 0: not yet. */
static ssize_t look_at_second(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    switch (gb_origin_state(origin->follower)) {
    case GB_ORIGIN_ASKING:
        gb_http_suspend(conn);
        return 0;
    case GB_ORIGIN_ANSWERED:
        origin->resumes = false;
        return is_same(conn) ? 1 : cut(conn);
    default:
        return cut(conn);
    }
}

static ssize_t produce(void *arg, uint64_t position, char *to, size_t most)
{
    struct gb_http_conn *conn = arg;
    struct gb_http_origin *origin = conn->request.origin;
    if (origin->from_store) {
        return gb_http_body_produce(conn, position, to, most);
    }
    if (origin->at == origin->end) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    ssize_t goes = origin->resumes ? look_at_second(conn) : 1;
    if (goes != 1) {
        return goes;
    }
    most = (size_t)gb_min(most, origin->end - origin->at);
    ssize_t len = gb_origin_read(origin->follower, origin->at, to, most);
    if (len > 0) {
        origin->at += (uint64_t)len;
        conn->request.bytes_out += (uint64_t)len;
        return len;
    }
    switch (len) {
    case GB_ORIGIN_END:
        return origin->end == UINT64_MAX ? MHD_CONTENT_READER_END_OF_STREAM : cut(conn);
    case GB_ORIGIN_WAIT:
        gb_http_suspend(conn);
        return 0;
    case GB_ORIGIN_LOST:
        goes = fetch_again(conn);
        return goes == 1 ? produce(conn, position, to, most) : goes;
    case GB_ORIGIN_STORED:
        return go_to_store(conn) < 0 ? cut(conn) : gb_http_body_produce(conn, position, to, most);
    default:
        return cut(conn);
    }
}

/* ---- which bytes --------------------------------------------------------------------------- */

/* Sets out at and end. Returns the status. */
static int choose_range(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_origin *origin = request->origin;
    const struct gb_origin_head *head = gb_origin_head(origin->follower);
    const struct gb_http_object *object = &request->look.object;
    struct gb_http_ranges ranges = {.count = 0};
    origin->at = 0;
    origin->end = head->length;
    if (head->cache.status != 200 || head->length == GB_ORIGIN_HEAD_LENGTH_UNKNOWN ||
        request->method != GB_HTTP_GET ||
        !gb_http_range_if(request->fields.if_range, gb_http_text_of(object->etag),
                          object->modified_ms / 1000, conn->http->loop->wall_ms / 1000)) {
        return head->cache.status;
    }
    switch (gb_http_range_resolve(request->fields.range, head->length, &ranges)) {
    case GB_HTTP_RANGE_WHOLE:
        return 200;
    case GB_HTTP_RANGE_NONE:
        return 416;
    case GB_HTTP_RANGE_PART:
        break;
    }
    if (ranges.count > 1) {
        return 200; /* a server may pass a Range over, and this is the only time we do */
    }
    origin->at = ranges.at[0].first;
    origin->end = ranges.at[0].first + ranges.at[0].len;
    return 206;
}

static void add_range(struct gb_http_conn *conn, struct MHD_Response *response, int status)
{
    const struct gb_http_origin *origin = conn->request.origin;
    uint64_t length = gb_origin_head(origin->follower)->length;
    char text[96];
    if (status == 206) {
        (void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, origin->at,
                       origin->end - 1, length);
        gb_http_add_field(response, "Content-Range", text);
    } else if (status == 416) {
        (void)snprintf(text, sizeof(text), "bytes */%" PRIu64, length);
        gb_http_add_field(response, "Content-Range", text);
    }
}

/* ---- the answer ---------------------------------------------------------------------------- */

/* As it would be found in the store. */
static void fill_object(struct gb_http_conn *conn, bool *keeps)
{
    struct gb_http_origin *origin = conn->request.origin;
    struct gb_http_object *object = &conn->request.look.object;
    const struct gb_origin_head *head = gb_origin_head(origin->follower);
    struct goblin_slice meta;
    const struct gb_origin_kept *kept = gb_origin_keeps(origin->follower, &meta);
    struct goblin_info info = {.size = head->length};
    *keeps = kept != NULL;
    if (kept != NULL) {
        info.expires_ms = (kept->birth_s + kept->kept_s) * 1000;
        gb_http_object_fill(object, &info, meta);
        return;
    }
    gb_http_object_fill(object, &info, (struct goblin_slice){NULL, 0});
    (void)snprintf(object->etag, sizeof(object->etag), "%.*s", (int)head->etag.len,
                   head->etag.at != NULL ? head->etag.at : "");
    object->modified_ms =
        head->cache.modified_s == GB_CACHE_CONTROL_ABSENT ? -1 : head->cache.modified_s * 1000;
}

static void add_fields(struct gb_http_conn *conn, struct MHD_Response *response, bool keeps,
                       const char *type)
{
    if (response == NULL) {
        return;
    }
    if (keeps) {
        gb_http_add_object(conn, response, &conn->request.look.object, type);
    } else {
        add_lines(conn, response, gb_origin_head(conn->request.origin->follower));
    }
}

/* A condition of the client's decides; it was not sent to the origin. */
static enum gb_http_verdict judge(struct gb_http_conn *conn)
{
    int status = gb_origin_head(conn->request.origin->follower)->cache.status;
    return status == 200 ? gb_http_judge(conn, &conn->request.look.object, true) : GB_HTTP_PROCEED;
}

static bool has_body(const struct gb_http_origin *origin, int status)
{
    return status != 204 && status != 205 && status != 416 && origin->at != origin->end;
}

static enum MHD_Result answer_body(struct gb_http_conn *conn, bool keeps)
{
    struct gb_http_origin *origin = conn->request.origin;
    int status = choose_range(conn);
    struct MHD_Response *response = NULL;
    if (!has_body(origin, status)) {
        response = gb_http_empty_response();
    } else if (conn->request.method == GB_HTTP_HEAD || gb_http_has_room(conn, 0)) {
        uint64_t size = origin->end == UINT64_MAX ? MHD_SIZE_UNKNOWN : origin->end - origin->at;
        response =
            MHD_create_response_from_callback(size, GB_HTTP_BLOCK_BYTES, produce, conn, NULL);
    } else {
        gb_origin_wait(origin->follower);
        gb_http_suspend(conn);
        return MHD_YES;
    }
    add_fields(conn, response, keeps, status == 416 ? NULL : "");
    add_range(conn, response, status);
    return gb_http_answer(conn, status, response);
}

enum MHD_Result gb_http_origin_answer(struct gb_http_conn *conn)
{
    bool keeps = false;
    fill_object(conn, &keeps);
    conn->request.tier = GB_METRICS_TIER_miss;
    switch (judge(conn)) {
    case GB_HTTP_NOT_MODIFIED: {
        struct MHD_Response *response = gb_http_empty_response();
        add_fields(conn, response, keeps, NULL);
        return gb_http_answer(conn, 304, response);
    }
    case GB_HTTP_PRECONDITION_FAILED:
        return gb_http_answer_text(conn, 412, "a condition does not hold");
    case GB_HTTP_PROCEED:
    case GB_HTTP_BAD_CONDITION:
        break;
    }
    return answer_body(conn, keeps);
}
