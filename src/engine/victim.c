/*
 * Choosing by benefit and cost, as Rosenblum and Ousterhout's log-structured file system does:
 * room won × age ÷ bytes to be moved. Old segments have shown that what lives in them stays.
 *
 * In a store everything that lives moves on, so a segment is worth it as soon as a little of it is
 * dead. In a cache only segments that are mostly dead are emptied that way: what has been
 * overwritten must not push out what has not. Without such, the oldest segment is evicted.
 */
#include "engine/victim.h"

#include <float.h>

#define STORE_GARBAGE_SHARE 32u /* a store moves what is left of a segment with 1/32 dead */
#define CACHE_LIVE_SHARE    2u  /* a cache, of one with at most 1/2 alive */
#define CACHE_GARBAGE_SHARE 4u  /* and at least 1/4 dead: the rest of it was never written */
#define PILE_SHARE          16u /* tombstones of a lane, as a part of its log, that are too many */

struct lane_survey {
    uint64_t oldest;    /* generation of the oldest segment; UINT64_MAX: none */
    uint64_t log_bytes; /* in segments */
    uint64_t kept_bytes;
};

struct survey {
    struct lane_survey lanes[GB_LANES_MAX];
    uint64_t newest; /* generation */
};

static void survey_locked(const struct goblin *store, struct survey *survey)
{
    const struct gb_segments *segments = &store->segments;
    *survey = (struct survey){.newest = 0};
    for (unsigned i = 0; i < GB_LANES_MAX; i++) {
        survey->lanes[i].oldest = UINT64_MAX;
    }
    for (uint32_t i = 0; i < segments->count; i++) {
        const struct gb_segment *segment = &segments->table[i];
        if (gb_segment_is_log(segment)) {
            struct lane_survey *lane = &survey->lanes[segment->lane];
            lane->oldest = gb_min(lane->oldest, segment->generation);
            lane->log_bytes += segments->segment_bytes;
            lane->kept_bytes += atomic_load(&segment->kept_bytes);
            survey->newest = gb_max(survey->newest, segment->generation);
        }
    }
}

static bool is_oldest(const struct survey *survey, const struct gb_segment *segment)
{
    return survey->lanes[segment->lane].oldest == segment->generation;
}

static bool can_be_emptied(const struct survey *survey, const struct gb_segment *segment)
{
    return segment->status == GB_SEGMENT_SEALED && !segment->stuck &&
           atomic_load(&segment->pending) == 0 && (!segment->guarded || is_oldest(survey, segment));
}

/* On a drive that is not written to nothing can be won; but what failed there is to be saved. */
static bool wins_room(const struct goblin *store, const struct gb_segment *segment)
{
    return !gb_store_drive(store, segment)->retired;
}

/* Room won × age ÷ bytes moved; negative: not worth it. */
static double score(const struct goblin *store, const struct survey *survey,
                    const struct gb_segment *segment)
{
    uint64_t whole = store->segments.segment_bytes;
    uint64_t live = atomic_load(&segment->live_bytes);
    uint64_t kept = is_oldest(survey, segment) ? 0 : atomic_load(&segment->kept_bytes);
    uint64_t laid = atomic_load(&segment->laid_bytes);
    uint64_t moves = live + kept;
    uint64_t garbage = laid > moves ? laid - moves : 0;
    double age = (double)(survey->newest - segment->generation + 1);
    if (moves == 0) {
        return DBL_MAX / 2 + age;
    }
    if (atomic_load(&segment->failing)) {
        return DBL_MAX / 4 + age;
    }
    if (!wins_room(store, segment)) {
        return -1;
    }
    bool cache = store->options.mode == GOBLIN_MODE_CACHE;
    if (cache ? moves > whole / CACHE_LIVE_SHARE || garbage < whole / CACHE_GARBAGE_SHARE
              : garbage < whole / STORE_GARBAGE_SHARE) {
        return -1;
    }
    return (double)garbage * age / (double)(whole + moves);
}

static struct gb_segment *best_locked(struct goblin *store, const struct survey *survey,
                                      bool failing)
{
    struct gb_segment *best = NULL;
    double most = 0;
    for (uint32_t i = 0; i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        bool candidate =
            can_be_emptied(survey, segment) && (!failing || atomic_load(&segment->failing));
        double now = candidate ? score(store, survey, segment) : -1;
        if (now > most) {
            most = now;
            best = segment;
        }
    }
    return best;
}

/* The oldest segment that can be emptied; of those that are their lane's oldest, unless there is no
 * such: the others cost a tombstone for each object that leaves. */
static struct gb_segment *oldest_locked(struct goblin *store, const struct survey *survey)
{
    struct gb_segment *best = NULL;
    for (uint32_t i = 0; i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        if (!can_be_emptied(survey, segment) || !wins_room(store, segment)) {
            continue;
        }
        bool first = is_oldest(survey, segment);
        if (best == NULL || (first && !is_oldest(survey, best)) ||
            (first == is_oldest(survey, best) && segment->generation < best->generation)) {
            best = segment;
        }
    }
    return best;
}

/* Of a lane that has gathered too many tombstones: they leave only as its oldest segments do. */
static struct gb_segment *under_pile_locked(struct goblin *store, const struct survey *survey)
{
    for (uint32_t i = 0; i < store->segments.count; i++) {
        struct gb_segment *segment = &store->segments.table[i];
        const struct lane_survey *lane = &survey->lanes[segment->lane];
        if (is_oldest(survey, segment) && can_be_emptied(survey, segment) &&
            lane->kept_bytes > store->segments.segment_bytes &&
            lane->kept_bytes > lane->log_bytes / PILE_SHARE) {
            return segment;
        }
    }
    return NULL;
}

bool gb_victim_choose(struct goblin *store, enum gb_effort effort, struct gb_victim *victim)
{
    struct gb_segments *segments = &store->segments;
    struct survey survey;
    *victim = (struct gb_victim){.segment = NULL};
    (void)pthread_mutex_lock(&segments->lock);
    survey_locked(store, &survey);
    bool cache = store->options.mode == GOBLIN_MODE_CACHE;
    struct gb_segment *best = NULL;
    store->pile_turn = !store->pile_turn; /* every other time, so that the rest has its share */
    /* An old segment without a gap may need more than one to be moved into. */
    bool spare = gb_segments_free_count_locked(segments) > 1;
    if (!cache && store->pile_turn && spare && effort != GB_EFFORT_SAVE) {
        best = under_pile_locked(store, &survey);
    }
    if (best == NULL && effort != GB_EFFORT_EVICT) {
        best = best_locked(store, &survey, effort == GB_EFFORT_SAVE);
    }
    if (best == NULL && cache && effort >= GB_EFFORT_ANY) {
        best = oldest_locked(store, &survey);
        victim->evict = best != NULL;
    }
    if (best != NULL) {
        victim->segment = best;
        victim->oldest = is_oldest(&survey, best);
        best->status = GB_SEGMENT_RECLAIMING;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return best != NULL;
}
