/* goblin_check: a byte flipped in every structure is found, explained and mended, a second check
 * finds nothing, and what was good is still there to the byte. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <goblin/check.h>

#include "engine/format_headers.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define OBJECTS 120u
#define SEGMENT (2 * GB_MIB)

/* What a check told. */
struct told {
    unsigned found[8]; /* by part, harmless ones too */
    unsigned repaired;
    unsigned unrepaired;
    char path[400]; /* of the last one found */
    uint64_t offset;
    char key[64];
    struct goblin_check_result result;
};

static void hear(void *arg, const struct goblin_finding *finding)
{
    struct told *told = arg;
    assert_non_null(finding->what);
    assert_non_null(finding->means);
    assert_string_not_equal(goblin_part_name(finding->part), "");
    if (finding->state == GOBLIN_FINDING_FOUND) {
        told->found[finding->part]++;
        (void)snprintf(told->path, sizeof(told->path), "%s", finding->path);
        (void)snprintf(told->key, sizeof(told->key), "%.*s", (int)finding->key.len,
                       finding->key.data != NULL ? (const char *)finding->key.data : "");
        told->offset = finding->offset;
    }
    told->repaired += finding->state == GOBLIN_FINDING_REPAIRED;
    told->unrepaired += finding->state == GOBLIN_FINDING_UNREPAIRED;
}

static struct told check(struct gb_fixture *fixture, bool repair)
{
    struct told told = {.repaired = 0};
    struct goblin_error error = {.text = ""};
    const struct goblin_check_options options = {
        .store = &fixture->options,
        .repair = repair,
        .on_finding = hear,
        .arg = &told,
    };
    int rc = goblin_check(&options, &told.result, &error);
    if (rc != GOBLIN_OK) {
        fail_msg("check: %d, %s", rc, error.text);
    }
    return told;
}

static size_t size_at(uint64_t number)
{
    static const size_t sizes[] = {10, 3000, 17000, 60000};
    return number == 7 ? 1900000 : sizes[number % 4] + number;
}

/* Every key twice, so that there is something older to come back. */
static void fill(struct gb_fixture *fixture)
{
    gb_fixture_open(fixture);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (uint64_t i = 0; i < OBJECTS; i++) {
            assert_int_equal(gb_fixture_put(fixture, i, size_at(i), 1000 * seed + i), GOBLIN_OK);
        }
    }
    gb_fixture_close(fixture);
}

/* Opens and looks at everything; returns how many are missing. */
static unsigned inspect(struct gb_fixture *fixture)
{
    unsigned missing = 0;
    gb_fixture_open(fixture);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        struct goblin_info info;
        if (goblin_stat(fixture->store, gb_key_at(&key, i), &info) == GOBLIN_OK) {
            gb_fixture_expect(fixture, i, size_at(i), 2000 + i);
        } else {
            missing++;
        }
    }
    gb_fixture_close(fixture);
    return missing;
}

static void path_of(const struct gb_fixture *fixture, const char *name, char *path)
{
    (void)snprintf(path, 400, "%s/%s", fixture->drive[0], name);
}

static void flip(const struct gb_fixture *fixture, const char *name, off_t at)
{
    char path[400];
    unsigned char byte = 0;
    path_of(fixture, name, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static void read_block(const struct gb_fixture *fixture, const char *name, off_t at,
                       unsigned char *block)
{
    char path[400];
    path_of(fixture, name, path);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, block, GB_BLOCK, at), GB_BLOCK);
    (void)close(fd);
}

/* The place of the current value of key `number`, found by its bytes: the name of its segment's
 * file, and the offset of its byte `at`. */
