/* The local backend from the inside: backend.c (changes, reads), backend_stream.c,
 * backend_edit.c. */
#ifndef GB_SERVER_BACKEND_LOCAL_H
#define GB_SERVER_BACKEND_LOCAL_H

#include <pthread.h>

#include "server/backend.h"

struct gb_local {
    struct gb_backend backend; /* first */
    struct goblin *store;
    struct gb_work *work;
    enum goblin_durability durability; /* of changes that do not say */
    unsigned streams_most;

    pthread_mutex_t lock;  /* of the rest; a leaf but for gb_work's */
    unsigned active;       /* streams that have a writer, or are about to */
    unsigned waiting;      /* in line */
    struct gb_stream line; /* head of a circular list: who waits for another to end */
};

static inline struct gb_local *gb_local_of(struct gb_backend *backend)
{
    return (struct gb_local *)(void *)backend;
}

int gb_local_edit(struct gb_backend *backend, struct gb_loop *loop, struct gb_edit *edit);

void gb_local_stream_begin(struct gb_backend *backend, struct gb_loop *loop,
                           struct gb_stream *stream);
void gb_local_stream_write(struct gb_backend *backend, struct gb_stream *stream);
void gb_local_stream_commit(struct gb_backend *backend, struct gb_stream *stream);
void gb_local_stream_abort(struct gb_backend *backend, struct gb_stream *stream);
void gb_local_count_streams(struct gb_backend *backend, unsigned *active, unsigned *waiting);

#endif
