/* Bytes written, read and occupied: what the store says against what is counted outside of it, by
 * the simulated disk to the byte, by the kernel and the file system within 5 %. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/heads.h"
#include "engine/keeper.h"
#include "lib/simstore.h"

/* ---- to the byte --------------------------------------------------------------------------- */

/* Sizes that are packed, aligned and streamed, more of them than the disk holds. */
static void sim_work(struct gb_simstore *sim, uint64_t from, uint64_t to)
{
    struct goblin_buffer loaded = {0};
    for (uint64_t number = from; number < to; number++) {
        static const size_t sizes[] = {100, 3000, 20000, 50000, 300000};
        gb_simstore_put(sim, number, sizes[gb_rng_mix(number) % 5]);
        struct gb_key key;
        int rc = goblin_load(sim->reader, gb_key_at(&key, gb_rng_mix(number) % (number + 1)),
                             &loaded, NULL, NULL);
        assert_true(rc == GOBLIN_OK || rc == GOBLIN_MISS);
        gb_keeper_round(sim->store);
    }
    goblin_buffer_free(&loaded);
}

static void sim_expect_exact(struct gb_simstore *sim)
{
    struct goblin_stats stats;
    struct simdisk_counts now;
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    goblin_stats(sim->store, &stats);
    simdisk_counts(sim->disk, &now);
    assert_int_equal(stats.device_write_bytes, now.written_bytes - sim->before.written_bytes);
    assert_int_equal(stats.device_writes,
                     now.operations[SIMDISK_WRITE] - sim->before.operations[SIMDISK_WRITE]);
    assert_int_equal(stats.device_read_bytes, now.read_bytes - sim->before.read_bytes);
    assert_int_equal(stats.device_syncs, now.file_syncs - sim->before.file_syncs);
    assert_int_equal(stats.put_bytes, sim->value_bytes);
    assert_int_equal(stats.put_key_bytes, sim->key_bytes);
    uint64_t user = sim->value_bytes + sim->key_bytes;
    uint64_t written = now.written_bytes - sim->before.written_bytes;
    assert_int_equal(stats.write_amplification_permille,
                     user == 0 ? 0 : (2000 * written + user) / (2 * user));
}

static void device_bytes__are_those_the_disk_has_counted(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.heads_dir = "/one";
    gb_simstore_open(sim);
    sim_work(sim, 0, 600);
    sim_expect_exact(sim);
    struct goblin_stats stats;
    goblin_stats(sim->store, &stats);
    assert_true(stats.segments_reclaimed > 20);
    assert_true(stats.reinserted_bytes > 0);
    assert_int_equal(goblin_checkpoint(sim->store), GOBLIN_OK);
    sim_expect_exact(sim);
    assert_int_equal(gb_heads_write(sim->store, 1), 0);
    sim_expect_exact(sim);
}

static void device_bytes__count_what_opening_costs(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.heads_dir = "/one";
    gb_simstore_open(sim);
    sim_work(sim, 0, 200);
    /* Through a clean checkpoint and heads. */
    gb_simstore_close(sim);
    gb_simstore_open(sim);
    sim_expect_exact(sim);
    assert_int_equal(gb_heads_load(sim->store, sim->store->heads_salt), -ENODATA);
    sim_expect_exact(sim);
    /* Through the log, footers and not. */
    sim_work(sim, 200, 300);
    gb_simstore_crash(sim);
    sim_expect_exact(sim);
}

/* What /dir holds in segments that have a header, and in all files. */
static void sim_space(struct gb_simstore *sim, uint64_t *used, uint64_t *files)
{
    const struct gb_io_ops *ops = sim->disk->ops;
    *used = *files = 0;
    for (unsigned slot = 0; slot < 24; slot++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%08u.seg", sim->dirs[slot / 12], slot);
        struct gb_file *file;
        if (ops->file_open(sim->disk, path, GB_OPEN_READ_ONLY, &file) != 0) {
            continue;
        }
        char magic[8];
        assert_int_equal(ops->file_read(file, magic, sizeof(magic), 0), sizeof(magic));
        *used += memcmp(magic, "GOBLINSH", 8) == 0 ? GB_MIB : 0;
        *files += GB_MIB;
        ops->file_close(file);
    }
    static const char *const others[] = {"/one/GOBLIN", "/two/GOBLIN", "/one/CHECKPOINT",
                                         "/two/CHECKPOINT", "/one/HEADS"};
    for (unsigned i = 0; i < 5; i++) {
        struct gb_file *file;
        uint64_t bytes = 0;
        if (ops->file_open(sim->disk, others[i], GB_OPEN_READ_ONLY, &file) == 0) {
            assert_int_equal(ops->file_size(file, &bytes), 0);
            ops->file_close(file);
        }
        *used += bytes;
        *files += bytes;
    }
}

