/* A bounded queue of jobs and the threads that work it off. */
#include "cli/crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

int gb_crew_start(struct gb_crew *crew, unsigned workers, void *(*work)(void *), void *arg)
{
    GB_ASSERT(workers >= 1 && workers <= GB_CREW_MAX);
    *crew = (struct gb_crew){0};
    (void)pthread_mutex_init(&crew->lock, NULL);
    (void)pthread_cond_init(&crew->given, NULL);
    (void)pthread_cond_init(&crew->taken, NULL);
    int fault = 0;
    while (crew->thread_count < workers && fault == 0) {
        fault = pthread_create(&crew->threads[crew->thread_count], NULL, work, arg);
        crew->thread_count += fault == 0;
    }
    if (crew->thread_count > 0) {
        return 0;
    }
    gb_crew_finish(crew);
    return -fault;
}

int gb_crew_give(struct gb_crew *crew, const void *bytes, size_t len)
{
    void *copy = malloc(len + 1); /* never of zero bytes */
    if (copy == NULL) {
        return -ENOMEM;
    }
    memcpy(copy, bytes, len);
    (void)pthread_mutex_lock(&crew->lock);
    GB_ASSERT(!crew->closed);
    while (crew->count == GB_CREW_QUEUE && !crew->called_off) {
        (void)pthread_cond_wait(&crew->taken, &crew->lock);
    }
    bool called_off = crew->called_off;
    if (!called_off) {
        crew->jobs[(crew->first + crew->count++) % GB_CREW_QUEUE] = (struct gb_crew_job){copy, len};
        (void)pthread_cond_signal(&crew->given);
    }
    (void)pthread_mutex_unlock(&crew->lock);
    if (called_off) {
        free(copy);
    }
    return called_off ? 1 : 0;
}

bool gb_crew_take(struct gb_crew *crew, struct gb_crew_job *job)
{
    (void)pthread_mutex_lock(&crew->lock);
    while (crew->count == 0 && !crew->closed && !crew->called_off) {
        (void)pthread_cond_wait(&crew->given, &crew->lock);
    }
    bool taken = crew->count > 0 && !crew->called_off;
    if (taken) {
        *job = crew->jobs[crew->first];
        crew->first = (crew->first + 1) % GB_CREW_QUEUE;
        crew->count--;
        (void)pthread_cond_signal(&crew->taken);
    }
    (void)pthread_mutex_unlock(&crew->lock);
    return taken;
}

void gb_crew_call_off(struct gb_crew *crew)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->called_off = true;
    (void)pthread_cond_broadcast(&crew->given);
    (void)pthread_cond_broadcast(&crew->taken);
    (void)pthread_mutex_unlock(&crew->lock);
}

void gb_crew_finish(struct gb_crew *crew)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->closed = true;
    (void)pthread_cond_broadcast(&crew->given);
    (void)pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i < crew->thread_count; i++) {
        (void)pthread_join(crew->threads[i], NULL);
    }
    for (; crew->count > 0; crew->count--) {
        free(crew->jobs[crew->first].bytes);
        crew->first = (crew->first + 1) % GB_CREW_QUEUE;
    }
    (void)pthread_cond_destroy(&crew->given);
    (void)pthread_cond_destroy(&crew->taken);
    (void)pthread_mutex_destroy(&crew->lock);
}
