/* The origin: options, the table of fills, and libcurl on a loop. See origin.h. */
#include "server/origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/random.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/rng.h"
#include "server/loop_internal.h"
#include "server/origin_internal.h"

#define TIMEOUT_MS  30000
#define CONNECTIONS 64u

/* A socket of libcurl's that the loop polls. */
struct socket_poll {
    uv_poll_t poll;
    struct gb_origin_loop *at;
    curl_socket_t fd;
};

/* ---- options ------------------------------------------------------------------------------- */

static int explain(struct goblin_error *error, const char *what, const char *value)
{
    if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "origin %.200s: %s", value, what);
    }
    return GOBLIN_EOPTION;
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool is_web(CURLU *url)
{
    char *scheme = NULL;
    bool web = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
               (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    return web;
}

int gb_origin_check(const struct gb_origin_options *options, struct goblin_error *error)
{
    int rc = GOBLIN_OK;
    if (options->url == NULL) {
        return GOBLIN_OK;
    }
    CURLU *url = curl_url();
    if (url == NULL) {
        return -ENOMEM;
    }
    if (curl_url_set(url, CURLUPART_URL, options->url, 0) != CURLUE_OK || !is_web(url)) {
        rc = explain(error, "give http://HOST[:PORT][/PATH] or https://…", options->url);
    } else if (has_part(url, CURLUPART_QUERY) || has_part(url, CURLUPART_FRAGMENT)) {
        rc = explain(error, "a path may follow the host, but no ? and no #", options->url);
    } else if (options->ca_file != NULL && access(options->ca_file, R_OK) != 0) {
        rc = explain(error, "the file of certificates cannot be read", options->ca_file);
    }
    curl_url_cleanup(url);
    return rc;
}

static int choose(struct gb_origin *origin, const struct gb_origin_options *options)
{
    origin->options = *options;
    if (options->timeout_ms == 0) {
        origin->options.timeout_ms = TIMEOUT_MS;
    }
    if (options->connections == 0) {
        origin->options.connections = CONNECTIONS;
    }
    if (options->object_bytes == 0) {
        origin->options.object_bytes = GB_GIB;
    }
    origin->base = strdup(options->url);
    if (origin->base == NULL) {
        return -ENOMEM;
    }
    size_t len = strlen(origin->base);
    while (len > 0 && origin->base[len - 1] == '/') {
        origin->base[--len] = '\0';
    }
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return -errno;
    }
    (void)snprintf(origin->name, sizeof(origin->name), "goblin-%016" PRIx64, random);
    return GOBLIN_OK;
}

int gb_origin_create(struct gb_origin **out, const struct gb_origin_options *options,
                     unsigned loops, struct goblin_error *error)
{
    /* Before anything else of libcurl's; what it holds is the process's to the end. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return -ENOMEM;
    }
    int rc = gb_origin_check(options, error);
    if (rc < 0) {
        return rc;
    }
    struct gb_origin *origin = calloc(1, sizeof(*origin));
    if (origin == NULL) {
        return -ENOMEM;
    }
    (void)pthread_mutex_init(&origin->lock, NULL);
    origin->loop_count = loops;
    origin->loops = calloc(loops, sizeof(struct gb_origin_loop *));
    rc = origin->loops == NULL ? -ENOMEM : choose(origin, options);
    if (rc < 0) {
        gb_origin_destroy(origin);
        return rc;
    }
    *out = origin;
    return GOBLIN_OK;
}

void gb_origin_destroy(struct gb_origin *origin)
{
    if (origin == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&origin->lock);
    free(origin->loops);
    free(origin->base);
    free(origin);
}

const char *gb_origin_name(const struct gb_origin *origin)
{
    return origin->name;
}

/* ---- libcurl on a loop --------------------------------------------------------------------- */

static void take_messages(struct gb_origin_loop *at)
{
    int left = 0;
    for (CURLMsg *message = NULL; (message = curl_multi_info_read(at->multi, &left)) != NULL;) {
        char *fill = NULL;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fill) == CURLE_OK) {
            gb_origin_fill_done((struct gb_origin_fill *)(void *)fill, message->data.result);
        }
    }
}

