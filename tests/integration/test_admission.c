/* Admission: what a cache keeps in RAM alone, when it is written after all, that the write budget
 * holds, and that nothing older comes back for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/keeper.h"
#include "engine/lane_internal.h"
#include "lib/pattern.h"
#include "lib/simstore.h"

#define RAM_MAX (16 * GB_KIB) /* an eighth of the smallest arena block */
#define SMALL   UINT64_C(3000)
#define MINUTE  60000
#define DAY     (INT64_C(24) * 60 * MINUTE)

static void open_second(struct gb_simstore *sim)
{
    sim->options.admit = GOBLIN_ADMIT_SECOND;
    gb_simstore_open(sim);
}

/* What is buffered goes to the device. */
static void flush(struct gb_simstore *sim)
{
    for (unsigned i = 0; i < sim->store->lane_count; i++) {
        assert_int_equal(gb_lane_flush(&sim->store->lanes[i], 0), 0);
        assert_true(gb_lane_reap(&sim->store->lanes[i], -1) >= 0);
    }
}

/* ---- asked for again ----------------------------------------------------------------------- */

static void value__is_written_when_asked_for_again(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    for (uint64_t i = 0; i < 100; i++) {
        gb_simstore_put(sim, i, SMALL + i);
    }
    gb_keeper_round(sim->store);
    struct goblin_stats stats = gb_simstore_stats(sim);
    assert_int_equal(stats.admission_refused, 100);
    assert_int_equal(stats.ram_only_objects, 100);
    assert_int_equal(stats.live_bytes, 0);
    for (uint64_t i = 0; i < 50; i++) {
        gb_simstore_expect(sim, i, SMALL + i, i);
        gb_simstore_expect(sim, i, SMALL + i, i);
    }
    gb_keeper_round(sim->store);
    stats = gb_simstore_stats(sim);
    assert_int_equal(stats.admission_written, 50);
    assert_int_equal(stats.ram_only_objects, 50);
    assert_true(stats.live_user_bytes > 50 * SMALL);
    for (uint64_t i = 0; i < 100; i++) {
        gb_simstore_expect(sim, i, SMALL + i, i);
    }
    assert_int_equal(gb_simstore_stats(sim).device_reads, stats.device_reads);
    flush(sim); /* the second half was asked for and not yet written */
    gb_simstore_crash(sim);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(gb_simstore_has(sim, i), i < 50);
    }
    for (uint64_t i = 0; i < 50; i++) {
        gb_simstore_expect(sim, i, SMALL + i, i);
    }
}

static void value__keeps_what_belongs_to_it_when_written_later(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    struct gb_key key;
    const struct goblin_slice name = gb_key_at(&key, 1);
    const struct goblin_put_options options = {
        .meta = {"abc", 3}, .expires_ms = sim->now_ms + 1000, .flags = 77};
    uint64_t version = 0;
    assert_int_equal(goblin_put(sim->store, name, GOBLIN_LITERAL("value"), &options, &version),
                     GOBLIN_OK);
    int64_t expires = sim->now_ms + 5000;
    const struct goblin_amendment amendment = {
        .what = GOBLIN_AMEND_EXPIRES | GOBLIN_AMEND_FLAGS | GOBLIN_AMEND_VERSION,
        .expires_ms = expires,
        .flags = 78,
        .version = version + 9,
        .marks_set = 3,
        .durability = GOBLIN_DURABILITY_NONE,
    };
    assert_int_equal(goblin_amend(sim->store, name, &amendment, NULL), GOBLIN_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct goblin_buffer value = {0};
        struct goblin_buffer meta = {0};
        struct goblin_info info;
        assert_int_equal(goblin_load(sim->reader, name, &value, &info, &meta), GOBLIN_OK);
        assert_memory_equal(value.data, "value", 5);
        assert_memory_equal(meta.data, "abc", 3);
        assert_int_equal(info.version, version + 9);
        assert_int_equal(info.flags, 78);
        assert_int_equal(info.marks, 3);
        assert_int_equal(info.expires_ms, expires);
        assert_int_equal(gb_simstore_stats(sim).ram_only_objects, i == 0);
        goblin_buffer_free(&value);
        goblin_buffer_free(&meta);
        gb_keeper_round(sim->store);
        if (i == 1) {
            gb_simstore_close(sim);
            gb_simstore_open(sim);
        }
    }
    sim->now_ms += 5000;
    assert_false(gb_simstore_has(sim, 1));
}

