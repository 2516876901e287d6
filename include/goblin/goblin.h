/*
 * libgoblin: an object store and cache for hosts with little RAM and a fast local SSD.
 *
 * The first bytes of every object (its head) stay in RAM, the rest (its tail) lies on SSD, and a
 * read hands over ordered chunks as they become ready. This header opens stores and changes them;
 * <goblin/reader.h> reads, <goblin/writer.h> streams large values in, <goblin/scan.h> goes through
 * keys in order, <goblin/stats.h> counts.
 *
 * Keep in mind:
 * - A store directory is open in one process at a time (-EBUSY for the second, after a second in
 *   which one that was killed may come to rest).
 * - Do not fork() while a store is open and use it in the child.
 * - A value is visible at once, to every thread, when the call that stores it returns; how soon
 *   it is safe on disk is its durability.
 *
 * Admission. A cache may spare its drives: with `admit` a new value is written when it is asked for
 * after its put, and with a write budget nothing new is written while the budget is spent (it is
 * refilled all the time and holds ten minutes' worth at the most). Until then a value is in RAM
 * alone: served like any other, gone after a close or a crash, and the first to leave when RAM is
 * short. This is for puts of GOBLIN_DURABILITY_NONE up to an eighth of a block of RAM (16 KiB at 8
 * MiB of memory, 128 KiB at 256 MiB, 1 MiB at most). Larger ones are written, or refused (-EDQUOT)
 * while the budget is spent: what was there before then stays. A key that is on disk is written
 * again, but for a spent budget. Durable puts are always written, at the budget's debt.
 *
 * Waiting. An event loop must never stand still, so a put, delete or amendment with `nowait` says
 * -EAGAIN, having changed nothing, where it would have to wait: for the device, for a free write
 * block or segment, for RAM that others must give back, for a thread that waits for one of these,
 * or, while the store makes room, for its turn. So does what needs the device at once: the first
 * write to a new segment, the first after a pause, a put too large for a write block, and on the
 * synchronous I/O path every write block that is full. It is done by calling again without `nowait`
 * in another thread, not by trying again: what is missing may be just that call. It goes with
 * GOBLIN_DURABILITY_NONE alone; any other, asked for or the store's own, is -EINVAL.
 *
 * Defaults of every call below, unless it says otherwise:
 *   Owns:    arguments are borrowed for the call.
 *   Threads: any thread, any number at once. Threads need no registration: readers are protected
 *            by liburcu's urcu-bp flavour, which registers a thread at its first use.
 *   Blocks:  on the device only when buffers are full or the durability asks for it.
 *   Errors:  GOBLIN_EKEY, GOBLIN_EMETA, GOBLIN_ETOOBIG, -EINVAL for arguments; -EIO when every
 *            drive has failed; -ENOSPC in store mode; -EDQUOT when the write budget of a cache
 *            is spent; -EROFS when read-only.
 *   Units:   bytes; expiry in milliseconds since 1970-01-01 UTC, 0 means never.
 */
#ifndef GOBLIN_GOBLIN_H
#define GOBLIN_GOBLIN_H

#include <goblin/error.h>
#include <goblin/options.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOBLIN_KEY_MAX  4096u
#define GOBLIN_META_MAX 4096u

#if defined(__GNUC__)
#define GOBLIN_NODISCARD __attribute__((warn_unused_result))
#else
#define GOBLIN_NODISCARD
#endif

struct goblin;

struct goblin_slice {
    const void *data;
    size_t len;
};

/* A string literal as a slice, its length taken by the compiler. */
#define GOBLIN_LITERAL(text) ((struct goblin_slice){(text), sizeof(text) - 1})

/* Opens, and with options->create makes, a store. Every fault is explained in `error`.
 * Owns:   *out is the caller's until goblin_close. Options are copied.
 * Blocks: reads the checkpoint or the segments' summaries; heads warm in the background.
 * Errors: GOBLIN_ENOTSTORE (a directory that is neither empty nor a store is never touched),
 *         GOBLIN_EFORMAT, GOBLIN_EIDENTITY, GOBLIN_EDRIVE and GOBLIN_ESEGMENT (see `degraded`),
 *         GOBLIN_EOPTION, -EBUSY (open elsewhere), -ENOENT (no store and no `create`), -ENOMEM, any
 *         errno of the file system. */
GOBLIN_NODISCARD int goblin_open(struct goblin **out, const struct goblin_options *options,
                                 struct goblin_error *error);

/* Writes everything, checkpoints and frees. Readers and writers must have been destroyed.
 * NULL is fine. Returns GOBLIN_OK, or the first fault; the store is gone either way. */
int goblin_close(struct goblin *store);

/* ---- one object ---------------------------------------------------------------------------- */

/* The bits that an object's marks may have. They are the caller's own, for states that change while
 * the value stays: stale, being renewed, pinned. Any other bit is -EINVAL. */
#define GOBLIN_MARKS 0x7fu

struct goblin_info {
    uint64_t size;      /* value bytes, metadata not counted */
    uint64_t version;   /* of this write; every later write's is greater, unless passed in */
    int64_t expires_ms; /* 0: never */
    uint64_t resident;  /* value bytes in RAM now */
    uint32_t flags;     /* the caller's own */
    uint16_t meta_len;
    uint8_t marks;    /* the caller's own */
    uint8_t accesses; /* gets of late, before this one: up to 15, aging; 0: none, perhaps ever */
};

enum goblin_condition {
    GOBLIN_ALWAYS = 0,
    GOBLIN_IF_ABSENT = 1,
    GOBLIN_IF_PRESENT = 2, /* else GOBLIN_MISS */
    GOBLIN_IF_VERSION = 3, /* `if_version` equals; else GOBLIN_MISS or GOBLIN_CHANGED */
};

