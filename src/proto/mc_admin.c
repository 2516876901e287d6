/* Commands about the server: their words, and the answers that never differ. */
#include "proto/mc_admin.h"

#include <errno.h>

#define MEGABYTES_LEAST 8
#define MEGABYTES_MOST  1000000000

static struct gb_mc_text answer_verbosity(struct gb_mc_text rest)
{
    uint64_t level;
    return gb_mc_read_unsigned(gb_mc_next_word(&rest), UINT32_MAX, &level) == 0
               ? GB_MC_LITERAL("OK")
               : GB_MC_LITERAL("CLIENT_ERROR bad command line format");
}

/* Memory is what the server was started with. */
static struct gb_mc_text answer_memlimit(struct gb_mc_text rest)
{
    uint64_t megabytes;
    if (gb_mc_read_unsigned(gb_mc_next_word(&rest), UINT32_MAX, &megabytes) < 0) {
        return GB_MC_LITERAL("ERROR");
    }
    if (megabytes < MEGABYTES_LEAST) {
        return GB_MC_LITERAL("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m");
    }
    if (megabytes > MEGABYTES_MOST) {
        return GB_MC_LITERAL("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes");
    }
    return GB_MC_LITERAL("MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust");
}

static struct gb_mc_text answer_automove(struct gb_mc_text rest)
{
    struct gb_mc_text level = gb_mc_next_word(&rest);
    uint64_t value;
    if (gb_mc_is(level, "ratio")) {
        return gb_mc_next_word(&rest).len > 0 ? GB_MC_LITERAL("OK") : GB_MC_LITERAL("ERROR");
    }
    if (gb_mc_read_unsigned(level, UINT32_MAX, &value) < 0) {
        return GB_MC_LITERAL("CLIENT_ERROR bad command line format");
    }
    return value <= 2 ? GB_MC_LITERAL("OK") : GB_MC_LITERAL("ERROR");
}

static struct gb_mc_text answer_slabs(const struct gb_mc_request *request)
{
    struct gb_mc_text rest = request->rest;
    struct gb_mc_text what = gb_mc_next_word(&rest);
    if (request->words == 4 && gb_mc_is(what, "reassign")) {
        return GB_MC_LITERAL("CLIENT_ERROR slab reassignment disabled");
    }
    if (request->words >= 3 && gb_mc_is(what, "automove")) {
        return answer_automove(rest);
    }
    return GB_MC_LITERAL("ERROR");
}

static struct gb_mc_text answer_sleep(struct gb_mc_text rest, uint64_t most)
{
    uint64_t value;
    if (gb_mc_read_unsigned(gb_mc_next_word(&rest), UINT32_MAX, &value) < 0) {
        return GB_MC_LITERAL("CLIENT_ERROR bad command line format");
    }
    return value <= most ? GB_MC_LITERAL("OK")
                         : GB_MC_LITERAL("CLIENT_ERROR sleep must be one second or less");
}

static bool names_all(struct gb_mc_text what)
{
    return gb_mc_is(what, "all") || gb_mc_is(what, "hash") || gb_mc_is(what, "1");
}

static struct gb_mc_text answer_crawler(const struct gb_mc_request *request)
{
    struct gb_mc_text rest = request->rest;
    struct gb_mc_text what = gb_mc_next_word(&rest);
    if (request->words == 2 && (gb_mc_is(what, "enable") || gb_mc_is(what, "disable"))) {
        return GB_MC_LITERAL("OK");
    }
    if (request->words != 3) {
        return GB_MC_LITERAL("ERROR");
    }
    if (gb_mc_is(what, "crawl")) { /* expired objects are swept all the time */
        return names_all(gb_mc_next_word(&rest)) ? GB_MC_LITERAL("OK")
                                                 : GB_MC_LITERAL("BADCLASS invalid class id");
    }
    if (gb_mc_is(what, "sleep")) {
        return answer_sleep(rest, 1000000);
    }
    if (gb_mc_is(what, "tocrawl")) {
        return answer_sleep(rest, UINT32_MAX);
    }
    return GB_MC_LITERAL("ERROR");
}

bool gb_mc_admin_dumps(const struct gb_mc_request *request, bool *mgdump, struct gb_mc_text *answer)
{
    struct gb_mc_text rest = request->rest;
    struct gb_mc_text what = gb_mc_next_word(&rest);
    *mgdump = gb_mc_is(what, "mgdump");
    if (request->verb != GB_MC_LRU_CRAWLER || request->words != 3 ||
        (!*mgdump && !gb_mc_is(what, "metadump"))) {
        return false;
    }
    *answer = names_all(gb_mc_next_word(&rest)) ? (struct gb_mc_text){NULL, 0}
                                                : GB_MC_LITERAL("BADCLASS invalid class id");
    return true;
}

