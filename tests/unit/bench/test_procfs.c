/* What the kernel says of devices. */
#include "bench/procfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(procfs_device__sees_what_is_written_to_the_drive_below),
        cmocka_unit_test(procfs_device__says_when_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
