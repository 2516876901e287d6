/* What a churn computes and reports, from made-up figures; its options and its objects. */
#include "bench/churn.h"

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

#include "bench/scratch.h"
#include "lib/arguments.h"

enum { LIVE_BYTES = 1000 };

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* ---- the command line ---------------------------------------------------------------------- */

static int parse(struct gb_churn_options *options, struct goblin_error *error, const char *line)
{
    static struct gb_arguments arguments;
    char text[256];
    (void)snprintf(text, sizeof(text), "churn %s", line);
    gb_arguments_split(&arguments, text);
    error->text[0] = '\0';
    return gb_churn_options_parse(options, arguments.argc, arguments.argv, error);
}

static void churn_options__have_defaults_and_limits(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"--out b", "--dir"},
        {"--dir a", "--out"},
        {"--dir a --out b --engines goblin,null", "null"},
        {"--dir a --out b --least 4K --most 1K", "--least"},
        {"--dir a --out b --rounds 11", "--rounds"},
        {"--dir a --out b --duration 3500 --idle 60", "hour"},
        {"--dir a --out b --fill 1", "--fill"},
    };
    struct gb_churn_options options;
    struct goblin_error error;
    assert_int_equal(parse(&options, &error, "--dir a --out b --write-rate 5M"), 0);
    assert_int_equal(options.engine_count, 3);
    assert_int_equal(options.size_bytes, UINT64_C(4) << 30);
    assert_int_equal(options.write_rate, 5 << 20);
    assert_string_equal(options.command, "goblin-bench churn --dir a --out b --write-rate 5M");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(&options, &error, bad[i][0]), -EINVAL);
        assert_non_null(strstr(error.text, bad[i][1]));
    }
}

/* ---- objects ------------------------------------------------------------------------------- */

static void churn_corpus__fills_the_store_evenly_over_the_logarithm(void **state)
{
    (void)state;
    const struct gb_churn_options options = {.size_bytes = 256 << 20,
                                             .fill = 0.5,
                                             .least_bytes = 1 << 10,
                                             .most_bytes = 256 << 10,
                                             .seed = 3};
    struct gb_corpus corpus;
    struct gb_corpus again;
    struct goblin_error error;
    uint64_t small = 0;
    assert_int_equal(gb_churn_corpus(&options, &corpus, &error), 0);
    assert_int_equal(gb_churn_corpus(&options, &again, &error), 0);
    assert_int_equal(corpus.count, again.count);
    for (uint64_t i = 0; i < corpus.count; i++) {
        assert_in_range(corpus.sizes[i], options.least_bytes, options.most_bytes);
        assert_int_equal(corpus.sizes[i], again.sizes[i]);
        small += corpus.sizes[i] < 16 << 10; /* the middle of the logarithm */
    }
    assert_in_range(small * 100, corpus.count * 45, corpus.count * 55);
    /* Values, and a bit for keys, headers and pages, come to half of the store. */
    assert_in_range(corpus.total_bytes, 124 << 20, 128 << 20);
    assert_int_equal(gb_churn_live_bytes(&corpus), corpus.total_bytes + 16 * corpus.count);
    gb_corpus_fini(&corpus);
    gb_corpus_fini(&again);
}

static void churn_corpus__refuses_a_store_of_a_few_objects(void **state)
{
    (void)state;
    const struct gb_churn_options options = {.size_bytes = 16 << 20,
                                             .fill = 0.5,
                                             .least_bytes = 1 << 20,
                                             .most_bytes = 2 << 20,
                                             .seed = 3};
    struct gb_corpus corpus;
    struct goblin_error error;
    assert_int_equal(gb_churn_corpus(&options, &corpus, &error), -EINVAL);
    assert_non_null(strstr(error.text, "--size"));
}

/* ---- figures ------------------------------------------------------------------------------- */

static const struct gb_churn_outcome outcome = {
    .fill_seconds = 2,
    .age_seconds = 4,
    .age_bytes = 500,
    .written = {.user_bytes = 100,
                .engine_user_bytes = 100,
                .engine_bytes = 309,
                .process_bytes = 300,
                .device_bytes = 330,
                .has_device = true,
                .live_bytes = 900,
                .disk_used_bytes = 1350,
                .disk_file_bytes = 1200},
    .disk_peak_bytes = 2000,
    .disk_bytes = 1500,
};

