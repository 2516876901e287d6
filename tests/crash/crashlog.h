/*
 * The log that outlives the process: what each key of a store may hold.
 *
 * It lies in memory that the killer shares with its victim. A key belongs to one thread, which
 * notes what it is about to do (an intent), and after the call what was acknowledged. Of each key
 * the states since its `floor` are kept: the last state that an acknowledgement promised. After
 * a kill the key holds one of them.
 *
 * Every step is one store of one word, so a kill between any two leaves a log that says no more
 * than what is true.
 */
#ifndef GB_CRASH_CRASHLOG_H
#define GB_CRASH_CRASHLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <goblin/goblin.h>

#define CRASH_STATES 32u /* of a key, at most */

struct crash_state {
    uint32_t write; /* the object's bytes follow from it; 0: nothing is there */
    uint8_t tint;   /* the upper byte of the object's flags; the others are `write` */
    uint8_t marks;
    uint32_t meta_len;
    uint64_t size;
    uint64_t version; /* 0: not known, its operation never returned */
    int64_t expires_ms;
    int64_t acked_ns;               /* 0: an intent */
    uint32_t life;                  /* in which it was noted */
    enum goblin_durability promise; /* what its operation asked for */
};

struct crash_key {
    _Atomic uint32_t next;  /* number of the next state; state n lies at n % CRASH_STATES */
    _Atomic uint32_t floor; /* number of the oldest state that may be seen after a kill */
    _Atomic uint32_t acked; /* one more than the number of the newest acknowledged one; its
                               thread's, read by those that sync */
    uint32_t writes;        /* numbers the writes, for good */
    struct crash_state states[CRASH_STATES];
};

/* How a life ended, for what it promised. */
struct crash_end {
    uint32_t life;
    bool clean;        /* closed: everything acknowledged is there */
    int64_t killed_ns; /* or killed, not before this */
    int64_t window_ns; /* what was acknowledged longer ago than this is there in any case */
};

/* Of what a life had acknowledged as `none`: how much was old enough to be there, and how much was
 * still at risk. */
struct crash_window {
    uint64_t kept;
    uint64_t risked;
};

/* What a key may hold of late, beside its states. */
struct crash_view {
    int64_t now_ms;
    bool lax; /* a cache that evicts: nothing at all, too */
};

/* Nothing was ever there. */
void crashkey_init(struct crash_key *key);

struct crash_state *crashkey_at(struct crash_key *key, uint32_t number);
/* The newest one. */
struct crash_state *crashkey_current(struct crash_key *key);
bool crashstate_visible(const struct crash_state *state, int64_t now_ms);
uint32_t crashstate_flags(const struct crash_state *state);

/* Whether there is room for `count` more states. */
bool crashkey_has_room(const struct crash_key *key, uint32_t count);

/* Notes what an operation is about to make of the key; there is room. */
void crashkey_intend(struct crash_key *key, const struct crash_state *state);
/* The intent took place and was acknowledged. */
void crashkey_acknowledge(struct crash_key *key, uint64_t version, int64_t now_ns,
                          enum goblin_durability reached);
/* The operation was refused: it did nothing. */
void crashkey_withdraw(struct crash_key *key);
/* All up to state `number` are safe now. Threads: any. */
void crashkey_raise(struct crash_key *key, uint32_t number);

/* Raises the floor to what the life had promised when it ended. */
void crashkey_end_life(struct crash_key *key, const struct crash_end *end,
                       struct crash_window *window);

/* The store was opened again and holds this (NULL: nothing). False: it may not. What is now
 * impossible is forgotten. */
bool crashkey_survives(struct crash_key *key, const struct goblin_info *info,
                       const struct crash_view *view);

/* Nobody died, and it holds this. False: it may not. */
bool crashkey_agrees(struct crash_key *key, const struct goblin_info *info,
                     const struct crash_view *view);

/* The states that the key may have, in words. */
void crashkey_describe(struct crash_key *key, int64_t now_ms, char *text, size_t len);

#endif
