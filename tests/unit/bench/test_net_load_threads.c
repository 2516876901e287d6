/* The load generator against a server of the test's own, which stalls and errs on demand. */
#include "bench/net_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/net.h"

enum { OBJECTS = 40, CONNECTIONS_MAX = 64, LINE_BYTES = 4096, STALL_MS = 300 };

enum fault { NONE, STALL_ONCE, WRONG_BYTE, WRONG_LENGTH, FORGETFUL, FULL, NONSENSE, HANGS_UP };

/* One thread accepts and one serves each connection; `lock` is held while a request is answered,
 * so that a stall holds up all. */
struct fake {
    int listener;
    uint16_t port;
    const struct gb_net_set *set;
    enum fault fault;
    _Atomic uint64_t requests; /* relaxed: a count */
    pthread_mutex_t lock;
    pthread_t acceptor;
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX];
    unsigned count;
};

static struct fake fake;
static struct gb_net_set set;
static struct gb_net_tally tally;

/* ---- the server ---------------------------------------------------------------------------- */

static uint64_t object_of(const char *key)
{
    for (uint64_t i = 0; i < set.corpus.count; i++) {
        char own[GB_CORPUS_KEY_MAX];
        size_t len = gb_corpus_key(&set.corpus, i, own);
        if (strlen(key) == len && memcmp(own, key, len) == 0) {
            return i;
        }
    }
    fail_msg("\"%s\" is no key", key);
    return 0;
}

static void answer_key(FILE *out, struct gb_payload_window *window, const char *key)
{
    uint64_t object = object_of(key);
    uint64_t size = set.corpus.sizes[object];
    const unsigned char *value = gb_payload_window_prepare(window, object, size, 0, size);
    if (fake.fault == FORGETFUL && object % 2 == 0) {
        return;
    }
    uint64_t sent = fake.fault == WRONG_LENGTH ? size - 1 : size;
    fprintf(out, "VALUE %s 0 %llu\r\n", key, (unsigned long long)sent);
    if (fake.fault == WRONG_BYTE) {
        fputc(value[0] ^ 1, out);
        fwrite(value + 1, 1, (size_t)sent - 1, out);
    } else {
        fwrite(value, 1, (size_t)sent, out);
    }
    fputs("\r\n", out);
}

static void answer_set(FILE *in, FILE *out, const char *key, const char *bytes)
{
    uint64_t object = object_of(key);
    size_t size = (size_t)strtoull(bytes, NULL, 10);
    unsigned char *value = malloc(size + 2);
    if (!value || fread(value, 1, size + 2, in) != size + 2) {
        fail_msg("a set of %zu bytes did not come whole", size);
        return;
    }
    bool good = memcmp(value + size, "\r\n", 2) == 0 && size == set.corpus.sizes[object] &&
                gb_payload_verify(&set.payload, object, size, 0, value, size);
    free(value);
    fputs(!good                ? "CLIENT_ERROR bad value\r\n"
          : fake.fault == FULL ? "SERVER_ERROR out of memory storing object\r\n"
                               : "STORED\r\n",
          out);
}

/* False: the connection is to be closed. */
static bool answer(FILE *in, FILE *out, struct gb_payload_window *window, char *line)
{
    char *rest = NULL;
    const char *verb = strtok_r(line, " \r\n", &rest);
    uint64_t number = atomic_fetch_add(&fake.requests, 1);
    if (fake.fault == STALL_ONCE && number == 100) {
        const struct timespec stall = {.tv_nsec = STALL_MS * 1000000L};
        nanosleep(&stall, NULL);
    }
    if (fake.fault == HANGS_UP && number % 10 == 9) {
        return false;
    }
    if (fake.fault == NONSENSE && number % 10 == 9) {
        fputs("WHATEVER\r\n", out);
    } else if (verb && strcmp(verb, "get") == 0) {
        for (char *key = strtok_r(NULL, " \r\n", &rest); key;
             key = strtok_r(NULL, " \r\n", &rest)) {
            answer_key(out, window, key);
        }
        fputs("END\r\n", out);
    } else {
        const char *key = strtok_r(NULL, " \r\n", &rest);
        (void)strtok_r(NULL, " ", &rest);
        (void)strtok_r(NULL, " ", &rest);
        answer_set(in, out, key, strtok_r(NULL, " \r\n", &rest));
    }
    return fflush(out) == 0;
}

static void *serve(void *arg)
{
    int fd = *(const int *)arg;
    char line[LINE_BYTES];
    struct gb_payload_window window;
    FILE *in = fdopen(dup(fd), "r");
    FILE *out = fdopen(dup(fd), "w");
    bool good = in && out && gb_payload_window_open(&window, &set.payload) == 0;
    assert_true(good);
    while (good && fgets(line, sizeof(line), in)) {
        pthread_mutex_lock(&fake.lock);
        good = answer(in, out, &window, line);
        pthread_mutex_unlock(&fake.lock);
    }
    shutdown(fd, SHUT_RDWR);
    gb_payload_window_close(&window);
    fclose(in);
    fclose(out);
    return NULL;
}

