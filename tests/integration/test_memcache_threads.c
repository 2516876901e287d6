/* The memcached protocol on a server in this process: what the transcripts of e2e/memcache cannot
 * show. Clients that leave, that are many, that watch, and time that passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/pattern.h"
#include "lib/serve.h"
#include "server/conn.h"
#include "server/memcache.h"

/* ---- set-up -------------------------------------------------------------------------------- */

static struct gb_memcache *memcache;
static _Atomic int64_t offset_ms;

static int64_t wall_clock(void *arg)
{
    (void)arg;
    return 1700000000000 + atomic_load(&offset_ms);
}

static int set_up(void **state)
{
    int result = gb_serve_setup(state);
    atomic_store(&offset_ms, 0);
    memcache = NULL;
    return result;
}

static int tear_down(void **state)
{
    int result = gb_serve_teardown(state);
    gb_memcache_destroy(memcache);
    return result;
}

static void start_with(struct gb_serve *serve, struct gb_memcache_options options)
{
    struct goblin_error error = {{0}};
    options.clock_offset_ms = &offset_ms;
    if (gb_memcache_create(&memcache, &options, &error) < 0) {
        fail_msg("%s", error.text);
    }
    serve->options.listen[0].protocol = &gb_memcache_protocol;
    serve->options.listen[0].options = memcache;
    serve->options.store.clock = wall_clock;
    gb_serve_start(serve);
}

static void start(struct gb_serve *serve)
{
    start_with(serve, (struct gb_memcache_options){0});
}

static void ask(int fd, const char *question, const char *answer)
{
    gb_client_say(fd, question);
    gb_client_expect(fd, answer);
}

/* A line, without its end; false: the peer has closed. */
static bool read_line(int fd, char *line, size_t room)
{
    size_t len = 0;
    while (len + 1 < room) {
        if (TEMP_FAILURE_RETRY(recv(fd, line + len, 1, 0)) != 1) {
            break;
        }
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len++;
    }
    line[len] = '\0';
    return false;
}

/* In one piece: line and value apart would wait for the peer's late acknowledgement. */
static void set_pattern(int fd, const char *key, size_t size, uint64_t seed)
{
    char *text = malloc(size + 320);
    assert_non_null(text);
    size_t len = (size_t)sprintf(text, "set %.250s 0 0 %zu\r\n", key, size);
    gb_pattern_fill(text + len, size, seed, 0);
    memcpy(text + len + size, "\r\n", 2);
    gb_client_send(fd, text, len + size + 2);
    free(text);
}

static void expect_pattern(int fd, const char *key, size_t size, uint64_t seed)
{
    char line[320];
    (void)snprintf(line, sizeof(line), "VALUE %s 0 %zu\r\n", key, size);
    gb_client_expect(fd, line);
    char *value = malloc(size + 2);
    assert_non_null(value);
    gb_client_receive(fd, value, size + 2);
    assert_true(gb_pattern_holds(value, size, seed, 0));
    assert_memory_equal(value + size, "\r\n", 2);
    free(value);
}

/* ---- objects on disk ----------------------------------------------------------------------- */

static void a_line_of_many_keys__brings_what_lies_on_disk_in_order(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.memory_bytes = 24 * GB_MIB;
    start(serve);
    enum { KEYS = 1500, SIZE = 40000 };
    int fd = gb_client_open(serve);
    char *line = malloc(KEYS * 16);
    assert_non_null(line);
    size_t len = (size_t)sprintf(line, "get");
    for (size_t i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key%zu", i);
        set_pattern(fd, key, SIZE, i);
        gb_client_expect(fd, "STORED\r\n");
        len += (size_t)sprintf(line + len, " %s", key);
    }
    (void)strcpy(line + len, "\r\n");
    gb_client_say(fd, line);
    for (size_t i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key%zu", i);
        expect_pattern(fd, key, SIZE, i);
    }
    gb_client_expect(fd, "END\r\n");
    ask(fd, "mg key0 s k Oq c\r\nmn\r\n", "HD s40000 kkey0 Oq c");
    free(line);
    (void)close(fd);
}