static void value__leaves_when_ram_is_short(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    const uint64_t count = 3000;
    for (uint64_t i = 0; i < count; i++) {
        gb_simstore_put(sim, i, RAM_MAX - 100 - i % 4000);
        if (i % 16 == 0) {
            gb_keeper_round(sim->store);
        }
    }
    struct goblin_stats stats = gb_simstore_stats(sim);
    assert_int_equal(stats.admission_refused, count);
    assert_true(stats.left_admission > count / 2);
    assert_int_equal(stats.objects + stats.left_admission, count);
    assert_int_equal(stats.ram_only_objects, stats.objects);
    assert_true(stats.objects > count / 10);
    assert_true(stats.device_write_bytes < GB_MIB);
    uint64_t there = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (gb_simstore_has(sim, i)) {
            gb_simstore_expect(sim, i, RAM_MAX - 100 - i % 4000, i);
            there++;
        }
    }
    assert_int_equal(there, stats.objects);
    assert_true(gb_simstore_has(sim, count - 1));
}

static void put__over_what_is_on_disk_is_written(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    gb_simstore_put(sim, 1, SMALL);
    gb_simstore_expect(sim, 1, SMALL, 1);
    assert_int_equal(gb_simstore_try_put(sim, 1, SMALL, 2, GOBLIN_DURABILITY_NONE), GOBLIN_OK);
    struct goblin_stats stats = gb_simstore_stats(sim);
    assert_int_equal(stats.admission_refused, 1); /* the second put's key had been asked for */
    assert_int_equal(stats.ram_only_objects, 0);
    assert_int_equal(gb_simstore_try_put(sim, 1, SMALL, 3, GOBLIN_DURABILITY_NONE), GOBLIN_OK);
    assert_int_equal(gb_simstore_stats(sim).admission_refused, 1);
    flush(sim);
    gb_simstore_crash(sim);
    gb_simstore_expect(sim, 1, SMALL, 3);
    /* Gone, its key is as new as any. */
    struct gb_key key;
    assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, 1), NULL), GOBLIN_OK);
    gb_simstore_put(sim, 1, SMALL);
    assert_int_equal(gb_simstore_stats(sim).ram_only_objects, 1);
    flush(sim);
    gb_simstore_crash(sim);
    assert_false(gb_simstore_has(sim, 1));
}

static void put__that_is_durable_or_large_is_written(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    assert_int_equal(gb_simstore_try_put(sim, 1, SMALL, 1, GOBLIN_DURABILITY_WRITTEN), GOBLIN_OK);
    gb_simstore_put(sim, 2, RAM_MAX + 1);
    gb_simstore_put(sim, 3, 300000);
    assert_int_equal(gb_simstore_stats(sim).admission_refused, 0);
    gb_simstore_put(sim, 0, RAM_MAX);
    assert_int_equal(gb_simstore_stats(sim).admission_refused, 1);
    gb_simstore_expect(sim, 0, RAM_MAX, 0);
}

static void writer__has_small_values_admitted_too(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    for (unsigned i = 0; i < 2; i++) {
        struct gb_key key;
        struct goblin_writer *writer = NULL;
        size_t size = i == 0 ? 12000 : 40000; /* more than the head is resident of the first */
        unsigned char *value = malloc(size);
        assert_non_null(value);
        gb_pattern_fill(value, size, i, 0);
        assert_int_equal(goblin_writer_begin(&writer, sim->store, gb_key_at(&key, i * 9),
                                             GOBLIN_SIZE_UNKNOWN, NULL),
                         GOBLIN_OK);
        assert_int_equal(goblin_writer_write(writer, value, size / 2), GOBLIN_OK);
        assert_int_equal(goblin_writer_write(writer, value + size / 2, size / 2), GOBLIN_OK);
        assert_int_equal(goblin_writer_commit(writer, NULL), GOBLIN_OK);
        gb_simstore_expect(sim, UINT64_C(9) * i, size, i);
        assert_int_equal(gb_simstore_stats(sim).admission_refused, 1);
        free(value);
    }
    gb_keeper_round(sim->store);
    assert_int_equal(gb_simstore_stats(sim).ram_only_objects, 0);
    gb_simstore_expect(sim, 0, 12000, 0);
}

