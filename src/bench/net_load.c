/* The load generator's threads: see net_load.h. */
#include "bench/net_load.h"

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/net_conn.h"
#include "bench/progress.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 64,
    TIMER_SLACK_NS = 1000, /* or requests of an open loop would be sent late by the timer's grace */
};

static const uint64_t second_ns = UINT64_C(1000000000);
static const uint64_t millisecond_ns = UINT64_C(1000000);
static const uint64_t wait_most_ns = UINT64_C(100000000);
static const uint64_t stall_ns = UINT64_C(30000000000);

/* ---- tallies ------------------------------------------------------------------------------- */

void gb_net_tally_init(struct gb_net_tally *tally)
{
    memset(tally, 0, sizeof(*tally));
    gb_histogram_init(&tally->first_ns);
    gb_histogram_init(&tally->get_ns);
    gb_histogram_init(&tally->set_ns);
    gb_histogram_init(&tally->sent_ns);
}

/* All but the time, which runs for threads together. */
static void sum_counts(struct gb_net_tally *into, const struct gb_net_tally *from)
{
    into->requests += from->requests;
    into->asked += from->asked;
    into->hits += from->hits;
    into->misses += from->misses;
    into->sets += from->sets;
    into->stored += from->stored;
    into->refilled += from->refilled;
    into->refused += from->refused;
    into->errors += from->errors;
    into->wrong += from->wrong;
    into->unanswered += from->unanswered;
    into->broken += from->broken;
    into->late += from->late;
    into->got_bytes += from->got_bytes;
    into->set_bytes += from->set_bytes;
    into->client_cpu_s += from->client_cpu_s;
    gb_histogram_merge(&into->first_ns, &from->first_ns);
    gb_histogram_merge(&into->get_ns, &from->get_ns);
    gb_histogram_merge(&into->set_ns, &from->set_ns);
    gb_histogram_merge(&into->sent_ns, &from->sent_ns);
}

void gb_net_tally_merge(struct gb_net_tally *into, const struct gb_net_tally *from)
{
    sum_counts(into, from);
    into->seconds += from->seconds;
    into->next = from->next;
}

/* ---- one thread ---------------------------------------------------------------------------- */

static double thread_cpu_s(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) < 0) {
        return 0;
    }
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static bool is_over(const struct gb_net_thread *thread, uint64_t now_ns)
{
    return thread->is_exhausted || now_ns >= thread->end_ns || gb_interrupt_seen();
}

/* A connection that failed is made anew; that it fails again is the end. */
static int mend(struct gb_net_conn *conn)
{
    conn->thread->tally->broken += conn->flying > 0;
    return gb_net_conn_renew(conn);
}

/* Closed loop: as many requests as may be in flight. */
static int top_up(struct gb_net_conn *conn, uint64_t now_ns)
{
    int rc = 1;
    while (rc > 0 && gb_net_conn_is_free(conn) && !is_over(conn->thread, now_ns)) {
        rc = gb_net_conn_ask(conn, 0, now_ns);
    }
    if (rc < 0) {
        return rc;
    }
    return gb_net_conn_flush(conn) < 0 ? mend(conn) : 0;
}

static int on_ready(struct gb_net_conn *conn, uint32_t events)
{
    struct gb_net_thread *thread = conn->thread;
    int rc = 0;
    if (events & ~(uint32_t)EPOLLOUT) {
        rc = gb_net_conn_receive(conn);
        rc = rc < 0 ? mend(conn) : 0;
    }
    if (rc == 0 && thread->load->rate_per_s == 0) {
        return top_up(conn, gb_progress_now_ns());
    }
    if (rc == 0 && (events & (uint32_t)EPOLLOUT) && gb_net_conn_flush(conn) < 0) {
        rc = mend(conn);
    }
    return rc;
}

static struct gb_net_conn *find_free(struct gb_net_thread *thread)
{
    for (unsigned i = 0; i < thread->count; i++) {
        struct gb_net_conn *conn = &thread->conns[thread->cursor];
        thread->cursor = (thread->cursor + 1) % thread->count;
        if (gb_net_conn_is_free(conn)) {
            return conn;
        }
    }
    return NULL;
}

