/*
 * The keys of a prefix, a page at a time, as JSON.
 *
 * A page is made by a worker, off the loop, and ends at its limit of keys or of bytes. Each key
 * stands there twice: as text, for people, and as the path that leads to the object and that
 * `after` takes, for keys need not be text.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/scan.h>

#include "base/bits.h"
#include "base/json.h"
#include "server/http_internal.h"
#include "server/work.h"

#define KEYS_DEFAULT 1000u
#define KEYS_MOST    10000u
#define PAGE_BYTES   (1 * GB_MIB)                /* a page ends when it has become so long */
#define ENTRY_BYTES  (9 * GOBLIN_KEY_MAX + 1024) /* one more may come on top */

struct gb_http_list {
    struct gb_job job;
    struct gb_http_conn *conn;
    struct gb_waiter waiter;
    struct goblin_range range;
    unsigned char prefix[GOBLIN_KEY_MAX];
    unsigned char after[GOBLIN_KEY_MAX];
    unsigned char last[GOBLIN_KEY_MAX]; /* key that the page ends with */
    size_t last_len;
    size_t skip; /* bytes in front of a key that its rule has put there */
    size_t limit;
    size_t count;
    FILE *file;
    char *text;
    size_t len;
    struct gb_json json;
    bool more;
    bool running;
    bool done;
    int result;
    uint64_t charge;
};

/* ---- on the worker ------------------------------------------------------------------------- */

static void write_path(struct gb_json *json, const char *name, struct gb_http_text key)
{
    char path[3 * GOBLIN_KEY_MAX];
    int64_t len = gb_http_path_encode(key, path, sizeof(path));
    gb_json_string_len(json, name, path, (size_t)len);
}

static int write_entry(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct gb_http_list *list = arg;
    char etag[GB_HTTP_ETAG_BYTES];
    if (list->count == list->limit || ftello(list->file) >= (off_t)PAGE_BYTES) {
        list->more = true;
        return GOBLIN_CHANGED; /* any answer that ends the scan */
    }
    const struct gb_http_text name = {(const char *)key.data + list->skip, key.len - list->skip};
    gb_json_object(&list->json, NULL);
    gb_json_string_len(&list->json, "key", name.at, name.len);
    write_path(&list->json, "path", name);
    gb_json_unsigned(&list->json, "size", info->size);
    gb_http_etag(etag, info->version, info->size);
    gb_json_string(&list->json, "etag", etag);
    if (info->expires_ms != 0) {
        gb_json_signed(&list->json, "expires_ms", info->expires_ms);
    }
    gb_json_end(&list->json);
    memcpy(list->last, key.data, key.len);
    list->last_len = key.len;
    list->count++;
    return 0;
}

static void run(struct gb_job *job)
{
    struct gb_http_list *list = (struct gb_http_list *)(void *)job;
    struct gb_loop *loop = list->conn->http->loop;
    list->file = open_memstream(&list->text, &list->len);
    if (list->file == NULL) {
        list->result = -ENOMEM;
        return;
    }
    gb_json_init(&list->json, list->file);
    list->json.compact = true;
    gb_json_object(&list->json, NULL);
    gb_json_array(&list->json, "objects");
    list->result = goblin_scan(loop->store, &list->range, write_entry, list);
    gb_json_end(&list->json);
    if (list->more) {
        const struct gb_http_text last = {(const char *)list->last + list->skip,
                                          list->last_len - list->skip};
        write_path(&list->json, "next", last);
    }
    gb_json_end(&list->json);
    int written = gb_json_finish(&list->json);
    if (fclose(list->file) != 0 || written < 0) {
        list->result = -ENOMEM;
    }
}

/* ---- on the loop --------------------------------------------------------------------------- */

static void done(struct gb_job *job)
{
    struct gb_http_list *list = (struct gb_http_list *)(void *)job;
    struct gb_http_conn *conn = list->conn;
    list->running = false;
    list->done = true;
    if (conn->request.abandoned) {
        gb_http_clean(conn);
    } else {
        gb_http_resume(conn);
    }
    gb_http_unref(conn);
}