static void touch__that_is_durable_writes_the_object(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    gb_simstore_put(sim, 1, SMALL);
    struct gb_key key;
    int64_t expires = sim->now_ms + 100000;
    assert_int_equal(
        goblin_touch(sim->store, gb_key_at(&key, 1), expires, GOBLIN_DURABILITY_WRITTEN),
        GOBLIN_OK);
    gb_simstore_crash(sim);
    gb_simstore_expect(sim, 1, SMALL, 1);
    struct goblin_info info;
    assert_int_equal(goblin_stat(sim->store, gb_key_at(&key, 1), &info), GOBLIN_OK);
    assert_int_equal(info.expires_ms, expires);
}

static void checkpoint__names_nothing_that_is_in_ram_alone(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.heads_dir = "/one";
    open_second(sim);
    for (uint64_t i = 0; i < 20; i++) {
        enum goblin_durability durability =
            i % 2 == 0 ? GOBLIN_DURABILITY_NONE : GOBLIN_DURABILITY_WRITTEN;
        assert_int_equal(gb_simstore_try_put(sim, i, SMALL, i, durability), GOBLIN_OK);
    }
    assert_int_equal(goblin_checkpoint(sim->store), GOBLIN_OK);
    gb_simstore_close(sim);
    gb_simstore_open(sim);
    assert_int_equal(gb_simstore_stats(sim).objects, 10);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(gb_simstore_has(sim, i), i % 2);
    }
}

/* ---- what the log still holds -------------------------------------------------------------- */

