/* One request to the origin: its head, its bytes, its end. See origin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "proto/http_date.h"
#include "server/origin_internal.h"

static struct gb_origin_fill *fill_of(void *member, size_t offset)
{
    return (struct gb_origin_fill *)(void *)((char *)member - offset);
}

/* ---- making -------------------------------------------------------------------------------- */

static int copy_bytes(void **out, size_t *out_len, const void *from, size_t len)
{
    *out = malloc(len + 1);
    if (*out == NULL) {
        return -ENOMEM;
    }
    if (len > 0) {
        memcpy(*out, from, len);
    }
    *out_len = len;
    return GOBLIN_OK;
}

static int copy_ask(struct gb_origin_fill *fill, const struct gb_origin_ask *ask)
{
    int rc = copy_bytes((void **)&fill->key, &fill->key_len, ask->key.data, ask->key.len);
    if (rc >= 0) {
        rc = copy_bytes((void **)&fill->base, &fill->base_len, ask->base.data, ask->base.len);
    }
    if (rc >= 0) {
        rc = copy_bytes((void **)&fill->lines, &fill->lines_len, ask->lines.at, ask->lines.len);
    }
    if (rc >= 0 && ask->kept != NULL) {
        rc = copy_bytes((void **)&fill->old_meta, &fill->old_meta_len, ask->meta.data,
                        ask->meta.len);
    }
    if (rc >= 0 && ask->kept != NULL) {
        gb_origin_head_kept(&fill->old, fill->old_meta, fill->old_meta_len,
                            (ask->kept->birth_s + ask->kept->kept_s) * 1000);
        fill->validates = fill->old.etag.at != NULL || fill->old.modified_ms >= 0;
    }
    fill->old_version = ask->version;
    fill->control = ask->control;
    fill->unstored = ask->unstored;
    fill->authorized = ask->authorized;
    return rc;
}

int gb_origin_fill_create(struct gb_origin_fill **out, struct gb_origin_loop *at,
                          const struct gb_origin_ask *ask)
{
    struct gb_origin_fill *fill = calloc(1, sizeof(*fill));
    if (fill == NULL) {
        return -ENOMEM;
    }
    (void)pthread_mutex_init(&fill->lock, NULL);
    fill->at = at;
    fill->loop = at->loop;
    fill->origin = at->origin;
    fill->mode = GB_ORIGIN_MODE_GATHER;
    atomic_init(&fill->refs, 1);
    fill->head_bytes = malloc(GB_ORIGIN_HEAD_BYTES);
    int rc = fill->head_bytes == NULL ? -ENOMEM : copy_ask(fill, ask);
    if (rc < 0) {
        gb_origin_fill_free(fill);
        return rc;
    }
    fill->next = at->fills;
    if (fill->next != NULL) {
        fill->next->prev = fill;
    }
    at->fills = fill;
    at->refs++;
    *out = fill;
    return GOBLIN_OK;
}

void gb_origin_fill_free(struct gb_origin_fill *fill)
{
    (void)pthread_mutex_destroy(&fill->lock);
    curl_slist_free_all(fill->fields);
    free(fill->key);
    free(fill->base);
    free(fill->lines);
    free(fill->old_meta);
    free(fill->head_bytes);
    free(fill->put_key);
    free(fill->window);
    free(fill);
}

/* ---- its bytes ----------------------------------------------------------------------------- */

static void timed_out(struct gb_deadline *deadline)
{
    struct gb_origin_fill *fill = fill_of(deadline, offsetof(struct gb_origin_fill, deadline));
    fill->timed_out = true;
    gb_origin_fill_end(fill, -ETIMEDOUT);
}

static void progress(struct gb_origin_fill *fill)
{
    struct gb_loop *loop = fill->loop;
    fill->deadline.fire = timed_out;
    gb_loop_arm(loop, &fill->deadline, loop->now_ms + fill->origin->options.timeout_ms);
}

/* Before anybody hears of the head: who follows takes bytes of the budget too, and waits for this.
 * So a fill never waits for its window, but has a small one when bytes are short. */
static bool make_window(struct gb_origin_fill *fill)
{
    struct gb_limits *limits = fill->loop->limits;
    size_t bytes = (size_t)gb_max(1, gb_min(fill->head.length, GB_ORIGIN_WINDOW_BYTES));
    if (!gb_limits_take(limits, bytes)) {
        bytes = gb_min(bytes, GB_ORIGIN_WINDOW_LEAST);
        gb_limits_take_anyway(limits, bytes);
        gb_metrics_add(fill->loop->metrics, GB_METRICS_waits_bytes, 1);
    }
    fill->window = malloc(bytes);
    if (fill->window == NULL) {
        gb_loop_give_bytes(fill->loop, bytes);
        return false;
    }
    fill->window_bytes = bytes;
    return true;
}

