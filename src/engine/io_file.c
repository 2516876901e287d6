/* Blocking file and name operations, shared by the sync and the uring backend. */
#include "engine/io_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"

#define FILE_MODE 0640 /* of probes */
#define DIR_MODE  0750

/* What direct I/O may need where the kernel does not say (before Linux 6.1, and file systems that
 * do not fill it in): no logical block in use is larger. */
#define DIRECT_ALIGNMENT_UNKNOWN 4096u

struct real_file {
    struct gb_file base;
    struct gb_descriptor descriptor;
    struct gb_alignment alignment; /* 1 and 1 without GB_OPEN_DIRECT; fixed at open */
    bool locked;                   /* the descriptor is among those of the locks */
};

static struct real_file *real(struct gb_file *file)
{
    return (struct real_file *)file;
}

static const struct real_file *real_const(const struct gb_file *file)
{
    return (const struct real_file *)file;
}

static struct gb_descriptors *pool_of(const struct gb_file *file)
{
    return &((struct gb_real_io *)file->io)->descriptors;
}

void gb_io_file_init(struct gb_real_io *io)
{
    gb_descriptors_init(&io->descriptors);
    (void)pthread_mutex_init(&io->locks.lock, NULL);
    io->locks.count = 0;
}

void gb_io_file_fini(struct gb_real_io *io)
{
    gb_descriptors_fini(&io->descriptors);
    (void)pthread_mutex_destroy(&io->locks.lock);
}

int gb_io_file_acquire(struct gb_file *file)
{
    return gb_descriptors_acquire(pool_of(file), &real(file)->descriptor);
}

void gb_io_file_release(struct gb_file *file)
{
    gb_descriptors_release(&real(file)->descriptor);
}

static struct gb_alignment ask_direct_alignment(int fd)
{
    struct gb_alignment answer = {DIRECT_ALIGNMENT_UNKNOWN, DIRECT_ALIGNMENT_UNKNOWN};
#ifdef STATX_DIOALIGN
    struct statx status;
    /* Zeros mean that the file takes O_DIRECT only in name: nothing to learn from them. */
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
        (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_mem_align != 0 &&
        status.stx_dio_offset_align != 0) {
        answer.memory = status.stx_dio_mem_align;
        answer.offset = status.stx_dio_offset_align;
    }
#else
    (void)fd;
#endif
    return answer;
}

static int open_retrying(const char *path, int flags)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int gb_io_file_open(struct gb_io *io, const char *path, unsigned flags, struct gb_file **out)
{
    int os_flags = (flags & GB_OPEN_READ_ONLY) != 0 ? O_RDONLY : O_RDWR;
    if ((flags & GB_OPEN_CREATE) != 0) {
        os_flags |= O_CREAT;
    }
    if ((flags & GB_OPEN_EXCLUSIVE) != 0) {
        os_flags |= O_EXCL;
    }
    if ((flags & GB_OPEN_DIRECT) != 0) {
        os_flags |= O_DIRECT;
    }
    struct real_file *file = malloc(sizeof(*file));
    if (file == NULL) {
        return -ENOMEM;
    }
    file->base.io = io;
    file->locked = false;
    file->alignment = (struct gb_alignment){1, 1};
    int fd = gb_descriptors_open(pool_of(&file->base), &file->descriptor, path, os_flags);
    if (fd < 0) {
        free(file);
        return fd;
    }
    if ((flags & GB_OPEN_DIRECT) != 0) {
        file->alignment = ask_direct_alignment(fd);
    }
    gb_descriptors_release(&file->descriptor);
    *out = &file->base;
    return 0;
}

