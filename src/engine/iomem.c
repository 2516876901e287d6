/* Mappings for device I/O. */
#include "engine/iomem.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "engine/format.h"

#define BUDGET_LEAST (64 * GB_MIB) /* smaller ones keep to pages */

size_t gb_iomem_size(size_t bytes, uint64_t budget)
{
    bool huge = bytes > GB_HUGE_PAGE / 2 && budget >= BUDGET_LEAST;
    return gb_align_up(bytes, huge ? GB_HUGE_PAGE : GB_BLOCK);
}

/* A mapping of `bytes` on a huge page's boundary: more is mapped and the ends are cut off. */
static void *map_aligned(size_t bytes)
{
    unsigned char *raw = mmap(NULL, bytes + GB_HUGE_PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        return NULL;
    }
    unsigned char *start = (unsigned char *)gb_align_up((uintptr_t)raw, GB_HUGE_PAGE);
    if (start > raw) {
        (void)munmap(raw, (size_t)(start - raw));
    }
    unsigned char *end = raw + bytes + GB_HUGE_PAGE;
    if (end > start + bytes) {
        (void)munmap(start + bytes, (size_t)(end - (start + bytes)));
    }
    (void)madvise(start, bytes, MADV_HUGEPAGE);
    return start;
}

void *gb_iomem_map(size_t size)
{
    if (size % GB_HUGE_PAGE == 0) {
        return map_aligned(size);
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void gb_iomem_unmap(void *memory, size_t size)
{
    if (memory != NULL) {
        (void)munmap(memory, size);
    }
}
