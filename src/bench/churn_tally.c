/* Operations into figures: see churn_tally.h. */
#include "bench/churn_tally.h"

#include "base/assert.h"
#include "base/bits.h"

static const uint64_t second_ns = UINT64_C(1000000000);
static const double tail_quantile = 0.99;

void gb_churn_tally_init(struct gb_churn_tally *tally)
{
    gb_histogram_init(&tally->all);
    gb_histogram_init(&tally->disk);
}

void gb_churn_tally_begin(struct gb_churn_tally *tally, uint64_t at_ns)
{
    tally->begun_ns = at_ns;
    tally->last_ns = at_ns;
}

static void see_gap(struct gb_churn_tally *tally, uint64_t at_ns)
{
    uint64_t gap_ns = at_ns > tally->last_ns ? at_ns - tally->last_ns : 0;
    tally->gap_ns = gb_max(tally->gap_ns, gap_ns);
    tally->last_ns = gb_max(tally->last_ns, at_ns);
}

void gb_churn_tally_add(struct gb_churn_tally *tally, const struct gb_churn_operation *operation)
{
    see_gap(tally, operation->ended_ns);
    if (operation->is_miss) {
        tally->misses++;
        return;
    }
    tally->bytes += operation->bytes;
    gb_histogram_add(&tally->all, operation->took_ns);
    if (operation->is_disk) {
        gb_histogram_add(&tally->disk, operation->took_ns);
    }
}

void gb_churn_tally_end(struct gb_churn_tally *tally, uint64_t at_ns)
{
    see_gap(tally, at_ns);
    tally->ns += at_ns - tally->begun_ns;
}

/* ---- one row for every second -------------------------------------------------------------- */

static void close_second(struct gb_churn_timeline *timeline)
{
    struct gb_churn_second *second = &timeline->seconds[timeline->at];
    second->count = timeline->current.count;
    second->p99_ns = (uint64_t)gb_histogram_quantile(&timeline->current, tail_quantile);
    second->most_ns = timeline->current.most;
    gb_histogram_init(&timeline->current);
}

void gb_churn_timeline_begin(struct gb_churn_timeline *timeline, uint32_t first, uint32_t end,
                             uint64_t at_ns)
{
    GB_ASSERT(first < end && end <= GB_CHURN_SECONDS_MAX);
    timeline->first = first;
    timeline->end = end;
    timeline->at = first;
    timeline->begun_ns = at_ns;
    gb_histogram_init(&timeline->current);
}

void gb_churn_timeline_add(struct gb_churn_timeline *timeline,
                           const struct gb_churn_operation *operation)
{
    uint64_t since_ns =
        operation->ended_ns > timeline->begun_ns ? operation->ended_ns - timeline->begun_ns : 0;
    uint64_t last = timeline->end - 1;
    uint32_t at = (uint32_t)gb_min(timeline->first + since_ns / second_ns, last);
    if (at > timeline->at) {
        close_second(timeline);
        timeline->at = at;
    }
    if (!operation->is_miss) {
        gb_histogram_add(&timeline->current, operation->took_ns);
        timeline->seconds[timeline->at].bytes += operation->bytes;
    }
}

void gb_churn_timeline_end(struct gb_churn_timeline *timeline)
{
    close_second(timeline);
}
