/*
 * A cgroup of the bench's own, for --cap: RAM and the device's operations per second limited for
 * this process and its children, by version 1 (blkio and memory controllers) or version 2 (io and
 * memory), whichever the machine mounts.
 *
 * The group is made below the one the process is in, so limits set from outside go on holding.
 * Leaving moves the process back and removes the group; children must have ended by then.
 */
#ifndef GB_BENCH_CGROUP_H
#define GB_BENCH_CGROUP_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

struct gb_cgroup_limits {
    unsigned device_major; /* of a whole drive; gb_cgroup_device finds it */
    unsigned device_minor;
    uint64_t read_iops; /* operations per second */
    uint64_t write_iops;
    uint64_t memory_bytes;
};

struct gb_cgroup {
    unsigned count;
    struct {
        char home[PATH_MAX]; /* the group the process came from */
        char path[PATH_MAX]; /* ours */
    } groups[2];
};

/* Finds the drive below `path`: the whole drive of a partition.
 * Errors: -ENOTBLK where the file system lies on none (overlay, tmpfs, network). */
int gb_cgroup_device(const char *path, unsigned *device_major, unsigned *device_minor,
                     struct goblin_error *error);

/* Makes the group under the mount `root` (NULL: /sys/fs/cgroup) and moves this process into it.
 * A fault leaves everything as it was and is explained in `error`. */
int gb_cgroup_enter(struct gb_cgroup *group, const char *root,
                    const struct gb_cgroup_limits *limits, struct goblin_error *error);

/* Harmless on a zeroed struct. Returns 0, or the first fault; it goes on after one. */
int gb_cgroup_leave(struct gb_cgroup *group);

/* ---- a group for one other process: memory alone -------------------------------------------- */

/* Makes the group `name` below the one this process is in, limited to `memory_bytes`, page cache
 * included, under the mount `root` (NULL: /sys/fs/cgroup). Owns: gb_cgroup_remove. A fault leaves
 * path[0] '\0' and is explained. */
int gb_cgroup_make(char path[PATH_MAX], const char *root, const char *name, uint64_t memory_bytes,
                   struct goblin_error *error);

/* Moves this process into it; for a child before it becomes the program. */
int gb_cgroup_join(const char *path);

/* Its processes must have ended. */
int gb_cgroup_remove(const char *path);

#endif
