/*
 * The life of a process: signals, systemd, the words at the start.
 *
 * Signals are blocked in every thread and taken by the main one, which does nothing else but ask
 * the loops, for the watchdog, whether they still turn.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-daemon.h>

#include "base/bits.h"
#include "base/units.h"
#include <goblin/stats.h>

#include "server/server_internal.h"

#define WAIT_MOST_MS  1000
#define MANY          1024u /* connections, whose memory is worth giving back */
#define DRAIN_STEP_MS 5

/* A loop's sign of life. */
struct pulse {
    struct gb_post post;
    _Atomic bool came;
};

struct process {
    struct gb_server *server;
    sigset_t signals;
    struct pulse *pulses; /* one per loop */
    int64_t wait_ms;      /* between two looks */
    bool watched;
    unsigned peak; /* of connections, since memory was given back to the system */
};

/* ---- words --------------------------------------------------------------------------------- */

static void print_example(const struct gb_listener *listener)
{
    const char *colon = strrchr(listener->address, ':');
    for (const char *at = listener->protocol->example; *at != '\0';) {
        if (strncmp(at, "ADDRESS", 7) == 0) {
            (void)fputs(listener->address, stdout);
            at += 7;
        } else if (strncmp(at, "HOST", 4) == 0) {
            size_t len = colon == NULL ? 0 : (size_t)(colon - listener->address);
            bool bracketed = listener->address[0] == '[';
            (void)printf("%.*s", (int)(bracketed ? len - 2 : len),
                         listener->address + (bracketed ? 1 : 0));
            at += 4;
        } else if (strncmp(at, "PORT", 4) == 0) {
            (void)fputs(colon == NULL ? "" : colon + 1, stdout);
            at += 4;
        } else {
            (void)fputc(*at++, stdout);
        }
    }
}

static void print_start(struct gb_server *server)
{
    const struct gb_server_options *options = &server->options;
    struct goblin_stats stats;
    char memory[GB_UNITS_TEXT];
    char disk[GB_UNITS_TEXT];
    goblin_stats(server->store, &stats);
    (void)printf("goblin " GOBLIN_VERSION ": %s, %s of disk, %s of memory, %u loop%s\n",
                 options->store.dirs[0], gb_units_format_size(disk, sizeof(disk), stats.disk_bytes),
                 gb_units_format_size(memory, sizeof(memory), options->memory_bytes),
                 server->loop_count, server->loop_count == 1 ? "" : "s");
    for (unsigned i = 0; i < server->listener_count; i++) {
        const struct gb_listener *listener = &server->listeners[i];
        (void)printf("  %-9s %s\n", listener->protocol->name, listener->address);
        if (listener->protocol->example != NULL && !listener->is_unix && !listener->tls) {
            (void)fputs("            ", stdout);
            print_example(listener);
            (void)fputc('\n', stdout);
        }
    }
    (void)fflush(stdout);
}

/* ---- watchdog ------------------------------------------------------------------------------ */

static void beat(struct gb_post *post)
{
    struct pulse *pulse = (struct pulse *)(void *)post;
    atomic_store(&pulse->came, true);
}

static void ask_pulse(struct process *process)
{
    bool all = true;
    for (unsigned i = 0; i < process->server->loop_count; i++) {
        all = all && atomic_load(&process->pulses[i].came);
    }
    if (!all) {
        return; /* who has been asked and does not answer is not asked again */
    }
    (void)sd_notify(0, "WATCHDOG=1");
    for (unsigned i = 0; i < process->server->loop_count; i++) {
        atomic_store(&process->pulses[i].came, false);
        process->pulses[i].post.run = beat;
        gb_loop_post(process->server->loops[i], &process->pulses[i].post);
    }
}

static int prepare_watchdog(struct process *process)
{
    uint64_t interval_us = 0;
    process->wait_ms = WAIT_MOST_MS;
    process->watched = sd_watchdog_enabled(0, &interval_us) > 0;
    process->pulses = calloc(process->server->loop_count, sizeof(struct pulse));
    if (process->pulses == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < process->server->loop_count; i++) {
        atomic_init(&process->pulses[i].came, true);
    }
    if (process->watched) {
        process->wait_ms = (int64_t)gb_max(1, gb_min(WAIT_MOST_MS, interval_us / 1000 / 3));
    }
    return GOBLIN_OK;
}

/* ---- signals ------------------------------------------------------------------------------- */

/* The next signal, or 0 after wait_ms. */
static int next_signal(const struct process *process, int64_t wait_ms)
{
    const struct timespec timeout = {
        .tv_sec = wait_ms / 1000,
        .tv_nsec = wait_ms % 1000 * 1000000,
    };
    int signal = sigtimedwait(&process->signals, NULL, &timeout);
    return signal > 0 ? signal : 0;
}

static void reload(struct gb_server *server)
{
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
                     (unsigned long long)(gb_loop_clock_ns() / 1000));
    gb_server_reload(server);
    (void)sd_notify(0, "READY=1");
}

/* The C library keeps what many connections have taken, in case they come again. */
static void give_memory_back(struct process *process)
{
    unsigned now = atomic_load_explicit(&process->server->limits.connections, memory_order_relaxed);
    if (now > process->peak) {
        process->peak = now;
    }
    if (process->peak >= MANY && now < process->peak / 4) {
        (void)malloc_trim(0);
        process->peak = now;
    }
}

static void wait_for_the_end(struct process *process)
{
    for (;;) {
        int signal = next_signal(process, process->wait_ms);
        if (signal == SIGTERM || signal == SIGINT || gb_server_end_asked(process->server)) {
            return;
        }
        if (signal == SIGHUP) {
            reload(process->server);
        }
        if (process->watched) {
            ask_pulse(process);
        }
        give_memory_back(process);
    }
}

static void drain(struct process *process)
{
    (void)sd_notify(0, "STOPPING=1");
    gb_server_drain(process->server);
    while (!gb_server_drained(process->server)) {
        int signal = next_signal(process, DRAIN_STEP_MS);
        if (signal == SIGTERM || signal == SIGINT) {
            break; /* asked a second time */
        }
    }
    process->server->hurry = true;
}

int gb_server_run(const struct gb_server_options *options, struct goblin_error *error)
{
    struct process process = {0};
    sigset_t before;
    (void)sigemptyset(&process.signals);
    (void)sigaddset(&process.signals, SIGTERM);
    (void)sigaddset(&process.signals, SIGINT);
    (void)sigaddset(&process.signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &process.signals, &before);
    int rc = gb_server_start(&process.server, options, error);
    if (rc < 0) {
        goto unblock;
    }
    process.server->runs = true;
    rc = prepare_watchdog(&process);
    if (rc < 0) {
        (void)snprintf(error->text, sizeof(error->text), "start: %s", goblin_strerror(rc));
    } else {
        if (!options->quiet_start) {
            print_start(process.server);
        }
        (void)sd_notify(0, "READY=1");
        wait_for_the_end(&process);
        drain(&process);
    }
    int closed = gb_server_stop(process.server);
    if (rc >= 0 && closed < 0) {
        rc = closed;
        (void)snprintf(error->text, sizeof(error->text), "close: %s", goblin_strerror(rc));
    }
    free(process.pulses);
unblock:
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
