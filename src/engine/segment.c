/* The table of segments: files, states, who is free and who is oldest. */
#include "engine/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"

int gb_segments_init(struct gb_segments *segments, struct gb_io *io, struct gb_drive *drives,
                     unsigned drive_count)
{
    *segments = (struct gb_segments){
        .io = io,
        .drives = drives,
        .drive_count = drive_count,
        .segment_bytes = drives[0].identity.segment_bytes,
    };
    memcpy(segments->store_id, drives[0].identity.store_id, sizeof(segments->store_id));
    for (unsigned d = 0; d < drive_count; d++) {
        segments->count += drives[d].identity.slot_count;
    }
    segments->table = calloc(segments->count, sizeof(*segments->table));
    if (segments->table == NULL) {
        return -ENOMEM;
    }
    for (unsigned d = 0; d < drive_count; d++) {
        const struct gb_identity *identity = &drives[d].identity;
        for (uint32_t i = 0; i < identity->slot_count; i++) {
            struct gb_segment *segment = &segments->table[identity->first_slot + i];
            segment->slot = identity->first_slot + i;
            segment->drive = (uint8_t)d;
            (void)pthread_mutex_init(&segment->sync_lock, NULL);
        }
    }
    segments->free_count = segments->count;
    (void)pthread_mutex_init(&segments->lock, NULL);
    (void)pthread_mutex_init(&segments->strays_lock, NULL);
    (void)pthread_mutex_init(&segments->streams_lock, NULL);
    (void)pthread_cond_init(&segments->freed, NULL);
    return 0;
}

void gb_segments_fini(struct gb_segments *segments)
{
    if (segments->table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < segments->count; i++) {
        if (segments->table[i].file != NULL) {
            segments->io->ops->file_close(segments->table[i].file);
        }
        (void)pthread_mutex_destroy(&segments->table[i].sync_lock);
    }
    free(segments->table);
    (void)pthread_mutex_destroy(&segments->lock);
    (void)pthread_mutex_destroy(&segments->strays_lock);
    (void)pthread_mutex_destroy(&segments->streams_lock);
    (void)pthread_cond_destroy(&segments->freed);
    *segments = (struct gb_segments){0};
}

int gb_segment_path(const struct gb_segments *segments, uint32_t slot, char *path, size_t len)
{
    const struct gb_segment *segment = &segments->table[slot];
    int n = snprintf(path, len, "%s/" GB_SEGMENT_NAME, segments->drives[segment->drive].dir, slot);
    return n > 0 && (size_t)n < len ? 0 : -ENAMETOOLONG;
}

int gb_segment_open_file(struct gb_segments *segments, struct gb_segment *segment, bool create)
{
    const struct gb_drive *drive = &segments->drives[segment->drive];
    int rc = 0;
    if (segment->file == NULL) {
        char path[4096];
        rc = gb_segment_path(segments, segment->slot, path, sizeof(path));
        if (rc < 0) {
            return rc;
        }
        unsigned flags = (create ? GB_OPEN_CREATE : 0u) | (drive->direct ? GB_OPEN_DIRECT : 0u);
        rc = segments->io->ops->file_open(segments->io, path, flags, &segment->file);
    }
    if (rc < 0 || !create) {
        return rc;
    }
    /* A new file is empty, and a crash may have left an old one shorter than it was made. */
    uint64_t size = 0;
    rc = segments->io->ops->file_size(segment->file, &size);
    if (rc == 0 && size < segments->segment_bytes) {
        rc = segments->io->ops->file_allocate(segment->file, segments->segment_bytes);
        if (rc >= 0) {
            rc = segments->io->ops->sync_dir(segments->io, drive->dir);
        }
    }
    if (rc < 0) {
        segments->io->ops->file_close(segment->file);
        segment->file = NULL;
    }
    return rc < 0 ? rc : 0;
}

/* On a drive, the first free slot whose file is there (`made`) or is not. */
static struct gb_segment *find_on_drive_locked(struct gb_segments *segments, unsigned drive,
                                               bool made)
{
    const struct gb_identity *identity = &segments->drives[drive].identity;
    for (uint32_t i = 0; i < identity->slot_count; i++) {
        struct gb_segment *segment = &segments->table[identity->first_slot + i];
        if (segment->status == GB_SEGMENT_FREE && (segment->file != NULL) == made) {
            return segment;
        }
    }
    return NULL;
}

/* Round robin over the drives, so that all of them work; for a file that is to be made, those that
 * others have filled come last. */
static struct gb_segment *find_free_locked(struct gb_segments *segments, bool made)
{
    unsigned count = segments->drive_count;
    for (unsigned d = 0; d < 2 * count; d++) {
        unsigned drive = (segments->next_drive + d) % count;
        bool full = d >= count;
        if (!made && segments->drives[drive].full != full) {
            continue;
        }
        struct gb_segment *segment = find_on_drive_locked(segments, drive, made);
        if (segment != NULL) {
            segments->next_drive = drive + 1;
            return segment;
        }
    }
    return NULL;
}

