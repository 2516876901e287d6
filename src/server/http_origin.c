/*
 * GET and HEAD where an origin stands behind the store: is what the store has good enough, and if
 * not, what is the origin asked. docs/protocol.md says it in a client's words.
 *
 *     look up -> fresh -> answer from the store (http_get.c)
 *             -> stale, but it may be used -> validate behind the client, answer from the store
 *             -> none, or stale -> ask, or follow who asks
 *                                  -> answer with what comes (http_origin_answer.c)
 *                                  -> unchanged, or failed and stale will do: look up again
 */
#include "server/http_origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "server/http_internal.h"

/* Of the fields that are sent on. */
#define LINES_MAX 16384u

/* How often what it finds may send a request back to the start before it asks for itself alone. */
#define TRIES_MOST 4u

static enum MHD_Result step(struct gb_http_conn *conn, struct gb_http_input *input);

/* ---- the head of the request --------------------------------------------------------------- */

struct lines {
    struct gb_http_conn *conn;
    char *text;
    size_t len;
    char *via;
    size_t via_len;
    bool full;
};

static void add_text(char *to, size_t *len, bool *full, struct gb_http_text text)
{
    if (text.len > LINES_MAX - 1 - *len) {
        *full = true;
        return;
    }
    if (text.len > 0) {
        memcpy(to + *len, text.at, text.len);
    }
    *len += text.len;
    to[*len] = '\0';
}

static void add_line(struct lines *lines, struct gb_http_text name, struct gb_http_text value)
{
    add_text(lines->text, &lines->len, &lines->full, name);
    add_text(lines->text, &lines->len, &lines->full, GB_HTTP_TEXT(": "));
    add_text(lines->text, &lines->len, &lines->full, value);
    add_text(lines->text, &lines->len, &lines->full, GB_HTTP_TEXT("\n"));
}

static enum MHD_Result collect(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_len,
                               const char *value, size_t value_len)
{
    struct lines *lines = arg;
    struct gb_http_origin *origin = lines->conn->request.origin;
    const struct gb_http_text name = {key, key_len};
    const struct gb_http_text text =
        gb_http_text_trim((struct gb_http_text){value, value == NULL ? 0 : value_len});
    (void)kind;
    if (text.len > 0 && gb_origin_head_asks(name)) {
        add_line(lines, name, text);
    }
    if (text.len > 0 && gb_http_text_same_name(name, GB_HTTP_TEXT("Via"))) {
        const char *own = gb_origin_name(lines->conn->http->origin);
        origin->loops = origin->loops || gb_origin_head_names(text, gb_http_text_of(own));
        add_text(lines->via, &lines->via_len, &lines->full, text);
        add_text(lines->via, &lines->via_len, &lines->full, GB_HTTP_TEXT(", "));
    }
    return MHD_YES;
}

/* Fields that may change nothing of the answer but whether it may be kept. */
static char *make_extra(struct gb_http_conn *conn, const struct lines *lines)
{
    const struct gb_http_fields *fields = &conn->request.fields;
    const bool tells = conn->request.origin->authorized;
    size_t size = lines->via_len + fields->authorization.len + 128;
    char *extra = malloc(size);
    if (extra != NULL) {
        (void)snprintf(extra, size, "Via: %s1.1 %s\n%s%s%.*s%s", lines->via,
                       gb_origin_name(conn->http->origin),
                       fields->cache_control.no_cache ? "Cache-Control: no-cache\n" : "",
                       tells ? "Authorization: " : "", tells ? (int)fields->authorization.len : 0,
                       tells ? fields->authorization.at : "", tells ? "\n" : "");
    }
    return extra;
}

static int read_fields(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    struct lines lines = {.conn = conn, .text = malloc(LINES_MAX), .via = malloc(LINES_MAX)};
    int rc = -ENOMEM;
    if (lines.text != NULL && lines.via != NULL) {
        lines.text[0] = lines.via[0] = '\0';
        (void)MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, collect, &lines);
        origin->lines = strdup(lines.text);
        origin->extra = make_extra(conn, &lines);
        if (origin->lines != NULL && origin->extra != NULL) {
            rc = lines.full ? GOBLIN_EMETA : GOBLIN_OK;
        }
    }
    free(lines.text);
    free(lines.via);
    return rc;
}

/* ---- key and path -------------------------------------------------------------------------- */

static bool is_query(struct gb_http_text query)
{
    for (size_t i = 0; i < query.len; i++) {
        unsigned char c = (unsigned char)query.at[i];
        if (c <= ' ' || c == 0x7f || c == '#') {
            return false;
        }
    }
    return true;
}

