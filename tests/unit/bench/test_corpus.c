/* The fitted corpus against every published figure, and the other corpora against small inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "bench/corpus.h"

struct made {
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    uint32_t *counts;
};

static void make(const struct gb_corpus_options *options, struct made *made)
{
    struct goblin_error error = {{0}};
    int result = gb_corpus_make(options, &made->corpus, &made->schedule, &error);
    if (result != 0) {
        fail_msg("%d: %s", result, error.text);
    }
    made->counts = calloc(made->corpus.count, sizeof(*made->counts));
    assert_non_null(made->counts);
    for (uint64_t i = 0; i < made->schedule.count; i++) {
        assert_true(made->schedule.objects[i] < made->corpus.count);
        made->counts[made->schedule.objects[i]]++;
    }
}

static void unmake(struct made *made)
{
    free(made->counts);
    gb_schedule_fini(&made->schedule);
    gb_corpus_fini(&made->corpus);
}

static void study_options(struct gb_corpus_options *options, double scale)
{
    gb_corpus_defaults(options);
    options->scale = scale;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void assert_near(const char *what, double found, double wanted, double tolerance)
{
    if (fabs(found - wanted) > tolerance * wanted) {
        fail_msg("%s: %.6g is not within %g of %.6g", what, found, tolerance, wanted);
    }
}

static const struct {
    uint64_t upper_bytes;
    double objects;
    double gib;
    double share;
} rows[] = {
    {16 << 10, 116720, 1.042, 0.5236},   {32 << 10, 200196, 2.741, 0.7512},
    {64 << 10, 245409, 4.775, 0.8406},   {128 << 10, 319623, 10.998, 0.9450},
    {256 << 10, 343728, 14.984, 0.9793}, {UINT64_MAX, 373165, 62.113, 1},
};

static void check_study(double scale, double tolerance)
{
    struct gb_corpus_options options;
    struct made made;
    study_options(&options, scale);
    make(&options, &made);
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        uint64_t objects = 0;
        uint64_t bytes = 0;
        uint64_t requests = 0;
        for (uint64_t i = 0; i < made.corpus.count; i++) {
            if (made.corpus.sizes[i] <= rows[row].upper_bytes) {
                objects++;
                bytes += gb_align_up(made.corpus.sizes[i], 16);
                requests += made.counts[i];
            }
        }
        assert_near("objects", (double)objects, rows[row].objects * scale, tolerance);
        assert_near("bytes", (double)bytes / (double)GB_GIB, rows[row].gib * scale, tolerance);
        assert_near("requests", (double)requests / (double)made.schedule.count, rows[row].share,
                    tolerance);
    }
    uint64_t *sorted = malloc(made.corpus.count * sizeof(*sorted));
    assert_non_null(sorted);
    memcpy(sorted, made.corpus.sizes, made.corpus.count * sizeof(*sorted));
    qsort(sorted, made.corpus.count, sizeof(*sorted), compare);
    assert_near("median", (double)sorted[made.corpus.count / 2] / 1024, 26.3, 0.005);
    assert_near("p99", (double)sorted[made.corpus.count * 99 / 100] / (double)GB_MIB, 2.495, 0.005);
    assert_near("max", (double)made.corpus.max_bytes / (double)GB_MIB, 150.1, 0.001);
    free(sorted);
    assert_near("object bytes", (double)made.corpus.total_bytes,
                (double)GB_STUDY_OBJECT_BYTES * scale, 0.001);
    assert_near("request bytes", (double)made.schedule.total_bytes,
                (double)GB_STUDY_REQUEST_BYTES * scale, 0.001);
    assert_near("requests", (double)made.schedule.count, (double)GB_STUDY_REQUESTS * scale, 1e-5);
    unmake(&made);
}

static void study__meets_every_published_figure_at_full_scale(void **state)
{
    (void)state;
    check_study(1, 0.0005);
}

static void study__keeps_its_shape_at_an_eighth(void **state)
{
    (void)state;
    check_study(0.125, 0.001);
}

static void study__returns_its_bytes_for_other_exponents_and_seeds(void **state)
{
    (void)state;
    const double exponents[] = {0.6, 0.75, 1.1};
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
        struct gb_corpus_options options;
        struct made made;
        study_options(&options, 0.0625);
        options.zipf_exponent = exponents[i];
        options.seed = 1000 + i;
        make(&options, &made);
        assert_near("request bytes", (double)made.schedule.total_bytes,
                    (double)GB_STUDY_REQUEST_BYTES * options.scale, 0.01);
        unmake(&made);
    }
}

static void study__shrinks_to_a_handful_of_objects(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made made;
    study_options(&options, 0.0001);
    make(&options, &made);
    assert_true(made.corpus.count == 37);
    assert_true(made.schedule.count == 614);
    unmake(&made);
}

static void study__is_the_same_for_the_same_seed(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made first;
    struct made second;
    study_options(&options, 0.01);
    make(&options, &first);
    make(&options, &second);
    assert_memory_equal(first.corpus.sizes, second.corpus.sizes,
                        first.corpus.count * sizeof(uint64_t));
    assert_memory_equal(first.schedule.objects, second.schedule.objects,
                        first.schedule.count * sizeof(uint32_t));
    unmake(&second);
    options.seed++;
    make(&options, &second);
    assert_memory_not_equal(first.schedule.objects, second.schedule.objects,
                            first.schedule.count * sizeof(uint32_t));
    unmake(&second);
    unmake(&first);
}

static void popularity__falls_with_the_exponent(void **state)
{
    (void)state;
    double top[3];
    const double exponents[] = {0, 0.9, 1.2};
    for (size_t i = 0; i < 3; i++) {
        struct gb_corpus_options options;
        struct made made;
        study_options(&options, 0.01);
        options.zipf_exponent = exponents[i];
        make(&options, &made);
        uint32_t most = 0;
        for (uint64_t n = 0; n < made.corpus.count; n++) {
            most = made.counts[n] > most ? made.counts[n] : most;
        }
        top[i] = most;
        unmake(&made);
    }
    assert_true(top[0] < top[1] && top[1] < top[2]);
}

static void keys__are_distinct_and_opaque(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made made;
    study_options(&options, 0.005);
    make(&options, &made);
    uint64_t *keys = calloc(made.corpus.count, sizeof(*keys));
    assert_non_null(keys);
    for (uint64_t i = 0; i < made.corpus.count; i++) {
        char key[GB_CORPUS_KEY_MAX];
        assert_true(gb_corpus_key(&made.corpus, i, key) == 16);
        key[16] = '\0';
        keys[i] = strtoull(key, NULL, 16);
    }
    qsort(keys, made.corpus.count, sizeof(*keys), compare);
    for (uint64_t i = 1; i < made.corpus.count; i++) {
        assert_true(keys[i] != keys[i - 1]);
    }
    free(keys);
    unmake(&made);
}

static void shift__changes_what_is_popular_but_not_how_much_is_returned(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made still;
    struct made moving;
    study_options(&options, 0.02);
    make(&options, &still);
    options.shifts = 3;
    make(&options, &moving);
    assert_true(still.schedule.count == moving.schedule.count);
    assert_near("bytes", (double)moving.schedule.total_bytes, (double)still.schedule.total_bytes,
                0.05);
    /* Requests common to the first and the last quarter, object by object. */
    const struct made *both[] = {&still, &moving};
    double common[2];
    for (size_t m = 0; m < 2; m++) {
        const struct gb_schedule *schedule = &both[m]->schedule;
        uint64_t quarter = schedule->count / 4;
        int64_t *seen = calloc(both[m]->corpus.count, sizeof(*seen));
        assert_non_null(seen);
        for (uint64_t i = 0; i < quarter; i++) {
            seen[schedule->objects[i]]++;
        }
        uint64_t shared = 0;
        for (uint64_t i = schedule->count - quarter; i < schedule->count; i++) {
            shared += seen[schedule->objects[i]]-- > 0;
        }
        free(seen);
        common[m] = (double)shared / (double)quarter;
    }
    assert_true(common[0] > 0.7);
    assert_true(common[1] < 0.5);
    unmake(&moving);
    unmake(&still);
}