/* Files that are there first, if some may be taken; but a lane leaves its own drive only when that
 * is full. */
static struct gb_segment *find_for_lane_locked(struct gb_segments *segments, unsigned lane,
                                               bool made)
{
    unsigned home = gb_segments_home(segments, lane);
    struct gb_segment *segment = NULL;
    if (home < segments->drive_count) {
        segment = made ? find_on_drive_locked(segments, home, true) : NULL;
        if (segment == NULL && !segments->drives[home].full) {
            segment = find_on_drive_locked(segments, home, false);
        }
    }
    if (segment == NULL && made) {
        segment = find_free_locked(segments, true);
    }
    return segment != NULL ? segment : find_free_locked(segments, false);
}

static uint32_t count_made_locked(const struct gb_segments *segments)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < segments->count; i++) {
        made += segments->table[i].status == GB_SEGMENT_FREE && segments->table[i].file != NULL;
    }
    return made;
}

/* The file of a slot could not be made. What may pass leaves the slot free; without room for it, of
 * its drive only slots with a file count from here on. Returns the fault, 0 if it has been told. */
static int give_up(struct gb_segments *segments, struct gb_segment *segment, int fault)
{
    bool no_room = fault == -ENOSPC || fault == -EDQUOT;
    bool passing = no_room || fault == -EMFILE || fault == -ENOMEM;
    (void)pthread_mutex_lock(&segments->lock);
    bool was_free = segment->status == GB_SEGMENT_PREPARING; /* and is counted so */
    struct gb_drive *drive = &segments->drives[segment->drive];
    bool told = no_room && drive->full_told;
    drive->full |= no_room;
    drive->full_told |= no_room && was_free; /* the keeper tells, who makes files ahead */
    bool usable = passing && !drive->retired;
    segment->status = usable ? GB_SEGMENT_FREE : GB_SEGMENT_LOST;
    segment->spare = !usable;
    if (usable && !was_free) {
        segments->free_count++;
    } else if (!usable && was_free) {
        segments->free_count--;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return told ? 0 : no_room ? -ENOSPC : fault;
}

/* Its file is made. */
static void has_room(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    struct gb_drive *drive = &segments->drives[segment->drive];
    drive->full = false;
    drive->full_told = false;
    if (segment->status == GB_SEGMENT_PREPARING) {
        segment->status = drive->retired ? GB_SEGMENT_LOST : GB_SEGMENT_FREE;
        segment->spare = drive->retired;
        segments->free_count -= drive->retired;
    }
    (void)pthread_mutex_unlock(&segments->lock);
}

uint32_t gb_segments_free_count_locked(const struct gb_segments *segments)
{
    uint32_t count = segments->free_count;
    for (unsigned d = 0; d < segments->drive_count; d++) {
        const struct gb_identity *identity = &segments->drives[d].identity;
        for (uint32_t i = 0; segments->drives[d].full && i < identity->slot_count; i++) {
            const struct gb_segment *segment = &segments->table[identity->first_slot + i];
            count -= segment->status == GB_SEGMENT_FREE && segment->file == NULL;
        }
    }
    return count;
}

int gb_segments_prepare(struct gb_segments *segments, uint32_t ahead)
{
    for (;;) {
        (void)pthread_mutex_lock(&segments->lock);
        struct gb_segment *segment =
            count_made_locked(segments) < ahead ? find_free_locked(segments, false) : NULL;
        if (segment != NULL) {
            segment->status = GB_SEGMENT_PREPARING;
        }
        (void)pthread_mutex_unlock(&segments->lock);
        if (segment == NULL) {
            return 0;
        }
        int rc = gb_segment_open_file(segments, segment, true);
        if (rc < 0) {
            return give_up(segments, segment, rc);
        }
        has_room(segments, segment);
    }
}

int gb_segments_take(struct gb_segments *segments, unsigned lane, uint64_t generation,
                     uint32_t reserve, struct gb_segment **out)
{
    uint64_t salt = 0;
    if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt)) {
        return -EIO;
    }
    (void)pthread_mutex_lock(&segments->lock);
    struct gb_segment *segment = NULL;
    if (segments->free_count > reserve) {
        segment = find_for_lane_locked(segments, lane, count_made_locked(segments) > reserve);
    }
    if (segment == NULL) {
        (void)pthread_mutex_unlock(&segments->lock);
        return -ENOSPC;
    }
    bool bare = segment->file == NULL;
    segments->free_count--;
    segment->status = GB_SEGMENT_OPEN;
    segment->lane = (uint8_t)lane;
    segment->generation = generation;
    segment->salt = salt;
    segment->used_bytes = 0;
    segment->guarded = false;
    segment->stuck = false;
    segment->refused = false;
    atomic_store(&segment->dirty, false);
    atomic_store(&segment->unsafe, false);
    atomic_store(&segment->failing, false);
    atomic_store(&segment->written, 0);
    atomic_store(&segment->live_bytes, 0);
    atomic_store(&segment->laid_bytes, 0);
    atomic_store(&segment->kept_bytes, 0);
    (void)pthread_mutex_unlock(&segments->lock);

    int rc = gb_segment_open_file(segments, segment, true);
    if (rc < 0) {
        int fault = give_up(segments, segment, rc);
        return fault == 0 ? -ENOSPC : fault;
    }
    if (bare) {
        has_room(segments, segment);
    }
    *out = segment;
    return 0;
}

