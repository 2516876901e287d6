/* What the kernel says of devices. */
#include "bench/procfs.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITE_BYTES = 4 << 20 };

static void procfs_device__sees_what_is_written_to_the_drive_below(void **state)
{
    (void)state;
    uint64_t before = 0;
    uint64_t after = 0;
    char path[] = "/var/tmp/goblin-procfs-XXXXXX";
    char *bytes = calloc(1, WRITE_BYTES);
    int fd = mkstemp(path);
    assert_non_null(bytes);
    assert_true(fd >= 0);
    unlink(path);
    int rc = gb_procfs_device("/var/tmp", &before);
    if (rc == -ENODEV) { /* a file system that no single block device holds */
        close(fd);
        free(bytes);
        skip();
    }
    assert_int_equal(rc, 0);
    memset(bytes, 7, WRITE_BYTES);
    assert_int_equal(write(fd, bytes, WRITE_BYTES), WRITE_BYTES);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(gb_procfs_device("/var/tmp", &after), 0);
    assert_true(after >= before + WRITE_BYTES);
    close(fd);
    free(bytes);
}

static void procfs_device__says_when_there_is_none(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(gb_procfs_device("/proc", &bytes), -ENODEV);
    assert_int_equal(gb_procfs_device("/proc/no/such/thing", &bytes), -ENOENT);
}

static void procfs_tree__holds_children_and_their_children(void **state)
{
    (void)state;
    enum { ROOM = 16 };
    pid_t pids[ROOM];
    int pipes[2];
    pid_t grandchild = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        grandchild = fork();
        if (grandchild == 0) {
            pause();
            _exit(0);
        }
        _exit(write(pipes[1], &grandchild, sizeof(grandchild)) == sizeof(grandchild) &&
                      waitpid(grandchild, NULL, 0) == grandchild
                  ? 0
                  : 1);
    }
    assert_int_equal(read(pipes[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(gb_procfs_tree(child, pids, ROOM), 2);
    assert_int_equal(pids[0], child);
    assert_int_equal(pids[1], grandchild);
    assert_int_equal(gb_procfs_tree(child, pids, 1), 1);
    kill(grandchild, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(gb_procfs_tree(child, pids, ROOM), -ESRCH);
    close(pipes[0]);
    close(pipes[1]);
}

static void procfs_cost__grows_with_what_a_process_does(void **state)
{
    (void)state;
    struct gb_procfs_cost before;
    struct gb_procfs_cost after;
    volatile uint64_t sum = 0;
    assert_int_equal(gb_procfs_cost(getpid(), &before), 0);
    char *bytes = malloc(WRITE_BYTES);
    assert_non_null(bytes);
    memset(bytes, 1, WRITE_BYTES);
    do { /* until the kernel's clock of processor time has moved on */
        for (int i = 0; i < 1000000; i++) {
            sum += (unsigned char)bytes[i % WRITE_BYTES];
        }
        assert_int_equal(gb_procfs_cost(getpid(), &after), 0);
    } while (after.cpu_s <= before.cpu_s);
    assert_true(after.private_bytes >= before.private_bytes + WRITE_BYTES / 2);
    assert_true(after.shared_bytes > 0);
    assert_true(sum > 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(procfs_tree__holds_children_and_their_children),
        cmocka_unit_test(procfs_cost__grows_with_what_a_process_does),
        cmocka_unit_test(procfs_device__sees_what_is_written_to_the_drive_below),
        cmocka_unit_test(procfs_device__says_when_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
