/*
 * The index: key -> item.
 *
 * Buckets of one cache line: a version word and seven slots of 64 bits, each a 16-bit tag and the
 * 48-bit place of an item in the RAM log (its byte offset from the arena's base). The table is one
 * array in a reserved range of addresses that grows bucket by bucket (linear hashing), so growth
 * never pauses, never copies the table, and takes memory only as objects come.
 *
 * Readers take no lock: they read a bucket's version, scan, and read it again. Writers lock the
 * key's home bucket; everything about the key (its slot, its item's changing fields) is theirs
 * until they unlock. Whoever reads items without a bucket lock must be inside an RCU read-side
 * critical section, because the block that holds an item is reused after a grace period.
 *
 * A place is never 0. The index never frees or moves an item.
 *
 * Threads: all calls from any thread. Blocks: locks spin, then yield.
 */
#ifndef GB_ENGINE_INDEX_H
#define GB_ENGINE_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_index;
struct gb_bucket;
struct gb_item;

/* Owns: *out until gb_index_destroy. `arena`: base that places count from; borrowed for life.
 * `max_bytes`: addresses to reserve (no memory); the table never grows beyond it. */
int gb_index_create(struct gb_index **out, const unsigned char *arena, uint64_t max_bytes);
void gb_index_destroy(struct gb_index *index);

/* XXH3_64bits of the key. Low bits choose the bucket, the top 16 are the tag. */
uint64_t gb_index_hash(const void *key, size_t len);

/* Starts fetching the bucket of `hash` into the cache. */
void gb_index_prefetch(const struct gb_index *index, uint64_t hash);

/* The same for header and key of what the bucket seems to hold for `hash`; best a while after
 * gb_index_prefetch, or it waits for the bucket. */
void gb_index_prefetch_item(const struct gb_index *index, uint64_t hash);

/* ---- without a lock (inside an RCU read-side critical section) ----------------------------- */

/* A look at a key's bucket. */
struct gb_glimpse {
    const struct gb_bucket *bucket;
    uint64_t version;
};

/* The item of the key, or NULL. What the caller then reads of the item's changing fields is
 * consistent if gb_index_unchanged says so afterwards; else look again. */
const struct gb_item *gb_index_find(const struct gb_index *index, uint64_t hash, const void *key,
                                    size_t len, struct gb_glimpse *glimpse);
bool gb_index_unchanged(const struct gb_glimpse *glimpse);

/* ---- with the bucket lock ------------------------------------------------------------------ */

struct gb_locked {
    struct gb_index *index;
    struct gb_bucket *bucket; /* home bucket; its lock is held */
    uint64_t hash;
    _Atomic uint64_t *slot; /* of the key, set by gb_index_find_locked; NULL: absent */
};

/* Locks the bucket of `hash`; one at a time per thread. */
void gb_index_lock(struct gb_index *index, uint64_t hash, struct gb_locked *locked);
bool gb_index_try_lock(struct gb_index *index, uint64_t hash, struct gb_locked *locked);
/* Unlocks; readers who looked meanwhile look again. May then split a bucket elsewhere if the table
 * is fuller than it should be. */
void gb_index_unlock(struct gb_locked *locked);

/* The item of the key or NULL; remembers its slot for the next three calls. */
struct gb_item *gb_index_find_locked(struct gb_locked *locked, const void *key, size_t len);
/* Looks for the slot that holds exactly `place`; false if none does. */
bool gb_index_find_place_locked(struct gb_locked *locked, uint64_t place);
/* After a find that found nothing. -ENOMEM: no room, nothing changed. */
int gb_index_insert_locked(struct gb_locked *locked, uint64_t place);
/* After a find that found something. */
void gb_index_replace_locked(struct gb_locked *locked, uint64_t place);
void gb_index_remove_locked(struct gb_locked *locked);

/* ---- the whole table ----------------------------------------------------------------------- */

/* Visits the places of the next bucket in an order that survives growth (reverse binary), under
 * that bucket's lock. *cursor is 0 at first and 0 again after the last. The callback must not
 * lock another bucket. */
typedef void (*gb_index_visit_fn)(void *arg, struct gb_locked *locked, struct gb_item *item);
void gb_index_scan_bucket(struct gb_index *index, uint64_t *cursor, gb_index_visit_fn visit,
                          void *arg);

/* Empties every bucket. Nobody else may be using the index. */
void gb_index_reset(struct gb_index *index);

uint64_t gb_index_count(const struct gb_index *index);
/* Memory in use: buckets, overflow buckets and the struct. */
uint64_t gb_index_bytes(const struct gb_index *index);

#endif
