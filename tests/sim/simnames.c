/* The names of a simulated disk, now and after a power cut. */
#include "sim/simnames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- paths --------------------------------------------------------------------------------- */

bool sim_path_normalize(const char *path, char out[SIM_PATH_MAX])
{
    size_t len = 0;
    bool absolute = path[0] == '/';
    if (path[0] == '\0') {
        return false;
    }
    while (*path != '\0') {
        size_t part = strcspn(path, "/");
        if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (len + part + 2 > SIM_PATH_MAX) {
                return false;
            }
            if (absolute || len > 0) {
                out[len++] = '/';
            }
            memcpy(out + len, path, part);
            len += part;
        }
        path += part + (path[part] == '/');
    }
    if (len == 0) {
        out[len++] = absolute ? '/' : '.';
    }
    out[len] = '\0';
    return true;
}

bool sim_path_is_root(const char *path)
{
    return strcmp(path, "/") == 0 || strcmp(path, ".") == 0;
}

const char *sim_path_within(const char *path, const char *dir)
{
    const char *last = path;
    if (strcmp(dir, ".") != 0) {
        size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
        if (strncmp(path, dir, len) != 0 || path[len] != '/') {
            return NULL;
        }
        last = path + len + 1;
    }
    return *last != '\0' && strchr(last, '/') == NULL ? last : NULL;
}

/* The directory that holds `path`. */
static void parent_of(const char *path, char out[SIM_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        strcpy(out, slash == NULL ? "." : "/");
        return;
    }
    memcpy(out, path, (size_t)(slash - path));
    out[slash - path] = '\0';
}

/* ---- one set of names ---------------------------------------------------------------------- */

static char *copy_path(const char *path)
{
    return path == NULL ? NULL : strcpy(sim_alloc(strlen(path) + 1), path);
}

static struct sim_name *find(const struct sim_directory *directory, const char *path)
{
    for (size_t i = 0; i < directory->count; i++) {
        if (strcmp(directory->names[i].path, path) == 0) {
            return &directory->names[i];
        }
    }
    return NULL;
}

static void drop(struct sim_directory *directory, struct sim_name *name)
{
    struct sim_inode *inode = name->inode;
    free(name->path);
    *name = directory->names[--directory->count];
    sim_inode_release(inode);
}

/* Drops the inode's name; `path`, if not NULL, says which one it must be. */
static void drop_name_of(struct sim_directory *directory, const struct sim_inode *inode,
                         const char *path)
{
    for (size_t i = 0; i < directory->count; i++) {
        struct sim_name *name = &directory->names[i];
        if (name->inode == inode && (path == NULL || strcmp(path, name->path) == 0)) {
            drop(directory, name);
            return;
        }
    }
}

static void put(struct sim_directory *directory, const char *path, struct sim_inode *inode)
{
    sim_inode_acquire(inode);
    drop_name_of(directory, inode, NULL);
    struct sim_name *old = find(directory, path);
    if (old != NULL) {
        drop(directory, old);
    }
    if (directory->count == directory->capacity) {
        directory->capacity = directory->capacity * 2 + 16;
        directory->names =
            sim_realloc(directory->names, directory->capacity * sizeof(directory->names[0]));
    }
    directory->names[directory->count++] = (struct sim_name){copy_path(path), inode};
}

static void clear(struct sim_directory *directory)
{
    while (directory->count > 0) {
        drop(directory, &directory->names[directory->count - 1]);
    }
    free(directory->names);
    memset(directory, 0, sizeof(*directory));
}

static void carry_out(struct sim_directory *directory, const char *from, const char *to,
                      struct sim_inode *inode)
{
    if (to != NULL) {
        put(directory, to, inode);
    } else {
        drop_name_of(directory, inode, from);
    }
}

/* ---- both sets ----------------------------------------------------------------------------- */

static void free_change(struct sim_name_change *change)
{
    sim_inode_release(change->inode);
    free(change->from);
    free(change->to);
    free(change);
}

static void forget_pending(struct sim_names *names)
{
    while (names->pending != NULL) {
        struct sim_name_change *change = names->pending;
        names->pending = change->next;
        free_change(change);
    }
}