/* The file and offset of an object's payload. */
static uint64_t find_payload(struct gb_simstore *sim, uint64_t number, char *path, size_t len)
{
    struct gb_key text;
    struct goblin_slice key = gb_key_at(&text, number);
    struct gb_locked locked;
    gb_index_lock(sim->store->index, gb_index_hash(key.data, key.len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, key.data, key.len);
    assert_non_null(item);
    uint64_t place = atomic_load(&item->place);
    gb_index_unlock(&locked);
    assert_int_equal(gb_segment_path(&sim->store->segments, gb_place_slot(place), path, len), 0);
    return gb_place_offset(place);
}

static void old_value__stays_away_though_the_index_forgot_it(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    assert_int_equal(gb_simstore_try_put(sim, 9, 40000, 9, GOBLIN_DURABILITY_SYNCED), GOBLIN_OK);
    char path[256];
    uint64_t offset = find_payload(sim, 9, path, sizeof(path));
    assert_int_equal(simdisk_flip(sim->disk, path, offset + 30000, 1), 0);
    struct gb_key key;
    struct goblin_buffer value = {0};
    assert_int_not_equal(goblin_load(sim->reader, gb_key_at(&key, 9), &value, NULL, NULL),
                         GOBLIN_OK);
    goblin_buffer_free(&value);
    assert_int_equal(gb_simstore_stats(sim).left_bad, 1);
    assert_int_equal(simdisk_flip(sim->disk, path, offset + 30000, 1), 0);
    gb_simstore_put(sim, 9, SMALL);
    assert_int_equal(gb_simstore_stats(sim).ram_only_objects, 1);
    flush(sim);
    gb_simstore_crash(sim);
    assert_false(gb_simstore_has(sim, 9));
}

/* ---- the budget ---------------------------------------------------------------------------- */

#define BUDGET (64 * GB_MIB)
#define BURST  (BUDGET / 144)

/* Five minutes of more new values than the budget has room for; some are asked for. */
static uint64_t five_minutes(struct gb_simstore *sim, uint64_t next)
{
    for (unsigned i = 0; i < 60; i++, next++) {
        gb_simstore_put(sim, next, 8000);
        if (next % 3 == 0) {
            gb_simstore_expect(sim, next, 8000, next);
        }
        if (i % 10 == 0) {
            sim->now_ms += MINUTE / 2;
            gb_keeper_round(sim->store);
        }
    }
    sim->now_ms += 2 * MINUTE;
    flush(sim);
    gb_keeper_round(sim->store);
    return next;
}

static uint64_t device_bytes(const struct gb_simstore *sim)
{
    struct simdisk_counts counts;
    simdisk_counts(sim->disk, &counts);
    return counts.written_bytes - sim->before.written_bytes;
}

static void budget__holds_over_every_day_and_every_hour(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.write_budget_day_bytes = BUDGET;
    gb_simstore_open(sim);
    uint64_t next = 0;
    int64_t at_start = sim->now_ms;
    for (unsigned hour = 0; hour < 48; hour++) {
        uint64_t before = device_bytes(sim);
        for (unsigned i = 0; i < 12; i++) {
            next = five_minutes(sim, next);
        }
        uint64_t written = device_bytes(sim) - before;
        /* Beyond the hour's share: what the bucket held, and blocks that gathered meanwhile. */
        assert_true(written <= BUDGET / 24 + BURST + 4 * 64 * GB_KIB);
        /* An hour pays for what the one before had on credit, but none falls behind. */
        assert_true(device_bytes(sim) >= (hour + 1) * (BUDGET / 24));
    }
    assert_int_equal(sim->now_ms - at_start, 2 * DAY);
    assert_true(device_bytes(sim) <= 2 * BUDGET + BURST + 4 * 64 * GB_KIB);
    assert_true(device_bytes(sim) >= 2 * BUDGET * 95 / 100);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    struct goblin_stats stats = gb_simstore_stats(sim);
    assert_int_equal(stats.device_write_bytes, device_bytes(sim));
    assert_true(stats.segments_reclaimed > 24);
    assert_true(stats.admission_refused > next / 2);
    assert_true(stats.admission_written > 1000);
    assert_true(stats.write_budget_left_bytes <= BURST);
    assert_int_equal(stats.objects + stats.left_admission + stats.left_disk + stats.left_ram, next);
}

/* Puts until the budget is spent. */
static uint64_t spend(struct gb_simstore *sim)
{
    uint64_t number = 1000;
    while (gb_simstore_stats(sim).write_budget_left_bytes > 0) {
        gb_simstore_put(sim, number++, 8000);
        flush(sim);
    }
    return number;
}

static void budget__refuses_what_ram_cannot_keep(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.write_budget_day_bytes = BUDGET;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 1, RAM_MAX + 1);
    uint64_t number = spend(sim);
    assert_int_equal(gb_simstore_stats(sim).admission_refused, 0);
    for (unsigned i = 0; i < 2; i++) {
        size_t size = i == 0 ? RAM_MAX + 1 : 300000;
        int rc = gb_simstore_try_put(sim, 1, size, 2, GOBLIN_DURABILITY_NONE);
        assert_int_equal(rc, -EDQUOT);
        gb_simstore_expect(sim, 1, RAM_MAX + 1, 1);
    }
    assert_int_equal(gb_simstore_stats(sim).admission_rejected, 2);
    assert_int_equal(gb_simstore_try_put(sim, 2, 300000, 2, GOBLIN_DURABILITY_WRITTEN), GOBLIN_OK);
    gb_simstore_put(sim, number, SMALL);
    assert_int_equal(gb_simstore_stats(sim).admission_refused, 1);
    /* That was written on credit, so ten minutes bring nothing, but an hour does. */
    for (unsigned i = 0; i < 20; i++) {
        sim->now_ms += 10 * MINUTE;
        gb_keeper_round(sim->store);
        if (i == 0) {
            assert_int_equal(gb_simstore_stats(sim).write_budget_left_bytes, 0);
        }
    }
    assert_int_equal(gb_simstore_stats(sim).write_budget_left_bytes, 0); /* nobody asked */
    assert_int_equal(gb_simstore_try_put(sim, 1, 300000, 2, GOBLIN_DURABILITY_NONE), GOBLIN_OK);
    gb_simstore_expect(sim, 1, 300000, 2);
}