static void act(struct gb_origin_loop *at, curl_socket_t fd, int events)
{
    int running = 0;
    gb_loop_refresh(at->loop);
    (void)curl_multi_socket_action(at->multi, fd, events, &running);
    take_messages(at);
}

static void timed(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void polled(uv_poll_t *poll, int status, int events)
{
    const struct socket_poll *socket = poll->data;
    int what = status < 0 ? CURL_CSELECT_ERR : 0;
    what |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
    what |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
    act(socket->at, socket->fd, what);
}

static void socket_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static struct socket_poll *open_socket(struct gb_origin_loop *at, curl_socket_t fd)
{
    struct socket_poll *socket = calloc(1, sizeof(*socket));
    if (socket == NULL) {
        return NULL;
    }
    if (uv_poll_init_socket(&at->loop->uv, &socket->poll, fd) != 0) {
        free(socket);
        return NULL;
    }
    socket->at = at;
    socket->fd = fd;
    socket->poll.data = socket;
    (void)curl_multi_assign(at->multi, fd, socket);
    return socket;
}

/* CURLMOPT_SOCKETFUNCTION. A socket that cannot be polled is one that never moves: its transfer
 * ends by its deadline. */
static int watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct gb_origin_loop *at = arg;
    struct socket_poll *socket = socket_arg;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL) {
            (void)uv_poll_stop(&socket->poll);
            (void)curl_multi_assign(at->multi, fd, NULL);
            uv_close((uv_handle_t *)&socket->poll, socket_closed);
        }
        return 0;
    }
    socket = socket != NULL ? socket : open_socket(at, fd);
    if (socket == NULL) {
        return 0;
    }
    int events = (what & CURL_POLL_IN) != 0 ? UV_READABLE : 0;
    events |= (what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0;
    (void)uv_poll_start(&socket->poll, events, polled);
    return 0;
}