static void scan__walks_through_every_object(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made made;
    study_options(&options, 0.01);
    options.scan_share = 0.1;
    make(&options, &made);
    for (uint64_t i = 0; i < made.corpus.count; i++) {
        assert_true(made.counts[i] >= 1);
    }
    unmake(&made);
}

static void each_once__asks_for_everything_once(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct made made;
    study_options(&options, 0.01);
    options.is_each_once = true;
    make(&options, &made);
    assert_true(made.schedule.count == made.corpus.count);
    assert_true(made.schedule.total_bytes == made.corpus.total_bytes);
    for (uint64_t i = 0; i < made.corpus.count; i++) {
        assert_true(made.counts[i] == 1);
    }
    unmake(&made);
}

static void options__out_of_range_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct goblin_error error;
    struct gb_corpus_options options;
    const struct {
        double scale;
        double exponent;
        double scan;
        uint64_t requests;
        enum gb_corpus_kind kind;
    } bad[] = {
        {0, 0.9, 0, 0, GB_CORPUS_STUDY},
        {-1, 0.9, 0, 0, GB_CORPUS_STUDY},
        {(double)NAN, 0.9, 0, 0, GB_CORPUS_STUDY},
        {1000, 0.9, 0, 0, GB_CORPUS_STUDY},
        {2, 0.9, 0, 0, GB_CORPUS_DEBIAN},
        {1, -0.1, 0, 0, GB_CORPUS_STUDY},
        {1, 4, 0, 0, GB_CORPUS_STUDY},
        {1, 0.9, 1, 0, GB_CORPUS_STUDY},
        {1, 0.9, 0, UINT64_MAX, GB_CORPUS_STUDY},
        {1, 0.9, 0, 0, GB_CORPUS_DATA},
        {1e-9, 0.9, 0, 0, GB_CORPUS_STUDY},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        gb_corpus_defaults(&options);
        options.scale = bad[i].scale;
        options.zipf_exponent = bad[i].exponent;
        options.scan_share = bad[i].scan;
        options.requests = bad[i].requests;
        options.kind = bad[i].kind;
        error.text[0] = '\0';
        assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, &error), -EINVAL);
        assert_true(error.text[0] != '\0');
    }
}

