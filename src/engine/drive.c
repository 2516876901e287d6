/* Drives: who a directory belongs to, and the lock on it. */
#include "engine/drive.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bits.h"
#include "engine/config.h"

#define NAME "GOBLIN"

static int path_in(const char *dir, const char *name, char *path, size_t len)
{
    int n = snprintf(path, len, "%s/%s", dir, name);
    return n > 0 && (size_t)n < len ? 0 : -ENAMETOOLONG;
}

/* ---- the backend --------------------------------------------------------------------------- */

/* The directory or, if it is still to be made, its nearest ancestor. */
static void probe_place(const char *dir, char *place, size_t len)
{
    (void)snprintf(place, len, "%s", dir);
    struct stat info;
    while (stat(place, &info) != 0) {
        char *slash = strrchr(place, '/');
        if (slash == NULL || slash == place) {
            (void)snprintf(place, len, "%s", slash == NULL ? "." : "/");
            return;
        }
        *slash = '\0';
    }
}

int gb_drives_choose_io(struct gb_io **io, const struct goblin_options *options,
                        struct goblin_error *error)
{
    if (options->io != GOBLIN_IO_SYNC) {
        char place[PATH_MAX];
        char why[256] = "";
        probe_place(options->dirs[0], place, sizeof(place));
        int rc = gb_io_uring_create(io, place, why, sizeof(why));
        if (rc >= 0 && (options->io == GOBLIN_IO_URING ||
                        gb_io_uring_do_without(*io, options->log, options->log_arg) == 0)) {
            return 0;
        }
        if (rc >= 0) {
            (*io)->ops->destroy(*io);
            gb_error_set(error, "%s", goblin_strerror(-ENOMEM));
            return -ENOMEM;
        }
        if (options->io == GOBLIN_IO_URING) {
            gb_error_set(error, "io_uring cannot be used: %s", why);
            return rc;
        }
        if (options->log != NULL) {
            char line[320];
            (void)snprintf(line, sizeof(line), "io_uring is not used: %s", why);
            options->log(options->log_arg, GOBLIN_LOG_WARN, line);
        }
    }
    int rc = gb_io_sync_create(io);
    if (rc < 0) {
        gb_error_set(error, "%s", goblin_strerror(rc));
    }
    return rc;
}

/* ---- one directory ------------------------------------------------------------------------- */

static int count_strangers(void *arg, const char *name)
{
    if (strcmp(name, NAME) != 0 && strcmp(name, "lost+found") != 0) {
        ++*(unsigned *)arg;
    }
    return 0;
}

static int make_dirs(struct gb_io *io, const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s", dir);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            int rc = io->ops->make_dir(io, path);
            *at = '/';
            if (rc < 0 && rc != -EEXIST && rc != -EROFS && rc != -EACCES) {
                return rc;
            }
        }
    }
    int rc = io->ops->make_dir(io, path);
    return rc == -EEXIST ? 0 : rc;
}

/* The names of the directory and of those above it, durably. Those that may not be read were not
 * made here. */
static int sync_parents(struct gb_io *io, const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s", dir);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    for (;;) {
        char *slash = strrchr(path, '/');
        const char *parent = slash == NULL ? "." : slash == path ? "/" : path;
        if (slash != NULL) {
            *slash = '\0';
        }
        int rc = io->ops->sync_dir(io, parent);
        if (rc < 0 && rc != -EACCES && rc != -EPERM && rc != -EROFS && rc != -EINVAL) {
            return rc;
        }
        if (slash == NULL || slash == path) {
            return 0;
        }
    }
}

/* What a crash may leave of the first identity: some of its sectors. */
static bool is_unfinished(const unsigned char *blocks, int64_t len)
{
    static const unsigned char zeros[GB_BLOCK];
    return len <= 2 * (int64_t)GB_BLOCK &&
           (memcmp(blocks, GB_IDENTITY_MAGIC, 8) == 0 || memcmp(blocks, zeros, 512) == 0) &&
           memcmp(blocks + 512, zeros, GB_BLOCK - 512 - sizeof(uint64_t)) == 0 &&
           memcmp(blocks + GB_BLOCK, zeros, GB_BLOCK) == 0;
}

enum claim { CLAIM_EMPTY, CLAIM_BARE, CLAIM_STORE };

