/*
 * goblin-bench micro: what one call of libgoblin costs when the device is not in the way, and what
 * one object costs in RAM. Everything goes through the public API.
 *
 *     micro.c        the command and its output
 *     micro_store.c  stores made for a case, loaded and measured
 *     micro_open.c   how soon they answer when they are opened again
 */
#ifndef GB_BENCH_MICRO_H
#define GB_BENCH_MICRO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"
#include "goblin/options.h"
#include "goblin/stats.h"

struct gb_micro_options {
    const char *dir;
    const char *out; /* JSON; NULL: none */
    double scale;    /* of the numbers of objects and operations */
};

enum {
    GB_MICRO_VALUE_BYTES = 400,
    GB_MICRO_LARGE_BYTES = 8000, /* where what is told apart is how a store opens */
    GB_MICRO_KEY_BYTES = 20,
    GB_MICRO_THREADS_MAX = 8,
    GB_MICRO_AHEAD_MAX = 8,
};

/* One store, filled with `objects` values. Key i is 20 bytes of text that hold i. */
struct gb_micro_store {
    struct goblin *goblin;
    char dir[PATH_MAX];
    uint64_t objects;
    uint64_t memory_bytes;
    uint64_t size_bytes;
    size_t value_bytes; /* 0: GB_MICRO_VALUE_BYTES; at most GB_MICRO_LARGE_BYTES */
};

/* Makes an empty store for `objects` values and `puts` more of them.
 * Owns: gb_micro_store_close, which removes its directory. */
int gb_micro_store_open(struct gb_micro_store *store, const struct gb_micro_options *options,
                        uint64_t puts, struct goblin_error *error);
void gb_micro_store_close(struct gb_micro_store *store);

/* Opens what is in the store's directory, or makes it. `dirs` has room for one name. */
void gb_micro_store_options(const struct gb_micro_store *store, const char **dirs,
                            struct goblin_options *made);

/* The key of object `number`. */
void gb_micro_store_key(uint64_t number, char key[GB_MICRO_KEY_BYTES + 1]);

/* Puts objects [first, end) once each, in order. */
int gb_micro_store_load(struct gb_micro_store *store, uint64_t first, uint64_t end,
                        struct goblin_error *error);

/* Puts `count` values over random existing keys from one thread, durability none. */
int gb_micro_store_overwrite(struct gb_micro_store *store, uint64_t count, double *seconds,
                             struct goblin_error *error);

/* How gets are done. */
struct gb_micro_gets {
    uint64_t count;   /* in all */
    unsigned threads; /* with a reader each */
    unsigned ahead;   /* keys drawn at a time, 1 to GB_MICRO_AHEAD_MAX; hinted if more than one */
    bool load;        /* by goblin_load instead of goblin_get and a callback */
};

/* Gets random keys and copies the values out. Misses and values of a wrong size or with wrong bytes
 * are faults. */
int gb_micro_store_get(struct gb_micro_store *store, const struct gb_micro_gets *gets,
                       double *seconds, struct goblin_error *error);

/* Closes the store, opens it again and gets one object: the seconds from the call of goblin_open to
 * the answer. Without `checkpoint` the files that hold one are removed in between. */
int gb_micro_store_reopen(struct gb_micro_store *store, bool checkpoint, double *seconds,
                          struct goblin_error *error);

/* RAM that objects take apart from their resident value bytes: header, key and index. */
double gb_micro_store_object_bytes(struct gb_micro_store *store, struct goblin_stats *stats);

/* The command; argv[0] is "micro". Returns an exit code. */
int gb_cmd_micro(int argc, char **argv);

#endif