/* For file systems without O_TMPFILE. */
static int open_and_unlink(const char *dir, int os_flags)
{
    static atomic_uint serial; /* relaxed: only makes names differ within the process */
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/.goblin-probe-%ld-%u", dir, (long)getpid(),
                       atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    if (len < 0 || (size_t)len >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    int fd = open_retrying(path, os_flags | O_CREAT | O_EXCL);
    if (fd >= 0 || fd == -EINVAL) { /* O_DIRECT may be refused after the name was made */
        unlink(path);
    }
    return fd;
}

int gb_io_file_open_nameless(struct gb_io *io, const char *dir, unsigned flags,
                             struct gb_file **out)
{
    int os_flags = O_RDWR | ((flags & GB_OPEN_DIRECT) != 0 ? O_DIRECT : 0);
    int fd = open_retrying(dir, os_flags | O_TMPFILE);
    if (fd == -EOPNOTSUPP || fd == -EISDIR || fd == -EINVAL) {
        fd = open_and_unlink(dir, os_flags);
    }
    if (fd < 0) {
        return fd;
    }
    struct real_file *file = malloc(sizeof(*file));
    if (file == NULL) {
        close(fd);
        return -ENOMEM;
    }
    bool direct = (flags & GB_OPEN_DIRECT) != 0;
    file->base.io = io;
    file->locked = false;
    file->alignment = direct ? ask_direct_alignment(fd) : (struct gb_alignment){1, 1};
    gb_descriptors_adopt(&file->descriptor, fd);
    *out = &file->base;
    return 0;
}

static struct gb_locks *locks_of(struct gb_file *file)
{
    return &((struct gb_real_io *)file->io)->locks;
}

static void forget_lock(struct gb_file *file)
{
    struct gb_locks *locks = locks_of(file);
    (void)pthread_mutex_lock(&locks->lock);
    for (unsigned i = 0; i < locks->count; i++) {
        if (locks->fds[i] == real(file)->descriptor.fd) {
            locks->fds[i] = locks->fds[--locks->count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&locks->lock);
}

void gb_io_file_close(struct gb_file *file)
{
    if (real(file)->locked) {
        forget_lock(file);
    }
    gb_descriptors_close(pool_of(file), &real(file)->descriptor);
    free(file);
}

bool gb_io_file_is_stuck(const struct gb_file *file, uint64_t offset)
{
    return offset % real_const(file)->alignment.offset != 0;
}

static int size_of(int fd, uint64_t *bytes)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return -errno;
    }
    *bytes = (uint64_t)status.st_size;
    return 0;
}

int gb_io_file_size(struct gb_file *file, uint64_t *bytes)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int rc = size_of(fd, bytes);
    gb_io_file_release(file);
    return rc;
}

int gb_io_file_alignment(struct gb_file *file, struct gb_alignment *out)
{
    *out = real(file)->alignment;
    return 0;
}

static int truncate_to(int fd, uint64_t bytes)
{
    int rc;
    do {
        rc = ftruncate(fd, (off_t)bytes);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? -errno : 0;
}

int gb_io_file_truncate(struct gb_file *file, uint64_t bytes)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int rc = truncate_to(fd, bytes);
    gb_io_file_release(file);
    return rc;
}

static int allocate(int fd, uint64_t bytes)
{
    int rc;
    do {
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) {
        return 0;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM) { /* EPERM: a sandbox's no */
        return -errno;
    }
    uint64_t size = 0;
    rc = size_of(fd, &size);
    if (rc == 0 && size < bytes) {
        rc = truncate_to(fd, bytes);
    }
    return rc != 0 ? rc : 1;
}

int gb_io_file_allocate(struct gb_file *file, uint64_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int rc = allocate(fd, bytes);
    gb_io_file_release(file);
    return rc;
}

int gb_io_file_sync(struct gb_file *file)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int rc;
    do {
        rc = fdatasync(fd);
    } while (rc != 0 && errno == EINTR);
    rc = rc != 0 ? -errno : 0;
    gb_io_file_release(file);
    return rc;
}

int32_t gb_io_carry_out(const struct gb_operation *operation)
{
    const struct gb_io_ops *ops = operation->file->io->ops;
    switch (operation->op) {
    case GB_OP_READ:
        return (int32_t)ops->file_read(operation->file, operation->buffer, operation->len,
                                       operation->offset);
    case GB_OP_WRITE:
        return (int32_t)ops->file_write(operation->file, operation->buffer, operation->len,
                                        operation->offset);
    case GB_OP_SYNC:
        return ops->file_sync(operation->file);
    }
    return -EINVAL;
}

