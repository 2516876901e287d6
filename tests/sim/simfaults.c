/* What else a disk does in a life than lose power: writes that fail, one after the other, and
 * others who fill its file system. Drawn from a generator of their own, so that a life without them
 * is the same for its seed as if there were none. */
#include <errno.h>
#include <string.h>

#include <goblin/stats.h>

#include "base/bits.h"
#include "engine/keeper.h"
#include "engine/trial.h"
#include "sim/simrun_internal.h"

#define MARK UINT64_C(0x6661756c74730000) /* tells the generator from the run's own */

/* Writes that may fail in a life before a drive has had three segments that did. */
#define BEARABLE 2u

static bool chance(struct simfaults *faults, unsigned percent)
{
    return gb_rng_below(&faults->rng, 100) < percent;
}

static uint64_t failed_so_far(struct simrun *run)
{
    struct simdisk_counts counts;
    simdisk_counts(run->disk, &counts);
    return counts.failed - run->failed;
}

void simfaults_init(struct simrun *run, bool reserves)
{
    struct simfaults *faults = &run->faults;
    gb_rng_init(&faults->rng, run->seed ^ MARK);
    faults->fails_more = chance(faults, 15);
    faults->fills = reserves && chance(faults, 15);
    faults->refuses = chance(faults, 12);
    simrun_trace(run, "%s%s%s", faults->fails_more ? "more writes fail; " : "",
                 faults->refuses ? "drives refuse writes for a while; " : "",
                 faults->fills ? "others fill the file system" : "");
}

void simfaults_begin(struct simrun *run)
{
    struct simfaults *faults = &run->faults;
    faults->left = faults->fails_more && chance(faults, 60)
                       ? 1 + (unsigned)gb_rng_below(&faults->rng, 2 * BEARABLE)
                       : 0;
    faults->told = 0;
    faults->was_full = false;
    faults->has_refused = false;
}

/* Arms the next failure when the one before has come. */
static void fail_next(struct simrun *run)
{
    struct simfaults *faults = &run->faults;
    uint64_t failed = failed_so_far(run);
    if (faults->left > 0 && failed >= faults->told) {
        faults->left--;
        faults->told = failed + 1;
        simdisk_fail_nth(run->disk, SIMDISK_WRITE, 1 + gb_rng_below(&faults->rng, 40));
    }
}

static void set_full(struct simrun *run, bool full)
{
    struct simfaults *faults = &run->faults;
    faults->full = full;
    faults->was_full |= full;
    run->result->times_full += full;
    if (full) {
        gb_keeper_round(run->store); /* its threads have made files by then */
        uint64_t left = chance(faults, 50) ? 0 : gb_rng_below(&faults->rng, 3 * GB_MIB);
        simdisk_fill(run->disk, left);
        simrun_trace(run, "others fill the file system but for %llu bytes",
                     (unsigned long long)left);
    } else {
        simdisk_set_capacity(run->disk, SIMDISK_CAPACITY);
        simrun_trace(run, "others leave the file system");
    }
}

/* Once its time has come a drive that is well is used again, if one of its segments is empty. */
static void expect_return(struct simrun *run)
{
    gb_keeper_round(run->store);
    uint64_t failed = failed_so_far(run);
    for (unsigned i = 0; i < 2; i++) { /* in the first round one may be emptied */
        run->now_ms += GB_TRIAL_PAUSE_MAX_MS;
        gb_keeper_round(run->store);
    }
    struct goblin_stats stats;
    goblin_stats(run->store, &stats);
    for (unsigned i = 0; i < stats.drives && stats.drives_retired > 0; i++) {
        bool spare = gb_segments_spare(&run->store->segments, i, NULL) != NULL;
        if (spare && !run->faults.full && gb_segments_is_retired(&run->store->segments, i) &&
            !simrun_dark(run) && failed_so_far(run) == failed) {
            (void)simrun_fail(run, "drive %u is well and not used", i);
        }
    }
}

static void set_refusing(struct simrun *run, bool refusing)
{
    struct simfaults *faults = &run->faults;
    unsigned drive = (unsigned)gb_rng_below(&faults->rng, run->options.dir_count);
    faults->refusing = refusing;
    faults->has_refused = true;
    simdisk_refuse_writes(run->disk, refusing ? run->dirs[drive] : NULL);
    simrun_trace(run, "drive %u %s writes", drive, refusing ? "refuses" : "no longer refuses");
    if (!refusing && !simrun_dark(run) && chance(faults, 60)) {
        expect_return(run);
    }
}

void simfaults_step(struct simrun *run)
{
    struct simfaults *faults = &run->faults;
    fail_next(run);
    if (faults->refuses && chance(faults, faults->refusing ? 8 : 3)) {
        set_refusing(run, !faults->refusing);
    }
    if (faults->fills && chance(faults, faults->full ? 2 : 4)) {
        set_full(run, !faults->full);
    }
}

void simfaults_end(struct simrun *run)
{
    if (run->faults.full) {
        set_full(run, false);
    }
    if (run->faults.refusing) {
        set_refusing(run, false);
    }
}

bool simfaults_bearable(struct simrun *run)
{
    struct goblin_stats stats;
    goblin_stats(run->store, &stats);
    return run->faults.writes_alone && failed_so_far(run) <= BEARABLE && !run->faults.was_full &&
           stats.segments_free > run->options.lanes + 1;
}

bool simfaults_deletes_fit(struct simrun *run)
{
    uint64_t segments = run->options.size_bytes / run->options.segment_bytes;
    /* A cache makes room from its own, but not from under a stream. */
    bool held = run->options.mode == GOBLIN_MODE_CACHE && run->store->streaming_bytes > 0;
    return segments / 8 > run->options.lanes && !held && !simrun_hurt(run) && !run->losing;
}

bool simfaults_given_up(const struct simrun *run)
{
    struct goblin_stats stats;
    goblin_stats(run->store, &stats);
    /* Headers of what was evicted may not have been wiped. */
    return stats.drives_retired > 0 || run->faults.has_refused;
}

void simfaults_all_synced(struct simrun *run, bool given_up)
{
    for (unsigned key = 0; key < run->key_count; key++) {
        if (!given_up || simkey_current(&run->keys[key])->present) {
            simkey_acknowledge(&run->keys[key], GOBLIN_DURABILITY_SYNCED);
        }
    }
}

bool simfaults_explain(const struct simrun *run, const char *line)
{
    return run->faults.was_full && strstr(line, goblin_strerror(-ENOSPC)) != NULL;
}
