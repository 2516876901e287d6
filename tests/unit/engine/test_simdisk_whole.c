/* The simulated disk, faults of a whole drive and of a whole file system. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/simdisk.h"
#include "sim/siminode.h"

static struct gb_file *make_file(struct gb_io *io, const char *path)
{
    struct gb_file *file;
    assert_int_equal(io->ops->file_open(io, path, GB_OPEN_CREATE, &file), 0);
    return file;
}

static void fill__leaves_so_much_and_takes_nothing_away(void **state)
{
    (void)state;
    struct gb_io *io = simdisk_create(1);
    struct gb_file *file = make_file(io, "f");
    unsigned char page[SIM_PAGE] = {0};
    assert_int_equal(io->ops->file_allocate(file, 3 * SIM_PAGE), 0);
    simdisk_fill(io, SIM_PAGE);
    uint64_t bytes = 0;
    assert_int_equal(io->ops->free_space(io, ".", &bytes), 0);
    assert_int_equal(bytes, SIM_PAGE);
    assert_int_equal(io->ops->file_write(file, page, SIM_PAGE, 0), SIM_PAGE);
    assert_int_equal(io->ops->file_allocate(file, 5 * SIM_PAGE), -ENOSPC);
    assert_int_equal(io->ops->file_allocate(file, 4 * SIM_PAGE), 0);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void drive__refuses_writes_alone_and_to_its_files_alone(void **state)
{
    (void)state;
    struct gb_io *io = simdisk_create(1);
    assert_int_equal(io->ops->make_dir(io, "/one"), 0);
    assert_int_equal(io->ops->make_dir(io, "/two"), 0);
    struct gb_file *one = make_file(io, "/one/f");
    struct gb_file *two = make_file(io, "/two/f");
    char byte = 'n';
    assert_int_equal(io->ops->file_write(one, &byte, 1, 0), 1);
    simdisk_refuse_writes(io, "/one");
    assert_int_equal(io->ops->file_write(one, &byte, 1, 0), -EIO);
    assert_int_equal(io->ops->file_write(two, &byte, 1, 0), 1);
    assert_int_equal(io->ops->file_read(one, &byte, 1, 0), 1);
    assert_int_equal(io->ops->file_sync(one), 0);
    struct simdisk_counts counts;
    simdisk_counts(io, &counts);
    assert_int_equal(counts.failed, 1);
    simdisk_refuse_writes(io, NULL);
    assert_int_equal(io->ops->file_write(one, &byte, 1, 0), 1);
    io->ops->file_close(one);
    io->ops->file_close(two);
    io->ops->destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill__leaves_so_much_and_takes_nothing_away),
        cmocka_unit_test(drive__refuses_writes_alone_and_to_its_files_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