static struct gb_churn_store *store_create(void)
{
    struct gb_churn_store *store = gb_churn_store_create(10);
    assert_non_null(store);
    store->write_rate = 3 << 20;
    struct gb_churn_operation read = {.took_ns = 1000, .is_disk = true};
    for (int phase = 0; phase < GB_CHURN_PHASES; phase++) {
        gb_churn_tally_begin(&store->reads[phase], 0);
        read.ended_ns = 2000000;
        read.took_ns = phase == GB_CHURN_BUSY ? 150000 : 100000;
        gb_churn_tally_add(&store->reads[phase], &read);
        gb_churn_tally_end(&store->reads[phase], 3000000);
        store->phases[phase] = (uint8_t)phase;
        store->read_timeline.seconds[phase].count = 1;
        store->read_timeline.seconds[phase].p99_ns = read.took_ns;
    }
    const struct gb_churn_operation put = {
        .ended_ns = 500000000, .took_ns = 2000000, .bytes = 1 << 20};
    gb_churn_tally_begin(&store->writes, 0);
    gb_churn_tally_add(&store->writes, &put);
    gb_churn_tally_end(&store->writes, 500000000);
    store->write_timeline.seconds[1].bytes = 1 << 20;
    store->seconds = 3;
    store->checked = 10;
    return store;
}

static void churn_result__is_made_of_what_both_sides_saw(void **state)
{
    (void)state;
    struct gb_churn_store *store = store_create();
    struct gb_churn_result result;
    gb_churn_result_make("x", LIVE_BYTES, store, &outcome, &result);
    assert_true(is_near(result.busy_ratio, 1.5));
    assert_true(is_near(result.reads[GB_CHURN_BUSY].gap_ms, 2));
    assert_true(is_near(result.asked_mib_s, 3));
    assert_true(is_near(result.written_mib_s, 2));
    assert_true(is_near(result.put_max_ms, 2));
    assert_true(is_near(result.put_gap_ms, 500));
    assert_true(is_near(result.engine_amplification, 3.09));
    assert_true(is_near(result.process_amplification, 3));
    assert_true(is_near(result.engine_off, 0.03));
    assert_true(is_near(result.device_off, 0.1));
    assert_true(is_near(result.peak_amplification, 2));
    assert_true(is_near(result.disk_amplification, 1.5));
    assert_true(is_near(result.engine_space, 1.5));
    assert_true(is_near(result.file_off, -0.2));
    gb_churn_store_destroy(store);
}

static void churn_result__has_no_figures_of_what_nobody_counted(void **state)
{
    (void)state;
    struct gb_churn_store *store = gb_churn_store_create(1);
    const struct gb_churn_outcome nothing = {.written = {.process_bytes = 7, .device_bytes = 9}};
    struct gb_churn_result result;
    assert_non_null(store);
    gb_churn_result_make("x", LIVE_BYTES, store, &nothing, &result);
    assert_true(is_near(result.busy_ratio, 0));
    assert_true(is_near(result.process_amplification, 0));
    assert_true(is_near(result.device_amplification, 0));
    assert_true(is_near(result.engine_off, 0));
    assert_true(is_near(result.file_off, 0));
    gb_churn_store_destroy(store);
}

static void churn_result__is_void_when_anything_was_not_what_it_must_be(void **state)
{
    (void)state;
    struct gb_churn_store *store = store_create();
    struct gb_churn_result result;
    gb_churn_result_make("x", LIVE_BYTES, store, &outcome, &result);
    assert_false(gb_churn_result_is_void(&result, true));
    store->lost = 1;
    assert_true(gb_churn_result_is_void(&result, true));
    assert_false(gb_churn_result_is_void(&result, false));
    store->lost = 0;
    store->stale = 1;
    assert_true(gb_churn_result_is_void(&result, false));
    store->stale = 0;
    store->wrong = 1;
    assert_true(gb_churn_result_is_void(&result, false));
    store->wrong = 0;
    result.reads[GB_CHURN_AFTER].misses = 1;
    assert_true(gb_churn_result_is_void(&result, true));
    assert_false(gb_churn_result_is_void(&result, false));
    gb_churn_store_destroy(store);
}

static void churn_counts__gain_differences_and_keep_the_latest_gauges(void **state)
{
    (void)state;
    struct gb_churn_counts sum = {0};
    const struct gb_churn_counts before = {.user_bytes = 1, .engine_bytes = 10, .live_bytes = 5};
    const struct gb_churn_counts now = {.user_bytes = 4, .engine_bytes = 12, .live_bytes = 3};
    gb_churn_counts_gain(&sum, &before, &now);
    gb_churn_counts_gain(&sum, &before, &now);
    assert_int_equal(sum.user_bytes, 6);
    assert_int_equal(sum.engine_bytes, 4);
    assert_int_equal(sum.live_bytes, 3);
}

static void churn_value__carries_object_and_version(void **state)
{
    (void)state;
    uint64_t value = gb_churn_value(UINT32_MAX, 77);
    assert_int_equal(gb_churn_value_version(value), 77);
    assert_int_equal((uint32_t)value, UINT32_MAX);
    assert_int_equal(gb_churn_value(5, 0), 5); /* as populating makes it */
}

