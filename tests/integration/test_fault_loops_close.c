/* Fault loops over closing a store, and over warming, which brings back what it has kept. */
#include "engine/recover.h"
#include "lib/faultloop.h"

#define NONE GOBLIN_DURABILITY_NONE

static void use_two_drives(struct gb_world *world)
{
    world->fixture->options.dir_count = 2;
}

static void put_some(struct gb_world *world)
{
    for (uint64_t i = 20; i < 26; i++) {
        assert_int_equal(gb_world_put(world, i, 9000 * (i - 19), NONE), GOBLIN_OK);
    }
    assert_int_equal(gb_world_stream(world, 26, 200000, 200000, NONE), GOBLIN_OK);
    assert_int_equal(gb_world_delete(world, 1, NONE), GOBLIN_OK);
}

/* ---- warming ------------------------------------------------------------------------------- */

static int warm(struct gb_world *world)
{
    gb_warm(world->fixture->store);
    return GOBLIN_OK;
}

static void start_cold(struct gb_world *world)
{
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
    assert_int_equal(gb_world_open(world), GOBLIN_OK);
}

/* ---- closing ------------------------------------------------------------------------------- */

static int close_store(struct gb_world *world)
{
    return gb_world_close(world);
}

int main(void)
{
    const struct gb_loop loops[] = {
        {"warming from the log", NULL, start_cold, warm, 0},
        {"warming from heads", gb_world_use_heads, start_cold, warm, 0},
        {"close", NULL, NULL, close_store, 0},
        {"close with much to write", NULL, put_some, close_store, 0},
        {"close of two drives", use_two_drives, put_some, close_store, 0},
        {"close with heads", gb_world_use_heads, put_some, close_store, GB_LOOP_REAL},
    };
    return gb_loops_run("fault loops, closing", loops, sizeof(loops) / sizeof(loops[0]));
}
