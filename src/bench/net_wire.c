/* A network of two namespaces: see net_wire.h. */
#include "bench/net_wire.h"

#include "bench/explain.h"
#include "bench/net_server.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two frames of Ethernet: 1,500 bytes and a header each. */
enum { BURST_BYTES = 2 * 1514, LATENCY_MS = 100, WORDS_MAX = 24, TEXT_BYTES = 512 };

static const char client_end[] = "gbwire0";
static const char server_end[] = "gbwire1";

/* ---- namespaces ---------------------------------------------------------------------------- */

static int open_current(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Makes one and stays in it. */
static int make_namespace(int *fd)
{
    if (unshare(CLONE_NEWNET) < 0) {
        return -errno;
    }
    *fd = open_current();
    return *fd < 0 ? *fd : 0;
}

/* ---- tools --------------------------------------------------------------------------------- */

/* Runs a tool in the namespace; words are separated by single blanks. */
static int run_tool(int netns, const char *text, struct goblin_error *error)
{
    char copy[TEXT_BYTES];
    char path[PATH_MAX];
    char *words[WORDS_MAX + 1] = {NULL};
    size_t count = 0;
    char *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    if (gb_net_server_find(words[0], path) < 0) {
        gb_explain_set(error, "%s is not installed", words[0]);
        return -ENOENT;
    }
    pid_t pid = fork();
    if (pid < 0) {
        gb_explain_set(error, "%s: %s", words[0], strerror(errno));
        return -errno;
    }
    if (pid == 0) {
        if (setns(netns, CLONE_NEWNET) == 0) {
            execv(path, words);
        }
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        gb_explain_set(error, "refused: %s", text);
        return -EIO;
    }
    return 0;
}

static int set_up_end(int netns, const char *name, const char *address, struct goblin_error *error)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "ip address add %s/30 dev %s", address, name);
    int rc = run_tool(netns, text, error);
    /* Packets leave one by one, as they are on a wire. */
    snprintf(text, sizeof(text), "ip link set dev %s gso_max_segs 1 up", name);
    rc = rc < 0 ? rc : run_tool(netns, text, error);
    return rc < 0 ? rc : run_tool(netns, "ip link set dev lo up", error);
}

static int set_up(const struct gb_net_wire *wire, uint64_t rate_bps, struct goblin_error *error)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "ip link add %s type veth peer name %s netns /proc/%d/fd/%d",
             client_end, server_end, (int)getpid(), wire->server);
    int rc = run_tool(wire->client, text, error);
    rc = rc < 0 ? rc : set_up_end(wire->client, client_end, GB_NET_WIRE_CLIENT, error);
    rc = rc < 0 ? rc : set_up_end(wire->server, server_end, GB_NET_WIRE_SERVER, error);
    snprintf(text, sizeof(text), "tc qdisc add dev %s root tbf rate %llubit burst %d latency %dms",
             server_end, (unsigned long long)rate_bps, BURST_BYTES, LATENCY_MS);
    return rc < 0 ? rc : run_tool(wire->server, text, error);
}

int gb_net_wire_open(struct gb_net_wire *wire, uint64_t rate_bps, struct goblin_error *error)
{
    *wire = (struct gb_net_wire){.client = -1, .server = -1};
    wire->own = open_current();
    int rc = wire->own < 0 ? wire->own : make_namespace(&wire->server);
    rc = rc < 0 ? rc : make_namespace(&wire->client); /* and this is where the thread stays */
    if (rc < 0) {
        gb_explain_set(error, "no network namespaces: %s", strerror(-rc));
    } else {
        rc = set_up(wire, rate_bps, error);
    }
    if (rc < 0) {
        gb_net_wire_close(wire);
    }
    return rc;
}

void gb_net_wire_close(struct gb_net_wire *wire)
{
    if (wire->own >= 0 && setns(wire->own, CLONE_NEWNET) < 0) {
        perror("goblin-bench net: back from the wire");
    }
    int *const ends[] = {&wire->own, &wire->client, &wire->server};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (*ends[i] >= 0) {
            close(*ends[i]);
            *ends[i] = -1;
        }
    }
}
