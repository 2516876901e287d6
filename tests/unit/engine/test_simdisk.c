/* The simulated disk does to data what its header says, and each fault is seen to happen. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "sim/simdisk.h"
#include "sim/siminode.h"
#include "sim/simnames.h"

#define SEEDS 200u

static struct gb_file *open_file(struct gb_io *io, const char *path, unsigned flags)
{
    struct gb_file *file;
    assert_int_equal(io->ops->file_open(io, path, flags, &file), 0);
    return file;
}

static struct simdisk_counts counts_of(struct gb_io *io)
{
    struct simdisk_counts counts;
    simdisk_counts(io, &counts);
    return counts;
}

/* A disk with a durable file "f" of `len` bytes 'o', open. */
static struct gb_io *disk_with_file(uint64_t seed, size_t len, struct gb_file **file)
{
    struct gb_io *io = simdisk_create(seed);
    *file = open_file(io, "f", GB_OPEN_CREATE);
    unsigned char *bytes = malloc(len + 1);
    assert_non_null(bytes);
    memset(bytes, 'o', len + 1);
    assert_int_equal(io->ops->file_write(*file, bytes, len, 0), len);
    free(bytes);
    assert_int_equal(io->ops->file_sync(*file), 0);
    assert_int_equal(io->ops->sync_dir(io, "."), 0);
    return io;
}

static struct gb_file *reopen(struct gb_io *io, struct gb_file *dead)
{
    io->ops->file_close(dead);
    simdisk_restart(io);
    return open_file(io, "f", 0);
}

static bool exists(struct gb_io *io, const char *path)
{
    struct gb_file *file;
    int rc = io->ops->file_open(io, path, 0, &file);
    if (rc == 0) {
        io->ops->file_close(file);
    }
    return rc == 0 || rc == -EISDIR;
}

/* ---- power cuts ---------------------------------------------------------------------------- */

static void power_cut__keeps_what_was_synced(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 10000, &file);
        simdisk_power_cut(io);
        file = reopen(io, file);
        unsigned char bytes[10001];
        assert_int_equal(io->ops->file_read(file, bytes, 10001, 0), 10000);
        for (unsigned i = 0; i < 10000; i++) {
            assert_int_equal(bytes[i], 'o');
        }
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
}

enum outcome { KEPT, DROPPED, TORN, OUTCOMES };

/* Overwrites 8 sectors without a sync and says what a power cut left of that. */
static enum outcome cut_one_write(uint64_t seed)
{
    struct gb_file *file;
    struct gb_io *io = disk_with_file(seed, 8 * SIM_SECTOR, &file);
    unsigned char bytes[8 * SIM_SECTOR];
    memset(bytes, 'n', sizeof(bytes));
    assert_int_equal(io->ops->file_write(file, bytes, sizeof(bytes), 0), sizeof(bytes));
    simdisk_power_cut(io);
    file = reopen(io, file);
    assert_int_equal(io->ops->file_read(file, bytes, sizeof(bytes), 0), sizeof(bytes));
    unsigned changed = 0;
    for (unsigned sector = 0; sector < 8; sector++) {
        const unsigned char *first = bytes + sector * SIM_SECTOR;
        for (unsigned i = 0; i < SIM_SECTOR; i++) {
            assert_int_equal(first[i], first[0]); /* a sector never tears */
        }
        changed += first[0] == 'n';
    }
    io->ops->file_close(file);
    io->ops->destroy(io);
    return changed == 8 ? KEPT : changed == 0 ? DROPPED : TORN;
}

static void power_cut__keeps_drops_and_tears_unsynced_writes(void **state)
{
    (void)state;
    unsigned seen[OUTCOMES] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        seen[cut_one_write(seed)]++;
        assert_int_equal(cut_one_write(seed), cut_one_write(seed));
    }
    assert_true(seen[KEPT] > SEEDS / 10);
    assert_true(seen[DROPPED] > SEEDS / 10);
    assert_true(seen[TORN] > SEEDS / 20);
}

