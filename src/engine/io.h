/*
 * Files, directories and asynchronous reads and writes behind one table.
 *
 * Everything the engine does to a disk goes through a struct gb_io, of which there are three: uring
 * (io_uring), sync (pread and pwrite in the calling thread), and the simulated disk of the tests.
 * Negative errno throughout. Paths are absolute or relative to the working directory.
 *
 * Lengths, offsets and buffers of a file opened with GB_OPEN_DIRECT keep to its alignment.
 *
 * Threads: a gb_io and its files may be used from any thread; a gb_queue belongs to one thread at
 * a time (its owner may hand it on under a lock). Files and queues end before their gb_io does.
 */
#ifndef GB_ENGINE_IO_H
#define GB_ENGINE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/options.h>

struct gb_io;
struct gb_file;
struct gb_queue;

enum gb_open_flags {
    GB_OPEN_CREATE = 1u << 0,    /* make it if absent */
    GB_OPEN_EXCLUSIVE = 1u << 1, /* with CREATE: -EEXIST if present */
    GB_OPEN_DIRECT = 1u << 2,    /* O_DIRECT; -EINVAL where the file system refuses it (CREATE may
                                    have made the file all the same) */
    GB_OPEN_READ_ONLY = 1u << 3,
};

/* Both are 1 for a file opened without GB_OPEN_DIRECT. */
struct gb_alignment {
    uint32_t memory; /* of buffers */
    uint32_t offset; /* of offsets and lengths */
};

/* A finished operation: `result` is the byte count for reads and writes (all of them, short only
 * at the end of the file for reads), 0 for syncs, or a negative errno. */
struct gb_event {
    void *tag;
    int32_t result;
};

/* A sync covers the writes whose events were taken before it was prepared, and no others. */
enum gb_op { GB_OP_READ, GB_OP_WRITE, GB_OP_SYNC };

struct gb_operation {
    enum gb_op op;
    struct gb_file *file;
    void *buffer; /* the queue's until the event: read into or written from */
    uint32_t len;
    uint64_t offset;
    void *tag; /* comes back in the event; never NULL */
};

#define GB_QUEUE_DEPTH_MAX 4096u

/* Anything but 0 ends the listing, which then returns it. */
typedef int (*gb_list_fn)(void *arg, const char *name);

struct gb_io_ops {
    const char *name;
    bool submit_waits; /* queue_submit carries out what it is given: it waits for the device */

    void (*destroy)(struct gb_io *io);

    /* Files. Owns: *out until file_close. */
    int (*file_open)(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out);
    void (*file_close)(struct gb_file *file);
    int (*file_size)(struct gb_file *file, uint64_t *bytes);
    /* What the kernel says (statx), or 4096 where it says nothing. */
    int (*file_alignment)(struct gb_file *file, struct gb_alignment *out);
    /* Reserves real blocks for [0, bytes) and grows the file to it. Never writes zeros: a file
     * system that cannot (-EOPNOTSUPP) leaves the file sparse at that size and returns 1. */
    int (*file_allocate)(struct gb_file *file, uint64_t bytes);
    int (*file_truncate)(struct gb_file *file, uint64_t bytes);
    int (*file_sync)(struct gb_file *file);              /* fdatasync */
    int (*file_lock)(struct gb_file *file, bool shared); /* -EWOULDBLOCK; released by close */
    int (*file_advise_away)(struct gb_file *file);       /* drop its pages from the page cache */
    /* Whole or fault: a read returns fewer bytes only at the end of the file. Blocks. */
    int64_t (*file_read)(struct gb_file *file, void *buffer, size_t len, uint64_t offset);
    int64_t (*file_write)(struct gb_file *file, const void *buffer, size_t len, uint64_t offset);

    /* Names. */
    int (*rename)(struct gb_io *io, const char *from, const char *to);
    int (*unlink)(struct gb_io *io, const char *path);
    int (*make_dir)(struct gb_io *io, const char *path); /* -EEXIST if present */
    int (*list)(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg); /* no . and .. */
    int (*sync_dir)(struct gb_io *io, const char *dir);
    int (*free_space)(struct gb_io *io, const char *dir, uint64_t *bytes);

    /* Queues. `depth`: operations in flight at once, up to GB_QUEUE_DEPTH_MAX (else -EINVAL). An
     * operation is in flight from prepare until its event is taken. Events come in any order. */
    int (*queue_create)(struct gb_io *io, unsigned depth, struct gb_queue **out);
    /* Drops what was prepared and never submitted, waits for the rest. */
    void (*queue_destroy)(struct gb_queue *queue);
    /* Prepares one operation; it starts at the next submit. -EAGAIN: `depth` are in flight. */
    int (*queue_prepare)(struct gb_queue *queue, const struct gb_operation *operation);
    /* After a fault (-ENOMEM, -EAGAIN: the kernel is out of memory) what has not started stays
     * prepared: submit or reap again. */
    int (*queue_submit)(struct gb_queue *queue);
    /* Takes up to `max` events. timeout_ms 0: what is there; < 0: waits for one. Returns how many
     * (0 on a timeout, or at once when nothing is in flight). Submits what is still prepared. */
    int (*queue_reap)(struct gb_queue *queue, struct gb_event *events, unsigned max,
                      int timeout_ms);
    /* A descriptor that is readable while events may wait; a reap that leaves none behind drains
     * it, so wait for it level-triggered. The queue's: never close or read it. -ENOSYS where
     * submit leaves nothing to wait for. */
    int (*queue_eventfd)(struct gb_queue *queue);
    unsigned (*queue_in_flight)(const struct gb_queue *queue);
};

/* Every backend's struct begins with this. */
struct gb_io {
    const struct gb_io_ops *ops;
};

/* Every backend's file and queue begin with these. */
struct gb_file {
    struct gb_io *io;
};

struct gb_queue {
    struct gb_io *io;
};

/* ---- the two real ones --------------------------------------------------------------------- */

/* pread and pwrite in the calling thread: an operation is carried out by queue_submit and its
 * event waits for the next reap. Owns: *out until ops->destroy. */
int gb_io_sync_create(struct gb_io **out);

/* io_uring for reads, writes and syncs; names and blocking calls as in sync. Fails with a reason in
 * `why` (one line, `why_len` bytes) unless a real write and read through a ring in `probe_dir`
 * gave the right bytes; the probe file has no name left afterwards. */
int gb_io_uring_create(struct gb_io **out, const char *probe_dir, char *why, size_t why_len);

/* From here on a queue for which the kernel grants no ring (RLIMIT_MEMLOCK, descriptors, a filter
 * that came later) is one of sync's; the first is logged. To be called before any queue is made. */
int gb_io_uring_do_without(struct gb_io *io, goblin_log_fn log, void *log_arg);

/* ---- queues that threads carry out --------------------------------------------------------- */

#define GB_IO_THREADS_MAX 16u

/* A queue whose operations up to `threads` threads of its own carry out by the blocking calls of
 * their files, whichever backend these are of: for who may not wait for the device where submit
 * would (submit_waits). Threads are started as operations find none idle, and end with the queue;
 * if not one can be started, submit does the work. Owns: *out until queue_destroy. Errors: -EINVAL,
 * -ENOMEM. */
int gb_io_threads_queue_create(unsigned depth, unsigned threads, struct gb_queue **out);

#endif