static void *accept_all(void *arg)
{
    (void)arg;
    while (fake.count < CONNECTIONS_MAX) {
        int fd = accept(fake.listener, NULL, NULL);
        if (fd < 0) {
            return NULL; /* shut down */
        }
        fake.fds[fake.count] = fd;
        assert_int_equal(
            pthread_create(&fake.threads[fake.count], NULL, serve, &fake.fds[fake.count]), 0);
        fake.count++;
    }
    return NULL;
}

static void fake_start(enum fault fault)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    fake = (struct fake){.fault = fault};
    pthread_mutex_init(&fake.lock, NULL);
    fake.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fake.listener >= 0);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake.listener, CONNECTIONS_MAX), 0);
    assert_int_equal(getsockname(fake.listener, (struct sockaddr *)&address, &len), 0);
    fake.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&fake.acceptor, NULL, accept_all, NULL), 0);
}

static void fake_stop(void)
{
    shutdown(fake.listener, SHUT_RDWR);
    pthread_join(fake.acceptor, NULL);
    for (unsigned i = 0; i < fake.count; i++) {
        pthread_join(fake.threads[i], NULL);
        close(fake.fds[i]);
    }
    close(fake.listener);
    pthread_mutex_destroy(&fake.lock);
}

/* ---- tests --------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    struct goblin_error error;
    const struct gb_net_set_options options = {
        .count = OBJECTS,
        .least_bytes = 100,
        .most_bytes = 200 << 10,
        .zipf = 0.9,
        .requests = 1000,
        .seed = 4711,
    };
    print_message("seed %d\n", 4711);
    return gb_net_set_init(&set, &options, &error);
}

static int teardown(void **state)
{
    (void)state;
    gb_net_set_fini(&set);
    return 0;
}

static struct gb_net_load plain(void)
{
    return (struct gb_net_load){
        .set = &set,
        .port = fake.port,
        .threads = 2,
        .connections = 5,
        .depth = 3,
        .in_turn = true,
        .whole = true,
        .first_core = -1,
        .seed = 1,
    };
}

static void run(const struct gb_net_load *load)
{
    struct goblin_error error = {{0}};
    int rc = gb_net_load_run(load, &tally, &error);
    if (rc < 0) {
        fail_msg("%s", error.text);
    }
}

static void load__sets_and_gets_every_object_once_in_turn(void **state)
{
    (void)state;
    fake_start(NONE);
    struct gb_net_load load = plain();
    load.set_share = 1;
    run(&load);
    assert_int_equal(tally.sets, OBJECTS);
    assert_int_equal(tally.stored, OBJECTS);
    assert_int_equal(tally.errors, 0);
    assert_int_equal(tally.set_bytes, set.corpus.total_bytes);
    assert_int_equal(tally.set_ns.count, OBJECTS);
    load.set_share = 0;
    run(&load);
    assert_int_equal(tally.hits, OBJECTS);
    assert_int_equal(tally.got_bytes, set.corpus.total_bytes);
    assert_int_equal(tally.wrong + tally.misses + tally.unanswered, 0);
    assert_true(gb_histogram_mean(&tally.first_ns) <= gb_histogram_mean(&tally.get_ns));
    fake_stop();
}

static void load__counts_what_it_was_told_to_and_follows_the_schedule(void **state)
{
    (void)state;
    fake_start(NONE);
    struct gb_net_load load = plain();
    load.in_turn = false;
    load.whole = false;
    load.requests = 1500; /* the schedule has 1,000: it is a ring */
    load.first = 7;
    run(&load);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < 1500; i++) {
        bytes += set.corpus.sizes[set.schedule.objects[(7 + i) % set.schedule.count]];
    }
    assert_int_equal(tally.requests, 1500);
    assert_int_equal(tally.hits, 1500);
    assert_int_equal(tally.got_bytes, bytes);
    fake_stop();
}

static void load__tells_missing_keys_of_a_multiget_from_those_found(void **state)
{
    (void)state;
    fake_start(FORGETFUL);
    struct gb_net_load load = plain();
    load.keys = 7;
    run(&load);
    assert_int_equal(tally.asked, OBJECTS);
    assert_int_equal(tally.hits, OBJECTS / 2);
    assert_int_equal(tally.misses, OBJECTS / 2);
    assert_int_equal(tally.wrong, 0);
    fake_stop();
}