int gb_http_origin_key(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    const struct gb_http_text query = request->parts.query;
    if (query.at == NULL) {
        return GOBLIN_OK;
    }
    if (!is_query(query)) {
        return -EINVAL;
    }
    unsigned char *key = realloc(request->key, request->key_len + 1 + query.len + 1);
    if (key == NULL) {
        return -ENOMEM;
    }
    request->key = key;
    key[request->key_len] = '?';
    memcpy(key + request->key_len + 1, query.at, query.len);
    request->key_len += 1 + query.len;
    return GOBLIN_OK;
}

/* Without the query. */
static size_t path_len(const struct gb_http_request *request)
{
    const struct gb_http_text query = request->parts.query;
    return request->key_len - (query.at == NULL ? 0 : query.len + 1);
}

/* An origin may take it for a way out of the path that it was given. */
static bool has_dots(const unsigned char *path, size_t len)
{
    for (size_t begin = 0; begin <= len;) {
        const unsigned char *slash = begin == len ? NULL : memchr(path + begin, '/', len - begin);
        size_t end = slash == NULL ? len : (size_t)(slash - path);
        size_t dots = end - begin;
        if ((dots == 1 || dots == 2) && path[begin] == '.' && path[end - 1] == '.') {
            return true;
        }
        begin = end + 1;
    }
    return false;
}

static int make_path(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_origin *origin = request->origin;
    const struct gb_http_text path = {(const char *)request->key, path_len(request)};
    size_t tail = request->key_len - path.len;
    size_t size = 1 + 3 * path.len + tail + 1;
    origin->path = malloc(size);
    origin->base = malloc(request->key_len + 1);
    if (origin->path == NULL || origin->base == NULL) {
        return -ENOMEM;
    }
    origin->path[0] = '/';
    int64_t len = gb_http_path_encode(path, origin->path + 1, size - 1);
    memcpy(origin->path + 1 + len, request->key + path.len, tail);
    origin->path[1 + (size_t)len + tail] = '\0';
    memcpy(origin->base, request->key, request->key_len);
    origin->base_len = request->key_len;
    /* The key of a path with a query looks the same. */
    origin->unkept = memchr(path.at, '?', path.len) != NULL;
    return GOBLIN_OK;
}

enum MHD_Result gb_http_origin_begin(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    if (has_dots(request->key, path_len(request))) {
        request->step = gb_http_get;
        return MHD_YES;
    }
    request->origin = calloc(1, sizeof(*request->origin));
    if (request->origin == NULL) {
        return gb_http_answer_fault(conn, -ENOMEM);
    }
    /* With tokens of our own the field is for us. */
    request->origin->authorized =
        request->fields.authorization.at != NULL && conn->http->tokens == NULL;
    int rc = make_path(conn);
    rc = rc < 0 ? rc : read_fields(conn);
    if (rc < 0) {
        return gb_http_answer_fault(conn, rc);
    }
    if (request->origin->loops) {
        return gb_http_answer_text(conn, 508, "the request has come back to where it was");
    }
    request->origin->alone = request->origin->unkept || request->origin->authorized ||
                             request->fields.cache_control.no_store;
    request->origin->unstored = request->origin->unkept || request->fields.cache_control.no_store;
    request->step = step;
    return MHD_YES;
}

void gb_http_origin_clean(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    if (origin == NULL) {
        return;
    }
    gb_origin_leave(origin->follower);
    free(origin->path);
    free(origin->lines);
    free(origin->extra);
    free(origin->base);
    free(origin->meta);
    free(origin);
    conn->request.origin = NULL;
}

/* ---- asking -------------------------------------------------------------------------------- */

static void wake(void *arg)
{
    gb_http_resume(arg);
}

int gb_http_origin_ask(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_origin *origin = request->origin;
    const struct gb_origin_ask ask = {
        .key = {request->key, request->key_len},
        .base = {origin->base, origin->base_len},
        .path = origin->path,
        .lines = gb_http_text_of(origin->lines),
        .extra = gb_http_text_of(origin->extra),
        .kept = origin->has_kept ? &origin->kept : NULL,
        .meta = {origin->meta, origin->meta_len},
        .version = origin->version,
        .control = request->fields.cache_control,
        .alone = origin->alone,
        .unstored = origin->unstored,
        .authorized = origin->authorized,
    };
    int rc = gb_origin_follow(conn->http->origin, conn->http->loop, &ask, &origin->follower);
    if (rc >= 0) {
        gb_origin_set_wake(origin->follower, wake, conn);
    }
    return rc;
}

static void leave(struct gb_http_origin *origin)
{
    gb_origin_leave(origin->follower);
    origin->follower = NULL;
}

/* Forgets what was looked up, to ask or to look again. False: its read has to end first, which
 * resumes the connection. */
