/* Relative throughput: what is read, what is computed, and what is marked. */
#include "bench/relative.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gb_relative_rows rows;
static struct gb_relative_table table;
static struct goblin_error error;
static const char *const sources[] = {"base.json", "new.json"};

static int setup(void **state)
{
    (void)state;
    memset(&table, 0, sizeof(table));
    table.threshold = 0.05;
    error.text[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gb_relative_rows_fini(&rows);
    return 0;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void add(unsigned source, const char *version, const char *step, double qps)
{
    struct gb_relative_row row = {.engine = "e", .workload = "w", .qps = qps, .source = source};
    strcpy(row.version, version);
    strcpy(row.step, step);
    assert_int_equal(gb_relative_rows_add(&rows, &row, &error), 0);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static int read_json(const char *text)
{
    /* Not terminated: a sanitizer sees whoever reads on. */
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    int rc = gb_relative_json(copy, len, 7, &rows, &error);
    free(copy);
    return rc;
}

static void relative_json__reads_rows_and_passes_over_the_rest(void **state)
{
    (void)state;
    assert_int_equal(
        read_json("[ {\"engine\":\"goblin\", \"x\": [1, {\"qps\": 3, \"y\": []}, \"]\", null],\n"
                  "   \"version\": \"1.0 \\u00e9\\\"\", \"workload\": \"byrx\", \"o\": {},\n"
                  "   \"step\": \"fillseq\", \"qps\": 1.5e3, \"write_amp\": null, \"b\": true}\n"
                  ", {\"qps\": 2, \"step\": \"s\", \"workload\": \"w\", \"engine\": \"e\"}]\n"),
        0);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.items[0].engine, "goblin");
    assert_string_equal(rows.items[0].version, "1.0 \xc3\xa9\"");
    assert_string_equal(rows.items[0].step, "fillseq");
    assert_true(is_near(rows.items[0].qps, 1500));
    assert_int_equal(rows.items[0].source, 7);
    assert_string_equal(rows.items[1].version, "");
    assert_int_equal(read_json("[]"), 0);
}

static void relative_json__cuts_off_names_that_are_too_long(void **state)
{
    (void)state;
    char text[512];
    char name[3 * GB_RELATIVE_NAME];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text),
             "[{\"engine\":\"%s\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1}]", name);
    assert_int_equal(read_json(text), 0);
    assert_int_equal(strlen(rows.items[0].engine), GB_RELATIVE_NAME - 1);
}

static void relative_json__refuses_what_kv_does_not_write(void **state)
{
    static const char *const bad[] = {
        "",
        "[",
        "{}",
        "[1]",
        "[{}]",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\"}]",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\",\"qps\":-1}]",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\",\"qps\":\"1\"}]",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1e999}]",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1}",
        "[{\"engine\":\"e\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1}],",
        "[{\"engine\":\"\\u12\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1}]",
        "[{\"engine\":\"e\nf\",\"workload\":\"w\",\"step\":\"s\",\"qps\":1}]",
        "[{\"engine\":\"e\",\"x\":[1,\"workload\":\"w\",\"step\":\"s\",\"qps\":1}]",
        "[{\"engine\":\"e\",\"x\":nul,\"workload\":\"w\",\"step\":\"s\",\"qps\":1}]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_json(bad[i]), -EBADMSG);
    }
    assert_int_equal(read_json("[\n\n7]"), -EBADMSG);
    assert_non_null(strstr(error.text, "line 3"));
}

/* ---- db_bench ------------------------------------------------------------------------------- */

static int read_log(const char *name, const char *text)
{
    return gb_relative_dbbench(text, strlen(text), name, 0, &rows, &error);
}

