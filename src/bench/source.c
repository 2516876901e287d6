/* Plain and packed input files: see source.h. */
#include "bench/source.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/corpus_build.h"

static const struct {
    const char *ending;
    const char *tool;
} packings[] = {
    {".zst", "zstd"}, {".gz", "gzip"}, {".xz", "xz"}, {".lz4", "lz4"}, {".bz2", "bzip2"},
};

static const char *tool_for(const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
        size_t ending = strlen(packings[i].ending);
        if (len > ending && strcmp(path + len - ending, packings[i].ending) == 0) {
            return packings[i].tool;
        }
    }
    return NULL;
}

/* Starts `tool -dc` with the file as its input; its output is *out_fd. */
static int start_tool(const char *tool, int input, pid_t *pid, int *out_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    posix_spawn_file_actions_t actions;
    int fault = posix_spawn_file_actions_init(&actions);
    if (fault != 0) {
        goto close_pipe;
    }
    fault = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (fault == 0) {
        fault = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    }
    if (fault == 0) {
        char name[16];
        char option[] = "-dc";
        (void)snprintf(name, sizeof(name), "%s", tool);
        char *arguments[] = {name, option, NULL};
        fault = posix_spawnp(pid, tool, &actions, NULL, arguments, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);

close_pipe:
    (void)close(ends[1]);
    if (fault != 0) {
        (void)close(ends[0]);
        return -fault;
    }
    *out_fd = ends[0];
    return 0;
}

/* Waits for the tool, whose output is closed; false if it failed. */
static bool reap(struct gb_source *source)
{
    int status = 0;
    pid_t ended = 0;
    if (source->tool != 0) {
        do {
            ended = waitpid(source->tool, &status, 0);
        } while (ended < 0 && errno == EINTR);
        source->tool = 0;
    }
    return ended >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int gb_source_open(struct gb_source *source, const char *path, struct goblin_error *error)
{
    *source = (struct gb_source){.tool_name = tool_for(path)};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int fault = errno;
        return gb_corpus_build_fail(error, -fault, "%s: %s", path, strerror(fault));
    }
    if (source->tool_name != NULL) {
        int unpacked = -1;
        int result = start_tool(source->tool_name, fd, &source->tool, &unpacked);
        (void)close(fd);
        if (result < 0) {
            return gb_corpus_build_fail(error, result, "%s: cannot run %s: %s", path,
                                        source->tool_name, strerror(-result));
        }
        fd = unpacked;
    }
    source->file = fdopen(fd, "r");
    if (source->file == NULL) {
        int fault = errno;
        (void)close(fd);
        (void)reap(source);
        return gb_corpus_build_fail(error, -fault, "%s: %s", path, strerror(fault));
    }
    (void)setvbuf(source->file, NULL, _IOFBF, 1 << 18);
    return 0;
}

int gb_source_close(struct gb_source *source, const char *path, int is_at_end,
                    struct goblin_error *error)
{
    (void)fclose(source->file);
    source->file = NULL;
    bool is_whole = reap(source);
    if (is_at_end && !is_whole) {
        return gb_corpus_build_fail(error, -EIO, "%s: %s could not unpack it", path,
                                    source->tool_name);
    }
    return 0;
}
