/*
 * The names of a simulated disk: as they are now, as they would be after a power cut, and the
 * changes between the two. An inode has at most one name in each.
 */
#ifndef GB_SIM_SIMNAMES_H
#define GB_SIM_SIMNAMES_H

#include "sim/siminode.h"

#define SIM_PATH_MAX 1024u

struct sim_name {
    char *path;
    struct sim_inode *inode;
};

struct sim_directory {
    struct sim_name *names;
    size_t count;
    size_t capacity;
};

/* LINK: `to` alone; UNLINK: `from` alone; RENAME: both. */
struct sim_name_change {
    struct sim_name_change *next;
    char *from;
    char *to;
    struct sim_inode *inode;
    bool chosen; /* scratch of sim_names_sync */
};

/* All zeros is empty. */
struct sim_names {
    struct sim_directory now;
    struct sim_directory durable;
    struct sim_name_change *pending; /* newest first */
};

void sim_names_fini(struct sim_names *names);

/* `path` without trailing, doubled or "./" parts. false: too long or empty. */
bool sim_path_normalize(const char *path, char out[SIM_PATH_MAX]);
/* 0, or -ENOENT or -ENOTDIR of the directory that would hold `path`. */
int sim_names_check_parent(const struct sim_names *names, const char *path);

struct sim_inode *sim_names_find(const struct sim_names *names, const char *path);
bool sim_path_is_root(const char *path);
/* The last part of `path` if it lies directly in `dir`, else NULL. */
const char *sim_path_within(const char *path, const char *dir);

/* Changes what is there now; durable after a sync of the directory. `from` or `to` may be NULL.
 * Returns the inode that `to` named before, with a reference for the caller, or NULL. */
struct sim_inode *sim_names_change(struct sim_names *names, const char *from, const char *to,
                                   struct sim_inode *inode);

void sim_names_sync(struct sim_names *names, const char *dir);
void sim_names_cut(struct sim_names *names, struct gb_rng *rng, unsigned keep_percent,
                   struct simdisk_counts *counts);

#endif
