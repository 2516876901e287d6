/* From a request's head to who deals with it, and what it leaves behind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "server/conn.h"
#include "server/http_internal.h"
#include "server/log.h"
#include "server/server.h"

#define ALLOW_ALL  "GET, HEAD, PUT, DELETE, OPTIONS"
#define ALLOW_READ "GET, HEAD, OPTIONS"

/* ---- fields -------------------------------------------------------------------------------- */

struct collector {
    struct gb_http_fields *fields;
};

/* Adds another line to a list. */
static void join(struct gb_http_fields *fields, struct gb_http_text *list,
                 struct gb_http_text value)
{
    if (list->at == NULL) {
        *list = value;
        return;
    }
    /* Rare, so the memory of the former lines simply stays until the request is over: each block
     * begins with the way to the one before. */
    size_t len = list->len + 2 + value.len;
    char *block = malloc(sizeof(char *) + len);
    if (block == NULL) {
        fields->no_memory = true;
        return;
    }
    memcpy(block, &fields->joined, sizeof(char *));
    fields->joined = block;
    char *text = block + sizeof(char *);
    memcpy(text, list->at, list->len);
    text[list->len] = ',';
    text[list->len + 1] = ' ';
    if (value.len > 0) {
        memcpy(text + list->len + 2, value.at, value.len);
    }
    *list = (struct gb_http_text){text, len};
}

static void free_joined(struct gb_http_fields *fields)
{
    while (fields->joined != NULL) {
        char *block = fields->joined;
        memcpy(&fields->joined, block, sizeof(char *));
        free(block);
    }
}

static bool is_field_value(struct gb_http_text value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Fields that may come once only; the others in the table are lists. */
static void keep_field(struct gb_http_fields *fields, struct gb_http_text name,
                       struct gb_http_text value)
{
    const struct {
        struct gb_http_text name;
        struct gb_http_text *field;
        bool list;
    } known[] = {
        {GB_HTTP_TEXT("Host"), &fields->host, false},
        {GB_HTTP_TEXT("Range"), &fields->range, false},
        {GB_HTTP_TEXT("If-Range"), &fields->if_range, false},
        {GB_HTTP_TEXT("If-Match"), &fields->conditions.if_match, true},
        {GB_HTTP_TEXT("If-None-Match"), &fields->conditions.if_none_match, true},
        {GB_HTTP_TEXT("If-Modified-Since"), &fields->conditions.if_modified_since, true},
        {GB_HTTP_TEXT("If-Unmodified-Since"), &fields->conditions.if_unmodified_since, true},
        {GB_HTTP_TEXT("Content-Length"), &fields->content_length, false},
        {GB_HTTP_TEXT("Transfer-Encoding"), &fields->transfer_encoding, true},
        {GB_HTTP_TEXT("Content-Range"), &fields->content_range, false},
        {GB_HTTP_TEXT("Content-Type"), &fields->content_type, false},
        {GB_HTTP_TEXT("Expect"), &fields->expect, true},
        {GB_HTTP_TEXT("Authorization"), &fields->authorization, false},
        {GB_HTTP_TEXT("Origin"), &fields->origin, false},
        {GB_HTTP_TEXT("Goblin-TTL"), &fields->ttl, false},
        {GB_HTTP_TEXT("Goblin-Durability"), &fields->durability, false},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!gb_http_text_same_name(name, known[i].name)) {
            continue;
        }
        if (known[i].list) {
            join(fields, known[i].field, value);
        } else if (known[i].field->at != NULL) {
            fields->bad = true;
        } else {
            *known[i].field = value;
        }
        return;
    }
    if (gb_http_text_same_name(name, GB_HTTP_TEXT("Cache-Control"))) {
        gb_cache_control_add(&fields->cache_control, value);
    }
}

static enum MHD_Result collect_field(void *arg, enum MHD_ValueKind kind, const char *key,
                                     size_t key_len, const char *value, size_t value_len)
{
    struct collector *collector = arg;
    (void)kind;
    const struct gb_http_text name = {key, key_len};
    const struct gb_http_text text = {value != NULL ? value : "", value != NULL ? value_len : 0};
    if (!gb_http_text_is_token(name) || !is_field_value(text)) {
        collector->fields->bad = true;
        return MHD_NO;
    }
    keep_field(collector->fields, name, gb_http_text_trim(text));
    return MHD_YES;
}

