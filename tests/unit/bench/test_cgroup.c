/* Cgroups, in directories of plain files that look like the kernel's. */
#include "bench/cgroup.h"
#include "bench/scratch.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct gb_cgroup_limits limits = {
    .device_major = 254,
    .device_minor = 3,
    .read_iops = 33542,
    .write_iops = 16771,
    .memory_bytes = UINT64_C(8) << 30,
};

static int make_root(void **state)
{
    char *root = strdup("/tmp/goblin-cgroup-XXXXXX");
    assert_non_null(root);
    assert_non_null(mkdtemp(root));
    *state = root;
    return 0;
}

static int remove_root(void **state)
{
    gb_scratch_remove(*state);
    free(*state);
    return 0;
}

static void cgroup_enter__says_where_there_are_no_cgroups(void **state)
{
    struct gb_cgroup group;
    struct goblin_error error = {{0}};
    assert_int_equal(gb_cgroup_enter(&group, *state, &limits, &error), -ENOSYS);
    assert_non_null(strstr(error.text, "--cap"));
    assert_non_null(strstr(error.text, *state));
    assert_int_equal(group.count, 0);
    assert_int_equal(gb_cgroup_leave(&group), 0);
}

static void cgroup_enter__takes_back_what_it_made_when_a_limit_is_refused(void **state)
{
    /* A plain directory has no blkio.throttle files, so the first limit cannot be set. */
    char path[256];
    struct gb_cgroup group;
    struct goblin_error error = {{0}};
    snprintf(path, sizeof(path), "%s/blkio", (const char *)*state);
    assert_int_equal(gb_scratch_make(path, &error), 0);
    int rc = gb_cgroup_enter(&group, *state, &limits, &error);
    assert_true(rc == -ENOENT || rc == -ENOSYS);
    assert_non_null(strstr(error.text, "--cap"));
    assert_int_equal(group.count, 0);
    snprintf(path, sizeof(path), "%s/blkio/goblin-bench-%d", (const char *)*state, (int)getpid());
    assert_int_not_equal(access(path, F_OK), 0);
}

static void cgroup_device__refuses_what_lies_on_no_drive(void **state)
{
    (void)state;
    unsigned device_major = 0;
    unsigned device_minor = 0;
    struct goblin_error error = {{0}};
    assert_int_equal(gb_cgroup_device("/proc", &device_major, &device_minor, &error), -ENOTBLK);
    assert_non_null(strstr(error.text, "/proc"));
    assert_int_equal(gb_cgroup_device("/no/such", &device_major, &device_minor, &error), -ENOENT);
}

static void cgroup_make__takes_back_what_it_made_when_the_limit_is_refused(void **state)
{
    char path[PATH_MAX];
    char home[256];
    struct goblin_error error = {{0}};
    snprintf(home, sizeof(home), "%s/memory", (const char *)*state);
    assert_int_equal(gb_scratch_make(home, &error), 0);
    assert_true(gb_cgroup_make(path, *state, "some", 1 << 20, &error) < 0);
    assert_non_null(strstr(error.text, "1048576"));
    assert_string_equal(path, "");
    strcat(home, "/some");
    assert_int_not_equal(access(home, F_OK), 0);
}

static void cgroup_make__holds_a_child_to_its_memory(void **state)
{
    (void)state;
    enum { LIMIT = 32 << 20, TOO_MUCH = 128 << 20, PAGE = 4096 };
    char path[PATH_MAX];
    char name[64];
    struct goblin_error error = {{0}};
    snprintf(name, sizeof(name), "goblin-test-%d", (int)getpid());
    if (gb_cgroup_make(path, NULL, name, LIMIT, &error) < 0) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        volatile char *bytes = gb_cgroup_join(path) == 0 ? malloc(TOO_MUCH) : NULL;
        if (!bytes) {
            _exit(1);
        }
        for (size_t i = 0; i < TOO_MUCH; i += PAGE) {
            bytes[i] = 1;
        }
        _exit(2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(gb_cgroup_remove(path), 0);
    assert_int_equal(gb_cgroup_remove(path), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cgroup_enter__says_where_there_are_no_cgroups, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(
            cgroup_enter__takes_back_what_it_made_when_a_limit_is_refused, make_root, remove_root),
        cmocka_unit_test(cgroup_device__refuses_what_lies_on_no_drive),
        cmocka_unit_test_setup_teardown(
            cgroup_make__takes_back_what_it_made_when_the_limit_is_refused, make_root, remove_root),
        cmocka_unit_test(cgroup_make__holds_a_child_to_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