void sim_names_fini(struct sim_names *names)
{
    forget_pending(names);
    clear(&names->now);
    clear(&names->durable);
}

struct sim_inode *sim_names_find(const struct sim_names *names, const char *path)
{
    const struct sim_name *name = find(&names->now, path);
    return name == NULL ? NULL : name->inode;
}

static int check_parent(const struct sim_directory *directory, const char *path)
{
    char parent[SIM_PATH_MAX];
    parent_of(path, parent);
    if (sim_path_is_root(parent)) {
        return 0;
    }
    const struct sim_name *name = find(directory, parent);
    if (name == NULL) {
        return -ENOENT;
    }
    return name->inode->is_dir ? 0 : -ENOTDIR;
}

int sim_names_check_parent(const struct sim_names *names, const char *path)
{
    return check_parent(&names->now, path);
}

struct sim_inode *sim_names_change(struct sim_names *names, const char *from, const char *to,
                                   struct sim_inode *inode)
{
    struct sim_name_change *change = sim_alloc(sizeof(*change));
    change->from = copy_path(from);
    change->to = copy_path(to);
    change->inode = inode;
    sim_inode_acquire(inode);
    change->next = names->pending;
    names->pending = change;
    const struct sim_name *old = to == NULL ? NULL : find(&names->now, to);
    struct sim_inode *replaced = old == NULL ? NULL : old->inode;
    if (replaced != NULL) {
        sim_inode_acquire(replaced);
    }
    carry_out(&names->now, change->from, change->to, inode);
    return replaced;
}

static bool same_path(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Whether `change` must be durable before some later chosen change is. */
static bool is_needed(const struct sim_names *names, const struct sim_name_change *change)
{
    for (const struct sim_name_change *later = names->pending; later != change;
         later = later->next) {
        if (later->chosen &&
            (later->inode == change->inode || same_path(later->to, change->to) ||
             same_path(later->from, change->to) || same_path(later->to, change->from))) {
            return true;
        }
    }
    return false;
}

/* Takes the list apart, oldest first: a change is carried out on the durable names if chosen. */
static void settle_chosen(struct sim_names *names)
{
    struct sim_name_change *oldest_first = NULL;
    while (names->pending != NULL) {
        struct sim_name_change *change = names->pending;
        names->pending = change->next;
        change->next = oldest_first;
        oldest_first = change;
    }
    while (oldest_first != NULL) {
        struct sim_name_change *change = oldest_first;
        oldest_first = change->next;
        if (change->chosen) {
            carry_out(&names->durable, change->from, change->to, change->inode);
            free_change(change);
        } else {
            change->next = names->pending;
            names->pending = change;
        }
    }
}

void sim_names_sync(struct sim_names *names, const char *dir)
{
    for (struct sim_name_change *change = names->pending; change != NULL; change = change->next) {
        const char *path = change->to != NULL ? change->to : change->from;
        change->chosen = sim_path_within(path, dir) != NULL || is_needed(names, change);
    }
    settle_chosen(names);
}

/* Drops durable names whose directory is not there. */
static void drop_orphans(struct sim_directory *directory)
{
    size_t i = 0;
    while (i < directory->count) {
        if (check_parent(directory, directory->names[i].path) != 0) {
            drop(directory, &directory->names[i]);
            i = 0; /* it may have been a directory itself */
        } else {
            i++;
        }
    }
}

void sim_names_cut(struct sim_names *names, struct gb_rng *rng, unsigned keep_percent,
                   struct simdisk_counts *counts)
{
    for (struct sim_name_change *change = names->pending; change != NULL; change = change->next) {
        change->chosen = gb_rng_below(rng, 100) < keep_percent;
        counts->names_kept += change->chosen;
        counts->names_dropped += !change->chosen;
    }
    settle_chosen(names);
    forget_pending(names);
    drop_orphans(&names->durable);
    clear(&names->now);
    for (size_t i = 0; i < names->durable.count; i++) {
        put(&names->now, names->durable.names[i].path, names->durable.names[i].inode);
    }
}
