/*
 * Fault loops: a public call in which the Nth allocation, or the Nth operation of the disk, fails,
 * for N = 1, 2, 3 … until the call gets through without.
 *
 * For every N a world is made: a store with some objects in it that are safe on disk, brought to
 * where the call begins. Whatever the call answers, afterwards the store works, or, if it was to be
 * opened, says in `error` why it is not open and opens at the next try; every object reads as it
 * was acknowledged, or as before or after a call that failed; and so it does when the store has
 * been closed, its check has passed (every byte of every object, opened for reading only), and it
 * has been opened again.
 */
#ifndef GB_TESTS_FAULTLOOP_H
#define GB_TESTS_FAULTLOOP_H

#include "lib/fixture.h"
#include "sim/simdisk.h"

#define GB_WORLD_OBJECTS 256u

struct gb_world_state {
    bool present;
    size_t size;
    uint64_t seed;
};

struct gb_world_object {
    struct gb_world_state safe; /* on disk, as acknowledged */
    struct gb_world_state now;
    struct gb_world_state before; /* a call that failed, or the drive, if one did */
    struct gb_world_state next;   /* what that call was to make of it */
    bool doubtful;                /* it may be `next` */
};

struct gb_world {
    struct gb_fixture *fixture; /* options, store, reader, clock */
    struct gb_io *disk;         /* simulated; NULL: real files */
    struct gb_world_object objects[GB_WORLD_OBJECTS];
    uint64_t seed; /* of the last value */
    bool misses;   /* objects may have left: a read failed, or a cache made room */
    bool dying;    /* what was not acknowledged as safe may fail: the drive refused it */
    bool forgets;  /* what was not acknowledged as safe may be gone: a close failed */
    struct goblin_error error; /* of the last opening */
    char heads[300];
};

/* ---- a loop -------------------------------------------------------------------------------- */

enum gb_loop_flags {
    GB_LOOP_OPENS = 1u << 0, /* the call opens the store */
    GB_LOOP_REAL = 1u << 1,  /* memory runs out over real files too: files, queues, threads */
};

struct gb_loop {
    const char *name;
    void (*adjust)(struct gb_world *world);  /* the options; may be NULL */
    void (*prepare)(struct gb_world *world); /* from a filled, open store; may be NULL */
    int (*call)(struct gb_world *world);     /* answers like the call */
    unsigned flags;
};

/* Runs the loops, each with every fault there is; what cmocka's group run returns. */
int gb_loops_run(const char *group, const struct gb_loop *loops, size_t count);

/* ---- what loops are made of ---------------------------------------------------------------- */

/* Opens, over the simulated disk or, threads and all, over real files. */
int gb_world_open(struct gb_world *world);
int gb_world_make_reader(struct gb_world *world);
void gb_world_drop_reader(struct gb_world *world);
int gb_world_close(struct gb_world *world);
/* The store is gone as if its process had been killed. */
void gb_world_abandon(struct gb_world *world);
void gb_world_remove(struct gb_world *world, const char *name);

/* Calls that say what they do to an object; each returns what the call did. */
int gb_world_put(struct gb_world *world, uint64_t number, size_t size,
                 enum goblin_durability durability);
int gb_world_stream(struct gb_world *world, uint64_t number, size_t size, uint64_t announced,
                    enum goblin_durability durability);
int gb_world_delete(struct gb_world *world, uint64_t number, enum goblin_durability durability);

/* All that has been acknowledged so far is safe from here on. */
void gb_world_sync(struct gb_world *world);

/* An operation that was to give the object this state has been answered. */
void gb_world_answered(struct gb_world *world, uint64_t number, const struct gb_world_state *state,
                       enum goblin_durability durability, int answer);

/* Lets the options name a directory for heads, and makes it. */
void gb_world_use_heads(struct gb_world *world);

#endif
