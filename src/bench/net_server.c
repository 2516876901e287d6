/* Server processes: see net_server.h. */
#include "bench/net_server.h"

#include "base/assert.h"
#include "base/bits.h"
#include "bench/cgroup.h"
#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/procfs.h"
#include "bench/progress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 10, START_MS = 30000, STOP_MS = 20000, LINE_MAX_BYTES = 256 };

void gb_net_argv_add(struct gb_net_argv *argv, const char *format, ...)
{
    va_list arguments;
    char *word = argv->text + argv->used;
    size_t room = sizeof(argv->text) - argv->used;
    va_start(arguments, format);
    int len = vsnprintf(word, room, format, arguments);
    va_end(arguments);
    GB_ASSERT(len >= 0 && (size_t)len < room && argv->count < GB_NET_ARGUMENTS_MAX);
    argv->used += (size_t)len + 1;
    argv->words[argv->count++] = word;
    argv->words[argv->count] = NULL;
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&time, NULL);
}

/* ---- places -------------------------------------------------------------------------------- */

const char *gb_net_server_host(const struct gb_net_server *server)
{
    return server->host[0] ? server->host : "127.0.0.1";
}

int gb_net_server_port(uint16_t *port, struct goblin_error *error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = 0;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        rc = -errno;
        gb_explain_set(error, "no free port on 127.0.0.1: %s", strerror(-rc));
    }
    if (fd >= 0) {
        close(fd);
    }
    *port = ntohs(address.sin_port);
    return rc;
}

int gb_net_server_find(const char *program, char path[PATH_MAX])
{
    if (strchr(program, '/')) {
        snprintf(path, PATH_MAX, "%s", program);
        return access(path, X_OK) == 0 ? 0 : -ENOENT;
    }
    const char *places = getenv("PATH");
    char all[PATH_MAX];
    snprintf(all, sizeof(all), "%s:/usr/local/sbin:/usr/sbin:/sbin", places ? places : "/usr/bin");
    char *rest = NULL;
    for (char *dir = strtok_r(all, ":", &rest); dir; dir = strtok_r(NULL, ":", &rest)) {
        if (snprintf(path, PATH_MAX, "%s/%s", dir, program) < PATH_MAX && access(path, X_OK) == 0) {
            return 0;
        }
    }
    return -ENOENT;
}

int gb_net_server_cap(struct gb_net_server *server, uint64_t bytes, struct goblin_error *error)
{
    char name[64];
    snprintf(name, sizeof(name), "goblin-bench-%d-%s", (int)getpid(), server->name);
    return gb_cgroup_make(server->cgroup, NULL, name, bytes, error);
}

/* ---- starting ------------------------------------------------------------------------------ */

/* In the child. What goes wrong is told by the exit code 127 and the log. */
static void become(const struct gb_net_server *server, unsigned cores, pid_t parent)
{
    char log[PATH_MAX + 8];
    snprintf(log, sizeof(log), "%s/log", server->dir);
    int in = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0) {
        _exit(127);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) { /* it ended before it could be asked to tell */
        _exit(127);
    }
    if (server->netns > 0 && setns(server->netns, CLONE_NEWNET) < 0) {
        perror("setns");
        _exit(127);
    }
    if (server->cgroup[0] && gb_cgroup_join(server->cgroup) < 0) {
        perror(server->cgroup);
        _exit(127);
    }
    if (cores > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (unsigned i = 0; i < cores; i++) {
            CPU_SET(i, &set);
        }
        if (sched_setaffinity(0, sizeof(set), &set) < 0) {
            perror("sched_setaffinity");
            _exit(127);
        }
    }
}

static _Noreturn void serve(const struct gb_net_server *server, const struct gb_net_argv *argv)
{
    if (server->own) {
        signal(SIGTERM, SIG_DFL); /* the bench only makes a note of them */
        signal(SIGINT, SIG_DFL);
        _exit(server->own(server, server->own_arg));
    }
    execv(argv->words[0], argv->words);
    perror(argv->words[0]);
    _exit(127);
}

