/* Limits RAM and device operations by cgroups, version 1 or 2. */
#include "bench/cgroup.h"
#include "bench/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct setting {
    const char *file;
    char value[96];
};

static int cgroup_write(const char *dir, const char *file, const char *value)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    ssize_t written = write(fd, value, strlen(value));
    int rc = written < 0 ? -errno : 0;
    close(fd);
    return rc;
}

/* Copies the path of this process's group for a controller ("" for version 2) out of
 * /proc/self/cgroup, whose lines are id:controllers:path. */
static int cgroup_current(const char *controller, char *path, size_t path_len)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) {
        return -errno;
    }
    char line[PATH_MAX];
    int rc = -ENOENT;
    while (rc < 0 && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *where = names ? strchr(names + 1, ':') : NULL;
        if (!where) {
            continue;
        }
        *where++ = '\0';
        names++;
        if (strcmp(names, controller) == 0) {
            snprintf(path, path_len, "%s", where);
            rc = 0;
        }
    }
    fclose(file);
    return rc;
}

/* Makes one group below `home`, sets it up and moves the process into it. */
static int cgroup_join(struct gb_cgroup *group, const char *home, const struct setting *settings,
                       size_t count, struct goblin_error *error)
{
    char *path = group->groups[group->count].path;
    char *kept = group->groups[group->count].home;
    char self[32];
    snprintf(self, sizeof(self), "%d", (int)getpid());
    if ((size_t)snprintf(kept, PATH_MAX, "%s", home) >= PATH_MAX ||
        (size_t)snprintf(path, PATH_MAX, "%s/goblin-bench-%s", home, self) >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    if (mkdir(path, 0755) < 0) {
        gb_explain_set(error,
                       "--cap: cannot make a cgroup in %s: %s; run as root, or leave "
                       "--cap out",
                       home, strerror(errno));
        return -errno;
    }
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = cgroup_write(path, settings[i].file, settings[i].value);
        if (rc < 0) {
            gb_explain_set(error, "--cap: cannot set %s/%s to \"%s\": %s", path, settings[i].file,
                           settings[i].value, strerror(-rc));
        }
    }
    if (rc == 0) {
        rc = cgroup_write(path, "cgroup.procs", self);
        if (rc < 0) {
            gb_explain_set(error, "--cap: cannot move into %s: %s", path, strerror(-rc));
        }
    }
    if (rc < 0) {
        rmdir(path);
        return rc;
    }
    group->count++;
    return 0;
}

static int cgroup_home(const char *root, const char *controller, char *home, size_t home_len)
{
    char current[PATH_MAX];
    int rc = cgroup_current(controller, current, sizeof(current));
    if (rc < 0) {
        return rc;
    }
    const char *slash = controller[0] ? "/" : "";
    const char *tail = strcmp(current, "/") == 0 ? "" : current;
    if ((size_t)snprintf(home, home_len, "%s%s%s%s", root, slash, controller, tail) >= home_len) {
        return -ENAMETOOLONG;
    }
    return 0;
}

static int cgroup_enter_v1(struct gb_cgroup *group, const char *root,
                           const struct gb_cgroup_limits *limits, struct goblin_error *error)
{
    struct setting blkio[2] = {{.file = "blkio.throttle.read_iops_device"},
                               {.file = "blkio.throttle.write_iops_device"}};
    struct setting memory[1] = {{.file = "memory.limit_in_bytes"}};
    snprintf(blkio[0].value, sizeof(blkio[0].value), "%u:%u %llu", limits->device_major,
             limits->device_minor, (unsigned long long)limits->read_iops);
    snprintf(blkio[1].value, sizeof(blkio[1].value), "%u:%u %llu", limits->device_major,
             limits->device_minor, (unsigned long long)limits->write_iops);
    snprintf(memory[0].value, sizeof(memory[0].value), "%llu",
             (unsigned long long)limits->memory_bytes);

    char home[PATH_MAX];
    int rc = cgroup_home(root, "blkio", home, sizeof(home));
    if (rc == 0) {
        rc = cgroup_join(group, home, blkio, 2, error);
    }
    if (rc == 0) {
        rc = cgroup_home(root, "memory", home, sizeof(home));
    }
    if (rc == 0) {
        rc = cgroup_join(group, home, memory, 1, error);
    }
    return rc;
}

static int cgroup_enter_v2(struct gb_cgroup *group, const char *root,
                           const struct gb_cgroup_limits *limits, struct goblin_error *error)
{
    struct setting settings[2] = {{.file = "io.max"}, {.file = "memory.max"}};
    snprintf(settings[0].value, sizeof(settings[0].value), "%u:%u riops=%llu wiops=%llu",
             limits->device_major, limits->device_minor, (unsigned long long)limits->read_iops,
             (unsigned long long)limits->write_iops);
    snprintf(settings[1].value, sizeof(settings[1].value), "%llu",
             (unsigned long long)limits->memory_bytes);
    char home[PATH_MAX];
    int rc = cgroup_home(root, "", home, sizeof(home));
    if (rc < 0) {
        return rc;
    }
    rc = cgroup_write(home, "cgroup.subtree_control", "+io +memory");
    if (rc < 0) {
        gb_explain_set(error,
                       "--cap: %s does not hand the io and memory controllers down: %s; "
                       "run from the root cgroup, or leave --cap out",
                       home, strerror(-rc));
        return rc;
    }
    return cgroup_join(group, home, settings, 2, error);
}

