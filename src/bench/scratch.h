/*
 * Scratch directories: made, measured for room, and removed again, whatever is in them.
 */
#ifndef GB_BENCH_SCRATCH_H
#define GB_BENCH_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "goblin/error.h"

/* Makes a directory; its parents, too, where they are missing. One that exists is fine. */
int gb_scratch_make(const char *path, struct goblin_error *error);

/* Removes a directory that this program made, and everything in it. Links are not followed and
 * other file systems are not entered. An absent one is fine. */
int gb_scratch_remove(const char *path);

/* Bytes that this user may still write below `path`. */
int gb_scratch_free(const char *path, uint64_t *bytes);

/* Fails with -ENOSPC, and says how to need less, when fewer than `needed` bytes are free. */
int gb_scratch_check(const char *path, uint64_t needed, struct goblin_error *error);

/* Bytes of disk that the files below `path` take, as du counts them. Files that vanish meanwhile
 * are left out. */
int gb_scratch_usage(const char *path, uint64_t *bytes);

#endif
