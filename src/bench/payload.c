/* Stamped windows of a random pool: see payload.h. */
#include "bench/payload.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/rng.h"

static void fill(uint64_t *words, uint64_t count, uint64_t seed)
{
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    for (uint64_t i = 0; i < count; i++) {
        words[i] = GB_LE64(gb_rng_next(&rng));
    }
}

int gb_payload_init(struct gb_payload *payload, uint64_t seed, uint64_t pool_bytes)
{
    if (pool_bytes == 0 || pool_bytes % GB_PAYLOAD_STRIDE_BYTES != 0 ||
        pool_bytes > INT64_MAX / 2) {
        return -EINVAL;
    }
    int fd = memfd_create("goblin-bench payload", MFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int result;
    if (ftruncate(fd, (off_t)pool_bytes) != 0) {
        result = -errno;
        goto close_fd;
    }
    void *pool = mmap(NULL, pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) {
        result = -errno;
        goto close_fd;
    }
    fill(pool, pool_bytes / sizeof(uint64_t), seed);
    if (mprotect(pool, pool_bytes, PROT_READ) != 0) {
        result = -errno;
        goto unmap;
    }
    *payload = (struct gb_payload){.pool = pool, .pool_bytes = pool_bytes, .seed = seed, .fd = fd};
    return 0;

unmap:
    (void)munmap(pool, pool_bytes);
close_fd:
    (void)close(fd);
    return result;
}

void gb_payload_fini(struct gb_payload *payload)
{
    (void)munmap((void *)(uintptr_t)payload->pool, payload->pool_bytes);
    (void)close(payload->fd);
    payload->pool = NULL;
}

int gb_payload_window_open(struct gb_payload_window *window, const struct gb_payload *payload)
{
    uint64_t bytes = payload->pool_bytes;
    uint8_t *mapping = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return -errno;
    }
    for (int half = 0; half < 2; half++) {
        void *at = mmap(mapping + (uint64_t)half * bytes, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, payload->fd, 0);
        if (at == MAP_FAILED) {
            int result = -errno;
            (void)munmap(mapping, 2 * bytes);
            return result;
        }
    }
    *window = (struct gb_payload_window){.payload = payload, .mapping = mapping};
    return 0;
}

void gb_payload_window_close(struct gb_payload_window *window)
{
    (void)munmap(window->mapping, 2 * window->payload->pool_bytes);
    window->mapping = NULL;
}

/* Where the pool holds byte `offset` of the object. */
static uint64_t pool_place(const struct gb_payload *payload, uint64_t object, uint64_t offset)
{
    uint64_t slots = payload->pool_bytes / GB_PAYLOAD_STRIDE_BYTES;
    uint64_t slot = gb_rng_mix(object ^ payload->seed) % slots;
    return (slot * GB_PAYLOAD_STRIDE_BYTES + offset % payload->pool_bytes) % payload->pool_bytes;
}

static void make_stamp(const struct gb_payload *payload, uint64_t object, uint64_t size,
                       uint64_t offset, uint8_t stamp[GB_PAYLOAD_STAMP_BYTES])
{
    uint64_t check = gb_rng_mix(payload->seed ^ gb_rng_mix(object + 1));
    check = gb_rng_mix(check ^ gb_rng_mix(size + 2));
    check = gb_rng_mix(check ^ gb_rng_mix(offset + 3));
    gb_store_le64(stamp, object);
    gb_store_le64(stamp + 8, size);
    gb_store_le64(stamp + 16, offset);
    gb_store_le64(stamp + 24, check);
}

/* The part of the stamp at `stamp_at` that lies within [offset, end): bytes [*from, *to) of it. */
static bool clip_stamp(uint64_t stamp_at, uint64_t offset, uint64_t end, uint64_t *from,
                       uint64_t *to)
{
    uint64_t start = gb_max(stamp_at, offset);
    uint64_t stop = gb_min(stamp_at + GB_PAYLOAD_STAMP_BYTES, end);
    if (start >= stop) {
        return false;
    }
    *from = start - stamp_at;
    *to = stop - stamp_at;
    return true;
}

/* Gives the stamped places of the last prepare their pool bytes back. A place in the mapping is a
 * stamp's exactly when it is less than a stamp past a multiple of the stride. */
static void restore(struct gb_payload_window *window)
{
    uint64_t end = window->stamped_at + window->stamped_bytes;
    uint64_t at = gb_align_down(window->stamped_at, GB_PAYLOAD_STRIDE_BYTES);
    for (; at < end; at += GB_PAYLOAD_STRIDE_BYTES) {
        uint64_t from;
        uint64_t to;
        if (clip_stamp(at, window->stamped_at, end, &from, &to)) {
            memcpy(window->mapping + at + from,
                   window->payload->pool + at % window->payload->pool_bytes + from, to - from);
        }
    }
    window->stamped_bytes = 0;
}

const void *gb_payload_window_prepare(struct gb_payload_window *window, uint64_t object,
                                      uint64_t size, uint64_t offset, uint64_t len)
{
    const struct gb_payload *payload = window->payload;
    GB_ASSERT(len <= payload->pool_bytes && len <= size && offset <= size - len);
    restore(window);
    uint64_t place = pool_place(payload, object, offset);
    uint64_t at = gb_align_down(offset, GB_PAYLOAD_STRIDE_BYTES);
    for (; at < offset + len; at += GB_PAYLOAD_STRIDE_BYTES) {
        uint8_t stamp[GB_PAYLOAD_STAMP_BYTES];
        uint64_t from;
        uint64_t to;
        if (clip_stamp(at, offset, offset + len, &from, &to)) {
            make_stamp(payload, object, size, at, stamp);
            memcpy(window->mapping + place + (at + from - offset), stamp + from, to - from);
        }
    }
    window->stamped_at = place;
    window->stamped_bytes = len;
    return window->mapping + place;
}

/* Bytes that lie within one stride of the object, and so in one piece of the pool. */
static bool verify_stride(const struct gb_payload *payload, uint64_t object, uint64_t size,
                          uint64_t offset, const uint8_t *data, uint64_t len)
{
    uint64_t stamp_at = gb_align_down(offset, GB_PAYLOAD_STRIDE_BYTES);
    uint64_t from;
    uint64_t to;
    if (clip_stamp(stamp_at, offset, offset + len, &from, &to)) {
        uint8_t stamp[GB_PAYLOAD_STAMP_BYTES];
        make_stamp(payload, object, size, stamp_at, stamp);
        if (memcmp(data, stamp + from, to - from) != 0) {
            return false;
        }
        data += to - from;
        offset += to - from;
        len -= to - from;
    }
    return memcmp(data, payload->pool + pool_place(payload, object, offset), len) == 0;
}

bool gb_payload_verify(const struct gb_payload *payload, uint64_t object, uint64_t size,
                       uint64_t offset, const void *data, uint64_t len)
{
    if (len > size || offset > size - len) {
        return false;
    }
    const uint8_t *bytes = data;
    while (len > 0) {
        uint64_t stride_end =
            gb_align_down(offset, GB_PAYLOAD_STRIDE_BYTES) + GB_PAYLOAD_STRIDE_BYTES;
        uint64_t step = gb_min(len, stride_end - offset);
        if (!verify_stride(payload, object, size, offset, bytes, step)) {
            return false;
        }
        bytes += step;
        offset += step;
        len -= step;
    }
    return true;
}

uint64_t gb_payload_claimed(const void *first)
{
    return gb_load_le64(first);
}
