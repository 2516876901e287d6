/*
 * The heads file: resident bytes as a clean close left them, so that a reopened store is warm after
 * one sequential read. docs/format.md draws it. It is a cache of the log: lost or damaged, the same
 * bytes come from the log.
 */
#ifndef GB_ENGINE_HEADS_H
#define GB_ENGINE_HEADS_H

#include "engine/store.h"

/* Writes it, hottest objects first; `salt` ties it to its checkpoint. */
int gb_heads_write(struct goblin *store, uint64_t salt);

/* Reads it and gives objects their bytes back while there is room. 0, or why it ended early. */
int gb_heads_load(struct goblin *store, uint64_t salt);

/* Notes how large the file is that lies there. */
void gb_heads_measure(struct goblin *store);

#endif
