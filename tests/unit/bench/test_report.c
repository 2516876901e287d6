/* What a study leaves behind, from a made-up study of two engines; and simulate over its reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "bench/reads_csv.h"
#include "bench/report.h"
#include "bench/simulate.h"

static char directory[] = "/tmp/goblin-test-report-XXXXXX";
static char reads_path[64];

static void write_reads(struct gb_link *links)
{
    static const char *const engines[] = {"goblin", "rocksdb"};
    struct gb_reads_writer *writer;
    struct gb_rng rng;
    gb_rng_init(&rng, 12);
    assert_int_equal(gb_reads_writer_open(reads_path, 0, &writer), 0);
    for (uint64_t i = 0; i < 6000; i++) {
        for (uint64_t engine = 0; engine < 2; engine++) {
            uint64_t first = 1000 + gb_rng_below(&rng, 1000);
            uint64_t last = first + gb_rng_below(&rng, 200000);
            const struct gb_chunk chunks[] = {{16384, engine == 0 ? first : last}, {50000, last}};
            const struct gb_read read = {.engine = engines[engine],
                                         .slice = i / 1000,
                                         .index = i,
                                         .object = i % 100,
                                         .bytes = 66384,
                                         .first_ns = chunks[0].ready_ns,
                                         .last_ns = last,
                                         .source = GB_READ_DISK,
                                         .chunks = chunks,
                                         .chunk_count = 2};
            assert_int_equal(gb_reads_writer_add(writer, &read), 0);
            gb_link_add(&links[engine], chunks, 2, last);
        }
    }
    assert_int_equal(gb_reads_writer_close(writer), 0);
}

static struct gb_link links[2];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    (void)snprintf(reads_path, sizeof(reads_path), "%s/reads.csv", directory);
    gb_link_init(&links[0], 937000000);
    gb_link_init(&links[1], 937000000);
    write_reads(links);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command) != 0;
}

static bool contains(const char *name, const char *text)
{
    char path[128];
    static char content[1 << 16];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(content, 1, sizeof(content) - 1, file);
    content[len] = '\0';
    (void)fclose(file);
    return strstr(content, text) != NULL;
}

static bool exists(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, R_OK) == 0;
}

static const struct gb_rss_sample samples[] = {{0, 1 << 20}, {1, 500 << 20}, {2, 640 << 20}};
static struct gb_engine_result results[2];
static const char *const notes[] = {"a note"};

static void make_report(struct gb_report *report)
{
    for (int i = 0; i < 2; i++) {
        results[i] = (struct gb_engine_result){.name = i == 0 ? "goblin" : "rocksdb",
                                               .objects = 100,
                                               .bytes = 100 << 20,
                                               .populate_seconds = 0.5,
                                               .barrier_seconds = 0.1,
                                               .requests = 6000,
                                               .replay_bytes = 6000 * 66384,
                                               .replay_seconds = (double)links[i].storage_ns / 1e9,
                                               .ttfb = {1, 2, 3, 4},
                                               .ttlb = {5, 6, 7, 8},
                                               .disk_requests = 3000,
                                               .rss_peak_bytes = 640 << 20,
                                               .memory_budget_bytes = 652 << 20,
                                               .link = links[i],
                                               .rss = samples,
                                               .rss_count = 3};
    }
    *report = (struct gb_report){.directory = directory,
                                 .reads_path = reads_path,
                                 .command = "goblin-bench study --scale 0.125",
                                 .corpus = "study: 100 objects",
                                 .scale = 0.125,
                                 .engines = results,
                                 .engine_count = 2,
                                 .yardsticks = {.fio_write_mib_s = 2000},
                                 .notes = notes,
                                 .note_count = 1};
}

static void report__writes_all_its_files(void **state)
{
    (void)state;
    struct gb_report report;
    struct goblin_error error = {{0}};
    static const char *const versions[] = {"rocksdb", "7.8.3", NULL};
    make_report(&report);
    int result = gb_report_write(&report, versions, &error);
    if (result != 0) {
        fail_msg("%s", error.text);
    }
    assert_true(contains("summary.json", "\"populate_mib_s\": 200,"));
    assert_true(contains("summary.json", "\"p999\": 8"));
    assert_true(contains("summary.json", "\"rate_bps\": 937000000"));
    assert_true(contains("metadata.json", "\"rocksdb\": \"7.8.3\""));
    assert_true(contains("metadata.json", "\"kernel\""));
    assert_true(contains("report.md", "| goblin | 200.0 |"));
    assert_true(contains("report.md", "- a note"));
    static const char *const plots[] = {"latency_cdf", "first_last", "throughput", "rss", "link"};
    bool has_gnuplot = system("command -v gnuplot >/dev/null 2>&1") == 0;
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s.dat", plots[i]);
        assert_true(exists(name));
        (void)snprintf(name, sizeof(name), "%s.svg", plots[i]);
        assert_true(exists(name) == has_gnuplot);
        if (has_gnuplot) {
            assert_true(contains("report.md", name));
        }
    }
}

/* The summary's fields, in the documented order and no others. */
static void summary__has_exactly_the_documented_fields(void **state)
{
    (void)state;
    struct gb_report report;
    struct goblin_error error;
    make_report(&report);
    report.engine_count = 1;
    assert_int_equal(gb_report_write_summary(&report, &error), 0);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/summary.json", directory);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[256];
    char names[1024] = "";
    while (fgets(line, sizeof(line), file) != NULL) {
        char *start = strchr(line, '"');
        char *end = start == NULL ? NULL : strchr(start + 1, '"');
        if (end != NULL) {
            (void)strncat(names, start + 1, (size_t)(end - start - 1));
            (void)strcat(names, " ");
        }
    }
    (void)fclose(file);
    assert_string_equal(
        names,
        "engines name objects bytes populate_seconds populate_mib_s barrier_seconds requests "
        "replay_bytes replay_seconds replay_mib_s ttfb_us mean p50 p99 ttlb_us mean p50 p99 "
        "p999 disk_ttlb_us mean p50 p99 device_reads device_read_bytes device_write_bytes "
        "rss_peak_bytes memory_budget_bytes link rate_bps storage_s wire_s overlap_s "
        "total_s mib_s ");
}