struct gb_mc_text gb_mc_admin_answer(const struct gb_mc_request *request)
{
    bool mgdump;
    struct gb_mc_text answer = {NULL, 0};
    switch (request->verb) {
    case GB_MC_VERBOSITY:
        return answer_verbosity(request->rest);
    case GB_MC_CACHE_MEMLIMIT:
        return answer_memlimit(request->rest);
    case GB_MC_SLABS:
        return answer_slabs(request);
    case GB_MC_SHUTDOWN:
        return GB_MC_LITERAL("ERROR: shutdown not enabled");
    case GB_MC_LRU_CRAWLER:
        return gb_mc_admin_dumps(request, &mgdump, &answer) ? answer : answer_crawler(request);
    default:
        return answer;
    }
}

static void refuse_stats(struct gb_mc_stats_request *stats, struct gb_mc_text answer)
{
    stats->what = GB_MC_STATS_REFUSED;
    stats->answer = answer;
}

/* Counts by prefix are not kept. */
static void read_detail(struct gb_mc_text what, struct gb_mc_stats_request *stats)
{
    if (gb_mc_is(what, "on") || gb_mc_is(what, "off")) {
        refuse_stats(stats, GB_MC_LITERAL("OK"));
    } else if (gb_mc_is(what, "dump")) {
        refuse_stats(stats, GB_MC_LITERAL("END"));
    } else {
        refuse_stats(stats, GB_MC_LITERAL("CLIENT_ERROR usage: stats detail on|off|dump"));
    }
}

static void read_cachedump(unsigned words, struct gb_mc_text rest,
                           struct gb_mc_stats_request *stats)
{
    uint64_t class;
    struct gb_mc_text first = gb_mc_next_word(&rest);
    struct gb_mc_text second = gb_mc_next_word(&rest);
    if (words < 4) {
        refuse_stats(stats, GB_MC_LITERAL("CLIENT_ERROR bad command line"));
    } else if (gb_mc_read_unsigned(first, UINT32_MAX, &class) < 0 ||
               gb_mc_read_unsigned(second, UINT32_MAX, &stats->limit) < 0) {
        refuse_stats(stats, GB_MC_LITERAL("CLIENT_ERROR bad command line format"));
    } else if (class >= 64) {
        refuse_stats(stats, GB_MC_LITERAL("CLIENT_ERROR Illegal slab id"));
    } else if (class != 1) {
        refuse_stats(stats, GB_MC_LITERAL("END"));
    } else {
        stats->what = GB_MC_STATS_CACHEDUMP;
    }
}

void gb_mc_admin_stats(const struct gb_mc_request *request, struct gb_mc_stats_request *stats)
{
    static const struct {
        const char *word;
        enum gb_mc_stats what;
    } plain[] = {
        {"settings", GB_MC_STATS_SETTINGS},
        {"items", GB_MC_STATS_ITEMS},
        {"slabs", GB_MC_STATS_SLABS},
        {"sizes", GB_MC_STATS_SIZES},
        {"sizes_enable", GB_MC_STATS_SIZES_ENABLE},
        {"sizes_disable", GB_MC_STATS_SIZES_DISABLE},
        {"conns", GB_MC_STATS_CONNS},
        {"reset", GB_MC_STATS_RESET},
    };
    *stats = (struct gb_mc_stats_request){.what = GB_MC_STATS_GENERAL};
    if (request->words == 1) {
        return;
    }
    struct gb_mc_text rest = request->rest;
    struct gb_mc_text word = gb_mc_next_word(&rest);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (gb_mc_is(word, plain[i].word)) {
            stats->what = plain[i].what;
            return;
        }
    }
    if (gb_mc_is(word, "detail")) {
        read_detail(gb_mc_next_word(&rest), stats);
    } else if (gb_mc_is(word, "cachedump")) {
        read_cachedump(request->words, rest, stats);
    } else {
        refuse_stats(stats, GB_MC_LITERAL("ERROR"));
    }
}

int gb_mc_admin_topics(const struct gb_mc_request *request, unsigned *topics)
{
    static const struct {
        const char *word;
        unsigned topic;
    } known[] = {
        {"fetchers", GB_MC_WATCH_FETCHERS},
        {"mutations", GB_MC_WATCH_MUTATIONS},
        {"evictions", GB_MC_WATCH_EVICTIONS},
        {"connevents", GB_MC_WATCH_CONNECTIONS},
        {"deletions", GB_MC_WATCH_DELETIONS},
        {"rawcmds", 0},
        {"sysevents", 0},
        {"proxyreqs", 0},
        {"proxyevents", 0},
        {"proxyuser", 0},
    };
    enum { KNOWN = sizeof(known) / sizeof(known[0]) };
    struct gb_mc_text rest = request->rest;
    *topics = request->words == 1 ? GB_MC_WATCH_FETCHERS : 0;
    for (unsigned word_at = 1; word_at < request->words; word_at++) {
        struct gb_mc_text word = gb_mc_next_word(&rest);
        size_t i = 0;
        while (i < KNOWN && !gb_mc_is(word, known[i].word)) {
            i++;
        }
        if (i == KNOWN) {
            return -EINVAL;
        }
        *topics |= known[i].topic;
    }
    return 0;
}
