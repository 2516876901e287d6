/* Scratch directories. */
#include "bench/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char base[] = "/tmp/goblin-scratch-XXXXXX";

static int make_base(void **state)
{
    (void)state;
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    return gb_scratch_remove(base);
}

static void scratch_make__makes_parents_and_accepts_what_exists(void **state)
{
    (void)state;
    char path[128];
    struct goblin_error error = {{0}};
    snprintf(path, sizeof(path), "%s/a/b/c", base);
    assert_int_equal(gb_scratch_make(path, &error), 0);
    assert_int_equal(gb_scratch_make(path, &error), 0);
    assert_int_equal(access(path, W_OK), 0);
    assert_int_equal(gb_scratch_make("", &error), -EINVAL);
}

static void scratch_make__says_what_stands_in_the_way(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    assert_int_equal(gb_scratch_make("/proc/self/status/x", &error), -ENOTDIR);
    assert_non_null(strstr(error.text, "/proc/self/status"));
}

static void scratch_remove__takes_links_but_not_what_they_name(void **state)
{
    (void)state;
    char kept[128];
    char tree[128];
    char link[160];
    struct goblin_error error = {{0}};
    snprintf(kept, sizeof(kept), "%s/kept", base);
    snprintf(tree, sizeof(tree), "%s/tree", base);
    snprintf(link, sizeof(link), "%s/link", tree);
    assert_int_equal(gb_scratch_make(kept, &error), 0);
    assert_int_equal(gb_scratch_make(tree, &error), 0);
    assert_int_equal(symlink(kept, link), 0);
    assert_int_equal(gb_scratch_remove(tree), 0);
    assert_int_not_equal(access(tree, F_OK), 0);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(gb_scratch_remove(tree), 0);
}

static void scratch_usage__counts_what_files_take_on_the_disk(void **state)
{
    (void)state;
    enum { FILE_BYTES = 1 << 20, SLACK_BYTES = 64 << 10 };
    static char bytes[FILE_BYTES];
    char path[128];
    char file_path[160];
    char hole[160];
    struct goblin_error error = {{0}};
    uint64_t empty = 0;
    uint64_t full = 0;
    snprintf(path, sizeof(path), "%s/usage/below", base);
    assert_int_equal(gb_scratch_make(path, &error), 0);
    assert_int_equal(gb_scratch_usage(path, &empty), 0);
    snprintf(hole, sizeof(hole), "%s/hole", path);
    snprintf(file_path, sizeof(file_path), "%s/file", path);
    FILE *file = fopen(file_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, FILE_BYTES, file), FILE_BYTES);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(fsync(fileno(file)), 0);
    assert_int_equal(fclose(file), 0);
    file = fopen(hole, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(hole, 100 << 20), 0);
    snprintf(path, sizeof(path), "%s/usage", base);
    assert_int_equal(gb_scratch_usage(path, &full), 0);
    assert_in_range(full, empty + FILE_BYTES, empty + FILE_BYTES + SLACK_BYTES);
    assert_int_equal(gb_scratch_usage("/no/such", &full), -ENOENT);
}

static void scratch_check__names_the_need_and_the_remedy(void **state)
{
    (void)state;
    struct goblin_error error = {{0}};
    assert_int_equal(gb_scratch_check(base, 1, &error), 0);
    assert_int_equal(gb_scratch_check(base, UINT64_MAX, &error), -ENOSPC);
    assert_non_null(strstr(error.text, base));
    assert_non_null(strstr(error.text, "--scale"));
    assert_int_equal(gb_scratch_check("/no/such", 1, &error), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_make__makes_parents_and_accepts_what_exists),
        cmocka_unit_test(scratch_make__says_what_stands_in_the_way),
        cmocka_unit_test(scratch_remove__takes_links_but_not_what_they_name),
        cmocka_unit_test(scratch_usage__counts_what_files_take_on_the_disk),
        cmocka_unit_test(scratch_check__names_the_need_and_the_remedy),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
