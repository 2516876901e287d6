/* What check.c (the order of things), check_files.c (structures), check_objects.c (bytes) and
 * check_mend.c (repairs) share. */
#ifndef GB_ENGINE_CHECK_INTERNAL_H
#define GB_ENGINE_CHECK_INTERNAL_H

#include <goblin/check.h>

#include "engine/store.h"

/* What is wrong, and so how it is mended; rows of a table in check.c. */
enum gb_trouble {
    GB_TROUBLE_DRIVE_GONE,      /* its directory cannot be used */
    GB_TROUBLE_DRIVE_OUTSIDE,   /* its directory could take its place again */
    GB_TROUBLE_STRANGER,        /* a file that is none of the store's */
    GB_TROUBLE_IDENTITY,        /* one block of two */
    GB_TROUBLE_CHECKPOINT,      /* does not verify */
    GB_TROUBLE_CHECKPOINT_HALF, /* left by a crash */
    GB_TROUBLE_UNREADABLE,      /* a segment file */
    GB_TROUBLE_SHORT,           /* a segment file with records */
    GB_TROUBLE_SHORT_FREE,      /* one without */
    GB_TROUBLE_LONG,
    GB_TROUBLE_HEADER,      /* one of two */
    GB_TROUBLE_HEADER_HALF, /* one is there, the other one left empty by a crash */
    GB_TROUBLE_HEADER_FREE, /* of a free segment */
    GB_TROUBLE_HEADERS,     /* both */
    GB_TROUBLE_GONE,        /* a segment that held something is empty */
    GB_TROUBLE_FOOTER,
    GB_TROUBLE_SUMMARY,
    GB_TROUBLE_RECORD,
    GB_TROUBLE_OBJECT,
};

/* A finding as it is kept until it is mended. */
struct gb_case {
    struct gb_case *next;
    enum gb_trouble trouble;
    const char *what; /* static, or the table's */
    char path[4096];
    uint32_t slot;
    uint64_t generation; /* of the segment */
    uint64_t offset;
    uint64_t version; /* of an object */
    struct gb_record record;
    size_t key_len;
    unsigned char key[];
};

struct gb_check {
    const struct goblin_check_options *options;
    struct goblin_check_result *result;
    struct goblin *store; /* open for reading only while looking, for writing while mending */
    struct gb_case *first;
    struct gb_case **last;
    uint64_t total_bytes;
    int fault; /* that ends the check */
};

/* Notes a case, tells and counts it. Path, slot and so on as in `about`; a key may be given.
 * -ENOMEM ends the check. */
void gb_check_found(struct gb_check *check, const struct gb_case *about, struct goblin_slice key);

/* Tells a case that has been dealt with. */
void gb_check_dealt(struct gb_check *check, const struct gb_case *about, bool repaired, int fault);

/* check_files.c */
void gb_check_files(struct gb_check *check);

/* check_objects.c */
void gb_check_objects(struct gb_check *check);

/* check_mend.c: mends all cases in a store that is open for writing. */
void gb_check_mend(struct gb_check *check);

#endif
