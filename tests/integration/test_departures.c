/* Every object that was there at open or put since is there, or counted once by why it left. */
#include <stdlib.h>

#include "engine/keeper.h"
#include "lib/simstore.h"

struct ledger {
    struct gb_simstore *sim;
    uint64_t at_open;
};

static struct goblin_stats balance(const struct ledger *ledger)
{
    struct goblin_stats stats = gb_simstore_stats(ledger->sim);
    uint64_t left = stats.left_overwritten + stats.left_deleted + stats.left_cleared +
                    stats.left_expired + stats.left_disk + stats.left_ram + stats.left_bad +
                    stats.left_admission;
    assert_int_equal(stats.puts, ledger->sim->put_count);
    assert_int_equal(ledger->at_open + stats.puts, stats.objects + left);
    return stats;
}

static void open_ledger(struct ledger *ledger, struct gb_simstore *sim)
{
    gb_simstore_open(sim);
    *ledger = (struct ledger){.sim = sim, .at_open = gb_simstore_stats(sim).objects};
}

static int erase(struct gb_simstore *sim, uint64_t number)
{
    struct gb_key key;
    return goblin_delete(sim->store, gb_key_at(&key, number), NULL);
}

static void expire(struct gb_simstore *sim, uint64_t number)
{
    struct gb_key key;
    assert_int_equal(
        goblin_touch(sim->store, gb_key_at(&key, number), sim->now_ms + 10, GOBLIN_DURABILITY_NONE),
        GOBLIN_OK);
}

static void objects__leave_when_asked_to(void **state)
{
    struct gb_simstore *sim = *state;
    struct ledger ledger;
    open_ledger(&ledger, sim);
    for (uint64_t i = 0; i < 100; i++) {
        gb_simstore_put(sim, i % 80, 2000);
    }
    assert_int_equal(balance(&ledger).left_overwritten, 20);
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(erase(sim, 2 * i), GOBLIN_OK);
        assert_int_equal(erase(sim, 2 * i), GOBLIN_MISS);
    }
    assert_int_equal(balance(&ledger).left_deleted, 30);
    for (uint64_t i = 0; i < 10; i++) {
        expire(sim, 2 * i + 1);
    }
    sim->now_ms += 10;
    assert_int_equal(erase(sim, 1), GOBLIN_MISS);
    assert_int_equal(balance(&ledger).left_expired, 1);
    gb_simstore_close(sim);
    open_ledger(&ledger, sim);
    assert_int_equal(balance(&ledger).puts, 0);
    assert_int_equal(goblin_clear(sim->store), GOBLIN_OK);
    assert_int_equal(balance(&ledger).left_cleared, ledger.at_open);
    assert_int_equal(balance(&ledger).objects, 0);
}

static void objects__leave_for_lack_of_disk(void **state)
{
    struct gb_simstore *sim = *state;
    struct ledger ledger;
    open_ledger(&ledger, sim);
    for (uint64_t i = 0; i < 2000; i++) {
        gb_simstore_put(sim, i, i % 100 == 0 ? 600000 : 20000);
        if (i % 7 == 0) {
            expire(sim, i);
        }
        sim->now_ms += i % 3 == 0;
        gb_keeper_round(sim->store);
    }
    struct goblin_stats stats = balance(&ledger);
    assert_true(stats.left_disk > 500);
    assert_true(stats.left_expired > 50);
}

static void objects__leave_for_lack_of_ram(void **state)
{
    struct gb_simstore *sim = *state;
    struct ledger ledger;
    sim->options.memory_bytes = 8 * GB_MIB;
    open_ledger(&ledger, sim);
    for (uint64_t i = 0; i < 100000; i++) {
        gb_simstore_put(sim, i, 20);
        if (i % 1000 == 0) {
            gb_keeper_round(sim->store);
        }
    }
    assert_true(balance(&ledger).left_ram > 1000);
}

static void objects__leave_without_having_been_admitted(void **state)
{
    struct gb_simstore *sim = *state;
    struct ledger ledger;
    sim->options.admit = GOBLIN_ADMIT_SECOND;
    open_ledger(&ledger, sim);
    for (uint64_t i = 0; i < 4000; i++) {
        gb_simstore_put(sim, i % 3000, 6000);
        if (i % 5 == 0) {
            gb_simstore_expect(sim, i % 3000, 6000, i % 3000);
        }
        if (i % 11 == 0) {
            (void)erase(sim, i % 3000);
        }
        if (i % 16 == 0) {
            gb_keeper_round(sim->store);
        }
    }
    struct goblin_stats stats = balance(&ledger);
    assert_true(stats.left_admission > 500);
    assert_true(stats.left_overwritten > 10);
    assert_true(stats.admission_written > 200);
    assert_int_equal(goblin_clear(sim->store), GOBLIN_OK);
    stats = balance(&ledger);
    assert_int_equal(stats.ram_only_objects, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.live_user_bytes, 0);
}

static void objects__leave_when_they_are_bad(void **state)
{
    struct gb_simstore *sim = *state;
    struct ledger ledger;
    open_ledger(&ledger, sim);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(gb_simstore_try_put(sim, i, 40000, i, GOBLIN_DURABILITY_WRITTEN),
                         GOBLIN_OK);
    }
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t offset = 0;
        assert_int_equal(
            simdisk_rot(sim->disk, i % 2 == 0 ? "/one/00000000.seg" : "/two/00000012.seg", &offset),
            0);
    }
    struct goblin_buffer value = {0};
    unsigned missed = 0;
    for (uint64_t i = 0; i < 40; i++) {
        struct gb_key key;
        int rc = goblin_load(sim->reader, gb_key_at(&key, i), &value, NULL, NULL);
        missed += rc != GOBLIN_OK;
    }
    goblin_buffer_free(&value);
    assert_true(missed > 10);
    assert_int_equal(balance(&ledger).left_bad, missed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(objects__leave_when_asked_to),
        GB_ON_A_SIMULATED_DISK(objects__leave_for_lack_of_disk),
        GB_ON_A_SIMULATED_DISK(objects__leave_for_lack_of_ram),
        GB_ON_A_SIMULATED_DISK(objects__leave_without_having_been_admitted),
        GB_ON_A_SIMULATED_DISK(objects__leave_when_they_are_bad),
    };
    return cmocka_run_group_tests_name("departures", tests, NULL, NULL);
}
