/*
 * Runs a program with less than it would like:
 *
 *     confine [--refuse CALL=ERRNO]... [--files N] [--locked BYTES] [--no-huge-pages] PROGRAM ...
 *
 * --refuse makes a system call fail, by a seccomp filter written by hand; --locked also takes away
 * the privilege that would make the limit void. Where the kernel will not do it: exit code 77.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSALS_MAX 8

struct name {
    const char *text;
    long value;
};

static const struct name calls[] = {
    {"io_uring_setup", SYS_io_uring_setup},
    {"io_uring_enter", SYS_io_uring_enter},
    {"io_uring_register", SYS_io_uring_register},
    {"fallocate", SYS_fallocate},
    {"statx", SYS_statx},
    {"madvise", SYS_madvise},
    {"membarrier", SYS_membarrier},
    {"fadvise64", SYS_fadvise64},
    {"getrandom", SYS_getrandom},
};

static const struct name errors[] = {
    {"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EACCES", EACCES},
    {"EINVAL", EINVAL}, {"ENOMEM", ENOMEM}, {"EOPNOTSUPP", EOPNOTSUPP},
};

static long look_up(const struct name *names, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i].text, text) == 0) {
            return names[i].value;
        }
    }
    (void)fprintf(stderr, "confine: '%s' is not known here\n", text);
    exit(2);
}

static void unable(const char *what)
{
    (void)fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
    exit(77);
}

struct refusal {
    unsigned call;
    unsigned error;
};

static struct refusal parse_refusal(char *text)
{
    char *error = strchr(text, '=');
    if (error == NULL) {
        (void)fprintf(stderr, "confine: --refuse wants CALL=ERRNO\n");
        exit(2);
    }
    *error++ = '\0';
    return (struct refusal){
        .call = (unsigned)look_up(calls, sizeof(calls) / sizeof(calls[0]), text),
        .error = (unsigned)look_up(errors, sizeof(errors) / sizeof(errors[0]), error),
    };
}

static void refuse(const struct refusal *refusals, unsigned count)
{
    struct sock_filter code[2 * REFUSALS_MAX + 2];
    unsigned short len = 0;
    code[len++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        code[len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusals[i].call, 0, 1);
        code[len++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (refusals[i].error & SECCOMP_RET_DATA));
    }
    code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = len, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        unable("a seccomp filter");
    }
}

static void limit(int which, const char *text)
{
    char *end = NULL;
    const rlim_t most = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "confine: '%s' is no number\n", text);
        exit(2);
    }
    const struct rlimit limits = {most, most};
    if (setrlimit((__rlimit_resource_t)which, &limits) != 0) {
        unable("a limit");
    }
    if (which == RLIMIT_MEMLOCK && prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) != 0 &&
        errno != EPERM) {
        unable("dropping CAP_IPC_LOCK");
    }
}

int main(int argc, char **argv)
{
    struct refusal refusals[REFUSALS_MAX];
    unsigned count = 0;
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--no-huge-pages") == 0) {
            if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
                unable("disabling huge pages");
            }
        } else if (at + 1 < argc && strcmp(argv[at], "--files") == 0) {
            limit(RLIMIT_NOFILE, argv[++at]);
        } else if (at + 1 < argc && strcmp(argv[at], "--locked") == 0) {
            limit(RLIMIT_MEMLOCK, argv[++at]);
        } else if (at + 1 < argc && strcmp(argv[at], "--refuse") == 0 && count < REFUSALS_MAX) {
            refusals[count++] = parse_refusal(argv[++at]);
        } else {
            break;
        }
    }
    if (at >= argc || strncmp(argv[at], "--", 2) == 0) {
        (void)fprintf(stderr, "usage: confine [--refuse CALL=ERRNO]... [--files N] "
                              "[--locked BYTES] [--no-huge-pages] PROGRAM ...\n");
        return 2;
    }
    if (count > 0) {
        refuse(refusals, count);
    }
    (void)execvp(argv[at], argv + at);
    (void)fprintf(stderr, "confine: %s: %s\n", argv[at], strerror(errno));
    return 127;
}