/* Where a request ends must be beyond doubt: else what follows could be taken for another one. */
static int judge_framing(const struct gb_http_fields *fields, bool is_1_0)
{
    uint64_t length = 0;
    if (fields->transfer_encoding.at != NULL) {
        if (fields->content_length.at != NULL || is_1_0) {
            return 400;
        }
        return gb_http_text_same_name(fields->transfer_encoding, GB_HTTP_TEXT("chunked")) ? 0 : 501;
    }
    if (fields->content_length.at == NULL) {
        return 0;
    }
    switch (gb_http_text_number(fields->content_length, &length)) {
    case 0:
        return 0;
    case -ERANGE:
        return 413;
    default:
        return 400;
    }
}

/* ---- where to ------------------------------------------------------------------------------ */

static enum gb_http_method method_of(const char *name)
{
    static const char *const names[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum gb_http_method)i;
        }
    }
    return GB_HTTP_OTHER;
}

static enum MHD_Result refuse_method(struct gb_http_conn *conn)
{
    static const char *const known[] = {"POST", "PATCH", "TRACE", "CONNECT"};
    bool is_known = conn->request.method != GB_HTTP_OTHER;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        is_known = is_known || strcmp(conn->request.method_name, known[i]) == 0;
    }
    return is_known ? gb_http_answer_text(conn, 405, "not for this: see Allow")
                    : gb_http_answer_text(conn, 501, "no such method");
}

static struct gb_http_text without_port(struct gb_http_text host)
{
    for (size_t i = host.len; i > 0; i--) {
        if (host.at[i - 1] == ':') {
            return (struct gb_http_text){host.at, i - 1};
        }
        if (host.at[i - 1] < '0' || host.at[i - 1] > '9') {
            break;
        }
    }
    return host;
}

static const struct gb_http_rule *find_rule(const struct gb_http_options *options,
                                            struct gb_http_text host, struct gb_http_text path)
{
    static const struct gb_http_rule all = {.path = "/", .key = ""};
    for (size_t i = 0; i < options->rule_count; i++) {
        const struct gb_http_rule *rule = &options->rules[i];
        const struct gb_http_text prefix = gb_http_text_of(rule->path);
        bool fits = rule->host == NULL ||
                    gb_http_text_same_name(without_port(host), gb_http_text_of(rule->host));
        if (fits && path.len >= prefix.len && memcmp(path.at, prefix.at, prefix.len) == 0) {
            return rule;
        }
    }
    return options->rule_count == 0 ? &all : NULL;
}

/* Makes the key of what stands behind the rule's path. Returns its length without what the rule
 * puts in front, or a fault. */
static int64_t make_key(struct gb_http_request *request, const struct gb_http_rule *rule)
{
    const struct gb_http_text front = gb_http_text_of(rule->key);
    size_t skip = strlen(rule->path);
    const struct gb_http_text path = {request->parts.path.at + skip,
                                      request->parts.path.len - skip};
    request->key = malloc(front.len + path.len + 1);
    if (request->key == NULL) {
        return -ENOMEM;
    }
    memcpy(request->key, front.at, front.len);
    int64_t len = gb_http_path_decode(path, (char *)request->key + front.len, path.len);
    if (len >= 0) {
        request->key_len = front.len + (size_t)len;
    }
    return len;
}

static bool path_is(const struct gb_http_request *request, const char *path)
{
    return gb_http_text_equal(request->parts.path, gb_http_text_of(path));
}

static enum MHD_Result answer_options(struct gb_http_conn *conn, struct gb_http_input *input)
{
    (void)input;
    return gb_http_answer(conn, 204, gb_http_empty_response());
}

/* Paths that are the server's own. */
static const struct endpoint {
    const char *path;
    enum MHD_Result (*step)(struct gb_http_conn *conn, struct gb_http_input *input);
    bool open; /* no token is asked for */
} endpoints[] = {
    {"/healthz", gb_http_health, true},
    {"/readyz", gb_http_readiness, true},
    {"/metrics", gb_http_metrics, false},
    {"/status", gb_http_status, true},
};