struct census {
    struct goblin *store;
    uint64_t user_bytes;
};

static int count_object(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct census *census = arg;
    census->user_bytes += key.len + info->meta_len + info->size;
    return 0;
}

static void space__is_what_lies_on_the_disk(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.heads_dir = "/one";
    gb_simstore_open(sim);
    sim_work(sim, 0, 100);
    gb_simstore_close(sim);
    gb_simstore_open(sim);
    for (unsigned round = 0; round < 2; round++) {
        if (round == 1) {
            sim_work(sim, 100, 500);
            assert_int_equal(goblin_checkpoint(sim->store), GOBLIN_OK);
        }
        /* Segments just opened have their header in a write block. */
        for (unsigned i = 0; i < sim->store->lane_count; i++) {
            assert_true(gb_lane_roll(&sim->store->lanes[i]) >= 0);
            assert_true(gb_lane_settle(&sim->store->lanes[i], true) >= 0);
        }
        struct goblin_stats stats;
        struct census census = {.store = sim->store};
        uint64_t cursor = 0;
        uint64_t used = 0;
        uint64_t files = 0;
        goblin_stats(sim->store, &stats);
        sim_space(sim, &used, &files);
        assert_int_equal(goblin_iterate(sim->store, &cursor, 0, count_object, &census), GOBLIN_OK);
        assert_int_equal(stats.disk_used_bytes, used);
        assert_int_equal(stats.live_user_bytes, census.user_bytes);
        assert_int_equal(stats.space_amplification_permille,
                         (2000 * used + census.user_bytes) / (2 * census.user_bytes));
        assert_int_equal(stats.disk_file_bytes, files);
    }
}

/* ---- within 5 % ---------------------------------------------------------------------------- */

static uint64_t kernel_write_bytes(void)
{
    FILE *file = fopen("/proc/self/io", "re");
    if (file == NULL) {
        skip(); /* a kernel without task I/O accounting */
    }
    char line[128];
    uint64_t bytes = UINT64_MAX;
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "write_bytes: %" SCNu64, &bytes);
    }
    (void)fclose(file);
    assert_true(bytes != UINT64_MAX);
    return bytes;
}

static uint64_t blocks_of(const char *dir)
{
    DIR *open = opendir(dir);
    assert_non_null(open);
    uint64_t bytes = 0;
    for (struct dirent *entry; (entry = readdir(open)) != NULL;) {
        char path[1024];
        struct stat info;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.' && stat(path, &info) == 0) {
            bytes += (uint64_t)info.st_blocks * 512;
        }
    }
    (void)closedir(open);
    return bytes;
}

static void assert_within_5_percent(uint64_t said, uint64_t counted)
{
    if (said > counted + counted / 20 || said + counted / 20 < counted) {
        fail_msg("the store says %" PRIu64 ", counted were %" PRIu64, said, counted);
    }
}

static void amplification__agrees_with_kernel_and_file_system(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.size_bytes = 48 * GB_MIB;
    fixture->options.segment_bytes = GB_MIB;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    uint64_t before = kernel_write_bytes();
    gb_fixture_open(fixture);
    if (gb_fixture_logged(fixture, "refuses direct I/O")) {
        print_message("skipped: no direct I/O here, and the page cache writes when it likes\n");
        skip();
    }
    for (uint64_t number = 0; number < 3000; number++) {
        size_t size = 200 + gb_rng_mix(number) % 60000;
        assert_int_equal(gb_fixture_put(fixture, number % 2000, size, number), GOBLIN_OK);
    }
    assert_int_equal(gb_fixture_stream(fixture, 9999, 5 * GB_MIB, 1, 100000), GOBLIN_OK);
    assert_int_equal(goblin_checkpoint(fixture->store), GOBLIN_OK);
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    uint64_t written = kernel_write_bytes() - before;
    if (written == 0) {
        print_message("skipped: this file system accounts no writes to the process\n");
        skip();
    }
    assert_within_5_percent(stats.device_write_bytes, written);
    assert_within_5_percent(stats.disk_file_bytes, blocks_of(fixture->dirs[0]));
    assert_within_5_percent(stats.write_amplification_permille,
                            1000 * written / (stats.put_bytes + stats.put_key_bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(device_bytes__are_those_the_disk_has_counted),
        GB_ON_A_SIMULATED_DISK(device_bytes__count_what_opening_costs),
        GB_ON_A_SIMULATED_DISK(space__is_what_lies_on_the_disk),
        GB_ON_BOTH_PATHS(amplification__agrees_with_kernel_and_file_system),
    };
    return gb_fixture_run("amplification", tests);
}
