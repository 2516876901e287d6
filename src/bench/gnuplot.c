/* Running gnuplot: see gnuplot.h. */
#include "bench/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/explain.h"

static const char preamble[] = "set terminal svg size 900,540 font 'sans,13' background 'white'\n"
                               "set output '%s.svg'\n"
                               "set grid linecolor rgb '#dddddd'\n"
                               "set key below\n"
                               "set border 3\n"
                               "set tics nomirror\n";

static int write_script(const char *directory, const char *name, const char *commands)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/%s.gp", directory, name);
    if (len < 0 || (size_t)len >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return -errno;
    }
    (void)fprintf(file, preamble, name);
    (void)fputs(commands, file);
    bool is_bad = ferror(file) != 0;
    return fclose(file) != 0 || is_bad ? -EIO : 0;
}

/* Runs the script inside the directory; 1, 0 without gnuplot, or a fault. */
static int run(const char *directory, const char *name)
{
    char program[] = "gnuplot";
    char script[NAME_MAX];
    (void)snprintf(script, sizeof(script), "%s.gp", name);
    char *arguments[] = {program, script, NULL};
    posix_spawn_file_actions_t actions;
    int fault = posix_spawn_file_actions_init(&actions);
    if (fault != 0) {
        return -fault;
    }
    pid_t pid = 0;
    fault = posix_spawn_file_actions_addchdir_np(&actions, directory);
    if (fault == 0) {
        fault = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    if (fault == 0) {
        fault = posix_spawnp(&pid, program, &actions, NULL, arguments, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (fault == ENOENT) {
        return 0;
    }
    if (fault != 0) {
        return -fault;
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : -EIO;
}

int gb_gnuplot_draw(const char *directory, const char *name, const char *commands,
                    struct goblin_error *error)
{
    int result = write_script(directory, name, commands);
    if (result == 0) {
        result = run(directory, name);
    }
    if (result < 0) {
        gb_explain_set(error, "plot %s/%s: %s", directory, name, strerror(-result));
    }
    return result;
}
