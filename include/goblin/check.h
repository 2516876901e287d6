/*
 * Checking a whole store that nobody has open, and mending it.
 *
 * goblin_check looks at every structure on the drives and reads every byte of every object. What it
 * finds it explains. With `repair` it then mends what can be mended, and a second check finds
 * nothing of it. Objects that are good stay as they are, byte for byte. Objects that are bad are
 * removed for good: nothing older of their keys comes back.
 */
#ifndef GOBLIN_CHECK_H
#define GOBLIN_CHECK_H

#include <goblin/goblin.h>

#ifdef __cplusplus
extern "C" {
#endif

enum goblin_part {
    GOBLIN_PART_DRIVE = 0,
    GOBLIN_PART_FILE = 1,
    GOBLIN_PART_IDENTITY = 2,
    GOBLIN_PART_CHECKPOINT = 3,
    GOBLIN_PART_HEADER = 4,  /* of a segment */
    GOBLIN_PART_SUMMARY = 5, /* its footer, or the list of records that it names */
    GOBLIN_PART_RECORD = 6,  /* the header of a record */
    GOBLIN_PART_OBJECT = 7,
};

enum goblin_finding_state {
    GOBLIN_FINDING_FOUND = 0,
    GOBLIN_FINDING_REPAIRED = 1,
    GOBLIN_FINDING_UNREPAIRED = 2, /* `fault` says why; 0: there is no remedy, or it was not asked
                                      for */
};

struct goblin_finding {
    enum goblin_part part;
    enum goblin_finding_state state;
    bool harmless;           /* no damage: what a crash may leave, or is not the store's */
    const char *path;        /* of the file or directory */
    uint64_t offset;         /* in it */
    struct goblin_slice key; /* of an object or record; data NULL: none */
    const char *what;        /* is wrong */
    const char *means;       /* for what is stored */
    const char *remedy;      /* what a repair does; NULL: nothing */
    int fault;
};

/* Called as things are found, and with `repair` once more for each as it is dealt with. What it is
 * given lives during the call. */
typedef void (*goblin_finding_fn)(void *arg, const struct goblin_finding *finding);

struct goblin_check_options {
    /* Where, and with how much memory; of the rest io, caching, log and clock count, and
     * readd_drives: a repair may empty drives that missed an opening and use empty directories in
     * the place of lost ones. */
    const struct goblin_options *store;
    bool repair;
    unsigned reads; /* objects read at once, 1 to 64; 0: 4 */
    goblin_finding_fn on_finding;
    void (*on_progress)(void *arg, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *arg;
};

struct goblin_check_result {
    uint64_t objects; /* read, good or bad */
    uint64_t bytes;
    uint64_t expired;  /* passed over */
    uint64_t segments; /* with records in them */
    uint64_t unsealed; /* of these: without a footer, as crashes leave them */
    uint64_t damaged;  /* findings that are not harmless, bad objects too */
    uint64_t harmless;
    uint64_t bad_objects;
    uint64_t repaired; /* of all findings */
    uint64_t unrepaired;
    uint64_t removed; /* bad objects */
    uint64_t checksum_errors;
    uint64_t read_errors;
};

/* The name of a part: "segment header". Static. */
const char *goblin_part_name(enum goblin_part part);

/* Returns GOBLIN_OK when everything has been looked at, whatever was found, or a fault: those of
 * goblin_open (no repair is possible then), -ENOMEM, or that of a repair which could not go on.
 * Blocks: for as long as reading everything takes. Threads: calls back from the calling one. */
GOBLIN_NODISCARD int goblin_check(const struct goblin_check_options *options,
                                  struct goblin_check_result *result, struct goblin_error *error);

#ifdef __cplusplus
}
#endif

#endif
