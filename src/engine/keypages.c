/* Units of memory for the nodes of the ordered set. */
#include "engine/keypages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"

#define WORD_UNITS 64u
#define WORD_BYTES ((uint64_t)WORD_UNITS * GB_KEYPAGES_UNIT)
#define WORDS_MAX  (UINT32_MAX / WORD_UNITS)

int gb_keypages_init(struct gb_keypages *pages, uint64_t bytes_most)
{
    /* Twice the addresses: runs of several units leave gaps. */
    uint64_t words = gb_min(2 * (bytes_most / WORD_BYTES) + 2, WORDS_MAX);
    uint64_t bits_bytes = gb_align_up(words * sizeof(uint64_t), WORD_BYTES);
    uint64_t bytes = words * WORD_BYTES + bits_bytes;
    if (bytes > SIZE_MAX / 2) {
        return -ENOMEM;
    }
    void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return -ENOMEM;
    }
    /* Advice only: with huge pages more memory would be held than is counted. */
    (void)madvise(range, bytes, MADV_NOHUGEPAGE);
    memset(pages->search, 0, sizeof(pages->search));
    pages->bytes_most = bytes_most;
    pages->base = range;
    pages->used = (uint64_t *)(void *)(pages->base + words * WORD_BYTES);
    pages->range_bytes = bytes;
    pages->words = (uint32_t)words;
    long page = sysconf(_SC_PAGESIZE);
    pages->page_units = page < (long)WORD_BYTES ? (uint32_t)page / GB_KEYPAGES_UNIT : WORD_UNITS;
    return 0;
}

void gb_keypages_fini(struct gb_keypages *pages)
{
    if (pages->base != NULL) {
        (void)munmap(pages->base, pages->range_bytes);
    }
    pages->base = NULL;
    pages->used = NULL;
    atomic_store(&pages->bytes, 0);
    atomic_store(&pages->words_used, 0);
}

uint64_t gb_keypages_bytes(const struct gb_keypages *pages)
{
    uint64_t words = atomic_load_explicit(&pages->words_used, memory_order_relaxed);
    return atomic_load_explicit(&pages->bytes, memory_order_relaxed) + words * sizeof(uint64_t);
}

static uint64_t run_mask(uint32_t bit, uint32_t units)
{
    return (units == WORD_UNITS ? UINT64_MAX : (UINT64_C(1) << units) - 1) << bit;
}

/* The bits where a run of free units that long begins. */
static uint64_t free_runs(uint64_t used, uint32_t units)
{
    uint64_t starts = ~used;
    for (uint32_t i = 1; i < units; i++) {
        starts &= ~used >> i;
    }
    return starts;
}

/* Of the pages that the run touches, how many bytes have nothing else in them. */
static uint64_t lone_bytes(const struct gb_keypages *pages, uint64_t others, uint32_t bit,
                           uint32_t units)
{
    uint64_t bytes = 0;
    uint32_t first = bit - bit % pages->page_units;
    for (uint32_t i = first; i < bit + units; i += pages->page_units) {
        if ((others & run_mask(i, pages->page_units)) == 0) {
            bytes += (uint64_t)pages->page_units * GB_KEYPAGES_UNIT;
        }
    }
    return bytes;
}

uint32_t gb_keypages_take(struct gb_keypages *pages, uint32_t units)
{
    GB_ASSERT(units >= 1 && units <= GB_KEYPAGES_RUN_MAX);
    uint32_t word = pages->search[units];
    uint64_t starts = 0;
    while (word < pages->words && (starts = free_runs(pages->used[word], units)) == 0) {
        word++;
    }
    pages->search[units] = word;
    if (word == pages->words) {
        return GB_KEYPAGES_NONE;
    }
    uint32_t bit = (uint32_t)__builtin_ctzll(starts);
    uint64_t grown = lone_bytes(pages, pages->used[word], bit, units);
    uint64_t bytes = atomic_load_explicit(&pages->bytes, memory_order_relaxed) + grown;
    if (bytes > pages->bytes_most) {
        return GB_KEYPAGES_NONE;
    }
    pages->used[word] |= run_mask(bit, units);
    atomic_store_explicit(&pages->bytes, bytes, memory_order_relaxed);
    if (word >= atomic_load_explicit(&pages->words_used, memory_order_relaxed)) {
        atomic_store_explicit(&pages->words_used, word + 1, memory_order_relaxed);
    }
    return word * WORD_UNITS + bit;
}

void gb_keypages_give(struct gb_keypages *pages, uint32_t first, uint32_t units)
{
    uint32_t word = first / WORD_UNITS;
    uint32_t bit = first % WORD_UNITS;
    uint64_t mask = run_mask(bit, units);
    GB_ASSERT((pages->used[word] & mask) == mask);
    pages->used[word] &= ~mask;
    for (uint32_t i = 1; i <= GB_KEYPAGES_RUN_MAX; i++) {
        pages->search[i] = (uint32_t)gb_min(pages->search[i], word);
    }
    uint64_t freed = lone_bytes(pages, pages->used[word], bit, units);
    uint32_t page = bit - bit % pages->page_units;
    for (uint32_t i = page; freed > 0 && i < bit + units; i += pages->page_units) {
        if ((pages->used[word] & run_mask(i, pages->page_units)) == 0) {
            /* Cannot fail on a private mapping of our own that nobody has locked; if somebody has,
             * the page is used again before any other. */
            (void)madvise(gb_keypages_at(pages, word * WORD_UNITS + i),
                          (size_t)pages->page_units * GB_KEYPAGES_UNIT, MADV_DONTNEED);
        }
    }
    uint64_t bytes = atomic_load_explicit(&pages->bytes, memory_order_relaxed);
    atomic_store_explicit(&pages->bytes, bytes - freed, memory_order_relaxed);
}
