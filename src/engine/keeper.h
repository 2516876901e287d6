/*
 * The background threads of a store. The keeper flushes write blocks that have waited long enough,
 * writes footers and keeps blocks of RAM free ahead of need; nothing it does takes long, because
 * what `flush_ms` promises rests on it. The cleaner makes segment files, deletes what has expired,
 * empties segments, writes what admission kept in RAM and was asked for, and writes checkpoints.
 * The warmer brings heads back after open and ends. A store without them, as the simulation has it,
 * makes its rounds by gb_keeper_round or when it runs out of segments.
 */
#ifndef GB_ENGINE_KEEPER_H
#define GB_ENGINE_KEEPER_H

#include "engine/store.h"

int gb_keeper_start(struct goblin *store);
void gb_keeper_stop(struct goblin *store);

/* What keeper and cleaner do each time they wake, but for checkpoints. Blocks. */
void gb_keeper_round(struct goblin *store);

#endif
