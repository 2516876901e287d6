/*
 * Memory for the nodes of the ordered set: units of 512 bytes out of a reserved range of addresses,
 * taken in short runs, numbered by 32 bits. A page of the machine is given back as soon as nothing
 * in it is used, so what is counted is what the process holds.
 *
 * Threads: the caller's lock, but for gb_keypages_bytes. Blocks: never.
 */
#ifndef GB_ENGINE_KEYPAGES_H
#define GB_ENGINE_KEYPAGES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GB_KEYPAGES_UNIT 512u
#define GB_KEYPAGES_NONE UINT32_MAX

/* The longest run that can be taken, in units. */
#define GB_KEYPAGES_RUN_MAX 64u

struct gb_keypages {
    unsigned char *base; /* NULL: nothing is reserved */
    uint64_t *used;      /* a bit per unit, set: taken; lies behind the units */
    size_t range_bytes;
    uint32_t words;      /* of `used`; a run lies within one */
    uint32_t page_units; /* units that the machine gives and takes together */
    /* By length: no word before this one has a free run so long. */
    uint32_t search[GB_KEYPAGES_RUN_MAX + 1];
    uint64_t bytes_most;
    _Atomic uint64_t bytes;      /* pages in use */
    _Atomic uint32_t words_used; /* words ever touched, from the first */
};

/* Reserves addresses for `bytes_most` of nodes (no memory); `pages` is zero or has been ended. 0 or
 * -ENOMEM. */
int gb_keypages_init(struct gb_keypages *pages, uint64_t bytes_most);
/* Gives everything back. Harmless if nothing is reserved. */
void gb_keypages_fini(struct gb_keypages *pages);

/* A run of `units`, zeroed or as it was left; GB_KEYPAGES_NONE: it does not fit. */
uint32_t gb_keypages_take(struct gb_keypages *pages, uint32_t units);
void gb_keypages_give(struct gb_keypages *pages, uint32_t first, uint32_t units);

static inline void *gb_keypages_at(const struct gb_keypages *pages, uint32_t unit)
{
    return pages->base + (size_t)unit * GB_KEYPAGES_UNIT;
}

/* Memory in use, the bits included. Threads: any. */
uint64_t gb_keypages_bytes(const struct gb_keypages *pages);

#endif