int gb_segments_give_back(struct gb_segments *segments, struct gb_segment *segment, int fault)
{
    segments->io->ops->file_close(segment->file);
    segment->file = NULL;
    int rest = give_up(segments, segment, fault);
    return rest == 0 ? -ENOSPC : rest;
}

void gb_segments_seal(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    GB_ASSERT(segment->status == GB_SEGMENT_OPEN);
    segment->status = GB_SEGMENT_SEALED;
    (void)pthread_mutex_unlock(&segments->lock);
}

int gb_segment_sync(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segment->sync_lock);
    int rc = -EIO;
    if (!atomic_load(&segment->unsafe)) {
        rc = segment->file->io->ops->file_sync(segment->file);
        if (segments->tally != NULL) {
            gb_tally_add_shared(segments->tally, GB_COUNT_device_syncs, 1);
        }
        if (rc < 0) {
            atomic_store(&segment->unsafe, true);
            (void)gb_segments_fail(segments, segment, true);
        }
    }
    (void)pthread_mutex_unlock(&segment->sync_lock);
    return rc < 0 ? rc : 0;
}

int gb_segments_sync_streams(struct gb_segments *segments)
{
    int rc = 0;
    /* A flag that another thread has just taken down is not synced before that thread is done. */
    (void)pthread_mutex_lock(&segments->streams_lock);
    for (uint32_t i = 0; rc >= 0 && i < segments->count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (!atomic_load_explicit(&segment->stream_dirty, memory_order_relaxed) ||
            !atomic_exchange(&segment->stream_dirty, false)) {
            continue;
        }
        rc = gb_segment_sync(segments, segment);
        if (rc < 0) {
            atomic_store(&segment->stream_dirty, true);
        }
    }
    (void)pthread_mutex_unlock(&segments->streams_lock);
    return rc < 0 ? rc : 0;
}

static void note_failure(struct gb_segments *segments, struct gb_segment *segment, bool write)
{
    segment->refused = write;
    segment->failed_in = segments->drives[segment->drive].returns;
}

static void retire_locked(struct gb_segments *segments, unsigned drive)
{
    segments->drives[drive].retired = true;
    for (uint32_t i = 0; i < segments->count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (segment->drive == drive && segment->status == GB_SEGMENT_FREE) {
            segment->status = GB_SEGMENT_LOST;
            segment->spare = true;
            segments->free_count--;
        } else if (segment->drive == drive && segment->status == GB_SEGMENT_OPEN &&
                   !atomic_exchange(&segment->failing, true)) {
            note_failure(segments, segment, true);
        }
    }
}

