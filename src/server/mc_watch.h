/*
 * watch: connections that are told what happens on all loops, one line each.
 *
 * An event is put into a line by the loop on which it happened, for as long as anybody watches its
 * topic, and posted to every loop that has watchers of it. A watcher that does not take its lines
 * misses some, and that is counted.
 *
 * Told are fetches, mutations, deletions and connections. What the engine evicts it does not say
 * by key, so a watcher of evictions hears nothing.
 */
#ifndef GB_SERVER_MC_WATCH_H
#define GB_SERVER_MC_WATCH_H

#include "server/mc_session.h"

/* The session becomes a watcher; nothing it sends from here on is a command. */
void gb_mc_watch_begin(struct gb_mc_session *session);
void gb_mc_watch_end(struct gb_mc_session *session);

void gb_mc_watch_fetch_line(struct gb_mc_session *session, const struct gb_mc_request *request,
                            const struct goblin_info *info);
void gb_mc_watch_mutation_line(struct gb_mc_session *session, const char *status);
void gb_mc_watch_opened_line(struct gb_mc_session *session);
void gb_mc_watch_closed_line(struct gb_mc_session *session);

static inline bool gb_mc_watch_wants(const struct gb_mc_session *session, unsigned topics)
{
    return (atomic_load_explicit(&session->home->memcache->topics, memory_order_relaxed) &
            topics) != 0;
}

static inline void gb_mc_watch_fetch(struct gb_mc_session *session,
                                     const struct gb_mc_request *request,
                                     const struct goblin_info *info)
{
    if (gb_mc_watch_wants(session, GB_MC_WATCH_FETCHERS)) {
        gb_mc_watch_fetch_line(session, request, info);
    }
}

static inline void gb_mc_watch_mutation(struct gb_mc_session *session, const char *status)
{
    if (gb_mc_watch_wants(session, GB_MC_WATCH_MUTATIONS | GB_MC_WATCH_DELETIONS)) {
        gb_mc_watch_mutation_line(session, status);
    }
}

static inline void gb_mc_watch_opened(struct gb_mc_session *session)
{
    if (gb_mc_watch_wants(session, GB_MC_WATCH_CONNECTIONS)) {
        gb_mc_watch_opened_line(session);
    }
}

static inline void gb_mc_watch_closed(struct gb_mc_session *session)
{
    if (gb_mc_watch_wants(session, GB_MC_WATCH_CONNECTIONS)) {
        gb_mc_watch_closed_line(session);
    }
}

#endif