static void meta_answers__keep_their_texts_until_the_disk_has_answered(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.memory_bytes = 24 * GB_MIB;
    start(serve);
    enum { KEYS = 800, SIZE = 60000 };
    int fd = gb_client_open(serve);
    for (size_t i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key%zu", i);
        set_pattern(fd, key, SIZE, i);
        gb_client_expect(fd, "STORED\r\n");
    }
    char *value = malloc(SIZE + 2);
    assert_non_null(value);
    for (size_t i = 0; i < KEYS; i += 8) {
        char line[64 * 8] = "";
        for (size_t j = i; j < i + 8; j++) {
            (void)snprintf(line + strlen(line), sizeof(line) - strlen(line),
                           "mg key%zu v k Oop%zu\r\n", j, j);
        }
        gb_client_say(fd, line);
        for (size_t j = i; j < i + 8; j++) {
            char answer[64];
            (void)snprintf(answer, sizeof(answer), "VA %d kkey%zu Oop%zu\r\n", SIZE, j, j);
            gb_client_expect(fd, answer);
            gb_client_receive(fd, value, SIZE + 2);
            assert_true(gb_pattern_holds(value, SIZE, j, 0));
        }
    }
    free(value);
    (void)close(fd);
}

/* ---- clients that leave -------------------------------------------------------------------- */

static void a_client_that_leaves_within_a_value__stores_nothing(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    static const size_t sizes[] = {100, 100000, 3000000};
    char *some = calloc(1, 1000000);
    assert_non_null(some);
    int other = gb_client_open(serve);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char line[64];
        int fd = gb_client_open(serve);
        (void)snprintf(line, sizeof(line), "set k 0 0 %zu\r\n", sizes[i]);
        gb_client_say(fd, line);
        gb_client_send(fd, some, sizes[i] / 3);
        (void)close(fd);
        fd = gb_client_open(serve); /* all but the end */
        (void)snprintf(line, sizeof(line), "set k 0 0 %zu\r\n", sizes[i]);
        gb_client_say(fd, line);
        for (size_t left = sizes[i]; left > 0;) {
            size_t piece = left < 1000000 ? left : 1000000;
            gb_client_send(fd, some, piece);
            left -= piece;
        }
        (void)close(fd);
    }
    gb_await(gb_serve_gauges(serve).connections == 1);
    gb_await(gb_serve_gauges(serve).streams == 0);
    ask(other, "get k\r\n", "END\r\n");
    free(some);
    (void)close(other);
}

static void a_client_that_leaves_within_an_answer__frees_all(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.memory_bytes = 24 * GB_MIB;
    start(serve);
    int other = gb_client_open(serve);
    set_pattern(other, "large", 8000000, 1);
    gb_client_expect(other, "STORED\r\n");
    for (int i = 0; i < 20; i++) {
        int fd = gb_client_open(serve);
        gb_client_say(fd, "get large large large\r\nmg large v k\r\nlru_crawler metadump all\r\n");
        gb_client_expect(fd, "VALUE large 0 8000000\r\n");
        (void)close(fd);
    }
    gb_await(gb_serve_gauges(serve).connections == 1);
    ask(other, "mn\r\n", "MN\r\n");
    (void)close(other);
}

/* ---- values that cannot be stored ---------------------------------------------------------- */

/* Sets objects of a size until one is refused; returns how many were not. */
static unsigned fill_up(int fd, const char *name, size_t size)
{
    char line[128];
    for (unsigned i = 0; i < 2000; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "%s%u", name, i);
        set_pattern(fd, key, size, i);
        assert_true(read_line(fd, line, sizeof(line)));
        if (strcmp(line, "STORED\r") != 0) {
            assert_string_equal(line, "SERVER_ERROR out of memory storing object\r");
            return i;
        }
    }
    fail_msg("the store is never full");
    return 0;
}

