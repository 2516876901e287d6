/*
 * What the keys of a store may hold after a crash.
 *
 * Of every key the model keeps the states that operations gave it, in order, from the last one that
 * a power cut cannot undo. An acknowledgement moves two floors: a state below `synced` may not be
 * seen after a power cut, one below `written` not after the death of the process. Whatever is seen
 * must be one of the states from the floor on.
 */
#ifndef GB_SIM_SIMMODEL_H
#define GB_SIM_SIMMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/goblin.h>

/* Of an object's flags: the number of the write, from which its bytes follow. Amendments change the
 * other bits. */
#define SIMSTATE_WRITE 0xffffffu

struct simstate {
    bool present;
    uint8_t marks;
    uint32_t flags;
    uint32_t meta_len;
    uint64_t size;
    uint64_t version; /* 0: not known, its operation never returned */
    int64_t expires_ms;
};

struct simkey {
    struct simstate *states; /* the last one is current */
    size_t count;
    size_t capacity;
    size_t written;
    size_t synced;
};

enum simcrash { SIMCRASH_NONE, SIMCRASH_KILL, SIMCRASH_POWER };

/* A key that was never written. */
void simkey_init(struct simkey *key);
void simkey_fini(struct simkey *key);

const struct simstate *simkey_current(const struct simkey *key);
bool simstate_visible(const struct simstate *state, int64_t now_ms);

/* A new current state, acknowledged or not. */
void simkey_append(struct simkey *key, const struct simstate *state,
                   enum goblin_durability acknowledged);
/* The current state is now as safe as that. */
void simkey_acknowledge(struct simkey *key, enum goblin_durability durability);

/* What is there (NULL: nothing) is the current state. */
bool simkey_agrees(struct simkey *key, const struct goblin_info *info, int64_t now_ms);

/* What is there after a crash may be there. Then the model forgets what is now impossible. */
bool simkey_survives(struct simkey *key, enum simcrash crash, const struct goblin_info *info,
                     int64_t now_ms);

#endif
