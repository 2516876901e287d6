/*
 * The store: what ties index, RAM log, disk log and readers together. Internal to the engine.
 *
 * Locks, in the order they may be taken:
 *   rescue -> lane                         a stream is moved from a segment that failed
 *   lane -> bucket -> arena, segments      appending and publishing
 *   residency -> bucket -> arena           moving items in RAM
 *   lane -> building -> bucket, residency  the ordered set of keys: while it is built or given up
 *   bucket -> ordered                      a leaf: one key of it, or a batch copied out
 *   bucket -> admission                    a leaf: noting keys that were asked for
 *   keeper                                 a leaf: waking the background thread
 *   readers                                a leaf: the list of readers
 * No lock is held while a callback of the embedder runs.
 */
#ifndef GB_ENGINE_STORE_H
#define GB_ENGINE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>
#include <goblin/stats.h>

#include "engine/admission.h"
#include "engine/arena.h"
#include "engine/counters.h"
#include "engine/index.h"
#include "engine/lane.h"
#include "engine/ordered.h"
#include "engine/pool.h"
#include "engine/residency.h"
#include "engine/segment.h"

struct goblin_reader;

/* What the memory budget is spent on besides the arena. Bytes. */
struct gb_budget {
    uint64_t total;
    _Atomic uint64_t promised; /* about to be taken; the arena makes room for it first */
    _Atomic uint64_t write;
    _Atomic uint64_t read;
    _Atomic uint64_t other;
};

struct gb_worker {
    pthread_t thread;
    bool running;
};

#define GB_POKED_KEEPER  1u
#define GB_POKED_CLEANER 2u

/* See throttle.h. */
struct gb_throttle {
    _Atomic bool tight;     /* free segments are short */
    _Atomic int64_t credit; /* bytes that writers may still append */
};

struct goblin {
    struct goblin_options options; /* resolved: no zeros left; dirs and heads_dir not valid */
    char *heads_dir;
    struct gb_io *io;
    struct gb_drive *drives;
    unsigned drive_count;

    struct gb_budget budget;
    struct gb_pool pool;
    struct gb_arena arena;
    struct gb_index *index;
    struct gb_ordered ordered;
    struct gb_segments segments;
    struct gb_residency residency;
    struct gb_admission admission;
    struct gb_lane lanes[GB_LANES_MAX];
    unsigned lane_count;

    _Atomic uint64_t sequence;        /* the last one drawn */
    _Atomic uint64_t next_stream;     /* numbers streams */
    _Atomic uint64_t streaming_bytes; /* reserved by uncommitted streams */
    pthread_mutex_t rescue_lock;      /* one stream is moved from a failed segment at a time */
    _Atomic uint64_t clear_sequence;  /* records before it are gone */
    uint64_t epoch;

    struct gb_tally tally; /* shared adds, and what ended readers had counted */

    pthread_mutex_t readers_lock;
    struct goblin_reader *readers;

    struct gb_worker keeper;
    struct gb_worker cleaner;
    struct gb_worker warmer;
    pthread_mutex_t keeper_lock;
    pthread_cond_t keeper_wake; /* of keeper and cleaner */
    _Atomic bool keeper_stop;   /* of all three */
    _Atomic uint32_t poked;     /* one bit for each thread that has work */
    struct gb_throttle throttle;
    bool pile_turn;                    /* the cleaner's, see victim.c */
    _Atomic uint32_t reclaim_failures; /* rises when the keeper found nothing to reclaim */
    uint64_t expire_cursor;            /* the keeper's, over the index */
    _Atomic bool expiring;             /* an object has had an expiry since open */
    _Atomic bool forgetful;            /* the log may hold objects that the index has let go */
    _Atomic bool warming;
    pthread_mutex_t checkpoint_lock; /* one checkpoint at a time */
    uint64_t heads_salt; /* of the heads file that goes with the checkpoint loaded; 0: none */
    _Atomic uint64_t checkpoint_bytes; /* of the files that are there */
    _Atomic uint64_t heads_bytes;
};

/* ---- shared pieces ------------------------------------------------------------------------- */

static inline int64_t gb_store_now_ms(const struct goblin *store)
{
    return store->options.clock(store->options.clock_arg);
}

static inline uint64_t gb_store_next_sequence(struct goblin *store)
{
    return atomic_fetch_add_explicit(&store->sequence, 1, memory_order_relaxed) + 1;
}

static inline struct gb_lane *gb_store_lane(struct goblin *store, uint64_t hash)
{
    return &store->lanes[(hash >> 40 & 0xff) % store->lane_count];
}

static inline const struct gb_drive *gb_store_drive(const struct goblin *store,
                                                    const struct gb_segment *segment)
{
    return &store->drives[segment->drive];
}

/* What went to the device, or came from it, elsewhere than through a lane or a reader, which count
 * for themselves. */
static inline void gb_store_count_write(struct goblin *store, uint64_t bytes)
{
    gb_tally_add_shared(&store->tally, GB_COUNT_device_writes, 1);
    gb_tally_add_shared(&store->tally, GB_COUNT_device_write_bytes, bytes);
    gb_admission_charge(&store->admission, bytes);
}