static bool accepts(const struct gb_net_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && inet_pton(AF_INET, gb_net_server_host(server), &address.sin_addr) == 1 &&
                connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* The last line that is not empty. */
static void last_words(const struct gb_net_server *server, char line[LINE_MAX_BYTES])
{
    char path[PATH_MAX + 8];
    char read[LINE_MAX_BYTES];
    snprintf(path, sizeof(path), "%s/log", server->dir);
    snprintf(line, LINE_MAX_BYTES, "it said nothing");
    FILE *file = fopen(path, "re");
    while (file && fgets(read, sizeof(read), file)) {
        read[strcspn(read, "\n")] = '\0';
        if (read[0]) {
            memcpy(line, read, sizeof(read));
        }
    }
    if (file) {
        fclose(file);
    }
}

static int explain_start(const struct gb_net_server *server, int rc, const char *what,
                         struct goblin_error *error)
{
    char line[LINE_MAX_BYTES];
    last_words(server, line);
    gb_explain_set(error, "%s %s: %s", server->name, what, line);
    return rc;
}

int gb_net_server_start(struct gb_net_server *server, const struct gb_net_argv *argv,
                        unsigned cores, struct goblin_error *error)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        gb_explain_set(error, "%s: %s", server->name, strerror(errno));
        return -errno;
    }
    if (pid == 0) {
        become(server, cores, parent);
        serve(server, argv);
    }
    server->pid = pid;
    for (int waited = 0; waited < START_MS && !gb_interrupt_seen(); waited += POLL_MS) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            server->pid = 0;
            return explain_start(server, -ECHILD, "ended before it listened", error);
        }
        if (accepts(server)) {
            return 0;
        }
        nap();
    }
    gb_net_server_stop(server);
    return explain_start(server, gb_interrupt_seen() ? -EINTR : -ETIMEDOUT, "does not listen",
                         error);
}

/* ---- watching and ending ------------------------------------------------------------------- */

enum { TREE_MAX = 64 };

bool gb_net_server_has_ended(const struct gb_net_server *server, char how[32])
{
    siginfo_t fate = {.si_pid = 0};
    if (server->pid <= 0 ||
        waitid(P_PID, (id_t)server->pid, &fate, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        fate.si_pid == 0) {
        return false;
    }
    bool is_exit = fate.si_code == CLD_EXITED;
    snprintf(how, 32, is_exit ? "with code %d" : "by signal %d", fate.si_status);
    return true;
}

int gb_net_server_usage(const struct gb_net_server *server, struct gb_net_usage *usage)
{
    pid_t pids[TREE_MAX];
    int count = gb_procfs_tree(server->pid, pids, TREE_MAX);
    if (count <= 0) {
        return -ECHILD;
    }
    *usage = (struct gb_net_usage){0};
    uint64_t shared_most = 0;
    for (int i = 0; i < count; i++) {
        struct gb_procfs_cost cost;
        if (gb_procfs_cost(pids[i], &cost) == 0) { /* one may have ended meanwhile */
            usage->cpu_s += cost.cpu_s;
            usage->rss_bytes += cost.private_bytes;
            shared_most = gb_max(shared_most, cost.shared_bytes);
        }
    }
    usage->rss_bytes += shared_most;
    return 0;
}

/* Waits; true: it has ended. */
static bool has_ended(pid_t pid, int most_ms)
{
    for (int waited = 0; waited <= most_ms; waited += POLL_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            return true;
        }
        nap();
    }
    return false;
}

int gb_net_server_stop(struct gb_net_server *server)
{
    int rc = 0;
    if (server->pid > 0) {
        pid_t pids[TREE_MAX];
        int count = gb_procfs_tree(server->pid, pids, TREE_MAX);
        kill(server->pid, SIGTERM);
        if (!has_ended(server->pid, STOP_MS)) {
            for (int i = 0; i < count; i++) {
                kill(pids[i], SIGKILL);
            }
            has_ended(server->pid, STOP_MS);
            rc = -ETIMEDOUT;
        }
        server->pid = 0;
    }
    if (server->cgroup[0]) {
        int removed = gb_cgroup_remove(server->cgroup);
        rc = rc < 0 ? rc : removed;
        server->cgroup[0] = '\0';
    }
    return rc;
}
