/* One drive: who its directory belongs to, the lock on it, and how it is emptied. */
#include "engine/drive_internal.h"

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
#include "engine/format_seal.h"

#define NAME       "GOBLIN"
#define LOCK_TRIES 100u /* 10 ms apart */

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

static const char *first_present(const struct goblin_options *options)
{
    struct stat info;
    for (size_t i = 0; i < options->dir_count; i++) {
        if (stat(options->dirs[i], &info) == 0) {
            return options->dirs[i];
        }
    }
    return options->dirs[0];
}

int gb_drives_choose_io(struct gb_io **io, const struct goblin_options *options,
                        struct goblin_error *error)
{
    if (options->io != GOBLIN_IO_SYNC) {
        char place[PATH_MAX];
        char why[256] = "";
        probe_place(first_present(options), place, sizeof(place));
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

/* Directories that may not be read were not made here. */
int gb_drive_sync_parents(struct gb_io *io, const char *dir)
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

static bool is_zero(const unsigned char *bytes, size_t len)
{
    static const unsigned char zeros[GB_BLOCK];
    return memcmp(bytes, zeros, len) == 0;
}

/* Of an identity, which fills the first sector and ends with a sum, some of the sectors. */
static bool is_torn(const unsigned char *block)
{
    return (memcmp(block, GB_IDENTITY_MAGIC, 8) == 0 || is_zero(block, 512)) &&
           is_zero(block + 512, GB_BLOCK - 512 - sizeof(uint64_t));
}

/* What a crash may leave of the first identity, which one that takes another drive's place has in
 * its second block. */
static bool is_unfinished(const unsigned char *blocks, int64_t len)
{
    const unsigned char *second = blocks + GB_BLOCK;
    return len <= 2 * (int64_t)GB_BLOCK && ((is_torn(blocks) && is_zero(second, GB_BLOCK)) ||
                                            (is_zero(blocks, GB_BLOCK) && is_torn(second)));
}

/* The newer of two identities: GB_CLAIM_BARE if there is one, else GB_CLAIM_EMPTY (`alone`: nothing
 * lies beside it) or what is wrong. */
static int read_identity(struct gb_drive *drive, bool alone)
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
        const unsigned char *block = blocks + (size_t)i * GB_BLOCK;
        answers[i] = gb_identity_decode(&identity, block);
        if (answers[i] == GOBLIN_EFORMAT) {
            drive->identity.version = gb_load_le32(block + GB_SEAL_VERSION_AT);
            return GOBLIN_EFORMAT;
        }
        if (answers[i] == 0 && (!found || identity.epoch > drive->identity.epoch)) {
            drive->identity = identity;
            found = true;
        }
    }
    if (found) {
        return GB_CLAIM_BARE;
    }
    return alone && is_unfinished(blocks, n) ? GB_CLAIM_EMPTY : answers[0];
}

/* A process that was killed keeps its lock until what it had in flight has come to rest. */
static int take_lock(struct gb_drive *drive, bool shared)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    int rc = drive->identity_file->io->ops->file_lock(drive->identity_file, shared);
    for (unsigned i = 0; rc == -EWOULDBLOCK && i < LOCK_TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        rc = drive->identity_file->io->ops->file_lock(drive->identity_file, shared);
    }
    return rc == -EWOULDBLOCK ? -EBUSY : rc;
}

int gb_drive_claim(struct gb_drive *drive, struct gb_io *io, const struct goblin_options *options,
                   bool make)
{
    char path[PATH_MAX];
    int rc = path_in(drive->dir, NAME, path, sizeof(path));
    if (rc == 0 && make) {
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
    unsigned flags = make && strangers == 0 ? GB_OPEN_CREATE : 0u;
    rc = io->ops->file_open(io, path, flags, &drive->identity_file);
    if (rc == -ENOENT) {
        return strangers > 0 ? GOBLIN_ENOTSTORE : GB_CLAIM_EMPTY;
    }
    if (rc < 0) {
        return rc;
    }
    rc = take_lock(drive, options->read_only);
    if (rc < 0) {
        return rc;
    }
    rc = read_identity(drive, strangers == 0);
    return rc == GB_CLAIM_BARE && strangers > 0 ? GB_CLAIM_STORE : rc;
}

void gb_drive_release(struct gb_drive *drive)
{
    if (drive->identity_file != NULL) {
        drive->identity_file->io->ops->file_close(drive->identity_file);
        drive->identity_file = NULL;
    }
}

int gb_drive_write_identity(struct gb_drive *drive)
{
    return gb_drive_write_block(drive, drive->identity.epoch % 2);
}

int gb_drive_write_block(struct gb_drive *drive, unsigned number)
{
    unsigned char block[GB_BLOCK];
    struct gb_io *io = drive->identity_file->io;
    gb_identity_encode(&drive->identity, block);
    int64_t n = io->ops->file_write(drive->identity_file, block, sizeof(block),
                                    (uint64_t)number * GB_BLOCK);
    drive->writes += n >= 0;
    drive->syncs += n >= 0;
    int rc = n < 0 ? (int)n : io->ops->file_sync(drive->identity_file);
    return rc < 0 ? rc : io->ops->sync_dir(io, drive->dir);
}

static int remove_name(struct gb_drive *drive, const char *name)
{
    char path[PATH_MAX];
    struct gb_io *io = drive->identity_file->io;
    int rc = path_in(drive->dir, name, path, sizeof(path));
    rc = rc == 0 ? io->ops->unlink(io, path) : rc;
    return rc == -ENOENT ? 0 : rc;
}

int gb_drive_empty(struct gb_drive *drive)
{
    const struct gb_identity *identity = &drive->identity;
    int rc = 0;
    for (uint32_t i = 0; rc >= 0 && i < identity->slot_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), GB_SEGMENT_NAME, identity->first_slot + i);
        rc = remove_name(drive, name);
    }
    rc = rc < 0 ? rc : remove_name(drive, GB_CHECKPOINT_NAME);
    rc = rc < 0 ? rc : remove_name(drive, GB_CHECKPOINT_NAME GB_CHECKPOINT_NEW);
    struct gb_io *io = drive->identity_file->io;
    return rc < 0 ? rc : io->ops->sync_dir(io, drive->dir);
}

void gb_drive_probe_direct(struct gb_drive *drive, const struct goblin_options *options)
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

void gb_drive_explain(const struct gb_drive *drive, int rc, struct goblin_error *error)
{
    const char *dir = drive->dir;
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
    case GOBLIN_EFORMAT:
        gb_error_set(error,
                     "%s: it is of format version %u, and this library reads version %u only; "
                     "nothing was touched",
                     dir, drive->identity.version, GB_FORMAT_VERSION);
        break;
    case -ENOENT:
        gb_error_set(error, "%s: no store here; make one first", dir);
        break;
    default:
        gb_error_set(error, "%s: %s", dir, goblin_strerror(rc));
        break;
    }
}