static void power_cut__judges_each_write_by_itself(void **state)
{
    (void)state;
    unsigned later_only = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 1000, &file);
        assert_int_equal(io->ops->file_write(file, "1", 1, 0), 1);
        assert_int_equal(io->ops->file_write(file, "2", 1, 900), 1);
        simdisk_power_cut(io);
        file = reopen(io, file);
        char first = 0;
        char second = 0;
        assert_int_equal(io->ops->file_read(file, &first, 1, 0), 1);
        assert_int_equal(io->ops->file_read(file, &second, 1, 900), 1);
        assert_true((first == '1' || first == 'o') && (second == '2' || second == 'o'));
        later_only += first == 'o' && second == '2';
        struct simdisk_counts counts = counts_of(io);
        assert_int_equal(counts.writes_kept + counts.writes_dropped, 2);
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(later_only > 0);
}

static void power_cut__may_undo_sizes(void **state)
{
    (void)state;
    unsigned grown = 0;
    unsigned cut = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 9000, &file);
        assert_int_equal(io->ops->file_truncate(file, 100), 0);
        assert_int_equal(io->ops->file_allocate(file, 20000), 0);
        simdisk_power_cut(io);
        file = reopen(io, file);
        unsigned char bytes[20000];
        int64_t n = io->ops->file_read(file, bytes, sizeof(bytes), 0);
        assert_true(n == 100 || n == 9000 || n == 20000);
        assert_int_equal(bytes[99], 'o');
        bool was_cut = n == 100 || (n == 20000 && bytes[100] == 0);
        for (int64_t i = 100; i < n; i++) {
            assert_int_equal(bytes[i], was_cut || i >= 9000 ? 0 : 'o');
        }
        grown += n == 20000;
        cut += was_cut;
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(grown > 0 && grown < SEEDS);
    assert_true(cut > 0 && cut < SEEDS);
}

static void power_cut__loses_names_without_sync_dir(void **state)
{
    (void)state;
    unsigned created = 0;
    unsigned removed = 0;
    unsigned renamed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_io *io = simdisk_create(seed);
        io->ops->file_close(open_file(io, "/doomed", GB_OPEN_CREATE));
        io->ops->file_close(open_file(io, "/from", GB_OPEN_CREATE));
        assert_int_equal(io->ops->sync_dir(io, "/"), 0);
        io->ops->file_close(open_file(io, "/new", GB_OPEN_CREATE));
        assert_int_equal(io->ops->unlink(io, "/doomed"), 0);
        assert_int_equal(io->ops->rename(io, "/from", "/to"), 0);
        simdisk_power_cut(io);
        simdisk_restart(io);
        created += exists(io, "/new");
        removed += !exists(io, "/doomed");
        renamed += exists(io, "/to");
        assert_true(exists(io, "/to") != exists(io, "/from"));
        struct simdisk_counts counts = counts_of(io);
        assert_int_equal(counts.names_kept + counts.names_dropped, 3);
        io->ops->destroy(io);
    }
    assert_true(created > 0 && created < SEEDS);
    assert_true(removed > 0 && removed < SEEDS);
    assert_true(renamed > 0 && renamed < SEEDS);
}

static void power_cut__keeps_names_after_sync_dir(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_io *io = simdisk_create(seed);
        assert_int_equal(io->ops->make_dir(io, "/d"), 0);
        assert_int_equal(io->ops->sync_dir(io, "/"), 0);
        io->ops->file_close(open_file(io, "/d/tmp", GB_OPEN_CREATE));
        assert_int_equal(io->ops->rename(io, "/d/tmp", "/d/name"), 0);
        io->ops->file_close(open_file(io, "/other", GB_OPEN_CREATE));
        assert_int_equal(io->ops->sync_dir(io, "//d/."), 0);
        simdisk_power_cut(io);
        simdisk_restart(io);
        assert_true(exists(io, "/d/name"));
        assert_false(exists(io, "/d/tmp"));
        io->ops->destroy(io);
    }
}

static void power_cut__loses_what_lies_in_a_lost_directory(void **state)
{
    (void)state;
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_io *io = simdisk_create(seed);
        assert_int_equal(io->ops->make_dir(io, "d"), 0);
        io->ops->file_close(open_file(io, "d/f", GB_OPEN_CREATE));
        assert_int_equal(io->ops->sync_dir(io, "d"), 0);
        simdisk_power_cut(io);
        simdisk_restart(io);
        assert_true(exists(io, "d") == exists(io, "d/f"));
        lost += !exists(io, "d");
        io->ops->destroy(io);
    }
    assert_true(lost > 0 && lost < SEEDS);
}

