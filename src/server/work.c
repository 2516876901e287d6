/* The pool of threads for what may block. */
#include "server/work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/assert.h"
#include "server/loop_internal.h"

struct gb_work {
    pthread_mutex_t lock; /* of everything below; a leaf */
    pthread_cond_t come;
    struct gb_post *first;
    struct gb_post **last;
    unsigned waiting;
    unsigned idle;
    unsigned threads;
    unsigned most_threads;
    uint64_t done;
    bool ending;
    pthread_t ids[]; /* of `threads` */
};

static struct gb_job *job_of(struct gb_post *post)
{
    return (struct gb_job *)(void *)((char *)post - offsetof(struct gb_job, post));
}

static void come_back(struct gb_post *post)
{
    struct gb_job *job = job_of(post);
    unsigned jobs = atomic_fetch_sub(&job->loop->internal->jobs, 1);
    GB_ASSERT(jobs > 0);
    job->done(job);
}

static struct gb_job *take_locked(struct gb_work *work)
{
    struct gb_post *post = work->first;
    work->first = post->next;
    if (work->first == NULL) {
        work->last = &work->first;
    }
    work->waiting--;
    return job_of(post);
}

static void *work_on(void *arg)
{
    struct gb_work *work = arg;
    (void)pthread_mutex_lock(&work->lock);
    for (;;) {
        while (work->first == NULL && !work->ending) {
            work->idle++;
            (void)pthread_cond_wait(&work->come, &work->lock);
            work->idle--;
        }
        if (work->first == NULL) {
            break;
        }
        struct gb_job *job = take_locked(work);
        (void)pthread_mutex_unlock(&work->lock);
        job->run(job);
        job->post.run = come_back;
        gb_loop_post(job->loop, &job->post);
        (void)pthread_mutex_lock(&work->lock);
        work->done++;
    }
    (void)pthread_mutex_unlock(&work->lock);
    return NULL;
}

/* Signals are the main thread's. */
static int start_locked(struct gb_work *work)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&work->ids[work->threads], NULL, work_on, work);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        work->threads++;
    }
    return -rc;
}

int gb_work_create(struct gb_work **out, unsigned most_threads)
{
    struct gb_work *work = calloc(1, sizeof(*work) + most_threads * sizeof(work->ids[0]));
    if (work == NULL) {
        return -ENOMEM;
    }
    work->last = &work->first;
    work->most_threads = most_threads;
    (void)pthread_mutex_init(&work->lock, NULL);
    (void)pthread_cond_init(&work->come, NULL);
    (void)pthread_mutex_lock(&work->lock);
    int rc = start_locked(work);
    (void)pthread_mutex_unlock(&work->lock);
    if (rc < 0) {
        gb_work_destroy(work);
        return rc;
    }
    *out = work;
    return GOBLIN_OK;
}

void gb_work_destroy(struct gb_work *work)
{
    if (work == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&work->lock);
    work->ending = true;
    (void)pthread_cond_broadcast(&work->come);
    (void)pthread_mutex_unlock(&work->lock);
    /* No more are started: who would submit a job has ended. */
    for (unsigned i = 0; i < work->threads; i++) {
        (void)pthread_join(work->ids[i], NULL);
    }
    (void)pthread_cond_destroy(&work->come);
    (void)pthread_mutex_destroy(&work->lock);
    free(work);
}

void gb_work_submit(struct gb_work *work, struct gb_loop *loop, struct gb_job *job)
{
    job->loop = loop;
    job->post.next = NULL;
    atomic_fetch_add(&loop->internal->jobs, 1); /* the loop does not end before it is back */
    (void)pthread_mutex_lock(&work->lock);
    GB_ASSERT(!work->ending);
    *work->last = &job->post;
    work->last = &job->post.next;
    work->waiting++;
    if (work->waiting > work->idle && work->threads < work->most_threads) {
        (void)start_locked(work); /* else those there are do it, later */
    }
    (void)pthread_cond_signal(&work->come);
    (void)pthread_mutex_unlock(&work->lock);
}

struct gb_work_counts gb_work_counts(struct gb_work *work)
{
    (void)pthread_mutex_lock(&work->lock);
    const struct gb_work_counts counts = {
        .threads = work->threads,
        .idle = work->idle,
        .waiting = work->waiting,
        .done = work->done,
    };
    (void)pthread_mutex_unlock(&work->lock);
    return counts;
}