/* The newer of two identities: CLAIM_BARE if there is one, CLAIM_EMPTY, or what is wrong. */
static int read_identity(struct gb_drive *drive, bool may_make)
{
    unsigned char blocks[2 * GB_BLOCK] = {0};
    struct gb_file *file = drive->identity_file;
    int64_t n = file->io->ops->file_read(file, blocks, sizeof(blocks), 0);
    if (n < 0) {
        return (int)n;
    }
    drive->read_bytes = (uint64_t)n;
    int answers[2];
    bool found = false;
    for (unsigned i = 0; i < 2; i++) {
        struct gb_identity identity;
        answers[i] = gb_identity_decode(&identity, blocks + (size_t)i * GB_BLOCK);
        if (answers[i] == 0 && (!found || identity.epoch > drive->identity.epoch)) {
            drive->identity = identity;
            found = true;
        }
    }
    if (answers[0] == GOBLIN_EFORMAT || answers[1] == GOBLIN_EFORMAT) {
        return GOBLIN_EFORMAT;
    }
    if (found) {
        return CLAIM_BARE;
    }
    return may_make && is_unfinished(blocks, n) ? CLAIM_EMPTY : answers[0];
}

/* Opens and locks the identity file. CLAIM_EMPTY: the directory is free for a new store; BARE: it
 * holds an identity and nothing else. */
static int claim(struct gb_drive *drive, struct gb_io *io, const struct goblin_options *options)
{
    char path[PATH_MAX];
    int rc = path_in(drive->dir, NAME, path, sizeof(path));
    if (rc == 0 && options->create) {
        rc = make_dirs(io, drive->dir);
    }
    if (rc < 0) {
        return rc;
    }
    unsigned strangers = 0;
    rc = io->ops->list(io, drive->dir, count_strangers, &strangers);
    if (rc < 0) {
        return rc;
    }
    bool may_make = options->create && strangers == 0;
    rc = io->ops->file_open(io, path, may_make ? GB_OPEN_CREATE : 0u, &drive->identity_file);
    if (rc == -ENOENT) {
        return strangers > 0 ? GOBLIN_ENOTSTORE : -ENOENT;
    }
    if (rc < 0) {
        return rc;
    }
    rc = io->ops->file_lock(drive->identity_file, options->read_only);
    if (rc < 0) {
        return rc == -EWOULDBLOCK ? -EBUSY : rc;
    }
    rc = read_identity(drive, may_make);
    return rc == CLAIM_BARE && strangers > 0 ? CLAIM_STORE : rc;
}

/* Into the block that does not hold the identity before it. */
static int write_identity(struct gb_drive *drive)
{
    unsigned char block[GB_BLOCK];
    struct gb_io *io = drive->identity_file->io;
    gb_identity_encode(&drive->identity, block);
    int64_t n = io->ops->file_write(drive->identity_file, block, sizeof(block),
                                    drive->identity.epoch % 2 * GB_BLOCK);
    drive->writes += n >= 0;
    int rc = n < 0 ? (int)n : io->ops->file_sync(drive->identity_file);
    return rc < 0 ? rc : io->ops->sync_dir(io, drive->dir);
}

/* Direct I/O, if the file system takes it, and the alignment it wants. */
static void probe_direct(struct gb_drive *drive, const struct goblin_options *options)
{
    struct gb_io *io = drive->identity_file->io;
    char path[PATH_MAX];
    drive->alignment = (struct gb_alignment){.memory = 1, .offset = 512};
    if (options->caching != GOBLIN_CACHING_DIRECT ||
        path_in(drive->dir, NAME, path, sizeof(path)) < 0) {
        return;
    }
    struct gb_file *file = NULL;
    if (io->ops->file_open(io, path, GB_OPEN_DIRECT | GB_OPEN_READ_ONLY, &file) < 0) {
        return;
    }
    struct gb_alignment alignment;
    if (io->ops->file_alignment(file, &alignment) == 0 && alignment.offset <= GB_BLOCK &&
        alignment.memory <= GB_BLOCK) {
        drive->direct = true;
        drive->alignment.memory = alignment.memory;
        drive->alignment.offset = (uint32_t)gb_max(alignment.offset, 512);
    }
    io->ops->file_close(file);
}

static void explain(struct goblin_error *error, const char *dir, int rc)
{
    switch (rc) {
    case -EBUSY:
        gb_error_set(error,
                     "%s: the store is open in another process; stop that one, or ask it to do "
                     "this instead",
                     dir);
        break;
    case GOBLIN_ENOTSTORE:
        gb_error_set(error, "%s: neither empty nor a Goblin store; nothing was touched", dir);
        break;
    case -ENOENT:
        gb_error_set(error, "%s: no store here; make one first", dir);
        break;
    default:
        gb_error_set(error, "%s: %s", dir, goblin_strerror(rc));
        break;
    }
}

/* ---- all of them --------------------------------------------------------------------------- */