/* ---- corpora from files -------------------------------------------------------------------- */

static char directory[] = "/tmp/goblin-test-corpus-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command) != 0;
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_directory(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void options_for(struct gb_corpus_options *options, enum gb_corpus_kind kind, char *path,
                        const char *name)
{
    (void)snprintf(path, 256, "%s/%s", directory, name);
    gb_corpus_defaults(options);
    options->kind = kind;
    options->path = path;
}

static void debian__lists_every_package_once(void **state)
{
    (void)state;
    make_directory("lists");
    write_file("lists/a_main_Packages",
               "Package: one\nFilename: pool/one.deb\nSize: 1000\nDescription: x\n Size: 7\n\n"
               "Package: two\nSize: 2000\nFilename: pool/two.deb\n\n"
               "Package: sizeless\nFilename: pool/none.deb\n\n");
    write_file("lists/b_main_Packages", "Filename: pool/two.deb\nSize: 2000\n\n"
                                        "Filename: pool/three.deb\nSize: 3000");
    write_file("lists/c_InRelease", "Filename: pool/four.deb\nSize: 4000\n");
    struct gb_corpus_options options;
    struct made made;
    char path[256];
    options_for(&options, GB_CORPUS_DEBIAN, path, "lists");
    make(&options, &made);
    assert_true(made.corpus.count == 3);
    assert_true(made.corpus.total_bytes == 6000);
    assert_null(made.corpus.directory);
    assert_true(made.schedule.count == 49);
    for (uint64_t i = 0; i < 3; i++) {
        char key[GB_CORPUS_KEY_MAX];
        size_t len = gb_corpus_key(&made.corpus, i, key);
        assert_true(len > 5 && memcmp(key, "pool/", 5) == 0);
    }
    unmake(&made);
}

static void debian__names_the_line_that_is_wrong(void **state)
{
    (void)state;
    make_directory("broken");
    write_file("broken/x_Packages", "Package: one\nFilename: a\nSize: 12x\n\n");
    struct gb_corpus_options options;
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct goblin_error error;
    char path[256];
    options_for(&options, GB_CORPUS_DEBIAN, path, "broken");
    assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, &error), -EINVAL);
    assert_non_null(strstr(error.text, "x_Packages:3: "));
    make_directory("empty");
    options_for(&options, GB_CORPUS_DEBIAN, path, "empty");
    assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, &error), -ENOENT);
}

