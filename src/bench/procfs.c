/* Reads /proc. */
#include "bench/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { FILE_TEXT = 8192 };

static int read_text(const char *path, char *text)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    ssize_t len = read(fd, text, FILE_TEXT - 1);
    int rc = len < 0 ? -errno : 0;
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return rc;
}

/* The number behind "name" at the start of a line; 0 where there is none. */
static uint64_t field(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0) {
            return strtoull(line + len, NULL, 10);
        }
    }
    return 0;
}

int gb_procfs_io(struct gb_procfs_io *io)
{
    char text[FILE_TEXT];
    int rc = read_text("/proc/self/io", text);
    if (rc == 0) {
        *io = (struct gb_procfs_io){
            .reads = field(text, "syscr:"),
            .writes = field(text, "syscw:"),
            .read_bytes = field(text, "read_bytes:"),
            .write_bytes = field(text, "write_bytes:"),
        };
    }
    return rc;
}

int gb_procfs_rss(pid_t pid, uint64_t *rss_bytes, uint64_t *peak_bytes)
{
    char path[64];
    char text[FILE_TEXT];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    int rc = read_text(path, text);
    if (rc == 0) {
        *rss_bytes = field(text, "VmRSS:") * 1024;
        *peak_bytes = field(text, "VmHWM:") * 1024;
    }
    return rc;
}

int gb_procfs_reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rc = write(fd, "5", 1) == 1 ? 0 : -errno;
    close(fd);
    return rc;
}

int gb_procfs_available(uint64_t *bytes)
{
    char text[FILE_TEXT];
    int rc = read_text("/proc/meminfo", text);
    if (rc == 0) {
        *bytes = field(text, "MemAvailable:") * 1024;
    }
    return rc;
}

int gb_procfs_device(const char *path, uint64_t *write_bytes)
{
    enum { SECTOR_BYTES = 512, FIELDS_BEFORE = 6 };
    char name[64];
    char text[FILE_TEXT];
    struct stat status;
    if (stat(path, &status) < 0) {
        return -errno;
    }
    snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/stat", major(status.st_dev),
             minor(status.st_dev));
    int rc = read_text(name, text);
    if (rc < 0) {
        return rc == -ENOENT ? -ENODEV : rc;
    }
    /* Reads, merged, sectors, ms; writes, merged, sectors. */
    char *at = text;
    for (int i = 0; i < FIELDS_BEFORE; i++) {
        (void)strtoull(at, &at, 10);
    }
    *write_bytes = strtoull(at, NULL, 10) * SECTOR_BYTES;
    return 0;
}

enum { STAT_PARENT = 1, STAT_USER_TICKS = 11, STAT_SYSTEM_TICKS = 12 };

/* A number in /proc/PID/stat, counted from the state, which follows the name; the name itself may
 * hold anything. */
static int stat_field(pid_t pid, int number, uint64_t *value)
{
    char path[64];
    char text[FILE_TEXT];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int rc = read_text(path, text);
    if (rc < 0) {
        return rc;
    }
    const char *name_end = strrchr(text, ')');
    if (!name_end || strlen(name_end) < 4) {
        return -ESRCH;
    }
    char *at = text + (name_end - text) + 3; /* behind ") S" */
    for (int i = 0; i < number; i++) {
        *value = strtoull(at, &at, 10);
    }
    return 0;
}

int gb_procfs_cost(pid_t pid, struct gb_procfs_cost *cost)
{
    char path[64];
    char text[FILE_TEXT];
    uint64_t user = 0;
    uint64_t system = 0;
    int rc = stat_field(pid, STAT_USER_TICKS, &user);
    rc = rc < 0 ? rc : stat_field(pid, STAT_SYSTEM_TICKS, &system);
    if (rc < 0) {
        return rc;
    }
    cost->cpu_s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    rc = read_text(path, text);
    cost->private_bytes = field(text, "RssAnon:") * 1024;
    cost->shared_bytes = (field(text, "RssFile:") + field(text, "RssShmem:")) * 1024;
    return rc;
}

/* 0: there is no such process. */
static pid_t parent_of(pid_t pid)
{
    uint64_t parent = 0;
    return stat_field(pid, STAT_PARENT, &parent) < 0 ? 0 : (pid_t)parent;
}

static bool is_among(pid_t pid, const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        if (pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* Processes whose parents are known already, in one walk through /proc. */
static int add_children(pid_t *pids, int count, int room)
{
    DIR *all = opendir("/proc");
    if (!all) {
        return -errno;
    }
    for (struct dirent *entry = readdir(all); entry && count < room; entry = readdir(all)) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && !is_among(pid, pids, count) && is_among(parent_of(pid), pids, count)) {
            pids[count++] = pid;
        }
    }
    closedir(all);
    return count;
}

int gb_procfs_tree(pid_t root, pid_t *pids, int room)
{
    int count = 1;
    int before = 0;
    if (parent_of(root) == 0) {
        return -ESRCH;
    }
    pids[0] = root;
    while (count > before) {
        before = count;
        count = add_children(pids, count, room);
    }
    return count;
}
