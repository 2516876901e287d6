/*
 * The memcached commands about the server itself: what their words mean, and the answers that are
 * always the same because Goblin has nothing to set there (slab classes, LRU queues, a memory limit
 * that moves).
 */
#ifndef GB_PROTO_MC_ADMIN_H
#define GB_PROTO_MC_ADMIN_H

#include "proto/mc.h"

/* The answer to verbosity, cache_memlimit, slabs, shutdown and most of lru_crawler, without its
 * end. Of length 0 when the server has to see to it: lru_crawler metadump and mgdump, and other
 * verbs. */
struct gb_mc_text gb_mc_admin_answer(const struct gb_mc_request *request);

enum gb_mc_stats {
    GB_MC_STATS_GENERAL,
    GB_MC_STATS_SETTINGS,
    GB_MC_STATS_ITEMS,
    GB_MC_STATS_SLABS,
    GB_MC_STATS_SIZES,
    GB_MC_STATS_SIZES_ENABLE,
    GB_MC_STATS_SIZES_DISABLE,
    GB_MC_STATS_CONNS,
    GB_MC_STATS_RESET,
    GB_MC_STATS_CACHEDUMP,
    GB_MC_STATS_REFUSED, /* `answer` says it all */
};

struct gb_mc_stats_request {
    enum gb_mc_stats what;
    uint64_t limit; /* of cachedump: how many; 0: all */
    struct gb_mc_text answer;
};

void gb_mc_admin_stats(const struct gb_mc_request *request, struct gb_mc_stats_request *stats);

enum gb_mc_topic {
    GB_MC_WATCH_FETCHERS = 1u << 0,
    GB_MC_WATCH_MUTATIONS = 1u << 1,
    GB_MC_WATCH_EVICTIONS = 1u << 2,
    GB_MC_WATCH_CONNECTIONS = 1u << 3,
    GB_MC_WATCH_DELETIONS = 1u << 4,
};

/* The topics of a watch; those of memcached that never happen here (rawcmds, sysevents, proxy…) are
 * no bit. Returns -EINVAL for a word that names none. */
int gb_mc_admin_topics(const struct gb_mc_request *request, unsigned *topics);

/* Of lru_crawler: metadump or mgdump of what there is. `answer` of length 0: it may begin. */
bool gb_mc_admin_dumps(const struct gb_mc_request *request, bool *mgdump,
                       struct gb_mc_text *answer);

#endif
