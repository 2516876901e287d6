/*
 * Descriptors of files that are more than the process may have open at once.
 *
 * A store has a file for each segment and a large one has thousands, while RLIMIT_NOFILE is often
 * 1024. So a file's descriptor is closed when others need one and opened again by its path when the
 * file is used next. While it is acquired it stays. Half of the limit is taken at most: the rest is
 * the embedder's.
 *
 * Threads: any.
 */
#ifndef GB_ENGINE_DESCRIPTORS_H
#define GB_ENGINE_DESCRIPTORS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct gb_descriptor {
    char *path; /* absolute; NULL: it has none and is never closed on the way */
    int flags;  /* of open(2), to open it again */
    int fd;     /* changes only under the pool's lock, while `users` is GB_DESCRIPTOR_CLOSED */
    _Atomic int users;
    _Atomic bool recent;        /* used since the hand came by */
    struct gb_descriptor *next; /* the ring of those open; under the pool's lock */
    struct gb_descriptor *previous;
};

#define GB_DESCRIPTOR_CLOSED (-1) /* of `users` */

struct gb_descriptors {
    pthread_mutex_t lock;
    struct gb_descriptor *hand; /* into the ring; NULL: it is empty */
    unsigned open;              /* in the ring */
    unsigned most;
};

/* How many a pool keeps open, by the limit as it is now. */
unsigned gb_descriptors_most(void);

void gb_descriptors_init(struct gb_descriptors *pool);
/* All must have been closed. */
void gb_descriptors_fini(struct gb_descriptors *pool);

/* Opens a path, with flags of open(2), for a descriptor not in use yet, and leaves it acquired.
 * Returns the descriptor or a negative errno. */
int gb_descriptors_open(struct gb_descriptors *pool, struct gb_descriptor *descriptor,
                        const char *path, int flags);
/* Takes a descriptor that has no path and stays open. */
void gb_descriptors_adopt(struct gb_descriptor *descriptor, int fd);
void gb_descriptors_close(struct gb_descriptors *pool, struct gb_descriptor *descriptor);

/* Keeps the file open until the release. Returns its descriptor, or a negative errno: -EMFILE when
 * none can be had, what open(2) says of the path otherwise. */
int gb_descriptors_acquire(struct gb_descriptors *pool, struct gb_descriptor *descriptor);
void gb_descriptors_release(struct gb_descriptor *descriptor);

#endif
