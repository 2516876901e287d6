/* The simulated disk itself: its life and death, its faults, and the bytes of its files. */
#include "sim/simdisk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "sim/simdisk_internal.h"

#define OFFSET_MAX (UINT64_C(1) << 44)

static void destroy(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    GB_ASSERT(disk->handles == 0);
    sim_names_fini(&disk->names);
    GB_ASSERT(disk->inodes == NULL);
    pthread_mutex_destroy(&disk->mutex);
    free(disk);
}

static const struct gb_io_ops sim_ops = {
    .name = "sim",
    .destroy = destroy,
    .file_open = sim_file_open,
    .file_close = sim_file_close,
    .file_size = sim_file_size,
    .file_alignment = sim_file_alignment,
    .file_allocate = sim_file_allocate,
    .file_truncate = sim_file_truncate,
    .file_sync = sim_file_sync,
    .file_lock = sim_file_lock,
    .file_advise_away = sim_file_advise_away,
    .file_read = sim_file_read,
    .file_write = sim_file_write,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .make_dir = sim_make_dir,
    .list = sim_list,
    .sync_dir = sim_sync_dir,
    .free_space = sim_free_space,
    .queue_create = sim_queue_create,
    .queue_destroy = sim_queue_destroy,
    .queue_prepare = sim_queue_prepare,
    .queue_submit = sim_queue_submit,
    .queue_reap = sim_queue_reap,
    .queue_eventfd = sim_queue_eventfd,
    .queue_in_flight = sim_queue_in_flight,
};

struct gb_io *simdisk_create(uint64_t seed)
{
    struct simdisk *disk = sim_alloc(sizeof(*disk));
    disk->base.ops = &sim_ops;
    pthread_mutex_init(&disk->mutex, NULL);
    gb_rng_init(&disk->rng, seed);
    disk->capacity_pages = SIMDISK_CAPACITY / SIM_PAGE;
    disk->alignment = (struct gb_alignment){512, 512};
    disk->can_allocate = true;
    return &disk->base;
}

/* ---- death and resurrection ---------------------------------------------------------------- */

/* The program's files and locks are gone; what has no name left goes with them. */
static void end_program_locked(struct simdisk *disk)
{
    disk->down = true;
    disk->generation++;
    disk->used_pages = 0;
    for (struct sim_inode *inode = disk->inodes; inode != NULL; inode = inode->next) {
        inode->live_opens = 0;
        inode->locked = false;
        inode->shared_locks = 0;
        inode->named = false;
    }
    for (size_t i = 0; i < disk->names.now.count; i++) {
        disk->names.now.names[i].inode->named = true;
        simdisk_charge_locked(disk, disk->names.now.names[i].inode);
    }
}

void simdisk_power_cut_locked(struct simdisk *disk)
{
    unsigned keep_percent = (unsigned)gb_rng_below(&disk->rng, 5) * 25;
    if (!disk->down) {
        sim_queues_abandon_locked(disk, true);
    }
    sim_names_cut(&disk->names, &disk->rng, keep_percent, &disk->counts);
    for (struct sim_inode *inode = disk->inodes; inode != NULL; inode = inode->next) {
        sim_inode_cut(inode, &disk->rng, keep_percent, &disk->counts);
    }
    end_program_locked(disk);
    disk->counts.cuts++;
}