int gb_cgroup_enter(struct gb_cgroup *group, const char *root,
                    const struct gb_cgroup_limits *limits, struct goblin_error *error)
{
    memset(group, 0, sizeof(*group));
    error->text[0] = '\0';
    if (!root) {
        root = "/sys/fs/cgroup";
    }
    char path[PATH_MAX];
    int rc = -ENOSYS;
    if ((size_t)snprintf(path, sizeof(path), "%s/cgroup.controllers", root) >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    if (access(path, F_OK) == 0) {
        rc = cgroup_enter_v2(group, root, limits, error);
    } else if ((size_t)snprintf(path, sizeof(path), "%s/blkio", root) < sizeof(path) &&
               access(path, F_OK) == 0) {
        rc = cgroup_enter_v1(group, root, limits, error);
    }
    if (rc < 0 && !error->text[0]) {
        gb_explain_set(error, "--cap: no usable cgroups under %s: %s; leave --cap out", root,
                       strerror(-rc));
    }
    if (rc < 0) {
        gb_cgroup_leave(group);
    }
    return rc;
}

int gb_cgroup_leave(struct gb_cgroup *group)
{
    char self[32];
    snprintf(self, sizeof(self), "%d", (int)getpid());
    int rc = 0;
    while (group->count > 0) {
        group->count--;
        const char *path = group->groups[group->count].path;
        int moved = cgroup_write(group->groups[group->count].home, "cgroup.procs", self);
        if (rmdir(path) < 0 && moved == 0) {
            moved = -errno;
        }
        rc = rc < 0 ? rc : moved;
    }
    return rc;
}

/* Reads "major:minor". */
static int read_device(const char *path, unsigned *device_major, unsigned *device_minor)
{
    char text[64] = "";
    char *end = text;
    FILE *file = fopen(path, "re");
    if (!file) {
        return -errno;
    }
    bool got = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    *device_major = (unsigned)strtoul(text, &end, 10);
    if (!got || *end != ':') {
        return -EINVAL;
    }
    *device_minor = (unsigned)strtoul(end + 1, NULL, 10);
    return 0;
}

int gb_cgroup_device(const char *path, unsigned *device_major, unsigned *device_minor,
                     struct goblin_error *error)
{
    struct stat status;
    if (stat(path, &status) < 0) {
        gb_explain_set(error, "%s: %s", path, strerror(errno));
        return -errno;
    }
    unsigned found_major = major(status.st_dev);
    unsigned found_minor = minor(status.st_dev);
    char node[96];
    snprintf(node, sizeof(node), "/sys/dev/block/%u:%u", found_major, found_minor);
    if (access(node, F_OK) < 0) {
        gb_explain_set(error,
                       "--cap: %s does not lie on a drive of its own (device %u:%u); "
                       "choose a --dir on one",
                       path, found_major, found_minor);
        return -ENOTBLK;
    }
    snprintf(node, sizeof(node), "/sys/dev/block/%u:%u/partition", found_major, found_minor);
    if (access(node, F_OK) == 0) {
        snprintf(node, sizeof(node), "/sys/dev/block/%u:%u/../dev", found_major, found_minor);
        if (read_device(node, &found_major, &found_minor) < 0) {
            gb_explain_set(error, "--cap: cannot read %s", node);
            return -ENOTBLK;
        }
    }
    *device_major = found_major;
    *device_minor = found_minor;
    return 0;
}

/* ---- a group for one other process --------------------------------------------------------- */

/* The directory of this process's own group with the memory controller, and the file of the limit
 * in groups below it. */
static int memory_home(const char *root, char *home, size_t home_len, const char **limit)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cgroup.controllers", root);
    if (access(path, F_OK) != 0) {
        *limit = "memory.limit_in_bytes";
        return cgroup_home(root, "memory", home, home_len);
    }
    *limit = "memory.max";
    int rc = cgroup_home(root, "", home, home_len);
    return rc < 0 ? rc : cgroup_write(home, "cgroup.subtree_control", "+memory");
}

int gb_cgroup_make(char path[PATH_MAX], const char *root, const char *name, uint64_t memory_bytes,
                   struct goblin_error *error)
{
    char home[PATH_MAX];
    char value[32];
    const char *limit = NULL;
    int rc = memory_home(root ? root : "/sys/fs/cgroup", home, sizeof(home), &limit);
    snprintf(value, sizeof(value), "%llu", (unsigned long long)memory_bytes);
    if (rc == 0 && (size_t)snprintf(path, PATH_MAX, "%s/%s", home, name) >= PATH_MAX) {
        rc = -ENAMETOOLONG;
    }
    if (rc == 0 && mkdir(path, 0755) < 0) {
        rc = -errno;
    } else if (rc == 0) {
        rc = cgroup_write(path, limit, value);
        if (rc < 0) {
            rmdir(path);
        }
    }
    if (rc < 0) {
        gb_explain_set(error, "no memory cgroup of %s bytes: %s", value, strerror(-rc));
        path[0] = '\0';
    }
    return rc;
}

int gb_cgroup_join(const char *path)
{
    return cgroup_write(path, "cgroup.procs", "0");
}

int gb_cgroup_remove(const char *path)
{
    return rmdir(path) < 0 ? -errno : 0;
}
