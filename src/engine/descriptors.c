/* The pool of descriptors: a ring with a hand that passes over what was used of late. */
#include "engine/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"

#define FILE_MODE  0640
#define MOST_LEAST 8u
#define MOST_MOST  (1u << 20)

unsigned gb_descriptors_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 > MOST_MOST) {
        return MOST_MOST;
    }
    unsigned half = (unsigned)(limit.rlim_cur / 2);
    return half < MOST_LEAST ? MOST_LEAST : half;
}

void gb_descriptors_init(struct gb_descriptors *pool)
{
    *pool = (struct gb_descriptors){.most = gb_descriptors_most()};
    (void)pthread_mutex_init(&pool->lock, NULL);
}

void gb_descriptors_fini(struct gb_descriptors *pool)
{
    GB_ASSERT(pool->hand == NULL);
    (void)pthread_mutex_destroy(&pool->lock);
}

/* ---- the ring, with the lock held ---------------------------------------------------------- */

/* Behind the hand, so that it comes by last. */
static void link_locked(struct gb_descriptors *pool, struct gb_descriptor *descriptor)
{
    if (pool->hand == NULL) {
        descriptor->next = descriptor->previous = descriptor;
        pool->hand = descriptor;
    } else {
        descriptor->next = pool->hand;
        descriptor->previous = pool->hand->previous;
        descriptor->previous->next = descriptor;
        pool->hand->previous = descriptor;
    }
    pool->open++;
}

static void unlink_locked(struct gb_descriptors *pool, struct gb_descriptor *descriptor)
{
    descriptor->previous->next = descriptor->next;
    descriptor->next->previous = descriptor->previous;
    if (pool->hand == descriptor) {
        pool->hand = descriptor->next == descriptor ? NULL : descriptor->next;
    }
    pool->open--;
}

/* Closes one that nobody uses; false: all are in use. */
static bool evict_locked(struct gb_descriptors *pool)
{
    unsigned steps = 2 * pool->open;
    for (struct gb_descriptor *descriptor = pool->hand; descriptor != NULL && steps > 0; steps--) {
        struct gb_descriptor *passed = descriptor;
        descriptor = descriptor->next;
        pool->hand = descriptor;
        int unused = 0;
        if (atomic_exchange_explicit(&passed->recent, false, memory_order_relaxed)) {
            continue;
        }
        /* Acquire: pairs with the release of the last user. */
        if (atomic_compare_exchange_strong_explicit(&passed->users, &unused, GB_DESCRIPTOR_CLOSED,
                                                    memory_order_acquire, memory_order_relaxed)) {
            unlink_locked(pool, passed);
            (void)close(passed->fd);
            return true;
        }
    }
    return false;
}

static int open_locked(struct gb_descriptors *pool, struct gb_descriptor *descriptor, int flags)
{
    while (pool->open >= pool->most && evict_locked(pool)) {
    }
    int fd;
    do {
        fd = open(descriptor->path, flags | O_CLOEXEC, FILE_MODE);
    } while (fd < 0 &&
             (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && evict_locked(pool))));
    if (fd < 0) {
        return errno == ENFILE ? -EMFILE : -errno;
    }
    descriptor->fd = fd;
    link_locked(pool, descriptor);
    /* Release: whoever sees a user sees the descriptor. */
    atomic_store_explicit(&descriptor->users, 1, memory_order_release);
    return fd;
}

/* ---- one file ------------------------------------------------------------------------------ */

/* The embedder may change its working directory. */
static char *absolute(const char *path)
{
    char whole[PATH_MAX];
    if (path[0] == '/') {
        return strdup(path);
    }
    size_t len = getcwd(whole, sizeof(whole)) != NULL ? strlen(whole) : sizeof(whole);
    int n = len < sizeof(whole) ? snprintf(whole + len, sizeof(whole) - len, "/%s", path) : -1;
    /* Too deep to be named: as it was given. */
    return strdup(n > 0 && (size_t)n < sizeof(whole) - len ? whole : path);
}

int gb_descriptors_open(struct gb_descriptors *pool, struct gb_descriptor *descriptor,
                        const char *path, int flags)
{
    *descriptor =
        (struct gb_descriptor){.path = absolute(path), .flags = flags & ~(O_CREAT | O_EXCL)};
    atomic_init(&descriptor->users, GB_DESCRIPTOR_CLOSED);
    if (descriptor->path == NULL) {
        return -ENOMEM;
    }
    (void)pthread_mutex_lock(&pool->lock);
    int fd = open_locked(pool, descriptor, flags);
    (void)pthread_mutex_unlock(&pool->lock);
    if (fd < 0) {
        free(descriptor->path);
    }
    return fd;
}

void gb_descriptors_adopt(struct gb_descriptor *descriptor, int fd)
{
    *descriptor = (struct gb_descriptor){.fd = fd};
}

void gb_descriptors_close(struct gb_descriptors *pool, struct gb_descriptor *descriptor)
{
    /* Whatever close says, the descriptor is gone; what must last was synced before. */
    if (descriptor->path == NULL) {
        (void)close(descriptor->fd);
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    if (atomic_load(&descriptor->users) != GB_DESCRIPTOR_CLOSED) {
        unlink_locked(pool, descriptor);
        (void)close(descriptor->fd);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    free(descriptor->path);
}

int gb_descriptors_acquire(struct gb_descriptors *pool, struct gb_descriptor *descriptor)
{
    int users = atomic_load_explicit(&descriptor->users, memory_order_relaxed);
    while (users != GB_DESCRIPTOR_CLOSED) {
        /* Acquire: pairs with the release in open_locked. */
        if (atomic_compare_exchange_weak_explicit(&descriptor->users, &users, users + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            atomic_store_explicit(&descriptor->recent, true, memory_order_relaxed);
            return descriptor->fd;
        }
    }
    (void)pthread_mutex_lock(&pool->lock);
    int fd = 0;
    if (atomic_load(&descriptor->users) == GB_DESCRIPTOR_CLOSED) {
        fd = open_locked(pool, descriptor, descriptor->flags);
    } else {
        /* Opened by another thread meanwhile; only the lock's holder could close it again. */
        (void)atomic_fetch_add(&descriptor->users, 1);
        fd = descriptor->fd;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return fd;
}

void gb_descriptors_release(struct gb_descriptor *descriptor)
{
    /* Release: what was done with the descriptor comes before its closing. */
    int users = atomic_fetch_sub_explicit(&descriptor->users, 1, memory_order_release);
    GB_ASSERT(users > 0);
}