static int make_identities(struct gb_drive *drives, unsigned count,
                           const struct goblin_options *options)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct gb_identity identity = {
        .version = GB_FORMAT_VERSION,
        .drive_count = count,
        .slot_count = gb_config_slots(options->size_bytes, options->segment_bytes, count),
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
    for (unsigned i = 0; i < count; i++) {
        drives[i].identity = identity;
        drives[i].identity.drive = i;
        drives[i].identity.first_slot = i * identity.slot_count;
        int rc = sync_parents(drives[i].identity_file->io, drives[i].dir);
        rc = rc == 0 ? write_identity(&drives[i]) : rc;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Whether the drives are those of one store, in order, and of one epoch: see
 * gb_drives_enter_epoch. */
static int check_identities(const struct gb_drive *drives, unsigned count,
                            struct goblin_error *error)
{
    const struct gb_identity *first = &drives[0].identity;
    uint64_t newest = 0;
    for (unsigned i = 0; i < count; i++) {
        newest = gb_max(newest, drives[i].identity.epoch);
    }
    for (unsigned i = 0; i < count; i++) {
        const struct gb_identity *identity = &drives[i].identity;
        if (memcmp(identity->store_id, first->store_id, sizeof(first->store_id)) != 0 ||
            identity->drive != i || identity->drive_count != count) {
            gb_error_set(error,
                         "%s: it is drive %u of %u of a store, but was given as drive %u of %u",
                         drives[i].dir, identity->drive + 1, identity->drive_count, i + 1, count);
            return GOBLIN_EIDENTITY;
        }
        if (identity->epoch + 1 < newest) {
            gb_error_set(error, "%s: it missed an opening of its store (epoch %llu, not %llu)",
                         drives[i].dir, (unsigned long long)identity->epoch,
                         (unsigned long long)newest);
            return GOBLIN_EIDENTITY;
        }
    }
    return 0;
}

static int open_all(struct gb_drive *drives, unsigned count, struct gb_io *io,
                    const struct goblin_options *options, struct goblin_error *error)
{
    unsigned made = 0;
    bool opened = false; /* the store was, before */
    for (unsigned i = 0; i < count; i++) {
        drives[i].dir = strdup(options->dirs[i]);
        int rc = drives[i].dir == NULL ? -ENOMEM : claim(&drives[i], io, options);
        if (rc < 0) {
            explain(error, options->dirs[i], rc);
            return rc;
        }
        made += rc != CLAIM_EMPTY;
        opened |= rc == CLAIM_STORE || (rc == CLAIM_BARE && drives[i].identity.epoch > 0);
    }
    /* What a crash left of making it is made anew. */
    made = options->create && !opened ? 0 : made;
    if (made != 0 && made != count) {
        gb_error_set(error, "%u of the %u directories are drives of a store and the others empty",
                     made, count);
        return GOBLIN_EIDENTITY;
    }
    if (made == 0) {
        int rc = make_identities(drives, count, options);
        if (rc < 0) {
            gb_error_set(error, "%s: %s", drives[0].dir, goblin_strerror(rc));
            return rc;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        probe_direct(&drives[i], options);
    }
    return check_identities(drives, count, error);
}

int gb_drives_open(struct gb_drive **drives, unsigned *count, struct gb_io *io,
                   const struct goblin_options *options, struct goblin_error *error)
{
    *count = (unsigned)options->dir_count;
    *drives = calloc(*count, sizeof(**drives));
    if (*drives == NULL) {
        return -ENOMEM;
    }
    int rc = open_all(*drives, *count, io, options, error);
    if (rc < 0) {
        gb_drives_close(*drives, *count);
        *drives = NULL;
        *count = 0;
    }
    return rc;
}

void gb_drives_close(struct gb_drive *drives, unsigned count)
{
    for (unsigned i = 0; drives != NULL && i < count; i++) {
        if (drives[i].identity_file != NULL) {
            drives[i].identity_file->io->ops->file_close(drives[i].identity_file);
        }
        free(drives[i].dir);
    }
    free(drives);
}

int gb_drives_enter_epoch(struct gb_drive *drives, unsigned count, struct goblin_error *error)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (unsigned i = 0; i < count; i++) {
        least = gb_min(least, drives[i].identity.epoch);
        most = gb_max(most, drives[i].identity.epoch);
    }
    uint64_t last = count == 1 ? most + 1 : gb_align_down(most, 2) + 2;
    for (uint64_t epoch = least + 1; epoch <= last; epoch++) {
        for (unsigned i = 0; i < count; i++) {
            if (drives[i].identity.epoch >= epoch) {
                continue;
            }
            drives[i].identity.epoch = epoch;
            int rc = write_identity(&drives[i]);
            if (rc < 0) {
                gb_error_set(error, "%s: %s", drives[i].dir, goblin_strerror(rc));
                return rc;
            }
        }
    }
    return 0;
}