static void report__explains_a_directory_that_is_not_there(void **state)
{
    (void)state;
    struct gb_report report;
    struct goblin_error error = {{0}};
    make_report(&report);
    report.directory = "/nonexistent";
    assert_true(gb_report_write(&report, NULL, &error) < 0);
    assert_non_null(strstr(error.text, "/nonexistent/summary.json"));
}

static void simulation__agrees_with_the_link(void **state)
{
    (void)state;
    struct gb_simulation *simulation = calloc(1, sizeof(*simulation));
    assert_non_null(simulation);
    struct goblin_error error = {{0}};
    simulation->rates_bps[0] = 937000000;
    simulation->rate_count =
        1 + gb_simulate_plot_rates(simulation->rates_bps + 1, GB_SIMULATE_RATES_MAX - 1);
    assert_true(simulation->rate_count == 32);
    assert_true(simulation->rates_bps[1] == 100000000);
    assert_true(simulation->rates_bps[31] == UINT64_C(100000000000));
    assert_int_equal(gb_simulate_run(simulation, reads_path, &error), 0);
    assert_true(simulation->engine_count == 2);
    for (int i = 0; i < 2; i++) {
        assert_true(memcmp(&simulation->engines[i].links[0], &links[i], sizeof(links[i])) == 0);
        for (size_t rate = 2; rate < simulation->rate_count; rate++) {
            assert_true(gb_link_mib_s(&simulation->engines[i].links[rate]) >
                        gb_link_mib_s(&simulation->engines[i].links[rate - 1]));
        }
    }
    /* Heads overlap, whole values cannot. */
    assert_true(gb_link_overlap_ns(&links[0]) > 0);
    assert_true(gb_link_overlap_ns(&links[1]) == 0);
    free(simulation);
}

static int run_command(const char *const *words)
{
    char storage[8][128];
    char *arguments[9] = {NULL};
    int count = 0;
    for (; words[count] != NULL; count++) {
        (void)snprintf(storage[count], sizeof(storage[count]), "%s", words[count]);
        arguments[count] = storage[count];
    }
    return gb_cmd_simulate(count, arguments);
}

static void command__answers_by_its_exit_code(void **state)
{
    (void)state;
    const char *table[] = {"simulate", reads_path, "--rate", "10gbit", NULL};
    const char *json[] = {"simulate", "--json", "--no-plot", reads_path, NULL};
    const char *rate[] = {"simulate", reads_path, "--rate", "10", "--rate", "fast", NULL};
    const char *nothing[] = {"simulate", NULL};
    const char *absent[] = {"simulate", "/nonexistent/reads.csv", NULL};
    assert_int_equal(run_command(table), 0);
    assert_true(exists("link.dat"));
    assert_int_equal(run_command(json), 0);
    assert_int_equal(run_command(rate), 2);
    assert_int_equal(run_command(nothing), 2);
    assert_int_equal(run_command(absent), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__writes_all_its_files),
        cmocka_unit_test(summary__has_exactly_the_documented_fields),
        cmocka_unit_test(report__explains_a_directory_that_is_not_there),
        cmocka_unit_test(simulation__agrees_with_the_link),
        cmocka_unit_test(command__answers_by_its_exit_code),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