/* Puts bytes into the window. 0: there is no room yet; -1: nobody wants them. */
static int put_bytes(struct gb_origin_fill *fill, const char *bytes, size_t len)
{
    int result = 1;
    (void)pthread_mutex_lock(&fill->lock);
    if (fill->mode == GB_ORIGIN_MODE_PASS && fill->followers == NULL) {
        result = -1;
    } else if (gb_origin_room_locked(fill) < len) {
        fill->stopped = true;
        result = 0;
    } else {
        size_t at = (size_t)(fill->come % fill->window_bytes);
        size_t first = gb_min(len, fill->window_bytes - at);
        memcpy(fill->window + at, bytes, first);
        memcpy(fill->window, bytes + first, len - first);
        fill->come += len;
        gb_origin_wake_locked(fill);
    }
    (void)pthread_mutex_unlock(&fill->lock);
    return result;
}

/* CURLOPT_WRITEFUNCTION */
static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct gb_origin_fill *fill = arg;
    size_t len = size * count;
    if (!fill->head_over) {
        return len; /* of an answer that is not the last */
    }
    switch (put_bytes(fill, bytes, len)) {
    case 1:
        gb_metrics_add(fill->loop->metrics, GB_METRICS_origin_bytes, len);
        progress(fill);
        gb_origin_store_pump(fill);
        return len;
    case 0:
        gb_wheel_drop(&fill->loop->wheel, &fill->deadline); /* it is not the origin that is slow */
        gb_origin_store_pump(fill);
        return CURL_WRITEFUNC_PAUSE;
    default:
        return len + 1; /* ends the transfer */
    }
}

void gb_origin_fill_go_on(struct gb_origin_fill *fill)
{
    if (fill->easy == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&fill->lock);
    bool forsaken = fill->mode == GB_ORIGIN_MODE_PASS && fill->followers == NULL;
    bool goes = fill->stopped && gb_origin_room_locked(fill) >= fill->window_bytes / 4;
    fill->stopped = fill->stopped && !goes;
    (void)pthread_mutex_unlock(&fill->lock);
    if (forsaken) {
        gb_origin_fill_end(fill, -ECANCELED);
    } else if (goes) {
        progress(fill);
        (void)curl_easy_pause(fill->easy, CURLPAUSE_CONT);
    }
}

static void poked(struct gb_post *post)
{
    struct gb_origin_fill *fill = fill_of(post, offsetof(struct gb_origin_fill, post));
    struct gb_loop *loop = fill->loop;
    (void)pthread_mutex_lock(&fill->lock);
    fill->posted = false;
    bool over = fill->over;
    (void)pthread_mutex_unlock(&fill->lock);
    if (!over) {
        gb_origin_fill_go_on(fill);
    }
    gb_origin_unref(fill, loop);
}

void gb_origin_fill_poke_locked(struct gb_origin_fill *fill)
{
    if (!fill->over && !fill->posted) {
        fill->posted = true;
        fill->post.run = poked;
        gb_origin_ref(fill);
        gb_loop_post(fill->loop, &fill->post);
    }
}

/* ---- its head ------------------------------------------------------------------------------ */

static void tell_head(struct gb_origin_fill *fill)
{
    bool shared = gb_origin_head_may_share(&fill->head, &fill->control);
    if (!fill->keeps) {
        gb_origin_leave_table(fill);
        gb_metrics_add(fill->loop->metrics, GB_METRICS_origin_unstored, 1);
    }
    (void)pthread_mutex_lock(&fill->lock);
    fill->state = GB_ORIGIN_ANSWERED;
    if (!fill->keeps) {
        fill->mode = GB_ORIGIN_MODE_PASS;
        fill->settled = true;
    }
    if (!shared) {
        gb_origin_refuse_locked(fill);
    }
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
}

