/* Closing and opening: what comes back, who is let in, and what is left alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/store.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define OBJECTS 400u

static size_t size_at(uint64_t number)
{
    static const size_t sizes[] = {0, 50, 900, 9000, 20000, 90000, 400000};
    return number % 100 == 99 ? 2500000 : sizes[number % 7] + number;
}

/* Objects with everything an object can have; every fifth is deleted again, every seventh
 * amended. */
static void fill(struct gb_fixture *fixture, struct goblin_info *infos)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        char meta[64] = "metadata of an object";
        const struct goblin_put_options options = {.meta = {meta, i % 40},
                                                   .flags = (uint32_t)i * 3,
                                                   .marks = (uint8_t)(i & GOBLIN_MARKS),
                                                   .expires_ms = i % 3 ? 0 : INT64_C(1) << 42};
        size_t size = size_at(i);
        unsigned char *value = malloc(size + 1);
        assert_non_null(value);
        gb_pattern_fill(value, size, i, 0);
        const struct goblin_slice name = gb_key_at(&key, i);
        assert_int_equal(
            goblin_put(fixture->store, name, (struct goblin_slice){value, size}, &options, NULL),
            GOBLIN_OK);
        free(value);
        if (i % 7 == 0) {
            const struct goblin_amendment amendment = {
                .what = GOBLIN_AMEND_EXPIRES | GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION,
                .expires_ms = fixture->now_ms + 1000000 + (int64_t)i,
                .flags = ~(uint32_t)i,
                .version = i % 2 == 0 ? 0 : i,
                .marks_set = 0x41,
                .marks_clear = 0x0f,
            };
            assert_int_equal(goblin_amend(fixture->store, name, &amendment, NULL), GOBLIN_OK);
        }
        if (i % 5 == 0) {
            assert_int_equal(goblin_delete(fixture->store, name, NULL), GOBLIN_OK);
        }
        int found = goblin_stat(fixture->store, name, &infos[i]);
        assert_int_equal(found, i % 5 == 0 ? GOBLIN_MISS : GOBLIN_OK);
    }
}

static void note(struct gb_fixture *fixture, struct goblin_info *infos)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        int found = goblin_stat(fixture->store, gb_key_at(&key, i), &infos[i]);
        assert_int_equal(found, i % 5 == 0 ? GOBLIN_MISS : GOBLIN_OK);
    }
}

/* Resident bytes are compared only if `resident`. */
static void expect_same(struct gb_fixture *fixture, const struct goblin_info *infos, bool resident)
{
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        struct goblin_info info;
        if (i % 5 == 0) {
            gb_fixture_expect_none(fixture, i);
            continue;
        }
        assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info), GOBLIN_OK);
        assert_int_equal(info.size, infos[i].size);
        assert_int_equal(info.version, infos[i].version);
        assert_int_equal(info.expires_ms, infos[i].expires_ms);
        assert_int_equal(info.flags, infos[i].flags);
        assert_int_equal(info.marks, infos[i].marks);
        assert_int_equal(info.meta_len, infos[i].meta_len);
        if (resident) {
            /* A head or a whole value comes back to the byte, a part to the percent and block. */
            uint64_t was = infos[i].resident;
            bool part = was > 8 * GB_KIB && was < info.size;
            assert_true(info.resident + (part ? 4 * GB_KIB + info.size / 100 : 0) >= was);
        }
    }
    /* Only now, for reading moves what is resident. */
    for (uint64_t i = 0; i < OBJECTS; i++) {
        if (i % 5 != 0) {
            gb_fixture_expect(fixture, i, size_at(i), i);
        }
    }
    assert_int_equal(gb_fixture_stats(fixture).objects, OBJECTS - OBJECTS / 5);
}

static void open_large(struct gb_fixture *fixture)
{
    fixture->options.size_bytes = 160 * GB_MIB;
    gb_fixture_open(fixture);
}

/* ---- a clean close ------------------------------------------------------------------------- */

