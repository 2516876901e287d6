/* Servers and clients for tests: see serve.h. */
#include "lib/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "server/conn.h"
#include "server/loop_internal.h"
#include "server/mc_session.h"

#define PATIENCE_S 60

#ifdef __SANITIZE_THREAD__
/* libuv closes its descriptors by bare system calls, which the sanitizer does not see: it takes the
 * next use of their numbers for a race with their first. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libuv.so.1\n";
}
#endif

static int64_t read_clock(void *arg)
{
    return atomic_load(&((struct gb_serve *)arg)->now_ms);
}

int gb_serve_setup(void **state)
{
    struct gb_serve *serve = calloc(1, sizeof(*serve));
    const char *dir = getenv("TMPDIR");
    if (serve == NULL) {
        return -1;
    }
    (void)snprintf(serve->root, sizeof(serve->root), "%s/goblin-serve-XXXXXX",
                   dir != NULL ? dir : "/var/tmp");
    if (mkdtemp(serve->root) == NULL) {
        free(serve);
        return -1;
    }
    (void)snprintf(serve->dir, sizeof(serve->dir), "%s/store", serve->root);
    (void)snprintf(serve->unix_path, sizeof(serve->unix_path), "%s/socket", serve->root);
    serve->dirs[0] = serve->dir;
    atomic_init(&serve->now_ms, 1000);
    serve->options = (struct gb_server_options){
        .store = {.dirs = serve->dirs,
                  .dir_count = 1,
                  .create = true,
                  .size_bytes = 256 * GB_MIB,
                  .segment_bytes = 4 * GB_MIB,
                  .checkpoint_s = UINT32_MAX},
        .memory_bytes = 64 * GB_MIB,
        .threads = 2,
        .listen = {{.protocol = &gb_line_protocol, .address = "127.0.0.1:0"}},
        .listen_count = 1,
        .limits = {.idle_ms = 600000, .request_ms = 60000, .stall_ms = 60000, .drain_ms = 20000},
        .log = {.level = GOBLIN_LOG_ERROR},
        .quiet_start = true,
        .clock = read_clock,
        .clock_arg = serve,
    };
    *state = serve;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

int gb_serve_teardown(void **state)
{
    struct gb_serve *serve = *state;
    gb_line_awake();
    if (serve->server != NULL) {
        (void)gb_server_stop(serve->server);
    }
    (void)nftw(serve->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(serve);
    return 0;
}

void gb_serve_start(struct gb_serve *serve)
{
    struct goblin_error error;
    if (gb_server_start(&serve->server, &serve->options, &error) < 0) {
        fail_msg("%s", error.text);
    }
}

void gb_serve_stop(struct gb_serve *serve)
{
    struct gb_server *server = serve->server;
    serve->server = NULL;
    assert_int_equal(gb_server_stop(server), GOBLIN_OK);
}

void gb_serve_advance(struct gb_serve *serve, int64_t ms)
{
    atomic_fetch_add(&serve->now_ms, ms);
}

static void snapshot(struct gb_serve *serve, struct gb_metrics_snapshot *metrics)
{
    memset(metrics, 0, sizeof(*metrics));
    gb_server_sum_metrics(serve->server, metrics);
}

uint64_t gb_serve_counter(struct gb_serve *serve, enum gb_metrics_counter counter)
{
    static struct gb_metrics_snapshot metrics;
    snapshot(serve, &metrics);
    return metrics.counters[counter];
}

uint64_t gb_serve_ended(struct gb_serve *serve, unsigned why)
{
    static struct gb_metrics_snapshot metrics;
    snapshot(serve, &metrics);
    return metrics.ends[why];
}

struct gb_server_gauges gb_serve_gauges(struct gb_serve *serve)
{
    struct gb_server_gauges gauges;
    gb_server_read_gauges(serve->server, &gauges);
    return gauges;
}

struct pooled {
    struct gb_post post;
    struct gb_loop *loop;
    uint64_t bytes;
    sem_t done;
};

static void sum_pools(struct gb_post *post)
{
    struct pooled *pooled = (struct pooled *)(void *)post;
    const struct gb_conn_pools *pools = &pooled->loop->internal->pools;
    pooled->bytes = pools->scratch != NULL ? pools->scratch_bytes : 0;
    for (const struct gb_piece_out *at = pools->blocks; at != NULL; at = at->next) {
        pooled->bytes += at->charge;
    }
    pooled->bytes += pools->send_count * GB_CONN_SEND_CHARGE;
    for (unsigned i = 0; i < pooled->loop->internal->service_count; i++) {
        const struct gb_loop_service *service = &pooled->loop->internal->services[i];
        if (service->protocol == &gb_memcache_protocol) {
            const struct gb_mc_loop *home = service->state;
            pooled->bytes += home->free_answer_count * sizeof(struct gb_mc_answer);
        }
    }
    assert_int_equal(sem_post(&pooled->done), 0);
}

uint64_t gb_serve_pooled_bytes(struct gb_serve *serve)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < gb_server_loop_count(serve->server); i++) {
        struct pooled pooled = {.post.run = sum_pools, .loop = gb_server_loop(serve->server, i)};
        assert_int_equal(sem_init(&pooled.done, 0, 0), 0);
        gb_loop_post(pooled.loop, &pooled.post);
        assert_int_equal(TEMP_FAILURE_RETRY(sem_wait(&pooled.done)), 0);
        (void)sem_destroy(&pooled.done);
        bytes += pooled.bytes;
    }
    return bytes;
}

void gb_await_step(int waited_ms, const char *what)
{
    if (waited_ms > PATIENCE_S * 1000) {
        fail_msg("in %d s it did not come true: %s", PATIENCE_S, what);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- clients ------------------------------------------------------------------------------- */