static void power_cut__leaves_the_disk_down_until_restart(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(1, 100, &file);
    struct gb_queue *queue;
    assert_int_equal(io->ops->queue_create(io, 2, &queue), 0);
    unsigned char byte = 'n';
    struct gb_operation write = {GB_OP_WRITE, file, &byte, 1, 0, &byte};
    assert_int_equal(io->ops->queue_prepare(queue, &write), 0);
    simdisk_power_cut(io);
    struct gb_event event;
    assert_int_equal(io->ops->queue_reap(queue, &event, 1, -1), 1);
    assert_int_equal(event.result, -EIO);
    struct gb_file *other;
    struct gb_queue *other_queue;
    uint64_t size;
    assert_int_equal(io->ops->file_open(io, "f", 0, &other), -EIO);
    assert_int_equal(io->ops->queue_create(io, 1, &other_queue), -EIO);
    assert_int_equal(io->ops->rename(io, "f", "g"), -EIO);
    simdisk_restart(io);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), -EIO);
    assert_int_equal(io->ops->file_write(file, &byte, 1, 0), -EIO);
    assert_int_equal(io->ops->file_sync(file), -EIO);
    assert_int_equal(io->ops->file_size(file, &size), -EIO);
    assert_int_equal(io->ops->file_lock(file, false), -EIO);
    io->ops->queue_destroy(queue);
    io->ops->file_close(file);
    assert_true(exists(io, "f"));
    io->ops->destroy(io);
}

/* ---- queues -------------------------------------------------------------------------------- */

static void queue__gives_events_in_an_order_of_the_seeds_choosing(void **state)
{
    (void)state;
    unsigned reordered = 0;
    unsigned silent = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 8, &file);
        struct gb_queue *queue;
        assert_int_equal(io->ops->queue_create(io, 8, &queue), 0);
        unsigned char bytes[8];
        for (unsigned i = 0; i < 8; i++) {
            struct gb_operation read = {GB_OP_READ, file, &bytes[i], 1, i, &bytes[i]};
            assert_int_equal(io->ops->queue_prepare(queue, &read), 0);
        }
        struct gb_event event;
        const unsigned char *last = bytes;
        while (io->ops->queue_in_flight(queue) > 0) {
            int n = io->ops->queue_reap(queue, &event, 1, 0);
            silent += n == 0;
            if (n == 1) {
                reordered += (unsigned char *)event.tag < last;
                last = event.tag;
            }
        }
        io->ops->queue_destroy(queue);
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(reordered > 20);
    assert_true(silent > 20);
}

static void queue_sync__covers_only_what_was_taken_before_it(void **state)
{
    (void)state;
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 1000, &file);
        struct gb_queue *queue;
        assert_int_equal(io->ops->queue_create(io, 2, &queue), 0);
        assert_int_equal(io->ops->file_write(file, "1", 1, 0), 1);
        unsigned char byte = '2';
        struct gb_operation sync = {.op = GB_OP_SYNC, .file = file, .tag = queue};
        struct gb_operation write = {GB_OP_WRITE, file, &byte, 1, 900, &byte};
        assert_int_equal(io->ops->queue_prepare(queue, &sync), 0);
        assert_int_equal(io->ops->queue_prepare(queue, &write), 0);
        struct gb_event events[2];
        while (io->ops->queue_in_flight(queue) > 0) {
            assert_true(io->ops->queue_reap(queue, events, 2, -1) > 0);
        }
        simdisk_power_cut(io);
        io->ops->queue_destroy(queue);
        file = reopen(io, file);
        char bytes[1000];
        assert_int_equal(io->ops->file_read(file, bytes, 1000, 0), 1000);
        assert_int_equal(bytes[0], '1');
        lost += bytes[900] == 'o';
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(lost > 0 && lost < SEEDS);
}