static void budget__spent_lets_nothing_old_come_back(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.write_budget_day_bytes = BUDGET;
    gb_simstore_open(sim);
    for (uint64_t i = 0; i < 10; i++) {
        gb_simstore_put(sim, i, SMALL);
    }
    (void)spend(sim);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(gb_simstore_try_put(sim, i, SMALL, 100 + i, GOBLIN_DURABILITY_NONE),
                         GOBLIN_OK);
        gb_simstore_expect(sim, i, SMALL, 100 + i);
    }
    assert_int_equal(gb_simstore_stats(sim).ram_only_objects, 10);
    flush(sim);
    gb_simstore_crash(sim);
    for (uint64_t i = 0; i < 10; i++) {
        assert_false(gb_simstore_has(sim, i));
    }
}

static void budget__spent_lets_nothing_old_come_back_past_a_failed_write(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.write_budget_day_bytes = BUDGET;
    sim->options.lanes = 1;
    gb_simstore_open(sim);
    gb_simstore_put(sim, 9, SMALL);
    (void)spend(sim);
    gb_simstore_put(sim, 9, SMALL);
    assert_int_equal(gb_simstore_stats(sim).ram_only_objects, 1);
    simdisk_fail_nth(sim->disk, SIMDISK_WRITE, 1);
    flush(sim);
    assert_int_equal(gb_simstore_stats(sim).write_errors, 1);
    assert_int_equal(goblin_sync(sim->store), GOBLIN_OK);
    gb_simstore_crash(sim);
    assert_false(gb_simstore_has(sim, 9));
}

static void budget__does_not_follow_a_clock_that_leaps(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.write_budget_day_bytes = BUDGET;
    gb_simstore_open(sim);
    (void)spend(sim);
    sim->now_ms -= 60 * MINUTE;
    gb_simstore_put(sim, 1, SMALL);
    assert_int_equal(gb_simstore_stats(sim).write_budget_left_bytes, 0);
    sim->now_ms += 7 * DAY;
    gb_simstore_put(sim, 2, SMALL);
    assert_true(gb_simstore_stats(sim).write_budget_left_bytes > 0);
    assert_true(gb_simstore_stats(sim).write_budget_left_bytes <= BURST);
}

/* ---- readers ------------------------------------------------------------------------------- */

struct held {
    uint64_t hold;
    const unsigned char *data;
    size_t len;
};

static int hold_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct held *held = arg;
    *held = (struct held){chunk->hold, chunk->data, chunk->len};
    return chunk->resident ? GOBLIN_CHUNK_HOLD : GOBLIN_CHUNK_STOP;
}

static void chunk__can_be_held_when_no_block_can_be_pinned(void **state)
{
    struct gb_simstore *sim = *state;
    open_second(sim);
    const uint64_t count = 600; /* more than half of the arena */
    for (uint64_t i = 0; i < count; i++) {
        gb_simstore_put(sim, i, 12000);
    }
    struct held *held = calloc(count, sizeof(*held));
    assert_non_null(held);
    uint64_t pinned = 0;
    uint64_t last = count;
    for (uint64_t i = 0; i < count; i++) {
        struct gb_key key;
        struct goblin_request request = {
            .key = gb_key_at(&key, i), .on_chunk = hold_chunk, .arg = &held[i]};
        int rc = goblin_get(sim->reader, &request);
        if (rc == -EAGAIN) {
            last = i; /* copies are held, one in each request that the reader has */
            break;
        }
        assert_int_equal(rc, GOBLIN_OK);
        pinned = gb_simstore_stats(sim).pinned_blocks;
    }
    assert_in_range(last, 50, count - 1);
    assert_true(pinned > 10);
    /* What is held stays as it is, whatever becomes of the objects. */
    for (uint64_t i = 0; i < last; i++) {
        struct gb_key key;
        assert_int_equal(goblin_delete(sim->store, gb_key_at(&key, i), NULL), GOBLIN_OK);
    }
    for (uint64_t i = 0; i < 300; i++) {
        gb_simstore_put(sim, 10000 + i, 12000);
    }
    for (uint64_t i = 0; i < last; i++) {
        assert_int_equal(held[i].len, 12000);
        assert_true(gb_pattern_holds(held[i].data, held[i].len, i, 0));
        goblin_release(sim->reader, held[i].hold);
    }
    assert_int_equal(gb_simstore_stats(sim).pinned_blocks, 0);
    gb_simstore_expect(sim, 10299, 12000, 10299);
    free(held);
}

