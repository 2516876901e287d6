/* Fault loops over the calls that change objects. */
#include <errno.h>

#include "lib/faultloop.h"

#define NONE    GOBLIN_DURABILITY_NONE
#define WRITTEN GOBLIN_DURABILITY_WRITTEN
#define SYNCED  GOBLIN_DURABILITY_SYNCED

static void use_two_drives(struct gb_world *world)
{
    world->fixture->options.dir_count = 2;
}

static void use_cache(struct gb_world *world)
{
    world->fixture->options.mode = GOBLIN_MODE_CACHE;
    world->misses = true;
}

static void use_order(struct gb_world *world)
{
    world->fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
}

/* ---- put ----------------------------------------------------------------------------------- */

static int put_small(struct gb_world *world)
{
    return gb_world_put(world, 20, 300, NONE);
}

static int put_small_written(struct gb_world *world)
{
    return gb_world_put(world, 20, 300, WRITTEN);
}

static int put_small_synced(struct gb_world *world)
{
    return gb_world_put(world, 20, 300, SYNCED);
}

static int put_over_small(struct gb_world *world)
{
    return gb_world_put(world, 1, 400, SYNCED);
}

static int put_over_stream(struct gb_world *world)
{
    return gb_world_put(world, 6, 20000, WRITTEN);
}

static int put_inline_large(struct gb_world *world)
{
    return gb_world_put(world, 20, 50000, NONE);
}

static int put_streamed(struct gb_world *world)
{
    return gb_world_put(world, 20, 400000, NONE);
}

static int put_streamed_synced(struct gb_world *world)
{
    return gb_world_put(world, 20, 400000, SYNCED);
}

/* Enough to turn from one segment to the next, several times. */
static int put_many(struct gb_world *world)
{
    int rc = GOBLIN_OK;
    for (uint64_t i = 0; rc == GOBLIN_OK && i < 60; i++) {
        rc = gb_world_put(world, 30 + i, 50000, NONE);
    }
    return rc;
}

static int put_if_absent(struct gb_world *world)
{
    struct gb_key key;
    const struct goblin_put_options options = {
        .condition = GOBLIN_IF_ABSENT,
        .durability = SYNCED,
    };
    int rc = goblin_put(world->fixture->store, gb_key_at(&key, 3), GOBLIN_LITERAL("other"),
                        &options, NULL);
    assert_true(rc == GOBLIN_EXISTS || rc < 0);
    return rc;
}

/* ---- streams ------------------------------------------------------------------------------- */

static int stream_known(struct gb_world *world)
{
    return gb_world_stream(world, 20, 2500000, 2500000, WRITTEN);
}

static int stream_unknown(struct gb_world *world)
{
    return gb_world_stream(world, 20, 2500000, GOBLIN_SIZE_UNKNOWN, SYNCED);
}

static int stream_small(struct gb_world *world)
{
    return gb_world_stream(world, 20, 9000, GOBLIN_SIZE_UNKNOWN, WRITTEN);
}

static int stream_over(struct gb_world *world)
{
    return gb_world_stream(world, 6, 200000, 200000, SYNCED);
}

static int abort_stream(struct gb_world *world)
{
    struct gb_key key;
    static const unsigned char piece[200000];
    struct goblin_writer *writer = NULL;
    int rc = goblin_writer_begin(&writer, world->fixture->store, gb_key_at(&key, 6),
                                 GOBLIN_SIZE_UNKNOWN, NULL);
    if (rc == GOBLIN_OK) {
        rc = goblin_writer_write(writer, piece, sizeof(piece));
        goblin_writer_abort(writer);
    }
    return rc;
}

/* ---- delete, touch, clear ------------------------------------------------------------------ */

static int delete_none(struct gb_world *world)
{
    return gb_world_delete(world, 2, NONE);
}

static int delete_synced(struct gb_world *world)
{
    return gb_world_delete(world, 6, SYNCED);
}

static int delete_absent(struct gb_world *world)
{
    return gb_world_delete(world, 8, SYNCED);
}

static int touch(struct gb_world *world)
{
    struct gb_key key;
    int64_t later_ms = atomic_load(&world->fixture->now_ms) + 5000;
    return goblin_touch(world->fixture->store, gb_key_at(&key, 7), later_ms, SYNCED);
}

static int clear(struct gb_world *world)
{
    static const struct gb_world_state absent = {.present = false};
    int rc = goblin_clear(world->fixture->store);
    for (uint64_t i = 0; i < GB_WORLD_OBJECTS; i++) {
        gb_world_answered(world, i, &absent, SYNCED, rc);
    }
    return rc;
}

static int sync_all(struct gb_world *world)
{
    return goblin_sync(world->fixture->store);
}

static void leave_unsafe(struct gb_world *world)
{
    for (uint64_t i = 20; i < 26; i++) {
        assert_int_equal(gb_world_put(world, i, 9000 * (i - 19), NONE), GOBLIN_OK);
    }
    assert_int_equal(gb_world_stream(world, 26, 200000, 200000, NONE), GOBLIN_OK);
    assert_int_equal(gb_world_delete(world, 1, NONE), GOBLIN_OK);
}

int main(void)
{
    const struct gb_loop loops[] = {
        {"put of a small value", NULL, NULL, put_small, 0},
        {"put of a small value, written", NULL, NULL, put_small_written, 0},
        {"put of a small value, synced", NULL, NULL, put_small_synced, 0},
        {"put over a small value", NULL, NULL, put_over_small, 0},
        {"put over a streamed value", NULL, NULL, put_over_stream, 0},
        {"put of the largest value in one record", NULL, NULL, put_inline_large, 0},
        {"put of a large value", NULL, NULL, put_streamed, 0},
        {"put of a large value, synced", use_two_drives, NULL, put_streamed_synced, GB_LOOP_REAL},
        {"put of many values", NULL, NULL, put_many, GB_LOOP_REAL},
        {"put of many values in a cache", use_cache, NULL, put_many, 0},
        {"put of many values in order", use_order, NULL, put_many, 0},
        {"put whose condition does not hold", NULL, NULL, put_if_absent, 0},
        {"writer of a known size", NULL, NULL, stream_known, 0},
        {"writer of an unknown size", use_two_drives, NULL, stream_unknown, GB_LOOP_REAL},
        {"writer of a small value", NULL, NULL, stream_small, 0},
        {"writer over another value", NULL, NULL, stream_over, 0},
        {"writer that aborts", NULL, NULL, abort_stream, GB_LOOP_REAL},
        {"delete", NULL, NULL, delete_none, 0},
        {"delete, synced", NULL, NULL, delete_synced, GB_LOOP_REAL},
        {"delete of what is not there", NULL, NULL, delete_absent, 0},
        {"touch", NULL, NULL, touch, 0},
        {"clear", NULL, leave_unsafe, clear, 0},
        {"sync", NULL, leave_unsafe, sync_all, 0},
    };
    return gb_loops_run("fault loops, writing", loops, sizeof(loops) / sizeof(loops[0]));
}