static void crash_process__keeps_what_completed_and_half_of_what_did_not(void **state)
{
    (void)state;
    unsigned landed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 1000, &file);
        assert_int_equal(io->ops->file_lock(file, false), 0);
        struct gb_queue *queue;
        assert_int_equal(io->ops->queue_create(io, 2, &queue), 0);
        assert_int_equal(io->ops->file_write(file, "1", 1, 0), 1);
        unsigned char bytes[1000] = "23";
        struct gb_operation submitted = {GB_OP_WRITE, file, &bytes[0], 1, 1, &bytes[0]};
        struct gb_operation prepared = {GB_OP_WRITE, file, &bytes[1], 1, 2, &bytes[1]};
        assert_int_equal(io->ops->queue_prepare(queue, &submitted), 0);
        assert_int_equal(io->ops->queue_submit(queue), 0);
        assert_int_equal(io->ops->queue_prepare(queue, &prepared), 0);
        simdisk_crash_process(io);
        io->ops->queue_destroy(queue);
        file = reopen(io, file);
        assert_int_equal(io->ops->file_lock(file, false), 0);
        assert_int_equal(io->ops->file_read(file, bytes, 1000, 0), 1000);
        assert_int_equal(bytes[0], '1');
        assert_true(bytes[1] == '2' || bytes[1] == 'o');
        assert_int_equal(bytes[2], 'o');
        landed += bytes[1] == '2';
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(landed > SEEDS / 4 && landed < SEEDS * 3 / 4);
}

/* ---- injected faults ----------------------------------------------------------------------- */

static void fail_nth__fails_that_operation_once(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(1, 100, &file);
    char byte;
    simdisk_fail_nth(io, SIMDISK_READ, 2);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
    assert_int_equal(io->ops->file_write(file, "n", 1, 0), 1);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), -EIO);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
    simdisk_fail_nth(io, SIMDISK_WRITE, 1);
    assert_int_equal(io->ops->file_write(file, "n", 1, 0), -EIO);
    simdisk_fail_nth(io, SIMDISK_NAME, 1);
    assert_int_equal(io->ops->rename(io, "f", "g"), -EIO);
    assert_int_equal(io->ops->rename(io, "f", "g"), 0);
    simdisk_fail_nth(io, SIMDISK_SYNC, 1);
    assert_int_equal(io->ops->sync_dir(io, "."), -EIO);
    simdisk_fail_nth(io, SIMDISK_ANY, 3);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
    assert_int_equal(io->ops->file_write(file, "n", 1, 0), 1);
    assert_int_equal(io->ops->file_sync(file), -EIO);
    simdisk_fail_from_nth(io, SIMDISK_READ, 1);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), -EIO);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), -EIO);
    simdisk_fail_nth(io, SIMDISK_READ, 0);
    assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
    assert_int_equal(counts_of(io).failed, 7);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void fail_nth__reaches_into_queues(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(1, 100, &file);
    struct gb_queue *queue;
    assert_int_equal(io->ops->queue_create(io, 4, &queue), 0);
    unsigned char bytes[4];
    simdisk_fail_nth(io, SIMDISK_READ, 3);
    for (unsigned i = 0; i < 4; i++) {
        struct gb_operation read = {GB_OP_READ, file, &bytes[i], 1, i, &bytes[i]};
        assert_int_equal(io->ops->queue_prepare(queue, &read), 0);
    }
    unsigned failed = 0;
    while (io->ops->queue_in_flight(queue) > 0) {
        struct gb_event event;
        assert_int_equal(io->ops->queue_reap(queue, &event, 1, -1), 1);
        failed += event.result == -EIO;
    }
    assert_int_equal(failed, 1);
    io->ops->queue_destroy(queue);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void failed_write__may_have_written_any_of_its_sectors(void **state)
{
    (void)state;
    unsigned seen[9] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 8 * SIM_SECTOR, &file);
        unsigned char bytes[8 * SIM_SECTOR];
        memset(bytes, 'n', sizeof(bytes));
        simdisk_fail_nth(io, SIMDISK_WRITE, 1);
        assert_int_equal(io->ops->file_write(file, bytes, sizeof(bytes), 0), -EIO);
        assert_int_equal(io->ops->file_read(file, bytes, sizeof(bytes), 0), sizeof(bytes));
        unsigned changed = 0;
        for (unsigned sector = 0; sector < 8; sector++) {
            changed += bytes[sector * SIM_SECTOR] == 'n';
        }
        seen[changed]++;
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(seen[0] > 0 && seen[4] > 0 && seen[8] > 0);
}