static void reopen__brings_everything_back(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    open_large(fixture);
    fill(fixture, infos);
    expect_same(fixture, infos, false);
    for (unsigned round = 0; round < 3; round++) {
        note(fixture, infos);
        struct goblin_stats before = gb_fixture_stats(fixture);
        gb_fixture_reopen(fixture);
        gb_fixture_await_warm(fixture);
        struct goblin_stats after = gb_fixture_stats(fixture);
        assert_int_equal(after.live_bytes, before.live_bytes);
        assert_int_equal(after.objects, before.objects);
        expect_same(fixture, infos, true);
        assert_int_equal(gb_fixture_stats(fixture).checksum_errors, 0);
    }
}

static void reopen__takes_heads_from_another_directory(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    struct stat status;
    char path[400];
    fixture->options.heads_dir = fixture->dirs[2];
    assert_int_equal(mkdir(fixture->dirs[2], 0700), 0);
    open_large(fixture);
    fill(fixture, infos);
    gb_fixture_reopen(fixture);
    (void)snprintf(path, sizeof(path), "%s/HEADS", fixture->dirs[2]);
    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_size > 1000000);
    gb_fixture_await_warm(fixture);
    expect_same(fixture, infos, true);
    assert_false(gb_fixture_logged(fixture, "damaged"));
}

static void reopen__lives_with_less_and_more_memory(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    static const uint64_t sizes[] = {8, 64, 12, 40};
    open_large(fixture);
    fill(fixture, infos);
    for (unsigned i = 0; i < 4; i++) {
        fixture->options.memory_bytes = sizes[i] * GB_MIB;
        gb_fixture_reopen(fixture);
        gb_fixture_await_warm(fixture);
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_true(stats.memory_used_bytes <= sizes[i] * GB_MIB);
        assert_int_equal(stats.memory_budget_bytes, sizes[i] * GB_MIB);
        expect_same(fixture, infos, false);
    }
}

/* ---- files that are damaged or gone -------------------------------------------------------- */

static void damage(const char *dir, const char *name, off_t at)
{
    char path[400];
    unsigned char bytes[64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), at), sizeof(bytes));
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x5a;
    }
    assert_int_equal(pwrite(fd, bytes, sizeof(bytes), at), sizeof(bytes));
    (void)close(fd);
}

static void reopen__reads_the_log_where_the_checkpoint_is_damaged(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    static const off_t places[] = {0, 100, 4096 + 100};
    open_large(fixture);
    fill(fixture, infos);
    for (unsigned i = 0; i < 3; i++) {
        gb_fixture_close(fixture);
        damage(fixture->dirs[0], "CHECKPOINT", places[i]);
        fixture->log_len = 0;
        gb_fixture_open(fixture);
        assert_true(gb_fixture_logged(fixture, "checkpoint"));
        expect_same(fixture, infos, false);
    }
}

static void reopen__reads_the_log_where_the_checkpoint_is_missing(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    char path[400];
    open_large(fixture);
    fill(fixture, infos);
    for (unsigned i = 0; i < 2; i++) {
        gb_fixture_close(fixture);
        (void)snprintf(path, sizeof(path), "%s/CHECKPOINT", fixture->dirs[0]);
        assert_int_equal(unlink(path), 0);
        gb_fixture_open(fixture);
        expect_same(fixture, infos, false);
        gb_fixture_await_warm(fixture);
        assert_true(gb_fixture_stats(fixture).resident_bytes > 0);
    }
}

static void reopen__does_without_a_damaged_heads_file(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    static const off_t places[] = {0, 50000, 1000000};
    fixture->options.heads_dir = fixture->dirs[0];
    open_large(fixture);
    fill(fixture, infos);
    for (unsigned i = 0; i < 3; i++) {
        gb_fixture_close(fixture);
        damage(fixture->dirs[0], "HEADS", places[i]);
        fixture->log_len = 0;
        gb_fixture_open(fixture);
        gb_fixture_await_warm(fixture);
        assert_true(gb_fixture_logged(fixture, "heads"));
        expect_same(fixture, infos, false);
    }
    gb_fixture_close(fixture);
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/HEADS", fixture->dirs[0]);
    assert_int_equal(unlink(path), 0);
    gb_fixture_open(fixture);
    gb_fixture_await_warm(fixture);
    expect_same(fixture, infos, false);
}

