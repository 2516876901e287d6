/*
 * How a store is created and opened.
 *
 * Fill a struct with GOBLIN_OPTIONS_INIT (or goblin_options_init for bindings), set what differs,
 * and hand it to goblin_open. goblin_options_check says in words what is wrong with a set of
 * options without touching a disk. Settings marked "create" are fixed when the store is made and
 * read back from it afterwards: 0 then means "as it was made", another value must agree.
 */
#ifndef GOBLIN_OPTIONS_H
#define GOBLIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum goblin_mode {
    GOBLIN_MODE_CACHE = 0, /* when the disk is full the oldest objects leave */
    GOBLIN_MODE_STORE = 1, /* nothing live is ever dropped; a full store refuses writes (-ENOSPC) */
};

enum goblin_residency {
    GOBLIN_RESIDENCY_ADAPTIVE = 0, /* a floor of head bytes; the rest goes where it saves most */
    GOBLIN_RESIDENCY_FIXED = 1,    /* heads of head_bytes for everything, nothing else */
};

enum goblin_durability {
    GOBLIN_DURABILITY_DEFAULT = 0, /* in a put: the store's; in the options: none */
    GOBLIN_DURABILITY_NONE = 1,    /* written when a block fills or after flush_ms */
    GOBLIN_DURABILITY_WRITTEN = 2, /* the device write has completed: survives the process */
    GOBLIN_DURABILITY_SYNCED = 3,  /* fdatasync has returned: survives power loss */
};

enum goblin_io {
    GOBLIN_IO_AUTO = 0,  /* io_uring if its self-test passes, else sync with one logged line */
    GOBLIN_IO_URING = 1, /* io_uring or fail */
    GOBLIN_IO_SYNC = 2,  /* pread and pwrite in the calling thread */
};

enum goblin_caching {
    GOBLIN_CACHING_DIRECT = 0,   /* O_DIRECT; buffered with a logged warning where refused */
    GOBLIN_CACHING_BUFFERED = 1, /* through the page cache, which `memory_bytes` does not bound */
};

enum goblin_ordered {
    GOBLIN_ORDERED_AUTO = 0,   /* keys are kept in order from the first scan on; until then it costs
                                  nothing */
    GOBLIN_ORDERED_ALWAYS = 1, /* from open on: the first scan does not wait */
    GOBLIN_ORDERED_OFF = 2,    /* never: scans are refused */
};

enum goblin_admit {
    GOBLIN_ADMIT_ALL = 0,    /* every value is written to disk */
    GOBLIN_ADMIT_SECOND = 1, /* a new one only when asked for; until then it is in RAM alone */
};

enum goblin_log_level { GOBLIN_LOG_ERROR = 0, GOBLIN_LOG_WARN = 1, GOBLIN_LOG_INFO = 2 };

/* Called with one line without newline. Threads: any of the library's or the caller's own; must
 * not call into the same store. */
typedef void (*goblin_log_fn)(void *arg, enum goblin_log_level level, const char *line);

/* Milliseconds since 1970-01-01 UTC; expiry is judged by it. Threads: any. Must not block. */
typedef int64_t (*goblin_clock_fn)(void *arg);

struct goblin_options {
    /* Where. One directory per drive, each on a file system of its own for the most speed.
     * Borrowed for the call. An empty or absent directory is made a store only with `create`. */
    const char *const *dirs;
    size_t dir_count;
    const char *heads_dir; /* clean close also writes resident bytes here, and the next open reads
                              them at once; NULL: heads are read back from the log */
    bool create;
    bool read_only; /* shared lock, no background work, no writes at all */

    /* Drives that are missing: not there, unreadable, an empty directory, or one that cannot be
     * written to. A cache opens without them, as long as one is there, with a logged line for each;
     * what lay on them is missed. When one comes back after the store was opened without it, it is
     * emptied and used again, for what it holds may have been replaced since; an empty directory in
     * its place is used with `create`. A store in store mode does neither unasked (GOBLIN_EDRIVE).
     * That an opening was missed is what the other drives know: bring one back together with one of
     * those that were used without it, else what it holds is served as it was.
     * The same goes for segments of which neither header can be read (GOBLIN_ESEGMENT); after a
     * crash a cache also drops what they may have replaced. */
    bool degraded;     /* store mode: open without missing drives, or such segments */
    bool readd_drives; /* empty and use drives that missed an opening, use empty directories in the
                          place of lost ones */

    /* Fixed at creation. */
    uint64_t size_bytes;    /* disk used by the whole store, drives together; create: required */
    uint64_t segment_bytes; /* 1 MiB to 1 GiB, a power of two; 0: chosen from size_bytes */
    unsigned lanes;         /* independent append streams, 1 to 16, best a multiple of the drives;
                               0: about 4, fewer in little memory */
    enum goblin_mode mode;

    /* Memory: everything the library allocates for this store. At least 8 MiB; 0: 256 MiB. */
    uint64_t memory_bytes;
    enum goblin_residency residency;
    enum goblin_ordered ordered; /* the set of keys in order that <goblin/scan.h> goes through */
    uint32_t head_bytes; /* multiple of 4096; 0: 16 KiB when fixed, 8 KiB floor when adaptive */

    /* Reading. */
    uint32_t chunk_bytes;       /* tail chunk, multiple of 16 KiB up to 4 MiB; 0: 256 KiB */
    uint32_t first_chunk_bytes; /* the first tail chunk; 0: 64 KiB */
    unsigned depth;             /* chunks in flight per request, 1 to 64; 0: 4 */

    /* Writing. */
    enum goblin_durability durability; /* for operations that do not say; DEFAULT means NONE */
    uint32_t write_block_bytes;        /* one device write, 64 KiB to 8 MiB, power of two; 0: 2 MiB
                                          or less in little memory */
    /* The loss window of GOBLIN_DURABILITY_NONE: what was acknowledged is on its way to the device
     * within so many milliseconds, so the death of the process loses at most what is younger, and
     * what the device had not finished. Of power loss it says nothing. 0: 1000. */
    uint32_t flush_ms;
    uint32_t checkpoint_s; /* seconds between checkpoints; 0: 300; UINT32_MAX: never */

    /* Wear, of a cache only (<goblin/goblin.h>, "Admission"). */
    enum goblin_admit admit;
    uint64_t write_budget_day_bytes; /* what may be written to the drives in a day, everything
                                        included, 1 MiB to 32 TiB; 0: no limit */

    enum goblin_io io;
    enum goblin_caching caching;

    goblin_log_fn log; /* NULL: silent */
    void *log_arg;
    goblin_clock_fn clock; /* NULL: CLOCK_REALTIME */
    void *clock_arg;
};

#ifdef __cplusplus
#define GOBLIN_OPTIONS_INIT                                                                        \
    {                                                                                              \
    }
#else
#define GOBLIN_OPTIONS_INIT                                                                        \
    {                                                                                              \
        0                                                                                          \
    }
#endif

void goblin_options_init(struct goblin_options *options);

/* GOBLIN_OK, or GOBLIN_EOPTION with the field, the limit and the remedy in `error`. */
int goblin_options_check(const struct goblin_options *options, struct goblin_error *error);

#ifdef __cplusplus
}
#endif

#endif