void gb_io_deadline(struct timespec *deadline, int timeout_ms)
{
    clock_gettime(CLOCK_MONOTONIC, deadline);
    deadline->tv_sec += timeout_ms / 1000;
    deadline->tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline->tv_nsec >= 1000000000) {
        deadline->tv_sec++;
        deadline->tv_nsec -= 1000000000;
    }
}

static int note_lock(struct gb_file *file, int fd)
{
    struct gb_locks *locks = locks_of(file);
    int rc = 0;
    (void)pthread_mutex_lock(&locks->lock);
    if (real(file)->locked) {
        gb_io_file_release(file); /* it has been acquired for its lock before */
    } else if (locks->count < GB_LOCKS_MAX) {
        locks->fds[locks->count++] = fd;
        real(file)->locked = true;
    } else {
        rc = -ENOLCK;
    }
    (void)pthread_mutex_unlock(&locks->lock);
    return rc;
}

int gb_io_file_lock(struct gb_file *file, bool shared)
{
    int fd = gb_io_file_acquire(file); /* kept, once locked: the lock would go with it */
    if (fd < 0) {
        return fd;
    }
    int rc;
    do {
        rc = flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    rc = rc != 0 ? -errno : note_lock(file, fd);
    if (rc != 0) {
        gb_io_file_release(file);
    }
    return rc;
}

int gb_io_file_advise_away(struct gb_file *file)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int rc = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    gb_io_file_release(file);
    return rc;
}

static int64_t read_at(const struct gb_file *file, int fd, unsigned char *to, size_t len,
                       uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        done += (size_t)n;
        if (n == 0 || gb_io_file_is_stuck(file, offset + done)) {
            break;
        }
    }
    return (int64_t)done;
}

int64_t gb_io_file_read(struct gb_file *file, void *buffer, size_t len, uint64_t offset)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int64_t n = read_at(file, fd, buffer, len, offset);
    gb_io_file_release(file);
    return n;
}

static int64_t write_at(const struct gb_file *file, int fd, const unsigned char *from, size_t len,
                        uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, from + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        done += (size_t)n;
        if (n == 0 || (done < len && gb_io_file_is_stuck(file, offset + done))) {
            return -EIO;
        }
    }
    return (int64_t)done;
}

int64_t gb_io_file_write(struct gb_file *file, const void *buffer, size_t len, uint64_t offset)
{
    int fd = gb_io_file_acquire(file);
    if (fd < 0) {
        return fd;
    }
    int64_t n = write_at(file, fd, buffer, len, offset);
    gb_io_file_release(file);
    return n;
}

int gb_io_file_rename(struct gb_io *io, const char *from, const char *to)
{
    (void)io;
    return rename(from, to) != 0 ? -errno : 0;
}

int gb_io_file_unlink(struct gb_io *io, const char *path)
{
    (void)io;
    return unlink(path) != 0 ? -errno : 0;
}

int gb_io_file_make_dir(struct gb_io *io, const char *path)
{
    (void)io;
    return mkdir(path, DIR_MODE) != 0 ? -errno : 0;
}

int gb_io_file_list(struct gb_io *io, const char *dir, gb_list_fn visit, void *arg)
{
    (void)io;
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return -errno;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = visit(arg, entry->d_name);
        }
    }
    closedir(stream);
    return rc;
}

int gb_io_file_sync_dir(struct gb_io *io, const char *dir)
{
    (void)io;
    int fd = open_retrying(dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    int rc;
    do {
        rc = fsync(fd);
    } while (rc != 0 && errno == EINTR);
    rc = rc != 0 ? -errno : 0;
    close(fd);
    return rc;
}

int gb_io_file_free_space(struct gb_io *io, const char *dir, uint64_t *bytes)
{
    (void)io;
    struct statvfs status;
    if (statvfs(dir, &status) != 0) {
        return -errno;
    }
    *bytes = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}
