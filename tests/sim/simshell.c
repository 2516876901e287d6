/* The door: what takes a struct gb_io is handed on; files and queues are the disk's own already. */
#include "sim/simshell.h"

#include <stdlib.h>

#include "sim/simpages.h"

struct simshell {
    struct gb_io base;
    struct gb_io_ops ops;
    struct gb_io *disk;
};

static struct gb_io *disk_of(struct gb_io *io)
{
    return ((struct simshell *)io)->disk;
}

static void destroy(struct gb_io *io)
{
    free(io);
}

static int file_open(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out)
{
    return disk_of(io)->ops->file_open(disk_of(io), path, flags, out);
}

static int rename_file(struct gb_io *io, const char *from, const char *to)
{
    return disk_of(io)->ops->rename(disk_of(io), from, to);
}

static int unlink_file(struct gb_io *io, const char *path)
{
    return disk_of(io)->ops->unlink(disk_of(io), path);
}

static int make_dir(struct gb_io *io, const char *path)
{
    return disk_of(io)->ops->make_dir(disk_of(io), path);
}

static int list(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg)
{
    return disk_of(io)->ops->list(disk_of(io), dir, visit, arg);
}

static int sync_dir(struct gb_io *io, const char *dir)
{
    return disk_of(io)->ops->sync_dir(disk_of(io), dir);
}

static int free_space(struct gb_io *io, const char *dir, uint64_t *bytes)
{
    return disk_of(io)->ops->free_space(disk_of(io), dir, bytes);
}

static int queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out)
{
    return disk_of(io)->ops->queue_create(disk_of(io), depth, out);
}

struct gb_io *simshell_create(struct gb_io *disk)
{
    struct simshell *shell = sim_alloc(sizeof(*shell));
    shell->disk = disk;
    shell->ops = *disk->ops;
    shell->ops.destroy = destroy;
    shell->ops.file_open = file_open;
    shell->ops.rename = rename_file;
    shell->ops.unlink = unlink_file;
    shell->ops.make_dir = make_dir;
    shell->ops.list = list;
    shell->ops.sync_dir = sync_dir;
    shell->ops.free_space = free_space;
    shell->ops.queue_create = queue_create;
    shell->base.ops = &shell->ops;
    return &shell->base;
}
