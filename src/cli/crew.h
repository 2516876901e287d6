/*
 * A crew of threads that take jobs from one bounded queue.
 *
 * The foreman (one thread) gives jobs, waiting while the queue is full; every worker runs one
 * function that takes jobs until there are none left. Anyone may call the work off: then no more
 * jobs are given or taken. Keep in mind that a worker that returns early must call it off, or the
 * foreman waits for ever.
 */
#ifndef GB_CLI_CREW_H
#define GB_CLI_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define GB_CREW_MAX   64u
#define GB_CREW_QUEUE 256u

/* A job: a copy of the bytes that were given. Owns: whoever took it frees `bytes`. */
struct gb_crew_job {
    void *bytes;
    size_t len;
};

struct gb_crew {
    pthread_mutex_t lock; /* over everything below but `threads` */
    pthread_cond_t given; /* or there is nothing more to wait for */
    pthread_cond_t taken;
    struct gb_crew_job jobs[GB_CREW_QUEUE];
    size_t first;
    size_t count;
    bool closed; /* no more will be given */
    bool called_off;
    pthread_t threads[GB_CREW_MAX];
    unsigned thread_count;
};

/* Starts `workers` threads (1 to GB_CREW_MAX) on work(arg); fewer if the system refuses some.
 * Returns 0, or a negative errno when not one could be started. */
int gb_crew_start(struct gb_crew *crew, unsigned workers, void *(*work)(void *), void *arg);

/* Returns 0, 1 when the work was called off, or -ENOMEM. Blocks. */
int gb_crew_give(struct gb_crew *crew, const void *bytes, size_t len);

/* False when there is nothing more to do. Blocks. Threads: the workers. */
bool gb_crew_take(struct gb_crew *crew, struct gb_crew_job *job);

/* Threads: any. */
void gb_crew_call_off(struct gb_crew *crew);

/* Waits until all jobs are done (or dropped, when called off) and all threads have ended. */
void gb_crew_finish(struct gb_crew *crew);

#endif