static inline void gb_store_count_sync(struct goblin *store)
{
    gb_tally_add_shared(&store->tally, GB_COUNT_device_syncs, 1);
}

static inline void gb_store_count_read(struct goblin *store, uint64_t bytes)
{
    gb_tally_add_shared(&store->tally, GB_COUNT_device_reads, 1);
    gb_tally_add_shared(&store->tally, GB_COUNT_device_read_bytes, bytes);
}

/* What has been written to identities of drives since it was last counted. */
void gb_store_count_identities(struct goblin *store);

static inline bool gb_expired(int64_t expires_ms, int64_t now_ms)
{
    return expires_ms != 0 && expires_ms <= now_ms;
}

/* The clock is asked only about what expires at all. */
static inline bool gb_store_expired(const struct goblin *store, int64_t expires_ms)
{
    return expires_ms != 0 && gb_expired(expires_ms, gb_store_now_ms(store));
}

static inline int gb_check_key(struct goblin_slice key)
{
    return key.data != NULL && key.len >= 1 && key.len <= GOBLIN_KEY_MAX ? 0 : GOBLIN_EKEY;
}

void gb_store_log(const struct goblin *store, enum goblin_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens over a given I/O backend, without background threads (see keeper.h); the tests' door.
 * Owns: io on success and on failure. */
int gb_store_open(struct goblin **out, const struct goblin_options *options, struct gb_io *io,
                  struct goblin_error *error);

/* As a power cut or kill would: frees memory, writes nothing. The tests' other door. */
void gb_store_abandon(struct goblin *store);

/* The arena gets what the rest of the budget leaves. */
void gb_store_rebudget(struct goblin *store);
/* The same, but never more than it has: what a thread finds that is overtaken while it counts gives
 * nothing away that others have just been promised. */
void gb_store_tighten(struct goblin *store);

/* Takes `bytes` for one of the budget's accounts, at the arena's cost; false if the account would
 * pass `most`. Given back by subtracting and gb_store_rebudget. May wait for a grace period. */
bool gb_store_take_memory(struct goblin *store, _Atomic uint64_t *account, uint64_t bytes,
                          uint64_t most);

/* The device refused to write to the segment, or to read from it: it is abandoned, and whoever is
 * responsible for the bytes puts them elsewhere. Says so. */
void gb_store_write_failed(struct goblin *store, struct gb_segment *segment, uint64_t offset,
                           int fault);
void gb_store_read_failed(struct goblin *store, struct gb_segment *segment, uint64_t offset,
                          int fault);

/* Wakes the background threads. */
void gb_store_poke(struct goblin *store);

/* Takes the item out of the index with all its accounts; the bucket is locked and `locked` has
 * found it. */
void gb_store_forget_locked(struct goblin *store, struct gb_locked *locked,
                            const struct gb_item *item);

/* An object expires then from now on (0: never). Until one does nobody looks for the expired. */
static inline void gb_store_note_expiry(struct goblin *store, int64_t expires_ms)
{
    if (expires_ms != 0 && !atomic_load_explicit(&store->expiring, memory_order_relaxed)) {
        atomic_store_explicit(&store->expiring, true, memory_order_relaxed);
    }
}

/* The item is about to be forgotten without a record that says so: the log may still hold it. */
static inline void gb_store_forgetful(struct goblin *store, const struct gb_item *item)
{
    if (!gb_item_ram_only(item)) {
        atomic_store_explicit(&store->forgetful, true, memory_order_relaxed);
    }
}

/* Live accounts on disk of an object's record and extents; or that it is in RAM alone. */
void gb_store_disk_born(struct goblin *store, const struct gb_item *item);
void gb_store_disk_died(struct goblin *store, const struct gb_item *item);

/* The object's record has been laid again: the item stays where it is and gets the new place of its
 * payload, `record` a fresh sequence and what amendments have made of it. The bucket is locked. */
void gb_store_move_locked(struct goblin *store, struct gb_item *item, uint64_t place,
                          struct gb_record *record);
/* Both at once, without touching what an overwrite leaves as it was. */
void gb_store_disk_replaced(struct goblin *store, const struct gb_item *old,
                            const struct gb_item *item);

/* A public view of an item. Acquire: pairs with the release store in gb_item_amend; beside a
 * version nothing is older than it, so that whoever swaps by version has not judged by the past. */
static inline void gb_item_describe(const struct gb_item *item, struct goblin_info *info)
{
    uint64_t version = atomic_load_explicit(&item->version, memory_order_acquire);
    uint64_t packed = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
    uint32_t meta_len = gb_meta_len_of(packed);
    uint32_t resident = gb_item_resident(item);
    *info = (struct goblin_info){
        .size = gb_item_size(item) - meta_len,
        .version = version,
        .expires_ms = gb_expiry_of(packed),
        .resident = resident > meta_len ? resident - meta_len : 0,
        .flags = atomic_load_explicit(&item->flags, memory_order_relaxed),
        .meta_len = (uint16_t)meta_len,
        .marks = gb_marks_of(packed),
        .accesses = atomic_load_explicit(&item->heat, memory_order_relaxed) >> 4,
    };
}

#endif
