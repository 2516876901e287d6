/*
 * A run of keys: ascending keys back to back in one buffer, each written as what it does not share
 * with the one before it (front coding).
 *
 *   +--------+------+------------+---------+
 *   | shared | rest | rest bytes | payload |     shared, rest: one byte below 128, else two, the
 *   +--------+------+------------+---------+     low seven bits first, the top bit set
 *
 * `shared` is exactly how many leading bytes the key has in common with the one before; the first
 * key shares none. All entries of a run carry the same number of payload bytes, none or four. Keys
 * are compared as unsigned bytes, a prefix before what it begins. The first key may be empty.
 *
 * Finding a place is one walk from the start that compares bytes only where an entry could decide:
 * one that shares more with its predecessor than the key does lies on the same side of the key.
 *
 * Threads: the caller's lock. Blocks: never. Offsets are in bytes from the start of the run.
 */
#ifndef GB_ENGINE_KEYRUN_H
#define GB_ENGINE_KEYRUN_H

#include <stdbool.h>
#include <stdint.h>

#include <goblin/goblin.h>

#define GB_KEYRUN_NONE UINT32_MAX

/* The most an entry adds to a run, its successor's header included. */
#define GB_KEYRUN_ENTRY_MAX (GOBLIN_KEY_MAX + 12u)

struct gb_keyrun {
    unsigned char *bytes;
    uint32_t used;
    uint32_t payload; /* bytes: 0 or 4 */
};

/* One entry, decoded. */
struct gb_keyrun_entry {
    uint32_t shared;
    uint32_t rest;
    uint32_t key;  /* offset of the rest bytes */
    uint32_t next; /* offset of the next entry */
};

/* Where a key is, or would be. */
struct gb_keyrun_spot {
    uint32_t at;          /* the first entry that is not less than the key; the end if none is */
    uint32_t before;      /* the entry before it, or GB_KEYRUN_NONE */
    uint32_t shared;      /* leading bytes in common with that entry */
    uint32_t next_shared; /* and with the entry at `at` */
    bool found;           /* the entry at `at` is the key */
};

static inline const unsigned char *gb_keyrun_number(const unsigned char *from, uint32_t *value)
{
    *value = from[0];
    if (*value < 0x80) {
        return from + 1;
    }
    *value = (*value & 0x7f) | (uint32_t)from[1] << 7;
    return from + 2;
}

static inline struct gb_keyrun_entry gb_keyrun_entry(const struct gb_keyrun *run, uint32_t at)
{
    struct gb_keyrun_entry entry;
    const unsigned char *from = gb_keyrun_number(run->bytes + at, &entry.shared);
    from = gb_keyrun_number(from, &entry.rest);
    entry.key = (uint32_t)(from - run->bytes);
    entry.next = entry.key + entry.rest + run->payload;
    return entry;
}

struct gb_keyrun_spot gb_keyrun_seek(const struct gb_keyrun *run, struct goblin_slice key);

/* The child number that the entry at `at` carries. */
uint32_t gb_keyrun_child(const struct gb_keyrun *run, uint32_t at);
void gb_keyrun_set_child(struct gb_keyrun *run, uint32_t at, uint32_t child);

/* By how much the run grows if the key goes to its spot, which did not find it. */
uint32_t gb_keyrun_growth(const struct gb_keyrun *run, const struct gb_keyrun_spot *spot,
                          uint32_t key_len);
/* Puts it there; the buffer has room. `child` counts if the run has payloads. */
void gb_keyrun_insert(struct gb_keyrun *run, const struct gb_keyrun_spot *spot,
                      struct goblin_slice key, uint32_t child);
/* Takes the entry at `at` out. The run never grows by it. */
void gb_keyrun_remove(struct gb_keyrun *run, uint32_t at);

/* Writes the whole key of the entry at `at` to `key` (GOBLIN_KEY_MAX bytes); returns its length. */
uint32_t gb_keyrun_key(const struct gb_keyrun *run, uint32_t at, unsigned char *key);

/* The entry before the one at `at`, which is not the first. */
uint32_t gb_keyrun_previous(const struct gb_keyrun *run, uint32_t at);

/* Of `count` entries the one nearest to the middle by bytes that leaves `least` on either side. */
uint32_t gb_keyrun_middle(const struct gb_keyrun *run, uint32_t count, uint32_t least);

/* Appends the entries of `from` that begin at `at` to `to`, behind all of whose keys they lie. The
 * two do not overlap. */
void gb_keyrun_append(struct gb_keyrun *to, const struct gb_keyrun *from, uint32_t at);

#endif
