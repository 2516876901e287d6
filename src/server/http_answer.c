/* Responses: the fields that all have, those of an object, and what faults mean. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/http_date.h"
#include "proto/http_meta.h"
#include "server/http_internal.h"

#define EXPOSED                                                                                    \
    "ETag, Content-Range, Accept-Ranges, Age, Content-Encoding, Content-Disposition, "             \
    "Goblin-Version"

void gb_http_add_field(struct MHD_Response *response, const char *name, const char *value)
{
    if (response != NULL) {
        (void)MHD_add_response_header(response, name, value);
    }
}

void gb_http_add_number(struct MHD_Response *response, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    gb_http_add_field(response, name, text);
}

void gb_http_add_date(struct MHD_Response *response, const char *name, int64_t time_ms)
{
    char text[GB_HTTP_DATE_LEN + 1];
    gb_http_add_field(response, name, gb_http_date_write(time_ms / 1000, text));
}

struct MHD_Response *gb_http_empty_response(void)
{
    static char nothing[1];
    return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
}

/* ---- CORS ---------------------------------------------------------------------------------- */

/* Whether an origin is among those parted by spaces. */
static bool is_listed(const char *origins, struct gb_http_text origin)
{
    while (*origins != '\0') {
        size_t len = strcspn(origins, " ,");
        if (gb_http_text_equal((struct gb_http_text){origins, len}, origin)) {
            return true;
        }
        origins += len + strspn(origins + len, " ,");
    }
    return false;
}

static void add_cors(struct gb_http_conn *conn, struct MHD_Response *response)
{
    const char *origins = conn->http->options->origins;
    const struct gb_http_request *request = &conn->request;
    char origin[512];
    if (origins == NULL) {
        return;
    }
    bool any = strcmp(origins, "*") == 0;
    if (!any) {
        gb_http_add_field(response, "Vary", "Origin");
    }
    if (request->fields.origin.at == NULL || request->fields.origin.len >= sizeof(origin) ||
        !(any || is_listed(origins, request->fields.origin))) {
        return;
    }
    (void)snprintf(origin, sizeof(origin), "%.*s", (int)request->fields.origin.len,
                   request->fields.origin.at);
    gb_http_add_field(response, "Access-Control-Allow-Origin", any ? "*" : origin);
    gb_http_add_field(response, "Access-Control-Expose-Headers", EXPOSED);
    if (request->method == GB_HTTP_OPTIONS) {
        gb_http_add_field(response, "Access-Control-Allow-Methods",
                          conn->http->options->read_only ? "GET, HEAD" : "GET, HEAD, PUT, DELETE");
        gb_http_add_field(response, "Access-Control-Allow-Headers",
                          "Authorization, Content-Type, Range, If-Match, If-None-Match, "
                          "If-Modified-Since, If-Unmodified-Since, If-Range, Cache-Control, "
                          "Goblin-TTL, Goblin-Durability");
        gb_http_add_field(response, "Access-Control-Max-Age", "86400");
    }
}

/* ---- queueing ------------------------------------------------------------------------------ */

static const char *allowed(const struct gb_http_conn *conn)
{
    const struct gb_http_text path = conn->request.parts.path;
    bool endpoint = gb_http_text_equal(path, GB_HTTP_TEXT("/healthz")) ||
                    gb_http_text_equal(path, GB_HTTP_TEXT("/readyz")) ||
                    gb_http_text_equal(path, GB_HTTP_TEXT("/metrics")) ||
                    gb_http_text_equal(path, GB_HTTP_TEXT("/status")) ||
                    gb_http_text_equal(path, GB_HTTP_TEXT("/"));
    return endpoint || conn->http->options->read_only ? "GET, HEAD, OPTIONS"
                                                      : "GET, HEAD, PUT, DELETE, OPTIONS";
}

