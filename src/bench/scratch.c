/* Scratch directories of the bench. */
#include "bench/scratch.h"
#include "bench/explain.h"

#include "base/units.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { OPEN_DIRECTORIES = 16 };

int gb_scratch_make(const char *path, struct goblin_error *error)
{
    char partial[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(partial)) {
        gb_explain_set(error, "\"%s\" is not a directory name", path);
        return -EINVAL;
    }
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(partial, path, i);
        partial[i] = '\0';
        if (mkdir(partial, 0755) < 0 && errno != EEXIST) {
            gb_explain_set(error, "cannot make the directory %s: %s", partial, strerror(errno));
            return -errno;
        }
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void)status;
    (void)type;
    (void)position;
    return remove(path);
}

int gb_scratch_remove(const char *path)
{
    if (nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0 &&
        errno != ENOENT) {
        return -errno;
    }
    return 0;
}

/* nftw has no argument for its callback. */
static _Thread_local uint64_t usage_bytes;

static int usage_one(const char *path, const struct stat *status, int type, struct FTW *position)
{
    enum { BLOCK_BYTES = 512 };
    (void)path;
    (void)position;
    if (type == FTW_F || type == FTW_D) {
        usage_bytes += (uint64_t)status->st_blocks * BLOCK_BYTES;
    }
    return 0;
}

int gb_scratch_usage(const char *path, uint64_t *bytes)
{
    usage_bytes = 0;
    if (nftw(path, usage_one, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT) != 0) {
        return -errno;
    }
    *bytes = usage_bytes;
    return 0;
}

int gb_scratch_free(const char *path, uint64_t *bytes)
{
    struct statvfs status;
    if (statvfs(path, &status) < 0) {
        return -errno;
    }
    *bytes = (uint64_t)status.f_bavail * (uint64_t)status.f_frsize;
    return 0;
}

int gb_scratch_check(const char *path, uint64_t needed, struct goblin_error *error)
{
    uint64_t available = 0;
    int rc = gb_scratch_free(path, &available);
    if (rc < 0) {
        gb_explain_set(error, "%s: %s", path, strerror(-rc));
        return rc;
    }
    if (available < needed) {
        char need[GB_UNITS_TEXT];
        char have[GB_UNITS_TEXT];
        gb_explain_set(error,
                       "--dir %s has %s free and this run may need %s: give less data (--scale, "
                       "--size), fewer "
                       "--engines, or a --dir with more room",
                       path, gb_units_format_size(have, sizeof(have), available),
                       gb_units_format_size(need, sizeof(need), needed));
        return -ENOSPC;
    }
    return 0;
}
