/*
 * One engine's part of a churn that its process and the bench share: what to do, what is expected
 * of every object, and what was measured.
 *
 * Values carry versions. Object i in version v is the generated value number v << 32 | i, of the
 * object's size; populating writes version 0 and every overwrite the next one. A get must return a
 * version no older than the last overwrite that had returned before it began, and no newer than
 * the last one begun before it ended.
 */
#ifndef GB_BENCH_CHURN_STORE_H
#define GB_BENCH_CHURN_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/churn_tally.h"

enum gb_churn_phase {
    GB_CHURN_IDLE,  /* the reader alone */
    GB_CHURN_BUSY,  /* beside overwrites */
    GB_CHURN_AFTER, /* alone again, right after them */
    GB_CHURN_PHASES,
};

/* Growing counts as of one moment, and gauges. */
struct gb_churn_counts {
    uint64_t user_bytes;        /* overwritten: keys and values */
    uint64_t engine_user_bytes; /* the same as the engine counts; 0: it does not */
    uint64_t engine_bytes;      /* written to the device as the engine counts */
    uint64_t process_bytes;     /* as the kernel counts for this process */
    uint64_t device_bytes;      /* as the block device counts for everybody */
    bool has_device;
    uint64_t live_bytes;      /* gauge: the engine's own; 0: it does not say */
    uint64_t disk_used_bytes; /* gauge, the same */
    uint64_t disk_file_bytes; /* gauge, the same */
};

/* Of one object. Release by the writer, acquire by the reader: a version that has ended is seen by
 * a get that begins afterwards. */
struct gb_churn_versions {
    _Atomic uint32_t begun;
    _Atomic uint32_t ended;
};

struct gb_churn_store {
    uint64_t mapped_bytes;
    /* Set by the bench before the engine's process starts. */
    uint64_t write_rate; /* bytes a second; 0: flat out */
    uint64_t read_rate;  /* reads a second; 0: one after the other */
    uint64_t seed;
    /* By the engine's process; the bench looks between orders. */
    struct gb_churn_counts counts;
    struct gb_churn_tally reads[GB_CHURN_PHASES];
    struct gb_churn_tally writes;
    struct gb_churn_timeline read_timeline;
    struct gb_churn_timeline write_timeline;
    uint8_t phases[GB_CHURN_SECONDS_MAX]; /* enum gb_churn_phase of every second */
    uint64_t seconds;                     /* of all stretches so far: rows of the timelines */
    double cpu_seconds[GB_CHURN_PHASES];
    uint64_t refused;      /* puts that found the store full */
    uint64_t wrong;        /* gets whose bytes were not of any version of the object */
    uint64_t stale;        /* gets that returned a version they must not */
    uint64_t lost;         /* objects missing at the end, */
    uint64_t checked;      /* of so many looked at */
    bool quiet;            /* the last order to settle ended with nothing more being written */
    double settle_seconds; /* it took */
    uint64_t object_count;
    struct gb_churn_versions versions[];
};

/* Owns: NULL is a fault (errno); gb_churn_store_destroy. */
struct gb_churn_store *gb_churn_store_create(uint64_t objects);
void gb_churn_store_destroy(struct gb_churn_store *store);

/* The number by which the generator knows a version of an object, and back. */
uint64_t gb_churn_value(uint64_t object, uint32_t version);
uint32_t gb_churn_value_version(uint64_t value);

#endif
