/* Reading, writing and storing streams. */
#include "cli/stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

/* True when the call that failed with errno is worth repeating, after a wait if it would block. */
static bool try_again(int fd, short events)
{
    if (errno == EINTR) {
        return true;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
        return false;
    }
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

int gb_stream_read(int fd, void *buffer, size_t len, size_t *got)
{
    *got = 0;
    while (*got < len) {
        ssize_t n = read(fd, (char *)buffer + *got, len - *got);
        if (n == 0) {
            return 0;
        }
        if (n > 0) {
            *got += (size_t)n;
        } else if (!try_again(fd, POLLIN)) {
            return -errno;
        }
    }
    return 0;
}

int gb_stream_write(int fd, const void *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(fd, (const char *)data + done, len - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (!try_again(fd, POLLOUT)) {
            return -errno;
        }
    }
    return 0;
}

uint64_t gb_stream_size(int fd)
{
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    /* Files that the kernel makes up (procfs) claim to be empty. */
    if (at < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= at) {
        return GOBLIN_SIZE_UNKNOWN;
    }
    return (uint64_t)(st.st_size - at);
}

/* Fills the buffer from the source. */
static int fill(struct gb_stream_source *source, size_t *got)
{
    source->source_fault = gb_stream_read(source->fd, source->buffer, GB_STREAM_BUFFER, got);
    source->bytes += *got;
    if (source->progress != NULL) {
        gb_progress_add(source->progress, *got);
    }
    return source->source_fault;
}

/* The buffer is full and more may follow. */
static int put_large(struct goblin *store, struct goblin_slice key, struct gb_stream_source *source,
                     const struct goblin_put_options *options, uint64_t *version)
{
    struct goblin_writer *writer;
    int result = goblin_writer_begin(&writer, store, key, source->size, options);
    if (result < 0) {
        return result;
    }
    size_t got = GB_STREAM_BUFFER;
    while (got > 0) {
        result = goblin_writer_write(writer, source->buffer, got);
        if (result >= 0) {
            result = fill(source, &got);
        }
        if (result < 0) {
            goblin_writer_abort(writer);
            return result;
        }
    }
    return goblin_writer_commit(writer, version);
}

int gb_stream_put(struct goblin *store, struct goblin_slice key, struct gb_stream_source *source,
                  const struct goblin_put_options *options, uint64_t *version)
{
    size_t got;
    source->bytes = 0;
    int result = fill(source, &got);
    if (result < 0) {
        return result;
    }
    if (got == GB_STREAM_BUFFER) {
        return put_large(store, key, source, options, version);
    }
    if (source->size != GOBLIN_SIZE_UNKNOWN && source->size != got) {
        return GOBLIN_ESIZE;
    }
    return goblin_put(store, key, (struct goblin_slice){source->buffer, got}, options, version);
}