/* ---- options ------------------------------------------------------------------------------- */

static void options__are_for_caches_only(void **state)
{
    struct gb_simstore *sim = *state;
    struct goblin_error error;
    struct goblin_options options = sim->options;
    options.mode = GOBLIN_MODE_STORE;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_OK);
    options.admit = GOBLIN_ADMIT_SECOND;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_EOPTION);
    assert_non_null(strstr(error.text, "admit"));
    options.admit = GOBLIN_ADMIT_ALL;
    options.write_budget_day_bytes = GB_GIB;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_EOPTION);
    options.mode = GOBLIN_MODE_CACHE;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_OK);
    options.write_budget_day_bytes = 1000;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_EOPTION);
    assert_non_null(strstr(error.text, "write_budget_day_bytes"));
    options.write_budget_day_bytes = 0;
    options.admit = (enum goblin_admit)2;
    assert_int_equal(goblin_options_check(&options, &error), GOBLIN_EOPTION);
}

static void options__are_refused_by_a_store_that_is_there(void **state)
{
    struct gb_simstore *sim = *state;
    sim->options.mode = GOBLIN_MODE_STORE;
    gb_simstore_open(sim);
    gb_simstore_close(sim);
    sim->options.mode = GOBLIN_MODE_CACHE; /* which is to say: as it was made */
    sim->options.admit = GOBLIN_ADMIT_SECOND;
    struct goblin_error error = {""};
    assert_int_equal(gb_simstore_try_open(sim, &error), GOBLIN_EOPTION);
    assert_non_null(strstr(error.text, "only for a cache"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(value__is_written_when_asked_for_again),
        GB_ON_A_SIMULATED_DISK(value__keeps_what_belongs_to_it_when_written_later),
        GB_ON_A_SIMULATED_DISK(value__leaves_when_ram_is_short),
        GB_ON_A_SIMULATED_DISK(put__over_what_is_on_disk_is_written),
        GB_ON_A_SIMULATED_DISK(put__that_is_durable_or_large_is_written),
        GB_ON_A_SIMULATED_DISK(writer__has_small_values_admitted_too),
        GB_ON_A_SIMULATED_DISK(touch__that_is_durable_writes_the_object),
        GB_ON_A_SIMULATED_DISK(checkpoint__names_nothing_that_is_in_ram_alone),
        GB_ON_A_SIMULATED_DISK(old_value__stays_away_though_the_index_forgot_it),
        GB_ON_A_SIMULATED_DISK(budget__holds_over_every_day_and_every_hour),
        GB_ON_A_SIMULATED_DISK(budget__refuses_what_ram_cannot_keep),
        GB_ON_A_SIMULATED_DISK(budget__spent_lets_nothing_old_come_back),
        GB_ON_A_SIMULATED_DISK(budget__spent_lets_nothing_old_come_back_past_a_failed_write),
        GB_ON_A_SIMULATED_DISK(budget__does_not_follow_a_clock_that_leaps),
        GB_ON_A_SIMULATED_DISK(chunk__can_be_held_when_no_block_can_be_pinned),
        GB_ON_A_SIMULATED_DISK(options__are_for_caches_only),
        GB_ON_A_SIMULATED_DISK(options__are_refused_by_a_store_that_is_there),
    };
    return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
