/* Clients by the thousand that begin and do not finish: what they cost comes back when they go.
 *
 * GOBLIN_CONNECTIONS is how many there are (20000 takes two descriptors for each), else a few
 * thousand, or what the limit on descriptors leaves. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/sanitized.h"
#include "lib/serve.h"
#include "server/http.h"
#include "server/memcache.h"

enum { CONNECTIONS = 3000, ROUNDS = 3 };

/* Of RSS, above what it was before: what the engine has touched for uploads, and what one in
 * sixteen may leave scattered. */
#define RSS_SLACK_BYTES (8 * GB_MIB)

static struct gb_memcache *memcache;

static int set_up(void **state)
{
    static const struct gb_http_options http_options;
    static const struct gb_memcache_options options;
    static char path[320];
    struct goblin_error error = {{0}};
    if (gb_serve_setup(state) != 0 || gb_memcache_create(&memcache, &options, &error) < 0) {
        return -1;
    }
    struct gb_serve *serve = *state;
    (void)snprintf(path, sizeof(path), "%s/mc", serve->root);
    serve->options.listen[0] = (struct gb_server_listen){
        .protocol = &gb_memcache_protocol, .options = memcache, .address = "127.0.0.1:0"};
    serve->options.listen[1] = (struct gb_server_listen){
        .protocol = &gb_http_protocol, .options = &http_options, .address = "127.0.0.1:0"};
    serve->options.listen[2] = (struct gb_server_listen){
        .protocol = &gb_memcache_protocol, .options = memcache, .address = path};
    serve->options.listen_count = 3;
    serve->options.memory_bytes = GB_GIB;
    serve->options.limits.network_bytes = 768 * GB_MIB;
    return 0;
}

static int tear_down(void **state)
{
    int result = gb_serve_teardown(state);
    gb_memcache_destroy(memcache);
    return result;
}

/* The store opens its files as it needs them; what connections take are sockets. */
static size_t count_sockets(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[300];
        char target[16] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        count +=
            readlink(path, target, sizeof(target) - 1) > 0 && strncmp(target, "socket:", 7) == 0;
    }
    (void)closedir(dir);
    return count;
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %llu", &pages), 1);
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int open_half(struct gb_serve *serve, size_t number)
{
    static const struct {
        size_t listener;
        const char *text;
    } kinds[] = {
        {0, "get half a li"},
        {0, "set k 0 0 100\r\nhalf a value"},
        {0, ""},
        {1, "GET /half HTTP/1.1\r\nHost: a\r\nX-"},
        {1, "PUT /half HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"},
        {2, "mg half v\r\nmg ha"},
        {2, "set k 0 0 600000\r\nthe beginning"},
        {2, "ms half 10 T0\r\n12345"},
    };
    size_t kind = number % (sizeof(kinds) / sizeof(kinds[0]));
    if (kind == 6 && number > 200) {
        kind = 7; /* the uploads of a few are enough */
    }
    int fd = gb_client_open_at(gb_server_listener(serve->server, kinds[kind].listener)->address);
    gb_client_say(fd, kinds[kind].text);
    return fd;
}

static void expect_answers(struct gb_serve *serve)
{
    int fd = gb_client_open(serve);
    gb_client_say(fd, "set k 0 0 5\r\nhello\r\nget k\r\n");
    gb_client_expect(fd, "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
    (void)close(fd);
    fd = gb_client_open_at(gb_server_listener(serve->server, 1)->address);
    gb_client_say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    gb_client_expect(fd, "HTTP/1.1 200 ");
    (void)close(fd);
}

static void expect_all_gone(struct gb_serve *serve)
{
    for (int i = 0; gb_serve_gauges(serve).connections > 0; i++) {
        gb_serve_advance(serve, 200); /* HTTP looks for who has left once a second */
        gb_await_step(i, "all connections are closed");
    }
    gb_await(gb_serve_gauges(serve).streams == 0);
    gb_await(gb_serve_gauges(serve).network_bytes == gb_serve_pooled_bytes(serve));
}

static void half_finished_connections__by_the_thousand_leave_nothing(void **state)
{
    struct gb_serve *serve = *state;
    const char *text = getenv("GOBLIN_CONNECTIONS");
    size_t count = gb_client_most(text != NULL ? strtoul(text, NULL, 10)
                                               : CONNECTIONS / (GB_SANITIZED ? 5 : 1));
    int *fds = calloc(count, sizeof(*fds));
    assert_non_null(fds);
    gb_serve_start(serve);
    expect_answers(serve);
    expect_all_gone(serve);
    size_t sockets = count_sockets();
    uint64_t resident[ROUNDS + 1] = {resident_bytes()};
    uint64_t most = 0;
    for (size_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            fds[i] = open_half(serve, i);
        }
        gb_await(gb_serve_gauges(serve).connections == count);
        expect_answers(serve); /* whoever finishes what he says is served all the while */
        most = gb_max(most, resident_bytes());
        for (size_t i = 0; i < count; i++) {
            (void)close(fds[i]);
        }
        expect_all_gone(serve);
        assert_int_equal(count_sockets(), sockets);
        if (!GB_SANITIZED) {
            gb_await(resident_bytes() < resident[0] + RSS_SLACK_BYTES);
        }
        resident[round] = resident_bytes();
    }
    print_message("%zu connections: RSS %.1f MiB before, at most %.1f with them, then %.1f, %.1f, "
                  "%.1f\n",
                  count, (double)resident[0] / GB_MIB, (double)most / GB_MIB,
                  (double)resident[1] / GB_MIB, (double)resident[2] / GB_MIB,
                  (double)resident[3] / GB_MIB);
    free(fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(half_finished_connections__by_the_thousand_leave_nothing,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests_name("serve_many", tests, NULL, NULL);
}