size_t gb_client_most(size_t wanted)
{
    const rlim_t spare = 500; /* the store's files, rings, and the test's */
    const rlim_t needed = 2 * wanted + spare;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= needed) {
        return wanted;
    }
    limit.rlim_cur = needed;
    limit.rlim_max = gb_max(needed, limit.rlim_max); /* beyond it only root may go, if at all */
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        return wanted;
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur > spare ? (limit.rlim_cur - spare) / 2 : 1;
}

static int connect_to(int family, const void *address, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
    int fault = connect(fd, address, len) == 0 ? 0 : errno;
    if (fault == EINTR) { /* it goes on */
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        assert_int_equal(TEMP_FAILURE_RETRY(poll(&writable, 1, PATIENCE_S * 1000)), 1);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &(socklen_t){sizeof(fault)}),
                         0);
    }
    if (fault != 0) {
        fail_msg("connect: %s", strerror(fault));
    }
    return fd;
}

int gb_client_open_at(const char *address)
{
    if (address[0] == '/') {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        (void)snprintf(un.sun_path, sizeof(un.sun_path), "%.107s", address);
        return connect_to(AF_UNIX, &un, sizeof(un));
    }
    const char *colon = strrchr(address, ':');
    uint16_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (address[0] == '[') {
        struct sockaddr_in6 in6 = {
            .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        return connect_to(AF_INET6, &in6, sizeof(in6));
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect_to(AF_INET, &in, sizeof(in));
}

int gb_client_open(struct gb_serve *serve)
{
    return gb_client_open_at(gb_server_listener(serve->server, 0)->address);
}

void gb_client_send(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(send(fd, at, len, MSG_NOSIGNAL));
        if (n < 0) {
            fail_msg("send: %s", strerror(errno));
        }
        at += n;
        len -= (size_t)n;
    }
}

void gb_client_say(int fd, const char *text)
{
    gb_client_send(fd, text, strlen(text));
}

void gb_client_receive(int fd, void *data, size_t len)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(recv(fd, at, len, 0)); /* rings of the store interrupt */
        if (n <= 0) {
            fail_msg("receive: %s, %zu bytes missing", n < 0 ? strerror(errno) : "end", len);
        }
        at += n;
        len -= (size_t)n;
    }
}

void gb_client_expect(int fd, const char *text)
{
    char got[4096];
    size_t len = strlen(text);
    assert_true(len < sizeof(got));
    gb_client_receive(fd, got, len);
    got[len] = '\0';
    assert_string_equal(got, text);
}

void gb_client_expect_end(int fd)
{
    char byte = 0;
    ssize_t n = TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0));
    if (n > 0 || (n < 0 && errno != ECONNRESET)) {
        fail_msg("an end was due; there is %s", n > 0 ? "a byte" : strerror(errno));
    }
}

void gb_client_set(int fd, const char *key, size_t size, uint64_t seed)
{
    char line[128];
    char *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, seed, 0);
    (void)snprintf(line, sizeof(line), "set %s %zu\n", key, size);
    gb_client_say(fd, line);
    gb_client_send(fd, value, size);
    free(value);
}

void gb_client_expect_value(int fd, size_t size, uint64_t seed, uint64_t offset)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "VALUE %zu\n", size);
    gb_client_expect(fd, line);
    char *value = malloc(size + 1);
    assert_non_null(value);
    gb_client_receive(fd, value, size + 1);
    assert_true(gb_pattern_holds(value, size, seed, offset));
    assert_int_equal(value[size], '\n');
    free(value);
}

void gb_client_get(int fd, const char *key, size_t size, uint64_t seed)
{
    char line[128];
    (void)snprintf(line, sizeof(line), "get %s\n", key);
    gb_client_say(fd, line);
    gb_client_expect_value(fd, size, seed, 0);
}
