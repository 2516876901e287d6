/* Sparse bytes in pages of 4 KiB, two levels deep: what is not there reads as zeros. */
#ifndef GB_SIM_SIMPAGES_H
#define GB_SIM_SIMPAGES_H

#include <stddef.h>
#include <stdint.h>

#define SIM_PAGE    4096u
#define SIM_NO_PAGE UINT64_MAX

/* All zeros is empty. */
struct sim_pages {
    unsigned char ***chunks; /* each NULL or an array of page pointers, NULL where absent */
    size_t chunk_count;
    uint64_t count; /* of pages present */
};

/* calloc and realloc that end the program instead of failing: the simulation has no errors of its
 * own. */
void *sim_alloc(size_t bytes);
void *sim_realloc(void *old, size_t bytes);

void sim_pages_clear(struct sim_pages *pages);

/* The page, or NULL. */
unsigned char *sim_pages_find(const struct sim_pages *pages, uint64_t index);

/* The page, made of zeros if absent. */
unsigned char *sim_pages_make(struct sim_pages *pages, uint64_t index);

void sim_pages_drop(struct sim_pages *pages, uint64_t index);

/* The first page present at or after `index`, or SIM_NO_PAGE. */
uint64_t sim_pages_next(const struct sim_pages *pages, uint64_t index);

void sim_pages_read(const struct sim_pages *pages, void *to, uint64_t len, uint64_t offset);
void sim_pages_write(struct sim_pages *pages, const void *from, uint64_t len, uint64_t offset);

/* Zeros from `offset` on; whole pages go. */
void sim_pages_cut(struct sim_pages *pages, uint64_t offset);

#endif
