/*
 * Values made from nothing: incompressible, different for every object, checkable at any offset,
 * and almost free to produce.
 *
 * One pool of random bytes is made once and shared read-only. The value of object i is the window
 * of the pool that starts at a 64 KiB boundary chosen by i (wrapping at the pool's end), with a
 * stamp written over its first bytes and again every 64 KiB:
 *
 *     0        8        16       24       32
 *     | object | size   | offset | check  |      little-endian; cut where the value ends sooner
 *
 * A worker sees the pool through its own copy-on-write mapping, twice in a row so that windows
 * never wrap. Preparing a value writes only its stamps there, and undoes them at the next call;
 * since all windows start at multiples of 64 KiB, at most one page in sixteen ever becomes the
 * worker's own.
 *
 * Pool pages are shared memory: they count as RssShmem, not RssAnon.
 */
#ifndef GB_BENCH_PAYLOAD_H
#define GB_BENCH_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_PAYLOAD_POOL_BYTES   (UINT64_C(64) << 20) /* a good default */
#define GB_PAYLOAD_STRIDE_BYTES (UINT64_C(64) << 10)
#define GB_PAYLOAD_STAMP_BYTES  UINT64_C(32)

struct gb_payload {
    const uint8_t *pool; /* read-only */
    uint64_t pool_bytes;
    uint64_t seed;
    int fd; /* the pool's memfd */
};

/* `pool_bytes` is a multiple of 64 KiB, not 0. The descriptor is close-on-exec; a forked child may
 * go on using the payload. Errors: -EINVAL, -ENOMEM, errno of memfd_create and mmap. */
__attribute__((warn_unused_result)) int gb_payload_init(struct gb_payload *payload, uint64_t seed,
                                                        uint64_t pool_bytes);
void gb_payload_fini(struct gb_payload *payload);

/* A thread's own view. Threads: one at a time; shares nothing writable with other windows. */
struct gb_payload_window {
    const struct gb_payload *payload;
    uint8_t *mapping;       /* 2 x pool_bytes */
    uint64_t stamped_at;    /* what the last prepare wrote over: place in mapping, */
    uint64_t stamped_bytes; /* and the length of the range that holds its stamps */
};

/* `payload` outlives the window. */
__attribute__((warn_unused_result)) int gb_payload_window_open(struct gb_payload_window *window,
                                                               const struct gb_payload *payload);
void gb_payload_window_close(struct gb_payload_window *window);

/* Bytes [offset, offset + len) of the value of `object`, which has `size` bytes, in one piece.
 * Borrowed until the next call on this window; len <= pool_bytes, so larger values are taken piece
 * by piece. Aligned to 64 KiB if `offset` is. */
const void *gb_payload_window_prepare(struct gb_payload_window *window, uint64_t object,
                                      uint64_t size, uint64_t offset, uint64_t len);

/* Are these bytes [offset, offset + len) of the value of `object`? False also when the range
 * reaches beyond `size`. Threads: any. */
bool gb_payload_verify(const struct gb_payload *payload, uint64_t object, uint64_t size,
                       uint64_t offset, const void *data, uint64_t len);

/* The object that a value's first GB_PAYLOAD_STAMP_BYTES say it is of; whether they are right is
 * for gb_payload_verify to tell. */
uint64_t gb_payload_claimed(const void *first);

#endif