/* Open loop: what is due is sent, as far as connections are free. */
static int ask_due(struct gb_net_thread *thread, uint64_t now_ns)
{
    while (!is_over(thread, now_ns) && gb_pace_due_ns(&thread->pace) <= now_ns) {
        uint64_t due_ns = gb_pace_due_ns(&thread->pace);
        struct gb_net_conn *conn = find_free(thread);
        if (!conn) {
            thread->full_ns = now_ns;
            return 0;
        }
        int rc = gb_net_conn_ask(conn, due_ns, now_ns);
        if (rc <= 0) {
            return rc;
        }
        thread->pace.taken += thread->load->threads;
        thread->tally->late += due_ns <= thread->full_ns;
        if (gb_net_conn_flush(conn) < 0) {
            rc = mend(conn);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* Until the next request is due, if one could be sent then. */
static uint64_t wait_ns(const struct gb_net_thread *thread, uint64_t now_ns)
{
    uint64_t until_ns = now_ns + wait_most_ns;
    if (thread->end_ns > now_ns) {
        until_ns = gb_min(until_ns, thread->end_ns);
    }
    if (thread->load->rate_per_s > 0 && !is_over(thread, now_ns)) {
        uint64_t due_ns = gb_pace_due_ns(&thread->pace);
        bool is_full = due_ns <= now_ns; /* ask_due has just been called */
        until_ns = is_full ? until_ns : gb_min(until_ns, due_ns);
    }
    return until_ns - now_ns;
}

static int handle_events(struct gb_net_thread *thread, uint64_t now_ns)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t left_ns = wait_ns(thread, now_ns);
    const struct timespec timeout = {.tv_sec = (time_t)(left_ns / second_ns),
                                     .tv_nsec = (long)(left_ns % second_ns)};
    int count = epoll_pwait2(thread->epoll, events, EVENTS_MAX, &timeout, NULL);
    if (count < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        rc = on_ready(events[i].data.ptr, events[i].events);
    }
    return rc;
}

static int run_loop(struct gb_net_thread *thread)
{
    int rc = 0;
    thread->moved_ns = thread->started_ns;
    for (unsigned i = 0; i < thread->count && rc == 0 && thread->load->rate_per_s == 0; i++) {
        rc = top_up(&thread->conns[i], gb_progress_now_ns());
    }
    while (rc == 0) {
        uint64_t now_ns = gb_progress_now_ns();
        if (!thread->is_counting && now_ns >= thread->counted_ns) {
            thread->is_counting = true;
            thread->cpu_s = thread_cpu_s();
        }
        if (is_over(thread, now_ns) && (thread->flying == 0 || gb_interrupt_seen())) {
            break;
        }
        if (thread->flying > 0 && now_ns > thread->moved_ns + stall_ns) {
            return -ETIMEDOUT;
        }
        if (thread->load->rate_per_s > 0) {
            rc = ask_due(thread, now_ns);
        }
        rc = rc < 0 ? rc : handle_events(thread, gb_progress_now_ns());
    }
    return rc < 0 ? rc : gb_interrupt_seen() ? -EINTR : 0;
}

static void *thread_main(void *arg)
{
    struct gb_net_thread *thread = arg;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    if (thread->load->first_core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET((size_t)thread->load->first_core + thread->number, &cores);
        thread->result = sched_setaffinity(0, sizeof(cores), &cores) < 0 ? -errno : 0;
    }
    if (thread->result == 0) {
        thread->result = run_loop(thread);
    }
    thread->tally->client_cpu_s = thread_cpu_s() - thread->cpu_s;
    thread->tally->unanswered += thread->flying;
    return NULL;
}

/* ---- all threads --------------------------------------------------------------------------- */

struct generator {
    const struct gb_net_load *load;
    _Atomic uint64_t next;
    unsigned count; /* threads that were prepared */
    struct gb_net_thread threads[GB_NET_THREADS_MAX];
    pthread_t ids[GB_NET_THREADS_MAX];
};

static int thread_open(struct generator *generator, unsigned number)
{
    const struct gb_net_load *load = generator->load;
    struct gb_net_thread *thread = &generator->threads[number];
    unsigned connections = load->connections / load->threads;
    connections += number < load->connections % load->threads;
    *thread = (struct gb_net_thread){.load = load, .next = &generator->next, .number = number};
    thread->limit = load->requests ? load->requests : UINT64_MAX;
    if (load->in_turn && load->requests == 0) {
        thread->limit = load->set->corpus.count;
    }
    gb_rng_init(&thread->rng, load->seed ^ gb_rng_mix(number + 1));
    generator->count = number + 1;
    thread->tally = malloc(sizeof(*thread->tally));
    thread->in = malloc(GB_NET_IN_BYTES);
    thread->conns = calloc(connections, sizeof(*thread->conns));
    thread->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (thread->epoll < 0) {
        return -errno;
    }
    if (!thread->tally || !thread->in || !thread->conns) {
        return -ENOMEM;
    }
    gb_net_tally_init(thread->tally);
    thread->missed = calloc(load->refills ? GB_NET_MISSED_MAX : 1, sizeof(*thread->missed));
    if (!thread->missed) {
        return -ENOMEM;
    }
    int rc = gb_payload_window_open(&thread->window, &load->set->payload);
    while (rc == 0 && thread->count < connections) {
        rc = gb_net_conn_open(&thread->conns[thread->count++], thread);
    }
    return rc;
}

static void thread_close(struct gb_net_thread *thread)
{
    for (unsigned i = 0; i < thread->count; i++) {
        gb_net_conn_close(&thread->conns[i]);
    }
    if (thread->window.mapping) {
        gb_payload_window_close(&thread->window);
    }
    if (thread->epoll >= 0) {
        close(thread->epoll);
    }
    free(thread->missed);
    free(thread->conns);
    free(thread->in);
    free(thread->tally);
}

static void set_times(struct generator *generator)
{
    const struct gb_net_load *load = generator->load;
    uint64_t now_ns = gb_progress_now_ns();
    for (unsigned i = 0; i < generator->count; i++) {
        struct gb_net_thread *thread = &generator->threads[i];
        thread->started_ns = now_ns;
        thread->counted_ns = now_ns + load->warm_ms * millisecond_ns;
        thread->end_ns = load->duration_ms ? thread->counted_ns + load->duration_ms * millisecond_ns
                                           : UINT64_MAX;
        thread->last_ns = thread->counted_ns;
        /* Threads take the places of one sequence in turn. */
        thread->pace = (struct gb_pace){
            .started_ns = now_ns,
            .per_s = load->rate_per_s,
            .taken = i,
        };
    }
}

static void sleep_until(uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / second_ns),
                                   .tv_nsec = (long)(until_ns % second_ns)};
    while (!gb_interrupt_seen() &&
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static int run_threads(struct generator *generator)
{
    const struct gb_net_load *load = generator->load;
    unsigned started = 0;
    int rc = 0;
    set_times(generator);
    if (load->mark && load->warm_ms == 0) {
        load->mark(load->mark_arg, true);
    }
    while (started < generator->count && rc == 0) {
        rc = -pthread_create(&generator->ids[started], NULL, thread_main,
                             &generator->threads[started]);
        started += rc == 0;
    }
    if (load->mark && load->warm_ms > 0) {
        sleep_until(generator->threads[0].counted_ns);
        load->mark(load->mark_arg, true);
    }
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(generator->ids[i], NULL);
        rc = rc < 0 ? rc : generator->threads[i].result;
    }
    if (load->mark) {
        load->mark(load->mark_arg, false);
    }
    return rc;
}

static void gather(const struct generator *generator, struct gb_net_tally *tally)
{
    const struct gb_net_load *load = generator->load;
    uint64_t last_ns = 0;
    gb_net_tally_init(tally);
    for (unsigned i = 0; i < generator->count; i++) {
        sum_counts(tally, generator->threads[i].tally);
        last_ns = gb_max(last_ns, generator->threads[i].last_ns);
    }
    uint64_t spent_ns = last_ns - generator->threads[0].counted_ns;
    spent_ns = gb_max(spent_ns, load->duration_ms * millisecond_ns);
    tally->seconds = (double)spent_ns / 1e9;
    tally->next = load->first + atomic_load_explicit(&generator->next, memory_order_relaxed);
}

static void explain(const struct gb_net_load *load, int rc, struct goblin_error *error)
{
    if (rc == -ETIMEDOUT) {
        gb_explain_set(error, "nothing came from port %u for 30 s", load->port);
    } else if (rc == -EINTR) {
        gb_explain_set(error, "interrupted");
    } else {
        gb_explain_set(error, "load on port %u: %s", load->port, strerror(-rc));
    }
}

int gb_net_load_run(const struct gb_net_load *load, struct gb_net_tally *tally,
                    struct goblin_error *error)
{
    struct generator *generator = calloc(1, sizeof(*generator));
    if (!generator) {
        gb_explain_set(error, "no memory for the load generator");
        return -ENOMEM;
    }
    generator->load = load;
    int rc = 0;
    for (unsigned i = 0; i < load->threads && rc == 0; i++) {
        rc = thread_open(generator, i);
    }
    rc = rc < 0 ? rc : run_threads(generator);
    if (rc == 0) {
        gather(generator, tally);
    } else {
        explain(load, rc, error);
    }
    for (unsigned i = 0; i < generator->count; i++) {
        thread_close(&generator->threads[i]);
    }
    free(generator);
    return rc;
}
