/* A simulated file's bytes, now and after a power cut. */
#include "sim/siminode.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

struct sim_inode *sim_inode_create(struct sim_inode **all, bool is_dir)
{
    struct sim_inode *inode = sim_alloc(sizeof(*inode));
    inode->is_dir = is_dir;
    inode->references = 1;
    inode->pending_end = &inode->pending;
    inode->next = *all;
    inode->link = all;
    if (*all != NULL) {
        (*all)->link = &inode->next;
    }
    *all = inode;
    return inode;
}

void sim_inode_acquire(struct sim_inode *inode)
{
    inode->references++;
}

static void forget_pending(struct sim_inode *inode)
{
    while (inode->pending != NULL) {
        struct sim_change *change = inode->pending;
        inode->pending = change->next;
        free(change);
    }
    inode->pending_end = &inode->pending;
    sim_pages_clear(&inode->before);
}

void sim_inode_release(struct sim_inode *inode)
{
    GB_ASSERT(inode->references > 0);
    if (--inode->references > 0) {
        return;
    }
    forget_pending(inode);
    sim_pages_clear(&inode->now);
    *inode->link = inode->next;
    if (inode->next != NULL) {
        inode->next->link = inode->link;
    }
    free(inode);
}

uint64_t sim_inode_read(const struct sim_inode *inode, void *to, uint64_t len, uint64_t offset)
{
    if (offset >= inode->size) {
        return 0;
    }
    len = gb_min(len, inode->size - offset);
    sim_pages_read(&inode->now, to, len, offset);
    return len;
}

/* Remembers how a page looks before its first pending change. */
static void remember(struct sim_inode *inode, uint64_t index)
{
    if (sim_pages_find(&inode->before, index) != NULL) {
        return;
    }
    unsigned char *copy = sim_pages_make(&inode->before, index);
    const unsigned char *page = sim_pages_find(&inode->now, index);
    if (page != NULL) {
        memcpy(copy, page, SIM_PAGE);
    }
}

static void note(struct sim_inode *inode, struct sim_change *change)
{
    *inode->pending_end = change;
    inode->pending_end = &change->next;
}

/* The device has other sectors for what is written over bad ones. */
static void heal(struct sim_inode *inode, uint64_t offset, uint64_t len)
{
    for (unsigned i = 0; i < SIM_BAD_MAX; i++) {
        struct sim_bad *bad = &inode->bad[i];
        if (bad->offset >= offset && bad->offset + bad->len <= offset + len) {
            bad->len = 0;
        }
    }
}

void sim_inode_write(struct sim_inode *inode, const void *from, uint64_t len, uint64_t offset,
                     uint64_t sequence)
{
    heal(inode, offset, len);
    if (len == 0) {
        return;
    }
    struct sim_change *change = sim_alloc(sizeof(*change) + len);
    change->kind = SIM_CHANGE_WRITE;
    change->sequence = sequence;
    change->offset = offset;
    change->len = len;
    memcpy(change->data, from, len);
    note(inode, change);
    for (uint64_t i = offset / SIM_PAGE; i <= (offset + len - 1) / SIM_PAGE; i++) {
        remember(inode, i);
    }
    sim_pages_write(&inode->now, from, len, offset);
    inode->size = gb_max(inode->size, offset + len);
}

void sim_inode_resize(struct sim_inode *inode, enum sim_change_kind kind, uint64_t size,
                      uint64_t sequence)
{
    if (size == inode->size || (kind == SIM_CHANGE_GROW && size < inode->size)) {
        return;
    }
    struct sim_change *change = sim_alloc(sizeof(*change));
    change->kind = kind;
    change->sequence = sequence;
    change->offset = size;
    note(inode, change);
    if (size < inode->size) {
        uint64_t index = sim_pages_next(&inode->now, size / SIM_PAGE);
        while (index != SIM_NO_PAGE) {
            remember(inode, index);
            index = sim_pages_next(&inode->now, index + 1);
        }
        sim_pages_cut(&inode->now, size);
        inode->reserved_pages = gb_min(inode->reserved_pages, (size + SIM_PAGE - 1) / SIM_PAGE);
    }
    inode->size = size;
}

