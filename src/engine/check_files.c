/* Checking structures: directories, identities, checkpoints, and the frames of segments. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check_internal.h"
#include "engine/headers.h"
#include "engine/recover.h"
#include "engine/tape.h"

static const struct goblin_slice no_key;

static void path_in(char *path, size_t len, const char *dir, const char *name)
{
    if (snprintf(path, len, "%s/%s", dir, name) >= (int)len) {
        path[0] = '\0'; /* longer than any path that could be opened */
    }
}

/* ---- directories --------------------------------------------------------------------------- */

struct listing {
    struct gb_check *check;
    const struct gb_drive *drive;
};

static bool is_segment_of(const struct gb_drive *drive, const char *name)
{
    char again[32];
    const struct gb_identity *identity = &drive->identity;
    unsigned long slot = strtoul(name, NULL, 10);
    if (slot < identity->first_slot || slot - identity->first_slot >= identity->slot_count) {
        return false;
    }
    (void)snprintf(again, sizeof(again), GB_SEGMENT_NAME, (unsigned)slot);
    return strcmp(name, again) == 0;
}

static int visit_name(void *arg, const char *name)
{
    static const char *const own[] = {"GOBLIN", GB_CHECKPOINT_NAME, "HEADS", "lost+found"};
    const struct listing *listing = arg;
    struct gb_case about = {.trouble = GB_TROUBLE_STRANGER};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(name, own[i]) == 0) {
            return 0;
        }
    }
    if (is_segment_of(listing->drive, name)) {
        return 0;
    }
    if (strcmp(name, GB_CHECKPOINT_NAME GB_CHECKPOINT_NEW) == 0) {
        about.trouble = GB_TROUBLE_CHECKPOINT_HALF;
    }
    path_in(about.path, sizeof(about.path), listing->drive->dir, name);
    gb_check_found(listing->check, &about, no_key);
    return 0;
}

static int ignore_name(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return 0;
}

static void check_missing(struct gb_check *check, const struct gb_drive *drive)
{
    const struct gb_io *io = check->store->io;
    bool usable = io->ops->list(check->store->io, drive->dir, ignore_name, NULL) == 0;
    struct gb_case about = {
        .trouble = usable ? GB_TROUBLE_DRIVE_OUTSIDE : GB_TROUBLE_DRIVE_GONE,
        .slot = drive->identity.drive,
    };
    (void)snprintf(about.path, sizeof(about.path), "%s", drive->dir);
    gb_check_found(check, &about, no_key);
}

/* ---- identities and checkpoints ------------------------------------------------------------ */

static void check_identity(struct gb_check *check, const struct gb_drive *drive)
{
    static const unsigned char zeros[GB_BLOCK];
    unsigned char blocks[2 * GB_BLOCK] = {0};
    struct gb_file *file = drive->identity_file;
    int64_t n = file->io->ops->file_read(file, blocks, sizeof(blocks), 0);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned char *block = blocks + (size_t)i * GB_BLOCK;
        struct gb_identity identity;
        /* One that was never written is as it should be; a store has had one epoch only then. */
        bool unwritten =
            n >= 0 && drive->identity.epoch == 0 && memcmp(block, zeros, GB_BLOCK) == 0;
        if (unwritten || (n >= 0 && gb_identity_decode(&identity, block) == 0)) {
            continue;
        }
        struct gb_case about = {.trouble = GB_TROUBLE_IDENTITY, .offset = i * (uint64_t)GB_BLOCK};
        path_in(about.path, sizeof(about.path), drive->dir, "GOBLIN");
        gb_check_found(check, &about, no_key);
    }
}

static void check_checkpoint(struct gb_check *check, const struct gb_drive *drive)
{
    struct gb_case about = {.trouble = GB_TROUBLE_CHECKPOINT};
    int rc = gb_checkpoint_verify(check->store, drive, &about.offset);
    if (rc == -ENOMEM) {
        check->fault = rc;
    } else if (rc < 0 && rc != -ENOENT) {
        path_in(about.path, sizeof(about.path), drive->dir, GB_CHECKPOINT_NAME);
        gb_check_found(check, &about, no_key);
    }
}

/* ---- segments ------------------------------------------------------------------------------ */

static void found_in(struct gb_check *check, const struct gb_segment *segment,
                     enum gb_trouble trouble, uint64_t offset)
{
    struct gb_case about = {
        .trouble = trouble,
        .slot = segment->slot,
        .generation = segment->generation,
        .offset = offset,
    };
    if (gb_segment_path(&check->store->segments, segment->slot, about.path, sizeof(about.path)) <
        0) {
        about.path[0] = '\0';
    }
    gb_check_found(check, &about, no_key);
}

static void check_length(struct gb_check *check, const struct gb_segment *segment)
{
    uint64_t bytes = 0;
    uint64_t whole = check->store->segments.segment_bytes;
    if (segment->file->io->ops->file_size(segment->file, &bytes) < 0) {
        found_in(check, segment, GB_TROUBLE_UNREADABLE, 0);
    } else if (bytes < whole) {
        bool sealed = segment->status == GB_SEGMENT_SEALED;
        found_in(check, segment, sealed ? GB_TROUBLE_SHORT : GB_TROUBLE_SHORT_FREE, bytes);
    } else if (bytes > whole) {
        found_in(check, segment, GB_TROUBLE_LONG, whole);
    }
}

