/*
 * What a store was told, kept outside of it: for every key the states that operations gave it, and
 * how safe each was acknowledged to be. A log file receives every step before the next one is
 * taken, so that a later process can judge what an earlier one left.
 *
 * Keys are numbers; a value follows from its seed (lib/pattern.h). One thread.
 */
#ifndef GB_TESTS_FAULTMODEL_H
#define GB_TESTS_FAULTMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_KEYS_MAX (1u << 20)

/* How far a state was acknowledged; those from NONE on are enum goblin_durability. */
enum fault_level {
    FAULT_TRIED = 0, /* no answer, or a fault: it may be there or not */
    FAULT_NONE = 1,
    FAULT_WRITTEN = 2,
    FAULT_SYNCED = 3,
};

struct fault_state {
    uint64_t seed; /* 0: deleted */
    uint64_t size;
    enum fault_level level;
};

struct fault_key {
    struct fault_state *states; /* oldest first */
    uint32_t count;
};

struct fault_model {
    struct fault_key *keys; /* FAULT_KEYS_MAX of them */
    uint64_t serial;        /* makes seeds differ */
    int fd;                 /* the log */
};

/* Reads what the log holds, and goes on writing to it. Negative errno. */
int fault_model_open(struct fault_model *model, const char *log);
void fault_model_close(struct fault_model *model);

/* A state that is about to be tried; `size` UINT64_MAX: a delete. Returns its seed. */
uint64_t fault_model_try(struct fault_model *model, uint64_t key, uint64_t size);
/* The last state of the key was acknowledged. */
void fault_model_acknowledge(struct fault_model *model, uint64_t key, enum fault_level level);
/* Everything acknowledged so far has become as safe as that. */
void fault_model_raise(struct fault_model *model, enum fault_level level);

enum fault_verdict {
    FAULT_RIGHT,   /* what it may hold */
    FAULT_MISSING, /* nothing, though something was acknowledged */
    FAULT_STALE,   /* an older value than was acknowledged */
    FAULT_WRONG,   /* a value that it never had */
};

/* What it means that the key holds `size` bytes of `seed` (seed 0: nothing), when all that was
 * acknowledged at `floor` or better must be there. */
enum fault_verdict fault_model_judge(const struct fault_model *model, uint64_t key, uint64_t seed,
                                     uint64_t size, enum fault_level floor);

#endif
