/* Sparse bytes in pages of 4 KiB. */
#include "sim/simpages.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

#define CHUNK_PAGES 512u

void *sim_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    GB_ASSERT(memory != NULL);
    return memory;
}

void *sim_realloc(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);
    GB_ASSERT(memory != NULL);
    return memory;
}

void sim_pages_clear(struct sim_pages *pages)
{
    for (size_t i = 0; i < pages->chunk_count; i++) {
        for (unsigned j = 0; pages->chunks[i] != NULL && j < CHUNK_PAGES; j++) {
            free(pages->chunks[i][j]);
        }
        free(pages->chunks[i]);
    }
    free(pages->chunks);
    memset(pages, 0, sizeof(*pages));
}

unsigned char *sim_pages_find(const struct sim_pages *pages, uint64_t index)
{
    uint64_t chunk = index / CHUNK_PAGES;
    if (chunk >= pages->chunk_count || pages->chunks[chunk] == NULL) {
        return NULL;
    }
    return pages->chunks[chunk][index % CHUNK_PAGES];
}

unsigned char *sim_pages_make(struct sim_pages *pages, uint64_t index)
{
    size_t chunk = (size_t)(index / CHUNK_PAGES);
    if (chunk >= pages->chunk_count) {
        size_t count = chunk + 1 + chunk / 2;
        pages->chunks = sim_realloc(pages->chunks, count * sizeof(pages->chunks[0]));
        memset(pages->chunks + pages->chunk_count, 0,
               (count - pages->chunk_count) * sizeof(pages->chunks[0]));
        pages->chunk_count = count;
    }
    if (pages->chunks[chunk] == NULL) {
        pages->chunks[chunk] = sim_alloc(CHUNK_PAGES * sizeof(pages->chunks[0][0]));
    }
    unsigned char **page = &pages->chunks[chunk][index % CHUNK_PAGES];
    if (*page == NULL) {
        *page = sim_alloc(SIM_PAGE);
        pages->count++;
    }
    return *page;
}

void sim_pages_drop(struct sim_pages *pages, uint64_t index)
{
    unsigned char *page = sim_pages_find(pages, index);
    if (page != NULL) {
        free(page);
        pages->chunks[index / CHUNK_PAGES][index % CHUNK_PAGES] = NULL;
        pages->count--;
    }
}

uint64_t sim_pages_next(const struct sim_pages *pages, uint64_t index)
{
    while (index / CHUNK_PAGES < pages->chunk_count) {
        if (pages->chunks[index / CHUNK_PAGES] == NULL) {
            index = (index / CHUNK_PAGES + 1) * CHUNK_PAGES;
        } else if (sim_pages_find(pages, index) == NULL) {
            index++;
        } else {
            return index;
        }
    }
    return SIM_NO_PAGE;
}

void sim_pages_read(const struct sim_pages *pages, void *to, uint64_t len, uint64_t offset)
{
    unsigned char *at = to;
    while (len > 0) {
        uint64_t within = offset % SIM_PAGE;
        uint64_t part = gb_min(len, SIM_PAGE - within);
        const unsigned char *page = sim_pages_find(pages, offset / SIM_PAGE);
        if (page != NULL) {
            memcpy(at, page + within, part);
        } else {
            memset(at, 0, part);
        }
        at += part;
        offset += part;
        len -= part;
    }
}

void sim_pages_write(struct sim_pages *pages, const void *from, uint64_t len, uint64_t offset)
{
    const unsigned char *at = from;
    while (len > 0) {
        uint64_t within = offset % SIM_PAGE;
        uint64_t part = gb_min(len, SIM_PAGE - within);
        memcpy(sim_pages_make(pages, offset / SIM_PAGE) + within, at, part);
        at += part;
        offset += part;
        len -= part;
    }
}

void sim_pages_cut(struct sim_pages *pages, uint64_t offset)
{
    unsigned char *edge = sim_pages_find(pages, offset / SIM_PAGE);
    if (offset % SIM_PAGE != 0 && edge != NULL) {
        memset(edge + offset % SIM_PAGE, 0, SIM_PAGE - offset % SIM_PAGE);
    }
    uint64_t index = sim_pages_next(pages, (offset + SIM_PAGE - 1) / SIM_PAGE);
    while (index != SIM_NO_PAGE) {
        sim_pages_drop(pages, index);
        index = sim_pages_next(pages, index + 1);
    }
}
