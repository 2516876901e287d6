/*
 * What the server counts: per loop, without locks, summed when somebody asks.
 *
 * Every number has one writer, its loop's thread, which adds with a relaxed load and store; readers
 * load relaxed. Each number is exact by itself; a snapshot of several is not one moment. Lists are
 * X-macros, so that whoever prints them need not know them.
 *
 * Latencies go into histograms of log-scaled buckets: eight per factor of two from 1 µs to 64 s, so
 * a bucket's bounds are less than 13 % apart.
 */
#ifndef GB_SERVER_METRICS_H
#define GB_SERVER_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, help): what is timed. Protocols fold their commands into these. */
#define GB_METRICS_OPS(X)                                                                          \
    X(get, "an object read")                                                                       \
    X(put, "a value stored, conditions and appends among them")                                    \
    X(upload, "a value stored as it arrived")                                                      \
    X(delete, "an object deleted")                                                                 \
    X(touch, "an expiry changed, or an object looked up without its bytes")                        \
    X(edit, "a value changed by arithmetic or joining")                                            \
    X(other, "everything else")

/* X(name, help): where the answer came from. Changes are all `none`. */
#define GB_METRICS_TIERS(X)                                                                        \
    X(ram, "all bytes were in RAM")                                                                \
    X(disk, "some bytes came from the device")                                                     \
    X(miss, "there was no such object")                                                            \
    X(none, "not a matter of tiers")

/* X(name, help): only grow. */
#define GB_METRICS_COUNTERS(X)                                                                     \
    X(accepted, "connections accepted")                                                            \
    X(accept_stops, "times accepting stopped: too many connections, or no bytes or descriptors")   \
    X(accept_errors, "accepts that failed")                                                        \
    X(bytes_in, "bytes received")                                                                  \
    X(bytes_out, "bytes sent")                                                                     \
    X(requests, "requests answered")                                                               \
    X(bad_requests, "requests that broke their protocol")                                          \
    X(uploads, "values that were streamed in")                                                     \
    X(waits_bytes, "times a connection waited for bytes of the network budget")                    \
    X(waits_stream, "times an upload waited for another to end")                                   \
    X(waits_request, "times a read waited for room in the reader")                                 \
    X(output_stops, "times a connection was not read because its output was not taken")            \
    X(holds_copied, "times unsent bytes were copied out of the reader's buffers")                  \
    X(holds_dropped, "times unsent bytes were dropped, to be read again")                          \
    X(sends_resumed, "reads begun again in the middle for a slow client")                          \
    X(turns_ended, "times a pipeline had to let others have their turn")                           \
    X(to_workers, "changes that could not be made at once")                                        \
    X(slow_requests, "requests slower than the slow log's threshold")                              \
    X(origin_requests, "requests sent to the origin")                                              \
    X(origin_collapsed, "requests that followed another one to the origin")                        \
    X(origin_revalidated, "objects that the origin said are unchanged")                            \
    X(origin_stale, "stale objects served")                                                        \
    X(origin_unstored, "answers of the origin that were passed through and not stored")            \
    X(origin_failures, "requests to the origin that failed or were cut off")                       \
    X(origin_bytes, "bytes of bodies received from the origin")

enum gb_metrics_op {
#define GB_X(name, help) GB_METRICS_OP_##name,
    GB_METRICS_OPS(GB_X)
#undef GB_X
        GB_METRICS_OP_COUNT,
};

enum gb_metrics_tier {
#define GB_X(name, help) GB_METRICS_TIER_##name,
    GB_METRICS_TIERS(GB_X)
#undef GB_X
        GB_METRICS_TIER_COUNT,
};

enum gb_metrics_counter {
#define GB_X(name, help) GB_METRICS_##name,
    GB_METRICS_COUNTERS(GB_X)
#undef GB_X
        GB_METRICS_COUNTER_COUNT,
};

#define GB_METRICS_STEPS   8u  /* buckets per factor of two */
#define GB_METRICS_OCTAVES 26u /* 1 µs to 67 s */
#define GB_METRICS_BUCKETS (GB_METRICS_STEPS * GB_METRICS_OCTAVES + 2u) /* below, above */
#define GB_METRICS_ENDS    16u                                          /* enum gb_conn_end fits */

struct gb_metrics_histogram {
    _Atomic uint64_t buckets[GB_METRICS_BUCKETS];
    _Atomic uint64_t sum_ns;
};

struct gb_metrics {
    _Atomic uint64_t counters[GB_METRICS_COUNTER_COUNT];
    _Atomic uint64_t ends[GB_METRICS_ENDS]; /* connections closed, by enum gb_conn_end */
    struct gb_metrics_histogram latency[GB_METRICS_OP_COUNT][GB_METRICS_TIER_COUNT];
};

/* Threads: the owner's. */
static inline void gb_metrics_add(struct gb_metrics *metrics, enum gb_metrics_counter counter,
                                  uint64_t n)
{
    _Atomic uint64_t *at = &metrics->counters[counter];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* One operation took so long. Threads: the owner's. */
void gb_metrics_time(struct gb_metrics *metrics, enum gb_metrics_op op, enum gb_metrics_tier tier,
                     uint64_t duration_ns);

/* A connection was closed. Threads: the owner's. */
void gb_metrics_end(struct gb_metrics *metrics, unsigned why);

/* ---- for whoever prints -------------------------------------------------------------------- */

struct gb_metrics_times {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t buckets[GB_METRICS_BUCKETS];
};

struct gb_metrics_snapshot {
    uint64_t counters[GB_METRICS_COUNTER_COUNT];
    uint64_t ends[GB_METRICS_ENDS];
    struct gb_metrics_times latency[GB_METRICS_OP_COUNT][GB_METRICS_TIER_COUNT];
};

/* Adds what one loop counted; zero the snapshot first. Threads: any. */
void gb_metrics_sum(struct gb_metrics_snapshot *snapshot, const struct gb_metrics *metrics);

/* The upper bound of a bucket in nanoseconds; UINT64_MAX for the last. */
uint64_t gb_metrics_bound_ns(unsigned bucket);

/* The smallest bound that at least this share (0 to 1) of the times does not exceed; 0 without
 * times. */
uint64_t gb_metrics_quantile_ns(const struct gb_metrics_times *times, double share);

/* Static tables: names and helps in order. */
struct gb_metrics_name {
    const char *name;
    const char *help;
};
extern const struct gb_metrics_name gb_metrics_op_names[GB_METRICS_OP_COUNT];
extern const struct gb_metrics_name gb_metrics_tier_names[GB_METRICS_TIER_COUNT];
extern const struct gb_metrics_name gb_metrics_counter_names[GB_METRICS_COUNTER_COUNT];

#endif