static void relative_dbbench__reads_what_both_programs_print(void **state)
{
    (void)state;
    assert_int_equal(
        read_log("x.log",
                 "./db_bench --benchmarks=seekrandomwhilewriting --reverse_iterator=true\n"
                 "RocksDB:    version 6.29.5\n"
                 "Keys:       20 bytes each\n"
                 "... finished 100 ops\r... finished 200 ops   \rfillseq      :       2.500 "
                 "micros/op 399999 ops/sec;  160.2 MB/s\n"
                 "Microseconds per write:\n"
                 "seekrandomwhilewriting :  492.442 micros/op 1913 ops/sec 1.567 seconds 2999 "
                 "operations;    7.7 MB/s (2999 of 2999 found)\n"
                 "readwhilewriting :  80.3 micros/op 12447 ops/sec 1.0 seconds 12999 operations;\n"
                 "newthing     :  1.0 micros/op 1000000 ops/sec\n"),
        0);
    assert_int_equal(rows.count, 4);
    assert_string_equal(rows.items[0].step, "fillseq");
    assert_string_equal(rows.items[0].engine, "rocksdb");
    assert_string_equal(rows.items[0].version, "6.29.5");
    assert_true(is_near(rows.items[0].qps, 399999));
    assert_string_equal(rows.items[1].step, "revrangeww");
    assert_true(is_near(rows.items[1].qps, 1913));
    assert_string_equal(rows.items[2].step, "readww");
    assert_string_equal(rows.items[3].step, "newthing");
    assert_int_equal(read_log("x.log", "LevelDB:    version 1.23\n"
                                       "readrandom   :      4.000 micros/op;   62.7 MB/s\n"),
                     0);
    assert_string_equal(rows.items[4].engine, "leveldb");
    assert_string_equal(rows.items[4].version, "1.23");
    assert_true(is_near(rows.items[4].qps, 250000));
}

static void relative_dbbench__knows_directions_by_command_or_name(void **state)
{
    static const char line[] = "seekrandomwhilewriting : 1.0 micros/op 10 ops/sec\n";
    (void)state;
    assert_int_equal(read_log("benchmark_fwdrangewhilewriting.t1.s0.log", line), 0);
    assert_int_equal(read_log("benchmark_revrangewhilewriting.t1.s0.log", line), 0);
    assert_string_equal(rows.items[0].step, "fwdrangeww");
    assert_string_equal(rows.items[1].step, "revrangeww");
}

static void relative_dbbench__reads_report_tsv(void **state)
{
    (void)state;
    assert_int_equal(read_log("report.tsv", "# ops_sec - operations per second\n"
                                            "ops_sec\tmb_sec\ttest\tdate\tversion\n"
                                            "400000\t160\tfillseq.wal_disabled.v400\t-\t10.8.0\n"
                                            "failed\t\toverwrite.t1.s0\t-\t10.8.0\n"
                                            "1900\t7\trevrangewhilewriting.t1.s0\t-\t10.8.0\n"
                                            "90\t7\toverwriteandwait.t1.s0\t-\t9.0\n"
                                            "1\t2\n"),
                     0);
    assert_int_equal(rows.count, 3);
    assert_string_equal(rows.items[0].step, "fillseq");
    assert_string_equal(rows.items[0].version, "10.8.0");
    assert_string_equal(rows.items[1].step, "revrangeww");
    assert_string_equal(rows.items[2].step, "overwrite");
    assert_string_equal(rows.items[2].version, "9.0");
}

static void relative_dbbench__refuses_texts_without_a_result(void **state)
{
    static const char *const bad[] = {
        "",
        "hello\n",
        "fillseq : micros/op ops/sec\n",
        "fillseq : nan micros/op inf ops/sec\n",
        "fillseq   2.5 micros/op 40 ops/sec\n",
        ": 1 ops/sec\n",
        "ops_sec\ttest\n1\tx\n",
        "ops_sec\ttest\tversion\n1\t.v400\t9\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_log("x", bad[i]), -EBADMSG);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

static void relative_table__takes_medians_and_ranges(void **state)
{
    (void)state;
    add(0, "1", "fill", 100);
    add(0, "1", "fill", 120);
    add(0, "1", "fill", 90);
    add(1, "2", "fill", 50);
    add(1, "2", "fill", 70);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), 0);
    assert_int_equal(table.column_count, 2);
    assert_string_equal(table.columns[1].label, "e 2");
    assert_int_equal(table.cells[0][0].count, 3);
    assert_true(is_near(table.cells[0][0].median, 100));
    struct gb_relative_ratio ratio = gb_relative_ratio(&table, 0, 1);
    assert_true(ratio.known && ratio.regressed && !ratio.unclear);
    assert_true(is_near(ratio.median, 0.6));
    assert_true(is_near(ratio.least, 0.5));
    assert_true(is_near(ratio.most, 0.7));
    assert_int_equal(gb_relative_regressions(&table), 1);
    assert_false(gb_relative_ratio(&table, 0, 0).regressed);
}