/* Takes the bytes and gives the job away. False: it stands in line. */
static bool submit(struct gb_http_list *list)
{
    struct gb_http_conn *conn = list->conn;
    struct gb_loop *loop = conn->http->loop;
    uint64_t charge = sizeof(*list) + PAGE_BYTES + ENTRY_BYTES;
    if (!gb_limits_take(loop->limits, charge)) {
        gb_metrics_add(loop->metrics, GB_METRICS_waits_bytes, 1);
        gb_loop_wait(&loop->bytes_line, &list->waiter);
        return false;
    }
    list->charge = charge;
    list->running = true;
    list->job.run = run;
    list->job.done = done;
    gb_http_ref(conn);
    gb_work_submit(loop->work, loop, &list->job);
    return true;
}

static void woken(struct gb_waiter *waiter)
{
    struct gb_http_list *list =
        (struct gb_http_list *)(void *)((char *)waiter - offsetof(struct gb_http_list, waiter));
    (void)submit(list);
}

void gb_http_list_clean(struct gb_http_conn *conn)
{
    struct gb_http_list *list = conn->request.list;
    struct gb_loop *loop = conn->http->loop;
    if (list == NULL || list->running) {
        return;
    }
    gb_loop_leave(&loop->bytes_line, &list->waiter);
    gb_loop_give_bytes(loop, list->charge);
    free(list->text);
    free(list);
    conn->request.list = NULL;
}

/* Puts what the rule stands for in front of a parameter's key. Returns its length, or -EINVAL. */
static int64_t read_key(const struct gb_http_conn *conn, struct gb_http_text value,
                        unsigned char *out)
{
    size_t front = conn->request.key_len;
    memcpy(out, conn->request.key, front);
    int64_t len = gb_http_path_decode_query(value, (char *)out + front, GOBLIN_KEY_MAX - front);
    return len < 0 ? -EINVAL : len + (int64_t)front;
}

/* Returns 0 or -EINVAL. */
static int read_parameters(struct gb_http_conn *conn, struct gb_http_list *list)
{
    struct gb_http_text query = conn->request.parts.query;
    struct gb_http_text name;
    struct gb_http_text value;
    uint64_t limit = KEYS_DEFAULT;
    int64_t prefix_len = read_key(conn, (struct gb_http_text){NULL, 0}, list->prefix);
    int64_t after_len = 0;
    while (prefix_len >= 0 && after_len >= 0 &&
           gb_http_path_next_parameter(&query, &name, &value)) {
        if (gb_http_text_equal(name, GB_HTTP_TEXT("prefix"))) {
            prefix_len = read_key(conn, value, list->prefix);
        } else if (gb_http_text_equal(name, GB_HTTP_TEXT("after"))) {
            after_len = read_key(conn, value, list->after);
        } else if (!gb_http_text_equal(name, GB_HTTP_TEXT("limit")) ||
                   gb_http_text_number(value, &limit) != 0 || limit == 0) {
            return -EINVAL;
        }
    }
    if (prefix_len < 0 || after_len < 0) {
        return -EINVAL;
    }
    list->limit = gb_min(limit, KEYS_MOST);
    list->range.prefix = (struct goblin_slice){list->prefix, (size_t)prefix_len};
    list->range.after = (struct goblin_slice){list->after, (size_t)after_len};
    return 0;
}

static enum MHD_Result answer(struct gb_http_conn *conn)
{
    struct gb_http_list *list = conn->request.list;
    if (list->result < 0) {
        return gb_http_answer_fault(conn, list->result);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(list->len, list->text, MHD_RESPMEM_PERSISTENT);
    gb_http_add_field(response, "Content-Type", "application/json");
    gb_http_add_field(response, "Cache-Control", "no-store");
    conn->request.bytes_out = list->len;
    return gb_http_answer(conn, 200, response);
}

enum MHD_Result gb_http_list(struct gb_http_conn *conn, struct gb_http_input *input)
{
    struct gb_http_list *list = conn->request.list;
    (void)input;
    if (list == NULL) {
        list = calloc(1, sizeof(*list));
        if (list == NULL || conn->request.key_len > GOBLIN_KEY_MAX) {
            free(list);
            return gb_http_answer_fault(conn, -ENOMEM);
        }
        conn->request.list = list;
        list->conn = conn;
        list->skip = conn->request.key_len;
        list->waiter.wake = woken;
        if (read_parameters(conn, list) < 0) {
            return gb_http_answer_text(conn, 400, "a listing takes prefix, after and limit");
        }
        (void)submit(list);
    }
    if (list->done) {
        return answer(conn);
    }
    gb_http_suspend(conn);
    return MHD_YES;
}
