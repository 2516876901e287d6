/* What simdisk.c, simops.c and simqueue.c share: the disk, its files and its queues. */
#ifndef GB_SIM_SIMDISK_INTERNAL_H
#define GB_SIM_SIMDISK_INTERNAL_H

#include <pthread.h>

#include "sim/simdisk.h"
#include "sim/simnames.h"

/* Something that is to happen at an operation of some kind. */
struct sim_trigger {
    uint64_t left; /* 0: off; 1: the next operation */
    bool stays;
    bool cuts; /* the power, else fails */
};

struct sim_queue;

/* All under `mutex`. */
struct simdisk {
    struct gb_io base;
    pthread_mutex_t mutex;
    struct gb_rng rng;
    bool down;
    uint64_t generation; /* rises when a program dies; handles remember theirs */
    uint64_t sequence;   /* of changes of content */
    unsigned handles;    /* files and queues not closed */
    struct sim_inode *inodes;
    struct sim_names names;
    struct sim_queue *queues;
    struct sim_trigger triggers[SIMDISK_KINDS];
    char refusing[SIM_PATH_MAX]; /* directory whose files take no writes; "": none */
    uint64_t capacity_pages;
    uint64_t used_pages;
    struct gb_alignment alignment;
    bool can_allocate;
    unsigned misdirect_one_in;
    bool holds_back;
    struct simdisk_counts counts;
};

struct sim_file {
    struct gb_file base;
    struct sim_inode *inode;
    unsigned flags;
    char path[SIM_PATH_MAX]; /* that it was opened by */
    uint64_t generation;
    bool holds_lock;
    bool holds_shared_lock;
};

enum sim_gate { SIM_GATE_GO, SIM_GATE_FAIL, SIM_GATE_CUT, SIM_GATE_DOWN };

static inline struct simdisk *simdisk_of(struct gb_io *io)
{
    return (struct simdisk *)io;
}

static inline struct sim_file *sim_file_of(struct gb_file *file)
{
    return (struct sim_file *)file;
}

/* Whether the file can be used: not when its program is dead. */
static inline bool sim_file_lives(const struct simdisk *disk, const struct sim_file *file)
{
    return !disk->down && file->generation == disk->generation;
}

/* Every operation passes here once: it is counted, takes its time, and may meet its fault. */
enum sim_gate simdisk_gate_locked(struct simdisk *disk, enum simdisk_kind kind);
/* The same for what has no state of its own in a power cut: 0 or -EIO, the power being cut if it
 * is to be. */
int simdisk_pass_locked(struct simdisk *disk, enum simdisk_kind kind);
void simdisk_power_cut_locked(struct simdisk *disk);

/* Adds or takes away what the file takes of the disk; call around whatever changes that. */
void simdisk_charge_locked(struct simdisk *disk, const struct sim_inode *inode);
void simdisk_discharge_locked(struct simdisk *disk, const struct sim_inode *inode);

/* Reads, writes and syncs of a file as its program does them, faults included. A sync covers
 * changes up to `sequence`. */
int64_t simdisk_read_locked(struct simdisk *disk, struct sim_file *file, void *to, size_t len,
                            uint64_t offset);
int64_t simdisk_write_locked(struct simdisk *disk, struct sim_file *file, const void *from,
                             size_t len, uint64_t offset);
int simdisk_sync_locked(struct simdisk *disk, struct sim_file *file, uint64_t sequence);

/* ---- simops.c: the files and names of the table -------------------------------------------- */

int sim_file_open(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out);
void sim_file_close(struct gb_file *file);
int sim_file_size(struct gb_file *file, uint64_t *bytes);
int sim_file_alignment(struct gb_file *file, struct gb_alignment *out);
int sim_file_allocate(struct gb_file *file, uint64_t bytes);
int sim_file_truncate(struct gb_file *file, uint64_t bytes);
int sim_file_sync(struct gb_file *file);
int sim_file_lock(struct gb_file *file, bool shared);
int sim_file_advise_away(struct gb_file *file);
int64_t sim_file_read(struct gb_file *file, void *buffer, size_t len, uint64_t offset);
int64_t sim_file_write(struct gb_file *file, const void *buffer, size_t len, uint64_t offset);
int sim_rename(struct gb_io *io, const char *from, const char *to);
int sim_unlink(struct gb_io *io, const char *path);
int sim_make_dir(struct gb_io *io, const char *path);
int sim_list(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg);
int sim_sync_dir(struct gb_io *io, const char *dir);
int sim_free_space(struct gb_io *io, const char *dir, uint64_t *bytes);

/* ---- simqueue.c ---------------------------------------------------------------------------- */

int sim_queue_create(struct gb_io *io, unsigned depth, struct gb_queue **out);
void sim_queue_destroy(struct gb_queue *queue);
int sim_queue_prepare(struct gb_queue *queue, const struct gb_operation *operation);
int sim_queue_submit(struct gb_queue *queue);
int sim_queue_reap(struct gb_queue *queue, struct gb_event *events, unsigned max, int timeout_ms);
int sim_queue_eventfd(struct gb_queue *queue);
unsigned sim_queue_in_flight(const struct gb_queue *queue);

/* The program that owned the queues is gone: of what was in flight, the writes become pending
 * changes, all of them (a power cut will judge) or by a coin each. */
void sim_queues_abandon_locked(struct simdisk *disk, bool all);

#endif
