/*
 * The keeper: one background thread per store. It flushes write blocks that have waited long
 * enough, writes footers, keeps blocks of RAM and segments of disk free ahead of need, and writes
 * checkpoints. A second thread warms heads after open and then ends.
 */
#ifndef GB_ENGINE_KEEPER_H
#define GB_ENGINE_KEEPER_H

#include "engine/store.h"

int gb_keeper_start(struct goblin *store);
void gb_keeper_stop(struct goblin *store);

#endif
