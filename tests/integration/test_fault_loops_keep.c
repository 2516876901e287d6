/* Fault loops over what the store does in the background, and over checkpoints. */
#include "engine/keeper.h"
#include "engine/reclaim.h"
#include "engine/store.h"
#include "lib/faultloop.h"

#define NONE   GOBLIN_DURABILITY_NONE
#define SYNCED GOBLIN_DURABILITY_SYNCED

static void use_heads_and_two_drives(struct gb_world *world)
{
    world->fixture->options.dir_count = 2;
    gb_world_use_heads(world);
}

static void use_cache(struct gb_world *world)
{
    world->fixture->options.mode = GOBLIN_MODE_CACHE;
    world->misses = true;
}

static bool wants_room(struct gb_world *world)
{
    struct goblin *store = world->fixture->store;
    return gb_segments_free_count(&store->segments) < gb_reclaim_target(store);
}

static int keep(struct gb_world *world)
{
    gb_keeper_round(world->fixture->store);
    return GOBLIN_OK;
}

/* ---- checkpoints --------------------------------------------------------------------------- */

static void put_some(struct gb_world *world)
{
    for (uint64_t i = 20; i < 26; i++) {
        assert_int_equal(gb_world_put(world, i, 9000 * (i - 19), NONE), GOBLIN_OK);
    }
    assert_int_equal(gb_world_stream(world, 26, 200000, 200000, NONE), GOBLIN_OK);
    assert_int_equal(gb_world_delete(world, 1, NONE), GOBLIN_OK);
}

static int checkpoint(struct gb_world *world)
{
    return goblin_checkpoint(world->fixture->store);
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* Segments in which nothing lives any more, others in which little does, deletes among it. */
static void fill_with_dead(struct gb_world *world)
{
    for (uint64_t i = 0; !wants_room(world); i++) {
        uint64_t number = 30 + i % 12;
        assert_int_equal(gb_world_put(world, number, 50000, NONE), GOBLIN_OK);
        if (i % 9 == 0) {
            assert_int_equal(gb_world_put(world, 60 + i / 9, 1000, NONE), GOBLIN_OK);
        }
        if (i % 10 == 3) {
            assert_int_equal(gb_world_delete(world, number, NONE), GOBLIN_OK);
        }
    }
    gb_world_sync(world);
}

/* A cache full of different objects, some of them read. */
static void fill_cache(struct gb_world *world)
{
    for (uint64_t i = 0; !wants_room(world); i++) {
        assert_int_equal(gb_world_put(world, 20 + i % 200, 50000, NONE), GOBLIN_OK);
        const struct goblin_request whole = {.offset = 0};
        if (i % 5 == 0) {
            assert_int_equal(gb_fixture_read(world->fixture, 20 + i % 200,
                                             world->objects[20 + i % 200].now.seed, &whole, NULL),
                             GOBLIN_OK);
        }
    }
    gb_world_sync(world);
}

static void let_expire(struct gb_world *world)
{
    struct gb_key key;
    int64_t now_ms = atomic_load(&world->fixture->now_ms);
    static const struct gb_world_state absent = {.present = false};
    for (uint64_t i = 1; i < 8; i += 2) {
        assert_int_equal(
            goblin_touch(world->fixture->store, gb_key_at(&key, i), now_ms + 10, SYNCED),
            GOBLIN_OK);
        gb_world_answered(world, i, &absent, SYNCED, GOBLIN_OK);
    }
    atomic_store(&world->fixture->now_ms, now_ms + 20);
}

/* Room is made by the call itself, which waits for it. */
static int put_when_full(struct gb_world *world)
{
    int rc = GOBLIN_OK;
    for (uint64_t i = 0; rc == GOBLIN_OK && i < 30; i++) {
        rc = gb_world_put(world, 20 + i, 50000, NONE);
    }
    return rc;
}

int main(void)
{
    const struct gb_loop loops[] = {
        {"checkpoint", NULL, put_some, checkpoint, GB_LOOP_REAL},
        {"checkpoint of two drives", use_heads_and_two_drives, put_some, checkpoint, 0},
        {"round with blocks to write", NULL, put_some, keep, 0},
        {"round that expires", NULL, let_expire, keep, 0},
        {"round that reclaims in a store", NULL, fill_with_dead, keep, 0},
        {"round that reclaims in a cache", use_cache, fill_cache, keep, 0},
        {"put into a full store", NULL, fill_with_dead, put_when_full, 0},
        {"put into a full cache", use_cache, fill_cache, put_when_full, 0},
    };
    return gb_loops_run("fault loops, keeping", loops, sizeof(loops) / sizeof(loops[0]));
}
