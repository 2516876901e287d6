/* Drives that are missing, that come back, and that are replaced. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/format.h"
#include "engine/store.h"
#include "lib/fixture.h"
#include "lib/pattern.h"
#include "lib/reseal.h"

#define OBJECTS 300u

/* What each key holds; a seed of 0: nothing. */
struct ledger {
    size_t size[OBJECTS];
    uint64_t seed[OBJECTS];
    uint64_t next_seed;
};

static void put(struct gb_fixture *fixture, struct ledger *ledger, uint64_t number, size_t size)
{
    uint64_t seed = ++ledger->next_seed;
    int rc = size > 600000 ? gb_fixture_stream(fixture, number, size, seed, 100000)
                           : gb_fixture_put(fixture, number, size, seed);
    assert_int_equal(rc, GOBLIN_OK);
    ledger->size[number] = size;
    ledger->seed[number] = seed;
}

static void erase(struct gb_fixture *fixture, struct ledger *ledger, uint64_t number)
{
    struct gb_key key;
    assert_true(goblin_delete(fixture->store, gb_key_at(&key, number), NULL) >= 0);
    ledger->seed[number] = 0;
}

static void fill(struct gb_fixture *fixture, struct ledger *ledger)
{
    static const size_t sizes[] = {0, 700, 5000, 30000, 90000};
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < OBJECTS; i++) {
            if (round == 0 || (i + round) % 3 == 0) {
                put(fixture, ledger, i, i % 60 == 59 ? 2600000 : sizes[i % 5] + i);
            }
            if ((i + 5 * round) % 11 == 0) {
                erase(fixture, ledger, i);
            }
        }
    }
}

/* Every key holds what the ledger says, or nothing if something was `lost`; never anything else.
 * Returns how many are missing and forgets them. */
static uint64_t inspect(struct gb_fixture *fixture, struct ledger *ledger, bool lost)
{
    uint64_t missing = 0;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        struct goblin_info info;
        bool there = goblin_stat(fixture->store, gb_key_at(&key, i), &info) == GOBLIN_OK;
        if (ledger->seed[i] == 0 || (lost && !there)) {
            gb_fixture_expect_none(fixture, i);
            missing += ledger->seed[i] != 0;
            ledger->seed[i] = 0;
        } else {
            gb_fixture_expect(fixture, i, ledger->size[i], ledger->seed[i]);
        }
    }
    return missing;
}

static void path_of(const struct gb_fixture *fixture, unsigned drive, const char *name, char *path)
{
    (void)snprintf(path, 400, "%s%s%s", fixture->drive[drive], name[0] == '.' ? "" : "/", name);
}

static void take_away(struct gb_fixture *fixture, unsigned drive)
{
    char path[400];
    path_of(fixture, drive, ".away", path);
    assert_int_equal(rename(fixture->drive[drive], path), 0);
}

static void bring_back(struct gb_fixture *fixture, unsigned drive)
{
    char path[400];
    path_of(fixture, drive, ".away", path);
    (void)rmdir(fixture->drive[drive]);
    assert_int_equal(rename(path, fixture->drive[drive]), 0);
}

static void open_drives(struct gb_fixture *fixture, enum goblin_mode mode, unsigned lanes)
{
    fixture->options.dir_count = 3;
    fixture->options.lanes = lanes;
    fixture->options.mode = mode;
    fixture->options.size_bytes = 240 * GB_MIB;
    gb_fixture_open(fixture);
}

static void open_again(struct gb_fixture *fixture)
{
    fixture->log_len = 0;
    gb_fixture_open(fixture);
}

