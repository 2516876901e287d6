/* PUT and DELETE. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "proto/http_meta.h"
#include "server/http_internal.h"

uint64_t gb_http_value_bytes(const struct gb_http_conn *conn)
{
    uint64_t bytes = conn->http->options->value_bytes;
    return bytes != 0 ? bytes : GB_GIB;
}

/* ---- the head ------------------------------------------------------------------------------ */

/* Whether the fields say for how long; 400 if what they say is nothing. */
static int read_ttl(struct gb_http_conn *conn, int64_t *expires_ms)
{
    const struct gb_http_fields *fields = &conn->request.fields;
    uint64_t ttl_s = 0;
    if (fields->ttl.at != NULL) {
        if (gb_http_text_number(fields->ttl, &ttl_s) == -EINVAL) {
            return 400;
        }
    } else if (fields->cache_control.s_maxage_s > 0) {
        ttl_s = (uint64_t)fields->cache_control.s_maxage_s;
    } else if (fields->cache_control.s_maxage_s < 0 && fields->cache_control.max_age_s > 0) {
        ttl_s = (uint64_t)fields->cache_control.max_age_s;
    }
    /* Three hundred years are for ever. */
    *expires_ms = ttl_s == 0 || ttl_s > UINT64_C(9467280000)
                      ? 0
                      : conn->http->loop->wall_ms + (int64_t)ttl_s * 1000;
    return 0;
}

static int read_durability(struct gb_http_conn *conn, enum goblin_durability *durability)
{
    static const struct {
        struct gb_http_text name;
        enum goblin_durability durability;
    } names[] = {
        {{"none", 4}, GOBLIN_DURABILITY_NONE},
        {{"written", 7}, GOBLIN_DURABILITY_WRITTEN},
        {{"synced", 6}, GOBLIN_DURABILITY_SYNCED},
    };
    const struct gb_http_text field = conn->request.fields.durability;
    if (field.at == NULL) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (gb_http_text_same_name(field, names[i].name)) {
            *durability = names[i].durability;
            return 0;
        }
    }
    return 400;
}

static enum MHD_Result keep_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    (void)gb_http_meta_field(
        arg, (struct gb_http_text){name, name_len},
        gb_http_text_trim((struct gb_http_text){value, value != NULL ? value_len : 0}));
    return MHD_YES;
}

static int keep_fields(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = &conn->request.upload;
    struct gb_http_meta_writer writer;
    upload->meta = malloc(GOBLIN_META_MAX);
    if (upload->meta == NULL) {
        return 503;
    }
    gb_http_meta_begin(&writer, upload->meta, GOBLIN_META_MAX);
    gb_http_meta_modified(&writer, conn->http->loop->wall_ms);
    (void)MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, keep_field, &writer);
    upload->options.meta = (struct goblin_slice){upload->meta, writer.len};
    return writer.full ? 431 : 0;
}

static int read_length(struct gb_http_conn *conn)
{
    const struct gb_http_fields *fields = &conn->request.fields;
    struct gb_http_upload *upload = &conn->request.upload;
    upload->length = GOBLIN_SIZE_UNKNOWN;
    if (fields->transfer_encoding.at != NULL) {
        return 0;
    }
    if (fields->content_length.at == NULL) {
        return 411;
    }
    (void)gb_http_text_number(fields->content_length, &upload->length);
    return upload->length > gb_http_value_bytes(conn) ? 413 : 0;
}

static const char *words(int status)
{
    switch (status) {
    case 411:
        return "say how long it is, or send it in chunks";
    case 413:
        return "the value is larger than this server takes";
    case 431:
        return "the fields to be kept are longer than 4096 bytes";
    case 503:
        return "no memory";
    default:
        return "Goblin-TTL is a number of seconds, Goblin-Durability none, written or synced, and "
               "there is no Content-Range";
    }
}

static int prepare(struct gb_http_conn *conn)
{
    struct goblin_put_options *options = &conn->request.upload.options;
    int status = conn->request.fields.content_range.at != NULL ? 400 : read_length(conn);
    if (status == 0) {
        status = read_ttl(conn, &options->expires_ms);
    }
    if (status == 0) {
        status = read_durability(conn, &options->durability);
    }
    return status == 0 ? keep_fields(conn) : status;
}

/* ---- conditions ---------------------------------------------------------------------------- */

/* What was judged must still hold when it is done: the object must be the one that was seen, or
 * still be none. */
