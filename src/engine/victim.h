/* Which segment to empty next. */
#ifndef GB_ENGINE_VICTIM_H
#define GB_ENGINE_VICTIM_H

#include <stdbool.h>

#include "engine/store.h"

struct gb_victim {
    struct gb_segment *segment; /* marked as reclaiming */
    bool oldest;                /* of its lane: its tombstones guard against nothing any more */
    bool evict;                 /* what has not been read leaves; else all that lives moves on */
};

/* What may be done to have a segment free. */
enum gb_effort {
    GB_EFFORT_SAVE,  /* only what lies in failing segments moves */
    GB_EFFORT_MOVE,  /* nothing that lives leaves */
    GB_EFFORT_ANY,   /* a cache also evicts if there is nothing to move */
    GB_EFFORT_EVICT, /* only that: there is no room to move things in */
};

/* False: no segment is worth it, or none can be emptied now. */
bool gb_victim_choose(struct goblin *store, enum gb_effort effort, struct gb_victim *victim);

#endif