/* ---- reports ------------------------------------------------------------------------------- */

static void assert_holds(const char *directory, const char *name, const char *text)
{
    static char content[1 << 16];
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(content, 1, sizeof(content) - 1, file);
    content[len] = '\0';
    fclose(file);
    if (!strstr(content, text)) {
        fail_msg("%s does not hold '%s': %s", name, text, content);
    }
}

static void churn_report__writes_json_markdown_and_data(void **state)
{
    (void)state;
    char directory[] = "/tmp/goblin-churn-report-XXXXXX";
    struct gb_churn_store *store = store_create();
    struct gb_churn_result result;
    struct goblin_error error = {{0}};
    assert_non_null(mkdtemp(directory));
    gb_churn_result_make("x", LIVE_BYTES, store, &outcome, &result);
    const struct gb_churn_options options = {.out = directory,
                                             .size_bytes = 4000,
                                             .fill = 0.9,
                                             .write_rate = 3 << 20,
                                             .rounds = 1,
                                             .command = "the command"};
    const struct gb_corpus corpus = {.count = 10, .description = "ten objects"};
    const char *const versions[] = {"rocksdb", "somewhere", NULL};
    const struct gb_churn_report report = {.options = &options,
                                           .corpus = &corpus,
                                           .results = &result,
                                           .count = 1,
                                           .device_shared = true,
                                           .versions = versions};
    assert_int_equal(gb_churn_report_write(&report, &error), 0);
    assert_holds(directory, "churn.json", "\"busy_p99_over_idle_p99\": 1.5");
    assert_holds(directory, "churn.json", "\"engine_off_percent\": 3,");
    assert_holds(directory, "churn.json", "\"device_bytes\": 330");
    assert_holds(directory, "churn.json", "\"phase\": \"after\"");
    assert_holds(directory, "churn.md", "the command");
    assert_holds(directory, "churn.md", "| x | busy | 1 | 100.0 % | 150 | 150 | 150 | 150 | 1.50");
    assert_holds(directory, "churn.md", "| x | 3.00 | 3.09 | +3.0 % | 3.30 | +10.0 % |");
    assert_holds(directory, "churn.md", "device (shared)");
    assert_holds(directory, "churn_time.dat", "1 1 0.1500 0.0000 1.000");
    assert_holds(directory, "churn_cdf.dat", "150.000 0.00000000");
    assert_int_equal(gb_scratch_remove(directory), 0);
    gb_churn_store_destroy(store);
}

static void churn_report__says_when_a_run_is_void(void **state)
{
    (void)state;
    char directory[] = "/tmp/goblin-churn-report-XXXXXX";
    struct gb_churn_store *store = store_create();
    struct gb_churn_outcome alone = outcome;
    struct gb_churn_result result;
    struct goblin_error error = {{0}};
    assert_non_null(mkdtemp(directory));
    store->stale = 2;
    alone.written.has_device = false;
    gb_churn_result_make("x", LIVE_BYTES, store, &alone, &result);
    const struct gb_churn_options options = {.out = directory, .size_bytes = 4000, .rounds = 1};
    const struct gb_corpus corpus = {.count = 10, .description = "ten objects"};
    const struct gb_churn_report report = {
        .options = &options, .corpus = &corpus, .results = &result, .count = 1};
    assert_int_equal(gb_churn_report_write(&report, &error), 0);
    assert_holds(directory, "churn.md", "2 stale answers in all. **This run is void.**");
    assert_holds(directory, "churn.md", "| +3.0 % | – | – |");
    assert_holds(directory, "churn.json", "\"device_bytes\": null");
    assert_int_equal(gb_scratch_remove(directory), 0);
    assert_int_not_equal(gb_churn_report_write(&report, &error), 0);
    assert_non_null(strstr(error.text, directory));
    gb_churn_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(churn_options__have_defaults_and_limits),
        cmocka_unit_test(churn_corpus__fills_the_store_evenly_over_the_logarithm),
        cmocka_unit_test(churn_corpus__refuses_a_store_of_a_few_objects),
        cmocka_unit_test(churn_result__is_made_of_what_both_sides_saw),
        cmocka_unit_test(churn_result__has_no_figures_of_what_nobody_counted),
        cmocka_unit_test(churn_result__is_void_when_anything_was_not_what_it_must_be),
        cmocka_unit_test(churn_counts__gain_differences_and_keep_the_latest_gauges),
        cmocka_unit_test(churn_value__carries_object_and_version),
        cmocka_unit_test(churn_report__writes_json_markdown_and_data),
        cmocka_unit_test(churn_report__says_when_a_run_is_void),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