/* Carries out a change, or of a write the part [from, from + len), on the durable state. */
static void make_durable(struct sim_inode *inode, const struct sim_change *change, uint64_t from,
                         uint64_t len)
{
    switch (change->kind) {
    case SIM_CHANGE_WRITE:
        if (len == 0) {
            break; /* a resize has taken it away */
        }
        sim_pages_write(&inode->before, change->data + from, len, change->offset + from);
        inode->durable_size = gb_max(inode->durable_size, change->offset + from + len);
        break;
    case SIM_CHANGE_RESIZE:
        if (change->offset < inode->durable_size) {
            /* Zeros, not absent pages: absent means that `now` has the durable page. */
            uint64_t index = sim_pages_next(&inode->before, change->offset / SIM_PAGE);
            for (; index != SIM_NO_PAGE; index = sim_pages_next(&inode->before, index + 1)) {
                uint64_t keep = gb_max(change->offset, index * SIM_PAGE) - index * SIM_PAGE;
                memset(sim_pages_find(&inode->before, index) + keep, 0, SIM_PAGE - keep);
            }
        }
        inode->durable_size = change->offset;
        break;
    case SIM_CHANGE_GROW:
        inode->durable_size = gb_max(inode->durable_size, change->offset);
        break;
    }
}

/* What a change made durable says of bytes that an earlier, doomed write said otherwise, holds. */
static void supersede(struct sim_inode *inode, const struct sim_change *change)
{
    for (struct sim_change *old = inode->pending; old != change; old = old->next) {
        if (old->kind != SIM_CHANGE_WRITE) {
            continue;
        }
        if (change->kind == SIM_CHANGE_RESIZE) {
            old->len = gb_min(old->len, change->offset - gb_min(change->offset, old->offset));
        } else if (change->kind == SIM_CHANGE_WRITE) {
            uint64_t from = gb_max(old->offset, change->offset);
            uint64_t to = gb_min(old->offset + old->len, change->offset + change->len);
            if (from < to) {
                memcpy(old->data + (from - old->offset), change->data + (from - change->offset),
                       to - from);
            }
        }
    }
}

void sim_inode_sync(struct sim_inode *inode, uint64_t sequence)
{
    struct sim_change **at = &inode->pending;
    while (*at != NULL) {
        struct sim_change *change = *at;
        if (change->doomed || change->sequence > sequence) {
            at = &change->next;
            continue;
        }
        make_durable(inode, change, 0, change->len);
        supersede(inode, change);
        *at = change->next;
        free(change);
    }
    inode->pending_end = at;
    if (inode->pending == NULL) {
        sim_pages_clear(&inode->before);
        inode->durable_size = inode->size;
    }
}

uint64_t sim_inode_doom(struct sim_inode *inode)
{
    uint64_t count = 0;
    for (struct sim_change *change = inode->pending; change != NULL; change = change->next) {
        /* A file's size is tried again; its pages are taken for clean. */
        count += change->kind == SIM_CHANGE_WRITE && !change->doomed;
        change->doomed = change->kind == SIM_CHANGE_WRITE;
    }
    return count;
}

/* The length of the part of [offset, offset + len) that begins `from` bytes in and ends with its
 * sector; false at the end. */
static bool next_part(uint64_t offset, uint64_t len, uint64_t from, uint64_t *part)
{
    if (from >= len) {
        return false;
    }
    *part = gb_min(len - from, SIM_SECTOR - (offset + from) % SIM_SECTOR);
    return true;
}