struct goblin_put_options {
    struct goblin_slice meta; /* up to GOBLIN_META_MAX bytes kept with the value */
    int64_t expires_ms;       /* an absolute time; 0: never; a time past stores nothing visible */
    uint64_t if_version;
    uint64_t version; /* 0: the store numbers its writes itself */
    uint32_t flags;
    uint8_t marks; /* of GOBLIN_MARKS */
    enum goblin_condition condition;
    enum goblin_durability durability;
    bool nowait; /* see Waiting, above */
};

/* Stores a value that lies in memory. `options` NULL: all zero. `version` NULL or out: the
 * version the object now has (also when the answer is GOBLIN_EXISTS or GOBLIN_CHANGED). Returns
 * GOBLIN_OK, GOBLIN_MISS, GOBLIN_EXISTS or GOBLIN_CHANGED. A fault after the value became visible
 * (a failed flush or sync) leaves it visible and says that its durability was not reached. */
GOBLIN_NODISCARD int goblin_put(struct goblin *store, struct goblin_slice key,
                                struct goblin_slice value, const struct goblin_put_options *options,
                                uint64_t *version);

/* Returns GOBLIN_OK or GOBLIN_MISS; with condition GOBLIN_IF_VERSION also GOBLIN_CHANGED. Of the
 * options only condition, if_version, durability and nowait count; NULL: all zero. */
GOBLIN_NODISCARD int goblin_delete(struct goblin *store, struct goblin_slice key,
                                   const struct goblin_put_options *options);

enum goblin_amend_what {
    GOBLIN_AMEND_EXPIRES = 1u << 0,
    GOBLIN_AMEND_FLAGS = 1u << 1,
    GOBLIN_AMEND_VERSION = 1u << 2,
};

struct goblin_amendment {
    unsigned what; /* enum goblin_amend_what: of the next three, those that count */
    uint32_t flags;
    int64_t expires_ms;
    uint64_t version;                /* 0: a new one, as a put would give it */
    uint8_t marks_set;               /* these marks are set then, */
    uint8_t marks_clear;             /* these are not, but for those in marks_set */
    enum goblin_condition condition; /* not GOBLIN_IF_ABSENT */
    uint64_t if_version;
    enum goblin_durability durability;
    bool nowait; /* see Waiting, above */
};

/* Changes what can change of an object while its value stays, atomically. A new version is what
 * GOBLIN_IF_VERSION is judged by from then on. `before`, which may be NULL, gets what the object
 * was like: read in the same step, so that of several callers who set a mark exactly one finds it
 * clear. It is filled for GOBLIN_OK and GOBLIN_CHANGED. What changes nothing costs no write.
 * Returns GOBLIN_OK, GOBLIN_MISS, or for GOBLIN_IF_VERSION GOBLIN_CHANGED. */
GOBLIN_NODISCARD int goblin_amend(struct goblin *store, struct goblin_slice key,
                                  const struct goblin_amendment *amendment,
                                  struct goblin_info *before);

/* goblin_amend of the expiry alone. Returns GOBLIN_OK or GOBLIN_MISS. */
GOBLIN_NODISCARD int goblin_touch(struct goblin *store, struct goblin_slice key, int64_t expires_ms,
                                  enum goblin_durability durability);

/* Looks an object up without reading its bytes; does not count as an access.
 * Returns GOBLIN_OK or GOBLIN_MISS. */
GOBLIN_NODISCARD int goblin_stat(struct goblin *store, struct goblin_slice key,
                                 struct goblin_info *info);

/* Says that these keys come next: in puts, stats or gets. Starts to fetch, for all of them at once,
 * the memory that each operation would otherwise wait for when its turn comes. For whoever knows
 * several keys ahead (a pipeline, a request of many keys): hint 8 to 32, then do them. Only advice:
 * it changes and counts nothing, and passes over what is no key. Never blocks. */
void goblin_hint(const struct goblin *store, const struct goblin_slice *keys, size_t count);

/* ---- the whole store ----------------------------------------------------------------------- */

/* Raises every operation that returned before this call to GOBLIN_DURABILITY_SYNCED, but for values
 * in RAM alone (see Admission). Fails if one of them cannot be made safe; what was refused before
 * does not count. */
GOBLIN_NODISCARD int goblin_sync(struct goblin *store);

/* Empties the store, durably: everything stored before the call is gone, also after a crash.
 * Operations running beside it fall on one side or the other. */
GOBLIN_NODISCARD int goblin_clear(struct goblin *store);

/* Writes the index to disk, so that the next open reads it instead of the summaries. */
GOBLIN_NODISCARD int goblin_checkpoint(struct goblin *store);

/* Called once per object. The key lives until the call returns. Nonzero stops the iteration.
 * May call into the store. */
typedef int (*goblin_iterate_fn)(void *arg, struct goblin_slice key,
                                 const struct goblin_info *info);

/* Visits up to `limit` objects (0: no limit; whole index buckets are finished, so a few more may
 * come) from `*cursor`, which is 0 at first, is moved on, and is 0 again after the last object. No
 * order. An object that exists throughout a whole iteration is visited at least once; one that
 * comes, goes or moves meanwhile may be visited or not. A cursor stays valid over any changes and
 * until the store is closed.
 * Returns GOBLIN_OK, or the callback's nonzero answer. */
GOBLIN_NODISCARD int goblin_iterate(struct goblin *store, uint64_t *cursor, size_t limit,
                                    goblin_iterate_fn visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
