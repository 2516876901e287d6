/* Objects on their way into RAM while nobody clears up behind them: the store runs without its
 * keeper, over the simulated disk, as when the keeper is busy elsewhere. */
#include <stdlib.h>

#include "engine/keeper.h"
#include "engine/store.h"
#include "lib/fixture.h"
#include "sim/simdisk.h"
#include "sim/simshell.h"

#define OBJECTS 700u

static size_t size_of(uint64_t number)
{
    return 12000 + number;
}

static void put_all(struct goblin *store)
{
    static unsigned char value[12000 + OBJECTS];
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        const struct goblin_slice bytes = {value, size_of(i)};
        assert_int_equal(goblin_put(store, gb_key_at(&key, i), bytes, NULL, NULL), GOBLIN_OK);
        if (i % 16 == 0) {
            gb_keeper_round(store);
        }
    }
}

/* Reads everything, which asks for far more RAM than there is, and looks at the budget each time.
 * The keeper comes by every `rest` objects. */
static void load_all(struct goblin *store, struct goblin_reader *reader, uint64_t rest)
{
    struct goblin_buffer buffer = {0};
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct gb_key key;
        struct goblin_stats stats;
        assert_int_equal(goblin_load(reader, gb_key_at(&key, i), &buffer, NULL, NULL), GOBLIN_OK);
        assert_int_equal(buffer.len, size_of(i));
        goblin_stats(store, &stats);
        assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
        if (i % rest == 0) {
            gb_keeper_round(store);
        }
    }
    goblin_buffer_free(&buffer);
}

static void promotion__stays_within_the_budget_while_the_keeper_is_away(void **state)
{
    (void)state;
    struct gb_io *disk = simdisk_create(1);
    const char *const dirs[] = {"/one"};
    const struct goblin_options options = {
        .dirs = dirs,
        .dir_count = 1,
        .create = true,
        .size_bytes = 96 * GB_MIB,
        .memory_bytes = 8 * GB_MIB,
        .write_block_bytes = 64 * GB_KIB,
        .checkpoint_s = UINT32_MAX,
    };
    struct goblin_error error = {""};
    struct goblin *store = NULL;
    struct goblin_reader *reader = NULL;
    struct goblin_stats stats;
    assert_int_equal(gb_store_open(&store, &options, simshell_create(disk), &error), GOBLIN_OK);
    assert_int_equal(goblin_reader_create(&reader, store, NULL), GOBLIN_OK);
    put_all(store);
    load_all(store, reader, 50);
    load_all(store, reader, 50);
    load_all(store, reader, OBJECTS);
    goblin_stats(store, &stats);
    assert_true(stats.promotions_refused > 0);
    goblin_reader_destroy(reader);
    assert_int_equal(goblin_close(store), GOBLIN_OK);
    disk->ops->destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promotion__stays_within_the_budget_while_the_keeper_is_away),
    };
    return cmocka_run_group_tests_name("promotion", tests, NULL, NULL);
}