static enum MHD_Result find_step(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    bool reading = request->method == GB_HTTP_GET || request->method == GB_HTTP_HEAD;
    request->op = GB_METRICS_OP_other;
    request->tier = GB_METRICS_TIER_none;
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        if (path_is(request, endpoints[i].path)) {
            request->step = endpoints[i].step;
            return reading ? MHD_YES : refuse_method(conn);
        }
    }
    const struct gb_http_options *options = conn->http->options;
    const struct gb_http_rule *rule = find_rule(options, request->fields.host, request->parts.path);
    if (rule == NULL) {
        return gb_http_answer_text(conn, 404, "nothing is served here");
    }
    int64_t len = make_key(request, rule);
    if (len < 0) {
        return len == -ENOMEM ? gb_http_answer_fault(conn, -ENOMEM)
                              : gb_http_answer_text(conn, 400, "the path is not one");
    }
    if (len > 0 && conn->http->origin != NULL) {
        int rc = gb_http_origin_key(conn);
        if (rc < 0) {
            return rc == -ENOMEM ? gb_http_answer_fault(conn, rc)
                                 : gb_http_answer_text(conn, 400, "the query is not one");
        }
    }
    if (len == 0 && !reading) {
        return refuse_method(conn);
    }
    if (len == 0) {
        request->step = gb_http_list;
    } else if (request->key_len > GOBLIN_KEY_MAX) {
        return gb_http_answer_text(conn, 414, "a key is at most 4096 bytes");
    } else if (reading) {
        request->step = gb_http_get;
        request->op = GB_METRICS_OP_get;
        return conn->http->origin != NULL ? gb_http_origin_begin(conn) : MHD_YES;
    } else if (request->method == GB_HTTP_PUT) {
        request->step = gb_http_put;
        request->op = GB_METRICS_OP_put;
    } else {
        request->step = gb_http_delete;
        request->op = GB_METRICS_OP_delete;
    }
    return MHD_YES;
}

/* ---- the head ------------------------------------------------------------------------------ */

/* Health is nobody's secret, nor is an empty page; whoever asks for them has no token yet. */
static bool needs_token(const struct gb_http_request *request)
{
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        if (endpoints[i].open && path_is(request, endpoints[i].path)) {
            return false;
        }
    }
    return true;
}

static enum MHD_Result judge_rights(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    bool writing = request->method == GB_HTTP_PUT || request->method == GB_HTTP_DELETE;
    if (request->method == GB_HTTP_OTHER) {
        return refuse_method(conn);
    }
    if (conn->http->tokens != NULL && needs_token(request)) {
        switch (gb_http_tokens_judge(conn->http->tokens, request->fields.authorization, writing)) {
        case GB_HTTP_MAY:
            break;
        case GB_HTTP_MAY_NOT:
            return gb_http_answer_text(conn, 403, "this token may not do that");
        case GB_HTTP_UNKNOWN:
            return gb_http_answer_text(conn, 401, "a bearer token is needed");
        }
    }
    return writing && conn->http->options->read_only ? refuse_method(conn) : MHD_YES;
}

/* The first answer that its head alone gives rise to; or none, and the request has a step. */
static enum MHD_Result judge_head(struct gb_http_conn *conn, const char *version)
{
    struct gb_http_request *request = &conn->request;
    struct gb_http_fields *fields = &request->fields;
    bool is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    int status = judge_framing(fields, is_1_0);
    if (fields->no_memory) {
        return gb_http_answer_fault(conn, -ENOMEM);
    }
    if (fields->bad || status == 400 || (!is_1_0 && fields->host.at == NULL)) {
        return gb_http_answer_text(conn, 400, "the request breaks the protocol");
    }
    if (status != 0) {
        return gb_http_answer_text(conn, status, status == 413 ? "too large" : "no such encoding");
    }
    if (gb_http_path_split((struct gb_http_text){request->target, request->target_len},
                           &request->parts) != 0) {
        return gb_http_answer_text(conn, 400, "the target is not one");
    }
    if (request->parts.authority.at != NULL) {
        fields->host = request->parts.authority;
    }
    if (request->method == GB_HTTP_OPTIONS) {
        request->step = answer_options;
        return MHD_YES;
    }
    if (path_is(request, "*")) {
        return gb_http_answer_text(conn, 400, "the target is not one");
    }
    if (fields->expect.at != NULL &&
        !gb_http_text_same_name(fields->expect, GB_HTTP_TEXT("100-continue"))) {
        return gb_http_answer_text(conn, 417, "no such expectation");
    }
    if (request->method != GB_HTTP_PUT &&
        (fields->transfer_encoding.at != NULL ||
         (fields->content_length.at != NULL &&
          !gb_http_text_equal(fields->content_length, GB_HTTP_TEXT("0"))))) {
        return gb_http_answer_text(conn, 400, "only a PUT has a body");
    }
    return judge_rights(conn);
}