bool gb_segments_fail(struct gb_segments *segments, struct gb_segment *segment, bool write)
{
    bool retired = false;
    (void)pthread_mutex_lock(&segments->lock);
    struct gb_drive *drive = &segments->drives[segment->drive];
    if (atomic_exchange(&segment->failing, true)) {
        segment->refused &= write;
    } else {
        note_failure(segments, segment, write);
        atomic_fetch_add(&segments->failing_count, 1);
        drive->failures += write;
        if (drive->failures >= GB_DRIVE_FAILURES_MAX && !drive->retired) {
            retire_locked(segments, segment->drive);
            retired = true;
        }
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return retired;
}

void gb_segments_drain(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    GB_ASSERT(segment->status == GB_SEGMENT_RECLAIMING);
    segment->status = GB_SEGMENT_DRAINING;
    segments->draining_count++;
    (void)pthread_mutex_unlock(&segments->lock);
}

void gb_segments_strand(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    segment->stuck = true;
    segments->draining_count--;
    (void)pthread_mutex_unlock(&segments->lock);
}

void gb_segments_free(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    GB_ASSERT(segment->status == GB_SEGMENT_DRAINING);
    GB_ASSERT(atomic_load(&segment->readers) == 0);
    segments->draining_count--;
    const struct gb_drive *drive = &segments->drives[segment->drive];
    bool failing = atomic_load(&segment->failing);
    bool well = !failing || (segment->refused && segment->failed_in < drive->returns);
    if (drive->retired || !well) {
        segment->status = GB_SEGMENT_LOST;
        segment->spare = !failing || segment->refused;
    } else {
        atomic_store(&segment->failing, false);
        segment->status = GB_SEGMENT_FREE;
        segments->free_count++;
    }
    (void)pthread_cond_broadcast(&segments->freed);
    (void)pthread_mutex_unlock(&segments->lock);
}

void gb_segments_none(struct gb_segments *segments)
{
    (void)pthread_mutex_lock(&segments->lock);
    (void)pthread_cond_broadcast(&segments->freed);
    (void)pthread_mutex_unlock(&segments->lock);
}

void gb_segments_keep(struct gb_segments *segments, struct gb_segment *segment)
{
    (void)pthread_mutex_lock(&segments->lock);
    segment->status = GB_SEGMENT_SEALED;
    (void)pthread_mutex_unlock(&segments->lock);
}

uint32_t gb_segments_free_count(struct gb_segments *segments)
{
    (void)pthread_mutex_lock(&segments->lock);
    uint32_t count = gb_segments_free_count_locked(segments);
    (void)pthread_mutex_unlock(&segments->lock);
    return count;
}

bool gb_segments_retired(struct gb_segments *segments)
{
    bool all = true;
    (void)pthread_mutex_lock(&segments->lock);
    for (unsigned i = 0; i < segments->drive_count; i++) {
        all &= segments->drives[i].retired || segments->drives[i].missing;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return all;
}

bool gb_segments_is_retired(struct gb_segments *segments, unsigned drive)
{
    (void)pthread_mutex_lock(&segments->lock);
    bool retired = segments->drives[drive].retired && !segments->drives[drive].missing;
    (void)pthread_mutex_unlock(&segments->lock);
    return retired;
}

struct gb_segment *gb_segments_spare(struct gb_segments *segments, unsigned drive,
                                     const struct gb_segment *last)
{
    struct gb_segment *found = NULL;
    (void)pthread_mutex_lock(&segments->lock);
    for (uint32_t i = last == NULL ? 0 : last->slot + 1; i < segments->count && found == NULL;
         i++) {
        struct gb_segment *segment = &segments->table[i];
        bool spare = segment->status == GB_SEGMENT_LOST && segment->spare;
        found = spare && segment->drive == drive ? segment : NULL;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return found;
}

static void unstick_locked(struct gb_segments *segments, unsigned drive)
{
    for (uint32_t i = 0; i < segments->count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (segment->drive == drive && segment->stuck && gb_segment_is_log(segment)) {
            segment->stuck = false;
            segments->draining_count += segment->status == GB_SEGMENT_DRAINING;
        }
    }
}

void gb_segments_unstick(struct gb_segments *segments, unsigned drive)
{
    (void)pthread_mutex_lock(&segments->lock);
    unstick_locked(segments, drive);
    (void)pthread_mutex_unlock(&segments->lock);
}

void gb_segments_return(struct gb_segments *segments, unsigned drive)
{
    (void)pthread_mutex_lock(&segments->lock);
    segments->drives[drive].retired = false;
    segments->drives[drive].failures = 0;
    segments->drives[drive].returns++;
    for (uint32_t i = 0; i < segments->count; i++) {
        struct gb_segment *segment = &segments->table[i];
        if (segment->drive == drive && segment->status == GB_SEGMENT_LOST && segment->spare) {
            segment->status = GB_SEGMENT_FREE;
            segment->spare = false;
            atomic_store(&segment->failing, false);
            segments->free_count++;
        }
    }
    unstick_locked(segments, drive);
    (void)pthread_cond_broadcast(&segments->freed);
    (void)pthread_mutex_unlock(&segments->lock);
}

uint32_t gb_segments_used_count(struct gb_segments *segments)
{
    (void)pthread_mutex_lock(&segments->lock);
    uint32_t count = segments->count - segments->free_count;
    (void)pthread_mutex_unlock(&segments->lock);
    return count;
}

uint32_t gb_segments_coming_count(struct gb_segments *segments)
{
    (void)pthread_mutex_lock(&segments->lock);
    uint32_t count = gb_segments_free_count_locked(segments) + segments->draining_count;
    (void)pthread_mutex_unlock(&segments->lock);
    return count;
}

uint64_t gb_segments_live_bytes(const struct gb_segments *segments)
{
    uint64_t live = 0;
    for (uint32_t i = 0; i < segments->count; i++) {
        live += atomic_load_explicit(&segments->table[i].live_bytes, memory_order_relaxed);
    }
    return live;
}