/* False: there is no use in going on. */
static bool take_head(struct gb_origin_fill *fill)
{
    struct gb_origin_head *head = &fill->head;
    gb_origin_head_read(head, fill->status, (struct gb_http_text){fill->head_bytes, fill->head_len},
                        fill->requested_s, fill->loop->wall_ms / 1000);
    head->cache.authorized = fill->authorized;
    fill->head_over = true;
    if (fill->status == 304) {
        return fill->validates;
    }
    if (head->bad) {
        return false;
    }
    if (head->vary_lines > 0) {
        int64_t len =
            gb_origin_head_variant(head->vary, (struct gb_http_text){fill->lines, fill->lines_len},
                                   fill->variant, sizeof(fill->variant));
        fill->unstored = fill->unstored || len < 0;
        fill->variant_text = (struct gb_http_text){fill->variant, len < 0 ? 0 : (size_t)len};
    }
    if (!make_window(fill)) {
        return false;
    }
    gb_origin_store_begin(fill);
    tell_head(fill);
    return true;
}

/* libcurl follows whatever has a Location. */
static bool will_be_followed(const struct gb_origin_fill *fill)
{
    struct gb_http_text lines = {fill->head_bytes, fill->head_len};
    struct gb_http_text name;
    struct gb_http_text value;
    if (fill->origin->options.redirects == 0 || fill->status < 300 || fill->status > 399) {
        return false;
    }
    while (gb_origin_head_next(&lines, &name, &value)) {
        if (gb_http_text_same_name(name, GB_HTTP_TEXT("Location"))) {
            return true;
        }
    }
    return false;
}

static bool is_blank(const char *bytes, size_t len)
{
    return len == 0 || bytes[0] == '\n' || (len > 1 && bytes[0] == '\r' && bytes[1] == '\n');
}

/* CURLOPT_HEADERFUNCTION: a line at a time, those of answers before the last too, and of what
 * follows the body. */
static size_t on_header(char *bytes, size_t size, size_t count, void *arg)
{
    struct gb_origin_fill *fill = arg;
    size_t len = size * count;
    progress(fill);
    if (fill->head_over) {
        return len;
    }
    if (len > 5 && memcmp(bytes, "HTTP/", 5) == 0) {
        fill->head_len = 0;
        return len;
    }
    if (!is_blank(bytes, len)) {
        if (len + 1 > GB_ORIGIN_HEAD_BYTES - fill->head_len) {
            return 0;
        }
        gb_origin_head_add(fill->head_bytes + fill->head_len, bytes, len);
        fill->head_len += len;
        return len;
    }
    long status = 0;
    (void)curl_easy_getinfo(fill->easy, CURLINFO_RESPONSE_CODE, &status);
    fill->status = (int)status;
    if (status < 200 || will_be_followed(fill)) {
        return len;
    }
    return take_head(fill) ? len : 0;
}

/* ---- asking -------------------------------------------------------------------------------- */

static int add_field(struct gb_origin_fill *fill, const char *text)
{
    struct curl_slist *fields = curl_slist_append(fill->fields, text);
    if (fields == NULL) {
        return -ENOMEM;
    }
    fill->fields = fields;
    return GOBLIN_OK;
}

static int add_lines(struct gb_origin_fill *fill, struct gb_http_text lines)
{
    int rc = GOBLIN_OK;
    while (rc >= 0 && lines.len > 0) {
        const char *end = memchr(lines.at, '\n', lines.len);
        size_t len = end == NULL ? lines.len : (size_t)(end - lines.at);
        char *line = strndup(lines.at, len);
        rc = line == NULL ? -ENOMEM : add_field(fill, line);
        free(line);
        len += end == NULL ? 0 : 1;
        lines = (struct gb_http_text){lines.at + len, lines.len - len};
    }
    return rc;
}

static int add_validators(struct gb_origin_fill *fill)
{
    char text[GB_ORIGIN_HEAD_ETAG_MAX + 32];
    char date[GB_HTTP_DATE_LEN + 1];
    int rc = GOBLIN_OK;
    if (!fill->validates) {
        return rc;
    }
    if (fill->old.etag.at != NULL) {
        (void)snprintf(text, sizeof(text), "If-None-Match: %.*s", (int)fill->old.etag.len,
                       fill->old.etag.at);
        rc = add_field(fill, text);
    }
    if (rc >= 0 && fill->old.modified_ms >= 0) {
        (void)snprintf(text, sizeof(text), "If-Modified-Since: %s",
                       gb_http_date_write(fill->old.modified_ms / 1000, date));
        rc = add_field(fill, text);
    }
    return rc;
}

static int add_fields(struct gb_origin_fill *fill, const struct gb_origin_ask *ask)
{
    int rc = add_lines(fill, ask->lines);
    rc = rc < 0 ? rc : add_lines(fill, ask->extra);
    return rc < 0 ? rc : add_validators(fill);
}