enum MHD_Result gb_http_answer(struct gb_http_conn *conn, int status, struct MHD_Response *response)
{
    struct gb_http_request *request = &conn->request;
    if (response == NULL) {
        return MHD_NO; /* no memory, not even for saying so */
    }
    add_cors(conn, response);
    if (status == 405 || request->method == GB_HTTP_OPTIONS) {
        gb_http_add_field(response, "Allow", allowed(conn));
    }
    if (status == 401) {
        gb_http_add_field(response, "WWW-Authenticate", "Bearer realm=\"goblin\"");
    }
    if (status == 503) {
        gb_http_add_field(response, "Retry-After", "1");
    }
    /* After a request that is no proper one nobody knows where the next begins. */
    if (conn->http->loop->draining || status == 400 || status == 501 || status == 413) {
        gb_http_add_field(response, "Connection", "close");
    }
    request->status = status;
    request->answered = true;
    enum MHD_Result result = MHD_queue_response(conn->mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result gb_http_answer_text(struct gb_http_conn *conn, int status, const char *text)
{
    char line[256];
    int len = snprintf(line, sizeof(line), "%s\n", text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)len, line, MHD_RESPMEM_MUST_COPY);
    gb_http_add_field(response, "Content-Type", "text/plain; charset=utf-8");
    gb_http_add_field(response, "Cache-Control", "no-store");
    conn->request.bytes_out = (uint64_t)len;
    return gb_http_answer(conn, status, response);
}

enum MHD_Result gb_http_answer_fault(struct gb_http_conn *conn, int fault)
{
    switch (fault) {
    case GOBLIN_MISS:
        return gb_http_answer_text(conn, 404, "no such object");
    case GOBLIN_EXISTS:
    case GOBLIN_CHANGED:
        return gb_http_answer_text(conn, 412, "a condition does not hold");
    case -ENOSPC:
    case -EDQUOT:
        return gb_http_answer_text(conn, 507, goblin_strerror(fault));
    case GOBLIN_ETOOBIG:
        return gb_http_answer_text(conn, 413, goblin_strerror(fault));
    case GOBLIN_EKEY:
        return gb_http_answer_text(conn, 414, goblin_strerror(fault));
    case GOBLIN_EMETA:
        return gb_http_answer_text(conn, 431, goblin_strerror(fault));
    case -EROFS:
    case GOBLIN_EUNORDERED:
        return gb_http_answer_text(conn, 403, goblin_strerror(fault));
    case -ENOMEM:
    case -EAGAIN:
    case GOBLIN_ECLOSED:
        return gb_http_answer_text(conn, 503, goblin_strerror(fault));
    default:
        return gb_http_answer_text(conn, 500, goblin_strerror(fault));
    }
}

/* ---- objects ------------------------------------------------------------------------------- */

/* The fields that were kept, but those about a body if there is none. */
static void add_meta(struct MHD_Response *response, const struct gb_http_object *object,
                     const char *type)
{
    struct gb_http_text rest = gb_http_meta_entries(object->meta, object->info.meta_len);
    struct gb_http_meta_entry entry;
    bool typed = false;
    while (gb_http_meta_next(&rest, &entry)) {
        char name[256];
        char value[GOBLIN_META_MAX];
        bool about_body = entry.kind == GB_HTTP_META_CONTENT_TYPE ||
                          entry.kind == GB_HTTP_META_CONTENT_ENCODING ||
                          entry.kind == GB_HTTP_META_CONTENT_LANGUAGE ||
                          entry.kind == GB_HTTP_META_CONTENT_DISPOSITION;
        bool replaced = entry.kind == GB_HTTP_META_CONTENT_TYPE && type != NULL && type[0] != '\0';
        if (entry.name.len == 0 || (about_body && type == NULL) || replaced) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)entry.name.len, entry.name.at);
        (void)snprintf(value, sizeof(value), "%.*s", (int)entry.value.len, entry.value.at);
        gb_http_add_field(response, name, value);
        typed = typed || entry.kind == GB_HTTP_META_CONTENT_TYPE;
    }
    if (type != NULL && !typed) {
        gb_http_add_field(response, "Content-Type",
                          type[0] != '\0' ? type : "application/octet-stream");
    }
}

void gb_http_add_object(struct gb_http_conn *conn, struct MHD_Response *response,
                        const struct gb_http_object *object, const char *type)
{
    int64_t now_ms = conn->http->loop->wall_ms;
    if (object->etag[0] != '\0') {
        gb_http_add_field(response, "ETag", object->etag);
    }
    if (object->modified_ms >= 0) {
        gb_http_add_date(response, "Last-Modified", object->modified_ms);
    }
    if (!gb_http_origin_add_age(conn, response, object) && object->info.expires_ms != 0) {
        gb_http_add_date(response, "Expires", object->info.expires_ms);
        if (object->modified_ms >= 0 && object->modified_ms <= now_ms) {
            gb_http_add_number(response, "Age", (uint64_t)(now_ms - object->modified_ms) / 1000);
        }
    }
    add_meta(response, object, type);
    if (type != NULL) {
        gb_http_add_field(response, "Accept-Ranges", "bytes");
    }
}
