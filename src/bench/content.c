/* The bytes of a corpus, generated or from files. */
#include "bench/content.h"

#include "bench/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

/* Values up to here are made in one piece for engines that can only put whole values. */
static const uint64_t WHOLE_MAX_BYTES = UINT64_C(1) << 30;

int gb_content_init(struct gb_content *content, const struct gb_corpus *corpus,
                    struct goblin_error *error)
{
    memset(content, 0, sizeof(*content));
    content->corpus = corpus;
    content->generated = corpus->directory == NULL;
    if (!content->generated) {
        return 0;
    }
    uint64_t pool = GB_PAYLOAD_POOL_BYTES;
    if (corpus->max_bytes > pool && corpus->max_bytes <= WHOLE_MAX_BYTES) {
        uint64_t strides = (corpus->max_bytes - 1) / GB_PAYLOAD_STRIDE_BYTES + 1;
        pool = strides * GB_PAYLOAD_STRIDE_BYTES;
    }
    int rc = gb_payload_init(&content->payload, corpus->seed, pool);
    if (rc < 0) {
        gb_explain_set(error, "make %llu MiB of random bytes: %s", (unsigned long long)(pool >> 20),
                       strerror(-rc));
    }
    return rc;
}

void gb_content_fini(struct gb_content *content)
{
    if (content->generated) {
        gb_payload_fini(&content->payload);
    }
}

/* Reads all of the pool and of the window's mapping, and writes where stamps will be written: those
 * pages become private. */
static void window_touch(struct gb_content_window *window)
{
    uint64_t bytes = 2 * window->content->payload.pool_bytes;
    volatile uint8_t *mapping = window->payload.mapping;
    const volatile uint8_t *pool = window->content->payload.pool;
    for (uint64_t i = 0; i < bytes / 2; i += PAGE_BYTES) {
        (void)pool[i];
    }
    for (uint64_t i = 0; i < bytes; i += PAGE_BYTES) {
        uint8_t byte = mapping[i];
        if (i % GB_PAYLOAD_STRIDE_BYTES == 0) {
            mapping[i] = byte;
        }
    }
}

int gb_content_window_open(struct gb_content_window *window, const struct gb_content *content)
{
    memset(window, 0, sizeof(*window));
    if (content->generated) {
        int rc = gb_payload_window_open(&window->payload, &content->payload);
        if (rc == 0) {
            window->content = content;
            window_touch(window);
        }
        return rc;
    }
    window->capacity = content->corpus->max_bytes < WHOLE_MAX_BYTES
                           ? (size_t)content->corpus->max_bytes + 1
                           : (size_t)WHOLE_MAX_BYTES;
    window->buffer = malloc(window->capacity);
    if (!window->buffer) {
        return -ENOMEM;
    }
    memset(window->buffer, 0, window->capacity);
    window->content = content;
    return 0;
}

void gb_content_window_close(struct gb_content_window *window)
{
    if (window->content && window->content->generated) {
        gb_payload_window_close(&window->payload);
    }
    free(window->buffer);
    memset(window, 0, sizeof(*window));
}

static int read_fully(int fd, unsigned char *buffer, uint64_t offset, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(fd, buffer + done, len - done, (off_t)(offset + done));
        if (got <= 0) {
            return got < 0 ? -errno : -EIO; /* the file shrank */
        }
        done += (size_t)got;
    }
    return 0;
}

static const void *window_read(struct gb_content_window *window, uint64_t object, uint64_t offset,
                               size_t len)
{
    const struct gb_corpus *corpus = window->content->corpus;
    char key[GB_CORPUS_KEY_MAX];
    char path[PATH_MAX + GB_CORPUS_KEY_MAX];
    if (len > window->capacity) {
        errno = EFBIG;
        return NULL;
    }
    size_t key_len = gb_corpus_key(corpus, object, key);
    snprintf(path, sizeof(path), "%s/%.*s", corpus->directory, (int)key_len, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    int rc = read_fully(fd, window->buffer, offset, len);
    posix_fadvise(fd, (off_t)offset, (off_t)len, POSIX_FADV_DONTNEED);
    close(fd);
    if (rc < 0) {
        errno = -rc;
        return NULL;
    }
    return window->buffer;
}

const void *gb_content_window_prepare(struct gb_content_window *window, uint64_t object,
                                      uint64_t offset, size_t len)
{
    const struct gb_content *content = window->content;
    if (!content->generated) {
        return window_read(window, object, offset, len);
    }
    if (len > content->payload.pool_bytes) {
        errno = EFBIG;
        return NULL;
    }
    return gb_payload_window_prepare(&window->payload, object, content->corpus->sizes[object],
                                     offset, len);
}

bool gb_content_window_verify(struct gb_content_window *window, uint64_t object, uint64_t offset,
                              const void *data, size_t len)
{
    const struct gb_content *content = window->content;
    uint64_t size = content->corpus->sizes[object];
    if (offset > size || len > size - offset) {
        return false;
    }
    if (content->generated) {
        return gb_payload_verify(&content->payload, object, size, offset, data, len);
    }
    const void *expected = window_read(window, object, offset, len);
    return expected && memcmp(expected, data, len) == 0;
}
