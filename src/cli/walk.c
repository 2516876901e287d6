/* Walking a directory with fts(3): physical, sorted, faults handed to the visitor. */
#include "cli/walk.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
    const char *const *avoid;
    size_t avoid_count;
    size_t root_len;
    gb_walk_fn visit;
    void *arg;
    uint64_t *skipped;
};

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_avoided(const struct walk *walk, const FTSENT *entry)
{
    for (size_t i = 0; i < walk->avoid_count; i++) {
        struct stat st;
        if (stat(walk->avoid[i], &st) == 0 && st.st_ino == entry->fts_statp->st_ino &&
            st.st_dev == entry->fts_statp->st_dev) {
            return true;
        }
    }
    return false;
}

static int visit_file(const struct walk *walk, const FTSENT *entry, int fault)
{
    const char *relative = entry->fts_path + walk->root_len;
    while (*relative == '/') {
        relative++;
    }
    const struct gb_walk_file file = {
        .path = entry->fts_path,
        .relative = relative,
        .size = fault == 0 ? (uint64_t)entry->fts_statp->st_size : 0,
        .fault = fault,
    };
    return walk->visit(walk->arg, &file);
}

static int handle(const struct walk *walk, FTS *fts, FTSENT *entry)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (is_avoided(walk, entry)) {
            (void)fts_set(fts, entry, FTS_SKIP);
        }
        return 0;
    case FTS_DP:
        return 0;
    case FTS_F:
        return visit_file(walk, entry, 0);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return visit_file(walk, entry, entry->fts_errno != 0 ? entry->fts_errno : EIO);
    case FTS_DC:
        return visit_file(walk, entry, ELOOP);
    default:
        (*walk->skipped)++;
        return 0;
    }
}

int gb_walk_run(const char *root, const char *const *avoid, size_t avoid_count, gb_walk_fn visit,
                void *arg, uint64_t *skipped)
{
    struct stat st;
    if (stat(root, &st) != 0) {
        return -errno;
    }
    if (!S_ISDIR(st.st_mode)) {
        return -ENOTDIR;
    }
    char *roots[] = {strdup(root), NULL};
    if (roots[0] == NULL) {
        return -ENOMEM;
    }
    const struct walk walk = {avoid, avoid_count, strlen(root), visit, arg, skipped};
    int result = 0;
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    if (fts == NULL) {
        result = -errno;
        goto free_root;
    }
    *skipped = 0;
    FTSENT *entry;
    while (result == 0 && (errno = 0, entry = fts_read(fts)) != NULL) {
        result = handle(&walk, fts, entry);
    }
    if (result == 0 && errno != 0) {
        result = -errno;
    }
    (void)fts_close(fts);
free_root:
    free(roots[0]);
    return result;
}
