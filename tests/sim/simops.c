/* Files and names of the simulated disk, as the entries of struct gb_io_ops. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "sim/simdisk_internal.h"

static struct simdisk *lock(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    return disk;
}

static void unlock(struct simdisk *disk)
{
    pthread_mutex_unlock(&disk->mutex);
}

static struct simdisk *lock_of(struct gb_file *file)
{
    return lock(file->io);
}

/* ---- files --------------------------------------------------------------------------------- */

static struct sim_inode *create_inode_locked(struct simdisk *disk, const char *path, bool is_dir)
{
    struct sim_inode *inode = sim_inode_create(&disk->inodes, is_dir);
    struct sim_inode *replaced = sim_names_change(&disk->names, NULL, path, inode);
    GB_ASSERT(replaced == NULL);
    inode->named = true;
    return inode;
}

/* Leaves a reference for the file. */
static int open_inode_locked(struct simdisk *disk, const char *path, unsigned flags,
                             struct sim_inode **out)
{
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc != 0) {
        return rc;
    }
    struct sim_inode *inode = sim_names_find(&disk->names, path);
    if (inode != NULL) {
        if ((flags & GB_OPEN_CREATE) != 0 && (flags & GB_OPEN_EXCLUSIVE) != 0) {
            return -EEXIST;
        }
        if (inode->is_dir) {
            return -EISDIR;
        }
        sim_inode_acquire(inode);
        *out = inode;
        return 0;
    }
    rc = sim_path_is_root(path) ? -EISDIR : sim_names_check_parent(&disk->names, path);
    if (rc != 0 || (flags & GB_OPEN_CREATE) == 0) {
        return rc != 0 ? rc : -ENOENT;
    }
    *out = create_inode_locked(disk, path, false);
    return 0;
}

