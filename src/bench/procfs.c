/* Reads /proc. */
#include "bench/procfs.h"

#include <errno.h>
#include <fcntl.h>
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