static void remove_checkpoints(struct gb_fixture *fixture)
{
    for (unsigned i = 0; i < 3; i++) {
        char path[400];
        path_of(fixture, i, "CHECKPOINT", path);
        assert_true(unlink(path) == 0 || errno == ENOENT);
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

/* ---- a cache ------------------------------------------------------------------------------- */

/* Loses `drive` after a clean close, works on, gets it back. */
static void lose_and_find(struct gb_fixture *fixture, unsigned drive, unsigned lanes)
{
    static struct ledger ledger;
    ledger = (struct ledger){.next_seed = drive * 100000};
    open_drives(fixture, GOBLIN_MODE_CACHE, lanes);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, drive);
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "what lay on it is lost, the rest is served"));
    assert_true(gb_fixture_logged(fixture, fixture->drive[drive]));
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.drives, 3);
    assert_int_equal(stats.drives_missing, 1);
    assert_int_equal(stats.segments_lost, 40);
    uint64_t missing = inspect(fixture, &ledger, true);
    assert_in_range(missing, 20, 220);
    assert_int_equal(stats.left_drive, missing);
    fill(fixture, &ledger); /* deletes and replaces much of what lies on the drive too */
    inspect(fixture, &ledger, false);
    gb_fixture_close(fixture);
    open_again(fixture);
    assert_int_equal(gb_fixture_stats(fixture).left_drive, 0);
    inspect(fixture, &ledger, false);
    gb_fixture_close(fixture);

    bring_back(fixture, drive);
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "it has been emptied and is used again"));
    stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.drives_missing, 0);
    assert_int_equal(stats.segments_lost, 0);
    assert_int_equal(stats.left_drive, 0);
    inspect(fixture, &ledger, false);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    open_again(fixture);
    assert_false(gb_fixture_logged(fixture, "missed"));
    inspect(fixture, &ledger, false);
}

static void cache__serves_the_rest_without_its_first_drive(void **state)
{
    lose_and_find(*state, 0, 3);
}

static void cache__serves_the_rest_without_its_last_drive(void **state)
{
    lose_and_find(*state, 2, 3);
}

static void cache__serves_the_rest_when_lanes_share_drives(void **state)
{
    lose_and_find(*state, 1, 4);
}

static void cache__serves_the_rest_after_two_losses_in_turn(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 4);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 0);
    open_again(fixture);
    assert_true(inspect(fixture, &ledger, true) > 0);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 1);
    bring_back(fixture, 0);
    open_again(fixture);
    assert_true(inspect(fixture, &ledger, true) > 0);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    bring_back(fixture, 1);
    open_again(fixture);
    assert_int_equal(gb_fixture_stats(fixture).drives_missing, 0);
    inspect(fixture, &ledger, false);
}

/* Without a checkpoint that would know better, nothing older than the loss may count. */
static void cache__lets_nothing_back_in_through_the_log(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 4);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 1);
    open_again(fixture);
    (void)inspect(fixture, &ledger, true);
    for (uint64_t i = 0; i < OBJECTS; i += 9) {
        put(fixture, &ledger, i, 4000);
    }
    gb_fixture_close(fixture);
    bring_back(fixture, 1);
    remove_checkpoints(fixture);
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "before the loss of a drive or segment is dropped"));
    (void)inspect(fixture, &ledger, true);
    for (uint64_t i = 0; i < OBJECTS; i += 9) {
        gb_fixture_expect(fixture, i, 4000, ledger.seed[i]);
    }
}

/* As after kill -9: everything was synced, no checkpoint was written. */
static void crash(struct gb_fixture *fixture)
{
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
    goblin_reader_destroy(fixture->reader);
    fixture->reader = NULL;
    gb_store_abandon(fixture->store);
    fixture->store = NULL;
}

static void cache__serves_other_drives_lanes_after_a_crash(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    for (unsigned drive = 0; drive < 3; drive++) {
        ledger = (struct ledger){.next_seed = drive * 100000};
        open_drives(fixture, GOBLIN_MODE_CACHE, 3);
        fill(fixture, &ledger);
        crash(fixture);
        take_away(fixture, drive);
        open_again(fixture);
        uint64_t missing = inspect(fixture, &ledger, true);
        assert_in_range(missing, 50, 150); /* a third of them */
        gb_fixture_close(fixture);
        bring_back(fixture, drive);
    }
}

static void cache__never_serves_what_a_lost_drive_had_replaced(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 4); /* every lane uses every drive */
    fill(fixture, &ledger);
    crash(fixture);
    take_away(fixture, 2);
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "it may have held newer values of them"));
    (void)inspect(fixture, &ledger, true);
    fill(fixture, &ledger);
    crash(fixture); /* the drive was known to be missing: nothing is in doubt now */
    open_again(fixture);
    assert_int_equal(inspect(fixture, &ledger, false), 0);
}