static void tear(struct sim_inode *inode, const struct sim_change *change, struct gb_rng *rng)
{
    uint64_t part;
    for (uint64_t from = 0; next_part(change->offset, change->len, from, &part); from += part) {
        if (gb_rng_below(rng, 2) == 0) {
            make_durable(inode, change, from, part);
        }
    }
}

static bool spans_sectors(const struct sim_change *change)
{
    return change->kind == SIM_CHANGE_WRITE && change->len > 0 &&
           change->offset / SIM_SECTOR != (change->offset + change->len - 1) / SIM_SECTOR;
}

void sim_inode_cut(struct sim_inode *inode, struct gb_rng *rng, unsigned keep_percent,
                   struct simdisk_counts *counts)
{
    for (struct sim_change *change = inode->pending; change != NULL; change = change->next) {
        if (gb_rng_below(rng, 100) < keep_percent) {
            make_durable(inode, change, 0, change->len);
            counts->writes_kept++;
        } else if (keep_percent > 0 && spans_sectors(change) && gb_rng_below(rng, 2) == 0) {
            tear(inode, change, rng);
            counts->writes_torn++;
        } else {
            counts->writes_dropped++;
        }
    }
    uint64_t index = sim_pages_next(&inode->before, 0);
    for (; index != SIM_NO_PAGE; index = sim_pages_next(&inode->before, index + 1)) {
        memcpy(sim_pages_make(&inode->now, index), sim_pages_find(&inode->before, index), SIM_PAGE);
    }
    if (inode->pending != NULL) {
        inode->size = inode->durable_size;
        inode->reserved_pages =
            gb_min(inode->reserved_pages, (inode->size + SIM_PAGE - 1) / SIM_PAGE);
    }
    forget_pending(inode);
}

void sim_inode_write_some(struct sim_inode *inode, const void *from, uint64_t len, uint64_t offset,
                          uint64_t sequence, struct gb_rng *rng)
{
    unsigned keep_percent = (unsigned)gb_rng_below(rng, 5) * 25;
    uint64_t part;
    for (uint64_t at = 0; next_part(offset, len, at, &part); at += part) {
        if (gb_rng_below(rng, 100) < keep_percent) {
            sim_inode_write(inode, (const unsigned char *)from + at, part, offset + at, sequence);
        }
    }
}

bool sim_inode_spoil(struct sim_inode *inode, uint64_t offset, uint64_t len)
{
    for (unsigned i = 0; i < SIM_BAD_MAX; i++) {
        if (inode->bad[i].len == 0) {
            inode->bad[i] = (struct sim_bad){offset, len};
            return true;
        }
    }
    return false;
}

bool sim_inode_is_bad(const struct sim_inode *inode, uint64_t offset, uint64_t len)
{
    bool is_bad = false;
    for (unsigned i = 0; i < SIM_BAD_MAX; i++) {
        const struct sim_bad *bad = &inode->bad[i];
        is_bad |= bad->len > 0 && bad->offset < offset + len && offset < bad->offset + bad->len;
    }
    return is_bad;
}

void sim_inode_flip(struct sim_inode *inode, uint64_t offset, unsigned char mask)
{
    sim_pages_make(&inode->now, offset / SIM_PAGE)[offset % SIM_PAGE] ^= mask;
    unsigned char *before = sim_pages_find(&inode->before, offset / SIM_PAGE);
    if (before != NULL) {
        before[offset % SIM_PAGE] ^= mask;
    }
}

uint64_t sim_inode_pages(const struct sim_inode *inode)
{
    return gb_max(inode->reserved_pages, inode->now.count);
}

uint64_t sim_inode_pages_with(const struct sim_inode *inode, uint64_t offset, uint64_t len)
{
    uint64_t missing = 0;
    for (uint64_t i = offset / SIM_PAGE; len > 0 && i <= (offset + len - 1) / SIM_PAGE; i++) {
        missing += sim_pages_find(&inode->now, i) == NULL;
    }
    return gb_max(inode->reserved_pages, inode->now.count + missing);
}