/* What is wrong with one header, the other one and the state of the segment being known. */
static void judge_header(struct gb_check *check, const struct gb_segment *segment, unsigned number,
                         const struct gb_headers *headers)
{
    enum gb_copy copy = headers->copies[number];
    uint64_t at = gb_segment_header_at(check->store->segments.segment_bytes, number);
    bool left_by_crash = copy == GB_COPY_ZERO || copy == GB_COPY_TORN;
    if (headers->good && copy != GB_COPY_GOOD) {
        found_in(check, segment, left_by_crash ? GB_TROUBLE_HEADER_HALF : GB_TROUBLE_HEADER, at);
    } else if (!headers->good && copy != GB_COPY_ZERO) {
        found_in(check, segment, GB_TROUBLE_HEADER_FREE, at);
    }
}

static void check_headers(struct gb_check *check, const struct gb_segment *segment)
{
    struct gb_headers headers;
    int rc = gb_headers_look(check->store, segment, &headers);
    if (rc < 0) {
        check->fault = rc;
    } else if (segment->status == GB_SEGMENT_LOST) {
        found_in(check, segment, GB_TROUBLE_HEADERS, 0);
    } else {
        for (unsigned i = 0; i < GB_HEADER_COPIES; i++) {
            judge_header(check, segment, i, &headers);
        }
    }
}

struct census {
    struct gb_check *check;
    const struct gb_segment *segment;
    struct gb_tape tape;
    bool sealed;
};

/* A record of the summary against its own header. */
static int compare_record(void *arg, const struct gb_entry *entry)
{
    struct census *census = arg;
    if (!census->sealed || census->check->fault < 0) {
        return 1;
    }
    const unsigned char *bytes = NULL;
    struct gb_record record;
    uint32_t len = GB_RECORD_HEADER + entry->record.key_len;
    int rc = gb_tape_at(&census->tape, entry->place, len, &bytes);
    if (rc == 0) {
        rc = gb_record_decode(&record, census->segment->salt, entry->place, bytes, len);
    }
    if (rc == 0 && record.sequence == entry->record.sequence && record.type == entry->record.type) {
        return 0;
    }
    struct gb_check *check = census->check;
    struct gb_case about = {
        .trouble = GB_TROUBLE_RECORD,
        .slot = census->segment->slot,
        .generation = census->segment->generation,
        .offset = entry->place,
        .record = entry->record,
    };
    if (gb_segment_path(&check->store->segments, about.slot, about.path, sizeof(about.path)) < 0) {
        about.path[0] = '\0';
    }
    gb_check_found(check, &about, (struct goblin_slice){entry->key, entry->record.key_len});
    return 0;
}

enum footer { FOOTER_NONE, FOOTER_GOOD, FOOTER_BAD };

/* None is zero, or that of an earlier generation, or one that cannot be told from that. */
static enum footer judge_footer(const unsigned char *block, const struct gb_segment *segment)
{
    static const unsigned char zeros[GB_BLOCK];
    struct gb_segment_footer footer;
    int rc = gb_segment_footer_decode(&footer, segment->salt, block);
    if (rc == 0 && footer.generation == segment->generation) {
        return FOOTER_GOOD;
    }
    bool stale =
        memcmp(block, "GOBLINSF", 8) == 0 && gb_load_le64(block + 16) < segment->generation;
    return stale || memcmp(block, zeros, GB_BLOCK) == 0 ? FOOTER_NONE : FOOTER_BAD;
}

static void check_sealed(struct gb_check *check, struct census *census)
{
    const struct gb_segment *segment = census->segment;
    uint64_t at = check->store->segments.segment_bytes - GB_SEGMENT_FOOTER;
    const unsigned char *block = NULL;
    int rc = gb_tape_at(&census->tape, at, GB_SEGMENT_FOOTER, &block);
    enum footer footer = rc < 0 ? FOOTER_BAD : judge_footer(block, segment);
    check->result->segments++;
    check->result->unsealed += footer == FOOTER_NONE;
    if (footer != FOOTER_GOOD) {
        if (footer == FOOTER_BAD) {
            found_in(check, segment, GB_TROUBLE_FOOTER, at);
        }
        return;
    }
    uint64_t used = 0;
    rc = gb_tape_records(&census->tape, compare_record, census, &used, &census->sealed);
    if (rc == -ENOMEM) {
        check->fault = rc;
    } else if (!census->sealed) {
        found_in(check, segment, GB_TROUBLE_SUMMARY, at);
    }
}

static void check_segment(struct gb_check *check, const struct gb_segment *segment)
{
    if (segment->gone) {
        found_in(check, segment, GB_TROUBLE_GONE, 0);
    }
    if (segment->file == NULL) {
        if (segment->doubt < 0) {
            found_in(check, segment, GB_TROUBLE_UNREADABLE, 0);
        }
        return; /* not made yet */
    }
    struct census census = {.check = check, .segment = segment};
    int rc = gb_tape_open(&census.tape, &check->store->segments, segment);
    if (rc < 0) {
        check->fault = rc;
        return;
    }
    check_length(check, segment);
    check_headers(check, segment);
    if (segment->status == GB_SEGMENT_SEALED) {
        check_sealed(check, &census);
    }
    gb_tape_close(&census.tape);
}

void gb_check_files(struct gb_check *check)
{
    struct goblin *store = check->store;
    for (unsigned i = 0; i < store->drive_count && check->fault == 0; i++) {
        struct listing listing = {.check = check, .drive = &store->drives[i]};
        if (store->drives[i].missing) {
            check_missing(check, &store->drives[i]);
            continue;
        }
        (void)store->io->ops->list(store->io, store->drives[i].dir, visit_name, &listing);
        check_identity(check, &store->drives[i]);
        check_checkpoint(check, &store->drives[i]);
    }
    for (uint32_t i = 0; i < store->segments.count && check->fault == 0; i++) {
        const struct gb_segment *segment = &store->segments.table[i];
        if (!gb_store_drive(store, segment)->missing) {
            check_segment(check, segment);
        }
    }
}