static void set_options(struct gb_origin_fill *fill)
{
    const struct gb_origin_options *options = &fill->origin->options;
    CURL *easy = fill->easy;
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, fill);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fill->fields);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, fill);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, fill);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, options->redirects > 0 ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)options->redirects);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->timeout_ms);
    if (options->ca_file != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
    }
}

int gb_origin_fill_start(struct gb_origin_fill *fill, const struct gb_origin_ask *ask)
{
    struct gb_loop *loop = fill->loop;
    size_t size = strlen(fill->origin->base) + strlen(ask->path) + 1;
    char *url = malloc(size);
    int rc = url == NULL ? -ENOMEM : add_fields(fill, ask);
    if (rc >= 0) {
        (void)snprintf(url, size, "%s%s", fill->origin->base, ask->path);
        fill->easy = curl_easy_init();
        rc = fill->easy == NULL || curl_easy_setopt(fill->easy, CURLOPT_URL, url) != CURLE_OK
                 ? -ENOMEM
                 : GOBLIN_OK;
    }
    free(url);
    if (rc < 0) {
        return rc;
    }
    set_options(fill);
    fill->requested_s = loop->wall_ms / 1000;
    gb_metrics_add(loop->metrics, GB_METRICS_origin_requests, 1);
    progress(fill);
    return curl_multi_add_handle(fill->at->multi, fill->easy) == CURLM_OK ? GOBLIN_OK : -ENOMEM;
}

/* ---- its end ------------------------------------------------------------------------------- */

static void close_transfer(struct gb_origin_fill *fill)
{
    struct gb_loop *loop = fill->loop;
    gb_wheel_drop(&loop->wheel, &fill->deadline);
    if (fill->easy != NULL) {
        (void)curl_multi_remove_handle(fill->at->multi, fill->easy);
        curl_easy_cleanup(fill->easy);
        fill->easy = NULL;
    }
}

void gb_origin_fill_finish(struct gb_origin_fill *fill)
{
    struct gb_origin_loop *at = fill->at;
    gb_origin_leave_table(fill);
    if (fill->prev != NULL) {
        fill->prev->next = fill->next;
    } else {
        at->fills = fill->next;
    }
    if (fill->next != NULL) {
        fill->next->prev = fill->prev;
    }
    (void)pthread_mutex_lock(&fill->lock);
    fill->over = true;
    fill->settled = true;
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    if (atomic_load(&fill->loop->limits->waiters) > 0) {
        gb_origin_yield(fill, fill->loop);
    }
    gb_origin_unref(fill, fill->loop);
    gb_origin_loop_unref(at);
}

void gb_origin_fill_end(struct gb_origin_fill *fill, int fault)
{
    if (fill->ending && fault != GOBLIN_ECLOSED) {
        return;
    }
    bool was_ending = fill->ending;
    fill->ending = true;
    close_transfer(fill);
    gb_origin_leave_table(fill);
    (void)pthread_mutex_lock(&fill->lock);
    if (fill->state == GB_ORIGIN_ASKING) {
        fill->state = GB_ORIGIN_FAILED;
        fill->failure = fill->timed_out ? 504 : 502;
    } else if (!fill->complete) {
        fill->fault = fault;
    }
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    if (!was_ending && fault != -ECANCELED) {
        gb_metrics_add(fill->loop->metrics, GB_METRICS_origin_failures, 1);
    }
    gb_origin_store_abort(fill);
}

void gb_origin_fill_done(struct gb_origin_fill *fill, CURLcode code)
{
    fill->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    bool renews = fill->status == 304 && fill->head_over && fill->validates;
    (void)pthread_mutex_lock(&fill->lock);
    bool whole = code == CURLE_OK && (renews || fill->state == GB_ORIGIN_ANSWERED);
    bool forsaken = fill->mode == GB_ORIGIN_MODE_PASS && fill->followers == NULL;
    fill->complete = whole && !renews;
    (void)pthread_mutex_unlock(&fill->lock);
    if (!whole) {
        gb_origin_fill_end(fill, forsaken ? -ECANCELED : -EPIPE);
        return;
    }
    fill->ending = true;
    close_transfer(fill);
    if (renews) {
        gb_origin_store_renew(fill);
        return;
    }
    (void)pthread_mutex_lock(&fill->lock);
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    gb_origin_store_pump(fill);
}
