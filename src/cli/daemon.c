/* The way into the background, and down from root. */
#include "cli/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

int gb_daemon_raise_files(unsigned count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        (void)fprintf(stderr, "failed to getrlimit number of files\n");
        return EX_OSERR;
    }
    if (limit.rlim_cur >= count) {
        return GB_DAEMON_CONTINUE;
    }
    limit.rlim_cur = count;
    limit.rlim_max = limit.rlim_max > count ? limit.rlim_max : count;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        (void)fprintf(stderr, "failed to set rlimit for open files. Try starting as root or "
                              "requesting smaller maxconns value.\n");
        return EX_OSERR;
    }
    return GB_DAEMON_CONTINUE;
}

int gb_daemon_allow_core(void)
{
    struct rlimit limit;
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &none) == 0) {
        return GB_DAEMON_CONTINUE;
    }
    bool allowed = getrlimit(RLIMIT_CORE, &limit) == 0;
    limit.rlim_cur = limit.rlim_max;
    if (!allowed || setrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur == 0) {
        (void)fprintf(stderr, "failed to ensure corefile creation\n");
        return EX_OSERR;
    }
    return GB_DAEMON_CONTINUE;
}

/* ---- the user ------------------------------------------------------------------------------ */

int gb_daemon_find_user(struct gb_daemon_user *user, const char *name)
{
    *user = (struct gb_daemon_user){.uid = geteuid(), .gid = getegid()};
    if (getuid() != 0 && geteuid() != 0) {
        return GB_DAEMON_CONTINUE;
    }
    if (name == NULL || name[0] == '\0') {
        (void)fprintf(stderr, "can't run as root without the -u switch\n");
        return EX_USAGE;
    }
    const struct passwd *entry = getpwnam(name);
    if (entry == NULL) {
        (void)fprintf(stderr, "can't find the user %s to switch to\n", name);
        return EX_NOUSER;
    }
    *user = (struct gb_daemon_user){.changes = true, .uid = entry->pw_uid, .gid = entry->pw_gid};
    return GB_DAEMON_CONTINUE;
}

int gb_daemon_make_dir(const struct gb_daemon_user *user, const char *dir)
{
    int result = mkdir(dir, 0700);
    if (result != 0 && errno == EEXIST) {
        return GB_DAEMON_CONTINUE;
    }
    if (result == 0 && user->changes) {
        result = chown(dir, user->uid, user->gid);
    }
    if (result != 0) {
        (void)fprintf(stderr, "%s: %s\n", dir, strerror(errno));
        return EX_OSERR;
    }
    return GB_DAEMON_CONTINUE;
}

int gb_daemon_become(const struct gb_daemon_user *user)
{
    if (!user->changes) {
        return GB_DAEMON_CONTINUE;
    }
    if (setgroups(0, NULL) != 0 || setgid(user->gid) != 0 || setuid(user->uid) != 0) {
        (void)fprintf(stderr, "failed to assume identity of user %u: %s\n", (unsigned)user->uid,
                      strerror(errno));
        return EX_OSERR;
    }
    return GB_DAEMON_CONTINUE;
}

/* ---- memory -------------------------------------------------------------------------------- */

void gb_daemon_lock_memory(void)
{
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    struct rlimit limit = {0};
    (void)setrlimit(RLIMIT_MEMLOCK, &none); /* root may; whether it worked is seen next */
    /* Under a limit the lock would come to nothing, but later mappings fail. */
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
        errno = EPERM;
    } else if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) {
        return;
    }
    (void)fprintf(stderr, "warning: -k invalid, mlockall() failed: %s\n", strerror(errno));
}

/* ---- the background ------------------------------------------------------------------------ */

static int wait_for_child(pid_t child, int fd)
{
    char byte;
    ssize_t n;
    do {
        n = read(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    (void)close(fd);
    if (n == 1) {
        return 0;
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return EX_OSERR;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EX_OSERR;
}

int gb_daemon_start(int *ready_fd)
{
    int fds[2];
    if (fflush(NULL) != 0 || pipe2(fds, O_CLOEXEC) != 0) {
        (void)fprintf(stderr, "failed to daemon() in order to daemonize: %s\n", strerror(errno));
        return EX_OSERR;
    }
    pid_t child = fork();
    if (child < 0) {
        (void)fprintf(stderr, "failed to daemon() in order to daemonize: %s\n", strerror(errno));
        (void)close(fds[0]);
        (void)close(fds[1]);
        return EX_OSERR;
    }
    if (child > 0) {
        (void)close(fds[1]);
        return wait_for_child(child, fds[0]);
    }
    (void)close(fds[0]);
    (void)setsid(); /* a fresh child is no group's leader: it cannot fail */
    *ready_fd = fds[1];
    return GB_DAEMON_CONTINUE;
}

void gb_daemon_ready(int ready_fd, bool silent)
{
    int null = silent ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        (void)close(null);
    }
    if (write(ready_fd, "", 1) != 1) {
        (void)fprintf(stderr, "the process that started the daemon has gone\n");
    }
    (void)close(ready_fd);
}
