/*
 * Memory that the device reads into and writes from: mapped, so that it goes back to the system
 * when it is given back, and in huge pages where they fit, because a virtual drive pays for every
 * piece of memory that is not contiguous (a direct read of 256 KiB takes half the time).
 */
#ifndef GB_ENGINE_IOMEM_H
#define GB_ENGINE_IOMEM_H

#include <stddef.h>
#include <stdint.h>

#define GB_HUGE_PAGE ((size_t)2 << 20)

/* Bytes to map for `bytes` out of a budget of `budget`: whole huge pages if more than half of one
 * is needed and the budget can afford the rest, else whole pages. */
size_t gb_iomem_size(size_t bytes, uint64_t budget);

/* Maps what gb_iomem_size said, aligned to a page or a huge page. NULL: out of memory. */
void *gb_iomem_map(size_t size);

/* NULL is fine. */
void gb_iomem_unmap(void *memory, size_t size);

#endif
