/*
 * A simulated file: its bytes as programs see them now, and what is needed to say how a power cut
 * would leave them: the log of pending changes, and how every page they touch looked before.
 *
 * Names hold references to inodes, and so do open files and pending changes of names.
 */
#ifndef GB_SIM_SIMINODE_H
#define GB_SIM_SIMINODE_H

#include <stdbool.h>

#include "base/rng.h"
#include "sim/simdisk.h"
#include "sim/simpages.h"

#define SIM_SECTOR 512u

enum sim_change_kind { SIM_CHANGE_WRITE, SIM_CHANGE_RESIZE, SIM_CHANGE_GROW };

struct sim_change {
    struct sim_change *next;
    enum sim_change_kind kind;
    bool doomed;       /* a sync failed while it was pending */
    uint64_t sequence; /* rises over the whole disk */
    uint64_t offset;   /* WRITE: where; else the new size */
    uint64_t len;
    unsigned char data[];
};

/* Bytes that the device does not give any more. */
struct sim_bad {
    uint64_t offset;
    uint64_t len; /* 0: none */
};

#define SIM_BAD_MAX 4u

struct sim_inode {
    struct sim_inode *next; /* all of the disk */
    struct sim_inode **link;
    unsigned references;
    bool is_dir;
    unsigned live_opens; /* by the present process */
    bool named;          /* in the names as they are now */
    bool locked;         /* exclusively */
    unsigned shared_locks;
    uint64_t reserved_pages;
    uint64_t size;
    uint64_t durable_size; /* as of `before` */
    struct sim_pages now;
    struct sim_pages before; /* durable pages that pending changes touch */
    struct sim_change *pending;
    struct sim_change **pending_end;
    struct sim_bad bad[SIM_BAD_MAX];
};

struct sim_inode *sim_inode_create(struct sim_inode **all, bool is_dir);
void sim_inode_acquire(struct sim_inode *inode);
void sim_inode_release(struct sim_inode *inode);

/* Returns the bytes read, short at the end. */
uint64_t sim_inode_read(const struct sim_inode *inode, void *to, uint64_t len, uint64_t offset);
void sim_inode_write(struct sim_inode *inode, const void *from, uint64_t len, uint64_t offset,
                     uint64_t sequence);
/* SIM_CHANGE_GROW never shrinks. */
void sim_inode_resize(struct sim_inode *inode, enum sim_change_kind kind, uint64_t size,
                      uint64_t sequence);

/* Makes durable what is pending, up to `sequence`, unless it is doomed. */
void sim_inode_sync(struct sim_inode *inode, uint64_t sequence);
/* Returns how many changes it doomed. */
uint64_t sim_inode_doom(struct sim_inode *inode);

/* Decides what is pending: kept with `keep_percent`, else dropped or torn. */
void sim_inode_cut(struct sim_inode *inode, struct gb_rng *rng, unsigned keep_percent,
                   struct simdisk_counts *counts);

/* Writes some sectors of a write that failed: none, a few or all. */
void sim_inode_write_some(struct sim_inode *inode, const void *from, uint64_t len, uint64_t offset,
                          uint64_t sequence, struct gb_rng *rng);

/* From here on [offset, offset + len) cannot be read, until it is written over. false: there are
 * too many of these. */
bool sim_inode_spoil(struct sim_inode *inode, uint64_t offset, uint64_t len);
bool sim_inode_is_bad(const struct sim_inode *inode, uint64_t offset, uint64_t len);

void sim_inode_flip(struct sim_inode *inode, uint64_t offset, unsigned char mask);

/* Pages the file takes now, and if [offset, offset + len) were written too. */
uint64_t sim_inode_pages(const struct sim_inode *inode);
uint64_t sim_inode_pages_with(const struct sim_inode *inode, uint64_t offset, uint64_t len);

#endif