static void a_full_store__refuses_and_keeps_what_it_has(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.store.mode = GOBLIN_MODE_STORE;
    serve->options.store.size_bytes = 64 * GB_MIB;
    start(serve);
    int fd = gb_client_open(serve);
    set_pattern(fd, "kept", 50000, 7);
    gb_client_expect(fd, "STORED\r\n");
    assert_true(fill_up(fd, "streamed", 2000000) > 5); /* does not fit any more */
    (void)fill_up(fd, "whole", 100000);                /* nor do smaller ones, then */
    /* Room may have been won meanwhile; then another is refused. */
    size_t size = 50000;
    for (uint64_t seed = 8;; seed++) {
        char line[128];
        assert_true(seed < 100);
        set_pattern(fd, "kept", 20000000, seed);
        assert_true(read_line(fd, line, sizeof(line)));
        if (strcmp(line, "STORED\r") != 0) {
            gb_client_say(fd, "get kept\r\n");
            expect_pattern(fd, "kept", size, seed - 1);
            gb_client_expect(fd, "END\r\n");
            break;
        }
        size = 20000000;
    }
    (void)close(fd);
}

static void a_cache__drops_what_a_refused_set_was_to_replace(void **state)
{
    struct gb_serve *serve = *state;
    start_with(serve, (struct gb_memcache_options){.value_max_bytes = 1000});
    int fd = gb_client_open(serve);
    ask(fd, "set k 0 0 1\r\nx\r\nset l 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    set_pattern(fd, "k", 1001, 1);
    gb_client_expect(fd, "SERVER_ERROR object too large for cache\r\n");
    ask(fd, "get k\r\nappend l 0 0 1001 noreply\r\n", "END\r\n");
    char *value = calloc(1, 1003);
    assert_non_null(value);
    memcpy(value + 1001, "\r\n", 2);
    gb_client_send(fd, value, 1003);
    free(value);
    ask(fd, "get l\r\n", "VALUE l 0 1\r\ny\r\nEND\r\n");
    (void)close(fd);
}

/* ---- many clients -------------------------------------------------------------------------- */

static void many_clients_after_one_missing_key__have_one_winner(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 4;
    serve->options.limits.network_bytes = 16 * GB_MIB;
    start(serve);
    enum { CLIENTS = 1000 };
    static int fds[CLIENTS];
    size_t count = gb_client_most(CLIENTS);
    for (size_t i = 0; i < count; i++) {
        fds[i] = gb_client_open(serve);
    }
    for (int round = 0; round < 4; round++) {
        char line[64];
        size_t winners = 0;
        (void)snprintf(line, sizeof(line), "mg missing%d N30\r\n", round);
        for (size_t i = 0; i < count; i++) {
            gb_client_say(fds[i], line);
        }
        for (size_t i = 0; i < count; i++) {
            char answer[64];
            assert_true(read_line(fds[i], answer, sizeof(answer)));
            bool won = strcmp(answer, "HD W\r") == 0;
            assert_true(won || strcmp(answer, "HD Z\r") == 0);
            winners += won;
        }
        assert_int_equal(winners, 1);
    }
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

static void many_clients_who_count__lose_nothing(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 4;
    start(serve);
    enum { CLIENTS = 32, TIMES = 50 };
    int fds[CLIENTS];
    char answer[64];
    for (size_t i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
    }
    ask(fds[0], "set n 0 0 1\r\n0\r\nset t 0 0 0\r\n\r\n", "STORED\r\nSTORED\r\n");
    for (size_t i = 0; i < CLIENTS; i++) {
        for (int j = 0; j < TIMES; j++) {
            gb_client_say(fds[i], "incr n 1 noreply\r\nappend t 0 0 1 noreply\r\nx\r\n");
        }
        gb_client_say(fds[i], "mn\r\n");
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        gb_client_expect(fds[i], "MN\r\n");
    }
    (void)snprintf(answer, sizeof(answer), "HD s%d\r\n", CLIENTS * TIMES);
    ask(fds[0], "mg t s\r\n", answer);
    (void)snprintf(answer, sizeof(answer), "%d\r\n", CLIENTS * TIMES);
    ask(fds[0], "incr n 0\r\n", answer);
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
}

/* ---- time ---------------------------------------------------------------------------------- */

static void debugtime__moves_expiries(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    int fd = gb_client_open(serve);
    ask(fd, "set a 0 100 1\r\nx\r\nmg a t\r\n", "STORED\r\nHD t100\r\n");
    ask(fd, "debugtime 40\r\nmg a t\r\n", "OK\r\nHD t60\r\n");
    ask(fd, "debugtime 59\r\nmg a t\r\n", "OK\r\nHD t1\r\n");
    ask(fd, "debugtime 1\r\nmg a t\r\nget a\r\n", "OK\r\nEN\r\nEND\r\n");
    ask(fd, "debugtime x\r\n", "ERROR\r\n");
    (void)close(fd);
}

static void flush_all__with_a_delay_comes_when_it_is_due(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    int fd = gb_client_open(serve);
    ask(fd, "set a 0 0 1\r\nx\r\nflush_all 5\r\nset b 0 0 1\r\ny\r\nget a\r\n",
        "STORED\r\nOK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    gb_serve_advance(serve, 6000);
    for (bool there = true; there;) {
        char line[64];
        gb_client_say(fd, "mg a k\r\nmg b k\r\n");
        assert_true(read_line(fd, line, sizeof(line)));
        there = strncmp(line, "HD", 2) == 0;
        assert_true(read_line(fd, line, sizeof(line)));
    }
    ask(fd, "set c 0 0 1\r\nz\r\nget a b c\r\n", "STORED\r\nVALUE c 0 1\r\nz\r\nEND\r\n");
    (void)close(fd);
}

/* ---- lists --------------------------------------------------------------------------------- */

static void metadump__tells_of_every_object_once(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    enum { KEYS = 5000 };
    int fd = gb_client_open(serve);
    bool *seen = calloc(KEYS, sizeof(*seen));
    assert_non_null(seen);
    char line[2048];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(line, sizeof(line), "set key/%d 0 %d 1 noreply\r\nx\r\n", i, i % 2 * 500);
        gb_client_say(fd, line);
    }
    ask(fd, "set gone 0 1 1\r\nx\r\ndebugtime 2\r\n", "STORED\r\nOK\r\n");
    gb_client_say(fd, "lru_crawler metadump all\r\nmn\r\n");
    int count = 0;
    while (read_line(fd, line, sizeof(line)) && strncmp(line, "END", 3) != 0) {
        int number;
        long expires;
        if (sscanf(line, "key=key%%2F%d exp=%ld la=", &number, &expires) != 2) {
            fail_msg("listed: %s", line);
        }
        assert_true(number >= 0 && number < KEYS && !seen[number]);
        assert_int_equal(expires, number % 2 != 0 ? 1700000500 : -1);
        seen[number] = true;
        count++;
    }
    assert_int_equal(count, KEYS);
    gb_client_expect(fd, "MN\r\n");
    gb_client_say(fd, "stats cachedump 1 10\r\n");
    for (count = 0; read_line(fd, line, sizeof(line)) && strncmp(line, "ITEM key/", 9) == 0;) {
        count++;
    }
    assert_int_equal(count, 10);
    assert_string_equal(line, "END\r");
    free(seen);
    (void)close(fd);
}

static void stats_conns__tells_of_all_loops(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 3;
    start(serve);
    enum { CLIENTS = 9 };
    int fds[CLIENTS];
    char line[512];
    for (size_t i = 0; i < CLIENTS; i++) {
        fds[i] = gb_client_open(serve);
        ask(fds[i], "mn\r\n", "MN\r\n");
    }
    gb_client_say(fds[0], "stats conns\r\n");
    int count = 0;
    while (read_line(fds[0], line, sizeof(line)) && strcmp(line, "END\r") != 0) {
        count += strstr(line, ":addr 127.0.0.1:") != NULL;
    }
    assert_int_equal(count, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)close(fds[i]);
    }
}

static void stats_reset__begins_to_count_anew(void **state)
{
    struct gb_serve *serve = *state;
    start(serve);
    int fd = gb_client_open(serve);
    char line[512];
    ask(fd, "get a\r\nget a\r\nstats reset\r\nget a\r\n", "END\r\nEND\r\nRESET\r\nEND\r\n");
    gb_client_say(fd, "stats\r\n");
    bool found = false;
    while (read_line(fd, line, sizeof(line)) && strcmp(line, "END\r") != 0) {
        found = found || strcmp(line, "STAT get_misses 1\r") == 0;
    }
    assert_true(found);
    (void)close(fd);
}

/* ---- watchers ------------------------------------------------------------------------------ */

static void expect_event(int fd, const char *type, const char *part)
{
    char line[1024];
    assert_true(read_line(fd, line, sizeof(line)));
    if (strncmp(line, "ts=", 3) != 0 || strstr(line, type) == NULL || strstr(line, part) == NULL) {
        fail_msg("told \"%s\", not of %s with %s", line, type, part);
    }
}

static void watch__is_told_of_what_happens_on_every_loop(void **state)
{
    struct gb_serve *serve = *state;
    serve->options.threads = 3;
    serve->options.limits.idle_ms = 30000; /* of which watchers are free */
    start(serve);
    int watcher = gb_client_open(serve);
    ask(watcher, "watch fetchers mutations deletions\r\n", "OK\r\n");
    for (int i = 0; i < 6; i++) {
        int fd = gb_client_open(serve);
        ask(fd, "set a/b 0 0 3\r\nabc\r\n", "STORED\r\n");
        expect_event(watcher, "type=item_store key=a%2Fb status=stored cmd=set ttl=0", "size=3");
        ask(fd, "get a/b\r\n", "VALUE a/b 0 3\r\nabc\r\nEND\r\n");
        expect_event(watcher, "type=item_get key=a%2Fb status=found", "size=3");
        ask(fd, "get none\r\n", "END\r\n");
        expect_event(watcher, "type=item_get key=none status=not_found", "size=0");
        ask(fd, "add a/b 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
        expect_event(watcher, "type=item_store key=a%2Fb status=not_stored cmd=add", "size=1");
        ask(fd, "delete a/b\r\n", "DELETED\r\n");
        expect_event(watcher, "type=deleted key=a%2Fb", "cmd=delete");
        (void)close(fd);
    }
    int connections = gb_client_open(serve);
    ask(connections, "mn\r\n", "MN\r\n");
    gb_await(gb_serve_gauges(serve).connections ==
             2); /* else it hears of a close before its time */
    ask(connections, "watch connevents\r\n", "OK\r\n");
    int fd = gb_client_open(serve);
    expect_event(connections, "type=conn_new rip=127.0.0.1 rport=", " transport=tcp cfd=");
    (void)close(fd);
    expect_event(connections,
                 "type=conn_close rip=127.0.0.1 rport=", " transport=tcp reason=normal cfd=");
    fd = gb_client_open(serve);
    expect_event(connections, "type=conn_new", "transport=tcp");
    ask(fd, "quit\r\n", "");
    expect_event(connections, "type=conn_close", "reason=normal");
    (void)close(fd);
    fd = gb_client_open(serve);
    expect_event(connections, "type=conn_new", "transport=tcp");
    gb_await((gb_serve_advance(serve, 1000), gb_serve_ended(serve, GB_CONN_END_idle) == 1));
    expect_event(connections, "type=conn_close", "reason=idle_timeout");
    (void)close(fd);
    (void)close(watcher);
    (void)close(connections);
}

static void watch__may_be_refused(void **state)
{
    struct gb_serve *serve = *state;
    start_with(serve,
               (struct gb_memcache_options){.no_watch = true, .no_dump = true, .no_flush = true});
    int fd = gb_client_open(serve);
    ask(fd, "watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
    ask(fd, "flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    ask(fd, "lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n");
    ask(fd, "stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n");
    (void)close(fd);
}

/* ---- who may ------------------------------------------------------------------------------- */

static char auth_path[320]; /* lent to the server until it has stopped */

static void write_auth(const struct gb_serve *serve, const char *text)
{
    const char *path = auth_path;
    (void)snprintf(auth_path, sizeof(auth_path), "%s/auth", serve->root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void an_authentication_file__lets_in_whom_it_names(void **state)
{
    struct gb_serve *serve = *state;
    write_auth(serve, "anna:secret\nbert:pass:word\n");
    start_with(serve, (struct gb_memcache_options){.auth_file = auth_path});
    int fd = gb_client_open(serve);
    ask(fd, "set x 0 0 11\r\nanna secreT\r\n", "CLIENT_ERROR authentication failure\r\n");
    ask(fd, "set x 0 0 4\r\nanna\r\n", "CLIENT_ERROR bad authentication token format\r\n");
    ask(fd, "set x 0 0 11\r\nanna secret\r\nget x\r\n", "STORED\r\nEND\r\n");
    (void)close(fd);
    fd = gb_client_open(serve);
    ask(fd, "set x 0 0 14\r\nbert pass:word\r\nmn\r\n", "STORED\r\nMN\r\n");
    (void)close(fd);
    fd = gb_client_open(serve);
    ask(fd, "get x\r\n", "CLIENT_ERROR unauthenticated\r\n");
    gb_client_expect_end(fd);
    (void)close(fd);

    write_auth(serve, "carl:new\n");
    gb_server_reload(serve->server);
    bool let_in = false;
    while (!let_in) {
        char line[64];
        fd = gb_client_open(serve);
        gb_client_say(fd, "set x 0 0 8\r\ncarl new\r\n");
        assert_true(read_line(fd, line, sizeof(line)));
        let_in = strcmp(line, "STORED\r") == 0;
        (void)close(fd);
    }
}

static void an_authentication_file__must_be_one(void **state)
{
    struct gb_serve *serve = *state;
    write_auth(serve, "anna secret\n");
    struct goblin_error error = {{0}};
    const struct gb_memcache_options options = {.auth_file = auth_path};
    assert_true(gb_memcache_create(&memcache, &options, &error) < 0);
    assert_non_null(strstr(error.text, "not lines of NAME:PASSWORD"));
}

#define MEMCACHE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMCACHE_TEST(a_line_of_many_keys__brings_what_lies_on_disk_in_order),
        MEMCACHE_TEST(meta_answers__keep_their_texts_until_the_disk_has_answered),
        MEMCACHE_TEST(a_client_that_leaves_within_a_value__stores_nothing),
        MEMCACHE_TEST(a_client_that_leaves_within_an_answer__frees_all),
        MEMCACHE_TEST(a_full_store__refuses_and_keeps_what_it_has),
        MEMCACHE_TEST(a_cache__drops_what_a_refused_set_was_to_replace),
        MEMCACHE_TEST(many_clients_after_one_missing_key__have_one_winner),
        MEMCACHE_TEST(many_clients_who_count__lose_nothing),
        MEMCACHE_TEST(debugtime__moves_expiries),
        MEMCACHE_TEST(flush_all__with_a_delay_comes_when_it_is_due),
        MEMCACHE_TEST(metadump__tells_of_every_object_once),
        MEMCACHE_TEST(stats_conns__tells_of_all_loops),
        MEMCACHE_TEST(stats_reset__begins_to_count_anew),
        MEMCACHE_TEST(watch__is_told_of_what_happens_on_every_loop),
        MEMCACHE_TEST(watch__may_be_refused),
        MEMCACHE_TEST(an_authentication_file__lets_in_whom_it_names),
        MEMCACHE_TEST(an_authentication_file__must_be_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