void simdisk_power_cut(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    simdisk_power_cut_locked(disk);
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_crash_process(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    if (!disk->down) {
        sim_queues_abandon_locked(disk, false);
        end_program_locked(disk);
    }
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_restart(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->down = false;
    pthread_mutex_unlock(&disk->mutex);
}

/* ---- faults -------------------------------------------------------------------------------- */

static void arm(struct gb_io *io, enum simdisk_kind kind, struct sim_trigger trigger)
{
    struct simdisk *disk = simdisk_of(io);
    GB_ASSERT(kind < SIMDISK_KINDS);
    pthread_mutex_lock(&disk->mutex);
    disk->triggers[kind] = trigger;
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_fail_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n)
{
    arm(io, kind, (struct sim_trigger){.left = n});
}

void simdisk_fail_from_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n)
{
    arm(io, kind, (struct sim_trigger){.left = n, .stays = true});
}

void simdisk_refuse_writes(struct gb_io *io, const char *dir)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->refusing[0] = '\0';
    bool known = dir == NULL || sim_path_normalize(dir, disk->refusing);
    GB_ASSERT(known);
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_cut_at_nth(struct gb_io *io, enum simdisk_kind kind, uint64_t n)
{
    arm(io, kind, (struct sim_trigger){.left = n, .cuts = true});
}

static enum sim_gate pull(struct sim_trigger *trigger)
{
    if (trigger->left == 0) {
        return SIM_GATE_GO;
    }
    if (trigger->left > 1) {
        trigger->left--;
        return SIM_GATE_GO;
    }
    if (!trigger->stays) {
        trigger->left = 0;
    }
    return trigger->cuts ? SIM_GATE_CUT : SIM_GATE_FAIL;
}

enum sim_gate simdisk_gate_locked(struct simdisk *disk, enum simdisk_kind kind)
{
    if (disk->down) {
        return SIM_GATE_DOWN;
    }
    disk->counts.operations[kind]++;
    disk->counts.operations[SIMDISK_ANY]++;
    disk->counts.clock_us += 1 + gb_rng_below(&disk->rng, 20);
    enum sim_gate own = pull(&disk->triggers[kind]);
    enum sim_gate any = pull(&disk->triggers[SIMDISK_ANY]);
    enum sim_gate gate = own > any ? own : any;
    disk->counts.failed += gate == SIM_GATE_FAIL;
    return gate;
}

int simdisk_pass_locked(struct simdisk *disk, enum simdisk_kind kind)
{
    enum sim_gate gate = simdisk_gate_locked(disk, kind);
    if (gate == SIM_GATE_CUT) {
        simdisk_power_cut_locked(disk);
    }
    return gate == SIM_GATE_GO ? 0 : -EIO;
}

void simdisk_set_capacity(struct gb_io *io, uint64_t bytes)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->capacity_pages = bytes / SIM_PAGE;
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_fill(struct gb_io *io, uint64_t but_bytes)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->capacity_pages = disk->used_pages + but_bytes / SIM_PAGE;
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_set_alignment(struct gb_io *io, uint32_t bytes)
{
    struct simdisk *disk = simdisk_of(io);
    GB_ASSERT(gb_is_power_of_two(bytes));
    pthread_mutex_lock(&disk->mutex);
    disk->alignment = (struct gb_alignment){bytes, bytes};
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_set_allocate(struct gb_io *io, bool possible)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->can_allocate = possible;
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_hold_back(struct gb_io *io, bool hold)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->holds_back = hold;
    pthread_mutex_unlock(&disk->mutex);
}

void simdisk_set_misdirection(struct gb_io *io, unsigned one_in)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    disk->misdirect_one_in = one_in;
    pthread_mutex_unlock(&disk->mutex);
}

static struct sim_inode *find_file_locked(struct simdisk *disk, const char *path)
{
    char normal[SIM_PATH_MAX];
    struct sim_inode *inode =
        sim_path_normalize(path, normal) ? sim_names_find(&disk->names, normal) : NULL;
    return inode != NULL && !inode->is_dir ? inode : NULL;
}

int simdisk_unreadable(struct gb_io *io, const char *path, uint64_t offset, uint64_t len)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    struct sim_inode *inode = find_file_locked(disk, path);
    int rc = inode == NULL ? -ENOENT : sim_inode_spoil(inode, offset, len) ? 0 : -ENOSPC;
    pthread_mutex_unlock(&disk->mutex);
    return rc;
}

void simdisk_readable(struct gb_io *io)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    for (struct sim_inode *inode = disk->inodes; inode != NULL; inode = inode->next) {
        memset(inode->bad, 0, sizeof(inode->bad));
    }
    pthread_mutex_unlock(&disk->mutex);
}

/* mask 0: a random bit of a random byte. */
static int flip_locked(struct simdisk *disk, const char *path, uint64_t *offset, unsigned char mask)
{
    struct sim_inode *inode = find_file_locked(disk, path);
    if (inode == NULL) {
        return -ENOENT;
    }
    if (mask == 0 && inode->size > 0) {
        *offset = gb_rng_below(&disk->rng, inode->size);
        mask = (unsigned char)(1u << gb_rng_below(&disk->rng, 8));
    }
    if (*offset >= inode->size) {
        return -ERANGE;
    }
    simdisk_discharge_locked(disk, inode);
    sim_inode_flip(inode, *offset, mask);
    simdisk_charge_locked(disk, inode);
    disk->counts.flipped++;
    return 0;
}

int simdisk_flip(struct gb_io *io, const char *path, uint64_t offset, unsigned char mask)
{
    struct simdisk *disk = simdisk_of(io);
    GB_ASSERT(mask != 0);
    pthread_mutex_lock(&disk->mutex);
    int rc = flip_locked(disk, path, &offset, mask);
    pthread_mutex_unlock(&disk->mutex);
    return rc;
}

int simdisk_rot(struct gb_io *io, const char *path, uint64_t *offset)
{
    struct simdisk *disk = simdisk_of(io);
    uint64_t where = 0;
    pthread_mutex_lock(&disk->mutex);
    int rc = flip_locked(disk, path, &where, 0);
    pthread_mutex_unlock(&disk->mutex);
    if (rc == 0 && offset != NULL) {
        *offset = where;
    }
    return rc;
}

void simdisk_counts(struct gb_io *io, struct simdisk_counts *counts)
{
    struct simdisk *disk = simdisk_of(io);
    pthread_mutex_lock(&disk->mutex);
    *counts = disk->counts;
    pthread_mutex_unlock(&disk->mutex);
}

/* ---- space --------------------------------------------------------------------------------- */

