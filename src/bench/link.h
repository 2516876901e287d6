/*
 * The idealised link: one perfect wire at a fixed rate behind a serial sequence of requests.
 *
 * Per request, chunks in callback order, whole nanoseconds since the request began:
 *
 *     chunk_start = max(chunk_ready, previous_chunk_end)
 *     chunk_end   = chunk_start + ceil(chunk_bytes * 8 * 1e9 / rate)
 *
 * and the last chunk's end is the request's last byte. Over all requests, overlap = storage + wire
 * - total: how much of the storage time was hidden behind transmission.
 */
#ifndef GB_BENCH_LINK_H
#define GB_BENCH_LINK_H

#include <stddef.h>
#include <stdint.h>

struct gb_chunk {
    uint64_t bytes;
    uint64_t ready_ns; /* since the request began; never decreasing within a request */
};

struct gb_link {
    uint64_t rate_bps;
    uint64_t requests;
    uint64_t bytes;
    uint64_t storage_ns;
    uint64_t wire_ns;
    uint64_t total_ns;
};

/* `rate_bps` is not 0. */
void gb_link_init(struct gb_link *link, uint64_t rate_bps);

/* Adds one request; `storage_ns` is its measured time to completion. A request without chunks
 * (empty value, miss) only spends its storage time. */
void gb_link_add(struct gb_link *link, const struct gb_chunk *chunks, size_t count,
                 uint64_t storage_ns);

int64_t gb_link_overlap_ns(const struct gb_link *link);
double gb_link_mib_s(const struct gb_link *link);      /* bytes over total time */
double gb_link_wire_mib_s(const struct gb_link *link); /* the wire's own limit */

#endif
