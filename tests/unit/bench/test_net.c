/* What goblin-bench net computes from made-up figures; its options, sets and command lines. */
#include "bench/net.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "bench/scratch.h"
#include "lib/arguments.h"

/* ---- the command line ---------------------------------------------------------------------- */

static int parse(struct gb_net_options *options, struct goblin_error *error, const char *line)
{
    static struct gb_arguments arguments;
    char text[256];
    (void)snprintf(text, sizeof(text), "net %s", line);
    gb_arguments_split(&arguments, text);
    error->text[0] = '\0';
    return gb_net_options_parse(options, arguments.argc, arguments.argv, error);
}

static void net_options__have_defaults_and_limits(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"--out b", "--dir"},
        {"--dir a --cases small,", "\"\" is no case"},
        {"--dir a --cases smal", "\"smal\" is no case"},
        {"--dir a --cases small,ram,small", "twice"},
        {"--dir a --peers goblin,apache", "apache"},
        {"--dir a --threads 2 --connections 1", "--connections"},
        {"--dir a --pin --threads 60 --server-threads 60 --connections 60", "--pin"},
        {"--dir a --depth 5000", "--depth"},
    };
    struct gb_net_options options;
    struct goblin_error error;
    assert_int_equal(parse(&options, &error, "--dir a --peers goblin,extstore"), 0);
    size_t count = 0;
    const struct gb_net_case *all = gb_net_cases(&count);
    assert_int_equal(options.case_count, count);
    assert_ptr_equal(options.cases[count - 1], &all[count - 1]);
    assert_string_equal(options.peers, "goblin,extstore");
    assert_string_equal(options.command, "goblin-bench net --dir a --peers goblin,extstore");
    assert_int_equal(options.connections, 16);
    assert_int_equal(parse(&options, &error, "--dir a --cases ram,small"), 0);
    assert_int_equal(options.case_count, 2);
    assert_string_equal(options.cases[0]->name, "ram");
    assert_int_equal(parse(&options, &error, "--list"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(&options, &error, bad[i][0]), -EINVAL);
        assert_non_null(strstr(error.text, bad[i][1]));
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

static struct gb_net net;
static struct gb_net_tally tally;

static void forget_rows(void)
{
    for (size_t i = 0; i < net.row_count; i++) {
        free(net.rows[i]);
    }
    net = (struct gb_net){0};
}

static struct gb_net_row *turn(const char *peer, uint64_t gets, uint64_t bytes, double seconds)
{
    struct gb_net_row *row = gb_net_row(&net, "some", "get", peer);
    assert_non_null(row);
    gb_net_tally_init(&tally);
    tally.requests = gets;
    tally.asked = gets;
    tally.hits = gets;
    tally.got_bytes = bytes;
    tally.seconds = seconds;
    gb_net_row_add(row, &tally, 0.5, gets);
    return row;
}

static void row__sums_turns_and_keeps_their_extremes(void **state)
{
    (void)state;
    struct gb_net_row *row = turn("memcached", 1000, GB_MIB, 1);
    assert_ptr_equal(turn("memcached", 3000, GB_MIB, 1), row);
    assert_int_equal(net.row_count, 1);
    assert_int_equal(row->turns, 2);
    assert_true(row->ops_least == 1000 && row->ops_most == 3000);
    assert_true(gb_net_row_ops(row) == 2000);
    assert_true(gb_net_row_mib_s(row) == 1);
    assert_true(fabs(gb_net_row_cpu_us(row) - 250) < 1e-9);
    assert_int_equal(row->rss_bytes, 3000);
    forget_rows();
}

static void ratio__is_of_requests_where_values_are_small_and_of_bytes_where_not(void **state)
{
    (void)state;
    const struct gb_net_row *other = turn("memcached", 1000, 1000 * GB_KIB, 1);
    assert_true(gb_net_row_ratio(&net, other) == 0);
    const struct gb_net_row *ours = turn("goblin", 3000, 1000 * GB_KIB, 1);
    assert_true(gb_net_row_ratio(&net, other) == 3);
    assert_true(gb_net_row_ratio(&net, ours) == 0);
    forget_rows();
    /* Twice the requests, most of which a shedding peer missed, but half the bytes. */
    turn("goblin", 1000, 1000 * GB_MIB, 1);
    other = turn("extstore", 2000, 500 * GB_MIB, 1);
    assert_true(gb_net_row_ratio(&net, other) == 2);
    forget_rows();
}

static void run__is_void_with_wrong_values_or_losses_of_ours(void **state)
{
    (void)state;
    struct gb_net_row *other = turn("extstore", 10, 10, 1);
    struct gb_net_row *ours = turn("goblin", 10, 10, 1);
    other->lost = 5;
    assert_false(gb_net_is_void(&net));
    ours->lost = 1;
    assert_true(gb_net_is_void(&net));
    ours->lost = 0;
    other->tally.wrong = 1;
    assert_true(gb_net_is_void(&net));
    other->tally.wrong = 0;
    other->tally.errors = 1;
    assert_true(gb_net_is_void(&net));
    forget_rows();
}

/* ---- sets and peers ------------------------------------------------------------------------ */

static void set__spreads_sizes_and_is_written_as_files(void **state)
{
    (void)state;
    char dir[] = "/tmp/goblin-net-XXXXXX";
    char path[128];
    char key[GB_CORPUS_KEY_MAX];
    struct goblin_error error;
    struct gb_net_set set;
    const struct gb_net_set_options options = {
        .total_bytes = 4 * GB_MIB,
        .least_bytes = 1000,
        .most_bytes = 100000,
        .seed = 3,
    };
    assert_non_null(mkdtemp(dir));
    assert_int_equal(gb_net_set_init(&set, &options, &error), 0);
    assert_in_range(set.corpus.total_bytes, 4 * GB_MIB, 4 * GB_MIB + 100000);
    assert_int_equal(set.schedule.count, 100000);
    assert_int_equal(gb_net_set_write(&set, dir, &error), 0);
    assert_int_equal(gb_net_set_forget(&set, dir, &error), 0);
    for (uint64_t i = 0; i < set.corpus.count; i++) {
        static unsigned char bytes[100001];
        size_t len = gb_corpus_key(&set.corpus, i, key);
        snprintf(path, sizeof(path), "%s/%.*s", dir, (int)len, key);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_in_range(set.corpus.sizes[i], 1000, 100000);
        assert_int_equal(fread(bytes, 1, sizeof(bytes), file), set.corpus.sizes[i]);
        assert_true(
            gb_payload_verify(&set.payload, i, set.corpus.sizes[i], 0, bytes, set.corpus.sizes[i]));
        fclose(file);
    }
    gb_net_set_fini(&set);
    gb_net_set_fini(&set);
    gb_scratch_remove(dir);
}

static void set__of_nothing_is_refused(void **state)
{
    (void)state;
    struct goblin_error error;
    struct gb_net_set set;
    const struct gb_net_set_options options = {.least_bytes = 1, .most_bytes = 1};
    assert_int_equal(gb_net_set_init(&set, &options, &error), -EINVAL);
}

static bool has_words(const struct gb_net_argv *argv, const char *first, const char *second)
{
    for (size_t i = 0; i + 1 < argv->count; i++) {
        if (strcmp(argv->words[i], first) == 0 && strcmp(argv->words[i + 1], second) == 0) {
            return argv->words[argv->count] == NULL;
        }
    }
    return false;
}

/* What memcached 1.6.18 demands: an item's most is a multiple of its chunks, and a page one of the
 * write buffers, which hold the largest item. */
static void extstore__is_given_sizes_that_memcached_accepts(void **state)
{
    (void)state;
    struct goblin_error error;
    const struct gb_net_server server = {.name = "extstore", .port = 4711, .dir = "/d"};
    struct gb_net_plan plan = {
        .memory_bytes = 256 * GB_MIB,
        .store_bytes = GB_GIB,
        .value_bytes = 8 * GB_MIB,
        .threads = 3,
    };
    struct gb_net_argv argv = {.count = 0};
    assert_int_equal(gb_net_peer_find("extstore")->command(&plan, &server, &argv, &error), 0);
    assert_true(has_words(&argv, "-I", "9437184"));
    assert_true(has_words(&argv, "-m", "256"));
    assert_true(has_words(&argv, "-p", "4711"));
    assert_true(has_words(&argv, "-t", "3"));
    assert_true(has_words(&argv, "-o", "ext_path=/d/extstore:1024M,ext_wbuf_size=16"));
    plan.value_bytes = 1024;
    argv = (struct gb_net_argv){.count = 0};
    assert_int_equal(gb_net_peer_find("extstore")->command(&plan, &server, &argv, &error), 0);
    assert_true(has_words(&argv, "-I", "1048576"));
    assert_true(has_words(&argv, "-o", "ext_path=/d/extstore:1024M,ext_wbuf_size=4"));
    assert_null(gb_net_peer_find("squid"));
}

static void server__that_does_not_start_leaves_its_last_words(void **state)
{
    (void)state;
    char dir[] = "/tmp/goblin-net-XXXXXX";
    struct goblin_error error;
    struct gb_net_argv argv = {.count = 0};
    struct gb_net_server server = {.name = "some"};
    assert_non_null(mkdtemp(dir));
    snprintf(server.dir, sizeof(server.dir), "%s", dir);
    assert_int_equal(gb_net_server_port(&server.port, &error), 0);
    gb_net_argv_add(&argv, "/bin/sh");
    gb_net_argv_add(&argv, "-c");
    gb_net_argv_add(&argv, "echo begun; echo no %s >&2; exit 3", "room");
    assert_int_equal(gb_net_server_start(&server, &argv, 0, &error), -ECHILD);
    assert_string_equal(error.text, "some ended before it listened: no room");
    assert_int_equal(server.pid, 0);
    assert_int_equal(gb_net_server_stop(&server), 0);
    gb_scratch_remove(dir);
}

/* ---- the null server and the wire ---------------------------------------------------------- */

static void start_null(struct gb_net_server *server, const struct gb_net_null *null, char *dir)
{
    struct goblin_error error = {{0}};
    assert_non_null(mkdtemp(dir));
    server->name = "null";
    server->own = gb_net_null_serve;
    server->own_arg = null;
    snprintf(server->dir, sizeof(server->dir), "%s", dir);
    assert_int_equal(gb_net_server_port(&server->port, &error), 0);
    if (gb_net_server_start(server, NULL, 0, &error) < 0) {
        fail_msg("%s", error.text);
    }
}

static void get_all(const struct gb_net_set *set, const struct gb_net_server *server)
{
    struct goblin_error error = {{0}};
    const struct gb_net_load load = {
        .set = set,
        .protocol = GB_NET_HTTP,
        .host = gb_net_server_host(server),
        .port = server->port,
        .threads = 1,
        .connections = 1,
        .depth = 3,
        .in_turn = true,
        .whole = true,
        .first_core = -1,
    };
    if (gb_net_load_run(&load, &tally, &error) < 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(tally.hits, set->corpus.count);
    assert_int_equal(tally.got_bytes, set->corpus.total_bytes);
    assert_int_equal(tally.wrong + tally.errors + tally.unanswered, 0);
}

static void null_set(struct gb_net_set *set)
{
    struct goblin_error error;
    const struct gb_net_set_options options = {
        .count = 20, .least_bytes = 10, .most_bytes = 600000, .seed = 9};
    assert_int_equal(gb_net_set_init(set, &options, &error), 0);
}

static void null_server__answers_every_key_with_the_headers_it_was_given(void **state)
{
    (void)state;
    char dir[] = "/tmp/goblin-net-XXXXXX";
    struct gb_net_set set;
    static struct gb_net_null null;
    static struct gb_net_null second;
    struct gb_net_usage usage;
    struct gb_net_server server = {.pid = 0};
    struct goblin_error error;
    null_set(&set);
    assert_int_equal(gb_net_null_init(&null, &set, NULL, &error), 0);
    strcpy(null.before, "HTTP/1.1 200 OK\r\nServer: some\r\ncontent-length: ");
    strcpy(null.after, "\r\nETag: \"1\"\r\n\r\n");
    start_null(&server, &null, dir);
    get_all(&set, &server);
    assert_int_equal(gb_net_null_init(&second, &set, &server, &error), 0);
    assert_string_equal(second.before, null.before);
    assert_string_equal(second.after, null.after);
    assert_int_equal(gb_net_server_usage(&server, &usage), 0);
    assert_true(usage.rss_bytes > 0);
    char how[32];
    assert_false(gb_net_server_has_ended(&server, how));
    assert_int_equal(gb_net_server_stop(&server), 0);
    gb_net_set_fini(&set);
    gb_scratch_remove(dir);
}

static void server__that_is_killed_is_found_out(void **state)
{
    (void)state;
    char dir[] = "/tmp/goblin-net-XXXXXX";
    char how[32] = "";
    struct gb_net_set set;
    static struct gb_net_null null;
    struct gb_net_server server = {.pid = 0};
    struct goblin_error error;
    null_set(&set);
    assert_int_equal(gb_net_null_init(&null, &set, NULL, &error), 0);
    start_null(&server, &null, dir);
    kill(server.pid, SIGKILL);
    while (!gb_net_server_has_ended(&server, how)) {
    }
    assert_string_equal(how, "by signal 9");
    assert_int_equal(gb_net_server_stop(&server), 0);
    assert_false(gb_net_server_has_ended(&server, how));
    gb_net_set_fini(&set);
    gb_scratch_remove(dir);
}

static void wire__carries_no_more_than_its_rate_and_is_gone_when_closed(void **state)
{
    (void)state;
    enum { RATE_BPS = 100 * 1000 * 1000 };
    char dir[] = "/tmp/goblin-net-XXXXXX";
    char before[64];
    char after[64];
    struct gb_net_set set;
    static struct gb_net_null null;
    struct gb_net_server server = {.host = GB_NET_WIRE_SERVER};
    struct gb_net_wire wire;
    struct goblin_error error = {{0}};
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    assert_true(readlink("/proc/thread-self/ns/net", before, sizeof(before) - 1) > 0);
    if (gb_net_wire_open(&wire, RATE_BPS, &error) < 0) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
    server.netns = wire.server;
    null_set(&set);
    assert_int_equal(gb_net_null_init(&null, &set, NULL, &error), 0);
    start_null(&server, &null, dir);
    get_all(&set, &server);
    assert_true(tally.seconds >= 0.95 * 8 * (double)set.corpus.total_bytes / RATE_BPS);
    assert_int_equal(gb_net_server_stop(&server), 0);
    gb_net_wire_close(&wire);
    assert_true(readlink("/proc/thread-self/ns/net", after, sizeof(after) - 1) > 0);
    assert_string_equal(after, before);
    gb_net_set_fini(&set);
    gb_scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_options__have_defaults_and_limits),
        cmocka_unit_test(row__sums_turns_and_keeps_their_extremes),
        cmocka_unit_test(ratio__is_of_requests_where_values_are_small_and_of_bytes_where_not),
        cmocka_unit_test(run__is_void_with_wrong_values_or_losses_of_ours),
        cmocka_unit_test(set__spreads_sizes_and_is_written_as_files),
        cmocka_unit_test(set__of_nothing_is_refused),
        cmocka_unit_test(extstore__is_given_sizes_that_memcached_accepts),
        cmocka_unit_test(server__that_does_not_start_leaves_its_last_words),
        cmocka_unit_test(null_server__answers_every_key_with_the_headers_it_was_given),
        cmocka_unit_test(server__that_is_killed_is_found_out),
        cmocka_unit_test(wire__carries_no_more_than_its_rate_and_is_gone_when_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