int sim_file_open(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(path, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    struct sim_inode *inode;
    int rc = open_inode_locked(disk, normal, flags, &inode);
    if (rc == 0) {
        struct sim_file *file = sim_alloc(sizeof(*file));
        file->base.io = io;
        file->inode = inode;
        file->flags = flags;
        (void)strcpy(file->path, normal);
        file->generation = disk->generation;
        simdisk_discharge_locked(disk, inode);
        inode->live_opens++;
        simdisk_charge_locked(disk, inode);
        disk->handles++;
        *out = &file->base;
    }
    unlock(disk);
    return rc;
}

static void release_lock(struct sim_file *file)
{
    if (file->holds_lock) {
        file->inode->locked = false;
        file->holds_lock = false;
    }
    if (file->holds_shared_lock) {
        file->inode->shared_locks--;
        file->holds_shared_lock = false;
    }
}

void sim_file_close(struct gb_file *base)
{
    struct sim_file *file = sim_file_of(base);
    struct simdisk *disk = lock_of(base);
    if (file->generation == disk->generation) {
        release_lock(file);
        simdisk_discharge_locked(disk, file->inode);
        file->inode->live_opens--;
        simdisk_charge_locked(disk, file->inode);
    }
    sim_inode_release(file->inode);
    disk->handles--;
    free(file);
    unlock(disk);
}

int sim_file_size(struct gb_file *file, uint64_t *bytes)
{
    struct simdisk *disk = lock_of(file);
    int rc = sim_file_lives(disk, sim_file_of(file)) ? 0 : -EIO;
    if (rc == 0) {
        *bytes = sim_file_of(file)->inode->size;
    }
    unlock(disk);
    return rc;
}

int sim_file_alignment(struct gb_file *file, struct gb_alignment *out)
{
    struct simdisk *disk = lock_of(file);
    bool direct = (sim_file_of(file)->flags & GB_OPEN_DIRECT) != 0;
    *out = direct ? disk->alignment : (struct gb_alignment){1, 1};
    unlock(disk);
    return 0;
}

static int check_resize_locked(struct simdisk *disk, const struct sim_file *file)
{
    if (!sim_file_lives(disk, file)) {
        return -EIO;
    }
    if ((file->flags & GB_OPEN_READ_ONLY) != 0) {
        return -EBADF;
    }
    return simdisk_pass_locked(disk, SIMDISK_NAME);
}

int sim_file_truncate(struct gb_file *file, uint64_t bytes)
{
    struct simdisk *disk = lock_of(file);
    int rc = check_resize_locked(disk, sim_file_of(file));
    if (rc == 0) {
        struct sim_inode *inode = sim_file_of(file)->inode;
        simdisk_discharge_locked(disk, inode);
        sim_inode_resize(inode, SIM_CHANGE_RESIZE, bytes, ++disk->sequence);
        simdisk_charge_locked(disk, inode);
    }
    unlock(disk);
    return rc;
}

static int allocate_locked(struct simdisk *disk, struct sim_inode *inode, uint64_t bytes)
{
    uint64_t wanted = (bytes + SIM_PAGE - 1) / SIM_PAGE;
    uint64_t has = sim_inode_pages(inode);
    if (disk->can_allocate && wanted > has &&
        disk->used_pages + wanted - has > disk->capacity_pages) {
        disk->counts.no_space++;
        return -ENOSPC;
    }
    simdisk_discharge_locked(disk, inode);
    if (disk->can_allocate) {
        inode->reserved_pages = gb_max(inode->reserved_pages, wanted);
    }
    sim_inode_resize(inode, SIM_CHANGE_GROW, bytes, ++disk->sequence);
    simdisk_charge_locked(disk, inode);
    return disk->can_allocate ? 0 : 1;
}

int sim_file_allocate(struct gb_file *file, uint64_t bytes)
{
    struct simdisk *disk = lock_of(file);
    int rc = check_resize_locked(disk, sim_file_of(file));
    if (rc == 0) {
        rc = allocate_locked(disk, sim_file_of(file)->inode, bytes);
    }
    unlock(disk);
    return rc;
}

int sim_file_sync(struct gb_file *file)
{
    struct simdisk *disk = lock_of(file);
    int rc = simdisk_sync_locked(disk, sim_file_of(file), disk->sequence);
    unlock(disk);
    return rc;
}

static int lock_locked(struct sim_file *file, bool shared)
{
    struct sim_inode *inode = file->inode;
    bool others_exclusive = inode->locked && !file->holds_lock;
    bool others_shared = inode->shared_locks > (file->holds_shared_lock ? 1u : 0u);
    if (others_exclusive || (others_shared && !shared)) {
        return -EWOULDBLOCK;
    }
    release_lock(file);
    file->holds_lock = !shared;
    file->holds_shared_lock = shared;
    inode->locked = !shared;
    inode->shared_locks += shared;
    return 0;
}

int sim_file_lock(struct gb_file *file, bool shared)
{
    struct simdisk *disk = lock_of(file);
    int rc = -EIO;
    if (sim_file_lives(disk, sim_file_of(file))) {
        rc = lock_locked(sim_file_of(file), shared);
    }
    unlock(disk);
    return rc;
}

int sim_file_advise_away(struct gb_file *file)
{
    struct simdisk *disk = lock_of(file);
    int rc = sim_file_lives(disk, sim_file_of(file)) ? 0 : -EIO;
    unlock(disk);
    return rc;
}

int64_t sim_file_read(struct gb_file *file, void *buffer, size_t len, uint64_t offset)
{
    struct simdisk *disk = lock_of(file);
    int64_t n = simdisk_read_locked(disk, sim_file_of(file), buffer, len, offset);
    unlock(disk);
    return n;
}

int64_t sim_file_write(struct gb_file *file, const void *buffer, size_t len, uint64_t offset)
{
    struct simdisk *disk = lock_of(file);
    int64_t n = simdisk_write_locked(disk, sim_file_of(file), buffer, len, offset);
    unlock(disk);
    return n;
}

/* ---- names --------------------------------------------------------------------------------- */

/* The inode has lost its name. */
static void unname_locked(struct simdisk *disk, struct sim_inode *inode)
{
    simdisk_discharge_locked(disk, inode);
    inode->named = false;
    simdisk_charge_locked(disk, inode);
}

static int rename_locked(struct simdisk *disk, const char *from, const char *to)
{
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc != 0) {
        return rc;
    }
    struct sim_inode *inode = sim_names_find(&disk->names, from);
    struct sim_inode *target = sim_names_find(&disk->names, to);
    if (inode == NULL) {
        return -ENOENT;
    }
    rc = sim_names_check_parent(&disk->names, to);
    if (rc != 0 || inode == target) {
        return rc;
    }
    if (inode->is_dir) {
        return -EOPNOTSUPP;
    }
    if (sim_path_is_root(to) || (target != NULL && target->is_dir)) {
        return -EISDIR;
    }
    struct sim_inode *replaced = sim_names_change(&disk->names, from, to, inode);
    if (replaced != NULL) {
        unname_locked(disk, replaced);
        sim_inode_release(replaced);
    }
    return 0;
}

