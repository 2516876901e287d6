/*
 * Admission: which new values of a cache are written to disk.
 *
 * A drive wears by what is written to it, and much of what a cache is given is never asked for. So
 * a new value that is small enough can be kept in RAM alone: its item has no place on disk and all
 * of its bytes resident, and is served like any other. When it is asked for, its key is noted, and
 * the cleaner writes it to the log. If the hand would cut it before that, it leaves.
 *
 * Two things keep a value in RAM alone: `admit` (a key is written when asked for after its put) and
 * the daily write budget, when it is spent. The budget is a bucket of bytes, refilled continuously
 * by the store's clock and holding at most ten minutes' worth, from which everything that is
 * written to the device is taken, the store's own housekeeping included. What must be written all
 * the same (durable puts, streams under way, reclaiming) takes it into debt, which is paid before
 * anything else is admitted.
 *
 * Invariant: an item in RAM alone has all its bytes resident, and nothing older of its key comes
 * back after a crash: where the log may hold something, a tombstone was written at the put.
 *
 * Lock order: bucket -> admission, a leaf.
 */
#ifndef GB_ENGINE_ADMISSION_H
#define GB_ENGINE_ADMISSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/goblin.h>

#include "engine/item.h"

struct goblin;
struct gb_publication;

/* Keys that were asked for, back to back, each behind its length. */
struct gb_asked {
    unsigned char *bytes;
    size_t len;
};

struct gb_admission {
    uint64_t day_bytes;       /* the write budget; 0: none */
    uint32_t ram_max;         /* the largest payload kept in RAM alone; 0: all is admitted */
    bool second;              /* only what is asked for after its put */
    _Atomic int64_t left;     /* bytes that may be written now; negative: debt */
    _Atomic uint64_t objects; /* in RAM alone */

    pthread_mutex_t lock; /* guards the next three */
    _Atomic int64_t refilled_ms;
    double owed; /* a part of a byte, for the next refill */
    struct gb_asked asked;

    struct gb_asked taken; /* by the cleaner, which owns the rest */
    size_t taken_at;
};

/* By the store's options, which are resolved. Fini also after a failed init, or none. */
int gb_admission_init(struct goblin *store);
void gb_admission_fini(struct goblin *store);

/* Takes what went to the device from the budget. */
static inline void gb_admission_charge(struct gb_admission *admission, uint64_t bytes)
{
    if (admission->day_bytes != 0) {
        atomic_fetch_sub_explicit(&admission->left, (int64_t)bytes, memory_order_relaxed);
    }
}

/* Bytes that may be written now. */
uint64_t gb_admission_left(const struct gb_admission *admission);

/* -EDQUOT if the budget keeps a value too large for RAM alone off the disk, else 0. */
int gb_admission_allow(struct goblin *store, enum goblin_durability durability);

/* gb_publish for a value in one piece that a user puts, with all of it at hand as resident bytes:
 * to the log, to RAM alone, or not at all (-EDQUOT). */
int gb_admission_publish(struct goblin *store, struct gb_publication *publication);

/* A get has found an item that is in RAM alone. Inside the read-side section; never waits. */
void gb_admission_ask(struct goblin *store, struct gb_item *item);

/* Writes what was asked for, as far as budget and disk allow. The cleaner's. */
void gb_admission_round(struct goblin *store);

/* Writes the object to the log if it is in RAM alone. 0 or a fault. */
int gb_admission_write(struct goblin *store, struct goblin_slice key);

#endif
