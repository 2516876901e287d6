/* Keys and values that can be checked: see kv_values.h. */
#include "bench/kv_values.h"

#include "base/bits.h"
#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRETCH_BYTES = 100,
    POOL_BYTES = 1 << 20,
    STAMP_BYTES = 12,
    KEY_NUMBER_BYTES = 8,
    SCATTER_ROUNDS = 4,
};

int gb_kv_values_init(struct gb_kv_values *values, size_t key_len, size_t value_len, double ratio,
                      uint64_t seed)
{
    size_t random_len = (size_t)ceil(ratio * STRETCH_BYTES);
    struct gb_rng rng;
    *values = (struct gb_kv_values){
        .key_len = key_len, .value_len = value_len, .pool_len = POOL_BYTES + value_len};
    values->pool = calloc(values->pool_len, 1);
    if (!values->pool) {
        return -ENOMEM;
    }
    gb_rng_init(&rng, seed);
    for (size_t i = 0; i < values->pool_len; i++) {
        size_t at = i % STRETCH_BYTES;
        values->pool[i] =
            at < random_len ? (unsigned char)gb_rng_next(&rng) : values->pool[i - random_len];
    }
    return 0;
}

void gb_kv_values_fini(struct gb_kv_values *values)
{
    free(values->pool);
    values->pool = NULL;
}

void gb_kv_values_key(const struct gb_kv_values *values, uint64_t number, unsigned char *key)
{
    for (size_t i = 0; i < KEY_NUMBER_BYTES; i++) {
        key[i] = (unsigned char)(number >> (8 * (KEY_NUMBER_BYTES - 1 - i)));
    }
    memset(key + KEY_NUMBER_BYTES, '0', values->key_len - KEY_NUMBER_BYTES);
}

static const unsigned char *piece(const struct gb_kv_values *values, uint64_t number,
                                  uint32_t version)
{
    uint64_t mixed = gb_rng_mix(number * UINT64_C(0x9e3779b97f4a7c15) + version);
    return values->pool + mixed % (values->pool_len - values->value_len + 1);
}

void gb_kv_values_make(const struct gb_kv_values *values, uint64_t number, uint32_t version,
                       unsigned char *value)
{
    memcpy(value, piece(values, number, version), values->value_len);
    gb_store_le64(value, number);
    gb_store_le32(value + sizeof(number), version);
}

bool gb_kv_values_number(const struct gb_kv_values *values, struct gb_kv_bytes key,
                         uint64_t *number)
{
    const unsigned char *bytes = key.data;
    if (key.len != values->key_len) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < KEY_NUMBER_BYTES; i++) {
        *number = *number << 8 | bytes[i];
    }
    for (size_t i = KEY_NUMBER_BYTES; i < key.len; i++) {
        if (bytes[i] != '0') {
            return false;
        }
    }
    return true;
}

bool gb_kv_values_version(const struct gb_kv_values *values, uint64_t number,
                          struct gb_kv_bytes value, uint32_t *version)
{
    const unsigned char *bytes = value.data;
    if (value.len != values->value_len || gb_load_le64(bytes) != number) {
        return false;
    }
    *version = gb_load_le32(bytes + sizeof(number));
    return memcmp(bytes + STAMP_BYTES, piece(values, number, *version) + STAMP_BYTES,
                  value.len - STAMP_BYTES) == 0;
}

/* A Feistel network over the next even power of two; what falls outside goes round again. */
uint64_t gb_kv_values_scatter(uint64_t i, uint64_t count, uint64_t seed)
{
    unsigned bits = count > 1 ? 64 - (unsigned)__builtin_clzll(count - 1) : 1;
    unsigned half = (bits + 1) / 2;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half;
        uint64_t right = i & mask;
        for (uint64_t round = 0; round < SCATTER_ROUNDS; round++) {
            uint64_t next = left ^ (gb_rng_mix(right ^ gb_rng_mix(seed + round)) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= count);
    return i;
}

void gb_kv_zipf_init(struct gb_kv_zipf *zipf, uint64_t count, double exponent)
{
    double zeta = 0;
    for (uint64_t i = 1; i <= count; i++) {
        zeta += pow((double)i, -exponent);
    }
    double half = pow(0.5, exponent);
    *zipf = (struct gb_kv_zipf){
        .count = count, .zeta = zeta, .alpha = 1 / (1 - exponent), .half = half};
    zipf->eta = (1 - pow(2.0 / (double)count, 1 - exponent)) / (1 - (1 + half) / zeta);
}

uint64_t gb_kv_zipf_rank(const struct gb_kv_zipf *zipf, double unit)
{
    double scaled = unit * zipf->zeta;
    if (scaled < 1 || zipf->count < 2) {
        return 0;
    }
    if (scaled < 1 + zipf->half || zipf->count < 3) {
        return 1;
    }
    double rank = (double)zipf->count * pow(zipf->eta * unit - zipf->eta + 1, zipf->alpha);
    return gb_min((uint64_t)rank, zipf->count - 1);
}
