/* A fuzzer of the network: streams of requests, valid and broken, are split, mixed with those of
 * other connections, and cut. However a stream is split, its answers are those to the unsplit one;
 * of one that was cut, the beginning of them; and once all have left nothing of them remains.
 *
 * GOBLIN_SEED replays (the kernel may still join pieces as it likes); GOBLIN_NETFUZZ_ROUNDS is how
 * many rounds there are, else a few seconds' worth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/netclient.h"
#include "lib/serve.h"
#include "server/http.h"
#include "server/memcache.h"

enum { STREAMS_MOST = 8, ROUNDS_MOST = 200, ENOUGH_MS = 4000 };

static struct gb_memcache *memcache;

struct round {
    struct gb_serve *serve;
    uint64_t seed;
    struct gb_rng rng;
    size_t count;
    struct gb_netstream streams[STREAMS_MOST];
    const char *addresses[STREAMS_MOST];
    struct gb_netclient whole[STREAMS_MOST]; /* what is answered to the unsplit streams */
    struct gb_netclient clients[STREAMS_MOST];
};

/* ---- the server ------------------------------------------------------------------------------ */

static int64_t wall_clock(void *arg)
{
    (void)arg;
    return 1700000000000; /* ages and dates are part of answers */
}

static int set_up(void **state)
{
    static const struct gb_http_options http_options = {.value_bytes = GB_NETSTREAM_VALUE_MAX + 1};
    static const struct gb_memcache_options options = {.value_max_bytes = GB_NETSTREAM_VALUE_MAX};
    static char paths[2][320];
    struct goblin_error error = {{0}};
    if (gb_serve_setup(state) != 0 || gb_memcache_create(&memcache, &options, &error) < 0) {
        return -1;
    }
    struct gb_serve *serve = *state;
    for (size_t i = 0; i < 4; i++) {
        bool http = i % 2 == 1;
        (void)snprintf(paths[i % 2], sizeof(paths[0]), "%s/%s", serve->root, http ? "http" : "mc");
        serve->options.listen[i] = (struct gb_server_listen){
            .protocol = http ? &gb_http_protocol : &gb_memcache_protocol,
            .options = http ? (const void *)&http_options : memcache,
            .address = i < 2 ? "127.0.0.1:0" : paths[i % 2],
        };
    }
    serve->options.listen_count = 4;
    /* Small, so that values of a few kilobytes stream, wait for budget and come from the device. */
    serve->options.store.residency = GOBLIN_RESIDENCY_FIXED;
    serve->options.store.head_bytes = 4096;
    serve->options.store.clock = wall_clock;
    serve->options.limits.network_bytes = 2 * GB_MIB;
    serve->options.limits.whole_bytes = 16384;
    serve->options.limits.output_bytes = 16384;
    serve->options.limits.turn_commands = 3;
    serve->options.limits.sends = 3;
    gb_serve_start(serve);
    return 0;
}

static int tear_down(void **state)
{
    int result = gb_serve_teardown(state);
    gb_memcache_destroy(memcache);
    return result;
}

/* The server still answers, and forgets all keys. */
static void ask_to_forget(struct gb_serve *serve)
{
    int fd = gb_client_open(serve);
    gb_client_say(fd, "flush_all\r\nmn\r\n");
    gb_client_expect(fd, "OK\r\nMN\r\n");
    (void)close(fd);
    fd = gb_client_open_at(gb_server_listener(serve->server, 1)->address);
    gb_client_say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    gb_client_expect(fd, "HTTP/1.1 200 ");
    (void)close(fd);
}

/* All have left: nothing that was taken for them may be missing. */
static void expect_nothing_left(struct gb_serve *serve)
{
    for (int i = 0; gb_serve_gauges(serve).connections > 0; i++) {
        gb_serve_advance(serve, 200); /* HTTP looks for who has left once a second */
        gb_await_step(i, "all connections are closed");
    }
    gb_await(gb_serve_gauges(serve).streams == 0);
    gb_await(gb_serve_gauges(serve).streams_waiting == 0);
    gb_await(gb_serve_gauges(serve).waiting == 0);
    gb_await(gb_serve_gauges(serve).network_bytes == gb_serve_pooled_bytes(serve));
}

/* ---- what is compared ------------------------------------------------------------------------ */

static void print_bytes(const char *what, const unsigned char *bytes, size_t len, size_t around)
{
    size_t from = around > 300 ? around - 300 : 0;
    print_error("%s, from %zu of %zu: ", what, from, len);
    for (size_t i = from; i < len && i < around + 100; i++) {
        bool plain = bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '\\';
        print_error(plain ? "%c" : "\\x%02x", bytes[i]);
    }
    print_error("\n");
}