static bool is_charged(const struct sim_inode *inode)
{
    return inode->named || inode->live_opens > 0;
}

void simdisk_charge_locked(struct simdisk *disk, const struct sim_inode *inode)
{
    if (is_charged(inode)) {
        disk->used_pages += sim_inode_pages(inode);
    }
}

void simdisk_discharge_locked(struct simdisk *disk, const struct sim_inode *inode)
{
    if (is_charged(inode)) {
        disk->used_pages -= sim_inode_pages(inode);
    }
}

/* ---- bytes --------------------------------------------------------------------------------- */

static bool is_misaligned(const struct simdisk *disk, const struct sim_file *file,
                          const void *buffer, size_t len, uint64_t offset)
{
    return (file->flags & GB_OPEN_DIRECT) != 0 &&
           ((uintptr_t)buffer % disk->alignment.memory != 0 || len % disk->alignment.offset != 0 ||
            offset % disk->alignment.offset != 0);
}

int64_t simdisk_read_locked(struct simdisk *disk, struct sim_file *file, void *to, size_t len,
                            uint64_t offset)
{
    if (!sim_file_lives(disk, file)) {
        return -EIO;
    }
    if (is_misaligned(disk, file, to, len, offset)) {
        return -EINVAL;
    }
    int rc = simdisk_pass_locked(disk, SIMDISK_READ);
    if (rc != 0) {
        return rc;
    }
    if (sim_inode_is_bad(file->inode, offset, len)) {
        return -EIO;
    }
    uint64_t n = sim_inode_read(file->inode, to, len, offset);
    disk->counts.read_bytes += n;
    return (int64_t)n;
}

static uint64_t misdirect(struct simdisk *disk, const struct sim_inode *inode, size_t len,
                          uint64_t offset)
{
    if (disk->misdirect_one_in == 0 || inode->size <= len ||
        gb_rng_below(&disk->rng, disk->misdirect_one_in) != 0) {
        return offset;
    }
    uint64_t sectors = (inode->size - len) / SIM_SECTOR + 1;
    uint64_t elsewhere = gb_rng_below(&disk->rng, sectors) * SIM_SECTOR;
    disk->counts.misdirected += elsewhere != offset;
    return elsewhere;
}

static int check_write(struct simdisk *disk, const struct sim_file *file, const void *from,
                       size_t len, uint64_t offset)
{
    if (!sim_file_lives(disk, file)) {
        return -EIO;
    }
    if ((file->flags & GB_OPEN_READ_ONLY) != 0) {
        return -EBADF;
    }
    if (is_misaligned(disk, file, from, len, offset)) {
        return -EINVAL;
    }
    if (offset > OFFSET_MAX || len > OFFSET_MAX) {
        return -EFBIG;
    }
    uint64_t grown = sim_inode_pages_with(file->inode, offset, len) - sim_inode_pages(file->inode);
    if (grown > 0 && disk->used_pages + grown > disk->capacity_pages) {
        disk->counts.no_space++;
        return -ENOSPC;
    }
    return 0;
}

int64_t simdisk_write_locked(struct simdisk *disk, struct sim_file *file, const void *from,
                             size_t len, uint64_t offset)
{
    int rc = check_write(disk, file, from, len, offset);
    if (rc != 0) {
        return rc;
    }
    struct sim_inode *inode = file->inode;
    enum sim_gate gate = simdisk_gate_locked(disk, SIMDISK_WRITE);
    if (gate == SIM_GATE_GO && disk->refusing[0] != '\0' &&
        sim_path_within(file->path, disk->refusing) != NULL) {
        disk->counts.failed++;
        gate = SIM_GATE_FAIL;
    }
    simdisk_discharge_locked(disk, inode);
    if (gate == SIM_GATE_FAIL) {
        sim_inode_write_some(inode, from, len, offset, ++disk->sequence, &disk->rng);
    } else {
        offset = misdirect(disk, inode, len, offset);
        sim_inode_write(inode, from, len, offset, ++disk->sequence);
    }
    simdisk_charge_locked(disk, inode);
    if (gate == SIM_GATE_CUT) {
        simdisk_power_cut_locked(disk);
    }
    disk->counts.written_bytes += gate == SIM_GATE_GO ? len : 0;
    return gate == SIM_GATE_GO ? (int64_t)len : -EIO;
}

int simdisk_sync_locked(struct simdisk *disk, struct sim_file *file, uint64_t sequence)
{
    if (!sim_file_lives(disk, file)) {
        return -EIO;
    }
    disk->counts.file_syncs++;
    enum sim_gate gate = simdisk_gate_locked(disk, SIMDISK_SYNC);
    if (gate == SIM_GATE_GO) {
        sim_inode_sync(file->inode, sequence);
        return 0;
    }
    if (gate == SIM_GATE_CUT) {
        simdisk_power_cut_locked(disk);
    } else {
        disk->counts.syncs_doomed += sim_inode_doom(file->inode);
    }
    return -EIO;
}