static void cache__uses_an_empty_directory_when_asked(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 1);
    assert_int_equal(mkdir(fixture->drive[1], 0700), 0);
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "is an empty directory"));
    assert_int_equal(gb_fixture_stats(fixture).drives_missing, 1);
    assert_true(inspect(fixture, &ledger, true) > 0);
    gb_fixture_close(fixture);
    assert_int_equal(rmdir(fixture->drive[1]), 0); /* nothing was put there */
    assert_int_equal(mkdir(fixture->drive[1], 0700), 0);
    fixture->options.create = true;
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "takes the place of drive 2 of 3"));
    assert_int_equal(gb_fixture_stats(fixture).drives_missing, 0);
    fill(fixture, &ledger);
    gb_fixture_reopen(fixture);
    inspect(fixture, &ledger, false);
}

static void cache__is_read_without_a_drive_and_left_as_it_is(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    static struct ledger whole;
    whole = ledger;
    take_away(fixture, 0);
    fixture->options.read_only = true;
    open_again(fixture);
    assert_true(inspect(fixture, &ledger, true) > 0);
    gb_fixture_close(fixture);
    bring_back(fixture, 0);
    fixture->options.read_only = false;
    open_again(fixture);
    assert_false(gb_fixture_logged(fixture, "emptied"));
    inspect(fixture, &whole, false);
}

static void cache__needs_one_drive_at_least(void **state)
{
    struct gb_fixture *fixture = *state;
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    gb_fixture_close(fixture);
    for (unsigned i = 0; i < 3; i++) {
        take_away(fixture, i);
    }
    expect_refusal(fixture, -ENOENT, "no store here");
    for (unsigned i = 0; i < 3; i++) {
        bring_back(fixture, i);
    }
    gb_fixture_open(fixture);
}

static void cache__takes_no_directory_of_others_for_a_missing_drive(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    gb_fixture_close(fixture);
    take_away(fixture, 1);
    assert_int_equal(mkdir(fixture->drive[1], 0700), 0);
    path_of(fixture, 1, "precious", path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    expect_refusal(fixture, GOBLIN_ENOTSTORE, "nothing was touched");
    assert_int_equal(unlink(path), 0);
    bring_back(fixture, 1);
    gb_fixture_open(fixture);
}

static void checkpoint__lies_on_two_drives(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    for (unsigned i = 0; i < 2; i++) {
        char path[400];
        path_of(fixture, i, "CHECKPOINT", path);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "damage", 6, 5000), 6);
        (void)close(fd);
        open_again(fixture);
        /* Equally new, the second one is looked at only if the first one does not do. */
        assert_int_equal(gb_fixture_logged(fixture, "a checkpoint is damaged"), i == 0);
        inspect(fixture, &ledger, false);
        gb_fixture_close(fixture);
    }
    gb_fixture_open(fixture);
}

/* ---- store mode ---------------------------------------------------------------------------- */

static void store__goes_without_a_drive_only_when_asked(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_STORE, 3);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 0);
    expect_refusal(fixture, GOBLIN_EDRIVE, "degraded");
    expect_refusal(fixture, GOBLIN_EDRIVE, fixture->drive[0]);
    bring_back(fixture, 0);
    open_again(fixture); /* being refused has changed nothing */
    inspect(fixture, &ledger, false);
    gb_fixture_close(fixture);

    take_away(fixture, 0);
    fixture->options.degraded = true;
    open_again(fixture);
    uint64_t missing = inspect(fixture, &ledger, true);
    assert_int_equal(gb_fixture_stats(fixture).left_drive, missing);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    bring_back(fixture, 0);
    fixture->options.degraded = false;
    expect_refusal(fixture, GOBLIN_EDRIVE, "missed an opening");
    expect_refusal(fixture, GOBLIN_EDRIVE, "goblin check --repair --yes");
    fixture->options.degraded = true;
    open_again(fixture);
    assert_int_equal(gb_fixture_stats(fixture).drives_missing, 1);
    inspect(fixture, &ledger, false);
    gb_fixture_close(fixture);
    fixture->options.degraded = false;
    fixture->options.readd_drives = true;
    open_again(fixture);
    fixture->options.readd_drives = false;
    assert_int_equal(gb_fixture_stats(fixture).drives_missing, 0);
    inspect(fixture, &ledger, false);
    gb_fixture_reopen(fixture);
    inspect(fixture, &ledger, false);
}