static void compare(struct round *round, size_t number)
{
    const struct gb_netclient *const whole = &round->whole[number];
    struct gb_netclient *client = &round->clients[number];
    const struct gb_netstream *stream = client->stream;
    bool all = client->cut == GB_CUT_NOT;
    if (stream->http && stream->mutated) {
        return; /* how it is refused is libmicrohttpd's, and depends on when it notices */
    }
    client->answers_len =
        gb_netstream_normalise(client->answers, client->answers_len, stream->http, all);
    size_t least = gb_min(client->answers_len, whole->answers_len);
    size_t same = 0;
    while (same < least && client->answers[same] == whole->answers[same]) {
        same++;
    }
    if (same == client->answers_len && (!all || same == whole->answers_len)) {
        return;
    }
    print_bytes("unsplit", whole->answers, whole->answers_len, same);
    print_bytes("split", client->answers, client->answers_len, same);
    print_bytes("stream", stream->bytes, stream->len, 300);
    fail_msg("seed %llu: stream %zu (%s, %s), split %d, cut %d: answers differ at %zu",
             (unsigned long long)round->seed, number, round->addresses[number],
             stream->mutated ? "broken" : "valid", (int)client->split, (int)client->cut, same);
}

/* ---- a round --------------------------------------------------------------------------------- */

static void draw_streams(struct round *round)
{
    static const char letters[] = "adegijmn"; /* none a flag of the meta protocol */
    _Static_assert(sizeof(letters) - 1 == STREAMS_MOST, "a letter for each");
    round->count = 2 + (size_t)gb_rng_below(&round->rng, STREAMS_MOST - 1);
    for (size_t i = 0; i < round->count; i++) {
        size_t listener = (size_t)gb_rng_below(&round->rng, 4);
        round->addresses[i] = gb_server_listener(round->serve->server, listener)->address;
        gb_netstream_make(&round->streams[i], &round->rng, listener % 2 == 1, letters[i]);
    }
}

static void send_unsplit(struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        struct gb_netclient *client = &round->whole[i];
        gb_netclient_open(client, &round->streams[i], round->addresses[i]);
        gb_netclient_run(client, 1, &round->rng);
        client->answers_len = gb_netstream_normalise(client->answers, client->answers_len,
                                                     client->stream->http, true);
    }
}

static void send_split(struct round *round, bool cuts)
{
    for (size_t i = 0; i < round->count; i++) {
        gb_netclient_open(&round->clients[i], &round->streams[i], round->addresses[i]);
        gb_netclient_draw(&round->clients[i], &round->rng, cuts);
    }
    gb_netclient_run(round->clients, round->count, &round->rng);
    for (size_t i = 0; i < round->count; i++) {
        compare(round, i);
    }
    for (size_t i = 0; i < round->count; i++) {
        gb_netclient_fini(&round->clients[i]);
    }
}

static void play(struct gb_serve *serve, uint64_t seed)
{
    static struct round round;
    round = (struct round){.serve = serve, .seed = seed};
    gb_rng_init(&round.rng, seed);
    draw_streams(&round);
    ask_to_forget(serve);
    send_unsplit(&round);
    ask_to_forget(serve);
    send_split(&round, false);
    ask_to_forget(serve);
    send_split(&round, true);
    for (size_t i = 0; i < round.count; i++) {
        gb_netclient_fini(&round.whole[i]);
        gb_netstream_fini(&round.streams[i]);
    }
    expect_nothing_left(serve);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void streams__are_answered_alike_however_they_are_split(void **state)
{
    const char *seed_text = getenv("GOBLIN_SEED");
    const char *rounds_text = getenv("GOBLIN_NETFUZZ_ROUNDS");
    int64_t began_ms = now_ms();
    uint64_t seed =
        seed_text != NULL ? strtoull(seed_text, NULL, 10) : gb_rng_mix((uint64_t)began_ms) >> 32;
    uint64_t rounds = rounds_text != NULL ? strtoull(rounds_text, NULL, 10) : ROUNDS_MOST;
    print_message("GOBLIN_SEED=%llu\n", (unsigned long long)seed);
    uint64_t done = 0;
    for (; done < rounds && (rounds_text != NULL || now_ms() - began_ms < ENOUGH_MS); done++) {
        play(*state, seed + done);
    }
    print_message("%llu rounds\n", (unsigned long long)done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(streams__are_answered_alike_however_they_are_split, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("netfuzz", tests, NULL, NULL);
}
