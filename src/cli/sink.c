/* Standard output, or a file that appears whole or not at all. */
#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/stream.h"

void gb_sink_init(struct gb_sink *sink, const char *path)
{
    bool standard = path == NULL || strcmp(path, "-") == 0;
    *sink = (struct gb_sink){.path = standard ? NULL : path, .fd = -1};
}

static bool is_in_place(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* mkostemp makes files for the owner alone; this gives the permissions that open() would have. */
static int open_permissions(int fd)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0 ? 0 : -errno;
}

int gb_sink_open(struct gb_sink *sink)
{
    if (sink->path == NULL) {
        sink->fd = STDOUT_FILENO;
        return 0;
    }
    if (is_in_place(sink->path)) {
        sink->fd = open(sink->path, O_WRONLY | O_CLOEXEC);
        return sink->fd >= 0 ? 0 : -errno;
    }
    if (asprintf(&sink->temporary, "%s.XXXXXX", sink->path) < 0) {
        sink->temporary = NULL;
        return -ENOMEM;
    }
    sink->fd = mkostemp(sink->temporary, O_CLOEXEC);
    if (sink->fd < 0) {
        int fault = -errno;
        free(sink->temporary);
        sink->temporary = NULL;
        return fault;
    }
    return open_permissions(sink->fd);
}

int gb_sink_write(struct gb_sink *sink, const void *data, size_t len)
{
    return gb_stream_write(sink->fd, data, len);
}

int gb_sink_close(struct gb_sink *sink, bool keep)
{
    int result = 0;
    if (sink->path != NULL && sink->fd >= 0 && close(sink->fd) != 0) {
        result = -errno;
    }
    if (sink->temporary != NULL) {
        if (result == 0 && keep && rename(sink->temporary, sink->path) != 0) {
            result = -errno;
        }
        if (result != 0 || !keep) {
            (void)unlink(sink->temporary);
        }
        free(sink->temporary);
    }
    *sink = (struct gb_sink){.path = sink->path, .fd = -1};
    return result;
}

const char *gb_sink_name(const struct gb_sink *sink)
{
    return sink->path != NULL ? sink->path : "standard output";
}