static off_t find_object(const struct gb_fixture *fixture, uint64_t number, uint64_t at,
                         char name[16])
{
    unsigned char pattern[64];
    unsigned char *bytes = malloc(SEGMENT);
    assert_non_null(bytes);
    gb_pattern_fill(pattern, sizeof(pattern), 2000 + number, at);
    off_t found = -1;
    for (unsigned slot = 0; slot < 32 && found < 0; slot++) {
        char path[400];
        (void)snprintf(name, 16, "%08u.seg", slot);
        path_of(fixture, name, path);
        int fd = open(path, O_RDONLY);
        if (fd < 0) {
            continue;
        }
        assert_int_equal(pread(fd, bytes, SEGMENT, 0), SEGMENT);
        (void)close(fd);
        const unsigned char *hit = memmem(bytes, SEGMENT, pattern, sizeof(pattern));
        found = hit != NULL ? hit - bytes : -1;
    }
    free(bytes);
    assert_true(found >= 0);
    return found;
}

/* Also from the log alone: what the next checkpoint hides must be right too. */
static void expect_whole(struct gb_fixture *fixture, unsigned missing)
{
    char path[400];
    assert_int_equal(inspect(fixture), missing);
    path_of(fixture, "CHECKPOINT", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(inspect(fixture), missing);
}

/* Finds what is spoiled in `part`, mends it, and finds nothing more. */
static struct told find_and_mend(struct gb_fixture *fixture, enum goblin_part part)
{
    struct told told = check(fixture, false);
    assert_true(told.found[part] >= 1);
    assert_true(told.result.damaged + told.result.harmless >= 1);
    assert_int_equal(told.repaired + told.unrepaired, 0);
    struct told mended = check(fixture, true);
    assert_int_equal(mended.found[part], told.found[part]); /* looking had changed nothing */
    assert_true(mended.repaired >= 1);
    assert_int_equal(mended.unrepaired, 0);
    struct told again = check(fixture, false);
    assert_int_equal(again.result.damaged, 0);
    assert_int_equal(again.result.harmless, 0);
    return told;
}

/* ---- nothing is wrong ---------------------------------------------------------------------- */

static void check__finds_nothing_in_a_sound_store(void **state)
{
    struct gb_fixture *fixture = *state;
    fill(fixture);
    for (unsigned i = 0; i < 2; i++) {
        struct told told = check(fixture, i == 1);
        assert_int_equal(told.result.damaged, 0);
        assert_int_equal(told.result.harmless, 0);
        assert_int_equal(told.result.objects, OBJECTS);
        assert_true(told.result.segments > 0);
        assert_int_equal(told.result.checksum_errors, 0);
    }
    expect_whole(fixture, 0);
}

/* ---- one structure after the other --------------------------------------------------------- */

static void check__mends_either_block_of_an_identity(void **state)
{
    struct gb_fixture *fixture = *state;
    fill(fixture);
    for (unsigned i = 0; i < 2; i++) {
        flip(fixture, "GOBLIN", i * (off_t)GB_BLOCK + 40);
        struct told told = find_and_mend(fixture, GOBLIN_PART_IDENTITY);
        assert_int_equal(told.offset, i * (uint64_t)GB_BLOCK);
    }
    expect_whole(fixture, 0);
}

static void check__writes_a_checkpoint_anew(void **state)
{
    struct gb_fixture *fixture = *state;
    static const off_t places[] = {3, 70, 4096 + 20, 4096 + 200};
    fill(fixture);
    for (unsigned i = 0; i < 4; i++) {
        flip(fixture, "CHECKPOINT", places[i]);
        struct told told = find_and_mend(fixture, GOBLIN_PART_CHECKPOINT);
        assert_non_null(strstr(told.path, "/CHECKPOINT"));
    }
    expect_whole(fixture, 0);
}

static void check__removes_what_a_crash_left_of_a_checkpoint(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    fill(fixture);
    path_of(fixture, "CHECKPOINT.new", path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(write(fd, "half", 4), 4);
    (void)close(fd);
    struct told told = find_and_mend(fixture, GOBLIN_PART_CHECKPOINT);
    assert_int_equal(told.result.damaged, 0);
    assert_int_equal(told.result.harmless, 1);
    expect_whole(fixture, 0);
}

static void check__does_without_a_damaged_footer_or_summary(void **state)
{
    struct gb_fixture *fixture = *state;
    unsigned char block[GB_BLOCK];
    fill(fixture);
    read_block(fixture, "00000000.seg", SEGMENT - GB_BLOCK, block);
    off_t piece = (off_t)gb_load_le32(block + 56) << 3;
    const off_t places[] = {SEGMENT - GB_BLOCK + 3, SEGMENT - GB_BLOCK + 30, piece + 20,
                            piece + 120};
    for (unsigned i = 0; i < 4; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%08u.seg", i);
        if (i >= 2) {
            read_block(fixture, name, SEGMENT - GB_BLOCK, block);
            piece = (off_t)gb_load_le32(block + 56) << 3;
        }
        flip(fixture, name, i < 2 ? places[i] : piece + (i == 2 ? 20 : 120));
        (void)find_and_mend(fixture, GOBLIN_PART_SUMMARY);
    }
    assert_true(check(fixture, false).result.unsealed >= 4);
    expect_whole(fixture, 0);
}

static void check__writes_headers_of_records_anew(void **state)
{
    struct gb_fixture *fixture = *state;
    unsigned char before[GB_BLOCK];
    unsigned char after[GB_BLOCK];
    fill(fixture);
    read_block(fixture, "00000000.seg", GB_BLOCK, before);
    flip(fixture, "00000000.seg", GB_BLOCK + 17);
    struct told told = find_and_mend(fixture, GOBLIN_PART_RECORD);
    assert_int_equal(told.offset, GB_BLOCK);
    assert_memory_equal(told.key, "key/", 4);
    read_block(fixture, "00000000.seg", GB_BLOCK, after);
    assert_memory_equal(before, after, GB_BLOCK);
    expect_whole(fixture, 0);
}

static void check__writes_either_header_of_a_segment_anew(void **state)
{
    struct gb_fixture *fixture = *state;
    unsigned char before[2][GB_BLOCK];
    unsigned char after[GB_BLOCK];
    fill(fixture);
    for (unsigned i = 0; i < 2; i++) {
        off_t at = (off_t)gb_segment_header_at(SEGMENT, i);
        read_block(fixture, "00000002.seg", at, before[i]);
        flip(fixture, "00000002.seg", at + 44);
        struct told told = find_and_mend(fixture, GOBLIN_PART_HEADER);
        assert_int_equal(told.found[GOBLIN_PART_HEADER], 1);
        assert_int_equal(told.offset, at);
        assert_non_null(strstr(told.path, "00000002.seg"));
        read_block(fixture, "00000002.seg", at, after);
        assert_memory_equal(before[i], after, GB_BLOCK);
    }
    assert_memory_equal(before[0], before[1], GB_BLOCK);
    expect_whole(fixture, 0);
}

static void check__frees_a_segment_without_headers(void **state)
{
    struct gb_fixture *fixture = *state;
    static const unsigned char zeros[GB_BLOCK];
    char name[16];
    fixture->options.mode = GOBLIN_MODE_STORE;
    fill(fixture);
    (void)find_object(fixture, 2, 0, name);
    flip(fixture, name, 44);
    flip(fixture, name, (off_t)gb_segment_header_at(SEGMENT, 1) + 50);
    struct goblin_error error = {.text = ""};
    assert_int_equal(goblin_open(&fixture->store, &fixture->options, &error), GOBLIN_ESEGMENT);
    fixture->store = NULL;
    assert_non_null(strstr(error.text, name));
    struct told told = find_and_mend(fixture, GOBLIN_PART_HEADER);
    assert_non_null(strstr(told.path, name));
    for (unsigned i = 0; i < 2; i++) {
        unsigned char block[GB_BLOCK];
        read_block(fixture, name, (off_t)gb_segment_header_at(SEGMENT, i), block);
        assert_memory_equal(block, zeros, GB_BLOCK);
    }
    unsigned missing = inspect(fixture);
    assert_in_range(missing, 1, OBJECTS - 1);
    assert_int_equal(inspect(fixture), missing);
}

static void check__tells_of_a_segment_that_others_removed(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    char name[16];
    fill(fixture);
    (void)find_object(fixture, 2, 0, name);
    path_of(fixture, name, path);
    assert_int_equal(unlink(path), 0);
    struct told told = find_and_mend(fixture, GOBLIN_PART_FILE);
    assert_non_null(strstr(told.path, name));
    unsigned missing = inspect(fixture);
    assert_in_range(missing, 1, OBJECTS - 1);
    assert_int_equal(inspect(fixture), missing);
}

static void check__wipes_headers_of_free_segments(void **state)
{
    struct gb_fixture *fixture = *state;
    char name[16];
    char path[400];
    fill(fixture);
    uint64_t slots = fixture->options.size_bytes / SEGMENT;
    (void)snprintf(name, sizeof(name), "%08u.seg", (unsigned)(slots - 1));
    path_of(fixture, name, path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SEGMENT), 0);
    (void)close(fd);
    flip(fixture, name, 44);
    struct told told = find_and_mend(fixture, GOBLIN_PART_HEADER);
    assert_int_equal(told.result.damaged, 0);
    assert_int_equal(told.result.harmless, 1);
    expect_whole(fixture, 0);
}

static void check__gives_files_their_length(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    struct stat status;
    fill(fixture);
    path_of(fixture, "00000001.seg", path);
    assert_int_equal(truncate(path, SEGMENT + 5000), 0);
    struct told told = find_and_mend(fixture, GOBLIN_PART_FILE);
    assert_int_equal(told.result.damaged, 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, SEGMENT);
    expect_whole(fixture, 0);
    assert_int_equal(truncate(path, SEGMENT - GB_BLOCK), 0); /* the footer is gone */
    told = find_and_mend(fixture, GOBLIN_PART_FILE);
    assert_int_equal(told.result.damaged, 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, SEGMENT);
    expect_whole(fixture, 0);
}

static void check__leaves_strange_files_alone(void **state)
{
    struct gb_fixture *fixture = *state;
    char path[400];
    fill(fixture);
    path_of(fixture, "notes.txt", path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    struct told told = check(fixture, true);
    assert_int_equal(told.result.harmless, 1);
    assert_int_equal(told.result.damaged, 0);
    assert_int_equal(told.unrepaired, 1);
    assert_int_equal(access(path, F_OK), 0);
}

/* ---- objects ------------------------------------------------------------------------------- */

static void spoil_object(struct gb_fixture *fixture, uint64_t number, uint64_t at)
{
    char name[16];
    off_t offset = find_object(fixture, number, at, name);
    flip(fixture, name, offset + 30);
}

static void check__removes_bad_objects_for_good(void **state)
{
    struct gb_fixture *fixture = *state;
    fill(fixture);
    spoil_object(fixture, 2, 16384 + 100);
    spoil_object(fixture, 5, 0);
    spoil_object(fixture, 7, 900000);
    struct told told = find_and_mend(fixture, GOBLIN_PART_OBJECT);
    assert_int_equal(told.result.bad_objects, 3);
    assert_int_equal(told.found[GOBLIN_PART_OBJECT], 3);
    assert_memory_equal(told.key, "key/", 4);
    assert_true(told.offset > 0);
    expect_whole(fixture, 3); /* and nothing older has come in their place */
}

/* Rot in a segment whose list is gone as well must not bring older values back. */
static void check__buries_before_it_unseals(void **state)
{
    struct gb_fixture *fixture = *state;
    fill(fixture);
    spoil_object(fixture, 5, 0);
    for (unsigned slot = 0; slot < 32; slot++) {
        char name[16];
        char path[400];
        (void)snprintf(name, sizeof(name), "%08u.seg", slot);
        path_of(fixture, name, path);
        unsigned char block[GB_BLOCK];
        if (access(path, F_OK) == 0) {
            read_block(fixture, name, SEGMENT - GB_BLOCK, block);
            if (memcmp(block, "GOBLINSF", 8) == 0) {
                flip(fixture, name, SEGMENT - GB_BLOCK + 100);
            }
        }
    }
    struct told told = find_and_mend(fixture, GOBLIN_PART_SUMMARY);
    assert_int_equal(told.result.bad_objects, 1);
    expect_whole(fixture, 1);
}

/* ---- drives -------------------------------------------------------------------------------- */

static void check__takes_a_drive_back_only_when_asked(void **state)
{
    struct gb_fixture *fixture = *state;
    char away[400];
    fixture->options.dir_count = 2;
    fixture->options.mode = GOBLIN_MODE_STORE;
    fill(fixture);
    (void)snprintf(away, sizeof(away), "%s/away", fixture->root);
    assert_int_equal(rename(fixture->drive[0], away), 0);
    struct told told = check(fixture, true);
    assert_int_equal(told.found[GOBLIN_PART_DRIVE], 1);
    assert_int_equal(told.unrepaired, 1);
    unsigned missing = 0;
    fixture->options.degraded = true;
    missing = inspect(fixture);
    fixture->options.degraded = false;
    assert_true(missing > 0);
    assert_int_equal(rename(away, fixture->drive[0]), 0);
    told = check(fixture, true); /* not asked */
    assert_int_equal(told.found[GOBLIN_PART_DRIVE], 1);
    assert_int_equal(told.unrepaired, 1);
    fixture->options.readd_drives = true;
    told = check(fixture, true);
    fixture->options.readd_drives = false;
    assert_int_equal(told.found[GOBLIN_PART_DRIVE], 1);
    assert_int_equal(told.repaired, 1);
    told = check(fixture, false);
    assert_int_equal(told.result.damaged, 0);
    assert_int_equal(inspect(fixture), missing);
}

static void check__refuses_a_store_that_is_open(void **state)
{
    struct gb_fixture *fixture = *state;
    struct told told;
    struct goblin_error error = {.text = ""};
    gb_fixture_open(fixture);
    const struct goblin_check_options options = {
        .store = &fixture->options, .on_finding = hear, .arg = &told};
    assert_int_equal(goblin_check(&options, &told.result, &error), -EBUSY);
    assert_non_null(strstr(error.text, "open in another process"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(check__finds_nothing_in_a_sound_store),
        GB_ON_BOTH_PATHS(check__mends_either_block_of_an_identity),
        GB_ON_BOTH_PATHS(check__writes_a_checkpoint_anew),
        GB_ON_BOTH_PATHS(check__removes_what_a_crash_left_of_a_checkpoint),
        GB_ON_BOTH_PATHS(check__does_without_a_damaged_footer_or_summary),
        GB_ON_BOTH_PATHS(check__writes_headers_of_records_anew),
        GB_ON_BOTH_PATHS(check__writes_either_header_of_a_segment_anew),
        GB_ON_BOTH_PATHS(check__frees_a_segment_without_headers),
        GB_ON_BOTH_PATHS(check__tells_of_a_segment_that_others_removed),
        GB_ON_BOTH_PATHS(check__wipes_headers_of_free_segments),
        GB_ON_BOTH_PATHS(check__gives_files_their_length),
        GB_ON_BOTH_PATHS(check__leaves_strange_files_alone),
        GB_ON_BOTH_PATHS(check__removes_bad_objects_for_good),
        GB_ON_BOTH_PATHS(check__buries_before_it_unseals),
        GB_ON_BOTH_PATHS(check__takes_a_drive_back_only_when_asked),
        GB_ON_BOTH_PATHS(check__refuses_a_store_that_is_open),
    };
    return gb_fixture_run("check", tests);
}