static bool forget(struct gb_http_conn *conn)
{
    struct gb_http_look *look = &conn->request.look;
    if (look->reading) {
        goblin_cancel(conn->http->loop->reader, &look->request);
    }
    if (look->reading) {
        gb_http_suspend(conn);
        return false;
    }
    gb_http_body_drop(conn);
    gb_http_object_clear(&look->object);
    look->begun = look->over = false;
    return true;
}

static enum MHD_Result again(struct gb_http_conn *conn)
{
    return step(conn, NULL);
}

static enum MHD_Result begin_asking(struct gb_http_conn *conn)
{
    if (conn->request.look.over && !forget(conn)) {
        return MHD_YES;
    }
    int rc = gb_http_origin_ask(conn);
    return rc < 0 ? gb_http_answer_fault(conn, rc) : again(conn);
}

static enum MHD_Result miss(struct gb_http_conn *conn)
{
    conn->request.tier = GB_METRICS_TIER_miss;
    if (conn->request.fields.cache_control.only_if_cached) {
        return gb_http_answer_text(conn, 504, "not in the cache");
    }
    return begin_asking(conn);
}

/* ---- what the store has -------------------------------------------------------------------- */

static int remember(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    const struct gb_http_object *object = &conn->request.look.object;
    free(origin->meta);
    origin->has_kept = false;
    origin->meta_len = object->info.meta_len;
    origin->meta = malloc(origin->meta_len + 1);
    if (origin->meta == NULL) {
        return -ENOMEM;
    }
    if (origin->meta_len > 0) {
        memcpy(origin->meta, object->meta, origin->meta_len);
    }
    gb_origin_head_kept(&origin->kept, origin->meta, origin->meta_len, object->info.expires_ms);
    origin->has_kept = true;
    return GOBLIN_OK;
}

static enum MHD_Result serve(struct gb_http_conn *conn)
{
    conn->request.origin->serves = true;
    return gb_http_get(conn, NULL);
}

static enum MHD_Result serve_stale(struct gb_http_conn *conn)
{
    gb_metrics_add(conn->http->loop->metrics, GB_METRICS_origin_stale, 1);
    return serve(conn);
}

/* Validates it without this client: who fails is the next one's matter. */
static void validate_behind(struct gb_http_conn *conn)
{
    if (remember(conn) >= 0 && gb_http_origin_ask(conn) >= 0) {
        leave(conn->request.origin);
    }
}

/* Which object is meant depends on the request. */
static enum MHD_Result choose_variant(struct gb_http_conn *conn, struct gb_http_text vary)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_origin *origin = request->origin;
    const struct goblin_slice base = {origin->base, origin->base_len};
    int64_t len = gb_origin_head_variant(vary, gb_http_text_of(origin->lines), origin->variant,
                                         sizeof(origin->variant));
    size_t size = origin->base_len + 8;
    unsigned char *key = malloc(size);
    if (key == NULL || len < 0 ||
        !gb_origin_place(base, (struct gb_http_text){origin->variant, (size_t)len}, key, size,
                         &request->key_len)) {
        free(key);
        origin->unstored = origin->alone = true;
        return key == NULL ? gb_http_answer_fault(conn, -ENOMEM) : miss(conn);
    }
    free(request->key);
    request->key = key;
    origin->variant_len = (size_t)len;
    origin->has_variant = true;
    origin->version = 0;
    origin->anew = true;
    return again(conn);
}

static bool is_variant(const struct gb_http_origin *origin, const struct gb_origin_kept *kept)
{
    if (!origin->has_variant) {
        return kept->variant.at == NULL;
    }
    return gb_http_text_equal(kept->variant,
                              (struct gb_http_text){origin->variant, origin->variant_len});
}

static enum MHD_Result judge(struct gb_http_conn *conn, const struct gb_origin_kept *kept)
{
    struct gb_http_origin *origin = conn->request.origin;
    int64_t now_s = conn->http->loop->wall_ms / 1000;
    if (origin->validated) {
        return serve(conn);
    }
    if (origin->takes_stale) {
        return serve_stale(conn);
    }
    switch (gb_cache_control_use(&kept->cache, &conn->request.fields.cache_control, now_s)) {
    case GB_CACHE_FRESH:
        return serve(conn);
    case GB_CACHE_BEHIND:
        validate_behind(conn);
        return serve_stale(conn);
    case GB_CACHE_IMPOSSIBLE:
        return gb_http_answer_text(conn, 504, "what is in the cache is not fresh");
    case GB_CACHE_VALIDATE:
        break;
    }
    conn->request.tier = GB_METRICS_TIER_miss;
    if (remember(conn) < 0) {
        return gb_http_answer_fault(conn, -ENOMEM);
    }
    return begin_asking(conn);
}