static void checkpoint__may_be_taken_while_writing(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    open_large(fixture);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(gb_fixture_put(fixture, 10000 + i, 100000, i), GOBLIN_OK);
        assert_int_equal(goblin_checkpoint(fixture->store), GOBLIN_OK);
        struct gb_key key;
        assert_int_equal(goblin_delete(fixture->store, gb_key_at(&key, 10000 + i), NULL),
                         GOBLIN_OK);
    }
    fill(fixture, infos);
    assert_true(gb_fixture_stats(fixture).checkpoints >= 5);
    gb_fixture_reopen(fixture);
    expect_same(fixture, infos, false);
}

static void bad_bytes__are_a_miss_and_never_handed_over(void **state)
{
    struct gb_fixture *fixture = *state;
    open_large(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, 900000, 1), GOBLIN_OK);
    assert_int_equal(gb_fixture_put(fixture, 2, 60000, 2), GOBLIN_OK);
    gb_fixture_close(fixture);
    /* Every segment file is overwritten from its second block on, headers and footers left. */
    for (unsigned slot = 0; slot < 80; slot++) {
        char path[400];
        (void)snprintf(path, sizeof(path), "%s/%08u.seg", fixture->dirs[0], slot);
        struct stat status;
        if (stat(path, &status) == 0) {
            for (off_t at = 20000; at < 1900000; at += 5000) {
                damage(fixture->dirs[0], path + strlen(fixture->dirs[0]) + 1, at);
            }
        }
    }
    gb_fixture_open(fixture);
    gb_fixture_await_warm(fixture);
    const struct goblin_request whole = {.offset = 0};
    int rc = gb_fixture_read(fixture, 1, 1, &whole, NULL);
    assert_true(rc == GOBLIN_ECORRUPT || rc == GOBLIN_MISS);
    gb_fixture_expect_none(fixture, 1);
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.checksum_errors >= 1);
    assert_true(stats.left_bad >= 1);
}

/* ---- several drives ------------------------------------------------------------------------ */

static void drives__share_the_objects(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    fixture->options.dir_count = 3;
    fixture->options.lanes = 3;
    open_large(fixture);
    fill(fixture, infos);
    for (unsigned i = 0; i < 2; i++) {
        gb_fixture_reopen(fixture);
        expect_same(fixture, infos, false);
    }
}

static void expect_refusal(struct gb_fixture *fixture, int expected, const char *text)
{
    struct goblin_error error = {.text = ""};
    int rc = gb_fixture_try_open(fixture, &error);
    if (rc != expected || strstr(error.text, text) == NULL) {
        fail_msg("%d for %d: %s", rc, expected, error.text);
    }
}

static void drives__must_come_in_their_order_and_all(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.dir_count = 2;
    open_large(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, 100000, 1), GOBLIN_OK);
    gb_fixture_close(fixture);
    const char *const turned[] = {fixture->drive[1], fixture->drive[0]};
    const char *const twice[] = {fixture->drive[0], fixture->drive[0]};
    const char *const strange[] = {fixture->drive[0], fixture->drive[2]};
    fixture->options.dirs = turned;
    expect_refusal(fixture, GOBLIN_EIDENTITY, fixture->drive[1]);
    fixture->options.dirs = twice;
    struct goblin_error error;
    assert_true(gb_fixture_try_open(fixture, &error) < 0);
    fixture->options.dirs = strange;
    assert_true(gb_fixture_try_open(fixture, &error) < 0);
    fixture->options.dirs = fixture->dirs;
    fixture->options.dir_count = 1;
    expect_refusal(fixture, GOBLIN_EIDENTITY, fixture->drive[0]);
    fixture->options.dir_count = 2;
    gb_fixture_open(fixture);
    gb_fixture_expect(fixture, 1, 100000, 1);
}

/* ---- who is let in ------------------------------------------------------------------------- */

