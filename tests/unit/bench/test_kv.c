/* Keys, values, popularity, options and reports of kv, each by itself. */
#include "bench/kv.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"

enum { KEY_BYTES = 20, VALUE_BYTES = 400, ARGUMENTS_MAX = 32 };

/* ---- keys and values ----------------------------------------------------------------------- */

static int values_setup(void **state)
{
    static struct gb_kv_values values;
    *state = &values;
    return gb_kv_values_init(&values, KEY_BYTES, VALUE_BYTES, 0.5, 1);
}

static int values_teardown(void **state)
{
    gb_kv_values_fini(*state);
    return 0;
}

static void kv_values__have_keys_in_the_order_of_their_numbers(void **state)
{
    static const uint64_t numbers[] = {0, 1, 255, 256, 65535, 1 << 20, UINT64_C(1) << 40};
    const struct gb_kv_values *values = *state;
    unsigned char before[KEY_BYTES] = {0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        unsigned char key[KEY_BYTES];
        uint64_t number = 0;
        gb_kv_values_key(values, numbers[i], key);
        assert_true(gb_kv_values_number(values, (struct gb_kv_bytes){key, KEY_BYTES}, &number));
        assert_int_equal(number, numbers[i]);
        assert_true(memcmp(before, key, KEY_BYTES) < 0);
        memcpy(before, key, KEY_BYTES);
        assert_false(
            gb_kv_values_number(values, (struct gb_kv_bytes){key, KEY_BYTES - 1}, &number));
        key[KEY_BYTES - 1] = '1';
        assert_false(gb_kv_values_number(values, (struct gb_kv_bytes){key, KEY_BYTES}, &number));
    }
}

static void kv_values__know_every_byte_of_a_version(void **state)
{
    const struct gb_kv_values *values = *state;
    unsigned char value[VALUE_BYTES];
    const struct gb_kv_bytes bytes = {value, VALUE_BYTES};
    uint32_t version = 0;
    gb_kv_values_make(values, 77, 5, value);
    assert_true(gb_kv_values_version(values, 77, bytes, &version));
    assert_int_equal(version, 5);
    assert_false(gb_kv_values_version(values, 78, bytes, &version));
    assert_false(
        gb_kv_values_version(values, 77, (struct gb_kv_bytes){value, VALUE_BYTES - 1}, &version));
    for (size_t i = 0; i < VALUE_BYTES; i++) {
        value[i] ^= 0x40;
        assert_false(gb_kv_values_version(values, 77, bytes, &version));
        value[i] ^= 0x40;
    }
}

static void kv_values__repeat_what_a_compressor_is_to_find(void **state)
{
    enum { STRETCH = 100, HALF = 50 };
    const struct gb_kv_values *values = *state;
    assert_memory_equal(values->pool, values->pool + HALF, HALF);
    assert_memory_not_equal(values->pool, values->pool + STRETCH, HALF);
}

static void kv_values_scatter__is_an_order_of_all_numbers(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 10, 64, 1000, 4097};
    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        uint64_t count = counts[c];
        uint64_t in_place = 0;
        bool *seen = calloc(count, sizeof(*seen));
        assert_non_null(seen);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t number = gb_kv_values_scatter(i, count, 7);
            assert_true(number < count);
            assert_false(seen[number]);
            seen[number] = true;
            in_place += number == i;
        }
        assert_true(count < 10 || in_place < count / 2);
        free(seen);
    }
}

static void kv_zipf__gives_ranks_their_share(void **state)
{
    enum { COUNT = 1000, DRAWS = 200000 };
    (void)state;
    struct gb_kv_zipf zipf;
    struct gb_rng rng;
    static uint64_t drawn[COUNT];
    double zeta = 0;
    gb_rng_init(&rng, 3);
    gb_kv_zipf_init(&zipf, COUNT, 0.99);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t rank = gb_kv_zipf_rank(&zipf, gb_rng_unit(&rng));
        assert_true(rank < COUNT);
        drawn[rank]++;
    }
    for (int i = 1; i <= COUNT; i++) {
        zeta += pow(i, -0.99);
    }
    assert_true(fabs((double)drawn[0] / DRAWS - 1 / zeta) < 0.01);
    assert_true(fabs((double)drawn[1] / DRAWS - pow(2, -0.99) / zeta) < 0.01);
    assert_true(drawn[0] > drawn[9] && drawn[9] > drawn[300]);
    gb_kv_zipf_init(&zipf, 1, 0.5);
    assert_int_equal(gb_kv_zipf_rank(&zipf, 0.999), 0);
}

/* ---- the command line ---------------------------------------------------------------------- */

static int parse(struct gb_kv_options *options, struct goblin_error *error, const char *line)
{
    static char text[256];
    char *argv[ARGUMENTS_MAX] = {(char[]){"kv"}};
    int argc = 1;
    char *rest = NULL;
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    error->text[0] = '\0';
    return gb_kv_options_parse(options, argc, argv, error);
}