/* Whatever keeps the store from answering is no reason not to ask. */
static enum MHD_Result decide(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    const struct gb_http_object *object = &conn->request.look.object;
    struct gb_origin_kept kept;
    if (conn->request.look.result != GOBLIN_OK) {
        origin->version = 0;
        return miss(conn);
    }
    gb_origin_head_kept(&kept, object->meta, object->info.meta_len, object->info.expires_ms);
    origin->version = object->info.version;
    if (kept.is_vary && !origin->has_variant) {
        return choose_variant(conn, kept.vary);
    }
    if (kept.is_vary || (kept.is_object && !is_variant(origin, &kept))) {
        return miss(conn);
    }
    if (!kept.is_object) {
        return serve(conn);
    }
    return judge(conn, &kept);
}

/* ---- what the origin says ------------------------------------------------------------------ */

static bool stale_will_do(const struct gb_http_conn *conn)
{
    const struct gb_http_origin *origin = conn->request.origin;
    return origin->has_kept && !origin->takes_stale &&
           gb_cache_control_use_on_error(&origin->kept.cache, &conn->request.fields.cache_control,
                                         conn->http->loop->wall_ms / 1000);
}

static enum MHD_Result look_again(struct gb_http_conn *conn)
{
    leave(conn->request.origin);
    return again(conn);
}

static enum MHD_Result failed(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    int status = gb_origin_failure(origin->follower);
    if (stale_will_do(conn)) {
        origin->takes_stale = true; /* once */
        return look_again(conn);
    }
    leave(origin);
    return gb_http_answer_text(conn, status,
                               status == 504 ? "the origin does not answer"
                                             : "the origin cannot be reached, or gives no answer");
}

static bool is_error(int status)
{
    return status == 500 || status == 502 || status == 503 || status == 504;
}

/* Somebody else's variant: which is ours is known now. */
static bool is_ours(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    const struct gb_origin_head *head = gb_origin_head(origin->follower);
    char own[GB_ORIGIN_HEAD_VARIANT_MAX];
    struct goblin_slice meta;
    /* What is not kept was given to this one alone. */
    if (head->vary_lines == 0 || gb_origin_keeps(origin->follower, &meta) == NULL) {
        return true;
    }
    int64_t len =
        gb_origin_head_variant(head->vary, gb_http_text_of(origin->lines), own, sizeof(own));
    return len >= 0 && gb_http_text_equal((struct gb_http_text){own, (size_t)len},
                                          gb_origin_variant(origin->follower));
}

static enum MHD_Result answered(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    const struct gb_origin_head *head = gb_origin_head(origin->follower);
    if (is_error(head->cache.status) && stale_will_do(conn)) {
        origin->takes_stale = true;
        return look_again(conn);
    }
    if (!is_ours(conn)) {
        struct gb_origin_follower *others = origin->follower;
        origin->follower = NULL;
        origin->has_kept = false;
        origin->alone = ++origin->tries >= TRIES_MOST;
        enum MHD_Result result = choose_variant(conn, head->vary);
        gb_origin_leave(others);
        return result;
    }
    return gb_http_origin_answer(conn);
}

static enum MHD_Result follow(struct gb_http_conn *conn)
{
    struct gb_http_origin *origin = conn->request.origin;
    switch (gb_origin_state(origin->follower)) {
    case GB_ORIGIN_ASKING:
        gb_http_suspend(conn);
        return MHD_YES;
    case GB_ORIGIN_ANSWERED:
        return answered(conn);
    case GB_ORIGIN_REFUSED:
        leave(origin);
        origin->alone = true;
        return begin_asking(conn);
    case GB_ORIGIN_SAME:
        origin->validated = true;
        origin->alone = ++origin->tries >= TRIES_MOST;
        origin->has_kept = false;
        return look_again(conn);
    case GB_ORIGIN_FAILED:
        break;
    }
    return failed(conn);
}

static enum MHD_Result step(struct gb_http_conn *conn, struct gb_http_input *input)
{
    struct gb_http_origin *origin = conn->request.origin;
    if (origin->serves) {
        return gb_http_get(conn, input);
    }
    if (origin->anew && !forget(conn)) {
        return MHD_YES;
    }
    origin->anew = false;
    if (origin->follower != NULL) {
        return follow(conn);
    }
    if (origin->unkept) {
        return begin_asking(conn);
    }
    if (!gb_http_look(conn, gb_http_wants_body(conn))) {
        gb_http_suspend(conn);
        return MHD_YES;
    }
    return decide(conn);
}

enum MHD_Result gb_http_origin_again(struct gb_http_conn *conn)
{
    conn->request.origin->serves = false;
    return again(conn);
}