static void data__lists_regular_files_by_their_paths(void **state)
{
    (void)state;
    make_directory("data");
    make_directory("data/deep");
    write_file("data/a", "12345");
    write_file("data/empty", "");
    write_file("data/deep/b", "1234567");
    char path[256];
    char link_path[256];
    (void)snprintf(path, sizeof(path), "%s/data/a", directory);
    (void)snprintf(link_path, sizeof(link_path), "%s/data/link", directory);
    assert_int_equal(symlink(path, link_path), 0);
    struct gb_corpus_options options;
    struct made made;
    options_for(&options, GB_CORPUS_DATA, path, "data/");
    options.is_each_once = true;
    make(&options, &made);
    assert_true(made.corpus.count == 3);
    assert_true(made.corpus.total_bytes == 12);
    assert_string_equal(made.corpus.directory, path);
    for (uint64_t i = 0; i < 3; i++) {
        char key[GB_CORPUS_KEY_MAX + 1];
        size_t len = gb_corpus_key(&made.corpus, i, key);
        key[len] = '\0';
        uint64_t size = made.corpus.sizes[i];
        assert_string_equal(key, size == 5 ? "a" : size == 7 ? "deep/b" : "empty");
    }
    unmake(&made);
}

static void data__refuses_what_is_no_directory(void **state)
{
    (void)state;
    struct gb_corpus_options options;
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct goblin_error error;
    char path[256];
    write_file("file", "x");
    options_for(&options, GB_CORPUS_DATA, path, "file");
    assert_true(gb_corpus_make(&options, &corpus, &schedule, &error) < 0);
    assert_non_null(strstr(error.text, path));
    options_for(&options, GB_CORPUS_DATA, path, "absent");
    assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, &error), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(study__meets_every_published_figure_at_full_scale),
        cmocka_unit_test(study__keeps_its_shape_at_an_eighth),
        cmocka_unit_test(study__returns_its_bytes_for_other_exponents_and_seeds),
        cmocka_unit_test(study__shrinks_to_a_handful_of_objects),
        cmocka_unit_test(study__is_the_same_for_the_same_seed),
        cmocka_unit_test(popularity__falls_with_the_exponent),
        cmocka_unit_test(keys__are_distinct_and_opaque),
        cmocka_unit_test(shift__changes_what_is_popular_but_not_how_much_is_returned),
        cmocka_unit_test(scan__walks_through_every_object),
        cmocka_unit_test(each_once__asks_for_everything_once),
        cmocka_unit_test(options__out_of_range_are_refused_with_a_reason),
        cmocka_unit_test(debian__lists_every_package_once),
        cmocka_unit_test(debian__names_the_line_that_is_wrong),
        cmocka_unit_test(data__lists_regular_files_by_their_paths),
        cmocka_unit_test(data__refuses_what_is_no_directory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