static void failed_sync__is_not_made_good_by_the_next_one(void **state)
{
    (void)state;
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 1000, &file);
        assert_int_equal(io->ops->file_write(file, "11", 2, 0), 2);
        simdisk_fail_nth(io, SIMDISK_SYNC, 1);
        assert_int_equal(io->ops->file_sync(file), -EIO);
        assert_int_equal(io->ops->file_write(file, "2", 1, 1), 1);
        assert_int_equal(io->ops->file_sync(file), 0);
        assert_int_equal(counts_of(io).syncs_doomed, 1);
        simdisk_power_cut(io);
        file = reopen(io, file);
        char bytes[2];
        assert_int_equal(io->ops->file_read(file, bytes, 2, 0), 2);
        lost += bytes[0] == 'o';
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(lost > 0 && lost < SEEDS);
}

static void cut_at_nth__catches_the_write_in_flight(void **state)
{
    (void)state;
    unsigned landed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, 1000, &file);
        simdisk_cut_at_nth(io, SIMDISK_ANY, 2);
        char byte;
        assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
        assert_int_equal(io->ops->file_write(file, "n", 1, 0), -EIO);
        assert_int_equal(io->ops->file_sync(file), -EIO);
        assert_int_equal(counts_of(io).cuts, 1);
        file = reopen(io, file);
        assert_int_equal(io->ops->file_read(file, &byte, 1, 0), 1);
        landed += byte == 'n';
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
    assert_true(landed > 0 && landed < SEEDS);
}

static void capacity__refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(1, SIM_PAGE, &file);
    simdisk_set_capacity(io, 4 * SIM_PAGE);
    uint64_t bytes = 0;
    assert_int_equal(io->ops->free_space(io, ".", &bytes), 0);
    assert_int_equal(bytes, 3 * SIM_PAGE);
    assert_int_equal(io->ops->file_allocate(file, 5 * SIM_PAGE), -ENOSPC);
    assert_int_equal(io->ops->file_allocate(file, 3 * SIM_PAGE), 0);
    struct gb_file *other = open_file(io, "other", GB_OPEN_CREATE);
    unsigned char page[2 * SIM_PAGE] = {0};
    assert_int_equal(io->ops->file_write(other, page, 2 * SIM_PAGE, 0), -ENOSPC);
    assert_int_equal(io->ops->file_write(other, page, SIM_PAGE, 40 * SIM_PAGE), SIM_PAGE);
    assert_int_equal(io->ops->file_write(other, page, 1, 0), -ENOSPC);
    assert_int_equal(io->ops->file_write(file, page, 2 * SIM_PAGE, SIM_PAGE), 2 * SIM_PAGE);
    assert_int_equal(counts_of(io).no_space, 3);
    assert_int_equal(io->ops->unlink(io, "f"), 0);
    assert_int_equal(io->ops->file_write(other, page, 1, 0), -ENOSPC);
    io->ops->file_close(file);
    assert_int_equal(io->ops->file_write(other, page, 1, 0), 1);
    assert_int_equal(io->ops->free_space(io, ".", &bytes), 0);
    assert_int_equal(bytes, 2 * SIM_PAGE);
    simdisk_set_allocate(io, false);
    assert_int_equal(io->ops->file_allocate(other, 100 * SIM_PAGE), 1);
    assert_int_equal(io->ops->file_size(other, &bytes), 0);
    assert_int_equal(bytes, 100 * SIM_PAGE);
    io->ops->file_close(other);
    io->ops->destroy(io);
}