static void store__asks_before_it_trusts_the_log_after_a_loss(void **state)
{
    struct gb_fixture *fixture = *state;
    static struct ledger ledger;
    ledger = (struct ledger){0};
    open_drives(fixture, GOBLIN_MODE_STORE, 3);
    fill(fixture, &ledger);
    gb_fixture_close(fixture);
    take_away(fixture, 2);
    assert_int_equal(mkdir(fixture->drive[2], 0700), 0);
    fixture->options.readd_drives = true;
    gb_fixture_open(fixture);
    fixture->options.readd_drives = false;
    (void)inspect(fixture, &ledger, true);
    gb_fixture_close(fixture);
    remove_checkpoints(fixture);
    expect_refusal(fixture, GOBLIN_EDRIVE, "degraded");
    fixture->options.degraded = true;
    open_again(fixture);
    assert_true(gb_fixture_logged(fixture, "as they were before"));
    for (uint64_t i = 0; i < OBJECTS; i++) {
        if (ledger.seed[i] != 0) { /* nothing that is current is lost by it */
            gb_fixture_expect(fixture, i, ledger.size[i], ledger.seed[i]);
        }
    }
}

/* ---- another version ----------------------------------------------------------------------- */

static void rewrite_version(const char *path, off_t at)
{
    unsigned char block[GB_BLOCK];
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, block, sizeof(block), at), sizeof(block));
    gb_store_le32(block + 8, GB_FORMAT_VERSION + 1);
    reseal_block(block, 0);
    assert_int_equal(pwrite(fd, block, sizeof(block), at), sizeof(block));
    (void)close(fd);
}

static void open__names_both_versions_of_the_format(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    char text[64];
    open_drives(fixture, GOBLIN_MODE_CACHE, 3);
    gb_fixture_close(fixture);
    path_of(fixture, 1, "GOBLIN", path);
    rewrite_version(path, GB_BLOCK);
    (void)snprintf(text, sizeof(text), "version %u, and this library reads version %u",
                   GB_FORMAT_VERSION + 1, GB_FORMAT_VERSION);
    expect_refusal(fixture, GOBLIN_EFORMAT, text);
    expect_refusal(fixture, GOBLIN_EFORMAT, fixture->drive[1]);
}

/* The first that has a header: which one that is depends on who took one first. */
static void path_of_used_segment(const struct gb_fixture *fixture, char *path)
{
    uint64_t magic = 0;
    for (unsigned i = 0; magic == 0; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%08u.seg", i);
        path_of(fixture, 0, name, path);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &magic, sizeof(magic), 0), sizeof(magic));
        (void)close(fd);
    }
}

static void open__writes_over_no_segment_of_another_version(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    gb_fixture_open(fixture);
    assert_int_equal(gb_fixture_put(fixture, 1, 1000, 1), GOBLIN_OK);
    gb_fixture_close(fixture);
    path_of_used_segment(fixture, path);
    rewrite_version(path, 0);
    expect_refusal(fixture, GOBLIN_EFORMAT, "format version");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(cache__serves_the_rest_without_its_first_drive),
        GB_ON_BOTH_PATHS(cache__serves_the_rest_without_its_last_drive),
        GB_ON_BOTH_PATHS(cache__serves_the_rest_when_lanes_share_drives),
        GB_ON_BOTH_PATHS(cache__serves_the_rest_after_two_losses_in_turn),
        GB_ON_BOTH_PATHS(cache__lets_nothing_back_in_through_the_log),
        GB_ON_BOTH_PATHS(cache__serves_other_drives_lanes_after_a_crash),
        GB_ON_BOTH_PATHS(cache__never_serves_what_a_lost_drive_had_replaced),
        GB_ON_BOTH_PATHS(cache__uses_an_empty_directory_when_asked),
        GB_ON_BOTH_PATHS(cache__is_read_without_a_drive_and_left_as_it_is),
        GB_ON_BOTH_PATHS(cache__needs_one_drive_at_least),
        GB_ON_BOTH_PATHS(cache__takes_no_directory_of_others_for_a_missing_drive),
        GB_ON_BOTH_PATHS(checkpoint__lies_on_two_drives),
        GB_ON_BOTH_PATHS(store__goes_without_a_drive_only_when_asked),
        GB_ON_BOTH_PATHS(store__asks_before_it_trusts_the_log_after_a_loss),
        GB_ON_BOTH_PATHS(open__names_both_versions_of_the_format),
        GB_ON_BOTH_PATHS(open__writes_over_no_segment_of_another_version),
    };
    return gb_fixture_run("drives", tests);
}