static enum MHD_Result judge(struct gb_http_conn *conn)
{
    struct gb_http_request *request = &conn->request;
    struct goblin_put_options *options = &request->upload.options;
    if (request->look.result < 0) {
        return gb_http_answer_fault(conn, request->look.result);
    }
    bool exists = request->look.result == GOBLIN_OK;
    if (!exists && request->method == GB_HTTP_DELETE) {
        return gb_http_answer_fault(conn, GOBLIN_MISS); /* with or without conditions */
    }
    switch (gb_http_judge(conn, exists ? &request->look.object : NULL, false)) {
    case GB_HTTP_PRECONDITION_FAILED:
        return gb_http_answer_text(conn, 412, "a condition does not hold");
    case GB_HTTP_BAD_CONDITION:
        return gb_http_answer_text(conn, 400, "a condition is no list of entity tags");
    case GB_HTTP_NOT_MODIFIED:
    case GB_HTTP_PROCEED:
        break;
    }
    options->condition = exists ? GOBLIN_IF_VERSION : GOBLIN_IF_ABSENT;
    options->if_version = exists ? request->look.object.info.version : 0;
    return MHD_YES;
}

/* False: it was answered, or waits. */
static bool conditions_hold(struct gb_http_conn *conn, enum MHD_Result *result)
{
    struct gb_http_upload *upload = &conn->request.upload;
    *result = MHD_YES;
    if (upload->judged || !gb_http_has_conditions(conn)) {
        return true;
    }
    if (!gb_http_look(conn, false)) {
        gb_http_suspend(conn);
        return false;
    }
    *result = judge(conn);
    upload->judged = true;
    return *result == MHD_YES && !conn->request.answered;
}

/* ---- PUT ----------------------------------------------------------------------------------- */

static enum MHD_Result answer_put(struct gb_http_conn *conn)
{
    const struct gb_http_upload *upload = &conn->request.upload;
    char etag[GB_HTTP_ETAG_BYTES];
    if (upload->result == GOBLIN_MISS) {
        return gb_http_answer_text(conn, 412, "a condition does not hold");
    }
    if (upload->result != GOBLIN_OK) {
        return gb_http_answer_fault(conn, upload->result);
    }
    struct MHD_Response *response = gb_http_empty_response();
    gb_http_etag(etag, upload->version, upload->received);
    gb_http_add_field(response, "ETag", etag);
    return gb_http_answer(conn, upload->existed ? 204 : 201, response);
}

/* libmicrohttpd 0.9.75 calls for an empty body that it has invited (100 Continue) as soon as the
 * next request is there, when it takes no answer yet, and once more at the end. */
static enum MHD_Result answer_at_end(struct gb_http_conn *conn)
{
    struct gb_http_upload *upload = &conn->request.upload;
    enum MHD_Result result = answer_put(conn);
    if (result != MHD_YES && upload->length == 0 && !upload->answered_early) {
        upload->answered_early = true;
        conn->request.answered = false;
        return MHD_YES;
    }
    return result;
}

enum MHD_Result gb_http_put(struct gb_http_conn *conn, struct gb_http_input *input)
{
    struct gb_http_upload *upload = &conn->request.upload;
    enum MHD_Result result = MHD_YES;
    if (upload->ready) {
        if (input->len > 0) {
            gb_http_upload_take(conn, input);
            return MHD_YES;
        }
        if (gb_http_upload_finish(conn)) {
            return answer_at_end(conn);
        }
        gb_http_suspend(conn);
        return MHD_YES;
    }
    if (!upload->prepared) {
        upload->prepared = true;
        int status = prepare(conn);
        if (status != 0) {
            return gb_http_answer_text(conn, status, words(status));
        }
    }
    if (!conditions_hold(conn, &result)) {
        return result;
    }
    if (!gb_http_upload_begin(conn) || upload->busy) {
        gb_http_suspend(conn); /* the client that expects 100 Continue waits too */
        return MHD_YES;
    }
    if (upload->decided) {
        return answer_put(conn);
    }
    upload->ready = true;
    gb_http_watch(conn);
    return MHD_YES;
}

/* ---- DELETE -------------------------------------------------------------------------------- */

enum MHD_Result gb_http_delete(struct gb_http_conn *conn, struct gb_http_input *input)
{
    struct gb_http_upload *upload = &conn->request.upload;
    enum MHD_Result result = MHD_YES;
    (void)input;
    if (!upload->prepared) {
        upload->prepared = true;
        if (read_durability(conn, &upload->options.durability) != 0) {
            return gb_http_answer_text(conn, 400, words(400));
        }
    }
    if (!upload->decided && !upload->busy) {
        if (!conditions_hold(conn, &result)) {
            return result;
        }
        gb_http_upload_change(conn, GB_CHANGE_DELETE);
    }
    if (upload->busy) {
        gb_http_suspend(conn);
        return MHD_YES;
    }
    if (upload->result != GOBLIN_OK) {
        return gb_http_answer_fault(conn, upload->result);
    }
    return gb_http_answer(conn, 204, gb_http_empty_response());
}
