/*
 * Blocking file and name operations of the kernel, shared by the two real backends of io.h. Each
 * function is the entry of struct gb_io_ops that its name says, with the contract given there.
 */
#ifndef GB_ENGINE_IO_FILE_H
#define GB_ENGINE_IO_FILE_H

#include <pthread.h>
#include <time.h>

#include "engine/descriptors.h"
#include "engine/io.h"

#define GB_LOCKS_MAX 255u /* one for each drive */

/* Descriptors that hold a lock. */
struct gb_locks {
    pthread_mutex_t lock;
    int fds[GB_LOCKS_MAX];
    unsigned count;
};

/* Both backends' structs begin with this. */
struct gb_real_io {
    struct gb_io base;
    struct gb_descriptors descriptors;
    struct gb_locks locks;
};

void gb_io_file_init(struct gb_real_io *io);
void gb_io_file_fini(struct gb_real_io *io);

int gb_io_file_open(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out);
void gb_io_file_close(struct gb_file *file);
int gb_io_file_size(struct gb_file *file, uint64_t *bytes);
int gb_io_file_alignment(struct gb_file *file, struct gb_alignment *out);
int gb_io_file_allocate(struct gb_file *file, uint64_t bytes);
int gb_io_file_truncate(struct gb_file *file, uint64_t bytes);
int gb_io_file_sync(struct gb_file *file);

/* Carries an operation out by its file's blocking calls; its result. */
int32_t gb_io_carry_out(const struct gb_operation *operation);

/* The moment by the monotonic clock that is so far away. */
void gb_io_deadline(struct timespec *deadline, int timeout_ms);
int gb_io_file_lock(struct gb_file *file, bool shared);
int gb_io_file_advise_away(struct gb_file *file);
int64_t gb_io_file_read(struct gb_file *file, void *buffer, size_t len, uint64_t offset);
int64_t gb_io_file_write(struct gb_file *file, const void *buffer, size_t len, uint64_t offset);

int gb_io_file_rename(struct gb_io *io, const char *from, const char *to);
int gb_io_file_unlink(struct gb_io *io, const char *path);
int gb_io_file_make_dir(struct gb_io *io, const char *path);
int gb_io_file_list(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg);
int gb_io_file_sync_dir(struct gb_io *io, const char *dir);
int gb_io_file_free_space(struct gb_io *io, const char *dir, uint64_t *bytes);

/* The part of a struct gb_io_ops that is the same for both. */
#define GB_IO_FILE_OPS                                                                             \
    .file_open = gb_io_file_open, .file_close = gb_io_file_close, .file_size = gb_io_file_size,    \
    .file_alignment = gb_io_file_alignment, .file_allocate = gb_io_file_allocate,                  \
    .file_truncate = gb_io_file_truncate, .file_sync = gb_io_file_sync,                            \
    .file_lock = gb_io_file_lock, .file_advise_away = gb_io_file_advise_away,                      \
    .file_read = gb_io_file_read, .file_write = gb_io_file_write, .rename = gb_io_file_rename,     \
    .unlink = gb_io_file_unlink, .make_dir = gb_io_file_make_dir, .list = gb_io_file_list,         \
    .sync_dir = gb_io_file_sync_dir, .free_space = gb_io_file_free_space

/* Opens a file of `dir` that has no name (or has lost it before this returns). Takes only
 * GB_OPEN_DIRECT of the flags. Owns: *out until gb_io_file_close. */
int gb_io_file_open_nameless(struct gb_io *io, const char *dir, unsigned flags,
                             struct gb_file **out);

/* The file's descriptor, which stays the file's until it is released; negative errno. */
int gb_io_file_acquire(struct gb_file *file);
void gb_io_file_release(struct gb_file *file);

/* Whether the transfer that stopped short at `offset` cannot go on from there, because direct I/O
 * may not start at such an offset. A read that stops so has met the end of the file. */
bool gb_io_file_is_stuck(const struct gb_file *file, uint64_t offset);

#endif
