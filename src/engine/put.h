/*
 * Publishing: how a new record becomes what a key means. Shared by put, the streaming writer and
 * whatever moves records on disk.
 */
#ifndef GB_ENGINE_PUT_H
#define GB_ENGINE_PUT_H

#include "engine/lane.h"
#include "engine/store.h"

/* One publication. */
struct gb_publication {
    struct gb_lane *lane; /* locked by the caller */
    uint64_t hash;
    struct gb_append append;
    const struct goblin_put_options *options;
    enum gb_form form;
    uint64_t object_size;          /* payload: metadata and value */
    const void *resident_parts[2]; /* where the first bytes of the payload can be copied from */
    size_t resident_len[2];
    uint32_t resident_want; /* at least this many, besides what residency gives */
    uint64_t relocates; /* publish only if the key still has this sequence; 0: not a relocation */
    bool ram_only;      /* in RAM alone, without a record (see admission.h); all is at hand */
    bool buries;        /* between: the log must be told that what it has of the key is gone */
    uint64_t version;   /* out: of the object now */
    uint64_t serial;    /* out: to wait for */
};

/* Appends the record, checks the condition, draws the sequence and swings the slot. An answer of
 * enum goblin_answer, or a fault; on anything but GOBLIN_OK nothing was stored. */
int gb_publish(struct goblin *store, struct gb_publication *publication);

/* goblin_put for a value too large for one record: through a writer. Options are checked. */
int gb_put_streamed(struct goblin *store, struct goblin_slice key, struct goblin_slice value,
                    const struct goblin_put_options *options, uint64_t *version);

static inline enum goblin_durability gb_put_durability(const struct goblin *store,
                                                       enum goblin_durability durability)
{
    return durability == GOBLIN_DURABILITY_DEFAULT ? store->options.durability : durability;
}

/* Waits as `durability` asks (DEFAULT: the store's). */
int gb_make_durable(struct goblin *store, struct gb_lane *lane, uint64_t serial,
                    enum goblin_durability durability);

/* Whether the condition holds for what is there (NULL: nothing). */
int gb_check_condition(const struct goblin_put_options *options, const struct gb_item *item);

/* Counts what was to be done without waiting and cannot be; -EAGAIN. */
int gb_would_wait(struct goblin *store);

/* The options of a put, checked. */
int gb_check_put(const struct goblin *store, struct goblin_slice key, uint64_t value_len,
                 const struct goblin_put_options *options);

#endif
