/* The memcached protocol as the server sees it, and what the sessions of all loops share. */
#include "server/memcache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/mc_auth.h"
#include "server/mc_session.h"

/* Leaves NULL where the options name no file. */
static int load_auth(struct gb_mc_auth **out, const struct gb_memcache_options *options,
                     struct goblin_error *error)
{
    *out = NULL;
    return options->auth_file != NULL ? gb_mc_auth_load(out, options->auth_file, error) : GOBLIN_OK;
}

static int load_tls(struct gb_tls **out, const struct gb_memcache_options *options,
                    struct goblin_error *error)
{
    *out = NULL;
    return options->tls.certificate_count > 0 ? gb_tls_load(out, &options->tls, error) : GOBLIN_OK;
}

/* Each loop reads the files for itself; that they can be read is found out here. */
static int try_files(const struct gb_memcache_options *options, struct goblin_error *error)
{
    struct gb_mc_auth *auth = NULL;
    struct gb_tls *tls = NULL;
    int result = load_auth(&auth, options, error);
    if (result >= 0) {
        result = load_tls(&tls, options, error);
    }
    gb_mc_auth_free(auth);
    gb_tls_unref(tls);
    return result;
}

static int say_no_memory(struct goblin_error *error)
{
    (void)snprintf(error->text, sizeof(error->text), "memcache: %s", goblin_strerror(-ENOMEM));
    return -ENOMEM;
}

int gb_memcache_create(struct gb_memcache **out, const struct gb_memcache_options *options,
                       struct goblin_error *error)
{
    int result = try_files(options, error);
    if (result < 0) {
        return result;
    }
    struct gb_memcache *memcache = calloc(1, sizeof(*memcache));
    if (memcache == NULL) {
        return say_no_memory(error);
    }
    memcache->options = *options;
    if (options->value_max_bytes == 0) {
        memcache->options.value_max_bytes = GB_GIB;
    }
    (void)pthread_mutex_init(&memcache->lock, NULL);
    *out = memcache;
    return GOBLIN_OK;
}

void gb_memcache_destroy(struct gb_memcache *memcache)
{
    if (memcache == NULL) {
        return;
    }
    GB_ASSERT(memcache->loops == NULL);
    (void)pthread_mutex_destroy(&memcache->lock);
    free(memcache);
}

/* The listener's options are constant to everybody but us. */
static struct gb_memcache *memcache_of(const void *options)
{
    return (struct gb_memcache *)(uintptr_t)options;
}

struct gb_mc_loop *gb_memcache_home(const void *options, const struct gb_loop *loop)
{
    struct gb_memcache *memcache = memcache_of(options);
    (void)pthread_mutex_lock(&memcache->lock);
    struct gb_mc_loop *home = memcache->loops;
    while (home != NULL && home->loop != loop) {
        home = home->next;
    }
    (void)pthread_mutex_unlock(&memcache->lock);
    return home;
}

static int start(struct gb_loop *loop, const void *options, void **state,
                 struct goblin_error *error)
{
    struct gb_memcache *memcache = memcache_of(options);
    struct gb_mc_loop *home = calloc(1, sizeof(*home));
    if (home == NULL) {
        return say_no_memory(error);
    }
    home->memcache = memcache;
    home->loop = loop;
    int result = load_auth(&home->auth, &memcache->options, error);
    if (result >= 0) {
        result = load_tls(&home->tls, &memcache->options, error);
    }
    if (result < 0) {
        gb_mc_auth_free(home->auth);
        free(home);
        return result;
    }
    (void)pthread_mutex_lock(&memcache->lock);
    home->next = memcache->loops;
    memcache->loops = home;
    (void)pthread_mutex_unlock(&memcache->lock);
    *state = home;
    return GOBLIN_OK;
}

static void accept_socket(struct gb_loop *loop, void *state, const struct gb_listener *listener,
                          int fd)
{
    const struct gb_mc_loop *home = state;
    GB_ASSERT(!listener->tls || home->tls != NULL);
    int result =
        gb_conn_open(loop, listener, fd, &gb_mc_session_ops, listener->tls ? home->tls : NULL);
    if (result < 0) {
        const char *why = goblin_strerror(result);
        const struct gb_log_field fields[] = {GB_LOG_TEXT("error", why)};
        gb_log_event(loop->log, GOBLIN_LOG_WARN, "connection_refused", fields, 1);
    }
}

static void say_kept(struct gb_loop *loop, const char *event, const struct goblin_error *error)
{
    const struct gb_log_field fields[] = {GB_LOG_TEXT("error", error->text)};
    gb_log_event(loop->log, GOBLIN_LOG_ERROR, event, fields, 1);
}

static void reload(struct gb_loop *loop, void *state)
{
    struct gb_mc_loop *home = state;
    struct gb_mc_auth *auth = NULL;
    struct gb_tls *tls = NULL;
    struct goblin_error error = {{0}};
    if (load_auth(&auth, &home->memcache->options, &error) < 0) {
        say_kept(loop, "passwords kept as they were", &error);
    } else {
        gb_mc_auth_free(home->auth);
        home->auth = auth;
    }
    if (load_tls(&tls, &home->memcache->options, &error) < 0) {
        say_kept(loop, "certificates kept as they were", &error);
    } else {
        gb_tls_unref(home->tls);
        home->tls = tls;
    }
}

static void stop(struct gb_loop *loop, void *state)
{
    struct gb_mc_loop *home = state;
    struct gb_memcache *memcache = home->memcache;
    gb_mc_change_stop(home);
    (void)pthread_mutex_lock(&memcache->lock);
    struct gb_mc_loop **at = &memcache->loops;
    while (*at != home) {
        at = &(*at)->next;
    }
    *at = home->next;
    (void)pthread_mutex_unlock(&memcache->lock);
    while (home->free_answers != NULL) {
        struct gb_mc_answer *answer = home->free_answers;
        home->free_answers = answer->next;
        free(answer);
        gb_limits_give(loop->limits, sizeof(*answer));
    }
    gb_mc_auth_free(home->auth);
    gb_tls_unref(home->tls);
    free(home);
}

const struct gb_protocol gb_memcache_protocol = {
    .name = "memcache",
    .example = "printf 'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nquit\\r\\n' | nc HOST PORT",
    .start = start,
    .accept = accept_socket,
    .reload = reload,
    .stop = stop,
};