static void load__sets_again_what_it_missed_if_it_is_told_to(void **state)
{
    (void)state;
    fake_start(FORGETFUL);
    struct gb_net_load load = plain();
    load.refills = true;
    run(&load);
    assert_int_equal(tally.asked, OBJECTS);
    assert_int_equal(tally.misses, OBJECTS / 2);
    /* The last misses come when nothing more is to be sent. */
    assert_in_range(tally.refilled, 1, OBJECTS / 2);
    assert_int_equal(tally.sets + tally.set_bytes + tally.errors, 0);
    fake_stop();
}

static void load__finds_wrong_values_whether_it_compares_all_or_only_ends(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        fake_start(round % 2 ? WRONG_LENGTH : WRONG_BYTE);
        struct gb_net_load load = plain();
        load.whole = round / 2 == 0;
        run(&load);
        assert_int_equal(tally.wrong, OBJECTS);
        fake_stop();
    }
}

static void load__counts_refusals_apart_from_what_was_stored(void **state)
{
    (void)state;
    fake_start(FULL);
    struct gb_net_load load = plain();
    load.set_share = 1;
    run(&load);
    assert_int_equal(tally.sets, OBJECTS);
    assert_int_equal(tally.stored, 0);
    assert_int_equal(tally.refused, OBJECTS);
    assert_int_equal(tally.set_ns.count, 0);
    fake_stop();
}

static void load__goes_on_with_a_new_connection_when_one_is_lost(void **state)
{
    (void)state;
    static const enum fault faults[] = {HANGS_UP, NONSENSE};
    for (size_t i = 0; i < 2; i++) {
        fake_start(faults[i]);
        struct gb_net_load load = plain();
        load.threads = 1;
        load.connections = 2;
        load.depth = 1;
        run(&load);
        assert_true(tally.broken > 0);
        assert_int_equal(tally.broken, tally.unanswered);
        assert_int_equal(tally.errors, faults[i] == NONSENSE ? tally.broken : 0);
        assert_int_equal(tally.hits + tally.unanswered, OBJECTS);
        fake_stop();
    }
}

/* At 1,000 a second about 300 requests fall due while the server stalls for 300 ms. Two
 * connections can hold only two of them; the others are late, and each one's time must say so. */
static void open_loop__charges_a_stall_to_every_request_that_was_due(void **state)
{
    (void)state;
    enum { RATE = 1000, LATE_ENOUGH = 100 };
    fake_start(STALL_ONCE);
    struct gb_net_load load = plain();
    load.threads = 1;
    load.connections = 2;
    load.depth = 1;
    load.in_turn = false;
    load.rate_per_s = RATE;
    load.requests = 600;
    run(&load);
    assert_int_equal(tally.requests, 600);
    assert_true(tally.late >= 2 * LATE_ENOUGH);
    /* A quarter of all waited for half the stall and more, as users see it ... */
    assert_true(gb_histogram_quantile(&tally.get_ns, 0.84) >= 150e6);
    /* ... while the server's own view, from when they were sent, shows only two of them. */
    assert_true(gb_histogram_quantile(&tally.sent_ns, 1) >= STALL_MS * 1e6);
    assert_true(gb_histogram_mean(&tally.sent_ns) < gb_histogram_mean(&tally.get_ns));
    fake_stop();
}

static void open_loop__keeps_its_rate(void **state)
{
    (void)state;
    fake_start(NONE);
    struct gb_net_load load = plain();
    load.in_turn = false;
    load.rate_per_s = 500;
    load.requests = 250;
    run(&load);
    assert_int_equal(tally.requests, 250);
    /* The last one is due after 0.498 s and cannot be sent earlier. */
    assert_true(tally.seconds >= 0.498);
    fake_stop();
}

static void load__says_that_nobody_listens(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    fake_start(NONE);
    const struct gb_net_load load = plain();
    fake_stop();
    assert_int_equal(gb_net_load_run(&load, &tally, &error), -ECONNREFUSED);
    assert_non_null(strstr(error.text, "refused"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load__sets_and_gets_every_object_once_in_turn),
        cmocka_unit_test(load__counts_what_it_was_told_to_and_follows_the_schedule),
        cmocka_unit_test(load__tells_missing_keys_of_a_multiget_from_those_found),
        cmocka_unit_test(load__sets_again_what_it_missed_if_it_is_told_to),
        cmocka_unit_test(load__finds_wrong_values_whether_it_compares_all_or_only_ends),
        cmocka_unit_test(load__counts_refusals_apart_from_what_was_stored),
        cmocka_unit_test(load__goes_on_with_a_new_connection_when_one_is_lost),
        cmocka_unit_test(open_loop__charges_a_stall_to_every_request_that_was_due),
        cmocka_unit_test(open_loop__keeps_its_rate),
        cmocka_unit_test(load__says_that_nobody_listens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