/* CURLMOPT_TIMERFUNCTION */
static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct gb_origin_loop *at = arg;
    (void)multi;
    if (at->stopped) {
        return 0;
    }
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&at->timer);
    } else {
        (void)uv_timer_start(&at->timer, timed, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

int gb_origin_start(struct gb_origin *origin, struct gb_loop *loop)
{
    struct gb_origin_loop *at = calloc(1, sizeof(*at));
    if (at == NULL) {
        return -ENOMEM;
    }
    at->origin = origin;
    at->loop = loop;
    at->multi = curl_multi_init();
    if (at->multi == NULL) {
        free(at);
        return -ENOMEM;
    }
    unsigned share = (origin->options.connections + origin->loop_count - 1) / origin->loop_count;
    (void)curl_multi_setopt(at->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)share);
    (void)curl_multi_setopt(at->multi, CURLMOPT_MAXCONNECTS, (long)share);
    (void)curl_multi_setopt(at->multi, CURLMOPT_SOCKETFUNCTION, watch);
    (void)curl_multi_setopt(at->multi, CURLMOPT_SOCKETDATA, at);
    (void)curl_multi_setopt(at->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(at->multi, CURLMOPT_TIMERDATA, at);
    (void)uv_timer_init(&loop->uv, &at->timer);
    at->timer.data = at;
    at->refs = 1;
    origin->loops[loop->number] = at;
    return GOBLIN_OK;
}

void gb_origin_loop_unref(struct gb_origin_loop *at)
{
    GB_ASSERT(at->refs > 0);
    if (--at->refs == 0) {
        free(at);
    }
}

static void timer_closed(uv_handle_t *handle)
{
    gb_origin_loop_unref(handle->data);
}

void gb_origin_stop(struct gb_origin *origin, struct gb_loop *loop)
{
    struct gb_origin_loop *at = origin->loops[loop->number];
    if (at == NULL) {
        return;
    }
    origin->loops[loop->number] = NULL;
    at->stopped = true;
    for (struct gb_origin_fill *fill = at->fills; fill != NULL;) {
        struct gb_origin_fill *next = fill->next;
        gb_origin_fill_end(fill, GOBLIN_ECLOSED);
        fill = next;
    }
    (void)uv_timer_stop(&at->timer);
    (void)curl_multi_cleanup(at->multi);
    uv_close((uv_handle_t *)&at->timer, timer_closed);
}

/* ---- the table ----------------------------------------------------------------------------- */

uint64_t gb_origin_hash(struct goblin_slice key)
{
    const unsigned char *bytes = key.data;
    uint64_t hash = key.len;
    for (size_t i = 0; i < key.len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, gb_min(8, key.len - i));
        hash = gb_rng_mix(hash ^ word);
    }
    return hash;
}

static struct gb_origin_fill **bucket_of(struct gb_origin *origin, struct goblin_slice key)
{
    return &origin->buckets[gb_origin_hash(key) % GB_ORIGIN_BUCKETS];
}

static struct gb_origin_fill *find_locked(struct gb_origin *origin, struct goblin_slice key)
{
    struct gb_origin_fill *fill = *bucket_of(origin, key);
    while (fill != NULL &&
           (fill->key_len != key.len || memcmp(fill->key, key.data, key.len) != 0)) {
        fill = fill->chain;
    }
    return fill;
}

void gb_origin_leave_table(struct gb_origin_fill *fill)
{
    struct gb_origin *origin = fill->origin;
    (void)pthread_mutex_lock(&origin->lock);
    bool was_in = fill->in_table;
    if (was_in) {
        const struct goblin_slice key = {fill->key, fill->key_len};
        struct gb_origin_fill **way = bucket_of(origin, key);
        while (*way != fill) {
            way = &(*way)->chain;
        }
        *way = fill->chain;
        fill->in_table = false;
    }
    (void)pthread_mutex_unlock(&origin->lock);
    if (was_in) {
        gb_origin_unref(fill, fill->loop);
    }
}

void gb_origin_ref(struct gb_origin_fill *fill)
{
    (void)atomic_fetch_add_explicit(&fill->refs, 1, memory_order_relaxed);
}

void gb_origin_unref(struct gb_origin_fill *fill, struct gb_loop *loop)
{
    /* Release and acquire: what others wrote is seen by whoever frees. */
    if (atomic_fetch_sub_explicit(&fill->refs, 1, memory_order_acq_rel) == 1) {
        uint64_t bytes = fill->window_bytes;
        gb_origin_fill_free(fill);
        gb_loop_give_bytes(loop, bytes);
    }
}

/* A new fill, or the one that there is, with a reference for a follower. */
static int find_or_create(struct gb_origin_loop *at, const struct gb_origin_ask *ask,
                          struct gb_origin_fill **out, bool *is_new)
{
    struct gb_origin *origin = at->origin;
    int rc = GOBLIN_OK;
    (void)pthread_mutex_lock(&origin->lock);
    struct gb_origin_fill *fill = ask->alone ? NULL : find_locked(origin, ask->key);
    *is_new = fill == NULL;
    if (fill == NULL) {
        rc = gb_origin_fill_create(&fill, at, ask);
        if (rc >= 0 && !ask->alone) {
            struct gb_origin_fill **bucket = bucket_of(origin, ask->key);
            fill->chain = *bucket;
            *bucket = fill;
            fill->in_table = true;
            gb_origin_ref(fill);
        }
    }
    if (rc >= 0) {
        gb_origin_ref(fill);
    }
    (void)pthread_mutex_unlock(&origin->lock);
    *out = fill;
    return rc;
}

int gb_origin_follow(struct gb_origin *origin, struct gb_loop *loop,
                     const struct gb_origin_ask *ask, struct gb_origin_follower **out)
{
    struct gb_origin_loop *at = origin->loops[loop->number];
    struct gb_origin_fill *fill = NULL;
    bool is_new = false;
    if (at == NULL) {
        return GOBLIN_ECLOSED;
    }
    int rc = find_or_create(at, ask, &fill, &is_new);
    if (rc < 0) {
        return rc;
    }
    struct gb_origin_follower *follower = gb_origin_follower_create(fill, loop);
    if (is_new) {
        rc = gb_origin_fill_start(fill, ask);
        if (rc < 0) {
            gb_origin_fill_end(fill, rc);
        }
    } else {
        gb_metrics_add(loop->metrics, GB_METRICS_origin_collapsed, 1);
    }
    if (follower == NULL) {
        gb_origin_unref(fill, loop);
        return -ENOMEM;
    }
    *out = follower;
    return GOBLIN_OK;
}
