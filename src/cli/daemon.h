/*
 * What a process does to itself to become a service: limits, another user, the background.
 *
 * Threads: all of it before the first thread is started. What cannot be done is said on standard
 * error, in memcached's words where it has some.
 */
#ifndef GB_CLI_DAEMON_H
#define GB_CLI_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GB_DAEMON_CONTINUE (-1) /* of those that return an exit code else */

/* Raises the limit on open files to `count`, the hard one too where that is allowed.
 * Returns GB_DAEMON_CONTINUE, or EX_OSERR. */
int gb_daemon_raise_files(unsigned count);

/* Core dumps as large as is allowed, or EX_OSERR. */
int gb_daemon_allow_core(void);

struct gb_daemon_user {
    bool changes; /* false: the process is not root's, nothing to do */
    uid_t uid;
    gid_t gid;
};

/* Who the process is to be: `name` if it is root's, which must then not be NULL.
 * Returns GB_DAEMON_CONTINUE, EX_USAGE or EX_NOUSER. */
int gb_daemon_find_user(struct gb_daemon_user *user, const char *name);

/* Makes a directory for the user, 0700, if there is none; whatever else there is stays as it is.
 * Returns GB_DAEMON_CONTINUE or EX_OSERR. */
int gb_daemon_make_dir(const struct gb_daemon_user *user, const char *dir);

/* For good. Returns GB_DAEMON_CONTINUE or EX_OSERR. */
int gb_daemon_become(const struct gb_daemon_user *user);

/* Keeps what is touched in RAM, later threads and buffers included. To be called before
 * gb_daemon_become, which leaves it in force, and after gb_daemon_start, which would end it. Where
 * the limit on locked memory is too low it is said, and nothing is locked. */
void gb_daemon_lock_memory(void);

/* Forks. In the child: GB_DAEMON_CONTINUE, with *ready_fd to hand to gb_daemon_ready. In the
 * parent: 0 once the child is ready, else the code it ended with; or EX_OSERR. */
int gb_daemon_start(int *ready_fd);

/* Lets the parent go. With `silent` standard input, output and error are /dev/null from now on. */
void gb_daemon_ready(int ready_fd, bool silent);

#endif
