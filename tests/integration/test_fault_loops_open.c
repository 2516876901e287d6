/* Fault loops over opening a store, with all that it may consist of. */
#include <stdio.h>
#include <string.h>

#include "lib/faultloop.h"

#define NONE GOBLIN_DURABILITY_NONE

static void use_two_drives(struct gb_world *world)
{
    world->fixture->options.dir_count = 2;
}

static void use_order(struct gb_world *world)
{
    world->fixture->options.ordered = GOBLIN_ORDERED_ALWAYS;
}

static void use_buffered(struct gb_world *world)
{
    world->fixture->options.caching = GOBLIN_CACHING_BUFFERED;
}

/* ---- from where opening starts ------------------------------------------------------------- */

/* Directories of which none is there yet. */
static void start_anew(struct gb_world *world)
{
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
    for (unsigned i = 0; i < GB_FIXTURE_DRIVES; i++) {
        (void)snprintf(world->fixture->drive[i], sizeof(world->fixture->drive[i]), "%s/new/%u",
                       world->disk != NULL ? "" : world->fixture->root, i);
        world->fixture->dirs[i] = world->fixture->drive[i];
    }
    memset(world->objects, 0, sizeof(world->objects));
    world->fixture->options.create = true;
}

static void start_closed(struct gb_world *world)
{
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
}

/* Footers and summaries, and no checkpoint. */
static void start_without_checkpoint(struct gb_world *world)
{
    start_closed(world);
    gb_world_remove(world, "CHECKPOINT");
}

static void put_some(struct gb_world *world)
{
    for (uint64_t i = 20; i < 26; i++) {
        assert_int_equal(gb_world_put(world, i, 9000 * (i - 19), NONE), GOBLIN_OK);
    }
    assert_int_equal(gb_world_stream(world, 26, 200000, 200000, NONE), GOBLIN_OK);
    assert_int_equal(gb_world_delete(world, 1, NONE), GOBLIN_OK);
}

/* A checkpoint, and after it segments that it does not know, the last ones without a footer. */
static void start_killed(struct gb_world *world)
{
    assert_int_equal(goblin_checkpoint(world->fixture->store), GOBLIN_OK);
    put_some(world);
    gb_world_sync(world);
    gb_world_abandon(world);
}

static int open_store(struct gb_world *world)
{
    return gb_world_open(world);
}

static int open_read_only(struct gb_world *world)
{
    world->fixture->options.read_only = true;
    int rc = gb_world_open(world);
    world->fixture->options.read_only = false;
    if (rc == GOBLIN_OK) {
        assert_int_equal(gb_world_close(world), GOBLIN_OK);
    }
    return rc;
}

int main(void)
{
    const unsigned opens = GB_LOOP_OPENS;
    const struct gb_loop loops[] = {
        {"open that makes a store", NULL, start_anew, open_store, opens},
        {"open that makes two drives", use_two_drives, start_anew, open_store,
         opens | GB_LOOP_REAL},
        {"open after a clean close", NULL, start_closed, open_store, opens},
        {"open of two drives", use_two_drives, start_closed, open_store, opens},
        {"open without direct I/O", use_buffered, start_closed, open_store, opens},
        {"open without a checkpoint", NULL, start_without_checkpoint, open_store, opens},
        {"open that puts keys in order", use_order, start_closed, open_store, opens},
        {"open after a kill", NULL, start_killed, open_store, opens | GB_LOOP_REAL},
        {"open of two drives after a kill", use_two_drives, start_killed, open_store, opens},
        {"open for reading only", NULL, start_killed, open_read_only, opens},
        {"open with heads", gb_world_use_heads, start_closed, open_store, opens | GB_LOOP_REAL},
    };
    return gb_loops_run("fault loops, opening", loops, sizeof(loops) / sizeof(loops[0]));
}
