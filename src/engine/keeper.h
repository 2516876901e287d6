/*
 * The keeper: one background thread per store. It flushes write blocks that have waited long
 * enough, writes footers, keeps blocks of RAM and segments of disk free ahead of need, and writes
 * checkpoints. A second thread warms heads after open and then ends. A store without them, as the
 * simulation has it, makes its rounds by gb_keeper_round or when it runs out of segments.
 */
#ifndef GB_ENGINE_KEEPER_H
#define GB_ENGINE_KEEPER_H

#include "engine/store.h"

int gb_keeper_start(struct goblin *store);
void gb_keeper_stop(struct goblin *store);

/* What the keeper does each time it wakes, but for checkpoints. Blocks. */
void gb_keeper_round(struct goblin *store);

#endif
