/*
 * Writers for whoever moves objects on disk: a piece of a payload goes into extents of its own, to
 * be listed by the record that the caller then publishes. Between, goblin_writer_write; in the end,
 * whether it was published or not, goblin_writer_abort: what nobody lists is room to reclaim.
 */
#ifndef GB_ENGINE_WRITER_INTERNAL_H
#define GB_ENGINE_WRITER_INTERNAL_H

#include <goblin/writer.h>

#include "engine/store.h"

/* Takes memory and segments that users' writers have to leave alone. */
int gb_writer_begin_move(struct goblin_writer **out, struct goblin *store, struct goblin_slice key,
                         uint64_t len);

/* All bytes are on the device, not yet synced. The list is the writer's. */
int gb_writer_finish_move(struct goblin_writer *writer, const unsigned char **extents,
                          uint32_t *count);

#endif