static void kv_options__have_the_published_defaults(void **state)
{
    static const char *const steps[] = {"fillseq",    "overwritesome", "revrangeww",
                                        "fwdrangeww", "readww",        "overwrite"};
    (void)state;
    struct gb_kv_options options;
    struct goblin_error error;
    assert_int_equal(parse(&options, &error, "--dir a"), 0);
    assert_int_equal(options.key_bytes, 20);
    assert_int_equal(options.value_bytes, 400);
    assert_int_equal(options.range, 10);
    assert_int_equal(options.write_rate, 2 << 20);
    assert_int_equal(options.threads, 1);
    assert_int_equal(options.workload_count, GB_KV_WORKLOADS);
    assert_int_equal(options.step_count, sizeof(steps) / sizeof(steps[0]));
    for (size_t i = 0; i < options.step_count; i++) {
        assert_string_equal(options.steps[i]->name, steps[i]);
    }
    assert_int_equal(gb_kv_options_memory(&options, GB_KV_BYRX), 1260000000);
    assert_int_equal(gb_kv_options_memory(&options, GB_KV_IODIR), 336000000);
}

static void kv_options__take_lists_and_builds(void **state)
{
    (void)state;
    struct gb_kv_options options;
    struct goblin_error error;
    assert_int_equal(parse(&options, &error,
                           "--dir a --engines rocksdb --workload iodir,iodir --memory 9M "
                           "--steps fillrandom,ycsba,ycsba --rocksdb-lib lto=/x/lib.so "
                           "--rocksdb-lib /y/a=b.so --rocksdb-lib c.so"),
                     0);
    assert_int_equal(options.engine_count, 1);
    assert_string_equal(options.engines[0]->name, "rocksdb");
    assert_int_equal(options.workload_count, 1);
    assert_int_equal(options.workloads[0], GB_KV_IODIR);
    assert_int_equal(options.step_count, 3);
    assert_int_equal(options.rocksdb_lib_count, 3);
    assert_string_equal(options.rocksdb_libs[0].label, "lto");
    assert_string_equal(options.rocksdb_libs[0].path, "/x/lib.so");
    assert_string_equal(options.rocksdb_libs[1].label, "");
    assert_string_equal(options.rocksdb_libs[1].path, "/y/a=b.so");
    assert_string_equal(options.rocksdb_libs[2].path, "c.so");
    assert_int_equal(gb_kv_options_memory(&options, GB_KV_BYRX), 9 << 20);
}

static void kv_options__refuse_what_makes_no_sense(void **state)
{
    static const char *const bad[][2] = {
        {"--keys 5000", "--dir"},
        {"--dir a --engines goblin,nosuch", "nosuch"},
        {"--dir a --workload by", "byrx, iobuf, iodir"},
        {"--dir a --steps fillseq,fly", "overwritesome"},
        {"--dir a --steps readww", "must fill"},
        {"--dir a --rocksdb-lib =x", "label"},
        {"--dir a --rocksdb-lib x=", "no library"},
        {"--dir a --key-size 7", "--key-size"},
        {"--dir a --zipf 1", "--zipf"},
        {"--dir a stray", "stray"},
    };
    (void)state;
    struct gb_kv_options options;
    struct goblin_error error;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(&options, &error, bad[i][0]), -EINVAL);
        assert_non_null(strstr(error.text, bad[i][1]));
    }
}

/* ---- reports ------------------------------------------------------------------------------- */

static void kv_report__has_the_figures_of_a_row(void **state)
{
    static const char *const members[] = {
        "\"engine\": \"goblin\"",   "\"workload\": \"iobuf\"",
        "\"step\": \"readww#2\"",   "\"qps\": 250",
        "\"write_amp\": null",      "\"space_amp\": 1.5",
        "\"cpu_us_per_op\": 4000",  "\"p999_us\": 9.5",
        "\"longest_gap_ms\": 3.25",
    };
    (void)state;
    char path[] = "/tmp/goblin-kv-report.XXXXXX";
    char text[4096] = "";
    struct goblin_error error;
    const struct gb_kv_row row = {
        .engine = "goblin",
        .version = "1.2",
        .workload = GB_KV_IOBUF,
        .step = "readww#2",
        .result = {.seconds = 2,
                   .ops = 500,
                   .cpu_s = 2,
                   .p999_us = 9.5,
                   .gap_ms = 3.25,
                   .disk_bytes = 1500,
                   .live_bytes = 1000},
    };
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(gb_kv_report_json(&row, 1, path, &error), 0);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        assert_non_null(strstr(text, members[i]));
    }
    close(fd);
    unlink(path);
    assert_true(gb_kv_report_json(&row, 1, "/nonexistent/x", &error) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kv_values__have_keys_in_the_order_of_their_numbers,
                                        values_setup, values_teardown),
        cmocka_unit_test_setup_teardown(kv_values__know_every_byte_of_a_version, values_setup,
                                        values_teardown),
        cmocka_unit_test_setup_teardown(kv_values__repeat_what_a_compressor_is_to_find,
                                        values_setup, values_teardown),
        cmocka_unit_test(kv_values_scatter__is_an_order_of_all_numbers),
        cmocka_unit_test(kv_zipf__gives_ranks_their_share),
        cmocka_unit_test(kv_options__have_the_published_defaults),
        cmocka_unit_test(kv_options__take_lists_and_builds),
        cmocka_unit_test(kv_options__refuse_what_makes_no_sense),
        cmocka_unit_test(kv_report__has_the_figures_of_a_row),
    };
    return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