static void open__lets_no_second_one_in(void **state)
{
    struct gb_fixture *fixture = *state;
    open_large(fixture);
    struct goblin *first = fixture->store;
    expect_refusal(fixture, -EBUSY, fixture->drive[0]);
    assert_ptr_equal(fixture->store, first);
    fixture->options.read_only = true;
    expect_refusal(fixture, -EBUSY, fixture->drive[0]);
    fixture->options.read_only = false;
}

/* Re-executes this program, because a store is not to be used across fork. */
static int open_in_child(const char *program, const char *dir)
{
    pid_t child = fork();
    if (child == 0) {
        (void)execl(program, program, "open", dir, (char *)NULL);
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What the child does: 0 opened, 1 busy, 2 anything else. */
static int be_the_child(const char *dir)
{
    struct goblin *store = NULL;
    const struct goblin_options options = {.dirs = &dir, .dir_count = 1};
    int rc = goblin_open(&store, &options, NULL);
    (void)goblin_close(rc < 0 ? NULL : store);
    return rc == GOBLIN_OK ? 0 : rc == -EBUSY ? 1 : 2;
}

static void open__lets_no_other_process_in(void **state)
{
    struct gb_fixture *fixture = *state;
    open_large(fixture);
    assert_int_equal(open_in_child("/proc/self/exe", fixture->drive[0]), 1);
    gb_fixture_close(fixture);
    assert_int_equal(open_in_child("/proc/self/exe", fixture->drive[0]), 0);
    gb_fixture_open(fixture);
}

static void open__leaves_what_is_no_store_alone(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    char text[16] = "";
    assert_int_equal(mkdir(fixture->drive[0], 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/precious", fixture->drive[0]);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(write(fd, "as it was", 9), 9);
    expect_refusal(fixture, GOBLIN_ENOTSTORE, fixture->drive[0]);
    fixture->options.create = false;
    expect_refusal(fixture, GOBLIN_ENOTSTORE, fixture->drive[0]);
    assert_int_equal(pread(fd, text, sizeof(text), 0), 9);
    assert_string_equal(text, "as it was");
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(fixture->drive[0]), 0); /* nothing was added */
}

static void open__makes_nothing_unasked(void **state)
{
    struct gb_fixture *fixture = *state;
    struct stat status;
    fixture->options.create = false;
    expect_refusal(fixture, -ENOENT, fixture->drive[0]);
    assert_int_equal(stat(fixture->drive[0], &status), -1);
    assert_int_equal(mkdir(fixture->drive[0], 0700), 0);
    expect_refusal(fixture, -ENOENT, fixture->drive[0]);
    assert_int_equal(rmdir(fixture->drive[0]), 0); /* still empty */
}

static void open__refuses_options_that_disagree(void **state)
{
    struct gb_fixture *fixture = *state;
    open_large(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, 1000, 1), GOBLIN_OK);
    gb_fixture_close(fixture);
    const struct goblin_options made = fixture->options;
    fixture->options.size_bytes += GB_MIB;
    expect_refusal(fixture, GOBLIN_EOPTION, "size_bytes");
    fixture->options = made;
    fixture->options.segment_bytes *= 2;
    expect_refusal(fixture, GOBLIN_EOPTION, "segment_bytes");
    fixture->options = made;
    fixture->options.lanes += 1;
    expect_refusal(fixture, GOBLIN_EOPTION, "lanes");
    fixture->options = made;
    fixture->options.memory_bytes = 1000;
    expect_refusal(fixture, GOBLIN_EOPTION, "memory_bytes");
    fixture->options = made;
    fixture->options.size_bytes = 0; /* as it was made */
    fixture->options.segment_bytes = 0;
    fixture->options.lanes = 0;
    gb_fixture_open(fixture);
    gb_fixture_expect(fixture, 1, 1000, 1);
    assert_int_equal(gb_fixture_stats(fixture).segments, 80);
}

/* ---- read-only ----------------------------------------------------------------------------- */

static void read_only__serves_and_writes_nothing(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct goblin_info infos[OBJECTS];
    struct gb_key key;
    struct stat before;
    struct stat after;
    char path[400];
    open_large(fixture);
    fill(fixture, infos);
    gb_fixture_close(fixture);
    (void)snprintf(path, sizeof(path), "%s/GOBLIN", fixture->drive[0]);
    assert_int_equal(stat(path, &before), 0);
    fixture->options.read_only = true;
    for (unsigned i = 0; i < 2; i++) {
        gb_fixture_open(fixture);
        struct goblin_writer *writer = NULL;
        const struct goblin_slice name = gb_key_at(&key, 1);
        expect_same(fixture, infos, false);
        assert_int_equal(gb_fixture_put(fixture, 1, 10, 1), -EROFS);
        assert_int_equal(goblin_delete(fixture->store, name, NULL), -EROFS);
        assert_int_equal(goblin_touch(fixture->store, name, 0, GOBLIN_DURABILITY_DEFAULT), -EROFS);
        assert_int_equal(goblin_clear(fixture->store), -EROFS);
        assert_int_equal(goblin_writer_begin(&writer, fixture->store, name, 10, NULL), -EROFS);
        assert_int_equal(gb_fixture_stats(fixture).device_writes, 0);
        gb_fixture_close(fixture);
    }
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    /* Two readers share it. */
    gb_fixture_open(fixture);
    struct goblin *first = fixture->store;
    struct goblin_error error;
    assert_int_equal(gb_fixture_try_open(fixture, &error), GOBLIN_OK);
    assert_int_equal(goblin_close(fixture->store), GOBLIN_OK);
    fixture->store = first;
}

static void reopen__gives_no_version_twice_after_crashes(void **state)
{
    struct gb_fixture *fixture = *state;
    uint64_t last = 0;
    fixture->options.flush_ms = 3600000; /* nothing of it comes to the drive */
    for (unsigned life = 0; life < 4; life++) {
        gb_fixture_open(fixture);
        const struct goblin_put_options stale = {.condition = GOBLIN_IF_VERSION,
                                                 .if_version = last};
        for (unsigned i = 0; i < 10 - 3 * life; i++) {
            uint64_t version = 0;
            assert_int_equal(goblin_put(fixture->store, GOBLIN_LITERAL("key"),
                                        GOBLIN_LITERAL("lost"), NULL, &version),
                             GOBLIN_OK);
            assert_true(version > last);
            last = version;
        }
        assert_int_equal(
            goblin_put(fixture->store, GOBLIN_LITERAL("key"), GOBLIN_LITERAL("bad"), &stale, NULL),
            GOBLIN_CHANGED);
        goblin_reader_destroy(fixture->reader);
        gb_store_abandon(fixture->store);
    }
    fixture->store = NULL;
    fixture->reader = NULL;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "open") == 0) {
        return be_the_child(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(reopen__brings_everything_back),
        GB_ON_BOTH_PATHS(reopen__takes_heads_from_another_directory),
        GB_ON_BOTH_PATHS(reopen__lives_with_less_and_more_memory),
        GB_ON_BOTH_PATHS(reopen__reads_the_log_where_the_checkpoint_is_damaged),
        GB_ON_BOTH_PATHS(reopen__reads_the_log_where_the_checkpoint_is_missing),
        GB_ON_BOTH_PATHS(reopen__does_without_a_damaged_heads_file),
        GB_ON_BOTH_PATHS(reopen__gives_no_version_twice_after_crashes),
        GB_ON_BOTH_PATHS(checkpoint__may_be_taken_while_writing),
        GB_ON_BOTH_PATHS(bad_bytes__are_a_miss_and_never_handed_over),
        GB_ON_BOTH_PATHS(drives__share_the_objects),
        GB_ON_BOTH_PATHS(drives__must_come_in_their_order_and_all),
        GB_ON_BOTH_PATHS(open__lets_no_second_one_in),
        GB_ON_BOTH_PATHS(open__lets_no_other_process_in),
        GB_ON_BOTH_PATHS(open__leaves_what_is_no_store_alone),
        GB_ON_BOTH_PATHS(open__makes_nothing_unasked),
        GB_ON_BOTH_PATHS(open__refuses_options_that_disagree),
        GB_ON_BOTH_PATHS(read_only__serves_and_writes_nothing),
    };
    return gb_fixture_run("reopen", tests);
}
