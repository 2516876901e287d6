/* The drives of a store together: making them, which belong, which are missing, and the epochs that
 * tell who missed what. docs/adr/0008 says why. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/bits.h"
#include "engine/config.h"
#include "engine/drive_internal.h"

#define FIRST_EPOCH 2u /* of several drives, in which anything is written */

/* All drives while they are being opened. */
struct party {
    struct gb_drive *drives;
    unsigned count;
    struct gb_io *io;
    const struct goblin_options *options;
    const struct gb_refusals *refusals;
    struct gb_identity newest; /* what the drives that are there say of the store */
    struct goblin_error *error;
};

static void warn(const struct party *party, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void warn(const struct party *party, const char *format, ...)
{
    if (party->options->log == NULL) {
        return;
    }
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    party->options->log(party->options->log_arg, GOBLIN_LOG_WARN, line);
}

/* ---- making -------------------------------------------------------------------------------- */

static int make_identities(struct party *party)
{
    const struct goblin_options *options = party->options;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct gb_identity identity = {
        .version = GB_FORMAT_VERSION,
        .drive_count = party->count,
        .slot_count = gb_config_slots(options->size_bytes, options->segment_bytes, party->count),
        .lanes = options->lanes,
        .mode = (uint32_t)options->mode,
        .segment_bytes = options->segment_bytes,
        .size_bytes = options->size_bytes,
        .created_ms = (int64_t)now.tv_sec * 1000,
    };
    if (getrandom(identity.store_id, sizeof(identity.store_id), 0) !=
        (ssize_t)sizeof(identity.store_id)) {
        return -EIO;
    }
    for (unsigned i = 0; i < party->count; i++) {
        struct gb_drive *drive = &party->drives[i];
        drive->identity = identity;
        drive->identity.drive = i;
        drive->identity.first_slot = i * identity.slot_count;
        int rc = gb_drive_sync_parents(party->io, drive->dir);
        rc = rc == 0 ? gb_drive_write_identity(drive) : rc;
        if (rc < 0) {
            gb_error_set(party->error, "%s: %s", drive->dir, goblin_strerror(rc));
            return rc;
        }
    }
    return 0;
}

/* Also of what a crash left of making it. */
static int make_store(struct party *party)
{
    for (unsigned i = 0; i < party->count; i++) {
        struct gb_drive *drive = &party->drives[i];
        gb_drive_release(drive);
        drive->missing = false;
        int rc = gb_drive_claim(drive, party->io, party->options, true);
        if (rc < 0) {
            gb_drive_explain(drive, rc, party->error);
            return rc;
        }
    }
    return make_identities(party);
}

/* ---- who is missing ------------------------------------------------------------------------ */

/* Faults that are no drive's: they end the opening, whatever the other drives say. */
static bool is_final(int rc)
{
    static const int finals[] = {-EBUSY,  GOBLIN_ENOTSTORE, GOBLIN_EFORMAT, -ENOMEM,
                                 -EMFILE, -ENFILE,          -ENAMETOOLONG,  -EINVAL};
    for (size_t i = 0; i < sizeof(finals) / sizeof(finals[0]); i++) {
        if (finals[i] == rc) {
            return true;
        }
    }
    return false;
}

/* What the others say of a drive that cannot say it itself. */
static void deduce_identity(const struct party *party, struct gb_drive *drive)
{
    drive->identity = party->newest;
    drive->identity.drive = (uint32_t)(drive - party->drives);
    drive->identity.first_slot = drive->identity.drive * drive->identity.slot_count;
    memset(drive->identity.absent, 0, sizeof(drive->identity.absent));
}

/* Goes on without the drive, if that is allowed. `advice` is what would bring it back. */
static int do_without(struct party *party, struct gb_drive *drive, const char *why,
                      const char *advice)
{
    gb_drive_release(drive);
    deduce_identity(party, drive);
    drive->missing = true;
    unsigned number = drive->identity.drive + 1;
    if (party->newest.mode == GOBLIN_MODE_STORE && !party->options->degraded) {
        gb_error_set(party->error,
                     "%s: drive %u of %u %s; %s, or open the store without it, `degraded` "
                     "(--degraded): what lay on it will then be missing, for good once something "
                     "is written",
                     drive->dir, number, party->count, why, advice);
        return GOBLIN_EDRIVE;
    }
    warn(party, "%s: drive %u of %u %s: what lay on it is lost, the rest is served; %s", drive->dir,
         number, party->count, why, advice);
    return 0;
}

static bool may_readd(const struct party *party)
{
    return !party->options->read_only &&
           (party->newest.mode == GOBLIN_MODE_CACHE || party->options->readd_drives);
}

/* The identity of a drive that is used again, or of another in its place. Until the new epoch says
 * that something was lost with it, it counts as one that missed an opening: its own is long past.
 * It lies in the block of odd epochs, as the new one will not. What lies there already stays: the
 * other block may be torn, and then this one is all that tells whose the drive is. */
static int renew_identity(const struct party *party, struct gb_drive *drive)
{
    uint64_t present = gb_align_down(party->newest.epoch, 2);
    bool lies_there = drive->identity.epoch % 2 == 1;
    deduce_identity(party, drive);
    drive->identity.epoch = present >= 4 ? present - 3 : 0;
    return lies_there ? 0 : gb_drive_write_block(drive, 1);
}

/* A drive that missed an opening holds what may have been deleted or replaced since. */
static int take_back(struct party *party, struct gb_drive *drive)
{
    char why[96];
    (void)snprintf(why, sizeof(why), "missed an opening of its store (epoch %llu, not %llu)",
                   (unsigned long long)drive->identity.epoch,
                   (unsigned long long)party->newest.epoch);
    static const char advice[] = "goblin check --repair --yes empties it and uses it again";
    if (!may_readd(party)) {
        return do_without(party, drive, why, advice);
    }
    int rc = gb_drive_empty(drive);
    rc = rc < 0 ? rc : renew_identity(party, drive);
    if (rc < 0) {
        char fault[160];
        (void)snprintf(fault, sizeof(fault), "%s and cannot be emptied: %s", why,
                       goblin_strerror(rc));
        return do_without(party, drive, fault, "mend or replace it");
    }
    warn(party, "%s: drive %u of %u %s: it has been emptied and is used again", drive->dir,
         drive->identity.drive + 1, party->count, why);
    return 0;
}

/* An empty directory where a drive was. Without being asked it stays as it is: it may be where a
 * file system should have been mounted. */
static int take_replacement(struct party *party, struct gb_drive *drive)
{
    bool asked = party->options->create || party->options->readd_drives;
    if (!may_readd(party) || !asked) {
        return do_without(party, drive, "is an empty directory",
                          "goblin check --repair --yes uses it in place of the drive");
    }
    gb_drive_release(drive);
    int rc = gb_drive_claim(drive, party->io, party->options, true);
    rc = rc < 0 ? rc : gb_drive_sync_parents(party->io, drive->dir);
    rc = rc < 0 ? rc : renew_identity(party, drive);
    if (rc < 0) {
        return do_without(party, drive, goblin_strerror(rc), "mend or replace it");
    }
    warn(party,
         "%s: an empty directory takes the place of drive %u of %u: what lay on that is lost",
         drive->dir, drive->identity.drive + 1, party->count);
    return 0;
}

/* ---- who belongs --------------------------------------------------------------------------- */

static int check_membership(const struct party *party, const struct gb_drive *drive,
                            const struct gb_drive *other)
{
    const struct gb_identity *identity = &drive->identity;
    unsigned place = (unsigned)(drive - party->drives);
    if (memcmp(identity->store_id, other->identity.store_id, sizeof(identity->store_id)) != 0) {
        gb_error_set(party->error, "%s: it is a drive of another store than %s", drive->dir,
                     other->dir);
        return GOBLIN_EIDENTITY;
    }
    if (identity->drive != place || identity->drive_count != party->count ||
        identity->first_slot != place * identity->slot_count) {
        gb_error_set(
            party->error, "%s: it is drive %u of %u of a store, but was given as drive %u of %u",
            drive->dir, identity->drive + 1, identity->drive_count, place + 1, party->count);
        return GOBLIN_EIDENTITY;
    }
    return 0;
}

/* Finds the newest identity; all that are there must be of one store. */
static int compare_identities(struct party *party, const int *claims)
{
    const struct gb_drive *first = NULL;
    const struct gb_drive *newest = NULL;
    uint32_t strayed = 0;
    for (unsigned i = 0; i < party->count; i++) {
        const struct gb_drive *drive = &party->drives[i];
        if (claims[i] < GB_CLAIM_BARE) {
            continue;
        }
        first = first == NULL ? drive : first;
        int rc = check_membership(party, drive, first);
        if (rc < 0) {
            return rc;
        }
        if (newest == NULL || drive->identity.epoch > newest->identity.epoch) {
            newest = drive;
        }
        strayed |= drive->identity.strayed;
    }
    party->newest = newest->identity;
    party->newest.strayed = strayed;
    return 0;
}

static int judge_drive(struct party *party, struct gb_drive *drive, int claim)
{
    const struct gb_identity *newest = &party->newest;
    bool known_lost = gb_identity_absent(newest, (unsigned)(drive - party->drives));
    bool behind = claim >= GB_CLAIM_BARE && drive->identity.epoch + 1 < newest->epoch;
    int rc = 0;
    drive->bereft = (claim < GB_CLAIM_BARE || behind) && !known_lost;
    if (claim < 0) {
        rc = do_without(party, drive, goblin_strerror(claim), "bring it back or replace it");
    } else if (claim == GB_CLAIM_EMPTY) {
        rc = take_replacement(party, drive);
    } else if (behind || known_lost) {
        rc = take_back(party, drive);
    }
    drive->identity.strayed = newest->strayed;
    drive->identity.floor = newest->floor;
    return rc;
}

static int open_all(struct party *party)
{
    int claims[GB_DRIVES_MAX];
    unsigned there = 0;
    bool opened = false; /* the store was, before */
    unsigned blamed = 0;
    for (unsigned i = 0; i < party->count; i++) {
        struct gb_drive *drive = &party->drives[i];
        drive->dir = strdup(party->options->dirs[i]);
        claims[i] = drive->dir == NULL ? -ENOMEM : party->refusals->faults[i];
        if (claims[i] == 0) {
            claims[i] = gb_drive_claim(drive, party->io, party->options, false);
        }
        if (claims[i] < 0 && (is_final(claims[i]) || party->count == 1) && claims[i] != -ENOENT) {
            gb_drive_explain(drive, claims[i], party->error);
            return claims[i];
        }
        blamed = claims[i] < 0 && claims[i] != -ENOENT ? i : blamed;
        there += claims[i] >= GB_CLAIM_BARE;
        opened |= claims[i] == GB_CLAIM_STORE ||
                  (claims[i] == GB_CLAIM_BARE && drive->identity.epoch > 0);
    }
    if (party->options->create && !opened) {
        return make_store(party);
    }
    if (there == 0) {
        int rc = claims[blamed] < 0 ? claims[blamed] : -ENOENT;
        gb_drive_explain(&party->drives[blamed], rc, party->error);
        return rc;
    }
    int rc = compare_identities(party, claims);
    for (unsigned i = 0; rc == 0 && i < party->count; i++) {
        rc = judge_drive(party, &party->drives[i], claims[i]);
    }
    return rc;
}

int gb_drives_open(struct gb_drive **drives, unsigned *count, struct gb_io *io,
                   const struct goblin_options *options, const struct gb_refusals *refusals,
                   struct goblin_error *error)
{
    struct party party = {
        .count = (unsigned)options->dir_count,
        .io = io,
        .options = options,
        .refusals = refusals,
        .error = error,
    };
    party.drives = calloc(party.count, sizeof(*party.drives));
    if (party.drives == NULL) {
        gb_error_set(error, "%s", goblin_strerror(-ENOMEM));
        return -ENOMEM;
    }
    int rc = open_all(&party);
    if (rc < 0) {
        gb_drives_close(party.drives, party.count);
        return rc;
    }
    for (unsigned i = 0; i < party.count; i++) {
        if (!party.drives[i].missing) {
            gb_drive_probe_direct(&party.drives[i], options);
        }
    }
    *drives = party.drives;
    *count = party.count;
    return 0;
}

void gb_drives_close(struct gb_drive *drives, unsigned count)
{
    for (unsigned i = 0; drives != NULL && i < count; i++) {
        gb_drive_release(&drives[i]);
        free(drives[i].dir);
    }
    free(drives);
}

bool gb_drives_bereft(const struct gb_drive *drives, unsigned count)
{
    bool bereft = false;
    for (unsigned i = 0; i < count; i++) {
        bereft |= drives[i].bereft || drives[i].pierced;
    }
    return bereft;
}

uint64_t gb_drives_epoch(const struct gb_drive *drives, unsigned count)
{
    uint64_t newest = 0;
    for (unsigned i = 0; i < count; i++) {
        newest = gb_max(newest, drives[i].identity.epoch);
    }
    return newest;
}

/* ---- epochs -------------------------------------------------------------------------------- */

static int write_one(struct gb_drive *drive, struct goblin_error *error)
{
    int rc = gb_drive_write_identity(drive);
    if (rc < 0) {
        drive->refused = true;
        gb_error_set(error, "%s: %s", drive->dir, goblin_strerror(rc));
    }
    return rc;
}

bool gb_drives_refused(const struct gb_drive *drives, unsigned count, int fault,
                       struct gb_refusals *refusals)
{
    bool any = false;
    unsigned left = 0;
    for (unsigned i = 0; i < count; i++) {
        /* A store that is being made wants all of them. */
        bool made = drives[i].identity.epoch > FIRST_EPOCH;
        if (drives[i].refused && made && !is_final(fault) && refusals->faults[i] == 0) {
            refusals->faults[i] = fault;
            refusals->epoch = gb_max(refusals->epoch, drives[i].identity.epoch);
            any = true;
        } else {
            left += !drives[i].missing;
        }
    }
    return any && left > 0;
}

/* What only the last step says: until all that are there have come to it, nothing is written. */
static void complete(struct gb_drive *drives, unsigned count, struct gb_identity *identity,
                     const struct gb_passage *passage)
{
    identity->strayed = passage->strayed;
    identity->floor = passage->floor;
    memset(identity->absent, 0, sizeof(identity->absent));
    for (unsigned i = 0; i < count; i++) {
        identity->absent[i / 8] |= (unsigned char)(drives[i].missing << i % 8);
    }
}

/* The greatest epoch that a drive may have noted which is lost: `newest` is that of those that are
 * there, and a crash may have met a lost one a step ahead of them, the last one even. */
static uint64_t lost_epoch(const struct gb_drive *drives, unsigned count, uint64_t newest)
{
    bool lost = false;
    for (unsigned i = 0; i < count; i++) {
        lost |= drives[i].missing || drives[i].bereft;
    }
    return lost ? newest + 1 : newest;
}

/* A drive that came to the last step at once has an old identity in its other block, by which it
 * would be emptied should the newest be torn when a strayed lane is noted in it. */
static int back_up(struct gb_drive *drive, uint64_t epoch, struct goblin_error *error)
{
    uint64_t newest = drive->identity.epoch;
    drive->identity.epoch = epoch;
    int rc = write_one(drive, error);
    drive->identity.epoch = newest;
    return rc;
}

int gb_drives_enter_epoch(struct gb_drive *drives, unsigned count, const struct gb_passage *passage,
                          struct goblin_error *error)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!drives[i].missing) {
            least = gb_min(least, drives[i].identity.epoch);
            most = gb_max(most, drives[i].identity.epoch);
        }
    }
    most = gb_max(passage->beyond, lost_epoch(drives, count, most));
    uint64_t last = count == 1 ? most + 1 : gb_align_down(most, 2) + 2;
    for (uint64_t epoch = least + 1; epoch <= last; epoch++) {
        for (unsigned i = 0; i < count; i++) {
            /* What lay on a drive that is bereft is known to be lost only with the last step. */
            bool waits = drives[i].bereft && epoch != last;
            if (drives[i].missing || drives[i].identity.epoch >= epoch || waits) {
                continue;
            }
            drives[i].identity.epoch = epoch;
            if (epoch == last) {
                complete(drives, count, &drives[i].identity, passage);
            }
            int rc = write_one(&drives[i], error);
            if (rc < 0) {
                return rc;
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        int rc = drives[i].missing || !drives[i].bereft ? 0 : back_up(&drives[i], last - 1, error);
        if (rc < 0) {
            return rc;
        }
        drives[i].identity.epoch = last;
    }
    return 0;
}

int gb_drives_note_stray(struct gb_drive *drives, unsigned count, unsigned lane)
{
    int rc = -ENODEV;
    for (unsigned i = 0; i < count; i++) {
        if (drives[i].missing) {
            continue;
        }
        drives[i].identity.strayed |= 1u << lane;
        int written = gb_drive_write_identity(&drives[i]);
        rc = rc == 0 ? 0 : written;
    }
    return rc;
}

int gb_drives_note_again(struct gb_drive *drive)
{
    return gb_drive_write_identity(drive);
}
