/*
 * Keys and values of `goblin-bench kv`: both follow from a number, the value from its version too,
 * so that every byte of every answer can be checked.
 *
 * A key is its number in eight bytes, most significant first, and zeros ('0') up to its length, as
 * RocksDB's db_bench makes them: keys are in the order of their numbers.
 *
 *     value    0        8         12
 *              | number | version | a piece of a pool, from a place that number and version choose
 *              (little-endian)
 *
 * The pool is made of stretches of 100 bytes of which the first share is random and the rest
 * repeats it, again as in db_bench: a compressor finds about that share.
 */
#ifndef GB_BENCH_KV_VALUES_H
#define GB_BENCH_KV_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/kv_engine.h"

enum {
    GB_KV_KEY_LEAST = 8,
    GB_KV_KEY_MOST = 512,
    GB_KV_VALUE_LEAST = 12,
    GB_KV_VALUE_MOST = 1 << 20,
};

struct gb_kv_values {
    size_t key_len;
    size_t value_len;
    size_t pool_len;
    unsigned char *pool;
};

/* Owns: gb_kv_values_fini. Lengths lie within the limits above; `ratio` in (0, 1] is what is left
 * after compressing. Errors: -ENOMEM. */
int gb_kv_values_init(struct gb_kv_values *values, size_t key_len, size_t value_len, double ratio,
                      uint64_t seed);
void gb_kv_values_fini(struct gb_kv_values *values);

/* Writes key_len bytes, and value_len bytes. */
void gb_kv_values_key(const struct gb_kv_values *values, uint64_t number, unsigned char *key);
void gb_kv_values_make(const struct gb_kv_values *values, uint64_t number, uint32_t version,
                       unsigned char *value);

/* Is it a key, and of which number? */
bool gb_kv_values_number(const struct gb_kv_values *values, struct gb_kv_bytes key,
                         uint64_t *number);

/* Is it a value of this number, every byte of it, and in which version? */
bool gb_kv_values_version(const struct gb_kv_values *values, uint64_t number,
                          struct gb_kv_bytes value, uint32_t *version);

/* The place of `i` in a random order of `count` numbers that the seed decides: a bijection of
 * [0, count). */
uint64_t gb_kv_values_scatter(uint64_t i, uint64_t count, uint64_t seed);

/* Numbers from 0 with weights (rank + 1)^-exponent, by the method of Gray et al., "Quickly
 * generating billion-record synthetic databases" (SIGMOD 1994), which YCSB uses. */
struct gb_kv_zipf {
    uint64_t count;
    double zeta;
    double alpha;
    double eta;
    double half; /* 0.5^exponent */
};

/* `count` is not 0, exponent in (0, 1). Takes a while: a power for each number. */
void gb_kv_zipf_init(struct gb_kv_zipf *zipf, uint64_t count, double exponent);

/* `unit` is uniform in [0, 1). */
uint64_t gb_kv_zipf_rank(const struct gb_kv_zipf *zipf, double unit);

#endif