static enum MHD_Result begin(struct gb_http_conn *conn, const char *method, const char *version)
{
    struct gb_http_request *request = &conn->request;
    struct collector collector = {.fields = &request->fields};
    request->method_name = method;
    request->method = method_of(method);
    gb_cache_control_init(&request->fields.cache_control);
    (void)MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, collect_field, &collector);
    enum MHD_Result result = judge_head(conn, version);
    if (result == MHD_YES && !request->answered && request->step == NULL) {
        result = find_step(conn);
    }
    return result;
}

void *gb_http_see_target(void *arg, const char *target, struct MHD_Connection *mhd)
{
    (void)arg;
    struct gb_http_conn *conn =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (conn == NULL || conn->request.begun) {
        return NULL; /* the handler closes it */
    }
    conn->request.begun = true;
    conn->request.begun_ns = gb_loop_clock_ns();
    conn->request.target_len = strlen(target);
    conn->request.target = strdup(target);
    return conn;
}

/* NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's */
enum MHD_Result gb_http_handle(void *arg, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *len, void **request)
{
    (void)arg;
    (void)mhd;
    (void)url;
    struct gb_http_conn *conn = *request;
    if (conn == NULL || conn->cut || conn->request.target == NULL) {
        return MHD_NO;
    }
    if (conn->request.method_name == NULL) {
        enum MHD_Result result = begin(conn, method, version);
        /* Who answers before the request has come as a whole ends the connection with it. */
        if (result != MHD_YES || conn->request.answered || conn->request.method != GB_HTTP_PUT) {
            return result;
        }
    }
    struct gb_http_input input = {data, *len};
    enum MHD_Result result = conn->request.step(conn, &input);
    conn->request.bytes_in += *len - input.len;
    *len = input.len;
    return result;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void account(struct gb_http_conn *conn)
{
    const struct gb_http_request *request = &conn->request;
    struct gb_loop *loop = conn->http->loop;
    uint64_t duration_ns = gb_loop_clock_ns() - request->begun_ns;
    gb_metrics_add(loop->metrics, GB_METRICS_requests, 1);
    gb_metrics_add(loop->metrics, GB_METRICS_bytes_in, request->bytes_in);
    gb_metrics_add(loop->metrics, GB_METRICS_bytes_out, request->bytes_out);
    if (request->status >= 400 && request->status < 500 && request->status != 404 &&
        request->status != 412 && request->status != 416) {
        gb_metrics_add(loop->metrics, GB_METRICS_bad_requests, 1);
    }
    gb_metrics_time(loop->metrics, request->op, request->tier, duration_ns);
    if (!gb_log_wants_access(loop->log, duration_ns)) {
        return;
    }
    char status[16];
    (void)snprintf(status, sizeof(status), "%d", request->status);
    const struct gb_log_access access = {
        .protocol = "http",
        .peer = conn->peer,
        .command = request->method_name,
        .status = status,
        .key = {request->key, request->key_len},
        .bytes_in = request->bytes_in,
        .bytes_out = request->bytes_out,
        .tier = request->tier,
        .duration_ns = duration_ns,
    };
    gb_log_access(loop, &access);
}

void gb_http_clean(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    if (!request->begun) {
        return;
    }
    gb_loop_leave(&conn->http->loop->request_line, &request->look.waiter);
    gb_http_body_clean(conn);
    gb_http_upload_clean(conn);
    gb_http_list_clean(conn);
    gb_http_origin_clean(conn);
    if (request->look.reading || request->body.active != NULL || request->upload.busy ||
        request->list != NULL) {
        request->abandoned = true; /* whoever is not through yet calls again */
        return;
    }
    gb_http_object_clear(&request->look.object);
    free_joined(&request->fields);
    free(request->body.ranges);
    free(request->target);
    free(request->key);
    memset(request, 0, sizeof(*request));
}

void gb_http_complete(void *arg, struct MHD_Connection *mhd, void **request,
                      enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)mhd;
    (void)why;
    struct gb_http_conn *conn = *request;
    if (conn == NULL || !conn->request.begun) {
        return;
    }
    *request = NULL;
    if (conn->request.method_name != NULL) {
        account(conn);
    }
    gb_http_clean(conn);
    conn->was_busy = true;
    conn->known = true;
    if (conn->http->loop->draining) {
        gb_http_cut(conn, GB_CONN_END_drained);
    }
}
