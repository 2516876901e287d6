/* Regular files below a directory, in the order of their names. */
#ifndef GB_CLI_WALK_H
#define GB_CLI_WALK_H

#include <stddef.h>
#include <stdint.h>

struct gb_walk_file {
    const char *path;     /* to open it by */
    const char *relative; /* below the root */
    uint64_t size;
    int fault; /* 0, or the errno that kept the walk from looking at this path */
};

/* Nonzero ends the walk. The strings live until it returns. */
typedef int (*gb_walk_fn)(void *arg, const struct gb_walk_file *file);

/* Directories in `avoid` are not entered (a store that lies in what is loaded into it). Symbolic
 * links, sockets, devices and pipes are passed over and counted in *skipped.
 * Returns 0, the visitor's nonzero answer, or a negative errno: -ENOTDIR when `root` is none. */
int gb_walk_run(const char *root, const char *const *avoid, size_t avoid_count, gb_walk_fn visit,
                void *arg, uint64_t *skipped);

#endif