static void relative_table__marks_beyond_the_threshold_alone(void **state)
{
    (void)state;
    add(0, "1", "a", 100);
    add(0, "1", "b", 100);
    add(1, "2", "a", 95.1);
    add(1, "2", "b", 94.9);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), 0);
    assert_int_equal(gb_relative_regressions(&table), 1);
    assert_false(gb_relative_ratio(&table, 0, 1).regressed);
    assert_true(gb_relative_ratio(&table, 1, 1).unclear); /* one measurement is all */
    table.threshold = 0.06;
    assert_int_equal(gb_relative_regressions(&table), 0);
}

static void relative_table__tells_the_same_version_in_two_files_apart(void **state)
{
    (void)state;
    add(0, "1", "a", 100);
    add(1, "1", "a", 200);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), 0);
    assert_string_equal(table.columns[0].label, "e 1 (base.json)");
    assert_string_equal(table.columns[1].label, "e 1 (new.json)");
    assert_true(is_near(gb_relative_ratio(&table, 0, 1).median, 2));
    assert_int_equal(gb_relative_table(&table, &rows, "e 1 (new", NULL, sources, &error), 0);
    assert_int_equal(table.base, 1);
    assert_int_equal(gb_relative_regressions(&table), 1);
}

static void relative_table__keeps_lines_of_a_workload_together(void **state)
{
    static const char *const order[][2] = {{"w", "a"}, {"w", "b"}, {"v", "a"}, {"v", "b"}};
    (void)state;
    for (size_t i = 0; i < 4; i++) { /* w a, v a, w b, v b */
        const char *const *line = order[(i % 2) * 2 + i / 2];
        struct gb_relative_row row = {.engine = "e", .qps = 1 + (double)i};
        strcpy(row.workload, line[0]);
        strcpy(row.step, line[1]);
        assert_int_equal(gb_relative_rows_add(&rows, &row, &error), 0);
        strcpy(row.version, "2");
        assert_int_equal(gb_relative_rows_add(&rows, &row, &error), 0);
    }
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), 0);
    assert_int_equal(table.line_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(table.lines[i].workload, order[i][0]);
        assert_string_equal(table.lines[i].step, order[i][1]);
        assert_true(is_near(gb_relative_ratio(&table, i, 1).median, 1));
    }
}

static void relative_table__refuses_when_there_is_nothing_to_compare(void **state)
{
    (void)state;
    add(0, "1", "a", 100);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), -ENOENT);
    add(1, "2", "b", 100);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), -ENOENT);
    assert_int_equal(gb_relative_table(&table, &rows, "f", NULL, sources, &error), -ENOENT);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, "f", sources, &error), -ENOENT);
    add(1, "2", "a", 0);
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), 0);
    assert_int_equal(gb_relative_regressions(&table), 1);
    assert_false(gb_relative_ratio(&table, 1, 1).known);
    char version[16];
    for (int i = 0; i < GB_RELATIVE_COLUMNS_MAX; i++) {
        snprintf(version, sizeof(version), "v%d", i);
        add(0, version, "a", 1);
    }
    assert_int_equal(gb_relative_table(&table, &rows, NULL, NULL, sources, &error), -E2BIG);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(relative_json__reads_rows_and_passes_over_the_rest),
        TEST(relative_json__cuts_off_names_that_are_too_long),
        TEST(relative_json__refuses_what_kv_does_not_write),
        TEST(relative_dbbench__reads_what_both_programs_print),
        TEST(relative_dbbench__knows_directions_by_command_or_name),
        TEST(relative_dbbench__reads_report_tsv),
        TEST(relative_dbbench__refuses_texts_without_a_result),
        TEST(relative_table__takes_medians_and_ranges),
        TEST(relative_table__marks_beyond_the_threshold_alone),
        TEST(relative_table__tells_the_same_version_in_two_files_apart),
        TEST(relative_table__keeps_lines_of_a_workload_together),
        TEST(relative_table__refuses_when_there_is_nothing_to_compare),
    };
    return cmocka_run_group_tests_name("relative", tests, NULL, NULL);
}