int sim_rename(struct gb_io *io, const char *from, const char *to)
{
    char normal_from[SIM_PATH_MAX];
    char normal_to[SIM_PATH_MAX];
    if (!sim_path_normalize(from, normal_from) || !sim_path_normalize(to, normal_to)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    int rc = rename_locked(disk, normal_from, normal_to);
    unlock(disk);
    return rc;
}

static int unlink_locked(struct simdisk *disk, const char *path)
{
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc != 0) {
        return rc;
    }
    struct sim_inode *inode = sim_names_find(&disk->names, path);
    if (inode == NULL) {
        return -ENOENT;
    }
    if (inode->is_dir) {
        return -EISDIR;
    }
    sim_names_change(&disk->names, path, NULL, inode);
    unname_locked(disk, inode); /* the pending change still refers to it */
    return 0;
}

int sim_unlink(struct gb_io *io, const char *path)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(path, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    int rc = unlink_locked(disk, normal);
    unlock(disk);
    return rc;
}

int sim_make_dir(struct gb_io *io, const char *path)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(path, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc == 0) {
        bool present = sim_path_is_root(normal) || sim_names_find(&disk->names, normal) != NULL;
        rc = present ? -EEXIST : sim_names_check_parent(&disk->names, normal);
    }
    if (rc == 0) {
        sim_inode_release(create_inode_locked(disk, normal, true));
    }
    unlock(disk);
    return rc;
}

static int check_dir_locked(const struct simdisk *disk, const char *dir)
{
    if (sim_path_is_root(dir)) {
        return 0;
    }
    const struct sim_inode *inode = sim_names_find(&disk->names, dir);
    if (inode == NULL) {
        return -ENOENT;
    }
    return inode->is_dir ? 0 : -ENOTDIR;
}

/* Copies of the names in `dir`, in a random order: readdir promises none. */
static char **copy_names_locked(struct simdisk *disk, const char *dir, size_t *count)
{
    char **copies = sim_alloc((disk->names.now.count + 1) * sizeof(copies[0]));
    *count = 0;
    for (size_t i = 0; i < disk->names.now.count; i++) {
        const char *name = sim_path_within(disk->names.now.names[i].path, dir);
        if (name == NULL) {
            continue;
        }
        size_t at = (size_t)gb_rng_below(&disk->rng, *count + 1);
        copies[*count] = copies[at];
        copies[at] = strcpy(sim_alloc(strlen(name) + 1), name);
        (*count)++;
    }
    return copies;
}

int sim_list(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(dir, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    char **copies = NULL;
    size_t count = 0;
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc == 0) {
        rc = check_dir_locked(disk, normal);
    }
    if (rc == 0) {
        copies = copy_names_locked(disk, normal, &count);
    }
    unlock(disk);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0) {
            rc = visit(arg, copies[i]);
        }
        free(copies[i]);
    }
    free(copies);
    return rc;
}

int sim_sync_dir(struct gb_io *io, const char *dir)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(dir, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    int rc = simdisk_pass_locked(disk, SIMDISK_SYNC);
    if (rc == 0) {
        rc = check_dir_locked(disk, normal);
    }
    if (rc == 0) {
        sim_names_sync(&disk->names, normal);
    }
    unlock(disk);
    return rc;
}

int sim_free_space(struct gb_io *io, const char *dir, uint64_t *bytes)
{
    char normal[SIM_PATH_MAX];
    if (!sim_path_normalize(dir, normal)) {
        return -ENOENT;
    }
    struct simdisk *disk = lock(io);
    int rc = simdisk_pass_locked(disk, SIMDISK_NAME);
    if (rc == 0) {
        rc = check_dir_locked(disk, normal);
    }
    if (rc == 0) {
        uint64_t used = gb_min(disk->used_pages, disk->capacity_pages);
        *bytes = (disk->capacity_pages - used) * SIM_PAGE;
    }
    unlock(disk);
    return rc;
}