static void flip__changes_the_stored_byte_for_good(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(3, 10000, &file);
    assert_int_equal(simdisk_flip(io, "f", 5000, 0x81), 0);
    assert_int_equal(simdisk_flip(io, "f", 10000, 1), -ERANGE);
    assert_int_equal(simdisk_flip(io, "none", 0, 1), -ENOENT);
    uint64_t where = 0;
    assert_int_equal(simdisk_rot(io, "f", &where), 0);
    simdisk_power_cut(io);
    file = reopen(io, file);
    unsigned char bytes[10000];
    assert_int_equal(io->ops->file_read(file, bytes, 10000, 0), 10000);
    unsigned wrong = 0;
    for (unsigned i = 0; i < 10000; i++) {
        wrong += bytes[i] != 'o';
        if (i == 5000 && where != 5000) {
            assert_int_equal(bytes[i], 'o' ^ 0x81);
        }
    }
    assert_int_not_equal(bytes[where], 'o');
    assert_int_equal(wrong, where == 5000 ? 1 : 2);
    assert_int_equal(counts_of(io).flipped, 2);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void misdirection__writes_elsewhere_and_says_nothing(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(5, 100 * SIM_SECTOR, &file);
    simdisk_set_misdirection(io, 1);
    unsigned char sector[SIM_SECTOR];
    memset(sector, 'n', sizeof(sector));
    assert_int_equal(io->ops->file_write(file, sector, SIM_SECTOR, 0), SIM_SECTOR);
    assert_int_equal(counts_of(io).misdirected, 1);
    unsigned found = 0;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(io->ops->file_read(file, sector, SIM_SECTOR, i * SIM_SECTOR), SIM_SECTOR);
        found += sector[0] == 'n';
        assert_true(i != 0 || sector[0] == 'o');
    }
    assert_int_equal(found, 1);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void direct__refuses_what_is_misaligned(void **state)
{
    (void)state;
    struct gb_file *file;
    struct gb_io *io = disk_with_file(5, 8192, &file);
    io->ops->file_close(file);
    simdisk_set_alignment(io, 4096);
    file = open_file(io, "f", GB_OPEN_DIRECT);
    unsigned char *page = aligned_alloc(4096, 8192);
    assert_non_null(page);
    assert_int_equal(io->ops->file_read(file, page, 4096, 4096), 4096);
    assert_int_equal(io->ops->file_read(file, page, 4096, 512), -EINVAL);
    assert_int_equal(io->ops->file_read(file, page, 512, 0), -EINVAL);
    assert_int_equal(io->ops->file_write(file, page + 512, 4096, 0), -EINVAL);
    free(page);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

/* ---- size and threads ---------------------------------------------------------------------- */

static void sparse_files__take_only_what_is_written(void **state)
{
    (void)state;
    struct gb_io *io = simdisk_create(1);
    struct gb_file *file = open_file(io, "/sparse", GB_OPEN_CREATE);
    assert_int_equal(io->ops->file_truncate(file, UINT64_C(1) << 40), 0);
    assert_int_equal(io->ops->file_write(file, "far", 3, UINT64_C(1) << 39), 3);
    uint64_t before = 0;
    uint64_t after = 0;
    assert_int_equal(io->ops->free_space(io, "/", &before), 0);
    assert_int_equal(io->ops->file_write(file, "near", 4, 0), 4);
    assert_int_equal(io->ops->free_space(io, "/", &after), 0);
    assert_int_equal(before - after, SIM_PAGE);
    char bytes[4];
    assert_int_equal(io->ops->file_read(file, bytes, 4, UINT64_C(1) << 39), 4);
    assert_memory_equal(bytes, "far\0", 4);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

#define THREADS      4u
#define THREAD_BYTES 65536u

static void *write_own_part(void *arg)
{
    struct gb_file *file = arg;
    static _Atomic unsigned number; /* sequentially consistent; only numbers the threads */
    unsigned own = number++ % THREADS;
    const struct gb_io_ops *ops = file->io->ops;
    struct gb_queue *queue;
    unsigned char bytes[64];
    memset(bytes, (int)('a' + own), sizeof(bytes));
    bool good = ops->queue_create(file->io, 8, &queue) == 0;
    for (unsigned at = 0; good && at < THREAD_BYTES; at += 64) {
        struct gb_operation write = {GB_OP_WRITE, file, bytes, 64, own * THREAD_BYTES + at, bytes};
        struct gb_event event;
        while (ops->queue_prepare(queue, &write) == -EAGAIN) {
            good = good && ops->queue_reap(queue, &event, 1, -1) == 1 && event.result == 64;
        }
    }
    ops->queue_submit(queue);
    ops->queue_destroy(queue);
    return good ? file : NULL;
}

static void simdisk__serves_many_threads(void **state)
{
    (void)state;
    struct gb_io *io = simdisk_create(1);
    struct gb_file *file = open_file(io, "/shared", GB_OPEN_CREATE);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_own_part, file), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *answer;
        assert_int_equal(pthread_join(threads[i], &answer), 0);
        assert_ptr_equal(answer, file);
    }
    unsigned char *bytes = malloc(THREADS * THREAD_BYTES);
    assert_non_null(bytes);
    assert_int_equal(io->ops->file_read(file, bytes, THREADS * THREAD_BYTES, 0),
                     THREADS * THREAD_BYTES);
    for (unsigned i = 0; i < THREADS * THREAD_BYTES; i++) {
        assert_int_equal(bytes[i], 'a' + i / THREAD_BYTES);
    }
    free(bytes);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

/* What a byte of a file may be after a power cut: the value of its last sync or any later one. */
#define SMALL        64u
#define SMALL_WRITES 12u

struct history {
    unsigned char may[SMALL][SMALL_WRITES + 1];
    unsigned count[SMALL];
};

static struct history history_of(unsigned char value)
{
    struct history history;
    for (unsigned at = 0; at < SMALL; at++) {
        history.may[at][0] = value;
        history.count[at] = 1;
    }
    return history;
}

static void note_write(struct history *history, unsigned at, unsigned len, unsigned char value)
{
    for (unsigned i = at; i < at + len; i++) {
        history->may[i][history->count[i]++] = value;
    }
}

static void note_sync(struct history *history)
{
    for (unsigned i = 0; i < SMALL; i++) {
        history->may[i][0] = history->may[i][history->count[i] - 1];
        history->count[i] = 1;
    }
}

static void write_at_random(struct gb_file *file, struct gb_rng *rng, struct history *history)
{
    for (unsigned char value = 'A'; value < 'A' + SMALL_WRITES; value++) {
        unsigned at = (unsigned)gb_rng_below(rng, SMALL);
        unsigned len = 1 + (unsigned)gb_rng_below(rng, SMALL - at);
        unsigned char bytes[SMALL];
        memset(bytes, value, len);
        assert_int_equal(file->io->ops->file_write(file, bytes, len, at), len);
        note_write(history, at, len, value);
        if (gb_rng_below(rng, 4) == 0) {
            assert_int_equal(file->io->ops->file_sync(file), 0);
            note_sync(history);
        }
    }
}

static void power_cut__never_invents_bytes(void **state)
{
    (void)state;
    uint64_t first_seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)first_seed);
    for (uint64_t seed = first_seed; seed < first_seed + SEEDS; seed++) {
        struct gb_rng rng;
        gb_rng_init(&rng, seed);
        struct gb_file *file;
        struct gb_io *io = disk_with_file(seed, SMALL, &file);
        struct history history = history_of('o');
        write_at_random(file, &rng, &history);
        simdisk_power_cut(io);
        file = reopen(io, file);
        unsigned char bytes[SMALL];
        assert_int_equal(io->ops->file_read(file, bytes, SMALL, 0), SMALL);
        for (unsigned at = 0; at < SMALL; at++) {
            assert_non_null(memchr(history.may[at], bytes[at], history.count[at]));
        }
        io->ops->file_close(file);
        io->ops->destroy(io);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_cut__keeps_what_was_synced),
        cmocka_unit_test(power_cut__keeps_drops_and_tears_unsynced_writes),
        cmocka_unit_test(power_cut__judges_each_write_by_itself),
        cmocka_unit_test(power_cut__may_undo_sizes),
        cmocka_unit_test(power_cut__loses_names_without_sync_dir),
        cmocka_unit_test(power_cut__keeps_names_after_sync_dir),
        cmocka_unit_test(power_cut__loses_what_lies_in_a_lost_directory),
        cmocka_unit_test(power_cut__leaves_the_disk_down_until_restart),
        cmocka_unit_test(power_cut__never_invents_bytes),
        cmocka_unit_test(queue__gives_events_in_an_order_of_the_seeds_choosing),
        cmocka_unit_test(queue_sync__covers_only_what_was_taken_before_it),
        cmocka_unit_test(crash_process__keeps_what_completed_and_half_of_what_did_not),
        cmocka_unit_test(fail_nth__fails_that_operation_once),
        cmocka_unit_test(fail_nth__reaches_into_queues),
        cmocka_unit_test(failed_write__may_have_written_any_of_its_sectors),
        cmocka_unit_test(failed_sync__is_not_made_good_by_the_next_one),
        cmocka_unit_test(cut_at_nth__catches_the_write_in_flight),
        cmocka_unit_test(capacity__refuses_what_does_not_fit),
        cmocka_unit_test(flip__changes_the_stored_byte_for_good),
        cmocka_unit_test(misdirection__writes_elsewhere_and_says_nothing),
        cmocka_unit_test(direct__refuses_what_is_misaligned),
        cmocka_unit_test(sparse_files__take_only_what_is_written),
        cmocka_unit_test(simdisk__serves_many_threads),
    };
    return cmocka_run_group_tests_name("simulated disk", tests, NULL, NULL);
}
