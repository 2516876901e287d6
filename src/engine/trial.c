/*
 * Trials of retired drives. A drive often fails for a while only: a cable, a controller that starts
 * anew, a path that is switched. So of a retired one some of the segments that are empty are
 * written to now and then, synced and read back; when all of that succeeds, it takes data again.
 * Nothing counts by what lies in such a segment, for it has no header. What had been written to the
 * drive before stays what it was: the segments that failed are emptied before they are used again.
 */
#include "engine/trial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive.h"
#include "engine/headers.h"

#define BYTES   (64 * GB_KIB) /* written to a segment */
#define WELL_MS GB_TRIAL_PAUSE_MAX_MS

/* ---- one segment --------------------------------------------------------------------------- */

static int write_and_read(struct goblin *store, const struct gb_segment *segment,
                          unsigned char *buffer, uint64_t len)
{
    const struct gb_io_ops *ops = store->io->ops;
    unsigned char *back = buffer + len;
    uint64_t mark = gb_store_next_sequence(store); /* what lies there is from no earlier trial */
    for (uint64_t at = 0; at < len; at += sizeof(mark)) {
        uint64_t word = mark + (at << 32);
        memcpy(buffer + at, &word, sizeof(word));
    }
    int64_t n = ops->file_write(segment->file, buffer, len, GB_SEGMENT_HEADER);
    gb_store_count_write(store, len);
    if (n < 0) {
        return (int)n;
    }
    int rc = ops->file_sync(segment->file);
    gb_store_count_sync(store);
    if (rc < 0) {
        return rc;
    }
    (void)ops->file_advise_away(segment->file);
    n = ops->file_read(segment->file, back, len, GB_SEGMENT_HEADER);
    gb_store_count_read(store, len);
    if (n < 0) {
        return (int)n;
    }
    return (uint64_t)n == len && memcmp(buffer, back, len) == 0 ? 0 : GOBLIN_ECORRUPT;
}

static int try_segment(struct goblin *store, struct gb_segment *segment)
{
    uint64_t room = gb_segment_header_at(store->segments.segment_bytes, 1) - GB_SEGMENT_HEADER;
    uint64_t len = gb_min(BYTES, gb_align_down(room, GB_BLOCK));
    void *buffer = NULL;
    if (posix_memalign(&buffer, GB_BLOCK, 2 * len) != 0) {
        return -ENOMEM;
    }
    int rc = gb_segment_open_file(&store->segments, segment, true);
    rc = rc < 0 ? rc : write_and_read(store, segment, buffer, len);
    free(buffer);
    return rc;
}

static int64_t longer(int64_t pause_ms)
{
    return 2 * pause_ms < GB_TRIAL_PAUSE_MAX_MS ? 2 * pause_ms : GB_TRIAL_PAUSE_MAX_MS;
}

/* ---- one drive ----------------------------------------------------------------------------- */

/* As many segments as had to fail. -ENOENT: it has none that is empty. */
static int try_segments(struct goblin *store, unsigned drive)
{
    struct gb_segment *segment = NULL;
    int rc = -ENOENT;
    for (unsigned tried = 0; tried < GB_DRIVE_FAILURES_MAX;) {
        segment = gb_segments_spare(&store->segments, drive, segment);
        if (segment == NULL) {
            break;
        }
        int one = try_segment(store, segment);
        if (one == -ENOSPC || one == -EDQUOT) {
            continue; /* others have filled the file system: that says nothing of the drive */
        }
        rc = one;
        tried++;
        if (rc < 0) {
            break;
        }
    }
    return rc;
}

/* Notes of strayed lanes may have missed it, or torn what it had. Where a drive is the only one
 * there are none, and its newest identity is not touched. */
static int renew_identity(struct goblin *store, struct gb_drive *drive)
{
    if (store->drive_count == 1) {
        return 0;
    }
    (void)pthread_mutex_lock(&store->segments.strays_lock);
    int rc = gb_drives_note_again(drive);
    gb_store_count_identities(store);
    (void)pthread_mutex_unlock(&store->segments.strays_lock);
    return rc;
}

static void try_drive(struct goblin *store, unsigned number, int64_t now_ms)
{
    struct gb_drive *drive = &store->drives[number];
    struct gb_trials *trials = &drive->trials;
    trials->count++;
    gb_tally_add_shared(&store->tally, GB_COUNT_drive_trials, 1);
    int rc = try_segments(store, number);
    rc = rc < 0 ? rc : renew_identity(store, drive);
    trials->since_ms = now_ms;
    if (rc < 0) {
        trials->pause_ms = longer(trials->pause_ms);
        if (rc == -ENOENT) {
            gb_segments_unstick(&store->segments, number); /* perhaps one can be emptied now */
        }
        return;
    }
    trials->waiting = false;
    gb_segments_return(&store->segments, number);
    gb_tally_add_shared(&store->tally, GB_COUNT_drive_returns, 1);
    gb_store_log(store, GOBLIN_LOG_WARN,
                 "%s: the drive is well again at trial %u: it is used again", drive->dir,
                 trials->count);
    trials->count = 0;
    gb_store_poke(store);
}

/* It has been retired since the last round. A drive that soon fails again waits longer. */
static void begin_waiting(struct gb_trials *trials, int64_t now_ms)
{
    bool anew = trials->pause_ms == 0 || now_ms - trials->since_ms > WELL_MS;
    trials->pause_ms = anew ? GB_TRIAL_PAUSE_MS : longer(trials->pause_ms);
    trials->since_ms = now_ms;
    trials->waiting = true;
}

void gb_trial_round(struct goblin *store)
{
    for (unsigned i = 0; i < store->drive_count; i++) {
        struct gb_trials *trials = &store->drives[i].trials;
        if (!gb_segments_is_retired(&store->segments, i)) {
            continue;
        }
        int64_t now_ms = gb_store_now_ms(store);
        if (!trials->waiting) {
            begin_waiting(trials, now_ms);
        }
        if (now_ms < trials->since_ms) {
            trials->since_ms = now_ms; /* the clock was set back */
        }
        if (now_ms - trials->since_ms >= trials->pause_ms) {
            try_drive(store, i, now_ms);
        }
    }
}
